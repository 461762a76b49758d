//! Writes the root file system as SquashFS: blocks are compressed, or copied from earlier images.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use gular_squashfs::write::{
    self as squashfs, Compression, FileData, Fragments, Meta, Options, Tree,
};

use super::image::{Contents, Squash};
use super::write::Writer;
use crate::blocks::{EarlierBlocks, Found, Placed, RUN_BLOCKS, key};
use crate::rootfs::{FileBytes, Node, RootPath, Rootfs, What, bytes_of};
use crate::{Error, Result};

/// The block size of `mksquashfs`: with larger blocks the image is smaller, but reading one page
/// costs more.
const BLOCK_BYTES: u32 = 128 << 10;
/// Length from which a file's blocks are reused; smaller files share blocks with others.
const SMALLEST_LENT: u64 = BLOCK_BYTES as u64;
/// Runs, of a megabyte at most, that are read before they are written.
const RUNS_AHEAD: usize = 8;

/// The callback that is told the progress, and the flag that stops the work.
pub(super) struct Watch<'a> {
    /// Bytes of files that went into the image.
    done: Cell<u64>,
    progress: &'a (dyn Fn(u64) + Sync),
    cancel: &'a AtomicBool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(progress: &'a (dyn Fn(u64) + Sync), cancel: &'a AtomicBool) -> Self {
        Self { done: Cell::new(0), progress, cancel }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn advance(&self, bytes: u64) {
        self.done.set(self.done.get() + bytes);
        (self.progress)(self.done.get());
    }
}

/// A root file system that was written.
pub(super) struct Squashed {
    /// The final bytes of the image's beginning.
    pub(super) superblock: Vec<u8>,
    /// Files whose blocks later images can have, from the root file system's first byte.
    pub(super) lendable: Vec<Placed>,
    /// Bytes of files whose blocks came from earlier images.
    pub(super) reused: u64,
}

/// Writes the root file system.
pub(super) fn squash(
    tree: &Rootfs,
    contents: &Contents<'_>,
    sink: &mut Writer,
    lent: &EarlierBlocks,
    watch: &Watch<'_>,
) -> Result<Squashed> {
    let (options, settings) = (options(contents), settings(contents));
    let (_, root) = tree.iter().next().ok_or_else(|| {
        let reason = "the image has no root folder".to_owned();
        Error::Conflict { path: "/".to_owned(), reason }
    })?;
    let meta = |node: &Node| Meta {
        mode: node.mode,
        uid: 0,
        gid: 0,
        mtime: node.time.unwrap_or(contents.time).clamped_to_u32(),
    };
    let root_wrong = wrong(&RootPath::ROOT, watch);
    let writer = squashfs::Writer::new(sink, options).map_err(&root_wrong)?;
    let keeps = contents.blocks.is_some();
    let (lendable, fragments) = (Vec::new(), Shared { keeps, ..Shared::default() });
    let mut files = Files { writer, settings, lent, watch, lendable, fragments, reused: 0 };
    let mut nodes = Tree::new(meta(root));
    // Files of a layer lie together: what seldom changes first.
    for layer in tree.layers() {
        let of_layer = tree.iter().skip(1).filter(|(_, node)| node.layer == layer);
        for (path, node) in of_layer {
            let inner = match &node.what {
                What::Dir => squashfs::TreeNode::Dir,
                What::Symlink(target) => squashfs::TreeNode::Symlink(bytes_of(target).into_owned()),
                What::Hardlink(first) => squashfs::TreeNode::Hardlink(first.bytes().into_owned()),
                What::File(source) => squashfs::TreeNode::File(files.add(path, source)?),
            };
            nodes.add(path.bytes(), meta(node), inner).map_err(wrong(path, watch))?;
        }
    }
    files.writer.settle().map_err(&root_wrong)?;
    let lendable = files.placed().map_err(&root_wrong)?;
    let reused = files.reused + files.fragments.reused;
    let (superblock, _) = files.writer.finish(&nodes).map_err(&root_wrong)?;
    Ok(Squashed { superblock: superblock.to_vec(), lendable, reused })
}

/// The settings that affect blocks, beside the bytes they are made of.
pub(super) fn settings(contents: &Contents<'_>) -> String {
    let options = options(contents);
    format!(
        "{:?} probe={} block={} zeros={:?}",
        options.data, options.probe, options.block_size, options.zeros
    )
}

fn options(contents: &Contents<'_>) -> Options {
    // Level 5 takes a sixth less time than 6, and 0.1 % more space, on CUDA's libraries.
    let compression = match contents.squash {
        Squash::Gzip => Compression::Gzip(5),
        Squash::Zstd => Compression::Zstd(3),
    };
    let mut options = Options::default();
    options.data = Some(compression);
    options.metadata = Some(compression);
    options.probe = true;
    options.block_size = BLOCK_BYTES;
    options.fragments = Fragments::SmallFiles;
    options.mtime = contents.time.clamped_to_u32();
    options.threads = contents.threads;
    options
}

fn wrong<'a>(path: &RootPath, watch: &Watch<'a>) -> impl Fn(squashfs::Error) -> Error + use<'a> {
    let path = path.to_string();
    let cancel = watch.cancel;
    move |e| match e {
        squashfs::Error::Write(source) => Error::Write { source },
        squashfs::Error::Read(_) if cancel.load(Ordering::Relaxed) => Error::Cancelled,
        source => Error::Squash { path: path.clone(), source },
    }
}

/// The files on their way into the image.
struct Files<'a> {
    writer: squashfs::Writer<&'a mut Writer>,
    /// The settings that affect blocks, beside the bytes they are made of.
    settings: String,
    lent: &'a EarlierBlocks,
    watch: &'a Watch<'a>,
    /// Data, key, and the digests of its runs where they are known.
    lendable: Vec<(FileData, String, Vec<String>)>,
    fragments: Shared,
    reused: u64,
}

/// The blocks that small files share, in their order.
#[derive(Default)]
struct Shared {
    /// Whether the places of blocks are stored for later images.
    keeps: bool,
    /// Key, length, and digests of the runs where they are known: of all but the last block.
    known: Vec<(String, u64, Vec<String>)>,
    reused: u64,
}

impl Shared {
    /// Returns the block of these bytes from an earlier image.
    fn find(
        &mut self,
        bytes: &[u8],
        lent: &EarlierBlocks,
        settings: &str,
    ) -> Option<(u32, Vec<u8>)> {
        if !self.keeps {
            return None;
        }
        let (key, size) = (key(blake3::hash(bytes).as_bytes(), settings), bytes.len() as u64);
        let found = lent.find(&key).filter(|found| found.placed.size == size);
        let block = found.and_then(|found| {
            let (at, len, words) = found.placed.runs().next()?;
            let [word] = words else { return None };
            Some((*word, found.read(0, at, len)?, found.placed.digests.clone()))
        });
        let digests = block.as_ref().map_or_else(Vec::new, |(.., digests)| digests.clone());
        self.known.push((key, size, digests));
        self.reused += if block.is_some() { size } else { 0 };
        block.map(|(word, bytes, _)| (word, bytes))
    }
}

impl Files<'_> {
    fn add(&mut self, path: &RootPath, source: &FileBytes) -> Result<FileData> {
        self.watch.check()?;
        match source {
            FileBytes::Bytes(bytes) => {
                let data = self.data(&mut &**bytes).map_err(wrong(path, self.watch))?;
                self.watch.advance(bytes.len() as u64);
                Ok(data)
            }
            FileBytes::File { path: source, bytes, blake3 } => {
                let mut file = File::open(source).map_err(Error::io("open", source))?;
                let changed = |found| Error::Changed {
                    path: source.display().to_string(),
                    found,
                    expected: *bytes,
                };
                let found = file.metadata().map_err(Error::io("read", source))?.len();
                if found != *bytes {
                    return Err(changed(found));
                }
                let data = self.file(path, source, &mut file, *bytes, *blake3)?;
                if data.size() == *bytes { Ok(data) } else { Err(changed(data.size())) }
            }
        }
    }

    /// Takes a file's bytes, with shared blocks of earlier images.
    fn data(&mut self, reader: &mut dyn Read) -> Result<FileData, squashfs::Error> {
        let Self { writer, fragments, lent, settings, .. } = self;
        writer.data_lent(reader, &mut |bytes| fragments.find(bytes, lent, settings))
    }

    fn file(
        &mut self,
        path: &RootPath,
        source: &Path,
        file: &mut File,
        bytes: u64,
        told: Option<[u8; 32]>,
    ) -> Result<FileData> {
        let lendable = self.fragments.keeps && bytes >= SMALLEST_LENT;
        let known = match told {
            None if lendable && self.lent.has_size(bytes) => {
                Some(digest_of(source, file, self.watch)?)
            }
            told => told,
        };
        if let Some(digest) = known.filter(|_| lendable) {
            let key = key(&digest, &self.settings);
            if let Some(found) = self.lent.find(&key).filter(|found| found.placed.size == bytes) {
                let (data, sound) = self.copy(path, source, file, &found, &digest)?;
                let digests = if sound { found.placed.digests.clone() } else { Vec::new() };
                self.lendable.push((data, key, digests));
                return Ok(data);
            }
        }
        let hasher = (lendable || told.is_some()).then(blake3::Hasher::new);
        let mut reader = Watched { reader: file, hasher, watch: self.watch };
        let data = self.data(&mut reader).map_err(wrong(path, self.watch))?;
        let digest = reader.hasher.map(|hasher| *hasher.finalize().as_bytes());
        if told.is_some() && told != digest {
            return Err(Error::Damaged { path: source.display().to_string() });
        }
        if let Some(digest) = digest.filter(|_| lendable) {
            self.lendable.push((data, key(&digest, &self.settings), Vec::new()));
        }
        Ok(data)
    }

    /// Takes a file's blocks from an earlier image and compresses damaged ones
    /// again. Returns whether none was damaged.
    fn copy(
        &mut self,
        path: &RootPath,
        source: &Path,
        file: &mut File,
        found: &Found<'_>,
        digest: &[u8; 32],
    ) -> Result<(FileData, bool)> {
        let run_bytes = u64::from(BLOCK_BYTES) * RUN_BLOCKS as u64;
        let mut left = found.placed.size;
        let mut sound = true;
        let mut parts = self.writer.file().map_err(wrong(path, self.watch))?;
        let (watch, reused) = (self.watch, &mut self.reused);
        let (ahead, runs) = mpsc::sync_channel(RUNS_AHEAD);
        thread::scope(|scope| {
            // Runs are read and compared with their digests while earlier ones are written.
            scope.spawn(move || {
                for (number, (at, len, words)) in found.placed.runs().enumerate() {
                    // Sending fails if writing has failed, so that nobody takes the blocks.
                    if ahead.send((words, found.read(number, at, len))).is_err() {
                        return;
                    }
                }
            });
            for (words, blocks) in runs {
                watch.check()?;
                let size = left.min(run_bytes);
                match blocks {
                    Some(blocks) => {
                        parts.packed(size, words, blocks).map_err(wrong(path, watch))?;
                        *reused += size;
                        watch.advance(size);
                    }
                    None => {
                        // The file was not read so far: it may not be what the key says.
                        if sound && digest_of(source, file, watch)? != *digest {
                            return Err(Error::Damaged { path: source.display().to_string() });
                        }
                        sound = false;
                        let start = found.placed.size - left;
                        file.seek(SeekFrom::Start(start)).map_err(Error::io("read", source))?;
                        let reader = (&mut *file).take(size);
                        let mut reader = Watched { reader, hasher: None, watch };
                        parts.raw(&mut reader).map_err(wrong(path, watch))?;
                    }
                }
                left -= size;
            }
            Ok(())
        })?;
        Ok((parts.end().map_err(wrong(path, self.watch))?, sound))
    }

    fn placed(&self) -> Result<Vec<Placed>, squashfs::Error> {
        let mut placed = Vec::new();
        for (data, key, digests) in &self.lendable {
            if let Some(squashfs::Placed { start, words }) = self.writer.placed(*data)? {
                let (key, digests, size) = (key.clone(), digests.clone(), data.size());
                placed.push(Placed { key, size, start, words, digests });
            }
        }
        let fragments = self.fragments.known.iter().zip(self.writer.fragments());
        placed.extend(fragments.map(|((key, size, digests), (start, word))| Placed {
            key: key.clone(),
            size: *size,
            start: *start,
            words: vec![*word],
            digests: digests.clone(),
        }));
        Ok(placed)
    }
}

/// BLAKE3 of a file, which is left at its start.
fn digest_of(source: &Path, file: &mut File, watch: &Watch<'_>) -> Result<[u8; 32]> {
    let failed = || Error::io("read", source);
    file.seek(SeekFrom::Start(0)).map_err(failed())?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        watch.check()?;
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => hasher.update(buffer.get(..read).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(failed()(e)),
        };
    }
    file.seek(SeekFrom::Start(0)).map_err(failed())?;
    Ok(*hasher.finalize().as_bytes())
}

/// A reader that is hashed, counted and stopped on its way.
struct Watched<'a, R> {
    reader: R,
    hasher: Option<blake3::Hasher>,
    watch: &'a Watch<'a>,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watch.check().map_err(io::Error::other)?;
        let len = self.reader.read(buffer)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(buffer.get(..len).unwrap_or_default());
        }
        self.watch.advance(len as u64);
        Ok(len)
    }
}
