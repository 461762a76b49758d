//! Why shards could not be written.

use std::io;

use gular_bundle::Digest;
use gular_files::Size;

use super::Part;
use crate::facts::{RunError, counted, room_error};
use crate::plan::PlanError;

/// Why shards could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// What can end a run at any step.
    #[error(transparent)]
    Run(RunError),
    /// Why a plan cannot be made.
    #[error(transparent)]
    Plan(PlanError),
    /// The file system became full while packing.
    #[error(
        "{}: {source}. {} {} more are needed{}",
        out_of_space(source), about(*files), Size(*needed), left(source, *free)
    )]
    Full {
        /// Bytes that the unfinished shards need.
        needed: u64,
        /// Bytes free now, without the unfinished files.
        free: u64,
        /// The number of files that can still be created, which can run out before bytes do.
        files: u64,
        /// The writer's error.
        source: Box<gular_bundle::Error>,
    },
    /// The folder already contains a bundle.
    #[error("`{path}` already holds bundle {digest}")]
    AlreadyBundle {
        /// The folder.
        path: String,
        /// The bundle in it.
        digest: Digest,
    },
    /// The folder contains other files.
    #[error(
        "the folder `{path}` is not empty, and does not hold an interrupted run: it contains `{found}`"
    )]
    NotEmpty {
        /// The folder.
        path: String,
        /// A file in the folder.
        found: String,
    },
    /// An interrupted run from another source or with other options.
    #[error(
        "`{path}` holds an interrupted run from another source or with other options (that run: {found}, this run: {expected})"
    )]
    OtherPlan {
        /// The folder.
        path: String,
        /// The present plan's digest, or the present source.
        expected: String,
        /// The settings of the run in the folder.
        found: String,
    },
    /// A folder that is not a finished part.
    #[error("`{path}` is not a finished part of a bundle: {reason}")]
    BadPart {
        /// The folder, or its `part.json`.
        path: String,
        /// Why it is not one.
        reason: String,
    },
    /// The folder holds a finished part, not a place for something else.
    #[error("`{path}` already holds part {part} of a pack")]
    AlreadyPart {
        /// The folder.
        path: String,
        /// The part in it.
        part: Part,
    },
    /// An interrupted run of another part, or of the whole.
    #[error("`{path}` holds an interrupted run that packed {found}; this run packs {expected}")]
    OtherPart {
        /// The folder.
        path: String,
        /// `part i/N`, or `all parts`.
        expected: String,
        /// The part of the run in the folder.
        found: String,
    },
    /// Another process is packing into this folder.
    #[error("another process is writing into `{0}`")]
    Busy(String),
    /// The caller asked to stop while shards were written; the next run continues there.
    #[error("stopped; {done} of {total} shards in `{path}` are finished and kept")]
    Unfinished {
        /// The output folder.
        path: String,
        /// Number of finished shards.
        done: usize,
        /// The number of all shards.
        total: usize,
    },
}

room_error!(ShardError, PlanError as Plan(Run));

/// Whether a quota ended the write: the disk may have space then.
fn is_quota(source: &gular_bundle::Error) -> bool {
    matches!(source, gular_bundle::Error::Io(error) if error.kind() == io::ErrorKind::QuotaExceeded)
}

fn out_of_space(source: &gular_bundle::Error) -> &'static str {
    if is_quota(source) { "your quota on this file system is used up" } else { "the disk is full" }
}

fn left(source: &gular_bundle::Error, free: u64) -> String {
    if is_quota(source) { String::new() } else { format!(", and {} are free", Size(free)) }
}

/// So few files that can still be created may be what is short, and not bytes.
pub const FEW_FILES: u64 = 10_000;

/// Begins a sentence about bytes; says before how many files can still be created, if that may be
/// what is short.
fn about(files: u64) -> String {
    if files >= FEW_FILES {
        return "About".to_owned();
    }
    let more = counted(files, "more file", "more files");
    format!("The limit on the number of files allows only {more}. Apart from that, about")
}
