//! Errors that prevent a batch.

use std::io;

use gular_bundle::{NotBrought, Row, Split};
use gular_files::Size;

/// What went wrong in the loader.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderError {
    /// A sample is not an image that can be decoded.
    #[error("cannot decode sample `{key}` (row {row} of shard `{shard}`): {source}")]
    Decode {
        /// The sample.
        key: String,
        /// Its shard's file name.
        shard: String,
        /// Its row in the shard.
        row: Row,
        /// What is wrong with it.
        source: gular_codec::Error,
    },
    /// The loader cannot make pictures of the bundle's samples.
    #[error(
        "the bundle has {found}; expected a field `image` with encoded images, or with arrays of at \
        least one row and column"
    )]
    NoImages {
        /// What the sample has instead.
        found: String,
    },
    /// A mask, or another field on the pixels of an image, has another size than the image.
    #[error(
        "the `{field}` of sample `{key}` (row {row} of shard `{shard}`) has {} x {} pixels, but its image has {} x {}",
        size.0, size.1, image.0, image.1
    )]
    FieldSize {
        /// The field.
        field: String,
        /// The sample.
        key: String,
        /// Its shard's file name.
        shard: String,
        /// Its row in the shard.
        row: Row,
        /// Its width and height, upright.
        size: (u32, u32),
        /// (width, height) of the image, upright.
        image: (u32, u32),
    },
    /// An image is stored turned, and is not to be turned as its EXIF orientation says, but a mask,
    /// boxes or another field with it are those of the upright image.
    #[error(
        "the image of sample `{key}` (row {row} of shard `{shard}`) is stored turned, and the fields on its pixels belong to the upright image"
    )]
    Turned {
        /// The sample.
        key: String,
        /// Its shard's file name.
        shard: String,
        /// Its row in the shard.
        row: Row,
    },
    /// The boxes of a sample, or what is said of each of them, cannot be read.
    #[error(
        "the `{field}` of sample `{key}` (row {row} of shard `{shard}`) are not what FORMAT.md says of boxes and points, or not as many as there are of these"
    )]
    NoBoxes {
        /// The field.
        field: String,
        /// The sample.
        key: String,
        /// Its shard's file name.
        shard: String,
        /// Its row in the shard.
        row: Row,
    },
    /// A batch was asked for while all of them are held.
    #[error(
        "the next batch cannot be loaded: the program still holds all {slots} batches that fit in memory"
    )]
    AllLent {
        /// The loader's slots.
        slots: usize,
    },
    /// A shard could not be fetched from a federation.
    #[error(transparent)]
    Shard(NotBrought),
    /// The node's cache has no room for the shards that are needed at the same time.
    #[error(
        "the cache is too small: split `{split}` needs {shards} of its {of} shards at a time, which take {}{}, and the cache's limit is {}",
        Size(*needed), held_by(*others), Size(*limit)
    )]
    NoRoom {
        /// The split.
        split: Split,
        /// The number of shards that are needed at the same time.
        shards: usize,
        /// The number of the split's shards.
        of: usize,
        /// Bytes that the cache needs for them and everything else that it keeps.
        needed: u64,
        /// Number of these bytes that are reserved for other loaders and open files of this
        /// process.
        others: u64,
        /// The cache's limit, in bytes.
        limit: u64,
    },
    /// Samples of an epoch were not delivered as its order says.
    #[error("epoch {epoch} did not deliver exactly the samples that it should: {what}")]
    Delivered {
        /// The epoch, from 0.
        epoch: u64,
        /// The first difference.
        what: String,
    },
    /// The samples that an epoch delivered were not counted from its start.
    #[error(
        "it cannot be checked that epoch {epoch} delivered each sample once: the saved state has no tally of samples"
    )]
    Uncounted {
        /// The epoch, from 0.
        epoch: u64,
    },
    /// A wait ended because the process was asked to stop.
    #[error("loading was stopped before the next batch was ready")]
    Stopped,
    /// The allocator refused the batch slots.
    #[error("not enough memory for {bytes} bytes of batches")]
    Memory {
        /// Bytes asked for.
        bytes: u64,
    },
    /// A thread cannot be started.
    #[error("cannot start thread {number} of {wanted}: {source}")]
    Thread {
        /// The thread's number, from 1.
        number: usize,
        /// Number of threads that were wanted.
        wanted: usize,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A decoder or the training run's own function panicked; the loader continues.
    #[error(
        "the program failed on sample `{key}`, in a decoder or in `augment` (a panic): {message}"
    )]
    Panicked {
        /// The sample.
        key: String,
        /// The message of the panic.
        message: String,
    },
    /// The function that is called with each sample failed, or returned what a batch cannot have.
    #[error("the function of `each` failed with sample `{key}`: {reason}")]
    Each {
        /// The sample.
        key: String,
        /// What went wrong, in several lines if the function raised an exception.
        reason: String,
    },
    /// A thread of the loader ended by a panic of its own.
    #[error("a thread of the loader failed (a panic)")]
    Broken,
}

impl LoaderError {
    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Decode { .. } | Self::FieldSize { .. } => {
                "repair this image and pack again, or leave such images out of training"
            }
            Self::Turned { .. } => {
                "turn pictures as their EXIF orientation says, which is the default"
            }
            Self::NoBoxes { .. } => {
                "boxes are npy files of f64 [n, 4], points of f64 [n, 2], keypoints of f64 [n, 3k], and what is said of them of i64 [n]: pack the bundle again"
            }
            Self::NoImages { .. } => "the bundle's manifest lists its fields",
            Self::AllLent { .. } => {
                "release each batch before asking for the next one, or raise `slots`"
            }
            Self::Memory { .. } => "use smaller batches or fewer `slots`",
            Self::Thread { .. } => "use fewer threads, or raise the limit (`ulimit -u`)",
            Self::Uncounted { .. } => {
                "the state was saved by an earlier release, without a tally; the next epoch is checked again"
            }
            Self::Delivered { .. } => {
                "add up the tallies of all ranks before saving a state, and restore the same state on all ranks; if your program does this, please report a bug"
            }
            Self::Panicked { .. } => {
                "unless the fault is in your own `augment`, please report this as a bug, with the sample"
            }
            Self::Broken => "please report this as a bug, with the sample",
            Self::NoRoom { others: 1.., .. } => {
                "close the other loaders of this bundle, raise the cache's limit, or use order `window` with fewer shards per window"
            }
            Self::NoRoom { .. } => {
                "raise the cache's limit, or use the order `window` with fewer shards per window"
            }
            Self::Stopped | Self::Shard(_) | Self::Each { .. } => return None,
        })
    }
}

/// Says in words which part of a cache is taken by others.
fn held_by(others: u64) -> String {
    match others {
        0 => String::new(),
        others => format!(" with the {} of other loaders of this process", Size(others)),
    }
}
