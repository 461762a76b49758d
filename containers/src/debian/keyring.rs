//! Who may sign a list of packages.
//!
//! OpenPGP (RFC 9580) signatures in the cleartext framework, as Release files have
//! them. What `gpgv` would not take is not taken: unknown, expired or revoked keys,
//! keys not made for signing, weak digests, signatures past their own end.

use std::fmt::Write as _;

use pgp::composed::{CleartextSignedMessage, Deserializable, SignedPublicKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{PublicKey, PublicSubkey, Signature, SignatureType};
use pgp::types::{KeyDetails, Tag};

use super::release::shown;
use crate::{Error, Result};

/// Debian's own keys, `keys/README.md`.
const DEBIAN: [(&str, &str); 6] = [
    ("debian-bookworm-automatic.asc", include_str!("../../keys/debian-bookworm-automatic.asc")),
    (
        "debian-bookworm-security-automatic.asc",
        include_str!("../../keys/debian-bookworm-security-automatic.asc"),
    ),
    ("debian-bookworm-stable.asc", include_str!("../../keys/debian-bookworm-stable.asc")),
    ("debian-trixie-automatic.asc", include_str!("../../keys/debian-trixie-automatic.asc")),
    (
        "debian-trixie-security-automatic.asc",
        include_str!("../../keys/debian-trixie-security-automatic.asc"),
    ),
    ("debian-trixie-stable.asc", include_str!("../../keys/debian-trixie-stable.asc")),
];

/// Keys whose signatures count.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    signers: Vec<Signer>,
}

/// A key that may sign, of its own or below another.
#[derive(Debug, Clone)]
struct Signer {
    /// Whose it is, as the key says, and the fingerprint.
    name: String,
    /// Seconds since 1970.
    expires: Option<u64>,
    key: Key,
}

#[derive(Debug, Clone)]
enum Key {
    Primary(PublicKey),
    Sub(PublicSubkey),
}

impl Keyring {
    /// The keys of Debian 12 and 13.
    ///
    /// # Errors
    /// [`Error::Debian`] for a build with damaged keys.
    pub fn debian() -> Result<Self> {
        let mut keyring = Self::default();
        for (name, text) in DEBIAN {
            keyring.add(text.as_bytes(), name)?;
        }
        Ok(keyring)
    }

    /// Adds the keys of a file, armored or not; `path` names it in errors. Revoked
    /// keys and those not made for signing are passed over.
    ///
    /// # Errors
    /// [`Error::Debian`] when it has no usable key, or is damaged.
    pub fn add(&mut self, bytes: &[u8], path: &str) -> Result<()> {
        let wrong = |reason: String| Error::Debian { path: path.to_owned(), reason };
        if bytes.is_empty() {
            return Err(wrong("it is empty, expected OpenPGP keys".to_owned()));
        }
        let before = self.signers.len();
        let (keys, _) = SignedPublicKey::from_reader_many(bytes)
            .map_err(|e| wrong(format!("it holds no OpenPGP keys: {e}")))?;
        for key in keys {
            let key = key.map_err(|e| wrong(format!("damaged OpenPGP key: {e}")))?;
            self.add_key(&key);
        }
        if self.signers.len() == before {
            return Err(wrong("it has no key that may sign".to_owned()));
        }
        Ok(())
    }

    fn add_key(&mut self, key: &SignedPublicKey) {
        let primary = &key.primary_key;
        if !key.details.revocation_signatures.is_empty() {
            return;
        }
        let user = key.details.users.first().map(|user| user.id.as_str().unwrap_or_default());
        let user = user.unwrap_or("no name").to_owned();
        let by_users = key.details.users.iter().flat_map(|user| {
            let good =
                |one: &&Signature| one.verify_certification(primary, Tag::UserId, &user.id).is_ok();
            user.signatures.iter().filter(good)
        });
        let direct = key.details.direct_signatures.iter();
        let direct = direct.filter(|one| one.verify_key(primary).is_ok());
        // Without a word of its own on itself a key is nobody's.
        let Some(own) = newest(by_users).or_else(|| newest(direct)) else { return };
        let primary_expires = expires(primary.created_at().as_secs(), own);
        let named = |fingerprint: String| format!("{user}, {}", fingerprint.to_uppercase());
        if own.key_flags().sign() {
            self.signers.push(Signer {
                name: named(primary.fingerprint().to_string()),
                expires: primary_expires,
                key: Key::Primary(primary.clone()),
            });
        }
        for sub in &key.public_subkeys {
            let revoked = |one: &Signature| one.typ() == Some(SignatureType::SubkeyRevocation);
            if sub.signatures.iter().any(revoked) {
                continue;
            }
            // The subkey has to agree, or somebody could claim another's signatures.
            let bound = sub.signatures.iter().filter(|one| {
                one.verify_subkey_binding(primary, &sub.key).is_ok()
                    && one.key_flags().sign()
                    && one.embedded_signature().is_some_and(|back| {
                        back.verify_primary_key_binding(&sub.key, primary).is_ok()
                    })
            });
            let Some(binding) = newest(bound) else { continue };
            let own = expires(sub.key.created_at().as_secs(), binding);
            self.signers.push(Signer {
                name: named(sub.key.fingerprint().to_string()),
                expires: [own, primary_expires].into_iter().flatten().min(),
                key: Key::Sub(sub.key.clone()),
            });
        }
    }

    /// The text that is signed, if one of these keys signed it and none of their
    /// signatures is bad. What stands around the signed text is not in it.
    /// `now` is seconds since 1970, `url` names the document in errors.
    ///
    /// # Errors
    /// [`Error::Release`].
    pub fn verify(&self, document: &[u8], now: u64, url: &str) -> Result<String> {
        let refuse = |reason: String, hint: &str| {
            let hint = Some(hint.to_owned());
            Err(Error::Release { url: url.to_owned(), reason, hint })
        };
        let again = "fetch it again; is this the archive's own mirror, and whole?";
        let Ok(document) = std::str::from_utf8(document) else {
            return refuse("it is no text".to_owned(), again);
        };
        let message = match CleartextSignedMessage::from_string(document) {
            Ok((message, _)) => message,
            Err(e) => return refuse(format!("it is no whole signed text: {e}"), again),
        };
        let signed = message.signed_text();
        let mut unknown = Vec::new();
        let mut late = Vec::new();
        let mut good = false;
        for signature in message.signatures() {
            let Some(signer) = self.signers.iter().find(|signer| signer.made(signature)) else {
                unknown.extend(issuers(signature));
                continue;
            };
            let name = &signer.name;
            if let Err(reason) = signer.check(signature, signed.as_bytes()) {
                return refuse(format!("the signature of {name} is bad: {reason}"), again);
            }
            let end = signature.created().zip(signature.signature_expiration_time());
            let end =
                end.map(|(from, after)| u64::from(from.as_secs()) + u64::from(after.as_secs()));
            match signer.expires.into_iter().chain(end).min() {
                Some(end) if end <= now => late.push(format!("{name}, until {}", shown(end))),
                _ => good = true,
            }
        }
        if good {
            return Ok(signed);
        }
        if !late.is_empty() {
            let reason =
                format!("it is signed by keys that are no longer valid: {}", late.join("; "));
            return refuse(
                reason,
                "is this machine's clock right? newer keys come with `--keyring FILE`",
            );
        }
        let mut reason = "no trusted key signed it".to_owned();
        if !unknown.is_empty() {
            let _ = write!(reason, ", but {}", unknown.join(", "));
        }
        refuse(reason, "for another archive or a newer release name its keys with `--keyring FILE`")
    }
}

impl Signer {
    /// Whether a signature says that it is this key's.
    fn made(&self, signature: &Signature) -> bool {
        let (fingerprint, id) = match &self.key {
            Key::Primary(key) => (key.fingerprint(), key.legacy_key_id()),
            Key::Sub(key) => (key.fingerprint(), key.legacy_key_id()),
        };
        let given = signature.issuer_fingerprint();
        if given.is_empty() {
            signature.issuer_key_id().contains(&&id)
        } else {
            given.contains(&&fingerprint)
        }
    }

    fn check(&self, signature: &Signature, text: &[u8]) -> std::result::Result<(), String> {
        if !matches!(signature.typ(), Some(SignatureType::Text | SignatureType::Binary)) {
            return Err("it is not one of a text".to_owned());
        }
        let strong = [HashAlgorithm::Sha256, HashAlgorithm::Sha384, HashAlgorithm::Sha512];
        if !signature.hash_alg().is_some_and(|hash| strong.contains(&hash)) {
            return Err(format!("digest {:?} is too weak", signature.hash_alg()));
        }
        let verified = match &self.key {
            Key::Primary(key) => signature.verify(key, text),
            Key::Sub(key) => signature.verify(key, text),
        };
        verified.map_err(|_| "the text is not the one that was signed".to_owned())
    }
}

fn newest<'a>(signatures: impl Iterator<Item = &'a Signature>) -> Option<&'a Signature> {
    signatures.max_by_key(|one| one.created().map(pgp::types::Timestamp::as_secs))
}

fn expires(created: u32, own: &Signature) -> Option<u64> {
    let after = u64::from(own.key_expiration_time()?.as_secs());
    (after > 0).then(|| u64::from(created) + after)
}

/// Who a signature says that it is from.
fn issuers(signature: &Signature) -> Vec<String> {
    let fingerprints = signature.issuer_fingerprint();
    if fingerprints.is_empty() {
        signature.issuer_key_id().iter().map(|id| id.to_string().to_uppercase()).collect()
    } else {
        fingerprints.iter().map(|one| one.to_string().to_uppercase()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_s_keys_are_those_of_the_table_and_still_count() {
        let table = include_str!("../../keys/README.md");
        let keyring = Keyring::debian().unwrap();
        // Two automatic keys a release, each with a subkey, and the release's own.
        assert_eq!(keyring.signers.len(), 10);
        for signer in &keyring.signers {
            let until = signer.expires.map(shown).unwrap_or_default();
            assert!(until.contains("Jan 2031") || until.contains("Mar 203"), "{until}");
            if let Key::Primary(key) = &signer.key {
                let fingerprint = key.fingerprint().to_string().to_uppercase();
                assert!(table.contains(&fingerprint), "{fingerprint}");
            }
        }
    }

    #[test]
    fn files_without_keys_are_said() {
        for bytes in [
            &b""[..],
            b"no key",
            b"\x99\x01",
            b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n-----END PGP PUBLIC KEY BLOCK-----\n",
        ] {
            let error = Keyring::default().add(bytes, "x.gpg").unwrap_err();
            assert!(matches!(error, Error::Debian { .. }), "{error}");
        }
        // Cut keys are refused, or have nothing that signs.
        let whole = DEBIAN[2].1;
        for end in (0..whole.len() - 60).step_by(9) {
            assert!(Keyring::default().add(&whole.as_bytes()[..end], "x.asc").is_err(), "{end}");
        }
    }
}
