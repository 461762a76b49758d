//! Losses and rates, as they are stored and logged.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;
use gular_runtime::{Phase, Stats};

use super::training::{Files, Training};
use crate::progress::say;

impl Training<'_> {
    /// Keeps the figures that a resume must not forget.
    pub(super) fn count(&mut self, loss: f64, n: f64) {
        let figures = &mut self.state.figures;
        figures.entry("loss_first".into()).or_insert(loss);
        for (name, value) in [("images", n), ("epoch_images", n), ("epoch_loss", loss * n)] {
            *figures.entry(name.into()).or_default() += value;
        }
    }

    pub(super) fn finish_epoch(&mut self, epoch: u64, stats: &Stats, took: Duration) -> Result<()> {
        if !self.state.figures.contains_key("epoch_images") {
            // Resumed at the very end of the epoch: all this has been said.
            return Ok(());
        }
        let rate = stats.images as f64 / took.as_secs_f64();
        let mut sums = [rate, stats.unlabelled as f64];
        self.parallel.sum(&mut sums)?;
        let [rate, unlabelled] = sums;
        let mut take = |name: &str| self.state.figures.remove(name).unwrap_or_default();
        let loss = take("epoch_loss") / take("epoch_images").max(1.0);
        self.state.figures.insert("loss_last".into(), loss);
        let waited = stats.of(Phase::WaitForBatch).as_secs_f64() / took.as_secs_f64();
        if self.tells() {
            say!("epoch {}: loss {loss:.3}, {rate:.0} images/s", epoch + 1);
            if unlabelled > 0.0 {
                say!("of them {unlabelled} samples of unknown class, which were ignored");
            }
        }
        self.log(
            epoch,
            &[("epoch_loss", loss), ("images_per_second", rate), ("waited_for_data", waited)],
        )
    }

    pub(super) fn log(&mut self, epoch: u64, values: &[(&str, f64)]) -> Result<()> {
        self.log_at(self.state.step, epoch, values)
    }

    /// Logs values for the time after `step` steps.
    pub(super) fn log_at(&mut self, step: u64, epoch: u64, values: &[(&str, f64)]) -> Result<()> {
        let Some(Files { metrics: Some(metrics), .. }) = &mut self.files else { return Ok(()) };
        Ok(metrics.log(step, epoch, values)?)
    }
}
