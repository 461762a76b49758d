//! Reads ahead along the known order where reads have to wait.
//!
//! ```text
//!  walk ─▶ next sample ─▶ room? ─▶ readers: each reads one, all at once
//!                                     │ │ │
//!                      bytes in memory, at most `read_ahead_bytes` ─▶ the thread that decodes it
//!
//!  walk ─▶ next shards ─▶ room? ─▶ fetchers: each brings one ─▶ the disk   (shards.rs)
//! ```
//!
//! A decoding thread that reads for itself waits once per sample, which nothing hides: on a
//! file system that answers in 1 ms, two threads get 2,000 samples per second at best. So when
//! reads are seen to wait, other threads read what comes next. Where reads come from memory
//! they rest: handing bytes from one core to another would only cost.
//!
//! Advice to the kernel (`posix_fadvise`) would do for a disk, but FUSE, NFS and Lustre take
//! it as they like. A read is a read everywhere, and its bytes are bounded.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gular_bundle::{ShardIdx, SpaceReader};

use super::LoaderError;
use super::epoch_steps::Run;
use super::panics::caught;
use super::sample_reader::{SampleReader, Stored, Values};
use super::shards::{Answer, HeldShards, Shards};
use super::slow::Slow;
use super::walk::{Place, Walk};
use crate::Error;

// Number of threads that read. They are enough for 16,000 reads per second of 1 ms each. On the
// virtual disk of the machine that the peers were measured on, 16 threads read twice as many bytes
// per second as one.
const READERS: usize = 16;

/// How many shards are fetched at the same time; `gular fetch` uses the same number.
pub(super) const FETCHERS: usize = 4;

/// A cancel flag that is never set, for readers that nobody closes.
pub(super) static NEVER: AtomicBool = AtomicBool::new(false);

/// Samples that are read ahead for the decoding threads.
#[derive(Debug)]
pub(super) struct Ahead {
    shared: Arc<Shared>,
    fetchers: Mutex<Threads>,
    readers: Mutex<Threads>,
}

/// Threads that do the same work.
type Threads = Vec<JoinHandle<()>>;

#[derive(Debug)]
struct Shared {
    reader: Arc<SampleReader>,
    shards: Shards,
    /// The most bytes that may be read and not yet taken.
    most_bytes: u64,
    state: Mutex<State>,
    /// Signals that there is something to read, or space for it.
    work: Condvar,
    /// Signals that a sample has been read, or a shard has been fetched.
    read: Condvar,
    /// Only one thread looks for the next sample, so that earlier samples get space first.
    scout: Mutex<()>,
    slow: Slow,
    /// Is set when the loader is dropped.
    stop: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    walk: Walk,
    shards: HeldShards,
    held: HashMap<Place, Held>,
    /// Number of bytes of all samples in `held`.
    bytes: u64,
    closed: bool,
}

#[derive(Debug)]
enum Held {
    /// A reader is reading it, and has reserved this many bytes.
    Reading(u64),
    Read {
        values: Values,
        room: u64,
    },
    /// The thread that needs it reads it again, and gets the error then.
    Failed(u64),
}

impl Held {
    /// Number of bytes that are reserved for the sample.
    fn room(&self) -> u64 {
        match self {
            Self::Reading(room) | Self::Failed(room) | Self::Read { room, .. } => *room,
        }
    }
}

/// One sample that a reader has to read.
struct Job<'a> {
    of: &'a Shared,
    place: Place,
    stored: Stored,
    /// The values that were read; `None` if the reader failed or panicked.
    read: Option<Values>,
    _in_use: InUse<'a>,
}

/// A shard that is being read, and so is not removed.
pub(super) struct InUse<'a> {
    of: &'a Shared,
    /// The sample's shard; `None` if shards are never removed.
    shard: Option<ShardIdx>,
}

impl Ahead {
    /// Starts the threads that fetch shards, if some are not on this machine. Reading ahead, and
    /// its threads, begin only when reads are seen to wait.
    ///
    /// # Errors
    /// [`LoaderError::Thread`] when no thread can be started that fetches shards.
    pub(super) fn new(
        reader: Arc<SampleReader>,
        most_bytes: u64,
        shards: Shards,
    ) -> Result<Self, LoaderError> {
        let shared = Shared {
            reader,
            shards,
            most_bytes,
            state: Mutex::default(),
            work: Condvar::new(),
            read: Condvar::new(),
            scout: Mutex::new(()),
            slow: Slow::default(),
            stop: AtomicBool::new(false),
        };
        let (fetchers, readers) = (Mutex::default(), Mutex::default());
        let ahead = Self { shared: Arc::new(shared), fetchers, readers };
        if let Some(brought) = ahead.shared.shards.brought() {
            let of_space: Weak<Shared> = Arc::downgrade(&ahead.shared);
            brought.source.space().tell(of_space);
            let bring = |shared: &Shared| while shared.bring() {};
            let started = ahead.start(&ahead.fetchers, "gular-fetch", FETCHERS, bring);
            // A single thread can fetch all of them, if need be.
            if let (0, Err(source)) = started {
                return Err(LoaderError::Thread { number: 1, wanted: FETCHERS, source });
            }
        }
        Ok(ahead)
    }

    /// Sets the order: from now on the samples of `runs` are needed, one run after the other, each
    /// with its number. Other runs are not needed any more.
    pub(super) fn follow(&self, runs: Vec<(u64, Arc<Run>)>) {
        let mut state = self.shared.lock();
        state.follow(runs);
        if let Some(brought) = self.shared.shards.brought() {
            let State { shards, walk, .. } = &mut *state;
            shards.forgive();
            brought.plan(shards, walk);
        }
        drop(state);
        self.shared.wake();
    }

    /// Returns the flag that is set when the loader is dropped, so that nobody waits for servers any
    /// longer.
    pub(super) fn closed(&self) -> &AtomicBool {
        &self.shared.stop
    }

    /// Ends the threads that read.
    pub(super) fn close(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // First: the thread that has the lock may be waiting for a file's.
        if let Some(brought) = self.shared.shards.brought() {
            brought.close();
        }
        self.shared.lock().closed = true;
        self.shared.wake();
    }

    /// Waits until the shard of a sample is here, which is at `position` of its run.
    ///
    /// # Errors
    /// [`LoaderError::Shard`] when it cannot be fetched; [`LoaderError::Stopped`] when nobody needs
    /// the run any more.
    pub(super) fn need(
        &self,
        run: u64,
        position: u64,
        shard: ShardIdx,
    ) -> Result<InUse<'_>, Error> {
        let of = &*self.shared;
        let Some(brought) = of.shards.brought() else { return Ok(InUse { of, shard: None }) };
        let at = (run, position);
        let (mut state, mut waits) = (of.lock(), false);
        let answer = loop {
            let State { shards, walk, closed, .. } = &mut *state;
            if *closed || !walk.has(at.0) {
                break Err(LoaderError::Stopped.into());
            }
            match brought.need(shards, walk, shard, at, !waits) {
                Answer::There => break Ok(InUse { of, shard: Some(shard) }),
                Answer::Failed(error) => break Err(LoaderError::Shard(error).into()),
                Answer::Wait => {}
            }
            if !waits {
                waits = true;
                brought.wait(shards, shard, true);
                of.work.notify_all();
            }
            state = of.read.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        if waits {
            brought.wait(&mut state.shards, shard, false);
        }
        answer
    }

    /// Whether shards are fetched while they are read, into space that is limited.
    pub(super) fn brings_shards(&self) -> bool {
        self.shared.shards.brought().is_some()
    }

    /// Notes that a sample was made: its shard may not be needed any more.
    pub(super) fn made(&self, run: u64, position: u64) {
        let Some(brought) = self.shared.shards.brought() else { return };
        let mut state = self.shared.lock();
        let State { shards, walk, .. } = &mut *state;
        if walk.made(run, position) {
            brought.plan(shards, walk);
            drop(state);
            self.shared.wake();
        }
    }

    /// Returns the bytes of the sample at `place` if they were read ahead or are just being read;
    /// empty if the sample is mapped and now in memory. `None`: the caller has to read it.
    pub(super) fn take(&self, place: Place) -> Option<Values> {
        let mut state = self.shared.lock();
        loop {
            match state.held.get(&place) {
                Some(Held::Reading(_)) => {}
                Some(_) => {
                    let taken = state.let_go(place);
                    drop(state);
                    self.shared.work.notify_all();
                    return taken;
                }
                None => {
                    // A reader that waits for its shard continues after it.
                    state.walk.pass(place);
                    return None;
                }
            }
            state = self.shared.read.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes how long a decoding thread read for itself.
    pub(super) fn note(&self, took: Duration, bytes: usize) {
        if self.shared.most_bytes > 0 && self.shared.slow.note(took, bytes) {
            let read = |shared: &Shared| {
                while let Some(job) = shared.next() {
                    job.run();
                }
            };
            // If no thread starts, the decoding threads continue to read their samples themselves.
            let _ = self.start(&self.readers, "gular-read", READERS, read);
        }
    }

    /// Starts and wakes `threads` until `n` of them do `work`; returns how many there are, and why
    /// there are not more.
    fn start(
        &self,
        threads: &Mutex<Threads>,
        name: &str,
        n: usize,
        work: fn(&Shared),
    ) -> (usize, io::Result<()>) {
        let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut started = Ok(());
        while threads.len() < n && started.is_ok() {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name(format!("{name}-{}", threads.len()));
            let spawned = thread.spawn(move || work(&shared));
            started = spawned.map(|thread| threads.push(thread));
        }
        let there = threads.len();
        drop(threads);
        self.shared.wake();
        (there, started)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.close();
        for threads in [&mut self.fetchers, &mut self.readers] {
            for thread in threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
                // A thread that panicked has reported this in its job.
                drop(thread.join());
            }
        }
    }
}

impl Shared {
    /// Waits for a sample to read, and for room for it; `None` when the loader is dropped.
    fn next(&self) -> Option<Job<'_>> {
        let _scout = self.scout.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let coming = state.walk.sample().filter(|_| self.slow.is_on());
            let Some((place, sample)) = coming else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let in_use = match (self.shards.brought(), self.reader.shard_of(sample)) {
                (Some(brought), Ok(shard)) => {
                    if !brought.read(&mut state.shards, shard) {
                        // The shard arrives, or the thread that needs the sample passes it.
                        state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                        continue;
                    }
                    InUse { of: self, shard: Some(shard) }
                }
                _ => InUse { of: self, shard: None },
            };
            drop(state);
            // This opens the shard if it is not open.
            let stored = self.reader.stored(sample, &self.stop).ok();
            let mut stored = stored.map(|stored| (stored, in_use));
            state = self.lock();
            loop {
                // Meanwhile another thread needed it, or its epoch was abandoned.
                if state.closed || !state.walk.is_next(place) {
                    break;
                }
                let bytes = stored.as_ref().map(|(stored, _)| stored.bytes);
                let Some(bytes) = bytes.filter(|bytes| *bytes <= self.most_bytes) else {
                    state.walk.step();
                    break;
                };
                if state.bytes + bytes <= self.most_bytes
                    && let Some((stored, in_use)) = stored.take()
                {
                    state.bytes += bytes;
                    state.held.insert(place, Held::Reading(bytes));
                    state.walk.step();
                    return Some(Job { of: self, place, stored, read: None, _in_use: in_use });
                }
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            // The lock is not held here, since an unfinished job releases its shard when it is
            // dropped.
            drop(state);
            drop(stored);
            state = self.lock();
        }
    }

    /// Fetches the shard that is needed next, once there is one; `false` when the loader is
    /// dropped.
    fn bring(&self) -> bool {
        let Some(brought) = self.shards.brought() else { return false };
        let mut state = self.lock();
        let shard = loop {
            if state.closed {
                return false;
            }
            if let Some(shard) = brought.next(&mut state.shards) {
                break shard;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let uses = brought.next_uses(&state.walk);
        drop(state);
        let next_use = |shard: ShardIdx| uses.get(&shard).copied().unwrap_or(u64::MAX);
        // A panic is this shard's error: others wait for it.
        let bring = || brought.source.bring(shard, &next_use, &brought.cancel);
        let came = caught(bring).unwrap_or_else(|message| Err(brought.panicked(shard, &message)));
        let mut state = self.lock();
        let State { shards, walk, .. } = &mut *state;
        brought.came(shards, walk, shard, came);
        drop(state);
        self.wake();
        true
    }

    fn wake(&self) {
        self.work.notify_all();
        self.read.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Code that holds the lock never panics with the state half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpaceReader for Shared {
    fn space_changed(&self) {
        let (Some(brought), mut state) = (self.shards.brought(), self.lock()) else { return };
        if state.closed {
            return;
        }
        let State { shards, walk, .. } = &mut *state;
        brought.plan(shards, walk);
        drop(state);
        self.wake();
    }
}

impl State {
    fn follow(&mut self, runs: Vec<(u64, Arc<Run>)>) {
        self.walk.follow(runs);
        let walk = &self.walk;
        self.held.retain(|place, _| walk.has(place.run));
        self.bytes = self.held.values().map(Held::room).sum();
    }

    /// Forgets a sample that is needed now; returns its bytes if it was read.
    fn let_go(&mut self, place: Place) -> Option<Values> {
        let held = self.held.remove(&place)?;
        self.bytes -= held.room();
        match held {
            Held::Read { values, .. } => Some(values),
            Held::Reading(_) | Held::Failed(_) => None,
        }
    }
}

impl Job<'_> {
    fn run(mut self) {
        let since = Instant::now();
        self.read = self.of.reader.read(&self.stored).ok();
        let len = usize::try_from(self.stored.bytes).unwrap_or(usize::MAX);
        self.of.slow.note(since.elapsed(), len);
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let mut state = self.of.lock();
        if let Some(held) = state.held.get_mut(&self.place) {
            let room = self.stored.bytes;
            *held = match self.read.take() {
                Some(values) => Held::Read { values, room },
                None => Held::Failed(room),
            };
        }
        drop(state);
        self.of.read.notify_all();
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let (Some(shard), Some(brought)) = (self.shard, self.of.shards.brought()) else { return };
        let mut state = self.of.lock();
        let State { shards, walk, .. } = &mut *state;
        let changed = brought.done(shards, walk, shard);
        drop(state);
        if changed {
            self.of.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gular_bundle::{Backend, Bundle, Dtype, Field, FieldIdx, FieldName, OpenOptions, Split};

    use super::super::batch_slots::{BatchSlots, Waiting};
    use super::super::epoch_steps::Span;
    use super::super::row_maker::RowMaker;
    use super::super::stats::Meters;
    use super::*;
    use crate::fixtures::{Made, Recipe, make, make_fields};
    use crate::{LoaderOptions, Transform};
    use gular_order::{EpochOrder, OrderKind, OrderSpec};

    const BATCH: u64 = 4;
    const SIDE: u32 = 8;
    const SHARDS: [usize; 4] = [7, 1, 12, 5];
    const N: u64 = 25;

    struct Machine {
        made: Made,
        ring: BatchSlots,
    }

    impl Machine {
        /// `rank` of two, with readers that are awake unless `most_bytes` is 0.
        fn new(backend: Backend, most_bytes: u64) -> Self {
            let made = make(&Recipe { train: &SHARDS, ..Recipe::default() });
            let open = OpenOptions { backend, ..OpenOptions::default() };
            let bundle = Arc::new(Bundle::open(made.dir.path(), open).unwrap());
            let transform = Transform::eval(SIDE);
            let options = LoaderOptions { transform, ..LoaderOptions::new(Split::Train) };
            let maker = RowMaker::new(bundle, &options).unwrap();
            let row_bytes = (SIDE * SIDE * 3) as usize;
            let ring = BatchSlots::new(2, 4, &[Some(row_bytes)], Waiting::default()).unwrap();
            let ahead = Ahead::new(Arc::clone(maker.reader()), most_bytes, Shards::Here).unwrap();
            ring.read_ahead(ahead);
            Self { made, ring }
        }

        fn ahead(&self) -> &Ahead {
            self.ring.ahead().unwrap()
        }

        /// Turns reading ahead on, as if reads had been seen to wait.
        fn wake(&self) {
            (0..32).for_each(|_| self.ahead().note(Duration::from_millis(1), 1000));
        }

        /// Rank 1 of 2 begins epoch 3; returns its samples.
        fn begin(&self) -> Vec<u64> {
            let spec = OrderSpec { kind: OrderKind::Elastic, seed: 5, drop_last: false };
            let counts = SHARDS.map(|n| n as u64);
            let order = || EpochOrder::new(&spec, &counts, 3, 2);
            let span = Span::new(0, N, 2 * BATCH, false);
            let chosen = Arc::default();
            let run = Run { order: order(), chosen, epoch: 3, span, rank: 1, world_size: 2 };
            self.ring.start(run);
            order().rank_samples(0..N, 1, 2).collect()
        }

        /// The bytes of a sample, taken as a decoding thread takes them.
        fn values(&self, sample: u64) -> Option<Values> {
            Some(vec![(FieldIdx(0), self.stored(sample))])
        }

        fn stored(&self, sample: u64) -> Vec<u8> {
            let bundle = &self.made.bundle;
            let mut bytes = Vec::new();
            let id = bundle.locate(Split::Train, sample).unwrap();
            bundle.read(id, FieldIdx(0), &mut bytes).unwrap();
            bytes
        }

        /// Waits until the readers can do no more; returns how many samples and bytes they hold.
        fn settled(&self) -> (usize, u64) {
            let shared = &self.ahead().shared;
            let is_reading =
                |state: &State| state.held.values().any(|held| matches!(held, Held::Reading(_)));
            let until = Instant::now() + Duration::from_secs(60);
            loop {
                let next = shared.lock().walk.sample();
                // A sample that nobody can read, or that never fits, is passed over.
                let room = next.map(|(_, sample)| {
                    let stored = shared.reader.stored(sample, &shared.stop).ok();
                    stored.map(|stored| stored.bytes).filter(|bytes| *bytes <= shared.most_bytes)
                });
                let mut state = shared.lock();
                assert!(state.bytes <= shared.most_bytes, "{} bytes", state.bytes);
                let waits = match room {
                    None => true,
                    Some(bytes) => bytes.is_some_and(|n| state.bytes + n > shared.most_bytes),
                };
                let same = state.walk.sample().map(|(place, _)| place) == next.map(|next| next.0);
                if (waits && same && !is_reading(&state)) || Instant::now() > until {
                    return (state.held.len(), state.bytes);
                }
                drop(state);
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn the_next_samples_of_the_order_are_read_within_the_bytes() {
        let most_bytes = 6000;
        let machine = Machine::new(Backend::Pread, most_bytes);
        machine.wake();
        let samples = machine.begin();
        let lens: Vec<u64> = samples.iter().map(|s| machine.stored(*s).len() as u64).collect();
        let meters = Meters::default();
        for (i, sample) in samples.iter().enumerate() {
            // As many samples are read as there is space for, from the next one on.
            let (mut n, mut bytes) = (0, 0);
            while lens.get(i + n).is_some_and(|len| bytes + len <= most_bytes) {
                bytes += lens[i + n];
                n += 1;
            }
            assert!(n > 1 || i + 1 == samples.len(), "the test shows nothing");
            assert_eq!(machine.settled(), (n, bytes), "before sample {i}");
            let ticket = machine.ring.take(&meters).unwrap();
            assert_eq!(ticket.sample, *sample);
            assert_eq!(machine.ahead().take(ticket.place), machine.values(*sample), "{i}");
            machine.ring.put(ticket, Ok(None), &Meters::default());
            if (i + 1) % 4 == 0 {
                let slot = machine.ring.batch(i as u64 / BATCH, &meters).unwrap().unwrap();
                machine.ring.give_back(slot);
            }
        }
        assert_eq!(machine.settled(), (0, 0));
    }

    #[test]
    fn readers_begin_where_the_threads_are_and_let_go_of_an_epoch_that_was_left() {
        let machine = Machine::new(Backend::Pread, 1 << 20);
        let samples = machine.begin();
        let meters = Meters::default();
        for sample in &samples[..3] {
            let ticket = machine.ring.take(&meters).unwrap();
            assert_eq!((ticket.sample, machine.ahead().take(ticket.place)), (*sample, None));
        }
        machine.wake();
        assert_eq!(machine.settled().0, samples.len() - 3);
        let old = machine.ring.take(&meters).unwrap();
        machine.ring.abandon();
        assert_eq!(machine.settled(), (0, 0));
        assert_eq!(machine.ahead().take(old.place), None);
        machine.begin();
        assert_eq!(machine.settled().0, samples.len());
        assert_eq!(machine.ahead().take(old.place), None);
        assert_eq!(machine.settled().0, samples.len());
    }

    #[test]
    fn what_is_mapped_is_brought_into_memory_and_handed_over_by_nobody() {
        let machine = Machine::new(Backend::Map, 1 << 20);
        machine.wake();
        let samples = machine.begin();
        assert_eq!(machine.settled().0, samples.len());
        let ticket = machine.ring.take(&Meters::default()).unwrap();
        assert_eq!(machine.ahead().take(ticket.place), Some(vec![(FieldIdx(0), Vec::new())]));
    }

    #[test]
    fn a_sample_that_cannot_be_read_or_is_too_large_is_left_to_whoever_needs_it() {
        let machine = Machine::new(Backend::Pread, 1 << 20);
        let manifest = machine.made.bundle.manifest();
        let gone = machine.made.bundle.path_of(&manifest.shards[2].file);
        fs::remove_file(&gone).unwrap();
        machine.wake();
        let samples = machine.begin();
        let (first, end) = (8, 20);
        let there = samples.iter().filter(|s| !(first..end).contains(*s)).count();
        assert!(there < samples.len());
        assert_eq!(machine.settled().0, there);

        let small = Machine::new(Backend::Pread, 900);
        small.wake();
        let samples = small.begin();
        let meters = Meters::default();
        let mut left = 0;
        for (i, sample) in samples.iter().enumerate() {
            small.settled();
            let ticket = small.ring.take(&meters).unwrap();
            let (taken, values) = (small.ahead().take(ticket.place), small.values(*sample));
            left += usize::from(taken.is_none());
            let expected = values.filter(|_| small.stored(*sample).len() <= 900);
            assert_eq!(taken, expected, "sample {i}");
            small.ring.put(ticket, Ok(None), &Meters::default());
            if (i + 1) % 4 == 0 {
                let slot = small.ring.batch(i as u64 / BATCH, &meters).unwrap().unwrap();
                small.ring.give_back(slot);
            }
        }
        assert!(0 < left && left < samples.len(), "the test shows nothing: {left}");
    }

    #[test]
    fn all_fields_of_a_batch_are_read() {
        let name = |text: &str| FieldName::parse(text).unwrap();
        let image = Field::fixed(FieldName::image(), Dtype::U8, vec![2, 2, 3]);
        let more = [
            Field::fixed(name("number"), Dtype::F64, vec![]),
            Field::bytes(name("text"), vec!["text/plain".into()]),
        ];
        let value = |i: usize, name: &str| match name {
            "image" => vec![i as u8; 12],
            "text" => i.to_string().into_bytes(),
            _ => vec![7; 8],
        };
        let made = make_fields(image, &more, &value);
        let options =
            LoaderOptions { fields: vec!["text".into()], ..LoaderOptions::new(Split::Train) };
        let maker = RowMaker::new(Arc::clone(&made.bundle), &options).unwrap();
        let stored = maker.reader().stored(5, &NEVER).unwrap();
        assert_eq!(stored.bytes, 13);
        let expected = vec![(FieldIdx(0), vec![5; 12]), (FieldIdx(2), b"5".to_vec())];
        assert_eq!(maker.reader().read(&stored).unwrap(), expected);
    }

    #[test]
    fn nothing_is_read_ahead_without_room_for_it() {
        let never = Machine::new(Backend::Pread, 0);
        never.wake();
        never.begin();
        assert!(never.ahead().readers.lock().unwrap().is_empty());
    }
}
