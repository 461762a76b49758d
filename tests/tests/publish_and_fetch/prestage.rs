//! `gular prestage` loads a bundle into a cache.

use std::fs;

use gular_tests::{Outcome, put};
use serde_json::Value;

use crate::bundles::{data_files, noise, publish, small, text};
use crate::site::Site;

/// Runs `gular prestage` and returns its report; `None` if the federation has no cache.
fn prestage(site: &Site, args: &[&str]) -> Option<Value> {
    let outcome: Outcome = site.finish(site.command(["prestage"]).args(args).arg("--json"));
    if outcome.code == Some(2) && outcome.stderr.contains("the federation named no cache for") {
        assert!(!site.is_embedded());
        return None;
    }
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    Some(serde_json::from_str(&outcome.stdout).unwrap())
}

fn bytes(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap()
}

#[test]
fn a_bundle_is_brought_into_the_nearest_cache() {
    let site = Site::shared();
    let bundle = small(&site);
    let url = publish(&site, &bundle, &site.collection("prestaged"));
    let Some(first) = prestage(&site, &[&url]) else { return };
    assert_eq!(first["files"], data_files(&bundle).len() + 1);
    let data: u64 = data_files(&bundle).values().sum();
    assert!(bytes(&first, "bytes") > data, "{first}");
    let parts = ["bytes_there", "bytes_brought", "bytes_unknown"];
    let sum = |report: &Value| parts.iter().map(|part| bytes(report, part)).sum::<u64>();
    assert_eq!(sum(&first), bytes(&first, "bytes"), "{first}");
    assert_eq!(bytes(&first, "bytes_there"), 0, "{first}");

    // The same cache, when it is named, has the bundle by now.
    let cache = first["cache"].as_str().unwrap();
    let again = prestage(&site, &[&url, "--at", cache]).unwrap();
    assert_eq!((&again["cache"], sum(&again)), (&first["cache"], bytes(&again, "bytes")));
    assert_eq!(bytes(&again, "bytes_brought"), 0, "{again}");
    if site.is_embedded() {
        assert_eq!(first["bytes_brought"], first["bytes"], "{first}");
        assert_eq!(again["bytes_there"], again["bytes"], "{again}");
    }
    let split = prestage(&site, &[&url, "--splits", "val"]).unwrap();
    assert!(bytes(&split, "bytes") < bytes(&first, "bytes"), "{split}");
}

#[test]
fn an_object_is_brought_and_checked() {
    let site = Site::alone();
    let (dir, url) = (site.scratch(), format!("{}/x.sif", site.collection("object")));
    put(dir.path(), "x.sif", &noise(5, 3_000_000));
    site.json(["publish", text(&dir.path().join("x.sif")), &url]);
    let first = prestage(&site, &[&url]).unwrap();
    assert_eq!((bytes(&first, "bytes_brought"), bytes(&first, "files")), (3_000_000, 1), "{first}");
    assert!(first["not_checked"].is_null(), "{first}");
    let named = first["url"].as_str().unwrap();
    assert_eq!(bytes(&prestage(&site, &[named]).unwrap(), "bytes_there"), 3_000_000);
    // The cache's copy is damaged, and still has the right length.
    let cached = site.cached(&url);
    let mut copy = fs::read(&cached).unwrap();
    copy[2_000_000] ^= 1;
    fs::remove_file(&cached).unwrap();
    fs::write(&cached, copy).unwrap();
    let refused = site.run(["prestage", named]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("the cache's operators"), "{refused:?}");
}

/// Not even the origin is used, since that would not fill the cache.
#[test]
fn a_cache_that_is_down_is_not_replaced_by_another_server() {
    let site = Site::shared();
    let url = publish(&site, &small(&site), &site.collection("unstaged"));
    let outcome = site.run(["prestage", &url, "--at", "https://localhost:1"]);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("https://localhost:1"), "{outcome:?}");
}
