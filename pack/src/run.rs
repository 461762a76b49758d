//! The run: plan, shards by worker threads, manifest last; resumed when interrupted.
//!
//! ```text
//! OUT/.gular-pack/lock            held while a process packs here
//! OUT/.gular-pack/plan            the plan of this run
//! OUT/.gular-pack/shard-N.json    what became of planned shard N, once it is durable
//! OUT/data/…                      finished shards and indexes
//! OUT/skipped.jsonl               inputs left out
//! OUT/manifest.json               last; then .gular-pack goes
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{
    DATA_DIR, Envelope, Field, FieldName, MANIFEST_NAME, MadeValue, Manifest, Payload, ShardEntry,
    ShardWriter, TEMP_PREFIX, write_file, write_manifest,
};
use serde::{Deserialize, Serialize};

use crate::error::BadInput;
use crate::feed::Feed;
use crate::input::InputReader;
use crate::plan::{Plan, PlanBuilder, PlanShard};
use crate::report::{self, Report};
use crate::{Error, OnError, PlanOptions, scan};

/// The folder of an unfinished run.
pub const STATE_DIR: &str = ".gular-pack";
/// The list of inputs left out, beside the manifest.
pub const SKIPPED_NAME: &str = "skipped.jsonl";
/// Bytes all readers together may be ahead of their writers.
const AHEAD_BYTES: u64 = 128 << 20;

/// How to run; nothing here changes a byte of the bundle.
#[derive(Debug, Clone)]
pub struct PackOptions {
    /// What the bundle holds.
    pub plan: PlanOptions,
    /// Worker threads.
    pub jobs: usize,
    /// Only scan and plan.
    pub dry_run: bool,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Images found so far.
    Scanned(u64),
    /// The plan is made: samples, and bytes of their source files.
    Planned(u64, u64),
    /// Samples and bytes that went into shards, or were left out, since the last call.
    Packed(u64, u64),
}

/// What became of a planned shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Done {
    plan: String,
    /// Absent when every input was left out.
    entry: Option<ShardEntry>,
    skipped: Vec<BadInput>,
}

/// Packs the images below `source` into a new bundle in folder `out`.
///
/// The same images and options give the same bytes whatever the jobs, the
/// machine, and how often the run was interrupted.
///
/// # Errors
/// See [`Error`]; finished shards stay, and the same call goes on from them.
pub fn pack(
    source: &Path,
    out: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<Report, Error> {
    let start = Instant::now();
    if !fs::metadata(source).map_err(|e| Error::io("open", source, e))?.is_dir() {
        return Err(Error::Option(format!("`{}` is no folder", source.display())));
    }
    if options.dry_run {
        let temp = tempfile::tempdir()
            .map_err(|e| Error::io("create a folder in", "the system's temporary folder", e))?;
        let (plan, found) = make_plan(source, temp.path(), options, progress, cancel)?;
        let mut report = report_of(&plan, &found);
        report.dry_run = true;
        report.seconds = start.elapsed().as_secs_f64();
        return Ok(report);
    }
    let made_here = !out.exists();
    check_out(out)?;
    let state = out.join(STATE_DIR);
    fs::create_dir_all(&state).map_err(|e| Error::io("create", &state, e))?;
    let lock = lock(&state, out)?;
    let result = run(source, out, options, progress, cancel, start);
    drop(lock);
    if result.is_err() && nothing_kept(&state) {
        // Nothing that a later run could use: leave the place as it was.
        let _ = fs::remove_dir_all(&state);
        let _ = fs::remove_dir(out.join(DATA_DIR));
        if made_here {
            let _ = fs::remove_dir(out);
        }
    }
    result
}

fn run(
    source: &Path,
    out: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
    start: Instant,
) -> Result<Report, Error> {
    let state = out.join(STATE_DIR);
    let data = out.join(DATA_DIR);
    fs::create_dir_all(&data).map_err(|e| Error::io("create", &data, e))?;
    remove_leftovers(&data, &[TEMP_PREFIX, ".tmp"])?;
    remove_leftovers(&state, &[TEMP_PREFIX, ".tmp"])?;
    // Of the manifest and the list of inputs left out.
    remove_leftovers(out, &[TEMP_PREFIX])?;
    let (plan, mut found) = make_plan(source, &state, options, progress, cancel)?;
    let done = finished(&state, &data, &plan)?;
    let resumed = done.len() as u64;
    check_space(out, &plan, &done)?;
    for number in done.keys() {
        if let Some(shard) = plan.shards.get(*number) {
            progress(Progress::Packed(shard.samples, shard.bytes));
        }
    }
    let run =
        Run { source, state: &state, data: &data, out, options, plan: &plan, progress, cancel };
    let mut done = run.shards(done)?;

    let mut shards = Vec::new();
    let mut skipped = std::mem::take(&mut found.skipped);
    for number in 0..plan.shards.len() {
        if let Some(mut of_shard) = done.remove(&number) {
            shards.extend(of_shard.entry);
            skipped.append(&mut of_shard.skipped);
        }
    }
    if shards.is_empty() {
        let ignored = format!("; all {} inputs were left out", skipped.len());
        return Err(Error::NoImages { path: source.display().to_string(), ignored });
    }
    if !skipped.is_empty() {
        write_file(&out.join(SKIPPED_NAME), &report::skipped_lines(&skipped))?;
    }
    let manifest = manifest(&plan, &options.plan, shards, skipped.len() as u64);
    let digest = write_manifest(out, &manifest)?;
    fs::remove_dir_all(&state).map_err(|e| Error::io("remove", &state, e))?;

    found.skipped = skipped;
    let mut report = report_of(&plan, &found);
    report.digest = Some(digest.to_string());
    report.samples = manifest.shards.iter().map(|s| s.samples).sum();
    report.bytes = manifest.shards.iter().map(|s| s.file.bytes + s.index.bytes).sum();
    report.shards = manifest.shards.len() as u64;
    report.resumed_shards = resumed;
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn make_plan(
    source: &Path,
    dir: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<(Plan, scan::Scan), Error> {
    let path = dir.join("plan");
    let temp = dir.join(format!("{TEMP_PREFIX}plan"));
    let mut builder = PlanBuilder::new(dir, &options.plan)?;
    let mut n = 0_u64;
    let found = scan::scan(source, &options.plan, &mut |key, bytes| {
        n += 1;
        if n.is_multiple_of(1000) {
            progress(Progress::Scanned(n));
            if cancel.load(Ordering::Relaxed) {
                let path = dir.parent().unwrap_or(dir).display().to_string();
                return Err(Error::Cancelled { path, done: 0, total: 0 });
            }
        }
        builder.push(key, bytes)
    })?;
    progress(Progress::Scanned(n));
    let classes = crate::plan::classes(&options.plan, &found)?;
    let media_types: Vec<String> = found.media_types.iter().map(|m| (*m).to_owned()).collect();
    let mut plan = builder.finish(&temp, &classes, &media_types, found.split_layout)?;
    let old = match fs::read(&path) {
        Ok(bytes) => Some(gular_bundle::Digest::of(&bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(Error::io("read", &path, e)),
    };
    if let Some(old) = old.filter(|old| *old != plan.digest) {
        let path = dir.parent().unwrap_or(dir).display().to_string();
        return Err(Error::OtherPlan {
            path,
            expected: plan.digest.to_string(),
            found: old.to_string(),
        });
    }
    fs::rename(&temp, &path).map_err(|e| Error::io("rename to", &path, e))?;
    plan.path = path;
    progress(Progress::Planned(plan.samples, plan.bytes));
    Ok((plan, found))
}

fn check_out(out: &Path) -> Result<(), Error> {
    let path = out.display().to_string();
    let entries = match fs::read_dir(out) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io("list", out, e)),
    };
    let mut other = None;
    let mut interrupted = false;
    for entry in entries {
        let name = entry.map_err(|e| Error::io("list", out, e))?.file_name();
        match name.to_str() {
            Some(MANIFEST_NAME) => {
                // A run killed between its last two steps left its state behind.
                let _ = fs::remove_dir_all(out.join(STATE_DIR));
                let bytes = fs::read(out.join(MANIFEST_NAME)).unwrap_or_default();
                return Err(Error::AlreadyBundle {
                    path,
                    digest: gular_bundle::Digest::of(&bytes).to_string(),
                });
            }
            Some(STATE_DIR) => interrupted = true,
            _ => other = Some(name.to_string_lossy().into_owned()),
        }
    }
    match other {
        Some(found) if !interrupted => Err(Error::NotEmpty { path, found }),
        _ => Ok(()),
    }
}

fn lock(state: &Path, out: &Path) -> Result<File, Error> {
    let path = state.join("lock");
    let file = File::create(&path).map_err(|e| Error::io("create", &path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Error::Busy { path: out.display().to_string() }),
        Err(fs::TryLockError::Error(e)) => Err(Error::io("lock", &path, e)),
    }
}

fn nothing_kept(state: &Path) -> bool {
    let Ok(entries) = fs::read_dir(state) else { return false };
    !entries.flatten().any(|e| e.file_name().to_string_lossy().starts_with("shard-"))
}

/// Files of a killed writer, whose names begin so.
fn remove_leftovers(dir: &Path, prefixes: &[&str]) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(|e| Error::io("list", dir, e))? {
        let entry = entry.map_err(|e| Error::io("list", dir, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            fs::remove_file(entry.path()).map_err(|e| Error::io("remove", entry.path(), e))?;
        }
    }
    Ok(())
}

fn done_path(state: &Path, number: usize) -> PathBuf {
    state.join(format!("shard-{number}.json"))
}

/// Shards that an earlier run finished and that are still there in full length.
fn finished(state: &Path, data: &Path, plan: &Plan) -> Result<BTreeMap<usize, Done>, Error> {
    let mut finished = BTreeMap::new();
    for number in 0..plan.shards.len() {
        let path = done_path(state, number);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        let Ok(done) = serde_json::from_slice::<Done>(&bytes) else { continue };
        let whole = |file: &gular_bundle::FileEntry| {
            fs::metadata(data.join(file.name.as_str())).is_ok_and(|m| m.len() == file.bytes)
        };
        let there = done.entry.as_ref().is_none_or(|e| whole(&e.file) && whole(&e.index));
        if done.plan == plan.digest.hex() && there {
            finished.insert(number, done);
        }
    }
    Ok(finished)
}

fn check_space(out: &Path, plan: &Plan, done: &BTreeMap<usize, Done>) -> Result<(), Error> {
    let stat =
        rustix::fs::statvfs(out).map_err(|e| Error::io("ask for free space of", out, e.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let left = plan.shards.iter().enumerate().filter(|(i, _)| !done.contains_key(i));
    // A sample takes some 40 bytes in a shard beside its image and 93 in the
    // index; a shard two headers.
    let needed = left.map(|(_, s)| s.bytes + s.samples * 150 + 16_384).sum();
    if free < needed {
        return Err(Error::NoSpace { path: out.display().to_string(), needed, free });
    }
    Ok(())
}

fn report_of(plan: &Plan, found: &scan::Scan) -> Report {
    let splits = report::splits(plan);
    Report {
        dry_run: false,
        digest: None,
        samples: plan.samples,
        bytes: plan.bytes,
        shards: plan.shards.len() as u64,
        warnings: report::warnings(plan, &splits),
        splits,
        skipped: found.skipped.len() as u64,
        ignored: found.ignored.clone(),
        resumed_shards: 0,
        seconds: 0.0,
    }
}

fn fields(plan: &Plan) -> Vec<Field> {
    let image = Field::bytes(FieldName::image(), plan.media_types.clone());
    if plan.labelled { vec![image, Field::label()] } else { vec![image] }
}

fn manifest(plan: &Plan, options: &PlanOptions, shards: Vec<ShardEntry>, skipped: u64) -> Manifest {
    let text = |t: &str| MadeValue::Text(t.to_owned());
    let mut made = BTreeMap::from([
        ("plan".to_owned(), text(&plan.digest.to_string())),
        ("order".to_owned(), text(options.order.name())),
        ("seed".to_owned(), MadeValue::Number(options.seed)),
        ("shard_bytes".to_owned(), MadeValue::Number(options.shard_bytes)),
        ("check".to_owned(), text(options.check.name())),
        ("skipped".to_owned(), MadeValue::Number(skipped)),
    ]);
    if !options.fractions.is_empty() {
        let fractions: Vec<String> =
            options.fractions.iter().map(|(s, f)| format!("{s}={f}")).collect();
        made.insert("split".to_owned(), text(&fractions.join(",")));
    }
    Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        fields: fields(plan),
        classes: plan.classes.clone(),
        made,
        about: options.about.clone(),
        statistics: None,
        shards,
    }
}

/// What the worker threads share.
struct Run<'a> {
    source: &'a Path,
    state: &'a Path,
    data: &'a Path,
    out: &'a Path,
    options: &'a PackOptions,
    plan: &'a Plan,
    progress: &'a (dyn Fn(Progress) + Sync),
    cancel: &'a AtomicBool,
}

impl Run<'_> {
    /// Writes all shards that are not in `done`.
    fn shards(&self, done: BTreeMap<usize, Done>) -> Result<BTreeMap<usize, Done>, Error> {
        let left: Vec<usize> =
            (0..self.plan.shards.len()).filter(|i| !done.contains_key(i)).collect();
        let jobs = self.options.jobs.max(1);
        let writers = jobs.min(left.len()).max(1);
        let readers = (jobs / writers).max(1);
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let results = Mutex::new((done, None::<Error>));
        std::thread::scope(|scope| {
            for _ in 0..writers {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let Some(number) = left.get(next.fetch_add(1, Ordering::Relaxed)) else {
                            break;
                        };
                        let result =
                            self.shard(*number, readers, AHEAD_BYTES / writers as u64, &stop);
                        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                        match result {
                            Ok(Some(done)) => drop(results.0.insert(*number, done)),
                            Ok(None) => {}
                            Err(e) => {
                                results.1.get_or_insert(e);
                                stop.store(true, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        let (done, error) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let path = self.out.display().to_string();
        match error {
            Some(Error::Bundle(source)) if is_full(&source) => Err(Error::Full { path, source }),
            Some(error) => Err(error),
            None if done.len() < self.plan.shards.len() => {
                Err(Error::Cancelled { path, done: done.len(), total: self.plan.shards.len() })
            }
            None => Ok(done),
        }
    }

    /// Writes one shard; `None` when the run stops meanwhile.
    fn shard(
        &self,
        number: usize,
        readers: usize,
        ahead: u64,
        stop: &AtomicBool,
    ) -> Result<Option<Done>, Error> {
        let Some(shard) = self.plan.shards.get(number) else { return Ok(None) };
        let feed = Feed::new(self.plan.records(shard)?, ahead);
        let written = std::thread::scope(|scope| {
            for _ in 0..readers {
                scope.spawn(|| {
                    let options = &self.options.plan;
                    let mut reader = InputReader::new(options.check, options.max_pixels);
                    feed.read_all(&mut |record| reader.read(self.source, record));
                });
            }
            let written = self.write(shard, &feed, stop);
            feed.stop();
            written
        })?;
        let Some(done) = written else { return Ok(None) };
        let json = serde_json::to_vec(&done).expect("names, numbers and texts serialise");
        write_file(&done_path(self.state, number), &json)?;
        Ok(Some(done))
    }

    fn write<I>(
        &self,
        shard: &PlanShard,
        feed: &Feed<I>,
        stop: &AtomicBool,
    ) -> Result<Option<Done>, Error>
    where
        I: Iterator<Item = Result<crate::plan::Record, Error>>,
    {
        let mut writer = ShardWriter::create(self.data, shard.split, &fields(self.plan))?;
        let mut skipped = Vec::new();
        let mut seen = 0;
        while let Some(item) = feed.next() {
            if stop.load(Ordering::Relaxed) || self.cancel.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let (record, bytes) = item?;
            seen += 1;
            match bytes {
                Ok(bytes) => {
                    let label = record.label.to_le_bytes();
                    let values: [&[u8]; 2] = [&bytes, &label];
                    writer.push(&record.key, &values[..if self.plan.labelled { 2 } else { 1 }])?;
                }
                Err(bad) if self.options.plan.on_error == OnError::Skip => skipped.push(bad),
                Err(bad) => return Err(Error::BadInput(bad, 0)),
            }
            (self.progress)(Progress::Packed(1, record.bytes));
        }
        if seen < shard.samples {
            // The readers ended early: only a panic or a stop does that.
            return Ok(None);
        }
        let entry = if writer.n_samples() > 0 { Some(writer.finish()?) } else { None };
        Ok(Some(Done { plan: self.plan.digest.hex(), entry, skipped }))
    }
}

fn is_full(error: &gular_bundle::Error) -> bool {
    matches!(error, gular_bundle::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull)
}
