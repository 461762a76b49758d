//! Why a batch could not be made.

use std::io;

use gular_bundle::{NotBrought, Split};
use gular_files::Size;

/// What went wrong in the loader.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderError {
    /// A sample is not an image that can be decoded.
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
        "the bundle has {found}, expected encoded images, or pixels [height, width, channels] of \
         u8, u16, i8, i16, f16, bf16 or f32"
    )]
    NoImages {
        /// What it has.
        found: String,
    },
    /// A mask has another size than the image that it is moved with.
    #[error(
        "sample `{key}` (row {row} of shard `{shard}`): its mask has {} x {} pixels, its image {} x {}",
        mask.0, mask.1, image.0, image.1
    )]
    MaskSize {
        /// The sample.
        key: String,
        /// Its shard's file name.
        shard: String,
        /// Its row in the shard.
        row: usize,
        /// (width, height) of the mask, upright.
        mask: (u32, u32),
        /// (width, height) of the image, upright.
        image: (u32, u32),
    },
    /// A batch was asked for while all of them are held.
    #[error("all {slots} batches in memory are still in use, none can be filled")]
    AllLent {
        /// The loader's slots.
        slots: usize,
    },
    /// A shard of a federation did not come.
    #[error(transparent)]
    Shard(NotBrought),
    /// The node's cache has no room for the shards that are needed at a time.
    #[error(
        "split `{split}` needs {shards} of its {of} shards at a time; that needs a cache of {}, and the limit is {}",
        Size(*needed), Size(*limit)
    )]
    NoRoom {
        /// The split.
        split: Split,
        /// Shards that are needed at a time.
        shards: usize,
        /// Its shards.
        of: usize,
        /// Bytes that the cache needs for them and all else that it keeps.
        needed: u64,
        /// Its limit.
        limit: u64,
    },
    /// Samples of an epoch were not delivered as its order says.
    #[error("epoch {epoch} did not deliver the samples of its order: {what}")]
    Delivered {
        /// The epoch, from 0.
        epoch: u64,
        /// The first difference.
        what: String,
    },
    /// Nobody counted what an epoch delivered from its start.
    #[error("epoch {epoch} was resumed from a state without a tally")]
    Uncounted {
        /// The epoch, from 0.
        epoch: u64,
    },
    /// A wait ended because the process was asked to stop.
    #[error("stopped while waiting for a batch")]
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
        /// Which one, from 1.
        number: usize,
        /// How many were wanted.
        wanted: usize,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A decoder or the training's own function panicked; the loader goes on.
    #[error("a decoder or `augment` panicked on sample `{key}`: {message}")]
    Panicked {
        /// The sample.
        key: String,
        /// What the panic said.
        message: String,
    },
    /// A thread of the loader ended by a panic of its own.
    #[error("a thread of the loader panicked")]
    Broken,
}

impl LoaderError {
    /// What the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Decode { .. } | Self::MaskSize { .. } => {
                "repair these images and pack again, or leave them out of training"
            }
            Self::NoImages { .. } => "the bundle's manifest lists its fields",
            Self::AllLent { .. } => "drop each batch before asking for the next, or raise `slots`",
            Self::Memory { .. } => "use smaller batches or fewer `slots`",
            Self::Thread { .. } => "use fewer threads, or raise the limit (`ulimit -u`)",
            Self::Uncounted { .. } => {
                "states of earlier builds have no tally; counting starts with the next epoch"
            }
            Self::Delivered { .. } => {
                "add up the tallies of all ranks before saving a state, and restore the same state on all ranks; if you do, please report this as a bug"
            }
            Self::Panicked { .. } => {
                "if it is not in your own `augment`, please report it as a bug, with the sample"
            }
            Self::Broken => "please report this as a bug, with the sample",
            Self::NoRoom { .. } => {
                "raise the cache's limit, or use order `window` with fewer shards per window"
            }
            Self::Stopped | Self::Shard(_) => return None,
        })
    }
}
