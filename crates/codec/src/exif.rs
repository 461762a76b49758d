//! The one EXIF field that changes pixels: orientation, tag 0x0112 of IFD 0.
//!
//! ```text
//! "II" 42 | offset of IFD 0 | … | count | count × { tag, type, count, value } (12 bytes)
//! ```
//! Anything odd means no orientation: a damaged note does not condemn a picture.

use crate::Orientation;

const ORIENTATION_TAG: u16 = 0x0112;
const SHORT: u16 = 3;

/// The orientation in a TIFF block (what follows `Exif\0\0`), if it has a valid one.
pub(crate) fn orientation(tiff: &[u8]) -> Option<Orientation> {
    let order = match tiff.get(..4)? {
        b"II*\0" => Order::Little,
        b"MM\0*" => Order::Big,
        _ => return None,
    };
    let ifd = usize::try_from(order.u32(tiff, 4)?).ok()?;
    let entries = usize::from(order.u16(tiff, ifd)?);
    let at = |index: usize| ifd.checked_add(2 + index * 12);
    let entry = (0..entries)
        .map_while(at)
        .find(|entry| order.u16(tiff, *entry) == Some(ORIENTATION_TAG))?;
    if order.u16(tiff, entry.checked_add(2)?)? != SHORT {
        return None;
    }
    Orientation::from_exif(order.u16(tiff, entry.checked_add(8)?)?)
}

#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
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
        assert_eq!(orientation(LITTLE), Some(Orientation::Rotate90));
        assert_eq!(orientation(BIG), Some(Orientation::Rotate270));
    }

    #[test]
    fn damaged_blocks_say_nothing_and_never_panic() {
        for block in [LITTLE, BIG] {
            for end in 0..block.len() {
                orientation(&block[..end]);
            }
            for at in 0..block.len() {
                for value in 0..=255 {
                    let mut mutant = block.to_vec();
                    mutant[at] = value;
                    orientation(&mutant);
                }
            }
        }
        assert_eq!(orientation(b"II*\0\xff\xff\xff\xff"), None);
        assert_eq!(orientation(&LITTLE[..30]), None);
    }
}
