//! A small image classifier, trained from a bundle.
//!
//! To be read from top to bottom and copied: [`run`] sets up, [`Training::epoch`]
//! is the loop. README.md beside it says what to look at.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program; results go to stdout")]

mod args;
mod net;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use gular_runtime::checkpoint::Checkpoints;
use gular_runtime::metrics::Metrics;
use gular_runtime::order::OrderSpec;
use gular_runtime::schedule::Cosine;
use gular_runtime::torch::{self, AdamW, Optimiser as _, TrainState};
use gular_runtime::{
    Bundle, Digest, EXIT_CHECKPOINTED, Env, Loader, LoaderOptions, OnError, OpenOptions, Ranks,
    Split, Stage, Stats, StopFlag, Transform, available_cores, jpeg_backend, open_bundle,
    write_file,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tch::nn::VarStore;
use tch::{Device, Kind};

use crate::args::{Args, On, Resume};
use crate::net::Net;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Stopped) => ExitCode::from(EXIT_CHECKPOINTED),
        Err(error) => {
            let own = error.downcast_ref::<gular_runtime::Error>();
            // The library's own messages say their causes already.
            match own {
                Some(own) => eprintln!("error: {own}"),
                None => eprintln!("error: {error:#}"),
            }
            let hint = own.and_then(gular_runtime::Error::hint);
            if let Some(hint) = hint {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(2)
        }
    }
}

/// How a run, or an epoch, ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    /// Saved, and to be run again.
    Stopped,
}

/// Everything that changes while training.
struct Training<'a> {
    args: &'a Args,
    device: Device,
    store: VarStore,
    net: Net,
    optimiser: AdamW,
    schedule: Cosine,
    state: TrainState,
    checkpoints: Checkpoints,
    metrics: Option<Metrics>,
    stop: StopFlag,
    /// The step to stop after, if any.
    last_step: Option<u64>,
}

fn run(args: &Args) -> Result<End> {
    let begin = Instant::now();
    let stop = StopFlag::install()?;
    let env = Env::process();
    let ranks = Ranks::discover(None, &env)?;
    ensure!(ranks.world_size == 1, "{ranks}: this trainer is one process; run one for each job");
    torch::set_threads(args.torch_threads);
    let device = match args.device {
        On::Cpu => Device::Cpu,
    };

    // The data: a folder is opened, a URL is fetched into the node's cache first.
    let bundle = Arc::new(open(args, &env, &stop)?);
    let n_classes = bundle.manifest().classes.len();
    ensure!(n_classes > 0, "the bundle has no classes; pack it with labels");
    eprintln!("bundle {}, {}", bundle.digest(), jpeg_backend());
    let order = OrderSpec { kind: args.order_kind(), seed: args.seed, drop_last: false };
    let options = |split| LoaderOptions {
        batch_size: args.batch_size,
        order,
        threads: args.threads.unwrap_or_else(|| available_cores(&env)),
        transform: match split {
            Split::Train => Transform::train(args.size),
            _ => Transform::eval(args.size),
        },
        on_error: if args.skip_broken { OnError::Skip } else { OnError::Fail },
        ..LoaderOptions::new(split)
    };
    let mut train = Loader::new(Arc::clone(&bundle), options(Split::Train))?;
    let mut val = Loader::new(Arc::clone(&bundle), options(Split::Val))?;
    let steps_per_epoch = train.n_steps();
    ensure!(steps_per_epoch > 0, "the bundle has no training samples");

    // The model. `u64::MAX` is no step, so the weights share no random numbers with one.
    torch::set_step_rng(args.seed, u64::MAX);
    let mut store = VarStore::new(device);
    let net = Net::new(&store.root(), i64::try_from(n_classes)?);
    let mut optimiser = AdamW::new(&store);

    // Where an earlier run was stopped, if there was one.
    let checkpoints = Checkpoints::open(&args.checkpoint_dir, bundle.digest(), args.keep)?;
    let mut state = TrainState {
        step: 0,
        seed: args.seed,
        loader: train.state(),
        decoder: jpeg_backend().to_owned(),
        figures: BTreeMap::new(),
    };
    let mut resumed_at = None;
    if let Some((found, loaded)) = torch::load_newest(&checkpoints, &mut store, &mut optimiser)? {
        let path = loaded.path.display();
        ensure!(
            args.resume == Resume::Auto,
            "there is a checkpoint, `{path}`, and `--resume never`"
        );
        loaded.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        if found.decoder != state.decoder {
            eprintln!(
                "warning: it was trained with {}, this build has {}: pixels differ a little",
                found.decoder, state.decoder
            );
        }
        for (name, was, now) in args.changes(&found.figures) {
            eprintln!(
                "warning: it was begun with `--{name} {was}`, now it is {now}: other weights"
            );
        }
        train.restore(&found.loader)?;
        eprintln!("resuming at step {} from `{path}`", found.step);
        resumed_at = Some(found.step);
        state = found;
    }
    args.remember(&mut state.figures);
    let metrics = args.metrics.as_deref().map(|dir| Metrics::open(dir, resumed_at)).transpose()?;
    let last_step = args.stop_after_steps.map(|n| state.step.saturating_add(n));
    let schedule = Cosine::new(args.lr, args.epochs.saturating_mul(steps_per_epoch));
    let mut training = Training {
        args,
        device,
        store,
        net,
        optimiser,
        schedule,
        state,
        checkpoints,
        metrics,
        stop,
        last_step,
    };

    for epoch in training.state.loader.epoch..args.epochs {
        if training.epoch(&mut train, epoch)? == End::Stopped {
            return Ok(End::Stopped);
        }
        if training.evaluate(&mut val, epoch)? == End::Stopped {
            return Ok(End::Stopped);
        }
        // The next run is to begin with the next epoch.
        (training.state.loader.epoch, training.state.loader.consumed) = (epoch + 1, 0);
        training.save()?;
    }

    let weights = torch::weights(&training.store)?;
    let path = args.checkpoint_dir.join("weights.safetensors");
    write_file(&path, &weights).map_err(gular_runtime::Error::from)?;
    let stats = train.stats();
    eprintln!("{stats}\nweights {} in `{}`", Digest::of(&weights), path.display());
    if args.json {
        let seconds = begin.elapsed().as_secs_f64();
        let figures = &training.state.figures;
        let summary = json!({
            "bundle": bundle.digest().to_string(),
            "samples": bundle.n_samples(Split::Train),
            "images": figures.get("images").map(|n| *n as u64),
            "steps": training.state.step,
            "steps_per_epoch": steps_per_epoch,
            "resumed_at_step": resumed_at,
            "seconds": seconds,
            "images_per_second": stats.images as f64 / seconds,
            "loss_first": figures.get("loss_first"),
            "loss_last": figures.get("loss_last"),
            "val_loss": figures.get("val_loss"),
            "val_accuracy": figures.get("val_accuracy"),
            "weights": Digest::of(&weights).to_string(),
            "weights_file": path,
            "decoder": jpeg_backend(),
            "loader": loader_json(&stats),
        });
        println!("{summary}");
    }
    Ok(End::Done)
}

/// Opens the bundle, fetched or local: reads its manifest, no more. Shards open
/// when they are touched.
fn open(args: &Args, env: &Env, stop: &StopFlag) -> Result<Bundle> {
    let template = "fetch {bar:30} {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}";
    let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template(template)?);
    let progress = |done: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let options = OpenOptions { digest: args.digest, ..OpenOptions::default() };
    let splits = [Split::Train, Split::Val];
    let cache = args.cache.as_deref();
    let opened = open_bundle(&args.bundle, &splits, options, cache, env, &progress, stop.flag())?;
    bar.finish_and_clear();
    if let Some(fetched) = opened.fetched {
        let (came, kept) = (fetched.bytes_fetched, fetched.bytes_kept);
        let (dir, seconds) = (fetched.dir, fetched.seconds);
        eprintln!("fetched {came} bytes in {seconds:.2} s, {kept} were in the cache `{dir}`");
    }
    Ok(opened.bundle)
}

impl Training<'_> {
    /// Trains on what is left of `epoch`.
    fn epoch(&mut self, train: &mut Loader, epoch: u64) -> Result<End> {
        let bar = progress_bar(train, epoch, self.args.epochs)?;
        let before = train.stats();
        let mut batches = train.epoch(epoch);
        while let Some(batch) = batches.next().transpose()? {
            let n = batch.len();
            if n == 0 {
                // All of its images were left out: nothing to learn, and the order goes on.
                self.state.step += 1;
                self.state.loader = batches.state();
                continue;
            }
            let (images, labels) = batch.to_tensors(self.device)?;
            drop(batch); // Its slot can be filled again while we compute.

            torch::set_step_rng(self.state.seed, self.state.step);
            let loss = self.net.forward(&images, true).cross_entropy_for_logits(&labels);
            self.optimiser.zero_grad();
            loss.backward();
            let rate = self.schedule.at(self.state.step);
            self.optimiser.step(rate)?;

            self.state.step += 1;
            self.state.loader = batches.state();
            let loss = loss.double_value(&[]);
            self.count(loss, n as f64);
            self.log(epoch, &[("loss", loss), ("lr", rate)])?;
            bar.set_message(format!("loss {loss:.3}"));
            bar.inc(n as u64);

            let stop = self.stop.requested() || self.last_step == Some(self.state.step);
            if stop || self.state.step.is_multiple_of(self.args.checkpoint_every) {
                let path = self.save()?;
                if stop {
                    bar.finish_and_clear();
                    eprintln!("stopped after step {}; saved `{path}`", self.state.step);
                    return Ok(End::Stopped);
                }
            }
        }
        let stats = batches.stats().since(&before);
        bar.finish_and_clear();
        self.finish_epoch(epoch, &stats)?;
        Ok(End::Done)
    }

    /// Loss and accuracy on the validation split, if it has samples. Stopped, it
    /// saves the end of the epoch; the next run begins with this again.
    fn evaluate(&mut self, val: &mut Loader, epoch: u64) -> Result<End> {
        let (mut sum, mut right, mut n) = (0.0, 0.0, 0.0);
        // Always the same epoch, so the same order and the same sums.
        for batch in val.epoch(0) {
            if self.stop.requested() {
                let path = self.save()?;
                eprintln!(
                    "stopped while validating after step {}; saved `{path}`",
                    self.state.step
                );
                return Ok(End::Stopped);
            }
            let (images, labels) = batch?.to_tensors(self.device)?;
            tch::no_grad(|| {
                let scores = self.net.forward(&images, false);
                let len = labels.numel() as f64;
                sum += scores.cross_entropy_for_logits(&labels).double_value(&[]) * len;
                let hits = scores.argmax(1, false).eq_tensor(&labels);
                right += hits.sum(Kind::Float).double_value(&[]);
                n += len;
            });
        }
        if n == 0.0 {
            return Ok(End::Done);
        }
        let (loss, accuracy) = (sum / n, right / n);
        eprintln!("epoch {}: val loss {loss:.3}, accuracy {:.1} %", epoch + 1, 100.0 * accuracy);
        self.state.figures.insert("val_loss".into(), loss);
        self.state.figures.insert("val_accuracy".into(), accuracy);
        self.log(epoch, &[("val_loss", loss), ("val_accuracy", accuracy)])?;
        Ok(End::Done)
    }

    /// Keeps the figures that a resume must not forget.
    fn count(&mut self, loss: f64, n: f64) {
        let figures = &mut self.state.figures;
        figures.entry("loss_first".into()).or_insert(loss);
        for (name, value) in [("images", n), ("epoch_images", n), ("epoch_loss", loss * n)] {
            *figures.entry(name.into()).or_default() += value;
        }
    }

    fn finish_epoch(&mut self, epoch: u64, stats: &Stats) -> Result<()> {
        if !self.state.figures.contains_key("epoch_images") {
            // Resumed at the very end of the epoch: all this has been said.
            return Ok(());
        }
        let mut take = |name: &str| self.state.figures.remove(name).unwrap_or_default();
        let loss = take("epoch_loss") / take("epoch_images").max(1.0);
        self.state.figures.insert("loss_last".into(), loss);
        let waited = stats.of(Stage::WaitForBatch).as_secs_f64() / stats.elapsed.as_secs_f64();
        let rate = stats.images_per_second();
        eprintln!("epoch {}: loss {loss:.3}, {rate:.0} images/s", epoch + 1);
        self.log(
            epoch,
            &[("epoch_loss", loss), ("images_per_second", rate), ("waited_for_data", waited)],
        )
    }

    fn log(&mut self, epoch: u64, values: &[(&str, f64)]) -> Result<()> {
        let Some(metrics) = &mut self.metrics else { return Ok(()) };
        Ok(metrics.log(self.state.step, epoch, values)?)
    }

    fn save(&self) -> Result<String> {
        let path = torch::save(&self.checkpoints, &self.state, &self.store, &self.optimiser)?;
        Ok(path.display().to_string())
    }
}

/// On stderr, and only when that is a terminal.
fn progress_bar(train: &Loader, epoch: u64, epochs: u64) -> Result<ProgressBar> {
    let template = "{prefix} {bar:30} {pos}/{len} images, {per_sec}, {eta} left, {msg}";
    let style = ProgressStyle::with_template(template).context("the bar's template")?;
    let bar = ProgressBar::new(train.n_positions()).with_style(style);
    let state = train.state();
    if state.epoch == epoch {
        bar.set_position(state.consumed);
        bar.reset_eta();
    }
    Ok(bar.with_prefix(format!("epoch {}/{epochs}", epoch + 1)))
}

fn loader_json(stats: &Stats) -> Value {
    let seconds = |stage| stats.of(stage).as_secs_f64();
    json!({
        "images": stats.images,
        "bytes": stats.bytes,
        "skipped": stats.skipped,
        "threads": stats.threads,
        "images_per_second": stats.images_per_second(),
        "read_seconds": seconds(Stage::Read),
        "check_seconds": seconds(Stage::Check),
        "decode_seconds": seconds(Stage::Decode),
        "wait_for_slot_seconds": seconds(Stage::WaitForSlot),
        "wait_for_batch_seconds": seconds(Stage::WaitForBatch),
        "bottleneck": stats.bottleneck(),
    })
}
