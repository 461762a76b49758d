//! The loader, as the package drives it.

use std::mem::ManuallyDrop;
use std::process;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gular_runtime::order::{LoaderState, Tally};
use gular_runtime::{Env, Error, Normalise, Phase, Watch, open_bundle};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::array::{Array, Part, parts};
use crate::error::{named, raise};
use crate::settings::Settings;
use crate::wait::{LOOK, opened};

/// The loader of one split, in the process that made it.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct Loader {
    loader: ManuallyDrop<Mutex<gular_runtime::Loader>>,
    pid: u32,
    permuted: bool,
    labelled: bool,
}

impl Drop for Loader {
    fn drop(&mut self) {
        // A forked process has none of the threads that this would wait for.
        if self.pid == process::id() {
            // SAFETY: once, here.
            #[expect(unsafe_code, reason = "in a forked process the loader is not dropped")]
            unsafe {
                ManuallyDrop::drop(&mut self.loader);
            }
        }
    }
}

#[pymethods]
impl Loader {
    /// Opens the bundle, fetching it first where it is a URL, and starts the threads.
    #[new]
    fn new(py: Python<'_>, settings: &str) -> PyResult<Self> {
        let settings = Settings::parse(settings).map_err(|error| raise(py, &error))?;
        let permuted = settings.permuted();
        let loader = opened(py, |cancel| open(settings, cancel))?;
        let labelled = loader.bundle().manifest().has_labels();
        let loader = ManuallyDrop::new(Mutex::new(loader));
        Ok(Self { loader, pid: process::id(), permuted, labelled })
    }

    /// Begins `epoch`; where the state restored last left off, if it is of this epoch.
    fn begin(&self, py: Python<'_>, epoch: u64) -> PyResult<()> {
        let loader = self.loader(py)?;
        py.detach(|| lock(loader).begin(epoch));
        Ok(())
    }

    /// The next batch as a dictionary of its fields; `None` after the last.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let loader = self.loader(py)?;
        let taken = loop {
            let taken = py.detach(|| {
                let mut loader = lock(loader);
                loader.wait(LOOK).then(|| loader.next_batch())
            });
            if let Some(taken) = taken {
                break taken;
            }
            py.check_signals()?;
        };
        let Some(batch) = taken.transpose().map_err(|error| raise(py, &error))? else {
            return Ok(None);
        };
        let keys = batch.keys().to_vec();
        let made = PyDict::new(py);
        for (name, part) in parts(batch, self.permuted, self.labelled) {
            match part {
                Part::Numbers(column) => made.set_item(name, Bound::new(py, Array(column))?)?,
                Part::Bytes(values) => {
                    let values: Vec<_> =
                        values.iter().map(|value| pyo3::types::PyBytes::new(py, value)).collect();
                    made.set_item(name, values)?;
                }
            }
        }
        made.set_item("key", keys)?;
        Ok(Some(made))
    }

    /// Ends the epoch under way.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        let loader = self.loader(py)?;
        py.detach(|| lock(loader).leave());
        Ok(())
    }

    /// Where the training stands, as JSON.
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        let loader = self.loader(py)?;
        let state = py.detach(|| lock(loader).state());
        Ok(json!(state).to_string())
    }

    /// Goes to where `state` was taken, and says in which epoch that is and whether it is over.
    fn restore(&self, py: Python<'_>, state: &str) -> PyResult<(u64, bool)> {
        let loader = self.loader(py)?;
        let state = parse_state(py, state)?;
        let restored = py.detach(|| {
            let mut loader = lock(loader);
            loader.restore(&state).map(|()| state.consumed >= loader.n_positions())
        });
        Ok((state.epoch, restored.map_err(|error| raise(py, &error))?))
    }

    /// Compares what was delivered, as `state` says it, with the order; in words.
    fn check_delivered(&self, py: Python<'_>, state: &str) -> PyResult<String> {
        let loader = self.loader(py)?;
        let state = parse_state(py, state)?;
        let delivered = py.detach(|| lock(loader).check_delivered(&state));
        delivered.map(|found| found.to_string()).map_err(|error| raise(py, &error))
    }

    /// Steps of a whole epoch.
    fn n_steps(&self, py: Python<'_>) -> PyResult<u64> {
        let loader = self.loader(py)?;
        Ok(py.detach(|| lock(loader).n_steps()))
    }

    /// What is known of the bundle and the loader, as JSON.
    fn about(&self, py: Python<'_>) -> PyResult<String> {
        let loader = self.loader(py)?;
        let about = py.detach(|| {
            let loader = lock(loader);
            let (options, bundle) = (loader.options(), loader.bundle());
            let manifest = bundle.manifest();
            json!({
                "digest": bundle.digest(),
                "folder": bundle.dir(),
                "classes": manifest.classes,
                "fields": manifest.fields,
                "n_samples": bundle.n_samples(options.split) - loader.n_left_out(),
                "rank": options.rank,
                "world_size": options.world_size,
                "workers": loader.stats().threads,
            })
        });
        Ok(about.to_string())
    }

    /// Sums since the loader was made, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        let loader = self.loader(py)?;
        let stats = py.detach(|| lock(loader).stats());
        let seconds = |phase| stats.of(phase).as_secs_f64();
        let stats = json!({
            "batches": stats.batches,
            "samples": stats.images,
            "skipped": stats.skipped,
            "unlabelled": stats.unlabelled,
            "bytes": stats.bytes,
            "elapsed": stats.elapsed.as_secs_f64(),
            "read": seconds(Phase::Read),
            "check": seconds(Phase::Check),
            "decode": seconds(Phase::Decode),
            "wait_for_slot": seconds(Phase::WaitForSlot),
            "wait_for_batch": seconds(Phase::WaitForBatch),
            "bottleneck": stats.bottleneck(),
        });
        Ok(stats.to_string())
    }
}

impl Loader {
    /// The loader, in the process that has its threads.
    fn loader(&self, py: Python<'_>) -> PyResult<&Mutex<gular_runtime::Loader>> {
        if self.pid == process::id() {
            return Ok(&self.loader);
        }
        let what = "this DataLoader was made before a fork, and its threads stayed behind";
        let hint = "make the DataLoader in the process that uses it, or start that process by \
                    `spawn`: it reads with threads of its own and needs no worker processes";
        Err(named(py, "ForkError", what, Some(hint), None))
    }
}

fn lock(loader: &Mutex<gular_runtime::Loader>) -> MutexGuard<'_, gular_runtime::Loader> {
    loader.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(settings: Settings, cancel: &AtomicBool) -> Result<gular_runtime::Loader, Error> {
    let env = Env::process();
    let ranks = settings.ranks(&env)?;
    let opened = open_bundle(&settings.source, &settings.bundle(), &env, Watch::silent(cancel))?;
    let bundle = Arc::new(opened.bundle);
    let options = settings.loader(&ranks, || Normalise::of_manifest(bundle.manifest()))?;
    gular_runtime::Loader::new(Arc::clone(&bundle), options)
}

fn parse_state(py: Python<'_>, text: &str) -> PyResult<LoaderState> {
    serde_json::from_str(text).map_err(|error| {
        let what = format!("this is not the state of a loader: {error}");
        let hint = "pass what `state_dict()` of a gular.DataLoader returned";
        named(py, "StateError", &what, Some(hint), None)
    })
}

/// One state of those that the ranks have at the same step: with what all of them delivered.
#[pyfunction]
pub(crate) fn merge_states(py: Python<'_>, states: Vec<String>) -> PyResult<String> {
    let states: Vec<LoaderState> =
        states.into_iter().map(|text| parse_state(py, &text)).collect::<PyResult<_>>()?;
    let mut states = states.into_iter();
    let Some(mut merged) = states.next() else {
        return Err(named(py, "StateError", "there is no state to merge", None, None));
    };
    for state in states {
        let differs = state.check(&merged).map_err(|error| raise(py, &error.into()));
        differs?;
        if (state.epoch, state.consumed) != (merged.epoch, merged.consumed) {
            let what = format!(
                "the ranks are at different steps: epoch {} after {} samples, and epoch {} after {}",
                merged.epoch, merged.consumed, state.epoch, state.consumed
            );
            let hint = "take the states of all ranks after the same step";
            return Err(named(py, "StateError", &what, Some(hint), None));
        }
        merged.tally = match (merged.tally.take(), &state.tally) {
            (Some(mut sum), Some(other)) => {
                Tally::join(&mut sum, other);
                Some(sum)
            }
            _ => None,
        };
    }
    Ok(json!(merged).to_string())
}
