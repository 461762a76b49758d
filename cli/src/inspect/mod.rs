//! `gular inspect`.

mod args;
mod bundle;
mod describe;
mod file;
mod files_here;
mod letters;
mod pairs;
mod recognise;
mod samples;
mod sheet;

pub(crate) use args::InspectArgs;
pub(crate) use recognise::{open, run};
