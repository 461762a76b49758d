//! A bundle of very many shards: writes one, opens it, and reads it in an order at random
//! positions. Prints seconds, and the largest memory of this process, as JSON:
//!
//! ```text
//! scale write DIR SHARDS SAMPLES BYTES    samples per shard, bytes per sample
//! scale open DIR
//! scale order DIR ORDER                   an epoch's order, and a million of its positions
//! scale read DIR ORDER SAMPLES            those at random positions, each checked
//! scale touch DIR SHARDS                  one sample of each
//! ```
//!
//! Only one shard is written. The others are hard links to it, so that the bundle needs little disk.
#![expect(clippy::print_stdout, reason = "a program, not a library")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use gular_bundle::{
    About, Bundle, BundlePath, DATA_DIR, Envelope, Field, FieldIdx, FieldName, FileEntry, Manifest,
    OpenOptions, Payload, Row, SampleId, ShardEntry, ShardIdx, ShardSpec, ShardWriter, Split,
    write_manifest,
};
use gular_order::{EpochOrder, OrderKind, OrderSpec, key, mix};
use serde_json::{Value, json};

/// Fewer than the 65,000 names that ext4 allows one file.
const MAX_LINKS: u64 = 60_000;

/// How many positions are computed.
const N_POSITIONS: u64 = 1_000_000;

type Failed = Box<dyn Error>;

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let mut facts = match args.as_slice() {
        ["write", dir, shards, samples, bytes] => {
            write(Path::new(dir), shards.parse()?, samples.parse()?, bytes.parse()?)?
        }
        ["open", dir] => {
            let bundle = open(dir)?;
            json!({"shards": bundle.manifest().shards.len()})
        }
        ["order", dir, order] => walk(&open(dir)?, order, N_POSITIONS)?,
        ["read", dir, order, samples] => read(&open(dir)?, order, samples.parse()?)?,
        ["touch", dir, shards] => touch(&open(dir)?, shards.parse()?)?,
        _ => return Err("expected `write`, `open`, `order`, `read` or `touch`".into()),
    };
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    facts["seconds"] = json!(begun.elapsed().as_secs_f64());
    facts["peak_bytes"] = json!(kib * 1024);
    println!("{facts}");
    Ok(())
}

fn open(dir: &str) -> Result<Bundle, Failed> {
    Ok(Bundle::open(Path::new(dir), OpenOptions::default())?)
}

/// Writes a bundle of so many shards, all with the bytes of one.
fn write(dir: &Path, n_shards: u64, samples: u64, bytes: usize) -> Result<Value, Failed> {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data)?;
    let fields =
        vec![Field::bytes(FieldName::image(), vec!["image/jpeg".to_owned()]), Field::label()];
    let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
    let mut writer = ShardWriter::create(&data, &spec)?;
    let value = vec![0; bytes];
    for n in 0..samples {
        let key = BundlePath::parse(&format!("class-{:03}/{n:08}.jpg", n % 1000))?;
        writer.push(&key, &[&value, &(n % 1000).to_le_bytes()])?;
    }
    let one = writer.finish()?;
    let link = |file: &FileEntry, suffix: &str, n: u64| -> Result<FileEntry, Failed> {
        let name = BundlePath::parse(&format!("train-{n:016x}.{suffix}"))?;
        let from = match n / MAX_LINKS {
            0 => data.join(file.name.as_str()),
            first => data.join(format!("train-{:016x}.{suffix}", first * MAX_LINKS)),
        };
        match n % MAX_LINKS {
            0 if n > 0 => {
                fs::copy(data.join(file.name.as_str()), data.join(name.as_str())).map(drop)?;
            }
            _ => fs::hard_link(from, data.join(name.as_str()))?,
        }
        Ok(FileEntry { name, ..file.clone() })
    };
    let shards = (0..n_shards).map(|n| {
        let file = link(&one.file, Envelope::Shards.extension(), n)?;
        Ok(ShardEntry { file, index: link(&one.index, "index.safetensors", n)?, ..one.clone() })
    });
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        fields: fields.clone(),
        classes: (0..1000).map(|n| format!("class-{n:03}")).collect(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards: shards.collect::<Result<_, Failed>>()?,
    };
    write_manifest(dir, &manifest)?;
    Ok(json!({
        "manifest_bytes": fs::metadata(dir.join("manifest.json"))?.len(),
        "index_bytes": one.index.bytes, "shard_bytes": one.file.bytes,
    }))
}

fn order_of(bundle: &Bundle, order: &str) -> Result<EpochOrder, Failed> {
    let kind = match order.split_once(':') {
        Some(("window", shards)) => OrderKind::Window { shards: shards.parse()? },
        _ if order == "elastic" => OrderKind::Elastic,
        _ if order == "torch" => OrderKind::Torch { shuffle: true },
        _ => return Err(format!("no order `{order}`").into()),
    };
    let sizes: Vec<u64> = bundle.manifest().of_split(Split::Train).map(|s| s.samples).collect();
    Ok(EpochOrder::new(&OrderSpec { kind, seed: 0, drop_last: false }, &sizes, 0, 1))
}

/// Samples at positions that jump through the whole epoch.
fn samples(order: &EpochOrder, n: u64) -> impl Iterator<Item = u64> {
    let n_positions = order.n_positions();
    (0..n).filter_map(move |i| order.sample_at(mix(key(1, 0, i)) % n_positions))
}

fn walk(bundle: &Bundle, order: &str, n: u64) -> Result<Value, Failed> {
    let begun = Instant::now();
    let order = order_of(bundle, order)?;
    let made = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let shards = samples(&order, n).map(|sample| bundle.locate(Split::Train, sample));
    let sum = shards.map(|at| Ok(at?.row.0)).sum::<Result<usize, Failed>>()?;
    let each = begun.elapsed().as_secs_f64() / n as f64;
    Ok(json!({"order_seconds": made, "position_nanoseconds": each * 1e9, "rows": sum}))
}

fn read(bundle: &Bundle, order: &str, n: u64) -> Result<Value, Failed> {
    let order = order_of(bundle, order)?;
    let begun = Instant::now();
    let mut out = Vec::new();
    for sample in samples(&order, n) {
        bundle.read(bundle.locate(Split::Train, sample)?, FieldIdx(0), &mut out)?;
    }
    let each = begun.elapsed().as_secs_f64() / n as f64;
    Ok(json!({"samples": n, "sample_microseconds": each * 1e6}))
}

fn touch(bundle: &Bundle, n: usize) -> Result<Value, Failed> {
    let begun = Instant::now();
    let mut out = Vec::new();
    for shard in 0..n {
        bundle.read(SampleId { shard: ShardIdx(shard), row: Row(0) }, FieldIdx(0), &mut out)?;
    }
    let each = begun.elapsed().as_secs_f64() / n as f64;
    Ok(json!({"shards": n, "shard_microseconds": each * 1e6}))
}
