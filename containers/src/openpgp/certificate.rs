//! Which keys of a file may sign documents, and until when (RFC 9580, section 10.1).
//!
//! ```text
//! key            its signatures on itself, or revocations
//!   user ID      the key's signatures that bind it, and other people's
//!   subkey       the key's signature that binds it; in that, the subkey's own
//! ```

use super::Malformed;
use super::armor;
use super::bytes::hex;
use super::key::{PublicKey, Refused};
use super::packet::{self, packets};
use super::signature::{Signature, SignatureKind, end};
use crate::UnixTime;

/// A key that may sign.
#[derive(Debug, Clone)]
pub(crate) struct Signer {
    /// The owner's name, as the key gives it, and the fingerprint.
    pub(crate) name: String,
    /// When the key expires.
    pub(crate) expires: Option<UnixTime>,
    key: PublicKey,
}

impl Signer {
    /// Whether a signature says that this key made it.
    pub(crate) fn made(&self, signature: &Signature<'_>) -> bool {
        self.key.made(signature)
    }

    /// Checks that this key made a signature over `text`, with CR LF between its lines. Whether
    /// either has expired is not checked here.
    pub(crate) fn check(&self, signature: &Signature<'_>, text: &str) -> Result<(), Refused> {
        if signature.kind != SignatureKind::Document {
            return Err(Refused::Kind);
        }
        self.key.verify(signature, text.as_bytes())
    }

    #[cfg(test)]
    pub(crate) fn fingerprint(&self) -> String {
        hex(&self.key.fingerprint)
    }
}

/// The keys of a file, in armor or not, that may sign. Passed over are keys that are
/// revoked, not bound to a user, not made for signing, or of an algorithm that is not
/// known here.
pub(crate) fn signers(file: &[u8]) -> Result<Vec<Signer>, Malformed> {
    let bytes = armor::keys(file)?;
    let mut signers = Vec::new();
    let mut parts: Vec<(Part<'_>, Vec<Signature<'_>>)> = Vec::new();
    for packet in packets(&bytes) {
        let packet = packet?;
        let part = match packet.kind {
            packet::PUBLIC_KEY => {
                add(&parts, &mut signers);
                parts.clear();
                Part::Primary(PublicKey::parse(packet.body))
            }
            packet::USER_ID => Part::User(packet.body),
            packet::PUBLIC_SUBKEY => Part::Subkey(PublicKey::parse(packet.body)),
            packet::USER_ATTRIBUTE => Part::Other,
            packet::MARKER | packet::TRUST | packet::PADDING => continue,
            packet::SIGNATURE => {
                let (_, signatures) =
                    parts.last_mut().ok_or(Malformed::Misplaced(packet::SIGNATURE))?;
                signatures.extend(Signature::parse(packet.body)?);
                continue;
            }
            other => return Err(Malformed::Misplaced(other)),
        };
        if parts.is_empty() && !matches!(part, Part::Primary(_)) {
            return Err(Malformed::Misplaced(packet.kind));
        }
        parts.push((part, Vec::new()));
    }
    add(&parts, &mut signers);
    Ok(signers)
}

/// The subject of a signature; keys of an unknown kind are `None`.
enum Part<'a> {
    Primary(Option<PublicKey>),
    User(&'a [u8]),
    Subkey(Option<PublicKey>),
    Other,
}

/// Adds what may sign of one key and its subkeys.
fn add(parts: &[(Part<'_>, Vec<Signature<'_>>)], signers: &mut Vec<Signer>) {
    let Some(((Part::Primary(Some(primary)), direct), parts)) = parts.split_first() else { return };
    let Some(itself) = primary.hashed() else { return };
    // A key that is revoked, in a file that is trusted, is not used, whoever revoked it.
    if direct.iter().any(|one| one.kind == SignatureKind::KeyRevocation) {
        return;
    }
    let users = parts.iter().filter_map(|(part, signatures)| match part {
        Part::User(id) => Some((*id, signatures)),
        _ => None,
    });
    let by_users =
        users.clone().filter_map(|(id, signatures)| bound(primary, &itself, id, signatures));
    let direct = direct
        .iter()
        .filter(|one| one.kind == SignatureKind::DirectKey && primary.verify(one, &itself).is_ok());
    // A key that binds no user and says nothing about itself is nobody's.
    let Some(own) = newest(by_users).or_else(|| newest(direct)) else { return };
    let until = earliest([end(primary.created, own.key_expires_after), own.expires()]);
    let user = users.clone().next().map_or_else(|| "no name".to_owned(), |(id, _)| shown(id));
    let mut push = |key: &PublicKey, expires| {
        let name = format!("{user}, {}", hex(&key.fingerprint));
        signers.push(Signer { name, expires, key: key.clone() });
    };
    if own.may_sign {
        push(primary, until);
    }
    for (part, signatures) in parts {
        let Part::Subkey(Some(sub)) = part else { continue };
        if signatures.iter().any(|one| one.kind == SignatureKind::SubkeyRevocation) {
            continue;
        }
        let Some(both) = sub.hashed().map(|sub| [itself.clone(), sub].concat()) else { continue };
        let binds = |one: &&Signature<'_>| {
            one.kind == SignatureKind::SubkeyBinding && primary.verify(one, &both).is_ok()
        };
        let Some(binding) = newest(signatures.iter().filter(binds)) else { continue };
        // The subkey has to agree (section 5.2.1.9), or somebody could claim another's
        // signatures as their own.
        let agrees = binding.embedded().is_some_and(|back| {
            back.kind == SignatureKind::PrimaryKeyBinding && sub.verify(&back, &both).is_ok()
        });
        if binding.may_sign && agrees {
            let own = [end(sub.created, binding.key_expires_after), binding.expires(), until];
            push(sub, earliest(own));
        }
    }
}

/// The key's newest word on a user ID, unless that is a revocation.
fn bound<'a>(
    primary: &PublicKey,
    itself: &[u8],
    id: &[u8],
    signatures: &'a [Signature<'a>],
) -> Option<&'a Signature<'a>> {
    let len = u32::try_from(id.len()).ok()?;
    let data = [itself, &[0xb4], &len.to_be_bytes(), id].concat();
    let own = signatures.iter().filter(|one| {
        let about = matches!(
            one.kind,
            SignatureKind::Certification | SignatureKind::CertificationRevocation
        );
        about && primary.made(one) && primary.verify(one, &data).is_ok()
    });
    let last =
        own.max_by_key(|one| (one.created, one.kind == SignatureKind::CertificationRevocation))?;
    (last.kind == SignatureKind::Certification).then_some(last)
}

fn newest<'a>(signatures: impl Iterator<Item = &'a Signature<'a>>) -> Option<&'a Signature<'a>> {
    signatures.max_by_key(|one| one.created)
}

fn earliest<const N: usize>(ends: [Option<UnixTime>; N]) -> Option<UnixTime> {
    ends.into_iter().flatten().min()
}

fn shown(id: &[u8]) -> String {
    String::from_utf8_lossy(id).chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[u8] = include_bytes!("../../tests/data/openpgp/keys.gpg");

    /// Returns the file with each packet changed.
    fn changed(change: impl Fn(u8, &[u8]) -> Vec<u8>) -> Vec<u8> {
        let packets = packets(KEYS).map(Result::unwrap).flat_map(|packet| {
            let body = change(packet.kind, packet.body);
            let len = u32::try_from(body.len()).unwrap().to_be_bytes();
            [&[0xc0 | packet.kind, 255], len.as_slice(), &body].concat()
        });
        packets.collect()
    }

    #[test]
    fn subkeys_sign_when_they_agree_and_the_primary_key_when_it_may() {
        let found = signers(KEYS).unwrap();
        let fingerprints: Vec<_> = found.iter().map(Signer::fingerprint).collect();
        assert_eq!(
            fingerprints,
            [
                "C2DBEB5C8F572F1EC5E26E12AF23CA8BF007DD01",
                "6C49C1EBB1F9D81219A07FC4A960CDFDA8787694"
            ]
        );
        assert!(found.iter().all(|signer| signer.expires.is_none()));
        assert_eq!(signers(&changed(|_, body| body.to_vec())).unwrap().len(), 2);
        // Removes the subkeys' own signatures, which are in the part that is not signed.
        let alone = changed(|kind, body| {
            if kind != packet::SIGNATURE || body[1] != 0x18 {
                return body.to_vec();
            }
            let hashed = 6 + usize::from(u16::from_be_bytes([body[4], body[5]]));
            let other = usize::from(u16::from_be_bytes([body[hashed], body[hashed + 1]]));
            [&body[..hashed], &[0, 0], &body[hashed + 2 + other..]].concat()
        });
        assert!(signers(&alone).unwrap().is_empty());
    }

    #[test]
    fn a_key_whose_user_is_another_is_nobodys() {
        let renamed = changed(|kind, body| {
            if kind == packet::USER_ID { b"Debian <x@debian.org>".to_vec() } else { body.to_vec() }
        });
        assert!(signers(&renamed).unwrap().is_empty());
    }

    #[test]
    fn packets_that_have_no_place_in_a_key_are_said() {
        for (file, kind) in
            [(&[0x88, 0][..], packet::SIGNATURE), (&[0xb4, 0], packet::USER_ID), (&[0x94, 0], 5)]
        {
            assert_eq!(signers(file).unwrap_err(), Malformed::Misplaced(kind));
        }
        assert_eq!(signers(&[0x99, 0, 0, 0x88, 1, 4]).unwrap_err(), Malformed::Signature);
        assert_eq!(signers(&[0x99, 1]).unwrap_err(), Malformed::Packet(0));
    }
}
