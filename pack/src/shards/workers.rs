//! Worker threads that turn planned shards into files.
//!
//! ```text
//! records ─▶ decode ─▶ in order: hashes, file ─▶ sync, index, names, note
//! └──────── one shard, of so many at a time ──┘  └ beside the next shard ┘
//! ```
//!
//! If there are more threads than shards, several read one shard, and one of them at a time writes.
//! The result does not depend on which thread does what.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use gular_bundle::{Field, ShardSpec, ShardWriter, Split};
use gular_codec::tiff::Pages;
use gular_files::{Free, parallel};

use crate::facts::{BadInputs, Fault, PixelBudget, RunError, Spares, Sums};
use crate::plan::{Align, PayloadRecipe, Plan, PlanOptions, PlanShard, Record};
use crate::shards::{
    Done, InputReader, Item, OutDir, ReadAhead, ShardError, UnpackedScenes, Value,
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
    pub(crate) unpacked: Arc<UnpackedScenes>,
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
            let mut reader =
                InputReader::new(self.plan, self.options, &spares, &self.pixels, &self.unpacked);
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
    /// The shard's result so far, except for its files.
    done: Done,
    /// Inputs that cannot be packed, and end the run.
    fatal: BadInputs,
    seen: u64,
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
        let writer = ShardWriter::create(&work.out.data, &spec)?;
        let done = Done::of(&run_id(work.plan, work.options), None);
        Ok(Self { work, spares, writer, done, fatal: BadInputs::default(), seen: 0 })
    }

    /// Takes the next input of the shard.
    fn take(&mut self, item: Item) -> Result<(), ShardError> {
        let (record, value) = item?;
        self.seen += 1;
        match (value, self.work.options.on_error) {
            (Ok(value), _) if value.is_empty => self.done.empty_tiles += 1,
            (Ok(value), _) if self.fatal.n == 0 => self.add(&record, value)?,
            // The shard is lost, but one run names all its bad inputs.
            (Ok(_), _) => {}
            (Err(bad), OnBadInput::Skip) => self.done.skipped.push(bad),
            (Err(bad), OnBadInput::Fail) => self.fatal.push(bad),
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
        let Done { tolerated, misnamed, media_types, sums, .. } = &mut self.done;
        for (reason, files) in [(value.flaw, tolerated), (value.misnamed, misnamed)] {
            if let Some(reason) = reason {
                files.push(Fault::new(reason, None).at(record.key.to_string()));
            }
        }
        if let Some(media_type) = value.media_type.filter(|known| !media_types.contains(*known)) {
            media_types.insert(media_type.to_owned());
        }
        if let Some(of_sample) = &value.sums {
            sums.get_or_insert_with(Sums::default).add(of_sample);
        }
        self.spares.put(value.bytes);
        Ok(())
    }

    /// The shard, when it has all its samples; `None` when the run stops before.
    fn packed(self, shard: &PlanShard) -> Result<Option<Packed>, ShardError> {
        if self.seen < shard.samples {
            return Ok(None);
        }
        self.fatal.into_result()?;
        Ok(Some(Packed { writer: self.writer, done: self.done }))
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

/// Identifies the plan and options: finished shards of an interrupted run can be used only if it
/// had the same.
pub(crate) fn run_id(plan: &Plan, options: &PlanOptions) -> String {
    format!("{} {}{}", plan.digest.hex(), options.envelope, accepts(options))
}

/// The settings that accept inputs which would be bad by default, as text. They are not in the plan,
/// so that the same command with one of them can go on in the folder of a run that met such inputs.
/// Shards of that run may have left them out, and are packed again.
pub(crate) fn accepts(options: &PlanOptions) -> String {
    let pages = match options.pages {
        Pages::AsSaid => "",
        Pages::Bands => " pages=bands",
        Pages::First => " pages=first",
    };
    let align = match options.align {
        // The plan says that masks are resampled.
        Align::Check | Align::Resample => "",
        Align::Ignore => " align=ignore",
    };
    format!("{pages}{align}")
}

/// Bytes that those of `shards` which are not in `done` will take, about.
pub(crate) fn still_needed(plan: &Plan, shards: Range<usize>, done: &BTreeMap<usize, Done>) -> u64 {
    let left = plan.shards.iter().enumerate();
    let left = left.filter(|(i, _)| shards.contains(i) && !done.contains_key(i));
    // A sample takes some 40 bytes in a shard beside its image and 93 in the
    // index; a shard two headers.
    left.map(|(_, s)| plan.stored(s.samples, s.bytes) + s.extra + s.samples * 150 + 16_384).sum()
}

fn is_full(error: &gular_bundle::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error, gular_bundle::Error::Io(error) if matches!(error.kind(), StorageFull | QuotaExceeded))
}
