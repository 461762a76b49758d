//! Makes a shared copy of a source, and removes it at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gular_files::{Env, Lock, Watch};
use gular_transfer::{BundleUrl, Cache, FetchOptions, Trust, fetch};

use super::copy::Copy;
use super::folder::{Folder, Gate, Stale, State};
use super::make_folder::make_folder;
use super::measured_space::MeasuredSpace;
use super::memory::SpaceLimit;
use super::mount;
use super::need::Need;
use super::options::StageOptions;
use super::recognise::{Found, cached_samples, client, look, remote};
use super::source::Source;
use super::target_folder::{Base, bases, no_base};
use crate::Error;

/// How long to wait before a copy that another process makes is examined again.
const PATIENCE: Duration = Duration::from_millis(50);

/// The result of [`stage`] or [`plan`].
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct StageReport {
    /// The path of the copy.
    pub path: String,
    /// Number of files of the copy, without the lists of unpacked samples.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes that must be free: the copy, and the reserve beside it.
    #[serde(rename = "needed")]
    pub needed_bytes: u64,
    /// The limit that allows the least, if it was measured.
    pub limit: Option<SpaceLimit>,
    /// Whether the copy is in memory.
    pub in_memory: bool,
    /// Whether another process made the copy, or is making it.
    pub shared: bool,
    /// Number of copies that killed runs left and that were removed first; in a dry run, that would
    /// be removed.
    pub removed: u64,
    /// In a dry run: the bytes that removing these copies would free.
    #[serde(rename = "freed")]
    pub freed_bytes: u64,
    /// Whether shards are mounted in the folder instead of copied.
    pub mounted: bool,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Wall-clock time, including waits.
    pub seconds: f64,
}

/// A complete copy, which exists at least as long as this value.
#[derive(Debug)]
pub struct Staged {
    /// The report on the copy.
    pub report: StageReport,
    seat: Seat,
}

impl Staged {
    /// The path of the copy.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.seat.folder.whole(&self.seat.name)
    }

    /// Lets programs that this process starts from now on hold the copy too. The copy then exists
    /// as long as they run, even if this process is killed; this needs a file system with flock.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn hand_down(&self) -> Result<(), Error> {
        let Some(users) = &self.seat.users else { return Ok(()) };
        let set = rustix::io::fcntl_setfd(users.file(), rustix::io::FdFlags::empty());
        set.map_err(|e| Error::io("hand down the lock of", self.path(), e.into()))
    }

    /// Releases the copy, and removes it if no other process uses it; returns whether it was
    /// removed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn release(mut self) -> Result<bool, Error> {
        self.seat.leave()
    }
}

/// A part in a copy, from before it is complete. It must not be dropped inside the gate.
#[derive(Debug)]
struct Seat {
    folder: Folder,
    name: String,
    keep: bool,
    /// A lock that all users of the copy share; the kernel drops it if this process is killed.
    users: Option<Lock>,
}

impl Seat {
    fn leave(&mut self) -> Result<bool, Error> {
        let Some(users) = self.users.take() else { return Ok(false) };
        let gate = self.folder.enter(&|| false)?;
        if self.keep {
            gate.set_keep(&self.name, true)?;
        }
        gate.leave(&self.name, users)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // If this fails, the next run removes the copy.
        let _ = self.leave();
    }
}

/// Returns what [`stage`] would do; writes nothing.
///
/// # Errors
/// Those of [`stage`] that can be known before a byte is written.
pub fn plan(
    place: &str,
    options: &StageOptions,
    env: &Env,
    cancel: &AtomicBool,
) -> Result<StageReport, Error> {
    let start = Instant::now();
    let run = || {
        let Found { source, need, .. } = look(place, options, env, Watch::silent(cancel))?;
        let name = source.name();
        let bases = bases(&source, options, env)?;
        let cancelled = || cancel.load(Ordering::Relaxed);
        let gates: Vec<_> = bases.iter().map(|base| base.folder.enter_there(&cancelled)).collect();
        for (base, gate) in bases.iter().zip(&gates) {
            if matches!(gate, Ok(Some(gate)) if gate.is_used(&name)?) {
                let in_memory = MeasuredSpace::of(&base.path, &options.root)?.in_memory;
                let report = report(&base.folder.whole(&name), need, None);
                return Ok(StageReport { shared: true, in_memory, ..report });
            }
        }
        for (i, (base, gate)) in bases.iter().zip(gates).enumerate() {
            let (mut reserved, mut stale) = (0, Stale::default());
            if let Some(gate) = gate? {
                (reserved, stale) = (gate.reserved()?, gate.stale()?);
            }
            let space = MeasuredSpace::of(&base.path, &options.root)?.without(stale.taken);
            if Base::takes(i + 1 == bases.len(), &space, need, reserved)? {
                let report = report(&base.folder.whole(&name), need, Some(&space));
                let (removed, freed_bytes) = (stale.copies, stale.taken.bytes);
                return Ok(StageReport { removed, freed_bytes, ..report });
            }
        }
        Err(no_base(Path::new(""), "there is no folder".into()))
    };
    let report = run().map_err(|e| stopped(e, place))?;
    let (mounted, seconds) = (options.mount, start.elapsed().as_secs_f64());
    Ok(StageReport { dry_run: true, mounted, seconds, ..report })
}

/// Makes or shares the copy of the bundle, folder or bundle URL at `place`.
///
/// # Errors
/// [`Error::NoRoom`], [`Error::FileTooLarge`], [`Error::TooManyFiles`] before a byte is
/// written; [`Error::Foreign`] when the folder is not ours;
/// [`Error::Source`], [`Error::Bundle`], [`Error::Io`],
/// after which nothing is left.
pub fn stage(
    place: &str,
    options: &StageOptions,
    env: &Env,
    watch: Watch<'_>,
) -> Result<Staged, Error> {
    let start = Instant::now();
    let run = || {
        let Found { source, need, cached, url } = look(place, options, env, watch)?;
        let name = source.name();
        let work = Work { source, cached, url, name, need, options, env, watch, start };
        work.stage(&bases(&work.source, options, env)?)
    };
    run().map_err(|e| stopped(e, place))
}

/// Turns the error of a copy that was stopped into one that says so. Unlike other fetches, such a
/// copy is removed completely.
fn stopped(error: Error, place: &str) -> Error {
    match error {
        Error::Transfer(error) if error.is_cancelled() => {
            Error::Stopped { place: place.to_owned() }
        }
        error => error,
    }
}

fn report(path: &Path, need: Need, space: Option<&MeasuredSpace>) -> StageReport {
    StageReport {
        path: path.display().to_string(),
        files: need.files,
        bytes: need.content,
        needed_bytes: need.with_margin(),
        limit: space.and_then(MeasuredSpace::tightest).cloned(),
        in_memory: space.is_some_and(|space| space.in_memory),
        shared: false,
        removed: 0,
        freed_bytes: 0,
        mounted: false,
        dry_run: false,
        seconds: 0.0,
    }
}

/// One call of [`stage`] or [`plan`].
struct Work<'a> {
    source: Source,
    cached: Option<BundleUrl>,
    url: Option<BundleUrl>,
    name: String,
    need: Need,
    options: &'a StageOptions,
    env: &'a Env,
    watch: Watch<'a>,
    start: Instant,
}

impl Work<'_> {
    /// Stages where a copy exists or is being made, else where there is space.
    fn stage(&self, bases: &[Base]) -> Result<Staged, Error> {
        let mut bases: Vec<&Base> = bases.iter().collect();
        let mut removed = 0;
        loop {
            let (base, gate) = self.choose(&bases, &mut removed)?;
            bases.retain(|other| other.path != base.path);
            match self.stage_in(base, gate, &mut removed) {
                // The process that we waited for failed, and there is no space here to copy
                // ourselves.
                Err(Error::NoRoom { .. }) if !bases.is_empty() => {}
                done => return done,
            }
        }
    }

    /// Chooses a folder while holding all gates, so that two processes never choose different ones.
    /// All processes take the gates in the same order.
    fn choose<'b>(
        &self,
        bases: &[&'b Base],
        removed: &mut u64,
    ) -> Result<(&'b Base, Gate<'b>), Error> {
        let cancelled = || self.watch.is_cancelled();
        let mut gates = Vec::new();
        let mut used = None;
        for (i, base) in bases.iter().enumerate() {
            let gate = base.folder.enter(&cancelled);
            if used.is_none() && matches!(&gate, Ok(gate) if gate.is_used(&self.name)?) {
                used = Some(i);
            }
            gates.push((*base, gate));
        }
        if let Some(used) = used {
            let (base, gate) = gates.swap_remove(used);
            return Ok((base, gate?));
        }
        for (i, (base, gate)) in gates.into_iter().enumerate() {
            let gate = gate?;
            *removed += gate.sweep()?;
            let space = MeasuredSpace::of(&base.path, &self.options.root)?;
            if Base::takes(i + 1 == bases.len(), &space, self.need, gate.reserved()?)? {
                return Ok((base, gate));
            }
        }
        Err(no_base(Path::new(""), "there is no folder".into()))
    }

    fn stage_in(&self, base: &Base, gate: Gate<'_>, removed: &mut u64) -> Result<Staged, Error> {
        let folder = &base.folder;
        let cancelled = || self.watch.is_cancelled();
        let name = self.name.as_str();
        // The seat is dropped after the gate.
        let (mut seat, mut waited) = (None, false);
        let mut entered = Some(gate);
        let report = loop {
            let gate = match entered.take() {
                Some(gate) => gate,
                None => folder.enter(&cancelled)?,
            };
            if seat.is_none() {
                let (users, left) = gate.join(name)?;
                *removed += u64::from(left);
                let (folder, name) = (folder.clone(), name.to_owned());
                seat = Some(Seat { folder, name, keep: false, users: Some(users) });
            }
            match gate.state(name)? {
                State::Whole => {
                    if !self.options.keep {
                        gate.set_keep(name, false)?;
                    }
                    let in_memory = MeasuredSpace::of(&base.path, &self.options.root)?.in_memory;
                    let report = report(&folder.whole(name), self.need, None);
                    break StageReport { shared: true, in_memory, ..report };
                }
                State::Missing => {
                    *removed += gate.sweep()?;
                    let space = MeasuredSpace::of(&base.path, &self.options.root)?;
                    space.check(self.need, gate.reserved()?)?;
                    self.make(folder, gate)?;
                    self.note(&folder.whole(name));
                    let report = report(&folder.whole(name), self.need, Some(&space));
                    break StageReport { removed: *removed, ..report };
                }
                State::Growing if cancelled() => return Err(Error::cancelled()),
                State::Growing => {
                    drop(gate);
                    if !waited {
                        (self.watch.waiting)(&folder.whole(name));
                        waited = true;
                    }
                    std::thread::sleep(PATIENCE);
                }
            }
        };
        let (mounted, seconds) = (self.options.mount, self.start.elapsed().as_secs_f64());
        let report = StageReport { mounted, seconds, ..report };
        let keep = self.options.keep;
        let seat = seat.map(|mut seat| {
            seat.keep = keep;
            Staged { report, seat }
        });
        seat.ok_or_else(|| no_base(&base.path, "nobody takes part".into()))
    }

    /// Makes the copy; after a failure nothing is left, and processes that wait may try.
    fn make(&self, folder: &Folder, gate: Gate<'_>) -> Result<(), Error> {
        let making = gate.begin(&self.name, self.need.with_margin())?;
        drop(gate);
        let part = folder.part(&self.name);
        let copied = make_folder(&part).and_then(|()| self.copy(&part));
        let gate = folder.enter(&|| false)?;
        let made = copied.and_then(|()| gate.finish(&self.name));
        if made.is_err() {
            // The reason of the failure is more useful than why the copy could not be removed.
            let _ = gate.remove_trees(&self.name);
        }
        drop(making);
        made
    }

    /// Records where the copy of a bundle's files is from.
    fn note(&self, whole: &Path) {
        let is_bundle = matches!(self.source, Source::Bundle(_) | Source::Remote(_));
        if let Some(url) = self.url.as_ref().filter(|_| is_bundle) {
            Cache::at(None, self.env).note_copy(whole, url);
        }
    }

    /// Copies from the node's cache, or from the source of the cache.
    fn copy(&self, to: &Path) -> Result<(), Error> {
        let Some((url, digest)) = self.cached.as_ref().and_then(|url| Some((url, url.digest?)))
        else {
            return self.copy_from(&self.source, to);
        };
        // If the lock cannot be taken, as in a cache that only others may write to, every byte is
        // still checked.
        let lock = Cache::at(None, self.env).lock(digest, self.watch);
        let copied = self.copy_from(&self.source, to);
        drop(lock);
        let source = match (copied, &self.source) {
            // The cache has wrong bytes, or files were removed from it.
            (Err(Error::Bundle(_)), Source::Samples(_)) => {
                let bundle =
                    cached_samples(url, Trust::Nothing, self.options, self.env, self.watch)?;
                Source::Samples(Box::new(bundle))
            }
            (Err(Error::Bundle(_)), _) => {
                Source::Remote(Box::new(remote(url, self.options, self.env, self.watch)?))
            }
            (copied, _) => return copied,
        };
        fs::remove_dir_all(to).map_err(|e| Error::io("remove", to, e))?;
        make_folder(to)?;
        self.copy_from(&source, to)
    }

    fn copy_from(&self, source: &Source, to: &Path) -> Result<(), Error> {
        let copy = Copy {
            to,
            threads: self.options.jobs.max(1),
            total: self.need.content,
            done: AtomicU64::new(0),
            progress: self.watch.progress,
            cancel: self.watch.cancel,
        };
        match source {
            Source::Bundle(bundle) => copy.bundle(bundle),
            Source::Samples(bundle) => copy.samples(bundle),
            Source::Mounted(bundle) => mount::mount(bundle, to, &|| self.watch.is_cancelled()),
            Source::Directory(directory) => copy.directory(directory),
            Source::Remote(remote) => {
                let client = client(self.options, self.env)?;
                let watch =
                    Watch { progress: self.watch.progress, ..Watch::silent(self.watch.cancel) };
                fetch(&client, remote, to, &FetchOptions::default(), watch)?;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with `/dev/shm` and a scratch folder, and something to stage.
    struct Node {
        dir: tempfile::TempDir,
        env: Env,
        options: StageOptions,
    }

    impl Node {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in ["dev/shm", "scratch", "data"] {
                fs::create_dir_all(dir.path().join(name)).unwrap();
            }
            fs::write(dir.path().join("data/file"), b"1234").unwrap();
            let scratch = dir.path().join("scratch");
            let env = Env::from_pairs(&[("TMPDIR", scratch.to_str().unwrap())]);
            let options = StageOptions { root: dir.path().to_owned(), ..StageOptions::default() };
            Self { dir, env, options }
        }

        fn stage(&self) -> Result<Staged, Error> {
            let never = AtomicBool::new(false);
            let data = self.dir.path().join("data");
            stage(data.to_str().unwrap(), &self.options, &self.env, Watch::silent(&never))
        }

        fn plan(&self) -> Result<StageReport, Error> {
            let never = AtomicBool::new(false);
            let data = self.dir.path().join("data");
            plan(data.to_str().unwrap(), &self.options, &self.env, &never)
        }

        /// Starts a growing copy of another process, which takes all the space there is.
        fn fill(&self, base: &str) -> (Lock, Lock) {
            let name = "f".repeat(64);
            let folder = Folder::below(&fs::canonicalize(self.dir.path().join(base)).unwrap());
            let gate = folder.enter(&|| false).unwrap();
            (gate.join(&name).unwrap().0, gate.begin(&name, u64::MAX / 2).unwrap())
        }

        fn lies_in(&self, report: &StageReport, base: &str) -> bool {
            Path::new(&report.path)
                .starts_with(fs::canonicalize(self.dir.path().join(base)).unwrap())
        }
    }

    #[test]
    fn a_copy_that_is_there_is_shared_wherever_there_is_room_by_now() {
        let node = Node::new();
        let others = node.fill("dev/shm");
        assert!(node.lies_in(&node.plan().unwrap(), "scratch"));
        let first = node.stage().unwrap();
        assert!(node.lies_in(&first.report, "scratch"));
        drop(others);
        // Now /dev/shm has enough space again.
        let second = node.stage().unwrap();
        assert!(second.report.shared);
        assert_eq!(second.report.path, first.report.path);
        let planned = node.plan().unwrap();
        assert!(planned.shared && planned.dry_run);
        assert_eq!(planned.path, first.report.path);
        // A copy that exists does not need its space a second time.
        let others = node.fill("scratch");
        assert!(node.plan().unwrap().shared);
        assert!(node.stage().unwrap().report.shared);
        drop(others);
        assert!(!second.release().unwrap());
        assert!(first.release().unwrap());
        let third = node.stage().unwrap();
        assert!(node.lies_in(&third.report, "dev/shm"));
    }

    #[test]
    fn a_dry_run_counts_what_others_have_reserved() {
        let node = Node::new();
        let others = (node.fill("dev/shm"), node.fill("scratch"));
        let refused = |result: Result<(), Error>| {
            assert!(matches!(result, Err(Error::NoRoom { .. })), "{result:?}");
        };
        refused(node.plan().map(drop));
        refused(node.stage().map(drop));
        drop(others);
        assert!(node.lies_in(&node.plan().unwrap(), "dev/shm"));
        for base in ["dev/shm", "scratch"] {
            let folder = Folder::below(&fs::canonicalize(node.dir.path().join(base)).unwrap());
            assert_eq!(folder.enter(&|| false).unwrap().sweep().unwrap(), 1);
            node.plan().unwrap();
            let left = fs::read_dir(node.dir.path().join(base)).unwrap().count();
            assert_eq!(left, 0, "a dry run made something in {base}");
        }
    }

    #[test]
    fn scratch_in_dev_shm_is_one_folder() {
        let mut node = Node::new();
        let shm = node.dir.path().join("dev/shm/../shm");
        node.env = Env::from_pairs(&[("TMPDIR", shm.to_str().unwrap())]);
        assert!(node.lies_in(&node.plan().unwrap(), "dev/shm"));
        assert!(node.lies_in(&node.stage().unwrap().report, "dev/shm"));
        // A scratch folder inside the copied folder cannot be used; memory can.
        let inside = node.dir.path().join("data");
        node.env = Env::from_pairs(&[("TMPDIR", inside.to_str().unwrap())]);
        assert!(node.lies_in(&node.stage().unwrap().report, "dev/shm"));
        assert_eq!(fs::read_dir(inside).unwrap().count(), 1);
    }
}
