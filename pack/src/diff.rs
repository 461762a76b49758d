//! Compares two bundles, key by key, by their indexes alone.
//!
//! ```text
//! shards that both list with one index, view and split ─▶ all of their samples are the same
//! samples of all others ─▶ sorted by key ─▶ pairs: same, changed, relabelled, moved
//!                                        └▶ alone: added, removed
//! ```

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gular_bundle::{Bundle, Digest, Field, FieldIdx, ShardEntry, ShardIdx, Split, StreamDigest};
use serde::Serialize;

use crate::error::Error;
use crate::facts::{RunError, Sorter};
use crate::packing::Progress;

/// A report lists this many keys of each kind.
const MOST_NAMED: usize = 20;

/// How two bundles differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiffReport {
    /// Digest of the first bundle.
    pub from: Digest,
    /// Digest of the second bundle.
    pub to: Digest,
    /// Number of samples of the first bundle.
    pub from_samples: u64,
    /// Number of samples of the second bundle.
    pub to_samples: u64,
    /// Number of keys with the same values, class and split in both bundles.
    pub same: u64,
    /// Keys that only the second bundle has.
    pub added: Differing,
    /// Keys that only the first bundle has.
    pub removed: Differing,
    /// Keys with a different value in some field; differences in labels do not count here.
    pub changed: Differing,
    /// Keys with a different class in the two bundles.
    pub relabelled: Differing,
    /// Keys that are in a different split in the two bundles.
    pub moved: Differing,
    /// Fields that only the second bundle has.
    pub fields_added: Vec<String>,
    /// Fields that only the first bundle has.
    pub fields_removed: Vec<String>,
    /// Fields of both bundles whose types differ.
    pub fields_changed: Vec<String>,
    /// Fields of both bundles whose values depend on the order of the classes, if that order
    /// differs: equal values then have different meanings.
    pub fields_reordered: Vec<String>,
    /// Classes that only the second bundle has.
    pub classes_added: Vec<String>,
    /// Classes that only the first bundle has.
    pub classes_removed: Vec<String>,
    /// Bytes of the second bundle's shards that the first bundle does not have.
    pub new_bytes: u64,
    /// Wall-clock time.
    pub seconds: f64,
}

/// How many keys, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Differing {
    /// Number of such keys.
    pub n: u64,
    /// The first of these keys, in order.
    pub first: Vec<String>,
}

/// One way in which a key differs; a key may differ in several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The second bundle alone has it.
    Added,
    /// The first bundle alone has it.
    Removed,
    /// A value differs.
    Changed,
    /// Its class differs; classes are given by name if they have names.
    Relabelled(Option<String>, Option<String>),
    /// Its split differs.
    Moved(Split, Split),
}

/// Options of [`diff`]: where keys are sorted, and in how much memory.
#[derive(Debug, Clone, Copy)]
pub struct DiffOptions<'a> {
    /// The folder for sorting what does not fit in memory.
    pub temp_dir: &'a Path,
    /// Bytes of memory for sorting.
    pub memory_bytes: usize,
}

impl DiffReport {
    /// Returns whether both bundles have the same samples.
    #[must_use]
    pub fn is_same(&self) -> bool {
        let differing = [&self.added, &self.removed, &self.changed, &self.relabelled, &self.moved];
        differing.iter().all(|d| d.n == 0)
            && self.fields_alike()
            && self.fields_reordered.is_empty()
    }
}

impl Differing {
    fn push(&mut self, key: &str) {
        self.n += 1;
        if self.first.len() < MOST_NAMED {
            self.first.push(key.to_owned());
        }
    }
}

/// Compares two bundles; calls `each` for every difference, in the order of the keys.
///
/// Reads indexes, and no value.
///
/// # Errors
/// Those of [`Bundle::index`]; [`RunError::Io`] where keys are sorted; [`RunError::Cancelled`];
/// those of `each`.
pub fn diff(
    from: &Bundle,
    to: &Bundle,
    options: DiffOptions<'_>,
    each: &mut dyn FnMut(&str, &Difference) -> Result<(), Error>,
    progress: &dyn Fn(Progress),
    cancel: &AtomicBool,
) -> Result<DiffReport, Error> {
    let start = Instant::now();
    let mut report = described(from, to);
    let classes = Classes::new(from, to);
    if !classes.alike {
        let fields = from.manifest().fields.iter().filter(|field| field.depends_on_classes());
        let of_both = fields.filter(|field| to.manifest().field(field.name.as_str()).is_ok());
        report.fields_reordered = of_both.map(|field| field.name.to_string()).collect();
    }
    let shared =
        if classes.alike && report.fields_alike() { shared(from, to) } else { <_>::default() };
    let sides = [from, to];
    let left = |bundle: &'_ Bundle| -> Vec<ShardIdx> {
        let entries =
            ShardIdx::first(bundle.manifest().shards.len()).zip(&bundle.manifest().shards);
        let entries = entries.filter(|(_, entry)| !shared.contains(&line(entry)));
        entries.map(|(shard, _)| shard).collect()
    };
    let left = sides.map(left);
    let entries = sides.iter().zip(&left).flat_map(|(bundle, left)| {
        left.iter().filter_map(|shard| shard.of(&bundle.manifest().shards))
    });
    let total = entries.fold((0, 0), |(n, b), e| (n + e.samples, b + e.index.bytes));
    progress(Progress::Planned(total.0, total.1));
    let same_lines = from.manifest().shards.iter().filter(|entry| shared.contains(&line(entry)));
    report.same = same_lines.map(|entry| entry.samples).sum();

    let io = |e| Error::io("sort in", options.temp_dir, e);
    let mut sorter = Sorter::new(options.temp_dir, options.memory_bytes);
    let common = common_fields(from, to);
    for (side, (bundle, left)) in sides.iter().zip(&left).enumerate() {
        let fields: Vec<FieldIdx> = common.iter().map(|pair| pair[side]).collect();
        for shard in left {
            let (index, entry) = (bundle.index(*shard)?, &bundle.manifest().shards[shard.0]);
            for row in index.rows() {
                if row.0.is_multiple_of(4096) && cancel.load(Ordering::Relaxed) {
                    return Err(RunError::Cancelled.into());
                }
                let digests = fields.iter().filter_map(|field| index.digest(row, *field));
                let record = Record {
                    side: side as u8,
                    split: entry.split as u8,
                    label: index.label(row).map_or(NO_LABEL, |label| classes.number(side, label)),
                    values: all(digests),
                };
                let key = index.key(row).unwrap_or_default();
                sorter.push(key.as_bytes(), &record.encode()).map_err(io)?;
            }
            progress(Progress::Packed(entry.samples, entry.index.bytes));
        }
    }
    let mut last: Option<(Vec<u8>, Record)> = None;
    for pair in sorter.finish().map_err(io)? {
        let (key, record) = pair.map_err(io)?;
        let record = Record::parse(&record)
            .ok_or_else(|| io(std::io::Error::other("a record is damaged")))?;
        match last.take() {
            Some((before, old)) if before == key && old.side != record.side => {
                report.compare(&key, &old, &record, &classes, each)?;
            }
            Some((before, old)) => {
                report.alone(&before, &old, each)?;
                last = Some((key, record));
            }
            None => last = Some((key, record)),
        }
    }
    if let Some((key, record)) = last {
        report.alone(&key, &record, each)?;
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Returns the part of the report that needs no samples.
fn described(from: &Bundle, to: &Bundle) -> DiffReport {
    let (a, b) = (from.manifest(), to.manifest());
    let named = |field: &Field, of: &[Field]| of.iter().find(|f| f.name == field.name).cloned();
    let only = |of: &[Field], others: &[Field]| {
        let only = of.iter().filter(|field| named(field, others).is_none());
        only.map(|field| field.name.to_string()).collect::<Vec<_>>()
    };
    let is_other = |field: &&Field| named(field, &b.fields).is_some_and(|f| !alike(field, &f));
    let classes = |of: &[String], others: &[String]| {
        let others: HashSet<&String> = others.iter().collect();
        of.iter().filter(|class| !others.contains(class)).cloned().collect::<Vec<_>>()
    };
    let shards: HashSet<Digest> = a.shards.iter().map(|entry| entry.file.digest).collect();
    let mut new: HashMap<Digest, u64> =
        b.shards.iter().map(|entry| (entry.file.digest, entry.file.bytes)).collect();
    new.retain(|digest, _| !shards.contains(digest));
    let samples = |bundle: &Bundle| Split::ALL.iter().map(|s| bundle.n_samples(*s)).sum();
    DiffReport {
        from: from.digest(),
        to: to.digest(),
        from_samples: samples(from),
        to_samples: samples(to),
        same: 0,
        added: Differing::default(),
        removed: Differing::default(),
        changed: Differing::default(),
        relabelled: Differing::default(),
        moved: Differing::default(),
        fields_added: only(&b.fields, &a.fields),
        fields_removed: only(&a.fields, &b.fields),
        fields_changed: a.fields.iter().filter(is_other).map(|f| f.name.to_string()).collect(),
        fields_reordered: Vec::new(),
        classes_added: classes(&b.classes, &a.classes),
        classes_removed: classes(&a.classes, &b.classes),
        new_bytes: new.values().sum(),
        seconds: 0.0,
    }
}

/// Whether values of both fields can be compared. Media types are ignored, since they describe all
/// values together.
fn alike(a: &Field, b: &Field) -> bool {
    match (a.as_fixed(), b.as_fixed()) {
        (None, None) => true,
        (a, b) => a == b,
    }
}

/// The fields of both but `label`, with their places in each.
fn common_fields(from: &Bundle, to: &Bundle) -> Vec<[FieldIdx; 2]> {
    let of_to = &to.manifest().fields;
    let of_from = &from.manifest().fields;
    let fields = of_from.iter().zip(FieldIdx::first(of_from.len()));
    let pair = |(field, at): (&Field, FieldIdx)| {
        let other = of_to.iter().position(|other| other.name == field.name)?;
        (!field.is_label()).then_some([at, FieldIdx(other)])
    };
    fields.filter_map(pair).collect()
}

/// If these are equal, two shards have the same samples.
type SameLine = (Split, Digest, Option<Digest>);

fn line(entry: &ShardEntry) -> SameLine {
    (entry.split, entry.index.digest, entry.view.as_ref().map(|view| view.digest))
}

/// The lines of both manifests; the index's digest covers its shard's.
fn shared(from: &Bundle, to: &Bundle) -> HashSet<SameLine> {
    let of = |bundle: &Bundle| bundle.manifest().shards.iter().map(line).collect::<HashSet<_>>();
    of(from).intersection(&of(to)).copied().collect()
}

/// Numbers of classes that mean the same in both bundles.
struct Classes {
    names: Vec<String>,
    /// For each class of the second bundle, its number in the list of all classes.
    of_to: Vec<i32>,
    alike: bool,
}

impl Classes {
    fn new(from: &Bundle, to: &Bundle) -> Self {
        let (a, b) = (&from.manifest().classes, &to.manifest().classes);
        if a.is_empty() || b.is_empty() {
            // If a bundle has no class names, numbers are compared.
            let names = if a.is_empty() { b.clone() } else { a.clone() };
            return Self { names, of_to: Vec::new(), alike: true };
        }
        let mut names = a.clone();
        let mut known: HashMap<String, i32> = a.iter().cloned().zip(0..).collect();
        let mut of_to = Vec::with_capacity(b.len());
        for class in b {
            let next = i32::try_from(names.len()).unwrap_or(i32::MAX);
            let number = *known.entry(class.clone()).or_insert(next);
            if number == next {
                names.push(class.clone());
            }
            of_to.push(number);
        }
        let alike = of_to.iter().zip(0..).all(|(number, place)| *number == place);
        Self { names, of_to, alike }
    }

    fn number(&self, side: usize, label: i32) -> i32 {
        let known = usize::try_from(label).ok().filter(|_| side == 1);
        known.and_then(|at| self.of_to.get(at).copied()).unwrap_or(label)
    }

    fn shown(&self, label: i32) -> Option<String> {
        (label != NO_LABEL).then(|| {
            let name = usize::try_from(label).ok().and_then(|at| self.names.get(at).cloned());
            name.unwrap_or_else(|| label.to_string())
        })
    }
}

/// Stands for a label that a bundle does not have. No label is so low.
const NO_LABEL: i32 = i32::MIN;

/// The values of a sample that are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    side: u8,
    split: u8,
    label: i32,
    values: Digest,
}

impl Record {
    fn encode(&self) -> [u8; 38] {
        let mut record = [0; 38];
        record[0] = self.side;
        record[1] = self.split;
        record[2..6].copy_from_slice(&self.label.to_le_bytes());
        record[6..].copy_from_slice(self.values.as_bytes());
        record
    }

    fn parse(record: &[u8]) -> Option<Self> {
        let record: &[u8; 38] = record.try_into().ok()?;
        let label = i32::from_le_bytes(*record[2..].first_chunk()?);
        let values = Digest::from_bytes(*record[6..].first_chunk()?);
        Some(Self { side: record[0], split: record[1], label, values })
    }

    fn split(&self) -> Split {
        Split::ALL[usize::from(self.split).min(2)]
    }
}

/// Returns one digest for all values of a sample.
fn all(digests: impl Iterator<Item = Digest>) -> Digest {
    let mut hash = StreamDigest::new();
    digests.for_each(|digest| hash.update(digest.as_bytes()));
    hash.finish()
}

impl DiffReport {
    fn fields_alike(&self) -> bool {
        [&self.fields_added, &self.fields_removed, &self.fields_changed]
            .iter()
            .all(|f| f.is_empty())
    }

    fn compare(
        &mut self,
        key: &[u8],
        old: &Record,
        new: &Record,
        classes: &Classes,
        each: &mut dyn FnMut(&str, &Difference) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let key = &*String::from_utf8_lossy(key);
        // Sorted by their bytes, the first bundle's record comes first.
        let mut same = true;
        if old.values != new.values {
            same = false;
            self.changed.push(key);
            each(key, &Difference::Changed)?;
        }
        if old.label != new.label {
            same = false;
            self.relabelled.push(key);
            let shown = |record: &Record| classes.shown(record.label);
            each(key, &Difference::Relabelled(shown(old), shown(new)))?;
        }
        if old.split != new.split {
            same = false;
            self.moved.push(key);
            each(key, &Difference::Moved(old.split(), new.split()))?;
        }
        self.same += u64::from(same);
        Ok(())
    }

    fn alone(
        &mut self,
        key: &[u8],
        record: &Record,
        each: &mut dyn FnMut(&str, &Difference) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let key = &*String::from_utf8_lossy(key);
        if record.side == 0 {
            self.removed.push(key);
            each(key, &Difference::Removed)
        } else {
            self.added.push(key);
            each(key, &Difference::Added)
        }
    }
}
