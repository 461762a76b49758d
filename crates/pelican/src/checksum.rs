//! Checksums that servers report for an object: the `Digest` header (RFC 3230).
//!
//! ```text
//! > Want-Digest: crc32c,md5
//! < Digest: crc32c=9s/pyA==        base64 of 4 big-endian bytes (XRootD before 5.8.1)
//! < Digest: crc32c=f6cfe9c8        hex (later)
//! < Digest: md5=XrY7u+Ae7tCTyyK7j1rNww==
//! ```
//!
//! They tell of a bad copy, not of a forged one: what an object must be, its digest
//! in a manifest says.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

/// The checksums to request: origins have crc32c ready, other servers compute md5.
pub(crate) const WANT_DIGEST: &str = "crc32c,md5";

/// A server reads the whole object to answer for its digest: 3 s a GB for md5 were
/// measured on a fast disk.
pub(crate) fn digest_patience(len: u64) -> Duration {
    Duration::from_secs(15 + len / (50 << 20))
}

/// The algorithm of a server's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Castagnoli's polynomial (RFC 3720, appendix B.4).
    Crc32c,
    /// RFC 1321.
    Md5,
    /// The polynomial of zlib and POSIX tools' `crc32`.
    Crc32,
    /// RFC 1950, section 8.
    Adler32,
}

impl Algorithm {
    /// The algorithm's name in a header.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Md5 => "md5",
            Self::Crc32 => "crc32",
            Self::Adler32 => "adler32",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Crc32c, Self::Md5, Self::Crc32, Self::Adler32]
            .into_iter()
            .find(|algorithm| name.eq_ignore_ascii_case(algorithm.name()))
    }

    fn len_bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Crc32c | Self::Crc32 | Self::Adler32 => 4,
        }
    }
}

/// A checksum, shown as `crc32c:f6cfe9c8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Big-endian: 16 bytes for md5, 4 for the others.
    pub value: Vec<u8>,
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.algorithm.name())?;
        self.value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The first checksum in a `Digest` header that is known and of its right length.
///
/// Caches have been seen to give an origin's crc32c as `md5`, which the length shows.
pub(crate) fn parse_digest(header: &str) -> Option<Checksum> {
    header.split(',').find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let algorithm = Algorithm::parse(name.trim())?;
        Some(Checksum { algorithm, value: decode(value.trim(), algorithm.len_bytes())? })
    })
}

/// Decodes `len_bytes` bytes in hex or base64. The length of the text tells which it is: hex has
/// two digits per byte, base64 four for three bytes.
fn decode(text: &str, len_bytes: usize) -> Option<Vec<u8>> {
    let hex = text.len() == 2 * len_bytes && text.bytes().all(|b| b.is_ascii_hexdigit());
    let bytes = if hex { decode_hex(text)? } else { STANDARD.decode(text).ok()? };
    (bytes.len() == len_bytes).then_some(bytes)
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// Computes a checksum of bytes as they are received.
#[derive(Debug, Clone)]
pub struct Summer(State);

#[derive(Debug, Clone)]
enum State {
    Crc32c(u32),
    Md5(Box<Md5>),
    Crc32(crc32fast::Hasher),
    Adler32(adler2::Adler32),
}

impl Summer {
    /// Starts a checksum of no bytes.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Crc32c => State::Crc32c(0),
            Algorithm::Md5 => State::Md5(Box::default()),
            Algorithm::Crc32 => State::Crc32(crc32fast::Hasher::new()),
            Algorithm::Adler32 => State::Adler32(adler2::Adler32::new()),
        })
    }

    /// Adds `bytes`, which follow those added before.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
            State::Md5(md5) => md5.update(bytes),
            State::Crc32(crc) => crc.update(bytes),
            State::Adler32(adler) => adler.write_slice(bytes),
        }
    }

    /// The checksum of all bytes added.
    #[must_use]
    pub fn finish(self) -> Checksum {
        let (algorithm, value) = match self.0 {
            State::Crc32c(sum) => (Algorithm::Crc32c, sum.to_be_bytes().to_vec()),
            State::Md5(md5) => (Algorithm::Md5, md5.finalize().to_vec()),
            State::Crc32(crc) => (Algorithm::Crc32, crc.finalize().to_be_bytes().to_vec()),
            State::Adler32(sum) => (Algorithm::Adler32, sum.checksum().to_be_bytes().to_vec()),
        };
        Checksum { algorithm, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, expected: Option<&str>) {
        let shown = parse_digest(header).map(|checksum| checksum.to_string());
        assert_eq!(shown.as_deref(), expected, "{header}");
    }

    #[test]
    fn both_encodings_are_read() {
        check("crc32c=9s/pyA==", Some("crc32c:f6cfe9c8"));
        check("crc32c=f6cfe9c8", Some("crc32c:f6cfe9c8"));
        check("CRC32C = F6CFE9C8 ", Some("crc32c:f6cfe9c8"));
        check("crc32c=00000000", Some("crc32c:00000000"));
        check("crc32=cbf43926", Some("crc32:cbf43926"));
        check("adler32=091e01de", Some("adler32:091e01de"));
        check("md5=JfnnlDI7RTiF9RgfG2JNCw==", Some("md5:25f9e794323b453885f5181f1b624d0b"));
        check("MD5=25f9e794323b453885f5181f1b624d0b", Some("md5:25f9e794323b453885f5181f1b624d0b"));
    }

    #[test]
    fn the_first_that_is_known_and_sound_counts() {
        check("sha-256=abc=, adler32=091e01de,crc32c=f6cfe9c8", Some("adler32:091e01de"));
        check("md5=9s/pyA==,crc32c=f6cfe9c8", Some("crc32c:f6cfe9c8"));
    }

    #[test]
    fn values_of_a_wrong_length_are_refused() {
        for header in [
            "",
            "=",
            "crc32c",
            "crc32c=",
            "crc32c=f6cfe9",
            "crc32c=f6cfe9c8aa",
            "crc32c=f6cfe9cg",
            "crc32c=9s/py",
            "crc32c=9s/pyA=A",
            "crc32c=+6cfe9c8",
            "md5=9s/pyA==",
            "md5=f6cfe9c8",
            "adler32=JfnnlDI7RTiF9RgfG2JNCw==",
            "sha=AAAA",
            "cvmfs=25f9e794323b453885f5181f1b624d0b",
            "crc32c=é6cfe9c",
            ",,,=,=",
        ] {
            check(header, None);
        }
    }

    #[test]
    fn sums_are_those_of_the_standards() {
        // The check values of the catalogue of CRC algorithms and of RFC 1321's suite.
        for (algorithm, of_digits, of_nothing) in [
            (Algorithm::Crc32c, "crc32c:e3069283", "crc32c:00000000"),
            (Algorithm::Crc32, "crc32:cbf43926", "crc32:00000000"),
            (Algorithm::Adler32, "adler32:091e01de", "adler32:00000001"),
            (
                Algorithm::Md5,
                "md5:25f9e794323b453885f5181f1b624d0b",
                "md5:d41d8cd98f00b204e9800998ecf8427e",
            ),
        ] {
            assert_eq!(Summer::new(algorithm).finish().to_string(), of_nothing);
            for cut in 0..=9 {
                let (head, tail) = b"123456789".split_at(cut);
                let mut summer = Summer::new(algorithm);
                summer.update(head);
                summer.update(tail);
                assert_eq!(summer.finish().to_string(), of_digits, "cut at {cut}");
            }
            let shown = parse_digest(&of_digits.replace(':', "=")).unwrap();
            assert_eq!((shown.algorithm, shown.to_string().as_str()), (algorithm, of_digits));
        }
    }

    #[test]
    fn what_is_asked_for_is_known() {
        assert!(WANT_DIGEST.split(',').all(|name| Algorithm::parse(name).is_some()));
    }
}
