//! Measures photographs as a training step receives them, and how much faster the decoder alone is.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use gular_codec::{DecodeOptions, Decoder, Limits, Scaling, read_header};
use gular_runtime::order::{KeyedRng, Weights};
use gular_runtime::torch::{Feed, FeedOptions, Place};
use gular_runtime::{
    AxisOrder, Backend, Bundle, CheckWhen, Draw, Env, FieldIdx, Loader, LoaderOptions, LoaderPlan,
    Numbers, OpenOptions, Predicate, Select, Split, Transform, UnknownLabels, available_cores,
    jpeg_backend,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::turn::{Answer, Host, Watch};

pub(crate) const BATCH: usize = 64;
const SIZE: u32 = 224;
const IMAGE: FieldIdx = FieldIdx(0);

/// Images whose pixels other decoders' are compared with: the first by key.
const COMPARED: u64 = 8;

/// Number of images in the row about epochs.
const FEW: u64 = 640;
const EPOCHS: u64 = 10;

/// The loader beside the decoder, which is given the very bytes in memory.
pub(crate) fn beside_the_decoder(dir: &Path) -> Result<Host, Box<dyn Error>> {
    let mut host = alone(dir)?;
    let bundle = open(dir, Backend::Pread)?;
    let samples: Arc<Vec<Vec<u8>>> = Arc::new(
        (0..bundle.n_samples(Split::Train))
            .map(|i| {
                let mut bytes = Vec::new();
                bundle.read(bundle.locate(Split::Train, i)?, IMAGE, &mut bytes)?;
                Ok::<_, gular_bundle::Error>(bytes)
            })
            .collect::<Result<_, _>>()?,
    );
    host.facts = facts(&samples)?;
    let cores = available_cores(&Env::process());
    for (name, threads) in [("decode and resize, 1 thread", 1), ("decode and resize, all", cores)] {
        let (samples, next) = (Arc::clone(&samples), Arc::new(AtomicU64::new(0)));
        host.add(name, move |seconds| decode(&samples, &next, threads, seconds));
    }
    Ok(host)
}

/// The loader: random crops, mirrored at times, as normalised f32 `[64, 3, 224, 224]`.
pub(crate) fn alone(dir: &Path) -> Result<Host, Box<dyn Error>> {
    rates(dir, Transform::train(SIZE))
}

/// The largest square in the middle, as data loaders without augmentations make it.
pub(crate) fn centre(dir: &Path) -> Result<Host, Box<dyn Error>> {
    rates(dir, Transform::Eval { resize_short: SIZE, width: SIZE, height: SIZE })
}

fn rates(dir: &Path, transform: Transform) -> Result<Host, Box<dyn Error>> {
    let mut feed = feed(&open(dir, Backend::Pread)?, transform, 0, Numbers::F32)?;
    let (mut host, mut epoch) = (Host::default(), 0);
    host.add("gular", move |seconds| run(&mut feed, &mut epoch, seconds));
    Ok(host)
}

/// Measures the time from opening to the first batch, with warm files.
pub(crate) fn first_batch(dir: &Path) -> Host {
    let (mut host, dir) = (Host::default(), dir.to_owned());
    host.add("gular", move |_| {
        let watch = Watch::begin();
        let mut feed = freshly_opened(&dir, Backend::Pread)?;
        let batch = feed.epoch(0).next().ok_or("no batch")??;
        let mut answer = watch.answer(batch.len() as u64);
        answer["ms"] = (watch.seconds() * 1e3).into();
        Ok(answer)
    });
    host
}

/// CPU time of the thread that takes the batches.
pub(crate) fn training_thread(dir: &Path) -> Result<Host, Box<dyn Error>> {
    let mut host = Host::default();
    for workers in [1, 2, 4] {
        let bundle = open(dir, Backend::Pread)?;
        let mut feed = feed(&bundle, Transform::train(SIZE), workers, Numbers::F32)?;
        let mut epoch = 0;
        let name = format!("{workers} worker{}", if workers == 1 { "" } else { "s" });
        host.add(name, move |seconds| run(&mut feed, &mut epoch, seconds));
    }
    Ok(host)
}

/// Ten epochs of few images, and the same images drawn without a border in between.
pub(crate) fn short_epochs(dir: &Path) -> Result<Host, Box<dyn Error>> {
    let bundle = open(dir, Backend::Pread)?;
    let n = bundle.n_samples(Split::Train);
    let step = (n / FEW).max(1);
    let is_used = move |number: u64| number.is_multiple_of(step) && number / step < FEW;
    let few =
        Select { only: Some(Predicate::new(move |s| is_used(s.number))), ..Select::default() };
    let of_few = LoaderOptions { select: few, ..options(Transform::train(SIZE), 0) };
    let weights = Weights::new((0..n).map(|i| u32::from(is_used(i))).collect());
    let drawn =
        LoaderOptions { draw: Draw::ByWeight(weights), ..options(Transform::train(SIZE), 0) };
    let mut host = Host::default();
    for (name, options) in [("10 epochs of 640 images", of_few), ("without borders", drawn)] {
        let plan = LoaderPlan::new(Arc::clone(&bundle), options)?;
        let mut feed = Feed::new(plan, &Place::cpu(), feed_options(Numbers::F32))?;
        let (mut epoch, due) = (0, FEW.min(n) * EPOCHS);
        host.add(name, move |_| {
            let (watch, mut images) = (Watch::begin(), 0);
            while images < due {
                for batch in feed.epoch(epoch) {
                    images += batch?.len() as u64;
                    if images >= due {
                        break;
                    }
                }
                epoch += 1;
            }
            Ok(watch.answer(images))
        });
    }
    Ok(host)
}

/// Measures one whole epoch, including opening the bundle, for files that are not in memory.
pub(crate) fn whole_epochs(dir: &Path) -> Host {
    let mut host = Host::default();
    for (name, backend) in [("gular", Backend::Pread), ("gular, map", Backend::Map)] {
        let dir: PathBuf = dir.to_owned();
        host.add(name, move |_| {
            let (watch, mut images) = (Watch::begin(), 0);
            let mut feed = freshly_opened(&dir, backend)?;
            for batch in feed.epoch(0) {
                images += batch?.len() as u64;
            }
            Ok(watch.answer(images))
        });
    }
    host
}

fn freshly_opened(dir: &Path, backend: Backend) -> Result<Feed, Box<dyn Error>> {
    let bundle = Bundle::open(dir, OpenOptions { backend, ..OpenOptions::default() })?;
    // The epoch must not pay for work on a second one.
    let options = LoaderOptions { across_epochs: false, ..options(Transform::train(SIZE), 0) };
    let plan = LoaderPlan::new(Arc::new(bundle), options)?;
    Ok(Feed::new(plan, &Place::cpu(), feed_options(Numbers::F32))?)
}

/// A bundle of which every sample was checked once.
pub(crate) fn open(dir: &Path, backend: Backend) -> Result<Arc<Bundle>, Box<dyn Error>> {
    let check = CheckWhen::FirstTouch;
    let bundle = Bundle::open(dir, OpenOptions { backend, check, ..OpenOptions::default() })?;
    let mut buffer = Vec::new();
    for i in 0..bundle.n_samples(Split::Train) {
        let id = bundle.locate(Split::Train, i)?;
        let shard = bundle.shard(id.shard)?;
        shard.check(id.row, IMAGE, shard.view(id.row, IMAGE, &mut buffer)?)?;
    }
    Ok(Arc::new(bundle))
}

fn options(transform: Transform, threads: usize) -> LoaderOptions {
    LoaderOptions {
        batch_size: BATCH,
        threads,
        transform,
        unknown_labels: UnknownLabels::Ignore,
        ..LoaderOptions::new(Split::Train)
    }
}

fn feed_options(numbers: Numbers) -> FeedOptions {
    let layout = match numbers {
        Numbers::Stored => AxisOrder::ChannelsLast,
        _ => AxisOrder::Contiguous,
    };
    FeedOptions { numbers, layout, ..FeedOptions::default() }
}

pub(crate) fn loader(
    bundle: &Arc<Bundle>,
    transform: Transform,
    threads: usize,
) -> Result<Loader, Box<dyn Error>> {
    Ok(Loader::new(Arc::clone(bundle), options(transform, threads))?)
}

pub(crate) fn feed(
    bundle: &Arc<Bundle>,
    transform: Transform,
    threads: usize,
    numbers: Numbers,
) -> Result<Feed, Box<dyn Error>> {
    let plan = LoaderPlan::new(Arc::clone(bundle), options(transform, threads))?;
    Ok(Feed::new(plan, &Place::cpu(), feed_options(numbers))?)
}

/// Batches for `seconds`, after a quarter of that for the threads to get going.
pub(crate) fn run(feed: &mut Feed, epoch: &mut u64, seconds: f64) -> Answer {
    let (mut watch, mut warm) = (Watch::begin(), true);
    let (mut images, mut batches, mut thread_seconds) = (0, 0_u64, 0.0);
    loop {
        *epoch += 1;
        let mut batch_of = feed.epoch(*epoch);
        loop {
            let thread = Watch::of_thread();
            let Some(batch) = batch_of.next().transpose()? else { break };
            images += batch.len() as u64;
            drop(batch);
            thread_seconds += thread.cpu_seconds();
            batches += 1;
            if warm && watch.seconds() >= seconds / 4.0 {
                (images, batches, thread_seconds) = (0, 0, 0.0);
                (watch, warm) = (Watch::begin(), false);
            } else if !warm && watch.seconds() >= seconds {
                let mut answer = watch.answer(images);
                answer["thread_us_per_batch"] = (thread_seconds * 1e6 / batches as f64).into();
                answer["memory_bytes"] = memory_bytes().into();
                return Ok(answer);
            }
        }
    }
}

/// Decodes and resizes in the way of the loader's threads, as a bound for the loader.
fn decode(samples: &[Vec<u8>], next: &AtomicU64, threads: usize, seconds: f64) -> Answer {
    let transform = Transform::train(SIZE);
    let (watch, before) = (Watch::begin(), next.load(Ordering::Relaxed));
    let options = DecodeOptions { scaling: Scaling::Reduced, ..DecodeOptions::default() };
    let work = || -> io::Result<()> {
        let mut decoder = Decoder::new(options);
        let mut out = vec![0; SIZE as usize * SIZE as usize * 3];
        while watch.seconds() < seconds {
            let i = next.fetch_add(1, Ordering::Relaxed);
            // The order is not that of the files, and every image is used once before any is used
            // again.
            let (epoch, at) = (i / samples.len() as u64, i % samples.len() as u64);
            let bytes = &samples[(at * 7919 % samples.len() as u64) as usize];
            let header = read_header(bytes, &Limits::default()).map_err(io::Error::other)?;
            let (width, height) = header.upright_size();
            let place = transform.place(width, height, &mut KeyedRng::of_sample(0, epoch, at));
            decoder
                .crop_resize(bytes, place.region, &place.resize, &mut out)
                .map_err(io::Error::other)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(_) => Err(io::Error::other("a thread panicked")),
        })
    })?;
    Ok(watch.answer(next.load(Ordering::Relaxed) - before))
}

/// Describes what is decoded, and to which size.
fn facts(samples: &[Vec<u8>]) -> Result<Value, Box<dyn Error>> {
    let mut decoder = Decoder::new(DecodeOptions::default());
    let mut hasher = Sha256::new();
    for bytes in samples.iter().take(COMPARED as usize) {
        let image = decoder.decode(bytes)?;
        hasher.update(format!("{}x{}\n", image.width(), image.height()));
        hasher.update(image.data());
    }
    let digest: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let part = "the crop and its surroundings";
    Ok(json!({
        "decoder": jpeg_backend(), "dct": "full", "pixel_digest": digest, "as_in_files": true,
        "decodes": if cfg!(feature = "turbo") { part } else { "whole images" },
        "order": "permutation",
    }))
}

/// Memory of this process, in proportion to who shares it.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}
