//! `train`: a whole training run, which can be stopped and resumed at any time.
//!
//! To be read in this order: [`run`] sets up, `training.rs` is what it is from beginning to end,
//! `epoch.rs` the loop.

mod checkpoint;
mod epoch;
mod feeds;
mod figures;
mod losses;
mod start_and_end;
mod training;
mod validate;

pub(crate) use start_and_end::{End, run};
