//! The training loop of one epoch.

use std::io::Write as _;
use std::time::Instant;

use anyhow::{Result, bail};
use gular_runtime::order::{LoaderState, Tally};
use gular_runtime::torch::{self, Feed, Optimiser as _, TensorBatch};
use gular_runtime::{Delivered, Error, LoaderError};
use tch::{Kind, Tensor};

use super::End;
use super::losses::Step;
use super::training::Training;
use crate::args::Precision;
use crate::progress::{Progress, say};

impl Training<'_> {
    /// Trains on the remaining samples of `epoch`.
    pub(super) fn epoch(&mut self, train: &mut Feed, epoch: u64) -> Result<End> {
        let before = train.stats();
        let (n_positions, n_steps) = (train.loader().n_positions(), train.loader().n_steps());
        let mut batches = self.parallel.epoch(train, epoch)?;
        let epochs = self.args.epochs;
        let every = self.tells().then(|| self.args.data.log_every());
        // This is for the current number of ranks; the run before may have had another.
        let stride = self.args.data.batch_size.get() as u64 * self.ranks.world_size;
        let to_come = n_positions.saturating_sub(batches.state().consumed).div_ceil(stride);
        let done = n_steps.saturating_sub(to_come);
        let later = (epochs - epoch - 1).saturating_mul(n_steps);
        let mut progress = Progress::new(&format!("epoch {}/{epochs}", epoch + 1), n_steps, every)
            .from(done, later);
        let began = Instant::now();
        // This is the last loss that was read.
        let mut shown = None;
        loop {
            let batch = match batches.next() {
                None => break,
                Some(Ok(batch)) => Some(batch),
                // Asked to stop while it waited: this step is left to the next run.
                Some(Err(Error::Loader(LoaderError::Stopped))) => None,
                Some(Err(error)) => return Err(error.into()),
            };
            torch::set_step_rng(self.state.seed, self.state.step, self.ranks.rank);
            self.optimiser.zero_grad();
            let (mut mean, mut n) = (None, 0);
            if let Some(batch) = batch.as_ref().filter(|batch| batch.n_labelled > 0) {
                let loss = self.loss(batch)?;
                loss.backward();
                (mean, n) = (Some(self.place.fetch(&loss)?), batch.n_labelled);
            }
            let (number, rate) = (self.state.step + 1, self.schedule.at(self.state.step));
            let mut step =
                Step { number, epoch, rate, mean, n_own: n, n_all: 0, synchronising: 0.0 };
            let synchronised = self.parallel.synchronised();
            // One message contains the samples of all ranks, and the decisions that they must
            // share.
            let flag = |set: bool| f64::from(u8::from(set));
            let [left, stop] = [batch.is_none(), self.asked_to_stop()];
            let loss = self.losses.due(&step)?;
            let mut sums = vec![loss, flag(left), flag(stop), flag(self.is_due())];
            let delivered = batch.as_ref().and_then(|batch| batch.state.tally.as_ref());
            sums.extend(Tally::to_sums(delivered));
            let agreed = self.parallel.agree(n, &mut sums)?;
            let &[loss, left, stop, due, ref delivered @ ..] = sums.as_slice() else {
                bail!(
                    "the ranks sent fewer sums than expected; start all ranks with the same build of this program"
                );
            };
            let delivered = Tally::from_sums(delivered);
            let Some(batch) = batch.filter(|_| left == 0.0) else {
                progress.clear();
                return self.stopped("after");
            };
            // From here on, all ranks have the gradients of the whole batch.
            step.n_all = self.parallel.average(&agreed)?;
            step.synchronising = (self.parallel.synchronised() - synchronised).as_secs_f64();
            let n = step.n_all;
            if n > 0 {
                self.optimiser.step(rate)?;
            }
            self.state.step = number;
            // A checkpoint has the tally of all ranks.
            self.state.loader = LoaderState { tally: delivered, ..batch.state };
            if let Some(read) = self.losses.done(step) {
                shown = self.read(&read, loss)?.or(shown);
            }
            if n > 0 {
                progress.step(n, shown, &batches.stats());
            }
            if stop > 0.0 {
                progress.clear();
                return self.stopped("after");
            }
            // After the last step comes the checkpoint of the whole epoch.
            if due > 0.0 && self.state.loader.consumed < n_positions {
                self.checkpoint()?;
            }
            self.poll()?;
        }
        let stats = batches.stats().since(&before);
        let end = batches.state().clone();
        drop(batches);
        progress.clear();
        self.settle()?;
        // A GPU computes behind: when its last loss was read, only the last update is left.
        self.finish_epoch(epoch, &stats, began.elapsed())?;
        if let Some(delivered) = self.delivered(train, &end)? {
            say!("epoch {}: {delivered}", epoch + 1);
        }
        Ok(End::Done)
    }

    /// The mean loss over the samples of `batch` whose class is known.
    fn loss(&self, batch: &TensorBatch) -> Result<Tensor> {
        let scores = || self.net.forward(&batch.images, true);
        let scores = match self.args.precision {
            Precision::F32 => scores(),
            Precision::Bf16 => torch::in_bf16(self.place.device(), scores)?.to_kind(Kind::Float),
        };
        if batch.blended.is_empty() {
            return Ok(scores.cross_entropy_for_logits(&batch.labels));
        }
        // A sample belongs to two classes, each with a share.
        let parts = batch.soft_labels(self.classes.len())?;
        let sum = (parts * scores.log_softmax(-1, Kind::Float)).sum(Kind::Float);
        Ok(sum / -(batch.n_labelled as f64))
    }

    /// Returns how the samples up to `end` were delivered to all ranks together; only rank 0
    /// reports it.
    pub(super) fn delivered(&self, feed: &Feed, end: &LoaderState) -> Result<Option<Delivered>> {
        match self.parallel.check_delivered(feed, end) {
            Ok(delivered) => Ok(Some(delivered).filter(|_| self.tells())),
            Err(error @ Error::Loader(LoaderError::Uncounted { .. })) => {
                if self.files.is_some() {
                    say!("warning: {error}");
                }
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether this rank reports the progress.
    pub(super) fn tells(&self) -> bool {
        self.files.is_some() && !self.args.data.quiet
    }

    /// Whether to stop after the current step.
    pub(super) fn asked_to_stop(&self) -> bool {
        self.is_stopping() || self.last_step == Some(self.state.step + 1)
    }

    /// Whether the run should stop, by a request or by its time limit.
    pub(super) fn is_stopping(&self) -> bool {
        if !self.stop.requested()
            && let Some(source) = self.deadline.reached()
        {
            say!("time to stop: {source}");
            self.stop.request();
        }
        self.stop.requested()
    }

    /// Whether a checkpoint is due after the current step; rank 0 decides.
    pub(super) fn is_due(&self) -> bool {
        let Some(files) = &self.files else { return false };
        let by_steps = self.args.checkpoint_every;
        let interval = self.args.checkpoint_interval();
        by_steps.is_some_and(|every| (self.state.step + 1).is_multiple_of(every))
            || interval.is_some_and(|time| self.saved_at.elapsed() >= time)
                && !files.saver.is_busy()
    }
}
