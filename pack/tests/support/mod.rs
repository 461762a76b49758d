//! Makes images for the tests, and packs them.

#![allow(dead_code, unreachable_pub, reason = "each test program uses some of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gular_bundle::{Bundle, FieldIdx, OpenOptions, Split};
use gular_codec::{encode_jpeg, encode_png};
use gular_pack::{Error, PackOptions, PackReport, PlanOptions, pack};

/// Returns a different JPEG for each `i`.
pub fn jpeg(i: u32) -> Vec<u8> {
    let (w, h) = (20 + i % 17, 16 + i % 5);
    let pixels: Vec<u8> = (0..w * h * 3).map(|p| (p * 7 + i * 31) as u8).collect();
    encode_jpeg(&pixels, w, h, 80).unwrap()
}

/// Returns a different PNG for each `i`.
pub fn png(i: u32) -> Vec<u8> {
    encode_png(&vec![i as u8; 12 * 9 * 3], 12, 9).unwrap()
}

/// Writes a file, and makes its folders.
pub fn put(dir: &Path, name: &str, bytes: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Writes 60 images in 2 splits and 3 classes.
pub fn images(dir: &Path) {
    for i in 0..60 {
        let split = if i % 4 == 0 { "val" } else { "train" };
        let class = ["cat", "dog", "a-b"][i as usize % 3];
        let (extension, bytes) = if i % 5 == 0 { ("png", png(i)) } else { ("jpg", jpeg(i)) };
        put(dir, &format!("{split}/{class}/{i}.{extension}"), &bytes);
    }
}

/// Returns the options with which tests run.
pub fn options(plan: PlanOptions, jobs: usize) -> PackOptions {
    PackOptions { plan, jobs, dry_run: false, part: None, temp_dir: std::env::temp_dir() }
}

/// Packs with the options of tests.
pub fn run(source: &Path, out: &Path, plan: PlanOptions, jobs: usize) -> Result<PackReport, Error> {
    pack(source, out, &options(plan, jobs), &|_| {}, &AtomicBool::new(false))
}

/// Returns every file below `dir` with its bytes.
pub fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Images so large that shards of 1 MiB hold only a few.
pub fn big_images(dir: &Path) {
    for i in 0..24_u32 {
        let mut state = u64::from(i) + 1;
        let noise = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let pixels: Vec<u8> = (0..300 * 300 * 3).map(noise).collect();
        let bytes = encode_png(&pixels, 300, 300).unwrap();
        put(dir, &format!("c{}/{i}.png", i % 3), &bytes);
    }
}

/// Returns options with the smallest shards.
pub fn small_shards() -> PlanOptions {
    PlanOptions { shard_bytes: 1 << 20, ..PlanOptions::default() }
}

/// The split and the values of each key.
pub type Samples = BTreeMap<String, (Split, Vec<Vec<u8>>)>;

/// Opens a bundle and reads every value of it.
pub fn samples(dir: &Path) -> (Bundle, Samples) {
    let bundle = Bundle::open(dir, OpenOptions::default()).unwrap();
    let mut found = BTreeMap::new();
    for split in Split::ALL {
        for i in 0..bundle.n_samples(split) {
            let id = bundle.locate(split, i).unwrap();
            let value = |field| {
                let mut value = Vec::new();
                bundle.read(id, FieldIdx(field), &mut value).unwrap();
                value
            };
            let fields = bundle.manifest().fields.len();
            let key = bundle.key(id).unwrap().to_string();
            found.insert(key, (split, (0..fields).map(value).collect()));
        }
    }
    (bundle, found)
}
