//! Metrics of a training run: JSON Lines for everything, event files for TensorBoard.
//!
//! ```text
//! DIR/metrics.jsonl                                 one object a line, one course of training
//! DIR/metrics.1.jsonl                               an earlier training in the same folder
//! DIR/events.out.tfevents.SECONDS.HOST.PID.0        one for each start of the program
//! ```
//!
//! One process writes: rank 0. The wall clock is in both files, so they are no
//! part of what is reproducible.

mod append;
mod jsonl;
mod tensorboard;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use jsonl::Jsonl;
pub use jsonl::METRICS_NAME;
use tensorboard::EventFile;

use crate::Error;

/// Writes each metric to `metrics.jsonl` and to a TensorBoard event file.
#[derive(Debug)]
pub struct Metrics {
    jsonl: Jsonl,
    events: EventFile,
}

impl Metrics {
    /// Opens the metrics in `dir`, which is created when it is not there.
    ///
    /// `resume_step` is the checkpoint's step, the last one whose metrics
    /// stay: later lines are cut off, and TensorBoard is told to forget later
    /// points. `None` begins from scratch: an existing `metrics.jsonl` is moved
    /// aside, to `metrics.1.jsonl` or the next free number.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(dir: &Path, resume_step: Option<u64>) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(|e| Error::io("create the folder", dir, e))?;
        let jsonl = Jsonl::open(dir, resume_step)?;
        let first_step = resume_step.map_or(0, |step| step.saturating_add(1));
        let events = EventFile::create(dir, wall(), first_step)?;
        Ok(Self { jsonl, events })
    }

    /// Writes `values` (name, value) for `step`, the number of steps done.
    ///
    /// Both files contain them when this returns. For the step at which the run resumed, names that
    /// the run before has logged are not logged again. A value that is not a number is written as
    /// `"NaN"`, `"Infinity"` or `"-Infinity"` in the JSON; TensorBoard's points are `f32`, rounded
    /// from `f64`.
    ///
    /// # Errors
    /// [`Error::MetricName`] for a name that is empty, given twice, `step`, `epoch` or `wall`;
    /// [`Error::Io`], after which no incomplete line or record is left.
    pub fn log(&mut self, step: u64, epoch: u64, values: &[(&str, f64)]) -> Result<(), Error> {
        check_names(values)?;
        let wall = wall();
        if self.jsonl.append(step, epoch, wall, values)? {
            self.events.append(step, wall, values)?;
        }
        Ok(())
    }
}

fn check_names(values: &[(&str, f64)]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (name, _) in values {
        let reason = match *name {
            "" => "it is empty",
            "step" | "epoch" | "wall" => "every line already has a value with this name",
            name if !seen.insert(name) => "it is given twice",
            _ => continue,
        };
        return Err(Error::MetricName { name: (*name).into(), reason });
    }
    Ok(())
}

/// Returns the time in seconds since 1970.
fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
