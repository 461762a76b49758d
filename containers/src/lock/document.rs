//! The file's contents.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::fetch::Artifact;
use crate::recipe::{Platform, Recipe};

/// What an image is made of: from `image.lock`, or just found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Seconds since 1970: the time of every file in the image, and of the image.
    pub time: u64,
    /// Digest of what the recipe said that this depends on.
    pub recipe: String,
    /// What it was resolved for.
    pub platform: Platform,
    /// The Debian archive, when the base is made of its packages.
    pub debian: Option<Debian>,
    /// The image it begins with.
    pub oci: Option<Oci>,
    /// Debian packages, by name.
    pub debs: Vec<Deb>,
    /// Wheels, by name.
    pub wheels: Vec<Wheel>,
}

/// A Debian archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debian {
    /// The release's code name, as the recipe gives it.
    pub suite: String,
    /// The mirror's URL.
    pub mirror: String,
    /// The security archive's URL.
    pub security: String,
    /// `20260711T101637Z`: when snapshot.debian.org has these packages.
    pub snapshot: String,
}

/// A Debian package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deb {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its architecture, `all` among them.
    pub arch: String,
    /// Length of its file.
    pub bytes: u64,
    /// SHA-256 of its file in hex.
    pub sha256: String,
    /// Where it is.
    pub urls: Vec<String>,
}

/// A Python wheel, of which the libraries are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wheel {
    /// Its name: `torch`, `nvidia-cudnn-cu13`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Length of its file.
    pub bytes: u64,
    /// SHA-256 of its file in hex.
    pub sha256: String,
    /// Where it is.
    pub urls: Vec<String>,
    /// Its licence, as its metadata names it.
    pub license: Option<String>,
}

/// An image that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oci {
    /// As the recipe gives it.
    pub path: PathBuf,
    /// Of its manifest for the platform: `sha256:` and hex.
    pub digest: String,
}

impl Lock {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), [`Error::Lock`](crate::Error::Lock).
    pub fn open(path: &Path) -> Result<Self> {
        Self::parse("", &path.display().to_string())
    }

    /// Reads and checks a text; `path` names it in errors.
    ///
    /// # Errors
    /// [`Error::Lock`](crate::Error::Lock).
    pub fn parse(_text: &str, path: &str) -> Result<Self> {
        Err(crate::Error::Lock {
            path: path.to_owned(),
            line: 1,
            reason: String::new(),
            hint: None,
        })
    }

    /// The file's text; equal locks, equal texts.
    pub fn to_text(&self) -> String {
        String::new()
    }

    /// Whether it was made from what this recipe says now.
    ///
    /// # Errors
    /// [`Error::Lock`](crate::Error::Lock), which says to lock again.
    pub fn check(&self, _recipe: &Recipe, _path: &str) -> Result<()> {
        Ok(())
    }

    /// All files that are needed.
    pub fn artifacts(&self) -> Vec<Artifact> {
        let debs = self.debs.iter().map(Deb::artifact);
        debs.chain(self.wheels.iter().map(Wheel::artifact)).collect()
    }
}

impl Deb {
    /// Its file.
    pub fn artifact(&self) -> Artifact {
        artifact(&self.name, self.bytes, &self.sha256, &self.urls)
    }
}

impl Wheel {
    /// Its file.
    pub fn artifact(&self) -> Artifact {
        artifact(&self.name, self.bytes, &self.sha256, &self.urls)
    }
}

fn artifact(name: &str, bytes: u64, sha256: &str, urls: &[String]) -> Artifact {
    let file_name = urls.first().and_then(|url| url.rsplit('/').next()).unwrap_or(name).to_owned();
    Artifact {
        name: name.to_owned(),
        file_name,
        bytes,
        sha256: sha256.to_owned(),
        urls: urls.to_vec(),
    }
}
