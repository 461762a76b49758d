//! Errors of saving or loading a checkpoint.

use std::io;

use gular_bundle::Digest;

/// What is wrong with a checkpoint, or with the folder of checkpoints.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Another training run has its checkpoints in the folder, and is still running.
    #[error("the checkpoint folder `{dir}` is in use by another training run")]
    InUse {
        /// The folder.
        dir: String,
    },
    /// A checkpoint does not contain what was saved.
    #[error("checkpoint `{path}` is damaged: {reason}")]
    Damaged {
        /// The checkpoint's folder.
        path: String,
        /// The file, and expected against found.
        reason: String,
    },
    /// There are checkpoints, and all of them are damaged.
    #[error("none of the {count} checkpoints in `{dir}` can be loaded: {faults}")]
    NoneSound {
        /// The folder of checkpoints.
        dir: String,
        /// Number of checkpoints that were tried.
        count: usize,
        /// The fault of each one.
        faults: String,
    },
    /// A checkpoint of a later format version.
    #[error(
        "checkpoint `{path}` has format version {found}, but this build reads only versions up to {supported}"
    )]
    TooNew {
        /// The checkpoint's folder.
        path: String,
        /// The checkpoint's version.
        found: u64,
        /// The newest known version.
        supported: u64,
    },
    /// A checkpoint of a training run on another bundle.
    #[error(
        "checkpoint `{path}` was made with the bundle {found}, but this training run reads {expected}"
    )]
    OtherBundle {
        /// The checkpoint's folder.
        path: String,
        /// The bundle of the training run.
        expected: Digest,
        /// The checkpoint's bundle.
        found: Digest,
    },
    /// A sound checkpoint of another model, optimiser or program.
    #[error("checkpoint `{path}` does not match this training run: {reason}")]
    Unfit {
        /// The checkpoint's file.
        path: String,
        /// What differs.
        reason: String,
    },
    /// A name that no file of a checkpoint can have.
    #[error("`{name}` cannot be the name of a file in a checkpoint: {reason}")]
    FileName {
        /// The refused name.
        name: String,
        /// Why it was refused.
        reason: &'static str,
    },
    /// The thread that writes checkpoints beside the training could not be started.
    #[error("cannot start the thread that writes checkpoints: {source}")]
    Thread {
        /// The operating system's reason.
        source: io::Error,
    },
    /// The thread that saves panicked.
    #[error("the thread that writes checkpoints panicked")]
    Panicked,
}

impl CheckpointError {
    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::InUse { .. } => {
                "wait until that run ends, or choose another folder; the processes of one run must have different ranks"
            }
            Self::Damaged { .. } => {
                "remove this checkpoint; the training then resumes from the one before"
            }
            Self::NoneSound { .. } => {
                "copy the checkpoints here again, or start from the beginning with another checkpoint folder; nothing was changed"
            }
            Self::TooNew { .. } => {
                "resume with the newer release that wrote this checkpoint; nothing was changed"
            }
            Self::OtherBundle { .. } => {
                "resume with the bundle that the training began with, or start from the beginning with another checkpoint folder"
            }
            Self::Unfit { .. } => {
                "resume with the program and the options that the training began with, or start from the beginning with another checkpoint folder"
            }
            Self::Thread { .. } => {
                "raise the limit of processes and threads (`ulimit -u`), or free some memory"
            }
            Self::Panicked => "please report this as a bug",
            Self::FileName { .. } => return None,
        })
    }
}
