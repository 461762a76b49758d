//! The bundles that are published: they have several shards, and are made once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gular_tests::{files, jpeg, put, run};
use serde_json::Value;

use crate::site::Site;

/// Packs `source` into `out`, with several shards of about `shard_size` each.
pub(crate) fn pack(source: &Path, out: &Path, shard_size: &str) {
    let args = ["pack", text(source), text(out), "--shard-size", shard_size, "--quiet"];
    let packed = run(args);
    assert_eq!(packed.code, Some(0), "{packed:?}");
}

/// Makes a bundle of 18 training and 8 validation images, 4 MB in several shards of each.
pub(crate) fn small(site: &Site) -> PathBuf {
    site.once("small", |dir| {
        let source = site.scratch();
        images(source.path(), 0);
        pack(source.path(), dir, "1MiB");
    })
}

/// Makes a bundle with the same training images as [`small`], and other ones for validation.
pub(crate) fn small_with_other_validation(site: &Site) -> PathBuf {
    site.once("small-2", |dir| {
        let source = site.scratch();
        images(source.path(), 100);
        pack(source.path(), dir, "1MiB");
    })
}

fn images(dir: &Path, first_of_val: u32) {
    for i in 0..18 {
        put(dir, format!("train/class {}/{i}.jpg", i % 3), &picture(i, 150_000));
    }
    for i in first_of_val..first_of_val + 8 {
        put(dir, format!("val/class {}/{i}.jpg", i % 3), &picture(i + 50, 150_000));
    }
}

/// Returns a small JPEG with `len` further bytes behind its end, which no decoder reads.
fn picture(i: u32, len: usize) -> Vec<u8> {
    let mut bytes = jpeg(i);
    bytes.extend(noise(i.into(), len));
    bytes
}

/// Makes a bundle of 60 MB in six shards.
pub(crate) fn large(site: &Site) -> PathBuf {
    site.once("large", |dir| {
        let source = site.scratch();
        for i in 0..20 {
            put(source.path(), format!("a/{i}.jpg"), &picture(i, 3_000_000));
        }
        pack(source.path(), dir, "10MB");
    })
}

/// Returns bytes that no compression makes shorter; another `seed` gives other bytes.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(1);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The low bits of the state repeat soon.
        let word = (state ^ (state >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.extend_from_slice(&(word >> 16).to_le_bytes()[..6]);
    }
    bytes.truncate(len);
    bytes
}

/// Returns the data files of a bundle with their lengths.
pub(crate) fn data_files(bundle: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(bundle.join("data")).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, entry.metadata().unwrap().len())
    });
    named.collect()
}

/// Returns the bundle's digest, as a check of the local folder reports it.
pub(crate) fn digest(bundle: &Path) -> String {
    let outcome = run(["verify", text(bundle), "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    report["digest"].as_str().unwrap().to_owned()
}

/// Publishes `bundle` as version `v1` below `collection`, and returns its `URL#blake3=…`.
pub(crate) fn publish(site: &Site, bundle: &Path, collection: &str) -> String {
    let report = site.json(["publish", text(bundle), &format!("{collection}/v1")]);
    report["url"].as_str().unwrap().to_owned()
}

/// Checks that both folders have the same files with the same bytes.
pub(crate) fn assert_same(found: &Path, expected: &Path) {
    let (found, expected) = (files(found), files(expected));
    let names = |files: &[(PathBuf, Vec<u8>)]| -> Vec<PathBuf> {
        files.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&found), names(&expected));
    for ((name, found), (_, expected)) in found.iter().zip(&expected) {
        assert!(found == expected, "`{}` has other bytes", name.display());
    }
}

/// Returns a path of a test, which is UTF-8, as text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
