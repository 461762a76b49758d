//! Requests and answers of HTTP/1.1, as far as a page on this machine needs them.
//!
//! Only `GET` is answered, requests have no body, and each connection has one request. So this is
//! shorter than what joins hyper to a runtime, and needs neither in the program's memory.

use std::io::{self, Read, Write};

/// The most bytes of a request's head.
const MOST_HEAD: usize = 32 << 10;

/// A request whose head was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The path, as it was sent.
    pub(crate) path: String,
    /// Names and values of the query, decoded.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) host: Option<String>,
    pub(crate) origin: Option<String>,
}

/// What is sent back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) media_type: &'static str,
    pub(crate) body: Vec<u8>,
    /// Whether the same address always has this answer.
    pub(crate) is_fixed: bool,
}

/// The status of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    Forbidden,
    NotFound,
    NotGet,
    TooLong,
    Failed,
    Busy,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::NotGet => "405 Method Not Allowed",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::Failed => "500 Internal Server Error",
            Self::Busy => "503 Service Unavailable",
        }
    }
}

/// Only this server's own files run and are shown; pages on this machine, such as notebooks, may
/// have it as a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'self' http://127.0.0.1:* http://localhost:*";

impl Answer {
    pub(crate) fn text(status: Status, text: &str) -> Self {
        let body = format!("{text}\n").into_bytes();
        Self { status, media_type: "text/plain; charset=utf-8", body, is_fixed: false }
    }

    pub(crate) fn json(status: Status, value: &serde_json::Value) -> Self {
        let body = value.to_string().into_bytes();
        Self { status, media_type: "application/json", body, is_fixed: false }
    }

    pub(crate) fn png(body: Vec<u8>) -> Self {
        Self { status: Status::Ok, media_type: "image/png", body, is_fixed: true }
    }

    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let cache = if self.is_fixed { "private, max-age=3600" } else { "no-store" };
        let allow = if self.status == Status::NotGet { "Allow: GET\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: {cache}\r\nContent-Security-Policy: {POLICY}\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\n{allow}\r\n",
            self.status.line(),
            self.media_type,
            self.body.len(),
        );
        to.write_all(head.as_bytes())?;
        to.write_all(&self.body)?;
        to.flush()
    }
}

impl Request {
    /// Reads the head of a request. `Ok(None)`: the other side sent nothing.
    ///
    /// # Errors
    /// The answer for what is not a request that is answered here.
    pub(crate) fn read(from: &mut impl Read) -> Result<Option<Self>, Answer> {
        let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
        let end = loop {
            if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            if head.len() > MOST_HEAD {
                return Err(Answer::text(Status::TooLong, "the request is too long"));
            }
            match from.read(&mut buffer) {
                Ok(0) | Err(_) if head.is_empty() => return Ok(None),
                Ok(0) | Err(_) => return Err(bad("the request was cut off")),
                Ok(n) => head.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            }
        };
        let head = std::str::from_utf8(head.get(..end).unwrap_or_default());
        Self::parse(head.map_err(|_| bad("the request is not UTF-8"))?).map(Some)
    }

    fn parse(head: &str) -> Result<Self, Answer> {
        let mut lines = head.split("\r\n");
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, "HTTP/1.1" | "HTTP/1.0"] = words[..] else {
            return Err(bad("this is not a request of HTTP/1.1"));
        };
        if method != "GET" {
            return Err(Answer::text(Status::NotGet, "only GET is answered"));
        }
        if !target.starts_with('/') {
            return Err(bad("the address does not begin with `/`"));
        }
        let (mut host, mut origin) = (None, None);
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                return Err(bad("a header has no `:`"));
            };
            let (slot, value) = match name.to_ascii_lowercase().as_str() {
                "host" => (&mut host, value.trim()),
                "origin" => (&mut origin, value.trim()),
                _ => continue,
            };
            if slot.replace(value.to_owned()).is_some() {
                return Err(bad("a header is given twice"));
            }
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        };
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(pair);
        let query = query.collect::<Option<_>>().ok_or_else(|| bad("the query is not UTF-8"))?;
        Ok(Self { path: path.to_owned(), query, host, origin })
    }

    /// The value of a parameter; `None` if it is absent or empty.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

fn bad(why: &str) -> Answer {
    Answer::text(Status::BadRequest, why)
}

/// Decodes `%41` and `+`; `None` for what is not UTF-8 then.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                // A sign is not a digit, though `from_str_radix` takes it.
                let digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
                let digits = digits.collect::<Option<Vec<u32>>>()?;
                u8::try_from(digits.into_iter().fold(0, |sum, digit| sum * 16 + digit)).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(bytes: &[u8]) -> Status {
        Request::read(&mut &*bytes).unwrap_err().status
    }

    #[test]
    fn a_request_is_read_with_its_query() {
        let text = "GET /a/b?key=x%2Fy+z&%C3%A4=&n HTTP/1.1\r\nHOST: h:1\r\nOrigin: o\r\n\r\n";
        let request = Request::read(&mut text.as_bytes()).unwrap().unwrap();
        assert_eq!((request.path.as_str(), request.value("key")), ("/a/b", Some("x/y z")));
        assert_eq!(
            (request.value("ä"), request.value("n"), request.value("o")),
            (None, None, None)
        );
        assert_eq!((request.host.as_deref(), request.origin.as_deref()), (Some("h:1"), Some("o")));
        assert_eq!(Request::read(&mut &b""[..]).unwrap(), None);
    }

    #[test]
    fn what_is_not_a_request_is_refused() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"\r\n\r\n",
            b"GET /\r\n\r\n",
            b"GET / HTTP/2\r\n\r\n",
            b"GET http://other/ HTTP/1.1\r\n\r\n",
            b"GET /?a=%ff HTTP/1.1\r\n\r\n",
            b"GET /?a=%4 HTTP/1.1\r\n\r\n",
            b"GET /?a=%+1 HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nnothing\r\n\r\n",
            b"\x16\x03\x01\xff\r\n\r\n",
        ] {
            assert_eq!(status(bytes), Status::BadRequest, "{}", bytes.escape_ascii());
        }
        assert_eq!(status(b"POST / HTTP/1.1\r\n\r\n"), Status::NotGet);
        assert_eq!(status(&[b'a'; MOST_HEAD + 5000]), Status::TooLong);
    }
}
