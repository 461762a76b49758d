//! An epoch in progress: its order, and the steps into which its positions are divided.

use std::ops::Range;
use std::sync::Arc;

use super::chosen::Chosen;
use crate::order::EpochOrder;

// Longest row of broken samples, from FORMAT.md. A bundle with more has other problems.
const MAX_REPLACEMENTS: usize = 1000;

/// An epoch in progress.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) order: EpochOrder,
    /// Maps the order's numbers to samples of the split.
    pub(super) chosen: Arc<Chosen>,
    pub(super) epoch: u64,
    pub(super) span: Span,
    pub(super) rank: u64,
    pub(super) world_size: u64,
}

impl Run {
    /// The samples that may replace a broken one at `position`, as FORMAT.md says: those of the
    /// positions after it, continued from the first position after the last.
    pub(super) fn replacements(&self, position: u64) -> impl Iterator<Item = u64> + '_ {
        let n = self.order.n_positions();
        let after = (1..n).take(MAX_REPLACEMENTS);
        let at = after.filter_map(move |i| self.order.sample_at((position + i) % n.max(1)));
        at.map(|nth| self.chosen.sample(nth))
    }

    /// Number of steps of this rank.
    pub(super) fn n_steps(&self) -> u64 {
        self.span.n_steps()
    }

    /// Returns how many samples this rank has in a window of the order.
    pub(super) fn n_of_window(&self, window: usize) -> u64 {
        let Range { start, end } = self.order.positions_of(window);
        let first = self.span.from.saturating_add(self.rank);
        let before =
            |position: u64| position.saturating_sub(first).div_ceil(self.world_size.max(1));
        before(end.min(self.span.end)).saturating_sub(before(start.min(self.span.end)))
    }

    /// The position of this rank's first sample of `step`.
    pub(super) fn first_position(&self, step: u64) -> u64 {
        self.span.positions(step).0.saturating_add(self.rank)
    }

    /// Returns this rank's samples of `step`, as numbers of the split.
    pub(super) fn samples(&self, step: u64) -> impl Iterator<Item = u64> {
        let (from, to) = self.span.positions(step);
        let samples = self.order.rank_samples(from..to, self.rank, self.world_size);
        samples.map(|n| self.chosen.sample(n))
    }
}

/// The positions of an epoch that are still to come, cut into steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    from: u64,
    end: u64,
    /// The end of the epoch, which is past `end` where a partial step is left out.
    total: u64,
    /// Number of positions per step, of all ranks.
    stride: u64,
}

impl Span {
    /// Steps of `stride` positions over `from..total`, without a partial last one
    /// when `drop_last`.
    pub(super) fn new(from: u64, total: u64, stride: u64, drop_last: bool) -> Self {
        let (from, stride) = (from.min(total), stride.max(1));
        let left = total - from;
        let end = from + if drop_last { left / stride * stride } else { left };
        Self { from, end, total, stride }
    }

    /// Returns the number of positions in the whole epoch.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn n_steps(&self) -> u64 {
        (self.end - self.from).div_ceil(self.stride)
    }

    /// Returns the positions of `step`; empty past the end.
    pub(super) fn positions(&self, step: u64) -> (u64, u64) {
        let at = |step: u64| self.from.saturating_add(step.saturating_mul(self.stride));
        (at(step).min(self.end), at(step.saturating_add(1)).min(self.end))
    }

    /// Positions consumed after `steps` steps: all, after the last.
    pub(super) fn consumed(&self, steps: u64) -> u64 {
        if steps >= self.n_steps() { self.total } else { self.positions(steps).0 }
    }
}
