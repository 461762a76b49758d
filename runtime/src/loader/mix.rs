//! Mixes several bundles in one training run, by weights.

use std::fmt;

use gular_order::{Draws, LoaderState};
use serde::{Deserialize, Serialize};

use super::{Batch, Loader};
use crate::Error;

/// Batches of several loaders, without end: for each step, a loader is drawn by its weight, the
/// same one on every rank. `FORMAT.md`, "Orders".
///
/// Each loader proceeds from epoch to epoch by itself, so that [`Loader::check_delivered`] works
/// for each. Loaders may have different batch sizes.
pub struct Mix {
    loaders: Vec<Loader>,
    weights: Vec<u32>,
    draws: Draws,
    seed: u64,
    step: u64,
    /// The epoch that each loader begins next.
    next: Vec<u64>,
    begun: bool,
    ended: bool,
}

/// The state of a [`Mix`], as a checkpoint stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MixState {
    /// The seed with which loaders are drawn.
    pub seed: u64,
    /// The loaders' weights.
    pub weights: Vec<u32>,
    /// Number of steps taken so far.
    pub step: u64,
    /// The state of each loader.
    pub loaders: Vec<LoaderState>,
}

impl Mix {
    /// Mixes loaders with the given weights. All ranks must pass the same loaders in the same
    /// order.
    ///
    /// # Errors
    /// [`Error::Option`] when a loader has no steps or is of another rank, or all weights are 0.
    pub fn new(sources: Vec<(Loader, u32)>, seed: u64) -> Result<Self, Error> {
        let fail = |option, reason| Err(Error::Option { option, reason });
        let (loaders, weights): (Vec<Loader>, Vec<u32>) = sources.into_iter().unzip();
        let draws = Self::draws(weights.iter().copied())?;
        let seat = |loader: &Loader| (loader.options().rank, loader.options().world_size);
        let first = loaders.first().map(seat);
        for (i, loader) in loaders.iter().enumerate() {
            if Some(seat(loader)) != first {
                return fail("rank", format!("loader {i} of the mix was made for another rank"));
            }
            if loader.n_steps() == 0 {
                return fail("split", format!("loader {i} of the mix has no batches"));
            }
        }
        let next = loaders.iter().map(|loader| loader.state().epoch).collect();
        Ok(Self { loaders, weights, draws, seed, step: 0, next, begun: false, ended: false })
    }

    /// Returns which of several loaders with these weights gives the batch of step `step`.
    ///
    /// # Errors
    /// [`Error::Option`] when all weights are 0.
    pub fn drawn(
        weights: impl ExactSizeIterator<Item = u32>,
        seed: u64,
        step: u64,
    ) -> Result<usize, Error> {
        Ok(Self::draws(weights)?.at(seed, 0, step) as usize)
    }

    fn draws(weights: impl ExactSizeIterator<Item = u32>) -> Result<Draws, Error> {
        Draws::weighted(weights).ok_or_else(|| Error::Option {
            option: "weights",
            reason: "all weights of the mix are 0".into(),
        })
    }

    /// The loaders that are mixed.
    #[must_use]
    pub fn loaders(&self) -> &[Loader] {
        &self.loaders
    }

    /// Returns the state after the batches taken so far.
    #[must_use]
    pub fn state(&self) -> MixState {
        let loaders = self.loaders.iter().map(Loader::state).collect();
        MixState { seed: self.seed, weights: self.weights.clone(), step: self.step, loaders }
    }

    /// Continues where `state` was taken, with any number of ranks.
    ///
    /// # Errors
    /// [`Error::Option`] for a state of another mix; those of [`Loader::restore`].
    pub fn restore(&mut self, state: &MixState) -> Result<(), Error> {
        if (state.seed, &state.weights) != (self.seed, &self.weights)
            || state.loaders.len() != self.loaders.len()
        {
            let reason = format!(
                "the state was saved with seed {} and weights {:?}, but this mix has {} and {:?}",
                state.seed, state.weights, self.seed, self.weights
            );
            return Err(Error::Option { option: "weights", reason });
        }
        for (loader, state) in self.loaders.iter_mut().zip(&state.loaders) {
            loader.restore(state)?;
        }
        self.next = state.loaders.iter().map(|state| state.epoch).collect();
        (self.step, self.begun, self.ended) = (state.step, false, false);
        Ok(())
    }

    /// Returns the next batch, and the number of the loader that it comes from. `None` after an
    /// error.
    pub fn next_batch(&mut self) -> Option<Result<(usize, Batch), Error>> {
        if self.ended {
            return None;
        }
        if !self.begun {
            // All loaders begin their epochs, so that each has batches when it is drawn.
            (0..self.loaders.len()).for_each(|i| self.begin(i));
            self.begun = true;
        }
        let drawn = self.draws.at(self.seed, 0, self.step) as usize;
        loop {
            match self.loaders[drawn].next_batch() {
                None => self.begin(drawn),
                Some(Ok(batch)) => {
                    self.step += 1;
                    return Some(Ok((drawn, batch)));
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }

    fn begin(&mut self, i: usize) {
        self.loaders[i].begin(self.next[i]);
        self.next[i] = self.next[i].saturating_add(1);
    }
}

impl Iterator for Mix {
    type Item = Result<(usize, Batch), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch()
    }
}

impl fmt::Debug for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mix").field("weights", &self.weights).field("step", &self.step).finish()
    }
}
