//! Reads the loss of a step some steps later, when a GPU has computed it. Waiting for it at once
//! would leave the GPU without work until the next step is submitted.

use std::collections::VecDeque;

use anyhow::Result;
use gular_runtime::torch::Fetched;

use super::training::Training;

/// A step, and its loss on this rank.
#[derive(Debug)]
pub(super) struct Step {
    /// The step's number, from 1.
    pub(super) number: u64,
    pub(super) epoch: u64,
    /// The learning rate.
    pub(super) rate: f64,
    /// The mean over `n_own` samples; none where those are none.
    pub(super) mean: Option<Fetched>,
    pub(super) n_own: usize,
    /// Number of samples of all ranks.
    pub(super) n_all: u64,
    /// Seconds of it in which the ranks waited for each other and added up gradients.
    pub(super) synchronising: f64,
}

impl Step {
    /// Returns the sum over the samples of this rank.
    fn sum(&self) -> Result<f64> {
        let mean = self.mean.as_ref().map_or(Ok(0.0), Fetched::value)?;
        Ok(mean * self.n_own as f64)
    }
}

/// Steps that were done and whose losses are still to be read, as many on every rank.
#[derive(Debug)]
pub(super) struct Losses {
    /// Number of steps after which a loss is read.
    late: usize,
    waiting: VecDeque<Step>,
}

impl Losses {
    pub(super) fn new(late: usize) -> Self {
        Self { late, waiting: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns this rank's sum for the step whose loss is due: `begun`, or one before it.
    pub(super) fn due(&self, begun: &Step) -> Result<f64> {
        match (self.late, self.waiting.front()) {
            (0, _) => begun.sum(),
            (late, Some(first)) if self.waiting.len() >= late => first.sum(),
            _ => Ok(0.0),
        }
    }

    /// `done` is done; gives the step that [`Losses::due`] gave the sum of, if there was one.
    pub(super) fn done(&mut self, done: Step) -> Option<Step> {
        self.waiting.push_back(done);
        if self.waiting.len() > self.late { self.waiting.pop_front() } else { None }
    }
}

impl Training<'_> {
    /// Reads the losses that are still to be read, on all ranks after the same step: what is kept
    /// and what is logged has all of them.
    pub(super) fn settle(&mut self) -> Result<()> {
        let steps = std::mem::take(&mut self.losses.waiting);
        if steps.is_empty() {
            return Ok(());
        }
        let mut sums = steps.iter().map(Step::sum).collect::<Result<Vec<_>>>()?;
        self.parallel.sum(&mut sums)?;
        for (step, sum) in steps.iter().zip(sums) {
            self.read(step, sum)?;
        }
        Ok(())
    }

    /// Counts and logs the loss of `step`, whose sum over all ranks is `sum`; gives the mean.
    pub(super) fn read(&mut self, step: &Step, sum: f64) -> Result<Option<f64>> {
        if step.n_all == 0 {
            return Ok(None);
        }
        let loss = sum / step.n_all as f64;
        self.count(loss, step.n_all as f64);
        let mut values = vec![("loss", loss), ("lr", step.rate)];
        if self.ranks.world_size > 1 {
            values.push(("synchronising", step.synchronising));
        }
        self.log_at(step.number, step.epoch, &values)?;
        Ok(Some(loss))
    }
}

#[cfg(test)]
mod tests {
    use gular_runtime::torch::Place;
    use tch::Tensor;

    use super::*;

    #[test]
    fn each_loss_is_read_once_and_so_many_steps_late() {
        for late in [0, 1, 3] {
            let mut losses = Losses::new(late);
            for number in 1..=6_usize {
                let mean = Place::cpu().fetch(&Tensor::from(number as f64)).unwrap();
                let step = Step {
                    number: number as u64,
                    epoch: 0,
                    rate: 0.1,
                    mean: Some(mean),
                    n_own: 2,
                    n_all: 2,
                    synchronising: 0.0,
                };
                let due = losses.due(&step).unwrap();
                let read = losses.done(step).map(|step| step.number);
                let expected = number.checked_sub(late).filter(|n| *n > 0);
                assert_eq!(due, expected.map_or(0.0, |n| 2.0 * n as f64), "{late} {number}");
                assert_eq!(read, expected.map(|n| n as u64), "{late} {number}");
            }
            assert_eq!(losses.is_empty(), late == 0);
        }
    }
}
