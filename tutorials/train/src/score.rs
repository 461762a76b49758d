//! What `eval` and `predict` share: they load weights and a bundle, and compute scores on a device.

use std::cmp::Ordering;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::torch::{self, DataParallel, Feed, FeedOptions, Place};
use gular_runtime::{
    Bundle, Depth, Env, LoaderOptions, LoaderPlan, Normalise, OnBadSample, OrientationPolicy,
    Predicate, Ranks, Select, Split, StopFlag, Transform, UnknownLabels, available_cores,
    jpeg_backend,
};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor, no_grad};

use crate::args::{Scaled, ScoreArgs};
use crate::network::{self, Network};
use crate::prepare;
use crate::progress::{Progress, say};
use crate::weights::{self, Said, Weights};

/// Weights in a network, and the bundle they are tried on.
pub(crate) struct Scorer<'a> {
    args: &'a ScoreArgs,
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) weights: Weights,
    said: Said,
    kind: network::Architecture,
    network: Network,
    _store: VarStore,
    channels: i64,
    pub(crate) n_classes: usize,
    pub(crate) place: Place,
    pub(crate) parallel: DataParallel,
    pub(crate) ranks: Ranks,
    env: Env,
}

/// The scores of a batch, in the CPU's memory.
pub(crate) struct Scores<'a> {
    /// The samples, as numbers of the split.
    pub(crate) sample_ids: &'a [u64],
    /// The scores, with a row for each sample and a column for each class.
    pub(crate) rows: &'a [f32],
    /// The labels, as in [`gular_runtime::torch::TensorBatch::labels`].
    pub(crate) labels: &'a [i64],
}

impl<'a> Scorer<'a> {
    /// Reads the weights, opens the bundle's `splits` (all when empty), and meets the other ranks.
    pub(crate) fn new(args: &'a ScoreArgs, splits: Vec<Split>) -> Result<Self> {
        let env = Env::process();
        let ranks = Ranks::discover(args.place.rank.zip(args.place.world_size), &env)?;
        let place = args.place.device.open(&ranks)?;
        torch::set_threads(args.place.torch_threads.get());
        let weights = Weights::read(&args.weights)?;
        let file = weights.parse(args)?;
        let kind = weights::network(args, &file)?;
        let (channels, n_classes) = weights::ends(args, kind, &file)?;
        let mut store = VarStore::new(place.device());
        let network = Network::new(kind, &store.root(), channels, n_classes, 0.0);
        let shown = args.weights.display();
        file.load(&mut store).with_context(|| {
            format!("the weights `{shown}` do not fit the network `{}`", kind.name())
        })?;
        let said = weights.said(&file);
        store.freeze();

        // Stopped by a signal, it has nothing to save: the signal ends it.
        let stop = StopFlag::default();
        let bundle = Arc::new(prepare::open(&args.data, splits, None, &env, &stop)?);
        if ranks.rank == 0 && !args.data.quiet {
            let (digest, decoder) = (bundle.digest(), jpeg_backend());
            say!("bundle {digest}, {decoder}\nnetwork `{}` on {place}", kind.name());
        }
        // For one or three channels the numbers are the same for all bundles.
        if ranks.rank == 0 && said.normalise.is_none() && !matches!(channels, 1 | 3) {
            say!(
                "warning: the weights do not say how pixels were normalised; pixels of {channels} \
                channels are normalised by the statistics of the bundle that is scored"
            );
        }
        let about = format!("scores\nbundle {}\nweights {}", bundle.digest(), weights.digest);
        let group = prepare::meet(&args.place, &ranks, &env, &stop, &about)?;
        // No gradients are exchanged between GPUs.
        let parallel = DataParallel::new(group, &store, &Place::cpu())?;
        let n_classes = usize::try_from(n_classes)?;
        drop(file);
        Ok(Self {
            args,
            bundle,
            weights,
            said,
            kind,
            network,
            _store: store,
            channels,
            n_classes,
            place,
            parallel,
            ranks,
            env,
        })
    }

    /// The names of the classes: as the weights say, else as the bundle does if it has as many,
    /// else none. An error where weights and bundle differ, unless they may.
    pub(crate) fn classes(&self, may_differ: bool) -> Result<Option<Vec<String>>> {
        let of_bundle = &self.bundle.manifest().classes;
        let of_weights = self.said.classes.as_ref();
        let n = self.n_classes;
        if !may_differ && !of_bundle.is_empty() {
            let (found, last) = (of_bundle.len(), self.kind.last());
            ensure!(
                found == n,
                "the weights have {n} classes (`{last}` has as many rows), but the bundle has {found}"
            );
            let mut both = of_weights.into_iter().flatten().zip(of_bundle).zip(0..);
            if let Some(((was, now), i)) = both.find(|((was, now), _)| was != now) {
                anyhow::bail!(
                    "the classes differ: class {i} is `{was}` in the weights and `{now}` in the bundle"
                );
            }
        }
        let fits = |names: &&Vec<String>| names.len() == n;
        Ok(of_weights.filter(fits).or(Some(of_bundle).filter(fits)).cloned())
    }

    /// Returns the normalisation of the training run, if the weights say so; else the one of a
    /// training run on this bundle.
    fn normalise(&self, depth: Depth) -> Normalise {
        // Images with other channels than the weights are for are refused, and that is said then.
        let channels = prepare::channels(&self.bundle);
        let fits = channels.is_none_or(|n| i64::try_from(n) == Ok(self.channels));
        let said = self.said.normalise.clone().filter(|_| fits);
        said.unwrap_or_else(|| {
            let (normalise, words) = prepare::normalise(&self.bundle, depth);
            if let Some(words) = words.filter(|_| self.ranks.rank == 0 && !self.args.data.quiet) {
                say!("pixels are {words}");
            }
            normalise
        })
    }

    /// Scores this rank's samples of `split`, or of a `part` of it, in batches. Every rank must
    /// call this, and it is checked that each sample was delivered once.
    ///
    /// The last bits of a sample's scores can depend on the other samples of its batch. So one
    /// process alone scores a part, in stored order, with the same batches as for the whole split.
    pub(crate) fn each(
        &self,
        split: Split,
        unknown_labels: UnknownLabels,
        part: Option<Range<u64>>,
        mut with: impl FnMut(&Scores<'_>) -> Result<()>,
    ) -> Result<()> {
        let args = self.args;
        let size = args.size.or(self.said.size).unwrap_or(self.kind.size());
        let depth = match (args.depth, self.said.depth) {
            (Some(bits), _) => bits.into(),
            (None, Some(8)) => Depth::U8,
            (None, Some(16)) => Depth::U16,
            (None, _) => Depth::Stored,
        };
        let transform = match args.resize_short {
            None => Transform::eval(size),
            Some(resize_short) => Transform::Eval { resize_short, width: size, height: size },
        };
        let kind = match part {
            Some(_) if self.ranks.world_size == 1 => OrderKind::Torch { shuffle: false },
            // With this order ranks share the samples without repeating one.
            _ => OrderKind::Elastic,
        };
        let n_samples = self.bundle.n_samples(split);
        let part = part.filter(|part| *part != (0..n_samples));
        let only = part.map(|part| Predicate::new(move |sample| part.contains(&sample.number)));
        let options = LoaderOptions {
            batch_size: args.data.batch_size.get(),
            order: OrderSpec { kind, seed: 0, drop_last: false },
            select: Select { only, ..Select::default() },
            threads: args.data.jobs.unwrap_or_else(|| available_cores(&self.env)),
            transform,
            on_error: if args.skip_broken { OnBadSample::Skip } else { OnBadSample::Fail },
            across_epochs: false,
            unknown_labels,
            depth,
            normalise: self.normalise(depth).into(),
            scaling: self.said.scaling.unwrap_or(Scaled::Reduced).into(),
            orientation: match args.data.ignore_exif || self.said.ignore_exif {
                true => OrientationPolicy::Ignore,
                false => OrientationPolicy::Apply,
            },
            ..LoaderOptions::for_ranks(split, &self.ranks)
        };
        let plan = LoaderPlan::new(Arc::clone(&self.bundle), options)?;
        let mut feed = Feed::new(plan, &self.place, FeedOptions::default())?;
        let (n_steps, n_channels) = (feed.loader().n_steps(), feed.n_channels());
        ensure!(
            n_channels as i64 == self.channels,
            "the weights are for images with {} channels, but the images of the bundle have {n_channels}",
            self.channels
        );
        let shown = self.ranks.rank == 0 && !args.data.quiet;
        let every = shown.then(|| args.data.log_every());
        let mut progress = Progress::new(&format!("split {split}"), n_steps, every);
        let mut batches = self.parallel.epoch(&mut feed, 0)?;
        while let Some(batch) = batches.next() {
            let batch = batch?;
            let (rows, labels) = if batch.is_empty() {
                (Vec::new(), Vec::new())
            } else {
                let scores = no_grad(|| self.network.forward(&batch.images, false));
                (numbers::<f32>(&scores, Kind::Float)?, numbers(&batch.labels, Kind::Int64)?)
            };
            with(&Scores { sample_ids: &batch.sample_ids, rows: &rows, labels: &labels })?;
            progress.step(batch.len() as u64 * self.ranks.world_size, None, &batches.stats());
        }
        progress.clear();
        let end = batches.state().clone();
        drop(batches);
        let delivered = self.parallel.check_delivered(&feed, &end)?;
        if shown {
            say!("split {split}: {delivered}");
        }
        Ok(())
    }

    /// Does `work`; where it fails, the other ranks are told, so that they end too.
    pub(crate) fn or_tell<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        work().inspect_err(|error| self.parallel.group().fail(&crate::words(error)))
    }

    /// Ends the group in order, on all ranks.
    pub(crate) fn finish(self) -> Result<()> {
        Ok(self.parallel.finish()?)
    }
}

/// Returns the numbers of a tensor, row by row.
fn numbers<T: tch::kind::Element>(tensor: &Tensor, kind: Kind) -> Result<Vec<T>>
where
    Vec<T>: TryFrom<Tensor, Error = tch::TchError>,
{
    let flat = tensor.to_device(Device::Cpu).to_kind(kind).contiguous().view([-1]);
    Ok(Vec::try_from(flat)?)
}

/// Makes probabilities of the scores of a sample.
pub(crate) fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = scores.iter().map(|score| f64::from(score - largest).exp()).sum();
    for score in scores {
        *score = (f64::from(*score - largest).exp() / sum) as f32;
    }
}

/// The `n` classes with the highest scores, the highest first; of equals the first class.
pub(crate) fn highest(scores: &[f32], n: usize) -> Vec<usize> {
    let mut classes: Vec<usize> = (0..scores.len()).collect();
    let order =
        |a: &usize, b: &usize| -> Ordering { scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)) };
    let n = n.min(classes.len());
    if n > 0 && n < classes.len() {
        classes.select_nth_unstable_by(n - 1, order);
    }
    classes.truncate(n);
    classes.sort_unstable_by(order);
    classes
}

/// Says how long it took, and at what rate.
pub(crate) fn rate(n: u64, since: Instant) -> String {
    let seconds = since.elapsed().as_secs_f64();
    format!("{n} samples in {seconds:.1} s, {:.0} per second", n as f64 / seconds.max(1e-9))
}

/// Checks that a file can be made at `path`, as far as its folder shows, before hours of work.
pub(crate) fn check_folder_of(path: &Path) -> Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let (file, folder_name) = (path.display(), folder.display());
    ensure!(
        folder.is_dir(),
        "cannot write `{file}`: the folder `{folder_name}` does not exist; make it first"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_come_first_and_of_equals_the_first_class() {
        let scores = [1.0, 3.0, -1.0, 3.0, 2.0];
        assert_eq!(highest(&scores, 3), [1, 3, 4]);
        assert_eq!(highest(&scores, 1), [1]);
        assert_eq!(highest(&scores, 9), [1, 3, 4, 0, 2]);
        assert_eq!(highest(&[], 3), [0_usize; 0]);
    }

    #[test]
    fn probabilities_add_up_to_one_also_of_scores_that_overflow() {
        let mut scores = [1000.0, 1000.0, 0.0];
        softmax(&mut scores);
        assert_eq!(scores, [0.5, 0.5, 0.0]);
        let mut scores = [0.0, 1.0];
        softmax(&mut scores);
        assert!((scores[1] - 0.731_058_6).abs() < 1e-6, "{scores:?}");
    }
}
