//! Memory that does not grow with the data: a plan takes at most 60 bytes of memory per sample,
//! with two million samples here and ten million if `GULAR_LONG_TESTS` is set; scenes of any size
//! are cut in the same memory, with a scene of 268 MB here and of 10 GB if it is set.
//!
//! A program of its own, since it reads its own peak memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "it says what it measured")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use gular_bundle::{Bundle, BundlePath, FieldIdx, OpenOptions, Split};
use gular_pack::{
    Inputs, Labels, Layout, PackOptions, PlanBuilder, PlanOptions, TileOptions, pack,
};

const MOST_BYTES_PER_SAMPLE: u64 = 60;
/// Decoded parts of the scene, tiles that wait to be written, and what a run needs anyway.
const MOST_BYTES_OF_SCENES: u64 = 100 << 20;

/// Lets only one of these tests run at a time, since they share one peak of memory.
static ALONE: Mutex<()> = Mutex::new(());

fn is_long() -> bool {
    std::env::var_os("GULAR_LONG_TESTS").is_some()
}

/// Returns the peak memory of the work, beyond what was used before.
fn peak_of(work: impl FnOnce()) -> u64 {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let status = |name: &str| {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    // Resets the peak of another test.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    work();
    let peak = status("VmHWM:").saturating_sub(before);
    println!("peak memory {} MiB", peak >> 20);
    peak
}

#[test]
fn millions_of_keys_are_planned_in_60_bytes_each() {
    let n: u64 = if is_long() { 10_000_000 } else { 2_000_000 };
    let dir = tempfile::tempdir().unwrap();
    let peak = peak_of(|| {
        let options = PlanOptions::default();
        let mut builder = PlanBuilder::new(dir.path(), &options).unwrap();
        for i in 0..n {
            // The numbers are scattered, so that the sort has work to do.
            let number = i.wrapping_mul(6_364_136_223_846_793_005) >> 20;
            let key = format!("train/class{:03}/image-{number:011}.jpg", i % 1000);
            builder.push(&BundlePath::parse(&key).unwrap(), 110_000).unwrap();
        }
        let classes: Vec<String> = (0..1000).map(|i| format!("class{i:03}")).collect();
        let layout = Layout::new(vec!["{split}/{label}/{key}.{ext}".parse().unwrap()]).unwrap();
        let (path, cancel) = (dir.path().join("plan"), AtomicBool::new(false));
        let plan =
            builder.finish(&path, &classes, &["image/jpeg".into()], &layout, &cancel).unwrap();
        assert_eq!(plan.samples, n);
        assert_eq!(plan.shards.iter().map(|s| s.samples).sum::<u64>(), n);
        assert_eq!(plan.shards.len() as u64, n.div_ceil((1 << 30) / 110_000));
    });
    assert!(peak < n * MOST_BYTES_PER_SAMPLE, "{} bytes per sample", peak / n);
}

/// A BigTIFF of `across` x `across` tiles of 512 x 512 pixels of one byte, uncompressed: nodata but
/// for tiles of ones. Every fourth tile was never written, the others are holes of the file.
fn sparse_scene(path: &Path, across: u64, ones: &[u64]) {
    const TILE: u64 = 512 * 512;
    let n = across * across;
    let (short, long, long8, ascii) = (3_u16, 4_u16, 16_u16, 2_u16);
    let directory = 16;
    let lists = directory + 8 + 11 * 20 + 8;
    let data = (lists + n * 16).next_multiple_of(4096);
    let tags = [
        (256_u16, long, 1, across * 512),
        (257, long, 1, across * 512),
        (258, short, 1, 8),
        (259, short, 1, 1),
        (262, short, 1, 1),
        (277, short, 1, 1),
        (322, long, 1, 512),
        (323, long, 1, 512),
        (324, long8, n, lists),
        (325, long8, n, lists + n * 8),
        // Nodata: "0" and a zero byte.
        (42113, ascii, 2, u64::from(b'0')),
    ];
    let mut head = [b"II+\0\x08\0\0\0".as_slice(), &u64::to_le_bytes(directory)].concat();
    head.extend((tags.len() as u64).to_le_bytes());
    for (tag, kind, count, value) in tags {
        head.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
        head.extend([u64::to_le_bytes(count), u64::to_le_bytes(value)].concat());
    }
    head.extend([0; 8]);
    head.extend((0..n).flat_map(|i| (data + i * TILE).to_le_bytes()));
    let len = |i: u64| if i % 4 == 2 && !ones.contains(&i) { 0 } else { TILE };
    head.extend((0..n).flat_map(|i| len(i).to_le_bytes()));
    let file = File::create(path).unwrap();
    file.write_all_at(&head, 0).unwrap();
    file.set_len(data + n * TILE).unwrap();
    for tile in ones {
        file.write_all_at(&[1; TILE as usize], data + tile * TILE).unwrap();
    }
}

#[test]
fn a_scene_larger_than_memory_is_cut_within_the_bound() {
    let across: u64 = if is_long() { 196 } else { 32 };
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("scenes"), dir.path().join("out"));
    fs::create_dir(&source).unwrap();
    let ones = [0, across + 1, across * across - 1];
    sparse_scene(&source.join("a.tif"), across, &ones);
    let plan = PlanOptions {
        inputs: Inputs::Arrays,
        labels: Labels::None,
        tile: Some(TileOptions { size: 512, overlap: 0, min_valid: 0.5, block: None }),
        ..PlanOptions::default()
    };
    let temp_dir = dir.path().to_owned();
    let options = PackOptions { plan, jobs: 2, dry_run: false, part: None, temp_dir };
    let peak = peak_of(|| {
        let report = pack(&source, &out, &options, &|_| {}, &AtomicBool::new(false)).unwrap();
        assert_eq!((report.samples, report.empty_tiles), (3, across * across - 3));
    });
    assert!(peak < MOST_BYTES_OF_SCENES, "{peak} bytes");
    let bundle = Bundle::open(&out, OpenOptions::default()).unwrap();
    let mut value = Vec::new();
    for i in 0..bundle.n_samples(Split::Train) {
        bundle.read(bundle.locate(Split::Train, i).unwrap(), FieldIdx(0), &mut value).unwrap();
        assert!(value.iter().all(|pixel| *pixel == 1));
    }
}
