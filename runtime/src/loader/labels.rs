//! Samples whose class is unknown: label -1 in the index.

use serde::Deserialize;

use crate::Error;

/// The label of an unknown class, as FORMAT.md says.
pub(super) const UNKNOWN: i32 = -1;

/// The label of an unknown class in a batch, under [`UnknownLabels::Ignore`]: what libtorch's
/// cross entropy leaves out of its mean unless told otherwise (`ignore_index`).
pub const IGNORED_LABEL: i64 = -100;

// Looking through them reads nothing that the first epoch would not read, but the first batch
// waits for it: one core needs 0.3 s for 256 indexes of 1 MB.
pub(super) const LOOKED_THROUGH: usize = 256;

/// What to do about samples whose class is unknown.
///
/// Such a label is not a class. Used as one, it ends a training run on the CPU, and on a GPU it
/// makes every later call fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownLabels {
    /// Unknown classes are an error. If the split has at most 256 shards, the loader returns it at
    /// once, with their number; otherwise the first batch that would contain one is the error.
    #[default]
    Refuse,
    /// Samples of unknown class are left out, as if the split did not have them. Epochs become
    /// shorter, by the same number on every rank, and a state contains the number of these samples.
    /// The indexes of the split are read at once.
    Drop,
    /// Samples of unknown class stay, with [`IGNORED_LABEL`]. A mean loss over a batch is then a
    /// mean over [`Batch::n_labelled`](super::Batch::n_labelled) samples.
    Ignore,
}

/// Returns the error for unknown classes.
pub(super) fn refused(what: &str) -> Error {
    let reason = format!(
        "{what}: choose `drop` to leave them out, or `ignore` to leave them out of loss and accuracy"
    );
    Error::Option { option: "unknown_labels", reason }
}
