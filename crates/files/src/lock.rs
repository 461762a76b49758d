//! Locks between processes, with flock if the file system supports it.

mod lock_file;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use self::lock_file::{LockFile, Times};
use crate::Error;

/// How long to wait before a lock is tried again.
const PATIENCE: Duration = Duration::from_millis(50);

/// After this time of waiting for a lock, the user is told: longer than any but the copying of much
/// data holds one.
pub const SAY_AFTER: Duration = Duration::from_secs(5);

/// Whether others may hold the lock at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Nobody else may hold the lock.
    Exclusive,
    /// Others may hold the lock, if they take it as shared, too.
    Shared,
}

/// A held lock; it is released when this value is dropped, and when the process ends.
///
/// It is a flock of a file. Lustre without its option `flock`, some FUSE file systems and folders
/// on NFS have none (ENOSYS, EOPNOTSUPP, EINVAL, ENOLCK, EBADF); there a file beside it, made by
/// one process only and touched every few seconds, is the lock. If its process is gone, the lock is
/// taken over: at once on the same machine, and after a minute without a touch if another machine
/// made it.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    remove: bool,
    /// The lock file, if the file system has no flock.
    _beside: Option<LockFile>,
}

impl Lock {
    /// Locks the file at `path`, which is created when missing; `None` while others
    /// hold it, or when its last holder has just removed it.
    ///
    /// # Errors
    /// When the file cannot be opened, or cannot be locked in either way.
    pub fn try_at(path: &Path, mode: LockMode) -> Result<Option<Self>, Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(|e| Error::new("open", path, e))?;
        Ok(Self::try_on(file, path, mode)?.filter(Self::is_current))
    }

    /// Tries [`Self::try_at`] again and again. `keep_waiting` is called before each further try
    /// with the time waited; `None` when it says no.
    ///
    /// # Errors
    /// Those of [`Self::try_at`].
    pub fn wait_at(
        path: &Path,
        mode: LockMode,
        keep_waiting: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<Option<Self>, Error> {
        wait(&|| Self::try_at(path, mode), keep_waiting)
    }

    /// Locks an open file or folder; `None` while others hold it. `path` is its name; without
    /// flock, the lock is a file beside it. The caller has to check whether the locked file still
    /// has that name: [`Self::is_current`].
    ///
    /// # Errors
    /// If it cannot be locked in either way.
    pub fn try_on(file: File, path: &Path, mode: LockMode) -> Result<Option<Self>, Error> {
        Self::try_with(&flock, Times::default(), file, path, mode)
    }

    /// Tries [`Self::try_on`] again and again, like [`Self::wait_at`]. The lock is of a copy of the
    /// handle.
    ///
    /// # Errors
    /// Those of [`Self::try_on`], and an error if the handle cannot be copied.
    pub fn wait_on(
        file: &File,
        path: &Path,
        mode: LockMode,
        keep_waiting: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<Option<Self>, Error> {
        let copy = || file.try_clone().map_err(|e| Error::new("open", path, e));
        wait(&|| Self::try_on(copy()?, path, mode), keep_waiting)
    }

    pub(crate) fn try_with(
        flock: &dyn Fn(&File, LockMode) -> io::Result<bool>,
        times: Times,
        file: File,
        path: &Path,
        mode: LockMode,
    ) -> Result<Option<Self>, Error> {
        let beside = match flock(&file, mode) {
            Ok(true) => None,
            Ok(false) => return Ok(None),
            Err(e) if is_missing(&e) => {
                let beside = LockFile::try_beside(path, mode, times);
                match beside.map_err(|e| Error::new("lock", path, e))? {
                    None => return Ok(None),
                    beside => beside,
                }
            }
            Err(e) => return Err(Error::new("lock", path, e)),
        };
        Ok(Some(Self { file, path: path.to_owned(), remove: false, _beside: beside }))
    }

    /// Returns whether the locked file still has its name. A holder may have removed or replaced it
    /// between the opening and the locking; such a lock keeps nobody out.
    #[must_use]
    pub fn is_current(&self) -> bool {
        // The link count of the open file comes first: an NFS client may answer for the
        // name from its cache, for up to a minute.
        let ours = self.file.metadata().ok().filter(|ours| ours.nlink() > 0);
        // A link is followed, as by `open`.
        let there = fs::metadata(&self.path).ok();
        let id = |of: fs::Metadata| (of.dev(), of.ino());
        ours.map(id).is_some_and(|ours| there.map(id) == Some(ours))
    }

    /// The locked file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path of the locked file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file when the lock is dropped, while it is still held.
    #[must_use]
    pub fn removed_when_dropped(mut self) -> Self {
        self.remove = true;
        self
    }

    /// Releases the lock even if a child process has inherited the open file; dropping would not,
    /// as the child still holds the file.
    pub fn release(self) {
        // Fails only where there is no flock, and nothing to unlock.
        let _ = self.file.unlock();
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.remove && self.is_current() {
            // A file that stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn wait(
    attempt: &dyn Fn() -> Result<Option<Lock>, Error>,
    keep_waiting: &mut dyn FnMut(Duration) -> bool,
) -> Result<Option<Lock>, Error> {
    let begin = Instant::now();
    loop {
        let lock = attempt()?;
        if lock.is_some() || !keep_waiting(begin.elapsed()) {
            return Ok(lock);
        }
        thread::sleep(PATIENCE);
    }
}

fn flock(file: &File, mode: LockMode) -> io::Result<bool> {
    let locked = match mode {
        LockMode::Exclusive => file.try_lock(),
        LockMode::Shared => file.try_lock_shared(),
    };
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// Whether the error says that the file system has no flock. NFS refuses with EBADF a file that is
/// not open for writing, such as a folder.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOLCK | Errno::BADF)
    )
}

/// Keeps waiting for a lock in `dir` until `cancel` is set, and tells `waiting` once of a wait of
/// [`SAY_AFTER`]: what [`Lock::wait_at`] calls before each try.
pub fn keep_waiting<'a>(
    dir: &'a Path,
    waiting: &'a dyn Fn(&Path),
    cancel: &'a AtomicBool,
) -> impl FnMut(Duration) -> bool + 'a {
    let mut told = false;
    move |waited| {
        if waited >= SAY_AFTER && !told {
            told = true;
            waiting(dir);
        }
        !cancel.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use LockMode::{Exclusive, Shared};

    use super::*;

    type Flock = dyn Fn(&File, LockMode) -> io::Result<bool> + Sync;

    fn open(path: &Path) -> File {
        File::options().create(true).truncate(false).read(true).write(true).open(path).unwrap()
    }

    fn lock(back_end: &Flock, path: &Path, mode: LockMode) -> Option<Lock> {
        Lock::try_with(back_end, Times::default(), open(path), path, mode).unwrap()
    }

    /// Runs `check` with flock, and with each answer of a file system without.
    fn both(check: &dyn Fn(&Flock, &Path)) {
        let dir = || tempfile::tempdir().unwrap();
        check(&flock, &dir().path().join("f"));
        for errno in [Errno::NOSYS, Errno::OPNOTSUPP, Errno::INVAL, Errno::NOLCK, Errno::BADF] {
            check(&move |_: &File, _| Err(errno.into()), &dir().path().join("f"));
        }
    }

    #[test]
    fn an_exclusive_lock_is_held_by_one_until_it_is_dropped() {
        both(&|back_end, path| {
            let held = lock(back_end, path, Exclusive).unwrap();
            assert!(lock(back_end, path, Exclusive).is_none());
            assert!(lock(back_end, path, Shared).is_none());
            drop(held);
            drop(lock(back_end, path, Exclusive).unwrap());
            lock(back_end, path, Exclusive).unwrap().release();
            drop(lock(back_end, path, Shared).unwrap());
        });
    }

    #[test]
    fn a_shared_lock_keeps_out_only_exclusive_ones() {
        both(&|back_end, path| {
            let first = lock(back_end, path, Shared).unwrap();
            let second = lock(back_end, path, Shared).unwrap();
            assert!(lock(back_end, path, Exclusive).is_none());
            drop(first);
            assert!(lock(back_end, path, Exclusive).is_none());
            drop(second);
            drop(lock(back_end, path, Exclusive).unwrap());
        });
    }

    #[test]
    fn nothing_stays_beside_a_lock_that_was_dropped() {
        both(&|back_end, path| {
            drop(lock(back_end, path, Exclusive).unwrap());
            drop(lock(back_end, path, Shared).unwrap().removed_when_dropped());
            assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        });
    }

    #[test]
    fn two_are_never_inside() {
        both(&|back_end, path| {
            let (inside, entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let mut left = 5;
                        while left > 0 {
                            let Some(held) = lock(back_end, path, Exclusive) else {
                                thread::sleep(Duration::from_millis(1));
                                continue;
                            };
                            assert_eq!(inside.fetch_add(1, SeqCst), 0);
                            entered.fetch_add(1, SeqCst);
                            thread::sleep(Duration::from_micros(300));
                            inside.fetch_sub(1, SeqCst);
                            drop(held);
                            left -= 1;
                        }
                    });
                }
            });
            assert_eq!(entered.into_inner(), 20);
        });
    }

    #[test]
    fn a_removed_or_replaced_file_is_not_current() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let held = Lock::try_at(&path, Exclusive).unwrap().unwrap();
        assert!(held.is_current());
        fs::remove_file(&path).unwrap();
        assert!(!held.is_current());
        fs::write(&path, "another").unwrap();
        assert!(!held.is_current());
        // A file that the lock does not hold is not removed.
        drop(held.removed_when_dropped());
        assert!(path.exists());
    }

    #[test]
    fn a_file_behind_a_link_is_current_until_the_link_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("f"), dir.path().join("link"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let held = Lock::try_at(&link, Exclusive).unwrap().unwrap();
        assert!(held.is_current());
        fs::remove_file(&link).unwrap();
        assert!(!held.is_current());
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert!(!held.is_current());
    }

    #[test]
    fn who_waits_is_asked_and_may_give_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let held = Lock::try_at(&path, Exclusive).unwrap().unwrap();
        let mut asked = 0;
        let mut twice = |_| {
            asked += 1;
            asked < 2
        };
        assert!(Lock::wait_at(&path, Exclusive, &mut twice).unwrap().is_none());
        assert_eq!(asked, 2);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                drop(held);
            });
            assert!(Lock::wait_at(&path, Exclusive, &mut |_| true).unwrap().is_some());
        });
    }

    #[test]
    fn who_waits_for_an_open_file_may_find_its_name_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let held = Lock::try_at(&path, Exclusive).unwrap().unwrap();
        let file = open(&path);
        let mut waits = 0;
        let mut held = Some(held.removed_when_dropped());
        let got = Lock::wait_on(&file, &path, Exclusive, &mut |_| {
            waits += 1;
            held = None;
            true
        });
        assert!(!got.unwrap().unwrap().is_current());
        assert_eq!(waits, 1);
    }

    #[test]
    fn a_folder_can_be_locked_too() {
        both(&|back_end, path| {
            fs::create_dir(path).unwrap();
            let on = || {
                let folder = File::open(path).unwrap();
                let inside = path.join(".lock");
                Lock::try_with(back_end, Times::default(), folder, &inside, Exclusive).unwrap()
            };
            let held = on().unwrap();
            assert!(on().is_none());
            drop(held);
            assert!(on().is_some());
        });
    }

    #[test]
    fn other_faults_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let fails = |_: &File, _| Err(Errno::IO.into());
        let result = Lock::try_with(&fails, Times::default(), open(&path), &path, Exclusive);
        let text = result.unwrap_err().to_string();
        assert!(text.starts_with(&format!("cannot lock `{}`: ", path.display())), "{text}");
        let missing = dir.path().join("no/f");
        let error = Lock::try_at(&missing, Exclusive).unwrap_err();
        assert_eq!((error.action, error.kind()), ("open", io::ErrorKind::NotFound));
    }

    #[test]
    fn a_long_wait_is_told_once_and_can_be_cancelled() {
        let (dir, cancel, told) = (Path::new("d"), AtomicBool::new(false), Cell::new(0));
        let waiting = |_: &Path| told.set(told.get() + 1);
        let mut keeps_waiting = keep_waiting(dir, &waiting, &cancel);
        for (times, expected) in [(0, 0), (1, 1), (2, 1)] {
            assert!(keeps_waiting(SAY_AFTER * times));
            assert_eq!(told.get(), expected);
        }
        cancel.store(true, Ordering::Relaxed);
        assert!(!keeps_waiting(SAY_AFTER));
    }
}
