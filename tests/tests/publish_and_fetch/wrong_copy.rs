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
