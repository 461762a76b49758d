//! Names of images on this machine, as skopeo and podman write them.

use std::fmt;
use std::path::{Path, PathBuf};

/// An image on this machine: a layout, or an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalImage {
    /// The folder or file.
    pub path: PathBuf,
    /// Which image of the file or folder is meant, if it has several.
    pub tag: Option<String>,
}

/// A text that does not name an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the name of an image: {reason}")]
pub struct NotALocalImage {
    text: String,
    reason: &'static str,
}

const KINDS: [&str; 3] = ["oci", "oci-archive", "docker-archive"];

impl LocalImage {
    /// Parses `oci:DIR[:TAG]`, `oci-archive:FILE[:TAG]`, `docker-archive:FILE[:NAME:TAG]`, or a
    /// path alone. If the path itself has colons, the longest one that exists is taken.
    ///
    /// # Errors
    /// For a transport that is not one of these.
    pub fn parse(text: &str) -> Result<Self, NotALocalImage> {
        let wrong = |reason| NotALocalImage { text: text.to_owned(), reason };
        let rest = match text.split_once(':') {
            Some((kind, rest)) if KINDS.contains(&kind) => rest,
            Some((_, rest)) if rest.starts_with("//") => {
                return Err(wrong(
                    "expected `oci:DIR`, `oci-archive:FILE`, `docker-archive:FILE` or a path",
                ));
            }
            _ => text,
        };
        if rest.is_empty() {
            return Err(wrong("the path is missing"));
        }
        Ok(Self::split(rest))
    }

    fn split(rest: &str) -> Self {
        let there = |path: &str| Path::new(path).symlink_metadata().is_ok();
        let whole = || Self { path: rest.into(), tag: None };
        if there(rest) {
            return whole();
        }
        let mut colons = rest.rmatch_indices(':').filter(|(at, _)| *at > 0);
        let at = colons.find(|(at, _)| rest.get(..*at).is_some_and(there)).map(|(at, _)| at);
        // No part of the text is a path that exists, so the error names the part that was meant as
        // one.
        let at = at.or_else(|| rest.find(':').filter(|at| *at > 0));
        match at.and_then(|at| rest.split_at_checked(at)) {
            Some((path, tag)) => {
                let tag = tag.trim_start_matches(':');
                Self { path: path.into(), tag: (!tag.is_empty()).then(|| tag.to_owned()) }
            }
            None => whole(),
        }
    }

    /// Returns the default name of an image made from this source: the last part of its path,
    /// without what is told by its end, in the letters of names.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let ends = [".tar", ".oci", "-oci", ".docker"];
        let stem = ends.iter().fold(&*name, |name, end| name.strip_suffix(end).unwrap_or(name));
        let stem = stem.strip_suffix(".oci").unwrap_or(stem);
        image_name(stem)
    }
}

/// A name as recipes allow it: lower-case letters, digits, `-`, `_` and `.`.
pub(crate) fn image_name(text: &str) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c) => c,
        _ => '-',
    };
    let name: String = text.chars().map(plain).take(100).collect();
    let name = name.trim_matches(['-', '.', '_']);
    if name.is_empty() { "image".to_owned() } else { name.to_owned() }
}

impl fmt::Display for LocalImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        match &self.tag {
            Some(tag) => write!(f, "{name}:{tag}"),
            None => f.write_str(&name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_tag_are_told_apart_by_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        std::fs::create_dir(at("a:b")).unwrap();
        std::fs::write(at("x.tar"), "").unwrap();
        for (text, path, tag) in [
            (at("a:b"), at("a:b"), None),
            (format!("oci:{}", at("a:b:v1")), at("a:b"), Some("v1")),
            (format!("docker-archive:{}", at("x.tar:n/m:1.0")), at("x.tar"), Some("n/m:1.0")),
            (format!("oci-archive:{}:", at("x.tar")), at("x.tar"), None),
            ("oci:none:v1".to_owned(), "none".to_owned(), Some("v1")),
            ("none".to_owned(), "none".to_owned(), None),
        ] {
            let expected = LocalImage { path: path.into(), tag: tag.map(str::to_owned) };
            assert_eq!(LocalImage::parse(&text), Ok(expected), "{text}");
        }
        for bad in ["oci:", "", "ftp://x", "docker-daemon://x"] {
            assert!(LocalImage::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_those_that_recipes_allow() {
        for (path, name) in [
            ("/x/Train.oci.tar", "train"),
            ("my image", "my-image"),
            ("a.docker.tar", "a"),
            ("..", "image"),
            ("layout-oci/", "layout"),
        ] {
            let source = LocalImage { path: path.into(), tag: None };
            assert_eq!(source.name(), name, "{path}");
        }
    }
}
