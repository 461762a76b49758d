//! Writes a directory as a SquashFS image, with its owners, times, links, devices and extended
//! attributes.
//!
//! `squash_dir DIR IMAGE [--stored | --gzip N | --zstd N] [--block N] [--jobs N]
//! [--align N] [--fragments none|small|tails] [--keep-zeros] [--probe] [--deduplicate] [--plain-metadata]`

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use gular_squashfs::write::{Compression, Fragments, Meta, Options, Tree, TreeNode, Writer, Zeros};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let (source, image, options) = arguments()?;
    let mut writer = Writer::new(File::create(&image)?, options)?;
    let mut walk = Walk {
        tree: Tree::new(meta(&source.metadata()?)),
        first_names: HashMap::new(),
        writer: &mut writer,
    };
    walk.tree.set_root_xattrs(&borrowed(&xattrs(&source)?))?;
    walk.directory(&source, Path::new(""))?;
    let tree = walk.tree;
    let (superblock, mut file) = writer.finish(&tree)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&superblock)?;
    Ok(())
}

fn arguments() -> Result<(PathBuf, PathBuf, Options)> {
    let mut given = env::args_os().skip(1);
    let source = given.next().ok_or("no DIR")?.into();
    let image = given.next().ok_or("no IMAGE")?.into();
    let mut options = Options::default();
    while let Some(flag) = given.next() {
        let flag = flag.into_string().map_err(|_| "flags are UTF-8")?;
        let mut value = || -> Result<String> {
            let value = given.next().ok_or_else(|| format!("{flag} needs a value"))?;
            Ok(value.into_string().map_err(|_| "values are UTF-8")?)
        };
        match flag.as_str() {
            "--stored" => (options.data, options.metadata) = (None, None),
            "--gzip" => {
                let compression = Some(Compression::Gzip(value()?.parse()?));
                (options.data, options.metadata) = (compression, compression);
            }
            "--zstd" => {
                let compression = Some(Compression::Zstd(value()?.parse()?));
                (options.data, options.metadata) = (compression, compression);
            }
            "--plain-metadata" => options.metadata = None,
            "--block" => options.block_size = value()?.parse()?,
            "--jobs" => options.threads = value()?.parse()?,
            "--align" => options.align = value()?.parse()?,
            "--fragments" => {
                options.fragments = match value()?.as_str() {
                    "none" => Fragments::None,
                    "small" => Fragments::SmallFiles,
                    "tails" => Fragments::Tails,
                    other => return Err(format!("unknown kind of fragments `{other}`").into()),
                };
            }
            "--keep-zeros" => options.zeros = Zeros::Keep,
            "--probe" => options.probe = true,
            "--deduplicate" => options.deduplicate = true,
            _ => return Err(format!("no flag `{flag}`").into()),
        }
    }
    Ok((source, image, options))
}

struct Walk<'a> {
    writer: &'a mut Writer<File>,
    tree: Tree,
    /// The first name of each file that has several, by device and inode.
    first_names: HashMap<(u64, u64), Vec<u8>>,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &Path, below: &Path) -> Result<()> {
        let mut entries = fs::read_dir(dir)?.collect::<std::io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), below.join(entry.file_name()));
            let metadata = path.symlink_metadata()?;
            let node = self.node(&path, &name, &metadata)?;
            let xattrs = match node {
                TreeNode::Hardlink(_) => Vec::new(),
                _ => xattrs(&path)?,
            };
            let name_bytes = name.as_os_str().as_bytes();
            self.tree.add_with_xattrs(name_bytes, meta(&metadata), node, &borrowed(&xattrs))?;
            if metadata.is_dir() {
                self.directory(&path, &name)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, path: &Path, name: &Path, metadata: &fs::Metadata) -> Result<TreeNode> {
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Ok(TreeNode::Dir);
        }
        if metadata.nlink() > 1 {
            let name = name.as_os_str().as_bytes().to_vec();
            let key = (metadata.dev(), metadata.ino());
            if let Some(first) = self.first_names.get(&key) {
                return Ok(TreeNode::Hardlink(first.clone()));
            }
            self.first_names.insert(key, name);
        }
        let (major, minor) =
            (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        Ok(if kind.is_file() {
            TreeNode::File(self.writer.data_seekable(&mut File::open(path)?)?)
        } else if kind.is_symlink() {
            TreeNode::Symlink(fs::read_link(path)?.into_os_string().into_vec())
        } else if kind.is_char_device() {
            TreeNode::CharDevice { major, minor }
        } else if kind.is_block_device() {
            TreeNode::BlockDevice { major, minor }
        } else if kind.is_fifo() {
            TreeNode::Fifo
        } else {
            TreeNode::Socket
        })
    }
}

fn meta(metadata: &fs::Metadata) -> Meta {
    Meta {
        mode: (metadata.mode() & 0o7777) as u16,
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime: metadata.mtime() as u32,
    }
}

/// Returns names and values, except those of `system.`, which SquashFS cannot store.
fn xattrs(path: &Path) -> Result<Vec<(CString, Vec<u8>)>> {
    let mut names = vec![0; 64 << 10];
    let len = rustix::fs::llistxattr(path, &mut names[..])?;
    let mut found = Vec::new();
    for name in names[..len].split_inclusive(|byte| *byte == 0) {
        let name = CStr::from_bytes_with_nul(name)?;
        if name.to_bytes().starts_with(b"system.") {
            continue;
        }
        let mut value = vec![0; 64 << 10];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..])?;
        value.truncate(len);
        found.push((name.to_owned(), value));
    }
    Ok(found)
}

fn borrowed(xattrs: &[(CString, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    xattrs.iter().map(|(name, value)| (name.as_bytes(), value.as_slice())).collect()
}
