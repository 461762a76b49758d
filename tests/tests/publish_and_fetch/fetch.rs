//! The files that `gular fetch` fetches.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::bundles::{assert_same, data_files, digest, publish, small, text};
use crate::site::Site;

#[test]
fn a_fetched_bundle_has_the_same_bytes() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("fetched"));
    let copy = dir.path().join("copy");
    let report = site.json(["fetch", &url, text(&copy)]);
    assert_same(&copy, &bundle);
    assert_eq!(
        (&report["url"], &report["digest"]),
        (&url.as_str().into(), &digest(&bundle).into())
    );
    assert_eq!(report["files"], data_files(&bundle).len() + 1);
    assert_eq!((&report["bytes_kept"], &report["bytes_fetched"]), (&0.into(), &report["bytes"]));
}

#[test]
fn fetching_again_keeps_all() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("kept"));
    let copy = dir.path().join("copy");
    site.json(["fetch", &url, text(&copy)]);
    let again = site.json(["fetch", &url, text(&copy)]);
    assert_eq!((&again["bytes_fetched"], &again["bytes_kept"]), (&0.into(), &again["bytes"]));
    assert_same(&copy, &bundle);
}

#[test]
fn three_fetches_at_once_into_one_folder_bring_it_once() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("together"));
    let copy = dir.path().join("copy");
    let start = || {
        let mut command = site.command(["fetch", &url, text(&copy), "--json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let fetched: Vec<u64> = [start(), start(), start()]
        .into_iter()
        .map(|fetch| {
            let output = fetch.wait_with_output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            report["bytes_fetched"].as_u64().unwrap()
        })
        .collect();
    let manifest = fs::metadata(bundle.join("manifest.json")).unwrap().len();
    let whole = data_files(&bundle).values().sum::<u64>() + manifest;
    assert_eq!(fetched.iter().sum::<u64>(), whole, "{fetched:?}");
    assert_same(&copy, &bundle);
}

#[test]
fn a_dry_run_brings_nothing() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("dry-fetch"));
    let copy = dir.path().join("copy");
    let dry = site.json(["fetch", &url, text(&copy), "--dry-run"]);
    assert_eq!(dry["files"], data_files(&bundle).len() + 1);
    assert!(!copy.exists());
}

#[test]
fn one_split_is_fetched_alone() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("split"));
    let copy = dir.path().join("copy");
    site.json(["fetch", &url, text(&copy), "--splits", "val"]);
    let mut expected = data_files(&bundle);
    expected.retain(|name, _| name.starts_with("val-"));
    assert!(!expected.is_empty());
    assert_eq!(data_files(&copy), expected);
    // The rest is fetched when it is asked for.
    site.json(["fetch", &url, text(&copy)]);
    assert_same(&copy, &bundle);
}

#[test]
fn a_wrong_digest_leaves_no_bundle() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("wrong"));
    let (plain, _) = url.split_once('#').unwrap();
    let wrong = format!("{plain}#blake3={}", "0".repeat(64));
    let copy = dir.path().join("copy");
    let fetched = site.run(["fetch", &wrong, text(&copy)]);
    assert_eq!((fetched.code, fetched.stdout.as_str()), (Some(1), ""), "{fetched:?}");
    assert!(fetched.stderr.contains(&digest(&bundle)), "{fetched:?}");
    assert!(!copy.join("manifest.json").exists());
    assert!(!copy.join("data").exists());
}

/// The first read fills the caches, and the second is served from them.
#[test]
fn caches_and_the_origin_bring_the_same_bytes() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("cached"));
    for (name, args) in [("cold", &[][..]), ("warm", &[]), ("origin", &["--direct"])] {
        let copy = dir.path().join(name);
        let report = site.json(["fetch", &url, text(&copy)].iter().chain(args));
        assert_eq!(report["bytes_fetched"], report["bytes"]);
        assert_same(&copy, &bundle);
    }
}
