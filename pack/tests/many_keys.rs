//! A plan takes at most 60 bytes of memory per sample: two million samples here, ten million
//! with `GULAR_LONG_TESTS` set.
//!
//! A program of its own, since it reads its own peak memory.

use std::sync::atomic::AtomicBool;

use gular_bundle::BundlePath;
use gular_pack::{PlanBuilder, PlanOptions};

const MOST_BYTES_PER_SAMPLE: u64 = 60;

#[test]
fn millions_of_keys_are_planned_in_60_bytes_each() {
    let is_long = std::env::var_os("GULAR_LONG_TESTS").is_some();
    let n: u64 = if is_long { 10_000_000 } else { 2_000_000 };
    let dir = tempfile::tempdir().unwrap();
    let options = PlanOptions::default();
    let mut builder = PlanBuilder::new(dir.path(), &options).unwrap();
    for i in 0..n {
        // Scattered, so that the sort has work to do.
        let number = i.wrapping_mul(6_364_136_223_846_793_005) >> 20;
        let key = format!("train/class{:03}/image-{number:011}.jpg", i % 1000);
        builder.push(&BundlePath::parse(&key).unwrap(), 110_000).unwrap();
    }
    let classes: Vec<String> = (0..1000).map(|i| format!("class{i:03}")).collect();
    let (path, cancel) = (dir.path().join("plan"), AtomicBool::new(false));
    let plan = builder.finish(&path, &classes, &["image/jpeg".into()], true, &cancel).unwrap();
    assert_eq!(plan.samples, n);
    assert_eq!(plan.shards.iter().map(|s| s.samples).sum::<u64>(), n);
    assert_eq!(plan.shards.len() as u64, n.div_ceil((1 << 30) / 110_000));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    let peak = peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
    println!("peak memory {} MiB", peak >> 20);
    assert!(peak < n * MOST_BYTES_PER_SAMPLE, "{} bytes per sample", peak / n);
}
