//! Measures how good the network is on samples that it was not trained on.

use std::io::Write as _;

use anyhow::Result;
use gular_runtime::torch::Feed;
use gular_runtime::{Error, LoaderError};
use tch::{Kind, no_grad};

use super::End;
use super::training::Training;
use crate::progress::say;

impl Training<'_> {
    /// Loss and accuracy on the validation split, if it has samples. Stopped, it
    /// saves the end of the epoch; the next run begins with this again.
    pub(super) fn evaluate(&mut self, val: &mut Feed, epoch: u64) -> Result<End> {
        let (mut sum, mut right, mut n) = (0.0, 0.0, 0.0);
        // Each rank has a part of the samples, and all must use the same network.
        self.parallel.share_buffers(&mut self.store)?;
        // Always the same epoch, so the same order and the same sums.
        let mut batches = self.parallel.epoch(val, 0)?;
        for batch in batches.by_ref() {
            if self.is_stopping() {
                break;
            }
            let batch = match batch {
                Ok(batch) => batch,
                Err(Error::Loader(LoaderError::Stopped)) => break,
                Err(error) => return Err(error.into()),
            };
            if batch.n_labelled == 0 {
                continue;
            }
            no_grad(|| {
                let scores = self.net.forward(&batch.images, false);
                let len = batch.n_labelled as f64;
                sum += scores.cross_entropy_for_logits(&batch.labels).double_value(&[]) * len;
                let hits = scores.argmax(1, false).eq_tensor(&batch.labels);
                right += hits.sum(Kind::Float).double_value(&[]);
                n += len;
            });
        }
        let end = batches.state().clone();
        drop(batches);
        let mut sums = [sum, right, n, f64::from(u8::from(self.stop.requested()))];
        self.parallel.sum(&mut sums)?;
        let [sum, right, n, stops] = sums;
        if stops > 0.0 {
            return self.stopped("while validating after");
        }
        if n == 0.0 {
            return Ok(End::Done);
        }
        let (loss, accuracy) = (sum / n, right / n);
        if let Some(delivered) = self.delivered(val, &end)? {
            let percent = 100.0 * accuracy;
            say!("epoch {}: val loss {loss:.3}, accuracy {percent:.1} %: {delivered}", epoch + 1);
        }
        self.state.figures.insert("val_loss".into(), loss);
        self.state.figures.insert("val_accuracy".into(), accuracy);
        let best = self.state.figures.get("best_val_accuracy");
        self.is_best = best.is_none_or(|best| accuracy > *best);
        if self.is_best {
            self.state.figures.insert("best_val_accuracy".into(), accuracy);
        }
        self.log(epoch, &[("val_loss", loss), ("val_accuracy", accuracy)])?;
        Ok(End::Done)
    }
}
