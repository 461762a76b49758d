//! Signature packets of version 4 (RFC 9580, section 5.2.3).
//!
//! ```text
//! 4, kind, algorithm, hash        one byte each
//! length, hashed subpackets       signed
//! length, other subpackets        signed by nobody: they only help to find the key
//! the first 2 bytes of the digest, numbers
//! ```

use super::Malformed;
use super::bytes::{Bytes, hex};
use super::packet::{MARKER, PADDING, SIGNATURE, packets, two_octets};
use crate::UnixTime;

/// Most signatures of a document; Debian's have two or three. Each costs a pass over the text.
const MAX_SIGNATURES: usize = 32;

/// Subpackets (section 5.2.3.7) that are understood, or do not affect whether a signature is valid.
/// Any other that is marked as critical makes the signature invalid.
const KNOWN: [u8; 17] = [2, 3, 4, 7, 9, 11, 12, 16, 21, 22, 23, 24, 25, 27, 30, 32, 33];

/// The purpose of a signature (section 5.2.1), as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignatureKind {
    /// Signs a document, as bytes or as text: in the cleartext framework both are the same.
    Document,
    /// Binds a user ID to a key.
    Certification,
    /// Binds a subkey to a key.
    SubkeyBinding,
    /// Made by a subkey, to say that it belongs to the key.
    PrimaryKeyBinding,
    /// Says something about a key itself.
    DirectKey,
    KeyRevocation,
    SubkeyRevocation,
    CertificationRevocation,
    Other,
}

/// A signature that is not checked yet.
#[derive(Debug, Clone)]
pub(crate) struct Signature<'a> {
    pub(crate) kind: SignatureKind,
    pub(super) algorithm: u8,
    pub(super) hash: u8,
    /// The bytes from the version to the end of the hashed subpackets.
    pub(super) hashed: &'a [u8],
    /// Whether every critical subpacket is understood.
    pub(super) understood: bool,
    /// Creation time, in seconds since 1970.
    pub(super) created: Option<u32>,
    /// Seconds from [`created`](Self::created) until the signature expires.
    expires_after: Option<u32>,
    /// Seconds from the key's creation until the key expires.
    pub(super) key_expires_after: Option<u32>,
    /// Whether the signature says that the key may sign.
    pub(super) may_sign: bool,
    pub(super) issuer_fingerprint: Option<[u8; 20]>,
    pub(super) issuer_key_id: Option<[u8; 8]>,
    embedded: Option<&'a [u8]>,
    /// The signature's numbers, in the algorithm's own form.
    pub(super) numbers: &'a [u8],
}

/// The signatures of version 4 among `packets`, in their order.
pub(crate) fn signatures(bytes: &[u8]) -> Result<Vec<Signature<'_>>, Malformed> {
    let mut found = Vec::new();
    for packet in packets(bytes) {
        let packet = packet?;
        match packet.kind {
            SIGNATURE => found.extend(Signature::parse(packet.body)?),
            MARKER | PADDING => {}
            other => return Err(Malformed::Misplaced(other)),
        }
        if found.len() > MAX_SIGNATURES {
            return Err(Malformed::TooMany(MAX_SIGNATURES));
        }
    }
    Ok(found)
}

impl<'a> Signature<'a> {
    /// Parses a signature; `None` for one whose version is not 4.
    pub(super) fn parse(body: &'a [u8]) -> Result<Option<Self>, Malformed> {
        match body.first() {
            Some(4) => read(body).map(Some).ok_or(Malformed::Signature),
            Some(_) => Ok(None),
            None => Err(Malformed::Signature),
        }
    }

    /// When the signature expires, if it does.
    pub(crate) fn expires(&self) -> Option<UnixTime> {
        end(self.created?, self.expires_after)
    }

    /// The signature within this one (section 5.2.3.34).
    pub(super) fn embedded(&self) -> Option<Self> {
        Self::parse(self.embedded?).ok()?
    }

    /// The key that the signature names as its maker, in hex.
    pub(crate) fn issuer(&self) -> Option<String> {
        let issuer = self.issuer_fingerprint.as_ref().map(<[u8; 20]>::as_slice);
        let issuer = issuer.or_else(|| self.issuer_key_id.as_ref().map(<[u8; 8]>::as_slice))?;
        Some(hex(issuer))
    }

    fn note(&mut self, kind: u8, value: &'a [u8], is_hashed: bool) -> Option<()> {
        let mut bytes = Bytes(value);
        match kind {
            2 if is_hashed => self.created = Some(bytes.u32()?),
            3 if is_hashed => self.expires_after = Some(bytes.u32()?),
            9 if is_hashed => self.key_expires_after = Some(bytes.u32()?),
            // Section 5.2.3.29: 0x02, the key may sign data.
            27 if is_hashed => self.may_sign = value.first().is_some_and(|flags| flags & 2 != 0),
            16 => self.issuer_key_id = Some(bytes.array()?),
            // The key's version, then its fingerprint.
            33 if bytes.u8()? == 4 => self.issuer_fingerprint = Some(bytes.array()?),
            // The embedded signature is checked itself, so it may be in either part.
            32 => self.embedded = Some(value),
            _ => {}
        }
        Some(())
    }
}

/// `after` seconds later; 0 is never (sections 5.2.3.13 and 5.2.3.18).
pub(super) fn end(from: u32, after: Option<u32>) -> Option<UnixTime> {
    after.filter(|after| *after > 0).map(|after| UnixTime(i64::from(from) + i64::from(after)))
}

fn read(body: &[u8]) -> Option<Signature<'_>> {
    let mut rest = Bytes(body);
    let [_, kind, algorithm, hash] = rest.array()?;
    let len = rest.len(2)?;
    let hashed = rest.take(len)?;
    let len = rest.len(2)?;
    let other = rest.take(len)?;
    rest.take(2)?;
    let mut signature = Signature {
        kind: kind_of(kind),
        algorithm,
        hash,
        hashed: body.get(..6 + hashed.len())?,
        understood: true,
        created: None,
        expires_after: None,
        key_expires_after: None,
        may_sign: false,
        issuer_fingerprint: None,
        issuer_key_id: None,
        embedded: None,
        numbers: rest.0,
    };
    for (area, is_hashed) in [(other, false), (hashed, true)] {
        let mut area = Bytes(area);
        while !area.is_empty() {
            let (kind, value) = subpacket(&mut area)?;
            let (kind, critical) = (kind & 0x7f, kind & 0x80 != 0);
            signature.understood &= !(critical && is_hashed) || KNOWN.contains(&kind);
            signature.note(kind, value, is_hashed)?;
        }
    }
    Some(signature)
}

/// Section 5.2.3.7: as lengths of packets are, but that 224 to 254 begin two bytes too.
fn subpacket<'a>(area: &mut Bytes<'a>) -> Option<(u8, &'a [u8])> {
    let len = match area.u8()? {
        short @ 0..=191 => usize::from(short),
        255 => area.len(4)?,
        first => two_octets(first, area)?,
    };
    let mut subpacket = Bytes(area.take(len)?);
    Some((subpacket.u8()?, subpacket.0))
}

fn kind_of(id: u8) -> SignatureKind {
    match id {
        0x00 | 0x01 => SignatureKind::Document,
        0x10..=0x13 => SignatureKind::Certification,
        0x18 => SignatureKind::SubkeyBinding,
        0x19 => SignatureKind::PrimaryKeyBinding,
        0x1f => SignatureKind::DirectKey,
        0x20 => SignatureKind::KeyRevocation,
        0x28 => SignatureKind::SubkeyRevocation,
        0x30 => SignatureKind::CertificationRevocation,
        _ => SignatureKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A signature packet's body with these hashed subpackets.
    fn body(hashed: &[u8]) -> Vec<u8> {
        let len = u16::try_from(hashed.len()).unwrap().to_be_bytes();
        [&[4, 1, 22, 8], len.as_slice(), hashed, &[0, 0], &[0xab, 0xcd], &[0, 1, 1]].concat()
    }

    #[test]
    fn subpackets_are_read_and_critical_ones_must_be_known() {
        for (hashed, understood) in [
            (&[][..], true),
            (&[5, 2, 0, 0, 0, 9, 5, 3, 0, 0, 0, 1], true),
            (&[2, 0x80 | 27, 2], true),
            (&[2, 99, 0], true),
            (&[2, 0x80 | 99, 0], false),
            // A notation is text in the signer's own words.
            (&[2, 0x80 | 20, 0], false),
            // Two bytes of length.
            (&[&[192, 0, 0x80 | 99][..], &[0; 191]].concat(), false),
        ] {
            let bytes = body(hashed);
            let read = Signature::parse(&bytes).unwrap().unwrap();
            assert_eq!(read.understood, understood, "{hashed:?}");
            assert_eq!(read.numbers, [0, 1, 1]);
            if read.created.is_some() {
                assert_eq!((read.created, read.expires()), (Some(9), Some(UnixTime(10))));
            }
        }
    }

    #[test]
    fn damaged_and_unknown_signatures() {
        for hashed in [&[0][..], &[5, 2, 0], &[3, 2, 0, 0], &[255, 0, 0], &[200], &[1, 33]] {
            assert_eq!(Signature::parse(&body(hashed)).unwrap_err(), Malformed::Signature);
        }
        let whole = body(&[2, 99, 0]);
        for len in 0..whole.len() - 3 {
            assert_eq!(Signature::parse(&whole[..len]).unwrap_err(), Malformed::Signature, "{len}");
        }
        for version in [3, 5, 6] {
            assert!(Signature::parse(&[version, 0]).unwrap().is_none());
        }
        let packet = [&[0x88, u8::try_from(whole.len()).unwrap()], whole.as_slice()].concat();
        assert_eq!(signatures(&packet.repeat(MAX_SIGNATURES)).unwrap().len(), MAX_SIGNATURES);
        let many = packet.repeat(MAX_SIGNATURES + 1);
        assert_eq!(signatures(&many).unwrap_err(), Malformed::TooMany(MAX_SIGNATURES));
        assert_eq!(signatures(&[0xb4, 0]).unwrap_err(), Malformed::Misplaced(13));
        assert!(signatures(&[0xca, 0, 0xd5, 0]).unwrap().is_empty());
    }
}
