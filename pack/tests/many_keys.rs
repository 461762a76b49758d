//! Ten million keys are planned in the memory that the setting allows.
//!
//! A program of its own, since it reads its own peak memory.

use std::sync::atomic::AtomicBool;

use gular_bundle::BundlePath;
use gular_pack::{PlanBuilder, PlanOptions};

const N: u64 = 10_000_000;
const MOST_MIB: u64 = 600;

#[test]
fn ten_million_keys_are_planned_below_600_mib() {
    let dir = tempfile::tempdir().unwrap();
    let options = PlanOptions::default();
    let mut builder = PlanBuilder::new(dir.path(), &options).unwrap();
    for i in 0..N {
        // Scattered, so that the sort has work to do.
        let number = i.wrapping_mul(6_364_136_223_846_793_005) >> 20;
        let key = format!("train/class{:03}/image-{number:011}.jpg", i % 1000);
        builder.push(&BundlePath::parse(&key).unwrap(), 110_000).unwrap();
    }
    let classes: Vec<String> = (0..1000).map(|i| format!("class{i:03}")).collect();
    let (path, cancel) = (dir.path().join("plan"), AtomicBool::new(false));
    let plan = builder.finish(&path, &classes, &["image/jpeg".into()], true, &cancel).unwrap();
    assert_eq!(plan.samples, N);
    assert_eq!(plan.shards.iter().map(|s| s.samples).sum::<u64>(), N);
    assert_eq!(plan.shards.len() as u64, N.div_ceil((1 << 30) / 110_000));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    let peak_mib = peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024;
    println!("peak memory {peak_mib} MiB");
    assert!(peak_mib < MOST_MIB, "{peak_mib} MiB");
}
