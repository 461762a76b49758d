//! The loader, as the package drives it.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gular_runtime::order::{EpochOrder, LoaderState, OrderKind, OrderSpec, Tally};
use gular_runtime::{
    Bundle, Env, Error, LoaderOptions, LoaderPlan, LoaderSettings, Mix, Phase, Predicate, Ranks,
    Turns, Watch, has_splits, open_bundle,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::json;

use crate::array::{Array, Part, parts};
use crate::error::{named, raise, raise_in_training, raise_of_bytes};
use crate::exit::detached;
use crate::function_channels::Channels;
use crate::parse_options;
use crate::process_local::ProcessLocal;
use crate::selection::{Asked, Keys, Unmet};
use crate::streams;
use crate::wait::{Event, Finish, LOOK, Making, Waits, asking};

/// The loader of one split, in the process that made it.
#[pyclass(frozen, module = "gular._gular")]
pub(crate) struct Loader {
    loader: ProcessLocal<Mutex<gular_runtime::Loader>>,
    /// What the loader waits for while shards are fetched.
    waits: Waits,
    source: String,
    permuted: bool,
    labelled: bool,
}

#[pymethods]
impl Loader {
    /// Begins to make a loader: opens the bundle, fetching it first where it is a URL whose shards
    /// are not to come as they are needed, and starts the threads. `asks`: whether the samples that
    /// are used are asked for; `channels`: to the user's function of each sample.
    #[staticmethod]
    fn make(
        py: Python<'_>,
        settings: &str,
        asks: bool,
        channels: Option<&Channels>,
    ) -> PyResult<Making> {
        let settings: LoaderSettings = parse_options::parse(py, settings)?;
        let each = channels.map(Channels::each);
        let (permuted, unchosen) = (settings.permuted(), settings.unchosen());
        let source = settings.source.clone();
        Ok(Making::start(move |watch, events| {
            let only = asks.then(|| asking(events));
            let Prepared { bundle, mut options, waits, asked } =
                Prepared::open(settings, only, watch)?;
            options.each = each;
            let n_samples = bundle.n_samples(options.split);
            let options = options.fitted(&bundle, unchosen, watch.cancel)?;
            let loader = gular_runtime::Loader::new(bundle, options)?;
            let unmet = asked.unmet(n_samples - loader.n_left_out(), n_samples);
            let labelled = loader.bundle().manifest().has_labels();
            let loader = ProcessLocal::new(Mutex::new(loader));
            Ok(finished(unmet, move || Self { loader, waits, source, permuted, labelled }))
        }))
    }

    /// Begins `epoch` on this rank; where the state restored last left off, if it is of this epoch.
    /// `turns`: the first step to make, and how many loaders make steps in turns.
    fn begin(
        &self,
        py: Python<'_>,
        epoch: u64,
        seat: (u64, u64),
        turns: (u64, u64),
    ) -> PyResult<()> {
        let loader = self.loader(py)?;
        let ((rank, world_size), (first, of)) = (seat, turns);
        let begun = detached(py, || {
            let mut loader = lock(loader);
            loader.set_ranks(rank, world_size)?;
            loader.set_turns(Turns { first, of });
            loader.begin(epoch);
            Ok(())
        });
        begun.map_err(|error| raise(py, &error))
    }

    /// The next batch as a dictionary of its fields; `None` after the last. Where it has not come
    /// within a moment: what is waited for, or an empty text.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let loader = self.loader(py)?;
        let taken = detached(py, || {
            let mut loader = lock(loader);
            loader.wait(LOOK).then(|| loader.next_batch())
        });
        let Some(taken) = taken else {
            let line = self.waits.now().unwrap_or_default();
            return Ok(Some(PyString::new(py, &gular_runtime::mask(&line)).into_any()));
        };
        let raise = |error| raise_of_bytes(py, &self.source, &error, raise_in_training);
        let Some(batch) = taken.transpose().map_err(raise)? else { return Ok(None) };
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
        Ok(Some(made.into_any()))
    }

    /// Ends the epoch under way.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        let loader = self.loader(py)?;
        detached(py, || lock(loader).leave());
        Ok(())
    }

    /// Where the training stands, as JSON.
    fn state(&self, py: Python<'_>) -> PyResult<String> {
        let loader = self.loader(py)?;
        let state = detached(py, || lock(loader).state());
        Ok(json!(state).to_string())
    }

    /// Goes to where `state` was taken, on this rank, and says in which epoch that is and whether it
    /// is over.
    fn restore(&self, py: Python<'_>, state: &str, seat: (u64, u64)) -> PyResult<(u64, bool)> {
        let loader = self.loader(py)?;
        let (rank, world_size) = seat;
        let state = parse_state(py, state)?;
        let restored = detached(py, || {
            let mut loader = lock(loader);
            loader.set_ranks(rank, world_size)?;
            loader.restore(&state)?;
            Ok((state.epoch, state.consumed >= loader.n_positions()))
        });
        restored.map_err(|error| raise(py, &error))
    }

    /// Compares what was delivered, as `state` says it, with the order; in words.
    fn check_delivered(&self, py: Python<'_>, state: &str) -> PyResult<String> {
        let loader = self.loader(py)?;
        let state = parse_state(py, state)?;
        let delivered = detached(py, || lock(loader).check_delivered(&state));
        delivered.map(|found| found.to_string()).map_err(|error| raise(py, &error))
    }

    /// Steps of a whole epoch on that many ranks.
    fn n_steps(&self, py: Python<'_>, world_size: u64) -> PyResult<u64> {
        let loader = self.loader(py)?;
        Ok(detached(py, || lock(loader).n_steps_among(world_size)))
    }

    /// What is known of the bundle and the loader, as JSON.
    fn about(&self, py: Python<'_>) -> PyResult<String> {
        let loader = self.loader(py)?;
        let about = detached(py, || {
            let loader = lock(loader);
            let (options, bundle) = (loader.options(), loader.bundle());
            let manifest = bundle.manifest();
            json!({
                "digest": bundle.digest(),
                "folder": bundle.dir(),
                "classes": manifest.classes,
                "fields": manifest.fields,
                "left_behind": loader.left_behind(),
                "n_samples": bundle.n_samples(options.split) - loader.n_left_out(),
                "workers": loader.stats().threads,
            })
        });
        Ok(about.to_string())
    }

    /// Sums since the loader was made, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        let loader = self.loader(py)?;
        let (stats, fitted, repaired) = detached(py, || {
            let loader = lock(loader);
            let repaired: BTreeMap<_, _> = loader.bundle().mended().into_iter().collect();
            (loader.stats(), loader.fitted(), repaired)
        });
        let seconds = |phase| stats.of(phase).as_secs_f64();
        let stats = json!({
            "batches": stats.batches,
            "samples": stats.images,
            "skipped": stats.skipped,
            "repaired_blocks": repaired,
            "unlabelled": stats.unlabelled,
            "bytes": stats.bytes,
            "elapsed": stats.elapsed.as_secs_f64(),
            "read": seconds(Phase::Read),
            "check": seconds(Phase::Check),
            "decode": seconds(Phase::Decode),
            "each": seconds(Phase::Each),
            "wait_for_slot": seconds(Phase::WaitForSlot),
            "wait_for_batch": seconds(Phase::WaitForBatch),
            "waiting_for": self.waits.now(),
            "bottleneck": stats.bottleneck(),
            "fitted": fitted,
        });
        Ok(stats.to_string())
    }
}

impl Loader {
    /// Returns the loader, in the process that has its threads.
    fn loader(&self, py: Python<'_>) -> PyResult<&Mutex<gular_runtime::Loader>> {
        if self.loader.is_own() {
            return Ok(&self.loader);
        }
        let what =
            "this DataLoader was made before a fork, and the new process does not have its threads";
        let hint = "make the DataLoader in the process that uses it, or start that process with \
            `spawn`; the DataLoader has its own threads and needs no worker processes";
        Err(named(py, "ForkError", what, Some(hint), None))
    }
}

fn lock(loader: &Mutex<gular_runtime::Loader>) -> MutexGuard<'_, gular_runtime::Loader> {
    loader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bundle, and everything that its loader is made of.
struct Prepared {
    bundle: Arc<Bundle>,
    options: LoaderOptions,
    /// What the loader will wait for while shards are fetched.
    waits: Waits,
    asked: Asked,
}

impl Prepared {
    /// Opens the bundle.
    ///
    /// # Errors
    /// [`gular_runtime::TransferError::NoSplit`], and those of [`open_bundle`].
    fn open(
        mut settings: LoaderSettings,
        only: Option<Predicate>,
        watch: Watch<'_>,
    ) -> Result<Self, Error> {
        let env = Env::process();
        let (source, options) = (settings.source.clone(), settings.bundle()?);
        let found = streams::shared(&source, &options)?;
        let (bundle, waits) = match found {
            Some(stream) => (stream.bundle, stream.waits),
            None if settings.is_streamed() => {
                let stream = streams::open(&source, options, &env, watch)?;
                (stream.bundle, stream.waits)
            }
            None => {
                let opened = open_bundle(&source, &options, &env, watch)?;
                (Arc::new(opened.bundle), Waits::default())
            }
        };
        has_splits(bundle.manifest(), &[settings.split])?;
        let asked = Asked::of(&mut settings, only.is_some());
        let only = only.or_else(|| asked.keys.as_ref().map(Keys::predicate));
        let options = settings.loader(&env, only)?;
        Ok(Self { bundle, options, waits, asked })
    }
}

/// Makes the object, unless no sample is what the user asked for.
fn finished(unmet: Option<Unmet>, make: impl FnOnce() -> Loader + Send + 'static) -> Finish {
    Box::new(move |py| match unmet {
        Some(unmet) => Err(unmet.raise(py)),
        None => Ok(Py::new(py, make())?.into_any()),
    })
}

/// Begins to count the steps of an epoch of such a loader, which is not made.
#[pyfunction]
pub(crate) fn n_steps(py: Python<'_>, settings: &str, asks: bool) -> PyResult<Making> {
    let settings: LoaderSettings = parse_options::parse(py, settings)?;
    Ok(Making::start(move |watch, events: &Sender<Event<Finish>>| {
        let only = asks.then(|| asking(events));
        let Prepared { bundle, options, asked, .. } = Prepared::open(settings, only, watch)?;
        let plan = LoaderPlan::new(Arc::clone(&bundle), options.clone())?;
        let n_steps = plan.n_steps();
        // With `drop_last` there may be samples that do not make a step.
        let n_at_least = n_steps.max(u64::from(options.order.drop_last));
        let unmet = asked.unmet(n_at_least, bundle.n_samples(options.split));
        Ok(Box::new(move |py: Python<'_>| match unmet {
            Some(unmet) => Err(unmet.raise(py)),
            None => Ok(n_steps.into_pyobject(py)?.into_any().unbind()),
        }) as Finish)
    }))
}

/// Rank and world size, as the launcher of this process says, and which launcher that is.
#[pyfunction]
pub(crate) fn ranks(py: Python<'_>) -> PyResult<(u64, u64, &'static str)> {
    let found = Ranks::discover(None, &Env::process()).map_err(|error| raise(py, &error))?;
    Ok((found.rank, found.world_size, found.source.name()))
}

/// The samples at `positions` of an epoch of order `elastic`, of `n` samples.
#[pyfunction]
pub(crate) fn elastic(n: u64, seed: u64, epoch: u64, positions: Vec<u64>) -> Vec<u64> {
    let order = OrderSpec { kind: OrderKind::Elastic, seed, drop_last: false };
    let order = EpochOrder::new(&order, &[n], epoch, 1);
    positions.into_iter().filter_map(|position| order.sample_at(position)).collect()
}

/// Which of several loaders with these weights step `step` of a mix takes its batch from.
#[pyfunction]
pub(crate) fn mixed(py: Python<'_>, weights: Vec<u32>, seed: u64, step: u64) -> PyResult<usize> {
    Mix::drawn(weights.into_iter(), seed, step).map_err(|error| raise(py, &error))
}

fn parse_state(py: Python<'_>, text: &str) -> PyResult<LoaderState> {
    serde_json::from_str(text).map_err(|error| {
        let error = error.to_string();
        let what = format!("this is not the state of a loader: {}", parse_options::reason(&error));
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
        return Err(named(py, "StateError", "no state to merge was given", None, None));
    };
    for state in states {
        let differs = state.check(&merged).map_err(|error| raise(py, &error.into()));
        differs?;
        if (state.epoch, state.consumed) != (merged.epoch, merged.consumed) {
            let what = format!(
                "the states are of different steps: epoch {} after {} samples, and epoch {} after {}",
                merged.epoch, merged.consumed, state.epoch, state.consumed
            );
            let hint = "save the states of all ranks after the same step";
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
