//! Reads numbers and byte strings from the front of a buffer.

/// The bytes that are left to read. Methods return `None` if they end too early.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a length that is stored in `1`, `2` or `4` bytes.
    pub(super) fn len(&mut self, bytes: u8) -> Option<usize> {
        match bytes {
            1 => self.u8().map(usize::from),
            2 => self.u16().map(usize::from),
            _ => usize::try_from(self.u32()?).ok(),
        }
    }

    /// A multiprecision integer (section 3.2), big-endian, without leading zeros.
    pub(super) fn mpi(&mut self) -> Option<&'a [u8]> {
        let bits = usize::from(self.u16()?);
        let number = self.take(bits.div_ceil(8))?;
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        number.get(zeros..)
    }
}

/// Formats bytes in hex, in the form of fingerprints.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
