//! Compares a source with the base of its new version.
//!
//! ```text
//! indexes of the base ─ key, place ─┐
//!                                   ├─ sorted by key ─▶ the same values? ─▶ keys that stay
//! plan of the source ─ key, input ──┘
//! ```

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gular_bundle::{Bundle, BundlePath, FieldIdx, Row, ShardIdx, Split};
use gular_files::parallel;

use crate::error::Error;
use crate::facts::{PixelBudget, RunError, Sorted, Sorter, Spares, setting};
use crate::packing::{PackOptions, Progress};
use crate::plan::{Plan, Record, check_cancel, tiles};
use crate::shards::{InputReader, Likeness, StoredSample, StoredValue, UnpackedScenes};
use crate::source::Source;

/// Numbers of the sides in records of the sort: a sample of the base, and an input of the source.
const OF_BASE: u8 = 0;
const OF_SOURCE: u8 = 1;
/// Inputs that are looked at before what stays of them is written down, and bytes of what the plan
/// says of them.
const AT_ONCE: usize = 1 << 14;
const BYTES_AT_ONCE: usize = 16 << 20;

/// The origin of the source's splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Splits {
    /// The source's folders name the splits.
    Folders,
    /// A column of a table, which changes those of what stays, too.
    Table,
    /// Fractions and a seed; without fractions there is one split.
    Options,
}

/// A base, and the plan of a whole source.
#[derive(Clone, Copy)]
pub(super) struct Comparison<'a> {
    pub(super) base: &'a Bundle,
    pub(super) source: &'a Source,
    pub(super) plan: &'a Plan,
    pub(super) options: &'a PackOptions,
    pub(super) splits: Splits,
    /// The folder for records that do not fit in memory while they are sorted.
    pub(super) temp: &'a Path,
    pub(super) progress: &'a (dyn Fn(Progress) + Sync),
    pub(super) cancel: &'a AtomicBool,
}

/// Samples of both, of the base, and of the source.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) of_base: u64,
    pub(super) unchanged: u64,
    pub(super) changed: u64,
    pub(super) added: u64,
}

/// An input, and where the base has a sample of its key.
struct Candidate {
    record: Record,
    split: Split,
    place: Option<(ShardIdx, Row)>,
    likeness: OnceLock<Likeness>,
}

impl Comparison<'_> {
    /// Compares every input that the base has. The keys of samples that stay go to the file
    /// `kept`, those of tiles that are left out to the file `empty`, one per line.
    pub(super) fn run(&self, kept: &Path, empty: &Path) -> Result<Compared, Error> {
        let mut tally = Tally {
            comparison: *self,
            compared: Compared::default(),
            kept: List::create(kept)?,
            empty: List::create(empty)?,
        };
        let spares = Spares::new(0);
        let plan = &self.options.plan;
        let pixels = PixelBudget::new(plan.max_pixels, self.options.jobs);
        let unpacked = Arc::new(UnpackedScenes::new(self.plan.folder()));
        // Each thread takes a reader and puts it back, since readers keep scenes open.
        let readers = Mutex::new(Vec::new());
        let mut look = |candidates: &mut Vec<Candidate>| {
            self.look(candidates, &readers, (&spares, &pixels, &unpacked))?;
            candidates.drain(..).try_for_each(|candidate| tally.add(candidate))
        };
        let (of_base, sorted) = self.sorted()?;
        (self.progress)(Progress::ToCompare(
            self.plan.shards.iter().map(|shard| shard.bytes).sum(),
        ));
        let (mut candidates, mut bytes) = (Vec::new(), 0);
        // For each key, the sample comes before the input.
        let mut sample: Option<(Vec<u8>, (ShardIdx, Row))> = None;
        for pair in sorted {
            let (key, record) = pair.map_err(|e| self.sorting(e))?;
            match self.entry(&key, &record)? {
                Entry::Sample(place) => sample = Some((key, place)),
                Entry::Input(record, split) => {
                    let known = sample.take().filter(|(of, _)| *of == key);
                    let (place, likeness) = (known.map(|(_, place)| place), OnceLock::new());
                    bytes += record.values.len();
                    candidates.push(Candidate { record, split, place, likeness });
                    if candidates.len() == AT_ONCE || bytes >= BYTES_AT_ONCE {
                        look(&mut candidates)?;
                        bytes = 0;
                    }
                }
            }
        }
        look(&mut candidates)?;
        let Tally { compared, kept, empty, .. } = tally;
        kept.finish()?;
        empty.finish()?;
        Ok(Compared { of_base, ..compared })
    }

    /// Sorts all samples of the base, and all inputs, by key, so that the tiles of a scene are
    /// consecutive. Returns the number of the base's samples as well.
    fn sorted(&self) -> Result<(u64, Sorted), Error> {
        let mut sorter = Sorter::new(self.temp, self.options.plan.memory_bytes);
        let mut of_base = 0_u64;
        for shard in ShardIdx::first(self.base.manifest().shards.len()) {
            let index = self.base.index(shard)?;
            of_base += index.n_samples() as u64;
            check_cancel(0, self.cancel)?;
            for row in index.rows() {
                let key = index.key(row).unwrap_or_default().as_bytes();
                let place = [shard.0 as u64, row.0 as u64].map(u64::to_le_bytes);
                let record = [&[OF_BASE], place.as_flattened()].concat();
                sorter.push(key, &record).map_err(|e| self.sorting(e))?;
            }
        }
        for shard in &self.plan.shards {
            check_cancel(0, self.cancel)?;
            for record in self.plan.records(shard)? {
                let Record { key, bytes, values, .. } = record?;
                let head = [OF_SOURCE, shard.split as u8];
                let record = [&head[..], &bytes.to_le_bytes(), values.as_bytes()].concat();
                sorter.push(key.as_str().as_bytes(), &record).map_err(|e| self.sorting(e))?;
            }
        }
        Ok((of_base, sorter.finish().map_err(|e| self.sorting(e))?))
    }

    fn sorting(&self, error: std::io::Error) -> Error {
        Error::io("sort in", self.temp, error)
    }

    fn entry(&self, key: &[u8], record: &[u8]) -> Result<Entry, Error> {
        let damaged = || self.sorting(std::io::Error::other("a record is damaged"));
        Entry::parse(key, record).ok_or_else(damaged)
    }

    /// Compares each of `candidates` with its sample. New inputs are read only if they could be
    /// left out as empty.
    fn look<'r>(
        &'r self,
        candidates: &[Candidate],
        readers: &Mutex<Vec<InputReader<'r>>>,
        (spares, pixels, unpacked): (&'r Spares, &'r PixelBudget, &Arc<UnpackedScenes>),
    ) -> Result<(), Error> {
        let plan = &self.options.plan;
        let may_be_empty = plan.tile.is_some_and(|tile| tile.min_valid > 0.0);
        // Neighbours share strips: one thread cuts all tiles of a row.
        let together: Vec<&[Candidate]> = match plan.tile {
            Some(_) => candidates.chunk_by(|a, b| tile_row(a) == tile_row(b)).collect(),
            None => candidates.chunks(1).collect(),
        };
        parallel(&together, self.options.jobs, self.cancel, |candidates, stop| {
            let lock = || readers.lock().unwrap_or_else(PoisonError::into_inner);
            let reader = lock().pop();
            let mut reader = reader
                .unwrap_or_else(|| InputReader::new(self.plan, plan, spares, pixels, unpacked));
            for candidate in *candidates {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                if candidate.place.is_some() || may_be_empty {
                    let stored = candidate.place.map(|place| self.stored(place)).transpose()?;
                    let likeness = reader.compare(self.source, &candidate.record, stored.as_ref());
                    candidate.likeness.get_or_init(|| likeness);
                }
                (self.progress)(Progress::Compared(candidate.record.bytes));
            }
            lock().push(reader);
            Ok::<_, Error>(())
        })?;
        if self.cancel.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled.into());
        }
        Ok(())
    }

    fn stored(&self, (shard, row): (ShardIdx, Row)) -> Result<StoredSample, Error> {
        let shard = self.base.shard(shard)?;
        let value = |field| -> Result<StoredValue, Error> {
            Ok(StoredValue { len: shard.len_of(row, field)?, digest: shard.digest(row, field)? })
        };
        let fields = self.base.manifest().fields.iter().enumerate();
        let fields = fields.filter(|(_, field)| !field.is_label()).map(|(i, _)| FieldIdx(i));
        let mut values = fields.map(value).collect::<Result<Vec<_>, _>>()?.into_iter();
        let image = values.next().unwrap_or_default();
        Ok(StoredSample { image, source: shard.source(row)?, further: values.collect() })
    }
}

/// The scene of a tile, and the row of pixels at which it begins.
fn tile_row(tile: &Candidate) -> Option<(&str, u32)> {
    tiles::parse(tile.record.key.as_str()).map(|(scene, (_, row))| (scene, row))
}

/// A record of the sort.
enum Entry {
    Sample((ShardIdx, Row)),
    Input(Record, Split),
}

impl Entry {
    fn parse(key: &[u8], record: &[u8]) -> Option<Self> {
        let (kind, rest) = record.split_first()?;
        if *kind == OF_BASE {
            let [shard, row] = rest.as_chunks::<8>().0 else { return None };
            let number = |bytes: &[u8; 8]| usize::try_from(u64::from_le_bytes(*bytes)).ok();
            return Some(Self::Sample((ShardIdx(number(shard)?), Row(number(row)?))));
        }
        let (split, rest) = rest.split_first()?;
        let (bytes, values) = rest.split_first_chunk::<8>()?;
        let record = Record {
            key: BundlePath::parse(std::str::from_utf8(key).ok()?).ok()?,
            // Labels are not compared: a table gives new ones to what stays, without packing it, and
            // `like_base` refuses to take them from elsewhere than the base did.
            label: -1,
            bytes: u64::from_le_bytes(*bytes),
            values: std::str::from_utf8(values).ok()?.to_owned(),
        };
        Some(Self::Input(record, Split::ALL.get(usize::from(*split)).copied()?))
    }
}

/// The results of comparing inputs.
struct Tally<'a> {
    comparison: Comparison<'a>,
    compared: Compared,
    kept: List<'a>,
    empty: List<'a>,
}

impl Tally<'_> {
    fn add(&mut self, candidate: Candidate) -> Result<(), Error> {
        let Candidate { record, split, place, likeness } = candidate;
        let key = record.key.as_str();
        let shards = &self.comparison.base.manifest().shards;
        let of_base = place.and_then(|(shard, _)| shards.get(shard.0)).map(|entry| entry.split);
        let moved = match self.comparison.splits {
            Splits::Table => None,
            _ => of_base.filter(|of_base| *of_base != split),
        };
        let likeness = likeness.into_inner().unwrap_or(Likeness::Other);
        if let (Some(of_base), Splits::Options, true) =
            (moved, self.comparison.splits, likeness != Likeness::Empty)
        {
            return Err(setting(
                &["fractions", "seed"],
                format!(
                    "`{key}` is in split `{of_base}` of the base and would be in `{split}`: give the same fractions and seed as for the base"
                ),
            ));
        }
        match (likeness, place) {
            (Likeness::Empty, _) => return self.empty.push(key),
            // A sample that moves to a folder of another split is packed again.
            (Likeness::Same, _) if moved.is_none() => {
                self.compared.unchanged += 1;
                self.kept.push(key)?;
            }
            (Likeness::Same | Likeness::Other, place) => {
                let Compared { changed, added, .. } = &mut self.compared;
                *if place.is_some() { changed } else { added } += 1;
            }
        }
        Ok(())
    }
}

/// A file of keys, one per line.
struct List<'a> {
    path: &'a Path,
    out: BufWriter<File>,
}

impl<'a> List<'a> {
    fn create(path: &'a Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|e| Error::io("write", path, e))?;
        Ok(Self { path, out: BufWriter::new(file) })
    }

    fn push(&mut self, key: &str) -> Result<(), Error> {
        writeln!(self.out, "{key}").map_err(|e| Error::io("write", self.path, e))
    }

    fn finish(mut self) -> Result<(), Error> {
        self.out.flush().map_err(|e| Error::io("write", self.path, e))
    }
}
