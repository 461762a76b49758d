//! Writes checkpoints while training continues.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tch::Tensor;
use tch::nn::VarStore;

use super::training::write;
use super::weights::copy;
use super::{Optimiser, TrainState};
use crate::Error;
use crate::checkpoint::{CheckpointError, Checkpoints};

/// A checkpoint that is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The step after which it was saved.
    pub step: u64,
    /// The checkpoint's folder.
    pub path: PathBuf,
    /// How long saving took, the copying included.
    pub took: Duration,
}

/// Writes checkpoints in a separate thread while training continues, one at a time.
///
/// [`Saver::begin`] copies model and optimiser to the CPU's memory, where the copy stays
/// until it is on disk; [`Saver::save`] needs no copy. Dropped, it waits for what is being
/// written.
#[derive(Debug)]
pub struct Saver {
    checkpoints: Arc<Checkpoints>,
    about: Arc<BTreeMap<String, String>>,
    under_way: Option<JoinHandle<Result<Saved, Error>>>,
}

impl Saver {
    /// Makes a saver that saves to `checkpoints`.
    #[must_use]
    pub fn new(checkpoints: Checkpoints) -> Self {
        Self { checkpoints: Arc::new(checkpoints), about: Arc::default(), under_way: None }
    }

    /// Sets the texts `about` that the model of each checkpoint carries, as
    /// [`write_weights_about`](super::write_weights_about) does for a file of weights.
    #[must_use]
    pub fn about(mut self, about: BTreeMap<String, String>) -> Self {
        self.about = Arc::new(about);
        self
    }

    /// Begins to save the training as it is now; if the checkpoint before is still being written,
    /// waits for it and returns it.
    ///
    /// # Errors
    /// What the one before failed with, then no new one is begun; [`Error::Torch`] and
    /// [`CheckpointError::Thread`].
    pub fn begin(
        &mut self,
        state: &TrainState,
        store: &VarStore,
        optimiser: &dyn Optimiser,
    ) -> Result<Option<Saved>, Error> {
        self.begin_as(state, store, optimiser, false)
    }

    /// Does the same as [`Saver::begin`]; once the checkpoint is on the disk, it is the best one
    /// ([`Checkpoints::keep_best`]).
    ///
    /// # Errors
    /// Those of [`Saver::begin`].
    pub fn begin_best(
        &mut self,
        state: &TrainState,
        store: &VarStore,
        optimiser: &dyn Optimiser,
    ) -> Result<Option<Saved>, Error> {
        self.begin_as(state, store, optimiser, true)
    }

    fn begin_as(
        &mut self,
        state: &TrainState,
        store: &VarStore,
        optimiser: &dyn Optimiser,
        is_best: bool,
    ) -> Result<Option<Saved>, Error> {
        let before = self.finish()?;
        let since = Instant::now();
        let copied = |(name, tensor): (String, Tensor)| Ok((name, copy(&tensor)?));
        let model = store.variables().into_iter().map(copied);
        let model = model.collect::<Result<BTreeMap<String, Tensor>, Error>>()?;
        let moments = optimiser.tensors().into_iter().map(copied);
        let moments = moments.collect::<Result<BTreeMap<String, Tensor>, Error>>()?;
        let (checkpoints, about) = (Arc::clone(&self.checkpoints), Arc::clone(&self.about));
        let state = state.clone();
        let work = move || {
            let path = write(&checkpoints, &state, &about, &model, &moments)?;
            if is_best {
                checkpoints.keep_best(state.step)?;
            }
            Ok(Saved { step: state.step, path, took: since.elapsed() })
        };
        let thread = thread::Builder::new().name("gular-save".into()).spawn(work);
        self.under_way = Some(thread.map_err(|source| CheckpointError::Thread { source })?);
        Ok(before)
    }

    /// Whether a checkpoint is being written.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.under_way.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Returns the checkpoint that was completed since the last call, without waiting.
    ///
    /// # Errors
    /// What it failed with.
    pub fn poll(&mut self) -> Result<Option<Saved>, Error> {
        if self.is_busy() { Ok(None) } else { self.finish() }
    }

    /// Waits for the checkpoint that is being written, and returns it.
    ///
    /// # Errors
    /// What it failed with.
    pub fn finish(&mut self) -> Result<Option<Saved>, Error> {
        let Some(thread) = self.under_way.take() else { return Ok(None) };
        thread.join().map_err(|_| CheckpointError::Panicked)?.map(Some)
    }

    /// Saves the current state, and returns when it is on disk; use this before the program ends.
    /// If a checkpoint is being written, this waits for it, and ignores its error, since the new
    /// one replaces it.
    ///
    /// # Errors
    /// Those of [`save`](super::save).
    pub fn save(
        &mut self,
        state: &TrainState,
        store: &VarStore,
        optimiser: &dyn Optimiser,
    ) -> Result<Saved, Error> {
        let _replaced = self.finish();
        let since = Instant::now();
        let model = store.variables().into_iter().collect();
        let path = write(&self.checkpoints, state, &self.about, &model, &optimiser.tensors())?;
        Ok(Saved { step: state.step, path, took: since.elapsed() })
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
