//! `gular verify URL` reads a published bundle and stores nothing.

use serde_json::Value;

use crate::bundles::{digest, publish, small, text};
use crate::site::Site;

#[test]
fn a_published_bundle_is_sound() {
    let site = Site::shared();
    let bundle = small(&site);
    let url = publish(&site, &bundle, &site.collection("sound"));
    let (plain, _) = url.split_once('#').unwrap();
    for url in [url.as_str(), plain] {
        let verified = site.json(["verify", url]);
        assert_eq!(
            (&verified["sound"], &verified["digest"]),
            (&true.into(), &digest(&bundle).into())
        );
    }
}

#[test]
fn a_check_of_some_samples_says_what_it_would_have_seen() {
    let site = Site::shared();
    let url = publish(&site, &small(&site), &site.collection("sampled"));
    let verified = site.run(["verify", "--sample", "50%", &url]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    // A thousandth and a hundredth of 26 samples are none.
    let line = "how likely damage would have been seen, to 1 sample: 50%\n";
    let (_, seed) = verified.stdout.split_once(line).unwrap();
    let seed = seed.strip_prefix("`--seed ").unwrap();
    let seed = seed.strip_suffix("` reads the same samples again\n").unwrap();
    let again = site.json(["verify", "--sample", "50%", "--seed", seed, &url]);
    assert_eq!(again["seed"].to_string(), seed);
    // The clock chooses, so that runs differ.
    let local = small(&site);
    let seed = |_| site.json(["verify", "--sample", "1%", text(&local)])["seed"].to_string();
    assert!((0..5).map(seed).collect::<std::collections::HashSet<_>>().len() > 1);
    let one = site.run(["verify", "--sample", "1%", "--seed", "3", text(&local)]);
    assert!(one.stdout.contains("the 1 sample that was read: "), "{one:?}");
    let report = site.json(["verify", "--sample", "50%", &url]);
    assert_eq!(
        (&report["detection"][0]["damaged"], report["sound"].as_bool()),
        (&1.into(), Some(true))
    );
}

#[test]
fn a_wrong_digest_is_not_sound() {
    let site = Site::shared();
    let url = publish(&site, &small(&site), &site.collection("unsound"));
    let (plain, _) = url.split_once('#').unwrap();
    let wrong = format!("{plain}#blake3={}", "0".repeat(64));
    let verified = site.run(["verify", &wrong]);
    assert_eq!(verified.code, Some(1), "{verified:?}");
    for word in [
        "expected blake3:0000",
        &digest(&small(&site)),
        "do: check that the URL has the right version",
    ] {
        assert!(verified.stdout.contains(word), "{verified:?}");
    }
    assert!(!verified.stdout.contains("publish it again"), "{verified:?}");
}

/// Half of the bundle is published, as by a publisher that ran out of time, but with a manifest.
#[test]
fn a_missing_shard_is_found() {
    let site = Site::shared();
    let (bundle, collection) = (small(&site), site.collection("missing"));
    let manifest = format!("{collection}/v1/manifest.json");
    site.json(["publish", text(&bundle.join("manifest.json")), &manifest]);
    let verified = site.finish(site.command(["verify", &format!("{collection}/v1")]).arg("--json"));
    assert_eq!(verified.code, Some(1), "{verified:?}");
    let report: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!(report["sound"], false);
}
