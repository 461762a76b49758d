//! Encodes inodes: in the plain form if it can hold all values, otherwise in the extended one.

use super::Error;
use super::directory::{Listing, block_32};
use crate::format::{EXTENDED, NONE, kind};

/// The fields that every inode starts with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Common {
    pub(super) mode: u16,
    /// Positions in the table of ids.
    pub(super) uid: u16,
    pub(super) gid: u16,
    pub(super) mtime: u32,
    pub(super) number: u32,
    pub(super) links: u32,
    /// Number of the set of extended attributes, or [`NONE`].
    pub(super) xattrs: u32,
}

/// Bytes of a regular file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    pub(super) start: u64,
    pub(super) size: u64,
    /// Bytes of the file that are in holes.
    pub(super) sparse: u64,
    pub(super) fragment: u32,
    pub(super) fragment_offset: u32,
}

/// An inode that is being encoded.
#[derive(Debug, Default)]
pub(super) struct Inode(pub(super) Vec<u8>);

impl Inode {
    pub(super) fn file(&mut self, common: Common, file: Blocks, words: impl Iterator<Item = u32>) {
        let plain = (u32::try_from(file.start), u32::try_from(file.size));
        let says_more = common.links != 1 || common.xattrs != NONE || file.sparse != 0;
        if let (false, (Ok(start), Ok(size))) = (says_more, plain) {
            self.common(kind::FILE, common);
            self.u32(start);
            self.u32(file.fragment);
            self.u32(file.fragment_offset);
            self.u32(size);
        } else {
            self.common(kind::FILE + EXTENDED, common);
            self.u64(file.start);
            self.u64(file.size);
            // Older kernels count blocks as (size - sparse - 1) / 512 + 1, so this must not be the
            // whole size.
            self.u64(file.sparse.min(file.size.saturating_sub(1)));
            self.u32(common.links);
            self.u32(file.fragment);
            self.u32(file.fragment_offset);
            self.u32(common.xattrs);
        }
        words.for_each(|word| self.u32(word));
    }

    pub(super) fn directory(
        &mut self,
        common: Common,
        listing: &Listing,
        parent: u32,
    ) -> Result<(), Error> {
        // The size counts three bytes for `.` and `..`, which are not written.
        let size = u32::try_from(listing.bytes + 3)
            .map_err(|_| Error::TooMany { what: "names in a directory", limit: 1 << 24 })?;
        let block = block_32(listing.place)?;
        let says_more = common.xattrs != NONE || !listing.index.is_empty();
        if let (false, Ok(size)) = (says_more, u16::try_from(size)) {
            self.common(kind::DIRECTORY, common);
            self.u32(block);
            self.u32(common.links);
            self.u16(size);
            self.u16(listing.place.offset);
            self.u32(parent);
            return Ok(());
        }
        self.common(kind::DIRECTORY + EXTENDED, common);
        self.u32(common.links);
        self.u32(size);
        self.u32(block);
        self.u32(parent);
        self.u16(listing.index.len() as u16);
        self.u16(listing.place.offset);
        self.u32(common.xattrs);
        for entry in &listing.index {
            self.u32(entry.at);
            self.u32(entry.block);
            self.u32(entry.name.len() as u32 - 1);
            self.0.extend_from_slice(&entry.name);
        }
        Ok(())
    }

    pub(super) fn symlink(&mut self, common: Common, target: &[u8]) {
        self.common(kind::SYMLINK + extended(common), common);
        self.u32(common.links);
        self.u32(target.len() as u32);
        self.0.extend_from_slice(target);
        self.xattrs(common);
    }

    /// Encodes a device, with its number.
    pub(super) fn device(&mut self, kind: u16, common: Common, device: u32) {
        self.common(kind + extended(common), common);
        self.u32(common.links);
        self.u32(device);
        self.xattrs(common);
    }

    /// Encodes a named pipe or socket.
    pub(super) fn endpoint(&mut self, kind: u16, common: Common) {
        self.common(kind + extended(common), common);
        self.u32(common.links);
        self.xattrs(common);
    }

    fn common(&mut self, kind: u16, common: Common) {
        self.u16(kind);
        self.u16(common.mode);
        self.u16(common.uid);
        self.u16(common.gid);
        self.u32(common.mtime);
        self.u32(common.number);
    }

    fn xattrs(&mut self, common: Common) {
        if common.xattrs != NONE {
            self.u32(common.xattrs);
        }
    }

    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
}

/// Returns what is added to the type of an inode that has extended attributes.
fn extended(common: Common) -> u16 {
    if common.xattrs == NONE { 0 } else { EXTENDED }
}
