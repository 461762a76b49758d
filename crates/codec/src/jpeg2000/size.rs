//! The first segment of a code stream: the size of the picture, of its tiles and of its bands.
//!
//! Source: ITU-T T.800, A.5.1.

use crate::tiff::Number;
use crate::{Error, Format};

use super::read::corrupt;

/// Most bytes of the segment: the standard allows 16,384 bands.
pub(super) const MOST_BYTES: u64 = 2 + 2 + 38 + 3 * 16_384;
/// A tile's number has 16 bits.
const MOST_TILES: u64 = 65_535;

/// What a code stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) bands: u16,
    pub(super) number: Number,
    /// Bits of each number.
    pub(super) bits: u8,
    /// The number of tiles.
    pub(super) tiles: u32,
}

impl Size {
    /// Reads the beginning of a code stream.
    pub(super) fn parse(stream: &[u8]) -> Result<Self, Error> {
        let rest = stream.strip_prefix(b"\xff\x4f\xff\x51");
        let rest = rest.ok_or_else(|| corrupt("its code stream has no size"))?;
        let short = || corrupt("the size in its code stream is cut short");
        // The length of the segment, and what a decoder must be able to do.
        let rest = rest.get(4..).ok_or_else(short)?;
        let mut sides = [0_u32; 8];
        let mut words = rest.as_chunks::<4>().0.iter();
        for side in &mut sides {
            *side = u32::from_be_bytes(*words.next().ok_or_else(short)?);
        }
        let [right, bottom, left, top, tile_width, tile_height, tile_left, tile_top] = sides;
        let rest = rest.get(32..).ok_or_else(short)?;
        let (bands, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
        let bands = u16::from_be_bytes(*bands);
        let sizes = rest.get(..usize::from(bands) * 3).ok_or_else(short)?;
        let (sizes, _) = sizes.as_chunks::<3>();
        let (width, height) = (right.checked_sub(left), bottom.checked_sub(top));
        let positive = |side: Option<u32>| side.filter(|side| *side > 0);
        let (Some(width), Some(height)) = (positive(width), positive(height)) else {
            return Err(corrupt("it has no pixels"));
        };
        let [depth, ..] = *sizes.first().ok_or_else(|| corrupt("it has no bands"))?;
        let tiles = |side: u32, from: u32, tile: u32| {
            let side = side.checked_sub(from).filter(|_| tile > 0)?;
            Some(u64::from(side.div_ceil(tile)))
        };
        let tiles = tiles(right, tile_left, tile_width).zip(tiles(bottom, tile_top, tile_height));
        let tiles = tiles.map(|(across, down)| across.saturating_mul(down));
        let tiles = tiles.filter(|n| *n <= MOST_TILES).and_then(|n| u32::try_from(n).ok());
        let tiles = tiles.ok_or_else(|| corrupt("it has more tiles than can be numbered"))?;
        if sizes.iter().any(|[_, across, down]| (*across, *down) != (1, 1)) {
            return Err(Error::unsupported(Format::Jpeg2000, "its bands differ in size"));
        }
        if sizes.iter().any(|[other, ..]| *other != depth) {
            return Err(Error::unsupported(Format::Jpeg2000, "its bands differ in their numbers"));
        }
        let (bits, is_signed) = ((depth & 0x7f) + 1, depth & 0x80 != 0);
        let number = match (bits, is_signed) {
            (1..=8, false) => Number::U8,
            (1..=8, true) => Number::I8,
            (9..=16, false) => Number::U16,
            (9..=16, true) => Number::I16,
            _ => {
                let detail = format!("numbers of {bits} bits");
                return Err(Error::unsupported(Format::Jpeg2000, detail));
            }
        };
        Ok(Self { width, height, bands, number, bits, tiles })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(sides: [u32; 8], bands: &[[u8; 3]]) -> Vec<u8> {
        let mut bytes = b"\xff\x4f\xff\x51\0\0\0\0".to_vec();
        sides.iter().for_each(|side| bytes.extend(side.to_be_bytes()));
        bytes.extend(u16::try_from(bands.len()).unwrap().to_be_bytes());
        bands.iter().for_each(|band| bytes.extend(band));
        bytes
    }

    #[test]
    fn the_first_segment_says_size_and_numbers() {
        let found = Size::parse(&stream([13, 9, 3, 2, 64, 64, 0, 0], &[[0x8e, 1, 1]; 2]));
        let expected =
            Size { width: 10, height: 7, bands: 2, number: Number::I16, bits: 15, tiles: 1 };
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn what_is_not_read_is_refused() {
        let check = |sides: [u32; 8], bands: &[[u8; 3]], words: &str| {
            let error = Size::parse(&stream(sides, bands)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        let good = [8, 8, 0, 0, 8, 8, 0, 0];
        check([8, 8, 8, 0, 8, 8, 0, 0], &[[7, 1, 1]], "no pixels");
        check(good, &[], "no bands");
        check(good, &[[7, 1, 1], [7, 2, 2]], "differ in size");
        check(good, &[[7, 1, 1], [15, 1, 1]], "differ in their numbers");
        check(good, &[[37, 1, 1]], "38 bits");
        check([1 << 20, 8, 0, 0, 1, 8, 0, 0], &[[7, 1, 1]], "more tiles");
        check([8, 8, 0, 0, 0, 8, 0, 0], &[[7, 1, 1]], "more tiles");
        let whole = stream(good, &[[7, 1, 1]]);
        for len in 0..whole.len() {
            assert!(Size::parse(&whole[..len]).is_err());
        }
    }
}
