//! Writes a bundle again in another envelope, or as a folder of plain files.
//!
//! ```text
//! bundle ─ each shard: read a sample, check its digest ─▶ shard writer ─▶ bundle
//!                                                    └──▶ files and samples.tsv
//! ```
//!
//! Samples, their order, shards and splits stay; so converting back gives the
//! first bundle, digest and all. Memory is one sample and one writer a thread.

mod bundle;
mod conversion;
mod directory;

pub(crate) use conversion::each_shard;
pub use conversion::{ConvertOptions, ConvertReport, Target, convert};
