//! `train`: a whole training run, which can be stopped and resumed at any time.
//!
//! Read it in this order: [`run`] sets up, `training.rs` is the run from beginning to end, and
//! `epoch.rs` is the loop.

mod checkpoint;
mod epoch;
mod feeds;
mod figures;
mod losses;
mod training;
mod training_run;
mod validate;

pub(crate) use training_run::{End, run};
