//! Inside the training job: orders, loader, tensors, checkpoints, metrics.

pub mod checkpoint;
mod error;
pub mod metrics;
pub mod order;
mod rank;
mod stop;

pub use error::Error;
pub use rank::{Env, RankSource, Ranks, available_cores};
pub use stop::{EXIT_CHECKPOINTED, StopFlag};
