//! From a source to a shared copy, and away with it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use gular_bundle::{Bundle, Check, MANIFEST_NAME, OpenOptions};
use gular_pelican::{Client, ClientOptions, Env};

use super::copy::{Copy, make_folder};
use super::folder::{Folder, Gate, PATIENCE, State};
use super::room::{Limit, Need, Room, StageTo};
use super::source::{Directory, Source};
use crate::fetch::{BundleUrl, FetchOptions, RemoteBundle, Trust, fetch_trusting};
use crate::{Cache, Error, open_bundle};

/// What is staged, and how.
#[derive(Debug, Clone)]
pub struct StageOptions {
    /// Where the copy goes.
    pub to: StageTo,
    /// A bundle's samples as plain files, named as `gular convert` names them.
    pub unpack: bool,
    /// The copy stays when its last user leaves, until a run that does not say so.
    pub keep: bool,
    /// Threads that copy.
    pub threads: usize,
    /// The folder below which `proc` and `sys` lie: `/`, but for tests.
    pub root: PathBuf,
}

impl Default for StageOptions {
    /// Memory or scratch, the bundle's own files, removed at the end, four threads.
    fn default() -> Self {
        let (unpack, keep, threads) = (false, false, 4);
        Self { to: StageTo::Auto, unpack, keep, threads, root: "/".into() }
    }
}

/// What a run says while it works, from any thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageEvent {
    /// Another process copies; said once a wait.
    Waiting,
    /// Bytes copied, and all there are.
    Copied(u64, u64),
}

/// What was staged, or would be.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct StageReport {
    /// The copy.
    pub path: String,
    /// Its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that must be free for it, with what stays free beside it.
    pub needed: u64,
    /// The limit that leaves least, when the room was measured.
    pub limit: Option<Limit>,
    /// Whether it lies in memory.
    pub in_memory: bool,
    /// Whether another process had made it.
    pub shared: bool,
    /// Copies of killed runs that were removed first.
    pub removed: u64,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Wall-clock time, waiting included.
    pub seconds: f64,
}

/// A whole copy, which stays as long as this does.
#[derive(Debug)]
pub struct Staged {
    /// What it took.
    pub report: StageReport,
    seat: Seat,
}

impl Staged {
    /// Where the copy lies.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.seat.folder.whole(&self.seat.name)
    }

    /// Lets programs started from now on hold the copy too, so that it outlives a
    /// kill of this process for as long as they run.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn hand_down(&self) -> Result<(), Error> {
        let Some(users) = &self.seat.users else { return Ok(()) };
        let set = rustix::io::fcntl_setfd(users, rustix::io::FdFlags::empty());
        set.map_err(|e| Error::io("hand down the lock of", self.path(), e.into()))
    }

    /// Leaves the copy, and removes it when nobody else uses it; says whether.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn release(mut self) -> Result<bool, Error> {
        self.seat.leave()
    }
}

/// Takes part in a copy, from before it is whole. Not to be dropped inside the gate.
#[derive(Debug)]
struct Seat {
    folder: Folder,
    name: String,
    keep: bool,
    /// Shared with all who take part; the kernel drops it when we are killed.
    users: Option<File>,
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
        // A fault here leaves the copy to the next run.
        let _ = self.leave();
    }
}

/// Says what [`stage`] would do; writes nothing.
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
    let source = look(place, options, env, cancel).map_err(|e| stopped(e, place))?;
    let (name, need) = (source.name(), source.need()?);
    for base in bases(options, env)? {
        source.check_apart(&base.path)?;
        let room = Room::of(&base.path, &options.root)?;
        if base.ample && !room.is_ample(need, 0) {
            continue;
        }
        room.check(need, 0)?;
        let path = Folder::below(&base.path).whole(&name);
        let report = report(&path, need, Some(&room));
        return Ok(StageReport { dry_run: true, seconds: start.elapsed().as_secs_f64(), ..report });
    }
    Err(no_base(Path::new(""), "there is no folder".into()))
}

/// Makes or shares the copy of the bundle, directory or bundle URL at `place`.
///
/// # Errors
/// [`Error::StageRoom`], [`Error::StageFile`], [`Error::StageInodes`] before a byte is
/// written; [`Error::StageFolder`] when the folder is not ours;
/// [`Error::StageSource`], [`Error::Bundle`], [`Error::Io`],
/// after which nothing is left.
pub fn stage(
    place: &str,
    options: &StageOptions,
    env: &Env,
    event: &(dyn Fn(StageEvent) + Sync),
    cancel: &AtomicBool,
) -> Result<Staged, Error> {
    let start = Instant::now();
    let run = || {
        let source = look(place, options, env, cancel)?;
        let (name, need) = (source.name(), source.need()?);
        let work = Work { source, name, need, options, env, event, cancel, start };
        for base in bases(options, env)? {
            if let Some(staged) = work.stage_in(&base)? {
                return Ok(staged);
            }
        }
        Err(no_base(Path::new(""), "there is no folder".into()))
    };
    run().map_err(|e| stopped(e, place))
}

/// A folder to stage to.
struct Base {
    /// Absolute: the command may run elsewhere.
    path: PathBuf,
    /// It is taken only when the copy leaves most of its room free.
    ample: bool,
}

/// The folders to try, best first; of several the last one must be there.
fn bases(options: &StageOptions, env: &Env) -> Result<Vec<Base>, Error> {
    let folders = options.to.folders(env);
    let mut bases = Vec::new();
    for (i, folder) in folders.iter().enumerate() {
        let ample = i + 1 < folders.len();
        match fs::canonicalize(folder) {
            Ok(path) if path.is_dir() => bases.push(Base { path, ample }),
            _ if ample => {}
            Ok(_) => return Err(no_base(folder, "it is no folder".into())),
            Err(e) => return Err(no_base(folder, e.to_string())),
        }
    }
    Ok(bases)
}

fn no_base(dir: &Path, reason: String) -> Error {
    Error::StageBase { dir: dir.display().to_string(), reason }
}

/// Nothing stays of a copy that was stopped, unlike of other things that are fetched.
fn stopped(error: Error, place: &str) -> Error {
    match error {
        Error::Pelican(gular_pelican::Error::Cancelled) => {
            Error::StageStopped { place: place.to_owned() }
        }
        error => error,
    }
}

fn report(path: &Path, need: Need, room: Option<&Room>) -> StageReport {
    StageReport {
        path: path.display().to_string(),
        files: need.files,
        bytes: need.content,
        needed: need.with_margin(),
        limit: room.and_then(Room::tightest).cloned(),
        in_memory: room.is_some_and(|room| room.in_memory),
        shared: false,
        removed: 0,
        dry_run: false,
        seconds: 0.0,
    }
}

/// What is at `place`.
fn look(
    place: &str,
    options: &StageOptions,
    env: &Env,
    cancel: &AtomicBool,
) -> Result<Source, Error> {
    let open = OpenOptions { check: Check::Always, ..OpenOptions::default() };
    let kind = |bundle: Bundle| match options.unpack {
        true => Source::Samples(Box::new(bundle)),
        false => Source::Bundle(Box::new(bundle)),
    };
    if !place.contains("://") {
        let path = Path::new(place);
        let bundle = match path.join(MANIFEST_NAME).is_file() {
            true => Bundle::open(path, open).map_err(Some),
            false => Err(None),
        };
        let fault = match bundle {
            Ok(bundle) => return Ok(kind(bundle)),
            Err(Some(fault)) if !is_no_manifest(&fault) => return Err(fault.into()),
            Err(fault) => fault,
        };
        let directory = Directory::list(path)?;
        return match (directory.holds_shards(), fault) {
            // Somebody else's manifest, or none.
            (false, _) => Ok(Source::Directory(directory)),
            // Copied as plain files, nothing of it would be checked.
            (true, Some(fault)) => Err(fault.into()),
            (true, None) => Err(Error::StageSource {
                path: path.display().to_string(),
                reason: "it holds shards of a bundle and no `manifest.json`",
            }),
        };
    }
    if options.unpack {
        return Ok(kind(open_bundle(place, &[], open, None, env, &|_, _| (), cancel)?.bundle));
    }
    let url: BundleUrl = place.parse()?;
    if let Some(digest) = url.digest {
        // The node's cache may have it.
        let dir = Cache::at(None, env).root().join(digest.hex());
        let cached = Bundle::open(&dir, OpenOptions { digest: Some(digest), ..open });
        if let Some(bundle) = cached.ok().filter(is_whole) {
            return Ok(kind(bundle));
        }
    }
    let client = Client::new(ClientOptions::new(env.clone()))?;
    Ok(Source::Remote(Box::new(RemoteBundle::open(&client, &url, cancel)?)))
}

/// Whether a file by that name may be no manifest at all, and none of a later version.
fn is_no_manifest(fault: &gular_bundle::Error) -> bool {
    use gular_bundle::Error::{Format, Malformed, TooLarge};
    matches!(fault, Format { .. } | Malformed { .. } | TooLarge { .. })
}

/// Whether all files of a bundle are there, by their lengths.
fn is_whole(bundle: &Bundle) -> bool {
    let has = |file: &gular_bundle::FileEntry| {
        fs::metadata(bundle.path_of(file)).is_ok_and(|m| m.is_file() && m.len() == file.bytes)
    };
    bundle.manifest().shards.iter().all(|shard| has(&shard.file) && has(&shard.index))
}

/// One run.
struct Work<'a> {
    source: Source,
    name: String,
    need: Need,
    options: &'a StageOptions,
    env: &'a Env,
    event: &'a (dyn Fn(StageEvent) + Sync),
    cancel: &'a AtomicBool,
    start: Instant,
}

impl Work<'_> {
    /// Stages below a folder; `None` when it had to be ample and is not.
    fn stage_in(&self, base: &Base) -> Result<Option<Staged>, Error> {
        let Base { path: base, ample } = base;
        self.source.check_apart(base)?;
        let folder = Folder::below(base);
        let cancelled = || self.cancel.load(Ordering::Relaxed);
        let name = self.name.as_str();
        let (mut seat, mut waited, mut removed) = (None, false, 0);
        let report = loop {
            let gate = folder.enter(&cancelled)?;
            if seat.is_none() {
                let (users, left) = gate.join(name)?;
                removed += u64::from(left);
                let (folder, name) = (folder.clone(), name.to_owned());
                seat = Some(Seat { folder, name, keep: false, users: Some(users) });
            }
            match gate.state(name)? {
                State::Whole => {
                    if !self.options.keep {
                        gate.set_keep(name, false)?;
                    }
                    let in_memory = Room::of(base, &self.options.root)?.in_memory;
                    let report = report(&folder.whole(name), self.need, None);
                    break StageReport { shared: true, in_memory, ..report };
                }
                State::Missing => {
                    removed += gate.sweep(name)?;
                    let (room, reserved) = (Room::of(base, &self.options.root)?, gate.reserved()?);
                    if *ample && !room.is_ample(self.need, reserved) {
                        return Ok(None);
                    }
                    room.check(self.need, reserved)?;
                    self.make(&folder, gate)?;
                    let report = report(&folder.whole(name), self.need, Some(&room));
                    break StageReport { removed, ..report };
                }
                State::Growing if cancelled() => {
                    return Err(gular_pelican::Error::Cancelled.into());
                }
                State::Growing => {
                    drop(gate);
                    if !waited {
                        (self.event)(StageEvent::Waiting);
                        waited = true;
                    }
                    std::thread::sleep(PATIENCE);
                }
            }
        };
        let report = StageReport { seconds: self.start.elapsed().as_secs_f64(), ..report };
        let keep = self.options.keep;
        Ok(seat.map(|mut seat| {
            seat.keep = keep;
            Staged { report, seat }
        }))
    }

    /// Copies; after a fault nothing is left, and who waits may try.
    fn make(&self, folder: &Folder, gate: Gate<'_>) -> Result<(), Error> {
        let making = gate.begin(&self.name, self.need.with_margin())?;
        drop(gate);
        let part = folder.part(&self.name);
        let copied = make_folder(&part).and_then(|()| self.copy(&part));
        let gate = folder.enter(&|| false)?;
        let made = copied.and_then(|()| gate.finish(&self.name));
        if made.is_err() {
            // Why it failed is worth more than why it could not be removed.
            let _ = gate.remove_trees(&self.name);
        }
        drop(making);
        made
    }

    fn copy(&self, to: &Path) -> Result<(), Error> {
        let progress = |done, total| (self.event)(StageEvent::Copied(done, total));
        let copy = Copy {
            to,
            threads: self.options.threads.max(1),
            total: self.need.content,
            done: AtomicU64::new(0),
            progress: &progress,
            cancel: self.cancel,
        };
        match &self.source {
            Source::Bundle(bundle) => copy.bundle(bundle),
            Source::Samples(bundle) => copy.samples(bundle),
            Source::Directory(directory) => copy.directory(directory),
            Source::Remote(remote) => {
                let client = Client::new(ClientOptions::new(self.env.clone()))?;
                let options = FetchOptions::default();
                let (trust, cancel) = (Trust::Nothing, self.cancel);
                fetch_trusting(&client, remote, to, &options, trust, &progress, cancel).map(drop)
            }
        }
    }
}
