//! Names that somebody else has taken, or is taking at this moment.

use std::fs;
use std::process::Stdio;

use gular_tests::put;
use serde_json::Value;

use crate::bundles::{assert_same, data_files, publish, small, small_with_other_validation, text};
use crate::site::Site;

#[test]
fn two_publishers_at_once_both_succeed() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = format!("{}/v1", site.collection("two"));
    let start = || {
        let mut command = site.command(["publish", text(&bundle), &url, "--json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for publisher in [start(), start()] {
        let output = publisher.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.as_ref()), (Some(0), ""));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["renamed"], Value::Array(Vec::new()));
    }
    site.json(["fetch", &url, text(&dir.path().join("copy"))]);
    assert_same(&dir.path().join("copy"), &bundle);
}

/// A cut upload leaves an object with fewer bytes; a file of that length with the name looks the
/// same to every later client.
#[test]
fn a_name_burned_by_a_cut_upload_is_left_for_the_next() {
    let site = Site::shared();
    let (bundle, dir, collection) = (small(&site), site.scratch(), site.collection("burned"));
    let files = data_files(&bundle);
    let (index, shard): (Vec<_>, Vec<_>) = files.keys().partition(|name| name.contains(".index."));
    let burned = [index.first().unwrap().as_str(), shard.last().unwrap().as_str()];
    for name in burned {
        let whole = fs::read(bundle.join("data").join(name)).unwrap();
        let half = whole.get(..whole.len() / 2).unwrap();
        put(dir.path(), name, half);
        site.json(["publish", text(&dir.path().join(name)), &format!("{collection}/data/{name}")]);
    }
    let report = site.json(["publish", text(&bundle), &format!("{collection}/v1")]);
    let mut expected = burned.map(|name| format!("{collection}/data/{name}~1"));
    expected.sort();
    assert_eq!(report["renamed"], serde_json::json!(expected));
    assert_eq!(report["uploaded"], report["objects"]);
    // The names stay as they were, and the next publisher finds the replacement names.
    let again = site.json(["publish", text(&bundle), &format!("{collection}/v1")]);
    assert_eq!((&again["uploaded"], &again["renamed"]), (&0.into(), &report["renamed"]));

    let url = report["url"].as_str().unwrap();
    site.json(["fetch", url, text(&dir.path().join("copy"))]);
    assert_same(&dir.path().join("copy"), &bundle);
    let verified = site.json(["verify", url]);
    assert_eq!(verified["sound"], true);
}

#[test]
fn another_bundle_under_the_same_version_is_refused() {
    let site = Site::shared();
    let (first, second) = (small(&site), small_with_other_validation(&site));
    let (dir, collection) = (site.scratch(), site.collection("taken"));
    let url = publish(&site, &first, &collection);
    let before = site.json(["ls", &format!("{collection}/data")]);
    let refused = site.run(["publish", text(&second), &format!("{collection}/v1")]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    let manifest = format!("{collection}/v1/manifest.json");
    assert!(refused.stderr.starts_with("error: "), "{refused:?}");
    assert!(refused.stderr.contains(&manifest), "{refused:?}");
    // The conflict is found before anything is sent.
    assert_eq!(site.json(["ls", &format!("{collection}/data")]), before);
    site.json(["fetch", &url, text(&dir.path().join("copy"))]);
    assert_same(&dir.path().join("copy"), &first);
}
