//! Public keys of version 4 (RFC 9580, section 5.5.2.2), and how they verify a signature.

use ring::digest::{self, digest};
use ring::signature::{
    ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};

use super::bytes::Bytes;
use super::signature::Signature;

/// Object identifier of the curve of EdDSALegacy keys (section 9.2).
const ED25519_LEGACY_OID: [u8; 9] = [0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];

/// Algorithm IDs (section 9.1).
const RSA: u8 = 1;
const RSA_SIGN_ONLY: u8 = 3;
const EDDSA_LEGACY: u8 = 22;
const EDDSA_25519: u8 = 27;

/// A key that can be asked about signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublicKey {
    /// Creation time, in seconds since 1970.
    pub(super) created: u32,
    pub(super) fingerprint: [u8; 20],
    body: Vec<u8>,
    algorithm: u8,
    numbers: Numbers,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Numbers {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Ed25519([u8; 32]),
}

/// Why a signature is not accepted as a key's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("it is not a signature of a file, but of another type, such as a signature of a key")]
    Kind,
    #[error(
        "the signature uses digest algorithm {0}, which is too weak or unknown; expected SHA-256, SHA-384 or SHA-512"
    )]
    Hash(u8),
    #[error("it has a part that is marked as critical and that this build does not support")]
    Critical,
    #[error("it was made before its key")]
    Time,
    #[error("the text was changed after it was signed")]
    Wrong,
}

impl PublicKey {
    /// Parses a public key; `None` for another version or algorithm.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut rest = Bytes(body);
        rest.u8().filter(|version| *version == 4)?;
        let created = rest.u32()?;
        let algorithm = rest.u8()?;
        let numbers = match algorithm {
            RSA | RSA_SIGN_ONLY => {
                Numbers::Rsa { n: rest.mpi()?.to_vec(), e: rest.mpi()?.to_vec() }
            }
            EDDSA_LEGACY => {
                let len = rest.len(1)?;
                rest.take(len).filter(|oid| *oid == ED25519_LEGACY_OID)?;
                // Marked with 0x40: as the algorithm itself writes it (section 11.2).
                let point = rest.mpi()?.strip_prefix(&[0x40])?;
                Numbers::Ed25519(point.try_into().ok()?)
            }
            EDDSA_25519 => Numbers::Ed25519(rest.array()?),
            _ => return None,
        };
        if !rest.is_empty() {
            return None;
        }
        let mut key =
            Self { created, fingerprint: [0; 20], body: body.to_vec(), algorithm, numbers };
        // Section 5.5.4.2. The digest only names the key: nothing rests on SHA-1 being strong.
        let sha1 = digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &key.hashed()?);
        key.fingerprint = sha1.as_ref().try_into().ok()?;
        Some(key)
    }

    /// The key as signatures cover it (section 5.2.4).
    pub(super) fn hashed(&self) -> Option<Vec<u8>> {
        let len = u16::try_from(self.body.len()).ok()?;
        Some([&[0x99], len.to_be_bytes().as_slice(), &self.body].concat())
    }

    /// Whether a signature says that this key made it.
    pub(super) fn made(&self, signature: &Signature<'_>) -> bool {
        match (signature.issuer_fingerprint, signature.issuer_key_id) {
            (Some(fingerprint), _) => fingerprint == self.fingerprint,
            (None, Some(id)) => self.fingerprint.ends_with(&id),
            (None, None) => false,
        }
    }

    /// Checks that this key made a signature over `data`. Whether either has expired is not checked
    /// here.
    pub(super) fn verify(&self, signature: &Signature<'_>, data: &[u8]) -> Result<(), Refused> {
        let (algorithm, rsa): (_, &RsaParameters) = match signature.hash {
            8 => (&digest::SHA256, &RSA_PKCS1_2048_8192_SHA256),
            9 => (&digest::SHA384, &RSA_PKCS1_2048_8192_SHA384),
            10 => (&digest::SHA512, &RSA_PKCS1_2048_8192_SHA512),
            other => return Err(Refused::Hash(other)),
        };
        if !signature.understood {
            return Err(Refused::Critical);
        }
        if signature.created.is_none_or(|created| created < self.created) {
            return Err(Refused::Time);
        }
        if signature.algorithm != self.algorithm {
            return Err(Refused::Wrong);
        }
        // Section 5.2.4: the data, what the signature says of itself, and that one's length.
        let len = u32::try_from(signature.hashed.len()).map_err(|_| Refused::Wrong)?;
        let signed = [data, signature.hashed, &[4, 0xff], &len.to_be_bytes()].concat();
        let mut numbers = Bytes(signature.numbers);
        let good = match &self.numbers {
            Numbers::Rsa { n, e } => {
                let number = numbers.mpi().and_then(|number| padded(number, n.len()));
                let key = RsaPublicKeyComponents { n, e };
                number.is_some_and(|number| key.verify(rsa, &signed, &number).is_ok())
            }
            Numbers::Ed25519(key) => {
                // The signed value is the digest (sections 5.2.3.3 and 5.2.3.4).
                let digest = digest(algorithm, &signed);
                let key = UnparsedPublicKey::new(&ED25519, key);
                let number = match self.algorithm {
                    EDDSA_25519 => numbers.take(64).map(<[u8]>::to_vec),
                    _ => two_numbers(&mut numbers),
                };
                number.is_some_and(|number| key.verify(digest.as_ref(), &number).is_ok())
            }
        };
        if good && numbers.is_empty() { Ok(()) } else { Err(Refused::Wrong) }
    }
}

fn two_numbers(numbers: &mut Bytes<'_>) -> Option<Vec<u8>> {
    let (r, s) = (padded(numbers.mpi()?, 32)?, padded(numbers.mpi()?, 32)?);
    Some([r, s].concat())
}

/// Adds zeros before a number until it has `len` bytes.
fn padded(number: &[u8], len: usize) -> Option<Vec<u8>> {
    let zeros = len.checked_sub(number.len())?;
    Some([&vec![0; zeros], number].concat())
}

#[cfg(test)]
mod tests {
    use super::super::armor::Cleartext;
    use super::super::packet::{PUBLIC_SUBKEY, packets};
    use super::super::signature::signatures;
    use super::*;

    /// The first subkey, its signature's packets, and the text.
    fn signed() -> (Vec<u8>, Cleartext) {
        let file = include_bytes!("../../tests/data/openpgp/keys.gpg");
        let sub = packets(file).map(Result::unwrap).find(|one| one.kind == PUBLIC_SUBKEY);
        let document = include_str!("../../tests/data/openpgp/subkey.asc");
        (sub.unwrap().body.to_vec(), Cleartext::parse(document).unwrap())
    }

    #[test]
    fn a_signature_is_refused_for_what_is_wrong_with_it() {
        let (key, signed) = signed();
        let check = |change: &dyn Fn(&mut Vec<u8>, &mut Signature<'_>), expected| {
            let mut key = key.clone();
            let mut signature = signatures(&signed.signatures).unwrap().remove(0);
            change(&mut key, &mut signature);
            let key = PublicKey::parse(&key).unwrap();
            assert_eq!(key.verify(&signature, signed.text.as_bytes()), expected);
        };
        check(&|_, _| {}, Ok(()));
        check(&|_, signature| signature.hash = 2, Err(Refused::Hash(2)));
        check(&|_, signature| signature.hash = 10, Err(Refused::Wrong));
        check(&|_, signature| signature.understood = false, Err(Refused::Critical));
        check(&|_, signature| signature.created = None, Err(Refused::Time));
        check(&|key, _| key[1] = 0xff, Err(Refused::Time));
        check(&|_, signature| signature.algorithm = RSA, Err(Refused::Wrong));
        check(&|_, signature| signature.numbers = &[], Err(Refused::Wrong));
        // A signature with one number more than it should have.
        let long = [signatures(&signed.signatures).unwrap()[0].numbers, &[0, 1, 1]].concat();
        let key = PublicKey::parse(&key).unwrap();
        let mut signature = signatures(&signed.signatures).unwrap().remove(0);
        signature.numbers = &long;
        assert_eq!(key.verify(&signature, signed.text.as_bytes()), Err(Refused::Wrong));
    }

    #[test]
    fn keys_of_other_kinds_and_cut_ones_are_none() {
        let (key, _) = signed();
        let whole = PublicKey::parse(&key).unwrap();
        assert!(whole.fingerprint.starts_with(&[0xc2, 0xdb, 0xeb, 0x5c]));
        for len in 0..key.len() {
            assert_eq!(PublicKey::parse(&key[..len]), None, "{len}");
        }
        for (at, byte) in [(0, 3), (0, 6), (5, 17), (7, 0x2c)] {
            let mut other = key.clone();
            other[at] = byte;
            assert_eq!(PublicKey::parse(&other), None, "byte {at}");
        }
        assert_eq!(PublicKey::parse(&[key.as_slice(), &[0]].concat()), None);
    }
}
