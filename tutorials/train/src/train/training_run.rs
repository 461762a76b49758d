//! The work before the first step, and after the last.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use gular_runtime::group;
use gular_runtime::schedule::Cosine;
use gular_runtime::torch::{self, AdamW, DataParallel, Machine, Place, TrainState};
use gular_runtime::{Deadline, EndTime, Env, Error, Ranks, Split, StopFlag, jpeg_backend};
use tch::Device;
use tch::nn::VarStore;

use super::feeds::Feeds;
use super::losses::Losses;
use super::training::Training;
use crate::args::TrainArgs;
use crate::network::Network;
use crate::prepare::{self, meet, never, open};
use crate::progress::{print_result, say, time};
use crate::{decoder, own, words};

/// The way in which a run, or an epoch, ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// The run was saved, and has to be run again.
    Stopped,
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
    let mut deadline = deadline(args, &env, first);
    // Each rank has its own clock: one of several would wait while the others give it up.
    if ranks.world_size == 1 && deadline.is_too_near() {
        wait_for_end(&mut deadline, stop, first);
        if stop.requested() {
            return Ok(End::Stopped);
        }
    }
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
        // Each rank prints this, so that a rank with another device than the others is noticed.
        Place::Cpu { why: Some(why), hint: Some(hint) } => {
            say!("warning: rank {} computes on the CPU: {why}\nhint: {hint}", ranks.rank);
        }
        place if told => say!("computing on {place}"),
        _ => {}
    }
    let (normalise, chosen) = prepare::normalise(&bundle, args.depth.into());
    if let Some(how) = chosen.filter(|_| told) {
        say!("pixels are {how}");
    }
    let feeds = Feeds {
        args,
        bundle: &bundle,
        place: &place,
        ranks: &ranks,
        env: &env,
        stop,
        normalise: &normalise,
        never: never(args)?,
    };
    let (mut train, mut val) = (feeds.of(Split::Train)?, feeds.of(Split::Val)?);
    if let Some(error) = train.unpinned() {
        say!("warning: batches are not page-locked, so copies to the GPU are slower: {error}");
    }
    if let Some(error) = train.unfused().filter(|_| told) {
        say!("pixels become numbers by libtorch's operations, not by one kernel: {error}");
    }
    for feed in [&train, &val] {
        let (n, split) = (feed.loader().n_left_out(), feed.loader().options().split);
        if told && n > 0 {
            say!("left out {n} samples of split `{split}`");
        }
    }
    let steps_per_epoch = train.loader().n_steps();
    ensure!(steps_per_epoch > 0, "the bundle has no training samples");

    // The model. `u64::MAX` is not a step, so the weights share no random numbers with one.
    torch::set_step_rng(args.seed, u64::MAX, 0);
    // Made on the CPU: a GPU's generator would give other weights for the same seed.
    let mut store = VarStore::new(Device::Cpu);
    let channels = i64::try_from(train.n_channels())?;
    let n_classes = i64::try_from(n_classes)?;
    let net = Network::new(args.network, &store.root(), channels, n_classes, args.dropout);
    store.set_device(place.device());
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
        decoder: decoder::text(args.scaling),
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
        place: &place,
        losses: Losses::new(args.read_loss_after(&place)),
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
                print_result(&summary.to_string()).context("cannot write the summary")?;
            }
            Ok(end)
        }
        Err(error) if is_left_by_a_stop(&error) => {
            // The last step is whole, on every rank; a GPU may have begun another, and of losses
            // that were not read yet the other ranks' parts are missing.
            let is_whole = !place.device().is_cuda() && training.losses.is_empty();
            let path = if is_whole { training.save_alone()? } else { None };
            say!("{error:#}");
            training.say_stopped("after", path);
            Ok(End::Stopped)
        }
        Err(error) => {
            // The other ranks are told the error, so that they end, too.
            training.parallel.group().fail(&words(&error));
            Err(error)
        }
    }
}

/// Returns when to stop, by the command line or by the batch system's limit; the latter is printed.
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
            "the job ends in {in_time} ({end}); stopping {before} before that, plus the time of two checkpoints"
        );
        if left <= margin && !end.restarts {
            say!("warning: that leaves time for one step only");
        }
    }
    deadline
}

/// Waits for the end of the job: the checkpoint is safe, and a run that stops now would be started
/// again at once.
fn wait_for_end(deadline: &mut Deadline, stop: &StopFlag, first: bool) {
    if first {
        say!("too little time to train and save: waiting for the end of the job");
    }
    deadline.wait_for_end(stop);
    if first {
        match stop.requested() {
            true => say!("stopped before the first step"),
            false => say!("warning: the job was not ended at that time; training without an end"),
        }
    }
}

/// Ends the process a minute after the ranks have failed, if it is still there: a call into a
/// GPU that waits for a lost one may never come back.
#[expect(clippy::exit, reason = "the thread that should end it cleanly hangs")]
fn end_by_force(reason: &str) {
    let reason = reason.to_owned();
    let _ = std::thread::Builder::new().name("last resort".into()).spawn(move || {
        std::thread::sleep(Duration::from_secs(60));
        say!("error: {reason}; the GPU did not answer in time, so the process ends");
        std::process::exit(2)
    });
}

/// Whether the run ended because a rank was asked to stop while it waited for another.
fn is_left_by_a_stop(error: &anyhow::Error) -> bool {
    matches!(own(error), Some(Error::Group(group::Error::Stopped { .. })))
}
