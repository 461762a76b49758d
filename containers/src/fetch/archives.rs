//! A folder of archives, named by their digests.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use gular_files::{Lock, LockMode, keep_waiting, persist_read_only};

use super::{Stream, TransportFault};
use crate::hash_file::feed;
use crate::{Error, Package, Result, Sha256, StreamSha256};

/// A transfer resumes at a multiple of this: streams can begin only at such offsets.
const BLOCK: u64 = 1 << 20;

/// The folders where fetched archives are kept and looked for.
#[derive(Debug, Clone)]
pub struct Archives {
    /// The cache, made when something comes into it.
    pub dir: PathBuf,
    /// Folders with files by their own names; looked into first.
    pub vendor: Vec<PathBuf>,
    /// Whether nothing may be fetched.
    pub offline: bool,
}

/// Callbacks that follow the fetch of a file.
#[derive(Clone, Copy)]
pub struct Told<'a> {
    /// Is called with the number of bytes that are on this machine.
    pub progress: &'a dyn Fn(u64),
    /// The folder, once another process has been filling this file in it for some time.
    pub waiting: &'a dyn Fn(&Path),
}

impl Told<'_> {
    /// Callbacks that do nothing.
    pub const NOBODY: Told<'static> = Told { progress: &|_| (), waiting: &|_| () };
}

impl Archives {
    /// Returns the file with this digest: from a vendor folder, the cache, or fetched.
    /// `told.progress` is called with the number of the file's bytes that are on this machine.
    ///
    /// A file that exists already is read whole; a damaged one in the cache is fetched again. The
    /// next transfer uses what a stopped one left.
    ///
    /// # Errors
    /// [`Error::Offline`], [`Error::Fetch`] with what each place said,
    /// [`Error::Digest`] for a file of a vendor folder, [`Error::Io`], [`Error::Cancelled`].
    pub fn get(
        &self,
        package: &Package,
        stream: &dyn Stream,
        told: Told<'_>,
        cancel: &AtomicBool,
    ) -> Result<PathBuf> {
        let progress = told.progress;
        let file_name = package.file_name().ok_or_else(|| {
            let path = package.urls.first().unwrap_or(&package.name).clone();
            Error::Path { path, reason: "its URL does not end in a file name" }
        })?;
        let wanted = Wanted { package, stream, progress, cancel };
        for dir in &self.vendor {
            let path = dir.join(&file_name);
            if path.is_file() {
                return wanted.check(&path).map(|()| path);
            }
        }
        let path = self.dir.join(package.sha256.to_string());
        if has_len(&path, package.bytes) {
            match wanted.check(&path) {
                Err(Error::Digest { .. }) if !self.offline => {
                    fs::remove_file(&path).map_err(Error::io("remove", &path))?;
                }
                checked => return checked.map(|()| path),
            }
        }
        if self.offline {
            return Err(Error::Offline { name: file_name });
        }
        fs::create_dir_all(&self.dir).map_err(Error::io("create", &self.dir))?;
        let Some(mut part) = Part::open(&self.dir, &path, package, told, cancel)? else {
            progress(package.bytes);
            return Ok(path);
        };
        let (mut said, mut hint, mut passes) = (Vec::new(), None, false);
        for url in &package.urls {
            match part.fill(url, &wanted) {
                Ok(()) => {
                    part.finish(&path)?;
                    return Ok(path);
                }
                Err(Fill::Fatal(error)) => return Err(error),
                Err(Fill::Next(Said { reason, hint: helps, passes: once })) => {
                    said.push(reason);
                    hint = hint.or(helps);
                    passes |= once;
                }
            }
        }
        if said.is_empty() {
            said.push("no URL of it is known".to_owned());
        }
        Err(Error::Fetch { name: file_name, reason: said.join("; "), hint, passes })
    }
}

impl Archives {
    /// A document with this digest, of at most `limit` bytes, that [`keep`](Self::keep) kept or
    /// a vendor folder has.
    pub(crate) fn kept(&self, sha256: Sha256, limit: u64) -> Option<Vec<u8>> {
        let name = sha256.to_string();
        self.vendor.iter().chain([&self.dir]).find_map(|dir| {
            let file = File::open(dir.join(&name)).ok()?;
            let mut bytes = Vec::new();
            file.take(limit).read_to_end(&mut bytes).ok()?;
            (Sha256::of(&bytes) == sha256).then_some(bytes)
        })
    }

    /// Keeps a document by its digest.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn keep(&self, bytes: &[u8]) -> Result<()> {
        fs::create_dir_all(&self.dir).map_err(Error::io("create", &self.dir))?;
        Ok(gular_files::write_file(&self.dir.join(Sha256::of(bytes).to_string()), bytes)?)
    }
}

/// A file that is fetched, and who follows that.
struct Wanted<'a> {
    package: &'a Package,
    stream: &'a dyn Stream,
    progress: &'a dyn Fn(u64),
    cancel: &'a AtomicBool,
}

impl Wanted<'_> {
    /// Refuses a file that is not the package.
    fn check(&self, path: &Path) -> Result<()> {
        let Package { sha256: expected, bytes, .. } = *self.package;
        let mut file = File::open(path).map_err(Error::io("open", path))?;
        let found = file.metadata().map_err(Error::io("read", path))?.len();
        if found != bytes {
            let reason = format!("it has {found} bytes, expected {bytes}");
            return Err(Error::Archive { path: path.display().to_string(), reason });
        }
        let mut hasher = StreamSha256::default();
        feed(&mut hasher, &mut file, path, found, self.progress, self.cancel)?;
        match hasher.finish() {
            found if found == expected => Ok(()),
            found => Err(Error::Digest { path: path.display().to_string(), found, expected }),
        }
    }
}

fn has_len(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == bytes)
}

/// A file on its way; ours alone while it is open.
struct Part {
    file: File,
    path: PathBuf,
    _lock: Lock,
}

/// Why an address gave no file.
enum Fill {
    /// The address failed, but another one may work.
    Next(Said),
    /// No address will work.
    Fatal(Error),
}

/// What an address answered instead of the file.
struct Said {
    reason: String,
    hint: Option<String>,
    passes: bool,
}

impl Said {
    fn new(reason: String) -> Self {
        Self { reason, hint: None, passes: false }
    }
}

impl Part {
    /// Waits while another process writes it; `None` when that one brought it to its end.
    fn open(
        dir: &Path,
        whole: &Path,
        package: &Package,
        told: Told<'_>,
        cancel: &AtomicBool,
    ) -> Result<Option<Self>> {
        let path = dir.join(format!("{}.part", package.sha256));
        let mut keep_waiting = keep_waiting(dir, told.waiting, cancel);
        let lock = Lock::wait_at(&path, LockMode::Exclusive, &mut keep_waiting)?;
        let lock = lock.ok_or(Error::Cancelled)?;
        if has_len(whole, package.bytes) {
            drop(lock.removed_when_dropped());
            return Ok(None);
        }
        let file = lock.file().try_clone().map_err(Error::io("open", &path))?;
        Ok(Some(Self { file, path, _lock: lock }))
    }

    /// Fills the rest from `url`, and checks the whole.
    fn fill(&mut self, url: &str, wanted: &Wanted<'_>) -> Result<(), Fill> {
        let expected = wanted.package.sha256;
        loop {
            let (from, found) = self.attempt(url, wanted)?;
            if found == expected {
                return Ok(());
            }
            self.file.set_len(0).map_err(|e| self.failed("write", e))?;
            // If bytes of an earlier transfer were used, those may be the wrong ones.
            if from == 0 {
                let reason = format!("{url} has SHA-256 {found}, expected {expected}");
                let hint = "the server's copy is damaged or was changed: use another mirror or registry, or, if the file was changed on purpose, make the lock file again";
                let hint = Some(hint.to_owned());
                return Err(Fill::Next(Said { hint, ..Said::new(reason) }));
            }
        }
    }

    /// Returns where the transfer continued, and the digest of the whole file.
    fn attempt(&mut self, url: &str, wanted: &Wanted<'_>) -> Result<(u64, Sha256), Fill> {
        let Wanted { package, stream, progress, cancel } = *wanted;
        let there = self.file.metadata().map_err(|e| self.failed("read", e))?.len();
        let from = match there {
            whole if whole == package.bytes => whole,
            cut if cut < package.bytes => cut - cut % BLOCK,
            _ => 0,
        };
        if there != from {
            self.file.set_len(from).map_err(|e| self.failed("write", e))?;
        }
        self.file.seek(SeekFrom::Start(0)).map_err(|e| self.failed("read", e))?;
        let mut hasher = StreamSha256::default();
        feed(&mut hasher, &mut self.file, &self.path, from, progress, cancel)
            .map_err(Fill::Fatal)?;
        let mut done = from;
        if from < package.bytes {
            let mut sink = |bytes: &[u8]| {
                if cancel.load(Ordering::Relaxed) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                done += bytes.len() as u64;
                if done > package.bytes {
                    let reason = format!("the server sent more than {} bytes", package.bytes);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
                hasher.update(bytes);
                self.file.write_all(bytes)?;
                progress(done);
                Ok(())
            };
            let streamed = stream.stream(url, package.bytes, from, &mut sink);
            match streamed {
                Ok(()) => {}
                Err(_) if cancel.load(Ordering::Relaxed) => {
                    return Err(Fill::Fatal(Error::Cancelled));
                }
                Err(TransportFault::Cancelled) => return Err(Fill::Fatal(Error::Cancelled)),
                Err(TransportFault::Sink(source))
                    if source.kind() != io::ErrorKind::InvalidData =>
                {
                    return Err(self.failed("write", source));
                }
                Err(TransportFault::Failed { message: reason, hint, passes }) => {
                    return Err(Fill::Next(Said { reason, hint, passes }));
                }
                Err(other) => return Err(Fill::Next(Said::new(format!("{url}: {other}")))),
            }
            if done != package.bytes {
                let reason = format!("{url} sent only {done} of {} bytes", package.bytes);
                return Err(Fill::Next(Said { passes: true, ..Said::new(reason) }));
            }
        }
        Ok((from, hasher.finish()))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Fill {
        Fill::Fatal(Error::io(action, &self.path)(source))
    }

    /// Moves the part to its final name.
    fn finish(self, whole: &Path) -> Result<()> {
        // Read-only: nobody looks at its bytes again, and vendor folders may link to it.
        Ok(persist_read_only(&self.file, &self.path, whole)?)
    }
}
