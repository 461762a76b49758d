//! `gular inspect`.

mod bundle;
mod describe;
mod file;
mod run;
mod samples;
mod sheet;

pub(crate) use run::run;
