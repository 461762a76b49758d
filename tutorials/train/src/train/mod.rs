//! `train`: a whole training, to be stopped and resumed at any time.
//!
//! To be read in this order: [`run`] sets up, `training.rs` is what it is from beginning to end,
//! `epoch.rs` the loop.

mod checkpoint;
mod epoch;
mod feeds;
mod figures;
mod losses;
mod run;
mod training;
mod validate;

pub(crate) use run::{End, run};
