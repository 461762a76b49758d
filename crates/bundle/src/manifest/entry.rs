//! The files that a manifest lists: shards, their indexes, their views.

use serde::{Deserialize, Serialize};

use crate::{BundlePath, Digest, Split};

/// One shard and its index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ShardLine", into = "ShardLine")]
pub struct ShardEntry {
    /// The split of all samples of the shard.
    pub split: Split,
    /// The shard's file.
    pub file: FileEntry,
    /// The number of samples.
    pub samples: u64,
    /// The shard's index.
    pub index: FileEntry,
    /// The shard's view, if samples of the index are left out or have other labels.
    pub view: Option<FileEntry>,
}

impl ShardEntry {
    /// Returns the files of the entry: the shard, its index, its view.
    pub fn files(&self) -> impl Iterator<Item = &FileEntry> {
        [&self.file, &self.index].into_iter().chain(&self.view)
    }

    /// Returns the files that say where the samples are: the index and the view.
    pub fn listings(&self) -> impl Iterator<Item = &FileEntry> {
        self.files().skip(1)
    }

    /// Returns the bytes of all files of the entry.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

/// A file of the bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path of the file below the data folder.
    pub name: BundlePath,
    /// Length of the file.
    pub bytes: u64,
    /// Digest of the file's bytes.
    #[serde(rename = "blake3", with = "hex_digest")]
    pub digest: Digest,
}

/// [`ShardEntry`] as it is written: the members of its file are between its own members.
#[derive(Serialize, Deserialize)]
struct ShardLine {
    split: Split,
    name: BundlePath,
    bytes: u64,
    #[serde(with = "hex_digest")]
    blake3: Digest,
    samples: u64,
    index: FileEntry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    view: Option<FileEntry>,
}

impl From<ShardLine> for ShardEntry {
    fn from(line: ShardLine) -> Self {
        let ShardLine { split, name, bytes, blake3: digest, samples, index, view } = line;
        Self { split, file: FileEntry { name, bytes, digest }, samples, index, view }
    }
}

impl From<ShardEntry> for ShardLine {
    fn from(entry: ShardEntry) -> Self {
        let ShardEntry { split, file, samples, index, view } = entry;
        let FileEntry { name, bytes, digest } = file;
        Self { split, name, bytes, blake3: digest, samples, index, view }
    }
}

mod hex_digest {
    use super::Digest;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(digest: &Digest, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&digest.hex())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Digest, D::Error> {
        Digest::parse(&String::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}
