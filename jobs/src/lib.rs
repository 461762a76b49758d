//! Reads, checks and writes the files of batch systems: HTCondor's submit files, DAGMan's graphs,
//! Slurm's scripts.
//!
//! [`lint::lint`] finds the traps that only show hours after a job was submitted, each with
//! its line, its reason and its repair. Nothing here runs a job or opens a socket, and files
//! are read through [`Disk`]. What each trap does: `docs/jobs.md`.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::indexing_slicing, reason = "tests may panic"))]

mod dag;
mod difference;
mod disk;
mod file_kind;
mod finding;
#[doc(hidden)]
pub mod fuzzing;
mod lines;
pub mod lint;
pub mod measure;
pub mod nodes;
pub mod plan;
mod repair;
pub mod rules;
mod sbatch;
mod script;
mod severity;
mod spelling;
mod submit;
pub mod translate;
mod units;
pub mod why;
pub mod write;

pub use difference::difference;
pub use disk::{Disk, LocalDisk};
pub use finding::{Edit, JobFinding};
pub use repair::repair;
pub use script::python::imports;
pub use severity::Severity;
