//! Small integers, stored as runs or bit-packed: levels and dictionary indices (Parquet:
//! "RLE/Bit-Packing Hybrid").

use crate::envelope::foreign::parquet::thrift::Thrift;

/// Decodes `n` integers of `width` bits; `None` if the bytes end too early.
pub(super) fn decode(bytes: &[u8], width: u8, n: usize) -> Option<Vec<u32>> {
    if width > 32 {
        return None;
    }
    let mut values = Vec::new();
    let mut input = Thrift::new(bytes);
    while values.len() < n {
        if width == 0 {
            values.resize(n, 0);
            break;
        }
        let header = input.varint()?;
        let left = n.saturating_sub(values.len());
        let count = usize::try_from(header >> 1).ok()?;
        if header & 1 == 0 {
            let value = input.bytes(usize::from(width.div_ceil(8)))?;
            let value = value.iter().rev().fold(0_u32, |all, b| all << 8 | u32::from(*b));
            values.extend(std::iter::repeat_n(value, count.min(left)));
        } else {
            // Groups have eight values; the last group may have more than are wanted.
            let wanted = count.checked_mul(8)?.min(left);
            let packed = count.checked_mul(usize::from(width))?.min(input.left());
            unpack(input.bytes(packed)?, width, wanted, &mut values)?;
        }
    }
    Some(values)
}

/// Unpacks `n` integers of `width` bits that are back to back, the lowest bit first.
fn unpack(bytes: &[u8], width: u8, n: usize, values: &mut Vec<u32>) -> Option<()> {
    let mask = (1_u64 << width).wrapping_sub(1);
    let (mut bits, mut held) = (0_u64, 0_u8);
    let mut bytes = bytes.iter();
    for _ in 0..n {
        while held < width {
            bits |= u64::from(*bytes.next()?) << held;
            held = held.saturating_add(8);
        }
        values.push(u32::try_from(bits & mask).ok()?);
        bits >>= width;
        held = held.saturating_sub(width);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_packed_integers() {
        // This is the example in the specification: 0 to 7 in three bits.
        let packed = [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(decode(&packed, 3, 8).unwrap(), (0..8).collect::<Vec<_>>());
        assert_eq!(decode(&packed, 3, 5).unwrap(), [0, 1, 2, 3, 4]);
        let run = [200, 1, 0x34, 0x12, 2, 7, 0];
        let mut expected = vec![0x1234; 100];
        expected.push(7);
        assert_eq!(decode(&run, 13, 101).unwrap(), expected);
        assert_eq!(decode(&[3, 1, 2, 3, 4, 5, 6, 7, 8], 8, 8).unwrap()[7], 8);
        assert_eq!(decode(&[], 0, 3).unwrap(), [0; 3]);
        let wide = [3, 1, 0, 0, 0x80, 2, 0, 0, 0];
        assert_eq!(decode(&wide, 32, 2).unwrap(), [0x8000_0001, 2]);
    }

    #[test]
    fn what_ends_too_early_is_refused() {
        for (bytes, width, n) in
            [(&[][..], 1, 1), (&[0, 0, 0], 1, 1), (&[3, 1], 8, 8), (&[2], 8, 1), (&[2, 1], 33, 1)]
        {
            assert_eq!(decode(bytes, width, n), None, "{bytes:?}");
        }
    }
}
