//! The formats of other people's tools (feature `foreign`).
//!
//! Reading a bundle in any of them needs none of this, as its index says where every value is. Only
//! making, adopting and checking files needs it. A format is a folder with a `Writer` or a
//! `survey`, or both.

mod arrays;
mod arrow;
mod ffcv;
mod hdf5;
mod huggingface;
mod le;
mod mds;
mod parquet;
mod squashfs;
mod tar;
mod unique;

pub use parquet::{Cells, FloatLists, ParquetTable};

use crate::envelope::{Layout, Out, ShardSpec, Survey, native_envelope};
use crate::{Envelope, Error, ReadAt};

/// Starts a shard of any envelope that bundles are written in.
pub(super) fn begin(out: &mut Out, spec: &ShardSpec<'_>) -> Result<Box<dyn Layout>, Error> {
    Ok(match spec.envelope {
        Envelope::Tar => Box::new(tar::Writer::begin(spec)),
        Envelope::Hdf5 => Box::new(hdf5::Writer::begin(out, spec)?),
        Envelope::Arrow => Box::new(arrow::Writer::begin(out, spec)?),
        Envelope::Parquet => Box::new(parquet::Writer::begin(out, spec)?),
        Envelope::Squashfs => Box::new(squashfs::Writer::begin(out, spec)?),
        Envelope::Shards | Envelope::Mds | Envelope::Ffcv => {
            return native_envelope::begin(out, spec);
        }
    })
}

/// Walks a file of any envelope.
pub(super) fn survey(file: &ReadAt, envelope: Envelope) -> Result<Survey, Error> {
    match envelope {
        Envelope::Shards => native_envelope::survey(file, envelope),
        Envelope::Tar => tar::survey(file),
        Envelope::Hdf5 => hdf5::survey(file),
        Envelope::Arrow => arrow::survey(file),
        Envelope::Parquet => parquet::survey(file),
        Envelope::Squashfs => squashfs::survey(file),
        Envelope::Mds => mds::survey(file),
        Envelope::Ffcv => ffcv::survey(file),
    }
}
