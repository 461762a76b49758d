//! A bundle's folder that is at a URL as it was on a disk, put there by other tools.

use std::path::Path;

use crate::bundles::{assert_same, data_files, digest, small, text};
use crate::site::Site;

/// Uploads the bundle's files one by one: data below `data`, the manifest into `version`.
fn put_up(site: &Site, bundle: &Path, version: &str, data: &str) {
    for name in data_files(bundle).keys() {
        let from = bundle.join("data").join(name);
        site.json(["publish", text(&from), &format!("{data}/{name}")]);
    }
    let manifest = bundle.join("manifest.json");
    site.json(["publish", text(&manifest), &format!("{version}/manifest.json")]);
}

fn check(site: &Site, bundle: &Path, version: &str) {
    let dir = site.scratch();
    let copy = dir.path().join("copy");
    let digest = digest(bundle).replacen(':', "=", 1);
    let url = format!("{version}#{digest}");
    let report = site.json(["fetch", &url, text(&copy)]);
    assert_same(&copy, bundle);
    assert_eq!(report["url"], url.as_str());
    assert_eq!(site.json(["verify", &url])["sound"], true);
    assert_eq!(site.json(["verify", version, "--quick"])["sound"], true);
}

/// The folder is as from `pelican object put -r bundle/ URL` or rclone.
#[test]
fn a_folder_with_its_data_below_the_manifest_is_a_bundle() {
    let site = Site::shared();
    let (bundle, collection) = (small(&site), site.collection("copied"));
    let version = format!("{collection}/v1");
    put_up(&site, &bundle, &version, &format!("{version}/data"));
    check(&site, &bundle, &version);
}

/// The folder is as a job's sandbox that was copied.
#[test]
fn a_folder_with_all_files_side_by_side_is_a_bundle() {
    let site = Site::shared();
    let (bundle, collection) = (small(&site), site.collection("flat"));
    let version = format!("{collection}/v1");
    put_up(&site, &bundle, &version, &version);
    check(&site, &bundle, &version);
}
