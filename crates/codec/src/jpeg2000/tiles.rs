//! The tiles of a code stream, which decoders may leave out without a word.
//!
//! ```text
//! SOC SIZ … │ SOT tile, length … SOD packets │ SOT … SOD … │ EOC
//! ```
//!
//! Source: ITU-T T.800, A.4.

use super::read::corrupt;
use crate::Error;

/// Start of a tile part, start of its data, and the end of the stream.
const SOT: [u8; 2] = [0xff, 0x90];
const SOD: [u8; 2] = [0xff, 0x93];
const EOC: [u8; 2] = [0xff, 0xd9];
/// Bytes of the segment of a tile part, with its marker.
const SOT_BYTES: usize = 12;

/// Checks that each of `n` tiles has packets, and that the stream has an end.
///
/// # Errors
/// [`Error::Corrupt`].
pub(super) fn check(stream: &[u8], n: u32) -> Result<(), Error> {
    let mut has_packets = vec![false; n as usize];
    let mut at = first(stream).ok_or_else(|| corrupt("its code stream has no tiles"))?;
    loop {
        let rest = stream.get(at..).unwrap_or_default();
        if rest.starts_with(&EOC) {
            break;
        }
        let cut = || corrupt("its code stream is cut short");
        let Some((head, _)) = rest.split_first_chunk::<SOT_BYTES>() else { return Err(cut()) };
        let [a, b, _, _, tile, of_tile, len @ .., _, _] = *head;
        if [a, b] != SOT {
            return Err(corrupt("a part of a tile does not end where it says"));
        }
        let tile = usize::from(u16::from_be_bytes([tile, of_tile]));
        let len = match usize::try_from(u32::from_be_bytes(len)).unwrap_or(usize::MAX) {
            // The last one may leave its length open.
            0 => rest.len().checked_sub(EOC.len()).ok_or_else(cut)?,
            len => len,
        };
        let part = rest.get(..len).ok_or_else(cut)?;
        let data = data(part).ok_or_else(|| corrupt("a part of a tile has no data"))?;
        let known = has_packets.get_mut(tile);
        let known = known.ok_or_else(|| corrupt(format!("it has no tile {tile}")))?;
        *known |= data > 0;
        at = at.saturating_add(len);
    }
    match has_packets.iter().position(|has| !has) {
        None => Ok(()),
        Some(tile) => Err(corrupt(format!("tile {tile} of {n} is missing"))),
    }
}

/// Where the first part of a tile begins.
fn first(stream: &[u8]) -> Option<usize> {
    let mut at = 2;
    loop {
        let rest = stream.get(at..)?;
        if rest.starts_with(&SOT) {
            return Some(at);
        }
        at = segment_end(rest, at)?;
    }
}

/// Bytes behind the header of a part of a tile.
fn data(part: &[u8]) -> Option<usize> {
    let mut at = SOT_BYTES;
    loop {
        let rest = part.get(at..)?;
        if rest.starts_with(&SOD) {
            return Some(rest.len() - SOD.len());
        }
        at = segment_end(rest, at)?;
    }
}

/// Where the segment ends that `rest` begins with, at `at`.
fn segment_end(rest: &[u8], at: usize) -> Option<usize> {
    let [0xff, _, high, low, ..] = *rest else { return None };
    let len = usize::from(u16::from_be_bytes([high, low]));
    (len >= 2).then(|| at.saturating_add(2 + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(tile: u8, packets: usize, len: Option<u32>) -> Vec<u8> {
        let len = len.unwrap_or(14 + packets as u32).to_be_bytes();
        let head = [&[0xff, 0x90, 0, 10, 0, tile], len.as_slice(), &[0, 1, 0xff, 0x93]].concat();
        [head, vec![1; packets]].concat()
    }

    fn found(parts: &[Vec<u8>], end: &[u8], n: u32) -> Result<(), String> {
        let head = [0xff, 0x4f, 0xff, 0x51, 0, 4, 1, 2];
        let stream = [&head, parts.concat().as_slice(), end].concat();
        check(&stream, n).map_err(|e| e.to_string())
    }

    #[test]
    fn every_tile_must_be_there() {
        let (one, two) = (|| part(0, 3, None), || part(1, 2, None));
        assert_eq!(found(&[one(), two()], &EOC, 2), Ok(()));
        assert_eq!(found(&[one(), part(1, 2, Some(0))], &EOC, 2), Ok(()));
        // The second part of a tile has what the first one lacks.
        assert_eq!(found(&[part(0, 0, None), one()], &EOC, 1), Ok(()));
        let check = |parts: &[Vec<u8>], end: &[u8], n, words: &str| {
            let error = found(parts, end, n).unwrap_err();
            assert!(error.contains(words), "{error}");
        };
        check(&[one()], &EOC, 2, "tile 1 of 2 is missing");
        check(&[one(), part(1, 0, None)], &EOC, 2, "tile 1 of 2 is missing");
        check(&[one(), two()], &EOC, 1, "it has no tile 1");
        check(&[one()], &[], 1, "cut short");
        check(&[part(0, 3, Some(99))], &EOC, 1, "cut short");
        check(&[part(0, 3, Some(15)), two()], &EOC, 2, "does not end where it says");
        check(&[], &EOC, 1, "no tiles");
    }
}
