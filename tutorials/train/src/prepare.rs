//! Preparations before the first step: opens the bundle, and meets the other processes.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use gular_runtime::group::{Group, GroupOptions, Rendezvous};
use gular_runtime::torch::{self, Place};
use gular_runtime::{
    Bundle, BundleOptions, Depth, Digest, Env, Error, LoaderOptions, Normalise, OpenOptions, Ranks,
    Split, StopFlag, TellWaiting, Watch, open_bundle,
};
use indicatif::{ProgressBar, ProgressStyle};
use tch::nn::VarStore;

use crate::args::{DataArgs, PlaceArgs, TrainArgs};
use crate::decoder;
use crate::progress::{say, waiting_for};

/// Opens the bundle, fetched or local: reads only its manifest. Shards are opened
/// when they are needed. A training run can have the shards of a URL fetched then, and limit
/// the bytes that they take.
pub(crate) fn open(
    args: &DataArgs,
    splits: Vec<Split>,
    training: Option<&TrainArgs>,
    env: &Env,
    stop: &StopFlag,
) -> Result<Bundle> {
    let template = "fetch {bar:30} {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}";
    let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let bar = bar.with_style(ProgressStyle::with_template(template)?);
    let progress = |done: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let options = BundleOptions {
        splits,
        open: OpenOptions { digest: args.digest, ..OpenOptions::default() },
        cache: args.cache.clone(),
        cache_limit_bytes: training.and_then(|training| training.cache_limit),
        streamed: training.is_some_and(TrainArgs::is_streamed),
        tell: TellWaiting::new(waiting_for),
        ..BundleOptions::default()
    };
    let waiting = |dir: &Path| {
        bar.suspend(|| say!("waiting for another process that writes to `{}`", dir.display()));
    };
    let watch = Watch { progress: &progress, waiting: &waiting, cancel: stop.flag() };
    let opened = open_bundle(&args.bundle, &options, env, watch).map_err(Error::from)?;
    bar.finish_and_clear();
    if let Some(fetched) = opened.fetched.filter(|_| !args.quiet) {
        let (came, kept) = (fetched.bytes_fetched, fetched.bytes_kept);
        let (dir, seconds) = (fetched.dir.display(), fetched.seconds);
        say!("fetched {came} bytes in {seconds:.2} s, {kept} were in the cache `{dir}`");
    }
    if opened.bundle.source().is_some() && !args.quiet {
        say!("training begins when the shards of its first window have been fetched");
    }
    Ok(opened.bundle)
}

/// The digests in the file that `--never` names.
pub(crate) fn never(args: &TrainArgs) -> Result<Option<Arc<HashSet<Digest>>>> {
    let Some(path) = &args.never else { return Ok(None) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let digests = lines.map(Digest::parse).collect::<Result<_, _>>();
    let digests = digests.with_context(|| format!("a line of `{}`", path.display()))?;
    Ok(Some(Arc::new(digests)))
}

/// Returns the settings that must be equal for all ranks of a training run, which compare them.
pub(crate) fn about(args: &TrainArgs, bundle: &Bundle, place: &Place, store: &VarStore) -> String {
    let kind = if place.device().is_cuda() { "GPUs" } else { "processors" };
    let TrainArgs { seed, epochs, size, lr, dropout, skip_broken, .. } = args;
    let TrainArgs { unknown_labels, depth, fold, draw, precision, augment, .. } = args;
    let (decoder, read_after) = (decoder::text(args.scaling), args.read_loss_after(place));
    let (batch_size, ignore_exif) = (args.data.batch_size, args.data.ignore_exif);
    let torch_threads = args.place.torch_threads;
    format!(
        "bundle {}\non {kind}\ndecoder {decoder}\nseed {seed}\nepochs {epochs}\n\
         batch size {batch_size}\nsize {size}\nlr {lr}\ndropout {dropout}\norder {:?}\n\
         torch threads {torch_threads}\nskip broken {skip_broken}\n\
         unknown labels {unknown_labels:?}\ndepth {depth:?}\nignore EXIF {ignore_exif}\n\
         fold {fold:?}\ndraw {draw:?}\nprecision {precision:?}\n\
         losses read after {read_after} steps\n{augment:?}\n{}",
        bundle.digest(),
        args.order_kind(),
        torch::describe(store),
    )
}

/// Meets the other processes, which are to be `about` the same; alone, there is nobody to meet.
pub(crate) fn meet(
    args: &PlaceArgs,
    ranks: &Ranks,
    env: &Env,
    stop: &StopFlag,
    about: &str,
) -> Result<Group> {
    if ranks.world_size == 1 {
        return Ok(Group::alone());
    }
    let explicit = args.master_addr.as_deref().zip(args.master_port);
    let meeting = Rendezvous::discover(explicit, env).map_err(Error::from)?;
    let options = GroupOptions {
        rendezvous_timeout: Duration::from_secs(args.rendezvous_timeout),
        interface: args.interface,
        stop: Some(stop.shared()),
        ..GroupOptions::default()
    };
    let n = ranks.world_size;
    if ranks.rank == 0 {
        let (port, seconds) = (meeting.port, args.rendezvous_timeout);
        say!("waiting at port {port} for all {n} processes, up to {seconds} s");
    }
    let group =
        Group::join(ranks.seat(), &meeting, about, &options, stop.flag()).map_err(Error::from)?;
    if ranks.rank == 0 {
        say!("{n} processes have met");
    }
    Ok(group)
}

/// Returns how pixels become numbers: for 8-bit pictures by ImageNet's mean and standard deviation,
/// as other networks do; for others by those of the bundle's own pixels, if it has them. If they are
/// not ImageNet's, it says so in words.
pub(crate) fn normalise(bundle: &Bundle, depth: Depth) -> (Normalise, Option<String>) {
    let options = LoaderOptions { depth, ..LoaderOptions::new(Split::Train) };
    options.normalisation(bundle).unwrap_or_else(|error| {
        let words = format!("only divided by the largest value of their type: {error}");
        (Normalise::scaled(), Some(words))
    })
}

/// The channels of images that are stored as pixels.
pub(crate) fn channels(bundle: &Bundle) -> Option<u64> {
    let image = bundle.manifest().fields.iter().find(|field| field.is_image())?;
    match image.as_fixed() {
        Some((_, [_, _, channels])) => Some(*channels),
        _ => None,
    }
}
