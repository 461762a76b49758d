//! Chooses samples: by a condition, and by lists of keys.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use gular_bundle::{Facts, Field, FieldIdx, Filter};
use gular_files::parallel;

use super::bases::{Bases, Line};
use super::bits::Bits;
use super::options::DeriveOptions;
use crate::error::Error;
use crate::facts::{KeyList, RunError};
use crate::packing::Progress;

/// The samples that are taken from each line.
pub(super) type Taken = Vec<Bits>;

/// Chooses samples.
#[derive(Debug)]
pub(super) struct Chooser {
    filter: Option<Filter>,
    pub(super) keys: Option<KeyList>,
    pub(super) remove: Option<KeyList>,
}

impl Chooser {
    pub(super) fn new(bases: &Bases, options: &DeriveOptions) -> Result<Self, Error> {
        let parse = |text: &String| Filter::parse(text, &bases.fields, &bases.classes);
        let filter = options.filter.as_ref().map(parse).transpose()?;
        let list = |files: &Vec<_>| match files.is_empty() {
            true => Ok(None),
            false => KeyList::read(files).map(Some),
        };
        Ok(Self { filter, keys: list(&options.keys)?, remove: list(&options.remove)? })
    }

    /// Chooses among all samples of `lines`.
    pub(super) fn choose(
        &self,
        bases: &Bases,
        lines: &[Line],
        jobs: usize,
        progress: &(dyn Fn(Progress) + Sync),
        cancel: &AtomicBool,
    ) -> Result<Taken, Error> {
        let image = bases.fields.iter().position(Field::is_image).unwrap_or(0);
        each_line(lines, jobs, cancel, |_, line| {
            let entry = bases.entry(line);
            if self.filter.is_none() && self.keys.is_none() && self.remove.is_none() {
                progress(Progress::Packed(entry.samples, entry.index.bytes));
                return Ok(Bits::all(usize::try_from(entry.samples).unwrap_or(usize::MAX)));
            }
            let index = bases.index(line)?;
            let mut bits = Bits::none(index.n_samples());
            for row in index.rows() {
                let key = index.key(row).unwrap_or_default();
                let listed = self.keys.as_ref().is_none_or(|keys| keys.has(key));
                let removed = self.remove.as_ref().is_some_and(|keys| keys.has(key));
                if !listed || removed {
                    continue;
                }
                if let Some(filter) = &self.filter {
                    let mut value = |field| {
                        let mut out = Vec::new();
                        bases.bundle(line).shard(line.shard)?.read(row, field, &mut out)?;
                        Ok(out)
                    };
                    let bytes = index.range(row, FieldIdx(image)).map_or(0, |(_, len)| len as u64);
                    let label = index.label(row).map(|label| bases.label(line, label));
                    let mut facts =
                        Facts { key, split: entry.split, label, bytes, value: &mut value };
                    if !filter.takes(&mut facts, &bases.classes)? {
                        continue;
                    }
                }
                bits.set(row, true);
            }
            progress(Progress::Packed(entry.samples, entry.index.bytes));
            Ok(bits)
        })
    }
}

/// Calls `work` for each line on several threads, and returns the results in order.
pub(super) fn each_line<T: Send>(
    lines: &[Line],
    jobs: usize,
    cancel: &AtomicBool,
    work: impl Fn(usize, Line) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let numbered: Vec<(usize, Line)> = lines.iter().copied().enumerate().collect();
    let made = Mutex::new(Vec::with_capacity(lines.len()));
    parallel(&numbered, jobs, cancel, |(number, line), _| {
        let of_line = work(*number, *line)?;
        made.lock().unwrap_or_else(PoisonError::into_inner).push((*number, of_line));
        Ok::<_, Error>(())
    })?;
    if cancel.load(Ordering::Relaxed) {
        return Err(RunError::Cancelled.into());
    }
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_unstable_by_key(|(number, _)| *number);
    Ok(made.into_iter().map(|(_, of_line)| of_line).collect())
}
