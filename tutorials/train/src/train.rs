//! `train`: a whole training, to be stopped and resumed at any time.
//!
//! To be read from top to bottom: [`run`] sets up, [`Training::epoch`] is the loop.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use gular_runtime::checkpoint::Checkpoints;
use gular_runtime::group;
use gular_runtime::metrics::Metrics;
use gular_runtime::order::{LoaderState, OrderKind, OrderSpec, Tally};
use gular_runtime::schedule::Cosine;
use gular_runtime::torch::{
    self, AdamW, DataParallel, Feed, FeedOptions, Machine, Optimiser as _, Place, Saver, TrainState,
};
use gular_runtime::{
    Deadline, Delivered, Draw, EndTime, Env, Error, Fold, Loader, LoaderError, LoaderOptions,
    Normalise, OnBadSample, OrientationPolicy, Phase, Ranks, Select, Split, Stats, StopFlag,
    Transform, available_cores, jpeg_backend,
};
use serde_json::{Value, json};
use tch::nn::VarStore;
use tch::{Kind, no_grad};

use crate::args::{Drawn, Resume, TrainArgs};
use crate::network::Network;
use crate::prepare::{self, meet, never, open};
use crate::report::{Progress, loader_json, say, time};
use crate::{own, weights, words};

/// How a run, or an epoch, ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// Saved, and to be run again.
    Stopped,
}

/// Everything that changes while training.
struct Training<'a> {
    args: &'a TrainArgs,
    /// The names of the classes.
    classes: &'a [String],
    /// How pixels become numbers.
    normalise: &'a Normalise,
    ranks: Ranks,
    net: Network,
    store: VarStore,
    optimiser: AdamW,
    schedule: Cosine,
    parallel: DataParallel,
    state: TrainState,
    /// Rank 0 alone writes.
    files: Option<Files>,
    stop: StopFlag,
    deadline: Deadline,
    /// When the last checkpoint was begun.
    saved_at: Instant,
    /// The step to stop after, if any.
    last_step: Option<u64>,
    /// The step of the checkpoint it went on from.
    resumed_at: Option<u64>,
    /// Whether the checkpoint to come is the best so far.
    is_best: bool,
}

/// What a training leaves behind.
struct Files {
    saver: Saver,
    metrics: Option<Metrics>,
}

pub(crate) fn run(args: &TrainArgs) -> Result<End> {
    let stop = StopFlag::install()?;
    let mut begun = false;
    match train(args, &stop, &mut begun) {
        // While it was fetched, or the others were waited for: nothing is lost.
        Err(error) if !begun && stop.requested() && own(&error).is_some_and(Error::is_stop) => {
            say!("stopped before the first step");
            Ok(End::Stopped)
        }
        ended => ended,
    }
}

fn train(args: &TrainArgs, stop: &StopFlag, begun: &mut bool) -> Result<End> {
    let begin = Instant::now();
    let env = Env::process();
    let ranks = Ranks::discover(args.place.rank.zip(args.place.world_size), &env)?;
    let first = ranks.rank == 0;
    let deadline = deadline(args, &env, first);
    // Before anything else asks libtorch for a GPU.
    let place = args.place.device.open(&ranks)?;
    torch::set_threads(args.place.torch_threads.get());

    // The data: a folder is opened, a URL is fetched into the node's cache first.
    let splits = vec![Split::Train, Split::Val];
    let bundle = Arc::new(open(&args.data, splits, Some(args), &env, stop)?);
    let n_classes = bundle.manifest().classes.len();
    ensure!(n_classes > 0, "the bundle has no classes; pack it with labels");
    let told = first && !args.data.quiet;
    if told {
        say!("bundle {}, {}", bundle.digest(), jpeg_backend());
    }
    match &place {
        // Of every rank: one that computes elsewhere than the others is not to go unseen.
        Place::Cpu { why: Some(why), hint: Some(hint) } => {
            say!("warning: rank {} computes on the CPU: {why}\nhint: {hint}", ranks.rank);
        }
        place if told => say!("computing on {place}"),
        _ => {}
    }
    let never = never(args)?;
    let normalise = prepare::normalise(&bundle);
    let loader = |split| {
        let kind = match split {
            Split::Train => args.order_kind(),
            // Which ranks share without a sample twice.
            _ => OrderKind::Elastic,
        };
        let fold = args.fold.map(|(number, of)| {
            let held_out = split != Split::Train;
            // Always the same division, so that trainings of other seeds may be compared.
            Fold { of, number, held_out, seed: 0 }
        });
        // A fold to validate on is one of the training split.
        let of_split = if fold.is_some() { Split::Train } else { split };
        let options = LoaderOptions {
            select: Select {
                fold,
                never: never.clone().filter(|_| split == Split::Train),
                ..Select::default()
            },
            draw: match (args.draw, split) {
                (Drawn::ByClass, Split::Train) => Draw::ByClass,
                _ => Draw::EachOnce,
            },
            across_epochs: split == Split::Train,
            batch_size: args.data.batch_size.get(),
            order: OrderSpec { kind, seed: args.seed, drop_last: false },
            threads: args.data.jobs.unwrap_or_else(|| available_cores(&env)),
            transform: match split {
                Split::Train => Transform::train(args.size),
                _ => Transform::eval(args.size),
            },
            on_error: match (args.skip_broken, split) {
                (false, _) => OnBadSample::Fail,
                (true, Split::Train) => OnBadSample::Replace,
                (true, _) => OnBadSample::Skip,
            },
            n_epochs: Some(args.epochs),
            unknown_labels: args.unknown_labels.into(),
            depth: args.depth.into(),
            normalise: normalise.clone(),
            orientation: match args.data.ignore_exif {
                true => OrientationPolicy::Ignore,
                false => OrientationPolicy::Apply,
            },
            stop: Some(stop.clone()),
            ..LoaderOptions::for_ranks(of_split, &ranks)
        };
        Feed::new(Loader::new(Arc::clone(&bundle), options)?, &place, FeedOptions::default())
    };
    let (mut train, mut val) = (loader(Split::Train)?, loader(Split::Val)?);
    if let Some(error) = train.unpinned() {
        say!("warning: batches are not page-locked, so copies to the GPU are slower: {error}");
    }
    for feed in [&train, &val] {
        let (n, split) = (feed.loader().n_left_out(), feed.loader().options().split);
        if told && n > 0 {
            say!("left out {n} samples of split `{split}`");
        }
    }
    let steps_per_epoch = train.loader().n_steps();
    ensure!(steps_per_epoch > 0, "the bundle has no training samples");

    // The model. `u64::MAX` is no step, so the weights share no random numbers with one.
    torch::set_step_rng(args.seed, u64::MAX, 0);
    let store = VarStore::new(place.device());
    let channels = i64::try_from(train.n_channels())?;
    let n_classes = i64::try_from(n_classes)?;
    let net = Network::new(args.network, &store.root(), channels, n_classes, args.dropout);
    let optimiser = AdamW::new(&store);

    // The other processes, if there are any: they must be of the same training.
    let about = prepare::about(args, &bundle, &place, &store);
    let group = meet(&args.place, &ranks, &env, stop, &about)?;
    if place.device().is_cuda() {
        group.on_failure(|error| end_by_force(&error.to_string()));
    }
    let parallel = DataParallel::new(group, &store, &place)?;

    let state = TrainState {
        step: 0,
        seed: args.seed,
        loader: train.state().clone(),
        decoder: jpeg_backend().to_owned(),
        machine: Some(Machine::here(&env, &place.gpu_name())),
        figures: BTreeMap::new(),
    };
    let schedule = Cosine::new(args.lr, args.epochs.saturating_mul(steps_per_epoch));
    let mut training = Training {
        args,
        classes: &bundle.manifest().classes,
        normalise: &normalise,
        ranks,
        net,
        store,
        optimiser,
        schedule,
        parallel,
        state,
        files: None,
        stop: stop.clone(),
        deadline,
        saved_at: Instant::now(),
        last_step: None,
        resumed_at: None,
        is_best: false,
    };
    *begun = true;
    match training.go(&mut train, &mut val) {
        Ok((end, summary)) => {
            training.parallel.finish()?;
            if let Some(mut summary) = summary.filter(|_| args.data.json) {
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
        Err(error) if is_left_by_a_stop(&error) => {
            // The last step is whole, on every rank; a GPU may have begun another.
            let path = if place.device().is_cuda() { None } else { training.save_alone()? };
            say!("{error:#}");
            training.say_stopped("after", path);
            Ok(End::Stopped)
        }
        Err(error) => {
            // So that the others end too, and say why.
            training.parallel.group().fail(&words(&error));
            Err(error)
        }
    }
}

/// When to stop, by the command line or by what the batch system says; the latter is told.
fn deadline(args: &TrainArgs, env: &Env, first: bool) -> Deadline {
    let now = SystemTime::now();
    // Slurm's controller is asked once, not by every rank.
    let asks = env.get("SLURM_JOB_ID").is_some() && env.get("SLURM_JOB_END_TIME").is_none();
    let end = if first || !asks { EndTime::discover(env, now) } else { None };
    let deadline = Deadline::new(args.stop_after, end);
    if let Some(end) = end.filter(|_| first) {
        let (left, margin) = (end.left(now), deadline.margin());
        let (in_time, before) = (time(left), time(margin));
        say!(
            "the job ends in {in_time} ({end}); to stop {before} before, and the time of two checkpoints"
        );
        if left <= margin {
            say!("warning: that is too soon for more than a step");
        }
    }
    deadline
}

/// Ends the process a minute after the ranks have failed, if it is still there: a call into a
/// GPU that waits for a lost one may never come back.
#[expect(clippy::exit, reason = "the thread that would end it well hangs")]
fn end_by_force(reason: &str) {
    let reason = reason.to_owned();
    let _ = std::thread::Builder::new().name("last resort".into()).spawn(move || {
        std::thread::sleep(Duration::from_secs(60));
        say!("error: {reason}; the GPU did not come back, so the process ends");
        std::process::exit(2)
    });
}

/// Whether it ended because a rank was asked to stop while it waited for another.
fn is_left_by_a_stop(error: &anyhow::Error) -> bool {
    matches!(own(error), Some(Error::Group(group::Error::Stopped { .. })))
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
            self.state.loader.begin(epoch + 1);
            self.checkpoint()?;
        }
        if let Some(files) = &mut self.files {
            files.saver.finish()?;
        }
        let summary = self.files.is_some().then(|| self.finish(&train.stats())).transpose()?;
        Ok((End::Done, summary))
    }

    /// Opens the files, and goes to the newest checkpoint.
    fn load(&mut self) -> Result<()> {
        let TrainArgs { checkpoint_dir, keep, resume, metrics, .. } = self.args;
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
            if let (Some(was), Some(now)) = (&found.machine, &self.state.machine) {
                for (what, was, now) in now.changes(was) {
                    say!(
                        "warning: the {what} is `{now}`, it was `{was}`: sums differ in their last bits"
                    );
                }
            }
            for (name, was, now) in self.args.changes(&self.ranks, &found.figures) {
                say!("warning: it was begun with `--{name} {was}`, now it is {now}: other weights");
            }
            say!("resuming at step {} from `{path}`", found.step);
            // What computes from here on is what this process has.
            let (machine, decoder) = (self.state.machine.take(), self.state.decoder.clone());
            self.state = TrainState { machine, decoder, ..found };
        }
        let resumed_at = Some(self.state.step).filter(|step| *step > 0);
        let metrics = metrics.as_deref().map(|dir| Metrics::open(dir, resumed_at)).transpose()?;
        self.files = Some(Files { saver: Saver::new(checkpoints), metrics });
        Ok(())
    }

    /// Trains on what is left of `epoch`.
    fn epoch(&mut self, train: &mut Feed, epoch: u64) -> Result<End> {
        let before = train.stats();
        let (n_positions, n_steps) = (train.loader().n_positions(), train.loader().n_steps());
        let mut batches = self.parallel.epoch(train, epoch)?;
        let epochs = self.args.epochs;
        let every = self.tells().then(|| self.args.data.log_every());
        // Of as many ranks as there are now; the run before may have had others.
        let stride = self.args.data.batch_size.get() as u64 * self.ranks.world_size;
        let to_come = n_positions.saturating_sub(batches.state().consumed).div_ceil(stride);
        let done = n_steps.saturating_sub(to_come);
        let later = (epochs - epoch - 1).saturating_mul(n_steps);
        let mut progress = Progress::new(&format!("epoch {}/{epochs}", epoch + 1), n_steps, every)
            .from(done, later);
        loop {
            let batch = match batches.next() {
                None => break,
                Some(Ok(batch)) => Some(batch),
                // Asked to stop while it waited: this step is left to the next run.
                Some(Err(Error::Loader(LoaderError::Stopped))) => None,
                Some(Err(error)) => return Err(error.into()),
            };
            torch::set_step_rng(self.state.seed, self.state.step, self.ranks.rank);
            self.optimiser.zero_grad();
            let (mut loss, mut n) = (0.0, 0);
            if let Some(batch) = batch.as_ref().filter(|batch| batch.n_labelled > 0) {
                let scores = self.net.forward(&batch.images, true);
                let mean = scores.cross_entropy_for_logits(&batch.labels);
                mean.backward();
                (loss, n) = (mean.double_value(&[]), batch.n_labelled);
            }
            // In one message: the samples of all ranks, and what all of them are to do.
            let flag = |set: bool| f64::from(u8::from(set));
            let [left, stop] = [batch.is_none(), self.asked_to_stop()];
            let mut sums = vec![loss * n as f64, flag(left), flag(stop), flag(self.is_due())];
            let delivered = batch.as_ref().and_then(|batch| batch.state.tally.as_ref());
            sums.extend(Tally::to_sums(delivered));
            let agreed = self.parallel.agree(n, &mut sums)?;
            let &[loss, left, stop, due, ref delivered @ ..] = sums.as_slice() else {
                bail!("the ranks agreed on too few numbers");
            };
            let delivered = Tally::from_sums(delivered);
            let Some(batch) = batch.filter(|_| left == 0.0) else {
                progress.clear();
                return self.stopped("after");
            };
            // From here on all ranks have the gradients of the whole batch.
            let n = self.parallel.average(&agreed)?;
            let rate = self.schedule.at(self.state.step);
            if n > 0 {
                self.optimiser.step(rate)?;
            }
            self.state.step += 1;
            // A checkpoint is one of all ranks.
            self.state.loader = LoaderState { tally: delivered, ..batch.state };
            if n > 0 {
                let loss = loss / n as f64;
                self.count(loss, n as f64);
                self.log(epoch, &[("loss", loss), ("lr", rate)])?;
                progress.step(n, Some(loss), &batches.stats());
            }
            if stop > 0.0 {
                progress.clear();
                return self.stopped("after");
            }
            // After the last step comes the checkpoint of the whole epoch.
            if due > 0.0 && self.state.loader.consumed < n_positions {
                self.checkpoint()?;
            }
            self.poll()?;
        }
        let stats = batches.stats().since(&before);
        let end = batches.state().clone();
        drop(batches);
        progress.clear();
        self.finish_epoch(epoch, &stats)?;
        if let Some(delivered) = self.delivered(train, &end)? {
            say!("epoch {}: {delivered}", epoch + 1);
        }
        Ok(End::Done)
    }

    /// How all ranks together were given the samples up to `end`; only rank 0 is to say it.
    fn delivered(&self, feed: &Feed, end: &LoaderState) -> Result<Option<Delivered>> {
        match self.parallel.check_delivered(feed, end) {
            Ok(delivered) => Ok(Some(delivered).filter(|_| self.tells())),
            Err(error @ Error::Loader(LoaderError::Uncounted { .. })) => {
                if self.files.is_some() {
                    say!("warning: {error}, so nobody can say that each sample came once");
                }
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether this rank says how it goes.
    fn tells(&self) -> bool {
        self.files.is_some() && !self.args.data.quiet
    }

    /// Whether to stop after the step under way.
    fn asked_to_stop(&self) -> bool {
        self.is_stopping() || self.last_step == Some(self.state.step + 1)
    }

    /// Whether somebody, or the clock, wants it to stop.
    fn is_stopping(&self) -> bool {
        if !self.stop.requested()
            && let Some(source) = self.deadline.reached()
        {
            say!("time to stop: {source}");
            self.stop.request();
        }
        self.stop.requested()
    }

    /// Whether a checkpoint is due after the step under way; rank 0 says so.
    fn is_due(&self) -> bool {
        let Some(files) = &self.files else { return false };
        let by_steps = self.args.checkpoint_every;
        let interval = self.args.checkpoint_interval();
        by_steps.is_some_and(|every| (self.state.step + 1).is_multiple_of(every))
            || interval.is_some_and(|time| self.saved_at.elapsed() >= time)
                && !files.saver.is_busy()
    }

    /// Loss and accuracy on the validation split, if it has samples. Stopped, it
    /// saves the end of the epoch; the next run begins with this again.
    fn evaluate(&mut self, val: &mut Feed, epoch: u64) -> Result<End> {
        let (mut sum, mut right, mut n) = (0.0, 0.0, 0.0);
        // Each rank has a part of the samples, and all are to have the same network.
        self.parallel.share_buffers(&mut self.store)?;
        // Always the same epoch, so the same order and the same sums.
        let mut batches = self.parallel.epoch(val, 0)?;
        for batch in batches.by_ref() {
            if self.is_stopping() {
                break;
            }
            let batch = match batch {
                Ok(batch) => batch,
                Err(Error::Loader(LoaderError::Stopped)) => break,
                Err(error) => return Err(error.into()),
            };
            if batch.n_labelled == 0 {
                continue;
            }
            no_grad(|| {
                let scores = self.net.forward(&batch.images, false);
                let len = batch.n_labelled as f64;
                sum += scores.cross_entropy_for_logits(&batch.labels).double_value(&[]) * len;
                let hits = scores.argmax(1, false).eq_tensor(&batch.labels);
                right += hits.sum(Kind::Float).double_value(&[]);
                n += len;
            });
        }
        let end = batches.state().clone();
        drop(batches);
        let mut sums = [sum, right, n, f64::from(u8::from(self.stop.requested()))];
        self.parallel.sum(&mut sums)?;
        let [sum, right, n, stops] = sums;
        if stops > 0.0 {
            return self.stopped("while validating after");
        }
        if n == 0.0 {
            return Ok(End::Done);
        }
        let (loss, accuracy) = (sum / n, right / n);
        if let Some(delivered) = self.delivered(val, &end)? {
            let percent = 100.0 * accuracy;
            say!("epoch {}: val loss {loss:.3}, accuracy {percent:.1} %: {delivered}", epoch + 1);
        }
        self.state.figures.insert("val_loss".into(), loss);
        self.state.figures.insert("val_accuracy".into(), accuracy);
        let best = self.state.figures.get("best_val_accuracy");
        self.is_best = best.is_none_or(|best| accuracy > *best);
        if self.is_best {
            self.state.figures.insert("best_val_accuracy".into(), accuracy);
        }
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
        let mut sums = [stats.images_per_second(), stats.unlabelled as f64];
        self.parallel.sum(&mut sums)?;
        let [rate, unlabelled] = sums;
        let mut take = |name: &str| self.state.figures.remove(name).unwrap_or_default();
        let loss = take("epoch_loss") / take("epoch_images").max(1.0);
        self.state.figures.insert("loss_last".into(), loss);
        let waited = stats.of(Phase::WaitForBatch).as_secs_f64() / stats.elapsed.as_secs_f64();
        if self.tells() {
            say!("epoch {}: loss {loss:.3}, {rate:.0} images/s", epoch + 1);
            if unlabelled > 0.0 {
                say!("of them {unlabelled} samples of unknown class, which were ignored");
            }
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

    /// Begins a checkpoint, which rank 0 writes while the training goes on.
    fn checkpoint(&mut self) -> Result<()> {
        self.parallel.share_buffers(&mut self.store)?;
        self.saved_at = Instant::now();
        // Weights that a lost rank had a part in are not to be kept.
        self.parallel.check()?;
        let Some(files) = &mut self.files else { return Ok(()) };
        let (saver, state) = (&mut files.saver, &self.state);
        let before = match std::mem::take(&mut self.is_best) {
            true => saver.begin_best(state, &self.store, &self.optimiser)?,
            false => saver.begin(state, &self.store, &self.optimiser)?,
        };
        before.iter().for_each(|saved| self.deadline.saved(saved.took));
        Ok(())
    }

    /// Sees how the checkpoint that is being written does.
    fn poll(&mut self) -> Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        files.saver.poll()?.iter().for_each(|saved| self.deadline.saved(saved.took));
        Ok(())
    }

    /// Saves the last checkpoint of this run, and says so.
    fn stopped(&mut self, when: &str) -> Result<End> {
        self.parallel.share_buffers(&mut self.store)?;
        self.parallel.check()?;
        let path = self.save_alone()?;
        self.say_stopped(when, path);
        Ok(End::Stopped)
    }

    /// Saves without asking other ranks; gives the folder, on rank 0.
    fn save_alone(&mut self) -> Result<Option<String>> {
        let Some(files) = &mut self.files else { return Ok(None) };
        let (saver, state) = (&mut files.saver, &self.state);
        if !std::mem::take(&mut self.is_best) {
            let saved = saver.save(state, &self.store, &self.optimiser)?;
            return Ok(Some(saved.path.display().to_string()));
        }
        // The checkpoint that was to name the best one did not come to be. What the one before
        // failed with is passed over, as there.
        let _ = saver.finish();
        saver.begin_best(state, &self.store, &self.optimiser)?;
        Ok(saver.finish()?.map(|saved| saved.path.display().to_string()))
    }

    fn say_stopped(&self, when: &str, path: Option<String>) {
        if let Some(path) = path {
            say!("stopped {when} step {}; saved `{path}`", self.state.step);
        }
    }

    /// Writes the weights, and says what there is to say.
    fn finish(&self, stats: &Stats) -> Result<Value> {
        let path = self.args.checkpoint_dir.join("weights.safetensors");
        // So that whoever takes them knows what pictures they were trained on.
        let about = weights::about(self.args, self.normalise, self.classes);
        let digest = torch::write_weights_about(&self.store, &about, &path)?;
        if self.tells() {
            let of = if self.ranks.world_size > 1 { "of rank 0:\n" } else { "" };
            say!("{of}{stats}\nweights {digest} in `{}`", path.display());
        }
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
            "best_val_accuracy": figures.get("best_val_accuracy"),
            "weights": digest.to_string(),
            "weights_file": path,
            "decoder": jpeg_backend(),
            "loader": loader_json(stats),
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use gular_runtime::order::DrawnBy;
    use gular_runtime::{Digest, RankSource};

    use super::*;
    use crate::args::{Cli, Verb};

    /// What rank 0 saves when the others do not answer any more.
    #[test]
    fn a_best_checkpoint_that_is_saved_alone_is_named_too() {
        let dir = tempfile::tempdir().unwrap();
        let cli = Cli::try_parse_from(["t", "train", "b"]).unwrap();
        let Verb::Train(args) = cli.verb else { unreachable!("the verb is `train`") };
        let place = Place::cpu();
        let store = VarStore::new(place.device());
        let net = Network::new(args.network, &store.root(), 3, 2, 0.0);
        let checkpoints = Checkpoints::open(dir.path(), Digest::of(b"b"), args.keep).unwrap();
        let loader = LoaderState {
            bundle: Digest::of(b"b"),
            split: Split::Train,
            order: OrderSpec { kind: OrderKind::Elastic, seed: 0, drop_last: false },
            epoch: 1,
            consumed: 0,
            world_size: 1,
            left_out: 0,
            selection: None,
            drawn_by: DrawnBy::EachOnce,
            tally: None,
        };
        let mut training = Training {
            args: &args,
            classes: &[],
            normalise: &Normalise::default(),
            ranks: Ranks { rank: 0, world_size: 1, local_rank: 0, source: RankSource::Single },
            net,
            optimiser: AdamW::new(&store),
            schedule: Cosine::new(args.lr, 1),
            parallel: DataParallel::new(group::Group::alone(), &store, &place).unwrap(),
            store,
            state: TrainState {
                step: 3,
                seed: 0,
                loader,
                decoder: jpeg_backend().to_owned(),
                machine: None,
                figures: BTreeMap::new(),
            },
            files: Some(Files { saver: Saver::new(checkpoints), metrics: None }),
            stop: StopFlag::default(),
            deadline: Deadline::new(None, None),
            saved_at: Instant::now(),
            last_step: None,
            resumed_at: None,
            is_best: true,
        };
        let best = || std::fs::read_to_string(dir.path().join("best")).unwrap_or_default();
        let saved = training.save_alone().unwrap().unwrap();
        assert!(saved.ends_with("step-0000000003"), "{saved}");
        assert_eq!(best(), "step-0000000003\n");
        training.state.step = 4;
        training.save_alone().unwrap().unwrap();
        assert_eq!(best(), "step-0000000003\n");
    }
}
