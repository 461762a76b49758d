//! A folder of checkpoints: saves, keeps the last few, loads the newest one that is undamaged.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gular_bundle::{Digest, StreamDigest};
use gular_files::{Lock, LockMode, TEMP_PREFIX, sync_folder};
use rustix::fs::{CWD, RenameFlags};
use tempfile::TempDir;

use super::CheckpointError;
use super::record::{CHECKPOINT_VERSION, FORMAT, FileRecord, RECORD_NAME, Record, RecordFault};
use crate::Error;

/// The file that holds the name of the checkpoint saved last.
pub const LATEST_NAME: &str = "latest";

/// The file that holds the name of the best checkpoint, where the training has said which that is.
pub const BEST_NAME: &str = "best";

// A pointer is a folder's name and a line feed.
const MAX_POINTER_BYTES: u64 = 64;

// A record takes some 150 bytes a file; this is thousands of files.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// How long a lock may outlive the training run that held it: a run that is killed takes a moment
/// to end, and a process that is being started has its parent's locks until its program begins.
const ENDING: Duration = Duration::from_secs(1);

/// The checkpoints of one training run on one bundle.
///
/// Only one training run at a time can use them: the folder is locked until this is dropped.
#[derive(Debug)]
pub struct Checkpoints {
    _lock: Lock,
    dir: PathBuf,
    bundle: Digest,
    keep: NonZeroUsize,
}

/// A file of a checkpoint while it is written.
#[derive(Debug)]
pub struct FileWriter {
    file: File,
    path: PathBuf,
    digest: StreamDigest,
    bytes: u64,
}

impl FileWriter {
    fn create(path: PathBuf) -> Result<Self, Error> {
        let file = File::create_new(&path).map_err(|e| Error::io("write", &path, e))?;
        Ok(Self { file, path, digest: StreamDigest::new(), bytes: 0 })
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(|e| Error::io("write", &self.path, e))?;
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn finish(self, name: String) -> Result<FileRecord, Error> {
        self.file.sync_all().map_err(|e| Error::io("write", &self.path, e))?;
        Ok(FileRecord { name, bytes: self.bytes, digest: self.digest.finish() })
    }
}

/// A checkpoint that was read and has the digest it was saved with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The step after which it was saved.
    pub step: u64,
    /// Each file's bytes by name, without `checkpoint.json`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The checkpoint's folder.
    pub path: PathBuf,
    /// Why newer checkpoints were passed over, one sentence each; empty as a rule.
    pub warnings: Vec<String>,
}

impl Checkpoints {
    /// Opens the folder `dir` of checkpoints; creates it if it does not exist.
    ///
    /// After a save the `keep` newest ones stay.
    ///
    /// # Errors
    /// [`CheckpointError::InUse`]; [`Error::Io`], also when nothing can be written there.
    pub fn open(dir: &Path, bundle: Digest, keep: NonZeroUsize) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(|e| Error::io("create the folder", dir, e))?;
        let folder = File::open(dir).map_err(|e| Error::io("open the folder", dir, e))?;
        // The folder itself, so that no file of a lock is left in it; only where its file
        // system locks no folders is there one, and not under a name that a save clears away.
        let path = dir.join(".gular-lock");
        let mut briefly = |waited: Duration| waited < ENDING;
        let lock = Lock::wait_on(&folder, &path, LockMode::Exclusive, &mut briefly)?;
        let in_use = || CheckpointError::InUse { dir: dir.display().to_string() };
        let lock = lock.ok_or_else(in_use)?;
        // If the folder cannot be written to, this fails now, and not after the first epoch.
        temp_folder(dir)?;
        Ok(Self { _lock: lock, dir: dir.to_owned(), bundle, keep })
    }

    /// Saves `files` (name, bytes) as the checkpoint after `step`; see [`Checkpoints::write`].
    ///
    /// # Errors
    /// Those of [`Checkpoints::write`].
    pub fn save(&self, step: u64, files: &[(&str, impl AsRef<[u8]>)]) -> Result<PathBuf, Error> {
        let content = |out: &mut FileWriter, name: &str| {
            let bytes = files.iter().find(|(of, _)| *of == name).map(|(_, bytes)| bytes.as_ref());
            out.write(bytes.unwrap_or_default())
        };
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        self.write(step, &names, content)
    }

    /// Writes the files `names` as the checkpoint after `step`, each as `content` gives its bytes,
    /// piece by piece; returns the checkpoint's folder.
    ///
    /// When this returns, the checkpoint is on disk. Checkpoints of later steps are of a run that
    /// was resumed from an earlier step; they are removed, as are those older than the last `keep`.
    ///
    /// # Errors
    /// [`CheckpointError::FileName`] for a name that is empty, given twice, hidden, not a plain
    /// file name, or `checkpoint.json`; [`CheckpointError::OtherBundle`] and
    /// [`CheckpointError::TooNew`] when such a checkpoint is in the folder; [`Error::Io`], also
    /// when the file system is full; those of `content`. After an error, all earlier checkpoints
    /// are unchanged.
    pub fn write(
        &self,
        step: u64,
        names: &[&str],
        content: impl Fn(&mut FileWriter, &str) -> Result<(), Error>,
    ) -> Result<PathBuf, Error> {
        check_names(names.iter().copied())?;
        self.refuse_strangers()?;
        self.remove_leftovers();
        let temp = temp_folder(&self.dir)?;
        let mut records = Vec::with_capacity(names.len());
        for name in names {
            let mut out = FileWriter::create(temp.path().join(name))?;
            content(&mut out, name)?;
            records.push(out.finish((*name).to_owned())?);
        }
        let record = Record {
            format: FORMAT.into(),
            version: CHECKPOINT_VERSION,
            bundle: self.bundle,
            step,
            files: records,
        };
        let mut out = FileWriter::create(temp.path().join(RECORD_NAME))?;
        out.write(&record.encode())?;
        out.finish(RECORD_NAME.to_owned())?;
        sync_folder(temp.path())?;

        let name = dir_name(step);
        let path = self.dir.join(&name);
        rename_over(temp.path(), &path)?;
        sync_folder(&self.dir)?;
        // If a checkpoint was replaced, it has the temporary name now. It is removed only when the
        // new one is durable.
        drop(temp);
        gular_files::write_file(&self.dir.join(LATEST_NAME), format!("{name}\n").as_bytes())?;
        self.remove_old(step);
        Ok(path)
    }

    /// Loads the newest sound checkpoint, or `None` when there is none at all.
    ///
    /// The step in the folder's name decides what is newest, since a kill between
    /// the two renames of a save leaves `latest` one behind. Every byte is
    /// checked against the record's digests; a damaged checkpoint is passed
    /// over with a warning.
    ///
    /// # Errors
    /// [`CheckpointError::OtherBundle`] and [`CheckpointError::TooNew`] for
    /// the newest undamaged one; [`CheckpointError::NoneSound`] when all are
    /// damaged; [`Error::Io`] when the folder or a file may not be read.
    pub fn load_newest(&self) -> Result<Option<Loaded>, Error> {
        let steps = self.steps()?;
        let mut faults = Vec::new();
        for &step in &steps {
            match self.load(step) {
                Ok(files) => {
                    let path = self.dir.join(dir_name(step));
                    return Ok(Some(Loaded { step, files, path, warnings: faults }));
                }
                Err(Error::Checkpoint(error @ CheckpointError::Damaged { .. })) => {
                    faults.push(error.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        if steps.is_empty() {
            return Ok(None);
        }
        let (dir, count) = (self.dir.display().to_string(), steps.len());
        Err(CheckpointError::NoneSound { dir, count, faults: faults.join("; ") }.into())
    }

    /// Marks the checkpoint after `step`, which was written before, as the best one; it is kept
    /// until another one is marked: it is named by [`BEST_NAME`], and not removed as an old one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn keep_best(&self, step: u64) -> Result<(), Error> {
        let name = dir_name(step) + "\n";
        gular_files::write_file(&self.dir.join(BEST_NAME), name.as_bytes())?;
        // The checkpoint that was the best until now may be removed.
        let saved = self.steps()?.first().copied();
        saved.into_iter().for_each(|saved| self.remove_old(saved));
        Ok(())
    }

    /// The step of the best checkpoint; `None` where none is named.
    fn best(&self) -> io::Result<Option<u64>> {
        use io::ErrorKind::{InvalidData, NotFound};
        match pointed(&self.dir.join(BEST_NAME)) {
            Ok(name) => Ok(name.and_then(|name| step_of(&name))),
            Err(e) if matches!(e.kind(), NotFound | InvalidData) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn load(&self, step: u64) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let record = self.record(step)?;
        files(&self.dir.join(dir_name(step)), record.files)
    }

    /// The record of the checkpoint after `step`: undamaged, of a known version and of this bundle.
    fn record(&self, step: u64) -> Result<Record, Error> {
        let dir = self.dir.join(dir_name(step));
        let path = || dir.display().to_string();
        let record = record_in(&dir)?;
        if record.step != step {
            let reason = format!("its record belongs to step {}", record.step);
            return Err(CheckpointError::Damaged { path: path(), reason }.into());
        }
        let bundle = record.bundle;
        if bundle != self.bundle {
            let (path, expected) = (path(), self.bundle);
            return Err(CheckpointError::OtherBundle { path, expected, found: bundle }.into());
        }
        Ok(record)
    }

    /// Fails when a save would sooner or later replace or remove what another training run,
    /// or a newer release, has here. Damage is nobody's, and does not fail it.
    fn refuse_strangers(&self) -> Result<(), Error> {
        for step in self.steps()? {
            let strange = self.record(step).err().filter(|error| {
                use CheckpointError::{OtherBundle, TooNew};
                matches!(error, Error::Checkpoint(OtherBundle { .. } | TooNew { .. }))
            });
            strange.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Returns the steps of all checkpoints, newest first.
    fn steps(&self) -> Result<Vec<u64>, Error> {
        let error = |e| Error::io("list the folder", &self.dir, e);
        let mut steps = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(error)? {
            let entry = entry.map_err(error)?;
            let step = entry.file_name().to_str().and_then(step_of);
            if entry.file_type().map_err(error)?.is_dir() {
                steps.extend(step);
            }
        }
        steps.sort_unstable_by(|a, b| b.cmp(a));
        Ok(steps)
    }

    /// Removes files that killed saves left. If that fails, the next save tries again.
    fn remove_leftovers(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX) {
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let _ = if is_dir {
                    fs::remove_dir_all(entry.path())
                } else {
                    fs::remove_file(entry.path())
                };
            }
        }
    }

    /// Leaves the `keep` newest up to `saved`, which `latest` names by now.
    ///
    /// A failure here does not fail the save: the checkpoint is there, and the
    /// next save tries again.
    fn remove_old(&self, saved: u64) {
        // While it cannot be read which one is the best, none is removed.
        let (Ok(steps), Ok(best)) = (self.steps(), self.best()) else { return };
        let later = steps.iter().filter(|&&step| step > saved);
        let older = steps.iter().filter(|&&step| step <= saved).skip(self.keep.get());
        let older = older.filter(|&&step| Some(step) != best);
        for &step in later.chain(older) {
            // Renamed first, so that a kill leaves no half-removed checkpoint under its name.
            let name = dir_name(step);
            let doomed = self.dir.join(format!("{TEMP_PREFIX}{name}"));
            if fs::rename(self.dir.join(name), &doomed).is_ok() {
                let _ = fs::remove_dir_all(doomed);
            }
        }
    }
}

/// The checkpoint at `path`, read without a lock, of whatever bundle it is: its own folder, a file
/// that names it ([`LATEST_NAME`], [`BEST_NAME`]), or a folder of checkpoints, whose latest is read.
///
/// # Errors
/// [`CheckpointError::Damaged`], [`CheckpointError::TooNew`], [`Error::Io`].
pub fn read_checkpoint(path: &Path) -> Result<Loaded, Error> {
    let is_folder_of_them = path.is_dir() && !path.join(RECORD_NAME).exists();
    let pointer = if is_folder_of_them { path.join(LATEST_NAME) } else { path.to_owned() };
    let dir = match path.is_dir() && !is_folder_of_them {
        true => path.to_owned(),
        false => {
            let found = pointed(&pointer).map_err(|e| Error::io("read", &pointer, e))?;
            let named = found.filter(|name| step_of(name).is_some()).ok_or_else(|| {
                let reason = "it does not hold the name of a checkpoint".to_owned();
                CheckpointError::Damaged { path: pointer.display().to_string(), reason }
            })?;
            gular_files::folder_of(&pointer).join(named)
        }
    };
    let record = record_in(&dir)?;
    Ok(Loaded {
        step: record.step,
        files: files(&dir, record.files)?,
        path: dir,
        warnings: Vec::new(),
    })
}

/// The name in the pointer `path`; `None` if it is longer than a name.
fn pointed(path: &Path) -> io::Result<Option<String>> {
    let mut text = String::new();
    let file = File::open(path)?;
    if file.metadata()?.len() > MAX_POINTER_BYTES {
        return Ok(None);
    }
    file.take(MAX_POINTER_BYTES).read_to_string(&mut text)?;
    Ok(Some(text.trim_end().to_owned()))
}

/// The record of the checkpoint `dir`: undamaged and of a known version.
fn record_in(dir: &Path) -> Result<Record, Error> {
    let path = || dir.display().to_string();
    match Record::parse(&read(dir, RECORD_NAME, |len| {
        (len <= MAX_RECORD_BYTES)
            .then_some(())
            .ok_or(format!("expected at most {MAX_RECORD_BYTES}"))
    })?) {
        Ok(record) => Ok(record),
        Err(RecordFault::Damaged(reason)) => {
            Err(CheckpointError::Damaged { path: path(), reason }.into())
        }
        Err(RecordFault::TooNew(found)) => {
            let supported = CHECKPOINT_VERSION;
            Err(CheckpointError::TooNew { path: path(), found, supported }.into())
        }
    }
}

/// The files of the checkpoint `dir`, each as its record says.
fn files(dir: &Path, records: Vec<FileRecord>) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let damaged =
        |reason: String| CheckpointError::Damaged { path: dir.display().to_string(), reason };
    check_names(records.iter().map(|file| file.name.as_str()))
        .map_err(|e| damaged(e.to_string()))?;
    let mut files = BTreeMap::new();
    for FileRecord { name, bytes, digest } in records {
        let content = read(dir, &name, |len| {
            (len == bytes).then_some(()).ok_or(format!("expected {bytes}"))
        })?;
        let found = Digest::of(&content);
        if found != digest {
            let reason = format!("`{name}` has digest {found}, expected {digest}");
            return Err(damaged(reason).into());
        }
        files.insert(name, content);
    }
    Ok(files)
}

fn dir_name(step: u64) -> String {
    format!("step-{step:010}")
}

/// The step of a folder named exactly as [`dir_name`] does.
fn step_of(name: &str) -> Option<u64> {
    let step = name.strip_prefix("step-")?.parse().ok()?;
    (dir_name(step) == name).then_some(step)
}

fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        let reason = if name.is_empty() {
            "it is empty"
        } else if name.starts_with('.') {
            "it begins with a dot"
        } else if name.contains(['/', '\\', '\0']) {
            "it is not a plain file name"
        } else if name == RECORD_NAME {
            "the checkpoint's own record has this name"
        } else if !seen.insert(name) {
            "this name is given twice"
        } else {
            continue;
        };
        return Err(CheckpointError::FileName { name: name.into(), reason }.into());
    }
    Ok(())
}

/// Gives the folder `from` the name `to`. A folder that has it already gets
/// the name `from` in the same instant, where the file system can do that.
fn rename_over(from: &Path, to: &Path) -> Result<(), Error> {
    let error = |e| Error::io("rename a finished checkpoint to", to, e);
    if !to.exists() {
        return fs::rename(from, to).map_err(error);
    }
    if rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    // NFS and some parallel file systems cannot exchange names; there a kill
    // between the two renames costs this step, not the ones before it.
    let aside = from.with_extension("replaced");
    fs::rename(to, &aside).map_err(error)?;
    if let Err(e) = fs::rename(from, to) {
        let _ = fs::rename(&aside, to);
        return Err(error(e));
    }
    let _ = fs::remove_dir_all(aside);
    Ok(())
}

/// Reads a file of a checkpoint; `fits` says what is wrong with its length, before a byte is read.
fn read(
    dir: &Path,
    name: &str,
    fits: impl Fn(u64) -> Result<(), String>,
) -> Result<Vec<u8>, Error> {
    let path = dir.join(name);
    let damaged = |reason| CheckpointError::Damaged { path: dir.display().to_string(), reason };
    let refused = |e: io::Error| -> Error {
        match e.kind() {
            io::ErrorKind::PermissionDenied => Error::io("read", &path, e),
            io::ErrorKind::NotFound => damaged(format!("`{name}` is missing")).into(),
            _ => damaged(format!("`{name}` cannot be read: {e}")).into(),
        }
    };
    let file = File::open(&path).map_err(refused)?;
    let len = file.metadata().map_err(refused)?.len();
    fits(len).map_err(|expected| damaged(format!("`{name}` has {len} bytes, {expected}")))?;
    let mut bytes = Vec::new();
    file.take(len).read_to_end(&mut bytes).map_err(refused)?;
    Ok(bytes)
}

/// A folder in `dir` that goes when it is dropped.
fn temp_folder(dir: &Path) -> Result<TempDir, Error> {
    let made = tempfile::Builder::new()
        .prefix(TEMP_PREFIX)
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(dir);
    // tempfile also names the folder in its error, so only the kind is kept.
    made.map_err(|e| Error::io("create a temporary folder in", dir, e.kind().into()))
}
