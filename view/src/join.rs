//! Whether the keys and the labels of a table are those of the bundle.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{Bundle, ShardIdx};
use serde::Serialize;

use crate::Error;

/// The most rows of a table that are compared; they take 24 bytes each.
pub(crate) const MOST_ROWS: usize = 1_000_000;

/// The keys and labels of a table's first rows.
#[derive(Default)]
pub(crate) struct Rows(Vec<Row>);

/// The labels that a bundle has for the rows of a table, by the rows' keys.
#[derive(Default)]
pub(crate) struct BundleLabels(HashMap<u64, Option<u32>>);

impl BundleLabels {
    /// The class of a row; of a key with two labels, none.
    pub(crate) fn get(&self, key: &str, split: Option<&str>) -> Option<usize> {
        usize::try_from((*self.0.get(&hash(key, split))?)?).ok()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    /// Of the key, and of the split where the table has one.
    hash: u64,
    number: u32,
    class: Option<u32>,
}

/// What the bundle has for a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Nowhere,
    OtherLabel,
    Same,
}

/// Rows that differ from the bundle.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Differing {
    /// How many there are.
    pub(crate) n: usize,
    /// The number of the first one in the table.
    #[serde(skip)]
    pub(crate) first: Option<u32>,
    /// The first one's key.
    pub(crate) key: String,
}

/// What a comparison found.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Joined {
    /// How many rows were compared.
    pub(crate) rows: usize,
    /// Rows whose keys the bundle does not have.
    pub(crate) missing: Differing,
    /// Rows whose keys came before.
    pub(crate) twice: Differing,
    /// Rows whose labels are not those of the bundle.
    pub(crate) other_label: Differing,
}

impl Differing {
    fn add(&mut self, row: Row) {
        self.n += 1;
        self.first = Some(self.first.map_or(row.number, |first| first.min(row.number)));
    }
}

impl Joined {
    /// The rows whose keys are to be shown.
    pub(crate) fn examples(&mut self) -> BTreeMap<u32, Vec<&mut String>> {
        let mut examples: BTreeMap<u32, Vec<&mut String>> = BTreeMap::new();
        for differing in [&mut self.missing, &mut self.twice, &mut self.other_label] {
            if let Some(first) = differing.first {
                examples.entry(first).or_default().push(&mut differing.key);
            }
        }
        examples
    }
}

impl Rows {
    /// Adds the next row.
    pub(crate) fn add(&mut self, key: &str, split: Option<&str>, class: Option<usize>) {
        if self.0.len() < MOST_ROWS {
            let number = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
            let class = class.and_then(|class| u32::try_from(class).ok());
            self.0.push(Row { hash: hash(key, split), number, class });
        }
    }

    /// Finds the labels of the rows in the indexes of the bundle.
    ///
    /// # Errors
    /// Those of reading the indexes.
    pub(crate) fn labels(
        mut self,
        bundle: &Bundle,
        cancel: &AtomicBool,
    ) -> Result<BundleLabels, Error> {
        self.0.sort_unstable();
        let mut labels: HashMap<u64, Option<u32>> = HashMap::new();
        self.each_sample(bundle, cancel, &mut |rows, label| {
            let Some(row) = self.0.get(rows.start) else { return };
            // Several splits may have the key.
            let known = labels.entry(row.hash).or_insert(label);
            *known = (*known).filter(|known| Some(*known) == label);
        })?;
        Ok(BundleLabels(labels))
    }

    /// Compares the rows with the indexes of the bundle.
    ///
    /// # Errors
    /// Those of reading the indexes.
    pub(crate) fn compare(mut self, bundle: &Bundle, cancel: &AtomicBool) -> Result<Joined, Error> {
        self.0.sort_unstable();
        let mut joined = Joined { rows: self.0.len(), ..Joined::default() };
        let again = self.0.windows(2).filter(|two| two[0].hash == two[1].hash);
        again.for_each(|two| joined.twice.add(two[1]));
        let mut found = vec![Found::Nowhere; self.0.len()];
        self.each_sample(bundle, cancel, &mut |rows, label| {
            for (row, found) in self.0[rows.clone()].iter().zip(&mut found[rows]) {
                let differ = row.class.is_some() && label.is_some() && row.class != label;
                // Several splits may have the key, and one with this label is enough.
                *found = (*found).max(if differ { Found::OtherLabel } else { Found::Same });
            }
        })?;
        if cancel.load(Ordering::Relaxed) {
            return Ok(joined);
        }
        for (row, found) in self.0.iter().zip(found) {
            match found {
                Found::Nowhere => joined.missing.add(*row),
                Found::OtherLabel => joined.other_label.add(*row),
                Found::Same => {}
            }
        }
        Ok(joined)
    }
}

impl Rows {
    /// Calls `each` for every sample that rows name, with these of the sorted rows and its label.
    fn each_sample(
        &self,
        bundle: &Bundle,
        cancel: &AtomicBool,
        each: &mut dyn FnMut(Range<usize>, Option<u32>),
    ) -> Result<(), Error> {
        for (at, entry) in bundle.manifest().shards.iter().enumerate() {
            let index = bundle.index(ShardIdx(at))?;
            let split = entry.split.to_string();
            for row in index.rows() {
                if cancel.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let key = index.key(row).unwrap_or_default();
                let label = index.label(row).and_then(|label| u32::try_from(label).ok());
                for hash in [hash(key, None), hash(key, Some(&split))] {
                    let from = self.0.partition_point(|row| row.hash < hash);
                    let same = self.0[from..].iter().take_while(|row| row.hash == hash).count();
                    if same > 0 {
                        each(from..from + same, label);
                    }
                }
            }
        }
        Ok(())
    }
}

fn hash(key: &str, split: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, split).hash(&mut hasher);
    hasher.finish()
}
