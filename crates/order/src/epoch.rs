//! The orders of an epoch.
//!
//! Each defines one *global sequence*: position → sample. Rank r of w ranks takes positions r, r +
//! w, r + 2w, …, as `DistributedSampler` deals them, so step s of batches of b samples a rank
//! covers positions s·b·w to (s+1)·b·w. The progress of an epoch is therefore one number, whatever
//! the number of ranks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

use crate::Draws;
use crate::keyed::{KeyedPermutation, key};
use crate::mt19937::Generator;
use crate::pytorch::{Permutation, distributed_lengths, randperm};

/// The kind of order in which samples are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum OrderKind {
    /// Bit-identical to PyTorch's `DistributedSampler`: pads with repeated
    /// samples, or cuts, to a multiple of the world size. Holds 4 bytes a sample.
    Torch {
        /// Whether to permute the samples, or to go from 0 to the end.
        shuffle: bool,
    },
    /// A keyed permutation of all samples: each once, for any world size, in no memory.
    Elastic,
    /// A keyed permutation of shards; samples permuted within each group of
    /// `shards` consecutive ones. Each shard is needed for one window only.
    Window {
        /// Number of shards in a window.
        shards: u64,
    },
}

impl fmt::Display for OrderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torch { shuffle: true } => f.write_str("`torch`"),
            Self::Torch { shuffle: false } => f.write_str("`torch` without shuffling"),
            Self::Elastic => f.write_str("`elastic`"),
            Self::Window { shards } => write!(f, "`window` of {shards} shards"),
        }
    }
}

/// The settings that determine the order of every epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderSpec {
    /// The kind of the order.
    pub kind: OrderKind,
    /// The seed; each gives another sequence of orders.
    pub seed: u64,
    /// Leave out what does not fill the last batch of all ranks; `torch` first
    /// cuts to a multiple of the world size instead of padding.
    pub drop_last: bool,
}

impl OrderSpec {
    /// The number of positions of an epoch over `n` samples: the samples, and with `torch` the
    /// padding, or less what is cut.
    #[must_use]
    pub fn n_positions(&self, n: u64, world_size: u64) -> u64 {
        match self.kind {
            OrderKind::Torch { .. } => distributed_lengths(n, world_size.max(1), self.drop_last).1,
            OrderKind::Elastic | OrderKind::Window { .. } => n,
        }
    }
}

/// The order of one epoch over one split.
#[derive(Debug, Clone)]
pub struct EpochOrder {
    n_samples: u64,
    n_positions: u64,
    how: How,
}

#[derive(Debug, Clone)]
enum How {
    Listed(Permutation),
    Keyed(KeyedPermutation),
    Windows(Vec<Window>),
    Drawn { draws: Arc<Draws>, seed: u64, epoch: u64 },
}

/// Samples of some consecutive shards, in permuted order.
#[derive(Debug, Clone)]
struct Window {
    /// Position of the window's first sample.
    start: u64,
    /// Number of samples in the window.
    len: u64,
    within: KeyedPermutation,
    /// For each shard, the number of samples before it in the window, and its first sample in the
    /// split.
    shards: Vec<(u64, u64)>,
}

impl EpochOrder {
    /// The order of `epoch` for `world_size` ranks over shards of
    /// `shard_samples` samples, in the split's order.
    #[must_use]
    pub fn new(spec: &OrderSpec, shard_samples: &[u64], epoch: u64, world_size: u64) -> Self {
        let n: u64 = shard_samples.iter().sum();
        let (how, n_positions) = match spec.kind {
            OrderKind::Torch { shuffle } => {
                let order = if shuffle {
                    randperm(n, &mut Generator::new(spec.seed.wrapping_add(epoch)))
                } else {
                    Permutation::identity(n)
                };
                (How::Listed(order), distributed_lengths(n, world_size.max(1), spec.drop_last).1)
            }
            OrderKind::Elastic => {
                (How::Keyed(KeyedPermutation::new(n, key(spec.seed, epoch, 0))), n)
            }
            OrderKind::Window { shards } => {
                (How::Windows(windows(spec.seed, epoch, shard_samples, shards.max(1))), n)
            }
        };
        Self { n_samples: n, n_positions, how }
    }

    /// The order of `epoch` that draws from `n` samples, as often as there are any.
    #[must_use]
    pub fn drawn(spec: &OrderSpec, draws: Arc<Draws>, n: u64, epoch: u64) -> Self {
        let how = How::Drawn { draws, seed: spec.seed, epoch };
        Self { n_samples: n, n_positions: n, how }
    }

    /// Whether a sample may occur several times without being padding.
    #[must_use]
    pub fn repeats(&self) -> bool {
        matches!(self.how, How::Drawn { .. })
    }

    /// Positions of the epoch: the samples, and with `torch` the padding.
    #[must_use]
    pub fn n_positions(&self) -> u64 {
        self.n_positions
    }

    /// Returns the sample at `position`; `None` past the last one.
    #[must_use]
    pub fn sample_at(&self, position: u64) -> Option<u64> {
        if position >= self.n_positions || self.n_samples == 0 {
            return None;
        }
        Some(match &self.how {
            How::Listed(order) => order.at(position % self.n_samples),
            How::Keyed(permutation) => permutation.at(position),
            How::Drawn { draws, seed, epoch } => draws.at(*seed, *epoch, position),
            How::Windows(windows) => {
                let after = windows.partition_point(|w| w.start <= position);
                windows[after - 1].sample_at(position)
            }
        })
    }

    /// Returns the number of windows, which are parts that need only some shards. It is one for
    /// orders that mix all samples.
    #[must_use]
    pub fn n_windows(&self) -> usize {
        match &self.how {
            How::Windows(windows) => windows.len(),
            _ => usize::from(self.n_positions > 0),
        }
    }

    /// Returns the window of a position.
    #[must_use]
    pub fn window_at(&self, position: u64) -> usize {
        match &self.how {
            How::Windows(windows) => {
                windows.partition_point(|w| w.start <= position).saturating_sub(1)
            }
            _ => 0,
        }
    }

    /// Returns the positions of a window.
    #[must_use]
    pub fn positions_of(&self, window: usize) -> Range<u64> {
        match &self.how {
            How::Windows(windows) => {
                let start = |at: usize| windows.get(at).map_or(self.n_positions, |w| w.start);
                start(window)..start(window + 1)
            }
            _ => 0..self.n_positions,
        }
    }

    /// A sample of each shard that a window needs; `None` where it needs all.
    pub fn shards_of(&self, window: usize) -> Option<impl Iterator<Item = u64> + '_> {
        let How::Windows(windows) = &self.how else { return None };
        let window = windows.get(window);
        Some(window.into_iter().flat_map(|window| {
            let ends = window.shards.iter().skip(1).map(|(before, _)| *before);
            let ends = ends.chain([window.len]);
            let shards = window.shards.iter().zip(ends);
            shards.filter(|((before, _), end)| before < end).map(|((_, first), _)| *first)
        }))
    }

    /// Returns the samples that rank `rank` takes from `positions`, whose start must be that of a
    /// step.
    pub fn rank_samples(
        &self,
        positions: Range<u64>,
        rank: u64,
        world_size: u64,
    ) -> impl Iterator<Item = u64> + '_ {
        let first = positions.start.saturating_add(rank);
        let step = usize::try_from(world_size.max(1)).unwrap_or(usize::MAX);
        (first..positions.end.min(self.n_positions)).step_by(step).filter_map(|p| self.sample_at(p))
    }
}

fn windows(seed: u64, epoch: u64, shard_samples: &[u64], per_window: u64) -> Vec<Window> {
    let mut firsts = Vec::with_capacity(shard_samples.len());
    let mut next = 0;
    for samples in shard_samples {
        firsts.push(next);
        next += samples;
    }
    let n_shards = shard_samples.len() as u64;
    let of_shards = KeyedPermutation::new(n_shards, key(seed, epoch, 1));
    let mut windows: Vec<Window> = Vec::new();
    let mut start = 0;
    let mut from = 0;
    while from < n_shards {
        let to = from.saturating_add(per_window).min(n_shards);
        let mut len = 0;
        let mut shards = Vec::new();
        for i in from..to {
            let shard = of_shards.at(i) as usize;
            shards.push((len, firsts[shard]));
            len += shard_samples[shard];
        }
        let number = windows.len() as u64;
        let within = KeyedPermutation::new(len, key(seed, epoch, 2 + number));
        windows.push(Window { start, len, within, shards });
        start += len;
        from = to;
    }
    windows
}

impl Window {
    fn sample_at(&self, position: u64) -> u64 {
        let inside = self.within.at(position - self.start);
        let after = self.shards.partition_point(|(before, _)| *before <= inside);
        let (before, first) = self.shards[after - 1];
        first + (inside - before)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_window_needs_the_shards_of_its_samples_and_no_others() {
        let counts = [7, 0, 12, 5, 1, 3];
        let shard_of = |sample: u64| {
            let ends = counts.iter().scan(0, |end, n| {
                *end += n;
                Some(*end)
            });
            ends.take_while(|end| *end <= sample).count()
        };
        for shards in [1, 2, 9] {
            let kind = OrderKind::Window { shards };
            let spec = OrderSpec { kind, seed: 4, drop_last: false };
            let order = EpochOrder::new(&spec, &counts, 2, 1);
            let mut next = 0;
            for window in 0..order.n_windows() {
                let positions = order.positions_of(window);
                assert_eq!(positions.start, next);
                next = positions.end;
                let needed: BTreeSet<usize> =
                    order.shards_of(window).unwrap().map(shard_of).collect();
                let samples = positions.map(|position| {
                    assert_eq!(order.window_at(position), window);
                    shard_of(order.sample_at(position).unwrap())
                });
                assert_eq!(samples.collect::<BTreeSet<_>>(), needed, "window {window} of {shards}");
            }
            assert_eq!(next, 28);
        }
        let spec = OrderSpec { kind: OrderKind::Elastic, seed: 4, drop_last: false };
        let order = EpochOrder::new(&spec, &counts, 2, 1);
        assert_eq!((order.n_windows(), order.positions_of(0)), (1, 0..28));
        assert!(order.shards_of(0).is_none());
    }
}
