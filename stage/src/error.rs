//! Errors that prevent making or sharing a copy.

use std::io;
use std::path::Path;

use gular_files::Size;

/// Why data could not be staged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] gular_files::Error),
    /// The bundle could not be read.
    #[error(transparent)]
    Bundle(#[from] gular_bundle::Error),
    /// A bundle could not be fetched: a federation, server or token.
    #[error(transparent)]
    Transfer(gular_transfer::Error),
    /// The copy would not fit into the space that is left.
    #[error(
        "not enough room in `{dir}`{}: the copy needs {}, but {limit} allows only {}",
        if *memory { ", which is in memory" } else { "" }, Size(*needed), Size(*available)
    )]
    NoRoom {
        /// The folder for the copy.
        dir: String,
        /// Bytes of the copy, with the reserve that must stay free beside it.
        needed: u64,
        /// The bytes that the limit leaves.
        available: u64,
        /// The limit that is too low.
        limit: String,
        /// Whether `dir` is in memory.
        memory: bool,
    },
    /// A file of the copy would be over this process's limit (`RLIMIT_FSIZE`).
    #[error(
        "cannot copy to `{dir}`: the bundle has a file of {}, and this process may only write files of up to {}",
        Size(*needed), Size(*limit)
    )]
    FileTooLarge {
        /// The folder for the copy.
        dir: String,
        /// Bytes of the copy's largest file.
        needed: u64,
        /// The limit of this process, in bytes.
        limit: u64,
    },
    /// The file system cannot take so many more files.
    #[error(
        "not enough room in `{dir}`: the copy has {needed} files and folders, and the file system has room for only {free} more"
    )]
    TooManyFiles {
        /// The folder for the copy.
        dir: String,
        /// The number of files and folders of the copy.
        needed: u64,
        /// The number that the file system can still take.
        free: u64,
    },
    /// There is no folder to stage to.
    #[error("cannot stage to `{dir}`: {reason}")]
    Target {
        /// The folder for the copy.
        dir: String,
        /// What is wrong with the folder.
        reason: String,
    },
    /// The folder of copies was not made by Gular.
    #[error("cannot keep copies of bundles in `{dir}`: {reason}")]
    Foreign {
        /// The folder.
        dir: String,
        /// What is wrong with the folder.
        reason: &'static str,
    },
    /// A source has something that cannot be copied.
    #[error("`{path}` cannot be staged: {reason}")]
    Source {
        /// The file.
        path: String,
        /// Why the file cannot be copied.
        reason: Unfit,
    },
    /// The shards of the bundle are not file systems.
    #[error("`{path}` cannot be mounted: its envelope is `{envelope}`, expected `squashfs`")]
    NotMountable {
        /// The bundle.
        path: String,
        /// The bundle's envelope.
        envelope: &'static str,
    },
    /// No program on this machine could mount a shard.
    #[error("cannot mount `{image}`: {reason}")]
    Mount {
        /// The shard.
        image: String,
        /// What each program reported.
        reason: String,
    },
    /// There is nothing to copy.
    #[error("cannot stage `{path}`: it does not exist")]
    NoSource {
        /// The path that was given.
        path: String,
    },
    /// Staging was asked to stop before the copy was complete.
    #[error("staging `{place}` was stopped; the unfinished copy was removed")]
    Stopped {
        /// The place that was staged.
        place: String,
    },
}

/// Why something cannot be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The folder of the copy is inside the source.
    #[error("the copy would be inside it")]
    HoldsTheCopy,
    /// The source is a file.
    #[error("it is not a folder")]
    NotAFolder,
    /// The source contains a symbolic link to a folder.
    #[error("it is a link to a folder, and a folder that is staged must not contain one")]
    LinkToFolder,
    /// The source contains a pipe, a socket or a device.
    #[error("it is not a plain file")]
    NotAFile,
    /// The source has shards and no manifest.
    #[error("it holds shards of a bundle, but the bundle's `manifest.json` is missing")]
    NoManifest,
    /// A file changed while it was being copied.
    #[error("it was changed while it was being copied")]
    Changed,
}

impl Error {
    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Transfer(error) => error.hint(),
            other => other.fixed_hint().map(str::to_owned),
        }
    }

    fn fixed_hint(&self) -> Option<&'static str> {
        match self {
            Self::Bundle(error) => error.hint(),
            Self::NoRoom { memory: true, .. } => {
                Some("ask the batch system for more memory, or stage to the job's disk")
            }
            Self::NoRoom { .. } => {
                Some("ask the batch system for more disk, or name another folder")
            }
            Self::FileTooLarge { .. } => {
                Some("raise the limit (`ulimit -f unlimited`), or pack with smaller shards")
            }
            Self::TooManyFiles { .. } => {
                Some("stage the bundle without unpacking it: that makes fewer files")
            }
            Self::Target { .. } => Some("choose an existing folder"),
            Self::Foreign { .. } => Some(
                "nothing there was changed; choose another place, or remove what is there now (if it is not yours, ask its owner to)",
            ),
            Self::Source { .. } => Some(
                "stage a whole bundle, or a folder of plain files that no program is writing to",
            ),
            Self::NotMountable { .. } => {
                Some("convert the bundle to the envelope `squashfs`, or unpack its samples")
            }
            Self::Mount { .. } => Some(
                "install squashfuse (`apt-get install squashfuse`, `dnf install squashfuse`, or `conda install -c conda-forge squashfuse`). Apptainer needs no squashfuse: it mounts a shard that is bound with `image-src=/`",
            ),
            Self::NoSource { .. } => {
                Some("give a bundle's folder, a folder of files, or the URL of a bundle")
            }
            Self::Stopped { .. } => Some("run the same command again"),
            Self::Io(error) => error.hint(),
            Self::Transfer(_) => None,
        }
    }

    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        gular_files::Error::new(action, path, source).into()
    }

    /// The internal error with which staging stops; callers see [`Error::Stopped`].
    pub(crate) fn cancelled() -> Self {
        Self::Transfer(gular_transfer::Error::cancelled())
    }
}

impl From<gular_transfer::Error> for Error {
    fn from(error: gular_transfer::Error) -> Self {
        match error {
            gular_transfer::Error::Bundle(error) => Self::Bundle(error),
            error => Self::Transfer(error),
        }
    }
}
