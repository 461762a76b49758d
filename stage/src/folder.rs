//! One user's folder of copies on one file system, and which processes use which copy.
//!
//! ```text
//! BASE/gular-stage-UID/          0700
//!   .gular-stage                 says that we made the folder; locked for a moment by
//!                                whoever looks at or changes what is in it (the gate)
//!   NAME.users                   locked, shared, by all who use the copy or wait for it
//!   NAME.making                  locked by who copies; says how many bytes it will take
//!   NAME.part/                   being copied
//!   NAME/                        whole
//!   NAME.keep                    nobody need take part in it
//! ```
//!
//! Locks of users are taken and tried inside the gate, so nobody can come between two such calls.
//! The kernel drops the locks of processes that are killed. A copy that nobody takes part in and
//! nobody keeps is removed by the next process inside the gate.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use gular_files::{Lock, LockMode};

use super::mount;
use crate::Error;

const MARKER: &str = ".gular-stage";
const USERS: &str = ".users";

/// The folder of one user.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    path: PathBuf,
}

/// The progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Missing,
    /// A process is copying it.
    Growing,
    Whole,
}

/// The space that files take on their file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

/// Copies that killed runs left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stale {
    pub(super) copies: u64,
    pub(super) taken: Taken,
}

impl Folder {
    pub(super) fn below(base: &Path) -> Self {
        let uid = rustix::process::getuid().as_raw();
        Self { path: base.join(format!("gular-stage-{uid}")) }
    }

    /// The path of the complete copy.
    pub(super) fn whole(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The path of the copy while it is being made.
    pub(super) fn part(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.part"))
    }

    fn users(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}{USERS}"))
    }

    fn making(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.making"))
    }

    fn keep(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.keep"))
    }

    /// Waits until no other process examines the folder; makes the folder if there is none.
    pub(super) fn enter(&self, cancelled: &dyn Fn() -> bool) -> Result<Gate<'_>, Error> {
        loop {
            match DirBuilder::new().mode(0o700).create(&self.path) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::io("create", &self.path, e));
                }
                _ => {}
            }
            if self.is_ours()?
                && let Some(marker) = self.marker()?
                && let Some(gate) = self.lock(&marker, cancelled)?
            {
                return Ok(gate);
            }
        }
    }

    /// Does the same as [`Self::enter`], but writes nothing: `None` if there is no folder.
    pub(super) fn enter_there(
        &self,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<Gate<'_>>, Error> {
        let path = self.path.join(MARKER);
        while self.is_ours()? {
            let marker = match open(&path, false) {
                // The folder is empty or belongs to others, so it has no copies.
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
                marker => marker.map_err(|e| Error::io("open", &path, e))?,
            };
            if let Some(gate) = self.lock(&marker, cancelled)? {
                return Ok(Some(gate));
            }
        }
        Ok(None)
    }

    /// Waits for the marker's lock; `None` if its folder was removed meanwhile.
    fn lock(&self, marker: &File, cancelled: &dyn Fn() -> bool) -> Result<Option<Gate<'_>>, Error> {
        let path = self.path.join(MARKER);
        let marker = Lock::wait_on(marker, &path, LockMode::Exclusive, &mut |_| !cancelled())?;
        let marker = marker.ok_or_else(Error::cancelled)?;
        // The process that had the lock may have removed the marker with the folder.
        let is_current = marker.is_current();
        Ok(is_current.then(|| Gate { folder: self, marker: Some(marker) }))
    }

    /// Checks that the folder is this user's and that nobody else may enter it; false if it was
    /// removed meanwhile.
    fn is_ours(&self) -> Result<bool, Error> {
        let found = match fs::symlink_metadata(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            found => found.map_err(|e| Error::io("look at", &self.path, e))?,
        };
        let fault = match found {
            _ if found.is_symlink() => "it is a symbolic link",
            _ if !found.is_dir() => "it is not a folder",
            _ if found.uid() != rustix::process::getuid().as_raw() => "it belongs to another user",
            _ if found.mode() & 0o077 != 0 => "other users may enter it",
            _ => return Ok(true),
        };
        Err(self.foreign(fault))
    }

    fn foreign(&self, reason: &'static str) -> Error {
        Error::Foreign { dir: self.path.display().to_string(), reason }
    }

    /// Opens the marker, or makes it in an empty folder; `None` if the folder was removed
    /// meanwhile.
    fn marker(&self) -> Result<Option<File>, Error> {
        let path = self.path.join(MARKER);
        let gone = |e: io::Error| match e.kind() {
            ErrorKind::NotFound => Ok(None),
            _ => Err(Error::io("open", &path, e)),
        };
        match open(&path, false) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            found => return found.map(Some).or_else(gone),
        }
        let entries = match fs::read_dir(&self.path) {
            Err(e) => return gone(e),
            Ok(entries) => entries.count(),
        };
        if entries > 0 && !path.exists() {
            return Err(self.foreign(
                "it already holds files, and none of them marks it as a folder of `gular stage`",
            ));
        }
        open(&path, true).map(Some).or_else(gone)
    }
}

/// The folder while this process holds its gate, so that no other process examines or changes it.
#[derive(Debug)]
pub(super) struct Gate<'a> {
    folder: &'a Folder,
    /// The gate's lock, which is released when this value is dropped or the process is killed.
    marker: Option<Lock>,
}

impl Gate<'_> {
    /// Takes part in the copy `name`, as long as the lock is held. A copy that nobody takes part in
    /// is removed first, unless it is kept; returns `true` if one was removed.
    pub(super) fn join(&self, name: &str) -> Result<(Lock, bool), Error> {
        let path = self.folder.users(name);
        let free = lock(&path, true, LockMode::Exclusive)?;
        let unused = free.is_some() && !self.folder.keep(name).exists();
        let left =
            unused && [self.folder.whole(name), self.folder.part(name)].iter().any(|p| p.exists());
        if unused {
            self.remove_trees(name)?;
        }
        // Inside the gate no other process can come between the two locks.
        drop(free);
        Ok((held(lock(&path, true, LockMode::Shared)?, &path)?, left))
    }

    /// Returns whether a process takes part in the copy `name`, or it is kept.
    pub(super) fn is_used(&self, name: &str) -> Result<bool, Error> {
        let path = self.folder.users(name);
        if !path.exists() {
            return Ok(false);
        }
        let is_free = lock(&path, false, LockMode::Exclusive)?.is_some();
        Ok(!is_free || (self.folder.keep(name).exists() && is_folder(&self.folder.whole(name))))
    }

    /// Returns the progress of a copy that this process takes part in.
    pub(super) fn state(&self, name: &str) -> Result<State, Error> {
        if is_folder(&self.folder.whole(name)) {
            return Ok(State::Whole);
        }
        let path = self.folder.making(name);
        if !path.exists() || lock(&path, false, LockMode::Exclusive)?.is_some() {
            return Ok(State::Missing);
        }
        Ok(State::Growing)
    }

    /// Begins to copy `bytes` in all, until the lock is dropped.
    pub(super) fn begin(&self, name: &str, bytes: u64) -> Result<Lock, Error> {
        use std::os::unix::fs::FileExt as _;
        self.remove_trees(name)?;
        let path = self.folder.making(name);
        let making = held(lock(&path, true, LockMode::Exclusive)?, &path)?;
        let said = making.file().set_len(0);
        let said = said.and_then(|()| making.file().write_all_at(bytes.to_string().as_bytes(), 0));
        said.map_err(|e| Error::io("write", &path, e))?;
        Ok(making)
    }

    /// Returns the bytes that others have reserved and not written yet.
    pub(super) fn reserved(&self) -> Result<u64, Error> {
        let mut sum = 0_u64;
        for name in self.names()? {
            let path = self.folder.making(&name);
            if !path.exists()
                || matches!(lock(&path, false, LockMode::Shared), Ok(Some(_)) | Err(_))
            {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            let bytes: u64 = text.trim().parse().unwrap_or(0);
            sum = sum.saturating_add(bytes.saturating_sub(taken(&self.folder.part(&name)).bytes));
        }
        Ok(sum)
    }

    /// Counts the copies that [`sweep`](Self::sweep) would remove.
    pub(super) fn stale(&self) -> Result<Stale, Error> {
        let mut stale = Stale::default();
        for name in self.names()? {
            let is_free = lock(&self.folder.users(&name), false, LockMode::Exclusive)?.is_some();
            if !is_free || self.folder.keep(&name).exists() {
                continue;
            }
            stale.copies += 1;
            for path in [self.folder.whole(&name), self.folder.part(&name)] {
                let Taken { bytes, inodes } = taken(&path);
                stale.taken.bytes = stale.taken.bytes.saturating_add(bytes);
                stale.taken.inodes = stale.taken.inodes.saturating_add(inodes);
            }
        }
        Ok(stale)
    }

    /// Removes all copies that nobody takes part in and nobody keeps; returns their number.
    pub(super) fn sweep(&self) -> Result<u64, Error> {
        let mut swept = 0;
        for name in self.names()? {
            swept += u64::from(self.remove_unused(&name)?);
        }
        Ok(swept)
    }

    /// Gives the complete copy its name.
    pub(super) fn finish(&self, name: &str) -> Result<(), Error> {
        let (part, whole) = (self.folder.part(name), self.folder.whole(name));
        // The copy is not synced: only a kept copy must survive a crash, and `set_keep` syncs that.
        fs::rename(&part, &whole).map_err(|e| Error::io("rename to", &whole, e))?;
        remove_file(&self.folder.making(name))
    }

    /// Keeps a copy without users, with its bytes on the disk; or no longer keeps it.
    pub(super) fn set_keep(&self, name: &str, keep: bool) -> Result<(), Error> {
        let path = self.folder.keep(name);
        if keep {
            let synced = File::open(&self.folder.path).and_then(|d| Ok(rustix::fs::syncfs(&d)?));
            synced.map_err(|e| Error::io("sync", &self.folder.path, e))?;
            return open(&path, true).map(drop).map_err(|e| Error::io("create", &path, e));
        }
        remove_file(&path)
    }

    /// Stops taking part in the copy, and removes it if nobody else takes part; returns whether it
    /// was removed.
    pub(super) fn leave(&self, name: &str, users: Lock) -> Result<bool, Error> {
        // The lock is dropped, not released: a process that inherited it may continue to use the
        // copy.
        drop(users);
        self.remove_unused(name)
    }

    fn remove_unused(&self, name: &str) -> Result<bool, Error> {
        let path = self.folder.users(name);
        let users = lock(&path, true, LockMode::Exclusive)?;
        if users.is_none() || self.folder.keep(name).exists() {
            return Ok(false);
        }
        self.remove_trees(name)?;
        // This file is removed last, since a later run recognises the other files by it.
        remove_file(&path)?;
        Ok(true)
    }

    /// Removes all files of the copy.
    pub(super) fn remove_trees(&self, name: &str) -> Result<(), Error> {
        self.set_keep(name, false)?;
        remove_file(&self.folder.making(name))?;
        for path in [self.folder.whole(name), self.folder.part(name)] {
            gone(remove_tree(&path)).map_err(|e| Error::io("remove", &path, e))?;
        }
        Ok(())
    }

    /// Returns the names of copies that have a file of users, in any state.
    fn names(&self) -> Result<Vec<String>, Error> {
        let io = |e| Error::io("list", &self.folder.path, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder.path).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(USERS));
            names.extend(name.filter(|name| is_name(name)).map(str::to_owned));
        }
        Ok(names)
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        // An empty folder is removed too, after its marker. A process that waits for the marker
        // sees that it is gone and makes a new one. The folder may still have files of a lock.
        let path = &self.folder.path;
        let is_marker = |entry: io::Result<fs::DirEntry>| {
            entry.is_ok_and(|e| e.file_name().to_string_lossy().starts_with(MARKER))
        };
        let only_marker = fs::read_dir(path).is_ok_and(|mut entries| entries.all(is_marker));
        let is_last = only_marker && fs::remove_file(path.join(MARKER)).is_ok();
        if let Some(marker) = self.marker.take() {
            marker.release();
        }
        if is_last {
            // This fails if another process has made a new marker in the folder meanwhile.
            let _ = fs::remove_dir(path);
        }
    }
}

/// Returns whether a name is 64 hex digits, and a suffix for the kind of copy.
fn is_name(name: &str) -> bool {
    let hex = name.strip_suffix("-files").or(mount::digest_in(name)).unwrap_or(name);
    hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Locks one of our small files; `None` while others hold it.
fn lock(path: &Path, create: bool, mode: LockMode) -> Result<Option<Lock>, Error> {
    let file = open(path, create).map_err(|e| Error::io("open", path, e))?;
    Ok(Lock::try_on(file, path, mode)?)
}

/// Returns a lock that, inside the gate, nobody else can hold.
fn held(lock: Option<Lock>, path: &Path) -> Result<Lock, Error> {
    lock.ok_or_else(|| Error::io("lock", path, ErrorKind::WouldBlock.into()))
}

/// Opens one of our small files, but not through a link.
fn open(path: &Path, create: bool) -> io::Result<File> {
    let no_links = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false);
    let refused = |e: io::Error| match e.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => io::Error::other(
            "it is a symbolic link, and a file of this program never is one; remove the link",
        ),
        _ => e,
    };
    options.mode(0o600).custom_flags(no_links).open(path).map_err(refused)
}

/// Removes a folder of this user with all its contents; a link is not followed, and does not count
/// as a folder.
fn remove_tree(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(io::Error::other(
            "it is not the folder of an unfinished copy; if nobody needs it, remove it by hand",
        ));
    }
    if found.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    // File systems that are mounted below the folder are not part of it.
    mount::unmount_below(path)?;
    fs::remove_dir_all(path)
}

fn remove_file(path: &Path) -> Result<(), Error> {
    gone(fs::remove_file(path)).map_err(|e| Error::io("remove", path, e))
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// Returns the space of the files and folders below `dir`, including `dir`, without mounted file
/// systems.
fn taken(dir: &Path) -> Taken {
    let device = fs::symlink_metadata(dir).map(|found| found.dev()).ok();
    let Ok(entries) = fs::read_dir(dir) else { return Taken::default() };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if Some(found.dev()) != device => Taken::default(),
        Ok(found) if found.is_dir() => taken(&entry.path()),
        Ok(found) => Taken { bytes: found.blocks().saturating_mul(512), inodes: 1 },
        Err(_) => Taken::default(),
    };
    entries.flatten().map(of).fold(Taken { bytes: 0, inodes: 1 }, |sum, each| Taken {
        bytes: sum.bytes.saturating_add(each.bytes),
        inodes: sum.inodes.saturating_add(each.inodes),
    })
}
