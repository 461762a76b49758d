//! A server that passes requests on to an honest one, and treats some of them wrongly.

use std::io::{self, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context, Result};

use super::chance::Roll;
use super::faults::{Dealt, Fault, Faults};
use super::wire::{Answer, Connection, Head, Upstream, body};

/// How often a listener looks for connections, and whether it should be away.
const POLL: Duration = Duration::from_millis(2);

/// A client that says nothing for so long is gone.
const IDLE: Duration = Duration::from_secs(60);

/// How many bytes another range or an older object differs by.
const SPAN_BYTES: u64 = 16 << 10;

/// A place where a server listens, which keeps its port while it is away.
pub(super) struct Listener {
    socket: TcpListener,
    port: u16,
}

impl Listener {
    pub(super) fn bind() -> Result<Self> {
        let socket = listen(0).context("cannot listen on this machine")?;
        let port = socket.local_addr()?.port();
        Ok(Self { socket, port })
    }

    /// Clients may send tokens without TLS only to their own machine, and this is it.
    pub(super) fn url(&self) -> String {
        format!("http://localhost:{}", self.port)
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// One such server.
pub(super) struct Proxy {
    /// Its name in decisions.
    pub(super) name: &'static str,
    pub(super) upstream: Upstream,
    /// The URLs of the other servers that have its objects.
    pub(super) others: Vec<String>,
    pub(super) faults: Arc<Faults>,
    /// Is held for reading while an upload is passed on.
    pub(super) uploads: Arc<RwLock<()>>,
}

impl Proxy {
    /// Serves until the process ends.
    pub(super) fn serve(self, listener: Listener) {
        let proxy = Arc::new(self);
        thread::spawn(move || {
            let port = listener.port;
            let mut socket = Some(listener.socket);
            loop {
                if proxy.faults.is_away(proxy.name) {
                    if socket.take().is_some() {
                        proxy.faults.count("server away");
                    }
                } else if socket.is_none() {
                    // If the port is still in use, the server stays away a little longer.
                    socket = listen(port).ok();
                }
                match socket.as_ref().and_then(|socket| socket.accept().ok()) {
                    Some((stream, _)) => {
                        let proxy = Arc::clone(&proxy);
                        // A client that is gone is what kills are for.
                        thread::spawn(move || proxy.talk(&stream));
                    }
                    None => sleep(POLL),
                }
            }
        });
    }

    /// Answers the requests of one connection.
    fn talk(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(IDLE))?;
        let mut client = BufReader::new(stream);
        let mut upstream = None;
        while let Some(request) = Head::read(&mut client)? {
            if self.faults.is_away(self.name) {
                break;
            }
            let dealt = self.faults.deal(self.name, &request);
            if !self.answer(&mut client, &mut upstream, &request, dealt)? {
                break;
            }
        }
        Ok(())
    }

    /// Answers a request; returns whether the connection stays open.
    fn answer(
        &self,
        client: &mut BufReader<&TcpStream>,
        upstream: &mut Option<Connection>,
        request: &Head,
        dealt: Dealt,
    ) -> io::Result<bool> {
        let (fault, mut roll) = match dealt {
            Some((fault, roll)) => (Some(fault), Some(roll)),
            None => (None, None),
        };
        if fault == Some(Fault::Silent) {
            return Ok(false);
        }
        if let (Some(fault), Some(roll)) = (fault, &mut roll)
            && let Some(answer) = self.invented(fault, roll, request)
        {
            return send_invented(client, request, &answer);
        }
        let len = request.len()?;
        if request.get("expect").is_some() {
            client.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        if fault == Some(Fault::Cut) && request.method() == "PUT" {
            body(client, len / 2)?;
            return Ok(false);
        }
        let sent = body(client, len)?;
        let asked = asked_for(request, fault);
        let is_upload = request.method() == "PUT";
        let _upload =
            is_upload.then(|| self.uploads.read().unwrap_or_else(PoisonError::into_inner));
        let mut answer = ask(&self.upstream, upstream, &asked, &sent)?;
        match (fault, &mut roll) {
            (Some(Fault::Lost), _) => Ok(false),
            (Some(Fault::Denied), _) => {
                let text = b"the disk was slow\n".to_vec();
                send(client, request, &page(500, "text/plain", text), Pace::AtOnce)
            }
            (Some(fault), Some(roll)) => {
                let pace = distort(&mut answer, request, fault, roll);
                send(client, request, &answer, pace)
            }
            _ => send(client, request, &answer, Pace::AtOnce),
        }
    }

    /// The answer of a fault that asks no other server.
    fn invented(&self, fault: Fault, roll: &mut Roll, request: &Head) -> Option<Answer> {
        // As broken servers and login pages do, which is how tokens come into logs.
        let heard = String::from_utf8_lossy(&request.bytes()).into_owned();
        Some(match fault {
            Fault::Page => {
                let text = format!("<html><body>Please log in.<pre>{heard}</pre></body></html>\n");
                page(200, "text/html", text.into_bytes())
            }
            Fault::Busy => {
                let mut busy = page(429, "text/plain", b"too many requests\n".to_vec());
                busy.head.set("Retry-After", "1");
                busy
            }
            Fault::Failed => {
                let statuses = [500, 502, 503, 504];
                let idx = usize::try_from(roll.below(statuses.len() as u64)).unwrap_or(0);
                let text = format!("failed at: {heard}\n");
                page(statuses.get(idx).copied()?, "text/plain", text.into_bytes())
            }
            Fault::Redirect => {
                let idx = usize::try_from(roll.below(self.others.len() as u64)).unwrap_or(0);
                // A client that was redirected once has its token in the address alone.
                let token = request.get("authorization").unwrap_or_default();
                let target = match request.target().contains("authz=") {
                    true => request.target().to_owned(),
                    false => format!("{}?authz={}", request.path(), token.replacen(' ', "%20", 1)),
                };
                let to = format!("{}{target}", self.others.get(idx)?);
                let mut redirect = page(307, "text/plain", Vec::new());
                redirect.head.set("Location", to);
                redirect
            }
            _ => return None,
        })
    }
}

/// What is asked of the honest server: a request for another range, if that is the fault.
fn asked_for(request: &Head, fault: Option<Fault>) -> Head {
    let mut asked = request.clone();
    if let (Some(Fault::OtherBytes | Fault::OtherRange), Some((first, last))) =
        (fault, request.range())
    {
        let shift = |n: u64| if first >= SPAN_BYTES { n - SPAN_BYTES } else { n + 1 };
        asked.set("Range", format!("bytes={}-{}", shift(first), shift(last)));
    }
    asked
}

/// Asks the honest server, on the connection that is open or on a new one.
fn ask(
    upstream: &Upstream,
    open: &mut Option<Connection>,
    request: &Head,
    body: &[u8],
) -> io::Result<Answer> {
    if let Some(mut connection) = open.take() {
        // It may have been closed for being idle.
        if let Ok(answer) = connection.ask(request, body) {
            *open = Some(connection);
            return Ok(answer);
        }
    }
    let mut connection = upstream.connect()?;
    let answer = connection.ask(request, body)?;
    *open = Some(connection);
    Ok(answer)
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy)]
enum Pace {
    AtOnce,
    /// So many bytes of the body, and then the end of the connection.
    CutAfter(usize),
    /// A pause in the middle of the body, and then the end of the connection; without a body, a
    /// pause before the answer.
    Stall(Duration),
    /// The first bytes one by one.
    Drip,
}

/// Makes an honest answer wrong; returns how to send it.
fn distort(answer: &mut Answer, request: &Head, fault: Fault, roll: &mut Roll) -> Pace {
    let len = answer.body.len();
    let below = |roll: &mut Roll, n: usize| usize::try_from(roll.below(n as u64)).unwrap_or(0);
    match fault {
        Fault::Cut => return Pace::CutAfter(below(roll, len)),
        Fault::Stall => return Pace::Stall(Duration::from_millis(200 + roll.below(1_800))),
        Fault::Drip => return Pace::Drip,
        Fault::Shorter | Fault::Longer => {
            let length = answer.head.get("content-length").and_then(|len| len.parse().ok());
            let length: usize = length.unwrap_or(0);
            let wrong = match fault {
                Fault::Shorter => below(roll, length),
                _ => length + 1 + below(roll, 5_000),
            };
            answer.head.set("Content-Length", wrong.to_string());
            if request.method() != "HEAD" {
                answer.body.resize(wrong, b'x');
            }
        }
        Fault::OtherBytes => {
            if let (Some((first, _)), Some(range)) =
                (request.range(), answer.head.get("content-range"))
            {
                let total = range.rsplit('/').next().unwrap_or("*");
                let last = first + (len as u64).saturating_sub(1);
                answer.head.set("Content-Range", format!("bytes {first}-{last}/{total}"));
            }
        }
        Fault::OldBytes => {
            let start = below(roll, len);
            let span = usize::try_from(SPAN_BYTES).unwrap_or(len);
            for byte in answer.body.iter_mut().skip(start).take(span) {
                *byte = !*byte;
            }
        }
        _ => {}
    }
    Pace::AtOnce
}

fn page(status: u16, kind: &str, body: Vec<u8>) -> Answer {
    let mut head = Head::new(format!("HTTP/1.1 {status} soak"));
    head.set("Content-Type", kind);
    head.set("Content-Length", body.len().to_string());
    Answer { head, body }
}

/// Sends an answer that no other server gave. If the client waits for `100 Continue` before it sends
/// a body, the connection ends, since the body may still come.
fn send_invented(
    client: &mut BufReader<&TcpStream>,
    request: &Head,
    answer: &Answer,
) -> io::Result<bool> {
    let waits = request.get("expect").is_some();
    if !waits {
        body(client, request.len()?)?;
    }
    Ok(send(client, request, answer, Pace::AtOnce)? && !waits)
}

/// Sends an answer; returns whether the connection stays open.
fn send(
    client: &mut BufReader<&TcpStream>,
    request: &Head,
    answer: &Answer,
    pace: Pace,
) -> io::Result<bool> {
    let to = client.get_mut();
    let head = answer.head.bytes();
    let body: &[u8] = if request.method() == "HEAD" { &[] } else { &answer.body };
    match pace {
        Pace::AtOnce => to.write_all(&[&head, body].concat())?,
        Pace::CutAfter(n) => {
            to.write_all(&head)?;
            to.write_all(body.get(..n).unwrap_or(body))?;
            return Ok(false);
        }
        Pace::Stall(pause) if body.is_empty() => {
            sleep(pause);
            to.write_all(&head)?;
        }
        Pace::Stall(pause) => {
            to.write_all(&head)?;
            to.write_all(body.get(..body.len() / 2).unwrap_or(body))?;
            sleep(pause);
            return Ok(false);
        }
        Pace::Drip => {
            to.write_all(&head)?;
            let (slow, rest) = body.split_at(body.len().min(20));
            for byte in slow {
                to.write_all(&[*byte])?;
                sleep(Duration::from_millis(30));
            }
            to.write_all(rest)?;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::chance::Chance;

    /// Distorts the answer to a request for bytes 20000 to 20009, and returns it.
    fn distorted(fault: Fault) -> Answer {
        let mut request = Head::new("GET /x HTTP/1.1");
        request.set("Range", "bytes=20000-20009");
        let mut answer = page(206, "text/plain", b"0123456789".to_vec());
        answer.head.set("Content-Range", "bytes 3616-3625/50000");
        let mut roll = Chance::new(1).about("test");
        distort(&mut answer, &request, fault, &mut roll);
        answer
    }

    #[test]
    fn lies_are_consistent() {
        for fault in [Fault::Shorter, Fault::Longer] {
            let answer = distorted(fault);
            assert_ne!(answer.body.len(), 10, "{fault:?}");
            assert_eq!(answer.head.len().unwrap(), answer.body.len(), "{fault:?}");
        }
        let answer = distorted(Fault::OtherBytes);
        assert_eq!(answer.head.get("content-range"), Some("bytes 20000-20009/50000"));
        let answer = distorted(Fault::OldBytes);
        assert!(answer.body.len() == 10 && answer.body != b"0123456789");
    }

    #[test]
    fn another_range_is_asked_for() {
        let mut request = Head::new("GET /x HTTP/1.1");
        request.set("Range", "bytes=20000-20009");
        assert_eq!(asked_for(&request, Some(Fault::OtherBytes)).range(), Some((3616, 3625)));
        assert_eq!(asked_for(&request, Some(Fault::Cut)).range(), Some((20000, 20009)));
        request.set("Range", "bytes=0-9");
        assert_eq!(asked_for(&request, Some(Fault::OtherRange)).range(), Some((1, 10)));
    }
}
