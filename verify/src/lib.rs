//! Checks a bundle, and reports every fault.
//!
//! ```text
//! manifest ─▶ each index: length, digest, structure ─▶ each shard: length
//!                                                         │ full: every 1 MiB block
//!                                                         └ sample: some samples
//! ```
//!
//! A published bundle is read as a stream and not stored; a local one is read where it is.
//!
//! Faults are values, and all of them are collected: a report that stopped at the first fault would
//! have to be made again after each repair.

#![forbid(unsafe_code)]

mod digest;
mod error;
mod notes;
mod options;
mod published;
mod samples;
mod shard;
mod verify_report;
mod walk;

pub use error::Error;
pub use options::{Mode, VerifyOptions};
pub use published::verify_url;
pub use verify_report::{ByteRange, Detection, Fault, FaultKind, VerifyReport};
pub use walk::verify;
