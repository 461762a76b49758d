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
