//! The boxes of a JP2 file.
//!
//! ```text
//! length u32 │ type │ (length u64, if the first is 1) │ content     0: up to the end of the file
//! ```

use crate::Error;
use crate::tiff::Positioned;

use super::read::{corrupt, io};

/// Most boxes of a file that are looked at.
const MOST_BOXES: usize = 4096;
/// Most bytes of a box that is read as a whole.
const MOST_BYTES: u64 = 1 << 20;
/// The identifier of a GeoJP2 box.
const GEO_JP2: [u8; 16] = [
    0xb1, 0x4b, 0xf8, 0xbd, 0x08, 0x3d, 0x4b, 0x43, 0xa5, 0xae, 0x8c, 0xd7, 0xd5, 0xa6, 0xce, 0x03,
];

/// The parts of a file that are read.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Offset and length of the code stream.
    pub(super) stream: Option<(u64, u64)>,
    /// The TIFF of a GeoJP2 box.
    pub(super) geo_tiff: Option<Vec<u8>>,
    /// Boxes with GML.
    pub(super) gml: Vec<Vec<u8>>,
}

/// Finds the boxes of a JP2 file.
pub(super) fn parts<S: Positioned + ?Sized>(file: &S) -> Result<Parts, Error> {
    let end = file.len_bytes().map_err(|e| io(&e))?;
    let mut parts = Parts::default();
    let mut at = 0_u64;
    for _ in 0..MOST_BOXES {
        if at >= end {
            break;
        }
        let Some((kind, from, len)) = one(file, at, end)? else {
            // What follows the picture may be cut short.
            if parts.stream.is_some() {
                break;
            }
            return Err(corrupt("a box ends behind the file"));
        };
        match &kind {
            b"jp2c" if parts.stream.is_none() => parts.stream = Some((from, len)),
            b"uuid" if (16..=MOST_BYTES).contains(&len) => {
                let content = read(file, from, len)?;
                if let Some(tiff) = content.strip_prefix(&GEO_JP2) {
                    parts.geo_tiff = Some(tiff.to_vec());
                }
            }
            b"asoc" if len <= MOST_BYTES => parts.gml.push(read(file, from, len)?),
            _ => {}
        }
        at = from.saturating_add(len);
    }
    Ok(parts)
}

/// Type, offset and length of the content of the box at `at`; `None` if it ends behind `end`.
fn one<S: Positioned + ?Sized>(
    file: &S,
    at: u64,
    end: u64,
) -> Result<Option<([u8; 4], u64, u64)>, Error> {
    let mut head = [0; 8];
    if end - at < head.len() as u64 {
        return Ok(None);
    }
    file.read_at(at, &mut head).map_err(|e| io(&e))?;
    let [a, b, c, d, kind @ ..] = head;
    let (header, len) = match u32::from_be_bytes([a, b, c, d]) {
        0 => (8, end - at),
        1 => {
            let mut long = [0; 8];
            if end - at < 16 {
                return Ok(None);
            }
            file.read_at(at + 8, &mut long).map_err(|e| io(&e))?;
            (16, u64::from_be_bytes(long))
        }
        len => (8, len.into()),
    };
    Ok(len
        .checked_sub(header)
        .filter(|_| len <= end - at)
        .map(|content| (kind, at + header, content)))
}

fn read<S: Positioned + ?Sized>(file: &S, from: u64, len: u64) -> Result<Vec<u8>, Error> {
    let mut content = vec![0; usize::try_from(len).map_err(|_| corrupt("a box is too long"))?];
    file.read_at(from, &mut content).map_err(|e| io(&e))?;
    Ok(content)
}
