//! The folder in which a federation stores its files.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gular_files::{Lock, LockMode, persist, temp_with_mode};
use serde::{Deserialize, Serialize};

use super::Error;

const STATE_FILE: &str = "federation.json";
/// File name of the authority's certificate.
pub(super) const CA_FILE: &str = "ca.pem";
/// File name of the authority's key.
pub(super) const KEY_FILE: &str = "ca-key.pem";

/// The addresses of a running federation, for programs that make tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The URL of the namespace: `pelican://localhost:PORT/ns`.
    pub(super) url: String,
    /// The namespace: `/ns`.
    pub(super) namespace: String,
    /// The issuer of tokens: `https://localhost:PORT`.
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

    /// Opens the folder at `dir`, which must exist.
    pub(super) fn open(dir: &Path) -> Result<Self, Error> {
        // Links are resolved, so that the paths of files below it can be compared with it.
        fs::canonicalize(dir).map(Self).map_err(Error::io("open", dir))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the folder `name` below this one, and makes it if necessary.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path(name);
        fs::create_dir_all(&path).map_err(Error::io("make the folder", &path))?;
        Ok(path)
    }

    /// Takes the lock, which is held until it is dropped. The addresses of an earlier run are
    /// removed, so that nobody can make a token until this run has written its own.
    pub(super) fn lock(&self) -> Result<Lock, Error> {
        // A program that makes a token holds the lock for a moment, which does not count as
        // serving.
        let mut briefly = |waited| waited < Duration::from_millis(200);
        let lock = Lock::wait_at(&self.path("lock"), LockMode::Exclusive, &mut briefly);
        let Some(lock) = lock? else {
            let by = self.read_state().ok().flatten().map(|state| (state.url, state.pid));
            return Err(Error::Served { path: self.0.clone(), by });
        };
        let state = self.path(STATE_FILE);
        match fs::remove_file(&state) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", state)(e)),
            _ => Ok(lock),
        }
    }

    /// Whether a federation has served this folder, so that the files in it are a federation's.
    pub(super) fn was_served(&self) -> bool {
        [CA_FILE, KEY_FILE].iter().all(|name| self.path(name).is_file())
    }

    /// Whether a living process holds the lock.
    pub(super) fn is_served(&self) -> Result<bool, Error> {
        Ok(self.path("lock").exists() && self.try_lock()?.is_none())
    }

    fn try_lock(&self) -> Result<Option<Lock>, Error> {
        Ok(Lock::try_at(&self.path("lock"), LockMode::Exclusive)?)
    }

    /// Returns the contents of the file `name`, if it exists.
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
        self.write(STATE_FILE, &text, 0o644)
    }

    pub(super) fn read_state(&self) -> Result<Option<State>, Error> {
        let Some(bytes) = self.read(STATE_FILE)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| self.damaged(&e))
    }

    fn damaged(&self, error: &serde_json::Error) -> Error {
        Error::Damaged { path: self.path(STATE_FILE), reason: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TokenRequest, mint};

    fn state() -> State {
        let (namespace, pid) = ("/gular".to_owned(), 7);
        let issuer = "https://localhost:1".to_owned();
        State { url: "pelican://localhost:1/gular".to_owned(), namespace, issuer, pid }
    }

    /// The state is as after a kill: the file exists, and no process serves the folder.
    #[test]
    fn what_an_earlier_run_said_is_used_by_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        folder.write_state(&state()).unwrap();
        let request = TokenRequest { read: vec!["/".into()], ..TokenRequest::default() };
        let mint = || mint(dir.path(), &request).unwrap_err();
        assert!(matches!(mint(), Error::NotServed { .. }));
        // The next process has started, but does not serve yet.
        let lock = folder.lock().unwrap();
        assert!(matches!(mint(), Error::Starting { .. }));
        drop(lock);
        assert!(matches!(mint(), Error::NotServed { .. }));
    }

    #[test]
    fn who_serves_a_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let _lock = folder.lock().unwrap();
        folder.write_state(&state()).unwrap();
        let error = folder.lock().unwrap_err().to_string();
        assert!(error.ends_with("at pelican://localhost:1/gular (process 7)"), "{error}");
    }
}
