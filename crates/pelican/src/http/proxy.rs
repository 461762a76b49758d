//! Proxies: which ones are set, for which hosts they are used, and the tunnel through one.
//!
//! ```text
//! HTTPS_PROXY, https_proxy   CONNECT HOST:PORT, then TLS with the server
//! http_proxy                 the whole URL in the request line
//! NO_PROXY, no_proxy         names, .domains, addresses, networks (10.0.0.0/8), HOST:PORT, *
//! ```

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::response::Fault;
use super::server::Server;
use crate::Env;
use crate::url::is_authority;

/// Answers of a proxy longer than this are refused.
const MAX_ANSWER: usize = 16 << 10;

/// The port of a proxy that names none, as Go has it.
const DEFAULT_PORT: u16 = 80;

/// Proxies for both schemes and the hosts that go without.
#[derive(Debug, Clone, Default)]
pub(super) struct Proxies {
    https: Option<Proxy>,
    http: Option<Proxy>,
    without: Vec<String>,
}

#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// `Proxy-Authorization`, which no output shows.
    authorization: Option<String>,
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Proxies {
    /// Reads the proxies from the environment. A proxy that we cannot use is left out, with a
    /// message in `warnings`: most servers can be reached without it.
    pub(super) fn of(env: &Env, warnings: &mut Vec<String>) -> Self {
        let either = |upper: &'static str, lower: &'static str| {
            env.get(lower).map(|value| (lower, value)).or(env.get(upper).map(|v| (upper, v)))
        };
        let mut proxy = |upper, lower| {
            let (name, text) = either(upper, lower)?;
            let proxy = Proxy::parse(text);
            if proxy.is_none() {
                let text = gular_files::mask_url(text);
                warnings
                    .push(format!("`{name}` (`{text}`) is ignored: it is not http://HOST:PORT"));
            }
            proxy
        };
        let https = proxy("HTTPS_PROXY", "https_proxy");
        // `HTTP_PROXY` in capitals can be set by whoever calls a CGI program.
        let http = proxy("http_proxy", "http_proxy");
        let without = either("NO_PROXY", "no_proxy").map_or("", |(_, value)| value);
        let without = without.split(',').map(|name| name.trim().to_ascii_lowercase());
        Self { https, http, without: without.filter(|name| !name.is_empty()).collect() }
    }

    pub(super) fn for_server(&self, server: &Server) -> Option<&Proxy> {
        let host = server.bare_host();
        let local = host == "localhost" || host == "::1" || host.starts_with("127.");
        let spared = self.without.iter().any(|name| spares(name, host, server.port()));
        let proxy = if server.is_tls() { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !local && !spared)
    }
}

/// Whether a name of `NO_PROXY` matches this server.
fn spares(name: &str, host: &str, port: u16) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    if let (Some((network, bits)), Some(address)) = (name.split_once('/'), address) {
        let network = network.parse().ok().zip(bits.parse().ok());
        return network.is_some_and(|(network, bits)| is_within(address, network, bits));
    }
    let bare = |name: &str| name.trim_start_matches('[').trim_end_matches(']').to_owned();
    let (name, wanted) = match name.rsplit_once(':') {
        // In an IPv6 address, the last `:` begins a port only if it follows the bracket.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
            (bare(name), port.parse().ok())
        }
        _ => (bare(name), None),
    };
    let name = name.trim_start_matches("*.").trim_start_matches('.');
    let meant = name == "*" || host == name || host.ends_with(&format!(".{name}"));
    meant && wanted.is_none_or(|wanted: u16| wanted == port)
}

fn is_within(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        bits <= width && (bits == 0 || (a ^ b) >> (width - bits) == 0)
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => same(a.to_bits().into(), n.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(n)) => same(a.to_bits(), n.to_bits(), 128),
        _ => false,
    }
}

impl Proxy {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let rest = match text.split_once("://") {
            Some((scheme, rest)) => scheme.eq_ignore_ascii_case("http").then_some(rest)?,
            None => text,
        };
        let rest = rest.trim_end_matches('/');
        let (user, authority) = match rest.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, rest),
        };
        if !is_authority(authority) {
            return None;
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, DEFAULT_PORT),
        };
        let authorization = user.map(|user| {
            let user = crate::url::percent_decode(user).unwrap_or_else(|| user.to_owned());
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user))
        });
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Self { host, port, authorization })
    }

    /// Asks the proxy for a tunnel to `server`.
    pub(super) async fn tunnel(&self, tcp: &mut TcpStream, server: &Server) -> Result<(), Fault> {
        let to = format!("{}:{}", server.host(), server.port());
        let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        let fault = |what: String| Fault::Connect(format!("proxy {self}: {what}"));
        tcp.write_all(request.as_bytes()).await.map_err(|e| fault(e.to_string()))?;
        // Byte by byte, so that nothing of what follows the answer is taken.
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let byte = tcp.read_u8().await.map_err(|e| fault(e.to_string()))?;
            answer.push(byte);
            if answer.len() > MAX_ANSWER {
                return Err(fault("its answer is too long".to_owned()));
            }
        }
        let answer = String::from_utf8_lossy(&answer);
        let line = answer.lines().next().unwrap_or_default();
        match line.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => Ok(()),
            _ => Err(fault(format!("it answered `{}`", line.escape_debug()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Server {
        Server::split(url).unwrap().0
    }

    #[test]
    fn proxies_are_found_and_spared() {
        let env = Env::from_pairs(&[
            ("https_proxy", "http://u:p%40@proxy:3128/"),
            (
                "NO_PROXY",
                "in.side, .other,one.port:8443,10.2.0.0/15,[fd00::1]:8443,fe80::/10,1.2.3.4",
            ),
        ]);
        let proxies = Proxies::of(&env, &mut Vec::new());
        let check = |url: &str, used: bool| {
            assert_eq!(proxies.for_server(&server(url)).is_some(), used, "{url}");
        };
        check("https://far.away/", true);
        check("https://one.port/", true);
        check("https://10.4.0.1/", true);
        check("https://[fd00::1]/", true);
        check("https://1.2.3.40/", true);
        for spared in [
            "https://in.side/",
            "https://a.in.side/",
            "https://x.other/",
            "http://far/",
            "https://one.port:8443/",
            "https://10.3.255.1:8443/",
            "https://[fd00::1]:8443/",
            "https://[fe80::1]/",
            "https://1.2.3.4/",
            "https://localhost:1/",
        ] {
            check(spared, false);
        }
        let proxy = proxies.https.unwrap();
        assert_eq!(proxy.authorization.as_deref(), Some("Basic dTpwQA=="));
        assert!(!format!("{proxy:?}").contains("dTp"));
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_left_out_with_a_word() {
        let check = |value: &str, expected: Option<&str>| {
            let mut warnings = Vec::new();
            let env = Env::from_pairs(&[("HTTPS_PROXY", value)]);
            let found = Proxies::of(&env, &mut warnings).https.map(|proxy| proxy.to_string());
            assert_eq!(found.as_deref(), expected, "{value}");
            assert_eq!(warnings.len(), usize::from(expected.is_none()), "{value}");
            assert!(!format!("{warnings:?}").contains("secret"), "{warnings:?}");
        };
        check("proxy:3128", Some("proxy:3128"));
        check("HTTP://proxy", Some("proxy:80"));
        check("http://[::1]:3128/", Some("::1:3128"));
        check("socks5h://me:secret@proxy:1080", None);
        check("https://proxy:3129", None);
        check("http://", None);
    }
}
