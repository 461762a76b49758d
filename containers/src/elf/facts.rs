//! The dynamic section of one file.

use std::fs::File;
use std::path::Path;

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, read};

use crate::rootfs::FileBytes;
use crate::{Error, Result};

/// Longest name or version read; more than one is an attack.
const MAX_ENTRIES: usize = 16 << 10;

/// The parts of a program or library that `ld.so` reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ElfFacts {
    /// ELF's number of the architecture: 62 for x86-64, 183 for 64-bit ARM.
    pub machine: u16,
    /// Path of `ld.so`; `None` for libraries and static programs.
    pub interpreter: Option<String>,
    /// The library's own name.
    pub soname: Option<String>,
    /// Libraries needed, in the order they are loaded.
    pub needed: Vec<String>,
    /// Folders searched for libraries this file needs.
    pub runpath: Vec<String>,
    /// Folders searched for these, and for all that they need in turn; counts only without `runpath`.
    pub rpath: Vec<String>,
    /// Symbol versions needed, by library: (`libc.so.6`, `GLIBC_2.34`).
    pub versions_needed: Vec<(String, String)>,
    /// Symbol versions this library offers.
    pub versions_offered: Vec<String>,
}

impl ElfFacts {
    /// Reads a file's headers; `None` when it is not an ELF file of 64 bits.
    ///
    /// # Errors
    /// [`Error::Elf`] for a damaged one, [`Error::Io`].
    pub fn read(source: &FileBytes) -> Result<Option<Self>> {
        match source {
            FileBytes::Bytes(bytes) => parse(&**bytes, "a file"),
            FileBytes::File { path, .. } => Self::open(path),
        }
    }

    /// Reads a file of this machine, like [`read`](Self::read).
    ///
    /// # Errors
    /// As `read`.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let cache = ReadCache::new(file);
        parse(&cache, &path.display().to_string())
    }

    /// The folders that `$ORIGIN` relative and other paths of `list` name, for a
    /// file in the folder `origin`.
    pub(crate) fn folders(list: &[String], origin: &str) -> Vec<String> {
        let place =
            |folder: &String| folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin);
        list.iter().map(place).collect()
    }
}

fn parse<'data, R: ReadRef<'data>>(data: R, path: &str) -> Result<Option<ElfFacts>> {
    let magic = data.read_bytes_at(0, 5).unwrap_or_default();
    if magic != b"\x7fELF\x02" {
        return Ok(None);
    }
    let facts = facts(data);
    let damaged = |e: read::Error| Error::Elf { path: path.to_owned(), reason: e.to_string() };
    facts.map(Some).map_err(damaged)
}

fn facts<'data, R: ReadRef<'data>>(data: R) -> read::Result<ElfFacts> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut facts = ElfFacts { machine: header.e_machine.get(endian).0, ..ElfFacts::default() };
    for segment in header.program_headers(endian, data)? {
        // Qt's libraries have an empty one, which starts nothing.
        if let Some(path) = segment.interpreter(endian, data)?.filter(|path| !path.is_empty()) {
            facts.interpreter = Some(text(path));
        }
    }
    let sections = header.sections(endian, data)?;
    let dynamic = sections.dynamic_table(endian, data)?;
    for entry in dynamic.iter().take(MAX_ENTRIES) {
        let folders = |bytes: &[u8]| {
            text(bytes).split(':').filter(|f| !f.is_empty()).map(str::to_owned).collect()
        };
        match entry.tag {
            elf::DT_NEEDED => facts.needed.push(text(dynamic.string(entry)?)),
            elf::DT_SONAME => facts.soname = Some(text(dynamic.string(entry)?)),
            elf::DT_RUNPATH => facts.runpath = folders(dynamic.string(entry)?),
            elf::DT_RPATH => facts.rpath = folders(dynamic.string(entry)?),
            _ => {}
        }
    }
    if let Some((needs, link)) = sections.gnu_verneed(endian, data)? {
        let strings = sections.strings(endian, data, link)?;
        for need in needs.take(MAX_ENTRIES) {
            let (need, versions) = need?;
            let library = text(need.file(endian, strings)?);
            for version in versions {
                let version = version?;
                // A weak version may be missing.
                if version.vna_flags.get(endian).contains(elf::VER_FLG_WEAK) {
                    continue;
                }
                let name = text(version.name(endian, strings)?);
                facts.versions_needed.push((library.clone(), name));
            }
        }
    }
    if let Some((defs, link)) = sections.gnu_verdef(endian, data)? {
        let strings = sections.strings(endian, data, link)?;
        for def in defs.take(MAX_ENTRIES) {
            let (_, mut names) = def?;
            if let Some(first) = names.next()? {
                facts.versions_offered.push(text(first.name(endian, strings)?));
            }
        }
    }
    Ok(facts)
}
