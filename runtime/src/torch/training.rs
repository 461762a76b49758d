//! The whole state of a training run in a checkpoint: model, optimiser, loader, random numbers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gular_order::{LoaderState, key};
use serde::{Deserialize, Serialize};
use tch::Tensor;
use tch::nn::VarStore;

use super::{Machine, Optimiser, load_weights, weights};
use crate::Error;
use crate::checkpoint::{CheckpointError, Checkpoints, Loaded};

const MODEL: &str = "model.safetensors";
const OPTIMISER: &str = "optimiser.safetensors";
const STATE: &str = "training.json";

/// The contents of a checkpoint besides the tensors.
///
/// The state of torch's random number generator is not in it: with
/// [`set_step_rng`] it follows from `seed` and `step`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainState {
    /// Number of steps since the training run began.
    pub step: u64,
    /// The seed of the training run.
    pub seed: u64,
    /// The state of the loader; it names epoch and bundle.
    pub loader: LoaderState,
    /// The JPEG decoder: another one gives other pixels.
    pub decoder: String,
    /// The machine that it computes on: another one gives other sums. `None` in states of earlier
    /// builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// Sums and figures of the epoch under way, so that its metrics go on.
    #[serde(with = "figures")]
    pub figures: BTreeMap<String, f64>,
}

/// Seeds torch's generators for step `step` on rank `rank`.
///
/// Called before each step, this makes dropout and the like a function of
/// (seed, step, rank): a resumed step draws what the undisturbed one drew, on any
/// device, and no generator's state (5 KB for the CPU, another format for each
/// kind of GPU) has to be read out, which tch cannot do. Use step `u64::MAX`
/// before the weights are drawn, and rank 0 for what all ranks draw alike.
pub fn set_step_rng(seed: u64, step: u64, rank: u64) {
    // Torch takes 64 bits; its CPU generator uses the low 32, which `key` mixes well.
    tch::manual_seed(key(seed, step, u64::MAX - rank) as i64);
}

/// Sets the number of threads that libtorch uses inside one operation on the CPU.
///
/// Sums are split by threads, so the number is part of what makes a training run
/// reproducible. More threads than idle cores are very slow: libgomp's wait in
/// busy loops for the one that lost its core to the loader.
pub fn set_threads(n: usize) {
    tch::set_num_threads(i32::try_from(n.max(1)).unwrap_or(i32::MAX));
}

/// Saves the training after `state.step` steps; returns the checkpoint's folder.
///
/// Tensors go to the file piece by piece: besides the model it needs a few megabytes.
///
/// # Errors
/// Those of [`Checkpoints::write`]; [`Error::Torch`].
pub fn save(
    checkpoints: &Checkpoints,
    state: &TrainState,
    store: &VarStore,
    optimiser: &dyn Optimiser,
) -> Result<PathBuf, Error> {
    let model = store.variables().into_iter().collect();
    write(checkpoints, state, &BTreeMap::new(), &model, &optimiser.tensors())
}

pub(super) fn write(
    checkpoints: &Checkpoints,
    state: &TrainState,
    about: &BTreeMap<String, String>,
    model: &BTreeMap<String, Tensor>,
    optimiser: &BTreeMap<String, Tensor>,
) -> Result<PathBuf, Error> {
    let text = serde_json::to_string_pretty(state);
    let text = text.map_err(|e| Error::Tensors { reason: e.to_string() })? + "\n";
    checkpoints.write(state.step, &[MODEL, OPTIMISER, STATE], |out, name| match name {
        MODEL => weights::write_about(model, about, &mut |piece| out.write(piece)),
        OPTIMISER => weights::write(optimiser, &mut |piece| out.write(piece)),
        _ => out.write(text.as_bytes()),
    })
}

/// Loads the newest sound checkpoint into `store` and `optimiser`; `None` when
/// there is none.
///
/// # Errors
/// Those of [`Checkpoints::load_newest`]; [`CheckpointError::Unfit`] when it is
/// of another model or optimiser.
pub fn load_newest(
    checkpoints: &Checkpoints,
    store: &mut VarStore,
    optimiser: &mut dyn Optimiser,
) -> Result<Option<(TrainState, Loaded)>, Error> {
    let Some(loaded) = checkpoints.load_newest()? else { return Ok(None) };
    let unfit = |file: &str, reason: String| CheckpointError::Unfit {
        path: loaded.path.join(file).display().to_string(),
        reason,
    };
    let file = |name: &str| {
        let bytes = loaded.files.get(name).map(Vec::as_slice);
        bytes.ok_or_else(|| unfit(name, "it has no such file".into()))
    };
    let mut json = serde_json::Deserializer::from_slice(file(STATE)?);
    // The error names the member.
    let state: TrainState =
        serde_path_to_error::deserialize(&mut json).map_err(|e| unfit(STATE, e.to_string()))?;
    json.end().map_err(|e| unfit(STATE, e.to_string()))?;
    load_weights(store, file(MODEL)?).map_err(|e| unfit(MODEL, e.to_string()))?;
    optimiser.restore(file(OPTIMISER)?).map_err(|e| unfit(OPTIMISER, e.to_string()))?;
    Ok(Some((state, loaded)))
}

/// Figures as JSON, which has no number for NaN and infinity: those are texts.
mod figures {
    use std::collections::BTreeMap;

    use serde::de::{self, Visitor};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    struct Figure(f64);

    impl Serialize for Figure {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if self.0.is_finite() {
                serializer.serialize_f64(self.0)
            } else {
                serializer.collect_str(&self.0)
            }
        }
    }

    impl<'de> Deserialize<'de> for Figure {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Either;
            impl Visitor<'_> for Either {
                type Value = Figure;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("a number, or a text such as `NaN`")
                }

                fn visit_f64<E>(self, number: f64) -> Result<Figure, E> {
                    Ok(Figure(number))
                }

                fn visit_u64<E>(self, number: u64) -> Result<Figure, E> {
                    Ok(Figure(number as f64))
                }

                fn visit_i64<E>(self, number: i64) -> Result<Figure, E> {
                    Ok(Figure(number as f64))
                }

                fn visit_str<E: de::Error>(self, text: &str) -> Result<Figure, E> {
                    let unknown = |_| E::invalid_value(de::Unexpected::Str(text), &self);
                    text.parse().map(Figure).map_err(unknown)
                }
            }
            deserializer.deserialize_any(Either)
        }
    }

    pub(super) fn serialize<S: Serializer>(
        figures: &BTreeMap<String, f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(figures.iter().map(|(name, f)| (name, Figure(*f))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, f64>, D::Error> {
        let figures = BTreeMap::<String, Figure>::deserialize(deserializer)?;
        Ok(figures.into_iter().map(|(name, Figure(figure))| (name, figure)).collect())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn figures_that_are_no_numbers_come_back() {
            #[derive(Serialize, Deserialize)]
            struct Held(#[serde(with = "super")] BTreeMap<String, f64>);
            let values = [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.1 + 0.2];
            let held = Held(values.iter().enumerate().map(|(i, f)| (i.to_string(), *f)).collect());
            let json = serde_json::to_string(&held).unwrap();
            let again: Held = serde_json::from_str(&json).unwrap();
            for (a, b) in held.0.values().zip(again.0.values()) {
                assert!(a == b || (a.is_nan() && b.is_nan()), "{json}");
            }
        }

        #[test]
        fn a_figure_that_is_none_is_named() {
            #[derive(Deserialize)]
            struct Held {
                #[serde(with = "super")]
                figures: BTreeMap<String, f64>,
            }
            let read = |json: &str| {
                let mut json = serde_json::Deserializer::from_str(json);
                serde_path_to_error::deserialize::<_, Held>(&mut json).map(|held| held.figures)
            };
            let figures = read(r#"{"figures":{"a":7,"b":-1,"c":"inf"}}"#).unwrap();
            assert_eq!(figures.into_values().collect::<Vec<_>>(), [7.0, -1.0, f64::INFINITY]);
            for (json, found) in [("\"x\"", "\"x\""), ("true", "`true`"), ("null", "null")] {
                let error = read(&format!(r#"{{"figures":{{"loss":{json}}}}}"#)).unwrap_err();
                let said = error.to_string();
                let expected = ["figures.loss: ", found, "a number, or a text such as `NaN`"];
                assert!(expected.iter().all(|word| said.contains(word)), "{said}");
            }
        }
    }
}
