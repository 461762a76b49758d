//! Measures how well orders mix samples that are stored class by class, which is the worst case.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use gular_plot::{Panel, chart};
use serde_json::{Value, json};
use xtask::process::{command, stdout_of};
use xtask::workspace::Workspace;

use crate::bar;

/// The shards and classes of an ImageNet in shards of 128 MB, with a tenth of its samples.
const SHARDS: u64 = 1000;
const CLASSES: u64 = 1000;
const SAMPLES_PER_SHARD: u64 = 128;
const BATCH: usize = 256;
const EPOCHS: u64 = 3;

/// How well one order mixes a batch.
struct Mixed {
    name: &'static str,
    /// Classes in a batch, on average.
    classes: f64,
    /// Samples of the shard that has most in a batch, on average.
    of_one_shard: f64,
}

pub(crate) fn run(workspace: &Workspace, print_order: &Path) -> Result<()> {
    let orders = [
        ("torch", "torch"),
        ("elastic", "gular elastic"),
        ("window:256", "gular window 256"),
        ("window:64", "gular window 64"),
        ("window:16", "gular window 16"),
        ("window:4", "gular window 4"),
        ("window:1", "gular window 1"),
    ];
    let mixed: Vec<Mixed> = orders
        .into_iter()
        .map(|(order, name)| mix(print_order, order, name))
        .collect::<Result<_>>()?;
    let panel = |title: &str, value: fn(&Mixed) -> f64| Panel {
        title: title.to_owned(),
        bars: mixed.iter().map(|m| bar(m.name, value(m), 1)).collect(),
        limit: None,
    };
    let panels = [
        panel("Classes in a batch of 256, of 1,000: more is better", |m| m.classes),
        panel("Samples of one shard in a batch, at most: fewer is better", |m| m.of_one_shard),
    ];
    let caption = "1,000 shards of 128 samples, stored class by class; mean of three epochs";
    let plot = workspace.root.join("docs/bench/shuffle.svg");
    std::fs::write(&plot, chart(&panels, caption))
        .with_context(|| format!("cannot write `{}`", plot.display()))?;
    let rows: Vec<Value> = mixed
        .iter()
        .map(|m| json!({"order": m.name, "classes": m.classes, "of_one_shard": m.of_one_shard}))
        .collect();
    let about = json!({
        "shards": SHARDS, "samples_per_shard": SAMPLES_PER_SHARD, "classes": CLASSES,
        "batch": BATCH, "epochs": EPOCHS,
    });
    println!("{}", serde_json::to_string_pretty(&json!({"about": about, "rows": rows}))?);
    Ok(())
}

fn mix(print_order: &Path, order: &str, name: &'static str) -> Result<Mixed> {
    let sizes = vec![SAMPLES_PER_SHARD.to_string(); SHARDS as usize].join(",");
    let (mut classes, mut of_one_shard, mut batches) = (0, 0, 0_u64);
    for epoch in 0..EPOCHS {
        let mut print = command(print_order);
        print.args([order, "0", &epoch.to_string(), "0", "1", &sizes]);
        let samples: Vec<u64> = serde_json::from_str(&stdout_of(&mut print)?)?;
        for batch in samples.chunks_exact(BATCH) {
            let n = SHARDS * SAMPLES_PER_SHARD;
            classes += counts(batch.iter().map(|sample| sample * CLASSES / n)).len();
            let shards = counts(batch.iter().map(|sample| sample / SAMPLES_PER_SHARD));
            of_one_shard += shards.into_values().max().unwrap_or(0);
            batches += 1;
        }
    }
    let mean = |sum: usize| sum as f64 / batches as f64;
    Ok(Mixed { name, classes: mean(classes), of_one_shard: mean(of_one_shard) })
}

fn counts(values: impl Iterator<Item = u64>) -> HashMap<u64, usize> {
    let mut counts = HashMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    counts
}
