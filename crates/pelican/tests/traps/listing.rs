//! PROPFIND: servers that list collections in different ways.

use std::sync::atomic::{AtomicUsize, Ordering};

use gular_pelican::{CollectionListing, Error, Stat, Watch};

use crate::federation::{Federation, answer, nobody};
use crate::server::{Server, Talk, client_with};

/// A listing in the form of a native origin.
fn multistatus(talk: &mut Talk, entries: &[(&str, Option<u64>)]) {
    let response = |(href, len): &(&str, Option<u64>)| {
        let kind = match len {
            Some(len) => format!("<D:getcontentlength>{len}</D:getcontentlength><D:resourcetype/>"),
            None => "<D:resourcetype><D:collection/></D:resourcetype>".to_owned(),
        };
        format!(
            "<D:response><D:href>{href}</D:href><D:propstat><D:prop>{kind}</D:prop>\
             <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        )
    };
    let entries: String = entries.iter().map(response).collect();
    let xml = format!("<D:multistatus xmlns:D=\"DAV:\">{entries}</D:multistatus>");
    talk.answer("207 Multi-Status", "Content-Type: text/xml\r\n", xml.as_bytes());
}

/// A federation in which `origin` lists, under `prefix`.
fn federation(origin: &Server, prefix: &str) -> Federation {
    Federation::of(&[], &[&format!("{}{prefix}", origin.url)])
}

fn list(federation: &Federation, path: &str) -> Result<CollectionListing, Error> {
    let client = client_with(&federation.env());
    client.list(&federation.url(path), Watch::never())
}

fn stat(federation: &Federation, path: &str) -> Result<Stat, Error> {
    let client = client_with(&federation.env());
    client.stat(&federation.url(path), Watch::never())
}

fn names(listing: &CollectionListing) -> Vec<(&str, &str)> {
    listing.entries.iter().map(|entry| (entry.name.as_str(), entry.path.as_str())).collect()
}

#[test]
fn an_origin_in_one_process_with_the_director_lists_under_a_prefix() {
    const PREFIX: &str = "/api/v1.0/origin/data";
    for href in [PREFIX, ""] {
        let origin = Server::start(move |talk, head| {
            assert_eq!(head.path(), format!("{PREFIX}/ns/a%20b"));
            let own = format!("{href}/ns/a%20b/");
            let (x, d) = (format!("{own}x"), format!("{own}d/"));
            match head.exact("Depth") {
                Some("1") => multistatus(talk, &[(&own, None), (&x, Some(7)), (&d, None)]),
                _ => multistatus(talk, &[(&own, None)]),
            }
            true
        });
        let federation = federation(&origin, PREFIX);
        let found = list(&federation, "/ns/a%20b").unwrap();
        assert_eq!(names(&found), [("d", "/ns/a b/d"), ("x", "/ns/a b/x")]);
        assert_eq!(found.skipped, 0);
        assert_eq!(stat(&federation, "/ns/a%20b").unwrap().collection, Some(true));
        // The director gets the depth, too.
        let depths: Vec<_> = federation.director.of_method("PROPFIND");
        let depths: Vec<_> = depths.iter().map(|head| head.exact("Depth")).collect();
        assert_eq!(depths, [Some("1"), Some("0")]);
    }
}

#[test]
fn the_root_of_a_namespace_is_listed_with_and_without_a_slash() {
    let origin = Server::start(|talk, head| {
        match head.path() {
            "/ns" => talk.answer("307 Temporary Redirect", "Location: /ns/\r\n", b""),
            "/ns/" => multistatus(talk, &[("/ns/", None), ("/ns/x", Some(1))]),
            _ => talk.answer("404 Not Found", "", b""),
        }
        true
    });
    let federation = federation(&origin, "");
    for path in ["/ns", "/ns/"] {
        assert_eq!(names(&list(&federation, path).unwrap()), [("x", "/ns/x")]);
        assert_eq!(stat(&federation, path).unwrap().collection, Some(true));
    }
}

#[test]
fn a_listing_that_says_more_than_was_asked_is_cut_to_what_was() {
    let origin = Server::start(|talk, _| {
        multistatus(
            talk,
            &[
                ("/ns/d/", None),
                ("/ns/d/x", Some(1)),
                ("/ns/d/#x#", Some(1)),
                ("/ns/d/sub/deeper", Some(1)),
                ("/ns/other", Some(1)),
                ("/ns/d/../../etc/passwd", Some(1)),
                ("https://elsewhere.example/ns/d/y", Some(2)),
            ],
        );
        true
    });
    let found = list(&federation(&origin, ""), "/ns/d").unwrap();
    assert_eq!((names(&found), found.skipped), (vec![("x", "/ns/d/x"), ("y", "/ns/d/y")], 4));
}

/// Lists a collection whose names may be encoded or not, at a server that has only the objects at
/// `exist`. Returns the names, or the error, and the number of requests to the server.
fn ambiguous(exist: &'static [&'static str]) -> (Result<Vec<String>, String>, usize) {
    let origin = Server::start(move |talk, head| {
        match head.path() {
            "/ns/d" => {
                let members = [("/ns/d/", None), ("/ns/d/a%20b", Some(1)), ("/ns/d/x", Some(1))];
                multistatus(talk, &members);
            }
            path if exist.contains(&path) => multistatus(talk, &[(path, Some(1))]),
            _ => talk.answer("404 Not Found", "", b""),
        }
        true
    });
    let found = list(&federation(&origin, ""), "/ns/d");
    let found = found.map_err(|error| error.to_string());
    let names = found.map(|found| found.entries.into_iter().map(|entry| entry.name).collect());
    (names, origin.heads().len())
}

#[test]
fn a_listing_that_may_be_encoded_or_not_is_read_as_the_server_has_the_objects() {
    let names = |names: [&str; 2]| Ok(names.map(str::to_owned).to_vec());
    assert_eq!(ambiguous(&["/ns/d/a%2520b"]), (names(["a%20b", "x"]), 2));
    assert_eq!(ambiguous(&["/ns/d/a%20b"]), (names(["a b", "x"]), 3));
    // The name that is asked for was removed after it was listed.
    assert_eq!(ambiguous(&[]), (Ok(vec!["x".to_owned()]), 3));
}

/// The longest of the names is asked for first. Here it is gone, and the other one decides.
#[test]
fn a_name_that_vanished_hides_no_other() {
    let check = |exists: &'static str, expected: &str| {
        let origin = Server::start(move |talk, head| {
            match head.path() {
                "/ns/d" => {
                    let names = ["/ns/d/gone%20long", "/ns/d/a%20b"];
                    multistatus(talk, &names.map(|name| (name, Some(1))));
                }
                path if path == exists => multistatus(talk, &[(path, Some(1))]),
                _ => talk.answer("404 Not Found", "", b""),
            }
            true
        });
        let found = list(&federation(&origin, ""), "/ns/d").unwrap();
        assert!(found.entries.iter().any(|entry| entry.name == expected), "{found:?}");
    };
    check("/ns/d/a%2520b", "a%20b");
    check("/ns/d/a%20b", "a b");
}

#[test]
fn a_listing_is_asked_for_as_patiently_as_an_object() {
    let asked = AtomicUsize::new(0);
    let origin = Server::start(move |talk, _| {
        match asked.fetch_add(1, Ordering::SeqCst) {
            0 => talk.answer("429 Too Many Requests", "Retry-After: 1\r\n", b"busy"),
            1 => talk.answer("500 Internal Server Error", "", b"busy"),
            2 => talk.answer("503 Service Unavailable", "", b"busy"),
            _ => multistatus(talk, &[("/ns/d", None), ("/ns/d/x", Some(1))]),
        }
        true
    });
    assert_eq!(names(&list(&federation(&origin, ""), "/ns/d").unwrap()), [("x", "/ns/d/x")]);
    assert_eq!(origin.heads().len(), 4);
}

#[test]
fn a_listing_that_was_cut_off_is_asked_for_again() {
    let asked = AtomicUsize::new(0);
    let origin = Server::start(move |talk, _| {
        if asked.fetch_add(1, Ordering::SeqCst) < 2 {
            talk.send("HTTP/1.1 207 Multi-Status\r\nContent-Length: 1000\r\n\r\n<D:multi");
            talk.close();
            return false;
        }
        multistatus(talk, &[("/ns/d", None), ("/ns/d/x", Some(1))]);
        true
    });
    assert_eq!(names(&list(&federation(&origin, ""), "/ns/d").unwrap()), [("x", "/ns/d/x")]);
    assert_eq!(origin.heads().len(), 3);
}

/// A server that cannot list says so with another status, so it may list at another time.
#[test]
fn a_login_page_in_place_of_a_listing_is_not_the_last_word() {
    let origin = Server::start(|talk, _| {
        talk.answer("200 OK", "Content-Type: text/html\r\n", b"<html>Please log in.</html>");
        true
    });
    let error = list(&federation(&origin, ""), "/ns/d").unwrap_err();
    assert!(matches!(error, Error::Failed { .. }) && error.is_passing(), "{error}");
    let other = Server::start(|talk, _| {
        talk.answer("405 Method Not Allowed", "", b"");
        true
    });
    let error = list(&federation(&other, ""), "/ns/d").unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn an_object_is_looked_at_in_caches_when_nobody_lists() {
    let broken = Server::start(|talk, _| {
        talk.answer("500 Internal Server Error", "", b"");
        true
    });
    let cache = Server::start(|talk, head| {
        assert_eq!(head.method, "HEAD");
        talk.answer_head("200 OK", "", 7);
        true
    });
    // The server that lists is down; the first of the caches is broken.
    let federation = Federation::of(&[&broken.url, &cache.url], &[&nobody()]);
    let found = stat(&federation, "/ns/x").unwrap();
    assert_eq!(found, Stat { len_bytes: Some(7), collection: None });
    assert!(matches!(list(&federation, "/ns"), Err(Error::Failed { .. })));
}

#[test]
fn an_origin_that_only_servers_can_call_is_named_so() {
    let down = nobody();
    let federation = Federation::start(move |talk, head| {
        let broker = "require-token=false\r\nX-Pelican-Broker: https://broker.example/api";
        answer(talk, head, broker, std::slice::from_ref(&down));
        true
    });
    let client = client_with(&federation.env());
    let url = federation.url("/ns/x").direct();
    let error = client.read(&url, 10, &|_| Ok(()), Watch::never()).unwrap_err();
    assert!(error.to_string().contains("through a broker"), "{error}");
}
