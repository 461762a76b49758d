//! What many shards cost: images per second of one shard and of many with the same images,
//! the memory that is not mapped, and the time to a first batch.
//!
//! `cargo run --release -p gular-runtime --example many_shards -- DIR [BACKEND [SHARDS [SAMPLES [ROUNDS]]]]`
//!
//! DIR gets the bundles, and keeps them for the next time. BACKEND is `pread` or `map`. Rounds
//! alternate between the bundles, so that other load on the machine meets all alike; medians
//! count, and on a machine that others use, images per CPU second. With `pixels` at the end
//! samples are 64 pixels, stored raw, and only memory is measured.

#![allow(clippy::print_stdout, reason = "a program whose output is its table")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gular_bundle::{
    About, BundlePath, DATA_DIR, Dtype, Envelope, Field, FieldName, Manifest, Payload, ShardEntry,
    ShardSpec, ShardWriter, write_manifest,
};
use gular_codec::encode_jpeg;
use gular_runtime::{
    Backend, Bundle, Loader, LoaderOptions, OpenOptions, Split, Transform, UnknownLabels,
};
use rustix::time::{ClockId, clock_gettime};

/// Pixels of a side: a decoder needs 0.1 ms for them, a tenth of a photograph's time, so that
/// what shards cost shows ten times as much.
const SIDE: u32 = 64;

/// The default of [`OpenOptions::index_bytes`].
const INDEX_BYTES: u64 = 32 << 20;

const ROUND: Duration = Duration::from_millis(1500);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: many_shards DIR [BACKEND [SHARDS [SAMPLES [ROUNDS]]]]";
    let dir = Path::new(args.first().ok_or(usage)?);
    let backend = match args.get(1).map(String::as_str) {
        None | Some("pread") => Backend::Pread,
        Some("map") => Backend::Map,
        Some(_) => return Err(usage.into()),
    };
    let number = |at: usize, default: usize| args.get(at).map_or(Ok(default), |text| text.parse());
    let (shards, samples, rounds) = (number(2, 2000)?, number(3, 500)?, number(4, 9)?);
    let pixels = args.get(5).is_some_and(|what| what == "pixels");
    let many = dir.join(format!("{shards}-{samples}-{pixels}"));
    let one = dir.join(format!("one-{}-{pixels}", shards * samples));
    let few = dir.join(format!("64-{samples}-{pixels}"));
    write(&many, shards, samples, pixels)?;
    println!("{backend:?}, {shards} shards of {samples} samples, load {}", load()?.trim());
    let mut loaders = vec![loader(&many, backend, pixels, INDEX_BYTES)?];
    for round in 0..=rounds {
        for loader in &mut loaders {
            rate(loader, round as u64)?;
        }
    }
    println!("memory that is not mapped, and no batch: {:.1} MiB", memory(&loaders)?);
    if pixels {
        return Ok(());
    }
    write(&few, 64, samples, pixels)?;
    write(&one, 1, shards * samples, pixels)?;
    let (mut firsts, mut by_cpu) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (since, cpu) = (Instant::now(), cpu_seconds());
        let mut loader = loader(&few, backend, pixels, INDEX_BYTES)?;
        let batch = loader.epoch(0).next().transpose()?;
        firsts.push(since.elapsed().as_secs_f64() * 1e3);
        by_cpu.push((cpu_seconds() - cpu) * 1e3);
        drop(batch);
    }
    println!("first batch from 64 shards, ms: {}, of CPUs {}", shown(firsts), shown(by_cpu));
    // The one shard as fast as it can be: its index in memory, pages touched as often.
    loaders.push(loader(&one, backend, pixels, u64::MAX)?);
    for round in 0..=rounds {
        rate(loaders.last_mut().ok_or("a loader")?, round as u64)?;
    }
    let mut rates = [(); 2].map(|()| (Vec::new(), Vec::new()));
    let mut ratios = Vec::new();
    for round in 0..=rounds {
        let mut by_cpu = Vec::new();
        for (loader, rates) in loaders.iter_mut().zip(&mut rates) {
            let (per_second, per_cpu_second) = rate(loader, round as u64)?;
            by_cpu.push(per_cpu_second);
            // The first opens the shards that are not open yet.
            if round > 0 {
                rates.0.push(per_second);
                rates.1.push(per_cpu_second);
            }
        }
        if let ([many, one], true) = (&by_cpu[..], round > 0) {
            ratios.push(100.0 * many / one);
        }
    }
    for (name, rates) in ["many shards", "one shard"].iter().zip(rates) {
        println!("{name}: images/s {}, per CPU second {}", shown(rates.0), shown(rates.1));
    }
    println!("many to one, per CPU second, %: {}", shown(ratios));
    println!("load {}", load()?.trim());
    Ok(())
}

fn loader(
    dir: &Path,
    backend: Backend,
    pixels: bool,
    index_bytes: u64,
) -> Result<Loader, Box<dyn Error>> {
    let open = OpenOptions { backend, index_bytes, ..OpenOptions::default() };
    let bundle = Arc::new(Bundle::open(dir, open)?);
    let size = if pixels { 8 } else { SIDE };
    let transform = Transform::Resize { width: size, height: size };
    let unknown_labels = UnknownLabels::Ignore;
    let options = LoaderOptions { transform, unknown_labels, ..LoaderOptions::new(Split::Train) };
    Ok(Loader::new(bundle, options)?)
}

/// Images per second over one round, and per second that the CPU was used.
fn rate(loader: &mut Loader, epoch: u64) -> Result<(f64, f64), Box<dyn Error>> {
    let (since, cpu, mut images) = (Instant::now(), cpu_seconds(), 0);
    for batch in loader.epoch(epoch) {
        images += batch?.len();
        if since.elapsed() > ROUND {
            break;
        }
    }
    let images = images as f64;
    Ok((images / since.elapsed().as_secs_f64(), images / (cpu_seconds() - cpu)))
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// MiB of this process that no file holds, without the batches of `loaders`.
fn memory(loaders: &[Loader]) -> Result<f64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("RssAnon")).ok_or("no RssAnon")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    let slots: f64 = loaders
        .iter()
        .map(|loader| {
            let (width, height) = loader.options().transform.size();
            let row = f64::from(width) * f64::from(height) * 3.0;
            row * (loader.options().batch_size * loader.options().slots) as f64
        })
        .sum();
    Ok(kib / 1024.0 - slots / f64::from(1 << 20))
}

/// The median, and the spread.
fn shown(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
    let (low, high) = (at(0), at(values.len().saturating_sub(1)));
    format!("{:.1} ({low:.1} to {high:.1})", at(values.len() / 2))
}

fn load() -> Result<String, Box<dyn Error>> {
    Ok(fs::read_to_string("/proc/loadavg")?)
}

/// A bundle of `shards` shards of `samples` samples in `dir`, unless it is there.
fn write(dir: &Path, shards: usize, samples: usize, pixels: bool) -> Result<(), Box<dyn Error>> {
    if dir.join("manifest.json").exists() {
        return Ok(());
    }
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data)?;
    let image = match pixels {
        true => Field::fixed(FieldName::image(), Dtype::U8, vec![8, 8, 3]),
        false => Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
    };
    let fields = vec![image, Field::label()];
    let images: Vec<Vec<u8>> = (0..64).map(|i| picture(i, pixels)).collect::<Result<_, _>>()?;
    let mut entries: Vec<ShardEntry> = Vec::new();
    for shard in 0..shards {
        let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
        let mut writer = ShardWriter::create(&data, &spec)?;
        for i in (0..samples).map(|row| shard * samples + row) {
            let key = BundlePath::parse(&format!("class {:03}/image {i:08}.jpg", i % 1000))?;
            let image = images.get((i * 7 + i / 64) % 64).ok_or("an image")?;
            writer.push(&key, &[image, &((i % 1000) as i64).to_le_bytes()])?;
        }
        entries.push(writer.finish()?);
    }
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: if pixels { Payload::Raw } else { Payload::Encoded },
        classes: (0..1000).map(|class| format!("class {class:03}")).collect(),
        fields,
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards: entries,
    };
    write_manifest(dir, &manifest)?;
    Ok(())
}

fn picture(i: u32, pixels: bool) -> Result<Vec<u8>, Box<dyn Error>> {
    let side = if pixels { 8 } else { SIDE };
    let waves = |p: u32| {
        let (x, y, c) = (p / 3 % side, p / 3 / side, p % 3);
        (x * (3 + i % 5) + y * (2 + i % 7) + c * 40 + i * 11) as u8
    };
    let rgb: Vec<u8> = (0..side * side * 3).map(waves).collect();
    Ok(if pixels { rgb } else { encode_jpeg(&rgb, side, side, 85)? })
}
