//! Proves that an epoch was delivered as its order says: computes the expected tally from the index
//! and the order alone, and names the first difference.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gular_bundle::{Index, Shard, ShardIdx};
use gular_order::{Differs, LoaderState, Tally, Visit, Wrong, term};

use super::{Loader, LoaderError};
use crate::Error;

// Positions that are processed together, so that each shard is opened once for all of them: 16
// bytes each.
const CHUNK: u64 = 1 << 20;

/// The source of the digests of a shard's samples.
enum Digests {
    /// The shard, if it is on this machine.
    Shard(Arc<Shard>),
    /// The shard's index, if the shard may not be on this machine.
    Index(Arc<Index>),
}

/// A sentence about how an epoch was delivered: `1,281,167 samples, each once`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// The number of positions delivered, all of them with the sample that the order gives.
    pub positions: u64,
    /// The number of samples in the order.
    pub samples: u64,
    /// The number of positions whose sample could not be decoded.
    pub broken: u64,
    /// Whether the samples were drawn, so that one can be delivered several times or never.
    pub drawn: bool,
}

impl fmt::Display for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { positions, samples, broken, drawn } = *self;
        let (all, once) = (grouped(samples), grouped(positions.min(samples)));
        match positions {
            p if drawn => write!(f, "{} samples, each as drawn", grouped(p))?,
            p if p < samples => write!(f, "{once} of {all} samples, each once")?,
            p if p == samples => write!(f, "{all} samples, each once")?,
            p => write!(f, "{all} samples, each once, and {} again", grouped(p - samples))?,
        }
        if broken > 0 {
            write!(f, ", {} of them broken", grouped(broken))?;
        }
        Ok(())
    }
}

/// Formats a number with commas.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Loader {
    /// Compares the tally of all ranks in `state` with the one that the index and the order give.
    ///
    /// It can be called at the end of an epoch or anywhere in it. It needs the indexes of the
    /// shards, and about 300 ns per sample; several ranks can share this work with
    /// [`Loader::expected_tally`].
    ///
    /// # Errors
    /// [`Error::State`] for a state of another loader; [`LoaderError::Uncounted`] if it has no
    /// tally of the whole epoch; [`LoaderError::Delivered`] with the first difference; those of
    /// [`Loader::expected_tally`].
    pub fn check_delivered(&self, state: &LoaderState) -> Result<Delivered, Error> {
        let expected = self.expected_tally(state.epoch, 0..self.due(state)?)?;
        self.compare_delivered(state, &expected)
    }

    /// Returns how many positions a tally in `state` must have.
    ///
    /// # Errors
    /// [`Error::State`], [`LoaderError::Uncounted`].
    pub fn due(&self, state: &LoaderState) -> Result<u64, Error> {
        state.check(&self.state())?;
        let Some(tally) = &state.tally else {
            return Err(LoaderError::Uncounted { epoch: state.epoch }.into());
        };
        let n_positions = self.n_positions();
        if state.consumed < n_positions {
            return Ok(state.consumed);
        }
        // The positions that the last steps of all ranks leave out are less than one step.
        let stride =
            self.plan.options.world_size.saturating_mul(self.plan.options.batch_size as u64);
        let left_out = n_positions.saturating_sub(tally.count);
        let cut = self.plan.options.order.drop_last && left_out < stride;
        Ok(if cut { n_positions - left_out } else { n_positions })
    }

    /// Computes the tally that `positions` of `epoch` must add up to.
    ///
    /// # Errors
    /// [`Error::Bundle`] when an index cannot be read.
    pub fn expected_tally(&self, epoch: u64, positions: Range<u64>) -> Result<Tally, Error> {
        let n_positions = self.n_positions();
        let order = self.plan.order_of(epoch);
        let mut tally = Tally::default();
        let mut from = positions.start;
        while from < positions.end {
            let to = from.saturating_add(CHUNK).min(positions.end);
            let at = |position| order.sample_at(position).map(|nth| (nth, position));
            // The list is sorted by sample, and so by shard.
            let mut due: Vec<(u64, u64)> = (from..to).filter_map(at).collect();
            due.sort_unstable();
            let mut opened = None;
            for (nth, position) in due {
                let sample = self.plan.chosen.sample(nth);
                if let Some(term) = self.term(&mut opened, Visit { epoch, position, sample })? {
                    tally.add(term, position, n_positions);
                }
            }
            from = to;
        }
        Ok(tally)
    }

    /// Does the last part of [`Loader::check_delivered`]: `expected` is the tally of the positions
    /// up to [`Loader::due`].
    ///
    /// # Errors
    /// Those of [`Loader::check_delivered`].
    pub fn compare_delivered(
        &self,
        state: &LoaderState,
        expected: &Tally,
    ) -> Result<Delivered, Error> {
        let epoch = state.epoch;
        let Some(found) = &state.tally else {
            return Err(LoaderError::Uncounted { epoch }.into());
        };
        let n_positions = self.n_positions();
        let what = match found.differs(expected, n_positions) {
            None if found.count == expected.count => {
                let samples = self.plan.n_samples();
                let (positions, broken) = (found.count, found.broken);
                let drawn = self.plan.draws.is_some();
                return Ok(Delivered { positions, samples, broken, drawn });
            }
            None => format!("{} were counted, expected {}", found.count, expected.count),
            Some(Differs::Within(range)) => {
                let (from, to) = (range.start, range.end);
                format!("more than 4 are wrong, the first between position {from} and {to}")
            }
            Some(Differs::At(wrong)) => self.name(epoch, &wrong, n_positions)?,
        };
        Err(LoaderError::Delivered { epoch, what }.into())
    }

    /// Says what is wrong at the first of the positions `wrong`.
    fn name(&self, epoch: u64, wrong: &[(u64, u64)], n_positions: u64) -> Result<String, Error> {
        let Some((position, excess)) = wrong.first().copied() else { return Ok(String::new()) };
        let others = match wrong.len() - 1 {
            0 => String::new(),
            1 => ", and another position is wrong".into(),
            n => format!(", and {n} other positions are wrong"),
        };
        let nth = self.plan.order_of(epoch).sample_at(position).unwrap_or_default();
        let due = self.plan.chosen.sample(nth);
        let key = self.maker.reader().name(due);
        let mut opened = None;
        let expected =
            self.term(&mut opened, Visit { epoch, position, sample: due })?.unwrap_or_default();
        let what = match Wrong::of(excess, expected) {
            Wrong::LeftOut => format!("sample `{key}` was left out"),
            Wrong::Twice => format!("sample `{key}` was delivered twice"),
            Wrong::Instead(term) => {
                let mut found = None;
                for sample in 0..self.plan.bundle.n_samples(self.plan.options.split) {
                    if self.term(&mut opened, Visit { epoch, position, sample })? == Some(term) {
                        found = Some(format!("sample `{}`", self.maker.reader().name(sample)));
                        break;
                    }
                }
                let found = found.unwrap_or_else(|| "something else".into());
                format!("{found} was delivered instead of sample `{key}`")
            }
        };
        Ok(format!("at position {position} of {n_positions} {what}{others}"))
    }

    /// Returns the term that `visit` adds; the sample's shard stays in `opened`.
    fn term(
        &self,
        opened: &mut Option<(ShardIdx, Digests)>,
        visit: Visit,
    ) -> Result<Option<u64>, Error> {
        let bundle = &self.plan.bundle;
        let id = bundle.locate(self.plan.options.split, visit.sample)?;
        if opened.as_ref().is_none_or(|(shard, _)| *shard != id.shard) {
            let digests = match bundle.source() {
                None => Digests::Shard(bundle.shard(id.shard)?),
                Some(_) => Digests::Index(bundle.index(id.shard)?),
            };
            *opened = Some((id.shard, digests));
        }
        let Some((_, digests)) = opened else { return Ok(None) };
        let digest = match digests {
            Digests::Shard(shard) => shard.digest(id.row, self.maker.proof())?,
            Digests::Index(index) => index.digest(id.row, self.maker.proof()),
        };
        Ok(digest.map(|digest| term(visit, &digest)))
    }
}
