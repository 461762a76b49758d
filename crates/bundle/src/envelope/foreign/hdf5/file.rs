//! The superblock (II.A), and reads of the structures below it, whose total is limited.

use std::cell::Cell;

use crate::envelope::foreign::hdf5::cursor::Cursor;
use crate::envelope::foreign::hdf5::{SIGNATURE, UNDEFINED};
use crate::{Error, ReadAt};

/// Every read is charged with at least this, since no structure is smaller.
const LEAST_CHARGE: u64 = 16;
/// Reads may exceed the file's size by this many bytes, for small files.
const ALLOWANCE: u64 = 1 << 16;

/// A file whose structures are being walked.
///
/// A walk reads each structure once or twice. So reads are counted, and one
/// that has read much more than the file holds goes in circles: this bounds
/// time and memory whatever the file says.
#[derive(Debug)]
pub(super) struct Hdf5<'a> {
    file: &'a ReadAt,
    /// All addresses count from this byte, since the file may begin with a user block.
    base: u64,
    /// Bytes of an address.
    pub(super) address_size: usize,
    /// Bytes of a length.
    pub(super) length_size: usize,
    /// The object header of the root group.
    pub(super) root: u64,
    budget: Cell<u64>,
}

impl<'a> Hdf5<'a> {
    pub(super) fn open(file: &'a ReadAt) -> Result<Self, Error> {
        let len = file.len_bytes();
        let base = base_of(file)?;
        let budget = Cell::new(len.saturating_mul(3).saturating_add(ALLOWANCE));
        let mut this = Self { file, base, address_size: 8, length_size: 8, root: 0, budget };
        // The longest superblock has 100 bytes, and no file ends with it.
        let bytes = this.bytes(0, len.saturating_sub(base).min(128))?;
        let end = this.superblock(&bytes).ok_or_else(|| this.bad("its superblock is cut short"))?;
        match end {
            Err(version) => {
                Err(this
                    .refused(format!("its superblock has version {version}, at most 3 is known")))
            }
            Ok(end) if end > len => {
                Err(this
                    .bad(format!("it has {len} bytes of {end}: it is cut short or was not closed")))
            }
            Ok(_) => Ok(this),
        }
    }

    /// Parses the superblock. Returns where the file ends by it, or its version if that is unknown.
    fn superblock(&mut self, bytes: &[u8]) -> Option<Result<u64, u8>> {
        let mut at = Cursor::new(bytes);
        at.expect(SIGNATURE)?;
        let version = at.u8()?;
        match version {
            0 | 1 => at.skip(4)?,
            2 | 3 => {}
            version => return Some(Err(version)),
        }
        (self.address_size, self.length_size) = (at.u8()?.into(), at.u8()?.into());
        let sizes = [self.address_size, self.length_size];
        sizes.iter().all(|n| matches!(n, 2 | 4 | 8)).then_some(())?;
        // Versions 0 and 1 have reserved bytes, tree sizes and flags here; later ones have flags
        // only.
        at.skip([9, 13, 1, 1].get(usize::from(version)).copied()?)?;
        let base = at.address(self.address_size)?;
        at.skip(self.address_size)?;
        let end = at.address(self.address_size)?;
        if version < 2 {
            at.skip(self.address_size.checked_mul(2)?)?;
        }
        self.root = at.address(self.address_size)?;
        // The place where the superblock was found is used, and not the base address that it
        // contains.
        Some(Ok(end.checked_sub(base)?.checked_add(self.base)?))
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    /// Returns the position in the file of the `len` bytes at `address`; `None` past the file's
    /// end.
    pub(super) fn place(&self, address: u64, len: u64) -> Option<u64> {
        let start = address.checked_add(self.base).filter(|_| address != UNDEFINED)?;
        start.checked_add(len).filter(|end| *end <= self.len_bytes())?;
        Some(start)
    }

    /// Reads `len` bytes at `address`.
    pub(super) fn bytes(&self, address: u64, len: u64) -> Result<Vec<u8>, Error> {
        let start = self.place(address, len).ok_or_else(|| {
            self.bad(format!("it points to {len} bytes at address {address}, past its end"))
        })?;
        self.raw(start, len)
    }

    /// Up to `len` bytes at `address`, fewer at the end of the file.
    pub(super) fn some_bytes(&self, address: u64, len: u64) -> Result<Vec<u8>, Error> {
        let start = address.saturating_add(self.base);
        self.bytes(address, self.len_bytes().saturating_sub(start).min(len))
    }

    /// Reads `len` bytes from byte `start` of the file.
    pub(super) fn raw(&self, start: u64, len: u64) -> Result<Vec<u8>, Error> {
        self.charge(len)?;
        let len = usize::try_from(len).map_err(|_| self.bad("it is too large for this machine"))?;
        let mut bytes = vec![0; len];
        self.file.read_at(start, &mut bytes)?;
        Ok(bytes)
    }

    /// Counts reads and other work, and fails when there is more than the file's size can explain.
    pub(super) fn charge(&self, bytes: u64) -> Result<(), Error> {
        let left = self.budget.get().checked_sub(bytes.max(LEAST_CHARGE));
        self.budget
            .set(left.ok_or_else(|| self.bad("its structures point at each other in circles"))?);
        Ok(())
    }

    pub(super) fn bad(&self, reason: impl Into<String>) -> Error {
        Error::malformed(self.file.path(), reason)
    }

    pub(super) fn refused(&self, reason: impl Into<String>) -> Error {
        Error::NotInPlace { path: self.file.path(), reason: reason.into() }
    }
}

/// Finds the superblock: at 0, or at 512, 1024, 2048, … behind a user block.
fn base_of(file: &ReadAt) -> Result<u64, Error> {
    let mut at = 0_u64;
    let mut found = [0; SIGNATURE.len()];
    while at.saturating_add(SIGNATURE.len() as u64) <= file.len_bytes() {
        file.read_at(at, &mut found)?;
        if found == *SIGNATURE {
            return Ok(at);
        }
        at = at.saturating_mul(2).max(512);
    }
    Err(Error::malformed(file.path(), "it has no HDF5 superblock"))
}
