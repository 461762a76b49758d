//! Errors as exceptions of the package: `gular.errors`.

use gular_runtime::{Error, LoaderError};
use pyo3::prelude::*;

/// The exception for `error`: what went wrong, then what the user can do next.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let key = match error {
        Error::Loader(
            LoaderError::Decode { key, .. }
            | LoaderError::MaskSize { key, .. }
            | LoaderError::Panicked { key, .. },
        ) => Some(key.as_str()),
        _ => None,
    };
    named(py, class(error), &error.to_string(), error.hint().as_deref(), key)
}

/// The exception `class` of `gular.errors`.
pub(crate) fn named(
    py: Python<'_>,
    class: &str,
    what: &str,
    hint: Option<&str>,
    key: Option<&str>,
) -> PyErr {
    let made = py
        .import("gular.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((what, hint, key)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

fn class(error: &Error) -> &'static str {
    match error {
        Error::Option { .. } => "OptionError",
        Error::Bundle(_) | Error::Io(_) => "BundleError",
        Error::Transfer(_) | Error::Loader(LoaderError::Shard(_) | LoaderError::NoRoom { .. }) => {
            "TransferError"
        }
        Error::State(_) => "StateError",
        Error::Rank(_) => "RankError",
        Error::Loader(LoaderError::Decode { .. } | LoaderError::MaskSize { .. }) => "SampleError",
        Error::Loader(LoaderError::Delivered { .. } | LoaderError::Uncounted { .. }) => {
            "DeliveryError"
        }
        _ => "Error",
    }
}
