//! Images that occur twice, and images that look alike: found in the background, once asked for.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use gular_bundle::{Bundle, SampleId};
use gular_pack::{
    Among, DuplicateOptions, LookOptions, LookPair, Looks, Progress, find_duplicates, find_looks,
};
use serde_json::{Value, json};

use crate::sample_name::name;

/// The most groups of equal images that are shown.
const MOST_GROUPS: usize = 200;
/// Memory for the digests of all images, and for their looks.
const MEMORY: usize = 128 << 20;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// Images of equal bytes, by the digests in the indexes.
    Equal,
    /// Images of equal pixels and similar images: each is decoded.
    Alike,
}

/// A search, as far as it is.
#[derive(Debug)]
pub(crate) struct Search {
    done: AtomicU64,
    of: AtomicU64,
    result: Mutex<Option<Value>>,
    cancel: AtomicBool,
}

impl Search {
    /// Starts it. `temp_dir` is for sorting what does not fit in memory.
    pub(crate) fn start(bundle: &Arc<Bundle>, kind: Likeness, temp_dir: PathBuf) -> Arc<Self> {
        let of = bundle.manifest().shards.iter().map(|shard| shard.samples).sum();
        let search = Arc::new(Self {
            done: AtomicU64::new(0),
            of: AtomicU64::new(of),
            result: Mutex::new(None),
            cancel: AtomicBool::new(false),
        });
        let (of_thread, bundle) = (Arc::clone(&search), Arc::clone(bundle));
        let run = move || {
            let found = of_thread.find(&bundle, kind, temp_dir);
            let found = found.unwrap_or_else(|error| json!({ "fault": error.to_string() }));
            *of_thread.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        };
        if thread::Builder::new().name("pairs".into()).spawn(run).is_err() {
            let fault = json!({ "fault": "the system has no thread left" });
            *search.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
        }
        search
    }

    /// Ends it early.
    pub(crate) fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> Value {
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (done, of) = (self.done.load(Ordering::Relaxed), self.of.load(Ordering::Relaxed));
        json!({ "done": done, "of": of, "result": result })
    }

    fn find(
        &self,
        bundle: &Bundle,
        kind: Likeness,
        temp_dir: PathBuf,
    ) -> Result<Value, gular_pack::Error> {
        let here = |shard: gular_bundle::ShardIdx| {
            let entry = shard.of(&bundle.manifest().shards);
            entry.is_some_and(|entry| bundle.path_of(&entry.file).exists())
        };
        let among = Among { bundle, has: &here };
        let mut found = self.find_among(&among, kind, temp_dir)?;
        let shards = (0..).map(gular_bundle::ShardIdx).zip(&bundle.manifest().shards);
        let away = shards.filter(|(shard, _)| !here(*shard)).map(|(_, entry)| entry.samples);
        found["away"] = json!(away.sum::<u64>());
        Ok(found)
    }

    fn find_among(
        &self,
        among: &Among<'_>,
        kind: Likeness,
        temp_dir: PathBuf,
    ) -> Result<Value, gular_pack::Error> {
        match kind {
            Likeness::Equal => {
                let options = DuplicateOptions {
                    memory_bytes: MEMORY,
                    named: MOST_GROUPS,
                    ..DuplicateOptions::default()
                };
                let found = find_duplicates(among, None, &options, &self.cancel)?;
                let group = |group: &gular_pack::DuplicateGroup| {
                    let samples = group.samples.iter().map(|sample| {
                        json!({ "id": name(sample.place), "key": sample.key, "split": sample.split, "label": sample.label })
                    });
                    json!({
                        "n": group.n, "how": "the same bytes", "splits": group.splits,
                        "labels_differ": group.labels_differ, "samples": samples.collect::<Vec<_>>(),
                    })
                };
                Ok(json!({
                    "compared": found.compared, "n": found.pictures,
                    "groups": found.named.iter().map(group).collect::<Vec<_>>(),
                }))
            }
            Likeness::Alike => {
                let jobs = thread::available_parallelism().map_or(1, usize::from);
                let options =
                    LookOptions { pixels: true, near: true, jobs, memory_bytes: MEMORY, temp_dir };
                let progress = |progress: Progress| {
                    if let Progress::Packed(n, _) = progress {
                        self.done.fetch_add(n, Ordering::Relaxed);
                    }
                };
                let found = find_looks(among, None, &options, &progress, &self.cancel)?;
                Ok(alike(&found, &|_, sample| name(sample)))
            }
        }
    }
}

/// The pairs of images that look alike; `id` names a sample of the first or the second bundle.
pub(crate) fn alike(found: &Looks, id: &dyn Fn(usize, SampleId) -> String) -> Value {
    let pair = |pair: &LookPair| {
        let samples = pair.samples.iter().zip(pair.places).map(|(sample, place)| {
            let id = id(sample.bundle, place);
            json!({ "id": id, "key": sample.key, "split": sample.split, "label": sample.label })
        });
        let how = match pair.bits {
            None => "the same pixels".to_owned(),
            Some(bits) => format!("{bits} of 64 bits differ"),
        };
        let [one, other] = &pair.samples;
        let splits =
            if one.split == other.split { vec![one.split] } else { vec![one.split, other.split] };
        json!({
            "n": 2, "how": how, "splits": splits, "labels_differ": one.label != other.label,
            "samples": samples.collect::<Vec<_>>(),
        })
    };
    json!({
        "compared": found.compared, "n": found.same_pixels + found.near,
        "undecodable": found.undecodable,
        "groups": found.pairs.iter().map(pair).collect::<Vec<_>>(),
    })
}
