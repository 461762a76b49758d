//! A server: scheme, host, port.

use std::fmt;

use crate::url::is_authority;

/// A server: scheme, host, port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    tls: bool,
    host: String,
    port: u16,
}

impl Server {
    /// The server of `http[s]://HOST[:PORT]…` and the rest of that URL, which
    /// starts with `/` or is empty.
    pub fn split(url: &str) -> Option<(Self, &str)> {
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

    /// Whether a token may be sent to the server: over TLS, or to this very machine.
    pub fn keeps_secrets(&self) -> bool {
        self.tls || matches!(self.host.as_str(), "localhost" | "127.0.0.1" | "[::1]")
    }

    /// The server's name or address, an IPv6 address in brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls
    }

    /// Looks up the server's name.
    pub(super) async fn resolve(&self) -> std::io::Result<()> {
        match tokio::net::lookup_host((self.bare_host(), self.port)).await?.next() {
            Some(_) => Ok(()),
            None => Err(std::io::Error::new(std::io::ErrorKind::NotFound, "it has no address")),
        }
    }

    /// The server's name or address in the form that the system's functions take.
    pub(super) fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
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
}
