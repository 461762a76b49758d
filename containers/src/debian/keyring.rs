//! Which keys may sign a list of packages.
//!
//! Signatures in OpenPGP's cleartext framework, as Release files have them. Not accepted are
//! unknown, expired or revoked keys, keys not made for signing, weak digests, signatures past their
//! own end. `gpgv` alone would take some of these; `apt` would not.

use std::fmt::Write as _;

use super::release::shown;
use crate::openpgp::{Cleartext, Signer, signatures, signers};
use crate::{Error, Result, UnixTime};

/// The fingerprints of Debian's own keys, see `keys/README.md`.
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

/// The keys whose signatures are accepted.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    signers: Vec<Signer>,
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

    /// Adds the keys of a file, armored or not; `path` names it in errors. Passed over
    /// are revoked keys, those not made for signing, and those that are neither RSA nor
    /// Ed25519.
    ///
    /// # Errors
    /// [`Error::Debian`] when it has no usable key, or is damaged.
    pub fn add(&mut self, bytes: &[u8], path: &str) -> Result<()> {
        let wrong = |reason: String| Error::Debian { path: path.to_owned(), reason };
        if bytes.is_empty() {
            return Err(wrong("it is empty, expected OpenPGP keys".to_owned()));
        }
        let found = signers(bytes);
        let found = found.map_err(|e| wrong(format!("it does not contain OpenPGP keys: {e}")))?;
        if found.is_empty() {
            let expected = "expected RSA of at least 2048 bits, or Ed25519";
            return Err(wrong(format!("none of its keys is valid and may sign; {expected}")));
        }
        self.signers.extend(found);
        Ok(())
    }

    /// Returns the signed text, if one of these keys signed it and none of their signatures is bad.
    /// Text around the signed text is left out. `url` names the document in errors.
    ///
    /// # Errors
    /// [`Error::Release`] for a text that is not whole, or a bad signature;
    /// [`Error::Untrusted`] without one that counts.
    pub fn verify(&self, document: &[u8], now: UnixTime, url: &str) -> Result<String> {
        let refuse = |reason: String, hint: &str| {
            let hint = Some(hint.to_owned());
            Err(Error::Release { url: url.to_owned(), reason, hint })
        };
        let again = "fetch it again, and check that the URL is a complete mirror of the archive";
        let Ok(document) = std::str::from_utf8(document) else {
            return refuse("it is not text".to_owned(), again);
        };
        let partial = |e| refuse(format!("it is not a complete signed text: {e}"), again);
        let Cleartext { text, signatures: packets } = match Cleartext::parse(document) {
            Ok(cleartext) => cleartext,
            Err(e) => return partial(e),
        };
        let signatures = match signatures(&packets) {
            Ok(signatures) => signatures,
            Err(e) => return partial(e),
        };
        let mut unknown = Vec::new();
        let mut late = Vec::new();
        let mut good = false;
        for signature in &signatures {
            // A key that is there twice may have been prolonged in one of its copies.
            let copies = self.signers.iter().filter(|signer| signer.made(signature));
            let checked = copies.map(|signer| (signer, signer.check(signature, &text)));
            let (sound, bad): (Vec<_>, Vec<_>) = checked.partition(|(_, checked)| checked.is_ok());
            let last = |signer: &&Signer| signer.expires.unwrap_or(UnixTime(i64::MAX));
            let Some(signer) = sound.into_iter().map(|(signer, _)| signer).max_by_key(last) else {
                if let Some((Signer { name, .. }, Err(reason))) = bad.into_iter().next() {
                    return refuse(format!("the signature of {name} is bad: {reason}"), again);
                }
                unknown.extend(signature.issuer());
                continue;
            };
            let name = &signer.name;
            match signer.expires.into_iter().chain(signature.expires()).min() {
                Some(end) if end <= now => late.push(format!("{name}, until {}", shown(end))),
                _ => good = true,
            }
        }
        if good {
            return Ok(text);
        }
        if !late.is_empty() {
            let reason =
                format!("the keys that signed it are no longer valid: {}", late.join("; "));
            return Err(Error::Untrusted { url: url.to_owned(), reason, expired: true });
        }
        let mut reason = "no trusted key signed it".to_owned();
        if !unknown.is_empty() {
            let _ = write!(reason, ", but {}", unknown.join(", "));
        }
        Err(Error::Untrusted { url: url.to_owned(), reason, expired: false })
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
        }
        let named =
            |row: &&str| keyring.signers.iter().any(|signer| row.contains(&signer.fingerprint()));
        let rows = table.lines().filter(|line| line.starts_with("| `"));
        assert_eq!(rows.clone().filter(named).count(), rows.count(), "a primary key each");
    }

    #[test]
    fn a_key_that_is_there_twice_counts_as_long_as_one_copy_of_it_does() {
        let keys = include_bytes!("../../tests/data/openpgp/keys.gpg");
        let document = include_bytes!("../../tests/data/openpgp/subkey.asc");
        let mut keyring = Keyring::default();
        keyring.add(keys, "old").unwrap();
        keyring.signers.iter_mut().for_each(|signer| signer.expires = Some(UnixTime(1)));
        let now = UnixTime(1_782_993_600);
        let error = keyring.verify(document, now, "document").unwrap_err();
        assert!(error.to_string().contains("no longer valid"), "{error}");
        keyring.add(keys, "prolonged").unwrap();
        for _ in 0..2 {
            keyring.verify(document, now, "document").unwrap();
            keyring.signers.reverse();
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
