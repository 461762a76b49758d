//! Repairs a local copy of a published bundle while it is being read.
//!
//! ```text
//! a reader finds wrong bytes ─▶ the blocks that hold them ─▶ still wrong: from the servers, in place
//! an index is another file   ─▶ from the servers, by rename
//! ```
//!
//! A shard keeps its name and its inode: processes that have it open or mapped read the right bytes
//! from then on. This is the one place where a file with its final name is written to. A process that
//! is killed meanwhile leaves a block wrong that was wrong before. What a link leads to, and a file
//! with several names, may be the user's own, and stays as it is.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gular_bundle::{
    Backend, BlockTree, Bundle, Index, Mend, NotBrought, ReadAt, ShardEntry, ShardIdx, data_folder,
    stored_file,
};
use gular_files::write_file;
use gular_pelican::{Client, ClientOptions, WrongBytes};

use super::streamed::TellWaiting;
use crate::{BundleUrl, Error, RemoteBundle, Watch};

/// How often a file is opened that another process makes read-only meanwhile.
const MOST_TRIES: u32 = 100;
/// After a failure, servers are not asked again for so long: all threads meet the same one. If they
/// may have been busy or away, that is true of all shards, otherwise of the same shard alone.
const PAUSE: Duration = Duration::from_secs(60);

/// How long a thread sleeps while another one repairs the bundle.
const PATIENCE: Duration = Duration::from_millis(20);

/// Fetches again what is damaged of a bundle.
#[derive(Debug)]
pub(crate) struct Mender {
    dir: PathBuf,
    url: BundleUrl,
    asked: Asked,
    tell: TellWaiting,
    /// Is made when something is damaged.
    source: OnceLock<Source>,
    /// Is held while something is replaced, since several threads may find it damaged.
    turn: Mutex<Failures>,
}

/// The latest failure of each shard, and when it was.
type Failures = BTreeMap<ShardIdx, (Instant, NotBrought)>;

/// The client that fetches.
#[derive(Debug)]
enum Asked {
    /// The one that fetched the bundle.
    By(Client),
    /// One that is made when it is needed: most copies are never damaged.
    With(Box<ClientOptions>),
}

/// The published bundle, and where its files are on this machine.
#[derive(Debug)]
struct Source {
    client: Client,
    remote: RemoteBundle,
    data: PathBuf,
}

impl Mender {
    /// Makes `bundle`, the copy in the node's cache of the one at `url`, fetch again what is damaged
    /// of it; `tell` is told of that.
    pub(crate) fn attach(
        bundle: Bundle,
        client: &Client,
        url: &BundleUrl,
        tell: TellWaiting,
    ) -> Bundle {
        Self::of(bundle, Asked::By(client.clone()), url, tell)
    }

    /// Does the same for any local copy, with a client that is made when something is damaged.
    pub(crate) fn attach_with(
        bundle: Bundle,
        client: ClientOptions,
        url: &BundleUrl,
        tell: TellWaiting,
    ) -> Bundle {
        Self::of(bundle, Asked::With(Box::new(client)), url, tell)
    }

    fn of(bundle: Bundle, asked: Asked, url: &BundleUrl, tell: TellWaiting) -> Bundle {
        let url = BundleUrl { digest: Some(bundle.digest()), ..url.clone() };
        let (dir, source, turn) = (bundle.dir().to_owned(), OnceLock::new(), Mutex::default());
        bundle.with_mender(Arc::new(Self { dir, url, asked, tell, source, turn }))
    }

    /// Waits until no other thread repairs the bundle; the caller does so alone.
    fn turn(&self, watch: Watch<'_>) -> Result<MutexGuard<'_, Failures>, Error> {
        loop {
            match self.turn.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                Err(TryLockError::WouldBlock) if watch.is_cancelled() => {
                    return Err(Error::cancelled());
                }
                Err(TryLockError::WouldBlock) => sleep(PATIENCE),
            }
        }
    }

    fn source(&self, watch: Watch<'_>) -> Result<&Source, Error> {
        if let Some(source) = self.source.get() {
            return Ok(source);
        }
        let client = match &self.asked {
            Asked::By(client) => client.clone(),
            Asked::With(options) => Client::new((**options).clone())?,
        };
        let copy = RemoteBundle::of_copy(&self.url, &self.dir);
        let remote = match copy {
            Some(remote) => remote,
            // The manifest was right when the bundle was opened.
            None => RemoteBundle::open(&client, &self.url, watch)?,
        };
        let data = data_folder(&self.dir, remote.manifest());
        Ok(self.source.get_or_init(|| Source { client, remote, data }))
    }

    /// Repairs something of a shard, unless that failed just before.
    fn repair(
        &self,
        shard: ShardIdx,
        watch: Watch<'_>,
        work: impl FnOnce(&Source, &ShardEntry) -> Result<u64, Error>,
    ) -> Result<u64, NotBrought> {
        let failure = |error: &Error| NotBrought {
            // The bundle, which knows it, fills it in.
            shard: String::new(),
            url: self.url.to_string(),
            reason: error.to_string(),
            hint: error.hint(),
            is_passing: error.is_passing(),
        };
        let refused = |failed: NotBrought, when: &str| NotBrought {
            reason: format!(
                "its copy in `{}` is damaged, and {when}{}",
                self.dir.display(),
                failed.reason
            ),
            ..failed
        };
        let mut failures = self.turn(watch).map_err(|error| refused(failure(&error), ""))?;
        failures.retain(|_, (at, _)| at.elapsed() < PAUSE);
        if let Some((_, failed)) = failures.get(&shard) {
            return Err(refused(failed.clone(), ""));
        }
        if let Some((_, failed)) = failures.values().find(|(_, failed)| failed.is_passing) {
            let when = "less than a minute ago servers failed for another shard: ";
            return Err(refused(failed.clone(), when));
        }
        let repaired = self.source(watch).and_then(|source| {
            let entry = source.remote.manifest().shards.get(shard.0);
            entry.map_or(Ok(0), |entry| work(source, entry))
        });
        repaired.map_err(|error| {
            let failed = failure(&error);
            if !watch.is_cancelled() {
                failures.insert(shard, (Instant::now(), failed.clone()));
            }
            refused(failed, "")
        })
    }

    fn blocks(
        &self,
        source: &Source,
        entry: &ShardEntry,
        tree: &BlockTree,
        range: &Range<u64>,
        watch: Watch<'_>,
    ) -> Result<u64, Error> {
        let Source { client, remote, data } = source;
        let path = stored_file(data, &entry.file);
        if !is_own(&self.dir, &path) {
            return Ok(0);
        }
        let io = |action| {
            let path = &path;
            move |e| Error::io(action, path, e)
        };
        let file = File::open(&path).map_err(io("open"))?;
        let mut bad = Vec::new();
        for block in tree.blocks_of(range) {
            let range = tree.range(block);
            let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
            let mut bytes = vec![0; len];
            let read = file.read_exact_at(&mut bytes, range.start);
            if read.is_err() || !tree.accepts(block, &bytes) {
                bad.push((block, range));
            }
        }
        for (block, range) in &bad {
            let name = &entry.file.name;
            self.tell.say(Some(&format!("a damaged block of shard `{name}` to be fetched again")));
            let accepts = |bytes: &[u8]| match tree.accepts(*block, bytes) {
                true => Ok(()),
                false => Err(WrongBytes::Differ { range: range.clone() }),
            };
            let bytes = remote.read_range(client, &entry.file, range.clone(), &accepts, watch);
            self.tell.say(None);
            replace(&path, range.start, &bytes?).map_err(io("repair"))?;
        }
        Ok(bad.len() as u64)
    }

    fn listings(
        &self,
        source: &Source,
        entry: &ShardEntry,
        watch: Watch<'_>,
    ) -> Result<u64, Error> {
        let Source { client, remote, data } = source;
        let mut n = 0;
        for file in entry.listings() {
            let path = stored_file(data, file);
            if !is_own(&self.dir, &path) {
                continue;
            }
            let is_right = || {
                let here = ReadAt::open(&path, Backend::Pread).ok()?;
                let mut bytes = vec![0; usize::try_from(here.len_bytes()).ok()?];
                let fits = here.len_bytes() == file.bytes && here.read_at(0, &mut bytes).is_ok();
                (fits && file.accept("", &bytes).is_ok()).then_some(())
            };
            if is_right().is_some() {
                continue;
            }
            let name = &file.name;
            self.tell.say(Some(&format!("`{name}`, which is damaged, to be fetched again")));
            let bytes = remote.read(client, file, watch);
            self.tell.say(None);
            let mode = fs::metadata(&path).map_or(0o444, |found| found.permissions().mode());
            write_file(&path, &bytes?)?;
            fs::set_permissions(&path, Permissions::from_mode(mode))
                .map_err(|e| Error::io("protect", &path, e))?;
            n += 1;
        }
        Ok(n)
    }
}

impl Mend for Mender {
    fn mend(
        &self,
        shard: ShardIdx,
        index: &Index,
        range: Range<u64>,
        cancel: &AtomicBool,
    ) -> Result<u64, NotBrought> {
        let watch = Watch::silent(cancel);
        self.repair(shard, watch, |source, entry| {
            self.blocks(source, entry, &index.blocks(), &range, watch)
        })
    }

    fn mend_listings(&self, shard: ShardIdx, cancel: &AtomicBool) -> Result<u64, NotBrought> {
        let watch = Watch::silent(cancel);
        self.repair(shard, watch, |source, entry| self.listings(source, entry, watch))
    }
}

/// Whether the file at `path` is in the bundle's folder `dir` alone, or missing there: neither it nor a
/// folder of `dir` on the way to it is a link, and it has one name.
fn is_own(dir: &Path, path: &Path) -> bool {
    let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let has_names =
        fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.nlink() > 1);
    let mut within = path.ancestors().take_while(|path| *path != dir);
    path.starts_with(dir) && !has_names && !within.any(is_link)
}

/// Writes `bytes` into the file at `path`. If it is read-only, it is so afterwards, too.
fn replace(path: &Path, position: u64, bytes: &[u8]) -> io::Result<()> {
    let file = open_to_write(path)?;
    file.write_all_at(bytes, position)?;
    file.sync_data()
}

/// Opens a file that may be read-only. Another process that does the same may take the permission
/// back just before.
fn open_to_write(path: &Path) -> io::Result<File> {
    let (open, mut tries) = (|| OpenOptions::new().write(true).open(path), 0);
    let is_read_only = |opened: &io::Result<File>| {
        opened.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
    };
    let mut opened = open();
    while is_read_only(&opened) && tries < MOST_TRIES {
        let mode = fs::metadata(path)?.permissions().mode() & 0o555;
        fs::set_permissions(path, Permissions::from_mode(mode | 0o200))?;
        opened = open();
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        tries += 1;
    }
    opened
}
