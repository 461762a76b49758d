//! Measures how fast packing, deriving and joining are, for `cargo xtask bench pack`.
//!
//! ```text
//! pack_rates WHAT SOURCE WORK [ROUNDS]     prints one JSON object
//! ```
//!
//! `raw`: photographs below SOURCE as pixels, against decoding and resizing them on one thread,
//! times the cores, and on as many threads as there are cores, which share the memory; and against
//! a loop by hand that also reads, hashes and writes. `archives`:
//! SOURCE, WORK/images.zip and WORK/images.tar, as they are. `tiles`: the GeoTIFF files below
//! SOURCE, on one thread. `index`: a view of 1 % of 1.28 million samples, and the join of 1.33
//! million digests; SOURCE is not read.

#![expect(clippy::print_stdout, reason = "a program whose output is its record")]

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use gular_bundle::{
    About, Bundle, BundlePath, DATA_DIR, Digest, Envelope, Field, FieldName, Manifest, OpenOptions,
    Payload, ShardSpec, ShardWriter, Split, write_manifest,
};
use gular_codec::{DecodeOptions, Decoder, Fit};
use gular_pack::{
    Among, DeriveOptions, DuplicateOptions, Inputs, Labels, Limit, PackOptions, PayloadOptions,
    PlanOptions, RawOptions, TileOptions, derive, find_duplicates, pack,
};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SIDE: u32 = 224;
/// Samples of `index`: ImageNet's training images, and all of them.
const TRAIN: usize = 1_281_167;
const ALL: usize = 1_331_167;
const SHARDS: usize = 140;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (what, source, work) = match args.as_slice() {
        [what, source, work, ..] => (what.as_str(), Path::new(source), Path::new(work)),
        _ => return Err("usage: pack_rates raw|archives|tiles|index SOURCE WORK [ROUNDS]".into()),
    };
    let rounds = args.get(3).map_or(Ok(5), |text| text.parse())?;
    let found = match what {
        "raw" => raw(source, work, rounds)?,
        "archives" => archives(source, work, rounds)?,
        "tiles" => tiles(source, work, rounds)?,
        "index" => index(work, rounds)?,
        _ => return Err(format!("`{what}` is not a measurement").into()),
    };
    println!("{found}");
    Ok(())
}

/// Returns the seconds that packing takes, and the number of samples.
fn packed(source: &Path, work: &Path, plan: PlanOptions, jobs: usize) -> Result<(f64, u64)> {
    let out = work.join("out");
    let temp_dir = work.to_owned();
    let options = PackOptions { plan, jobs, dry_run: false, part: None, temp_dir };
    let start = Instant::now();
    let report = pack(source, &out, &options, &|_| {}, &AtomicBool::new(false))?;
    let seconds = start.elapsed().as_secs_f64();
    fs::remove_dir_all(&out)?;
    Ok((seconds, report.samples))
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let (mut dirs, mut found) = (vec![dir.to_owned()], Vec::new());
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() { dirs.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

fn raw(source: &Path, work: &Path, rounds: usize) -> Result<Value> {
    let paths = files(source)?;
    let bytes: Vec<(&Path, Vec<u8>)> =
        paths.iter().map(|path| Ok((path.as_path(), fs::read(path)?))).collect::<Result<_>>()?;
    let payload = PayloadOptions::Raw(RawOptions::new(SIDE, SIDE));
    let plan = PlanOptions { payload, labels: Labels::None, ..PlanOptions::default() };
    let mut rates: [Vec<f64>; 4] = [const { Vec::new() }; 4];
    for round in 0..=rounds {
        let (one, all) = (decode_resize(&bytes, 1)?, decode_resize(&bytes, cores())?);
        let by_hand = by_hand(&paths, work, cores())?;
        let (seconds, samples) = packed(source, work, plan.clone(), cores())?;
        if round > 0 {
            let found = [one, all, by_hand, samples as f64 / seconds];
            rates.iter_mut().zip(found).for_each(|(rates, rate)| rates.push(rate));
        }
    }
    let [alone, together, by_hand, whole] = &rates;
    // The machine's speed changes within a minute, so rates of the same round are compared.
    let over = |rates: &[f64]| {
        median(&whole.iter().zip(rates).map(|(whole, rate)| whole / rate).collect::<Vec<_>>())
    };
    Ok(json!({
        "images": bytes.len(), "cores": cores(), "decode_resize_per_core": alone,
        "decode_resize_all_cores": together, "by_hand_all_cores": by_hand, "pack_raw": whole,
        "pack_over_decode_times_cores": over(alone) / cores() as f64, "wanted": 0.9,
        "pack_over_decode_on_all_cores": over(together), "pack_over_by_hand": over(by_hand),
    }))
}

/// Images per second that `threads` decode and resize, in memory.
fn decode_resize(files: &[(&Path, Vec<u8>)], threads: usize) -> Result<f64> {
    rate(files.len(), threads, |next| {
        let mut decoder = Decoder::new(DecodeOptions::default());
        let mut pixels = vec![0; (SIDE * SIDE * 3) as usize];
        while let Some((path, file)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let fitted = decoder.fit(file, (SIDE, SIDE), Fit::Crop, &mut pixels);
            fitted.map_err(|e| format!("`{}`: {e}", path.display()))?;
        }
        Ok(())
    })
}

/// Images per second that `threads` read, decode, resize, hash twice (a sample and its blocks have
/// digests) and write, each to a file of its own: what a raw bundle takes at least.
fn by_hand(paths: &[PathBuf], work: &Path, threads: usize) -> Result<f64> {
    rate(paths.len(), threads, |next| {
        let mut decoder = Decoder::new(DecodeOptions::default());
        let mut pixels = vec![0; (SIDE * SIDE * 3) as usize];
        let (mut file, mut out) = (Vec::new(), tempfile::tempfile_in(work)?);
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            file.clear();
            fs::File::open(path)?.read_to_end(&mut file)?;
            decoder.fit(&file, (SIDE, SIDE), Fit::Crop, &mut pixels)?;
            black_box((Digest::of(&pixels), Digest::of(black_box(&pixels))));
            out.write_all(&pixels)?;
        }
        Ok(out.sync_all()?)
    })
}

/// Images per second of `threads` that do `work`, each with the number of the next one of `n`.
fn rate(n: usize, threads: usize, work: impl Fn(&AtomicUsize) -> Result<()> + Sync) -> Result<f64> {
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        let work = || work(&next).map_err(|error| error.to_string());
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(n as f64 / start.elapsed().as_secs_f64())
}

fn archives(source: &Path, work: &Path, rounds: usize) -> Result<Value> {
    let plan = PlanOptions { labels: Labels::None, ..PlanOptions::default() };
    let sources = [source.to_owned(), work.join("images.zip"), work.join("images.tar")];
    let mut rates: [Vec<f64>; 3] = [const { Vec::new() }; 3];
    for round in 0..=rounds {
        for (source, rates) in sources.iter().zip(&mut rates) {
            let (seconds, samples) = packed(source, work, plan.clone(), cores())?;
            if round > 0 {
                rates.push(samples as f64 / seconds);
            }
        }
    }
    let [files, zip, tar] = &rates;
    Ok(json!({
        "files": files, "zip": zip, "tar": tar, "wanted": 0.8,
        "zip_over_files": median(zip) / median(files), "tar_over_files": median(tar) / median(files),
    }))
}

fn tiles(source: &Path, work: &Path, rounds: usize) -> Result<Value> {
    let tile = TileOptions { size: 256, overlap: 0, min_valid: 0.0, block: None };
    let plan = PlanOptions {
        inputs: Inputs::Arrays,
        labels: Labels::None,
        tile: Some(tile),
        ..PlanOptions::default()
    };
    let mut rates = Vec::new();
    for round in 0..=rounds {
        let (seconds, samples) = packed(source, work, plan.clone(), 1)?;
        if round > 0 {
            rates.push(samples as f64 / seconds);
        }
    }
    Ok(json!({"tiles_per_core": rates, "median": median(&rates)}))
}

/// A bundle of `n` tiny samples, of which every thousandth has the bytes of the one before.
fn many(dir: &Path, n: usize) -> Result<()> {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data)?;
    let image = Field::bytes(FieldName::image(), vec!["image/jpeg".into()]);
    let fields = [image, Field::label()];
    let mut shards = Vec::new();
    let per_shard = n.div_ceil(SHARDS);
    for first in (0..n).step_by(per_shard) {
        let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
        let mut writer = ShardWriter::create(&data, &spec)?;
        for i in first..(first + per_shard).min(n) {
            let picture = if i % 1000 == 999 { i - 1 } else { i };
            let key = BundlePath::parse(&format!("n{:08}/n{:08}_{i}.JPEG", i % 1000, i % 1000))?;
            let label = ((i % 1000) as i64).to_le_bytes();
            writer.push(&key, &[&(picture as u64).to_le_bytes(), &label])?;
        }
        shards.push(writer.finish()?);
    }
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        fields: fields.to_vec(),
        classes: (0..1000).map(|c| format!("class {c}")).collect(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards,
    };
    write_manifest(dir, &manifest)?;
    Ok(())
}

fn index(work: &Path, rounds: usize) -> Result<Value> {
    let (train, all) = (work.join("train"), work.join("all"));
    many(&train, TRAIN)?;
    many(&all, ALL)?;
    let never = AtomicBool::new(false);
    let (mut views, mut joins, mut bytes, mut groups) = (Vec::new(), Vec::new(), 0, 0);
    for round in 0..=rounds {
        let out = work.join("view");
        let options = DeriveOptions {
            limit: Some(Limit::Share(0.01)),
            jobs: cores(),
            ..DeriveOptions::new(work.to_owned())
        };
        let start = Instant::now();
        let report = derive(std::slice::from_ref(&train), &out, &options, &|_| {}, &never)?;
        let seconds = start.elapsed().as_secs_f64();
        bytes = report.bytes_written;
        fs::remove_dir_all(&out)?;
        let start = Instant::now();
        let bundle = Bundle::open(&all, OpenOptions::default())?;
        let among = Among { bundle: &bundle, has: &|_| true };
        let found = find_duplicates(&among, None, &DuplicateOptions::default(), &never)?;
        let joined = start.elapsed().as_secs_f64();
        groups = found.pictures;
        if round > 0 {
            views.push(seconds);
            joins.push(joined);
        }
    }
    fs::remove_dir_all(&train)?;
    fs::remove_dir_all(&all)?;
    Ok(json!({
        "view_of": TRAIN, "view_seconds": views, "view_bytes": bytes, "view_wanted_seconds": 1.0,
        "join_of": ALL, "join_seconds": joins, "join_groups": groups,
        "join_wanted_seconds": 2.0,
    }))
}
