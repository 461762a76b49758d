//! Measures rates: copies to the GPU compared with plain copies, images from each bundle, and
//! training steps compared with the same steps on data that is already on the GPU.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gular_runtime::cuda::{Gpu, copy_rates};
use gular_runtime::torch::{AxisOrder, Feed, FeedOptions, Numbers, Optimiser as _, Sgd};
use gular_runtime::{Bundle, Depth, Env, Split, available_cores, jpeg_backend};
use serde_json::{Value, json};
use tch::nn::VarStore;
use tch::{Cuda, Kind, Tensor};

use super::resnet::ResNet50;
use super::{Failure, open_bundle, open_gpu, plan};

const SIZE: u32 = 224;
const BATCH: usize = 128;
const N_CLASSES: i64 = 1000;
const ROUNDS: usize = 5;
/// Number of steps in a round.
const STEPS: usize = 60;
/// Steps before them: more than there are batches made ahead.
const LEAD: usize = 10;

/// Prints how fast copies are, as JSON on stdout.
pub(crate) fn run_copies(base: FeedOptions) -> Result<(), Failure> {
    let gpu = open_gpu()?;
    print(&gpu, base, &json!({ "copies": copies(&gpu, base)? }))
}

/// Prints how many images a second come from each bundle, as JSON on stdout.
pub(crate) fn run_images(bundles: &[String], base: FeedOptions) -> Result<(), Failure> {
    each(bundles, base, "images_per_second", |gpu, bundle| images(gpu, bundle, base))
}

/// Prints how many steps a second a training run on each bundle does, as JSON on stdout.
pub(crate) fn run_steps(bundles: &[String], base: FeedOptions) -> Result<(), Failure> {
    each(bundles, base, "steps", |gpu, bundle| steps(gpu, bundle, base))
}

fn each(
    bundles: &[String],
    base: FeedOptions,
    what: &str,
    measure: impl Fn(&Gpu, &Arc<Bundle>) -> Result<Value, Failure>,
) -> Result<(), Failure> {
    let gpu = open_gpu()?;
    let mut rows = Vec::new();
    for dir in bundles {
        let bundle = open_bundle(dir)?;
        let payload = serde_json::to_value(bundle.manifest().payload)?;
        // An error here must not lose what was measured before.
        let found = measure(&gpu, &bundle).unwrap_or_else(|e| json!({ "error": e.to_string() }));
        eprintln!("{payload}: {found}");
        let samples = bundle.n_samples(Split::Train);
        rows.push(json!({ "payload": payload, "samples": samples, what: found }));
    }
    print(&gpu, base, &json!({ "bundles": rows }))?;
    let failed = rows.iter().any(|row| row[what].get("error").is_some());
    if failed { Err("a bundle could not be measured".into()) } else { Ok(()) }
}

/// Prints a record, with the GPU and the options.
fn print(gpu: &Gpu, base: FeedOptions, found: &Value) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let FeedOptions { ahead, pin, slots, convert, .. } = base;
    let mut record = json!({
        "gpu": gpu.to_string(), "cores": cores, "decoder": jpeg_backend(),
        "threads": available_cores(&Env::process()), "batch_size": BATCH, "size": SIZE,
        "ahead": ahead, "pin": format!("{pin:?}"), "slots": format!("{slots:?}"),
        "convert": format!("{convert:?}"),
    });
    if let (Some(record), Some(found)) = (record.as_object_mut(), found.as_object()) {
        record.extend(found.clone());
    }
    println!("{record}");
    Ok(())
}

/// Bytes a second, plain and through the ring, round by round.
fn copies(gpu: &Gpu, base: FeedOptions) -> Result<Value, Failure> {
    let row_bytes = (SIZE * SIZE * 3) as usize;
    let (mut plain, mut ring) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let rates = copy_rates(gpu, BATCH, row_bytes, &base, Duration::from_millis(500))?;
        plain.push(rates.plain);
        ring.push(rates.ring);
    }
    let ratio = median(&ring) / median(&plain);
    eprintln!(
        "copies: plain {:.1} GB/s, ring {:.1} GB/s, ratio {ratio:.3}",
        median(&plain) / 1e9,
        median(&ring) / 1e9
    );
    Ok(json!({ "plain": plain, "ring": ring, "ratio": ratio }))
}

fn feed(gpu: &Gpu, bundle: &Arc<Bundle>, base: FeedOptions) -> Result<Feed, Failure> {
    let options = FeedOptions { numbers: Numbers::Bf16, layout: AxisOrder::ChannelsLast, ..base };
    super::feed(gpu, bundle, BATCH, SIZE, options)
}

/// Images a second of whole epochs: decoded only, and as numbers on the GPU.
fn images(gpu: &Gpu, bundle: &Arc<Bundle>, base: FeedOptions) -> Result<Value, Failure> {
    let (mut alone, mut to_gpu) = (Vec::new(), Vec::new());
    let plain = plan(bundle, BATCH, SIZE, Depth::Stored)?;
    let mut plain = plain.start(Numbers::Stored, AxisOrder::ChannelsLast)?;
    let mut feed = feed(gpu, bundle, base)?;
    for round in 0..=ROUNDS as u64 {
        let (since, mut n) = (Instant::now(), 0);
        for batch in plain.epoch(round) {
            n += batch?.len();
        }
        let decoded = n as f64 / since.elapsed().as_secs_f64();
        let (since, mut n) = (Instant::now(), 0);
        for batch in feed.epoch(round) {
            n += batch?.len();
        }
        synchronise(gpu);
        // Round 0 checks digests and warms up, so it is not counted.
        if round > 0 {
            alone.push(decoded);
            to_gpu.push(n as f64 / since.elapsed().as_secs_f64());
        }
    }
    let medians = (median(&alone), median(&to_gpu));
    Ok(json!({ "decoded": medians.0, "to_gpu": medians.1, "rounds": [alone, to_gpu] }))
}

/// Training steps a second in `bf16`, on our batches and on one that stays on the GPU.
fn steps(gpu: &Gpu, bundle: &Arc<Bundle>, base: FeedOptions) -> Result<Value, Failure> {
    let device = gpu.device();
    let mut store = VarStore::new(device);
    let net = ResNet50::new(&store.root(), N_CLASSES);
    store.bfloat16();
    let mut optimiser = Sgd::new(&store, 0.9);
    Cuda::cudnn_set_benchmark(true);
    let mut step = |images: &Tensor, labels: &Tensor| {
        let scores = net.forward(images, true).to_kind(Kind::Float);
        optimiser.zero_grad();
        scores.cross_entropy_for_logits(&labels.clamp(0, N_CLASSES - 1)).backward();
        optimiser.step(0.1)
    };
    let mut feed = feed(gpu, bundle, base)?;
    let first = feed.epoch(0).next().ok_or("the bundle has no training samples")??;
    if first.len() < BATCH {
        return Err(format!("the bundle has fewer than {BATCH} training samples").into());
    }
    for _ in 0..10 {
        step(&first.images, &first.labels)?;
    }
    let (mut synthetic, mut ours) = (Vec::new(), Vec::new());
    // Steps since the last pause; the first use up what was made ahead in it.
    let (mut taken, mut since) = (0, Instant::now());
    'rounds: for epoch in 0.. {
        for batch in feed.epoch(epoch) {
            let batch = batch?;
            if batch.len() < BATCH {
                break;
            }
            if taken == 0 {
                synchronise(gpu);
                since = Instant::now();
                for _ in 0..STEPS {
                    step(&first.images, &first.labels)?;
                }
                synchronise(gpu);
                synthetic.push(STEPS as f64 / since.elapsed().as_secs_f64());
            } else if taken == LEAD {
                synchronise(gpu);
                since = Instant::now();
            }
            step(&batch.images, &batch.labels)?;
            taken += 1;
            if taken == LEAD + STEPS {
                synchronise(gpu);
                ours.push(STEPS as f64 / since.elapsed().as_secs_f64());
                taken = 0;
                if ours.len() == ROUNDS {
                    break 'rounds;
                }
            }
        }
    }
    let ratio = median(&ours) / median(&synthetic);
    Ok(json!({
        "synthetic": synthetic, "ours": ours, "ratio": ratio,
        "images_per_second": median(&ours) * BATCH as f64,
    }))
}

fn synchronise(gpu: &Gpu) {
    Cuda::synchronize(i64::try_from(gpu.index).unwrap_or(0));
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
