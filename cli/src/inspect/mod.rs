//! `gular inspect`.

mod args;
mod bundle;
mod describe;
mod file;
mod here;
mod letters;
mod page;
mod pairs;
mod run;
mod samples;
mod sheet;

pub(crate) use args::InspectArgs;
pub(crate) use run::run;
