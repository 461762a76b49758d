//! A lock for file systems without flock: a file that only one process can create.
//!
//! ```text
//! NAME                what is locked
//! NAME.held           made by who holds it alone; one line says who that is
//! NAME.shared-WHO     one of each that holds it with others
//! NAME.held.taking    made for a moment by who removes a `NAME.held`
//! ```
//!
//! A holder makes its file first and looks for the others then, so of two that come
//! at once at most one gets the lock. A holder touches its file every [`Times::beat`].
//! One that was not touched for [`Times::stale`] is nobody's, as is one whose process
//! is gone from this machine. So a process that is stopped for longer loses its lock.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW};

use crate::LockMode;
use crate::lock_owner::Who;

/// Longest line of a lock file that is read.
const MAX_LINE_BYTES: u64 = 4096;
/// Most attempts to remove a file, which is possible only with the file NAME.held.taking.
const TRIES: usize = 100;

/// How often a lock is touched, and when it expires.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Time between two touches.
    pub(crate) beat: Duration,
    /// Time without a touch after which the lock is nobody's.
    pub(crate) stale: Duration,
}

impl Default for Times {
    /// A beat may come late by a minute: a server that is restarted, a page that is
    /// swapped in. Longer, and who comes after a killed holder waits in vain.
    fn default() -> Self {
        Self { beat: Duration::from_secs(5), stale: Duration::from_secs(60) }
    }
}

/// A held lock.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    who: Who,
    mode: LockMode,
    stale: Duration,
    heart: Option<(Sender<()>, JoinHandle<()>)>,
}

impl LockFile {
    /// Locks what is called `path`; `None` while another holds it.
    pub(crate) fn try_beside(
        path: &Path,
        mode: LockMode,
        times: Times,
    ) -> io::Result<Option<Self>> {
        let held = with_suffix(path, ".held");
        match mode {
            LockMode::Exclusive => {
                if is_taken(&held, times.stale)? {
                    return Ok(None);
                }
                let Some(ours) = Self::create(held, mode, times)? else { return Ok(None) };
                for shared in shared_beside(path)? {
                    if is_alive(&shared, times.stale)? {
                        return Ok(None);
                    }
                    // Only one holder used this name, so no other file can have it by now.
                    gone(fs::remove_file(&shared))?;
                }
                Ok(Some(ours))
            }
            LockMode::Shared => {
                static NEXT: AtomicU64 = AtomicU64::new(0);
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let nanos = since.map_or(0, |since| since.as_nanos());
                let suffix = format!(".shared-{}-{number}-{nanos:x}", std::process::id());
                let ours = Self::create(with_suffix(path, &suffix), mode, times)?;
                // A process of another host may have the same name; the next attempt uses another.
                let Some(ours) = ours else { return Ok(None) };
                Ok(if is_taken(&held, times.stale)? { None } else { Some(ours) })
            }
        }
    }

    /// Makes the file; `None` if it exists already.
    fn create(path: PathBuf, mode: LockMode, times: Times) -> io::Result<Option<Self>> {
        let mut file = match File::create_new(&path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(None),
            file => file?,
        };
        let who = Who::of_this_lock();
        let mut ours = Self { path, who, mode, stale: times.stale, heart: None };
        file.write_all(ours.who.line().as_bytes())?;
        let (stop, stopped) = channel();
        let beat = move || {
            while stopped.recv_timeout(times.beat) == Err(RecvTimeoutError::Timeout) {
                touch(&file);
            }
        };
        let thread = thread::Builder::new().name("lock".to_owned()).spawn(beat)?;
        ours.heart = Some((stop, thread));
        Ok(Some(ours))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.heart.take() {
            drop(stop);
            let _ = thread.join();
        }
        // A file that cannot be removed becomes stale.
        let _ = match self.mode {
            LockMode::Shared => fs::remove_file(&self.path),
            // Only a file with this line is removed: if this process was stopped for long, another
            // may hold the lock.
            LockMode::Exclusive => {
                let is_ours = |_, line: &str| line == self.who.line();
                remove_if(&self.path, self.stale, &is_ours).map(drop)
            }
        };
    }
}

/// Touches by the clock of the file's server, which need not be ours.
fn touch(file: &File) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    // If one touch fails, the next may succeed; if many fail, the lock is lost.
    let _ = rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: now });
}

/// Whether somebody holds `held`; if nobody does, it is removed.
fn is_taken(held: &Path, stale: Duration) -> io::Result<bool> {
    if !held.try_exists()? {
        return Ok(false);
    }
    if is_alive(held, stale)? {
        return Ok(true);
    }
    Ok(!remove_if(held, stale, &|age, line| !may_live(age, line, stale))?)
}

/// Removes `held` if `says` so of its age and line, while nobody else can remove it;
/// whether it is gone.
fn remove_if(
    held: &Path,
    stale: Duration,
    says: &dyn Fn(Duration, &str) -> bool,
) -> io::Result<bool> {
    let taking = with_suffix(held, ".taking");
    for _ in 0..TRIES {
        match File::create_new(&taking) {
            Ok(_) => {
                let removed = read(held).and_then(|found| match found {
                    // The file is never removed unread: the next holder may make it at this moment.
                    None => Ok(true),
                    Some((age, line)) if says(age, &line) => {
                        gone(fs::remove_file(held)).map(|()| true)
                    }
                    Some(_) => Ok(false),
                });
                gone(fs::remove_file(&taking))?;
                return removed;
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                // Held for a moment only: an old one is that of a process that was killed.
                if read(&taking)?.is_some_and(|(age, _)| age >= stale) {
                    gone(fs::remove_file(&taking))?;
                }
                thread::sleep(Duration::from_millis(2));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(false)
}

/// Whether the file exists, and its maker may be alive.
fn is_alive(path: &Path, stale: Duration) -> io::Result<bool> {
    Ok(read(path)?.is_some_and(|(age, line)| may_live(age, &line, stale)))
}

/// Whether the process that wrote this line, `age` ago, may be alive.
fn may_live(age: Duration, line: &str, stale: Duration) -> bool {
    // Empty, or cut: it is just being written, or its writer was killed then.
    age < stale && !Who::parse(line).is_some_and(|who| who.is_gone())
}

/// Returns the time since the last touch of the file, and its line, or `None` if the file does not exist.
fn read(path: &Path) -> io::Result<Option<(Duration, String)>> {
    // Opened, which makes an NFS client ask its server.
    let file = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let touched = file.metadata()?.modified()?;
    let mut line = Vec::new();
    match file.take(MAX_LINE_BYTES).read_to_end(&mut line) {
        // The file was removed on an NFS server meanwhile.
        Err(e) if e.kind() == ErrorKind::StaleNetworkFileHandle => return Ok(None),
        read => read?,
    };
    // The time of a new file, for the clock of the server that touched the other.
    let now = tempfile::tempfile_in(crate::folder_of(path))?.metadata()?.modified()?;
    let age = now.duration_since(touched).unwrap_or_default();
    Ok(Some((age, String::from_utf8_lossy(&line).into_owned())))
}

fn shared_beside(path: &Path) -> io::Result<Vec<PathBuf>> {
    let prefix = with_suffix(path, ".shared-");
    let prefix = prefix.file_name().unwrap_or_default().as_encoded_bytes().to_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir(crate::folder_of(path))? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(&prefix) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

#[cfg(test)]
mod tests {
    use LockMode::{Exclusive, Shared};

    use super::*;

    const FAST: Times =
        Times { beat: Duration::from_millis(20), stale: Duration::from_millis(300) };

    fn path(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("f")
    }

    /// Makes a lock file as a holder on another machine would have left it, `age` ago.
    fn foreign(path: &Path, age: Duration) {
        fs::write(path, "gular-lock 1 elsewhere other-boot 4026531836 1 1 0\n").unwrap();
        let then = SystemTime::now() - age;
        File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    }

    #[test]
    fn a_foreign_lock_counts_while_it_is_touched_and_not_for_long_after() {
        for (mode, suffix) in
            [(Exclusive, ".held"), (Shared, ".held"), (Exclusive, ".shared-1-2-3")]
        {
            let dir = tempfile::tempdir().unwrap();
            let path = path(&dir);
            let times = Times::default();
            foreign(&with_suffix(&path, suffix), Duration::from_secs(50));
            assert!(LockFile::try_beside(&path, mode, times).unwrap().is_none(), "{suffix}");
            foreign(&with_suffix(&path, suffix), Duration::from_secs(70));
            let held = LockFile::try_beside(&path, mode, times).unwrap().unwrap();
            drop(held);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{suffix}");
        }
    }

    #[test]
    fn the_lock_of_a_killed_process_is_taken_over_at_once() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let of_child = Who::of_process(child.id());
        for suffix in [".held", ".shared-1-2-3"] {
            let dir = tempfile::tempdir().unwrap();
            let path = path(&dir);
            let file = with_suffix(&path, suffix);
            fs::write(&file, of_child.line()).unwrap();
            let is_free =
                || LockFile::try_beside(&path, Exclusive, Times::default()).unwrap().is_some();
            assert_eq!(is_free(), !is_running(&mut child), "{suffix}");
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(is_free(), "{suffix}");
        }
    }

    fn is_running(child: &mut std::process::Child) -> bool {
        child.try_wait().unwrap().is_none()
    }

    #[test]
    fn a_held_lock_is_touched_and_never_goes_stale() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        let held = LockFile::try_beside(&path, Exclusive, FAST).unwrap().unwrap();
        for _ in 0..6 {
            thread::sleep(Duration::from_millis(100));
            assert!(LockFile::try_beside(&path, Exclusive, FAST).unwrap().is_none());
        }
        drop(held);
        assert!(LockFile::try_beside(&path, Exclusive, FAST).unwrap().is_some());
    }

    #[test]
    fn of_many_who_find_a_stale_lock_one_gets_it() {
        for _ in 0..200 {
            let dir = tempfile::tempdir().unwrap();
            let path = path(&dir);
            foreign(&with_suffix(&path, ".held"), Duration::from_secs(70));
            let got: Vec<_> = thread::scope(|scope| {
                let work = || LockFile::try_beside(&path, Exclusive, Times::default()).unwrap();
                let workers: Vec<_> = (0..8).map(|_| scope.spawn(work)).collect();
                workers.into_iter().filter_map(|worker| worker.join().unwrap()).collect()
            });
            assert_eq!(got.len(), 1);
        }
    }

    #[test]
    fn who_lost_a_lock_does_not_remove_that_of_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        let lost = LockFile::try_beside(&path, Exclusive, Times::default()).unwrap().unwrap();
        fs::remove_file(&lost.path).unwrap();
        let next = LockFile::try_beside(&path, Exclusive, Times::default()).unwrap().unwrap();
        drop(lost);
        assert!(next.path.exists());
        assert!(LockFile::try_beside(&path, Exclusive, Times::default()).unwrap().is_none());
    }

    #[test]
    fn a_killed_taker_does_not_block_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        let held = with_suffix(&path, ".held");
        foreign(&held, Duration::from_secs(70));
        foreign(&with_suffix(&held, ".taking"), Duration::from_secs(70));
        assert!(LockFile::try_beside(&path, Exclusive, Times::default()).unwrap().is_some());
    }

    #[test]
    fn a_line_that_says_nothing_counts_by_its_age() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        let held = with_suffix(&path, ".held");
        fs::write(&held, "").unwrap();
        assert!(LockFile::try_beside(&path, Exclusive, FAST).unwrap().is_none());
        thread::sleep(FAST.stale * 2);
        assert!(LockFile::try_beside(&path, Exclusive, FAST).unwrap().is_some());
    }
}
