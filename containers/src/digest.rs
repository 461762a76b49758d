//! SHA-256, as archives, indexes and registries write it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::Digest as _;

/// A SHA-256 digest. Its text, in JSON and TOML too, is 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256([u8; 32]);

/// A SHA-256 as OCI writes digests: `sha256:` before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OciDigest(pub Sha256);

/// What identifies an image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ImageDigest {
    /// The digest of a SIF: BLAKE3 of the whole file. Its text is `blake3:` and hex.
    Sif(blake3::Hash),
    /// The digest of an OCI image: that of its manifest.
    Oci(OciDigest),
}

/// A text that should be a digest and is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a SHA-256 digest: expected {expected}64 lower-case hexadecimal digits")]
pub struct NotADigest {
    text: String,
    expected: &'static str,
}

impl Sha256 {
    /// Computes the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::of_all(sha2::Sha256::new_with_prefix(bytes))
    }

    /// The digest's 32 bytes.
    pub(crate) fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// Returns the digest of all bytes that the hasher was given.
    pub(crate) fn of_all(hasher: sha2::Sha256) -> Self {
        Self(hasher.finalize().into())
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
        Sha256::of_all(self.0)
    }
}

impl ImageDigest {
    /// Hexadecimal digits alone, without the name of the function.
    pub fn hex(&self) -> String {
        match self {
            Self::Sif(hash) => hash.to_hex().to_string(),
            Self::Oci(OciDigest(sha256)) => sha256.to_string(),
        }
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
        let wrong = || NotADigest { text: text.to_owned(), expected: "" };
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return Err(wrong());
        }
        let digit = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let &[high, low] = digits else { return Err(wrong()) };
            let (Some(high), Some(low)) = (digit(high), digit(low)) else { return Err(wrong()) };
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
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

impl FromStr for ImageDigest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        match text.strip_prefix("blake3:").map(blake3::Hash::from_hex) {
            Some(Ok(hash)) => Ok(Self::Sif(hash)),
            _ => text.parse().map(Self::Oci).map_err(|_| NotADigest {
                text: text.to_owned(),
                expected: "`blake3:` or `sha256:` and ",
            }),
        }
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for OciDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sif(hash) => write!(f, "blake3:{hash}"),
            Self::Oci(digest) => digest.fmt(f),
        }
    }
}

/// The three digests below are shown as their text: in debug output, in JSON and in TOML.
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

by_text!(Sha256, OciDigest, ImageDigest);

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
        for text in [format!("sha256:{EMPTY}"), format!("blake3:{EMPTY}")] {
            let digest: ImageDigest = text.parse().unwrap();
            assert_eq!((digest.to_string(), digest.hex()), (text, EMPTY.to_owned()));
            let again = serde_json::from_str(&json(&|| serde_json::to_string(&digest))).unwrap();
            assert_eq!(digest, again);
        }
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
        assert!(format!("sha512:{EMPTY}").parse::<ImageDigest>().is_err());
    }
}
