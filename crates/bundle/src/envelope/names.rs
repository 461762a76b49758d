//! Names of the files of a whole bundle, with a separate folder for each split.
//!
//! Almost every sample's files can have the plain names of [`super::files`]. Samples whose names
//! could be those of another sample, in whichever shard, are found by their keys, and are named one
//! after another before anything is written. So names do not depend on which shard is written
//! first, nor on whether a run was interrupted.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::envelope::files::{SampleFiles, list_line, numbered, plain_names};
use crate::{Bundle, BundlePath, Digest, Error, Field, FieldIdx, SampleId, ShardIdx, Split};

/// Names the files of samples; no two files of a split have the same name.
#[derive(Debug)]
pub struct BundleNames {
    fields: Vec<Field>,
    /// Whether keys begin with the folder of their split, which is then left out.
    in_keys: bool,
    /// Names of the samples that do not have the plain ones.
    others: HashMap<SampleId, Vec<Option<String>>>,
}

impl BundleNames {
    /// Makes the names for all samples of `bundle`.
    ///
    /// # Errors
    /// Those of reading an index; of reading values, where names could meet.
    pub fn new(bundle: &Bundle) -> Result<Self, Error> {
        let fields = bundle.manifest().fields.clone();
        let mut names =
            Self { fields, in_keys: splits_are_in_keys(bundle)?, others: HashMap::new() };
        for split in Split::ALL {
            names.name_others(bundle, split)?;
        }
        Ok(names)
    }

    /// Returns the files of a sample, below the folder of its split.
    #[must_use]
    pub fn of(&self, sample: SampleId, key: &BundlePath, values: &[&[u8]]) -> SampleFiles {
        let names = match self.others.get(&sample) {
            Some(names) => names.clone(),
            None => plain_names(&self.fields, key, self.below(key.as_str()), values),
        };
        let line = list_line(&self.fields, key, &names, values);
        SampleFiles { names, line }
    }

    /// Returns the key without the folder of its split.
    fn below<'a>(&self, key: &'a str) -> &'a str {
        let whole = (key, key);
        if self.in_keys { key.split_once('/').unwrap_or(whole).1 } else { key }
    }

    /// Names the samples of a split whose plain names could be those of others.
    fn name_others(&mut self, bundle: &Bundle, split: Split) -> Result<(), Error> {
        let mut keys = Keys::default();
        self.each_key(bundle, split, &mut |_, key| keys.add(key))?;
        keys.sort();
        let mut close = keys.twice();
        self.each_key(bundle, split, &mut |_, key| keys.add_close(key, &mut close))?;
        for folder in &keys.folders {
            close.extend(keys.near(folder));
            close.extend(Some(mark(folder)).filter(|m| keys.holds(*m)));
        }
        if close.is_empty() {
            return Ok(());
        }
        let mut samples = Vec::new();
        self.each_key(bundle, split, &mut |sample, key| {
            if close.contains(&mark(key)) {
                samples.push(sample);
            }
        })?;
        let mut taken = HashSet::new();
        let mut values = vec![Vec::new(); self.fields.len()];
        for sample in samples {
            for (field, value) in values.iter_mut().enumerate() {
                bundle.read(sample, FieldIdx(field), value)?;
            }
            let lent: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let key = bundle.key(sample)?;
            let below = self.below(key.as_str());
            let plain = plain_names(&self.fields, &key, below, &lent);
            let mut free = |plain: String| keys.free_name(below, &plain, &mut taken);
            let names: Vec<_> = plain.iter().map(|n| n.clone().map(&mut free)).collect();
            if names != plain {
                self.others.insert(sample, names);
            }
        }
        Ok(())
    }

    fn each_key(
        &self,
        bundle: &Bundle,
        split: Split,
        take: &mut dyn FnMut(SampleId, &str),
    ) -> Result<(), Error> {
        for (number, entry) in bundle.manifest().shards.iter().enumerate() {
            if entry.split == split {
                let number = ShardIdx(number);
                let index = bundle.shard(number)?.index()?;
                for row in index.rows() {
                    take(
                        SampleId { shard: number, row },
                        self.below(index.key(row).unwrap_or_default()),
                    );
                }
            }
        }
        Ok(())
    }
}

/// All keys of a split, as marks. If two keys share a mark by chance, one gets a numbered name
/// without need.
#[derive(Debug, Default)]
struct Keys {
    /// Sorted.
    marks: Vec<u64>,
    folders: BTreeSet<String>,
}

impl Keys {
    fn add(&mut self, key: &str) {
        self.marks.push(mark(key));
        let mut rest = key;
        while let Some((folder, _)) = rest.rsplit_once('/') {
            if self.folders.contains(folder) {
                break;
            }
            self.folders.insert(folder.to_owned());
            rest = folder;
        }
    }

    fn sort(&mut self) {
        self.marks.sort_unstable();
    }

    fn holds(&self, mark: u64) -> bool {
        self.marks.binary_search(&mark).is_ok()
    }

    /// Returns the marks that more than one key has.
    fn twice(&self) -> HashSet<u64> {
        let pairs = self.marks.iter().zip(self.marks.iter().skip(1));
        pairs.filter(|(a, b)| a == b).map(|(a, _)| *a).collect()
    }

    /// Returns the keys to which a suffix `.<extension>` or `.<field>.<extension>` gives `name`.
    fn near(&self, name: &str) -> impl Iterator<Item = u64> {
        let shorter = name.rsplit_once('.').map(|(shorter, _)| shorter);
        let shortest = shorter.and_then(|s| s.rsplit_once('.')).map(|(shortest, _)| shortest);
        [shorter, shortest].into_iter().flatten().map(mark).filter(|m| self.holds(*m))
    }

    /// Adds `key` and the keys whose files could have the names of its files. File names are keys
    /// with a suffix, so such a key is the beginning of the other one.
    fn add_close(&self, key: &str, close: &mut HashSet<u64>) {
        let near: Vec<u64> = self.near(key).collect();
        if !near.is_empty() {
            close.extend(near);
            close.insert(mark(key));
        }
    }

    /// Returns `plain`, or a name that no file of another key can have, nor a folder.
    fn free_name(&self, key: &str, plain: &str, taken: &mut HashSet<String>) -> String {
        let is_free = |name: &str, n: u64| {
            let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
            let of_other = name != key && self.holds(mark(name)) || n > 1 && self.holds(mark(stem));
            !of_other && !self.folders.contains(name)
        };
        numbered(plain, |name, n| is_free(name, n) && taken.insert(name.to_owned()))
    }
}

/// Returns an 8-byte hash of a key.
fn mark(key: &str) -> u64 {
    let digest = Digest::of(key.as_bytes());
    digest.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// Returns whether all keys of a bundle begin with a folder that names their split (`train`, `val`
/// or `valid` or `validation`, `test`). All keys of a split must have the same folder.
fn splits_are_in_keys(bundle: &Bundle) -> Result<bool, Error> {
    let mut folders: BTreeMap<Split, String> = BTreeMap::new();
    for (number, entry) in bundle.manifest().shards.iter().enumerate() {
        let index = bundle.shard(ShardIdx(number))?.index()?;
        for row in index.rows() {
            let first = index.key(row).and_then(|key| key.split_once('/'));
            let Some((first, _)) = first.filter(|(f, _)| Split::parse(f) == Some(entry.split))
            else {
                return Ok(false);
            };
            match folders.get(&entry.split) {
                Some(folder) if folder != first => return Ok(false),
                Some(_) => {}
                None => drop(folders.insert(entry.split, first.to_owned())),
            }
        }
    }
    Ok(true)
}
