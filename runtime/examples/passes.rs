//! What checking samples costs: the first pass over a bundle, which hashes every sample, beside
//! a loop that reads and hashes; later passes beside a loop that reads every byte.
//!
//! `cargo run --release -p gular-runtime --example passes -- DIR [SAMPLES [BYTES [ROUNDS]]]`
//!
//! One thread, random order, warm, so that nothing waits: seconds are of the CPU, which other load
//! on the machine changes little. The loops have all offsets in a list beforehand.

#![allow(clippy::print_stdout, reason = "a program whose output is its table")]

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use gular_bundle::{
    About, Backend, Bundle, BundlePath, DATA_DIR, Digest, Envelope, Field, FieldIdx, FieldName,
    Manifest, OpenOptions, Payload, SampleId, Shard, ShardSpec, ShardWriter, Split, write_manifest,
};
use gular_runtime::order::{KeyedPermutation, key, mix};
use rustix::time::{ClockId, clock_gettime};

const SHARDS: usize = 4;
const IMAGE: FieldIdx = FieldIdx(0);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let dir = Path::new(args.first().ok_or("usage: passes DIR [SAMPLES [BYTES [ROUNDS]]]")?);
    let number = |at: usize, default: usize| args.get(at).map_or(Ok(default), |text| text.parse());
    let (samples, bytes, rounds) = (number(1, 5000)?, number(2, 110_000)?, number(3, 9)?);
    let dir = dir.join(format!("passes-{samples}-{bytes}"));
    write(&dir, samples, bytes)?;
    println!("{samples} samples of {bytes} bytes, load {}", load()?.trim());
    for backend in [Backend::Pread, Backend::Map] {
        let mut ratios = [Vec::new(), Vec::new()];
        // One round first, which warms.
        for round in 0..=rounds {
            // Two, so that both touch the pages of their maps for the first time.
            let open = OpenOptions { backend, ..OpenOptions::default() };
            let bundle = Bundle::open(&dir, open.clone())?;
            let hand = Bundle::open(&dir, open)?;
            let order = order(&bundle, round as u64)?;
            let first = ours(&bundle, &order)?;
            let hashed = by_hand(&hand, &order, backend, hash)?;
            let later = ours(&bundle, &order)?;
            let read = by_hand(&hand, &order, backend, sum)?;
            if round > 0 {
                for (ratios, (loops, ours)) in
                    ratios.iter_mut().zip([(hashed, first), (read, later)])
                {
                    ratios.push(loops / ours);
                }
            }
        }
        for (name, mut ratios) in ["first pass / read and hash", "later / read"].iter().zip(ratios)
        {
            ratios.sort_by(f64::total_cmp);
            let at = |i: usize| ratios.get(i).copied().unwrap_or(f64::NAN);
            let (low, high) = (at(0), at(ratios.len().saturating_sub(1)));
            println!("{backend:?}: {name}: {:.3} ({low:.3} to {high:.3})", at(ratios.len() / 2));
        }
    }
    println!("load {}", load()?.trim());
    Ok(())
}

fn order(bundle: &Bundle, seed: u64) -> Result<Vec<SampleId>, Box<dyn Error>> {
    let n = bundle.n_samples(Split::Train);
    let order = KeyedPermutation::new(n, key(seed, 0, 0));
    (0..n).map(|i| Ok(bundle.locate(Split::Train, order.at(i))?)).collect()
}

/// Seconds of a pass as the loader makes it, every byte looked at.
fn ours(bundle: &Bundle, order: &[SampleId]) -> Result<f64, Box<dyn Error>> {
    let (since, mut buffer) = (cpu_seconds(), Vec::new());
    for id in order {
        let shard = bundle.shard(id.shard)?;
        let stored = shard.view(id.row, IMAGE, &mut buffer)?;
        shard.check(id.row, IMAGE, stored)?;
        sum(stored);
    }
    Ok(cpu_seconds() - since)
}

/// Seconds of a loop over the same samples.
fn by_hand(
    bundle: &Bundle,
    order: &[SampleId],
    backend: Backend,
    look: impl Fn(&[u8]),
) -> Result<f64, Box<dyn Error>> {
    let shards = &bundle.manifest().shards;
    let files: Vec<File> = shards
        .iter()
        .map(|shard| File::open(bundle.path_of(&shard.file)))
        .collect::<Result<_, _>>()?;
    let opened: Vec<Arc<Shard>> =
        order.iter().map(|id| bundle.shard(id.shard)).collect::<Result<_, _>>()?;
    if backend == Backend::Map {
        let mut none = vec![Vec::new(); order.len()];
        let mut mapped = Vec::with_capacity(order.len());
        for ((id, shard), none) in order.iter().zip(&opened).zip(&mut none) {
            mapped.push(shard.view(id.row, IMAGE, none)?);
        }
        let since = cpu_seconds();
        mapped.into_iter().for_each(look);
        return Ok(cpu_seconds() - since);
    }
    let mut places = Vec::with_capacity(order.len());
    for (id, shard) in order.iter().zip(&opened) {
        places.push((id.shard.0, shard.range(id.row, IMAGE)?.ok_or("no place")?));
    }
    let (since, mut buffer) = (cpu_seconds(), Vec::new());
    for (shard, (offset, len)) in places {
        buffer.resize(len, 0);
        files.get(shard).ok_or("a file")?.read_exact_at(&mut buffer, offset)?;
        look(&buffer);
    }
    Ok(cpu_seconds() - since)
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn hash(bytes: &[u8]) {
    black_box(Digest::of(bytes));
    sum(bytes);
}

/// Looks at every byte.
fn sum(bytes: &[u8]) {
    let words = bytes.as_chunks::<8>().0.iter();
    black_box(words.fold(0_u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word))));
}

fn load() -> Result<String, Box<dyn Error>> {
    Ok(fs::read_to_string("/proc/loadavg")?)
}

fn write(dir: &Path, samples: usize, bytes: usize) -> Result<(), Box<dyn Error>> {
    if dir.join("manifest.json").exists() {
        return Ok(());
    }
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data)?;
    let fields = vec![Field::bytes(FieldName::image(), vec!["image/jpeg".into()])];
    let mut shards = Vec::new();
    let mut n = 0_u64;
    for _ in 0..SHARDS {
        let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
        let mut writer = ShardWriter::create(&data, &spec)?;
        for _ in 0..samples / SHARDS {
            let words = (0..bytes as u64 / 8).flat_map(|i| mix(n << 32 | i).to_le_bytes());
            let image: Vec<u8> = words.collect();
            writer.push(&BundlePath::parse(&format!("{n:06}.jpg"))?, &[&image])?;
            n += 1;
        }
        shards.push(writer.finish()?);
    }
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        classes: Vec::new(),
        fields,
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards,
    };
    write_manifest(dir, &manifest)?;
    Ok(())
}
