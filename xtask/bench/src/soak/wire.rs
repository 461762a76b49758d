//! HTTP/1.1, as far as the client and the development federation speak it: heads, bodies with a
//! length, and connections to a server with TLS.

use std::io::{self, BufRead, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Nobody here sends a longer head.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// Nothing that is published or listed here is longer.
const MAX_BODY_BYTES: usize = 64 << 20;

/// The head of a request or of an answer: the first line, and the headers as they were sent.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) first: String,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(super) fn new(first: impl Into<String>) -> Self {
        Self { first: first.into(), headers: Vec::new() }
    }

    /// Reads a head; `None` if the connection ended before it.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut from = from.take(MAX_HEAD_BYTES);
        let mut line = || -> io::Result<Option<String>> {
            let mut line = String::new();
            let n = from.read_line(&mut line)?;
            Ok((n > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
        };
        let Some(first) = line()? else { return Ok(None) };
        let mut head = Self::new(first);
        loop {
            let line = line()?.ok_or(ErrorKind::UnexpectedEof)?;
            if line.is_empty() {
                return Ok(Some(head));
            }
            let (name, value) = line.split_once(':').ok_or(ErrorKind::InvalidData)?;
            head.headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    /// The value of a header, whose name may be spelt in capitals.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.remove(name);
        self.headers.push((name.to_owned(), value.into()));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{}\r\n", self.first);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    /// Of a request: `GET`, for example.
    pub(super) fn method(&self) -> &str {
        self.first.split(' ').next().unwrap_or_default()
    }

    /// Of a request: the path and the query.
    pub(super) fn target(&self) -> &str {
        self.first.split(' ').nth(1).unwrap_or_default()
    }

    /// Of a request: the path alone.
    pub(super) fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or_default()
    }

    /// Of a request: the first and the last byte that it asks for.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        let (first, last) = self.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }

    /// Of an answer: 200, for example.
    pub(super) fn status(&self) -> u16 {
        self.first.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// The length of the body that follows; 0 if none is given.
    pub(super) fn len(&self) -> io::Result<usize> {
        if self.get("transfer-encoding").is_some() {
            return Err(io::Error::other("a body in chunks, which no client here sends"));
        }
        let len = self.get("content-length").map_or(Ok(0), str::parse);
        match len {
            Ok(len) if len <= MAX_BODY_BYTES => Ok(len),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }
}

/// Reads a body of this length.
pub(super) fn body(from: &mut impl BufRead, len: usize) -> io::Result<Vec<u8>> {
    let mut body = vec![0; len];
    from.read_exact(&mut body)?;
    Ok(body)
}

/// An answer as a server gave it. The answer to HEAD has the length of a body, and none.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) head: Head,
    pub(super) body: Vec<u8>,
}

/// A server of this machine, reached over TLS.
#[derive(Debug, Clone)]
pub(super) struct Upstream {
    port: u16,
    config: Arc<ClientConfig>,
}

impl Upstream {
    /// The server at `https://localhost:PORT`, whose certificate the authority in `ca_file` signed.
    pub(super) fn new(url: &str, ca_file: &Path) -> Result<Self> {
        let port = url.rsplit(':').next().and_then(|port| port.parse().ok());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca_file).context("cannot read a certificate")?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { port: port.context("a server without a port")?, config: Arc::new(config) })
    }

    pub(super) fn connect(&self) -> io::Result<Connection> {
        let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(Duration::from_secs(30)))?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let tls =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        Ok(Connection { stream: BufReader::new(StreamOwned::new(tls, tcp)), port: self.port })
    }
}

/// A connection to an [`Upstream`].
pub(super) struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
    port: u16,
}

impl Connection {
    /// Passes a request on, and returns the answer.
    pub(super) fn ask(&mut self, request: &Head, body: &[u8]) -> io::Result<Answer> {
        let mut passed = request.clone();
        passed.set("Host", format!("localhost:{}", self.port));
        // The body is here already.
        passed.remove("Expect");
        passed.remove("Connection");
        let to = self.stream.get_mut();
        to.write_all(&passed.bytes())?;
        to.write_all(body)?;
        to.flush()?;
        let mut head = Head::read(&mut self.stream)?.ok_or(ErrorKind::UnexpectedEof)?;
        let body = match (request.method(), head.status()) {
            ("HEAD", _) | (_, 204 | 304) => Vec::new(),
            _ if head.get("transfer-encoding").is_some() => {
                let body = chunks(&mut self.stream)?;
                head.remove("Transfer-Encoding");
                head.set("Content-Length", body.len().to_string());
                body
            }
            _ => self::body(&mut self.stream, head.len()?)?,
        };
        Ok(Answer { head, body })
    }
}

/// Reads a body in chunks (RFC 9112, section 7.1), and drops the trailer.
fn chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let mut line = String::new();
        from.take(MAX_HEAD_BYTES).read_line(&mut line)?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let len = usize::from_str_radix(digits, 16).map_err(io::Error::other)?;
        if len == 0 {
            break;
        }
        if whole.len().saturating_add(len) > MAX_BODY_BYTES {
            return Err(ErrorKind::InvalidData.into());
        }
        whole.extend(body(from, len)?);
        body(from, "\r\n".len())?;
    }
    while {
        let mut line = String::new();
        from.take(MAX_HEAD_BYTES).read_line(&mut line)? > "\r\n".len()
    } {}
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_in_chunks_are_read() {
        let text = "4\r\nab\r\n\r\n3;x=y\r\ncde\r\n0\r\nTrailer: t\r\n\r\nrest";
        let mut from = text.as_bytes();
        assert_eq!(chunks(&mut from).unwrap(), b"ab\r\ncde");
        assert_eq!(from, b"rest");
        for wrong in ["x\r\n", "5\r\nab", "ffffffffffffffff\r\n"] {
            assert!(chunks(&mut wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn heads_are_read_and_written() {
        let text = "GET /a/b?c HTTP/1.1\r\nHost: h\r\nRange: bytes=5-9\r\n\r\n";
        let mut head = Head::read(&mut text.as_bytes()).unwrap().unwrap();
        assert_eq!((head.method(), head.target(), head.path()), ("GET", "/a/b?c", "/a/b"));
        assert_eq!((head.range(), head.get("RANGE")), (Some((5, 9)), Some("bytes=5-9")));
        assert_eq!(head.bytes(), text.as_bytes());
        head.set("host", "i");
        head.remove("range");
        assert_eq!(head.bytes(), b"GET /a/b?c HTTP/1.1\r\nhost: i\r\n\r\n");
        assert!(Head::read(&mut &b""[..]).unwrap().is_none());
        assert!(Head::read(&mut &b"GET / HTTP/1.1\r\nA: b\r\n"[..]).is_err());
    }
}
