//! BLAKE3 digests. Format: `FORMAT.md`, "Digests".

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A BLAKE3 digest of 32 bytes, shown as `blake3:` and 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a BLAKE3 digest; expected 64 lower-case hexadecimal digits")]
pub struct DigestError {
    /// The refused text.
    pub text: String,
}

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Wraps 32 raw bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses 64 lower-case hex digits, with or without the prefix `blake3:`.
    ///
    /// # Errors
    /// [`DigestError`] for any other text.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let hex = text.strip_prefix("blake3:").unwrap_or(text);
        let error = || DigestError { text: text.chars().take(96).collect() };
        if hex.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(error());
        }
        blake3::Hash::from_hex(hex).map(|h| Self(*h.as_bytes())).map_err(|_| error())
    }

    /// 64 lower-case hex digits without a prefix.
    #[must_use]
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// The first 16 hex digits, which name files of a bundle.
    #[must_use]
    pub fn short_hex(&self) -> String {
        self.hex().chars().take(16).collect()
    }
}

/// The digest of bytes that come piece by piece.
#[derive(Debug, Default)]
pub struct StreamDigest(blake3::Hasher);

impl StreamDigest {
    /// Starts a digest of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all bytes added.
    #[must_use]
    pub fn finish(&self) -> Digest {
        self.0.finalize().into()
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blake3:{}", self.hex())
    }
}

/// The digest is written as a text: `blake3:` and hex digits.
impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Digest {
    /// Serialises a missing digest as an empty text, for reports that have always had one.
    ///
    /// # Errors
    /// Those of `serializer`.
    pub fn serialize_or_empty<S: Serializer>(
        digest: &Option<Self>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match digest {
            Some(digest) => digest.serialize(serializer),
            None => serializer.serialize_str(""),
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_nothing_is_the_published_one() {
        let expected = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Digest::of(b"").hex(), expected);
        assert_eq!(Digest::parse(&format!("blake3:{expected}")), Ok(Digest::of(b"")));
        assert_eq!(Digest::parse(expected), Ok(Digest::of(b"")));
    }

    #[test]
    fn pieces_give_the_digest_of_the_whole() {
        let mut stream = StreamDigest::new();
        assert_eq!(stream.finish(), Digest::of(b""));
        for piece in [&b"ab"[..], b"", b"c"] {
            stream.update(piece);
        }
        assert_eq!(stream.finish(), Digest::of(b"abc"));
    }

    #[test]
    fn json_has_the_text_that_is_shown() {
        #[derive(Serialize)]
        struct Printed {
            #[serde(serialize_with = "Digest::serialize_or_empty")]
            digest: Option<Digest>,
        }
        let digest = Digest::of(b"");
        let json = serde_json::to_string(&digest).unwrap();
        assert_eq!(json, format!("\"{digest}\""));
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>("\"blake3:00\"").is_err());
        let report = |digest| serde_json::to_string(&Printed { digest }).unwrap();
        assert_eq!(report(Some(digest)), format!("{{\"digest\":{json}}}"));
        assert_eq!(report(None), "{\"digest\":\"\"}");
    }

    #[test]
    fn other_texts_are_refused() {
        let upper = Digest::of(b"").hex().to_uppercase();
        for text in ["", "blake3:", "sha256:00", "blake3:zz", upper.as_str()] {
            assert!(Digest::parse(text).is_err(), "{text}");
        }
    }
}
