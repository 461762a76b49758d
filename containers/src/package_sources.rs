//! Where packages are looked up.

use std::path::PathBuf;

use crate::UnixTime;

/// The sources that packages are looked up in.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Debian's archive.
    pub debian: String,
    /// Debian's security archive.
    pub debian_security: String,
    /// Files with OpenPGP keys to trust instead of Debian's own.
    pub keyrings: Vec<PathBuf>,
    /// The index of wheels (PEP 503).
    pub index: String,
    /// The program `uv`, which finds versions where requirements have none.
    pub uv: Option<PathBuf>,
    /// The time now: a Release file that is no longer valid is refused.
    pub now: UnixTime,
}

impl Sources {
    /// The public package sources.
    pub fn new(now: UnixTime) -> Self {
        Self {
            debian: "https://deb.debian.org/debian".to_owned(),
            debian_security: "https://deb.debian.org/debian-security".to_owned(),
            keyrings: Vec::new(),
            index: "https://pypi.org/simple".to_owned(),
            uv: None,
            now,
        }
    }
}
