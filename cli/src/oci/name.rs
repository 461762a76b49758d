//! Names of bundles in registries.

use gular_bundle::Digest;
use gular_registry::Reference;
use gular_transfer::Error;

use crate::exit::Failure;

const SCHEME: &str = "oci://";

/// `oci://HOST/REPOSITORY:VERSION[@sha256:HEX][#blake3=HEX]`.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub(super) reference: Reference,
    /// The bundle's digest, if it was given.
    pub(super) digest: Option<Digest>,
}

/// Whether a place is in a registry.
pub(crate) fn is_oci(place: &str) -> bool {
    place.starts_with(SCHEME)
}

/// Refuses flags that are given and mean nothing for a registry.
pub(super) fn refuse(given: &[(bool, &str)]) -> Result<(), Failure> {
    let Some((_, flag)) = given.iter().find(|(given, _)| *given) else { return Ok(()) };
    let message = format!("`{flag}` works only with federations, not with a registry");
    let hint = match *flag {
        "--token" => "log in to a registry with `podman login` or `docker login`",
        "--check" => "leave it out: a registry itself compares each blob with its digest",
        _ => "leave it out",
    };
    Err(Failure::new(message, Some(hint.to_owned())))
}

impl Name {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let (name, digest) = match text.split_once('#') {
            None => (text, None),
            Some((name, fragment)) => {
                let hex = fragment.strip_prefix("blake3=").or(fragment.strip_prefix("blake3:"));
                let digest = hex.and_then(|hex| Digest::parse(hex).ok());
                let wrong = || Error::Fragment { text: fragment.to_owned() };
                (name, Some(digest.ok_or_else(wrong)?))
            }
        };
        let hint = "write the registry, the repository and the version, such as \
            `oci://ghcr.io/lab/birds:v1`";
        let failure =
            |message: &dyn std::fmt::Display| Failure::new(message, Some(hint.to_owned()));
        let reference = Reference::parse(name).map_err(|error| failure(&error))?;
        let plain = name.strip_prefix(SCHEME).unwrap_or(name);
        let (plain, pinned) =
            plain.split_once('@').map_or((plain, false), |(name, _)| (name, true));
        // Docker has defaults for images, its own host and the tag `latest`; a bundle needs both.
        let start = plain.get(..reference.host().len()).unwrap_or_default();
        if !start.eq_ignore_ascii_case(reference.host()) {
            return Err(failure(&format!("`{name}` does not contain a registry")));
        }
        if !pinned && !plain.rsplit('/').next().is_some_and(|last| last.contains(':')) {
            return Err(failure(&format!("`{name}` does not contain a version")));
        }
        Ok(Self { reference, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_registry_and_version() {
        let hex = "ab".repeat(32);
        for (text, expected) in [
            ("oci://ghcr.io/lab/birds:v1".to_owned(), Ok(false)),
            (format!("oci://127.0.0.1:5000/birds:v1@sha256:{hex}"), Ok(false)),
            (format!("oci://ghcr.io/birds@sha256:{hex}#blake3={hex}"), Ok(true)),
            (format!("oci://GHCR.io/birds:1#blake3:{hex}"), Ok(true)),
            ("oci://ghcr.io/lab/birds".to_owned(), Err("does not contain a version")),
            ("oci://127.0.0.1:5000/birds".to_owned(), Err("does not contain a version")),
            ("oci://lab/birds:v1".to_owned(), Err("does not contain a registry")),
            ("oci://ghcr.io/Birds:v1".to_owned(), Err("is not the name")),
            ("oci://ghcr.io/birds:v1#v2".to_owned(), Err("which is not a digest")),
        ] {
            match (Name::parse(&text), expected) {
                (Ok(name), Ok(digest)) => assert_eq!(name.digest.is_some(), digest, "{text}"),
                (Err(failure), Err(says)) => {
                    assert!(format!("{failure:?}").contains(says), "{text}: {failure:?}");
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
