//! Counts classes in the background, one index after the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use gular_bundle::{Bundle, ShardIdx, Split};
use serde::Serialize;

/// How many samples each class has, as far as they were counted.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Counts {
    /// Indexes that were read, and how many there are.
    pub(crate) read: usize,
    pub(crate) of: usize,
    /// Of each split, the samples of each class.
    pub(crate) splits: BTreeMap<Split, Vec<u64>>,
    /// Of each split, the samples whose class is unknown.
    pub(crate) unknown: BTreeMap<Split, u64>,
    /// Why indexes could not be read; the first of them.
    pub(crate) fault: Option<String>,
}

/// Starts to count. The thread ends early once nobody else has the result.
pub(crate) fn count(bundle: &Arc<Bundle>) -> Arc<Mutex<Counts>> {
    let manifest = bundle.manifest();
    let of = if manifest.has_labels() { manifest.shards.len() } else { 0 };
    let counts = Arc::new(Mutex::new(Counts { of, ..Counts::default() }));
    if of > 0 {
        let (bundle, to) = (Arc::clone(bundle), Arc::clone(&counts));
        // Without a thread, nothing is counted, which the page shows.
        let run = move || all(&bundle, &to, &|| Arc::strong_count(&to) > 1);
        let _ = thread::Builder::new().name("counts".into()).spawn(run);
    }
    counts
}

/// Counts all.
pub(crate) fn counted(bundle: &Bundle) -> Counts {
    let counts = Mutex::new(Counts::default());
    if bundle.manifest().has_labels() {
        all(bundle, &counts, &|| true);
    }
    let counts = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
    Counts { of: counts.read, ..counts }
}

fn all(bundle: &Bundle, to: &Mutex<Counts>, goes_on: &dyn Fn() -> bool) {
    let n_classes = bundle.manifest().classes.len();
    for (number, entry) in bundle.manifest().shards.iter().enumerate() {
        if !goes_on() {
            return;
        }
        let (mut of_shard, mut unknown) = (vec![0; n_classes], 0);
        let read = bundle.index(ShardIdx(number)).map(|index| {
            for label in index.labels() {
                let class = usize::try_from(label).ok();
                match class.and_then(|class| of_shard.get_mut(class)) {
                    Some(n) => *n += 1,
                    None => unknown += 1,
                }
            }
        });
        let mut counts = to.lock().unwrap_or_else(PoisonError::into_inner);
        counts.read += 1;
        if let Err(error) = read {
            counts.fault.get_or_insert_with(|| error.to_string());
            continue;
        }
        let sums = counts.splits.entry(entry.split).or_insert_with(|| vec![0; n_classes]);
        sums.iter_mut().zip(&of_shard).for_each(|(sum, n)| *sum += n);
        *counts.unknown.entry(entry.split).or_default() += unknown;
    }
}
