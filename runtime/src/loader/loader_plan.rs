//! What a loader will deliver, before it has memory and threads.

use std::sync::Arc;
use std::thread;

use gular_bundle::Bundle;
use gular_order::{Draws, EpochOrder};

use super::chosen::{Asked, Chosen, choose};
use super::epoch_steps::Span;
use super::{Draw, LoaderOptions};
use crate::Error;

/// The samples of a split that epochs have, and how their steps are divided: all that is known
/// without threads and memory for batches.
#[derive(Debug)]
pub struct LoaderPlan {
    pub(super) bundle: Arc<Bundle>,
    pub(super) options: LoaderOptions,
    /// Samples of each shard of the split, without those left out.
    pub(super) shard_samples: Vec<u64>,
    pub(super) chosen: Arc<Chosen>,
    /// The weights or classes that samples are drawn by.
    pub(super) draws: Option<Arc<Draws>>,
}

impl LoaderPlan {
    /// Checks the options. Reads only indexes, for [`LoaderOptions::unknown_labels`],
    /// [`LoaderOptions::select`] and [`LoaderOptions::draw`].
    ///
    /// # Errors
    /// [`Error::Option`], which names the option with the impossible value; [`Error::Bundle`].
    pub fn new(bundle: Arc<Bundle>, options: LoaderOptions) -> Result<Self, Error> {
        options.check()?;
        let of_split = bundle.manifest().of_split(options.split);
        let mut shard_samples: Vec<u64> = of_split.map(|shard| shard.samples).collect();
        let asked = Asked {
            split: options.split,
            unknown: options.unknown_labels,
            select: &options.select,
            labels: matches!(options.draw, Draw::ByClass),
            threads: threads_of(&options),
        };
        let mut chosen = choose(&bundle, &asked, &mut shard_samples)?;
        let labels = std::mem::take(&mut chosen.labels);
        let (n_all, n_chosen) = (bundle.n_samples(options.split), shard_samples.iter().sum());
        let draws = options.draw.prepare(n_all, n_chosen, &chosen, labels)?.map(Arc::new);
        Ok(Self { bundle, options, shard_samples, chosen: Arc::new(chosen), draws })
    }

    /// The number of steps of a whole epoch, the same on every rank.
    #[must_use]
    pub fn n_steps(&self) -> u64 {
        self.span(0).n_steps()
    }

    /// Returns [`LoaderPlan::n_steps`] for another number of ranks.
    #[must_use]
    pub fn n_steps_among(&self, world_size: u64) -> u64 {
        self.span_among(world_size, 0).n_steps()
    }

    /// The number of samples of the split that are in no epoch, because of
    /// [`LoaderOptions::select`] or [`UnknownLabels::Drop`](super::UnknownLabels::Drop).
    #[must_use]
    pub fn n_left_out(&self) -> u64 {
        self.chosen.n_left_out()
    }

    /// The number of positions of an epoch, of all ranks together.
    #[must_use]
    pub fn n_positions(&self) -> u64 {
        self.n_positions_among(self.options.world_size)
    }

    fn n_positions_among(&self, world_size: u64) -> u64 {
        self.options.order.n_positions(self.n_samples(), world_size)
    }

    /// The number of threads that decode.
    pub(super) fn n_threads(&self) -> usize {
        threads_of(&self.options)
    }

    /// The number of samples that epochs are made of.
    pub(super) fn n_samples(&self) -> u64 {
        self.shard_samples.iter().sum()
    }

    /// What is left of an epoch after the positions before `from`.
    pub(super) fn span(&self, from: u64) -> Span {
        self.span_among(self.options.world_size, from)
    }

    fn span_among(&self, world_size: u64, from: u64) -> Span {
        let LoaderOptions { order, batch_size, .. } = self.options;
        let stride = world_size.saturating_mul(batch_size as u64);
        Span::new(from, self.n_positions_among(world_size), stride, order.drop_last)
    }

    /// The order of an epoch.
    pub(super) fn order_of(&self, epoch: u64) -> EpochOrder {
        let spec = &self.options.order;
        match &self.draws {
            Some(draws) => EpochOrder::drawn(spec, Arc::clone(draws), self.n_samples(), epoch),
            None => EpochOrder::new(spec, &self.shard_samples, epoch, self.options.world_size),
        }
    }
}

/// The number of threads that options ask for.
fn threads_of(options: &LoaderOptions) -> usize {
    if options.threads == 0 { cores() } else { options.threads }
}

/// The cores of this machine.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
