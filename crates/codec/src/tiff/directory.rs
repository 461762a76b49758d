//! Reads the header, and one directory of a file.
//!
//! ```text
//!        order 42 offset | count u16 | count × { tag u16, type u16, count u32, value u32 } | next
//! Big:   order 43 8 0 offset | count u64 | count × { tag, type, count u64, value u64 } | next
//! ```

use super::Positioned;
use crate::{Error, Format};

/// No writer makes more entries than this.
const MOST_ENTRIES: u64 = 4096;
/// Most bytes of one entry's values, which are the offsets of four million chunks.
const MOST_BYTES: u64 = 32 << 20;

/// Byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// An unsigned integer of up to 8 bytes.
    pub(super) fn number(self, bytes: &[u8]) -> u64 {
        let shifted = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        match self {
            Self::Big => bytes.iter().fold(0, shifted),
            Self::Little => bytes.iter().rev().fold(0, shifted),
        }
    }

    /// An unsigned integer of 2 bytes.
    fn short(self, bytes: &[u8]) -> u16 {
        u16::try_from(self.number(bytes)).unwrap_or(u16::MAX)
    }
}

/// A directory, which describes one page.
#[derive(Debug)]
pub(super) struct Directory<'a, S: ?Sized> {
    source: &'a S,
    pub(super) len: u64,
    pub(super) order: ByteOrder,
    entries: Vec<Entry>,
    /// The offset of the next directory; 0 if this is the last one.
    pub(super) next: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    tag: u16,
    kind: u16,
    count: u64,
    /// The value itself, if it fits into the entry.
    value: [u8; 8],
    /// The number of bytes in `value`.
    room: usize,
    /// The offset of the value, if it does not fit into the entry.
    place: u64,
}

impl Entry {
    /// Reads an entry of a file with 32-bit offsets.
    fn classic(order: ByteOrder, entry: [u8; 12]) -> Self {
        let [tag, kind] = [&entry[..2], &entry[2..4]].map(|bytes| order.short(bytes));
        let [count, place] = [&entry[4..8], &entry[8..]].map(|bytes| order.number(bytes));
        let mut value = [0; 8];
        value[..4].copy_from_slice(&entry[8..]);
        Self { tag, kind, count, value, room: 4, place }
    }

    /// Reads an entry of a BigTIFF.
    fn big(order: ByteOrder, entry: [u8; 20]) -> Self {
        let [tag, kind] = [&entry[..2], &entry[2..4]].map(|bytes| order.short(bytes));
        let [count, place] = [&entry[4..12], &entry[12..]].map(|bytes| order.number(bytes));
        let mut value = [0; 8];
        value.copy_from_slice(&entry[12..]);
        Self { tag, kind, count, value, room: 8, place }
    }

    fn element(&self) -> Option<u64> {
        Some(match self.kind {
            1 | 2 | 6 | 7 => 1,
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16 | 17 | 18 => 8,
            _ => return None,
        })
    }
}

/// The first bytes of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileHeader {
    order: ByteOrder,
    /// Whether offsets have 64 bits.
    big: bool,
    /// The file's length.
    len: u64,
    /// The offset of the first directory.
    pub(super) first: u64,
}

impl FileHeader {
    pub(super) fn read<S: Positioned + ?Sized>(source: &S) -> Result<Self, Error> {
        let len = source.len_bytes().map_err(|e| io(&e, 0))?;
        let head: [u8; 8] = array(source, 0)?;
        let order = match &head[..2] {
            b"II" => ByteOrder::Little,
            b"MM" => ByteOrder::Big,
            _ => return Err(corrupt("it begins with neither `II` nor `MM`")),
        };
        let (big, first) = match order.number(&head[2..4]) {
            42 => (false, order.number(&head[4..])),
            43 => (true, order.number(&array::<8, _>(source, 8)?)),
            other => return Err(corrupt(format!("its version is {other}, expected 42 or 43"))),
        };
        Ok(Self { order, big, len, first })
    }
}

impl<'a, S: Positioned + ?Sized> Directory<'a, S> {
    /// Reads the directory at byte `at`.
    pub(super) fn read(source: &'a S, header: &FileHeader, at: u64) -> Result<Self, Error> {
        let FileHeader { order, big, len, .. } = *header;
        let (count, of_count, of_entry) = match big {
            true => (order.number(&array::<8, _>(source, at)?), 8, 20),
            false => (order.number(&array::<2, _>(source, at)?), 2, 12),
        };
        if count > MOST_ENTRIES {
            return Err(corrupt(format!("its directory at byte {at} has {count} entries")));
        }
        let past = || corrupt("its directory is past its end");
        let at = at.checked_add(of_count).ok_or_else(past)?;
        let mut bytes = vec![0; usize::try_from(count * of_entry).unwrap_or(usize::MAX)];
        source.read_at(at, &mut bytes).map_err(|e| io(&e, at))?;
        let entries = match big {
            true => bytes.as_chunks().0.iter().map(|entry| Entry::big(order, *entry)).collect(),
            false => bytes.as_chunks().0.iter().map(|e| Entry::classic(order, *e)).collect(),
        };
        let after = at.checked_add(count * of_entry).ok_or_else(past)?;
        // As in libtiff, a file may end before the offset of the next directory.
        let next = match big {
            true => array::<8, _>(source, after).map_or(0, |bytes| order.number(&bytes)),
            false => array::<4, _>(source, after).map_or(0, |bytes| order.number(&bytes)),
        };
        Ok(Self { source, len, order, entries, next })
    }

    /// Returns the number of entries.
    pub(super) fn n_entries(&self) -> usize {
        self.entries.len()
    }

    /// Returns how many values a tag has; 0 if there is no such tag.
    pub(super) fn n_values(&self, tag: u16) -> u64 {
        self.entry(tag).map_or(0, |entry| entry.count)
    }

    fn entry(&self, tag: u16) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.tag == tag)
    }

    /// Returns the bytes of a tag's values, and the size of one value.
    fn data(&self, entry: &Entry) -> Result<(Vec<u8>, usize), Error> {
        let tag = entry.tag;
        let size = entry.element().ok_or_else(|| {
            corrupt(format!("tag {tag} is of type {}, which does not exist", entry.kind))
        })?;
        let bytes = entry.count.checked_mul(size).filter(|n| *n <= self.len.min(MOST_BYTES));
        let bytes = bytes.ok_or_else(|| {
            corrupt(format!("tag {tag} has {} values, more than fit", entry.count))
        })?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut data = vec![0; bytes];
        match entry.value.get(..bytes).filter(|_| bytes <= entry.room) {
            Some(value) => data.copy_from_slice(value),
            None => {
                let at = entry.place;
                self.source.read_at(at, &mut data).map_err(|e| io(&e, at))?;
            }
        }
        Ok((data, usize::try_from(size).unwrap_or(1)))
    }

    /// The unsigned integers of a tag.
    pub(super) fn integers(&self, tag: u16) -> Result<Option<Vec<u64>>, Error> {
        let Some(entry) = self.entry(tag) else { return Ok(None) };
        if !matches!(entry.kind, 1 | 3 | 4 | 13 | 16 | 18) {
            let kind = entry.kind;
            return Err(corrupt(format!("tag {tag} is of type {kind}, expected integers")));
        }
        let (data, size) = self.data(entry)?;
        Ok(Some(data.chunks_exact(size).map(|bytes| self.order.number(bytes)).collect()))
    }

    /// The first integer of a tag.
    pub(super) fn integer(&self, tag: u16) -> Result<Option<u64>, Error> {
        Ok(self.integers(tag)?.and_then(|values| values.first().copied()))
    }

    /// The doubles of a tag.
    pub(super) fn doubles(&self, tag: u16) -> Result<Option<Vec<f64>>, Error> {
        let Some(entry) = self.entry(tag).filter(|entry| entry.kind == 12) else { return Ok(None) };
        let (data, _) = self.data(entry)?;
        let values = data.as_chunks::<8>().0.iter();
        Ok(Some(values.map(|bytes| f64::from_bits(self.order.number(bytes))).collect()))
    }

    /// Returns the text of a tag, as far as it is valid.
    pub(super) fn text(&self, tag: u16) -> Result<Option<String>, Error> {
        let Some(entry) = self.entry(tag).filter(|entry| entry.kind == 2) else { return Ok(None) };
        let (mut data, _) = self.data(entry)?;
        data.truncate(data.iter().position(|b| *b == 0).unwrap_or(data.len()));
        Ok(Some(String::from_utf8_lossy(&data).into_owned()))
    }

    /// Returns the bytes of a tag unchanged.
    pub(super) fn bytes(&self, tag: u16) -> Result<Option<Vec<u8>>, Error> {
        self.entry(tag).map(|entry| self.data(entry).map(|(data, _)| data)).transpose()
    }
}

/// The bytes from `at` on.
fn array<const N: usize, S: Positioned + ?Sized>(source: &S, at: u64) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    source.read_at(at, &mut bytes).map_err(|e| io(&e, at))?;
    Ok(bytes)
}

pub(super) fn corrupt(detail: impl Into<String>) -> Error {
    Error::corrupt(Format::Tiff, detail)
}

pub(super) fn io(error: &std::io::Error, at: u64) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            Error::truncated(Format::Tiff, format!("it points to byte {at}, past its end"))
        }
        _ => Error::corrupt(Format::Tiff, format!("byte {at} cannot be read: {error}")),
    }
}
