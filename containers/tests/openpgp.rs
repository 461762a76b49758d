//! Signatures that GnuPG made (`data/openpgp`): which are accepted, which are refused, and whether
//! GnuPG's `gpgv` accepts those that we accept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gular_containers::debian::Keyring;
use gular_containers::{Error, UnixTime};

/// The time of the tests: 2026-07-02 12:00.
const NOW: i64 = 1_782_993_600;
const TEXT: &str =
    "Origin: Test\r\nSuite: test\r\n- dashed\r\n\r\n-----BEGIN PGP SIGNATURE-----\r\nlast";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/openpgp").join(name)
}

fn read(name: &str) -> Vec<u8> {
    fs::read(data(name)).unwrap()
}

fn verify(keys: &[u8], document: &[u8], now: i64) -> Result<String, Error> {
    let mut keyring = Keyring::default();
    keyring.add(keys, "keys")?;
    keyring.verify(document, UnixTime(now), "document")
}

/// Checks the result; an `Err` is a part of the message.
fn check(keys: &str, document: &str, now: i64, expected: Result<(), &str>) {
    let found = verify(&read(keys), &read(document), now);
    match expected {
        Ok(()) => assert_eq!(found.unwrap(), TEXT, "{document} by {keys}"),
        Err(part) => {
            let error = found.unwrap_err().to_string();
            assert!(error.contains(part), "{document} by {keys}: {error}");
        }
    }
}

#[test]
fn keys_that_may_sign_are_believed_and_no_others() {
    check("keys.gpg", "subkey.asc", NOW, Ok(()));
    check("keys.gpg", "rsa.asc", NOW, Ok(()));
    check("keys.gpg", "short.asc", NOW, Ok(()));
    check("keys.gpg", "short.asc", NOW + 86_400, Err("no longer valid: Subkeys <subkeys@"));
    check("keys.gpg", "revoked.asc", NOW, Err("no trusted key signed it, but F844C326E40ED3CD"));
    check("before.gpg", "revoked.asc", NOW, Ok(()));
    check("revoked.gpg", "revoked.asc", NOW, Err("none of its keys is valid and may sign"));
    check("encrypts.gpg", "subkey.asc", NOW, Err("none of its keys is valid and may sign"));
    // The other subkey is still good.
    check("subkey-revoked.gpg", "subkey.asc", NOW, Err("no trusted key signed it"));
    check("subkey-revoked.gpg", "rsa.asc", NOW, Ok(()));
}

#[test]
fn no_flipped_bit_of_a_document_or_key_lets_another_text_pass() {
    let (keys, document) = (read("keys.gpg"), read("subkey.asc"));
    let mut refused = 0;
    for (at, bit) in (0..document.len()).flat_map(|at| [(at, 1), (at, 0x20)]) {
        let mut changed = document.clone();
        changed[at] ^= bit;
        match verify(&keys, &changed, NOW) {
            // Armor, and what the signature does not cover of itself, mean nothing.
            Ok(text) => assert_eq!(text, TEXT, "byte {at}"),
            Err(error) => {
                let refusal = matches!(error, Error::Release { .. } | Error::Untrusted { .. });
                assert!(refusal, "{error}");
                refused += 1;
            }
        }
        if at + 1 < document.len() {
            assert!(verify(&keys, &document[..at], NOW).is_err(), "cut at {at}");
        }
    }
    assert!(refused > document.len(), "{refused}");
    let mut refused = 0;
    for at in 0..keys.len() {
        let mut changed = keys.clone();
        changed[at] ^= 1;
        match verify(&changed, &document, NOW) {
            Ok(text) => assert_eq!(text, TEXT, "byte {at} of the keys"),
            Err(_) => refused += 1,
        }
        let _ = verify(&keys[..at], &document, NOW);
    }
    // The key, its user, the subkey and both bindings; not the other subkeys.
    assert!(refused > 500, "{refused}");
}

#[test]
fn gpgv_takes_what_is_taken_here() {
    let dir = tempfile::tempdir().unwrap();
    let gpgv = |keys: &Path, document: &[u8]| {
        let file = dir.path().join("document");
        fs::write(&file, document).unwrap();
        let output = Command::new("gpgv")
            .args(["--ignore-time-conflict", "--keyring"])
            .args([keys, &file])
            .env("GNUPGHOME", dir.path())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output();
        // The exit status is not used: GnuPG 2.2 also wants a checksum (RFC 9580, section 6.1).
        output.map(|output| String::from_utf8_lossy(&output.stderr).contains("Good signature from"))
    };
    for (keys, document) in [("keys.gpg", "subkey.asc"), ("keys.gpg", "rsa.asc")] {
        let whole = read(document);
        match gpgv(&data(keys), &whole) {
            Err(_) => return eprintln!("skipped: there is no `gpgv`"),
            Ok(good) => assert!(good, "{document}"),
        }
        let keyring = read(keys);
        let end = whole.windows(2).rposition(|two| two == b"\n=").unwrap();
        for at in (0..end).step_by(3) {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            // The checksum is removed, since it is that of the original bytes.
            changed.drain(end + 1..end + 7);
            if verify(&keyring, &changed, NOW).is_ok() {
                assert!(gpgv(&data(keys), &changed).unwrap(), "{document} byte {at}");
            }
        }
    }
}
