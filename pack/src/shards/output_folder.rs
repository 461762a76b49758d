//! The output folder of a running pack.
//!
//! ```text
//! OUT/.gular-pack/lock            held while a process packs here
//! OUT/.gular-pack/plan            the plan of this run
//! OUT/.gular-pack/part            which part of the plan, when not all of it
//! OUT/.gular-pack/shard-N.json    what became of planned shard N, once it is durable
//! OUT/data/…                      finished shards and indexes
//! OUT/skipped.jsonl               inputs left out
//! OUT/manifest.json               last; then .gular-pack goes
//! ```
//!
//! A manifest beside `.gular-pack` is of a run killed between its last two
//! steps: the same run again finds all done, another one a finished bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use gular_bundle::{
    Bundle, DATA_DIR, Digest, FileEntry, MANIFEST_NAME, Manifest, OpenOptions, ShardEntry,
    write_manifest,
};
use gular_files::{Free, Lock, LockMode, TEMP_PREFIX, temp_in, write_file};
use serde::{Deserialize, Serialize};

use crate::facts::{BadInput, BadInputs, Sums};
use crate::plan::Plan;
use crate::shards::{PART_NAME, Part, PartFile, ShardError};
use crate::source::OnBadInput;

/// The folder of an unfinished run.
pub const STATE_DIR: &str = ".gular-pack";
/// The list of inputs left out, beside the manifest.
pub const SKIPPED_NAME: &str = "skipped.jsonl";

/// The result for a planned shard.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    /// The run that the result is of: its plan and envelope.
    pub(crate) plan: String,
    /// The shard; absent if every input was left out.
    pub(crate) entry: Option<ShardEntry>,
    pub(crate) skipped: Vec<BadInput>,
    /// Inputs with flaws that were tolerated.
    #[serde(default)]
    pub(crate) tolerated: BadInputs,
    /// Pictures under the name of another format.
    #[serde(default)]
    pub(crate) misnamed: BadInputs,
    /// Media types of the pictures that are stored as they were found.
    #[serde(default)]
    pub(crate) media_types: BTreeSet<String>,
    /// Number of tiles of which too little was measured.
    #[serde(default)]
    pub(crate) empty_tiles: u64,
    /// The sums of its decoded pixels, if it is of split `train`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sums: Option<Sums>,
}

impl Done {
    /// Returns the result of a run that examines no input.
    pub(crate) fn of(run: &str, entry: Option<ShardEntry>) -> Self {
        Self { plan: run.to_owned(), entry, ..Self::default() }
    }
}

/// A locked output folder.
#[derive(Debug)]
pub(crate) struct OutDir {
    pub(crate) path: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) data: PathBuf,
    made_here: bool,
    lock: Lock,
}

impl OutDir {
    /// Takes `path` for as long as `work` lasts. After an error it leaves what a later run can use,
    /// or the place as it was.
    pub(crate) fn with<T, E: From<ShardError>>(
        path: &Path,
        work: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let dir = Self::open(path)?;
        match work(&dir) {
            Ok(done) => Ok(dir.close().map(|()| done)?),
            Err(error) => {
                dir.abandon();
                Err(error)
            }
        }
    }

    /// Takes `path`, which must not exist, be empty, or hold an interrupted run.
    fn open(path: &Path) -> Result<Self, ShardError> {
        let (state, data) = (path.join(STATE_DIR), path.join(DATA_DIR));
        let made_here = !path.exists();
        check_free(path)?;
        let lock = lock(&state, path)?;
        // The process that had the lock before may have finished the bundle meanwhile.
        check_free(path)?;
        let out = Self { path: path.to_owned(), state, data, made_here, lock };
        fs::create_dir_all(&out.data).map_err(|e| ShardError::io("create", &out.data, e))?;
        remove_leftovers(&out.data)?;
        // Temporary files of the manifest and of the list of inputs that were left out.
        remove_where(&out.path, |name| name.starts_with(TEMP_PREFIX))?;
        remove_leftovers(&out.state)?;
        Ok(out)
    }

    /// Puts `plan` in place of an earlier run's, which must be the same one if it finished anything.
    pub(crate) fn keep_plan(&self, plan: &mut Plan) -> Result<(), ShardError> {
        let path = self.state.join("plan");
        let expected = plan.digest;
        let found = digest_of(&path)?;
        if found != Some(expected) {
            self.check_no_bundle()?;
        }
        if let Some(found) = found.filter(|found| *found != expected && self.holds_shards()) {
            let (expected, found) = (expected.to_string(), found.to_string());
            return Err(ShardError::OtherPlan { path: self.shown(), expected, found });
        }
        Ok(plan.rename(path)?)
    }

    /// Notes which part of the plan is packed here; an interrupted run must have been of the
    /// same one if it finished anything.
    pub(crate) fn keep_part(&self, part: Option<Part>) -> Result<(), ShardError> {
        let path = self.state.join("part");
        let found = if_there(fs::read_to_string(&path), "read", &path)?;
        let expected = part.map(|part| part.to_string());
        if found == expected {
            return Ok(());
        }
        if self.holds_shards() || self.path.join(PART_NAME).exists() {
            let shown = |part: Option<String>| {
                part.map_or_else(|| "all parts".to_owned(), |part| format!("part {part}"))
            };
            let (path, expected, found) = (self.shown(), shown(expected), shown(found));
            return Err(ShardError::OtherPart { path, expected, found });
        }
        match expected {
            Some(part) => Ok(write_file(&path, part.as_bytes())?),
            None => fs::remove_file(&path).map_err(|e| ShardError::io("remove", &path, e)),
        }
    }

    /// Records what is converted into this folder. If an interrupted run has written anything, it
    /// must have converted the same. Returns whether there was such a run.
    pub(crate) fn keep_source(&self, id: &str) -> Result<bool, ShardError> {
        let path = self.state.join("source");
        let found = if_there(fs::read_to_string(&path), "read", &path)?;
        if found.as_deref() == Some(id) {
            return Ok(true);
        }
        self.check_no_bundle()?;
        if let Some(found) = found.filter(|_| self.holds_work()) {
            let (path, expected) = (self.shown(), id.to_owned());
            return Err(ShardError::OtherPlan { path, expected, found });
        }
        write_file(&path, id.as_bytes())?;
        Ok(false)
    }

    /// Makes a bundle of the folder: its list of inputs left out, and the manifest last.
    pub(crate) fn publish(
        &self,
        manifest: &Manifest,
        skipped: &[BadInput],
    ) -> Result<Digest, ShardError> {
        if self.bundle()? == Some(manifest.digest()) {
            return Ok(manifest.digest());
        }
        self.check_no_bundle()?;
        self.remove_strays(manifest.files())?;
        let list = self.path.join(SKIPPED_NAME);
        if_there(fs::remove_file(&list), "remove", &list)?;
        if !skipped.is_empty() {
            write_file(&list, &skipped_lines(skipped))?;
        }
        Ok(write_manifest(&self.path, manifest)?)
    }

    /// Turns the folder into a finished part.
    pub(crate) fn publish_part(&self, part: &PartFile) -> Result<(), ShardError> {
        self.check_no_bundle()?;
        let entries = part.shards.iter().filter_map(|shard| shard.done.entry.as_ref());
        self.remove_strays(entries.flat_map(|entry| [&entry.file, &entry.index]))?;
        part.write(&self.path)
    }

    /// The digest of a manifest that is already there.
    fn bundle(&self) -> Result<Option<Digest>, ShardError> {
        let path = self.path.join(MANIFEST_NAME);
        digest_of(&path)
    }

    fn check_no_bundle(&self) -> Result<(), ShardError> {
        match self.bundle()? {
            None => Ok(()),
            Some(digest) => Err(ShardError::AlreadyBundle { path: self.shown(), digest }),
        }
    }

    /// Returns those of `shards` that an earlier run finished, and that still exist in full length.
    pub(crate) fn finished(
        &self,
        run: &str,
        shards: Range<usize>,
        on_error: OnBadInput,
    ) -> Result<BTreeMap<usize, Done>, ShardError> {
        let mut finished = BTreeMap::new();
        for number in shards {
            let path = self.done_path(number);
            let Some(bytes) = if_there(fs::read(&path), "read", &path)? else { continue };
            let Ok(done) = serde_json::from_slice::<Done>(&bytes) else { continue };
            let whole = |file: &FileEntry| {
                let metadata = fs::metadata(self.data.join(file.name.as_str()));
                metadata.is_ok_and(|m| m.len() == file.bytes)
            };
            let there = done.entry.as_ref().is_none_or(|e| whole(&e.file) && whole(&e.index));
            let allowed = on_error == OnBadInput::Skip || done.skipped.is_empty();
            if done.plan == run && there && allowed {
                finished.insert(number, done);
            }
        }
        Ok(finished)
    }

    /// Notes that a shard is finished. The note itself need not be durable: a shard whose note is
    /// lost or damaged is packed again.
    pub(crate) fn note(&self, number: usize, done: &Done) -> Result<(), ShardError> {
        let json = serde_json::to_vec(done).expect("names, numbers and texts serialise");
        let path = self.done_path(number);
        let mut temp = temp_in(&self.state)?;
        // The errors are those of files, so that a full disk is recognised.
        temp.write_all(&json).map_err(|e| gular_files::Error::new("write", &path, e))?;
        temp.persist(&path).map_err(|e| gular_files::Error::new("rename to", &path, e.error))?;
        Ok(())
    }

    fn done_path(&self, number: usize) -> PathBuf {
        self.state.join(format!("shard-{number}.json"))
    }

    /// Removes shards that are not among the result's `files`: of another envelope, or
    /// of inputs that changed between a kill and the next run without changing
    /// their size.
    fn remove_strays<'f>(
        &self,
        files: impl Iterator<Item = &'f FileEntry>,
    ) -> Result<(), ShardError> {
        let named: BTreeSet<&str> = files.map(|file| file.name.as_str()).collect();
        remove_where(&self.data, |name| !named.contains(name))
    }

    /// Removes what only an unfinished run needs, and with it the lock.
    fn close(self) -> Result<(), ShardError> {
        // First another name: a kill meanwhile must not leave half of it, which would
        // look like a run that is to go on.
        let gone = gone(&self.path);
        fs::rename(&self.state, &gone).map_err(|e| ShardError::io("rename", &self.state, e))?;
        // An open file that is removed keeps another name in its folder, on NFS and many file
        // systems of FUSE.
        drop(self.lock);
        remove_gone(&gone)
    }

    /// After an error: leaves what a later run can use, or the place as it was.
    fn abandon(self) {
        let is_done = [MANIFEST_NAME, PART_NAME].iter().any(|name| self.path.join(name).exists());
        if self.holds_work() && !is_done {
            return;
        }
        let gone = gone(&self.path);
        if fs::rename(&self.state, &gone).is_ok() {
            drop(self.lock);
            let _ = remove_gone(&gone);
        }
        if is_done {
            return;
        }
        let _ = fs::remove_dir(&self.data);
        if self.made_here {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Whether there are finished shards, or files of a conversion.
    fn holds_work(&self) -> bool {
        let Ok(entries) = fs::read_dir(&self.path) else { return false };
        let ours = |name: &str| matches!(name, STATE_DIR | DATA_DIR) || is_leftover(name);
        self.holds_shards() || entries.flatten().any(|e| !ours(&e.file_name().to_string_lossy()))
    }

    fn holds_shards(&self) -> bool {
        let Ok(entries) = fs::read_dir(&self.data) else { return false };
        entries.flatten().any(|e| !is_leftover(&e.file_name().to_string_lossy()))
    }

    /// The free space of the file system.
    pub(crate) fn free(&self) -> Result<Free, ShardError> {
        Ok(gular_files::free(&self.path)?)
    }

    pub(crate) fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

/// The bundle in folder `out`, if a run came to its end there.
pub(crate) fn finished_bundle(out: &Path) -> Result<Option<Bundle>, ShardError> {
    let is_there = |name: &str| out.join(name).symlink_metadata().is_ok();
    if !is_there(MANIFEST_NAME) || is_there(STATE_DIR) {
        return Ok(None);
    }
    remove_gone(&gone(out))?;
    Ok(Some(Bundle::open(out, OpenOptions::default())?))
}

/// The name of the state's folder while it is being removed.
pub(crate) fn gone(out: &Path) -> PathBuf {
    out.join(format!("{TEMP_PREFIX}done"))
}

/// Removes a folder of leftovers. Any process that finds it may do so, so another one may be
/// removing it at the same time. Files that are still open after a second are left for the next
/// run.
pub(crate) fn remove_gone(gone: &Path) -> Result<(), ShardError> {
    for _ in 0..20 {
        match fs::remove_dir_all(gone) {
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(ShardError::io("remove", gone, e));
            }
            _ => return Ok(()),
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn check_free(out: &Path) -> Result<(), ShardError> {
    let path = out.display().to_string();
    let Some(entries) = if_there(fs::read_dir(out), "list", out)? else { return Ok(()) };
    let (mut bundle, mut other, mut interrupted) = (false, None, false);
    for entry in entries {
        let name = entry.map_err(|e| ShardError::io("list", out, e))?.file_name();
        match name.to_str() {
            Some(MANIFEST_NAME) => bundle = true,
            Some(STATE_DIR) => interrupted = true,
            _ => other = Some(name.to_string_lossy().into_owned()),
        }
    }
    if interrupted {
        return Ok(());
    }
    if bundle {
        // Left by a run that was killed after everything was done.
        remove_gone(&gone(out))?;
        let manifest = out.join(MANIFEST_NAME);
        let digest = digest_of(&manifest)?;
        if let Some(digest) = digest {
            return Err(ShardError::AlreadyBundle { path, digest });
        }
    }
    if let Ok(Some(part)) = PartFile::finished(out) {
        return Err(ShardError::AlreadyPart { path, part: part.part });
    }
    other.map_or(Ok(()), |found| Err(ShardError::NotEmpty { path, found }))
}

/// Locks `state`, making it where it is not there.
fn lock(state: &Path, out: &Path) -> Result<Lock, ShardError> {
    fs::create_dir_all(state).map_err(|e| ShardError::io("create", state, e))?;
    let lock = Lock::try_at(&state.join("lock"), LockMode::Exclusive)?;
    lock.ok_or_else(|| ShardError::Busy(out.display().to_string()))
}

/// Returns what was done with a file, or `None` if it does not exist.
fn if_there<T>(
    done: io::Result<T>,
    action: &'static str,
    path: &Path,
) -> Result<Option<T>, ShardError> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(ShardError::io(action, path, e)),
    }
}

/// Returns the BLAKE3 of a file, or `None` if it does not exist.
fn digest_of(path: &Path) -> Result<Option<Digest>, ShardError> {
    let Some(file) = if_there(File::open(path), "read", path)? else { return Ok(None) };
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).map_err(|e| ShardError::io("read", path, e))?;
    Ok(Some(Digest::from(hasher.finalize())))
}

fn is_leftover(name: &str) -> bool {
    name.starts_with(TEMP_PREFIX) || name.starts_with(".tmp")
}

/// Removes files that a killed writer left.
fn remove_leftovers(dir: &Path) -> Result<(), ShardError> {
    remove_where(dir, is_leftover)
}

fn remove_where(dir: &Path, unwanted: impl Fn(&str) -> bool) -> Result<(), ShardError> {
    for entry in fs::read_dir(dir).map_err(|e| ShardError::io("list", dir, e))? {
        let entry = entry.map_err(|e| ShardError::io("list", dir, e))?;
        // A folder is one of an adopted bundle, whose files may have any names.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder && unwanted(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path()).map_err(|e| ShardError::io("remove", entry.path(), e))?;
        }
    }
    Ok(())
}

/// Returns the lines of `skipped.jsonl`.
pub(crate) fn skipped_lines(skipped: &[BadInput]) -> Vec<u8> {
    let mut skipped: Vec<&BadInput> = skipped.iter().collect();
    skipped.sort_by(|a, b| a.path.cmp(&b.path));
    let line =
        |bad: &BadInput| serde_json::json!({"path": bad.path, "reason": bad.reason}).to_string();
    let lines: Vec<String> = skipped.into_iter().map(|bad| line(bad) + "\n").collect();
    lines.concat().into_bytes()
}
