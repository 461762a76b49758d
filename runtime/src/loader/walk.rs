//! Walks along the known order, to find which sample and which shard are needed next.
//!
//! Reading ahead uses it for disks, sample after sample, and for federations, with the shards of
//! one window after the other that is not made yet.

use std::collections::HashMap;
use std::sync::Arc;

use gular_bundle::{Bundle, ShardIdx, Split};

use super::epoch_steps::Run;

/// The place of a sample in the order of delivery; places grow along the walk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    /// The number of the sample's run.
    pub(super) run: u64,
    /// The sample's step in the run.
    pub(super) step: u64,
    /// The sample's row in the step.
    pub(super) row: usize,
}

/// The position in the epochs that are in progress.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Epochs under way with their numbers, which grow.
    runs: Vec<(u64, Arc<Run>)>,
    /// The next sample to be read.
    next: Place,
    /// The samples of the step of `next`.
    ids: Vec<u64>,
    /// The run and the step that `ids` belongs to.
    ids_of: Option<(u64, u64)>,
    /// Number of samples that this rank has made in each window of a run.
    made: HashMap<(u64, usize), u64>,
    /// The first window of a run that is not all made.
    first: HashMap<u64, usize>,
}

/// The shards of a window that is not made yet.
pub(super) type ComingWindow = Vec<ShardIdx>;

impl Walk {
    /// Sets the order: from now on the samples of `runs` are needed, one run after the other, each
    /// with its number.
    pub(super) fn follow(&mut self, runs: Vec<(u64, Arc<Run>)>) {
        self.runs = runs;
        let runs = &self.runs;
        let lives = |number: u64| runs.iter().any(|(run, _)| *run == number);
        self.made.retain(|(number, _), _| lives(*number));
        self.first.retain(|number, _| lives(*number));
    }

    /// Whether samples of this run are still needed.
    pub(super) fn has(&self, number: u64) -> bool {
        self.runs.iter().any(|(run, _)| *run == number)
    }

    /// Returns the sample to read next, and its place.
    pub(super) fn sample(&mut self) -> Option<(Place, u64)> {
        loop {
            let Place { run: at, step, row } = self.next;
            let (number, run) = self.runs.iter().find(|(number, _)| *number >= at)?;
            if *number > at {
                self.next = Place { run: *number, step: 0, row: 0 };
            } else if step >= run.n_steps() {
                self.next = Place { run: at + 1, step: 0, row: 0 };
            } else {
                if self.ids_of != Some((at, step)) {
                    self.ids.clear();
                    self.ids.extend(run.samples(step));
                    self.ids_of = Some((at, step));
                }
                if let Some(sample) = self.ids.get(row) {
                    return Some((self.next, *sample));
                }
                self.next = Place { run: at, step: step + 1, row: 0 };
            }
        }
    }

    /// Whether the sample at `place` is the next one.
    pub(super) fn is_next(&self, place: Place) -> bool {
        self.next == place && self.has(place.run)
    }

    /// Goes to the next sample.
    pub(super) fn step(&mut self) {
        self.next.row += 1;
    }

    /// Goes past `place`, unless it is there already: samples that others have made need not be
    /// read.
    pub(super) fn pass(&mut self, place: Place) {
        self.next = self.next.max(Place { row: place.row + 1, ..place });
    }

    /// A sample of a run was made; whether that was the last of its window.
    pub(super) fn made(&mut self, number: u64, position: u64) -> bool {
        let Some((_, run)) = self.runs.iter().find(|(run, _)| *run == number) else { return false };
        let window = run.order.window_at(position);
        let made = self.made.entry((number, window)).or_default();
        *made += 1;
        if *made < run.n_of_window(window) {
            return false;
        }
        let (made, first) = (&mut self.made, self.first.entry(number).or_default());
        while *first < run.order.n_windows() {
            let n = made.get(&(number, *first)).copied().unwrap_or(0);
            if n < run.n_of_window(*first) {
                break;
            }
            made.remove(&(number, *first));
            *first += 1;
        }
        true
    }

    /// Whether the window that contains a run's position needs this shard.
    pub(super) fn needs(
        &self,
        (number, position): (u64, u64),
        shard: ShardIdx,
        bundle: &Bundle,
        split: Split,
    ) -> bool {
        let run = self.runs.iter().find(|(run, _)| *run == number);
        run.is_some_and(|(_, run)| {
            shards_of(run, run.order.window_at(position), bundle, split).contains(&shard)
        })
    }

    /// The windows that are not made yet, in order, each with the shards that it needs.
    pub(super) fn windows<'a>(
        &'a self,
        bundle: &'a Bundle,
        split: Split,
    ) -> impl Iterator<Item = ComingWindow> + 'a {
        self.runs.iter().flat_map(move |(number, run)| {
            let first = self.first.get(number).copied().unwrap_or(0);
            let is_left = move |window: &usize| {
                let made = self.made.get(&(*number, *window)).copied().unwrap_or(0);
                made < run.n_of_window(*window)
            };
            let left = (first..run.order.n_windows()).filter(is_left);
            left.map(move |window| shards_of(run, window, bundle, split))
        })
    }
}

fn shards_of(run: &Run, window: usize, bundle: &Bundle, split: Split) -> Vec<ShardIdx> {
    let Some(samples) = run.order.shards_of(window) else {
        return of_split(bundle, split).map(|(shard, _)| shard).collect();
    };
    let locate = |nth| bundle.locate(split, run.chosen.sample(nth)).ok();
    samples.filter_map(locate).map(|id| id.shard).collect()
}

/// Returns the shards of a split, with their bytes.
pub(super) fn of_split(
    bundle: &Bundle,
    split: Split,
) -> impl Iterator<Item = (ShardIdx, u64)> + '_ {
    let shards = bundle.manifest().shards.iter().enumerate();
    let shards = shards.filter(move |(_, shard)| shard.split == split && shard.samples > 0);
    shards.map(|(number, shard)| (ShardIdx(number), shard.file.bytes))
}
