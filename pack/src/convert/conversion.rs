//! The whole conversion: worker threads write the shards, then the manifest or list is written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{
    Bundle, BundleNames, CheckWhen, Digest, Envelope, FieldIdx, Manifest, OpenOptions, Row,
    ShardEntry, ShardIdx,
};
use gular_files::parallel;
use serde::Serialize;

use crate::convert::{bundle, directory};
use crate::error::Error;
use crate::facts::RunError;
use crate::packing::Progress;
use crate::shards::{Done, OutDir, ShardError, finished_bundle};
use crate::source::OnBadInput;

/// What a bundle is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A bundle of this envelope.
    Bundle(Envelope),
    /// `split/key` files (`key`, where keys begin with their split), and a list of them for each split.
    Directory,
}

/// Options of [`convert`].
#[derive(Debug, Clone, Copy)]
pub struct ConvertOptions {
    /// What the bundle is converted to.
    pub target: Target,
    /// Worker threads.
    pub jobs: usize,
    /// Whether to report only what would be done.
    pub dry_run: bool,
}

/// The result of [`convert`], or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConvertReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Digest of the source bundle.
    pub source: Digest,
    /// Digest of the new bundle; absent in a dry run and for directories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Number of samples; their values have the same digests as in the source.
    pub samples: u64,
    /// Bytes that were written; in a dry run, bytes of the source.
    pub bytes: u64,
    /// Number of shards.
    pub shards: u64,
    /// Number of shards that an earlier, interrupted run had finished.
    pub resumed_shards: u64,
    /// Whether everything was done before, so that there was nothing to do.
    pub already_done: bool,
    /// Wall-clock time.
    pub seconds: f64,
}

/// Takes a sample: its row, and one value a field.
type Take<'a> = dyn FnMut(Row, &[&[u8]]) -> Result<(), Error> + 'a;

/// The state that the threads share.
pub(crate) struct Conversion<'a> {
    pub(crate) source: &'a Bundle,
    pub(crate) out: &'a OutDir,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) progress: &'a (dyn Fn(Progress) + Sync),
}

/// Writes the bundle in folder `source` again, in folder `out`.
///
/// # Errors
/// See [`Error`]; a sample whose bytes are not those that were packed ends the
/// run. Finished shards stay, and the same call resumes from them.
pub fn convert(
    source: &Path,
    out: &Path,
    options: &ConvertOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<ConvertReport, Error> {
    let start = Instant::now();
    let open = OpenOptions { check: CheckWhen::Always, ..OpenOptions::default() };
    let bundle = Bundle::open(source, open)?;
    crate::packing::check_apart(source, out)?;
    bundle.check_lengths()?;
    let manifest = bundle.manifest();
    let mut report = ConvertReport {
        dry_run: options.dry_run,
        source: bundle.digest(),
        digest: None,
        samples: manifest.shards.iter().map(|s| s.samples).sum(),
        bytes: manifest.shards.iter().map(|s| s.file.bytes).sum(),
        shards: manifest.shards.len() as u64,
        resumed_shards: 0,
        already_done: false,
        seconds: 0.0,
    };
    progress(Progress::Planned(report.samples, report.bytes));
    let finished = match options.target {
        _ if options.dry_run => false,
        Target::Bundle(envelope) => match finished_bundle(out)? {
            Some(made) if bundle::is_finished(&bundle, &made, envelope)? => {
                report.digest = Some(made.digest());
                true
            }
            _ => false,
        },
        Target::Directory => directory::is_finished(&bundle, out)?,
    };
    if finished {
        report.already_done = true;
    } else if !options.dry_run {
        OutDir::with(out, |dir| run(&bundle, dir, options, progress, cancel, &mut report))?;
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn run(
    source: &Bundle,
    out: &OutDir,
    options: &ConvertOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
    report: &mut ConvertReport,
) -> Result<(), Error> {
    let target = match options.target {
        Target::Bundle(envelope) => envelope.name(),
        Target::Directory => "directory",
    };
    let id = format!("{} {target}", source.digest().hex());
    let shards = &source.manifest().shards;
    let resumed = out.keep_source(&id)?;
    let done = out.finished(&id, 0..shards.len(), OnBadInput::Fail)?;
    report.resumed_shards = done.len() as u64;
    let left = shards.iter().enumerate().filter(|(i, _)| !done.contains_key(i));
    let needed = left.map(|(i, s)| needed(source, ShardIdx(i), s));
    let needed = needed.sum::<Result<u64, Error>>()?;
    let free = out.free()?.bytes;
    if free < needed {
        return Err(RunError::NoSpace { path: out.shown(), needed, free }.into());
    }
    for number in done.keys() {
        let shard = &shards[*number];
        progress(Progress::Packed(shard.samples, shard.file.bytes));
    }
    let work = Conversion { source, out, cancel, progress };
    let names = match options.target {
        Target::Bundle(_) => None,
        Target::Directory => Some(BundleNames::new(source)?),
    };
    let done = each_shard(shards.len(), done, options.jobs, out, &|number| {
        let shard = ShardIdx(number);
        let entry = match (options.target, &names) {
            (Target::Bundle(envelope), _) => bundle::shard(&work, shard, envelope)?,
            (Target::Directory, Some(names)) => {
                directory::shard(&work, shard, names, resumed).map(|()| None)?
            }
            (Target::Directory, None) => None,
        };
        let done = Done::of(&id, entry);
        out.note(number, &done)?;
        Ok(done)
    })?;
    match options.target {
        Target::Bundle(envelope) => {
            let shards = done.into_values().filter_map(|d| d.entry).collect();
            let manifest = Manifest { envelope, shards, ..source.manifest().clone() };
            report.bytes = manifest.shards.iter().map(ShardEntry::bytes).sum();
            report.digest = Some(out.publish(&manifest, &[])?);
        }
        Target::Directory => report.bytes = directory::finish(&work)?,
    }
    Ok(())
}

/// The bytes that a shard takes when it is written again: of one with a view those of its samples.
fn needed(source: &Bundle, shard: ShardIdx, entry: &ShardEntry) -> Result<u64, Error> {
    if entry.view.is_none() {
        return Ok(entry.bytes());
    }
    let index = source.index(shard)?;
    let values = index.rows().flat_map(|row| index.fields().map(move |field| (row, field)));
    let values = values.filter_map(|(row, field)| index.range(row, field));
    let bytes = values.fold(0_u64, |sum, (_, len)| sum.saturating_add(len as u64));
    Ok(bytes.saturating_add(entry.index.bytes))
}

/// Does `shard` for every number that is not in `done`, several at a time.
pub(crate) fn each_shard(
    n_shards: usize,
    done: BTreeMap<usize, Done>,
    jobs: usize,
    out: &OutDir,
    shard: &(dyn Fn(usize) -> Result<Done, Error> + Sync),
) -> Result<BTreeMap<usize, Done>, Error> {
    let left: Vec<usize> = (0..n_shards).filter(|i| !done.contains_key(i)).collect();
    let done = Mutex::new(done);
    // The shards themselves notice a cancel, and report it.
    let ended = parallel(&left, jobs, &AtomicBool::new(false), |number, _| {
        let made = shard(*number)?;
        done.lock().unwrap_or_else(PoisonError::into_inner).insert(*number, made);
        Ok(())
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    match ended {
        Err(Error::Run(RunError::Cancelled)) => {
            let (path, done) = (out.shown(), done.len());
            Err(ShardError::Unfinished { path, done, total: n_shards }.into())
        }
        Err(error) => Err(error),
        Ok(()) => Ok(done),
    }
}

impl Conversion<'_> {
    /// Hands every sample of a shard to `take`, each value compared with its digest.
    pub(crate) fn samples(&self, number: ShardIdx, take: &mut Take<'_>) -> Result<(), Error> {
        let shard = self.source.shard(number)?;
        let n_fields = self.source.manifest().fields.len();
        let mut values: Vec<Vec<u8>> = vec![Vec::new(); n_fields];
        for row in Row::first(shard.n_samples()) {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled.into());
            }
            for (field, value) in values.iter_mut().enumerate() {
                shard.read(row, FieldIdx(field), value)?;
            }
            let lent: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            take(row, &lent)?;
            let bytes: usize = lent.iter().map(|v| v.len()).sum();
            (self.progress)(Progress::Packed(1, bytes as u64));
        }
        Ok(())
    }
}
