//! Sparse files as GNU's tar writes them into POSIX archives: the parts that have bytes, and where
//! they belong (GNU tar manual, "Storing Sparse Files", formats 0.0, 0.1 and 1.0).

use std::io::{self, Read};

/// The longest map that is read: each part is some digits, and most files have few.
const MAX_PARTS: usize = 1 << 20;
/// Bytes of a tar's block, to whose end a map inside the file is filled.
const BLOCK: usize = 512;

/// What the attributes of a sparse file say.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Sparse {
    /// The file's own name; that of the member is made up.
    pub(super) name: Option<Vec<u8>>,
    /// The length with its holes.
    pub(super) size: Option<u64>,
    /// Whether the map is in the file, before its bytes.
    is_inside: bool,
    /// Offsets and lengths of the parts, by turns.
    map: Vec<u64>,
    is_sparse: bool,
}

impl Sparse {
    /// Takes an attribute; whether it is one of a sparse file.
    pub(super) fn take(&mut self, key: &str, value: &[u8]) -> io::Result<bool> {
        let Some(key) = key.strip_prefix("GNU.sparse.") else { return Ok(false) };
        self.is_sparse = true;
        match key {
            "name" => self.name = Some(value.to_vec()),
            "size" | "realsize" => self.size = Some(number(value)?),
            "major" => self.is_inside = number(value)? == 1,
            "offset" | "numbytes" => self.push(number(value)?)?,
            "map" => {
                for part in value.split(|byte| *byte == b',').filter(|part| !part.is_empty()) {
                    self.push(number(part)?)?;
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Whether the file is one of these.
    pub(super) fn is_sparse(&self) -> bool {
        self.is_sparse
    }

    fn push(&mut self, number: u64) -> io::Result<()> {
        if self.map.len() >= 2 * MAX_PARTS {
            return Err(wrong("it has too many parts"));
        }
        self.map.push(number);
        Ok(())
    }

    /// The file with its holes, of the member's bytes.
    pub(super) fn expand<R: Read>(mut self, mut stored: R) -> io::Result<Expanded<R>> {
        if self.is_inside {
            let mut lines = Lines { stored: &mut stored, read: 0 };
            let parts = lines.number()?;
            for _ in 0..parts.checked_mul(2).ok_or_else(|| wrong("it has too many parts"))? {
                let number = lines.number()?;
                self.push(number)?;
            }
            lines.end_block()?;
        }
        let mut parts = Vec::new();
        let mut end = 0;
        for part in self.map.chunks(2) {
            let [offset, len] = part else { return Err(wrong("a part has no length")) };
            if *offset < end {
                return Err(wrong("its parts overlap"));
            }
            end = offset.checked_add(*len).ok_or_else(|| wrong("a part is too long"))?;
            parts.push((*offset, *len));
        }
        let size = self.size.unwrap_or(end);
        if size < end {
            return Err(wrong("its parts go beyond its end"));
        }
        parts.reverse();
        Ok(Expanded { stored, parts, at: 0, size })
    }
}

/// A sparse file, with zeros where it has no bytes.
pub(super) struct Expanded<R> {
    stored: R,
    /// Parts that are not read yet, the next one last.
    parts: Vec<(u64, u64)>,
    at: u64,
    size: u64,
}

impl<R: Read> Read for Expanded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.parts.last().is_some_and(|(offset, len)| offset + len <= self.at) {
            self.parts.pop();
        }
        let (is_hole, end) = match self.parts.last() {
            Some((offset, len)) if *offset <= self.at => (false, offset + len),
            Some((offset, _)) => (true, *offset),
            None => (true, self.size),
        };
        let left = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = buffer.get_mut(..left).unwrap_or_default();
        let read = match is_hole {
            true => {
                buffer.fill(0);
                left
            }
            false => self.stored.read(buffer)?,
        };
        if read == 0 && left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += read as u64;
        Ok(read)
    }
}

/// The lines of numbers at the beginning of a file.
struct Lines<'a, R> {
    stored: &'a mut R,
    read: usize,
}

impl<R: Read> Lines<'_, R> {
    fn number(&mut self) -> io::Result<u64> {
        let mut digits = Vec::new();
        loop {
            let mut byte = [0];
            self.stored.read_exact(&mut byte)?;
            self.read += 1;
            match byte {
                [b'\n'] => return number(&digits),
                // 2^64 has twenty digits.
                _ if digits.len() == 20 => return Err(wrong("its map is not one")),
                [digit] => digits.push(digit),
            }
        }
    }

    fn end_block(&mut self) -> io::Result<()> {
        let mut rest = vec![0; self.read.next_multiple_of(BLOCK) - self.read];
        self.stored.read_exact(&mut rest)
    }
}

fn number(text: &[u8]) -> io::Result<u64> {
    let text = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    text.ok_or_else(|| wrong("its map has something that is not a number"))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("as a sparse file, {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(attributes: &[(&str, &str)], stored: &[u8]) -> io::Result<Vec<u8>> {
        let mut sparse = Sparse::default();
        for (key, value) in attributes {
            assert!(sparse.take(&format!("GNU.sparse.{key}"), value.as_bytes())?);
        }
        let mut bytes = Vec::new();
        sparse.expand(stored)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn all_three_forms_are_read() {
        let old = [("size", "6"), ("offset", "1"), ("numbytes", "2"), ("offset", "4")];
        let old = [&old[..], &[("numbytes", "1")]].concat();
        assert_eq!(expanded(&old, b"abc").unwrap(), b"\0ab\0c\0");
        let map = [("size", "6"), ("map", "1,2,4,1")];
        assert_eq!(expanded(&map, b"abc").unwrap(), b"\0ab\0c\0");
        let mut stored = b"2\n1\n2\n4\n1\n".to_vec();
        stored.resize(BLOCK, 0);
        stored.extend(b"abc");
        let inside = [("major", "1"), ("minor", "0"), ("realsize", "6")];
        assert_eq!(expanded(&inside, &stored).unwrap(), b"\0ab\0c\0");
        assert_eq!(expanded(&[("size", "3"), ("map", "")], b"").unwrap(), b"\0\0\0");
    }

    #[test]
    fn maps_that_are_not_sound_are_refused() {
        for (map, stored) in [
            ("1,2,2,1", &b"abc"[..]),
            ("1", b"abc"),
            ("1,x", b"abc"),
            ("5,3", b"abc"),
            ("18446744073709551615,2", b"abc"),
            ("0,4", b"abc"),
        ] {
            assert!(expanded(&[("size", "6"), ("map", map)], stored).is_err(), "{map}");
        }
        let inside = [("major", "1"), ("realsize", "6")];
        for stored in ["2\n1\n", "99999999999999999999999\n", "18446744073709551615\n", ""] {
            assert!(expanded(&inside, stored.as_bytes()).is_err(), "{stored:?}");
        }
    }
}
