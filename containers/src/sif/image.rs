//! A whole image: the root file system squashed into a SIF.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;

use gular_squashfs::write::{self as squashfs, Compression, Fragments, Meta, Options, Tree};
use tempfile::NamedTempFile;

use super::{Arch, Kind, Settings, Writer};
use crate::rootfs::{Layer, Node, RootPath, Rootfs, Source, What};
use crate::{Error, Result};

/// How the root file system is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Squash {
    /// Every runtime mounts it.
    Gzip,
    /// Faster to write and to read; refused by Apptainer before 1.4.
    Zstd,
}

/// What goes into the file beside the root file system.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'a> {
    /// Processor of its programs.
    pub arch: Arch,
    /// Time of its making and of all files inside, seconds since 1970.
    pub time: u32,
    /// The recipe's text.
    pub recipe: &'a str,
    /// What `apptainer inspect` reads: see [`describe`](crate::singularity::describe).
    pub metadata: &'a str,
    /// A list of what is inside, SPDX as JSON.
    pub sbom: Option<&'a str>,
    /// How the root file system is compressed.
    pub squash: Squash,
    /// Threads that compress; they change no byte.
    pub threads: NonZeroUsize,
}

/// What `mksquashfs` takes: larger blocks are smaller in all, and cost a reader of
/// one page more.
const BLOCK_BYTES: u32 = 128 << 10;

/// Writes `to`, which must not be there: under another name first, then renamed.
///
/// # Errors
/// [`Error::Exists`]; [`Error::Squash`] when a file is not what it was or the
/// tree cannot be squashed; [`Error::Io`].
pub fn write_image(tree: &Rootfs, contents: &Contents<'_>, to: &Path) -> Result<()> {
    if to.symlink_metadata().is_ok() {
        return Err(Error::Exists { path: to.display().to_string() });
    }
    let parent = to.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    let mut builder = tempfile::Builder::new();
    // As Apptainer makes them: to be run like a program.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let temp = builder.prefix(".gular-").permissions(mode).tempfile_in(parent);
    let temp: NamedTempFile = temp.map_err(Error::io("create", parent))?;
    let file = temp.reopen().map_err(Error::io("open", to))?;
    let file = fill(tree, contents, file)?;
    file.sync_all().map_err(Error::io("write", to))?;
    temp.persist_noclobber(to).map_err(|e| Error::io("create", to)(e.error))?;
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", parent))
}

fn fill(tree: &Rootfs, contents: &Contents<'_>, file: File) -> Result<File> {
    let failed = |source: io::Error| Error::Write { source };
    let settings = Settings { arch: contents.arch, time: contents.time.into() };
    let mut sif = Writer::new(file, settings).map_err(failed)?;
    sif.add(Kind::Deffile, "deffile", contents.recipe.as_bytes()).map_err(failed)?;
    let metadata = contents.metadata.as_bytes();
    sif.add(Kind::Json, "inspect-metadata.json", metadata).map_err(failed)?;
    if let Some(sbom) = contents.sbom {
        sif.add(Kind::SpdxJson, "sbom.spdx.json", sbom.as_bytes()).map_err(failed)?;
    }
    sif.start(Kind::RootPartition(contents.arch), "root.squashfs").map_err(failed)?;
    let superblock = squash(tree, contents, &mut sif)?;
    sif.end(&superblock);
    sif.finish().map_err(failed)
}

/// Writes the root file system, and returns what replaces its first bytes.
fn squash(tree: &Rootfs, contents: &Contents<'_>, sink: &mut Writer) -> Result<Vec<u8>> {
    let compression = match contents.squash {
        Squash::Gzip => Compression::Gzip(6),
        Squash::Zstd => Compression::Zstd(3),
    };
    let mut options = Options::default();
    options.data = Some(compression);
    options.metadata = Some(compression);
    options.probe = true;
    options.block_size = BLOCK_BYTES;
    options.fragments = Fragments::SmallFiles;
    options.mtime = contents.time;
    options.threads = contents.threads;
    let wrong = |path: &RootPath| {
        let path = path.to_string();
        move |e| match e {
            squashfs::Error::Write(source) => Error::Write { source },
            source => Error::Squash { path, source },
        }
    };
    let meta = |node: &Node| Meta { mode: node.mode, uid: 0, gid: 0, mtime: contents.time };
    let (_, root) = tree.iter().next().ok_or(Error::Limit { what: "nodes", limit: 0 })?;
    let mut writer = squashfs::Writer::new(sink, options).map_err(wrong(&RootPath::ROOT))?;
    let mut nodes = Tree::new(meta(root));
    // Files of a layer lie together: what seldom changes first.
    for layer in Layer::ALL {
        let of_layer = tree.iter().skip(1).filter(|(_, node)| node.layer == layer);
        for (path, node) in of_layer {
            let inner = match &node.what {
                What::Dir => squashfs::Node::Dir,
                What::Symlink(target) => squashfs::Node::Symlink(target.clone().into_bytes()),
                What::Hardlink(first) => squashfs::Node::Hardlink(first.as_str().into()),
                What::File(Source::Bytes(bytes)) => {
                    squashfs::Node::File(writer.data(&mut &bytes[..]).map_err(wrong(path))?)
                }
                What::File(Source::File { path: source, bytes, .. }) => {
                    let mut file = File::open(source).map_err(Error::io("open", source))?;
                    let data = writer.data(&mut file).map_err(wrong(path))?;
                    if data.size() != *bytes {
                        return Err(Error::Changed {
                            path: source.display().to_string(),
                            found: data.size(),
                            expected: *bytes,
                        });
                    }
                    squashfs::Node::File(data)
                }
            };
            nodes.add(path.as_str(), meta(node), inner).map_err(wrong(path))?;
        }
    }
    let (superblock, _) = writer.finish(&nodes).map_err(wrong(&RootPath::ROOT))?;
    Ok(superblock.to_vec())
}
