//! The files and messages of `gular publish`.

use serde_json::Value;

use crate::bundles::{data_files, digest, publish, small, small_with_other_validation, text};
use crate::site::Site;

fn names(site: &Site, url: &str) -> Vec<String> {
    let listed = site.run(["ls", url]);
    assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""), "{listed:?}");
    listed.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_bundle_is_published_with_its_digest() {
    let site = Site::shared();
    let (bundle, url) = (small(&site), format!("{}/v1", site.collection("published")));
    let objects = data_files(&bundle).len() + 1;
    assert!(objects > 10, "several shards and their indexes, found {objects} objects");
    let report = site.json(["publish", text(&bundle), &url]);
    let digest = digest(&bundle);
    assert_eq!(report["digest"], digest);
    assert_eq!(report["url"], format!("{url}#{}", digest.replacen(':', "=", 1)));
    assert_eq!((&report["objects"], &report["uploaded"]), (&objects.into(), &objects.into()));
    assert_eq!((&report["identical"], &report["dry_run"]), (&0.into(), &false.into()));
    assert_eq!(report["renamed"], Value::Array(Vec::new()));
    assert_eq!(report["bytes"], report["bytes_uploaded"]);
}

#[test]
fn publishing_again_sends_nothing() {
    let site = Site::shared();
    let (bundle, collection) = (small(&site), site.collection("again"));
    let first = publish(&site, &bundle, &collection);
    let url = format!("{collection}/v1");
    let again = site.json(["publish", text(&bundle), &url]);
    assert_eq!(again["url"], first);
    assert_eq!((&again["uploaded"], &again["bytes_uploaded"]), (&0.into(), &0.into()));
    assert_eq!(again["identical"], again["objects"]);
    let shown = site.run(["publish", text(&bundle), &url]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert_eq!(shown.stdout.lines().last(), Some(first.as_str()));
}

#[test]
fn a_job_is_told_that_its_data_was_read_with_a_token() {
    let said = |site: &Site, options: &[&str]| {
        let url = publish(site, &small(site), &site.collection("job"));
        let new = ["job", "new", "j", "--dry-run", "--site", "ospool", "--data", &url];
        let outcome = site.run([&new[..], options, &["--", "python3", "-V"]].concat());
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        (outcome.stderr + &outcome.stdout).contains("the data was read with a token")
    };
    // The token is found in `BEARER_TOKEN_FILE`: no option names it.
    let private = Site::alone();
    assert!(said(&private, &[]) && !said(&private, &["--credentials", "x"]));
    // Reading public data sends none, though there is one.
    assert!(!said(&Site::alone_with(&["--public-read"]), &[]));
}

#[test]
fn a_dry_run_writes_nothing() {
    let site = Site::shared();
    let (bundle, collection) = (small(&site), site.collection("dry"));
    let url = format!("{collection}/v1");
    let dry = site.json(["publish", text(&bundle), &url, "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["uploaded"]), (&true.into(), &dry["objects"]));
    let listed = site.run(["ls", &collection]);
    assert_eq!(listed.code, Some(2), "{listed:?}");
    publish(&site, &bundle, &collection);
    let dry = site.json(["publish", text(&bundle), &url, "--dry-run"]);
    assert_eq!((&dry["identical"], &dry["uploaded"]), (&dry["objects"], &0.into()));
}

#[test]
fn collections_list_what_was_published() {
    let site = Site::shared();
    let (bundle, collection) = (small(&site), site.collection("listed"));
    publish(&site, &bundle, &collection);
    assert_eq!(names(&site, &collection), ["data/", "v1/"]);
    assert_eq!(names(&site, &format!("{collection}/v1")), ["manifest.json"]);
    let files = data_files(&bundle);
    let data = format!("{collection}/data");
    assert_eq!(names(&site, &data), files.keys().cloned().collect::<Vec<_>>());
    let listed = site.json(["ls", &data]);
    assert_eq!(listed["url"], data);
    for entry in listed["entries"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        assert_eq!(entry["bytes"].as_u64(), files.get(name).copied(), "{name}");
        assert_eq!(entry["collection"], false, "{name}");
    }
    let parent = site.json(["ls", &collection]);
    assert_eq!(parent["entries"][0]["collection"], true);
}

#[test]
fn a_second_version_sends_only_what_changed() {
    let site = Site::shared();
    let (first, second) = (small(&site), small_with_other_validation(&site));
    let collection = site.collection("versions");
    publish(&site, &first, &collection);
    let (before, after) = (data_files(&first), data_files(&second));
    let shared = after.keys().filter(|name| before.contains_key(*name)).count();
    assert!(shared >= 4 && shared < after.len(), "{shared} of {} are shared", after.len());
    let report = site.json(["publish", text(&second), &format!("{collection}/v2")]);
    assert_eq!(report["identical"], shared);
    assert_eq!(report["uploaded"], after.len() - shared + 1);
    assert_eq!(names(&site, &collection), ["data/", "v1/", "v2/"]);
}

#[test]
fn a_url_without_name_and_version_is_refused_with_an_example() {
    let site = Site::alone();
    let bundle = small(&site);
    let collection = site.collection("x");
    let (namespace, _) = collection.rsplit_once('/').unwrap();
    let host = namespace.strip_suffix("/gular").unwrap();
    let digest = format!("{namespace}/birds/v1#blake3={}", "0".repeat(64));
    for (url, words) in [
        (namespace, &["is the namespace `/gular` itself", "/gular/birds/v1`"][..]),
        (host, &["is not the URL of a bundle", "/NAMESPACE/birds/v1`"]),
        (&digest, &["a part after `#`", "leave out `#…`"]),
        ("birds/v1", &["does not begin with a scheme", "pelican://HOST/NAMESPACE/birds/v1"]),
    ] {
        let refused = site.run(["publish", text(&bundle), url]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
        for word in words {
            assert!(refused.stderr.contains(word), "{url}: no `{word}` in {}", refused.stderr);
        }
    }
    let listed = site.json(["ls", namespace]);
    assert_eq!(listed["entries"], Value::Array(Vec::new()), "nothing was stored");
}

/// One user has no token, and another has that of another federation.
#[test]
fn who_has_no_token_is_told_how_this_federation_makes_one() {
    let site = Site::alone();
    let bundle = small(&site);
    let url = publish(&site, &bundle, &site.collection("token"));
    let next = format!("{}/v1", site.collection("next"));
    let dir = site.scratch();
    let read = "`gular federation token DIR --read=/ > token`";
    let create = "`gular federation token DIR --read=/ --create=/ > token`";
    for (args, hint) in [
        (&["fetch", &url, text(&dir.path().join("copy"))][..], read),
        (&["verify", &url], read),
        (&["publish", text(&bundle), &next], create),
    ] {
        let mut command = site.command(args);
        let refused = site.finish(command.env_remove("BEARER_TOKEN_FILE"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(hint), "{refused:?}");
    }
}
