//! An epoch in progress: its order, and the steps into which its positions are divided.

use std::ops::Range;
use std::sync::Arc;

use gular_order::EpochOrder;

use super::chosen::Chosen;

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
        let before = |position| self.span.n_before(position, self.rank, self.world_size.max(1));
        before(end).saturating_sub(before(start))
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

/// The steps of an epoch that one of several loaders makes, which make those of one rank in turns:
/// step `first`, and each one that is `of` steps after another of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turns {
    /// The first step, counted from where the epoch begins or resumes.
    pub first: u64,
    /// The number of loaders; at least 1.
    pub of: u64,
}

impl Turns {
    /// All steps.
    pub const ALL: Self = Self { first: 0, of: 1 };
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
    turns: Turns,
}

impl Span {
    /// Steps of `stride` positions over `from..total`, without a partial last one
    /// when `drop_last`.
    pub(super) fn new(from: u64, total: u64, stride: u64, drop_last: bool) -> Self {
        let (from, stride) = (from.min(total), stride.max(1));
        let left = total - from;
        let end = from + if drop_last { left / stride * stride } else { left };
        Self { from, end, total, stride, turns: Turns::ALL }
    }

    /// Keeps only the steps of these turns.
    pub(super) fn of_turns(self, turns: Turns) -> Self {
        Self { turns: Turns { of: turns.of.max(1), ..turns }, ..self }
    }

    /// Returns the number of positions in the whole epoch.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn n_steps(&self) -> u64 {
        let all = (self.end - self.from).div_ceil(self.stride);
        all.saturating_sub(self.turns.first).div_ceil(self.turns.of)
    }

    /// Returns how many of the positions before `position` belong to this rank and its turns.
    fn n_before(&self, position: u64, rank: u64, world_size: u64) -> u64 {
        let of_rank = |positions: u64| positions.saturating_sub(rank).div_ceil(world_size);
        let first = self.from.saturating_add(self.turns.first.saturating_mul(self.stride));
        let round = self.stride.saturating_mul(self.turns.of);
        let at = position.min(self.end).saturating_sub(first);
        at / round * of_rank(self.stride) + of_rank((at % round).min(self.stride))
    }

    /// Returns the positions of `step`; empty past the end.
    pub(super) fn positions(&self, step: u64) -> (u64, u64) {
        let at = |step: u64| self.from.saturating_add(step.saturating_mul(self.stride));
        let step = step.saturating_mul(self.turns.of).saturating_add(self.turns.first);
        (at(step).min(self.end), at(step.saturating_add(1)).min(self.end))
    }

    /// Positions consumed after `steps` steps: all, after the last.
    pub(super) fn consumed(&self, steps: u64) -> u64 {
        if steps >= self.n_steps() { self.total } else { self.positions(steps).0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_divide_the_steps_of_a_rank() {
        for (n, batch, world, drop_last) in [
            (101, 10, 1, false),
            (101, 10, 1, true),
            (101, 7, 3, false),
            (5, 4, 2, true),
            (0, 3, 1, false),
        ] {
            for of in 1..6 {
                let whole = Span::new(3.min(n), n, batch * world, drop_last);
                let mut steps: Vec<(u64, u64)> = Vec::new();
                for first in 0..of {
                    let span = whole.of_turns(Turns { first, of });
                    let own: Vec<_> =
                        (0..span.n_steps()).map(|step| span.positions(step)).collect();
                    assert!(own.iter().all(|(from, to)| from < to), "an empty step: {own:?}");
                    for rank in 0..world {
                        for position in 0..=n {
                            let expected = own.iter().flat_map(|(from, to)| *from..*to);
                            let is_before =
                                |at: &u64| *at < position && (at - whole.from) % world == rank;
                            let expected = expected.filter(is_before).count() as u64;
                            assert_eq!(span.n_before(position, rank, world), expected);
                        }
                    }
                    steps.extend(own);
                }
                steps.sort_unstable();
                let all: Vec<_> = (0..whole.n_steps()).map(|step| whole.positions(step)).collect();
                assert_eq!(steps, all, "{n} by {batch} on {world} ranks, {of} turns");
            }
        }
    }
}
