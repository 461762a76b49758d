//! One module per envelope: a writer that writes samples to a shard, and an indexer that finds them
//! by walking the file's own structure.
//!
//! ```text
//! ShardWriter ─▶ Layout (shards, tar, …) ─▶ Out ─▶ file + block tree
//!      └──────▶ IndexBuilder ─▶ index file
//!
//! file ─ survey ─▶ Survey: columns of stored runs ─▶ rebuild_index, adopt
//! ```
//!
//! The rest of the project knows a format only by what a value is and where its bytes are.

mod files;
#[cfg(feature = "foreign")]
mod foreign;
mod media;
mod names;
mod native_envelope;
mod npy;
mod rebuild;
mod shard_file;
mod shards;
mod spool;
mod survey;
mod writer;

#[cfg(feature = "foreign")]
use foreign as known;
#[cfg(not(feature = "foreign"))]
use native_envelope as known;

pub use files::{SAMPLES_NAME, SampleFiles, file_head, samples_header};
#[cfg(feature = "foreign")]
pub use foreign::{Cells, FloatLists, ParquetTable};
pub use media::{of_extension as media_type_of_extension, sniff};
pub use names::BundleNames;
pub use npy::{Npy, header as npy_header};
pub use rebuild::{FieldPlaces, InPlace, Seen, index_in_place, rebuild_index};
pub(crate) use shard_file::Out;
pub use survey::{Column, FixedPlaces, Run, Survey, Values, survey};
pub(crate) use writer::{Finished, Layout};
pub use writer::{ShardSpec, ShardWriter};
