//! The superblock: the first 96 bytes, which say where everything else begins.

use super::Error;
use super::error::damaged;
use super::read_bytes::{ReadBytes, u16_at, u32_at, u64_at};
use crate::format::{COMPRESSORS, MAGIC, SUPERBLOCK_BYTES, VERSION_MAJOR, VERSION_MINOR};

#[derive(Debug, Clone, Copy)]
pub(super) struct Superblock {
    pub(super) block_size: u32,
    pub(super) n_fragments: u32,
    /// Number of the compressor; 0 stands for none.
    pub(super) compressor: u16,
    /// Reference to the root's inode.
    pub(super) root: u64,
    /// The image's length without padding.
    pub(super) used: u64,
    /// First bytes of tables.
    pub(super) inodes: u64,
    pub(super) listings: u64,
    pub(super) fragments: u64,
}

impl Superblock {
    pub(super) fn read<S: ReadBytes + ?Sized>(source: &S) -> Result<Self, Error> {
        if source.len_bytes() < SUPERBLOCK_BYTES as u64 {
            return Err(Error::NotSquashfs);
        }
        let mut bytes = [0; SUPERBLOCK_BYTES];
        source.read_at(0, &mut bytes).map_err(Error::Read)?;
        if u32_at(&bytes, 0) != MAGIC {
            return Err(Error::NotSquashfs);
        }
        let version = (u16_at(&bytes, 28), u16_at(&bytes, 30));
        if version != (VERSION_MAJOR, VERSION_MINOR) {
            let found = format!("{}.{}", version.0, version.1);
            return Err(Error::Unsupported { what: "its version", found, known: "4.0" });
        }
        let superblock = Self {
            block_size: u32_at(&bytes, 12),
            n_fragments: u32_at(&bytes, 16),
            compressor: u16_at(&bytes, 20),
            root: u64_at(&bytes, 32),
            used: u64_at(&bytes, 40),
            inodes: u64_at(&bytes, 64),
            listings: u64_at(&bytes, 72),
            fragments: u64_at(&bytes, 80),
        };
        superblock.check(u16_at(&bytes, 22), source.len_bytes())?;
        Ok(superblock)
    }

    fn check(&self, log: u16, len: u64) -> Result<(), Error> {
        let block_size = self.block_size;
        let known = block_size.is_power_of_two() && (4096..=1 << 20).contains(&block_size);
        if !known || block_size.trailing_zeros() != u32::from(log) {
            return Err(damaged(format!("its block size is {block_size}, its logarithm {log}")));
        }
        if self.used > len {
            return Err(damaged(format!("it has {len} bytes of {}", self.used)));
        }
        Ok(())
    }

    /// Returns the compressor's name, for messages.
    pub(super) fn compressor_name(&self) -> String {
        let name = usize::from(self.compressor).checked_sub(1).and_then(|i| COMPRESSORS.get(i));
        name.map_or_else(|| format!("number {}", self.compressor), |n| (*n).to_owned())
    }
}
