//! What can end a run at any step.

use std::io;
use std::path::Path;

use gular_files::Size;

use crate::facts::BadInputs;

/// What can end a run at any step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The operating system refused.
    #[error(transparent)]
    Io(gular_files::Error),
    /// A class folder that the given list of classes does not have.
    #[error("`{path}` has the class `{class}`, which is not one of the {n} classes in `{list}`")]
    UnknownClass {
        /// A file in the folder.
        path: String,
        /// The folder's name.
        class: String,
        /// The file with the list.
        list: String,
        /// Number of classes in the list.
        n: usize,
    },
    /// Files that cannot be packed.
    #[error("{0}")]
    BadInputs(BadInputs),
    /// Something that makes no sense was asked for.
    #[error("{0}")]
    Option(String),
    /// Settings that make no sense, or not together.
    #[error("{text}")]
    Setting {
        /// Their names, such as `fractions`.
        names: &'static [&'static str],
        /// What is wrong.
        text: String,
    },
    /// The file system has too little space.
    #[error("not enough disk space: `{path}` has {} free, and the bundle needs about {}", Size(*free), Size(*needed))]
    NoSpace {
        /// The folder.
        path: String,
        /// Bytes that the bundle needs.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The caller asked to stop, and there is nothing from which the next run could continue.
    #[error("stopped")]
    Cancelled,
    /// The writer's error.
    #[error(transparent)]
    Bundle(gular_bundle::Error),
}

impl RunError {
    /// A class that the list of `n` classes does not have.
    pub(crate) fn unknown_class(path: String, class: String, n: usize) -> Self {
        Self::UnknownClass { path, class, list: "the list of classes".to_owned(), n }
    }

    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Io(gular_files::Error::new(action, path, source))
    }
}

impl From<gular_bundle::Error> for RunError {
    fn from(error: gular_bundle::Error) -> Self {
        match error {
            gular_bundle::Error::Stopped { .. } => Self::Cancelled,
            other => Self::Bundle(other),
        }
    }
}

impl From<gular_files::Error> for RunError {
    fn from(error: gular_files::Error) -> Self {
        // A full disk is reported in the same way as by the bundle's own writer.
        Self::Bundle(error.into())
    }
}

/// Returns the error of settings that make no sense, or not together.
pub(crate) fn setting<E: From<RunError>>(
    names: &'static [&'static str],
    text: impl Into<String>,
) -> E {
    RunError::Setting { names, text: text.into() }.into()
}

/// Gives the error of a room what all have: those of a run, and those of lower rooms. Each is
/// wrapped once, whatever rooms it came through.
macro_rules! room_error {
    ($error:ident $(, $lower:ident as $wrapped:ident($($through:ident),*))*) => {
        impl $error {
            pub(crate) fn io(
                action: &'static str,
                path: impl AsRef<std::path::Path>,
                source: std::io::Error,
            ) -> Self {
                Self::Run($crate::facts::RunError::io(action, path, source))
            }
        }

        impl<E: Into<$crate::facts::RunError>> From<E> for $error {
            fn from(error: E) -> Self {
                Self::Run(error.into())
            }
        }

        $(impl From<$lower> for $error {
            fn from(error: $lower) -> Self {
                match error {
                    $($lower::$through(error) => error.into(),)*
                    error => Self::$wrapped(error),
                }
            }
        })*
    };
}
pub(crate) use room_error;
