//! Chosen samples of a published bundle, as a bundle of their own.
//!
//! ```text
//! keys ─▶ indexes (digest) ─▶ values (digest of each) ─▶ .gular-tmp-keys-DIR/ ─▶ rename to DIR
//! ```
//!
//! Only the bytes of these samples are asked for, and a few between neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{
    Bundle, BundlePath, DATA_DIR, Digest, Envelope, FieldIdx, Index, MadeValue, Manifest,
    OpenOptions, Row, ShardEntry, ShardSpec, ShardWriter, Split, write_manifest,
};
use gular_files::{TEMP_PREFIX, folder_of, sync_folder};
use serde::Serialize;

use super::disk::FolderLock;
use crate::sparse::{Sparse, SparseReport, read_samples};
use crate::{Client, Error, RemoteBundle, Watch};

/// Bytes of values that are held until they are written, about.
const HELD_BYTES: u64 = 64 << 20;
/// A shard takes samples until it has so many bytes of them.
const SHARD_BYTES: u64 = 1 << 30;
/// Keys that are named of those that no sample has.
const MOST_NAMED: usize = 5;

/// Which samples, and how they are fetched.
#[derive(Debug, Clone)]
pub struct SampleOptions {
    /// Their keys.
    pub keys: BTreeSet<String>,
    /// Only those of these splits; of all when there are none.
    pub splits: Vec<Split>,
    /// Requests at a time.
    pub jobs: usize,
    /// Only read the indexes, and say what would be fetched.
    pub dry_run: bool,
}

/// What was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SampleReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The bundle that they are of.
    pub source: Digest,
    /// The bundle that they are now; none under `dry_run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// How many they are.
    pub samples: u64,
    /// Samples of the whole bundle.
    pub samples_of: u64,
    /// Bytes of their values.
    pub bytes_wanted: u64,
    /// Bytes that servers were asked for besides the indexes.
    pub bytes_asked: u64,
    /// Requests for these.
    pub requests: u64,
    /// Bytes of the indexes, which say where samples are.
    pub bytes_of_indexes: u64,
    /// Keys that no sample has.
    pub unknown_keys: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Whether they were all here already.
    pub already_done: bool,
    /// Wall-clock time in thousandths.
    pub milliseconds: u64,
}

/// Fetches samples of `remote` by their keys; folder `dir`, which must be new or empty, becomes a
/// bundle of them alone.
///
/// # Errors
/// [`Error::NoSuchKeys`] when no sample has any of the keys, [`Error::NotEmpty`]; those of
/// [`read_samples`] and of writing. Then `dir` is as it was.
pub fn fetch_samples(
    client: &Client,
    remote: &RemoteBundle,
    dir: &Path,
    options: &SampleOptions,
    watch: Watch<'_>,
) -> Result<SampleReport, Error> {
    let start = Instant::now();
    let manifest = remote.manifest();
    let mut report = SampleReport {
        dry_run: options.dry_run,
        source: remote.digest(),
        digest: None,
        samples: 0,
        samples_of: manifest.shards.iter().map(|shard| shard.samples).sum(),
        bytes_wanted: 0,
        bytes_asked: 0,
        requests: 0,
        bytes_of_indexes: 0,
        unknown_keys: 0,
        unknown: Vec::new(),
        already_done: false,
        milliseconds: 0,
    };
    let made = made(remote, options);
    if let Some(there) = there(dir, &made)? {
        let shards = &there.manifest().shards;
        report.samples = shards.iter().map(|shard| shard.samples).sum();
        (report.digest, report.already_done) = (Some(there.digest()), true);
        return Ok(report);
    }
    let temp = temp_of(dir);
    let fetched = match options.dry_run {
        true => Fetched::Counted,
        false => Fetched::Written(Box::new(Writing::begin(&temp, manifest, watch)?)),
    };
    let ended = fetch_into(client, remote, fetched, options, &mut report, watch);
    let ended = ended.and_then(|fetched| {
        if let Fetched::Written(writing) = fetched {
            report.digest = Some(writing.finish(dir, made)?);
        }
        Ok(())
    });
    if let Err(error) = ended {
        let _ = fs::remove_dir_all(&temp);
        return Err(error);
    }
    report.milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(report)
}

/// Where the bundle is made that is to be in `dir`: another run there, or again, finds it.
fn temp_of(dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    folder_of(dir).join(format!("{TEMP_PREFIX}keys-{name}"))
}

/// Fetches the samples, or counts them.
fn fetch_into<'a>(
    client: &Client,
    remote: &RemoteBundle,
    mut fetched: Fetched<'a>,
    options: &SampleOptions,
    report: &mut SampleReport,
    watch: Watch<'_>,
) -> Result<Fetched<'a>, Error> {
    let mut unseen: BTreeSet<&str> = options.keys.iter().map(String::as_str).collect();
    let shards = remote.shards_of(&options.splits)?;
    let total: u64 = shards.iter().map(|shard| shard.index.bytes).sum();
    for entry in shards {
        let index = index(client, remote, entry, watch)?;
        report.bytes_of_indexes += entry.index.bytes;
        let is_wanted = |row: &Row| {
            index.key(*row).is_some_and(|key| {
                unseen.remove(key);
                options.keys.contains(key)
            })
        };
        let rows: Vec<Row> = index.rows().filter(is_wanted).collect();
        report.samples += rows.len() as u64;
        match &mut fetched {
            Fetched::Counted => {
                let wanted = rows.iter().map(|row| bytes_of(&index, *row));
                report.bytes_wanted += wanted.sum::<u64>();
            }
            Fetched::Written(writing) => {
                let shard = Of { client, remote, entry, index: &index, jobs: options.jobs, watch };
                let read = writing.shard(&shard, &rows)?;
                report.bytes_wanted += read.bytes_wanted;
                report.bytes_asked += read.bytes_asked;
                report.requests += read.ranges;
            }
        }
        let of_values = report.bytes_wanted;
        (watch.progress)(report.bytes_of_indexes + of_values, total + of_values);
    }
    report.unknown_keys = unseen.len() as u64;
    report.unknown = unseen.iter().take(MOST_NAMED).map(|key| (*key).to_owned()).collect();
    if report.samples == 0 {
        return Err(Error::NoSuchKeys { n: report.unknown_keys, keys: report.unknown.clone() });
    }
    Ok(fetched)
}

/// What becomes of the samples that are found.
enum Fetched<'a> {
    Counted,
    Written(Box<Writing<'a>>),
}

/// How the new bundle says what it is: what is true of its source, and which samples it has.
fn made(remote: &RemoteBundle, options: &SampleOptions) -> BTreeMap<String, MadeValue> {
    let mut made = remote.manifest().made.clone();
    made.retain(|name, _| name != "plan" && !name.starts_with("derive_"));
    let mut lines: Vec<u8> = Vec::new();
    for key in &options.keys {
        lines.extend_from_slice(key.as_bytes());
        lines.push(b'\n');
    }
    let splits: Vec<String> = options.splits.iter().map(Split::to_string).collect();
    if !splits.is_empty() {
        made.insert("fetch_splits".to_owned(), MadeValue::Text(splits.join(",")));
    }
    made.insert("fetch_keys".to_owned(), MadeValue::Text(Digest::of(&lines).to_string()));
    made.insert("base".to_owned(), MadeValue::Text(remote.digest().to_string()));
    made
}

/// The bundle in `dir`, if it is the one that would be made.
fn there(dir: &Path, made: &BTreeMap<String, MadeValue>) -> Result<Option<Bundle>, Error> {
    let found = match fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|e| gular_files::Error::new("list", dir, e))?,
    };
    let mut names = found.filter_map(|entry| Some(entry.ok()?.file_name()));
    let Some(first) = names.next() else { return Ok(None) };
    let bundle = Bundle::open(dir, OpenOptions::default()).ok();
    match bundle.filter(|bundle| bundle.manifest().made == *made) {
        Some(bundle) => {
            bundle.check_lengths()?;
            Ok(Some(bundle))
        }
        None => Err(Error::NotEmpty {
            dir: dir.display().to_string(),
            found: first.to_string_lossy().into_owned(),
            more: names.count(),
        }),
    }
}

fn index(
    client: &Client,
    remote: &RemoteBundle,
    entry: &ShardEntry,
    watch: Watch<'_>,
) -> Result<Index, Error> {
    let bytes = remote.read(client, &entry.index, watch.cancel)?;
    let view = entry.view.as_ref().map(|view| remote.read(client, view, watch.cancel));
    let (view, name) = (view.transpose()?, entry.index.name.as_str());
    Ok(Index::accept(name, bytes, view.as_deref(), remote.manifest(), entry)?)
}

/// Bytes of a sample's values outside the index.
fn bytes_of(index: &Index, row: Row) -> u64 {
    let stored = index.fields().filter(|field| index.digest(row, *field).is_some());
    stored.filter_map(|field| index.range(row, field)).map(|(_, len)| len as u64).sum()
}

/// A shard of the source.
struct Of<'a> {
    client: &'a Client,
    remote: &'a RemoteBundle,
    entry: &'a ShardEntry,
    index: &'a Index,
    jobs: usize,
    watch: Watch<'a>,
}

impl Of<'_> {
    /// Values of these samples, by row and field.
    fn read(&self, rows: &[Row]) -> Result<(Values, SparseReport), Error> {
        let fields: Vec<FieldIdx> = self.index.fields().collect();
        let wanted = Sparse { shard: self.entry, index: self.index, rows, fields: &fields };
        let values = Mutex::new(Values::new());
        let give = |row: Row, field: FieldIdx, bytes: &[u8]| {
            let mut values = values.lock().unwrap_or_else(PoisonError::into_inner);
            values.insert((row, field), bytes.to_vec());
            Ok(())
        };
        let Self { client, remote, jobs, watch, .. } = *self;
        let report = read_samples(client, remote, &wanted, jobs, &give, watch.cancel)?;
        Ok((values.into_inner().unwrap_or_else(PoisonError::into_inner), report))
    }
}

type Values = BTreeMap<(Row, FieldIdx), Vec<u8>>;

/// The bundle that is being written.
struct Writing<'a> {
    temp: PathBuf,
    /// Nobody else writes there.
    lock: FolderLock,
    manifest: &'a Manifest,
    shard: Option<(Split, ShardWriter, u64)>,
    finished: Vec<ShardEntry>,
}

impl<'a> Writing<'a> {
    fn begin(temp: &Path, manifest: &'a Manifest, watch: Watch<'_>) -> Result<Self, Error> {
        let io = |e| gular_files::Error::new("create", temp, e);
        fs::create_dir_all(temp).map_err(io)?;
        let lock = FolderLock::wait(temp, watch)?;
        // What a killed run left.
        let data = temp.join(DATA_DIR);
        match fs::remove_dir_all(&data) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(gular_files::Error::new("remove", &data, e).into());
            }
            _ => {}
        }
        fs::create_dir_all(&data).map_err(io)?;
        let (temp, shard, finished) = (temp.to_owned(), None, Vec::new());
        Ok(Self { temp, lock, manifest, shard, finished })
    }

    /// Fetches and writes samples of one shard, in its order.
    fn shard(&mut self, of: &Of<'_>, rows: &[Row]) -> Result<SparseReport, Error> {
        let mut report = SparseReport::default();
        let mut rows = rows;
        while !rows.is_empty() {
            let mut bytes = 0_u64;
            let more = |row: &&Row| {
                bytes = bytes.saturating_add(bytes_of(of.index, **row));
                bytes <= HELD_BYTES
            };
            let n = rows.iter().take_while(more).count().max(1);
            let (some, rest) = rows.split_at(n);
            rows = rest;
            let (values, read) = of.read(some)?;
            report.bytes_wanted += read.bytes_wanted;
            report.bytes_asked += read.bytes_asked;
            report.ranges += read.ranges;
            for row in some {
                self.push(of, *row, &values)?;
            }
        }
        Ok(report)
    }

    fn push(&mut self, of: &Of<'_>, row: Row, values: &Values) -> Result<(), Error> {
        let split = of.entry.split;
        if self.shard.as_ref().is_some_and(|(s, _, bytes)| *s != split || *bytes >= SHARD_BYTES) {
            self.end_shard()?;
        }
        let (_, writer, bytes) = match &mut self.shard {
            Some(shard) => shard,
            none => {
                let Manifest { fields, classes, .. } = self.manifest;
                let spec = ShardSpec { envelope: Envelope::Shards, split, fields, classes };
                let writer = ShardWriter::create(&self.temp.join(DATA_DIR), &spec)?;
                none.insert((split, writer, 0))
            }
        };
        let key = of.index.key(row).unwrap_or_default();
        let key = BundlePath::parse(key).map_err(gular_bundle::Error::from)?;
        let label = i64::from(of.index.label(row).unwrap_or(-1)).to_le_bytes();
        let value = |field| match values.get(&(row, field)) {
            Some(value) => value.as_slice(),
            // What the index holds itself.
            None => &label,
        };
        let all: Vec<&[u8]> = of.index.fields().map(value).collect();
        *bytes += all.iter().map(|value| value.len() as u64).sum::<u64>();
        Ok(writer.push(&key, &all)?)
    }

    fn end_shard(&mut self) -> Result<(), Error> {
        if let Some((_, writer, _)) = self.shard.take() {
            self.finished.push(writer.finish()?);
        }
        Ok(())
    }

    /// The folder's own name comes last.
    fn finish(mut self, dir: &Path, made: BTreeMap<String, MadeValue>) -> Result<Digest, Error> {
        self.end_shard()?;
        let (envelope, shards) = (Envelope::Shards, self.finished);
        let source = self.manifest.clone();
        let manifest = Manifest { envelope, shards, made, statistics: None, ..source };
        let digest = write_manifest(&self.temp, &manifest)?;
        drop(self.lock);
        fs::rename(&self.temp, dir).map_err(|e| gular_files::Error::new("rename to", dir, e))?;
        sync_folder(folder_of(dir))?;
        Ok(digest)
    }
}
