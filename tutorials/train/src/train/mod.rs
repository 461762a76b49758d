//! `train`: a whole training run, which can be stopped and resumed at any time.
//!
//! Read it in this order: [`run`] sets up, `training.rs` is the run from beginning to end, and
//! `epoch.rs` is the loop.

mod checkpoint;
mod epoch;
mod feeds;
mod figures;
mod losses;
mod start_and_end;
mod training;
mod validate;

pub(crate) use start_and_end::{End, run};
