//! Which requests are sent to find out what a URL names: over HTTP, to a server that keeps a log.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gular_bundle::{Digest, MANIFEST_NAME};
use gular_pelican::{Client, ClientOptions, Env, Watch};
use gular_transfer::{BundleUrl, Error, Remote, fetch_object};

use crate::fixtures;

/// Answers each request with a status, and for 200 with its bytes.
pub(crate) fn serve(
    answer: impl Fn(&str, &str) -> (u16, Vec<u8>) + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let (kept, answer) = (Arc::clone(&log), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, kept, answer) =
                (stream.unwrap(), Arc::clone(&kept), Arc::clone(&answer));
            std::thread::spawn(move || {
                while let Some((method, path)) = request(&mut stream) {
                    kept.lock().unwrap().push(format!("{method} {path}"));
                    let (status, body) = answer(&method, &path);
                    let head =
                        format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", body.len());
                    let body = if method == "HEAD" { Vec::new() } else { body };
                    let _ = stream.write_all(&[head.into_bytes(), body].concat());
                }
            });
        }
    });
    (url, log)
}

fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let len = |line: &str| line.strip_prefix("content-length: ")?.parse::<usize>().ok();
    let len = head.to_ascii_lowercase().lines().find_map(len).unwrap_or(0);
    stream.read_exact(&mut vec![0; len]).ok()?;
    let mut words = head.split(' ');
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

fn find(url: &str) -> Result<Remote, Error> {
    let client = Client::new(ClientOptions::new(Env::default())).unwrap();
    let url: BundleUrl = url.parse().unwrap();
    Remote::find(&client, &url, Watch::never())
}

fn manifest() -> (Vec<u8>, Digest) {
    let dir = tempfile::tempdir().unwrap();
    let digest = fixtures::make(dir.path(), &[100]);
    (std::fs::read(dir.path().join(MANIFEST_NAME)).unwrap(), digest)
}

#[test]
fn a_bundle_is_found_by_its_manifest_alone() {
    let (bytes, digest) = manifest();
    // HEAD of a collection answers 405 at native origins, and nothing can be listed.
    let (server, log) = serve(move |method, path| match (method, path) {
        ("GET", "/set/v1/manifest.json") => (200, bytes.clone()),
        _ => (405, Vec::new()),
    });
    let hex = digest.hex();
    for end in ["", "/manifest.json", &format!("#blake3={hex}")] {
        let found = find(&format!("{server}/set/v1{end}")).unwrap();
        assert!(matches!(found, Remote::Bundle(found) if found.digest() == digest), "{end}");
        let asked = std::mem::take(&mut *log.lock().unwrap());
        assert_eq!(asked, ["GET /set/v1/manifest.json"], "{end}");
    }
}

#[test]
fn an_object_is_looked_at_when_there_is_no_manifest_below_it() {
    let (server, log) = serve(|method, path| match (method, path) {
        ("HEAD", "/set/x") => (200, vec![0; 7]),
        ("PROPFIND", _) => (405, Vec::new()),
        _ => (404, Vec::new()),
    });
    let hex = Digest::of(b"").hex();
    let gone = "GET /set/x/manifest.json";
    for (end, expected) in [
        (format!("#blake3={hex}"), vec![gone, "HEAD /set/x"]),
        (String::new(), vec![gone, "PROPFIND /set/x", "HEAD /set/x"]),
    ] {
        let found = find(&format!("{server}/set/x{end}")).unwrap();
        assert!(matches!(found, Remote::Object { len_bytes: 7 }), "{found:?}");
        assert_eq!(std::mem::take(&mut *log.lock().unwrap()), expected);
    }
}

#[test]
fn nothing_is_said_to_be_missing_while_nobody_can_say_what_is_there() {
    let (server, _log) = serve(|method, _| match method {
        "GET" => (404, b"no such file".to_vec()),
        _ => (503, Vec::new()),
    });
    let patience = Duration::from_millis(100);
    let options = ClientOptions { patience, ..ClientOptions::new(Env::default()) };
    let client = Client::new(options).unwrap();
    for end in [String::new(), format!("#blake3={}", Digest::of(b"").hex())] {
        let url: BundleUrl = format!("{server}/set/x{end}").parse().unwrap();
        let error = Remote::find(&client, &url, Watch::never()).unwrap_err();
        assert!(error.is_passing(), "{end}: {error}");
    }
}

/// The server that was asked first told 3 bytes.
#[test]
fn an_object_whose_length_was_told_wrongly_is_fetched_nevertheless() {
    let (server, _log) = serve(|method, path| match (method, path) {
        ("GET" | "HEAD", "/set/x") => (200, b"7 bytes".to_vec()),
        _ => (404, Vec::new()),
    });
    let client = Client::new(ClientOptions::new(Env::default())).unwrap();
    for end in [String::new(), format!("#blake3={}", Digest::of(b"7 bytes").hex())] {
        let to = tempfile::tempdir().unwrap();
        let url: BundleUrl = format!("{server}/set/x{end}").parse().unwrap();
        let done = fetch_object(&client, &url, 3, to.path(), false, Watch::never());
        let (report, file) = done.unwrap();
        assert_eq!(std::fs::read(file).unwrap(), b"7 bytes");
        assert_eq!((report.bytes, report.bytes_fetched), (7, 7));
    }
}

#[test]
fn a_collection_that_cannot_be_looked_at_hides_no_word_about_its_manifest() {
    for status in [405, 409] {
        let (server, _log) = serve(move |method, _| match method {
            "GET" => (404, b"no such file".to_vec()),
            _ => (status, Vec::new()),
        });
        let error = find(&format!("{server}/set/v1")).unwrap_err().to_string();
        assert!(error.contains("/set/v1/manifest.json` does not exist"), "{error}");
    }
}
