//! Files and memory as the kernel sees them: maps, pages in memory, huge pages.
//!
//! All unsafe calls to the kernel by libraries of this workspace are here, except those for C
//! libraries and GPUs.

#![expect(unsafe_code, reason = "mapping a file and advice about memory are unsafe by nature")]

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::{Mmap, MmapMut};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

/// The bytes of a file, mapped.
///
/// Only for files that nobody writes to or cuts while the map is there, such as the shards of a
/// bundle, which are removed but never changed: a process that reads beyond the end of a truncated
/// file dies of SIGBUS.
#[derive(Debug)]
pub struct Map(Mmap);

impl Map {
    /// Maps all of `file`, which must stay as it is for as long as the map is there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of(file: &File) -> io::Result<Self> {
        // SAFETY: the map is only read. No process can stop another one from truncating or writing
        // the file, so an unsafe function would require from its callers what they cannot know.
        // That files of bundles never change is a rule of the format, and SIGBUS ends a process
        // that meets a truncated one before it can use a wrong byte.
        unsafe { Mmap::map(file) }.map(Self)
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Memory that another process maps, too. It has no name, so that nothing is left of it when both
/// have ended, and only grows.
///
/// Both sides must take turns: a process that reads what the other one writes meanwhile gets bytes of
/// both. Neither may truncate it.
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
    map: MmapMut,
}

impl SharedMemory {
    /// # Errors
    /// The kernel's.
    pub fn new() -> io::Result<Self> {
        let file = File::from(memfd_create("gular", MemfdFlags::CLOEXEC)?);
        let map = MmapMut::map_anon(1)?;
        Ok(Self { file, map })
    }

    /// The file to give to the other process, which has the same memory.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Maps at least `len` bytes, also if the other process made the memory longer.
    ///
    /// # Errors
    /// The kernel's.
    pub fn grow(&mut self, len: u64) -> io::Result<()> {
        if len <= self.map.len() as u64 {
            return Ok(());
        }
        if self.file.metadata()?.len() < len {
            self.file.set_len(len)?;
        }
        // SAFETY: as with `Map`, no process can stop the other one from writing, so this relies on
        // both taking turns, as the type's documentation says. Neither makes the file shorter, so
        // that there is no SIGBUS.
        self.map = unsafe { MmapMut::map_mut(&self.file) }?;
        Ok(())
    }

    /// The memory that is mapped.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The same, to write to.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

/// Returns how many pages of `file` are in memory, and how many it has; `None` if the kernel does
/// not say.
#[must_use]
pub fn resident_pages(file: &File) -> Option<(usize, usize)> {
    if file.metadata().ok()?.len() == 0 {
        return Some((0, 0));
    }
    // SAFETY: the map is never read, so that a file cut meanwhile cannot raise SIGBUS.
    let map = unsafe { Mmap::map(file) }.ok()?;
    let mut states = vec![0_u8; map.len().div_ceil(page_size())];
    // SAFETY: the range is that of a live map, which begins at a page, and `states`
    // has one byte for each of its pages.
    let done = unsafe { libc::mincore(map.as_ptr() as *mut _, map.len(), states.as_mut_ptr()) };
    (done == 0).then(|| (states.iter().filter(|s| **s & 1 == 1).count(), states.len()))
}

/// Asks for huge pages under `memory`, which should begin and end with one. If the kernel ignores
/// the advice, nothing changes.
pub fn advise_huge_pages(memory: &mut [u8]) {
    let (start, len) = (memory.as_mut_ptr().cast(), memory.len());
    // SAFETY: the advice changes no byte, of this memory or of what shares a page with it.
    let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn both_sides_see_the_memory_and_either_may_make_it_longer() {
        let mut memory = SharedMemory::new().unwrap();
        memory.grow(3).unwrap();
        memory.bytes_mut()[..3].copy_from_slice(b"abc");
        let mut read = [0; 3];
        memory.file().read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"abc");
        memory.file().set_len(100_000).unwrap();
        memory.file().write_all_at(b"end", 99_997).unwrap();
        memory.grow(100_000).unwrap();
        assert_eq!((&memory.bytes()[..3], &memory.bytes()[99_997..]), (&b"abc"[..], &b"end"[..]));
    }

    #[test]
    fn a_map_has_the_files_bytes_and_its_pages_are_counted() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(resident_pages(&file), Some((0, 0)));
        file.write_all(&vec![7; 2 * page_size() + 1]).unwrap();
        let map = Map::of(&file).unwrap();
        assert_eq!(map.len(), 2 * page_size() + 1);
        assert!(map.iter().all(|byte| *byte == 7));
        assert_eq!(resident_pages(&file), Some((3, 3)));
    }

    #[test]
    fn advice_changes_no_byte() {
        let mut memory = vec![5; 4 << 20];
        advise_huge_pages(&mut memory);
        advise_huge_pages(&mut memory[1..10]);
        assert!(memory.iter().all(|byte| *byte == 5));
    }
}
