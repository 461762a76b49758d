//! Trains on a bundle. It can be stopped at any time, and resumes where it stopped. See README.md.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program; it says how far it is")]

use std::{num::NonZeroUsize, process::ExitCode, sync::Arc};

use gular_runtime::checkpoint::Checkpoints;
use gular_runtime::torch::{AdamW, Feed, FeedOptions, Optimiser as _, Place, TrainState};
use gular_runtime::torch::{load_newest, save, set_step_rng, write_weights};
use gular_runtime::{Bundle, EXIT_CHECKPOINTED, LoaderOptions, LoaderPlan, MainError, OpenOptions};
use gular_runtime::{Split, StopFlag, Transform, jpeg_backend, mask_panic};
use tch::nn::{self, Module as _, Path};

fn main() -> Result<ExitCode, MainError> {
    std::panic::set_hook(Box::new(|info| eprintln!("{}", mask_panic(info))));
    let stop = StopFlag::install()?;
    let dir = std::env::args_os().nth(1).unwrap_or("bundle".into());
    let bundle = Arc::new(Bundle::open(dir.as_ref(), OpenOptions::default())?);
    let transform = Transform::train(64);
    let options = LoaderOptions { transform, ..LoaderOptions::new(Split::Train) };
    let plan = LoaderPlan::new(Arc::clone(&bundle), options)?;
    let mut feed = Feed::new(plan, &Place::cpu(), FeedOptions::default())?;

    set_step_rng(0, u64::MAX, 0);
    let mut store = nn::VarStore::new(tch::Device::Cpu);
    let net = network(&store.root(), bundle.manifest().classes.len() as i64);
    let mut optimiser = AdamW::new(&store);

    let kept = Checkpoints::open("checkpoints".as_ref(), bundle.digest(), NonZeroUsize::MIN)?;
    let (loader, decoder, figures) = (feed.state().clone(), jpeg_backend().into(), [].into());
    let mut state = TrainState { step: 0, seed: 0, loader, decoder, machine: None, figures };
    if let Some((found, _)) = load_newest(&kept, &mut store, &mut optimiser)? {
        state = found;
        feed.restore(&state.loader)?;
    }
    for epoch in state.loader.epoch..5 {
        for batch in feed.epoch(epoch) {
            let batch = batch?;
            optimiser.zero_grad();
            let loss = net.forward(&batch.images).cross_entropy_for_logits(&batch.labels);
            loss.backward();
            optimiser.step(3e-3)?;
            (state.step, state.loader) = (state.step + 1, batch.state);
            state.figures.insert("loss".into(), loss.double_value(&[]));
            if stop.requested() {
                save(&kept, &state, &store, &optimiser)?;
                return Ok(ExitCode::from(EXIT_CHECKPOINTED));
            }
        }
        let delivered = feed.loader().check_delivered(feed.state())?;
        println!("epoch {}: loss {:.3}, {delivered}", epoch + 1, state.figures["loss"]);
        state.loader.begin(epoch + 1);
        save(&kept, &state, &store, &optimiser)?;
    }
    println!("weights {}", write_weights(&store, "weights.safetensors".as_ref())?);
    Ok(ExitCode::SUCCESS)
}

fn network(root: &Path<'_>, n_classes: i64) -> nn::Sequential {
    nn::seq()
        .add(nn::conv2d(root / "conv1", 3, 32, 5, Default::default()))
        .add_fn(|x| x.relu().max_pool2d_default(4))
        .add(nn::conv2d(root / "conv2", 32, 64, 5, Default::default()))
        .add_fn(|x| x.relu().mean_dim([2_i64, 3].as_slice(), false, x.kind()))
        .add(nn::linear(root / "last", 64, n_classes, Default::default()))
}
