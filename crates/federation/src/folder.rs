//! The folder that a federation lives in.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gular_files::{Lock, LockMode, persist, temp_with_mode};
use serde::{Deserialize, Serialize};

use super::Error;

/// Where it serves, for who makes tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// `pelican://localhost:PORT/ns`.
    pub(super) url: String,
    /// `/ns`.
    pub(super) namespace: String,
    /// Who signs tokens: `https://localhost:PORT`.
    pub(super) issuer: String,
    pub(super) pid: u32,
}

/// A federation's folder.
#[derive(Debug, Clone)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// The folder at `dir`, made when there is none.
    pub(super) fn create(dir: &Path) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(Error::io("make the folder", dir))?;
        Self::open(dir)
    }

    /// The folder at `dir`, which must be there.
    pub(super) fn open(dir: &Path) -> Result<Self, Error> {
        // Without links in it, so that what lies below can be told from what does not.
        fs::canonicalize(dir).map(Self).map_err(Error::io("open", dir))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Below it, a folder for `name`, made when there is none.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path(name);
        fs::create_dir_all(&path).map_err(Error::io("make the folder", &path))?;
        Ok(path)
    }

    /// The lock, which is held until it is dropped.
    pub(super) fn lock(&self) -> Result<Lock, Error> {
        // Who makes a token looks at the lock for a moment, which is no serving.
        let mut briefly = |waited| waited < Duration::from_millis(200);
        let lock = Lock::wait_at(&self.path("lock"), LockMode::Exclusive, &mut briefly);
        lock?.ok_or_else(|| Error::Served { path: self.0.clone() })
    }

    /// Whether a living process holds the lock.
    pub(super) fn is_served(&self) -> Result<bool, Error> {
        Ok(self.path("lock").exists() && self.try_lock()?.is_none())
    }

    fn try_lock(&self) -> Result<Option<Lock>, Error> {
        Ok(Lock::try_at(&self.path("lock"), LockMode::Exclusive)?)
    }

    /// What `name` holds, if anything.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("read", path)(e)),
        }
    }

    /// Writes `name`, whole or not at all; `mode` is that of chmod.
    pub(super) fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), Error> {
        let path = self.path(name);
        let mut temp = temp_with_mode(&self.0, mode)?;
        temp.write_all(bytes).map_err(Error::io("write", &path))?;
        Ok(persist(temp, &path).map(drop)?)
    }

    pub(super) fn write_state(&self, state: &State) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(state).map_err(|e| self.damaged(&e))?;
        self.write("federation.json", &text, 0o644)
    }

    pub(super) fn read_state(&self) -> Result<Option<State>, Error> {
        let Some(bytes) = self.read("federation.json")? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| self.damaged(&e))
    }

    fn damaged(&self, error: &serde_json::Error) -> Error {
        Error::Damaged { path: self.path("federation.json"), reason: error.to_string() }
    }
}
