//! A small image classifier, trained from a bundle.
//!
//! To be read from top to bottom and copied: [`run`] sets up, [`Training::epoch`]
//! is the loop. README.md beside it says what to look at.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program; results go to stdout")]

mod args;
mod hints;
mod net;
mod prepare;
mod report;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use gular_runtime::checkpoint::Checkpoints;
use gular_runtime::metrics::Metrics;
use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::schedule::Cosine;
use gular_runtime::torch::{
    self, AdamW, DataParallel, Feed, FeedOptions, Optimiser as _, Place, TrainState,
};
use gular_runtime::{
    Digest, EXIT_CHECKPOINTED, Env, Loader, LoaderOptions, OnError, Phase, Ranks, Split, Stats,
    StopFlag, Transform, available_cores, jpeg_backend, write_file,
};
use serde_json::{Value, json};
use tch::nn::VarStore;
use tch::{Kind, no_grad};

use crate::args::{Args, Resume};
use crate::net::Net;
use crate::prepare::{meet, open};
use crate::report::{loader_json, progress_bar, say};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if args::is_renamed(&error) => {
            say!("error: `--threads` is now called `--jobs`");
            return ExitCode::from(2);
        }
        Err(error) => error.exit(),
    };
    match run(&args) {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Stopped) => ExitCode::from(EXIT_CHECKPOINTED),
        Err(error) => {
            say!("error: {}", words(&error));
            if let Some(hint) = own(&error).and_then(hints::hint) {
                say!("hint: {hint}");
            }
            ExitCode::from(2)
        }
    }
}

/// The library's error, if it is one.
fn own(error: &anyhow::Error) -> Option<&gular_runtime::Error> {
    error.downcast_ref()
}

/// An error with its causes; the library's own messages say theirs already.
fn words(error: &anyhow::Error) -> String {
    match own(error) {
        Some(own) => own.to_string(),
        None => format!("{error:#}"),
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
    ranks: Ranks,
    net: Net,
    store: VarStore,
    optimiser: AdamW,
    schedule: Cosine,
    parallel: DataParallel,
    state: TrainState,
    /// Rank 0 alone writes.
    files: Option<Files>,
    stop: StopFlag,
    /// The step to stop after, if any.
    last_step: Option<u64>,
    /// The step of the checkpoint it went on from.
    resumed_at: Option<u64>,
}

/// What a training leaves behind.
struct Files {
    checkpoints: Checkpoints,
    metrics: Option<Metrics>,
}

fn run(args: &Args) -> Result<End> {
    let stop = StopFlag::install()?;
    let mut begun = false;
    match train(args, &stop, &mut begun) {
        // While it was fetched, or the others were waited for: nothing is lost.
        Err(error)
            if !begun
                && stop.requested()
                && own(&error).is_some_and(gular_runtime::Error::is_stop) =>
        {
            say!("stopped before the first step");
            Ok(End::Stopped)
        }
        ended => ended,
    }
}

fn train(args: &Args, stop: &StopFlag, begun: &mut bool) -> Result<End> {
    let begin = Instant::now();
    let env = Env::process();
    let ranks = Ranks::discover(args.rank.zip(args.world_size), &env)?;
    let first = ranks.rank == 0;
    // Before anything else asks libtorch for a GPU.
    let place = args.device.open(&ranks)?;
    torch::set_threads(args.torch_threads.get());

    // The data: a folder is opened, a URL is fetched into the node's cache first.
    let bundle = Arc::new(open(args, &env, stop)?);
    let n_classes = bundle.manifest().classes.len();
    ensure!(n_classes > 0, "the bundle has no classes; pack it with labels");
    if first {
        say!("bundle {}, {}", bundle.digest(), jpeg_backend());
    }
    match &place {
        // Of every rank: one that computes elsewhere than the others is not to go unseen.
        Place::Cpu { why: Some(why), hint: Some(hint) } => {
            say!("warning: rank {} computes on the CPU: {why}\nhint: {hint}", ranks.rank);
        }
        place if first => say!("computing on {place}"),
        _ => {}
    }
    let loader = |split| {
        let kind = match split {
            Split::Train => args.order_kind(),
            // Which ranks share without a sample twice.
            _ => OrderKind::Elastic,
        };
        let options = LoaderOptions {
            batch_size: args.batch_size.get(),
            order: OrderSpec { kind, seed: args.seed, drop_last: false },
            rank: ranks.rank,
            world_size: ranks.world_size,
            threads: args.jobs.unwrap_or_else(|| available_cores(&env)),
            transform: match split {
                Split::Train => Transform::train(args.size),
                _ => Transform::eval(args.size),
            },
            on_error: if args.skip_broken { OnError::Skip } else { OnError::Fail },
            ..LoaderOptions::new(split)
        };
        Feed::new(Loader::new(Arc::clone(&bundle), options)?, &place, FeedOptions::default())
    };
    let (mut train, mut val) = (loader(Split::Train)?, loader(Split::Val)?);
    let steps_per_epoch = train.loader().n_steps();
    ensure!(steps_per_epoch > 0, "the bundle has no training samples");

    // The model. `u64::MAX` is no step, so the weights share no random numbers with one.
    torch::set_step_rng(args.seed, u64::MAX, 0);
    let store = VarStore::new(place.device());
    let net = Net::new(&store.root(), i64::try_from(n_classes)?, args.dropout);
    let optimiser = AdamW::new(&store);

    // The other processes, if there are any: they must be of the same training.
    let group = meet(args, &ranks, &env, stop, &bundle, &place, &store)?;
    let parallel = DataParallel::new(group, &store, &place)?;

    let state = TrainState {
        step: 0,
        seed: args.seed,
        loader: train.state().clone(),
        decoder: jpeg_backend().to_owned(),
        figures: BTreeMap::new(),
    };
    let schedule = Cosine::new(args.lr, args.epochs.saturating_mul(steps_per_epoch));
    let mut training = Training {
        args,
        ranks,
        net,
        store,
        optimiser,
        schedule,
        parallel,
        state,
        files: None,
        stop: stop.clone(),
        last_step: None,
        resumed_at: None,
    };
    *begun = true;
    match training.go(&mut train, &mut val) {
        Ok((end, summary)) => {
            training.parallel.finish()?;
            if let Some(mut summary) = summary.filter(|_| args.json) {
                summary["bundle"] = bundle.digest().to_string().into();
                summary["samples"] = bundle.n_samples(Split::Train).into();
                summary["device"] = if place.device().is_cuda() { "cuda" } else { "cpu" }.into();
                summary["place"] = place.to_string().into();
                summary["steps_per_epoch"] = steps_per_epoch.into();
                summary["seconds"] = begin.elapsed().as_secs_f64().into();
                writeln!(std::io::stdout(), "{summary}").context("cannot write the summary")?;
            }
            Ok(end)
        }
        Err(error) => {
            // So that the others end too, and say why.
            training.parallel.group().fail(&words(&error));
            Err(error)
        }
    }
}

impl Training<'_> {
    /// Trains from where an earlier run was stopped, if there was one; at the end rank 0
    /// writes the weights and has a summary.
    fn go(&mut self, train: &mut Feed, val: &mut Feed) -> Result<(End, Option<Value>)> {
        if self.ranks.rank == 0 {
            self.load()?;
        }
        // The others learn from rank 0 where it stands.
        self.parallel.share(&mut self.store, &mut self.optimiser, &mut self.state)?;
        if self.state.step > 0 {
            self.resumed_at = Some(self.state.step);
            train.restore(&self.state.loader)?;
        }
        self.args.remember(&self.ranks, &mut self.state.figures);
        self.last_step = self.args.stop_after_steps.map(|n| self.state.step.saturating_add(n));
        for epoch in self.state.loader.epoch..self.args.epochs {
            if self.epoch(train, epoch)? == End::Stopped
                || self.evaluate(val, epoch)? == End::Stopped
            {
                return Ok((End::Stopped, None));
            }
            // The next run is to begin with the next epoch.
            (self.state.loader.epoch, self.state.loader.consumed) = (epoch + 1, 0);
            self.save()?;
        }
        let summary = self.files.is_some().then(|| self.finish(&train.stats())).transpose()?;
        Ok((End::Done, summary))
    }

    /// Opens the files, and goes to the newest checkpoint.
    fn load(&mut self) -> Result<()> {
        let Args { checkpoint_dir, keep, resume, metrics, .. } = self.args;
        let bundle = self.state.loader.bundle;
        let checkpoints = Checkpoints::open(checkpoint_dir, bundle, *keep)?;
        let (store, optimiser) = (&mut self.store, &mut self.optimiser);
        if let Some((found, loaded)) = torch::load_newest(&checkpoints, store, optimiser)? {
            let path = loaded.path.display();
            ensure!(
                *resume == Resume::Auto,
                "there is a checkpoint, `{path}`, and `--resume never`"
            );
            loaded.warnings.iter().for_each(|warning| say!("warning: {warning}"));
            if found.decoder != self.state.decoder {
                say!(
                    "warning: it was trained with {}, this build has {}: pixels differ a little",
                    found.decoder,
                    self.state.decoder
                );
            }
            for (name, was, now) in self.args.changes(&self.ranks, &found.figures) {
                say!("warning: it was begun with `--{name} {was}`, now it is {now}: other weights");
            }
            say!("resuming at step {} from `{path}`", found.step);
            self.state = found;
        }
        let resumed_at = Some(self.state.step).filter(|step| *step > 0);
        let metrics = metrics.as_deref().map(|dir| Metrics::open(dir, resumed_at)).transpose()?;
        self.files = Some(Files { checkpoints, metrics });
        Ok(())
    }

    /// Trains on what is left of `epoch`.
    fn epoch(&mut self, train: &mut Feed, epoch: u64) -> Result<End> {
        let bar = progress_bar(train, epoch, self.args.epochs, self.files.is_some())?;
        let before = train.stats();
        let mut batches = train.epoch(epoch);
        while let Some(batch) = batches.next().transpose()? {
            torch::set_step_rng(self.state.seed, self.state.step, self.ranks.rank);
            self.optimiser.zero_grad();
            let (mut loss, len) = (0.0, batch.len() as f64);
            if !batch.is_empty() {
                let scores = self.net.forward(&batch.images, true);
                let mean = scores.cross_entropy_for_logits(&batch.labels);
                mean.backward();
                loss = mean.double_value(&[]);
            }
            // From here on all ranks have the gradients of the whole batch.
            let n = self.parallel.average_gradients(batch.len())?;
            let rate = self.schedule.at(self.state.step);
            if n > 0 {
                self.optimiser.step(rate)?;
            }
            self.state.step += 1;
            self.state.loader = batch.state;

            // All ranks stop after the same step, whichever was asked to.
            let mut sums = [loss * len, f64::from(u8::from(self.asked_to_stop()))];
            self.parallel.sum(&mut sums)?;
            let [loss, stops] = sums;
            let stop = stops > 0.0;
            if n > 0 {
                let loss = loss / n as f64;
                self.count(loss, n as f64);
                self.log(epoch, &[("loss", loss), ("lr", rate)])?;
                bar.set_message(format!("loss {loss:.3}"));
                bar.inc(n);
            }
            if stop || self.state.step.is_multiple_of(self.args.checkpoint_every) {
                let path = self.save()?;
                if stop {
                    bar.finish_and_clear();
                    self.say_stopped("after", path);
                    return Ok(End::Stopped);
                }
            }
        }
        let stats = batches.stats().since(&before);
        bar.finish_and_clear();
        self.finish_epoch(epoch, &stats)?;
        Ok(End::Done)
    }

    fn asked_to_stop(&self) -> bool {
        self.stop.requested() || self.last_step == Some(self.state.step)
    }

    /// Loss and accuracy on the validation split, if it has samples. Stopped, it
    /// saves the end of the epoch; the next run begins with this again.
    fn evaluate(&mut self, val: &mut Feed, epoch: u64) -> Result<End> {
        let (mut sum, mut right, mut n) = (0.0, 0.0, 0.0);
        // Always the same epoch, so the same order and the same sums.
        for batch in val.epoch(0) {
            if self.stop.requested() {
                break;
            }
            let batch = batch?;
            if batch.is_empty() {
                continue;
            }
            no_grad(|| {
                let scores = self.net.forward(&batch.images, false);
                let len = batch.len() as f64;
                sum += scores.cross_entropy_for_logits(&batch.labels).double_value(&[]) * len;
                let hits = scores.argmax(1, false).eq_tensor(&batch.labels);
                right += hits.sum(Kind::Float).double_value(&[]);
                n += len;
            });
        }
        let mut sums = [sum, right, n, f64::from(u8::from(self.stop.requested()))];
        self.parallel.sum(&mut sums)?;
        let [sum, right, n, stops] = sums;
        if stops > 0.0 {
            let path = self.save()?;
            self.say_stopped("while validating after", path);
            return Ok(End::Stopped);
        }
        if n == 0.0 {
            return Ok(End::Done);
        }
        let (loss, accuracy) = (sum / n, right / n);
        if self.files.is_some() {
            let percent = 100.0 * accuracy;
            say!("epoch {}: val loss {loss:.3}, accuracy {percent:.1} %", epoch + 1);
        }
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
        let waited = stats.of(Phase::WaitForBatch).as_secs_f64() / stats.elapsed.as_secs_f64();
        let mut rate = [stats.images_per_second()];
        self.parallel.sum(&mut rate)?;
        let [rate] = rate;
        if self.files.is_some() {
            say!("epoch {}: loss {loss:.3}, {rate:.0} images/s", epoch + 1);
        }
        self.log(
            epoch,
            &[("epoch_loss", loss), ("images_per_second", rate), ("waited_for_data", waited)],
        )
    }

    fn log(&mut self, epoch: u64, values: &[(&str, f64)]) -> Result<()> {
        let Some(Files { metrics: Some(metrics), .. }) = &mut self.files else { return Ok(()) };
        Ok(metrics.log(self.state.step, epoch, values)?)
    }

    /// Where it was saved, on rank 0.
    fn save(&self) -> Result<Option<String>> {
        let Some(files) = &self.files else { return Ok(None) };
        // Weights that a lost rank had a part in are not to be kept.
        self.parallel.check()?;
        let path = torch::save(&files.checkpoints, &self.state, &self.store, &self.optimiser)?;
        Ok(Some(path.display().to_string()))
    }

    fn say_stopped(&self, when: &str, path: Option<String>) {
        if let Some(path) = path {
            say!("stopped {when} step {}; saved `{path}`", self.state.step);
        }
    }

    /// Writes the weights, and says what there is to say.
    fn finish(&self, stats: &Stats) -> Result<Value> {
        let weights = torch::weights(&self.store)?;
        let path = self.args.checkpoint_dir.join("weights.safetensors");
        write_file(&path, &weights).map_err(gular_runtime::Error::from)?;
        let digest = Digest::of(&weights);
        if self.ranks.world_size > 1 {
            say!("of rank 0:");
        }
        say!("{stats}\nweights {digest} in `{}`", path.display());
        let figures = &self.state.figures;
        Ok(json!({
            "world_size": self.ranks.world_size,
            "images": figures.get("images").map(|n| *n as u64),
            "steps": self.state.step,
            "resumed_at_step": self.resumed_at,
            "images_per_second": stats.images_per_second(),
            "loss_first": figures.get("loss_first"),
            "loss_last": figures.get("loss_last"),
            "val_loss": figures.get("val_loss"),
            "val_accuracy": figures.get("val_accuracy"),
            "weights": digest.to_string(),
            "weights_file": path,
            "decoder": jpeg_backend(),
            "loader": loader_json(stats),
        }))
    }
}
