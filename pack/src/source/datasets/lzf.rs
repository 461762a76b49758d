//! LZF, the filter that `h5py` brings to HDF5 (number 32000).
//!
//! ```text
//! 000LLLLL                    L + 1 bytes follow, as they are
//! LLLOOOOO [LLLLLLLL] OOOOOOOO   L + 2 bytes are repeated (L = 7: plus the next byte), from O + 1 back
//! ```
//!
//! Source: `lzf_d.c` of LibLZF 3.6; the filter in `lzf/lzf_filter.c` of h5py.

/// Returns what was compressed; `None` if it is damaged or has more than `most` bytes.
pub(super) fn decode(packed: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let mut rest = packed;
    while let Some((first, after)) = rest.split_first() {
        let high = usize::from(first >> 5);
        if high == 0 {
            let (literal, after) = after.split_at_checked(usize::from(first & 31) + 1)?;
            plain.extend_from_slice(literal);
            rest = after;
        } else {
            let (more, after) = match high {
                7 => after.split_first().map(|(more, after)| (usize::from(*more), after))?,
                _ => (0, after),
            };
            let (low, after) = after.split_first()?;
            let back = (usize::from(first & 31) << 8) + usize::from(*low) + 1;
            let start = plain.len().checked_sub(back)?;
            // The repeated bytes may reach into what is being written.
            for at in start..start + high + more + 2 {
                let byte = *plain.get(at)?;
                plain.push(byte);
            }
            rest = after;
        }
        if plain.len() > most {
            return None;
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_repeats_are_unpacked() {
        assert_eq!(decode(b"\x02abc", 9).unwrap(), b"abc");
        // One byte, then 2 + 1 from 1 back.
        assert_eq!(decode(b"\x00a\x20\x00", 9).unwrap(), b"aaaa");
        // 7 + 3 + 2 from 2 back.
        assert_eq!(decode(b"\x01ab\xe0\x03\x01", 99).unwrap(), b"ababababababab");
    }

    #[test]
    fn what_is_damaged_or_too_long_is_refused() {
        for packed in [&b"\x02ab"[..], b"\x20", b"\x20\x00", b"\x00a\x20\x01", b"\xe0", b"\xe0\x01"]
        {
            assert_eq!(decode(packed, 99), None, "{packed:?}");
        }
        assert_eq!(decode(b"\x02abc", 2), None);
        assert_eq!(decode(b"\x00a\xe0\xff\x00", 99), None);
    }
}
