//! From a name to a stream: TCP, a proxy where one is set, TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use base64::Engine as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::{TlsConnector, rustls};

use super::meter::Stream;
use super::response::Fault;
use crate::url::is_authority;
use crate::{Env, Error};

/// Answers of a proxy longer than this are refused.
const MAX_PROXY_ANSWER: usize = 16 << 10;

/// RFC 8305, section 5: the connection attempt delay.
const HEAD_START: Duration = Duration::from_millis(250);

/// A server: scheme, host, port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    tls: bool,
    host: String,
    port: u16,
}

impl Server {
    /// The server of `http[s]://HOST[:PORT]…` and the rest of that URL, which
    /// starts with `/` or is empty.
    pub(crate) fn split(url: &str) -> Option<(Self, &str)> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(at)?;
        if !is_authority(authority) {
            return None;
        }
        let default = if tls { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, default),
        };
        Some((Self { tls, host: host.to_ascii_lowercase(), port }, path))
    }

    /// `HOST[:PORT]`, as the `Host` header and messages have it.
    pub(crate) fn authority(&self) -> String {
        let default = if self.tls { 443 } else { 80 };
        if self.port == default {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether a token may be sent there: over TLS, or to this very machine.
    pub(crate) fn keeps_secrets(&self) -> bool {
        self.tls || matches!(self.host.as_str(), "localhost" | "127.0.0.1" | "[::1]")
    }

    /// Looks up its name.
    pub(super) async fn resolve(&self) -> io::Result<()> {
        match lookup_host((self.bare_host(), self.port)).await?.next() {
            Some(_) => Ok(()),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "it has no address")),
        }
    }

    fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

/// Proxies for both schemes and the hosts that go without.
#[derive(Debug, Clone, Default)]
struct Proxies {
    https: Option<Proxy>,
    http: Option<Proxy>,
    without: Vec<String>,
}

#[derive(Clone)]
struct Proxy {
    host: String,
    port: u16,
    /// `Proxy-Authorization`, which no output shows.
    authorization: Option<String>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Proxies {
    fn of(env: &Env) -> Result<Self, Error> {
        let either =
            |upper: &str, lower: &str| env.get(lower).or_else(|| env.get(upper)).map(str::to_owned);
        let proxy = |upper: &'static str, lower: &str| match either(upper, lower) {
            None => Ok(None),
            Some(text) => match Proxy::parse(&text) {
                Some(proxy) => Ok(Some(proxy)),
                None => Err(Error::Setting {
                    what: format!("environment variable `{upper}`"),
                    reason: "it is not http://HOST:PORT".to_owned(),
                }),
            },
        };
        let without = either("NO_PROXY", "no_proxy").unwrap_or_default();
        Ok(Self {
            https: proxy("HTTPS_PROXY", "https_proxy")?,
            // `HTTP_PROXY` in capitals can be set by whoever calls a CGI program.
            http: proxy("http_proxy", "http_proxy")?,
            without: without.split(',').map(|s| s.trim().to_ascii_lowercase()).collect(),
        })
    }

    fn for_server(&self, server: &Server) -> Option<&Proxy> {
        let host = server.bare_host();
        let local = host == "localhost" || host == "::1" || host.starts_with("127.");
        let spared = self.without.iter().filter(|name| !name.is_empty()).any(|name| {
            let name = name.trim_start_matches("*.").trim_start_matches('.');
            name == "*" || host == name || host.ends_with(&format!(".{name}"))
        });
        let proxy = if server.tls { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !local && !spared)
    }
}

impl Proxy {
    fn parse(text: &str) -> Option<Self> {
        let rest = text.trim().strip_prefix("http://").unwrap_or(text.trim());
        let rest = rest.trim_end_matches('/');
        let (user, authority) = match rest.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, rest),
        };
        let (host, port) = authority.rsplit_once(':')?;
        let sound = is_authority(authority);
        let authorization = user.map(|user| {
            let user = crate::url::percent_decode(user).unwrap_or_else(|| user.to_owned());
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user))
        });
        sound.then_some(Self { host: host.to_owned(), port: port.parse().ok()?, authorization })
    }
}

/// Opens streams to servers.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: TlsConnector,
    proxies: Proxies,
}

impl Connector {
    pub(crate) fn new(env: &Env) -> Result<Self, Error> {
        Ok(Self { tls: TlsConnector::from(Arc::new(tls_config(env)?)), proxies: Proxies::of(env)? })
    }

    /// What a request to `server` names before its path: nothing, or, to a
    /// proxy that forwards plain requests, scheme and host.
    pub(super) fn target_prefix(&self, server: &Server) -> String {
        let forwarded = !server.tls && self.proxies.for_server(server).is_some();
        if forwarded { server.to_string() } else { String::new() }
    }

    pub(super) async fn connect(&self, server: &Server) -> Result<Box<dyn Stream>, Fault> {
        let proxy = self.proxies.for_server(server);
        let tcp = match proxy {
            Some(proxy) => dial(&proxy.host, proxy.port).await,
            None => dial(server.bare_host(), server.port).await,
        };
        let via = || proxy.map_or(String::new(), |p| format!(" (proxy {}:{})", p.host, p.port));
        let mut tcp = tcp.map_err(|e| Fault::Connect(format!("{e}{}", via())))?;
        tcp.set_nodelay(true).map_err(|e| Fault::Connect(e.to_string()))?;
        if !server.tls {
            return Ok(Box::new(tcp));
        }
        if let Some(proxy) = proxy {
            tunnel(&mut tcp, proxy, server).await?;
        }
        let name = ServerName::try_from(server.bare_host().to_owned())
            .map_err(|e| Fault::Tls(e.to_string()))?;
        let stream = self.tls.connect(name, tcp).await.map_err(|e| {
            // A handshake that was cut says nothing of a certificate, and passes.
            let protocol =
                e.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>);
            if protocol { Fault::Tls(e.to_string()) } else { Fault::Connect(e.to_string()) }
        })?;
        Ok(Box::new(stream))
    }
}

/// Tries every address of a name, IPv6 and IPv4 in turn, the next one when a
/// quarter of a second has passed or the one before has failed (RFC 8305): a
/// network whose IPv6 leads nowhere must not cost the whole time limit.
async fn dial(host: &str, port: u16) -> io::Result<TcpStream> {
    let found: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    let mut waiting = in_turn(&found).into_iter();
    let mut trials = JoinSet::new();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        match waiting.next() {
            Some(address) => drop(trials.spawn(TcpStream::connect(address))),
            None if trials.is_empty() => return Err(failed),
            None => {}
        }
        let more = waiting.len() > 0;
        let trial = tokio::select! {
            trial = trials.join_next() => trial,
            () = sleep(HEAD_START), if more => continue,
        };
        match trial {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => failed = error,
            Some(Err(error)) => failed = io::Error::other(error),
            None => {}
        }
    }
}

/// IPv6 and IPv4 alternating, beginning with the kind that the system put first.
fn in_turn(found: &[SocketAddr]) -> Vec<SocketAddr> {
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let of_kind = |v6: bool| found.iter().copied().filter(move |a| a.is_ipv6() == v6);
    let (mut one, mut other) = (of_kind(first_is_v6), of_kind(!first_is_v6));
    let mut turns = Vec::with_capacity(found.len());
    for _ in 0..found.len() {
        turns.extend(one.next());
        turns.extend(other.next());
    }
    turns
}

async fn tunnel(tcp: &mut TcpStream, proxy: &Proxy, server: &Server) -> Result<(), Fault> {
    let to = format!("{}:{}", server.host, server.port);
    let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
    if let Some(authorization) = &proxy.authorization {
        request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
    }
    request.push_str("\r\n");
    let fault =
        |what: String| Fault::Connect(format!("proxy {}:{}: {what}", proxy.host, proxy.port));
    tcp.write_all(request.as_bytes()).await.map_err(|e| fault(e.to_string()))?;
    // Byte by byte, so that nothing of what follows the answer is taken.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let byte = tcp.read_u8().await.map_err(|e| fault(e.to_string()))?;
        answer.push(byte);
        if answer.len() > MAX_PROXY_ANSWER {
            return Err(fault("its answer does not end".to_owned()));
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let line = answer.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(fault(format!("it answered `{}`", line.escape_debug()))),
    }
}

/// TLS 1.2 and 1.3 with ring; roots from `SSL_CERT_FILE` and `SSL_CERT_DIR`
/// where one of them is set, else those of Mozilla, compiled in.
fn tls_config(env: &Env) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Setting { what: "TLS".to_owned(), reason: e.to_string() })?;
    Ok(builder.with_root_certificates(Arc::new(roots(env)?)).with_no_client_auth())
}

fn roots(env: &Env) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    let (file, dir) = (env.get("SSL_CERT_FILE"), env.get("SSL_CERT_DIR"));
    if file.is_none() && dir.is_none() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(store);
    }
    if let Some(file) = file {
        let fail =
            |reason: String| Error::Setting { what: format!("`SSL_CERT_FILE` (`{file}`)"), reason };
        let certificates = CertificateDer::pem_file_iter(file).map_err(|e| fail(e.to_string()))?;
        for certificate in certificates {
            store.add_parsable_certificates(certificate.ok());
        }
        if store.is_empty() {
            return Err(fail("it holds no certificate that can be used".to_owned()));
        }
    }
    for dir in dir.into_iter().flat_map(|dirs| dirs.split(':')) {
        // As OpenSSL does, what is no certificate is passed over.
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(|path| path.is_file()) {
            let certificates = CertificateDer::pem_file_iter(path).into_iter().flatten();
            store.add_parsable_certificates(certificates.flatten());
        }
    }
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_split_from_urls() {
        let check = |url: &str, expected: Option<(&str, &str)>| {
            let found = Server::split(url).map(|(s, rest)| (s.to_string(), rest.to_owned()));
            let expected = expected.map(|(s, rest)| (s.to_owned(), rest.to_owned()));
            assert_eq!(found, expected, "{url}");
        };
        check("https://H.x/a/b", Some(("https://h.x", "/a/b")));
        check("https://h:443", Some(("https://h", "")));
        check("http://[::1]:8000/a?b", Some(("http://[::1]:8000", "/a?b")));
        check("http://[::1]/a", Some(("http://[::1]", "/a")));
        for bad in ["ftp://h/a", "https:///a", "https://u@h/a", "h/a", "https://h:x/a"] {
            check(bad, None);
        }
    }

    #[test]
    fn tokens_go_over_tls_or_nowhere_far() {
        let check = |url: &str, expected: bool| {
            assert_eq!(Server::split(url).unwrap().0.keeps_secrets(), expected, "{url}");
        };
        check("https://h/", true);
        check("http://localhost:1/", true);
        check("http://127.0.0.1/", true);
        check("http://h/", false);
        check("http://localhost.h/", false);
    }

    #[test]
    fn addresses_take_turns() {
        let check = |found: &[&str], expected: &[&str]| {
            let parse = |list: &[&str]| -> Vec<SocketAddr> {
                list.iter().map(|a| a.parse().unwrap()).collect()
            };
            assert_eq!(in_turn(&parse(found)), parse(expected));
        };
        check(&[], &[]);
        check(
            &["[::1]:1", "[::2]:1", "[::3]:1", "127.0.0.1:1"],
            &["[::1]:1", "127.0.0.1:1", "[::2]:1", "[::3]:1"],
        );
        check(&["127.0.0.1:1", "[::1]:1"], &["127.0.0.1:1", "[::1]:1"]);
    }

    #[test]
    fn proxies_are_found_and_spared() {
        let env = Env::from_pairs(&[
            ("https_proxy", "http://u:p%40@proxy:3128/"),
            ("NO_PROXY", "in.side, .other"),
        ]);
        let proxies = Proxies::of(&env).unwrap();
        let used = |url: &str| proxies.for_server(&Server::split(url).unwrap().0).is_some();
        assert!(used("https://far.away/"));
        for spared in ["https://in.side/", "https://a.in.side/", "https://x.other/", "http://far/"]
        {
            assert!(!used(spared), "{spared}");
        }
        assert!(!used("https://localhost:1/"));
        let proxy = proxies.https.unwrap();
        assert_eq!(proxy.authorization.as_deref(), Some("Basic dTpwQA=="));
        assert!(!format!("{proxy:?}").contains("dTp"));
        assert!(Proxies::of(&Env::from_pairs(&[("HTTPS_PROXY", "socks5://h:1")])).is_err());
    }

    #[test]
    fn roots_come_from_the_file_that_is_named() {
        let error = tls_config(&Env::from_pairs(&[("SSL_CERT_FILE", "/nowhere/ca.pem")]));
        assert!(error.unwrap_err().to_string().contains("/nowhere/ca.pem"));
        assert!(tls_config(&Env::default()).is_ok());
    }
}
