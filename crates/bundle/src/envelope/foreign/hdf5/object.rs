//! Object headers (IV.A.1), of both versions, with their continuations.

use std::collections::VecDeque;

use crate::Error;
use crate::envelope::foreign::hdf5::cursor::Cursor;
use crate::envelope::foreign::hdf5::file::Hdf5;
use crate::envelope::foreign::hdf5::kind;

/// A message of an object header.
#[derive(Debug)]
pub(super) struct Message {
    /// One of [`kind`].
    pub(super) kind: u16,
    /// Whether `data` only refers to the message, which several objects share.
    pub(super) is_shared: bool,
    pub(super) data: Vec<u8>,
}

/// Finds the first message of `kind` in `messages`.
pub(super) fn find(messages: &[Message], kind: u16) -> Option<&Message> {
    messages.iter().find(|m| m.kind == kind)
}

/// A part of a header.
struct Block {
    address: u64,
    len: u64,
}

/// Reads all messages of the object at `address`.
pub(super) fn messages(file: &Hdf5<'_>, address: u64) -> Result<Vec<Message>, Error> {
    let bad = || file.bad(format!("the object header at address {address} is damaged"));
    let head = file.some_bytes(address, 34)?;
    let (first, format) = prefix(address, &head).ok_or_else(bad)?;
    let mut blocks = VecDeque::from([first]);
    let mut messages = Vec::new();
    while let Some(block) = blocks.pop_front() {
        let is_first = block.address == address.saturating_add(format.prefix);
        let bytes = file.bytes(block.address, block.len)?;
        let mut at = Cursor::new(&bytes);
        if format.version == 2 && !is_first {
            at.expect(b"OCHK").ok_or_else(bad)?;
            // The last four bytes are a checksum.
            let body = at.rest().len().checked_sub(4).and_then(|n| at.take(n));
            at = Cursor::new(body.ok_or_else(bad)?);
        }
        while let Some(message) = format.next(&mut at) {
            if message.kind != kind::CONTINUATION {
                messages.push(message);
                continue;
            }
            let mut at = Cursor::new(&message.data);
            let next = at.address(file.address_size).zip(at.uint(file.length_size));
            let (address, len) = next.ok_or_else(bad)?;
            blocks.push_back(Block { address, len });
        }
    }
    Ok(messages)
}

/// The layout of the messages of a header.
struct Format {
    version: u8,
    /// Bytes before the first message.
    prefix: u64,
    /// Whether each message has a number for the order of creation.
    is_ordered: bool,
}

/// Finds the first block of messages from a header's first bytes.
fn prefix(address: u64, head: &[u8]) -> Option<(Block, Format)> {
    let mut at = Cursor::new(head);
    let (len, format) = if head.starts_with(b"OHDR") {
        at.skip(4)?;
        let (version, flags) = (at.u8()?, at.u8()?);
        // These are times, then limits of compact storage.
        at.skip(if flags & 0x20 != 0 { 16 } else { 0 })?;
        at.skip(if flags & 0x10 != 0 { 4 } else { 0 })?;
        let len = at.uint(1 << (flags & 3))?;
        let prefix = head.len().checked_sub(at.rest().len())? as u64;
        (len, Format { version, prefix, is_ordered: flags & 4 != 0 })
    } else {
        let version = at.u8()?;
        at.skip(7)?;
        (u64::from(at.u32()?), Format { version, prefix: 16, is_ordered: false })
    };
    let known = if head.starts_with(b"OHDR") { 2 } else { 1 };
    (format.version == known).then_some(())?;
    Some((Block { address: address.checked_add(format.prefix)?, len }, format))
}

impl Format {
    /// Takes the next message; `None` if no other one fits, since blocks may have a gap at the end.
    fn next(&self, at: &mut Cursor<'_>) -> Option<Message> {
        const SHARED: u8 = 2;
        let (kind, len, flags);
        if self.version == 1 {
            (kind, len, flags) = (at.u16()?, at.u16()?, at.u8()?);
            at.skip(3)?;
        } else {
            (kind, len, flags) = (u16::from(at.u8()?), at.u16()?, at.u8()?);
            at.skip(if self.is_ordered { 2 } else { 0 })?;
        }
        let data = at.take(len.into())?.to_vec();
        Some(Message { kind, is_shared: flags & SHARED != 0, data })
    }
}
