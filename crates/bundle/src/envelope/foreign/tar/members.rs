//! Walks the headers of a tar file: ustar, pax and GNU.

use std::collections::HashMap;

use crate::envelope::Run;
use crate::envelope::foreign::tar::header::{BLOCK, KEY_RECORD, checksum};
use crate::{Error, ReadAt};

/// Extended headers above this are refused; a path has at most 4095 bytes.
const MAX_EXTENDED: u64 = 1 << 20;

/// A regular file, or a hard link to an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) run: Run,
    /// The sample's key, if Gular wrote one.
    pub(crate) key: Option<String>,
}

/// The regular files of a tar, in its order.
pub(crate) struct Members<'a> {
    file: &'a ReadAt,
    position: u64,
    /// Names of the members so far, once a hard link was found that needs them.
    names: Option<HashMap<String, Run>>,
    done: bool,
}

/// The contents of extended headers for the next member.
#[derive(Default)]
struct Extended {
    path: Option<String>,
    link: Option<String>,
    size: Option<u64>,
    key: Option<String>,
}

impl<'a> Members<'a> {
    pub(crate) fn new(file: &'a ReadAt) -> Self {
        Self { file, position: 0, names: None, done: false }
    }

    fn bad(&self, reason: &str) -> Error {
        Error::malformed(self.file.path(), format!("{reason} at byte {}", self.position))
    }

    fn not_in_place(&self, reason: String) -> Error {
        Error::NotInPlace { path: self.file.path(), reason }
    }

    /// Returns the next regular file; `None` at the first zero block, where tarfile and WebDataset
    /// stop too, or at the file's end.
    pub(crate) fn next(&mut self) -> Result<Option<Member>, Error> {
        let mut extended = Extended::default();
        while !self.done {
            let mut header = [0; 512];
            if self.position >= self.file.len_bytes() {
                break;
            }
            if self.file.read_at(self.position, &mut header).is_err() {
                return Err(self.bad("a header is cut"));
            }
            if header.iter().all(|b| *b == 0) {
                break;
            }
            self.check(&header)?;
            let start = self.position.checked_add(BLOCK).ok_or_else(|| self.bad("overflow"))?;
            let kind = header.get(156).copied().unwrap_or(0);
            let own = number(header.get(124..136).unwrap_or_default());
            let own = own.ok_or_else(|| self.bad("a size is not a number"))?;
            let is_extended = matches!(kind, b'x' | b'g' | b'L' | b'K');
            let size = if is_extended { own } else { extended.size.unwrap_or(own) };
            // Links and folders have no data, whatever size they declare.
            let stored = if matches!(kind, b'1'..=b'6') { 0 } else { size };
            let end = start.checked_add(stored).filter(|end| *end <= self.file.len_bytes());
            let end = end.ok_or_else(|| self.bad("the file ends within the member that begins"))?;
            let after = end.checked_next_multiple_of(BLOCK).unwrap_or(end);
            if is_extended {
                self.extend(&mut extended, kind, start, size)?;
                self.position = after;
                continue;
            }
            let name = match extended.path.take() {
                Some(name) => name,
                None => self.text(&full_name(&header))?,
            };
            let key = extended.key.take();
            let member = match kind {
                b'0' | 0 | b'7' => {
                    (!name.ends_with('/')).then_some(Run { offset: start, len: size })
                }
                b'1' => {
                    let target = match extended.link.take() {
                        Some(link) => link,
                        None => self.text(cut(header.get(157..257).unwrap_or_default()))?,
                    };
                    let run = self.target(&target)?;
                    Some(run.ok_or_else(|| self.bad("a hard link has no target before it"))?)
                }
                b'S' => {
                    return Err(self.not_in_place(format!("member `{name}` is sparse")));
                }
                _ => None,
            };
            self.position = after;
            extended = Extended::default();
            if let Some(run) = member {
                if let Some(names) = &mut self.names {
                    names.insert(name.clone(), run);
                }
                return Ok(Some(Member { name, run, key }));
            }
        }
        self.done = true;
        Ok(None)
    }

    fn check(&self, header: &[u8; 512]) -> Result<(), Error> {
        let compressed = match header {
            [0x1f, 0x8b, ..] => Some("gzip"),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
            [0xfd, b'7', b'z', ..] => Some("xz"),
            [b'B', b'Z', b'h', ..] => Some("bzip2"),
            _ => None,
        };
        if let Some(compressed) = compressed.filter(|_| self.position == 0) {
            return Err(self.not_in_place(format!("it is compressed with {compressed}")));
        }
        let sum = number(header.get(148..156).unwrap_or_default());
        if sum != Some(checksum(header)) {
            return Err(self.bad("a header has a wrong checksum"));
        }
        Ok(())
    }

    /// Reads a pax header, or a GNU long name.
    fn extend(
        &self,
        extended: &mut Extended,
        kind: u8,
        start: u64,
        size: u64,
    ) -> Result<(), Error> {
        if size > MAX_EXTENDED {
            return Err(self.bad("an extended header is over 1 MiB"));
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        self.file.read_at(start, &mut bytes)?;
        match kind {
            b'L' => extended.path = Some(self.text(cut(&bytes))?),
            b'K' => extended.link = Some(self.text(cut(&bytes))?),
            // Global headers do not name members.
            b'g' => {}
            _ => {
                for (name, value) in records(&bytes).ok_or_else(|| self.bad("a pax record"))? {
                    match name {
                        b"path" => extended.path = Some(self.text(value)?),
                        b"linkpath" => extended.link = Some(self.text(value)?),
                        b"size" => {
                            let size = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
                            extended.size = Some(size.ok_or_else(|| self.bad("a pax size"))?);
                        }
                        name if name == KEY_RECORD.as_bytes() => {
                            extended.key = Some(self.text(value)?);
                        }
                        name if name.starts_with(b"GNU.sparse") => {
                            return Err(self.not_in_place("it has sparse members".into()));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn text(&self, bytes: &[u8]) -> Result<String, Error> {
        let text = std::str::from_utf8(bytes).map_err(|_| self.bad("a name is not UTF-8"))?;
        Ok(text.trim_start_matches("./").to_owned())
    }

    /// Returns the range of an earlier member; the first call walks the file again.
    fn target(&mut self, name: &str) -> Result<Option<Run>, Error> {
        if self.names.is_none() {
            let mut names = HashMap::new();
            let mut again = Members { names: Some(HashMap::new()), ..Members::new(self.file) };
            while again.position < self.position {
                match again.next()? {
                    Some(member) => drop(names.insert(member.name, member.run)),
                    None => break,
                }
            }
            self.names = Some(names);
        }
        Ok(self.names.as_ref().and_then(|names| names.get(name)).copied())
    }
}

/// Reads a number: octal text, or GNU's base 256 for larger numbers.
fn number(field: &[u8]) -> Option<u64> {
    if let Some((first, rest)) = field.split_first().filter(|(first, _)| **first & 0x80 != 0) {
        let start = u64::from(first & 0x7f);
        return rest.iter().try_fold(start, |acc, b| {
            acc.checked_mul(256).and_then(|acc| acc.checked_add(u64::from(*b)))
        });
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(|c| c == '\0' || c == ' ');
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

/// Returns the bytes before the first zero.
fn cut(bytes: &[u8]) -> &[u8] {
    bytes.split(|b| *b == 0).next().unwrap_or_default()
}

fn full_name(header: &[u8; 512]) -> Vec<u8> {
    let name = cut(header.get(..100).unwrap_or_default());
    let is_posix = header.get(257..263) == Some(b"ustar\0");
    let prefix = cut(header.get(345..500).unwrap_or_default());
    if is_posix && !prefix.is_empty() { [prefix, b"/", name].concat() } else { name.to_vec() }
}

/// Parses the names and values of a pax header.
fn records(mut bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|b| *b == b' ')?;
        let len: usize = std::str::from_utf8(bytes.get(..space)?).ok()?.parse().ok()?;
        let record = bytes.get(space.checked_add(1)?..len.checked_sub(1)?)?;
        let equals = record.iter().position(|b| *b == b'=')?;
        records.push((record.get(..equals)?, record.get(equals.checked_add(1)?..)?));
        bytes = bytes.get(len..)?;
    }
    Some(records)
}
