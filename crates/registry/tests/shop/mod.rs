//! A registry in memory that answers on this machine, and fails where a test tells it to.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use gular_registry::Sha256;
use serde_json::json;

/// Faults of the registry.
#[derive(Default)]
pub(crate) struct Faults {
    /// The chunk with this number is cut after so many of its bytes.
    pub(crate) cut: Option<(usize, usize)>,
    /// Somebody stops everything after so many chunks.
    pub(crate) stop: Option<usize>,
    /// The registry forgets an upload that was cut.
    pub(crate) forgets: bool,
    /// The least chunk that it takes; said where an upload begins.
    pub(crate) least: Option<usize>,
    /// The registry does not support ranges.
    pub(crate) no_ranges: bool,
    /// Each range is cut once, after half of it.
    pub(crate) cut_ranges: bool,
    /// Blobs are on another server, to which the registry redirects.
    pub(crate) redirects: bool,
    /// One byte of each blob is changed.
    pub(crate) flipped: bool,
    /// Requests with this in their path get this status, or no answer where it is 0.
    pub(crate) away: Option<(&'static str, u16)>,
    /// The credentials that the registry asks for.
    pub(crate) wants: Wants,
}

#[derive(Default, Clone, Copy, PartialEq)]
pub(crate) enum Wants {
    #[default]
    Nothing,
    Basic,
    Token,
}

/// The servers of a registry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Host {
    Registry,
    /// Gives tokens.
    Tokens,
    /// Has the blobs to which the registry redirects.
    Elsewhere,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    /// Blobs of another repository.
    pub(crate) base: BTreeMap<String, Vec<u8>>,
    pub(crate) manifests: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, Vec<u8>>,
    /// Chunks that were taken whole: where they began.
    pub(crate) chunks: Vec<usize>,
    patches: usize,
    cut: Vec<String>,
    /// Blobs that were asked for.
    pub(crate) fetched: Vec<String>,
    /// The server of each request, and the authorization that came along.
    pub(crate) seen: Vec<(Host, Option<String>)>,
    pub(crate) faults: Faults,
    /// URLs of the other servers.
    tokens: String,
    elsewhere: String,
    cancel: Arc<AtomicBool>,
}

/// The registry; its servers run until the tests end.
pub(crate) struct Shop {
    state: Arc<Mutex<State>>,
    /// `HOST:PORT`.
    pub(crate) host: String,
    /// Is set when somebody stops everything.
    pub(crate) cancel: Arc<AtomicBool>,
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

#[derive(Default)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// The connection is lost after half of the body.
    is_cut: bool,
}

fn answer(status: u16) -> Answer {
    Answer { status, ..Answer::default() }
}

impl Answer {
    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }
}

impl Shop {
    pub(crate) fn new(faults: Faults) -> Self {
        let cancel = Arc::<AtomicBool>::default();
        let state = State { faults, cancel: Arc::clone(&cancel), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let start = |host| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let (state, stream) = (Arc::clone(&state), stream.unwrap());
                    // A client that hangs up is what some tests want.
                    thread::spawn(move || talk(&state, host, stream).is_ok());
                }
            });
            address
        };
        let host = start(Host::Registry);
        let (tokens, elsewhere) = (start(Host::Tokens), start(Host::Elsewhere));
        let shop = Self { state, host, cancel };
        shop.state().tokens = format!("http://{tokens}/token");
        shop.state().elsewhere = format!("http://{elsewhere}");
        shop
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// Answers the requests of one connection.
fn talk(state: &Mutex<State>, host: Host, stream: TcpStream) -> io::Result<()> {
    let mut from = BufReader::new(stream.try_clone()?);
    let mut to = stream;
    while let Some(request) = Request::read(&mut from)? {
        let Some(answer) = state.lock().unwrap().serve(host, &request) else { return Ok(()) };
        let Answer { status, headers, body, is_cut } = answer;
        let mut head = format!("HTTP/1.1 {status} x\r\n");
        if status != 204 {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        to.write_all(format!("{head}\r\n").as_bytes())?;
        to.write_all(if is_cut { &body[..body.len() / 2] } else { &body })?;
        if is_cut {
            return Ok(());
        }
    }
    Ok(())
}

impl Request {
    /// Reads the next request; `None` when the client is gone.
    fn read(from: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split(' ');
        let method = words.next().unwrap().to_owned();
        let (path, query) = words.next().map(|t| t.split_once('?').unwrap_or((t, ""))).unwrap();
        let (path, query) = (path.to_owned(), query.to_owned());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let len = headers.get("content-length").map_or(0, |len| len.parse().unwrap());
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        Ok(Some(Self { method, path, query, headers, body }))
    }

    fn field(&self, name: &str) -> Option<String> {
        let mut fields = self.query.split('&').filter_map(|field| field.split_once('='));
        let (_, value) = fields.find(|(known, _)| *known == name)?;
        Some(value.replace("%3A", ":").replace("%2C", ","))
    }
}

impl State {
    /// `None`: the connection is lost.
    fn serve(&mut self, host: Host, request: &Request) -> Option<Answer> {
        let Request { method, path, body, .. } = request;
        if path == "/v2/" {
            return Some(answer(200));
        }
        let shown = request.headers.get("authorization").cloned();
        self.seen.push((host, shown.clone()));
        match self.faults.away.filter(|(part, _)| path.contains(part)) {
            Some((_, 0)) => return None,
            Some((_, status)) => return Some(answer(status)),
            None => {}
        }
        let name = path.rsplit('/').next().unwrap();
        match host {
            Host::Tokens => {
                assert_eq!(shown.as_deref(), Some("Basic dTpw"), "tokens are for a password");
                let token = format!("T-{}", request.field("scope").unwrap());
                return Some(answer(200).body(json!({ "token": token }).to_string()));
            }
            Host::Elsewhere => return Some(self.blob(request, name)),
            Host::Registry => {}
        }
        let bearer = || format!("Bearer realm=\"{}\",service=\"s\"", self.tokens);
        let asks = match (self.faults.wants, shown.as_deref()) {
            (Wants::Basic, shown) if shown != Some("Basic dTpw") => {
                Some("Basic realm=\"x\"".to_owned())
            }
            (Wants::Token, shown) if !shown.is_some_and(|s| s.starts_with("Bearer T-rep")) => {
                Some(bearer())
            }
            _ => None,
        };
        if let Some(asks) = asks {
            return Some(answer(401).header("WWW-Authenticate", asks));
        }
        Some(match method.as_str() {
            "POST" => self.begin(request),
            "PATCH" => return self.chunk(name, request),
            "PUT" if path.contains("/manifests/") => {
                self.manifests.insert(name.to_owned(), body.clone());
                self.manifests.insert(format!("sha256:{}", Sha256::of(body)), body.clone());
                answer(201)
            }
            "PUT" => {
                let bytes = self.uploads.remove(name).unwrap();
                let digest = request.field("digest").unwrap();
                assert_eq!(digest, format!("sha256:{}", Sha256::of(&bytes)));
                self.blobs.insert(digest, bytes);
                answer(201)
            }
            "HEAD" => answer(if self.blobs.contains_key(name) { 200 } else { 404 }),
            _ if path.contains("/manifests/") => match self.manifests.get(name) {
                None => answer(404),
                Some(text) => answer(200).body(text.clone()),
            },
            _ if path.contains("/uploads/") => {
                let lost = self.cut.iter().any(|cut| cut == name) && self.faults.forgets;
                match self.uploads.contains_key(name) && !lost {
                    true => self.upload(204, name),
                    false => answer(404),
                }
            }
            _ if path.ends_with("/tags/list") => {
                let is_tag = |name: &&String| !name.starts_with("sha256:");
                let tags: Vec<_> = self.manifests.keys().filter(is_tag).collect();
                answer(200).body(json!({ "name": "lab/x", "tags": tags }).to_string())
            }
            _ if self.faults.redirects => {
                let location = format!("{}/blobs/{name}?sig=1", self.elsewhere);
                answer(307).header("Location", location)
            }
            _ => self.blob(request, name),
        })
    }

    /// Begins an upload, or mounts the blob.
    fn begin(&mut self, request: &Request) -> Answer {
        let mounted = request.field("mount").and_then(|digest| self.base.remove_entry(&digest));
        if let Some((digest, bytes)) = mounted {
            assert_eq!(request.field("from").as_deref(), Some("base"));
            self.blobs.insert(digest, bytes);
            return answer(201);
        }
        let id = format!("u{}", self.uploads.len());
        self.uploads.insert(id.clone(), Vec::new());
        let begun = self.upload(202, &id);
        match self.faults.least {
            Some(least) => begun.header("OCI-Chunk-Min-Length", least.to_string()),
            None => begun,
        }
    }

    fn upload(&self, status: u16, id: &str) -> Answer {
        let range = format!("0-{}", self.uploads[id].len().saturating_sub(1));
        let location = format!("/v2/lab/x/blobs/uploads/{id}?s=1");
        answer(status).header("Location", location).header("Range", range)
    }

    fn chunk(&mut self, id: &str, request: &Request) -> Option<Answer> {
        if self.faults.stop == Some(self.patches) {
            self.cancel.store(true, Ordering::Relaxed);
            return None;
        }
        let there = self.uploads[id].len();
        if !request.headers["content-range"].starts_with(&format!("{there}-")) {
            return Some(answer(416));
        }
        let number = self.patches;
        self.patches += 1;
        let upload = self.uploads.get_mut(id).unwrap();
        if let Some((_, bytes)) = self.faults.cut.filter(|(cut, _)| *cut == number) {
            upload.extend_from_slice(&request.body[..bytes]);
            self.cut.push(id.to_owned());
            return None;
        }
        self.chunks.push(there);
        upload.extend_from_slice(&request.body);
        Some(self.upload(202, id))
    }

    fn blob(&mut self, request: &Request, name: &str) -> Answer {
        self.fetched.push(name.to_owned());
        let Some(bytes) = self.blobs.get(name) else { return answer(404) };
        let mut bytes = bytes.clone();
        if self.faults.flipped {
            *bytes.last_mut().unwrap() ^= 1;
        }
        let range = request.headers.get("range").filter(|_| !self.faults.no_ranges);
        let Some(range) = range else { return answer(200).body(bytes) };
        let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
        let told = format!("bytes {from}-{to}/{}", bytes.len());
        let key = format!("{name} {to}");
        let is_cut = self.faults.cut_ranges && !self.cut.contains(&key);
        if is_cut {
            self.cut.push(key);
        }
        let answer = answer(206).header("Content-Range", told).body(&bytes[from..=to]);
        Answer { is_cut, ..answer }
    }
}
