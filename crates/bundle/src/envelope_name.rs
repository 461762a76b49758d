//! The names of the file formats of shards.

use serde::{Deserialize, Serialize};

/// The file format of a bundle's shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Envelope {
    /// safetensors.
    Shards,
    /// Arrow IPC.
    Arrow,
    /// Parquet.
    Parquet,
    /// HDF5.
    Hdf5,
    /// tar.
    Tar,
    /// SquashFS.
    Squashfs,
    /// MosaicML Streaming's shards; only adopted bundles have them.
    Mds,
    /// FFCV's `.beton`; only adopted bundles have it.
    Ffcv,
}

impl Envelope {
    /// All envelopes in which a bundle can be written; tests and benchmarks take each of them.
    pub const ALL: [Self; 6] =
        [Self::Shards, Self::Arrow, Self::Parquet, Self::Hdf5, Self::Tar, Self::Squashfs];

    /// The envelopes of other programs that are only read, in place.
    pub const ADOPTED: [Self; 2] = [Self::Mds, Self::Ffcv];

    /// The name in manifest and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shards => "shards",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
            Self::Hdf5 => "hdf5",
            Self::Tar => "tar",
            Self::Squashfs => "squashfs",
            Self::Mds => "mds",
            Self::Ffcv => "ffcv",
        }
    }

    /// The extension of shards in this envelope.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Shards => "safetensors",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
            Self::Hdf5 => "h5",
            Self::Tar => "tar",
            Self::Squashfs => "squashfs",
            Self::Mds => "mds",
            Self::Ffcv => "beton",
        }
    }
}

impl std::fmt::Display for Envelope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
