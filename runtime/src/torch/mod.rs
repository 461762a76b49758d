//! The parts that need libtorch: tensors, optimisers whose state can be saved, whole training runs.
//!
//! All code that depends on a release of `tch` is here; it compiles with tch 0.20 (libtorch 2.7.0)
//! and 0.24 (libtorch 2.11.0).

mod autocast;
mod buckets;
mod compute;
#[cfg(feature = "cuda")]
mod device;
mod device_number;
#[cfg(any(test, feature = "cuda"))]
mod distinct_gpus;
mod feed;
mod foreign;
mod lend;
mod machine;
#[cfg(feature = "cuda")]
mod numbers;
mod optimiser;
mod parallel;
mod saver;
mod spread;
mod training;
mod weights;
mod weights_file;

pub use crate::tensor_options::{Convert, FeedOptions, Pin, Slots};
pub use crate::{AxisOrder, Numbers};
pub use autocast::in_bf16;
pub use compute::{Compute, Place};
pub use device_number::Fetched;
pub use feed::{Feed, FeedEpoch, TensorBatch};
pub use machine::Machine;
pub use optimiser::{AdamW, Optimiser, Sgd};
pub use parallel::{Agreed, AllReduce, DataParallel, describe};
pub use saver::{Saved, Saver};
pub use training::{TrainState, load_newest, save, set_step_rng, set_threads};
pub use weights::{load_weights, weights, write_weights, write_weights_about};
pub use weights_file::WeightsFile;
