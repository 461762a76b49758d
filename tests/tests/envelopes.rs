//! One bundle in every envelope: everything that is done with bundles gives the same result.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gular_bundle::{Bundle, Envelope, OpenOptions};
use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::{Loader, LoaderOptions, Split, Transform};
use gular_tests::{Outcome, jpeg, noisy_png, put, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn done(args: &[&str]) -> Outcome {
    let outcome = run(args);
    assert_eq!(outcome.code, Some(0), "{args:?}: {outcome:?}");
    outcome
}

fn json(args: &[&str]) -> serde_json::Value {
    let with_json: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&done(&with_json).stdout).unwrap()
}

/// Writes images of both kinds, names with dots, more than one shard.
fn images(dir: &Path) {
    for i in 0..24 {
        let split = if i % 6 == 0 { "val" } else { "train" };
        put(dir, format!("{split}/c{}/x.{i}.jpg", i % 3), &jpeg(i));
        put(dir, format!("{split}/c{}/{i}.png", i % 3), &noisy_png(i, 150));
    }
}

/// Makes one bundle per envelope, in a folder that is removed with them.
fn bundles() -> (tempfile::TempDir, Vec<(Envelope, PathBuf)>) {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("images");
    images(&source);
    let pack = |envelope: Envelope| {
        let out = dir.path().join(envelope.name());
        let args = [
            "pack",
            text(&source),
            text(&out),
            "--shard-size",
            "1MiB",
            "--envelope",
            envelope.name(),
        ];
        done(&args);
        (envelope, out)
    };
    let bundles = Envelope::ALL.map(pack).to_vec();
    (dir, bundles)
}

/// Returns all batches of two epochs, augmented.
fn batches(bundle: &Path) -> Vec<(Vec<u64>, Vec<i64>, Vec<u8>)> {
    let bundle = Arc::new(Bundle::open(bundle, OpenOptions::default()).unwrap());
    let order = OrderSpec { kind: OrderKind::Window { shards: 2 }, seed: 5, drop_last: false };
    let options = LoaderOptions {
        batch_size: 7,
        order,
        threads: 2,
        transform: Transform::train(32),
        ..LoaderOptions::new(Split::Train)
    };
    let mut loader = Loader::new(bundle, options).unwrap();
    let mut all = Vec::new();
    for epoch in 0..2 {
        for batch in loader.epoch(epoch) {
            let batch = batch.unwrap();
            all.push((
                batch.sample_ids().to_vec(),
                batch.labels().to_vec(),
                batch.images().to_vec(),
            ));
        }
    }
    all
}

#[test]
fn the_loader_gives_the_same_batches() {
    let (_dir, bundles) = bundles();
    let expected = batches(&bundles[0].1);
    assert_eq!(expected.iter().map(|(ids, _, _)| ids.len()).sum::<usize>(), 2 * 40);
    for (envelope, bundle) in &bundles {
        assert!(batches(bundle) == expected, "{envelope}");
    }
}

#[test]
fn verify_and_inspect_know_each() {
    let (dir, bundles) = bundles();
    for (envelope, bundle) in &bundles {
        done(&["verify", text(bundle)]);
        let about = json(&["inspect", text(bundle)]);
        assert_eq!(about["envelope"], envelope.name(), "{about}");
        let key = "train/c1/x.1.jpg";
        let image = fs::read(dir.path().join("images").join(key)).unwrap();
        let args = [gular_tests::gular().into_os_string(), "inspect".into(), bundle.into()];
        let out = std::process::Command::new(&args[0])
            .args(&args[1..])
            .args(["--extract", key])
            .output()
            .unwrap();
        assert!(out.stdout == image, "{envelope}");
    }
}

#[test]
fn a_changed_byte_anywhere_is_found_and_named() {
    let (_dir, bundles) = bundles();
    for (envelope, bundle) in &bundles {
        let mut shards: Vec<PathBuf> = fs::read_dir(bundle.join("data"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| !text(p).ends_with(".index.safetensors"))
            .collect();
        shards.sort();
        let (shard, whole) = (&shards[0], fs::read(&shards[0]).unwrap());
        for part in 0..40 {
            let mut bytes = whole.clone();
            let at = (bytes.len() - 1) * part / 39;
            bytes[at] ^= 0x20;
            fs::write(shard, &bytes).unwrap();
            let outcome = run(["verify", text(bundle)]);
            assert_eq!(outcome.code, Some(1), "{envelope}, byte {at}: {outcome:?}");
            assert!(outcome.stdout.contains(shard.file_name().unwrap().to_str().unwrap()));
        }
        fs::write(shard, &whole).unwrap();
        done(&["verify", text(bundle)]);
    }
}

#[test]
fn they_are_published_fetched_and_exported() {
    let (dir, bundles) = bundles();
    for (envelope, bundle) in &bundles {
        let place = dir.path().join("site").join(envelope.name()).join("v1");
        let url = format!("file://{}", text(&place));
        let published = json(&["publish", text(bundle), &url]);
        let fetched = dir.path().join("fetched").join(envelope.name());
        done(&["fetch", published["url"].as_str().unwrap(), text(&fetched)]);
        done(&["verify", text(&fetched), "--digest", published["digest"].as_str().unwrap()]);
        done(&["verify", published["url"].as_str().unwrap()]);
        let file = dir.path().join(format!("{envelope}.tar.zst"));
        done(&["export", text(bundle), "--tar-zst", text(&file)]);
    }
}

#[test]
fn each_converts_to_each() {
    let (dir, bundles) = bundles();
    let digests: BTreeMap<&str, String> = bundles
        .iter()
        .map(|(e, b)| {
            let digest = json(&["verify", text(b)])["digest"].as_str().unwrap().to_owned();
            (e.name(), digest)
        })
        .collect();
    for (from, bundle) in &bundles {
        for to in Envelope::ALL {
            let out = dir.path().join("converted");
            let report = json(&["convert", text(bundle), text(&out), "--envelope", to.name()]);
            assert_eq!(report["digest"], digests[to.name()].as_str(), "{from} to {to}");
            fs::remove_dir_all(&out).unwrap();
        }
    }
}

#[test]
fn each_is_adopted_where_it_is() {
    let (dir, bundles) = bundles();
    let images = dir.path().join("images");
    for (envelope, bundle) in &bundles {
        let out = dir.path().join("adopted");
        let report = json(&["adopt", text(&bundle.join("data")), "--out", text(&out)]);
        assert_eq!(report["splits"], serde_json::json!({"train": 40, "val": 8}), "{envelope}");
        done(&["verify", text(&out)]);
        let plain = dir.path().join("plain");
        done(&["convert", text(&out), text(&plain), "--envelope", "directory"]);
        for split in ["train", "val"] {
            let key = format!("{split}/c0/x.{}.jpg", if split == "val" { 6 } else { 3 });
            let found = fs::read(plain.join(&key)).unwrap();
            assert!(found == fs::read(images.join(&key)).unwrap(), "{envelope}");
        }
        fs::remove_dir_all(&out).unwrap();
        fs::remove_dir_all(&plain).unwrap();
    }
}

#[test]
fn a_folder_with_some_splits_is_verified_as_such() {
    let (dir, bundles) = bundles();
    let bundle = &bundles[0].1;
    let url = format!("file://{}", text(&dir.path().join("site/x/v1")));
    let published = json(&["publish", text(bundle), &url]);
    let part = dir.path().join("part");
    done(&["fetch", published["url"].as_str().unwrap(), text(&part), "--splits", "val"]);
    let whole = run(["verify", text(&part)]);
    assert_eq!(whole.code, Some(1));
    assert!(whole.stdout.contains("`--splits val`"), "{whole:?}");
    assert_eq!(json(&["verify", text(&part), "--splits", "val"])["samples"], 8);
}
