//! A cache with wrong bytes does no harm, and is named.

use std::fs;

use crate::bundles::{assert_same, data_files, publish, small, text};
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
    let from = ["--from", &url, "--from", text(&other)];
    let repaired = site.run(["repair", text(&own)].into_iter().chain(from));
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    let given = repaired.stdout.lines().filter(|line| line.starts_with("1 block from `"));
    assert!((1..=2).contains(&given.count()), "{repaired:?}");
    assert_same(&own, &bundle);
    let again = site.json(["repair", text(&own)].into_iter().chain(from));
    assert_eq!((&again["bytes_repaired"], &again["bytes_kept"]), (&0.into(), &again["bytes"]));
}
