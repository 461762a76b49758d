//! A server whose every byte is decided by a test.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gular_pelican::{Client, ClientOptions, Env, Tell, Url};
use tempfile::NamedTempFile;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The head of a request, as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) raw: String,
    pub(crate) method: String,
    /// The path and the query.
    pub(crate) target: String,
}

impl Head {
    /// The value of a header spelt exactly so, as XRootD before 5.7 looks for it.
    pub(crate) fn exact(&self, name: &str) -> Option<&str> {
        self.raw.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    /// The length that a server of that kind expects: none without the header.
    pub(crate) fn content_length(&self) -> usize {
        self.exact("Content-Length").map_or(0, |n| n.parse().unwrap())
    }
}

/// One connection.
pub(crate) struct Talk {
    stream: Box<dyn Wire>,
    tcp: TcpStream,
    /// The number of the connection to this server, from 0.
    pub(crate) number: usize,
}

trait Wire: Read + Write {}

impl<T: Read + Write> Wire for T {}

impl Talk {
    /// The next request; `None` when the client is gone.
    pub(crate) fn head(&mut self) -> Option<Head> {
        let mut raw = Vec::new();
        let mut byte = [0];
        while !raw.ends_with(b"\r\n\r\n") {
            if self.stream.read(&mut byte).ok()? == 0 {
                return None;
            }
            raw.push(byte[0]);
        }
        let raw = String::from_utf8(raw).unwrap();
        let mut words = raw.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let head = Head { method, target, raw };
        // What a listing is asked for is no trap, so no server needs to see it.
        if head.method == "PROPFIND" {
            self.body(head.content_length());
        }
        Some(head)
    }

    /// Up to `n` bytes of a body; fewer when the client stops.
    pub(crate) fn body(&mut self, n: usize) -> Vec<u8> {
        let mut body = vec![0; n];
        let mut have = 0;
        while have < n {
            match self.stream.read(&mut body[have..]) {
                Ok(0) | Err(_) => break,
                Ok(more) => have += more,
            }
        }
        body.truncate(have);
        body
    }

    /// Reads the bytes that arrive within a moment, and returns how many.
    pub(crate) fn stray(&mut self) -> usize {
        self.tcp.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let n = self.body(1 << 20).len();
        self.tcp.set_read_timeout(None).unwrap();
        n
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A client that is gone is what some checks want.
        let _ = self.stream.write_all(bytes.as_ref()).and_then(|()| self.stream.flush());
    }

    /// Sends an answer with a body and its length.
    pub(crate) fn answer(&mut self, status: &str, headers: &str, body: &[u8]) {
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        self.send([head.as_bytes(), body].concat());
    }

    /// The head of an answer alone, as HEAD wants it.
    pub(crate) fn answer_head(&mut self, status: &str, headers: &str, len: usize) {
        self.send(format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {len}\r\n\r\n"));
    }

    /// `100 Continue` as XRootD has it, with headers, a byte at a time.
    pub(crate) fn go_on(&mut self) {
        for byte in b"HTTP/1.1 100 Continue\r\nConnection: Close\r\nServer: XrootD/v5.5.3\r\n\r\n" {
            self.send([*byte]);
        }
    }

    /// Ends the connection.
    pub(crate) fn close(&self) {
        let _ = self.tcp.shutdown(Shutdown::Both);
    }
}

/// Answers requests until it is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    heads: Arc<Mutex<Vec<Head>>>,
    connections: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    address: std::net::SocketAddr,
    /// The certificate of a server with TLS.
    certificate: Option<NamedTempFile>,
}

impl Server {
    /// `serve` is given each request; a connection stays open while it returns true.
    pub(crate) fn start(serve: impl Fn(&mut Talk, &Head) -> bool + Send + Sync + 'static) -> Self {
        Self::start_on(None, serve)
    }

    /// Starts a server with TLS, as `localhost` and as 0.0.0.0. The system takes the latter for
    /// this machine and the client does not, so that it may use a proxy.
    pub(crate) fn start_tls(
        serve: impl Fn(&mut Talk, &Head) -> bool + Send + Sync + 'static,
    ) -> Self {
        let made =
            rcgen::generate_simple_self_signed(["localhost".to_owned(), "0.0.0.0".to_owned()])
                .unwrap();
        let mut certificate = NamedTempFile::new().unwrap();
        certificate.write_all(made.cert.pem().as_bytes()).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let mut server = Self::start_on(Some(Arc::new(config)), serve);
        server.certificate = Some(certificate);
        server
    }

    fn start_on(
        tls: Option<Arc<ServerConfig>>,
        serve: impl Fn(&mut Talk, &Head) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let url = match tls {
            Some(_) => format!("https://localhost:{}", address.port()),
            None => format!("http://{address}"),
        };
        let server = Self {
            url,
            certificate: None,
            heads: Arc::default(),
            connections: Arc::default(),
            stop: Arc::default(),
            address,
        };
        let serve = Arc::new(serve);
        let (heads, connections) = (Arc::clone(&server.heads), Arc::clone(&server.connections));
        let stop = Arc::clone(&server.stop);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let number = connections.fetch_add(1, Ordering::Relaxed);
                let (serve, heads) = (Arc::clone(&serve), Arc::clone(&heads));
                let (tcp, tls) = (stream.unwrap(), tls.clone());
                std::thread::spawn(move || {
                    let plain = tcp.try_clone().unwrap();
                    let stream: Box<dyn Wire> = match tls {
                        None => Box::new(plain),
                        Some(tls) => {
                            Box::new(StreamOwned::new(ServerConnection::new(tls).unwrap(), plain))
                        }
                    };
                    let mut talk = Talk { stream, tcp, number };
                    while let Some(head) = talk.head() {
                        heads.lock().unwrap().push(head.clone());
                        if !serve(&mut talk, &head) {
                            break;
                        }
                    }
                });
            }
        });
        server
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("{}{path}", self.url)).unwrap()
    }

    /// The path of the file for `SSL_CERT_FILE`.
    pub(crate) fn certificate(&self) -> &str {
        self.certificate.as_ref().unwrap().path().to_str().unwrap()
    }

    /// Returns the requests so far.
    pub(crate) fn heads(&self) -> Vec<Head> {
        self.heads.lock().unwrap().clone()
    }

    pub(crate) fn of_method(&self, method: &str) -> Vec<Head> {
        self.heads().into_iter().filter(|head| head.method == method).collect()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The connection wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

/// Returns a client with short time limits.
pub(crate) fn client() -> Client {
    client_with(&[])
}

pub(crate) fn client_with(env: &[(&str, &str)]) -> Client {
    Client::new(options(env)).unwrap()
}

/// Returns a client with longer time limits, for machines that are busy.
pub(crate) fn patient_client(env: &[(&str, &str)]) -> Client {
    let mut options = options(env);
    options.patience = Duration::from_secs(180);
    Client::new(options).unwrap()
}

/// Returns the same, with the messages to its user.
pub(crate) fn client_told(env: &[(&str, &str)]) -> (Client, Arc<Mutex<Vec<String>>>) {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let keep = Arc::clone(&told);
    let mut options = options(env);
    options.tell = Tell::new(move |text| keep.lock().unwrap().push(text.to_owned()));
    (Client::new(options).unwrap(), told)
}

/// Returns a client that reads no more bytes per second than this.
pub(crate) fn client_limited(rate: u64) -> Client {
    let mut options = options(&[]);
    options.max_bytes_per_second = Some(rate);
    Client::new(options).unwrap()
}

/// Returns a client for which the user named a file with `token`, and that file.
pub(crate) fn client_named(token: &str, env: &[(&str, &str)]) -> (Client, NamedTempFile) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(token.as_bytes()).unwrap();
    let mut options = options(env);
    options.token_files = vec![file.path().to_owned()];
    (Client::new(options).unwrap(), file)
}

pub(crate) fn options(env: &[(&str, &str)]) -> ClientOptions {
    let mut options = ClientOptions::new(Env::from_pairs(env));
    options.connect_timeout = Duration::from_secs(5);
    options.stall_timeout = Duration::from_secs(4);
    options.patience = Duration::from_secs(12);
    options.settle = Duration::from_millis(600);
    options
}

/// Returns bytes that do not repeat within a short distance.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 12345_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(next).collect()
}
