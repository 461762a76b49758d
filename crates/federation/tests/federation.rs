//! The development federation, asked over real sockets, in plain HTTP/1.1.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gular_federation::{
    Caches, Error, Federation, MAX_LIFETIME, Options, Origin, TokenRequest, mint,
};
use gular_pelican::Token;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A federation in a folder of its own.
struct Site {
    federation: Federation,
    tls: Arc<ClientConfig>,
    dir: tempfile::TempDir,
}

/// An answer, read to the connection's end.
#[derive(Debug)]
struct Answer {
    status: u16,
    /// The headers, with names in lower case.
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a whole head");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        if status == 100 {
            return Self::parse(&bytes[end + 4..]);
        }
        let header = |line: &str| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Self { status, headers: lines.map(header).collect(), body: bytes[end + 4..].to_vec() }
    }
}

impl Site {
    fn start(change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::new(dir.path());
        change(&mut options);
        let federation = Federation::start(&options).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(federation.ca_file()).unwrap()).unwrap();
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { federation, tls: Arc::new(tls), dir }
    }

    fn connect(&self, server: &str) -> Stream {
        let port = server.rsplit(':').next().unwrap();
        let tcp = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::clone(&self.tls), name).unwrap(), tcp)
    }

    /// Sends `head` (lines, less the blank one) and `body`; reads to the end.
    fn raw(&self, server: &str, head: &str, body: &[u8]) -> Answer {
        let mut stream = self.connect(server);
        let head = head.replace('\n', "\r\n");
        let request = format!("{head}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        // A refusal may arrive before all bytes are sent.
        let _ = stream.write_all(body).and_then(|()| stream.flush());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes)
    }

    fn origin(&self, head: &str, body: &[u8]) -> Answer {
        self.raw(&self.federation.origin_url(), head, body)
    }

    fn cache(&self, head: &str) -> Answer {
        self.raw(&self.federation.cache_url().unwrap(), head, b"")
    }

    fn director(&self, head: &str) -> Answer {
        self.raw(&self.discovery(), head, b"")
    }

    fn discovery(&self) -> String {
        self.federation.url().replace("pelican://", "https://").replace("/gular", "")
    }

    /// Returns an `Authorization` line that allows these actions.
    fn token(&self, read: &[&str], create: &[&str], modify: &[&str]) -> String {
        format!("Authorization: Bearer {}", self.mint(read, create, modify).secret())
    }

    fn mint(&self, read: &[&str], create: &[&str], modify: &[&str]) -> Token {
        let list = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let request = TokenRequest {
            read: list(read),
            create: list(create),
            modify: list(modify),
            ..TokenRequest::default()
        };
        mint(self.dir.path(), &request).unwrap()
    }

    fn put(&self, path: &str, body: &[u8], token: &str) -> Answer {
        let n = body.len();
        self.origin(&format!("PUT {path} HTTP/1.1\nContent-Length: {n}\n{token}"), body)
    }

    fn stored(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.dir.path().join("origin").join(path.trim_start_matches('/'))).ok()
    }

    /// Number of files of unfinished uploads.
    fn n_partial(&self) -> usize {
        fs::read_dir(self.dir.path().join(".gular-partial")).unwrap().count()
    }
}

/// Waits until `done`, for what has no other sign; fails after a minute.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = SystemTime::now() + Duration::from_secs(60);
    while !done() {
        assert!(SystemTime::now() < end, "still waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn discovery_names_the_director_and_the_issuers_keys() {
    let site = Site::start(|_| {});
    let json = |path: &str| -> serde_json::Value {
        let answer = site.director(&format!("GET {path} HTTP/1.1"));
        assert_eq!(answer.status, 200, "{path}");
        serde_json::from_slice(&answer.body).unwrap()
    };
    let url = site.discovery();
    assert_eq!(json("/.well-known/pelican-configuration")["director_endpoint"], url.as_str());
    let configuration = json("/.well-known/openid-configuration");
    assert_eq!(configuration["issuer"], url.as_str());
    let keys = configuration["jwks_uri"].as_str().unwrap().replace(&url, "");
    let key = &json(&keys)["keys"][0];
    assert_eq!((&key["kty"], &key["crv"]), (&"EC".into(), &"P-256".into()));
    assert!(key["x"].as_str().unwrap().len() == 43 && key["y"].as_str().unwrap().len() == 43);
}

#[test]
fn the_director_sends_reads_to_the_cache_and_all_else_to_the_origin() {
    let site = Site::start(|_| {});
    let (origin, cache) = (site.federation.origin_url(), site.federation.cache_url().unwrap());
    for (request, server) in [
        ("GET /gular/a/b%20c", &cache),
        ("HEAD /gular/a/b%20c", &cache),
        ("GET /api/v1.0/director/object/gular/a/b%20c", &cache),
        ("GET /gular/a/b%20c?directread", &origin),
        ("GET /api/v1.0/director/origin/gular/a/b%20c", &origin),
        ("PUT /gular/a/b%20c", &origin),
        ("DELETE /gular/a/b%20c", &origin),
        ("PROPFIND /gular/a/b%20c", &origin),
    ] {
        let answer = site.director(&format!("{request} HTTP/1.1"));
        assert_eq!(answer.status, 307, "{request}");
        let link = format!("<{server}/gular/a/b%20c>; rel=\"duplicate\"; pri=1; depth=2");
        assert_eq!(answer.header("link"), Some(link.as_str()), "{request}");
        let query = if request.ends_with("directread") { "?directread" } else { "" };
        let location = format!("{server}/gular/a/b%20c{query}");
        assert_eq!(answer.header("location"), Some(location.as_str()), "{request}");
        let namespace = format!("namespace=/gular, require-token=true, collections-url={origin}");
        assert_eq!(answer.header("x-pelican-namespace"), Some(namespace.as_str()));
        let issuer = site.discovery();
        let authorization = format!("issuer={issuer}");
        assert_eq!(answer.header("x-pelican-authorization"), Some(authorization.as_str()));
        let generation =
            format!("issuer={issuer}, max-scope-depth=3, strategy=OAuth2, base-path=/gular");
        assert_eq!(answer.header("x-pelican-token-generation"), Some(generation.as_str()));
        assert!(answer.header("server").unwrap().starts_with("pelican/7."));
    }
    assert_eq!(site.federation.counts().director_queries, 8);
}

#[test]
fn the_director_says_in_json_what_it_does_not_know() {
    let site = Site::start(|_| {});
    for (request, status) in [
        ("GET /other/x", 404),
        ("GET /gularx/x", 404),
        ("PUT /other/x", 404),
        ("GET /gular/../x", 400),
        ("GET /gular/%2e%2e/x", 400),
        ("GET /gular/x?directread&prefercached", 400),
        ("POST /gular/x", 405),
        ("GET /api/v1.0/director/else/x", 404),
    ] {
        let answer = site.director(&format!("{request} HTTP/1.1"));
        assert_eq!(answer.status, status, "{request}");
        assert_eq!(answer.header("link"), None, "{request}");
        let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(json["status"], "error");
    }
    let answer = site.director("GET /gular/x?redirect=false HTTP/1.1");
    assert_eq!((answer.status, answer.header("location")), (200, None));
    assert!(answer.header("link").is_some());
}

#[test]
fn servers_of_others_are_only_named() {
    let site = Site::start(|options| {
        options.namespace = "/test/ns".to_owned();
        options.origin = Origin::External("http://localhost:18094/".to_owned());
        options.caches =
            Caches::External(vec!["http://localhost:1".into(), "http://localhost:2".into()]);
        options.issuer = Some("https://issuer.example".to_owned());
        options.require_token = true;
    });
    let discovery = site.federation.url().replace("pelican", "https").replace("/test/ns", "");
    let answer = site.raw(&discovery, "GET /test/ns/x HTTP/1.1", b"");
    assert_eq!(
        answer.header("link"),
        Some(
            "<http://localhost:1/test/ns/x>; rel=\"duplicate\"; pri=1; depth=1, \
             <http://localhost:2/test/ns/x>; rel=\"duplicate\"; pri=2; depth=1"
        )
    );
    assert_eq!(
        answer.header("x-pelican-namespace"),
        Some("namespace=/test/ns, require-token=true, collections-url=http://localhost:18094")
    );
    assert_eq!(answer.header("x-pelican-authorization"), Some("issuer=https://issuer.example"));
    let put = site.raw(&discovery, "PUT /test/ns/x HTTP/1.1", b"");
    assert_eq!(put.header("location"), Some("http://localhost:18094/test/ns/x"));
}

#[test]
fn without_caches_reads_go_to_the_origin() {
    let site = Site::start(|options| options.caches = Caches::None);
    assert_eq!(site.federation.cache_url(), None);
    let answer = site.director("GET /gular/x HTTP/1.1");
    let location = format!("{}/gular/x", site.federation.origin_url());
    assert_eq!(answer.header("location"), Some(location.as_str()));
}

#[test]
fn what_is_put_is_got_with_any_case_of_header() {
    let site = Site::start(|_| {});
    let data: Vec<u8> = (0..700_000_u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let token = site.token(&["/"], &["/"], &[]);
    let length = data.len();
    for (path, head) in [
        ("/gular/a/title", format!("Content-Length: {length}\n{token}")),
        (
            "/gular/a/lower",
            format!(
                "content-length: {length}\n{}",
                token.replace("Authorization", "authorization")
            ),
        ),
        ("/gular/a/query", format!("Content-Length: {length}")),
    ] {
        let authz = token.rsplit(' ').next().unwrap();
        let query = if path.ends_with("query") { format!("?authz={authz}") } else { String::new() };
        let put = site.origin(&format!("PUT {path}{query} HTTP/1.1\n{head}"), &data);
        assert_eq!(put.status, 201, "{path}: {}", put.text());
        assert_eq!(site.stored(path).as_deref(), Some(data.as_slice()), "{path}");
        let got = site.origin(&format!("GET {path} HTTP/1.1\n{token}"), b"");
        assert_eq!((got.status, got.body == data), (200, true), "{path}");
        let got = site.cache(&format!("GET {path} HTTP/1.1\n{token}"));
        assert_eq!((got.status, got.body == data), (200, true), "{path}");
        let head = site.cache(&format!("HEAD {path} HTTP/1.1\n{token}"));
        assert_eq!(head.header("content-length"), Some(length.to_string().as_str()));
        assert!(head.body.is_empty());
    }
    assert_eq!(site.put("/gular/empty", b"", &token).status, 201);
    assert_eq!(site.stored("/gular/empty"), Some(Vec::new()));
    assert_eq!(site.n_partial(), 0);
}

#[test]
fn chunked_uploads_are_whole() {
    let site = Site::start(|_| {});
    let token = site.token(&[], &["/"], &[]);
    let head = format!("PUT /gular/c HTTP/1.1\nTransfer-Encoding: chunked\n{token}");
    let put = site.origin(&head, b"3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\n\r\n");
    assert_eq!(put.status, 201);
    assert_eq!(site.stored("/gular/c").as_deref(), Some(&b"abcdefgh"[..]));
    // The connection is cut before the last chunk.
    let head = format!("PUT /gular/d HTTP/1.1\nTransfer-Encoding: chunked\n{token}");
    let mut stream = site.connect(&site.federation.origin_url());
    let head = format!("{}\r\nHost: localhost\r\n\r\n5\r\nabcde\r\n", head.replace('\n', "\r\n"));
    stream.write_all(head.as_bytes()).unwrap();
    stream.flush().unwrap();
    wait_until("the upload began", || site.n_partial() == 1);
    drop(stream);
    wait_until("the upload is gone", || site.n_partial() == 0);
    assert_eq!(site.stored("/gular/d"), None);
}

#[test]
fn a_cut_upload_leaves_nothing_and_no_other_bytes() {
    let site = Site::start(|_| {});
    let modify = site.token(&[], &[], &["/"]);
    assert_eq!(site.put("/gular/old", b"old", &modify).status, 201);
    for path in ["/gular/new", "/gular/old"] {
        let mut stream = site.connect(&site.federation.origin_url());
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n{modify}\r\n\r\nabc"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.flush().unwrap();
        wait_until("the upload began", || site.n_partial() == 1);
        stream.sock.shutdown(std::net::Shutdown::Both).unwrap();
        wait_until("the upload is gone", || site.n_partial() == 0);
    }
    assert_eq!(site.stored("/gular/new"), None);
    assert_eq!(site.stored("/gular/old").as_deref(), Some(&b"old"[..]));
    assert_eq!(site.put("/gular/new", b"abc", &modify).status, 201);
}

#[test]
fn uploads_wait_for_100_continue_or_hear_why_not() {
    let site = Site::start(|_| {});
    let token = site.token(&[], &["/"], &[]);
    let head = |path: &str, token: &str| {
        format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Expect: 100-continue\r\nContent-Length: 3\r\n{token}\r\n\r\n"
        )
    };
    let mut stream = site.connect(&site.federation.origin_url());
    stream.write_all(head("/gular/x", &token).as_bytes()).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert_eq!(Answer::parse(&rest).status, 201);

    let mut stream = site.connect(&site.federation.origin_url());
    stream.write_all(head("/gular/y", "X-No: token").as_bytes()).unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.starts_with(b"HTTP/1.1 401 "), "no body was asked for");
    // Without `Expect`, the body is read, so that the answer arrives.
    let refused = site.put("/gular/y", &vec![0; 3 << 20], "X-No: token");
    assert_eq!((refused.status, site.stored("/gular/y")), (401, None));
}

#[test]
fn ranges_are_exact_at_origin_and_cache() {
    let site = Site::start(|options| options.public_read = true);
    let token = site.token(&[], &["/"], &[]);
    assert_eq!(site.put("/gular/r", b"0123456789", &token).status, 201);
    let servers = [site.federation.origin_url(), site.federation.cache_url().unwrap()];
    for server in &servers {
        for (range, status, content_range, body) in [
            ("bytes=2-4", 206, Some("bytes 2-4/10"), "234"),
            ("bytes=7-", 206, Some("bytes 7-9/10"), "789"),
            ("bytes=-2", 206, Some("bytes 8-9/10"), "89"),
            ("bytes=8-99", 206, Some("bytes 8-9/10"), "89"),
            ("bytes=0-1,3-4", 200, None, "0123456789"),
            ("bytes=4-2", 200, None, "0123456789"),
        ] {
            let answer = site.raw(server, &format!("GET /gular/r HTTP/1.1\nrange: {range}"), b"");
            let seen = (answer.status, answer.header("content-range"), answer.text());
            assert_eq!(seen, (status, content_range, body.to_owned()), "{range}");
        }
        let past = site.raw(server, "GET /gular/r HTTP/1.1\nRange: bytes=10-11", b"");
        assert_eq!((past.status, past.header("content-range")), (416, Some("bytes */10")));
        let head = site.raw(server, "HEAD /gular/r HTTP/1.1\nRange: bytes=2-4", b"");
        assert_eq!((head.status, head.header("content-length")), (200, Some("10")));
    }
}

#[test]
fn digests_are_of_the_stored_bytes() {
    let site = Site::start(|options| options.public_read = true);
    let token = site.token(&[], &["/"], &[]);
    site.put("/gular/d", b"123456789", &token);
    for (want, digest) in [
        ("crc32c,md5", "crc32c=e3069283"),
        ("md5", "md5=JfnnlDI7RTiF9RgfG2JNCw=="),
        ("sha-256", "crc32c=e3069283"),
    ] {
        for method in ["HEAD", "GET"] {
            let request = format!("{method} /gular/d HTTP/1.1\nWant-Digest: {want}");
            assert_eq!(site.origin(&request, b"").header("digest"), Some(digest));
            assert_eq!(site.cache(&request).header("digest"), Some(digest));
        }
    }
    assert_eq!(site.origin("HEAD /gular/d HTTP/1.1", b"").header("digest"), None);
}

#[test]
fn collections_are_listed() {
    let site = Site::start(|options| options.public_read = true);
    let token = site.token(&[], &["/"], &["/"]);
    for path in ["/gular/d/b%20c.bin", "/gular/d/a.bin", "/gular/d/sub/x"] {
        assert_eq!(site.put(path, b"12345", &token).status, 201);
    }
    let list = |path: &str, depth: &str| {
        site.origin(&format!("PROPFIND {path} HTTP/1.1\nDepth: {depth}"), b"")
    };
    let hrefs = |answer: &Answer| -> Vec<String> {
        assert_eq!(answer.status, 207, "{}", answer.text());
        let text = answer.text();
        text.split("<D:href>").skip(1).map(|t| t.split('<').next().unwrap().to_owned()).collect()
    };
    let all = ["/gular/d", "/gular/d/a.bin", "/gular/d/b%20c.bin", "/gular/d/sub"];
    assert_eq!(hrefs(&list("/gular/d", "1")), all);
    assert_eq!(hrefs(&list("/gular/d/", "1")), all);
    assert_eq!(hrefs(&list("/gular/d", "0")), ["/gular/d"]);
    let file = list("/gular/d/a.bin", "1");
    assert_eq!(hrefs(&file), ["/gular/d/a.bin"]);
    assert!(
        file.text().contains("getcontentlength>5<") && !file.text().contains("<D:collection/>")
    );
    assert!(list("/gular/d/sub", "0").text().contains("<D:collection/>"));
    assert_eq!(list("/gular/d/a.bin/", "1").status, 404);
    assert_eq!(list("/gular/nope", "0").status, 404);
    assert_eq!(list("/gular/d", "2").status, 400);
    // Names that no request can spell are not told of.
    fs::write(site.dir.path().join("origin/gular/d/sub/a?b"), b"").unwrap();
    assert_eq!(hrefs(&list("/gular/d/sub", "1")), ["/gular/d/sub", "/gular/d/sub/x"]);

    let page = site.origin("GET /gular/d HTTP/1.1", b"");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("href=\"/gular/d/sub/\""));

    let mkcol = |path: &str| site.origin(&format!("MKCOL {path} HTTP/1.1\n{token}"), b"").status;
    assert_eq!((mkcol("/gular/m"), mkcol("/gular/m"), mkcol("/gular/d/a.bin/x")), (201, 405, 409));
    let delete = |path: &str| site.origin(&format!("DELETE {path} HTTP/1.1\n{token}"), b"").status;
    assert_eq!((delete("/gular/m"), delete("/gular/m"), delete("/gular/d")), (204, 404, 409));
    assert_eq!((delete("/gular/d/a.bin"), delete("/gular")), (204, 403));
    assert_eq!(site.put("/gular/d/sub", b"", &token).status, 409);
    assert_eq!(site.put("/gular/d/sub/x/y", b"", &token).status, 409);
}

#[test]
fn create_makes_and_only_modify_overwrites() {
    let site = Site::start(|_| {});
    let create = site.token(&[], &["/"], &[]);
    let modify = site.token(&[], &[], &["/"]);
    assert_eq!(site.put("/gular/x", b"one", &create).status, 201);
    let again = site.put("/gular/x", b"two", &create);
    assert_eq!(again.status, 403);
    assert!(again.text().contains("the object exists") && again.text().contains("storage.modify"));
    for token in [&create, &modify] {
        let answer = site.put("/gular/x", b"two", &format!("If-None-Match: *\n{token}"));
        assert_eq!(answer.status, 412);
    }
    assert_eq!(site.stored("/gular/x").as_deref(), Some(&b"one"[..]));
    let delete = format!("DELETE /gular/x HTTP/1.1\n{create}");
    assert_eq!(site.origin(&delete, b"").status, 403);
    assert_eq!(site.put("/gular/x", b"two", &modify).status, 200);
    assert_eq!(site.stored("/gular/x").as_deref(), Some(&b"two"[..]));
    assert_eq!(site.put("/gular/new", b"new", &modify).status, 201);
    let read = format!("GET /gular/x HTTP/1.1\n{create}");
    assert_eq!(site.origin(&read, b"").status, 403);
    let delete = format!("DELETE /gular/x HTTP/1.1\n{modify}");
    assert_eq!(site.origin(&delete, b"").status, 204);
    assert_eq!(site.stored("/gular/x"), None);
}

#[test]
fn scopes_end_at_a_slash() {
    let site = Site::start(|_| {});
    let token = site.token(&["/sub"], &["/sub"], &[]);
    let check = |path: &str, expected: [u16; 3]| {
        let put = site.put(path, b"x", &token).status;
        let get = site.origin(&format!("GET {path} HTTP/1.1\n{token}"), b"").status;
        let cache = site.cache(&format!("GET {path} HTTP/1.1\n{token}")).status;
        assert_eq!([put, get, cache], expected, "{path}");
    };
    check("/gular/sub/a", [201, 200, 200]);
    check("/gular/subx", [403, 403, 403]);
    check("/gular/a", [403, 403, 403]);
    check("/gular/subx/../sub/b", [400, 400, 400]);
    check("/other/sub/b", [404, 404, 404]);
    let list = format!("PROPFIND /gular HTTP/1.1\nDepth: 1\n{token}");
    assert_eq!(site.origin(&list, b"").status, 403);
}

#[test]
fn refusals_say_why_and_never_echo_the_token() {
    let site = Site::start(|_| {});
    let other = Site::start(|_| {});
    let foreign = other.mint(&["/"], &[], &[]).secret().to_owned();
    let wrong = site.mint(&["/sub"], &["/"], &[]).secret().to_owned();
    for (authorization, status, reason) in [
        (None, 401, "there is none"),
        (Some("Basic abcdef".to_owned()), 401, "not a bearer token"),
        (Some("Bearer s3cr3t-garbage".to_owned()), 401, "not a JSON Web Token"),
        (Some(format!("Bearer {foreign}")), 401, "another issuer"),
        (Some(format!("Bearer {wrong}")), 403, "no scope `storage.read`"),
    ] {
        let line = authorization.as_ref().map(|a| format!("\nAuthorization: {a}"));
        let head = format!("GET /gular/x HTTP/1.1{}", line.unwrap_or_default());
        for answer in [site.origin(&head, b""), site.cache(&head)] {
            assert_eq!(answer.status, status, "{reason}");
            assert!(answer.text().contains(reason), "{} for {reason}", answer.text());
            assert_eq!(answer.header("www-authenticate").is_some(), status == 401);
            let secret = authorization.as_deref().and_then(|a| a.split(' ').nth(1));
            let whole = format!("{:?}{}", answer.headers, answer.text());
            assert!(secret.is_none_or(|secret| !whole.contains(secret)), "{whole}");
        }
    }
}

#[test]
fn tokens_end() {
    let site = Site::start(|_| {});
    let request = TokenRequest {
        read: vec!["/".into()],
        lifetime: Duration::from_secs(1),
        ..TokenRequest::default()
    };
    let token = mint(site.dir.path(), &request).unwrap();
    let head = format!("GET /gular/x HTTP/1.1\nAuthorization: Bearer {}", token.secret());
    wait_until("the token is refused", || site.origin(&head, b"").status == 401);
    assert!(site.origin(&head, b"").text().contains("the token has expired"));
    for lifetime in [Duration::ZERO, MAX_LIFETIME + Duration::from_secs(1)] {
        let error = mint(site.dir.path(), &TokenRequest { lifetime, ..request.clone() });
        assert!(matches!(error, Err(Error::Lifetime { limit: MAX_LIFETIME, .. })));
    }
}

#[test]
fn public_reading_takes_no_token_and_writing_does() {
    let site = Site::start(|options| options.public_read = true);
    let create = site.token(&[], &["/"], &[]);
    assert_eq!(site.put("/gular/x", b"x", "X-No: token").status, 401);
    assert_eq!(site.put("/gular/x", b"x", &create).status, 201);
    assert_eq!(site.origin("GET /gular/x HTTP/1.1", b"").status, 200);
    assert_eq!(site.cache("GET /gular/x HTTP/1.1").status, 200);
    assert_eq!(site.origin("DELETE /gular/x HTTP/1.1", b"").status, 401);
    let answer = site.director("GET /gular/x HTTP/1.1");
    assert!(answer.header("x-pelican-namespace").unwrap().contains("require-token=false"));
}

#[test]
fn a_cache_never_learns_of_a_change() {
    let site = Site::start(|_| {});
    let token = site.token(&["/"], &[], &["/"]);
    let get = format!("GET /gular/x HTTP/1.1\n{token}");
    assert_eq!(site.cache(&get).status, 404);
    site.put("/gular/x", b"first", &token);
    let miss = site.cache(&get);
    assert_eq!((miss.text().as_str(), miss.header("age")), ("first", Some("0")));
    site.put("/gular/x", b"second", &token);
    let hit = site.cache(&get);
    assert_eq!(hit.text(), "first");
    assert!(hit.header("age").unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(site.origin(&get, b"").text(), "second");
    site.origin(&format!("DELETE /gular/x HTTP/1.1\n{token}"), b"");
    assert_eq!(site.cache(&get).text(), "first");
    // A change of the copy in the cache is visible, though the origin does not have it.
    fs::write(site.dir.path().join("cache/gular/x"), b"fir5t").unwrap();
    assert_eq!(site.cache(&get).text(), "fir5t");
    for method in ["PUT", "DELETE", "POST"] {
        let head = format!("{method} /gular/x HTTP/1.1\nContent-Length: 0\n{token}");
        let answer = site.cache(&head);
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD, PROPFIND")));
    }
}

#[test]
fn misses_of_one_object_read_the_origin_once() {
    let site = Site::start(|options| options.public_read = true);
    let data = vec![7; 5 << 20];
    site.put("/gular/big", &data, &site.token(&[], &["/"], &[]));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(site.cache("GET /gular/big HTTP/1.1").body == data));
        }
    });
    let counts = site.federation.counts();
    assert_eq!((counts.origin_reads, counts.cache_misses, counts.cache_hits), (1, 1, 7));
    assert_eq!(site.cache("HEAD /gular/other HTTP/1.1").status, 404);
}

#[test]
fn a_long_and_narrow_way_takes_its_time() {
    let site = Site::start(|options| {
        options.public_read = true;
        options.latency = Duration::from_millis(40);
        options.max_bytes_per_second = Some(4 << 20);
    });
    let (data, token) = (vec![7; 256 << 10], site.token(&[], &["/"], &[]));
    let takes = |least: u64, answer: &dyn Fn() -> Answer| {
        let begun = Instant::now();
        let answer = answer();
        assert!(begun.elapsed() >= Duration::from_millis(least), "{:?}", begun.elapsed());
        answer
    };
    // A quarter of a MiB takes 62 ms; a request 40, and one more where the cache asks the origin.
    assert_eq!(takes(102, &|| site.put("/gular/x", &data, &token)).status, 201);
    assert!(takes(142, &|| site.cache("GET /gular/x HTTP/1.1")).body == data);
    assert!(takes(102, &|| site.cache("GET /gular/x HTTP/1.1")).body == data);
    assert_eq!(takes(40, &|| site.director("GET /gular/x HTTP/1.1")).status, 307);
}

#[test]
fn a_cold_start_forgets_the_copies_and_anybody_may_read_the_counts() {
    let mut site = Site::start(|options| options.public_read = true);
    site.put("/gular/x", b"bytes", &site.token(&[], &["/"], &[]));
    let mut start = |cold| {
        let options = Options { cold, public_read: true, ..Options::new(site.dir.path()) };
        // The folder is free again before it is served once more.
        let other = Federation::start(&Options::new(site.dir.path().join("other"))).unwrap();
        drop(std::mem::replace(&mut site.federation, other));
        site.federation = Federation::start(&options).unwrap();
        site.cache("GET /gular/x HTTP/1.1");
        let counts = site.director("GET /.well-known/gular-counts HTTP/1.1").text();
        let counts: serde_json::Value = serde_json::from_str(&counts).unwrap();
        assert_eq!((&counts["requests"], &counts["bytes_sent"]), (&1.into(), &5.into()));
        (counts["cache_misses"].as_u64().unwrap(), counts["cache_hits"].as_u64().unwrap())
    };
    assert_eq!(start(false), (1, 0));
    assert_eq!(start(false), (0, 1));
    assert_eq!(start(true), (1, 0));
}

#[test]
fn a_cold_start_removes_no_folder_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("cache/kept");
    fs::create_dir(dir.path().join("cache")).unwrap();
    fs::write(&kept, "kept").unwrap();
    let options = Options { cold: true, ..Options::new(dir.path()) };
    for _ in 0..2 {
        let error = Federation::start(&options).unwrap_err();
        assert!(matches!(error, Error::NotOurs { .. }), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    assert!(kept.exists());
}

#[test]
fn no_name_leaves_the_folder() {
    let site = Site::start(|options| options.public_read = true);
    let token = site.token(&[], &["/"], &["/"]);
    let secret = site.dir.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("x"), b"secret").unwrap();
    let origin = site.dir.path().join("origin/gular");
    std::os::unix::fs::symlink(&secret, origin.join("link")).unwrap();
    std::os::unix::fs::symlink(secret.join("x"), origin.join("x")).unwrap();
    for path in [
        "/gular/../../secret/x",
        "/gular/%2e%2e/%2e%2e/secret/x",
        "/gular/..%2f..%2fsecret/x",
        "/gular/a%00b",
        "/gular/a%5c..%5cb",
        "/gular/%ff",
    ] {
        for method in ["GET", "PROPFIND", "DELETE", "MKCOL"] {
            let answer = site.origin(&format!("{method} {path} HTTP/1.1\n{token}"), b"");
            assert_eq!(answer.status, 400, "{method} {path}");
        }
        assert_eq!(site.put(path, b"x", &token).status, 400, "{path}");
    }
    for path in ["/gular/link/x", "/gular/x", "/gular/link"] {
        for method in ["GET", "PROPFIND", "DELETE"] {
            let answer = site.origin(&format!("{method} {path} HTTP/1.1\n{token}"), b"");
            assert_eq!(answer.status, 403, "{method} {path}");
        }
        assert_eq!(site.cache(&format!("GET {path} HTTP/1.1")).status, 403, "{path}");
        assert_eq!(site.put(path, b"overwritten", &token).status, 403, "{path}");
    }
    assert_eq!(site.put("/gular/link/new/y", b"x", &token).status, 403);
    assert_eq!(fs::read(secret.join("x")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 1);
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let site = Site::start(|_| {});
    let mut stream = site.connect(&site.federation.origin_url());
    let head = format!("GET /gular/x HTTP/1.1\r\nX-Long: {}\r\n\r\n", "a".repeat(1 << 20));
    let _ = stream.write_all(head.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    // A connection closed on unread bytes may take the answer along.
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 "), "{answer:?}");
    assert_eq!(site.origin("GET /gular/x HTTP/1.1", b"").status, 401, "it serves on");
}

#[test]
fn a_folder_is_served_once_and_keeps_its_keys() {
    let site = Site::start(|_| {});
    let Site { federation, tls, dir } = site;
    let error = Federation::start(&Options::new(dir.path()));
    assert!(matches!(error, Err(Error::Served { .. })), "{error:?}");
    let port = federation.origin_url().rsplit(':').next().unwrap().to_owned();
    drop(federation);
    assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_err(), "it has stopped");
    let request = TokenRequest { read: vec!["/".into()], ..TokenRequest::default() };
    assert!(matches!(mint(dir.path(), &request), Err(Error::NotServed { .. })));
    for (name, mode) in [("ca.pem", 0o644), ("ca-key.pem", 0o600), ("token-key.der", 0o600)] {
        use std::os::unix::fs::PermissionsExt as _;
        let metadata = fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
    }
    // A client that trusted the federation still does.
    let federation = Federation::start(&Options::new(dir.path())).unwrap();
    let site = Site { federation, tls, dir };
    let token = site.token(&["/"], &[], &[]);
    assert_eq!(site.origin(&format!("GET /gular/x HTTP/1.1\n{token}"), b"").status, 404);
}

#[test]
fn what_cannot_serve_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let start = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::new(dir.path());
        change(&mut options);
        Federation::start(&options).unwrap_err()
    };
    for namespace in ["", "/", "gular", "/gular/", "/a b", "/a//b", "/../a", "/api/x", "/é"] {
        let error = start(&|options| options.namespace = namespace.to_owned());
        assert!(matches!(error, Error::Namespace { .. }), "{namespace}: {error}");
    }
    let error = start(&|options| options.origin = Origin::External("http://x".to_owned()));
    assert!(matches!(error, Error::Options { .. }), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = start(&|options| options.port = port);
    assert!(matches!(error, Error::Listen { .. }) && error.hint().is_some(), "{error}");
    fs::write(dir.path().join("token-key.der"), b"no key").unwrap();
    let error = start(&|_| {});
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    let error = Federation::start(&Options::new("/proc/no/such")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let error = mint(Path::new("/no/such/folder"), &TokenRequest::default()).unwrap_err();
    assert!(matches!(error, Error::NoScope), "{error}");
}
