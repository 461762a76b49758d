//! Measures what checking samples costs: the first pass over a bundle, which hashes every sample,
//! against a loop that reads and hashes; later passes against a loop that reads every byte.
//!
//! One thread reads warm files in random order, so that nothing waits. The loops have all offsets
//! in a list beforehand.

use std::cell::RefCell;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use gular_bundle::{
    Backend, Bundle, Digest, Envelope, FieldIdx, OpenOptions, SampleId, Shard, Split,
};
use gular_runtime::order::{KeyedPermutation, key};
use serde_json::Value;

use crate::turn::{Answer, Host, Watch};

const IMAGE: FieldIdx = FieldIdx(0);

/// A bundle of every envelope in `dir`, by the envelope's name; those that are there.
pub(crate) fn host(dir: &Path) -> Result<Host, Box<dyn Error>> {
    let mut host = Host::default();
    for envelope in Envelope::ALL {
        let bundle = dir.join(envelope.name());
        if !bundle.exists() {
            continue;
        }
        for (name, backend) in [("pread", Backend::Pread), ("map", Backend::Map)] {
            let state = Rc::new(RefCell::new(Round::open(&bundle, backend, 0)?));
            let mut add = |what: &str, turn: fn(&mut Round) -> Answer, fresh: bool| {
                let (state, bundle, mut round) = (Rc::clone(&state), bundle.clone(), 0);
                host.add(format!("{what}, {envelope}, {name}"), move |_| {
                    if fresh {
                        round += 1;
                        *state.borrow_mut() = Round::open(&bundle, backend, round)?;
                    }
                    turn(&mut state.borrow_mut())
                });
            };
            // The order in each round matters: samples that the first pass has checked need not be
            // checked later.
            add("first pass", Round::ours, true);
            add("read and hash", |round| round.by_hand(hash), false);
            add("later pass", Round::ours, false);
            add("read", |round| round.by_hand(sum), false);
        }
    }
    Ok(host)
}

struct Round {
    backend: Backend,
    ours: Bundle,
    /// The bundle, opened again, so that both contestants touch the pages of their maps for the
    /// first time.
    hand: Bundle,
    order: Vec<SampleId>,
}

impl Round {
    fn open(dir: &Path, backend: Backend, seed: u64) -> Result<Self, Box<dyn Error>> {
        let open = OpenOptions { backend, ..OpenOptions::default() };
        let ours = Bundle::open(dir, open.clone())?;
        let hand = Bundle::open(dir, open)?;
        let n = ours.n_samples(Split::Train);
        let order = KeyedPermutation::new(n, key(seed, 0, 0));
        let order = (0..n).map(|i| ours.locate(Split::Train, order.at(i)));
        let order = order.collect::<Result<_, _>>()?;
        Ok(Self { backend, ours, hand, order })
    }

    /// A pass as the loader makes it, every byte looked at.
    fn ours(&mut self) -> Answer {
        let (watch, mut buffer) = (Watch::of_thread(), Vec::new());
        for id in &self.order {
            let shard = self.ours.shard(id.shard)?;
            let stored = shard.view(id.row, IMAGE, &mut buffer)?;
            shard.check(id.row, IMAGE, stored)?;
            sum(stored);
        }
        Ok(self.answer(&watch))
    }

    /// Runs a loop over the same samples.
    fn by_hand(&mut self, look: fn(&[u8])) -> Answer {
        let shards = &self.hand.manifest().shards;
        let files: Vec<File> = shards
            .iter()
            .map(|shard| File::open(self.hand.path_of(&shard.file)))
            .collect::<Result<_, _>>()?;
        let opened: Vec<Arc<Shard>> =
            self.order.iter().map(|id| self.hand.shard(id.shard)).collect::<Result<_, _>>()?;
        if self.backend == Backend::Map {
            let mut none = vec![Vec::new(); self.order.len()];
            let mut mapped = Vec::with_capacity(self.order.len());
            for ((id, shard), none) in self.order.iter().zip(&opened).zip(&mut none) {
                mapped.push(shard.view(id.row, IMAGE, none)?);
            }
            let watch = Watch::of_thread();
            mapped.into_iter().for_each(look);
            return Ok(self.answer(&watch));
        }
        let mut places = Vec::with_capacity(self.order.len());
        for (id, shard) in self.order.iter().zip(&opened) {
            places.push((id.shard.0, shard.range(id.row, IMAGE)?.ok_or("no place")?));
        }
        let (watch, mut buffer) = (Watch::of_thread(), Vec::new());
        for (shard, (offset, len)) in places {
            buffer.resize(len, 0);
            files.get(shard).ok_or("a file")?.read_exact_at(&mut buffer, offset)?;
            look(&buffer);
        }
        Ok(self.answer(&watch))
    }

    fn answer(&self, watch: &Watch) -> Value {
        watch.answer(self.order.len() as u64)
    }
}

fn hash(bytes: &[u8]) {
    black_box(Digest::of(bytes));
    sum(bytes);
}

/// Reads every byte.
fn sum(bytes: &[u8]) {
    let words = bytes.as_chunks::<8>().0.iter();
    black_box(words.fold(0_u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word))));
}
