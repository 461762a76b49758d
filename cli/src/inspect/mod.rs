//! `gular inspect`.

mod args;
mod bundle;
mod describe;
mod file;
mod files_here;
mod letters;
mod page;
mod pairs;
mod recognise;
mod samples;
mod sheet;
mod stored;

pub(crate) use args::InspectArgs;
pub(crate) use recognise::run;
