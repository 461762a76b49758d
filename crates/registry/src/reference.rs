//! Names of images in registries.

use std::fmt;

use crate::{OciDigest, Result};

/// `HOST[:PORT]/REPOSITORY[:TAG][@DIGEST]`, all parts sound; without tag and digest the
/// tag is `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<OciDigest>,
}

/// A text that is not the name of an image in a registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text} is not the name of an image in a registry: {reason}")]
pub struct NotAReference {
    /// Between backticks, or what stands for a text with a password.
    text: String,
    reason: &'static str,
}

/// The name of Docker's registry in image names.
const DOCKER: &str = "docker.io";
const DOCKER_SERVER: &str = "registry-1.docker.io";

impl Reference {
    /// Parses a name as docker and podman write it, with or without `docker://`, `oras://` or
    /// `oci://` before it. A first part without a dot, a colon and not `localhost` is one of
    /// Docker's registry.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn parse(text: &str) -> Result<Self, NotAReference> {
        let after = text.split_once('@').map_or("", |(_, after)| after);
        let text_shown = match after.is_empty() || after.starts_with("sha256:") {
            true => format!("`{text}`"),
            // The text before `@` may be a user's name and password.
            false => "what is given, not shown for what is before its `@`,".to_owned(),
        };
        let wrong = |reason| NotAReference { text: text_shown.clone(), reason };
        let schemes = ["docker://", "oras://", "oci://"];
        let name = schemes.iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
        let (name, digest) = match name.split_once('@') {
            Some((name, digest)) => {
                let digest = digest.parse();
                let reason = "behind `@` expected `sha256:` and 64 lower-case hexadecimal digits";
                (name, Some(digest.map_err(|_| wrong(reason))?))
            }
            None => (name, None),
        };
        let (name, tag) = match name.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (name, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(wrong("a tag has at most 128 letters, digits, `_`, `.` and `-`"));
        }
        let (host, repository) = match name.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
            _ => (DOCKER, name),
        };
        if !is_host(host) {
            return Err(wrong("the host is not valid"));
        }
        let host = if host == "index.docker.io" { DOCKER } else { host };
        let official = host == DOCKER && !repository.contains('/');
        let library = if official { "library/" } else { "" };
        let repository = format!("{library}{repository}");
        if !is_repository(&repository) {
            return Err(wrong(
                "the parts of a repository's name are lower-case letters and digits, with `.`, `_` or `-` between them",
            ));
        }
        let tag = tag.or_else(|| digest.is_none().then_some("latest"));
        let (host, tag) = (host.to_ascii_lowercase(), tag.map(str::to_owned));
        Ok(Self { host, repository, tag, digest })
    }

    /// The registry, as it is written in names.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host of the registry's server.
    pub fn server(&self) -> &str {
        if self.host == DOCKER { DOCKER_SERVER } else { &self.host }
    }

    /// The repository in the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digest in the name.
    pub fn digest(&self) -> Option<OciDigest> {
        self.digest
    }

    /// The tag; `None` if the name has only a digest.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The name of the manifest in requests: the digest, if there is one, else the tag.
    pub(crate) fn manifest(&self) -> String {
        match self.digest {
            Some(digest) => digest.to_string(),
            None => self.tag().unwrap_or_default().to_owned(),
        }
    }

    /// The same image, named by its digest.
    #[must_use]
    pub fn pinned(&self, digest: OciDigest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// The image with this digest, whatever its tag: Apptainer and Docker take no name with both.
    #[must_use]
    pub fn exactly(&self, digest: OciDigest) -> Self {
        Self { tag: None, ..self.pinned(digest) }
    }

    /// Refuses what is pushed under it when it names another digest.
    pub(crate) fn check(&self, digest: OciDigest) -> Result<()> {
        let Some(expected) = self.digest.filter(|expected| *expected != digest) else {
            return Ok(());
        };
        let reason =
            format!("the image to push has digest {digest}, expected {expected} as in the name");
        Err(self.invalid(reason))
    }

    /// Returns whether the registry's server is this machine.
    pub fn is_loopback(&self) -> bool {
        let name = match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => &self.host,
        };
        matches!(name, "localhost" | "127.0.0.1" | "[::1]")
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        if let Some(tag) = self.tag() {
            write!(f, ":{tag}")?;
        }
        self.digest.map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

fn is_tag(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    first && text.len() <= 128 && text.bytes().all(good)
}

fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let good = |b: u8| b.is_ascii_alphanumeric() || b".-".contains(&b);
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let name = match address {
        Some(address) => address.parse::<core::net::Ipv6Addr>().is_ok(),
        None => {
            let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
            let sound = ends(name.bytes().next()) && ends(name.bytes().last());
            sound && name.len() <= 253 && !name.contains("..") && name.bytes().all(good)
        }
    };
    name && port
}

fn is_repository(text: &str) -> bool {
    let part = |part: &str| {
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let ends = |b: Option<u8>| b.is_some_and(good);
        ends(part.bytes().next())
            && ends(part.bytes().last())
            && part.bytes().all(|b| good(b) || b"._-".contains(&b))
            && !part.contains("..")
    };
    text.len() <= 255 && text.split('/').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_docker_takes_them() {
        let hex = format!("sha256:{}", "ab".repeat(32));
        for (text, expected) in [
            ("alpine".to_owned(), "docker.io/library/alpine:latest".to_owned()),
            ("docker://lab/x:1.0".to_owned(), "docker.io/lab/x:1.0".to_owned()),
            ("index.docker.io/lab/x".to_owned(), "docker.io/lab/x:latest".to_owned()),
            ("oci://ghcr.io/a/b:v1".to_owned(), "ghcr.io/a/b:v1".to_owned()),
            ("oras://ghcr.io/a/b/c:v1".to_owned(), "ghcr.io/a/b/c:v1".to_owned()),
            ("localhost/x".to_owned(), "localhost/x:latest".to_owned()),
            ("127.0.0.1:5000/a__b:T".to_owned(), "127.0.0.1:5000/a__b:T".to_owned()),
            ("[::1]:5000/a".to_owned(), "[::1]:5000/a:latest".to_owned()),
            (format!("Q.io/a@{hex}"), format!("q.io/a@{hex}")),
            (format!("q.io/a:1@{hex}"), format!("q.io/a:1@{hex}")),
        ] {
            let found = Reference::parse(&text).unwrap();
            assert_eq!(found.to_string(), expected, "{text}");
            assert_eq!(Reference::parse(&expected).unwrap(), found, "{text}");
        }
        assert_eq!(Reference::parse("alpine").unwrap().server(), "registry-1.docker.io");
    }

    #[test]
    fn names_that_could_be_something_else_are_refused() {
        for bad in [
            "",
            "/",
            "UPPER",
            "a//b",
            "../a",
            "q.io/../../etc",
            "q.io/a:",
            "q.io/a:-x",
            "q.io/a@",
            "q.io/a@sha256:12",
            "q.io/a b",
            "q.io/a?x=y",
            "u:p@q.io/a",
            "q.io:x/a",
            "q.io:99999/a",
            "q.io/a#b",
            "-/a",
            "q.io/a\r\nX: y",
            "http://q.io/a",
            "[x]:1/a",
            "q.io/.a",
            "q.io/a/",
        ] {
            assert!(Reference::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for text in ["me:secret@q.io/a", "https://me:secret@q.io/a", "docker://me:se/cret@host"] {
            let error = Reference::parse(text).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("cret"), "{shown}");
        }
        let error = Reference::parse("q.io/a@sha256:12").unwrap_err().to_string();
        assert!(error.starts_with("`q.io/a@sha256:12` is not the name"), "{error}");
    }

    #[test]
    fn this_machine_is_known() {
        for (text, expected) in [
            ("localhost:5000/a", true),
            ("127.0.0.1/a", true),
            ("[::1]:80/a", true),
            ("localhost.evil.org/a", false),
            ("127.0.0.1.evil.org/a", false),
            ("alpine", false),
        ] {
            assert_eq!(Reference::parse(text).unwrap().is_loopback(), expected, "{text}");
        }
    }
}
