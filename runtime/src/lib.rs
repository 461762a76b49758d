//! Inside the training job: orders, loader, tensors, checkpoints, metrics.

pub mod order;
