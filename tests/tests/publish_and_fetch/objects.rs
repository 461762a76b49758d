//! Single files: any bytes under any name.

use std::fs;
use std::process::Command;

use gular_federation::{Federation, Options};
use gular_tests::{finish, gular, put};

use crate::bundles::{noise, text};
use crate::site::Site;

/// Publishes `bytes` as one object, fetches it, and compares.
fn check(name: &str, bytes: &[u8]) {
    let site = Site::shared();
    let (dir, url) = (site.scratch(), format!("{}/{name}", site.collection("object")));
    put(dir.path(), name, bytes);
    let published = site.json(["publish", text(&dir.path().join(name)), &url]);
    assert_eq!((&published["url"], &published["digest"]), (&url.as_str().into(), &().into()));
    assert_eq!(published["bytes_uploaded"], bytes.len());
    let copy = dir.path().join("copy");
    let fetched = site.json(["fetch", &url, text(&copy)]);
    assert_eq!((&fetched["files"], &fetched["bytes"]), (&1.into(), &bytes.len().into()));
    assert!(fs::read(copy.join(name)).unwrap() == bytes, "`{name}` has other bytes");
    let listed = site.json(["ls", url.rsplit_once('/').unwrap().0]);
    assert_eq!(listed["entries"][0]["bytes"], bytes.len());
}

#[test]
fn a_file_of_30_mb_comes_back_the_same() {
    check("large.bin", &noise(7, 30_000_000));
}

#[test]
fn an_empty_file_comes_back_the_same() {
    check("empty.bin", b"");
}

#[test]
fn an_absent_object_is_one_error_that_names_it() {
    let site = Site::shared();
    let (dir, url) = (site.scratch(), format!("{}/none.bin", site.collection("absent")));
    let copy = dir.path().join("copy");
    for args in [
        &["fetch", &url, text(&copy)][..],
        &["fetch", "--direct", &url, text(&copy)],
        &["ls", &url],
    ] {
        let outcome = site.run(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{outcome:?}");
        let errors: Vec<&str> =
            outcome.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{outcome:?}");
        assert!(errors.iter().all(|error| error.contains(&url)), "{outcome:?}");
    }
    assert!(!copy.join("none.bin").exists());
}

#[test]
fn a_single_object_is_named_where_a_bundle_is_needed() {
    let site = Site::shared();
    let (dir, url) = (site.scratch(), format!("{}/one.bin", site.collection("single")));
    put(dir.path(), "one.bin", b"one");
    site.json(["publish", text(&dir.path().join("one.bin")), &url]);
    for args in [&["verify", &url][..], &["stage", &url]] {
        let outcome = site.run(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{outcome:?}");
        let said = format!("error: `{url}` is a single object and not a bundle\nhint: ");
        assert!(outcome.stderr.starts_with(&said), "{outcome:?}");
    }
}

#[test]
fn a_mistyped_namespace_is_no_reason_to_try_again() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { public_read: true, ..Options::new(dir.path().join("federation")) };
    let federation = Federation::start(&options).unwrap();
    let url = format!("{}/x", federation.url().replace("/gular", "/guler"));
    let mut list = Command::new(gular());
    list.args(["ls", &url]).env_remove("BEARER_TOKEN_FILE");
    list.env("GULAR_CACHE", dir.path().join("node")).env("SSL_CERT_FILE", federation.ca_file());
    let refused = finish(&mut list);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains(&format!("no namespace for `{url}`")), "{refused:?}");
    assert!(refused.stderr.contains("did you mean `/gular`?"), "{refused:?}");
}

#[test]
fn a_file_is_not_overwritten() {
    let site = Site::shared();
    let (dir, url) = (site.scratch(), format!("{}/file.bin", site.collection("once")));
    for (name, bytes) in [("one", b"first"), ("two", b"other")] {
        put(dir.path(), name, bytes);
    }
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    site.json(["publish", text(&one), &url]);
    let refused = site.run(["publish", text(&two), &url]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains(&url), "{refused:?}");
    let again = site.json(["publish", text(&one), &url]);
    assert_eq!(again["identical"], 1);
    let copy = dir.path().join("copy");
    site.json(["fetch", &url, text(&copy)]);
    assert_eq!(fs::read(copy.join("file.bin")).unwrap(), b"first");
}

/// One request each to discovery and director, and three to the cache: there is no manifest below
/// the object, the object has this length, and its bytes. The origin is not asked.
#[test]
fn an_object_with_a_digest_takes_five_requests_and_none_to_the_origin() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { public_read: true, ..Options::new(dir.path().join("federation")) };
    let federation = Federation::start(&options).unwrap();
    // The origin and the cache have the object.
    let bytes = noise(3, 2_000_000);
    for server in ["origin", "cache"] {
        put(&dir.path().join("federation").join(server), "gular/x.bin", &bytes);
    }
    let url = format!("{}/x.bin#blake3={}", federation.url(), blake3::hash(&bytes).to_hex());
    let mut fetch = Command::new(gular());
    fetch.args(["fetch", &url, text(&dir.path().join("copy"))]).env_remove("BEARER_TOKEN_FILE");
    fetch.env("GULAR_CACHE", dir.path().join("node")).env("SSL_CERT_FILE", federation.ca_file());
    let fetched = finish(&mut fetch);
    assert_eq!(fetched.code, Some(0), "{fetched:?}");
    let counts = federation.counts();
    assert_eq!((counts.director_queries, counts.requests), (1, 3), "{counts:?}");
    assert_eq!((counts.origin_reads, counts.cache_hits), (0, 1), "{counts:?}");
}
