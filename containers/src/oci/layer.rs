//! One layer: a tar of the files that one part of the tree contributes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tar::{EntryType, Header};

use super::gzip::Gzip;
use crate::rootfs::{FileBytes, Layer, Node, RootPath, Rootfs, What, bytes_of};
use crate::{Error, Result, Sha256, StreamSha256, UnixTime};

/// How layers are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compressor {
    /// Every tool reads it.
    Gzip,
    /// Faster and smaller; not read by Apptainer before 1.4 nor by umoci 0.4.
    Zstd,
}

impl Compressor {
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
            Self::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
        }
    }
}

/// Level of gzip: twice as fast as 9, for 1 % more bytes.
const GZIP_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;
/// Bytes that zstd gives to a thread at a time: part of what makes its output.
const ZSTD_JOB: u32 = 8 << 20;

/// A layer's two digests, SHA-256, and its length compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packed {
    /// Digest of the tar, which does not depend on the compressor.
    pub(super) diff_id: Sha256,
    /// Digest of the blob.
    pub(super) digest: Sha256,
    pub(super) bytes: u64,
}

/// The callbacks that watch the writing, and may stop it.
#[derive(Clone, Copy)]
pub(super) struct Watch<'a> {
    /// Bytes of files that earlier layers contained.
    pub(super) before: u64,
    pub(super) progress: &'a (dyn Fn(u64) + Sync),
    pub(super) cancel: &'a AtomicBool,
}

/// Writes the nodes of one layer to `sink`.
pub(super) fn write(
    nodes: &[(&RootPath, &Node)],
    compressor: Compressor,
    threads: NonZeroUsize,
    time: UnixTime,
    watch: Watch<'_>,
    sink: &mut dyn Write,
) -> Result<Packed> {
    let mut blob = Hashing::new(sink);
    let diff_id = match compressor {
        Compressor::Gzip => {
            let mut tar = Hashing::new(Gzip::new(&mut blob, GZIP_LEVEL, threads));
            archive(nodes, time, watch, &mut tar)?;
            let (diff_id, _, gzip) = tar.finish();
            gzip.finish().map_err(write_error)?;
            diff_id
        }
        Compressor::Zstd => {
            let mut encoder = zstd::Encoder::new(&mut blob, ZSTD_LEVEL).map_err(write_error)?;
            let threads = threads.get().min(64) as u32;
            let set = encoder
                .multithread(threads)
                .and_then(|()| {
                    encoder.set_parameter(zstd::zstd_safe::CParameter::JobSize(ZSTD_JOB))
                })
                .and_then(|()| encoder.include_checksum(true));
            set.map_err(write_error)?;
            let mut tar = Hashing::new(encoder);
            archive(nodes, time, watch, &mut tar)?;
            let (diff_id, _, encoder) = tar.finish();
            encoder.finish().map_err(write_error)?;
            diff_id
        }
    };
    let (digest, bytes, _) = blob.finish();
    Ok(Packed { diff_id, digest, bytes })
}

/// The nodes of a layer and the directories above them, which a tar repeats.
pub(super) fn nodes(tree: &Rootfs, layer: Layer) -> Vec<(&RootPath, &Node)> {
    let mut above = BTreeSet::new();
    for (path, _) in tree.iter().filter(|(_, node)| node.layer == layer) {
        let mut parent = path.parent();
        while let Some(dir) = parent {
            parent = dir.parent();
            if !above.insert(dir) {
                break;
            }
        }
    }
    let of_layer = |path: &RootPath, node: &Node| {
        path != &RootPath::ROOT && (node.layer == layer || above.contains(path))
    };
    let nodes: Vec<_> = tree.iter().filter(|(path, node)| of_layer(path, node)).collect();
    // A layer needs more than directories.
    if nodes.iter().any(|(_, node)| node.layer == layer) { nodes } else { Vec::new() }
}

fn archive(
    nodes: &[(&RootPath, &Node)],
    time: UnixTime,
    watch: Watch<'_>,
    sink: &mut dyn Write,
) -> Result<()> {
    let mut watch = watch;
    let mut tar = tar::Builder::new(sink);
    let mut later = Vec::new();
    for (path, node) in nodes {
        // A link's target must be written before the link.
        if matches!(node.what, What::Hardlink(_)) {
            later.push((path, node));
        } else {
            entry(&mut tar, path, node, time, &mut watch)?;
        }
    }
    for (path, node) in later {
        entry(&mut tar, path, node, time, &mut watch)?;
    }
    tar.finish().map_err(write_error)
}

fn entry<W: Write>(
    tar: &mut tar::Builder<W>,
    path: &RootPath,
    node: &Node,
    time: UnixTime,
    watch: &mut Watch<'_>,
) -> Result<()> {
    if watch.cancel.load(Ordering::Relaxed) {
        return Err(Error::Cancelled);
    }
    let mut name = path.bytes().into_owned();
    let (kind, size, target) = match &node.what {
        What::Dir => {
            name.push(b'/');
            (EntryType::Directory, 0, None)
        }
        What::File(source) => (EntryType::Regular, source.len(), None),
        What::Symlink(target) => (EntryType::Symlink, 0, Some(bytes_of(target))),
        What::Hardlink(first) => (EntryType::Link, 0, Some(first.bytes())),
    };
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(node.mode.into());
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(node.time.unwrap_or(time).clamped_to_u64());
    header.set_size(size);
    // Values that do not fit into the header's fields are written before it, as POSIX says.
    let mut pax: Vec<(&str, &[u8])> = Vec::new();
    if header.set_path(OsStr::from_bytes(&name)).is_err() {
        pax.push(("path", &name));
    }
    if let Some(target) = &target
        && (target.len() >= 100 || header.set_link_name_literal(&**target).is_err())
    {
        pax.push(("linkpath", target));
    }
    let long = size >= 1 << 33;
    let size_text = size.to_string();
    if long {
        pax.push(("size", size_text.as_bytes()));
    }
    if !pax.is_empty() {
        tar.append_pax_extensions(pax).map_err(write_error)?;
    }
    header.set_cksum();
    match &node.what {
        What::File(FileBytes::Bytes(bytes)) => tar.append(&header, &**bytes).map_err(write_error),
        What::File(FileBytes::File { path, bytes, blake3 }) => {
            let file = File::open(path).map_err(Error::io("open", path))?;
            let hasher = blake3.map(|_| blake3::Hasher::new());
            let mut exact =
                Exact { file, bytes: *bytes, left: *bytes, path, hasher, watch: *watch };
            let appended = tar.append(&header, &mut exact);
            appended.map_err(|e| exact.blame(e))?;
            let found = exact.hasher.map(|hasher| *hasher.finalize().as_bytes());
            if found != *blake3 {
                return Err(Error::Damaged { path: path.display().to_string() });
            }
            watch.before += bytes;
            Ok(())
        }
        _ => tar.append(&header, io::empty()).map_err(write_error),
    }
}

/// A file that must still have the length that it had before.
struct Exact<'a> {
    file: File,
    bytes: u64,
    left: u64,
    path: &'a Path,
    /// Hashes the bytes, if the file's digest is known.
    hasher: Option<blake3::Hasher>,
    watch: Watch<'a>,
}

impl Read for Exact<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.watch.cancel.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        let room = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read(buffer.get_mut(..room).unwrap_or_default())?;
        if read == 0 && room > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(buffer.get(..read).unwrap_or_default());
        }
        self.left -= read as u64;
        (self.watch.progress)(self.watch.before + self.bytes - self.left);
        Ok(read)
    }
}

impl Exact<'_> {
    fn blame(&self, e: io::Error) -> Error {
        if self.watch.cancel.load(Ordering::Relaxed) {
            return Error::Cancelled;
        }
        match e.kind() {
            io::ErrorKind::UnexpectedEof => Error::Changed {
                path: self.path.display().to_string(),
                found: self.bytes - self.left,
                expected: self.bytes,
            },
            _ => write_error(e),
        }
    }
}

fn write_error(source: io::Error) -> Error {
    Error::Write { source }
}

/// A writer that hashes and counts the bytes that it passes on.
pub(super) struct Hashing<W> {
    sink: W,
    hasher: StreamSha256,
    bytes: u64,
}

impl<W: Write> Hashing<W> {
    pub(super) fn new(sink: W) -> Self {
        Self { sink, hasher: StreamSha256::default(), bytes: 0 }
    }

    /// Returns the SHA-256, the number of bytes, and the sink.
    pub(super) fn finish(self) -> (Sha256, u64, W) {
        (self.hasher.finish(), self.bytes, self.sink)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
