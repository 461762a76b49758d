//! Errors as exceptions of the package: `gular.errors`, which hides secrets in them.

use std::borrow::Cow;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use gular_runtime::{BundleError, Error, LoaderError, TransferError};
use pyo3::prelude::*;

/// Returns a message without what looks like a secret.
#[pyfunction]
pub(crate) fn mask(text: &str) -> Cow<'_, str> {
    gular_runtime::mask(text)
}

/// Makes the exception for `error`: what went wrong, then what the user can do next.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    named(py, class(error), &error.to_string(), hint(error).as_deref(), key(error))
}

/// Does the same as [`raise`], for an error about a batch of a loader, which can leave out a
/// sample.
pub(crate) fn raise_in_training(py: Python<'_>, error: &Error) -> PyErr {
    let Error::Loader(
        LoaderError::Decode { .. }
        | LoaderError::FieldSize { .. }
        | LoaderError::NoBoxes { .. }
        | LoaderError::Turned { .. },
    ) = error
    else {
        return raise(py, error);
    };
    let hint = "repair these images and pack again, or train without them: \
                `on_bad_sample=\"skip\"`";
    named(py, class(error), &error.to_string(), Some(hint), key(error))
}

/// Does the same as `raise`, for bytes of a bundle at `source`. A damaged file of the node's own
/// cache is removed first, so that the next start fetches it again.
pub(crate) fn raise_of_bytes(
    py: Python<'_>,
    source: &str,
    error: &Error,
    raise: impl FnOnce(Python<'_>, &Error) -> PyErr,
) -> PyErr {
    let Error::Bundle(BundleError::SampleDigest(fault)) = error else { return raise(py, error) };
    let hint = if !source.contains("://") {
        format!(
            "`gular verify {source}` finds all damage; replace this file by a sound copy, or use \
             the bundle's URL, from which damaged files are fetched again"
        )
    } else if fs::remove_file(&fault.path).is_ok() {
        "this file was removed from the node's cache: start again, and it is fetched again; if it \
         is damaged once more, the disk or the memory of this machine is faulty"
            .to_owned()
    } else {
        format!("remove `{}`, and start again: it is then fetched again", fault.path)
    };
    named(py, class(error), &error.to_string(), Some(&hint), key(error))
}

fn hint(error: &Error) -> Option<String> {
    let is_missing = |path: &Path| {
        let is_manifest = path.file_name().is_some_and(|name| name == "manifest.json");
        is_manifest && path.parent().is_some_and(Path::is_dir)
    };
    match error {
        Error::Io(error) | Error::Bundle(BundleError::Io(error))
            if error.kind() == ErrorKind::NotFound && is_missing(&error.path) =>
        {
            let hint = "this folder is not a bundle; `gular pack IMAGES BUNDLE` makes one of a \
                        folder of images";
            Some(hint.to_owned())
        }
        Error::Option { option: "normalise", .. } => {
            let hint = "choose `normalise=(mean, std)` or `normalise=(mean, std, scale)`, with a \
                        number per channel or one for all; `normalise=\"scaled\"`, which divides \
                        `u8` by 255 and `u16` by 65535; `normalise=\"bundle\"`, if its manifest has \
                        statistics; `normalise=\"imagenet\"`, for three channels or grey; or \
                        `numbers=\"stored\"`";
            Some(hint.to_owned())
        }
        error => error.hint(),
    }
}

/// Returns the key of the sample that the error is about.
fn key(error: &Error) -> Option<&str> {
    match error {
        Error::Loader(
            LoaderError::Decode { key, .. }
            | LoaderError::FieldSize { key, .. }
            | LoaderError::NoBoxes { key, .. }
            | LoaderError::Turned { key, .. }
            | LoaderError::Panicked { key, .. }
            | LoaderError::Each { key, .. },
        )
        | Error::Bundle(BundleError::Label { key, .. } | BundleError::Value { key, .. }) => {
            Some(key)
        }
        Error::Bundle(BundleError::SampleDigest(fault)) => Some(&fault.key),
        _ => None,
    }
}

/// Makes the exception `class` of `gular.errors`.
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
        Error::Option { .. } | Error::Transfer(TransferError::NoSplit { .. }) => "OptionError",
        Error::Bundle(_) | Error::Io(_) => "BundleError",
        Error::Transfer(_) | Error::Loader(LoaderError::Shard(_) | LoaderError::NoRoom { .. }) => {
            "TransferError"
        }
        Error::State(_) => "StateError",
        Error::Rank(_) => "RankError",
        Error::Loader(
            LoaderError::Decode { .. }
            | LoaderError::FieldSize { .. }
            | LoaderError::NoBoxes { .. }
            | LoaderError::Turned { .. },
        ) => "SampleError",
        Error::Loader(LoaderError::Each { .. }) => "FunctionError",
        Error::Loader(LoaderError::Delivered { .. } | LoaderError::Uncounted { .. }) => {
            "DeliveryError"
        }
        _ => "Error",
    }
}
