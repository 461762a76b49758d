//! One file on the disk, to which checked blocks are appended.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gular_bundle::Digest;
use gular_files::{
    Lock, LockMode, TEMP_PREFIX, WriteBack, is_unreadable, keep_waiting, persist_read_only,
};

use crate::{Error, Watch};

/// Writing back to the disk is requested each time this many bytes were written, while more arrive.
const WRITE_BACK_BYTES: u64 = 64 << 20;

/// The longest name that file systems accept.
const MAX_NAME_BYTES: usize = 255;

/// A file under its temporary name, which a later run finds again.
pub(crate) struct Partial {
    file: File,
    temp: PathBuf,
    to: PathBuf,
    /// Bytes that are known to be right.
    sound: u64,
    asked: u64,
    write_back: Option<WriteBack>,
    /// Whether the file has its final name.
    finished: bool,
}

impl Partial {
    /// Returns the temporary name of `to`.
    pub(crate) fn temp_of(to: &Path) -> PathBuf {
        beside(to, "fetch")
    }

    /// Creates the file, so that others count it; it stays, even if nothing is stored in it.
    pub(crate) fn reserve(to: &Path) -> Result<(), Error> {
        Self::create(&Self::temp_of(to)).map(drop)
    }

    fn create(temp: &Path) -> Result<File, Error> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.open(temp).map_err(|e| Error::io("open", temp, e))
    }

    /// Opens the file that an earlier run left of `to`, or creates an empty file.
    pub(crate) fn open(to: &Path) -> Result<Self, Error> {
        let temp = Self::temp_of(to);
        let file = Self::create(&temp)?;
        Ok(Self {
            file,
            temp,
            to: to.to_owned(),
            sound: 0,
            asked: 0,
            write_back: None,
            finished: false,
        })
    }

    /// Accepts the blocks of `block_bytes` that `accepts` takes, from the first on, and cuts off
    /// the rest. Returns the number of accepted blocks. `step` gets the number of bytes of each,
    /// and returns whether to continue.
    pub(crate) fn keep_sound(
        &mut self,
        len: u64,
        block_bytes: usize,
        accepts: &dyn Fn(u64, &[u8]) -> bool,
        step: &dyn Fn(u64) -> bool,
    ) -> Result<u64, Error> {
        let io = |e| Error::io("read", &self.temp, e);
        let found = self.file.metadata().map_err(io)?.len().min(len);
        let mut block = vec![0; block_bytes];
        let mut number = 0;
        while self.sound < found {
            let size = (len - self.sound).min(block_bytes as u64);
            if found - self.sound < size {
                break;
            }
            let part = block.get_mut(..usize::try_from(size).unwrap_or(0)).unwrap_or_default();
            match self.file.read_exact_at(part, self.sound) {
                Ok(()) if accepts(number, part) => {}
                Err(e) if !is_unreadable(&e) => return Err(io(e)),
                Ok(()) | Err(_) => break,
            }
            number += 1;
            self.sound += size;
            if !step(size) {
                return Err(gular_pelican::Error::Cancelled.into());
            }
        }
        self.file.set_len(self.sound).map_err(|e| Error::io("cut", &self.temp, e))?;
        Ok(number)
    }

    /// Appends checked bytes to the file.
    pub(crate) fn write(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, position)?;
        self.sound = position + bytes.len() as u64;
        if self.sound - self.asked >= WRITE_BACK_BYTES {
            self.asked = self.sound;
            if self.write_back.is_none() {
                self.write_back = Some(WriteBack::start(&self.file)?);
            }
            if let Some(write_back) = &self.write_back {
                write_back.request();
            }
        }
        Ok(())
    }

    /// Discards everything that was written.
    pub(crate) fn restart(&mut self) -> io::Result<()> {
        (self.sound, self.asked) = (0, 0);
        self.file.set_len(0)
    }

    /// Makes the file read-only and gives it its final name.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        if let Some(write_back) = self.write_back.take() {
            write_back.finish().map_err(|e| Error::io("write", &self.temp, e))?;
        }
        persist_read_only(&self.file, &self.temp, &self.to)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Partial {
    /// Removes the file if nothing was stored in it.
    fn drop(&mut self) {
        if self.file.metadata().is_ok_and(|found| found.len() == 0) && !self.finished {
            // It is only litter.
            let _ = fs::remove_file(&self.temp);
        }
    }
}

/// Returns the path of a temporary file beside `to`, for a purpose. Every run finds it again.
pub(crate) fn beside(to: &Path, purpose: &str) -> PathBuf {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let temp = format!("{TEMP_PREFIX}{purpose}-{name}");
    if temp.len() <= MAX_NAME_BYTES {
        return to.with_file_name(temp);
    }
    let digest = Digest::of(name.as_bytes());
    to.with_file_name(format!("{TEMP_PREFIX}long-{purpose}-{}", digest.hex()))
}

/// Checks that `dir`, which may not exist yet, has space for `needed` bytes, as far as its file
/// system reports it.
///
/// # Errors
/// [`Error::NoSpace`].
pub(crate) fn check_space(dir: &Path, needed: u64) -> Result<(), Error> {
    match gular_files::free(dir).map(|free| free.bytes) {
        Ok(free) if free < needed => {
            Err(Error::NoSpace { dir: dir.display().to_string(), needed, free })
        }
        _ => Ok(()),
    }
}

/// The lock of a folder: only its holder writes to the folder, and others wait. Its holder removes
/// the lock's file when done.
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "held until it is dropped")] Lock);

impl FolderLock {
    /// Waits for the lock of `dir`.
    pub fn wait(dir: &Path, watch: Watch<'_>) -> Result<Self, Error> {
        let path = dir.join(format!("{TEMP_PREFIX}fetch.lock"));
        let mut keep_waiting = keep_waiting(dir, watch.waiting, watch.cancel);
        let gate = Gate::wait(dir, LockMode::Exclusive, &mut keep_waiting)?;
        let _gate = Gate(gate.0.removed_when_dropped());
        let lock = Lock::wait_at(&path, LockMode::Exclusive, &mut keep_waiting)?;
        let lock = lock.ok_or(gular_pelican::Error::Cancelled)?;
        Ok(Self(lock.removed_when_dropped()))
    }

    /// Takes the gate of `dir`, unless another process holds it; for callers that try its lock now
    /// and then.
    pub(super) fn gate(dir: &Path) -> Result<Option<Gate>, Error> {
        let lock = Lock::try_at(&Gate::path(dir), LockMode::Exclusive)?;
        Ok(lock.map(|lock| Gate(lock.removed_when_dropped())))
    }

    /// Takes the lock of `dir`, unless another process has it.
    pub(crate) fn attempt(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(format!("{TEMP_PREFIX}fetch.lock"));
        let lock = Lock::try_at(&path, LockMode::Exclusive)?;
        Ok(lock.map(|lock| Self(lock.removed_when_dropped())))
    }

    /// Waits until no process writes to the whole folder `dir`, and keeps such processes from it;
    /// several processes can share the lock.
    pub(crate) fn share(
        dir: &Path,
        keep_waiting: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<Self, Error> {
        let path = dir.join(format!("{TEMP_PREFIX}fetch.lock"));
        let _gate = Gate::wait(dir, LockMode::Shared, keep_waiting)?;
        let lock = Lock::wait_at(&path, LockMode::Shared, keep_waiting)?;
        lock.map(Self).ok_or_else(Error::cancelled)
    }
}

/// The lock that every process takes before the lock of a folder. A process that wants the folder
/// alone keeps it while waiting: otherwise new sharers could take the folder's lock without end.
#[derive(Debug)]
pub(super) struct Gate(Lock);

impl Gate {
    fn path(dir: &Path) -> PathBuf {
        dir.join(format!("{TEMP_PREFIX}gate.lock"))
    }

    fn wait(
        dir: &Path,
        mode: LockMode,
        keep_waiting: &mut dyn FnMut(Duration) -> bool,
    ) -> Result<Self, Error> {
        let lock = Lock::wait_at(&Self::path(dir), mode, keep_waiting)?;
        lock.map(Self).ok_or_else(Error::cancelled)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Instant;

    use gular_files::SAY_AFTER;

    use super::*;

    #[test]
    fn a_reserved_file_stays_until_it_is_opened_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("shard");
        Partial::reserve(&to).unwrap();
        assert!(Partial::temp_of(&to).exists());
        drop(Partial::open(&to).unwrap());
        assert!(!Partial::temp_of(&to).exists());
    }

    #[test]
    fn a_name_of_any_length_has_a_temporary_one_that_is_no_longer() {
        let dir = Path::new("/d");
        let temp = |name: &str| {
            let temp = beside(&dir.join(name), "fetch");
            assert_eq!(temp.parent(), Some(dir));
            temp.file_name().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(temp("x"), ".gular-tmp-fetch-x");
        let long = ["a".repeat(239), "a".repeat(240), "a".repeat(255), "\u{6c34}".repeat(85)];
        let temps: Vec<String> = long.iter().map(|name| temp(name)).collect();
        for (i, temp) in temps.iter().enumerate() {
            assert!(temp.len() <= 255 && temp.starts_with(TEMP_PREFIX), "{temp}");
            assert!(!temps[i + 1..].contains(temp), "{temp}");
        }
    }

    #[test]
    fn who_waits_for_long_is_told_once_for_whom() {
        let dir = tempfile::tempdir().unwrap();
        let cancel = AtomicBool::new(false);
        let held = FolderLock::wait(dir.path(), Watch::silent(&cancel)).unwrap();
        let told = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(SAY_AFTER + Duration::from_secs(1));
                drop(held);
            });
            let waiting = |dir: &Path| told.lock().unwrap().push(dir.to_owned());
            let watch = Watch { waiting: &waiting, ..Watch::silent(&cancel) };
            FolderLock::wait(dir.path(), watch).unwrap();
        });
        assert_eq!(told.into_inner().unwrap(), [dir.path()]);
    }

    #[test]
    fn blocks_that_are_sound_are_kept_and_the_rest_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("f");
        let check = |bytes: &[u8], len: u64, expected: u64| {
            fs::write(Partial::temp_of(&to), bytes).unwrap();
            let mut partial = Partial::open(&to).unwrap();
            let accepts = |_: u64, block: &[u8]| block.iter().all(|b| *b == 7);
            assert_eq!(
                partial.keep_sound(len, 4, &accepts, &|_| true).unwrap(),
                expected,
                "{bytes:?}"
            );
            let left = fs::metadata(Partial::temp_of(&to)).unwrap().len();
            assert_eq!(left, (expected * 4).min(len));
        };
        check(&[], 10, 0);
        check(&[7; 3], 10, 0);
        check(&[7; 4], 10, 1);
        check(&[7, 7, 7, 7, 7, 0, 7, 7, 7, 7], 10, 1);
        check(&[7; 10], 10, 3);
        check(&[7; 20], 10, 3);
        check(&[0; 10], 10, 0);
    }

    #[test]
    fn looking_at_what_is_there_can_be_cancelled_and_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("f");
        fs::write(Partial::temp_of(&to), [7; 40]).unwrap();
        let mut partial = Partial::open(&to).unwrap();
        let seen = std::cell::Cell::new(0);
        let step = |n: u64| {
            seen.set(seen.get() + n);
            seen.get() < 8
        };
        let error = partial.keep_sound(100, 4, &|_, _| true, &step).unwrap_err();
        assert!(matches!(error, Error::Pelican(gular_pelican::Error::Cancelled)), "{error}");
        assert_eq!(seen.get(), 8);
        assert_eq!(fs::metadata(Partial::temp_of(&to)).unwrap().len(), 40);
    }

    #[test]
    fn a_finished_file_has_its_name_and_is_read_only() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("f");
        let mut partial = Partial::open(&to).unwrap();
        partial.write(0, b"abc").unwrap();
        partial.finish().unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"abc");
        assert_eq!(fs::metadata(&to).unwrap().mode() & 0o777, 0o444);
        assert!(!Partial::temp_of(&to).exists());
    }

    #[test]
    fn who_wants_a_folder_alone_gets_it_between_those_who_share_it() {
        let dir = tempfile::tempdir().unwrap();
        let (cancel, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let since = Instant::now();
        // The limit is longer than the test takes if they let others in.
        let most = Duration::from_secs(10);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(SeqCst) && since.elapsed() < most {
                        let held = FolderLock::share(dir.path(), &mut |_| true).unwrap();
                        std::thread::sleep(Duration::from_millis(20));
                        drop(held);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(50));
            let lock = FolderLock::wait(dir.path(), Watch::silent(&cancel)).unwrap();
            done.store(true, SeqCst);
            drop(lock);
        });
        assert!(since.elapsed() < most, "it came when they were done");
    }

    #[test]
    fn one_holds_the_lock_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let (go_on, stop) = (AtomicBool::new(false), AtomicBool::new(true));
        let held = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let lock = FolderLock::wait(dir.path(), Watch::silent(&go_on)).unwrap();
                    assert_eq!(held.fetch_add(1, SeqCst), 0);
                    std::thread::sleep(Duration::from_millis(5));
                    held.fetch_sub(1, SeqCst);
                    drop(lock);
                });
            }
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let lock = FolderLock::wait(dir.path(), Watch::silent(&go_on)).unwrap();
        let error = FolderLock::wait(dir.path(), Watch::silent(&stop)).unwrap_err();
        assert!(matches!(error, Error::Pelican(gular_pelican::Error::Cancelled)), "{error}");
        drop(lock);
    }
}
