//! Inside the training job: orders, loader, tensors, checkpoints, metrics.

pub mod checkpoint;
mod env;
mod error;
pub mod metrics;
pub mod order;
mod rank;
mod stop;

pub use env::Env;
pub use error::Error;
pub use rank::{RankSource, Ranks, available_cores};
pub use stop::{EXIT_CHECKPOINTED, StopFlag};
