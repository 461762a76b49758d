//! The errors of this crate: one per module, and the one that contains them all.

use std::io;
use std::path::Path;

use gular_order::StateError;

use crate::checkpoint::CheckpointError;
#[cfg(feature = "cuda")]
use crate::cuda::CudaError;
use crate::loader::LoaderError;
use crate::rank::RankError;

/// Any error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] gular_files::Error),
    /// The bundle could not be read.
    #[error(transparent)]
    Bundle(#[from] gular_bundle::Error),
    /// The bundle could not be fetched.
    #[cfg(feature = "net")]
    #[error(transparent)]
    Transfer(gular_transfer::Error),
    /// A batch could not be made.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// A loader cannot continue from a saved state.
    #[error(transparent)]
    State(#[from] StateError),
    /// A checkpoint could not be saved or loaded.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The rank of this process, or the world size, cannot be determined.
    #[error(transparent)]
    Rank(#[from] RankError),
    /// A GPU, or NCCL between several, failed.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The ranks could not meet, or one of them ended the training.
    #[cfg(feature = "torch")]
    #[error(transparent)]
    Group(#[from] gular_group::Error),
    /// libtorch refused.
    #[cfg(feature = "torch")]
    #[error("libtorch reports an error: {0}")]
    Torch(#[from] tch::TchError),
    /// An option has an impossible value.
    #[error("option `{option}`: {reason}")]
    Option {
        /// The option's name in [`LoaderOptions`](crate::LoaderOptions).
        option: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Tensors that do not fit the model, or cannot be saved.
    #[error("the tensors do not match what is expected: {reason}")]
    Tensors {
        /// What does not match.
        reason: String,
    },
    /// A name that no metric can have.
    #[error("`{name}` cannot be the name of a metric: {reason}")]
    MetricName {
        /// The refused name.
        name: String,
        /// Why it was refused.
        reason: &'static str,
    },
    /// The handlers of SIGTERM and SIGINT could not be installed.
    #[error("cannot listen for SIGTERM and SIGINT: {0}")]
    Signals(io::Error),
}

impl Error {
    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            #[cfg(feature = "net")]
            Self::Transfer(error) => return error.hint(),
            Self::Io(error) => error.hint(),
            Self::Bundle(error) => error.hint(),
            Self::Loader(LoaderError::Shard(error)) => return error.hint.clone(),
            Self::Loader(error) => error.hint(),
            Self::State(error) => error.hint(),
            Self::Checkpoint(error) => error.hint(),
            Self::Rank(error) => error.hint(),
            #[cfg(feature = "cuda")]
            Self::Cuda(error) => error.hint(),
            #[cfg(feature = "torch")]
            Self::Group(error) => error.hint(),
            #[cfg(feature = "torch")]
            Self::Torch(_) => None,
            Self::Option { option: "normalise", .. } => Some(
                "choose a mean and a standard deviation, `Normalise::scaled()`, `Normalise::default()`, which is ImageNet's, or numbers as they are stored",
            ),
            Self::Option { .. }
            | Self::Tensors { .. }
            | Self::MetricName { .. }
            | Self::Signals(_) => None,
        };
        text.map(str::to_owned)
    }

    /// Returns whether work ended because this process or another rank was asked to stop, and not
    /// because it failed: with its own stop flag set it is to be run again.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        match self {
            Self::Loader(LoaderError::Stopped) => true,
            #[cfg(feature = "torch")]
            Self::Group(error) => error.is_end(),
            #[cfg(feature = "net")]
            Self::Transfer(error) => error.is_cancelled(),
            _ => false,
        }
    }

    /// Returns whether the same call may succeed later with nothing changed on this machine, for
    /// example when servers are busy: the process ends with [`EXIT_LATER`](crate::EXIT_LATER).
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            #[cfg(feature = "net")]
            Self::Transfer(error) => error.is_passing(),
            Self::Loader(LoaderError::Shard(error)) => error.is_passing,
            _ => false,
        }
    }

    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        gular_files::Error::new(action, path, source).into()
    }
}

impl From<gular_augment::NoStatistics> for Error {
    fn from(why: gular_augment::NoStatistics) -> Self {
        Self::Option { option: "normalise", reason: why.0 }
    }
}

#[cfg(feature = "net")]
impl From<gular_transfer::Error> for Error {
    fn from(error: gular_transfer::Error) -> Self {
        match error {
            gular_transfer::Error::Bundle(error) => Self::Bundle(error),
            error => Self::Transfer(error),
        }
    }
}
