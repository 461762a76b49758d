//! What identifies an image.

use std::fmt;
use std::str::FromStr;

use gular_registry::{NotADigest, OciDigest};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What identifies an image. It is shown as its text: in debug output and in JSON, too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ImageDigest {
    /// The digest of a SIF: BLAKE3 of the whole file. Its text is `blake3:` and hex.
    Sif(blake3::Hash),
    /// The digest of an OCI image: that of its manifest.
    Oci(OciDigest),
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

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sif(hash) => write!(f, "blake3:{hash}"),
            Self::Oci(digest) => digest.fmt(f),
        }
    }
}

impl fmt::Debug for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ImageDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ImageDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_an_image_names_its_function() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for text in [format!("sha256:{hex}"), format!("blake3:{hex}")] {
            let digest: ImageDigest = text.parse().unwrap();
            assert_eq!((digest.to_string(), digest.hex()), (text, hex.to_owned()));
            let json = serde_json::to_string(&digest).unwrap();
            assert_eq!(serde_json::from_str::<ImageDigest>(&json).unwrap(), digest);
        }
        assert!(format!("sha512:{hex}").parse::<ImageDigest>().is_err());
    }
}
