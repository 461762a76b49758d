//! Writes what follows the files' bytes (inodes, directory listings, tables), and the superblock.

use std::collections::HashMap;
use std::io::Write;

use super::Error;
use super::data::Data;
use super::directory::{Child, write_listing};
use super::error::shown;
use super::inode::{Blocks, Common, Inode};
use super::metadata::{Metadata, Place, write_indexed};
use super::options::{Compression, Fragments};
use super::tree::{Entry, ROOT, Tree, What};
use super::xattr::Used;
use crate::format::{
    BLOCK_HOLE, COMPRESSOR_GZIP, COMPRESSOR_ZSTD, IMAGE_PAD, MAGIC, NO_TABLE, SUPERBLOCK_BYTES,
    VERSION_MAJOR, VERSION_MINOR, flag, kind,
};

/// Most different owners and groups together, whose count has 16 bits.
const MOST_IDS: usize = u16::MAX as usize;

/// The state of writing a tree and its tables.
pub(super) struct Tables<'a, W> {
    data: Data<W>,
    tree: &'a Tree,
    /// All nodes but the root, by parent, then name.
    order: Vec<u32>,
    /// Hard links, each with the node that it is a name of.
    links: HashMap<u32, u32>,
    /// The number of further names of a node that has several.
    more_names: HashMap<u32, u32>,
    /// Directories, each before the directories in it.
    directories: Vec<u32>,
    /// Inode numbers by node, from 1 on; 0 for hard links.
    numbers: Vec<u32>,
    /// Places of inodes, by number less one; [`NOT_WRITTEN`] before they are written.
    places: Vec<u64>,
    inodes: Metadata,
    listings: Metadata,
    ids: Vec<u32>,
    id_numbers: HashMap<u32, u16>,
    xattrs: Used,
}

const NOT_WRITTEN: u64 = u64::MAX;

/// Where the tables start, for the superblock.
struct Starts {
    inodes: u64,
    listings: u64,
    fragments: u64,
    export: u64,
    ids: u64,
    xattrs: u64,
    end: u64,
}

impl<'a, W: Write> Tables<'a, W> {
    pub(super) fn new(data: Data<W>, tree: &'a Tree) -> Result<Self, Error> {
        let metadata = data.options.metadata;
        let mut order: Vec<u32> = (ROOT + 1..tree.entries.len() as u32).collect();
        let key = |at: &u32| (tree.entry(*at).parent, tree.name(*at));
        order.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        if let Some(pair) = order.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
            return Err(Error::Duplicate { path: tree.path(pair[0]) });
        }
        let mut tables = Self {
            data,
            tree,
            order,
            links: HashMap::new(),
            more_names: HashMap::new(),
            directories: Vec::new(),
            numbers: vec![0; tree.entries.len()],
            places: Vec::new(),
            inodes: Metadata::new(metadata)?,
            listings: Metadata::new(metadata)?,
            ids: Vec::new(),
            id_numbers: HashMap::new(),
            xattrs: Used::default(),
        };
        tables.resolve_links()?;
        tables.number_inodes();
        Ok(tables)
    }

    /// Writes everything. The kernel checks that the tables are in this order, and that each ends
    /// where the next starts.
    pub(super) fn write(mut self) -> Result<([u8; SUPERBLOCK_BYTES], W), Error> {
        let inodes = self.data.out.position();
        for i in (0..self.directories.len()).rev() {
            self.write_directory(self.directories[i])?;
            self.inodes.drain(&mut self.data.out)?;
        }
        let Self { mut data, tree, places, numbers, ids, xattrs, .. } = self;
        let metadata = data.options.metadata;
        let out = &mut data.out;
        self.inodes.finish(out)?;
        let listings = out.position();
        self.listings.finish(out)?;
        let n_fragments = data.fragments.len() as u32;
        let fragments = write_indexed(
            out,
            metadata,
            data.fragments.iter().map(|(start, word)| {
                let mut entry = [0; 16];
                entry[..8].copy_from_slice(&start.to_le_bytes());
                entry[8..12].copy_from_slice(&word.to_le_bytes());
                entry
            }),
        )?;
        let export = write_indexed(out, metadata, places.iter().map(|place| place.to_le_bytes()))?;
        let id_table = write_indexed(out, metadata, ids.iter().map(|id| id.to_le_bytes()))?;
        let xattr_table =
            if xattrs.is_empty() { NO_TABLE } else { xattrs.write(&tree.sets, metadata, out)? };
        let end = out.position();
        out.align(IMAGE_PAD)?;
        let starts =
            Starts { inodes, listings, fragments, export, ids: id_table, xattrs: xattr_table, end };
        let root = places[numbers[ROOT as usize] as usize - 1];
        let counts = (places.len() as u32, n_fragments, ids.len() as u16);
        let superblock = superblock(&data, &starts, root, counts);
        Ok((superblock, data.out.into_sink()?))
    }

    /// Returns the part of `order` that is in a directory.
    fn children(&self, directory: u32) -> &[u32] {
        let parent = |at: &u32| self.tree.entry(*at).parent;
        let start = self.order.partition_point(|at| parent(at) < directory);
        let rest = &self.order[start..];
        &rest[..rest.partition_point(|at| parent(at) == directory)]
    }

    fn find(&self, path: &[u8]) -> Option<u32> {
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&[][..], path),
        };
        let children = self.children(self.tree.directory(above)?);
        let found = children.binary_search_by(|at| self.tree.name(*at).cmp(name)).ok()?;
        children.get(found).copied()
    }

    fn resolve_links(&mut self) -> Result<(), Error> {
        let mut direct = HashMap::new();
        for at in &self.order {
            if let What::Hardlink(target) = self.tree.entry(*at).what {
                let path = &self.tree.targets[target as usize];
                let found = self.find(path).filter(|_| !path.is_empty());
                direct.insert(
                    *at,
                    found.ok_or_else(|| self.bad_link(*at, "the target does not exist"))?,
                );
            }
        }
        for at in direct.keys() {
            let mut target = *at;
            let mut steps = 0;
            while let Some(next) = direct.get(&target) {
                target = *next;
                steps += 1;
                if steps > direct.len() {
                    return Err(self.bad_link(*at, "hard links form a loop"));
                }
            }
            if matches!(self.tree.entry(target).what, What::Dir) {
                return Err(self.bad_link(*at, "the target is a directory"));
            }
            *self.more_names.entry(target).or_default() += 1;
            self.links.insert(*at, target);
        }
        Ok(())
    }

    fn bad_link(&self, at: u32, reason: &'static str) -> Error {
        let target = match self.tree.entry(at).what {
            What::Hardlink(target) => shown(&self.tree.targets[target as usize]),
            _ => String::new(),
        };
        Error::HardLink { path: self.tree.path(at), target, reason }
    }

    /// Numbers inodes directory by directory, since an entry stores its number as the difference
    /// from its header's, in 16 bits.
    fn number_inodes(&mut self) {
        let mut next = 1;
        self.numbers[ROOT as usize] = next;
        let mut stack = vec![ROOT];
        while let Some(directory) = stack.pop() {
            self.directories.push(directory);
            let before = stack.len();
            let start = self.order.partition_point(|at| self.tree.entry(*at).parent < directory);
            for at in &self.order[start..] {
                let entry = self.tree.entry(*at);
                if entry.parent != directory {
                    break;
                }
                match entry.what {
                    What::Hardlink(_) => continue,
                    What::Dir => stack.push(*at),
                    _ => {}
                }
                next += 1;
                self.numbers[*at as usize] = next;
            }
            stack[before..].reverse();
        }
        self.places = vec![NOT_WRITTEN; next as usize];
    }

    /// Writes the contents of a directory, its listing and its inode; the directories in it were
    /// written before.
    fn write_directory(&mut self, directory: u32) -> Result<(), Error> {
        let children = self.children(directory).to_vec();
        let mut links = 2;
        for at in &children {
            match self.tree.entry(*at).what {
                What::Dir => links += 1,
                _ => self.write_inode(self.target(*at))?,
            }
        }
        let Self { tree, numbers, places, .. } = &*self;
        let rows = children.iter().map(|at| {
            let target = self.target(*at);
            let number = numbers[target as usize];
            let reference = places[number as usize - 1];
            let inode = Place { block: reference >> 16, offset: reference as u16 };
            Ok(Child { name: tree.name(*at), inode, number, kind: plain_kind(tree.entry(target)) })
        });
        let rows: Vec<_> = rows.collect();
        let listing = write_listing(&mut self.listings, rows.into_iter())?;
        let mut inode = Inode::default();
        let common = self.common(directory, links)?;
        let parent = if directory == ROOT {
            // The root has no parent, and gets a number that no inode has.
            self.places.len() as u32 + 1
        } else {
            self.numbers[self.tree.entry(directory).parent as usize]
        };
        inode.directory(common, &listing, parent)?;
        self.place_inode(common.number, &inode)
    }

    /// Returns a node itself, or the node that it is another name of.
    fn target(&self, at: u32) -> u32 {
        self.links.get(&at).copied().unwrap_or(at)
    }

    /// Writes the inode of anything but a directory, unless it was written for another name.
    fn write_inode(&mut self, at: u32) -> Result<(), Error> {
        if self.places[self.numbers[at as usize] as usize - 1] != NOT_WRITTEN {
            return Ok(());
        }
        let links = 1 + self.more_names.get(&at).copied().unwrap_or(0);
        let common = self.common(at, links)?;
        let mut inode = Inode::default();
        match self.tree.entry(at).what {
            What::File(data) => {
                let record = self.data.record(data)?;
                let block = u64::from(self.data.options.block_size);
                let mut sparse = 0;
                for (i, word) in (0_u64..).zip(self.data.words(record)) {
                    if word == BLOCK_HOLE {
                        sparse += block.min(record.size - i * block);
                    }
                }
                let blocks = Blocks {
                    start: record.blocks_start(),
                    size: record.size,
                    sparse,
                    fragment: record.fragment,
                    fragment_offset: record.fragment_offset,
                };
                inode.file(common, blocks, self.data.words(record));
            }
            What::Symlink(target) => {
                inode.symlink(common, &self.tree.targets[target as usize]);
            }
            What::CharDevice(device) => inode.device(kind::CHAR_DEVICE, common, device),
            What::BlockDevice(device) => inode.device(kind::BLOCK_DEVICE, common, device),
            What::Fifo => inode.endpoint(kind::FIFO, common),
            What::Socket => inode.endpoint(kind::SOCKET, common),
            What::Dir | What::Hardlink(_) => return Ok(()),
        }
        self.place_inode(common.number, &inode)
    }

    fn place_inode(&mut self, number: u32, inode: &Inode) -> Result<(), Error> {
        self.places[number as usize - 1] = self.inodes.place()?.reference();
        self.inodes.write(&inode.0)
    }

    fn common(&mut self, at: u32, links: u32) -> Result<Common, Error> {
        let Entry { mode, uid, gid, mtime, xattrs, .. } = *self.tree.entry(at);
        let (uid, gid) = (self.id(uid)?, self.id(gid)?);
        let number = self.numbers[at as usize];
        Ok(Common { mode, uid, gid, mtime, number, links, xattrs: self.xattrs.number(xattrs) })
    }

    fn id(&mut self, id: u32) -> Result<u16, Error> {
        if let Some(number) = self.id_numbers.get(&id) {
            return Ok(*number);
        }
        if self.ids.len() == MOST_IDS {
            return Err(Error::TooMany { what: "owners and groups", limit: MOST_IDS as u64 });
        }
        let number = self.ids.len() as u16;
        self.ids.push(id);
        self.id_numbers.insert(id, number);
        Ok(number)
    }
}

fn plain_kind(entry: &Entry) -> u16 {
    match entry.what {
        What::File(_) | What::Hardlink(_) => kind::FILE,
        What::Dir => kind::DIRECTORY,
        What::Symlink(_) => kind::SYMLINK,
        What::CharDevice(_) => kind::CHAR_DEVICE,
        What::BlockDevice(_) => kind::BLOCK_DEVICE,
        What::Fifo => kind::FIFO,
        What::Socket => kind::SOCKET,
    }
}

fn superblock<W>(
    data: &Data<W>,
    starts: &Starts,
    root: u64,
    (n_inodes, n_fragments, n_ids): (u32, u32, u16),
) -> [u8; SUPERBLOCK_BYTES] {
    let options = &data.options;
    let mut flags = flag::EXPORTABLE;
    let mut set = |flag, when: bool| flags |= if when { flag } else { 0 };
    let metadata_stored = options.metadata.is_none();
    for part in [flag::STORED_INODES, flag::STORED_XATTRS, flag::STORED_IDS] {
        set(part, metadata_stored);
    }
    set(flag::STORED_DATA | flag::STORED_FRAGMENTS, options.data.is_none());
    set(flag::NO_FRAGMENTS, options.fragments == Fragments::None);
    set(flag::ALWAYS_FRAGMENTS, options.fragments == Fragments::Tails);
    set(flag::DEDUPLICATED, options.deduplicate);
    set(flag::NO_XATTRS, starts.xattrs == NO_TABLE);
    let compressor = match options.compressor() {
        Compression::Gzip(_) => COMPRESSOR_GZIP,
        Compression::Zstd(_) => COMPRESSOR_ZSTD,
    };
    let mut bytes = Vec::with_capacity(SUPERBLOCK_BYTES);
    for word in [MAGIC, n_inodes, options.mtime, options.block_size, n_fragments] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let log = options.block_size.ilog2() as u16;
    for word in [compressor, log, flags, n_ids, VERSION_MAJOR, VERSION_MINOR] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let Starts { inodes, listings, fragments, export, ids, xattrs, end } = *starts;
    for word in [root, end, ids, xattrs, inodes, listings, fragments, export] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let mut superblock = [0; SUPERBLOCK_BYTES];
    superblock.copy_from_slice(&bytes);
    superblock
}
