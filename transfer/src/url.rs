//! The URL of a bundle: `URL#blake3=HEX`.

use std::fmt;
use std::str::FromStr;

use gular_bundle::Digest;
use gular_pelican::Url;
use serde::{Serialize, Serializer};

use crate::Error;
use crate::published::version_of;

/// A URL with a digest, `URL#blake3=HEX`: where a bundle is published, and which bundle it must be.
///
/// The URL is that of the folder with the manifest, or of the manifest itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleUrl {
    /// The collection `NAME/VERSION`, or an object.
    pub url: Url,
    /// The bundle's digest, if it was given.
    pub digest: Option<Digest>,
}

impl FromStr for BundleUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (url, digest) = match text.split_once('#') {
            None => (text, None),
            Some((url, fragment)) => {
                let hex = fragment.strip_prefix("blake3=").or(fragment.strip_prefix("blake3:"));
                let digest = hex.and_then(|hex| Digest::parse(hex).ok());
                let digest = digest.ok_or_else(|| Error::Fragment { text: fragment.to_owned() })?;
                (url, Some(digest))
            }
        };
        let url = Url::parse(url).map_err(gular_pelican::Error::from)?;
        Ok(Self { url: version_of(url), digest })
    }
}

impl fmt::Display for BundleUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.digest {
            Some(digest) => write!(f, "{}#blake3={}", self.url, digest.hex()),
            None => write!(f, "{}", self.url),
        }
    }
}

impl Serialize for BundleUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_carry_the_digest() {
        let hex = Digest::of(b"").hex();
        let check = |text: &str, url: &str, digest: bool| {
            let parsed: BundleUrl = text.parse().unwrap();
            assert_eq!(parsed.url.to_string(), url, "{text}");
            assert_eq!(parsed.digest.is_some(), digest, "{text}");
        };
        check("pelican://h/ns/a/v1", "pelican://h/ns/a/v1", false);
        check(&format!("osdf:///ns/a/v1#blake3={hex}"), "osdf:///ns/a/v1", true);
        check(&format!("pelican://h/a/v1/manifest.json#blake3:{hex}"), "pelican://h/a/v1", true);
        for bad in ["pelican://h/a#sha256=00", "pelican://h/a#blake3=00", "/a", ""] {
            assert!(bad.parse::<BundleUrl>().is_err(), "{bad}");
        }
        let url: BundleUrl = format!("file:///a/v1#blake3={hex}").parse().unwrap();
        assert_eq!(url.to_string().parse::<BundleUrl>().unwrap(), url);
    }
}
