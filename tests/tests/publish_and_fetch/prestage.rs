//! `gular prestage` loads a bundle into a cache.

use gular_tests::Outcome;
use serde_json::Value;

use crate::bundles::{data_files, publish, small};
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

/// Not even the origin is used, since that would not fill the cache.
#[test]
fn a_cache_that_is_down_is_not_replaced_by_another_server() {
    let site = Site::shared();
    let url = publish(&site, &small(&site), &site.collection("unstaged"));
    let outcome = site.run(["prestage", &url, "--at", "https://localhost:1"]);
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("https://localhost:1"), "{outcome:?}");
}
