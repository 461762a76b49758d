//! Fetches shards when they are needed, and removes them from the node's cache when others need the
//! space.
//!
//! ```text
//! DIR/data/NAME                     a shard, as fetch writes it
//!          .gular-tmp-hold-NAME     locked, shared, by each reader that needs the shard
//!          .gular-tmp-bring-NAME    locked by whoever brings it
//!          .gular-tmp-fetch.lock    locked, shared, by all who bring or remove shards
//!          .gular-tmp-room.lock     locked by whoever makes space, for that moment
//!          .gular-tmp-split-SPLIT   locked, shared, by each reader that needs all of a split
//!          .gular-tmp-whole.lock    locked, shared, by each process that reads the whole bundle
//! ```
//!
//! The space is what the folder's files take: a shard that is there, or being fetched, takes
//! all of its bytes. A process that ends, in whatever way, no longer holds anything.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gular_bundle::{
    DATA_DIR, FieldIdx, FileEntry, FreeSpace, MANIFEST_NAME, NotBrought, Row, ShardEntry, ShardIdx,
    ShardSource, SingleValues, Split, TakeValue,
};
use gular_files::{Lock, LockMode, Size, TEMP_PREFIX, free, parallel, write_file};
use gular_pelican::Client;

use super::bundle::{Job, has_len};
use super::disk::{FolderLock, Partial, beside, check_space};
use super::folder::Held;
use crate::remote::OfFederation;
use crate::watch::check;
use crate::{Error, RemoteBundle, Sparse, Trust, Watch, read_samples};

/// How long to wait before checking again for free space, or for a shard that another process
/// fetches.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long to wait for other processes to free space.
const ROOM_PATIENCE: Duration = Duration::from_secs(600);

/// How long to wait for space on a full disk, which other programs may or may not free.
const DISK_PATIENCE: Duration = Duration::from_secs(10);

/// The number of indexes or single values that are fetched at the same time: they are small, and
/// each needs a round trip.
const SMALL_JOBS: usize = 16;

type Tell = dyn Fn(Option<&str>) + Send + Sync;

/// A callback that is told, in words, what training waits for; `None` when it no longer waits.
#[derive(Clone)]
pub struct TellWaiting(Arc<Tell>);

impl TellWaiting {
    /// Wraps `tell`, which may be called from any thread.
    pub fn new(tell: impl Fn(Option<&str>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn say(&self, what: Option<&str>) {
        (self.0)(what);
    }
}

impl Default for TellWaiting {
    /// A callback that does nothing.
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl fmt::Debug for TellWaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TellWaiting")
    }
}

/// The shards of a published bundle, and the folder that has some of them at a time.
pub(crate) struct Streamed {
    client: Client,
    remote: RemoteBundle,
    data: PathBuf,
    space: FreeSpace,
    tell: TellWaiting,
    /// The shard that a reader waits for.
    waited_for: Mutex<Option<ShardIdx>>,
    /// How long to wait for space.
    patience: Duration,
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").field("data", &self.data).finish_non_exhaustive()
    }
}

impl Streamed {
    /// Fetches the manifest and the indexes of `splits` (all if there are none) to `dir`, whose
    /// bundle may take `limit` bytes there, and never more than the file system has.
    pub(crate) fn open(
        client: Client,
        remote: RemoteBundle,
        dir: &Path,
        splits: &[Split],
        limit: Option<u64>,
        tell: TellWaiting,
        watch: Watch<'_>,
    ) -> Result<Self, Error> {
        let data = dir.join(DATA_DIR);
        let shards = remote.shards_of(splits)?;
        let held = Held::look(dir, remote.file())?;
        let is_there = |file: &FileEntry| has_len(&data.join(file.name.as_str()), file);
        let (mut held, mut gate) = (held == Held::Manifest, None);
        // Another process may fetch them meanwhile.
        while !held || !shards.iter().all(|shard| shard.listings().all(is_there)) {
            fs::create_dir_all(&data).map_err(|e| Error::io("create", &data, e))?;
            if gate.is_none() {
                gate = FolderLock::gate(&data)?;
            }
            if let Some(_lock) = FolderLock::attempt(&data)? {
                bring_indexes(&client, &remote, &data, &shards, watch)?;
                write_file(&dir.join(MANIFEST_NAME), remote.manifest_bytes())?;
            } else {
                thread::sleep(PATIENCE);
                check(watch)?;
            }
            held = Held::look(dir, remote.file())? == Held::Manifest;
        }
        drop(gate);
        let manifest = remote.manifest();
        let there = manifest.shards.iter().flat_map(ShardEntry::listings);
        let there = there.filter(|file| is_there(file));
        let indexes = there.fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
        let beside = indexes.saturating_add(remote.manifest_bytes().len() as u64);
        let files = Files::look(&data, &remote);
        // A twentieth stays free, since a completely full file system is of no use to anyone.
        let usable = free_bytes(dir) / 20 * 19;
        let here = files.bytes.saturating_sub(files.missing).saturating_add(beside);
        let all = usable.saturating_add(here);
        let space = FreeSpace::new(limit.map_or(all, |limit| limit.min(all)), beside);
        let (waited_for, patience) = (Mutex::default(), ROOM_PATIENCE);
        Ok(Self { client, remote, data, space, tell, waited_for, patience })
    }

    /// The bundle.
    pub(crate) fn remote(&self) -> &RemoteBundle {
        &self.remote
    }

    fn entry(&self, shard: ShardIdx) -> Result<&ShardEntry, NotBrought> {
        let entry = self.remote.manifest().shards.get(shard.0);
        entry.ok_or_else(|| {
            self.fault(&shard.0.to_string(), &"the manifest does not list this file")
        })
    }

    fn fault(&self, shard: &str, reason: &dyn fmt::Display) -> NotBrought {
        let (url, reason) = (self.remote.url().to_string(), reason.to_string());
        NotBrought { shard: shard.to_owned(), url, reason, hint: None, is_passing: false }
    }

    fn refused(&self, entry: &ShardEntry, error: &Error) -> NotBrought {
        let kept = "run the command again later, when the servers have the shard; what was fetched is kept";
        let hint = Some(error.hint().unwrap_or_else(|| kept.to_owned()));
        let is_passing = error.is_passing();
        NotBrought { hint, is_passing, ..self.fault(entry.file.name.as_str(), error) }
    }

    /// Tells the caller what it waits for, if it waits for this shard.
    fn say(&self, shard: ShardIdx, what: &dyn Fn() -> String) {
        let waited_for = *self.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
        if waited_for == Some(shard) {
            self.tell.say(Some(&what()));
        }
    }

    fn try_bring(
        &self,
        shard: ShardIdx,
        entry: &ShardEntry,
        next_use: &dyn Fn(ShardIdx) -> u64,
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        let name = entry.file.name.as_str();
        let to = self.data.join(name);
        let has = || has_len(&to, &entry.file);
        let go_on = &mut |_| !watch.is_cancelled();
        let mut no_room_since = None;
        loop {
            if has() {
                return Ok(());
            }
            if !go_on(Duration::ZERO) {
                return Err(Error::cancelled());
            }
            let folder = FolderLock::share(&self.data, go_on)?;
            let alone = Lock::try_at(&beside(&to, "bring"), LockMode::Exclusive)?;
            let Some(alone) = alone.map(Lock::removed_when_dropped) else {
                drop(folder);
                self.say(shard, &|| format!("shard `{name}`, which another process fetches"));
                thread::sleep(PATIENCE);
                continue;
            };
            if has() {
                return Ok(());
            }
            if self.make_room(entry, next_use, watch)? {
                let done = AtomicU64::new(0);
                let of = entry.bytes();
                let advance = |n: u64, _| {
                    let done = done.fetch_add(n, Ordering::Relaxed).saturating_add(n);
                    self.say(shard, &|| format!("shard `{name}`, {} of {}", Size(done), Size(of)));
                };
                let Self { client, remote, data, .. } = self;
                let (trust, advance) = (Trust::Names, &advance);
                let source = &OfFederation { client, remote };
                return Job { source, data, trust, advance, watch }.shard(entry);
            }
            drop((alone, folder));
            // Readers of this process may hold shards that they do not need yet.
            self.space.changed();
            let Some(since) = no_room_since else {
                // Other processes may have released some shards.
                no_room_since = Some(Instant::now());
                continue;
            };
            let is_cut = self.space.is_cut();
            let patience = if is_cut { self.patience.min(DISK_PATIENCE) } else { self.patience };
            if since.elapsed() >= patience {
                check_space(&self.data, entry.file.bytes)?;
                let (dir, bytes) = (self.data.display().to_string(), self.space.limit());
                return Err(Error::CacheInUse { dir, limit: bytes, needed: entry.file.bytes });
            }
            let why = if is_cut { "on a full disk" } else { "which other processes are using" };
            self.say(shard, &|| format!("room for shard `{name}`, {why}"));
            thread::sleep(PATIENCE);
        }
    }

    /// Returns whether there is space for a shard, after reserving it with the shard's temporary
    /// file.
    fn make_room(
        &self,
        entry: &ShardEntry,
        next_use: &dyn Fn(ShardIdx) -> u64,
        watch: Watch<'_>,
    ) -> Result<bool, Error> {
        let go_on = &mut |_| !watch.is_cancelled();
        let path = self.data.join(format!("{TEMP_PREFIX}room.lock"));
        let lock =
            Lock::wait_at(&path, LockMode::Exclusive, go_on)?.ok_or_else(Error::cancelled)?;
        let _lock = lock.removed_when_dropped();
        let (own, needed) = (entry.file.name.as_str(), entry.file.bytes);
        let mut files = Files::look(&self.data, &self.remote);
        // Other programs may have filled the file system since the limit was set.
        let here = files.bytes.saturating_sub(files.missing);
        self.space.measure(here.saturating_add(free_bytes(&self.data)));
        // The part that an earlier run left needs no additional space.
        let found = files.there.remove(own);
        found.iter().for_each(|file| files.forget(file));
        let missing = found.map_or(needed, |file| file.missing);
        let is_within =
            |files: &Files<'_>| files.bytes.saturating_add(needed) <= self.space.bytes();
        // A file that a process has open takes its space even after its removal.
        let space = |files: &Files<'_>| files.missing.saturating_add(missing);
        let fits = |files: &Files<'_>| is_within(files) && space(files) <= free_bytes(&self.data);
        if !fits(&files) {
            let mut others: Vec<(u64, &str, There)> = std::mem::take(&mut files.there)
                .into_iter()
                .map(|(name, file)| {
                    (file.shards.iter().map(|s| next_use(*s)).min().unwrap_or(u64::MAX), name, file)
                })
                .collect();
            others.sort_unstable_by_key(|(next, name, _)| (std::cmp::Reverse(*next), *name));
            let whole = Lock::try_at(&whole_lock(&self.data), LockMode::Exclusive)?;
            let whole = whole.map(Lock::removed_when_dropped);
            let splits = HeldSplits::look(&self.data)?;
            for (_, name, file) in others {
                if whole.is_none() || fits(&files) {
                    break;
                }
                let shards = file.shards.iter().filter_map(|shard| self.entry(*shard).ok());
                if shards.into_iter().any(|shard| splits.has(shard.split)) {
                    continue;
                }
                if remove(&self.data.join(name))? {
                    files.forget(&file);
                }
            }
        }
        if !fits(&files) {
            return Ok(false);
        }
        let to = self.data.join(own);
        make_folder_of(&to)?;
        check_space(&self.data, missing)?;
        Partial::reserve(&to).map(|()| true)
    }
}

impl ShardSource for Streamed {
    fn space(&self) -> &FreeSpace {
        &self.space
    }

    fn hold(
        &self,
        shard: ShardIdx,
        cancel: &AtomicBool,
    ) -> Result<Box<dyn Any + Send + Sync>, NotBrought> {
        let entry = self.entry(shard)?;
        let to = self.data.join(entry.file.name.as_str());
        let held = make_folder_of(&to)
            .and_then(|()| Hold::take(beside(&to, "hold"), Watch::silent(cancel)));
        Ok(Box::new(held.map_err(|error| self.refused(entry, &error))?))
    }

    fn hold_split(&self, split: Split, cancel: &AtomicBool) -> Option<Box<dyn Any + Send + Sync>> {
        fs::create_dir_all(&self.data).ok()?;
        Some(Box::new(Hold::take(split_lock(&self.data, split), Watch::silent(cancel)).ok()?))
    }

    fn bring(
        &self,
        shard: ShardIdx,
        next_use: &dyn Fn(ShardIdx) -> u64,
        cancel: &AtomicBool,
    ) -> Result<(), NotBrought> {
        let entry = self.entry(shard)?;
        let brought = self.try_bring(shard, entry, next_use, Watch::silent(cancel));
        brought.map_err(|error| self.refused(entry, &error))
    }

    fn is_here(&self, shard: ShardIdx) -> bool {
        let entry = self.entry(shard);
        entry.is_ok_and(|entry| has_len(&self.data.join(entry.file.name.as_str()), &entry.file))
    }

    fn read_values(
        &self,
        values: &SingleValues<'_>,
        take: &TakeValue<'_>,
        cancel: &AtomicBool,
    ) -> Result<(), NotBrought> {
        let SingleValues { shard, index, rows, field } = *values;
        let entry = self.entry(shard)?;
        let wanted = Sparse { shard: entry, index, rows, fields: &[field] };
        let give = |row: Row, _: FieldIdx, bytes: &[u8]| {
            take(row, bytes);
            Ok(())
        };
        let read = read_samples(
            &self.client,
            &self.remote,
            &wanted,
            SMALL_JOBS,
            &give,
            Watch::silent(cancel),
        );
        read.map(drop).map_err(|error| self.refused(entry, &error))
    }

    fn waited_for(&self, shard: Option<ShardIdx>) {
        let before = {
            let mut waited_for = self.waited_for.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *waited_for, shard)
        };
        match shard.and_then(|shard| self.entry(shard).ok()) {
            Some(entry) if before != shard => {
                self.tell.say(Some(&format!("shard `{}`", entry.file.name)));
            }
            None if before.is_some() => self.tell.say(None),
            _ => {}
        }
    }
}

/// Fetches the indexes of `shards`, and reports their progress.
fn bring_indexes(
    client: &Client,
    remote: &RemoteBundle,
    data: &Path,
    shards: &[&ShardEntry],
    watch: Watch<'_>,
) -> Result<(), Error> {
    let files = shards.iter().flat_map(|shard| shard.listings());
    let total = files.fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
    check_space(data, total)?;
    let done = AtomicU64::new(0);
    let advance = |n: u64, _| {
        (watch.progress)(done.fetch_add(n, Ordering::Relaxed).saturating_add(n), total);
    };
    parallel(shards, SMALL_JOBS, watch.cancel, |shard, stop| {
        make_folder_of(&data.join(shard.index.name.as_str()))?;
        let (trust, advance) = (Trust::Names, &advance);
        let source = &OfFederation { client, remote };
        let watch = watch.until(stop);
        Job { source, data, trust, advance, watch }.index(shard).map(drop)
    })?;
    Ok(check(watch)?)
}

/// Keeps a file from being removed, whether it exists or is still to come.
#[derive(Debug)]
pub(crate) struct Hold {
    lock: Option<Lock>,
    path: PathBuf,
}

impl Hold {
    fn take(path: PathBuf, watch: Watch<'_>) -> Result<Self, Error> {
        // The exclusive lock is only held for the moment of a removal.
        let go_on = &mut |_| !watch.is_cancelled();
        let lock = Lock::wait_at(&path, LockMode::Shared, go_on)?.ok_or_else(Error::cancelled)?;
        Ok(Self { lock: Some(lock), path })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(self.lock.take());
        // The last holder removes the lock's file; one that is left does no harm.
        if let Ok(Some(last)) = Lock::try_at(&self.path, LockMode::Exclusive) {
            drop(last.removed_when_dropped());
        }
    }
}

/// Keeps all shards in a cache's folder `dir`, for a bundle that is read as a whole. `None` if no
/// lock can be taken, for example on a read-only file system, where nobody removes shards.
pub(crate) fn keep_whole(dir: &Path) -> Option<Hold> {
    Hold::take(whole_lock(&dir.join(DATA_DIR)), Watch::never()).ok()
}

fn whole_lock(data: &Path) -> PathBuf {
    data.join(format!("{TEMP_PREFIX}whole.lock"))
}

fn split_lock(data: &Path, split: Split) -> PathBuf {
    data.join(format!("{TEMP_PREFIX}split-{split}"))
}

/// The splits that readers hold as a whole. While this exists, no reader can begin to hold one of
/// the other splits as a whole.
struct HeldSplits([Option<Lock>; 3]);

impl HeldSplits {
    fn look(data: &Path) -> Result<Self, Error> {
        let mut free = [None, None, None];
        for (free, split) in free.iter_mut().zip(Split::ALL) {
            let lock = Lock::try_at(&split_lock(data, split), LockMode::Exclusive)?;
            *free = lock.map(Lock::removed_when_dropped);
        }
        Ok(Self(free))
    }

    fn has(&self, split: Split) -> bool {
        let mut splits = self.0.iter().zip(Split::ALL);
        splits.any(|(free, of)| of == split && free.is_none())
    }
}

/// The free space of `dir`'s file system, if it is known.
fn free_bytes(dir: &Path) -> u64 {
    free(dir).map_or(u64::MAX, |free| free.bytes)
}

fn make_folder_of(to: &Path) -> Result<(), Error> {
    let Some(folder) = to.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))
}

/// Removes a shard that nobody holds, or the part of it that a killed run left; returns whether it
/// was removed.
fn remove(to: &Path) -> Result<bool, Error> {
    let Some(alone) = Lock::try_at(&beside(to, "hold"), LockMode::Exclusive)? else {
        return Ok(false);
    };
    let _alone = alone.removed_when_dropped();
    for path in [to.to_owned(), Partial::temp_of(to)] {
        match fs::symlink_metadata(&path) {
            Err(_) => {}
            Ok(found) if path == *to && !is_own(&found) => return Ok(false),
            Ok(_) => fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))?,
        }
    }
    Ok(true)
}

/// Returns whether a file is one that this cache wrote: plain, read-only, with one name, and owned
/// by this user.
fn is_own(found: &fs::Metadata) -> bool {
    let plain = found.is_file() && found.nlink() == 1;
    plain && found.mode() & 0o222 == 0 && found.uid() == rustix::process::getuid().as_raw()
}

/// The shards in a folder, including those that are being fetched.
struct Files<'a> {
    there: HashMap<&'a str, There>,
    /// The bytes of all shards.
    bytes: u64,
    /// How many of `bytes` still have to be fetched.
    missing: u64,
}

struct There {
    bytes: u64,
    missing: u64,
    shards: Vec<ShardIdx>,
}

impl<'a> Files<'a> {
    fn look(data: &Path, remote: &'a RemoteBundle) -> Self {
        let mut files = Self { there: HashMap::new(), bytes: 0, missing: 0 };
        for (number, shard) in remote.manifest().shards.iter().enumerate() {
            let FileEntry { name, bytes, .. } = &shard.file;
            let to = data.join(name.as_str());
            // A file may be listed for several splits.
            if let Some(known) = files.there.get_mut(name.as_str()) {
                known.shards.push(ShardIdx(number));
                continue;
            }
            let missing = match fs::metadata(Partial::temp_of(&to)) {
                _ if to.exists() => Some(0),
                Ok(part) => Some(bytes.saturating_sub(part.len())),
                Err(_) => None,
            };
            if let Some(missing) = missing {
                let there = There { bytes: *bytes, missing, shards: vec![ShardIdx(number)] };
                files.there.insert(name.as_str(), there);
                files.bytes = files.bytes.saturating_add(*bytes);
                files.missing = files.missing.saturating_add(missing);
            }
        }
        files
    }

    /// Stops counting a file.
    fn forget(&mut self, file: &There) {
        self.bytes = self.bytes.saturating_sub(file.bytes);
        self.missing = self.missing.saturating_sub(file.missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_is_held_by_one_file_until_its_last_reader_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let held = || {
            let held = HeldSplits::look(dir.path()).unwrap();
            Split::ALL.map(|split| held.has(split))
        };
        let cancel = AtomicBool::new(false);
        let take =
            || Hold::take(split_lock(dir.path(), Split::Val), Watch::silent(&cancel)).unwrap();
        assert_eq!(held(), [false; 3]);
        let readers = [take(), take()];
        assert_eq!(held(), [false, true, false]);
        let [first, second] = readers;
        drop(first);
        assert_eq!(held(), [false, true, false]);
        drop(second);
        assert_eq!(held(), [false; 3]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let removing = HeldSplits::look(dir.path()).unwrap();
        cancel.store(true, Ordering::Relaxed);
        let error =
            Hold::take(split_lock(dir.path(), Split::Val), Watch::silent(&cancel)).unwrap_err();
        assert!(error.is_cancelled(), "{error}");
        drop(removing);
    }
}
