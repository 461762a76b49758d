//! Worker threads that turn planned shards into files.
//!
//! ```text
//! records ─▶ decode ─▶ in order: hashes, file ─▶ sync, index, names, note
//! └──────── one shard, of so many at a time ──┘  └ beside the next shard ┘
//! ```
//!
//! If there are more threads than shards, several read one shard, and one of them at a time writes.
//! The result does not depend on which thread does what.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use gular_bundle::{Field, ShardSpec, ShardWriter, Split};
use gular_files::{Free, parallel};

use crate::facts::{BadInput, BadInputs, Fault, PixelBudget, RunError, Spares, Sums};
use crate::plan::{PayloadRecipe, Plan, PlanOptions, PlanShard, Record};
use crate::shards::{
    Done, InputReader, Item, OutDir, ReadAhead, ShardError, Value, run_id, still_needed,
};
use crate::source::{OnBadInput, Source};

/// Bytes that all threads together may have read ahead: some 300 photographs, so that one slow
/// file rarely makes others wait.
const AHEAD_BYTES: u64 = 32 << 20;

/// Threads that decode for one shard: what they make is hashed and written by one at a time.
const READERS_A_SHARD: usize = 4;

/// The state that the worker threads share.
pub(crate) struct ShardWorkers<'a> {
    pub(crate) source: &'a Source,
    pub(crate) out: &'a OutDir,
    pub(crate) options: &'a PlanOptions,
    pub(crate) jobs: usize,
    pub(crate) plan: &'a Plan,
    /// Numbers of the shards to write.
    pub(crate) shards: Range<usize>,
    pub(crate) fields: &'a [Field],
    pub(crate) pixels: PixelBudget,
    /// Is told samples and bytes that went into shards, or were left out.
    pub(crate) packed: &'a (dyn Fn(u64, u64) + Sync),
    pub(crate) cancel: &'a AtomicBool,
}

impl ShardWorkers<'_> {
    /// Writes all shards that are not in `done`.
    pub(crate) fn run(
        &self,
        done: BTreeMap<usize, Done>,
    ) -> Result<BTreeMap<usize, Done>, ShardError> {
        let n_shards = self.shards.len();
        let left: Vec<usize> = self.shards.clone().filter(|i| !done.contains_key(i)).collect();
        let jobs = self.jobs.max(1);
        let at_once = match self.plan.recipe {
            PayloadRecipe::Encoded | PayloadRecipe::Bytes => jobs,
            // Most of the work is decoding, which several threads do for one shard.
            _ => jobs.div_ceil(READERS_A_SHARD),
        };
        let at_once = at_once.min(left.len()).max(1);
        let readers = match self.plan.recipe {
            // One more thread is used, since threads wait for files.
            PayloadRecipe::Encoded | PayloadRecipe::Bytes => jobs / at_once + 1,
            _ => jobs.div_ceil(at_once),
        };
        let done = Mutex::new(done);
        let places = Places::new(at_once);
        // One more shard is begun: while the disk syncs the end of a shard, the next one is packed.
        let ended = parallel(&left, at_once + 1, self.cancel, |number, stop| {
            let place = places.take();
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let packed = self.shard(*number, readers, AHEAD_BYTES / at_once as u64, stop);
            // Before the place is free: whoever takes it must not begin another shard.
            stop.fetch_or(packed.is_err(), Ordering::Relaxed);
            drop(place);
            let packed = packed?;
            if let Some(packed) = packed {
                let written = packed.finish()?;
                self.out.note(*number, &written)?;
                done.lock().unwrap_or_else(PoisonError::into_inner).insert(*number, written);
            }
            Ok(())
        });
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        match ended {
            Err(ShardError::Run(RunError::Bundle(source))) if is_full(&source) => {
                Err(self.full(source, &done))
            }
            Ok(()) if done.len() == n_shards => Ok(done),
            Ok(()) | Err(ShardError::Run(RunError::Cancelled)) => {
                let (path, done) = (self.out.shown(), done.len());
                Err(ShardError::Unfinished { path, done, total: n_shards })
            }
            Err(error) => Err(error),
        }
    }

    /// Packs one shard, all but its end; `None` when the run stops meanwhile.
    fn shard(
        &self,
        number: usize,
        readers: usize,
        ahead: u64,
        stop: &AtomicBool,
    ) -> Result<Option<Packed>, ShardError> {
        let Some(shard) = self.plan.shards.get(number) else { return Ok(None) };
        let statistics = shard.split == Split::Train;
        let spares = Spares::new(self.plan.recipe.picture_bytes());
        let mut shard_so_far = Begun::new(self, shard, &spares)?;
        let mut failed = None;
        let feed = ReadAhead::new(self.plan.records(shard)?, ahead, |item| {
            if stop.load(Ordering::Relaxed) || self.cancel.load(Ordering::Relaxed) {
                return false;
            }
            failed = shard_so_far.take(item).err();
            failed.is_none()
        });
        let read = || {
            let mut reader = InputReader::new(self.plan, self.options, &spares, &self.pixels);
            reader.sum_pixels(statistics);
            feed.read_all(&mut |record| reader.read(self.source, record));
        };
        std::thread::scope(|scope| {
            for _ in 1..readers {
                // If the system allows no more threads, fewer read.
                if std::thread::Builder::new().spawn_scoped(scope, read).is_err() {
                    break;
                }
            }
            read();
        });
        drop(feed);
        failed.map_or_else(|| shard_so_far.packed(shard), Err)
    }

    fn full(&self, source: gular_bundle::Error, done: &BTreeMap<usize, Done>) -> ShardError {
        let Free { bytes: free, files } = self.out.free().unwrap_or_default();
        let needed = still_needed(self.plan, self.shards.clone(), done);
        ShardError::Full { needed, free, files, source: Box::new(source) }
    }
}

/// A shard that samples are added to.
struct Begun<'a> {
    work: &'a ShardWorkers<'a>,
    spares: &'a Spares,
    writer: ShardWriter,
    left_out: LeftOut,
    tolerated: BadInputs,
    misnamed: BadInputs,
    media_types: BTreeSet<&'static str>,
    sums: Option<Sums>,
    seen: u64,
    empty_tiles: u64,
}

impl<'a> Begun<'a> {
    fn new(
        work: &'a ShardWorkers<'a>,
        shard: &PlanShard,
        spares: &'a Spares,
    ) -> Result<Self, ShardError> {
        let spec = ShardSpec {
            envelope: work.options.envelope,
            split: shard.split,
            fields: work.fields,
            classes: &work.plan.classes,
        };
        Ok(Self {
            work,
            spares,
            writer: ShardWriter::create(&work.out.data, &spec)?,
            left_out: LeftOut::new(work.options.on_error),
            tolerated: BadInputs::default(),
            misnamed: BadInputs::default(),
            media_types: BTreeSet::new(),
            sums: None,
            seen: 0,
            empty_tiles: 0,
        })
    }

    /// Takes the next input of the shard.
    fn take(&mut self, item: Item) -> Result<(), ShardError> {
        let (record, value) = item?;
        self.seen += 1;
        match value {
            Ok(value) if value.is_empty => self.empty_tiles += 1,
            Ok(value) if self.left_out.fatal.n == 0 => self.add(&record, value)?,
            // The shard is lost, but one run names all its bad inputs.
            Ok(_) => {}
            Err(bad) => self.left_out.push(bad),
        }
        (self.work.packed)(1, record.bytes);
        Ok(())
    }

    fn add(&mut self, record: &Record, value: Value) -> Result<(), ShardError> {
        let label = record.label.to_le_bytes();
        let mut values: Vec<&[u8]> = Vec::with_capacity(self.work.fields.len());
        values.push(&value.bytes);
        if self.work.plan.labelled {
            values.push(&label);
        }
        values.extend(value.further.iter().map(Vec::as_slice));
        self.writer.push_made(&record.key, &values, value.source)?;
        if let Some(flaw) = value.flaw {
            self.tolerated.push(Fault::new(flaw, None).at(record.key.to_string()));
        }
        if let Some(reason) = value.misnamed {
            self.misnamed.push(Fault::new(reason, None).at(record.key.to_string()));
        }
        self.media_types.extend(value.media_type);
        if let Some(sums) = &value.sums {
            self.sums.get_or_insert_with(Sums::default).add(sums);
        }
        self.spares.put(value.bytes);
        Ok(())
    }

    /// The shard, when it has all its samples; `None` when the run stops before.
    fn packed(self, shard: &PlanShard) -> Result<Option<Packed>, ShardError> {
        let Self {
            work,
            writer,
            left_out,
            tolerated,
            misnamed,
            media_types,
            sums,
            seen,
            empty_tiles,
            ..
        } = self;
        if seen < shard.samples {
            return Ok(None);
        }
        left_out.fatal.into_result()?;
        let (plan, skipped) = (run_id(work.plan, work.options), left_out.skipped);
        let media_types = media_types.into_iter().map(str::to_owned).collect();
        let done = Done {
            plan,
            entry: None,
            skipped,
            tolerated,
            misnamed,
            media_types,
            empty_tiles,
            sums,
        };
        Ok(Some(Packed { writer, done }))
    }
}

/// A shard that has all its samples, and no name yet.
struct Packed {
    writer: ShardWriter,
    /// The shard's result, except for its files.
    done: Done,
}

impl Packed {
    fn finish(self) -> Result<Done, ShardError> {
        let Self { writer, mut done } = self;
        if writer.n_samples() > 0 {
            done.entry = Some(writer.finish()?);
        }
        Ok(done)
    }
}

/// Limits how many shards are packed at a time.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

struct Place<'a>(&'a Places);

impl Places {
    fn new(n: usize) -> Self {
        Self { free: Mutex::new(n), freed: Condvar::new() }
    }

    /// Waits for one, which is free again when it is dropped.
    fn take(&self) -> Place<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.freed.wait_while(free, |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Place(self)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

/// Inputs of one shard that cannot be packed.
struct LeftOut {
    on_error: OnBadInput,
    skipped: Vec<BadInput>,
    fatal: BadInputs,
}

impl LeftOut {
    fn new(on_error: OnBadInput) -> Self {
        Self { on_error, skipped: Vec::new(), fatal: BadInputs::default() }
    }

    fn push(&mut self, bad: BadInput) {
        match self.on_error {
            OnBadInput::Skip => self.skipped.push(bad),
            OnBadInput::Fail => self.fatal.push(bad),
        }
    }
}

fn is_full(error: &gular_bundle::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error, gular_bundle::Error::Io(error) if matches!(error.kind(), StorageFull | QuotaExceeded))
}
