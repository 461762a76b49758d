//! Packets: `type, length, body`, one after another (RFC 9580, section 4.2).

use super::Malformed;
use super::bytes::Bytes;

/// Type IDs (section 5).
pub(super) const SIGNATURE: u8 = 2;
pub(super) const PUBLIC_KEY: u8 = 6;
pub(super) const MARKER: u8 = 10;
pub(super) const TRUST: u8 = 12;
pub(super) const USER_ID: u8 = 13;
pub(super) const PUBLIC_SUBKEY: u8 = 14;
pub(super) const USER_ATTRIBUTE: u8 = 17;
pub(super) const PADDING: u8 = 21;

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    /// The packet's type ID.
    pub(super) kind: u8,
    pub(super) body: &'a [u8],
}

/// The packets of `bytes`; ends after the first that is damaged.
pub(super) fn packets(bytes: &[u8]) -> impl Iterator<Item = Result<Packet<'_>, Malformed>> {
    let mut rest = Bytes(bytes);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = bytes.len() - rest.0.len();
        let packet = packet(&mut rest);
        if packet.is_none() {
            rest = Bytes(&[]);
        }
        Some(packet.ok_or(Malformed::Packet(at)))
    })
}

fn packet<'a>(rest: &mut Bytes<'a>) -> Option<Packet<'a>> {
    let first = rest.u8().filter(|first| first & 0x80 != 0)?;
    let (kind, len) = if first & 0x40 != 0 {
        (first & 0x3f, new_len(rest)?)
    } else {
        let len = match first & 3 {
            0 => rest.len(1)?,
            1 => rest.len(2)?,
            2 => rest.len(4)?,
            // Up to the end of the file: only data is written so, never keys or signatures.
            _ => return None,
        };
        ((first >> 2) & 0x0f, len)
    };
    Some(Packet { kind, body: rest.take(len)? })
}

/// Section 4.2.1. Partial lengths (224 to 254) are for data only.
fn new_len(rest: &mut Bytes<'_>) -> Option<usize> {
    match rest.u8()? {
        short @ 0..=191 => Some(usize::from(short)),
        first @ 192..=223 => two_octets(first, rest),
        224..=254 => None,
        255 => rest.len(4),
    }
}

pub(super) fn two_octets(first: u8, rest: &mut Bytes<'_>) -> Option<usize> {
    let high = usize::from(first.checked_sub(192)?);
    Some((high << 8) + usize::from(rest.u8()?) + 192)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<Result<(u8, usize), Malformed>> {
        packets(bytes).map(|packet| packet.map(|packet| (packet.kind, packet.body.len()))).collect()
    }

    #[test]
    fn lengths_are_read_in_both_formats() {
        let long = |head: &[u8], len: usize| [head, &vec![0; len]].concat();
        for (bytes, kind, len) in [
            (long(&[0x88, 3], 3), SIGNATURE, 3),
            (long(&[0x99, 1, 2], 258), PUBLIC_KEY, 258),
            (long(&[0xb6, 0, 0, 0, 1], 1), USER_ID, 1),
            (long(&[0xc2, 191], 191), SIGNATURE, 191),
            (long(&[0xc6, 192, 0], 192), PUBLIC_KEY, 192),
            (long(&[0xc6, 223, 255], 8383), PUBLIC_KEY, 8383),
            (long(&[0xd1, 255, 0, 0, 0, 2], 2), USER_ATTRIBUTE, 2),
        ] {
            assert_eq!(read(&bytes), [Ok((kind, len))]);
            let twice = [bytes.clone(), bytes.clone()].concat();
            assert_eq!(read(&twice), [Ok((kind, len)), Ok((kind, len))]);
            let cut = bytes.get(..bytes.len() - 1).unwrap();
            assert_eq!(read(cut), [Err(Malformed::Packet(0))]);
        }
    }

    #[test]
    fn packets_without_a_length_or_mark_are_damaged() {
        for bytes in [&[0x8b, 1][..], &[0xc2, 224, 1], &[0x08, 1, 0], &[0xc2], &[0xc2, 255, 255]] {
            assert_eq!(read(bytes), [Err(Malformed::Packet(0))]);
            let second = [&[0x88, 0][..], bytes].concat();
            assert_eq!(read(&second), [Ok((SIGNATURE, 0)), Err(Malformed::Packet(2))]);
        }
    }
}
