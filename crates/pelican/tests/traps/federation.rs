//! A federation whose director answers what a test wants.

use gular_pelican::{BLOCK_BYTES, Client, Error, Object, Url, Watch};

use crate::server::{Head, Server, Talk};

/// Discovery over TLS and a director; caches and origins are the test's own.
pub(crate) struct Federation {
    pub(crate) discovery: Server,
    pub(crate) director: Server,
}

impl Federation {
    pub(crate) fn start(
        director: impl Fn(&mut Talk, &Head) -> bool + Send + Sync + 'static,
    ) -> Self {
        let director = Server::start(director);
        let to = director.url.clone();
        let discovery = Server::start_tls(move |talk, _| {
            talk.answer("200 OK", "", format!("{{\"director_endpoint\": \"{to}\"}}").as_bytes());
            true
        });
        Self { discovery, director }
    }

    /// A federation whose director names these caches for a read, and these origins for a read from
    /// the origin; the first origin lists.
    pub(crate) fn of(caches: &[&str], origins: &[&str]) -> Self {
        let owned = |urls: &[&str]| urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>();
        let (caches, origins) = (owned(caches), owned(origins));
        Self::start(move |talk, head| {
            let direct = head.target.contains("directread");
            let places = if direct { &origins } else { &caches };
            let lists = origins.first().map_or("", String::as_str);
            answer(talk, head, &format!("require-token=false, collections-url={lists}"), places);
            true
        })
    }

    pub(crate) fn env(&self) -> [(&str, &str); 1] {
        [("SSL_CERT_FILE", self.discovery.certificate())]
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("{}{path}", self.discovery.url.replace("https", "pelican"))).unwrap()
    }

    /// How often the director was asked for an origin.
    pub(crate) fn asked_for_origin(&self) -> usize {
        self.director.heads().iter().filter(|head| head.target.contains("directread")).count()
    }
}

/// A director's answer for the namespace `/ns`, of which `rest` tells more.
pub(crate) fn answer(talk: &mut Talk, head: &Head, rest: &str, places: &[String]) {
    let depth = head.path().split('/').filter(|segment| !segment.is_empty()).count() - 1;
    let links = places.iter().enumerate().map(|(number, place)| {
        let (path, number) = (head.path(), number + 1);
        format!("<{place}{path}>; rel=\"duplicate\"; pri={number}; depth={depth}")
    });
    let links: Vec<String> = links.collect();
    let namespace = format!("X-Pelican-Namespace: namespace=/ns, {rest}");
    let headers = format!("{namespace}\r\nLink: {}\r\n", links.join(", "));
    talk.answer("307 Temporary Redirect", &headers, b"");
}

/// The URL of a server that takes no connection.
pub(crate) fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Streams an object that must be `expected`; returns what arrived.
pub(crate) fn stream(client: &Client, url: &Url, expected: &[u8]) -> Result<Vec<u8>, Error> {
    stream_blocks(client, url, expected, 0..u64::MAX)
}

/// Streams blocks of an object that must be `expected`; returns what arrived.
pub(crate) fn stream_blocks(
    client: &Client,
    url: &Url,
    expected: &[u8],
    blocks: std::ops::Range<u64>,
) -> Result<Vec<u8>, Error> {
    let accepts = |block: u64, bytes: &[u8]| {
        let start = usize::try_from(block).unwrap() * BLOCK_BYTES;
        expected.get(start..start + bytes.len()) == Some(bytes)
    };
    let start = blocks.start * BLOCK_BYTES as u64;
    let mut out = Vec::new();
    let mut sink = |position: u64, bytes: &[u8]| {
        assert_eq!(position, start + out.len() as u64, "blocks come in order, each once");
        out.extend_from_slice(bytes);
        Ok(())
    };
    let object = Object { url, len_bytes: expected.len() as u64, accepts: &accepts };
    client.stream(&object, blocks, &mut sink, Watch::never())?;
    Ok(out)
}

/// The range of a request, which must have both ends.
pub(crate) fn range(head: &Head) -> Option<(usize, usize)> {
    let (start, end) = head.exact("Range")?.strip_prefix("bytes=")?.split_once('-').unwrap();
    Some((start.parse().unwrap(), end.parse::<usize>().unwrap() + 1))
}

/// The head of a sound answer to a GET, and the bytes that belong after it.
pub(crate) fn part<'a>(head: &Head, bytes: &'a [u8]) -> (String, &'a [u8]) {
    let (status, header, bytes) = match range(head) {
        None => ("200 OK", String::new(), bytes),
        Some((start, end)) => {
            assert!(end <= bytes.len(), "a range past the end: {}", head.raw);
            let header = format!("Content-Range: bytes {start}-{}/{}\r\n", end - 1, bytes.len());
            ("206 Partial Content", header, &bytes[start..end])
        }
    };
    (format!("HTTP/1.1 {status}\r\n{header}Content-Length: {}\r\n\r\n", bytes.len()), bytes)
}

/// Answers a GET correctly.
pub(crate) fn serve_well(talk: &mut Talk, head: &Head, bytes: &[u8]) -> bool {
    let (answer, bytes) = part(head, bytes);
    talk.send([answer.as_bytes(), bytes].concat());
    true
}
