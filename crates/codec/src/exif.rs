//! The one EXIF field that changes pixels: orientation, tag 0x0112 of IFD 0.
//!
//! ```text
//! "II" 42 | offset of IFD 0 | … | count | count × { tag, type, count, value } (12 bytes)
//! ```
//! A damaged block counts as no orientation, since the picture itself may be undamaged.

use crate::Orientation;

/// A prefix before the TIFF block: always in JPEG, and from some writers in other formats.
const PREFIX: &[u8] = b"Exif\0\0";

const ORIENTATION_TAG: u16 = 0x0112;
const SHORT: u16 = 3;

/// An EXIF block that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Returns the orientation in an EXIF block, with or without `Exif\0\0` before it; `None` if the
/// block has none. A value that is not an orientation counts as the normal one.
pub(crate) fn orientation(block: &[u8]) -> Result<Option<Orientation>, Damaged> {
    let tiff = block.strip_prefix(PREFIX).unwrap_or(block);
    let entry = find(tiff).ok_or(Damaged)?;
    Ok(entry.map(|value| Orientation::from_exif(value).unwrap_or_default()))
}

/// Returns the tag's value; the outer `None` means damage.
fn find(tiff: &[u8]) -> Option<Option<u16>> {
    let order = match tiff.get(..4)? {
        b"II*\0" => ByteOrder::Little,
        b"MM\0*" => ByteOrder::Big,
        _ => return None,
    };
    let ifd = usize::try_from(order.u32(tiff, 4)?).ok()?;
    let entries = usize::from(order.u16(tiff, ifd)?);
    let begin = ifd.checked_add(2)?;
    tiff.get(begin..begin.checked_add(entries * 12)?)?;
    let mut at = (0..entries).map(|index| begin + index * 12);
    let Some(entry) = at.find(|entry| order.u16(tiff, *entry) == Some(ORIENTATION_TAG)) else {
        return Some(None);
    };
    if order.u16(tiff, entry + 2)? != SHORT {
        return Some(None);
    }
    order.u16(tiff, entry + 8).map(Some)
}

#[derive(Clone, Copy)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let field = bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(*field),
            Self::Big => u16::from_be_bytes(*field),
        })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let field = bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(*field),
            Self::Big => u32::from_be_bytes(*field),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: &[u8] = b"II*\0\x08\0\0\0\x02\0\x00\x01\x03\0\x01\0\0\0\x07\0\0\0\
        \x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    const BIG: &[u8] = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0";

    #[test]
    fn both_byte_orders_are_read() {
        assert_eq!(orientation(LITTLE), Ok(Some(Orientation::Rotate90)));
        assert_eq!(orientation(BIG), Ok(Some(Orientation::Rotate270)));
        assert_eq!(orientation(&[PREFIX, BIG].concat()), Ok(Some(Orientation::Rotate270)));
    }

    #[test]
    fn an_absurd_value_is_the_normal_one_and_no_damage() {
        for value in [0, 9, 255] {
            let mut block = BIG.to_vec();
            block[19] = value;
            assert_eq!(orientation(&block), Ok(Some(Orientation::Normal)));
        }
        assert_eq!(orientation(b"MM\0*\0\0\0\x08\0\0\0\0\0\0"), Ok(None));
    }

    #[test]
    fn damaged_blocks_are_told_and_never_panic() {
        for block in [LITTLE, BIG] {
            for end in 0..block.len() {
                let _ = orientation(&block[..end]);
            }
            for at in 0..block.len() {
                for value in 0..=255 {
                    let mut mutant = block.to_vec();
                    mutant[at] = value;
                    let _ = orientation(&mutant);
                }
            }
        }
        for damaged in [&b"II*\0\xff\xff\xff\xff"[..], &LITTLE[..30], b"", b"Exif\0\0", b"JUNK"] {
            assert_eq!(orientation(damaged), Err(Damaged));
        }
    }
}
