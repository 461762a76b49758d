//! The commands that work, and the errors of others, when no server of the federation answers.

use std::fs;

use gular_tests::{Outcome, put};

use crate::bundles::{assert_same, publish, small, text};
use crate::site::Site;

/// Checks for "try again later", with one error and what to do.
fn expect_later(outcome: &Outcome, words: &[&str]) {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(75), ""), "{outcome:?}");
    let errors = outcome.stderr.lines().filter(|line| line.starts_with("error: "));
    assert_eq!(errors.count(), 1, "{outcome:?}");
    assert!(outcome.stderr.contains("\nhint: "), "{outcome:?}");
    for word in words {
        assert!(outcome.stderr.contains(word), "no `{word}` in {}", outcome.stderr);
    }
}

/// Runs `gular` as on a node that never reached the federation: with a known route, servers that
/// are down would be retried for as long as caches are.
fn run(site: &Site, args: &[&str]) -> Outcome {
    let cache = site.scratch();
    site.finish(site.command(args).env("GULAR_CACHE", cache.path()))
}

#[test]
fn every_verb_that_needs_it_ends_with_75() {
    let mut site = Site::alone();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("later"));
    let next = format!("{}/v1", site.collection("never"));
    let copy = dir.path().join("copy");
    site.stop();
    for args in [
        &["fetch", &url, text(&copy)][..],
        &["publish", text(&bundle), &next],
        &["verify", &url],
        &["prestage", &url],
        &["ls", &next],
        &["stage", &url, "--to", text(dir.path()), "--", "true"],
    ] {
        expect_later(&run(&site, args), &["again later"]);
    }
    assert!(!copy.exists());
    // The command does what was asked, so nothing has to be tried again.
    assert_eq!(run(&site, &["doctor", &url]).code, Some(1));
}

#[test]
fn a_whole_copy_is_proven_by_the_digest_in_the_url() {
    let mut site = Site::alone();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("proven"));
    let copy = dir.path().join("copy");
    site.json(["fetch", &url, text(&copy)]);
    let part = dir.path().join("part");
    site.json(["fetch", &url, text(&part), "--splits", "val"]);
    put(dir.path(), "file.bin", b"some bytes");
    let object = format!("{}/file.bin", site.collection("object"));
    site.json(["publish", text(&dir.path().join("file.bin")), &object]);
    let fetched = site.json(["fetch", &object, text(&dir.path().join("object"))]);
    let object = format!("{object}#{}", fetched["digest"].as_str().unwrap().replacen(':', "=", 1));
    site.stop();

    for args in [
        &["fetch", &url, text(&copy)][..],
        &["fetch", &url, text(&part), "--splits", "val"],
        &["fetch", &object, text(&dir.path().join("object"))],
    ] {
        let again = run(&site, args);
        assert_eq!((again.code, again.stderr.as_str()), (Some(0), ""), "{again:?}");
        assert!(again.stdout.starts_with("nothing to fetch: "), "{again:?}");
        assert!(again.stdout.contains("; no server was asked\n"), "{again:?}");
    }
    assert_same(&copy, &bundle);
    let dry = run(&site, &["fetch", &url, text(&copy), "--dry-run"]);
    assert!(dry.code == Some(0) && dry.stdout.starts_with("nothing to fetch"), "{dry:?}");

    // Without a digest it is unknown what should be there.
    let (plain, digest) = url.split_once('#').unwrap();
    let refused = run(&site, &["fetch", plain, text(&copy)]);
    let words = ["can only be checked if the URL has its digest", digest];
    expect_later(&refused, &words);

    // Files that are missing here still have to be fetched.
    expect_later(&run(&site, &["fetch", &url, text(&part)]), &["again later"]);
    let shard = fs::read_dir(copy.join("data")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(shard).unwrap();
    expect_later(&run(&site, &["fetch", &url, text(&copy)]), &["again later"]);
}
