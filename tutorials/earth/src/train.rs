//! Trains on tiles and their masks.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use gular_runtime::augment::Augment;
use gular_runtime::torch::{AdamW, Feed, FeedOptions, Optimiser as _, Place};
use gular_runtime::torch::{set_step_rng, write_weights};
use gular_runtime::{Bundle, LoaderOptions, LoaderPlan, Normalise, Numbers, OpenOptions};
use gular_runtime::{Split, Transform};
use tch::nn::VarStore;
use tch::{Device, Kind, Reduction, Tensor};

use crate::unet::{CLASSES, UNKNOWN, UNet};

const EPOCHS: u64 = 16;
const BATCH_SIZE: usize = 8;
const LEARNING_RATE: f64 = 5e-3;

pub(crate) fn run(bundle: &Path, weights: &Path) -> Result<()> {
    let bundle = Arc::new(Bundle::open(bundle, OpenOptions::default())?);
    let usual = Normalise::of_manifest(bundle.manifest());
    let usual = usual
        .context("the manifest has no statistics of the pixels: pack the scenes with `--tile`")?;

    set_step_rng(0, u64::MAX, 0);
    let store = VarStore::new(Device::Cpu);
    let mut net = UNet::new(&store.root(), usual.mean.len() as i64);
    net.standardise(&usual.mean, &usual.std);
    let mut optimiser = AdamW::new(&store);

    let mut train = feed(&bundle, Split::Train)?;
    for epoch in 0..EPOCHS {
        let (mut sum, mut n) = (0.0, 0);
        for batch in train.epoch(epoch) {
            let batch = batch?;
            optimiser.zero_grad();
            let loss = loss(&net.forward(&batch.images), &batch.fields["mask"]);
            loss.backward();
            optimiser.step(LEARNING_RATE)?;
            (sum, n) = (sum + loss.double_value(&[]), n + 1);
        }
        println!("epoch {}: loss {:.3}", epoch + 1, sum / f64::from(n));
    }
    let mut found = Tensor::zeros([CLASSES.len() as i64; 2], (Kind::Int64, Device::Cpu));
    for batch in feed(&bundle, Split::Val)?.epoch(0) {
        let batch = batch?;
        let scores = tch::no_grad(|| net.forward(&batch.images));
        found += confusion(&batch.fields["mask"], &scores.argmax(1, false));
    }
    let ious = intersections_over_unions(&found);
    let texts: Vec<String> =
        CLASSES.iter().zip(&ious).map(|((name, _), iou)| format!("{name} {iou:.2}")).collect();
    let mean = ious.iter().sum::<f64>() / ious.len() as f64;
    println!("val IoU: {}, mean {mean:.2}", texts.join(", "));
    write_weights(&store, weights)?;
    Ok(())
}

/// Batches of tiles as they are stored, and field `mask`.
fn feed(bundle: &Arc<Bundle>, split: Split) -> Result<Feed> {
    let image = bundle.manifest().fields.first().and_then(|field| field.as_fixed());
    let side = image.and_then(|(_, shape)| u32::try_from(*shape.first()?).ok());
    let side = side.context("the bundle has no tiles")?;
    // North is where the scene's file says, and land cover has no preferred direction.
    let turned = Augment::new(|picture, rng| {
        if rng.unit() < 0.5 {
            picture.flip_horizontal();
        }
        picture.rotate_90(rng.below(4) as u32);
    });
    let options = LoaderOptions {
        batch_size: BATCH_SIZE,
        transform: Transform::Resize { width: side, height: side },
        augment: (split == Split::Train).then_some(turned),
        fields: vec!["mask".to_owned()],
        ..LoaderOptions::new(split)
    };
    let plan = LoaderPlan::new(Arc::clone(bundle), options)?;
    let stored = FeedOptions { numbers: Numbers::Stored, ..FeedOptions::default() };
    Ok(Feed::new(plan, &Place::cpu(), stored)?)
}

/// Cross entropy over the pixels whose class is known.
fn loss(scores: &Tensor, mask: &Tensor) -> Tensor {
    let (classes, none) = (mask.to_kind(Kind::Int64), None::<Tensor>);
    scores.cross_entropy_loss(&classes, none, Reduction::Mean, UNKNOWN.into(), 0.0)
}

/// Returns how many pixels of each class (rows) the network assigned to each class (columns).
fn confusion(mask: &Tensor, found: &Tensor) -> Tensor {
    let n = CLASSES.len() as i64;
    let known = mask.not_equal(i64::from(UNKNOWN));
    let (truth, found) = (mask.masked_select(&known), found.masked_select(&known));
    let pairs = truth.to_kind(Kind::Int64) * n + found;
    pairs.bincount(None::<Tensor>, n * n).view([n, n])
}

fn intersections_over_unions(confusion: &Tensor) -> Vec<f64> {
    let right = confusion.diag(0);
    let along = |axis: i64| confusion.sum_dim_intlist([axis].as_slice(), false, None);
    let ious = &right / (along(0) + along(1) - &right).clamp_min(1_i64);
    (0..CLASSES.len() as i64).map(|class| ious.double_value(&[class])).collect()
}
