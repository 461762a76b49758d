//! Measures what grows with the number of shards and nodes: a bundle of very many shards, each part
//! in a process of its own, and a simulated fleet that reads from caches.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use gular_pelican::fleet::{Fleet, FleetTally, FleetTrouble};
use serde_json::{Value, json};
use xtask::process::{command, stdout_of};

use crate::machine;

/// The settings of `scale`.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// Shards; each but the first is a hard link
    #[arg(long, default_value_t = 100_000)]
    shards: u64,
    /// Samples per shard
    #[arg(long, default_value_t = 10_000)]
    samples: u64,
    /// Bytes per sample
    #[arg(long, default_value_t = 110_000)]
    bytes: u64,
    /// Samples that each order reads at random positions
    #[arg(long, default_value_t = 2000)]
    reads: u64,
    /// Shards of which one sample is read [default: all]
    #[arg(long)]
    touch: Option<u64>,
    /// An empty or new folder for the bundle, which is removed at the end; it takes twice the bytes
    /// of one shard [default: target/bench/scale]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// The orders, as `scale` names them.
const ORDERS: [&str; 3] = ["elastic", "window:80", "torch"];

pub(crate) fn run(example: &Path, settings: &Settings, work: &Path) -> Result<()> {
    ensure!(
        settings.shards > 0 && settings.samples > 0,
        "`--shards` and `--samples` are at least 1"
    );
    let fleets = fleets();
    let folder = settings.folder.clone().unwrap_or_else(|| work.to_owned());
    std::fs::create_dir_all(&folder)?;
    ensure!(std::fs::read_dir(&folder)?.next().is_none(), "`{}` is not empty", folder.display());
    let rows = bundle(example, settings, &folder);
    std::fs::remove_dir_all(&folder)?;
    let about = json!({
        "shards": settings.shards, "samples_per_shard": settings.samples,
        "bytes_per_sample": settings.bytes,
    });
    let record = json!({
        "machine": machine(), "about": about, "bundle": rows?, "fleets": fleets,
    });
    println!("{}", serde_json::to_string_pretty(&record)?);
    Ok(())
}

/// Writes the bundle, and measures each part.
fn bundle(example: &Path, settings: &Settings, folder: &Path) -> Result<Vec<Value>> {
    let (shards, reads) = (settings.shards, settings.reads.to_string());
    let touch = settings.touch.unwrap_or(shards).min(shards).to_string();
    let sizes = [shards, settings.samples, settings.bytes].map(|n| n.to_string());
    let [all, samples, bytes] = sizes.each_ref().map(String::as_str);
    let mut parts = vec![("write", vec![all, samples, bytes]), ("open", vec![])];
    parts.extend(ORDERS.map(|order| ("order", vec![order])));
    // What PyTorch's permutation needs was measured before.
    parts.extend(ORDERS.map(|order| ("read", vec![order, reads.as_str()])).into_iter().take(2));
    parts.push(("touch", vec![touch.as_str()]));
    eprintln!("{:<28}{:>10}{:>12}  more", "", "seconds", "memory MB");
    let mut rows = Vec::new();
    for (verb, args) in parts {
        let mut part = command(example);
        part.arg(verb).arg(folder).args(&args);
        let mut facts: Value = serde_json::from_str(&stdout_of(&mut part)?)
            .with_context(|| format!("the figures of `{verb}`"))?;
        let name = format!("{verb} {}", args.join(" "));
        let number = |name: &str| facts[name].as_f64().unwrap_or_default();
        let (seconds, memory) = (number("seconds"), number("peak_bytes") / 1e6);
        let mut more = facts.clone();
        if let Some(more) = more.as_object_mut() {
            more.retain(|name, _| !matches!(name.as_str(), "seconds" | "peak_bytes" | "rows"));
        }
        eprintln!("{name:<28}{seconds:>10.2}{memory:>12.1}  {more}");
        facts["part"] = json!(name);
        rows.push(facts);
    }
    Ok(rows)
}

/// A thousand nodes behind ten caches, when nothing is wrong, and when something is.
fn fleets() -> Vec<Value> {
    let seconds = Duration::from_secs;
    let thousand = Fleet::thousand();
    let trouble = |trouble| Fleet { trouble, ..Fleet::thousand() };
    let fleets = [
        ("all at once", thousand.clone()),
        ("within ten minutes", Fleet { starts_within: seconds(600), ..thousand.clone() }),
        ("one cache dies", trouble(FleetTrouble::Die(1, seconds(30)))),
        ("five caches die", trouble(FleetTrouble::Die(5, seconds(30)))),
        ("all caches die", trouble(FleetTrouble::Die(10, seconds(30)))),
        ("one cache lies", trouble(FleetTrouble::Lie(1))),
        ("all caches lie", trouble(FleetTrouble::Lie(10))),
        ("64 connections per cache", Fleet { connections: 64, ..thousand.clone() }),
        ("director: 100 per second", Fleet { director_per_second: 100, ..thousand }),
    ];
    eprintln!(
        "{:<26}{:>8}{:>8}{:>10}{:>9}{:>9}{:>10}{:>9}{:>8}{:>8}",
        "1,000 nodes, 10 caches",
        "seconds",
        "failed",
        "director",
        "origin",
        "GB",
        "misses",
        "GB",
        "busy",
        "wrong"
    );
    fleets.into_iter().map(|(name, fleet)| fleet_row(name, &fleet.run())).collect()
}

fn fleet_row(name: &str, tally: &FleetTally) -> Value {
    let gb = |bytes: u64| bytes as f64 / 1e9;
    eprintln!(
        "{name:<26}{:>8.0}{:>8}{:>10}{:>9}{:>9.1}{:>10}{:>9.1}{:>8}{:>8}",
        tally.seconds,
        tally.failed,
        tally.director,
        tally.origin.0,
        gb(tally.origin.1),
        tally.misses.0,
        gb(tally.misses.1),
        tally.busy,
        tally.wrong
    );
    json!({
        "fleet": name, "seconds": tally.seconds, "objects": tally.objects, "failed": tally.failed,
        "director_requests": tally.director, "director_requests_of_one": tally.director_of_one,
        "origin_requests": tally.origin.0, "origin_bytes": tally.origin.1,
        "origin_requests_of_one": tally.origin_of_one,
        "miss_requests": tally.misses.0, "miss_bytes": tally.misses.1,
        "cache_requests": tally.caches.0, "cache_bytes": tally.caches.1,
        "busy_answers": tally.busy, "unanswered": tally.unanswered, "wrong_blocks": tally.wrong,
    })
}
