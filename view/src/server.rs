//! The server: it listens at 127.0.0.1, and answers who knows its secret.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;
use crate::client::Client;
use crate::http::{Answer, Request, Status};
use crate::site::Site;

/// The most connections at a time; a browser opens six.
const MOST_CONNECTIONS: usize = 64;
/// How long a whole request may take to arrive, and each part of an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the server looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A server that is not running yet, but has its address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    door: Door,
    site: Arc<Site>,
}

/// What a request must show to be answered.
#[derive(Clone)]
struct Door {
    port: u16,
    secret: String,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Server {
    /// Reserves `port` at 127.0.0.1, or any free port, and makes a new secret.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn bind(port: Option<u16>, site: Site) -> Result<Self, Error> {
        let port = port.unwrap_or(0);
        let listen = |source| Error::Listen { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(listen)?;
        let bound = listener.local_addr().map_err(listen)?.port();
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|e| listen(io::Error::other(e)))?;
        let secret = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { listener, door: Door { port: bound, secret }, site: Arc::new(site) })
    }

    /// The port that it listens at.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.door.port
    }

    /// The page's address, with the secret.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.door.port, self.door.secret)
    }

    /// Answers requests until `stop` is set.
    ///
    /// # Errors
    /// [`Error::Listen`] if the system closes the port.
    pub fn run(self, stop: &AtomicBool) -> Result<(), Error> {
        let Self { listener, door, site } = self;
        let port = door.port;
        let listen = |source| Error::Listen { port, source };
        let running = Arc::new(AtomicUsize::new(0));
        let strangers = Strangers::default();
        let ended = Arc::new(AtomicBool::new(false));
        let of_thread = Arc::clone(&ended);
        let accepting = move || {
            for (number, stream) in (0..).zip(listener.incoming()) {
                if of_thread.load(Ordering::Acquire) {
                    return;
                }
                let stream = match stream {
                    Ok(stream) => Arc::new(stream),
                    // A connection that ended before it was accepted is not this server's fault.
                    Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                    // The process has no file left, say: the same would happen again at once.
                    Err(_) => {
                        strangers.close_oldest();
                        thread::sleep(LOOK);
                        continue;
                    }
                };
                let (door, site, running) = (door.clone(), Arc::clone(&site), Arc::clone(&running));
                if running.load(Ordering::Acquire) >= MOST_CONNECTIONS && !strangers.close_oldest()
                {
                    let _ = Answer::text(Status::Busy, "too many connections").write(&mut &*stream);
                    continue;
                }
                running.fetch_add(1, Ordering::AcqRel);
                strangers.lock().insert(number, Arc::clone(&stream));
                let (counted, known) = (Arc::clone(&running), strangers.clone());
                let serve = move || {
                    door.serve(Client { stream: &stream, number }, &site, || {
                        known.lock().remove(&number)
                    });
                    known.lock().remove(&number);
                    running.fetch_sub(1, Ordering::AcqRel);
                };
                if thread::Builder::new().name("view".into()).spawn(serve).is_err() {
                    strangers.lock().remove(&number);
                    counted.fetch_sub(1, Ordering::AcqRel);
                }
            }
        };
        let accepting = thread::Builder::new().name("accept".into()).spawn(accepting);
        let accepting = accepting.map_err(listen)?;
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
        ended.store(true, Ordering::Release);
        // One more connection, which wakes the thread.
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            let _ = accepting.join();
        }
        Ok(())
    }
}

/// Connections that have not shown the secret, by their numbers. Any account of this machine can
/// open some, so they give way to others.
#[derive(Debug, Clone, Default)]
struct Strangers(Arc<Mutex<BTreeMap<u64, Arc<TcpStream>>>>);

impl Strangers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<TcpStream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the oldest, and returns whether there was one.
    fn close_oldest(&self) -> bool {
        let oldest = self.lock().pop_first();
        oldest.inspect(|(_, stream)| drop(stream.shutdown(Shutdown::Both))).is_some()
    }
}

/// Reads until a point in time, however slowly bytes arrive.
struct ReadUntil<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Read for ReadUntil<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

impl Door {
    /// Answers the request of a connection. `is_known` is called once it has shown the secret.
    fn serve<T>(&self, client: Client<'_>, site: &Site, is_known: impl FnOnce() -> T) {
        let mut stream = client.stream;
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let answer = match Request::read(&mut ReadUntil { stream, end: Instant::now() + PATIENCE })
        {
            Ok(None) => return,
            Ok(Some(request)) => {
                // A fault of one answer is not the end of the others.
                let answer = || match self.path_of(&request) {
                    Ok(path) => {
                        is_known();
                        site.answer(path, &request, client)
                    }
                    Err(answer) => answer,
                };
                let answer = catch_unwind(AssertUnwindSafe(answer));
                answer.unwrap_or_else(|_| {
                    Answer::text(Status::Failed, "this is a bug in gular: please report it")
                })
            }
            Err(answer) => answer,
        };
        let _ = answer.write(&mut stream);
        // With bytes unread, closing would reset the connection before the answer was read.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        let _ = stream.take(1 << 16).read_to_end(&mut Vec::new());
    }

    /// The path below the secret, or the answer to who does not know it.
    fn path_of<'a>(&self, request: &'a Request) -> Result<&'a str, Answer> {
        let hosts = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{}", self.port));
        if !request.host.as_ref().is_some_and(|host| hosts.contains(host)) {
            let text = format!(
                "this server answers only at {} and {}: forward the same port",
                hosts[0], hosts[1]
            );
            return Err(Answer::text(Status::Forbidden, &text));
        }
        let is_own = |origin: &str| {
            origin.strip_prefix("http://").is_some_and(|host| hosts.iter().any(|own| own == host))
        };
        if request.origin.as_deref().is_some_and(|origin| !is_own(origin)) {
            let text = "requests of other pages are not answered";
            return Err(Answer::text(Status::Forbidden, text));
        }
        let rest = request.path.strip_prefix('/').unwrap_or_default();
        let (secret, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !equal(secret.as_bytes(), self.secret.as_bytes()) {
            let text = "not found: the address that `gular view` printed has a secret in it";
            return Err(Answer::text(Status::NotFound, text));
        }
        // The page would look for its parts beside the secret.
        if rest == secret {
            return Err(Answer::text(Status::NotFound, "not found: the address ends in `/`"));
        }
        Ok(path)
    }
}

/// Compares in a time that does not depend on where the first difference is.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_head_that_arrives_byte_by_byte_has_one_deadline() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Acquire) {
                    let _ = client.write_all(b"a");
                    thread::sleep(Duration::from_millis(20));
                }
            });
            let since = Instant::now();
            let end = since + Duration::from_millis(300);
            let answer = Request::read(&mut ReadUntil { stream: &stream, end });
            let took = since.elapsed();
            ended.store(true, Ordering::Release);
            assert_eq!(answer.unwrap_err().status, Status::BadRequest);
            assert!(took < Duration::from_secs(5), "{took:?}");
        });
    }
}
