//! A bundle derived from a published one costs the federation kilobytes.

use std::fs;

use serde_json::Value;

use crate::bundles::{assert_same, data_files, publish, small, text};
use crate::site::Site;

#[test]
fn a_part_published_beside_its_base_sends_no_shard_and_is_fetched_as_any_bundle() {
    let site = Site::shared();
    let (base, collection) = (small(&site), site.collection("derived"));
    let of_base = publish(&site, &base, &collection);
    let scratch = site.scratch();
    let part = scratch.path().join("part");
    let args = ["--where", "class = 'class 1' and split = train"];
    let derived = site.json(["derive", text(&base), text(&part)].into_iter().chain(args));
    assert_eq!((&derived["samples"], &derived["base_samples"]), (&6.into(), &26.into()));
    let published = site.json(["publish", text(&part), &format!("{collection}/v1-part")]);
    let views = data_files(&part).into_iter().filter(|(name, _)| name.ends_with(".view"));
    let bytes: u64 = views.map(|(_, bytes)| bytes).sum();
    let manifest = fs::metadata(part.join("manifest.json")).unwrap().len();
    assert!(bytes > 0);
    assert_eq!(published["bytes_uploaded"], bytes + manifest);
    assert_eq!(published["digest"], derived["digest"]);
    let url = published["url"].as_str().unwrap();

    let there = site.run(["verify", url]);
    assert_eq!(there.code, Some(0), "{there:?}");
    let fetched = scratch.path().join("fetched");
    site.json(["fetch", url, text(&fetched)]);
    assert_same(&fetched, &part);
    // Only shards that it has samples of.
    assert!(data_files(&fetched).len() < data_files(&base).len());
    assert!(site.json(["fetch", url, text(&fetched)])["bytes_fetched"] == 0);
    assert_eq!(site.run(["verify", text(&fetched)]).code, Some(0));

    // Compared where they are: of the shards nothing is fetched for that.
    let cache = scratch.path().join("cache");
    let mut diff = site.command(["diff", &of_base, url, "--json"]);
    let diff = site.finish(diff.env("GULAR_CACHE", &cache));
    assert_eq!(diff.code, Some(0), "{diff:?}");
    let diff: Value = serde_json::from_str(&diff.stdout).unwrap();
    assert_eq!((&diff["removed"]["n"], &diff["same"]), (&20.into(), &6.into()));
    let shards = data_files(&base).into_iter().filter(|(name, _)| !name.contains(".index."));
    let names: Vec<String> = shards.map(|(name, _)| name).collect();
    for bundle in fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()) {
        assert!(names.iter().all(|name| !bundle.join("data").join(name).exists()));
    }
}

#[test]
fn listed_samples_are_fetched_alone_as_a_bundle_of_their_own() {
    let site = Site::shared();
    let (base, collection) = (small(&site), site.collection("keys"));
    let url = publish(&site, &base, &collection);
    let listed = site.json(["inspect", text(&base), "--samples", "26"]);
    let samples = listed["sample_list"].as_array().unwrap();
    let keys: Vec<&str> =
        samples.iter().step_by(4).map(|sample| sample["key"].as_str().unwrap()).collect();
    let scratch = site.scratch();
    let (list, some) = (scratch.path().join("keys.txt"), scratch.path().join("some"));
    fs::write(&list, format!("{}\nno/such.jpg\n", keys.join("\n"))).unwrap();
    let fetch = ["fetch", url.as_str(), text(&some), "--keys", text(&list)];
    let trial = site.json(fetch.into_iter().chain(["--dry-run"]));
    assert!(!some.exists());
    let report = site.json(fetch);
    assert_eq!(report["samples"], keys.len());
    assert_eq!(
        (&report["unknown_keys"], &report["unknown"][0]),
        (&1.into(), &"no/such.jpg".into())
    );
    let (wanted, asked) = (&report["bytes_wanted"], &report["bytes_asked"]);
    assert_eq!(wanted, &trial["bytes_wanted"]);
    assert!(asked.as_u64().unwrap() * 100 <= wanted.as_u64().unwrap() * 115, "{report}");
    // A bundle that stands alone, of the same values.
    assert_eq!(site.run(["verify", text(&some)]).code, Some(0));
    let diff = site.json(["diff", text(&base), text(&some)]);
    let removed = 26 - keys.len();
    assert_eq!((&diff["removed"]["n"], &diff["same"]), (&removed.into(), &keys.len().into()));
    // Again: it is there. Other samples do not go into its folder, and unknown ones into none.
    let again = site.json(fetch);
    assert_eq!((&again["already_done"], &again["digest"]), (&true.into(), &report["digest"]));
    fs::write(&list, "no/such.jpg\n").unwrap();
    assert_eq!(site.run(fetch).code, Some(2));
    // By a condition.
    let (key, fitting) = (keys[1], scratch.path().join("fitting"));
    let condition = format!("key = '{key}'");
    let report = site.json(["fetch", &url, text(&fitting), "--where", &condition]);
    assert_eq!((&report["samples"], &report["requests_of_condition"]), (&1.into(), &0.into()));
    assert_eq!(site.run(["verify", text(&fitting)]).code, Some(0));
    fs::remove_dir_all(&fitting).unwrap();
    let none = scratch.path().join("none");
    let refused = site.run(["fetch", &url, text(&none), "--keys", text(&list)]);
    assert!(
        refused
            .stderr
            .contains("the list has 1 key that no sample of the bundle has: `no/such.jpg`"),
        "{refused:?}"
    );
    assert_eq!((refused.code, fs::read_dir(scratch.path()).unwrap().count()), (Some(2), 2));
}
