//! Inside the training job: orders, loader, tensors, checkpoints, metrics.

pub mod checkpoint;
mod error;
pub mod metrics;
pub mod order;
mod stop;

pub use error::Error;
pub use stop::{EXIT_CHECKPOINTED, StopFlag};
