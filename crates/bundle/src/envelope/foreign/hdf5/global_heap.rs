//! Global heaps (III.E), which store values of variable length.

use std::collections::{HashMap, HashSet};

use crate::Error;
use crate::envelope::Run;
use crate::envelope::foreign::hdf5::UNDEFINED;
use crate::envelope::foreign::hdf5::cursor::Cursor;
use crate::envelope::foreign::hdf5::file::Hdf5;

/// The heaps seen so far.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    seen: HashSet<u64>,
    /// The objects, by the address of their heap and their number in it.
    objects: HashMap<(u64, u32), Run>,
}

impl Heaps {
    /// Returns the range of bytes that an element of variable length refers to; `None` if it has no
    /// value.
    pub(super) fn run(&mut self, file: &Hdf5<'_>, element: &[u8]) -> Result<Option<Run>, Error> {
        let mut at = Cursor::new(element);
        let parsed = || -> Option<(u32, u64, u32)> {
            Some((at.u32()?, at.address(file.address_size)?, at.u32()?))
        };
        let (len, heap, object) =
            { parsed }().ok_or_else(|| file.bad("a reference to a heap is cut short"))?;
        if len == 0 || matches!(heap, 0 | UNDEFINED) {
            return Ok(None);
        }
        if self.seen.insert(heap) {
            self.walk(file, heap)?;
        }
        let run = self.objects.get(&(heap, object));
        let run = run.filter(|run| u64::from(len) <= run.len).ok_or_else(|| {
            file.bad(format!("the heap at address {heap} has no object {object} of {len} bytes"))
        })?;
        Ok(Some(Run { offset: run.offset, len: len.into() }))
    }

    /// Reads the text that an element refers to, which is empty if it has none.
    pub(super) fn text(&mut self, file: &Hdf5<'_>, element: &[u8]) -> Result<String, Error> {
        let Some(run) = self.run(file, element)? else { return Ok(String::new()) };
        let bytes = file.raw(run.offset, run.len)?;
        let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Records all objects of a heap.
    fn walk(&mut self, file: &Hdf5<'_>, heap: u64) -> Result<(), Error> {
        let bad = || file.bad(format!("the global heap at address {heap} is damaged"));
        let header = 8_u64.saturating_add(file.length_size as u64);
        let head = file.bytes(heap, header)?;
        let mut at = Cursor::new(&head);
        let size = at.expect(b"GCOL\x01").and_then(|()| at.skip(3));
        let size = size.and_then(|()| at.uint(file.length_size)).ok_or_else(bad)?;
        file.place(heap, size).ok_or_else(bad)?;
        let mut next = header;
        while next.saturating_add(header) <= size {
            let address = heap.checked_add(next).ok_or_else(bad)?;
            let head = file.bytes(address, header)?;
            let mut at = Cursor::new(&head);
            let number = at.u16().ok_or_else(bad)?;
            // Object 0 is the heap's free space.
            if number == 0 {
                break;
            }
            let len = at.skip(6).and_then(|()| at.uint(file.length_size)).ok_or_else(bad)?;
            let start = address.checked_add(header).ok_or_else(bad)?;
            let offset = file.place(start, len).ok_or_else(bad)?;
            self.objects.insert((heap, number.into()), Run { offset, len });
            let padded = len.checked_next_multiple_of(8).ok_or_else(bad)?;
            next = next.checked_add(header).and_then(|n| n.checked_add(padded)).ok_or_else(bad)?;
        }
        Ok(())
    }
}
