//! What is published under a name must not change: the digest that was first seen at a URL counts.

use std::fs;

use gular_tests::put;

use crate::bundles::{publish, small, text};
use crate::site::Site;

/// Replaces what the origin stores at `url`.
fn replace(site: &Site, url: &str, bytes: &[u8]) {
    let file = site.stored(url);
    fs::remove_file(&file).unwrap();
    fs::write(file, bytes).unwrap();
}

/// Checks that a command says that something has changed, and succeeds if the URL has a digest.
fn check(site: &Site, args: &[&str]) {
    let outcome = site.run(args);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("has changed: its digest was blake3:"), "{outcome:?}");
    assert!(outcome.stderr.contains("URL#blake3="), "{outcome:?}");
}

#[test]
fn an_object_that_changed_is_an_error_from_whichever_server() {
    let site = Site::alone();
    let (dir, url) = (site.scratch(), format!("{}/x.bin", site.collection("object")));
    put(dir.path(), "x.bin", b"first");
    site.json(["publish", text(&dir.path().join("x.bin")), &url]);
    let copy = |name: &str| dir.path().join(name);
    let first = site.json(["fetch", &url, text(&copy("1"))]);
    replace(&site, &url, b"other");
    check(&site, &["fetch", "--direct", &url, text(&copy("2"))]);
    assert!(!copy("2").join("x.bin").exists());
    // The cache still has what was first seen.
    site.json(["fetch", &url, text(&copy("3"))]);
    let digest = first["digest"].as_str().unwrap().strip_prefix("blake3:").unwrap();
    site.json(["fetch", &format!("{url}#blake3={digest}"), text(&copy("4"))]);
}

#[test]
fn a_bundle_that_changed_is_an_error_in_every_verb() {
    let site = Site::alone();
    let bundle = small(&site);
    let url = publish(&site, &bundle, &site.collection("bundle"));
    let (plain, _) = url.split_once('#').unwrap();
    let dir = site.scratch();
    let copy = |name: &str| dir.path().join(name);
    site.json(["fetch", plain, text(&copy("1"))]);
    // The same bundle with another description: its shards are there.
    let manifest = fs::read_to_string(bundle.join("manifest.json")).unwrap();
    let other = dir.path().join("other");
    let changed = site.run(["derive", text(&bundle), text(&other), "--where", "bytes > 1"]);
    assert_eq!(changed.code, Some(0), "{changed:?}");
    let changed = fs::read_to_string(other.join("manifest.json")).unwrap();
    assert_ne!(changed, manifest);
    replace(&site, &format!("{plain}/manifest.json"), changed.as_bytes());
    check(&site, &["fetch", "--direct", plain, text(&copy("2"))]);
    assert!(!copy("2").join("data").exists());
    check(&site, &["verify", "--direct", "--quick", plain]);
    site.json(["verify", &url]);
}
