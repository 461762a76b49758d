//! PUT: what a server does to an upload, and what is stored afterwards.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gular_pelican::{Client, CompareBy, Compared, Error, IfTaken, Upload, Uploaded, Url, Watch};
use tempfile::TempDir;

use crate::federation::{Federation as Named, answer, nobody};
use crate::server::{Head, Server, Talk, client, client_named, client_with, noise};
use crate::tokens::{Federation, ISSUER, has_token, token_with};

/// The stored objects, by path.
pub(crate) type Objects = Arc<Mutex<HashMap<String, Vec<u8>>>>;

/// An origin as XRootD 5.5.3 is one: it knows headers by their exact spelling only.
fn strict(talk: &mut Talk, head: &Head, objects: &Objects) -> bool {
    let stored = |path: &str| objects.lock().unwrap().get(path).cloned();
    match (head.method.as_str(), stored(head.path())) {
        ("HEAD", Some(bytes)) => talk.answer_head("200 OK", "", bytes.len()),
        ("GET", Some(bytes)) => talk.answer("200 OK", "", &bytes),
        ("HEAD" | "GET", None) => talk.answer("404 Not Found", "", b""),
        ("PUT", _) => {
            if head.exact("Expect") == Some("100-continue") {
                talk.go_on();
            }
            let body = talk.body(head.content_length());
            objects.lock().unwrap().insert(head.path().to_owned(), body);
            talk.answer("200 OK", "", b":-)");
        }
        _ => talk.answer("501 Not Implemented", "", b""),
    }
    true
}

pub(crate) struct File {
    _dir: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn file(len: usize) -> File {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = (dir.path().join("f"), noise(len));
    std::fs::write(&path, &bytes).unwrap();
    File { _dir: dir, path, bytes }
}

impl File {
    pub(crate) fn upload(
        &self,
        client: &Client,
        to: &Url,
        if_taken: IfTaken,
    ) -> Result<Uploaded, Error> {
        let upload = Upload {
            from: &self.path,
            to,
            if_taken,
            listed: gular_pelican::Listed::Unknown,
            compare_by: CompareBy::Bytes,
        };
        client.upload(&upload, false, Watch::never())
    }
}

#[test]
fn a_server_that_knows_title_case_alone_stores_every_byte() {
    let objects = Objects::default();
    let store = Arc::clone(&objects);
    let server = Server::start(move |talk, head| strict(talk, head, &store));
    for len in [0, 1, 3_000_000] {
        let file = file(len);
        let url = server.url(&format!("/d/{len}"));
        let done = file.upload(&client(), &url, IfTaken::Refuse).unwrap();
        assert_eq!((done.identical, done.len_bytes), (false, len as u64));
        assert!(objects.lock().unwrap()[url.path()] == file.bytes, "{len}");
        // A second upload finds the object, and sends no byte.
        let puts = server.of_method("PUT").len();
        assert!(file.upload(&client(), &url, IfTaken::Refuse).unwrap().identical);
        assert_eq!(server.of_method("PUT").len(), puts);
    }
    for head in server.heads() {
        let names = head.raw.lines().skip(1).filter_map(|line| line.split_once(": "));
        for (name, _) in names {
            let title = name.split('-').all(|w| w.starts_with(|c: char| c.is_ascii_uppercase()));
            assert!(title, "`{name}` in\n{}", head.raw);
        }
        assert!(head.exact("Host").is_some(), "{}", head.raw);
        assert!(head.exact("User-Agent").unwrap().starts_with("gular/"), "{}", head.raw);
        assert!(head.exact("Transfer-Encoding").is_none(), "{}", head.raw);
    }
    let put = server.of_method("PUT").pop().unwrap();
    assert_eq!(put.exact("Content-Length"), Some("3000000"));
    assert_eq!(put.exact("If-None-Match"), Some("*"));
    assert!(put.target.ends_with("?oss.asize=3000000"), "{}", put.target);
}

/// The server sends answers before the final one, in every possible way.
#[test]
fn the_body_waits_for_100_and_for_nothing_else() {
    let check = |what: &str, before: fn(&mut Talk)| {
        let objects = Objects::default();
        let store = Arc::clone(&objects);
        let server = Server::start(move |talk, head| {
            if head.method != "PUT" {
                return strict(talk, head, &store);
            }
            assert_eq!(talk.stray(), 0, "a body before it was asked for");
            before(talk);
            let body = talk.body(head.content_length());
            store.lock().unwrap().insert(head.path().to_owned(), body);
            talk.answer("201 Created", "", b"");
            true
        });
        let file = file(500_000);
        file.upload(&client(), &server.url("/x"), IfTaken::Refuse).unwrap();
        assert!(objects.lock().unwrap()["/x"] == file.bytes, "{what}");
    };
    check("with headers, byte by byte", Talk::go_on);
    check("after others", |talk| {
        talk.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
    });
    check("twice", |talk| talk.send("HTTP/1.1 100 Continue\r\n\r\n".repeat(2)));
    // The client continues by itself after two seconds.
    check("never", |_| ());
}

#[test]
fn a_refusal_before_the_body_is_heard_and_no_byte_is_sent() {
    let strays = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&strays);
    let server = Server::start(move |talk, head| {
        if head.method == "HEAD" {
            talk.answer("404 Not Found", "", b"");
            return true;
        }
        talk.answer("403 Forbidden", "", b"Unable to create; permission denied");
        counted.fetch_add(talk.stray(), Ordering::SeqCst);
        talk.close();
        false
    });
    let file = file(30_000_000);
    for _ in 0..10 {
        let error = file.upload(&client(), &server.url("/x"), IfTaken::Refuse).unwrap_err();
        assert!(matches!(error, Error::Denied { status: 403, .. }), "{error}");
    }
    assert_eq!(strays.load(Ordering::SeqCst), 0);
}

#[test]
fn a_refusal_in_the_middle_of_the_body_is_heard() {
    let check = |answer: &'static str, expected: &str| {
        let server = Server::start(move |talk, head| {
            if head.method == "HEAD" {
                talk.answer("404 Not Found", "", b"");
                return true;
            }
            talk.go_on();
            talk.body(100_000);
            talk.answer(answer, "Connection: Close\r\n", b"no more");
            // Closed with bytes unread: the client's writes fail from here on.
            talk.close();
            false
        });
        let file = file(30_000_000);
        let error = file.upload(&client(), &server.url("/x"), IfTaken::Refuse).unwrap_err();
        assert!(error.to_string().contains(expected), "{answer}: {error}");
    };
    check("403 Forbidden", "(403: no more)");
    check("507 Insufficient Storage", "507: no more");
}

#[test]
fn a_server_that_does_not_know_expect_gets_the_body_without() {
    let objects = Objects::default();
    let store = Arc::clone(&objects);
    let server = Server::start(move |talk, head| {
        if head.method == "PUT" && head.exact("Expect").is_some() {
            talk.answer("417 Expectation Failed", "", b"");
            return false;
        }
        strict(talk, head, &store)
    });
    let file = file(200_000);
    file.upload(&client(), &server.url("/x"), IfTaken::Refuse).unwrap();
    assert!(objects.lock().unwrap()["/x"] == file.bytes);
}

#[test]
fn a_cut_upload_burns_the_name_and_the_next_one_is_taken() {
    let (objects, puts) = (Objects::default(), AtomicUsize::new(0));
    let store = Arc::clone(&objects);
    let server = Server::start(move |talk, head| {
        if head.method == "PUT" && puts.fetch_add(1, Ordering::SeqCst) == 0 {
            talk.go_on();
            let part = talk.body(100_000);
            store.lock().unwrap().insert(head.path().to_owned(), part);
            talk.close();
            return false;
        }
        strict(talk, head, &store)
    });
    let file = file(1_000_000);
    let done = file.upload(&client(), &server.url("/x"), IfTaken::Rename).unwrap();
    assert_eq!(done.url.path(), "/x~1");
    assert!(objects.lock().unwrap()["/x~1"] == file.bytes);
    assert_eq!(objects.lock().unwrap()["/x"].len(), 100_000, "it was overwritten");
    // The next publisher finds it, and writes nothing.
    let again = file.upload(&client(), &server.url("/x"), IfTaken::Rename).unwrap();
    assert_eq!((again.url.path(), again.identical), ("/x~1", true));
    // For a name that means something to people, this is an error that says why.
    let error = file.upload(&client(), &server.url("/x"), IfTaken::Refuse).unwrap_err();
    assert!(matches!(&error, Error::Taken { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("only the beginning of this file, as after an interrupted upload"),
        "{error}"
    );
}

#[test]
fn an_object_that_is_being_written_is_waited_for() {
    let file = file(1_000_000);
    let objects = Objects::default();
    objects.lock().unwrap().insert("/x".into(), file.bytes[..1000].to_vec());
    let store = Arc::clone(&objects);
    let server = Server::start(move |talk, head| strict(talk, head, &store));
    let done = std::thread::scope(|scope| {
        // Another publisher is slower than the time after which a part counts as left behind.
        scope.spawn(|| {
            for part in 1..=4 {
                std::thread::sleep(Duration::from_millis(400));
                let bytes = file.bytes[..part * 250_000].to_vec();
                objects.lock().unwrap().insert("/x".into(), bytes);
            }
        });
        file.upload(&client(), &server.url("/x"), IfTaken::Rename).unwrap()
    });
    assert_eq!((done.url.path(), done.identical), ("/x", true));
    assert!(server.of_method("PUT").is_empty());
}

/// Seen: `md5=` with four bytes from a cache; the digest of the moment between
/// two writers from an origin, for good; none at all.
#[test]
fn the_bytes_decide_where_a_digest_does_not() {
    let file = file(100_000);
    let other = noise(100_001)[1..].to_vec();
    let sum = |bytes: &[u8]| format!("Digest: crc32c={:08x}\r\n", crc32c::crc32c(bytes));
    let check = |digest: String, stored: &[u8], identical: bool| {
        let objects = Objects::default();
        objects.lock().unwrap().insert("/x".into(), stored.to_vec());
        let (said, len) = (digest.clone(), stored.len());
        let server = Server::start(move |talk, head| {
            if head.exact("Want-Digest").is_some() {
                talk.answer_head("200 OK", &digest, len);
                return true;
            }
            strict(talk, head, &objects)
        });
        match file.upload(&client(), &server.url("/x"), IfTaken::Refuse) {
            Ok(done) => assert!(identical && done.identical, "{said}"),
            Err(error) => assert!(!identical && matches!(error, Error::Taken { .. }), "{error}"),
        }
        assert!(server.of_method("PUT").is_empty(), "{said}");
    };
    check(sum(&file.bytes), &file.bytes, true);
    check("Digest: md5=iXZt+w==\r\n".into(), &file.bytes, true);
    check(sum(b""), &file.bytes, true);
    check(String::new(), &file.bytes, true);
    check(String::new(), &other, false);
    check(sum(&other), &other, false);
}

#[test]
fn a_server_that_refuses_to_tell_a_digest_has_the_object_nevertheless() {
    for status in ["400 Bad Request", "404 Not Found", "405 No", "500 Error", "501 No"] {
        let objects = Objects::default();
        let server = Server::start(move |talk, head| {
            if head.exact("Want-Digest").is_some() {
                talk.answer(status, "", b"");
                return true;
            }
            strict(talk, head, &objects)
        });
        let file = file(1000);
        for identical in [false, true] {
            let done = file.upload(&client(), &server.url("/x"), IfTaken::Refuse).unwrap();
            assert_eq!((done.identical, done.compared), (identical, Compared::Bytes), "{status}");
        }
        assert_eq!(server.of_method("PUT").len(), 1, "{status}");
    }
}

#[test]
fn an_upload_that_left_nothing_is_an_error() {
    let server = Server::start(|talk, head| {
        if head.method == "PUT" {
            talk.go_on();
            talk.body(head.content_length());
            talk.answer("200 OK", "", b":-)");
        } else {
            talk.answer("404 Not Found", "", b"");
        }
        true
    });
    let error = file(1000).upload(&client(), &server.url("/x"), IfTaken::Rename).unwrap_err();
    assert!(error.to_string().contains("but then said that the object does not exist"), "{error}");
}

#[test]
fn an_upload_to_a_silent_server_ends_in_time() {
    let server = Server::start(|talk, head| {
        if head.method == "HEAD" {
            talk.answer("404 Not Found", "", b"");
            return true;
        }
        talk.go_on();
        std::thread::sleep(Duration::from_secs(60));
        false
    });
    let begun = Instant::now();
    let cancel = AtomicBool::new(false);
    let file = file(30_000_000);
    let url = server.url("/x");
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Two silences of 4 s, and a wait of up to 2 s between them.
            std::thread::sleep(Duration::from_secs(9));
            cancel.store(true, Ordering::Relaxed);
        });
        let upload = Upload {
            from: &file.path,
            to: &url,
            if_taken: IfTaken::Refuse,
            listed: gular_pelican::Listed::Unknown,
            compare_by: CompareBy::Bytes,
        };
        client().upload(&upload, false, Watch::silent(&cancel)).unwrap_err()
    });
    assert!(matches!(error, Error::Cancelled), "{error}");
    // The server was given up once for its silence, then tried again.
    assert!(server.of_method("PUT").len() >= 2, "{:?}", server.of_method("PUT").len());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// An origin of version 2 reads the whole object for any HEAD.
#[test]
fn lengths_come_by_propfind_and_a_digest_is_asked_for_once() {
    let objects = Objects::default();
    let store = Arc::clone(&objects);
    let storage = Server::start(move |talk, head| {
        let stored = store.lock().unwrap().get(head.path()).cloned();
        match (head.method.as_str(), stored) {
            ("PROPFIND", None) => talk.answer("404 Not Found", "", b""),
            ("PROPFIND", Some(bytes)) => {
                let (path, len) = (head.path(), bytes.len());
                let xml = format!(
                    "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>{path}</D:href>\
                     <D:propstat><D:prop><D:getcontentlength>{len}</D:getcontentlength></D:prop>\
                     <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"
                );
                talk.answer("207 Multi-Status", "", xml.as_bytes());
            }
            ("HEAD", Some(bytes)) => {
                let sum = format!("Digest: crc32c={:08x}\r\n", crc32c::crc32c(&bytes));
                talk.answer_head("200 OK", &sum, bytes.len());
            }
            _ => return strict(talk, head, &store),
        }
        true
    });
    let federation = Federation::of(storage, Some(ISSUER), false);
    let both = format!(r#"{{"iss":"{ISSUER}","scope":"storage.read:/ storage.modify:/"}}"#);
    let client = client_with(&[federation.trust(), ("BEARER_TOKEN", &token_with(&both))]);
    let (file, url) = (file(100_000), federation.url());
    let asked = |from: usize| {
        let heads = federation.storage.heads();
        heads[from..].iter().map(|head| head.method.clone()).collect::<Vec<_>>()
    };
    assert!(!file.upload(&client, &url, IfTaken::Refuse).unwrap().identical);
    assert_eq!(asked(0), ["PROPFIND", "PUT", "HEAD"]);
    assert!(file.upload(&client, &url, IfTaken::Refuse).unwrap().identical);
    assert_eq!(asked(3), ["PROPFIND", "HEAD"]);
    // Other bytes: no digest is needed to see that, and none is asked for while they may
    // still grow.
    objects.lock().unwrap().insert("/ns/x".into(), file.bytes[..10].to_vec());
    let error = file.upload(&client, &url, IfTaken::Refuse).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("only the beginning of this file, as after an interrupted upload"),
        "{error}"
    );
    assert!(!asked(5).contains(&"HEAD".to_owned()), "{:?}", asked(5));
}

/// The next name is taken whatever the first one holds, so nobody needs to know what that is.
#[test]
fn what_is_left_of_a_cut_upload_is_not_read_when_the_next_name_is_free() {
    let file = file(1_000_000);
    let objects = Objects::default();
    objects.lock().unwrap().insert("/x".into(), file.bytes[..900_000].to_vec());
    let store = Arc::clone(&objects);
    let server = Server::start(move |talk, head| strict(talk, head, &store));
    let done = file.upload(&client(), &server.url("/x"), IfTaken::Rename).unwrap();
    assert_eq!(done.url.path(), "/x~1");
    let read: Vec<_> = server.of_method("GET").iter().map(|head| head.path().to_owned()).collect();
    assert_eq!(read, ["/x~1"], "one is read back: this server tells no digest");
}

/// Stores that put a long body elsewhere when all of it has come.
#[test]
fn an_answer_to_a_long_body_may_take_longer_than_a_silence() {
    let objects = Objects::default();
    let store = Arc::clone(&objects);
    let server = Server::start(move |talk, head| {
        if head.method == "PUT" {
            talk.go_on();
            let body = talk.body(head.content_length());
            // The client's limit for a silence is 4 s.
            std::thread::sleep(Duration::from_secs(6));
            store.lock().unwrap().insert(head.path().to_owned(), body);
            talk.answer("201 Created", "", b"");
            return true;
        }
        strict(talk, head, &store)
    });
    let file = file(30_000_000);
    file.upload(&client(), &server.url("/x"), IfTaken::Refuse).unwrap();
    assert_eq!(server.of_method("PUT").len(), 1);
    assert!(objects.lock().unwrap()["/x"] == file.bytes);
}

/// A store without room for it: neither a proxy nor another time helps.
#[test]
fn an_object_that_is_refused_for_good_is_not_said_to_be_worth_another_run() {
    for status in ["507 Insufficient Storage", "413 Content Too Large"] {
        let server = Server::start(move |talk, head| {
            match head.method.as_str() {
                "PUT" => talk.answer(status, "Connection: Close\r\n", b"quota exceeded"),
                _ => talk.answer("404 Not Found", "", b""),
            }
            head.method != "PUT"
        });
        let error = file(1000).upload(&client(), &server.url("/x"), IfTaken::Refuse).unwrap_err();
        assert!(error.to_string().contains("quota exceeded"), "{error}");
        assert!(!error.is_passing(), "{error}");
        let hint = error.hint().unwrap();
        assert!(hint.contains("the server's operators") && !hint.contains("PROXY"), "{hint}");
        assert_eq!(server.of_method("PUT").len(), 1);
    }
}

/// The writer got the names of the origins long ago, and one of them is gone since.
#[test]
fn the_director_is_asked_anew_when_the_origin_of_before_takes_no_connection() {
    let objects = Objects::default();
    let is_gone = Arc::new(AtomicBool::new(false));
    let origin = |is_gone: &Arc<AtomicBool>| {
        let (store, is_gone) = (Arc::clone(&objects), Arc::clone(is_gone));
        Server::start(move |talk, head| {
            !is_gone.load(Ordering::SeqCst) && strict(talk, head, &store)
        })
    };
    let (before, after) = (origin(&is_gone), origin(&Arc::default()));
    let now = Arc::new(Mutex::new(before.url.clone()));
    let named = Arc::clone(&now);
    let federation = Named::start(move |talk, head| {
        let place = named.lock().unwrap().clone();
        answer(talk, head, "require-token=false", std::slice::from_ref(&place));
        true
    });
    let (client, file) = (client_with(&federation.env()), file(1000));
    file.upload(&client, &federation.url("/ns/x"), IfTaken::Refuse).unwrap();
    let asked = |method: &str| federation.director.of_method(method).len();
    assert_eq!(asked("PUT"), 1);
    file.upload(&client, &federation.url("/ns/y"), IfTaken::Refuse).unwrap();
    assert_eq!(asked("PUT"), 1, "one answer serves the namespace");
    now.lock().unwrap().clone_from(&after.url);
    is_gone.store(true, Ordering::SeqCst);
    drop(before);
    file.upload(&client, &federation.url("/ns/z"), IfTaken::Refuse).unwrap();
    assert_eq!((asked("PUT"), after.of_method("PUT").len()), (2, 1));
    assert_eq!(objects.lock().unwrap().len(), 3);
}

/// An origin that is down leaves the object to the next one that the director names.
#[test]
fn the_next_origin_is_written_to_when_the_first_takes_no_connection() {
    let objects = Objects::default();
    let store = Arc::clone(&objects);
    let second = Server::start(move |talk, head| strict(talk, head, &store));
    let places = [nobody(), second.url.clone()];
    let federation = Named::start(move |talk, head| {
        answer(talk, head, "require-token=false", &places);
        true
    });
    let (client, file) = (client_with(&federation.env()), file(1000));
    file.upload(&client, &federation.url("/ns/x"), IfTaken::Refuse).unwrap();
    assert!(objects.lock().unwrap()["/ns/x"] == file.bytes);
}

/// Clusters send a PUT on to the server that stores it, before its body is sent.
#[test]
fn a_put_that_is_sent_on_is_followed_without_the_token() {
    let objects = Objects::default();
    let store = Arc::clone(&objects);
    let door = Server::start(move |talk, head| strict(talk, head, &store));
    let (to, store) = (door.url.clone(), Arc::clone(&objects));
    let server = Server::start(move |talk, head| {
        if head.method == "PUT" {
            let location = format!("Location: {to}{}?ticket=1\r\n", head.path());
            talk.answer("307 Temporary Redirect", &location, b"");
            // No byte of the body arrived here.
            assert_eq!(talk.stray(), 0);
            return false;
        }
        strict(talk, head, &store)
    });
    let file = file(500_000);
    let (client, _token) = client_named("opaque-secret", &[]);
    file.upload(&client, &server.url("/x"), IfTaken::Refuse).unwrap();
    assert!(objects.lock().unwrap()["/x"] == file.bytes);
    let put = door.of_method("PUT").pop().unwrap();
    assert!(put.target.ends_with("?ticket=1") && !has_token(&put), "{}", put.raw);
    assert!(has_token(&server.of_method("PUT")[0]));
}

#[test]
fn a_store_that_drains_is_asked_again_and_a_collection_is_named() {
    let (objects, puts) = (Objects::default(), AtomicUsize::new(0));
    let store = Arc::clone(&objects);
    let server = Server::start(move |talk, head| {
        if head.method == "PUT" && puts.fetch_add(1, Ordering::SeqCst) == 0 {
            talk.answer("409 Conflict", "Connection: Close\r\n", b"the store is draining");
            return false;
        }
        strict(talk, head, &store)
    });
    let begun = Instant::now();
    let file = file(1000);
    file.upload(&client(), &server.url("/x"), IfTaken::Refuse).unwrap();
    assert!(objects.lock().unwrap()["/x"] == file.bytes);
    assert_eq!(server.of_method("PUT").len(), 2);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// Origins of version 2 answer every failed write so.
#[test]
fn a_405_is_asked_again_once_where_the_director_offers_the_origin() {
    for (failures, fine) in [(1, true), (2, false)] {
        let (objects, puts) = (Objects::default(), AtomicUsize::new(0));
        let store = Arc::clone(&objects);
        let storage = Server::start(move |talk, head| {
            if head.method == "PUT" && puts.fetch_add(1, Ordering::SeqCst) < failures {
                talk.answer("405 Method Not Allowed", "Connection: Close\r\n", b"");
                return false;
            }
            strict(talk, head, &store)
        });
        let federation = Federation::of(storage, Some(ISSUER), false);
        let both = format!(r#"{{"iss":"{ISSUER}","scope":"storage.read:/ storage.create:/"}}"#);
        let client = client_with(&[federation.trust(), ("BEARER_TOKEN", &token_with(&both))]);
        let done = file(1000).upload(&client, &federation.url(), IfTaken::Refuse);
        assert_eq!(done.is_ok(), fine, "{done:?}");
        assert_eq!(federation.storage.of_method("PUT").len(), 2);
    }
}
