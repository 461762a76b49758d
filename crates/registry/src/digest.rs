//! SHA-256, as archives, indexes and registries write it.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::Digest as _;

/// A SHA-256 digest. Its text, in JSON and TOML too, is 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256([u8; 32]);

/// A SHA-256 as OCI writes digests: `sha256:` before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OciDigest(pub Sha256);

/// A text that should be a digest and is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a SHA-256 digest: expected {expected}64 lower-case hexadecimal digits")]
pub struct NotADigest {
    /// The text.
    pub text: String,
    /// What its first part should be.
    pub expected: &'static str,
}

impl Sha256 {
    /// Computes the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Computes the digest of a file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of_file(path: &Path) -> Result<Self, gular_files::Error> {
        let mut hasher = StreamSha256::default();
        let hashed = File::open(path).and_then(|mut file| io::copy(&mut file, &mut hasher));
        hashed.map_err(|e| gular_files::Error::new("read", path, e))?;
        Ok(hasher.finish())
    }

    /// The digest's 32 bytes.
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

/// The SHA-256 of bytes that come piece by piece.
#[derive(Default)]
pub struct StreamSha256(sha2::Sha256);

impl StreamSha256 {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all bytes added.
    pub fn finish(self) -> Sha256 {
        Sha256(self.0.finalize().into())
    }
}

impl io::Write for StreamSha256 {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<Sha256> for OciDigest {
    fn from(sha256: Sha256) -> Self {
        Self(sha256)
    }
}

impl FromStr for Sha256 {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        // Of equal length as a BLAKE3, whose reader takes capital digits, too.
        let hash = blake3::Hash::from_hex(text).ok();
        hash.filter(|hash| hash.to_hex().as_str() == text)
            .map(|hash| Self(*hash.as_bytes()))
            .ok_or_else(|| NotADigest { text: text.to_owned(), expected: "" })
    }
}

impl FromStr for OciDigest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let sha256 = text.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
        sha256
            .map(Self)
            .ok_or_else(|| NotADigest { text: text.to_owned(), expected: "`sha256:` and " })
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&blake3::Hash::from_bytes(self.0), f)
    }
}

impl fmt::Display for OciDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

/// Both digests are shown as their text: in debug output, in JSON and in TOML.
macro_rules! by_text {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

by_text!(Sha256, OciDigest);

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_read_as_it_is_written() {
        let sha256 = Sha256::of(b"");
        assert_eq!(sha256.to_string(), EMPTY);
        assert_eq!(EMPTY.parse(), Ok(sha256));
        let json = |value: &dyn Fn() -> serde_json::Result<String>| value().unwrap();
        assert_eq!(json(&|| serde_json::to_string(&sha256)), format!("\"{EMPTY}\""));
        let text = format!("sha256:{EMPTY}");
        let digest: OciDigest = text.parse().unwrap();
        assert_eq!((digest, digest.to_string()), (sha256.into(), text));
        let again = serde_json::from_str(&json(&|| serde_json::to_string(&digest))).unwrap();
        assert_eq!(digest, again);
    }

    #[test]
    fn what_is_not_a_digest_is_refused() {
        let upper = EMPTY.to_ascii_uppercase();
        for text in ["", &EMPTY[1..], &upper, &format!("{EMPTY}0"), &EMPTY.replace('e', "g"), "é"]
        {
            let error = text.parse::<Sha256>().unwrap_err().to_string();
            assert!(error.contains("expected 64 lower-case"), "{error}");
            assert!(format!("sha256:{text}").parse::<OciDigest>().is_err(), "{text}");
        }
        let error = EMPTY.parse::<OciDigest>().unwrap_err().to_string();
        assert!(error.contains("expected `sha256:` and 64"), "{error}");
        assert!(format!("sha512:{EMPTY}").parse::<OciDigest>().is_err());
    }
}
