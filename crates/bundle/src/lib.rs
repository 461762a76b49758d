//! What a Gular bundle *is*: names, digests, manifest, index and envelopes.
//!
//! `FORMAT.md` at the top of the repository is the normative text; every
//! module here names the section it implements. This crate opens no socket
//! and knows no tensor library.

#![forbid(unsafe_code)]
#![warn(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::arithmetic_side_effects
)]
#![cfg_attr(
    test,
    expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::arithmetic_side_effects,
        reason = "tests may panic"
    )
)]

mod axes;
mod block;
mod block_list;
mod bundle;
mod digest;
mod dtype;
mod envelope;
mod envelope_name;
mod error;
mod field;
mod filter;
mod index;
mod local_files;
mod manifest;
mod open_shards;
mod path;
mod position;
mod read_at;
mod shard;
mod shard_source;
mod split;
mod tensors;
mod view;

pub use axes::{Axes, AxesError, GridSize};
pub use block::{BLOCK_BYTES, BlockTree, n_blocks};
pub use block_list::{BLOCKS_SUFFIX, MAX_BLOCKS_BYTES};
pub use bundle::{Bundle, OpenOptions, SampleId};
pub use digest::{Digest, DigestError, StreamDigest};
pub use dtype::Dtype;
pub use envelope::{
    BundleNames, Column, FieldPlaces, FixedPlaces, InPlace, Npy, Run, SAMPLES_NAME, SampleFiles,
    Seen, ShardSpec, ShardWriter, Survey, Values, file_head, index_in_place,
    media_type_of_extension, npy_header, rebuild_index, samples_header, sniff, survey,
};
#[cfg(feature = "foreign")]
pub use envelope::{Cells, FloatLists, ParquetTable};
pub use envelope_name::Envelope;
pub use error::{Error, SampleFault};
pub use field::{Band, Decimal, Field, FieldKind, FieldName, Nodata, other_coordinate};
pub use filter::{Facts, Filter, FilterError};
pub use index::Index;
pub use local_files::{data_folder, stored_file};
pub use manifest::{
    About, DATA_DIR, FileEntry, MANIFEST_NAME, MAX_INDEX_BYTES, MAX_MANIFEST_BYTES,
    MAX_SHARD_SAMPLES, MadeValue, Manifest, Payload, ShardEntry, Statistics, write_manifest,
};
pub use open_shards::OpenCounts;
pub use path::{BundlePath, PathError};
pub use position::{FieldIdx, Row, ShardIdx};
pub use read_at::{Backend, ReadAt};
pub use shard::{CheckWhen, SampleEntry, Shard};
pub use shard_source::{
    FreeSpace, Mend, NotBrought, ShardSource, SingleValues, SpaceReader, TakeValue,
};
pub use split::Split;
pub use tensors::{SafetensorsHeader, Tensor};
pub use view::View;

/// The format version of shards and indexes, the only one there is.
pub const VERSION: u64 = 1;
/// The newest version of manifests that this build reads, which derived bundles have.
pub const MANIFEST_VERSION: u64 = 2;
