//! Fetches chosen samples of a published bundle, as a separate bundle.
//!
//! ```text
//! keys, condition ─▶ indexes (digest): where, how much ─▶ values (digest of each) ─▶ shards, then
//!                └▶ values that the condition names, ┘                               manifest.json
//!                   where the index does not decide
//! ```
//!
//! Only the bytes of these samples are asked for, and a few between neighbours.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{
    Bundle, BundlePath, Digest, Envelope, Facts, FieldIdx, FileEntry, Filter, Index, MadeValue,
    Manifest, Row, ShardEntry, ShardSpec, ShardWriter, Split, write_manifest,
};
use serde::Serialize;

use super::disk::check_space;
use super::work_folder::{Made, WorkFolder, there};
use crate::sparse::{GiveValue, Sparse, SparseReport, read_samples, read_small};
use crate::{Client, Error, RemoteBundle, Watch};

/// About how many bytes of values are kept in memory until they are written. Indexes are kept up to
/// the same size, until it is known how much is wanted.
const HELD_BYTES: u64 = 64 << 20;
/// The most samples whose values are held at a time, since small values also need memory beside
/// them.
const MOST_ROWS: usize = 1 << 18;
/// A shard is complete when its samples have this many bytes.
const SHARD_BYTES: u64 = 1 << 30;
/// The most keys without a sample that are named.
const MOST_NAMED: usize = 5;

/// Options of [`fetch_samples`]: which samples are fetched, and how.
#[derive(Debug, Clone)]
pub struct SampleOptions {
    /// Keys of the wanted samples; if empty and a condition is given, samples may have any key.
    pub keys: BTreeSet<String>,
    /// A condition that the samples must fit, as [`Filter`] reads it.
    pub filter: Option<String>,
    /// Only samples of these splits; an empty list means all splits.
    pub splits: Vec<Split>,
    /// Number of requests at the same time.
    pub jobs: usize,
    /// Whether to read only the indexes, and report what would be fetched.
    pub dry_run: bool,
}

/// The result of fetching samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SampleReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Digest of the bundle that the samples are from.
    pub source: Digest,
    /// Digest of the new bundle of these samples; absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Number of samples that were chosen.
    pub samples: u64,
    /// Number of samples of the whole bundle.
    pub samples_of: u64,
    /// Bytes of the chosen samples' values.
    pub bytes_wanted: u64,
    /// Bytes requested from servers, without the indexes.
    pub bytes_asked: u64,
    /// Number of requests for the `bytes_asked`.
    pub requests: u64,
    /// Bytes of the indexes and views, which say where samples are.
    pub bytes_of_indexes: u64,
    /// Bytes requested from servers to evaluate the condition, without the indexes.
    pub bytes_of_condition: u64,
    /// Number of requests for the `bytes_of_condition`.
    pub requests_of_condition: u64,
    /// Number of keys that no sample has.
    pub unknown_keys: u64,
    /// The first of these keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Whether all of these samples were here already.
    pub already_done: bool,
    /// Wall-clock time in milliseconds.
    pub milliseconds: u64,
}

/// Fetches samples of `remote` by their keys, by a condition, or by both. The folder `dir`, which
/// must be new or empty, becomes a bundle of only these samples.
///
/// One process at a time writes to a folder; others wait for it.
///
/// # Errors
/// [`Error::NoKeys`]; [`Error::NoSuchKeys`] when no sample has any of the keys;
/// [`Error::Condition`]; [`Error::NoneFits`] when no sample fits it; [`Error::NotEmpty`];
/// [`Error::NoSpace`] before any sample is fetched; those of
/// [`read_samples`] and of writing. What was fetched until then is removed.
pub fn fetch_samples(
    client: &Client,
    remote: &RemoteBundle,
    dir: &Path,
    options: &SampleOptions,
    watch: Watch<'_>,
) -> Result<SampleReport, Error> {
    if options.keys.is_empty() && options.filter.is_none() {
        return Err(Error::NoKeys);
    }
    let start = Instant::now();
    let manifest = remote.manifest();
    let parse = |text: &String| Filter::parse(text, &manifest.fields, &manifest.classes);
    let filter = options.filter.as_ref().map(parse).transpose()?;
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
        bytes_of_condition: 0,
        requests_of_condition: 0,
        unknown_keys: 0,
        unknown: Vec::new(),
        already_done: false,
        milliseconds: 0,
    };
    let made = made(remote, options);
    if let Some(there) = there(dir, &made)? {
        return Ok(already_done(report, &there));
    }
    let found = find(client, remote, (options, filter.as_ref()), &mut report, watch)?;
    if options.dry_run {
        check_space(dir, report.bytes_wanted)?;
    } else {
        let work = WorkFolder::begin(dir, &made, watch)?;
        // The folder is examined again, since the process that had the lock may have written to it.
        if let Some(there) = there(dir, &made)? {
            return Ok(already_done(report, &there));
        }
        check_space(dir, report.bytes_wanted)?;
        let mut writing = Writing::begin(work.folder()?, manifest);
        let of_indexes = report.bytes_of_indexes;
        let (mut done, total) = (of_indexes, of_indexes + report.bytes_wanted);
        for Found { entry, rows, index } in found {
            let index = match index {
                Some(index) => index,
                None => read_index(client, remote, entry, watch)?,
            };
            let shard = Of { client, remote, entry, index: &index, jobs: options.jobs, watch };
            let read = writing.shard(&shard, &rows)?;
            report.bytes_asked += read.bytes_asked;
            report.requests += read.ranges;
            done += read.bytes_wanted;
            (watch.progress)(done, total);
        }
        let manifest = writing.finish(made)?;
        report.digest = Some(write_manifest(work.folder()?, &manifest)?);
        work.publish(&manifest)?;
    }
    report.milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(report)
}

fn already_done(report: SampleReport, there: &Bundle) -> SampleReport {
    SampleReport {
        samples: there.manifest().shards.iter().map(|shard| shard.samples).sum(),
        digest: Some(there.digest()),
        already_done: true,
        ..report
    }
}

/// The wanted samples of one shard.
struct Found<'a> {
    entry: &'a ShardEntry,
    rows: Vec<Row>,
    /// The shard's index, unless too much memory would be used.
    index: Option<Index>,
}

/// Reads the indexes, and counts the wanted samples and their bytes.
fn find<'a>(
    client: &Client,
    remote: &'a RemoteBundle,
    (options, filter): (&SampleOptions, Option<&Filter>),
    report: &mut SampleReport,
    watch: Watch<'_>,
) -> Result<Vec<Found<'a>>, Error> {
    let mut unseen: BTreeSet<&str> = options.keys.iter().map(String::as_str).collect();
    let shards = remote.shards_of(&options.splits)?;
    let mut listed = HashSet::new();
    let total = shards.iter().map(|shard| bytes_of_listings(shard, &mut listed)).sum();
    listed.clear();
    let (mut found, mut held) = (Vec::new(), 0_u64);
    for entry in shards {
        let index = read_index(client, remote, entry, watch)?;
        report.bytes_of_indexes += bytes_of_listings(entry, &mut listed);
        let is_wanted = |row: &Row| {
            index.key(*row).is_some_and(|key| {
                unseen.remove(key);
                options.keys.is_empty() || options.keys.contains(key)
            })
        };
        let mut rows: Vec<Row> = index.rows().filter(is_wanted).collect();
        if let Some(filter) = filter {
            let jobs = options.jobs;
            let shard = Of { client, remote, entry, index: &index, jobs, watch };
            let (fitting, read) = shard.fitting(&rows, filter)?;
            report.bytes_of_condition += read.bytes_asked;
            report.requests_of_condition += read.ranges;
            rows = fitting;
        }
        report.samples += rows.len() as u64;
        let fields: Vec<FieldIdx> = index.fields().collect();
        report.bytes_wanted += rows.iter().map(|row| bytes_of(&index, *row, &fields)).sum::<u64>();
        if !rows.is_empty() {
            held = held.saturating_add(bytes_of_listings(entry, &mut HashSet::new()));
            found.push(Found { entry, rows, index: (held <= HELD_BYTES).then_some(index) });
        }
        (watch.progress)(report.bytes_of_indexes, total);
    }
    report.unknown_keys = unseen.len() as u64;
    report.unknown = unseen.iter().take(MOST_NAMED).map(|key| (*key).to_owned()).collect();
    if report.samples == 0 {
        return Err(match &options.filter {
            Some(_) if options.keys.is_empty() || unseen.len() < options.keys.len() => {
                Error::NoneFits { of: report.samples_of }
            }
            _ => Error::NoSuchKeys { n: report.unknown_keys, keys: report.unknown.clone() },
        });
    }
    Ok(found)
}

/// Returns the bytes of those of a shard's index and view that are not in `listed`, and adds both
/// to `listed`.
fn bytes_of_listings<'a>(shard: &'a ShardEntry, listed: &mut HashSet<&'a BundlePath>) -> u64 {
    let files = [&shard.index].into_iter().chain(&shard.view);
    files.filter(|file: &&FileEntry| listed.insert(&file.name)).map(|file| file.bytes).sum()
}

/// Describes how the new bundle was made: as its source was, and which samples were chosen.
fn made(remote: &RemoteBundle, options: &SampleOptions) -> Made {
    let mut made = remote.manifest().made.clone();
    made.retain(|name, _| name != "plan" && !name.starts_with("derive_"));
    let splits: Vec<String> = options.splits.iter().map(Split::to_string).collect();
    if !splits.is_empty() {
        made.insert("fetch_splits".to_owned(), MadeValue::Text(splits.join(",")));
    }
    if !options.keys.is_empty() {
        let lines: String = options.keys.iter().map(|key| format!("{key}\n")).collect();
        let digest = Digest::of(lines.as_bytes());
        made.insert("fetch_keys".to_owned(), MadeValue::Text(digest.to_string()));
    }
    if let Some(filter) = &options.filter {
        made.insert("fetch_where".to_owned(), MadeValue::Text(filter.clone()));
    }
    made.insert("base".to_owned(), MadeValue::Text(remote.digest().to_string()));
    made
}

fn read_index(
    client: &Client,
    remote: &RemoteBundle,
    entry: &ShardEntry,
    watch: Watch<'_>,
) -> Result<Index, Error> {
    let bytes = remote.read(client, &entry.index, watch)?;
    let view = entry.view.as_ref().map(|view| remote.read(client, view, watch));
    let (view, name) = (view.transpose()?, entry.index.name.as_str());
    Ok(Index::accept(name, bytes, view.as_deref(), remote.manifest(), entry)?)
}

/// Returns the bytes of a sample's values in these fields that are not in the index.
fn bytes_of(index: &Index, row: Row, fields: &[FieldIdx]) -> u64 {
    let stored = fields.iter().filter(|field| index.digest(row, **field).is_some());
    stored.filter_map(|field| index.range(row, *field)).map(|(_, len)| len as u64).sum()
}

/// A shard of the source.
#[derive(Clone, Copy)]
struct Of<'a> {
    client: &'a Client,
    remote: &'a RemoteBundle,
    entry: &'a ShardEntry,
    index: &'a Index,
    jobs: usize,
    watch: Watch<'a>,
}

impl Of<'_> {
    /// Returns the samples among `rows` that fit `filter`, and how much was requested to find them.
    /// Values are fetched only for samples about which the index does not decide.
    fn fitting(&self, rows: &[Row], filter: &Filter) -> Result<(Vec<Row>, SparseReport), Error> {
        let (mut fitting, mut open) = (Vec::new(), Vec::new());
        for row in rows {
            match self.fits(*row, filter, None)? {
                Some(true) => fitting.push(*row),
                Some(false) => {}
                None => open.push(*row),
            }
        }
        let mut report = SparseReport::default();
        self.in_parts(&open, &filter.fields(), read_small, &mut |rows, values, read| {
            report.add(&read);
            for row in rows {
                if self.fits(*row, filter, Some(values))? == Some(true) {
                    fitting.push(*row);
                }
            }
            Ok(())
        })?;
        fitting.sort_unstable();
        Ok((fitting, report))
    }

    /// Returns whether a sample fits; `None` if the index and `values` do not decide it.
    fn fits(
        &self,
        row: Row,
        filter: &Filter,
        values: Option<&Values>,
    ) -> Result<Option<bool>, Error> {
        let manifest = self.remote.manifest();
        let image = manifest.image().unwrap_or(FieldIdx(0));
        let mut is_open = false;
        let mut value = |field| {
            let found = values.and_then(|values| values.get(&(row, field)));
            is_open |= found.is_none();
            // If a value is unknown, the answer does not matter.
            Ok(found.cloned().unwrap_or_default())
        };
        let mut facts = Facts {
            key: self.index.key(row).unwrap_or_default(),
            split: self.entry.split,
            label: self.index.label(row),
            bytes: self.index.range(row, image).map_or(0, |(_, len)| len as u64),
            value: &mut value,
        };
        let fits = filter.takes(&mut facts, &manifest.classes)?;
        Ok((!is_open).then_some(fits))
    }

    /// Reads these fields of these samples, with as many samples at a time as fit in
    /// [`HELD_BYTES`], and gives them to `take`.
    fn in_parts(
        &self,
        rows: &[Row],
        fields: &[FieldIdx],
        read: Read,
        take: &mut Take<'_>,
    ) -> Result<(), Error> {
        let mut rows = rows;
        while !rows.is_empty() {
            let mut bytes = 0_u64;
            let more = |row: &&Row| {
                bytes = bytes.saturating_add(bytes_of(self.index, **row, fields));
                bytes <= HELD_BYTES
            };
            let n = rows.iter().take(MOST_ROWS).take_while(more).count().max(1);
            let (some, rest) = rows.split_at(n);
            rows = rest;
            let (values, report) = self.read(some, fields, read)?;
            take(some, &values, report)?;
        }
        Ok(())
    }

    /// Reads values of these samples, by row and field.
    fn read(
        &self,
        rows: &[Row],
        fields: &[FieldIdx],
        read: Read,
    ) -> Result<(Values, SparseReport), Error> {
        let wanted = Sparse { shard: self.entry, index: self.index, rows, fields };
        let values = Mutex::new(Values::new());
        let give = |row: Row, field: FieldIdx, bytes: &[u8]| {
            let mut values = values.lock().unwrap_or_else(PoisonError::into_inner);
            values.insert((row, field), bytes.to_vec());
            Ok(())
        };
        let Self { client, remote, jobs, watch, .. } = *self;
        let report = read(client, remote, &wanted, jobs, &give, watch)?;
        Ok((values.into_inner().unwrap_or_else(PoisonError::into_inner), report))
    }
}

/// The function [`read_samples`] or [`read_small`].
type Read = fn(
    &Client,
    &RemoteBundle,
    &Sparse<'_>,
    usize,
    &GiveValue<'_>,
    Watch<'_>,
) -> Result<SparseReport, Error>;

/// A callback that gets samples, their values, and how much was requested.
type Take<'a> = dyn FnMut(&[Row], &Values, SparseReport) -> Result<(), Error> + 'a;

type Values = BTreeMap<(Row, FieldIdx), Vec<u8>>;

/// The bundle that is being written.
struct Writing<'a> {
    folder: PathBuf,
    manifest: &'a Manifest,
    shard: Option<(Split, ShardWriter, u64)>,
    finished: Vec<ShardEntry>,
}

impl<'a> Writing<'a> {
    fn begin(folder: &Path, manifest: &'a Manifest) -> Self {
        Self { folder: folder.to_owned(), manifest, shard: None, finished: Vec::new() }
    }

    /// Fetches and writes samples of one shard, in the shard's order.
    fn shard(&mut self, of: &Of<'_>, rows: &[Row]) -> Result<SparseReport, Error> {
        let mut report = SparseReport::default();
        let fields: Vec<FieldIdx> = of.index.fields().collect();
        of.in_parts(rows, &fields, read_samples, &mut |rows, values, read| {
            report.add(&read);
            rows.iter().try_for_each(|row| self.push(of, *row, values))
        })?;
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
                let writer = ShardWriter::create(&self.folder, &spec)?;
                none.insert((split, writer, 0))
            }
        };
        let key = of.index.key(row).unwrap_or_default();
        let key = BundlePath::parse(key).map_err(gular_bundle::Error::from)?;
        let label = i64::from(of.index.label(row).unwrap_or(-1)).to_le_bytes();
        let value = |field| match values.get(&(row, field)) {
            Some(value) => value.as_slice(),
            // The value is in the index itself.
            None => &label,
        };
        let all: Vec<&[u8]> = of.index.fields().map(value).collect();
        *bytes += all.iter().map(|value| value.len() as u64).sum::<u64>();
        Ok(writer.push_made(&key, &all, of.index.source(row))?)
    }

    fn end_shard(&mut self) -> Result<(), Error> {
        if let Some((_, writer, _)) = self.shard.take() {
            self.finished.push(writer.finish()?);
        }
        Ok(())
    }

    /// Returns the manifest, once all shards are written.
    fn finish(mut self, made: Made) -> Result<Manifest, Error> {
        self.end_shard()?;
        let (envelope, shards) = (Envelope::Shards, self.finished);
        let source = self.manifest.clone();
        Ok(Manifest { envelope, shards, made, statistics: None, ..source })
    }
}
