//! A cache with wrong bytes does no harm, and is named.

use std::fs;

use gular_tests::{jpeg, put};

use crate::bundles::{assert_same, data_files, noise, pack, publish, small, text};
use crate::site::Site;

#[test]
fn a_cache_that_lies_is_named_where_the_origin_is_sound() {
    let site = Site::alone();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("lies"));
    site.json(["fetch", &url, text(&dir.path().join("first"))]);
    let (version, _) = url.split_once('#').unwrap();
    let shard = data_files(&bundle).into_keys().find(|name| !name.contains(".index.")).unwrap();
    let object = format!("{}/data/{shard}", version.strip_suffix("/v1").unwrap());
    let cached = site.cached(&object);
    let mut bytes = fs::read(&cached).unwrap();
    bytes[5000] ^= 1;
    fs::remove_file(&cached).unwrap();
    fs::write(&cached, bytes).unwrap();

    let copy = dir.path().join("copy");
    let fetched = site.run(["fetch", &url, text(&copy)]);
    assert_eq!((fetched.code, fetched.stderr.as_str()), (Some(0), ""), "{fetched:?}");
    assert_same(&copy, &bundle);
    let verified = site.run(["verify", &url]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert!(verified.stdout.contains("sound (every byte)"), "{verified:?}");
    for said in [&fetched.stdout, &verified.stdout] {
        let line =
            said.lines().find(|line| line.contains("sent wrong bytes for 1 object")).unwrap();
        assert!(line.contains("`https://localhost:") && line.contains(&object), "{line}");
    }
    let report = site.json(["verify", &url]);
    assert_eq!(report["wrong_copies"][0]["such_as"], object);

    // That cache cannot be filled. The message does not mention preferred caches, since none were
    // set.
    let refused = site.run(["prestage", &url]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("hint: tell the cache's operators"), "{refused:?}");
    assert!(!refused.stderr.contains("preferred"), "{refused:?}");
}

/// The cache, the folder and another copy are damaged at different places.
#[test]
fn a_folder_is_repaired_from_a_federation_and_another_folder() {
    let site = Site::alone();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("repaired"));
    let [own, other] = ["own", "other"].map(|name| dir.path().join(name));
    let mut shards = data_files(&bundle).into_keys().filter(|name| !name.contains(".index."));
    let [first, second] = [shards.next().unwrap(), shards.next().unwrap()];
    for copy in [&own, &other] {
        site.json(["fetch", &url, text(copy)]);
    }
    let damage = |file: &std::path::Path| {
        let mut bytes = fs::read(file).unwrap();
        bytes[5000] ^= 1;
        fs::remove_file(file).unwrap();
        fs::write(file, bytes).unwrap();
    };
    let (version, _) = url.split_once('#').unwrap();
    let object = |name: &str| format!("{}/data/{name}", version.strip_suffix("/v1").unwrap());
    damage(&own.join("data").join(&first));
    damage(&own.join("data").join(&second));
    damage(&site.cached(&object(&first)));
    damage(&site.stored(&object(&first)));
    damage(&other.join("data").join(&second));
    let alone = site.run(["repair", text(&own), "--from", &url]);
    assert_eq!(alone.code, Some(1), "{alone:?}");
    assert!(alone.stderr.contains(&first) && !alone.stderr.contains(&second), "{alone:?}");
    assert!(alone.stderr.contains("publish it under another version"), "{alone:?}");
    // The other shard is right now.
    let [mended, whole] = [&own, &bundle].map(|dir| fs::read(dir.join("data").join(&second)));
    assert!(mended.unwrap() == whole.unwrap() && alone.stdout.starts_with("repaired "));
    let from = ["--from", &url, "--from", text(&other)];
    let repaired = site.run(["repair", text(&own)].into_iter().chain(from));
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    let given = repaired.stdout.lines().filter(|line| line.starts_with("1 block from `"));
    assert!((1..=2).contains(&given.count()), "{repaired:?}");
    assert_same(&own, &bundle);
    let again = site.json(["repair", text(&own)].into_iter().chain(from));
    assert_eq!((&again["bytes_repaired"], &again["bytes_kept"]), (&0.into(), &again["bytes"]));
}

/// A shard has lost its index, another one has a damaged index and a damaged block.
#[test]
fn a_fetched_folder_is_repaired_with_its_indexes_from_where_it_came() {
    let site = Site::alone();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("came_from"));
    let own = dir.path().join("own");
    site.json(["fetch", &url, text(&own)]);
    let manifest = fs::read(bundle.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap().to_owned();
    let [first, second] = [0, 1].map(|number| &manifest["shards"][number]);
    let damage = |name: &str, at: usize| {
        let file = own.join("data").join(name);
        let mut bytes = fs::read(&file).unwrap();
        bytes[at] ^= 1;
        fs::remove_file(&file).unwrap();
        fs::write(file, bytes).unwrap();
    };
    fs::remove_file(own.join("data").join(name(&first["index"]))).unwrap();
    damage(&name(&second["index"]), 50);
    damage(&name(second), 5000);
    let repaired = site.run(["repair", text(&own)]);
    assert_eq!((repaired.code, repaired.stderr.as_str()), (Some(0), ""), "{repaired:?}");
    assert!(repaired.stdout.contains("\n1 block and 2 indexes from `pelican://"), "{repaired:?}");
    assert_same(&own, &bundle);

    // The record is of this folder, and of this bundle.
    let moved = dir.path().join("moved");
    fs::rename(&own, &moved).unwrap();
    let unknown = site.run(["repair", text(&moved)]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("hint: name a copy, with `--from URL`"), "{unknown:?}");
}

/// Two files are damaged in both folders, and a third only in one.
#[test]
fn files_that_no_folder_has_right_are_named_and_the_others_are_repaired() {
    let site = Site::alone();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("unrepaired"));
    let [own, other] = ["own", "other"].map(|name| dir.path().join(name));
    for copy in [&own, &other] {
        site.json(["fetch", &url, text(copy)]);
    }
    let manifest = fs::read(bundle.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap().to_owned();
    let shards = &manifest["shards"];
    let first = name(&shards[0]);
    let [second, third] = [1, 2].map(|number| name(&shards[number]["index"]));
    let damage = |dir: &std::path::Path, name: &str| {
        let file = dir.join("data").join(name);
        let mut bytes = fs::read(&file).unwrap();
        bytes[50] ^= 1;
        fs::remove_file(&file).unwrap();
        fs::write(file, bytes).unwrap();
    };
    [&first, &second, &third].iter().for_each(|name| damage(&own, name));
    [&first, &second].iter().for_each(|name| damage(&other, name));
    let repaired = site.run(["repair", text(&own), "--from", text(&other)]);
    assert_eq!(repaired.code, Some(1), "{repaired:?}");
    assert!(repaired.stdout.contains("0 blocks and 1 index from `file://"), "{repaired:?}");
    let start =
        "error: 2 files could not be repaired, since no copy has all blocks of them right\n";
    assert!(repaired.stderr.starts_with(start), "{repaired:?}");
    for said in [
        &format!("\n  `{first}`: `file://"),
        &format!("\n  `{second}`: `file://"),
        "other`: bytes 0 to ",
        "other`: its digest is ",
        "\nhint: name another copy with one more `--from`, such as the URL",
    ] {
        assert!(repaired.stderr.contains(said), "{said}: {repaired:?}");
    }
    assert!(!repaired.stderr.contains("this machine"), "{repaired:?}");
    let [mended, whole] = [&own, &bundle].map(|dir| fs::read(dir.join("data").join(&third)));
    assert!(mended.unwrap() == whole.unwrap());
    let args = ["repair", text(&own), "--from", text(&other), "--json"];
    let report: serde_json::Value = serde_json::from_str(&site.run(args).stdout).unwrap();
    assert_eq!(report["failed"].as_array().unwrap().len(), 2, "{report}");
}

/// A published shard was cut short, at the origin and in the cache.
#[test]
fn a_published_copy_that_was_cut_short_gives_its_whole_blocks() {
    let site = Site::alone();
    let (source, dir) = (site.scratch(), site.scratch());
    let [bundle, own] = ["bundle", "own"].map(|name| dir.path().join(name));
    put(source.path(), "a/0.jpg", &[jpeg(0), noise(7, 3_000_000)].concat());
    pack(source.path(), &bundle, "10MB");
    let url = publish(&site, &bundle, &site.collection("cut"));
    site.json(["fetch", &url, text(&own)]);
    let shard = data_files(&bundle).into_keys().find(|name| !name.contains(".index.")).unwrap();
    let (version, _) = url.split_once('#').unwrap();
    let object = format!("{}/data/{shard}", version.strip_suffix("/v1").unwrap());
    let whole = fs::read(own.join("data").join(&shard)).unwrap();
    let write = |file: &std::path::Path, bytes: &[u8]| {
        fs::remove_file(file).unwrap();
        fs::write(file, bytes).unwrap();
    };
    for file in [site.stored(&object), site.cached(&object)] {
        write(&file, &whole[..1_500_000]);
    }
    let mut damaged = whole.clone();
    damaged[77] ^= 1;
    write(&own.join("data").join(&shard), &damaged);
    let repaired = site.run(["repair", text(&own), "--from", &url]);
    assert_eq!((repaired.code, repaired.stderr.as_str()), (Some(0), ""), "{repaired:?}");
    assert!(repaired.stdout.contains("\n1 block from `pelican://"), "{repaired:?}");
    assert_same(&own, &bundle);
}
