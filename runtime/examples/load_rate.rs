//! Images a second: the decoder alone (or, of a bundle of pixels, copies alone), then
//! the loader by threads, then what a training step sees.
//!
//! `cargo run --release -p gular-runtime --features turbo --example load_rate -- BUNDLE [SIZE [BATCH [SECONDS]]]`
//!
//! With `json` as a fifth argument only what a training step sees is measured, and
//! printed as one line with what was decoded: for `cargo xtask bench peers`.
//!
//! The bundle is read once before, so pages are warm; the check of digests is then
//! measured as its own row. On a machine that others use, too, the images a CPU
//! second are the fair number.

#![allow(clippy::print_stdout, reason = "a program whose output is its table")]

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gular_bundle::Field;
use gular_codec::{DecodeOptions, Decoder, Limits, Rect, Resize, read_header};
use gular_runtime::order::{KeyedRng, Tally, term};
use gular_runtime::{
    Bundle, CheckWhen, Depth, Env, FieldIdx, Layout, Loader, LoaderOptions, Numbers, OpenOptions,
    Row, ShardIdx, Split, Stats, Transform, UnknownLabels, available_cores, jpeg_backend,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

struct Options {
    size: u32,
    batch_size: usize,
    time: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let dir = args.first().ok_or("usage: load_rate BUNDLE [SIZE [BATCH [SECONDS]]]")?;
    let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |text| text.parse());
    let options = Options {
        size: u32::try_from(number(1, 224)?)?,
        batch_size: usize::try_from(number(2, 64)?)?,
        time: Duration::from_secs(number(3, 5)?),
    };
    let open = |check| {
        Bundle::open(Path::new(dir), OpenOptions { check, ..OpenOptions::default() }).map(Arc::new)
    };
    let bundle = open(CheckWhen::OnFetch)?;
    let cores = available_cores(&Env::process());
    if args.get(4).is_some_and(|form| form == "json") {
        println!("{}", record(&bundle, &open(CheckWhen::Always)?, &options, cores)?);
        return Ok(());
    }
    println!(
        "{} samples, {}, {} px, batches of {}, {cores} cores, {} s a row",
        bundle.n_samples(Split::Train),
        jpeg_backend(),
        options.size,
        options.batch_size,
        options.time.as_secs(),
    );
    println!("{:<44}{:>10}{:>12}", "", "images/s", "per CPU s");
    let fields = &bundle.manifest().fields;
    let stored = fields.iter().find(|f| f.is_image()).and_then(Field::as_fixed);
    let mean = if let Some((_, [height, width, ..])) = stored {
        let (width, height) = (u32::try_from(*width)?, u32::try_from(*height)?);
        let as_stored = Transform::Resize { width, height };
        let (rate, _) = load(&bundle, &options, as_stored, cores, Numbers::Stored)?;
        row(&format!("loader, pictures as stored, {cores} threads"), rate);
        let (rate, _) =
            load(&open(CheckWhen::Always)?, &options, as_stored, cores, Numbers::Stored)?;
        row("  and every sample's digest checked", rate);
        let size = options.size.min(width).min(height);
        let part = Transform::Crop { width: size, height: size, padding: 0, flip: 0.5 };
        let (rate, _) = load(&bundle, &options, part, cores, Numbers::Stored)?;
        row(&format!("loader, parts as stored, {cores} threads"), rate);
        let (rate, _) = load(&bundle, &options, part, cores, Numbers::F32)?;
        row("  as normalised f32 [n, 3, h, w]", rate);
        bundle.shard(ShardIdx(0))?.len_of(Row(0), FieldIdx(0))?.unwrap_or(0) as f64
    } else {
        let (rate, mean) = decode_only(&bundle, &options)?;
        row("decode and resize whole images, no loader", rate);
        row("decode and resize random crops, no loader", crops_only(&bundle, &options)?);
        mean
    };
    let crops = Transform::train(options.size);
    let mut threads = 1;
    loop {
        let (rate, _) = load(&bundle, &options, crops, threads, Numbers::Stored)?;
        row(&format!("loader, random crops, {threads} threads"), rate);
        if threads >= cores {
            break;
        }
        threads = (threads * 2).min(cores);
    }
    let (rate, _) = load(&open(CheckWhen::Always)?, &options, crops, cores, Numbers::Stored)?;
    row("  and every sample's digest checked", rate);
    let (rate, stats) = load(&bundle, &options, crops, cores, Numbers::F32)?;
    row("  as normalised f32 [n, 3, h, w]", rate);
    let first = first_batch(&bundle, &options)?;
    println!("\nmean sample {:.1} KB", mean / 1e3);
    println!("first batch after {:.1} ms", first.as_secs_f64() * 1e3);
    let (delivered, due) = tally_costs(&bundle, &options)?;
    println!(
        "tally: {delivered:.0} ns of a core per sample, and {due:.0} ns at the end of an epoch"
    );
    println!("\n{stats}");
    Ok(())
}

/// Nanoseconds per sample: what delivering it adds to a tally, and computing what the tally of
/// an epoch must be.
fn tally_costs(bundle: &Arc<Bundle>, options: &Options) -> Result<(f64, f64), Box<dyn Error>> {
    const SAMPLES: u64 = 1_000_000;
    let digest = gular_runtime::Digest::of(b"a sample");
    let begin = cpu_seconds();
    let mut tally = Tally::default();
    for position in 0..SAMPLES {
        tally.add(term(0, position, position, &digest), position, SAMPLES);
    }
    let delivered = cpu_seconds() - begin;
    let loader = loader(bundle, options, Transform::train(options.size), 1, Numbers::Stored)?;
    let begin = cpu_seconds();
    let mut due = 0;
    while due < black_box(tally.count) {
        due += loader.expected_tally(due, 0..loader.n_positions())?.count.max(1);
    }
    let each = |seconds: f64, n: u64| seconds * 1e9 / n as f64;
    Ok((each(delivered, SAMPLES), each(cpu_seconds() - begin, due)))
}

/// Images whose pixels other decoders' are compared with: the first by key.
const COMPARED: u64 = 8;

/// The loader with random crops and f32 batches, and what it decodes.
fn record(
    bundle: &Arc<Bundle>,
    checked: &Arc<Bundle>,
    options: &Options,
    threads: usize,
) -> Result<Value, Box<dyn Error>> {
    let begin = Instant::now();
    let crops = Transform::train(options.size);
    drop(loader(bundle, options, crops, threads, Numbers::F32)?.epoch(0).next());
    let first = begin.elapsed();
    load(bundle, &Options { time: options.time / 4, ..*options }, crops, threads, Numbers::F32)?;
    let (rate, _) = load(bundle, options, crops, threads, Numbers::F32)?;
    let memory = memory_bytes();
    let (with_digests, _) = load(checked, options, crops, threads, Numbers::F32)?;
    let mut decoder = Decoder::new(DecodeOptions::default());
    let (mut hasher, mut bytes) = (Sha256::new(), Vec::new());
    for i in 0..bundle.n_samples(Split::Train).min(COMPARED) {
        bundle.read(bundle.locate(Split::Train, i)?, FieldIdx(0), &mut bytes)?;
        let image = decoder.decode(&bytes)?;
        hasher.update(format!("{}x{}\n", image.width(), image.height()));
        hasher.update(image.data());
    }
    let digest: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let part = "the crop and its surroundings";
    Ok(json!({
        "images_s": rate.wall, "images_cpu_s": rate.cpu, "first_batch_s": first.as_secs_f64(),
        "memory_bytes": memory, "checked_images_s": with_digests.wall, "threads": threads,
        "decoder": jpeg_backend(), "dct": "full",
        "decodes": if cfg!(feature = "turbo") { part } else { "whole images" },
        "pixel_digest": digest,
    }))
}

/// Memory of this process, in proportion to who shares it.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Images a second: of the clock, of this process's CPU time.
#[derive(Clone, Copy)]
struct Rate {
    wall: f64,
    cpu: f64,
}

/// Both clocks since it was begun.
struct Watch(Instant, f64);

impl Watch {
    fn begin() -> Self {
        Self(Instant::now(), cpu_seconds())
    }

    fn rate(&self, images: u64) -> Rate {
        let (wall, cpu) = (self.0.elapsed().as_secs_f64(), cpu_seconds() - self.1);
        Rate { wall: images as f64 / wall, cpu: images as f64 / cpu.max(1e-9) }
    }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn row(what: &str, rate: Rate) {
    println!("{what:<44}{:>10.0}{:>12.0}", rate.wall, rate.cpu);
}

/// One thread, no order, no slots: what the codec leaves to be gained. Also the
/// mean sample in bytes. Warms the page cache.
fn decode_only(bundle: &Bundle, options: &Options) -> Result<(Rate, f64), Box<dyn Error>> {
    let n = bundle.n_samples(Split::Train);
    let mut samples = Vec::new();
    for i in 0..n.min(512) {
        let mut bytes = Vec::new();
        bundle.read(bundle.locate(Split::Train, i)?, FieldIdx(0), &mut bytes)?;
        samples.push(bytes);
    }
    let mean = samples.iter().map(Vec::len).sum::<usize>() as f64 / samples.len().max(1) as f64;
    let mut decoder = Decoder::new(DecodeOptions::default());
    let to = Resize::to(options.size, options.size);
    let mut out = vec![0; options.size as usize * options.size as usize * 3];
    let watch = Watch::begin();
    let mut images = 0;
    while watch.0.elapsed() < options.time {
        for bytes in &samples {
            let (width, height) = read_header(bytes, &Limits::default())?.upright_size();
            decoder.crop_resize(bytes, Rect::whole(width, height), &to, &mut out)?;
        }
        images += samples.len() as u64;
    }
    Ok((watch.rate(images), mean))
}

/// As the loader's threads cut, decode and resize: what they leave to be gained.
fn crops_only(bundle: &Bundle, options: &Options) -> Result<Rate, Box<dyn Error>> {
    let n = bundle.n_samples(Split::Train);
    let mut samples = Vec::new();
    for i in 0..n.min(1024) {
        let mut bytes = Vec::new();
        bundle.read(bundle.locate(Split::Train, i)?, FieldIdx(0), &mut bytes)?;
        samples.push(bytes);
    }
    let mut decoder = Decoder::new(DecodeOptions::default());
    let mut out = vec![0; options.size as usize * options.size as usize * 3];
    let transform = Transform::train(options.size);
    let watch = Watch::begin();
    let mut images = 0;
    for epoch in 0.. {
        for (i, bytes) in (0..).zip(&samples) {
            let (width, height) = read_header(bytes, &Limits::default())?.upright_size();
            let place = transform.place(width, height, &mut KeyedRng::of_sample(0, epoch, i));
            decoder.crop_resize(bytes, place.region, &place.resize, &mut out)?;
        }
        images += samples.len() as u64;
        if watch.0.elapsed() >= options.time {
            break;
        }
    }
    Ok(watch.rate(images))
}

fn loader(
    bundle: &Arc<Bundle>,
    options: &Options,
    transform: Transform,
    threads: usize,
    numbers: Numbers,
) -> Result<Loader, gular_runtime::Error> {
    let options = LoaderOptions {
        batch_size: options.batch_size,
        threads,
        transform,
        unknown_labels: UnknownLabels::Ignore,
        depth: Depth::U8,
        numbers,
        layout: if numbers == Numbers::F32 { Layout::Contiguous } else { Layout::ChannelsLast },
        ..LoaderOptions::new(Split::Train)
    };
    Loader::new(Arc::clone(bundle), options)
}

fn load(
    bundle: &Arc<Bundle>,
    options: &Options,
    transform: Transform,
    threads: usize,
    numbers: Numbers,
) -> Result<(Rate, Stats), Box<dyn Error>> {
    let mut loader = loader(bundle, options, transform, threads, numbers)?;
    let watch = Watch::begin();
    for epoch in 0.. {
        for batch in loader.epoch(epoch) {
            drop(batch?);
            if watch.0.elapsed() >= options.time {
                break;
            }
        }
        if watch.0.elapsed() >= options.time {
            break;
        }
    }
    let stats = loader.stats();
    Ok((watch.rate(stats.images), stats))
}

/// From nothing to the first batch.
fn first_batch(bundle: &Arc<Bundle>, options: &Options) -> Result<Duration, Box<dyn Error>> {
    let begin = Instant::now();
    let crops = Transform::train(options.size);
    let mut loader = loader(bundle, options, crops, 0, Numbers::F32)?;
    loader.epoch(0).next().ok_or("the bundle has no training samples")??;
    Ok(begin.elapsed())
}
