//! Files in which scripts write the time, and the same files without it.

use std::fs;

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use super::scratch::Scratch;
use crate::{Error, Result, UnixTime};

/// The same file with this time, or none; `None` if it is not what was expected.
type Rewrite = fn(&[u8], UnixTime) -> Option<Vec<u8>>;

/// Files that are written again, each with the package whose script makes it.
const TIMED: [(&str, &str, Rewrite); 2] = [
    ("ca-certificates-java", "etc/ssl/certs/java/cacerts", keystore),
    ("octave", "usr/share/octave/octave_packages", octave_packages),
];

/// Writes all files again that hold the time at which they were made. One that is not as expected
/// stays: if it differs, that is reported as for any file.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn fix(scratch: &Scratch, time: UnixTime) -> Result<()> {
    for (_, path, rewrite) in TIMED {
        if let Some(place) = scratch.file(path) {
            let bytes = fs::read(&place).map_err(Error::io("read", &place))?;
            if let Some(bytes) = rewrite(&bytes, time) {
                fs::write(&place, bytes).map_err(Error::io("write", &place))?;
            }
        }
    }
    Ok(())
}

/// Begins a key store of Java (`sun.security.provider.JavaKeyStore`), in its version 2.
const MAGIC: [u8; 8] = [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2];
/// The kind of an entry with a certificate that is trusted.
const TRUSTED: u32 = 2;
/// What the digest at the end begins with, after the password.
const WHITENER: &[u8] = b"Mighty Aphrodite";
/// The password that Debian's script uses.
const PASSWORD: &str = "changeit";

/// A key store whose certificates were added at this time, in the order of their names.
fn keystore(bytes: &[u8], time: UnixTime) -> Option<Vec<u8>> {
    let mut rest = bytes.strip_prefix(&MAGIC)?;
    let count = u32::from_be_bytes(*take(&mut rest)?);
    let millis = time.clamped_to_u64().checked_mul(1000)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let mut entry = take::<4>(&mut rest)?.to_vec();
        if entry != TRUSTED.to_be_bytes() {
            return None;
        }
        let name = short(&mut rest)?;
        entry.extend_from_slice(name);
        take::<8>(&mut rest)?;
        entry.extend_from_slice(&millis.to_be_bytes());
        entry.extend_from_slice(short(&mut rest)?);
        let len = u32::from_be_bytes(*take(&mut rest)?);
        entry.extend_from_slice(&len.to_be_bytes());
        let (certificate, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        entry.extend_from_slice(certificate);
        rest = after;
        entries.push(entry);
    }
    let found = take::<20>(&mut rest)?;
    let body = bytes.get(..bytes.len().checked_sub(found.len())?)?;
    if !rest.is_empty() || digest(body) != *found {
        return None;
    }
    // The names come first in them, after equal bytes.
    entries.sort_unstable();
    let mut store = MAGIC.to_vec();
    store.extend_from_slice(&count.to_be_bytes());
    entries.iter().for_each(|entry| store.extend_from_slice(entry));
    let end = digest(&store);
    store.extend_from_slice(&end);
    Some(store)
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(first)
}

/// A text with its length in two bytes.
fn short<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u16::from_be_bytes(*rest.first_chunk()?);
    let (text, after) = rest.split_at_checked(usize::from(len).checked_add(2)?)?;
    *rest = after;
    Some(text)
}

fn digest(body: &[u8]) -> [u8; 20] {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    PASSWORD.encode_utf16().for_each(|unit| context.update(&unit.to_be_bytes()));
    context.update(WHITENER);
    context.update(body);
    let mut digest = [0; 20];
    // SHA-1 has 20 bytes.
    digest.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    digest
}

/// Octave's list of packages, whose first line says when and by whom it was made.
fn octave_packages(bytes: &[u8], _: UnixTime) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (first, rest) = text.split_once('\n')?;
    let (version, _) = first.strip_prefix("# Created by Octave ")?.split_once(',')?;
    Some(format!("# Created by Octave {version}\n{rest}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(entries: &[(&str, u64)]) -> Vec<u8> {
        let mut store = MAGIC.to_vec();
        store.extend_from_slice(&u32::try_from(entries.len()).unwrap().to_be_bytes());
        for (name, millis) in entries {
            store.extend_from_slice(&TRUSTED.to_be_bytes());
            store.extend_from_slice(&u16::try_from(name.len()).unwrap().to_be_bytes());
            store.extend_from_slice(name.as_bytes());
            store.extend_from_slice(&millis.to_be_bytes());
            store.extend_from_slice(b"\0\x05X.509\0\0\0\x03DER");
        }
        let end = digest(&store);
        [store, end.to_vec()].concat()
    }

    #[test]
    fn a_key_store_has_the_time_of_the_image_and_one_order() {
        let made = keystore(&store(&[("b", 7), ("a", 8)]), UnixTime(2)).unwrap();
        assert_eq!(made, store(&[("a", 2000), ("b", 2000)]));
        assert_eq!(made, keystore(&made, UnixTime(2)).unwrap());
    }

    #[test]
    fn damaged_key_stores_stay_as_they_are() {
        let good = store(&[("a", 7)]);
        for end in 0..good.len() {
            assert_eq!(keystore(&good[..end], UnixTime(2)), None, "{end}");
            let mut bad = good.clone();
            bad[end] ^= 0xff;
            assert_eq!(keystore(&bad, UnixTime(2)), None, "{end}");
        }
    }

    #[test]
    fn octave_says_its_version_and_no_time() {
        let text =
            b"# Created by Octave 7.3.0, Mon Nov 30 20:34:17 2026 UTC <root@localhost>\n# x\n";
        let made = octave_packages(text, UnixTime(2)).unwrap();
        assert_eq!(made, b"# Created by Octave 7.3.0\n# x\n");
        assert_eq!(octave_packages(&made, UnixTime(2)), None);
    }
}
