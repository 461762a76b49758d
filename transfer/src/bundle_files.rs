//! Sources of the files of a bundle.

use std::io;
use std::ops::Range;

use gular_bundle::{BLOCK_BYTES, Digest, FileEntry, Manifest, ShardEntry, Split};
use gular_files::BlockCutter;
use gular_pelican::Sink;

use crate::{Error, Watch, WrongCopy};

/// A source of the files of one bundle, whose manifest has been read.
pub trait BundleFiles: Sync {
    /// The name of the bundle in reports, including its digest.
    fn name(&self) -> String;

    /// The bundle's manifest.
    fn manifest(&self) -> &ManifestFile;

    /// Reads a small file of the manifest, such as an index, and checks it.
    ///
    /// # Errors
    /// [`Error::Source`] and others.
    fn read(&self, file: &FileEntry, watch: Watch<'_>) -> Result<Vec<u8>, Error>;

    /// Reads the blocks of a shard with these numbers, as far as it has them, in order, each
    /// accepted; [`Blocks`] cuts them.
    ///
    /// # Errors
    /// As [`BundleFiles::read`].
    fn stream(
        &self,
        file: &FileEntry,
        accepts: &(dyn Fn(u64, &[u8]) -> bool + Sync),
        blocks: Range<u64>,
        sink: &mut Sink<'_>,
        watch: Watch<'_>,
    ) -> Result<(), Error>;

    /// Returns the servers that gave wrong bytes.
    fn wrong_copies(&self) -> Vec<WrongCopy> {
        Vec::new()
    }
}

/// A `manifest.json`: its contents, its bytes, and their digest.
#[derive(Debug)]
pub struct ManifestFile {
    manifest: Manifest,
    bytes: Vec<u8>,
    digest: Digest,
}

impl ManifestFile {
    /// Parses the bytes of a `manifest.json`; errors name the file as `shown`.
    ///
    /// # Errors
    /// Those of [`Manifest::parse`].
    pub fn parse(shown: &str, bytes: Vec<u8>) -> Result<Self, gular_bundle::Error> {
        let manifest = Manifest::parse(shown, &bytes)?;
        let digest = Digest::of(&bytes);
        Ok(Self { manifest, bytes, digest })
    }

    /// The parsed manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The digest of the bytes, which identifies the bundle.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the shards of `splits`; of all splits if `splits` is empty.
    ///
    /// # Errors
    /// [`Error::NoSplit`] for a split without a shard, which the caller must have misspelt.
    pub fn shards_of(&self, splits: &[Split]) -> Result<Vec<&ShardEntry>, Error> {
        has_splits(&self.manifest, splits)?;
        let wanted = |shard: &&ShardEntry| splits.is_empty() || splits.contains(&shard.split);
        Ok(self.manifest.shards.iter().filter(wanted).collect())
    }
}

/// Returns an error unless the bundle has each of `splits`.
///
/// # Errors
/// [`Error::NoSplit`] names the first one that the bundle does not have.
pub fn has_splits(manifest: &Manifest, splits: &[Split]) -> Result<(), Error> {
    let has = |split: Split| manifest.of_split(split).next().is_some();
    match splits.iter().copied().find(|split| !has(*split)) {
        None => Ok(()),
        Some(split) => {
            let has = Split::ALL.into_iter().filter(|split| has(*split)).collect();
            Err(Error::NoSplit { split, has })
        }
    }
}

/// Passes on blocks of a file whose bytes are received in order, each if it is accepted.
pub struct Blocks<'a> {
    file: &'a FileEntry,
    accepts: &'a (dyn Fn(u64, &[u8]) -> bool + Sync),
    sink: &'a mut Sink<'a>,
    cutter: BlockCutter,
    refused: bool,
}

impl<'a> Blocks<'a> {
    /// Expects the bytes of `blocks` of `file`, from the first byte of the first one on.
    pub fn new(
        file: &'a FileEntry,
        accepts: &'a (dyn Fn(u64, &[u8]) -> bool + Sync),
        blocks: Range<u64>,
        sink: &'a mut Sink<'a>,
    ) -> Self {
        Self { file, accepts, sink, cutter: BlockCutter::new(file.bytes, blocks), refused: false }
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// Those of the sink; [`io::ErrorKind::InvalidData`] for a block that is not accepted, and for
    /// bytes behind the end of the file, as [`Blocks::end`] says; any error for bytes behind the last
    /// of the blocks, when [`Blocks::is_done`].
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Self { accepts, sink, refused, .. } = self;
        let mut pass_on = |number, position, bytes: &[u8]| match accepts(number, bytes) {
            true => sink(position, bytes),
            false => {
                *refused = true;
                Err(io::ErrorKind::InvalidData.into())
            }
        };
        let n = self.cutter.take(bytes, &mut pass_on)?;
        if n == bytes.len() {
            return Ok(());
        }
        self.refused = self.cutter.until() == self.file.bytes;
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Whether all blocks were passed on.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.cutter.is_done() || self.file.bytes == 0
    }

    /// Ends the file. Fails unless all blocks were passed on.
    ///
    /// # Errors
    /// [`gular_bundle::Error::Block`] names the block that was refused, or is incomplete.
    pub fn end(&self) -> Result<(), Error> {
        if !self.refused && self.is_done() {
            return Ok(());
        }
        let start = self.cutter.position();
        let end = start.saturating_add(BLOCK_BYTES as u64).min(self.file.bytes);
        Err(gular_bundle::Error::Block { path: self.file.name.to_string(), start, end }.into())
    }

    /// Returns whether wrong bytes were received.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use gular_bundle::BundlePath;

    use super::*;

    const BLOCK: usize = BLOCK_BYTES;

    /// Returns which bytes are passed on if they arrive in pieces: the first one, and their number.
    fn passed(len: usize, from: u64, piece: usize, bad: Option<u64>) -> (Vec<(u64, usize)>, bool) {
        let name = BundlePath::parse("x").unwrap();
        let file = FileEntry { name, bytes: len as u64, digest: Digest::of(b"") };
        let all: Vec<u8> = (0..len).map(|i| (i / BLOCK) as u8).collect();
        let accepts = |block: u64, bytes: &[u8]| {
            bad != Some(block) && bytes.iter().all(|b| u64::from(*b) == block)
        };
        let mut seen = Vec::new();
        let mut sink = |at: u64, bytes: &[u8]| {
            seen.push((at, bytes.len()));
            Ok(())
        };
        let mut blocks = Blocks::new(&file, &accepts, from..u64::MAX, &mut sink);
        let rest = &all[from as usize * BLOCK..];
        let taken = rest.chunks(piece).try_for_each(|piece| blocks.take(piece));
        if bad.is_some() {
            let expected = format!(
                "`x` is damaged: bytes {BLOCK} to {} differ from what was packed",
                2 * BLOCK
            );
            assert_eq!(blocks.end().unwrap_err().to_string(), expected);
        }
        (seen, taken.is_ok())
    }

    #[test]
    fn blocks_are_passed_on_whole_whatever_the_pieces() {
        let second = (BLOCK as u64, BLOCK);
        let last = (2 * BLOCK as u64, 10);
        for piece in [BLOCK, BLOCK + 7, 3 * BLOCK, 300_000] {
            let all = passed(2 * BLOCK + 10, 0, piece, None);
            assert_eq!(all, (vec![(0, BLOCK), second, last], true), "{piece}");
            let rest = passed(2 * BLOCK + 10, 1, piece, None);
            assert_eq!(rest, (vec![second, last], true), "{piece}");
            let cut = passed(2 * BLOCK + 10, 0, piece, Some(1));
            assert_eq!(cut, (vec![(0, BLOCK)], false), "{piece}");
        }
    }

    #[test]
    fn more_bytes_than_the_file_has_are_refused() {
        let name = BundlePath::parse("x").unwrap();
        let file = FileEntry { name, bytes: 3, digest: Digest::of(b"") };
        let mut sink = |_: u64, _: &[u8]| Ok(());
        let mut blocks = Blocks::new(&file, &|_, _| true, 0..1, &mut sink);
        blocks.take(b"ab").unwrap();
        assert!(blocks.end().is_err());
        blocks.take(b"c").unwrap();
        blocks.end().unwrap();
        assert!(blocks.take(b"d").is_err() && blocks.is_refused());
        assert!(blocks.end().is_err());
    }
}
