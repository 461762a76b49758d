//! Plain objects: no digest of them is known, so the client must not mix two versions, and must
//! compare with what servers report.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use gular_pelican::{Client, Error, PlainRead, PlainSink, Same, Url, Watch, WrongBytes};

use crate::federation::nobody;
use crate::server::{Server, client, client_with, noise};
use crate::tokens::Federation;

#[derive(Default)]
struct Bytes(Vec<u8>);

impl PlainSink for Bytes {
    fn write(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        assert_eq!(position, self.0.len() as u64);
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn restart(&mut self) -> io::Result<()> {
        self.0.clear();
        Ok(())
    }
}

fn read(client: &Client, url: &Url) -> (Result<PlainRead, Error>, Vec<u8>) {
    let mut bytes = Bytes::default();
    let read = client.read_plain(url, 0, None, true, &mut bytes, Watch::never());
    (read, bytes.0)
}

/// Takes bytes, and cannot begin again.
struct Once(usize);

impl PlainSink for Once {
    fn write(&mut self, _: u64, bytes: &[u8]) -> io::Result<()> {
        self.0 += bytes.len();
        Ok(())
    }

    fn restart(&mut self) -> io::Result<()> {
        Err(io::Error::other("the disk is gone"))
    }
}

#[test]
fn a_receiver_that_cannot_begin_again_ends_the_read() {
    let served = AtomicUsize::new(0);
    let server = Server::start(move |talk, _| {
        if served.fetch_add(1, Ordering::SeqCst) == 0 {
            let head = "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 1000\r\n\r\n";
            talk.send([head.as_bytes(), &[7; 400]].concat());
            talk.close();
            return false;
        }
        talk.answer("200 OK", "ETag: \"b\"\r\n", &[8; 1000]);
        true
    });
    let (url, mut sink, never) = (server.url("/x"), Once(0), Watch::never());
    let error = client().read_plain(&url, 0, None, true, &mut sink, never).unwrap_err();
    assert!(matches!(error, Error::Sink { .. }), "{error}");
    assert_eq!((sink.0, server.heads().len()), (400, 2));
}

/// An object that is overwritten while it is read, by another one of the same length.
#[test]
fn two_versions_are_never_mixed() {
    let (old, new) = (noise(1_000_000), noise(1_000_001)[1..].to_vec());
    let check = |tags: [&'static str; 2], mixed: bool| {
        let (before, after) = (old.clone(), new.clone());
        let served = Mutex::new(0);
        let server = Server::start(move |talk, head| {
            let mut served = served.lock().unwrap();
            *served += 1;
            if *served == 1 {
                let head = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 1000000\r\n\r\n", tags[0]);
                talk.send([head.as_bytes(), &before[..400_000]].concat());
                talk.close();
                return false;
            }
            match head.exact("Range") {
                Some(range) => {
                    let from = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap().0;
                    let part = &after[from.parse::<usize>().unwrap()..];
                    let says = format!("{}Content-Range: bytes {from}-999999/1000000\r\n", tags[1]);
                    talk.answer("206 Partial Content", &says, part);
                }
                None if head.method == "HEAD" => talk.answer_head("200 OK", tags[1], 1_000_000),
                None => talk.answer("200 OK", tags[1], &after),
            }
            true
        });
        let (done, bytes) = read(&client(), &server.url("/x"));
        let done = done.unwrap();
        assert_eq!((bytes == new, done.restarted), (!mixed, !mixed), "{tags:?}");
        assert_eq!(done.len_bytes, 1_000_000);
    };
    check(["ETag: \"1\"\r\n", "ETag: \"2\"\r\n"], false);
    let date = |second: u32| format!("Last-Modified: Sun, 06 Nov 1994 08:49:{second} GMT\r\n");
    check([date(37).leak(), date(38).leak()], false);
    // Without tags or dates only a checksum would show the difference, and there is none here.
    check(["", ""], true);
}

#[test]
fn the_servers_checksum_is_compared_and_its_absence_is_said() {
    let object = noise(300_000);
    let check = |digest: String, expected: Option<&str>| {
        let (said, bytes) = (digest.clone(), object.clone());
        let server = Server::start(move |talk, head| {
            match head.method.as_str() {
                "HEAD" => talk.answer_head("200 OK", &digest, bytes.len()),
                _ => talk.answer("200 OK", "", &bytes),
            }
            true
        });
        let (done, bytes) = read(&client(), &server.url("/x"));
        match (done, expected) {
            (Ok(done), Some(expected)) => {
                assert!(bytes == object);
                let told = done.checked.unwrap_or_else(|why| why.to_string());
                assert!(told.contains(expected), "{said}: {told}");
            }
            (Err(Error::Corrupt { attempts, .. }), None) => {
                assert!(attempts.to_string().contains("the server reports"), "{attempts}");
            }
            (done, _) => panic!("{said}: {done:?}"),
        }
    };
    let sum = format!("{:08x}", crc32c::crc32c(&object));
    check(format!("Digest: crc32c={sum}\r\n"), Some(&format!("crc32c:{sum} of `http://")));
    check("Digest: crc32c=00000001\r\n".to_owned(), None);
    check(String::new(), Some("reports no checksum"));
}

fn compare(client: &Client, url: &Url, bytes: &[u8]) -> Result<Same, Error> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    client.compare(url, file.path(), Watch::never())
}

#[test]
fn a_file_is_compared_by_what_a_server_tells_and_nothing_is_read() {
    let object = noise(300_000);
    let sum = format!("Digest: crc32c={:08x}\r\n", crc32c::crc32c(&object));
    let check = |digest: String, refuses: bool, len: usize, bytes: &[u8]| {
        let server = Server::start(move |talk, head| {
            assert_eq!(head.method, "HEAD");
            match head.exact("Want-Digest") {
                Some(_) if refuses => talk.answer_head("400 Bad Request", "", 0),
                _ => talk.answer_head("200 OK", &digest, len),
            }
            true
        });
        compare(&client(), &server.url("/x"), bytes).unwrap()
    };
    let n = object.len();
    assert!(matches!(check(sum.clone(), false, n, &object), Same::Checksum(_)));
    assert_eq!(check(String::new(), false, n, &object), Same::Length);
    assert_eq!(check(sum.clone(), true, n, &object), Same::Length);
    let other = noise(300_001)[1..].to_vec();
    assert!(matches!(check(sum.clone(), false, n, &other), Same::Other(_)));
    assert!(matches!(check(sum, false, n + 1, &object), Same::Other(_)));
}

/// Pelican's cache has no checksum of an object that it has only in part.
#[test]
fn the_origin_tells_the_checksum_that_a_cache_does_not_know() {
    let object = noise(300_000);
    let sum = format!("Digest: crc32c={:08x}\r\n", crc32c::crc32c(&object));
    let server = |digest: String| {
        Server::start(move |talk, _| {
            talk.answer_head("200 OK", &digest, 300_000);
            true
        })
    };
    let (cache, origin) = (server(String::new()), server(sum));
    let federation = Federation::with_origin(cache, Some(origin), None, false);
    let (client, url) = (client_with(&[federation.trust()]), federation.url());
    let same = compare(&client, &url, &object).unwrap();
    assert!(matches!(same, Same::Checksum(_)), "{same:?}");
    let told = client.told(&url, 300_000, Watch::never()).unwrap();
    assert!(told.checksum.is_some(), "{told:?}");
}

/// One cache has damaged bytes, with the checksum of the right bytes or with their own.
#[test]
fn a_cache_that_lies_is_found_out_by_its_own_checksum_or_by_the_origins() {
    let sound = noise(300_000);
    let mut damaged = sound.clone();
    damaged[77] ^= 1;
    let sum = |bytes: &[u8]| format!("Digest: crc32c={:08x}\r\n", crc32c::crc32c(bytes));
    let serve = |bytes: Vec<u8>, digest: String, asked: Arc<Mutex<Vec<String>>>| {
        Server::start(move |talk, head| {
            asked.lock().unwrap().push(head.method.clone());
            match head.method.as_str() {
                "HEAD" => talk.answer_head("200 OK", &digest, bytes.len()),
                _ => talk.answer("200 OK", "", &bytes),
            }
            true
        })
    };
    let check = |cached: &[u8], told: String, of_origin: String, gets: usize, whose: &str| {
        let asked = Arc::default();
        let origin = serve(sound.clone(), of_origin, Arc::clone(&asked));
        let cache = serve(cached.to_vec(), told, Arc::default());
        let federation = Federation::with_origin(cache, Some(origin), None, false);
        let client = client_with(&[federation.trust()]);
        let (done, bytes) = read(&client, &federation.url());
        let done = done.unwrap();
        assert!(bytes == sound, "{whose}");
        let server = match whose {
            "cache" => &federation.storage,
            _ => federation.origin.as_ref().unwrap(),
        };
        assert!(done.checked.clone().unwrap().contains(&server.url), "{done:?}");
        let read = asked.lock().unwrap().iter().filter(|method| *method == "GET").count();
        assert_eq!(read, gets, "{whose}");
        // A local file with the right bytes is accepted, and nothing is read.
        let same = compare(&client, &federation.url(), &sound).unwrap();
        assert!(matches!(same, Same::Checksum(_)), "{same:?}");
        assert!(matches!(compare(&client, &federation.url(), &damaged).unwrap(), Same::Other(_)));
    };
    check(&sound, sum(&sound), sum(&sound), 0, "cache");
    // Seen: a cache that tells the checksum of something else. The origin knows better.
    check(&sound, sum(b"else"), sum(&sound), 0, "origin");
    check(&damaged, sum(&sound), sum(&sound), 1, "origin");
    // A cache has no checksum of an object that it has only in part.
    check(&sound, String::new(), sum(&sound), 0, "origin");
    check(&damaged, String::new(), sum(&sound), 1, "origin");
}

#[test]
fn a_server_that_is_busy_is_asked_again_for_a_checksum() {
    let object = noise(1000);
    let sum = format!("Digest: crc32c={:08x}\r\n", crc32c::crc32c(&object));
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |talk, head| {
        match head.method.as_str() {
            "HEAD" if asked.fetch_add(1, Ordering::SeqCst) == 0 => {
                talk.answer_head("503 Service Unavailable", "", 0);
            }
            "HEAD" => talk.answer_head("200 OK", &sum, 1000),
            _ => talk.answer("200 OK", "", &object),
        }
        true
    });
    let done = read(&client(), &server.url("/x")).0.unwrap();
    assert!(done.checked.is_ok(), "{done:?}");
}

/// The cache's word is not the last one, and the origin may be there again later.
#[test]
fn a_wrong_copy_is_no_verdict_while_the_origin_is_down() {
    let object = noise(1000);
    let bytes = object.clone();
    let cache = Server::start(move |talk, head| {
        match head.method.as_str() {
            "HEAD" => talk.answer_head("200 OK", "Digest: crc32c=00000001\r\n", bytes.len()),
            _ => talk.answer("200 OK", "", &bytes),
        }
        true
    });
    let origin = Server::start(|talk, _| {
        talk.answer("503 Service Unavailable", "", b"");
        true
    });
    let federation = crate::federation::Federation::of(&[&cache.url], &[&origin.url]);
    let (client, url) = (client_with(&federation.env()), federation.url("/ns/x"));
    for error in [read(&client, &url).0.unwrap_err(), compare(&client, &url, &object).unwrap_err()]
    {
        assert!(matches!(error, Error::Failed { .. }) && error.is_passing(), "{error}");
    }
}

/// The one request for the origin's checksum costs little, and not again for each object if the
/// origin takes no connection.
#[test]
fn the_origin_is_asked_for_a_checksum_once_and_not_if_a_cache_reports_one() {
    let object = noise(1000);
    let sum = format!("Digest: crc32c={:08x}\r\n", crc32c::crc32c(&object));
    let serve = |digest: String| {
        let bytes = object.clone();
        Server::start(move |talk, head| {
            match head.method.as_str() {
                "HEAD" => talk.answer_head("200 OK", &digest, bytes.len()),
                _ => talk.answer("200 OK", "", &bytes),
            }
            true
        })
    };
    let check = |of_cache: &str, of_origin: Option<&str>, asked: usize, checked: bool| {
        let cache = serve(of_cache.to_owned());
        let origin = of_origin.map(|digest| serve(digest.to_owned()));
        let at = origin.as_ref().map_or_else(nobody, |origin| origin.url.clone());
        let federation = crate::federation::Federation::of(&[&cache.url], &[&at]);
        let (client, url) = (client_with(&federation.env()), federation.url("/ns/x"));
        for _ in 0..2 {
            let (done, bytes) = read(&client, &url);
            let done = done.unwrap();
            assert!(bytes == object && done.checked.is_ok() == checked, "{done:?}");
        }
        let heads = origin.iter().flat_map(Server::heads).map(|head| head.method);
        assert_eq!(heads.collect::<Vec<_>>(), vec!["HEAD"; 2 * asked], "{of_cache} {of_origin:?}");
    };
    check(&sum, Some(&sum), 0, true);
    check("", Some(&sum), 1, true);
    check("", Some(""), 1, false);
    check("", None, 0, false);
}

#[test]
fn a_name_that_was_burned_and_removed_is_read_under_the_next() {
    let object = noise(2_500_000);
    let bytes = object.clone();
    let server = Server::start(move |talk, head| {
        match head.path() {
            "/x~1" => talk.answer("200 OK", "", &bytes),
            _ => talk.answer("404 Not Found", "", b""),
        }
        true
    });
    let (client, watch) = (client(), Watch::never());
    let url = server.url("/x");
    let expected = object.clone();
    let accepts = move |block: u64, part: &[u8]| {
        let from = usize::try_from(block).unwrap() << 20;
        expected.get(from..from + part.len()) == Some(part)
    };
    let mut found = Vec::new();
    let mut sink = |_: u64, part: &[u8]| {
        found.extend_from_slice(part);
        Ok(())
    };
    let blocks =
        gular_pelican::Object { url: &url, len_bytes: object.len() as u64, accepts: &accepts };
    client.stream(&blocks, 0..u64::MAX, &mut sink, watch).unwrap();
    assert!(found == object);
    let same =
        |part: &[u8]| if part == object { Ok(()) } else { Err(WrongBytes::not_accepted("other")) };
    assert!(client.read_verified(&url, 1 << 22, &same, watch).unwrap() == object);
    // If the checksum is not known, a name that is missing is reported as missing.
    let error = client.read(&url, 1 << 22, &|_| Ok(()), watch).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    let gone = server.url("/y");
    let error = client.read_verified(&gone, 1 << 22, &same, watch).unwrap_err();
    assert!(error.to_string().contains("/y`"), "the name that was asked for: {error}");
    assert!(!server.heads().iter().any(|head| head.path() == "/y~2"), "it stops at the first");
}

#[test]
fn of_a_range_no_other_bytes_are_asked_for_and_none_is_taken_unseen() {
    let object = noise(300_000);
    let read = |server: &Server, range: std::ops::Range<usize>| {
        let wanted = object[range.clone()].to_vec();
        let range = range.start as u64..range.end as u64;
        let accepts = move |bytes: &[u8]| {
            if bytes == wanted { Ok(()) } else { Err(WrongBytes::not_accepted("other")) }
        };
        let watch = Watch::never();
        client().read_range(&server.url("/x"), 300_000, range, &accepts, watch)
    };
    // The server first sends less than it announced, later all; with `whole` it ignores the range.
    let start = |whole: bool| {
        let (bytes, served) = (object.clone(), Mutex::new(0));
        Server::start(move |talk, head| {
            let mut served = served.lock().unwrap();
            *served += 1;
            if whole {
                talk.answer("200 OK", "", &bytes);
                return true;
            }
            let (answer, bytes) = crate::federation::part(head, &bytes);
            talk.send(answer);
            let n = if *served == 1 { bytes.len() / 2 } else { bytes.len() };
            talk.send(&bytes[..n]);
            *served > 1
        })
    };
    let server = start(false);
    assert!(read(&server, 100..200_100).unwrap() == object[100..200_100]);
    let asked: Vec<String> =
        server.heads().iter().map(|head| head.exact("Range").unwrap().to_owned()).collect();
    assert_eq!(asked, ["bytes=100-200099"; 2]);
    assert!(read(&server, 299_000..300_000).unwrap() == object[299_000..]);
    assert!(read(&server, 0..1).unwrap() == object[..1]);
    assert_eq!(read(&server, 5..5).unwrap(), [0; 0]);
    assert!(read(&start(true), 100..200).unwrap() == object[100..200]);

    let damaged = Server::start(|talk, _| {
        talk.answer("206 Partial Content", "Content-Range: bytes 0-9/300000\r\n", &[7; 10]);
        true
    });
    let error = read(&damaged, 0..10).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}
