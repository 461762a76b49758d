//! Fetches a whole bundle, or some of its splits.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use gular_bundle::{
    BLOCK_BYTES, Backend, BlockTree, DATA_DIR, FileEntry, Index, MANIFEST_NAME, ReadAt, ShardEntry,
    Split,
};
use gular_files::{folder_of, parallel, remove_left_temps, write_file};
use gular_pelican::Client;

use super::disk::{FolderLock, Partial, check_space};
use super::fetch_report::{Checked, FetchReport};
use super::folder::Held;
use crate::remote::OfFederation;
use crate::remote::{by_file, files_of};
use crate::watch::check;
use crate::{BundleFiles, Error, RemoteBundle, Watch};

/// Options of [`fetch`]: what is fetched, and how.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// The splits to fetch; all if the list is empty.
    pub splits: Vec<Split>,
    /// Number of shards that are fetched at the same time.
    pub jobs: usize,
    /// How far existing files are trusted.
    pub trust: Trust,
    /// Whether to report only what would be fetched.
    pub dry_run: bool,
}

impl Default for FetchOptions {
    /// Returns the defaults: all splits, four shards at the same time, every byte checked.
    fn default() -> Self {
        Self { splits: Vec::new(), jobs: 4, trust: Trust::Nothing, dry_run: false }
    }
}

/// How far files are trusted that already have their final name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Every byte is checked again.
    Nothing,
    /// Files of the right length are trusted, since files get their names only after they are
    /// checked.
    Names,
}

/// Fetches `remote` into the folder `dir`, which becomes a local bundle.
///
/// The progress counts bytes that were checked. Files that an earlier run left are checked and
/// kept. One process at a time writes to a folder; others wait for it, then check the files that it
/// fetched.
///
/// # Errors
/// [`Error::NoSpace`] before anything is written, [`Error::OtherBundle`] when
/// `dir` holds another one, [`Error::NotEmpty`] when it holds other files and nothing of the
/// bundle, [`Error::NoSplit`], [`Error::Pelican`], [`Error::Io`].
pub fn fetch(
    client: &Client,
    remote: &RemoteBundle,
    dir: &Path,
    options: &FetchOptions,
    watch: Watch<'_>,
) -> Result<FetchReport, Error> {
    fetch_from(&OfFederation { client, remote }, dir, options, watch)
}

/// Fetches like [`fetch`], from any [`BundleFiles`](crate::BundleFiles).
///
/// # Errors
/// As [`fetch`], with those of the source in place of the client's.
pub fn fetch_from(
    source: &dyn BundleFiles,
    dir: &Path,
    options: &FetchOptions,
    watch: Watch<'_>,
) -> Result<FetchReport, Error> {
    fetch_each(source, dir, options, watch, &|_, error| Err(error))
}

/// Fetches like [`fetch_from`]. What `failed` does about the error of a shard decides whether the
/// others are fetched. Without all shards, a folder that has no manifest gets none; the bytes of
/// shards that failed are in no figure of the report.
pub(super) fn fetch_each(
    source: &dyn BundleFiles,
    dir: &Path,
    options: &FetchOptions,
    watch: Watch<'_>,
    failed: &(dyn Fn(&ShardEntry, Error) -> Result<(), Error> + Sync),
) -> Result<FetchReport, Error> {
    let start = Instant::now();
    let bundle = source.manifest();
    let shards = bundle.shards_of(&options.splits)?;
    let manifest_len = bundle.bytes().len() as u64;
    let bytes = files_of(&shards).map(|file| file.bytes);
    let total = bytes.fold(manifest_len, u64::saturating_add);
    let report = |fetched: u64, kept: u64, held: Held| FetchReport {
        url: source.name(),
        digest: Some(bundle.digest()),
        dir: dir.to_owned(),
        files: files_of(&shards).count() as u64 + 1,
        bytes: total,
        bytes_fetched: fetched,
        bytes_kept: kept,
        dry_run: options.dry_run,
        checked: Checked::Digest,
        checked_how: None,
        manifest_mended: held == Held::DamagedManifest,
        wrong_copies: source.wrong_copies(),
        seconds: start.elapsed().as_secs_f64(),
    };
    let held = Held::look(dir, bundle)?;
    let data = dir.join(DATA_DIR);
    if options.dry_run {
        let manifest = if held == Held::Manifest { manifest_len } else { 0 };
        let there = bytes_there(&data, &shards).saturating_add(manifest);
        check_space(dir, total.saturating_sub(there))?;
        return Ok(report(total.saturating_sub(there), there, held));
    }
    let is_whole =
        |shard: &&ShardEntry| shard.files().all(|f| has_len(&data.join(f.name.as_str()), f));
    if options.trust == Trust::Names && held == Held::Manifest && shards.iter().all(is_whole) {
        // There is nothing to write, so there is no need to wait for other writers.
        (watch.progress)(total, total);
        return Ok(report(0, total, held));
    }
    fs::create_dir_all(&data).map_err(|e| Error::io("create", &data, e))?;
    let lock = FolderLock::wait(&data, watch)?;
    // The folder is examined again, since the process that had the lock may have written to it.
    let held = Held::look(dir, bundle)?;
    let paths = files_of(&shards).map(|file| data.join(file.name.as_str()));
    let folders: BTreeSet<PathBuf> = paths.map(|path| folder_of(&path).to_owned()).collect();
    folders.iter().map(PathBuf::as_path).chain([dir]).for_each(remove_left_temps);
    check_space(dir, total.saturating_sub(bytes_there(&data, &shards)))?;

    let (done, kept, lost) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let advance = |n: u64| {
        (watch.progress)(done.fetch_add(n, Ordering::Relaxed) + n, total);
    };
    // Entries of the same file are fetched one after another: two at once would write it at the
    // same time.
    let work = |group: &Vec<&ShardEntry>, stop: &AtomicBool| {
        let mut seen = HashSet::new();
        let mut entries = group.iter();
        while let Some(shard) = entries.next() {
            // Files of an earlier entry exist already, and were counted with that entry.
            let known = shard.files().filter(|file| !seen.insert(&file.name));
            let known: u64 = known.map(|file| file.bytes).sum();
            let (counted, kept_here) = (AtomicU64::new(known), AtomicU64::new(0));
            let advance = |n: u64, was_there: bool| {
                let again = if was_there { counted.load(Ordering::Relaxed).min(n) } else { 0 };
                counted.fetch_sub(again, Ordering::Relaxed);
                if was_there {
                    kept_here.fetch_add(n - again, Ordering::Relaxed);
                }
                advance(n - again);
            };
            let (data, trust, advance) = (data.as_path(), options.trust, &advance);
            let watch = watch.until(stop);
            match (Job { source, data, trust, advance, watch }).shard(shard) {
                Ok(()) => {
                    kept.fetch_add(kept_here.into_inner(), Ordering::Relaxed);
                }
                Err(error) if error.is_cancelled() => return Err(error),
                Err(error) => {
                    failed(shard, error)?;
                    // The other entries of this file would fail in the same way.
                    let rest = entries.flat_map(|shard| shard.files());
                    let rest: u64 =
                        rest.filter(|file| seen.insert(&file.name)).map(|file| file.bytes).sum();
                    let here = shard.bytes().saturating_sub(known);
                    lost.fetch_add(here.saturating_add(rest), Ordering::Relaxed);
                    break;
                }
            }
        }
        Ok(())
    };
    parallel(&by_file(&shards), options.jobs, watch.cancel, work)?;
    check(watch)?;

    let (mut kept, mut lost) = (kept.into_inner(), lost.into_inner());
    match held {
        Held::Manifest => kept += manifest_len,
        Held::Part if lost > 0 => lost += manifest_len,
        Held::Part | Held::DamagedManifest => {
            write_file(&dir.join(MANIFEST_NAME), bundle.bytes())?;
        }
    }
    advance(manifest_len);
    drop(lock);
    Ok(report(total.saturating_sub(kept).saturating_sub(lost), kept, held))
}

/// Returns the bytes that need no more space: those of complete files and of temporary ones.
fn bytes_there(data: &Path, shards: &[&ShardEntry]) -> u64 {
    let there = |file: &FileEntry| {
        let to = data.join(file.name.as_str());
        let len = |path: &Path| fs::metadata(path).map_or(0, |m| m.len());
        len(&to).max(len(&Partial::temp_of(&to))).min(file.bytes)
    };
    files_of(shards).map(there).sum()
}

/// The task of fetching a shard with its index and view.
pub(super) struct Job<'a> {
    pub(super) source: &'a dyn BundleFiles,
    pub(super) data: &'a Path,
    pub(super) trust: Trust,
    pub(super) advance: &'a (dyn Fn(u64, bool) + Sync),
    pub(super) watch: Watch<'a>,
}

impl Job<'_> {
    pub(super) fn shard(&self, shard: &ShardEntry) -> Result<(), Error> {
        let to = self.data.join(shard.file.name.as_str());
        let is_there = |file: &FileEntry| has_len(&self.data.join(file.name.as_str()), file);
        if self.trust == Trust::Names && shard.files().all(is_there) {
            (self.advance)(shard.bytes(), true);
            return Ok(());
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
        }
        let index = self.index(shard)?;
        let tree = &index.blocks();
        let accepts = |block: u64, bytes: &[u8]| tree.accepts(block, bytes);
        if self.trust == Trust::Names && is_there(&shard.file) {
            (self.advance)(shard.file.bytes, true);
            return Ok(());
        }
        let here = ReadAt::open(&to, Backend::Pread).ok();
        let mut right = self.right_blocks(here.as_ref(), tree)?;
        if is_there(&shard.file) && right.iter().all(|right| *right) {
            (self.advance)(shard.file.bytes, true);
            return Ok(());
        }
        let mut partial = Partial::open(&to)?;
        let step = |n: u64| {
            (self.advance)(n, true);
            !self.watch.is_cancelled()
        };
        let mut next = partial.keep_sound(shard.file.bytes, BLOCK_BYTES, &accepts, &step)?;
        let (n_blocks, mut buffer) = (tree.n_blocks() as u64, Vec::new());
        // Of a damaged file only the damaged blocks are fetched.
        while next < n_blocks {
            if let Some(here) = here.as_ref().filter(|_| is_right(&right, next)) {
                match tree.read(here, next, &mut buffer) {
                    Ok(bytes) if tree.accepts(next, bytes) => {
                        let written = partial.write(tree.range(next).start, bytes);
                        written.map_err(|e| Error::io("write", &to, e))?;
                        next += 1;
                        if !step(bytes.len() as u64) {
                            return Err(Error::cancelled());
                        }
                    }
                    // It was right before, and is to be fetched like the others now.
                    _ => set_wrong(&mut right, next),
                }
                continue;
            }
            let end = (next..n_blocks).find(|block| is_right(&right, *block)).unwrap_or(n_blocks);
            let mut sink = |position: u64, bytes: &[u8]| {
                partial.write(position, bytes)?;
                (self.advance)(bytes.len() as u64, false);
                Ok(())
            };
            self.source.stream(&shard.file, &accepts, next..end, &mut sink, self.watch)?;
            next = end;
        }
        partial.finish()
    }

    /// Says of each block of the file whether it is right here, if there is a file.
    fn right_blocks(&self, here: Option<&ReadAt>, tree: &BlockTree) -> Result<Vec<bool>, Error> {
        let Some(here) = here else { return Ok(Vec::new()) };
        let mut buffer = Vec::new();
        let right = |block: u64| {
            if self.watch.is_cancelled() {
                return Err(Error::cancelled());
            }
            if tree.range(block).end > here.len_bytes() {
                return Ok(false);
            }
            match tree.read(here, block, &mut buffer) {
                Ok(bytes) => Ok(tree.accepts(block, bytes)),
                Err(error) if error.is_damage() => Ok(false),
                Err(error) => Err(error.into()),
            }
        };
        (0..tree.n_blocks() as u64).map(right).collect()
    }

    /// Reads the shard's index and view, from the disk or the network, and makes sure that both are
    /// on the disk.
    pub(super) fn index(&self, shard: &ShardEntry) -> Result<Index, Error> {
        let to = self.data.join(shard.index.name.as_str());
        let (bytes, was_there) = self.listing(&shard.index)?;
        let view = shard.view.as_ref().map(|view| Ok::<_, Error>((view, self.listing(view)?)));
        let view = view.transpose()?;
        let of_view = view.as_ref().map(|(_, (bytes, _))| bytes.as_slice());
        let (shown, manifest) = (to.display().to_string(), self.source.manifest().manifest());
        let index = Index::accept(&shown, bytes.as_slice(), of_view, manifest, shard)?;
        let view = view.iter().map(|(entry, (bytes, was_there))| (*entry, bytes, *was_there));
        for (entry, bytes, was_there) in [(&shard.index, &bytes, was_there)].into_iter().chain(view)
        {
            if !was_there {
                write_file(&self.data.join(entry.name.as_str()), bytes)?;
            }
            (self.advance)(entry.bytes, was_there);
        }
        Ok(index)
    }

    /// Reads a small file; returns its bytes, and whether it was on the disk.
    fn listing(&self, file: &FileEntry) -> Result<(Vec<u8>, bool), Error> {
        match read_if_sound(&self.data.join(file.name.as_str()), file) {
            Some(bytes) => Ok((bytes, true)),
            None => Ok((self.source.read(file, self.watch)?, false)),
        }
    }
}

/// Whether block `block` is right, by a list that may be shorter.
fn is_right(right: &[bool], block: u64) -> bool {
    usize::try_from(block).ok().and_then(|block| right.get(block)).is_some_and(|right| *right)
}

fn set_wrong(right: &mut [bool], block: u64) {
    if let Some(right) = usize::try_from(block).ok().and_then(|block| right.get_mut(block)) {
        *right = false;
    }
}

pub(super) fn has_len(path: &Path, file: &FileEntry) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == file.bytes)
}

/// Reads a local file, if it is the one that `file` describes.
fn read_if_sound(path: &Path, file: &FileEntry) -> Option<Vec<u8>> {
    let source = ReadAt::open(path, Backend::Pread).ok()?;
    if source.len_bytes() != file.bytes {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(file.bytes).ok()?];
    source.read_at(0, &mut bytes).ok()?;
    file.accept("", &bytes).is_ok().then_some(bytes)
}
