//! A bundle that is derived from a published one only needs kilobytes of the federation.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use gular_codec::tiff::{Geo, GeoTiffWriter, Number, Packing};
use gular_tests::put;
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
    // Only shards from which it has samples are fetched.
    assert!(data_files(&fetched).len() < data_files(&base).len());
    assert!(site.json(["fetch", url, text(&fetched)])["bytes_fetched"] == 0);
    assert_eq!(site.run(["verify", text(&fetched)]).code, Some(0));

    // The bundles are compared where they are, for which no shard is fetched.
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

/// Writes a scene of one band and its mask.
fn put_scene(dir: &Path, name: &str, first: u8) {
    for (folder, plus) in [("scenes", 0), ("masks", 1)] {
        let (size, geo) = ((96, 64), Geo::default());
        let out = Cursor::new(Vec::new());
        let writer = GeoTiffWriter::new(out, size, 1, Number::U8, geo, Packing::Deflate);
        let mut writer = writer.unwrap();
        for y in 0..64_u8 {
            let row: Vec<u8> = (0..96_u8).map(|x| first ^ x ^ (y << 1) ^ plus).collect();
            writer.push(&row).unwrap();
        }
        put(dir, format!("{folder}/{name}.tif"), &writer.finish().unwrap().into_inner());
    }
}

#[test]
fn a_new_version_of_tiles_sends_only_those_of_the_scene_that_is_new() {
    let site = Site::shared();
    let (scratch, collection) = (site.scratch(), site.collection("tiles"));
    let at = |name: &str| scratch.path().join(name);
    let pack = |out: &str, base: Option<&str>| {
        let (scenes, out, masks, base) = (at("scenes"), at(out), at("masks"), base.map(at));
        let mut args = vec!["pack", text(&scenes), text(&out), "--labels", "none", "--tile", "32"];
        args.extend(["--mask", text(&masks)]);
        args.extend(base.iter().flat_map(|base| ["--base", text(base)]));
        site.json(args)
    };
    (0..5).for_each(|i| put_scene(scratch.path(), &format!("{i}"), i * 16));
    pack("v1", None);
    let of_base = site.json(["publish", text(&at("v1")), &format!("{collection}/v1")]);
    put_scene(scratch.path(), "new", 99);
    let packed = pack("v2", Some("v1"));
    assert_eq!((&packed["unchanged"], &packed["added"]), (&30.into(), &6.into()), "{packed}");
    let published = site.json(["publish", text(&at("v2")), &format!("{collection}/v2")]);
    let old = data_files(&at("v1"));
    let new = data_files(&at("v2")).into_iter().filter(|(name, _)| !old.contains_key(name));
    let manifest = fs::metadata(at("v2/manifest.json")).unwrap().len();
    assert_eq!(published["bytes_uploaded"], new.map(|(_, bytes)| bytes).sum::<u64>() + manifest);
    let sent = |report: &Value| report["bytes_uploaded"].as_u64().unwrap();
    assert!(sent(&published) * 2 < sent(&of_base), "{published}");
    for bundle in [published["url"].as_str().unwrap(), text(&at("v2"))] {
        let verified = site.run(["verify", bundle]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
    pack("anew", None);
    let diff = site.json(["diff", text(&at("v2")), text(&at("anew"))]);
    assert_eq!(diff["same"], 36, "{diff}");
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
    // The result is a separate bundle with the same values.
    assert_eq!(site.run(["verify", text(&some)]).code, Some(0));
    let diff = site.json(["diff", text(&base), text(&some)]);
    let removed = 26 - keys.len();
    assert_eq!((&diff["removed"]["n"], &diff["same"]), (&removed.into(), &keys.len().into()));
    // A second run finds it. Other samples are not added to its folder, and unknown ones make no
    // folder.
    let again = site.json(fetch);
    assert_eq!((&again["already_done"], &again["digest"]), (&true.into(), &report["digest"]));
    fs::write(&list, "no/such.jpg\n").unwrap();
    assert_eq!(site.run(fetch).code, Some(2));
    // The samples are chosen by a condition.
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
