//! Extended attributes: every distinct set is written once.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use super::Error;
use super::error::shown;
use super::metadata::{Metadata, write_indexed};
use super::options::Compression;
use super::sink::Out;
use crate::format::NONE;

/// The prefixes that a name may have, by their number in the image.
const PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// The kernel's limits on a name and a value.
const MAX_NAME: usize = 255;
const MAX_VALUE: usize = 64 << 10;

/// The attributes of one node, in the form in which the image has them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Set {
    count: u32,
    bytes: Vec<u8>,
}

/// The different sets of a tree.
#[derive(Debug, Default)]
pub(super) struct Sets {
    sets: Vec<Arc<Set>>,
    numbers: HashMap<Arc<Set>, u32>,
}

impl Sets {
    /// Returns the number of the set with these names and values; [`NONE`] if there are none.
    pub(super) fn number(&mut self, path: &[u8], xattrs: &[(&[u8], &[u8])]) -> Result<u32, Error> {
        if xattrs.is_empty() {
            return Ok(NONE);
        }
        let set = encode(path, xattrs)?;
        if let Some(number) = self.numbers.get(&set) {
            return Ok(*number);
        }
        let number = self.sets.len() as u32;
        let set = Arc::new(set);
        self.sets.push(Arc::clone(&set));
        self.numbers.insert(set, number);
        Ok(number)
    }
}

fn encode(path: &[u8], xattrs: &[(&[u8], &[u8])]) -> Result<Set, Error> {
    let mut sorted = xattrs.to_vec();
    sorted.sort_unstable();
    let bad =
        |name: &[u8], reason| Err(Error::Xattr { path: shown(path), name: shown(name), reason });
    for pair in sorted.windows(2) {
        if pair[0].0 == pair[1].0 {
            return bad(pair[0].0, "it is listed twice");
        }
    }
    let mut bytes = Vec::new();
    for (name, value) in &sorted {
        let found = PREFIXES.iter().enumerate().find_map(|(number, prefix)| {
            name.strip_prefix(*prefix).map(|rest| (number as u16, rest))
        });
        let Some((prefix, rest)) = found.filter(|(_, rest)| !rest.is_empty()) else {
            return bad(name, "its name must start with `user.`, `trusted.` or `security.`");
        };
        if name.len() > MAX_NAME || name.contains(&0) {
            return bad(name, "its name is over 255 bytes, or contains a zero byte");
        }
        if value.len() > MAX_VALUE {
            return bad(name, "its value is over 65536 bytes");
        }
        bytes.extend_from_slice(&prefix.to_le_bytes());
        bytes.extend_from_slice(&(rest.len() as u16).to_le_bytes());
        bytes.extend_from_slice(rest);
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    Ok(Set { count: sorted.len() as u32, bytes })
}

/// The sets that inodes refer to, in the order of their first use, so that the image does not
/// depend on the order in which the tree was built.
#[derive(Debug, Default)]
pub(super) struct Used {
    order: Vec<u32>,
    numbers: HashMap<u32, u32>,
}

impl Used {
    /// Returns the number that a set of [`Sets`] has in the image.
    pub(super) fn number(&mut self, set: u32) -> u32 {
        if set == NONE {
            return NONE;
        }
        *self.numbers.entry(set).or_insert_with(|| {
            self.order.push(set);
            self.order.len() as u32 - 1
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Writes names and values, and the tables that refer to them; returns where the last of these
    /// starts. That table must be the image's last, since the kernel compares its length with what
    /// is left of the image.
    pub(super) fn write<W: Write>(
        &self,
        sets: &Sets,
        compression: Option<Compression>,
        out: &mut Out<W>,
    ) -> Result<u64, Error> {
        let start = out.position();
        let mut pairs = Metadata::new(compression)?;
        let mut entries = Vec::with_capacity(self.order.len());
        for number in &self.order {
            let set = &sets.sets[*number as usize];
            let mut entry = [0; 16];
            entry[..8].copy_from_slice(&pairs.place()?.reference().to_le_bytes());
            entry[8..12].copy_from_slice(&set.count.to_le_bytes());
            entry[12..].copy_from_slice(&(set.bytes.len() as u32).to_le_bytes());
            entries.push(entry);
            pairs.write(&set.bytes)?;
            pairs.drain(out)?;
        }
        pairs.finish(out)?;
        // A header is between the entries and their index, so the index is gathered separately.
        let mut blocks = Out::new(Vec::new());
        let base = out.position();
        let index_start = write_indexed(&mut blocks, compression, entries.into_iter())?;
        let bytes = blocks.into_sink()?;
        let (blocks, index) = bytes.split_at(index_start as usize);
        out.write(blocks)?;
        let header = out.position();
        out.write(&start.to_le_bytes())?;
        out.write(&(self.order.len() as u32).to_le_bytes())?;
        out.write(&[0; 4])?;
        for place in index.as_chunks::<8>().0 {
            out.write(&(base + u64::from_le_bytes(*place)).to_le_bytes())?;
        }
        Ok(header)
    }
}
