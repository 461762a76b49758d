//! Inside the training job: orders, loader, tensors, checkpoints, metrics.

pub mod checkpoint;
mod error;
pub mod order;

pub use error::Error;
