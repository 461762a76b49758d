//! From a recipe to a lock.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::Lock;
use crate::fetch::{Archives, Transport};
use crate::recipe::Recipe;
use crate::{Error, Result};

/// Who is asked what there is.
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
    /// Seconds since 1970 now: a Release that is no longer valid is refused.
    pub now: u64,
    /// The folder that a relative `oci` of the recipe is in.
    pub dir: PathBuf,
}

impl Sources {
    /// The public ones.
    pub fn new(now: u64, dir: &Path) -> Self {
        Self {
            debian: "https://deb.debian.org/debian".to_owned(),
            debian_security: "https://deb.debian.org/debian-security".to_owned(),
            keyrings: Vec::new(),
            index: "https://pypi.org/simple".to_owned(),
            now,
            dir: dir.to_owned(),
        }
    }
}

/// Finds out what the recipe's parts are today. `progress` hears what is being asked.
///
/// # Errors
/// [`Error::Package`], [`Error::Release`], [`Error::Wheel`], [`Error::Fetch`] and others.
pub fn lock(
    _recipe: &Recipe,
    _sources: &Sources,
    _transport: &dyn Transport,
    _progress: &dyn Fn(&str),
) -> Result<Lock> {
    Err(Error::Cancelled)
}

/// Puts every file of a lock into `dir` under its own name, and nothing else.
///
/// # Errors
/// As [`Archives::get`].
pub fn vendor(
    _lock: &Lock,
    _archives: &Archives,
    _dir: &Path,
    _transport: &dyn Transport,
    _progress: &dyn Fn(&str, u64),
    _cancel: &AtomicBool,
) -> Result<()> {
    Err(Error::Cancelled)
}
