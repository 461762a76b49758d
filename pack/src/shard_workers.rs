//! Worker threads that turn planned shards into files.
//!
//! ```text
//! records ─▶ readers: decode ─▶ writer: hashes, file ─▶ sync, index, names, note
//! └──────────── one shard, of so many at a time ─────┘  └ beside the next shard ┘
//! ```
//!
//! A writer takes a whole shard at a time; where there are more threads than
//! shards, several readers feed it. Which thread does what shows nowhere.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use gular_bundle::{Field, ShardSpec, ShardWriter, Split};
use gular_files::{Free, parallel};

use crate::error::{BadInput, BadInputs, Fault};
use crate::input::InputReader;
use crate::out::{Done, OutDir};
use crate::packing::{PackOptions, Progress, run_id, still_needed};
use crate::payload::{Recipe, Value};
use crate::plan::{Plan, PlanShard, Record};
use crate::read_ahead::{Item, ReadAhead};
use crate::source::Source;
use crate::spares::Spares;
use crate::sums::Sums;
use crate::{Error, OnBadInput};

/// Bytes all readers together may be ahead of their writers: some 300
/// photographs, so that one slow file rarely makes a writer wait.
const AHEAD_BYTES: u64 = 32 << 20;

/// Readers that decode and one writer that hashes are about as fast.
const READERS_A_WRITER: usize = 4;

/// What the worker threads share.
pub(crate) struct ShardWorkers<'a> {
    pub(crate) source: &'a Source,
    pub(crate) out: &'a OutDir,
    pub(crate) options: &'a PackOptions,
    pub(crate) plan: &'a Plan,
    /// Numbers of the shards to be written.
    pub(crate) shards: Range<usize>,
    pub(crate) fields: &'a [Field],
    pub(crate) progress: &'a (dyn Fn(Progress) + Sync),
    pub(crate) cancel: &'a AtomicBool,
}

impl ShardWorkers<'_> {
    /// Writes all shards that are not in `done`.
    pub(crate) fn run(&self, done: BTreeMap<usize, Done>) -> Result<BTreeMap<usize, Done>, Error> {
        let n_shards = self.shards.len();
        let left: Vec<usize> = self.shards.clone().filter(|i| !done.contains_key(i)).collect();
        let jobs = self.options.jobs.max(1);
        let writers = match self.plan.recipe {
            Recipe::Encoded | Recipe::Bytes => jobs,
            // Its readers are busy with pixels; a writer keeps up with several.
            _ => jobs.div_ceil(READERS_A_WRITER),
        };
        let writers = writers.min(left.len()).max(1);
        let readers = (jobs / writers).max(1);
        let done = Mutex::new(done);
        let places = Places::new(writers);
        // One more than pack: while the disk takes the end of a shard, the next one is begun.
        let ended = parallel(&left, writers + 1, self.cancel, |number, stop| {
            let place = places.take();
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let packed = self.shard(*number, readers, AHEAD_BYTES / writers as u64, stop)?;
            drop(place);
            if let Some(packed) = packed {
                let written = packed.finish()?;
                self.out.note(*number, &written)?;
                done.lock().unwrap_or_else(PoisonError::into_inner).insert(*number, written);
            }
            Ok(())
        });
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        match ended {
            Err(Error::Bundle(source)) if is_full(&source) => Err(self.full(source, &done)),
            Ok(()) if done.len() == n_shards => Ok(done),
            Ok(()) | Err(Error::Cancelled) => {
                let (path, done) = (self.out.shown(), done.len());
                Err(Error::Unfinished { path, done, total: n_shards })
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
    ) -> Result<Option<Packed>, Error> {
        let Some(shard) = self.plan.shards.get(number) else { return Ok(None) };
        let statistics = shard.split == Split::Train;
        let feed = ReadAhead::new(self.plan.records(shard)?, ahead);
        let spares = Spares::new(self.plan.recipe.picture_bytes());
        std::thread::scope(|scope| {
            for _ in 0..readers {
                scope.spawn(|| {
                    let mut reader =
                        InputReader::new(self.plan, &self.options.plan, &spares, statistics);
                    feed.read_all(&mut |record| reader.read(self.source, record));
                });
            }
            let packed = self.write(shard, &mut || feed.next(), &spares, stop);
            feed.stop();
            packed
        })
    }

    fn write(
        &self,
        shard: &PlanShard,
        next: &mut dyn FnMut() -> Option<Item>,
        spares: &Spares,
        stop: &AtomicBool,
    ) -> Result<Option<Packed>, Error> {
        let spec = ShardSpec {
            envelope: self.options.plan.envelope,
            split: shard.split,
            fields: self.fields,
            classes: &self.plan.classes,
        };
        let mut writer = ShardWriter::create(&self.out.data, &spec)?;
        let mut left_out = LeftOut::new(self.options.plan.on_error);
        let mut tolerated = BadInputs::default();
        let mut sums = None;
        let (mut seen, mut empty_tiles) = (0, 0);
        while let Some(item) = next() {
            if stop.load(Ordering::Relaxed) || self.cancel.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let (record, value) = item?;
            seen += 1;
            match value {
                Ok(value) if value.is_empty => empty_tiles += 1,
                Ok(value) if left_out.fatal.n == 0 => {
                    self.push(&mut writer, &record, &value)?;
                    if let Some(flaw) = value.flaw {
                        tolerated.push(Fault::new(flaw, None).at(record.key.to_string()));
                    }
                    if let Some(of_value) = &value.sums {
                        sums.get_or_insert_with(Sums::default).add(of_value);
                    }
                    spares.put(value.bytes);
                }
                // The shard is lost, but one run names all its bad inputs.
                Ok(_) => {}
                Err(bad) => left_out.push(bad),
            }
            (self.progress)(Progress::Packed(1, record.bytes));
        }
        if let Some(error) = left_out.fatal.into_error() {
            return Err(error);
        }
        if seen < shard.samples {
            // The readers ended early: only a panic or a stop does that.
            return Ok(None);
        }
        let plan = run_id(self.plan, &self.options.plan);
        let skipped = left_out.skipped;
        let done = Done { plan, entry: None, skipped, tolerated, empty_tiles, sums };
        Ok(Some(Packed { writer, done }))
    }

    fn push(&self, writer: &mut ShardWriter, record: &Record, value: &Value) -> Result<(), Error> {
        let label = record.label.to_le_bytes();
        let mut values: Vec<&[u8]> = Vec::with_capacity(self.fields.len());
        values.push(&value.bytes);
        if self.plan.labelled {
            values.push(&label);
        }
        values.extend(value.further.iter().map(Vec::as_slice));
        Ok(writer.push_made(&record.key, &values, value.source)?)
    }

    fn full(&self, source: gular_bundle::Error, done: &BTreeMap<usize, Done>) -> Error {
        let Free { bytes: free, files } = self.out.free().unwrap_or_default();
        let needed = still_needed(self.plan, self.shards.clone(), done);
        Error::Full { needed, free, files, source }
    }
}

/// A shard that has all its samples, and no name yet.
struct Packed {
    writer: ShardWriter,
    /// What becomes of it, but for its files.
    done: Done,
}

impl Packed {
    fn finish(self) -> Result<Done, Error> {
        let Self { writer, mut done } = self;
        if writer.n_samples() > 0 {
            done.entry = Some(writer.finish()?);
        }
        Ok(done)
    }
}

/// As many at a time as may pack.
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
