//! Sources of the files of a bundle.

use std::io;
use std::sync::atomic::AtomicBool;

use gular_bundle::{BLOCK_BYTES, Digest, FileEntry, Manifest, ShardEntry, Split};
use gular_pelican::{Client, Sink};

use crate::{Error, RemoteBundle, WrongCopy, has_splits, wrong_copies};

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
    fn read(&self, file: &FileEntry, cancel: &AtomicBool) -> Result<Vec<u8>, Error>;

    /// Reads the blocks of a shard from `from_block` to its end, in order, each accepted;
    /// [`Blocks`] cuts them.
    ///
    /// # Errors
    /// As [`BundleFiles::read`].
    fn stream(
        &self,
        file: &FileEntry,
        accepts: &(dyn Fn(u64, &[u8]) -> bool + Sync),
        from_block: u64,
        sink: &mut Sink<'_>,
        cancel: &AtomicBool,
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

/// A published bundle, with the client that reads it.
pub(crate) struct OfFederation<'a> {
    pub(crate) client: &'a Client,
    pub(crate) remote: &'a RemoteBundle,
}

impl BundleFiles for OfFederation<'_> {
    fn name(&self) -> String {
        self.remote.url().to_string()
    }

    fn manifest(&self) -> &ManifestFile {
        self.remote.file()
    }

    fn read(&self, file: &FileEntry, cancel: &AtomicBool) -> Result<Vec<u8>, Error> {
        self.remote.read(self.client, file, cancel)
    }

    fn stream(
        &self,
        file: &FileEntry,
        accepts: &(dyn Fn(u64, &[u8]) -> bool + Sync),
        from_block: u64,
        sink: &mut Sink<'_>,
        cancel: &AtomicBool,
    ) -> Result<(), Error> {
        self.remote.stream(self.client, file, accepts, from_block, sink, cancel)
    }

    fn wrong_copies(&self) -> Vec<WrongCopy> {
        wrong_copies(self.client)
    }
}

/// Cuts the bytes of a file, received in order, into blocks, and passes on each block that is
/// accepted.
pub struct Blocks<'a> {
    file: &'a FileEntry,
    accepts: &'a (dyn Fn(u64, &[u8]) -> bool + Sync),
    sink: &'a mut Sink<'a>,
    /// The block that is being filled, and its bytes so far.
    block: u64,
    bytes: Vec<u8>,
    refused: bool,
}

impl<'a> Blocks<'a> {
    /// Starts at a block of `file`.
    pub fn new(
        file: &'a FileEntry,
        accepts: &'a (dyn Fn(u64, &[u8]) -> bool + Sync),
        from_block: u64,
        sink: &'a mut Sink<'a>,
    ) -> Self {
        Self { file, accepts, sink, block: from_block, bytes: Vec::new(), refused: false }
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// Those of the sink; [`io::ErrorKind::InvalidData`] for a block that is not accepted, and for
    /// bytes behind the last one, as [`Blocks::end`] says.
    pub fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let wanted = self.wanted();
            if wanted == 0 {
                return self.refuse();
            }
            let here = wanted.min(bytes.len());
            let (now, later) = bytes.split_at_checked(here).unwrap_or((bytes, &[]));
            self.bytes.extend_from_slice(now);
            bytes = later;
            if here == wanted {
                self.pass_on()?;
            }
        }
        Ok(())
    }

    /// Ends the file. Fails unless all of it was passed on.
    ///
    /// # Errors
    /// [`gular_bundle::Error::Block`] names the block that was refused, or is incomplete.
    pub fn end(&self) -> Result<(), Error> {
        let start = self.start();
        if !self.refused && start >= self.file.bytes {
            return Ok(());
        }
        let end = start.saturating_add(BLOCK_BYTES as u64).min(self.file.bytes);
        Err(gular_bundle::Error::Block { path: self.file.name.to_string(), start, end }.into())
    }

    /// Returns whether wrong bytes were received.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    fn refuse(&mut self) -> io::Result<()> {
        self.refused = true;
        Err(io::ErrorKind::InvalidData.into())
    }

    fn start(&self) -> u64 {
        self.block.saturating_mul(BLOCK_BYTES as u64)
    }

    /// Returns how many bytes the current block still needs.
    fn wanted(&self) -> usize {
        let rest = self.file.bytes.saturating_sub(self.start()).min(BLOCK_BYTES as u64);
        usize::try_from(rest).unwrap_or(BLOCK_BYTES).saturating_sub(self.bytes.len())
    }

    fn pass_on(&mut self) -> io::Result<()> {
        if !(self.accepts)(self.block, &self.bytes) {
            return self.refuse();
        }
        let start = self.start();
        (self.sink)(start, &self.bytes)?;
        self.bytes.clear();
        self.block = self.block.saturating_add(1);
        Ok(())
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
        let mut blocks = Blocks::new(&file, &accepts, from, &mut sink);
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
        let mut blocks = Blocks::new(&file, &|_, _| true, 0, &mut sink);
        blocks.take(b"ab").unwrap();
        assert!(blocks.end().is_err());
        blocks.take(b"c").unwrap();
        blocks.end().unwrap();
        assert!(blocks.take(b"d").is_err() && blocks.is_refused());
        assert!(blocks.end().is_err());
    }
}
