//! What can go wrong inside the training job.

use std::io;
use std::path::Path;

use gular_bundle::Digest;

use crate::order::StateError;

/// Why the runtime could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no GPU that libtorch can use.
    #[cfg(feature = "cuda")]
    #[error("no GPU to compute on: {reason}")]
    NoGpu {
        /// What is missing.
        reason: String,
        /// What to do about it.
        hint: &'static str,
        /// Whether there is a driver, so that a GPU was to be expected.
        driver: bool,
    },
    /// The GPU, or its driver, refused.
    #[cfg(feature = "cuda")]
    #[error("GPU {index}: cannot {action}: {reason}")]
    Gpu {
        /// Its number among those this process sees.
        index: usize,
        /// What was tried.
        action: &'static str,
        /// The driver's answer.
        reason: String,
    },
    /// NCCL could not be opened or refused.
    #[cfg(feature = "cuda")]
    #[error("NCCL: cannot {action}: {reason}")]
    Nccl {
        /// What was tried.
        action: &'static str,
        /// NCCL's answer.
        reason: String,
    },
    /// The operating system refused.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// What was tried, such as `write`.
        action: &'static str,
        /// The file or folder.
        path: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The bundle could not be read.
    #[error(transparent)]
    Bundle(#[from] gular_bundle::Error),
    /// A federation, server or token.
    #[cfg(feature = "net")]
    #[error(transparent)]
    Pelican(#[from] gular_pelican::Error),
    /// Publishing or fetching.
    #[cfg(feature = "net")]
    #[error(transparent)]
    Transfer(gular_transfer::Error),
    /// A loader cannot go on from a saved state.
    #[error(transparent)]
    State(#[from] StateError),
    /// A sample is no image that can be decoded.
    #[error("sample `{key}` (row {row} of shard `{shard}`): {source}")]
    Decode {
        /// The sample.
        key: String,
        /// Its shard's file name.
        shard: String,
        /// Its row in the shard.
        row: usize,
        /// What is wrong with it.
        source: gular_codec::Error,
    },
    /// The bundle's samples are nothing the loader can make pictures of.
    #[error(
        "the bundle has {found}, expected encoded images, or u8 or u16 pixels [height, width, 3 or 1]"
    )]
    NoImages {
        /// What it has.
        found: String,
    },
    /// An option that cannot be.
    #[error("option `{option}`: {reason}")]
    Option {
        /// Its name in [`LoaderOptions`](crate::LoaderOptions).
        option: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A caller's buffer has the wrong length.
    #[error("the buffer holds {found} numbers, the batch has {expected}")]
    Buffer {
        /// Numbers needed.
        expected: usize,
        /// Numbers given.
        found: usize,
    },
    /// A batch was asked for while all of them are held.
    #[error("all {slots} batches in memory are still held, none can be filled")]
    AllLent {
        /// The loader's slots.
        slots: usize,
    },
    /// The allocator refused the batch slots.
    #[error("no memory for {bytes} bytes of batches")]
    Memory {
        /// Bytes asked for.
        bytes: u64,
    },
    /// A thread cannot be started.
    #[error("cannot start thread {number} of {wanted}: {source}")]
    Thread {
        /// Which one, from 1.
        number: usize,
        /// How many were wanted.
        wanted: usize,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A decoder panicked; the loader goes on.
    #[error("sample `{key}` made a decoder panic: {message}")]
    Panicked {
        /// The sample.
        key: String,
        /// What the panic said.
        message: String,
    },
    /// A thread of the loader ended by a panic of its own.
    #[error("a thread of the loader ended by a panic")]
    Broken,
    /// Another training has its checkpoints there, and still runs.
    #[error("another training uses the checkpoint folder `{dir}`")]
    CheckpointsInUse {
        /// The folder.
        dir: String,
    },
    /// A checkpoint is not what was saved.
    #[error("checkpoint `{path}` is damaged: {reason}")]
    CheckpointDamaged {
        /// The checkpoint's folder.
        path: String,
        /// The file, and expected against found.
        reason: String,
    },
    /// There are checkpoints, and none of them is sound.
    #[error("none of the {count} checkpoints in `{dir}` can be loaded: {faults}")]
    NoSoundCheckpoint {
        /// The folder of checkpoints.
        dir: String,
        /// How many were tried.
        count: usize,
        /// What each one has.
        faults: String,
    },
    /// A checkpoint of a later format version.
    #[error(
        "checkpoint `{path}` has format version {found}, newer than {supported}, the newest this build reads"
    )]
    CheckpointTooNew {
        /// The checkpoint's folder.
        path: String,
        /// Its version.
        found: u64,
        /// The newest known version.
        supported: u64,
    },
    /// A checkpoint of a training on another bundle.
    #[error("checkpoint `{path}` is of bundle {found}, this training reads {expected}")]
    CheckpointOfOtherBundle {
        /// The checkpoint's folder.
        path: String,
        /// The training's bundle.
        expected: Digest,
        /// The checkpoint's.
        found: Digest,
    },
    /// A sound checkpoint of another model, optimiser or program.
    #[error("`{path}` does not fit this training: {reason}")]
    CheckpointUnfit {
        /// The checkpoint's file.
        path: String,
        /// What differs.
        reason: String,
    },
    /// Tensors that do not fit the model, or cannot be saved.
    #[error("the tensors do not fit: {reason}")]
    Tensors {
        /// What does not fit.
        reason: String,
    },
    /// libtorch refused.
    #[cfg(feature = "torch")]
    #[error("libtorch: {0}")]
    Torch(#[from] tch::TchError),
    /// A name that no file of a checkpoint can have.
    #[error("`{name}` cannot name a file of a checkpoint: {reason}")]
    CheckpointFileName {
        /// The refused name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A name that no metric can have.
    #[error("`{name}` cannot name a metric: {reason}")]
    MetricName {
        /// The refused name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A variable of the environment that should be a number.
    #[error("environment variable `{variable}` is `{value}`, expected a whole number from 0")]
    RankValue {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// A launcher that said half.
    #[error("environment variable `{given}` is set and `{missing}` is not")]
    RankHalf {
        /// What is set.
        given: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// A rank that its world does not have.
    #[error(
        "rank {rank} of world size {world_size} ({origin}): ranks count from 0 and end below it"
    )]
    RankOutOfRange {
        /// The rank.
        rank: u64,
        /// The world size.
        world_size: u64,
        /// Who said so.
        origin: &'static str,
    },
    /// Two launchers say different things about this process.
    #[error("{first} and {second} contradict each other")]
    RankConflict {
        /// The first source, its rank and world size.
        first: String,
        /// The second.
        second: String,
    },
    /// The ranks could not meet, or one of them ended the training.
    #[cfg(feature = "torch")]
    #[error(transparent)]
    Group(#[from] gular_group::Error),
    /// The handlers of SIGTERM and SIGINT could not be installed.
    #[error("cannot listen for SIGTERM and SIGINT: {0}")]
    Signals(io::Error),
}

impl Error {
    /// What the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            #[cfg(feature = "net")]
            Self::Pelican(error) => error.hint(),
            #[cfg(feature = "net")]
            Self::Transfer(error) => error.hint(),
            other => other.fixed_hint().map(str::to_owned),
        }
    }

    fn fixed_hint(&self) -> Option<&'static str> {
        match self {
            Self::Bundle(error) => error.hint(),
            Self::State(error) => error.hint(),
            #[cfg(feature = "torch")]
            Self::Group(error) => error.hint(),
            Self::Io { action, source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(
                    "free space on this file system and run again; what was saved before is intact",
                ),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Some("check the permissions of the file and its folders")
                }
                _ if *action == "lock" => {
                    Some("some network file systems have no locks: use a folder on a local disk")
                }
                _ => None,
            },
            Self::Decode { .. } => {
                Some("repair these images and pack again, or leave them out of training")
            }
            Self::NoImages { .. } => Some("`gular inspect` lists the fields"),
            Self::AllLent { .. } => {
                Some("drop each batch before asking for the next, or raise `slots`")
            }
            Self::Memory { .. } => Some("use smaller batches or fewer `slots`"),
            Self::Thread { .. } => Some("use fewer threads, or raise the limit (`ulimit -u`)"),
            Self::Panicked { .. } | Self::Broken => {
                Some("please report this as a bug, with the sample")
            }
            Self::CheckpointsInUse { .. } => Some(
                "wait for its end, or name another folder; processes of one training need a rank each",
            ),
            Self::CheckpointDamaged { .. } => {
                Some("remove this folder; the checkpoint before it is loaded instead")
            }
            Self::NoSoundCheckpoint { .. } => Some(
                "copy the checkpoints again, or begin anew with another checkpoint folder; nothing was changed",
            ),
            Self::CheckpointTooNew { .. } => {
                Some("resume with the newer release that wrote it; nothing was changed")
            }
            Self::CheckpointOfOtherBundle { .. } => Some(
                "resume with the bundle the training began with, or begin anew with another checkpoint folder",
            ),
            Self::RankHalf { .. } => Some("set both, or neither for a process that trains alone"),
            Self::RankOutOfRange { origin: "options", .. } => {
                Some("start as many processes as the world size says, with ranks from 0")
            }
            Self::RankValue { .. } | Self::RankOutOfRange { .. } | Self::RankConflict { .. } => {
                Some("give rank and world size as options; they go before the environment")
            }
            Self::CheckpointUnfit { .. } => Some(
                "resume with the program and options the training began with, or begin anew with another checkpoint folder",
            ),
            #[cfg(feature = "cuda")]
            Self::NoGpu { hint, .. } => Some(hint),
            #[cfg(feature = "cuda")]
            Self::Gpu { .. } => Some(
                "smaller batches or fewer slots need less memory; `nvidia-smi` shows what else uses the GPU",
            ),
            #[cfg(feature = "cuda")]
            Self::Nccl { .. } => Some("NCCL_DEBUG=WARN makes NCCL say more"),
            #[cfg(feature = "torch")]
            Self::Torch(_) => None,
            #[cfg(feature = "net")]
            Self::Pelican(_) | Self::Transfer(_) => None,
            Self::Option { .. }
            | Self::Buffer { .. }
            | Self::Tensors { .. }
            | Self::CheckpointFileName { .. }
            | Self::MetricName { .. }
            | Self::Signals(_) => None,
        }
    }

    /// Whether something ended because this process, or another rank of its group, was asked
    /// to stop, and not because it failed: with its own stop flag set it is to be run again.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        match self {
            #[cfg(feature = "torch")]
            Self::Group(error) => error.is_end(),
            #[cfg(feature = "net")]
            Self::Pelican(error) => matches!(error, gular_pelican::Error::Cancelled),
            _ => false,
        }
    }

    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Io { action, path: path.as_ref().display().to_string(), source }
    }
}

impl From<gular_files::Error> for Error {
    fn from(error: gular_files::Error) -> Self {
        Self::io(error.action, error.path, error.source)
    }
}

#[cfg(feature = "net")]
impl From<gular_transfer::Error> for Error {
    fn from(error: gular_transfer::Error) -> Self {
        match error {
            gular_transfer::Error::Bundle(error) => Self::Bundle(error),
            gular_transfer::Error::Pelican(error) => Self::Pelican(error),
            error => Self::Transfer(error),
        }
    }
}
