//! Where the bytes of shards come from: they are on this machine, or are fetched from a federation.
//!
//! ```text
//!  walk ─▶ windows not made yet ─▶ as many shards as there is space for ─▶ held
//!                                                                           │ fetchers: bring each,
//!                                                                           ▼ the first window's first
//!  a thread that decodes ◀── waits for its shard ─────────────────────── there, till its window is made
//! ```
//!
//! Shards that are held are never removed. The space for the window that is being made was promised
//! to this loader, so it always gets it if only loaders of this process share the space: a loader
//! that holds more than its own share releases the rest when another one needs it
//! (`FreeSpace::changed`). Other processes may hold shards, too; the loader waits ten minutes for those.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{Bundle, NotBrought, ShardIdx, ShardSource, Split};
use gular_order::OrderKind;

use super::LoaderError;
use super::walk::{Walk, of_split};
use crate::Error;

/// The most shards that are held besides those of the next window: each costs a lock.
const MOST_AHEAD: usize = 64;

/// The first places in a plan are for shards that threads wait for and for those that stay.
const URGENT: usize = 0;
const PINNED: usize = 1;

/// The source of the bytes of shards.
#[derive(Debug)]
pub(super) enum Shards {
    /// All shards are in the bundle's folder.
    Here,
    /// Shards are fetched from a federation into a folder that has some of them at a time.
    Brought(Box<Brought>),
}

/// The shards of a federation that this loader needs now and next.
#[derive(Debug)]
pub(super) struct Brought {
    pub(super) source: Arc<dyn ShardSource>,
    bundle: Arc<Bundle>,
    split: Split,
    /// Bytes of space that are reserved in the cache.
    promised: u64,
    /// Set when the loader is dropped.
    pub(super) cancel: AtomicBool,
}

/// The shards that are held, and the state of each.
#[derive(Default)]
pub(super) struct HeldShards {
    shards: HashMap<ShardIdx, Held>,
    /// Shards that threads wait for although their windows do not need them: they have replacements
    /// of broken samples.
    urgent: Vec<ShardIdx>,
    /// Shards that an order without windows has needed; it may need them again at any time.
    pinned: Vec<ShardIdx>,
    /// The hold that keeps all pinned shards.
    split: Option<Hold>,
    /// For each shard, held or not, the number of threads that wait for it.
    waiting: HashMap<ShardIdx, usize>,
}

type Hold = Arc<dyn Any + Send + Sync>;

struct Held {
    hold: Option<Hold>,
    state: State,
    /// The place in the plan: the window, and the shard in it. `None`: not needed any more.
    planned: Option<(usize, usize)>,
    /// Number of threads that read the shard.
    n_readers: usize,
    /// Whether a thread was already waiting when the fetch began.
    is_late: bool,
}

impl fmt::Debug for HeldShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = self.shards.iter().map(|(shard, held)| (shard, &held.state));
        f.debug_map().entries(states).finish()
    }
}

#[derive(Debug)]
enum State {
    Wanted,
    Coming,
    There,
    /// The shard could not be fetched; this is tried again when a thread needs it.
    Failed(NotBrought),
}

/// Whether a shard can be read.
#[derive(Debug)]
pub(super) enum Answer {
    There,
    Wait,
    Failed(NotBrought),
}

impl Shards {
    /// Finds out whether the shards of `bundle` are here or have to be fetched. If they come from a
    /// federation, reserves space for those that order `kind` of `split` needs at the same time.
    ///
    /// # Errors
    /// [`LoaderError::NoRoom`].
    pub(super) fn new(bundle: &Arc<Bundle>, split: Split, kind: OrderKind) -> Result<Self, Error> {
        let Some(source) = bundle.source() else { return Ok(Self::Here) };
        let mut bytes: Vec<u64> = of_split(bundle, split).map(|(_, bytes)| bytes).collect();
        let n_shards = bytes.len();
        if let OrderKind::Window { shards } = kind {
            // Any of the shards can be in the same window, so the largest are counted.
            bytes.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
            bytes.truncate(usize::try_from(shards.max(1)).unwrap_or(usize::MAX));
        }
        let promised = bytes.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        source.space().promise(promised).map_err(|needed| {
            let (space, shards) = (source.space(), bytes.len());
            let (others, limit) = (space.bytes().saturating_sub(space.free()), space.limit());
            LoaderError::NoRoom { split, shards, of: n_shards, needed, others, limit }
        })?;
        let (source, bundle, cancel) =
            (Arc::clone(source), Arc::clone(bundle), AtomicBool::new(false));
        Ok(Self::Brought(Box::new(Brought { source, bundle, split, promised, cancel })))
    }

    pub(super) fn brought(&self) -> Option<&Brought> {
        match self {
            Self::Here => None,
            Self::Brought(brought) => Some(brought),
        }
    }
}

impl Drop for Brought {
    fn drop(&mut self) {
        self.source.space().give_back(self.promised);
    }
}

impl Brought {
    /// Cancels the fetches in progress.
    pub(super) fn close(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Holds the shards that the walk needs next, as far as there is space, and releases all
    /// others.
    pub(super) fn plan(&self, held: &mut HeldShards, walk: &Walk) {
        let mut space = self.source.space().free().saturating_add(self.promised);
        held.shards.values_mut().for_each(|shard| shard.planned = None);
        let HeldShards { shards, urgent, pinned, split, waiting } = held;
        urgent.retain(|shard| waiting.contains_key(shard));
        let mut windows = walk.windows(&self.bundle, self.split).peekable();
        if pinned.is_empty()
            && let Some(all) = windows.peek()
            && all.len() == of_split(&self.bundle, self.split).count()
        {
            pinned.clone_from(all);
            *split = self.source.hold_split(self.split, &self.cancel).map(Hold::from);
        }
        let first = [urgent.clone(), pinned.clone()];
        let mut n_ahead = 0;
        'plan: for (number, window) in first.into_iter().chain(windows).enumerate() {
            for (place, shard) in window.into_iter().enumerate() {
                let known = shards.get(&shard).and_then(|held| held.planned);
                if known.is_some() {
                    continue;
                }
                let bytes = shard.of(&self.bundle.manifest().shards).map_or(0, |s| s.file.bytes);
                n_ahead += usize::from(number > PINNED + 1);
                if bytes > space || n_ahead > MOST_AHEAD {
                    break 'plan;
                }
                space -= bytes;
                let entry = shards.entry(shard).or_insert_with(|| self.hold(shard, split.as_ref()));
                entry.planned = Some((number, place));
            }
        }
        shards.retain(|shard, held| {
            let is_over = held.planned.is_none() && held.is_idle() && !urgent.contains(shard);
            if is_over {
                // Before releasing the hold: an open file takes its space even after its removal.
                self.bundle.close(*shard);
            }
            !is_over
        });
    }

    /// Returns the error of a shard whose source panicked.
    pub(super) fn panicked(&self, shard: ShardIdx, message: &str) -> NotBrought {
        let entry = shard.of(&self.bundle.manifest().shards);
        NotBrought {
            shard: entry.map_or_else(String::new, |entry| entry.file.name.to_string()),
            url: self.bundle.digest().to_string(),
            reason: format!("the code that fetches it panicked: {message}"),
            hint: Some("please report this as a bug".to_owned()),
            is_passing: false,
        }
    }

    /// Keeps a shard from being removed; `split` does so if all of them are kept.
    fn hold(&self, shard: ShardIdx, split: Option<&Hold>) -> Held {
        let hold = match split {
            Some(split) => Ok(Arc::clone(split)),
            None => self.source.hold(shard, &self.cancel).map(Hold::from),
        };
        let (hold, state) = match hold {
            Ok(hold) => (Some(hold), State::Wanted),
            Err(error) => (None, State::Failed(error)),
        };
        Held { hold, state, planned: None, n_readers: 0, is_late: false }
    }

    /// The shard to fetch next. Shards of a window wait until all shards of the previous window
    /// are there: fetched together, they would delay both. After a failed shard, others are
    /// fetched only if a thread waits for them: the failed one may need their space.
    pub(super) fn next(&self, held: &mut HeldShards) -> Option<ShardIdx> {
        let HeldShards { shards, waiting, .. } = held;
        let any_waits = shards.iter().any(|(shard, held)| {
            waiting.contains_key(shard) && matches!(held.state, State::Wanted)
        });
        let planned = shards.iter_mut().filter(|(_, held)| match held.state {
            State::Wanted | State::Coming => true,
            State::Failed(_) => !any_waits,
            State::There => false,
        });
        let mut planned: Vec<_> =
            planned.filter_map(|(shard, held)| Some((held.planned?, *shard, held))).collect();
        planned.sort_unstable_by_key(|(place, ..)| *place);
        let (first, ..) = planned.first()?;
        let window = first.0;
        let next = planned
            .into_iter()
            .find(|(place, _, held)| place.0 == window && matches!(held.state, State::Wanted));
        let (_, shard, held) = next?;
        held.state = State::Coming;
        held.is_late = waiting.contains_key(&shard);
        Some(shard)
    }

    /// Returns for each shard the number of windows until it is needed next; `u64::MAX` if it is
    /// not needed in the known epochs.
    pub(super) fn next_uses(&self, walk: &Walk) -> HashMap<ShardIdx, u64> {
        let mut uses = HashMap::new();
        for (window, number) in walk.windows(&self.bundle, self.split).zip(0..) {
            for shard in window {
                uses.entry(shard).or_insert(number);
            }
        }
        uses
    }

    /// Registers one more reader of `shard`, if it is there; the reader calls [`Brought::done`].
    pub(super) fn read(&self, held: &mut HeldShards, shard: ShardIdx) -> bool {
        match held.shards.get_mut(&shard) {
            Some(held) if matches!(held.state, State::There) => {
                held.n_readers += 1;
                true
            }
            _ => false,
        }
    }

    /// Does the same as [`Brought::read`] for a shard that is needed now, for the sample at a
    /// position of a run; `is_first` says that this is the first call for it.
    pub(super) fn need(
        &self,
        held: &mut HeldShards,
        walk: &Walk,
        shard: ShardIdx,
        at: (u64, u64),
        is_first: bool,
    ) -> Answer {
        if self.read(held, shard) {
            return Answer::There;
        }
        let is_planned = held.shards.get(&shard).is_some_and(|held| held.planned.is_some());
        // The shards of a later window are fetched with that window, once the windows before it are
        // finished: no shard that other threads still need is removed for a thread that is ahead.
        if !is_planned && !walk.needs(at, shard, &self.bundle, self.split) {
            if !held.urgent.contains(&shard) {
                held.urgent.push(shard);
            }
            held.shards.entry(shard).or_insert_with(|| self.hold(shard, held.split.as_ref()));
            held.begin_wait(shard);
            self.plan(held, walk);
            held.end_wait(shard);
        }
        let is_waited_for = held.waiting.contains_key(&shard);
        match held.shards.get_mut(&shard) {
            Some(Held { state, hold, .. }) => match state {
                // The fetch failed before any thread needed the shard, so it is tried once more.
                State::Failed(_) if is_first && !is_waited_for && hold.is_some() => {
                    *state = State::Wanted;
                    Answer::Wait
                }
                State::Failed(error) => Answer::Failed(error.clone()),
                _ => Answer::Wait,
            },
            None => Answer::Wait,
        }
    }

    /// Notes that a thread begins or stops waiting for a shard.
    pub(super) fn wait(&self, held: &mut HeldShards, shard: ShardIdx, begins: bool) {
        if begins {
            held.begin_wait(shard);
            self.source.waited_for(Some(shard));
        } else {
            held.end_wait(shard);
            if held.waiting.is_empty() {
                self.source.waited_for(None);
            }
        }
    }

    /// Notes that a reader is done; returns whether that changes the plan.
    pub(super) fn done(&self, held: &mut HeldShards, walk: &Walk, shard: ShardIdx) -> bool {
        let Some(entry) = held.shards.get_mut(&shard) else { return false };
        entry.n_readers = entry.n_readers.saturating_sub(1);
        let was_between = entry.planned.is_none_or(|(number, _)| number == URGENT);
        let changes = was_between && entry.is_idle();
        if changes {
            self.plan(held, walk);
        }
        changes
    }

    /// Records the result of fetching a shard.
    pub(super) fn came(
        &self,
        held: &mut HeldShards,
        walk: &Walk,
        shard: ShardIdx,
        brought: Result<(), NotBrought>,
    ) {
        let is_waited_for = held.waiting.contains_key(&shard);
        if let Some(held) = held.shards.get_mut(&shard) {
            held.state = match brought {
                Ok(()) => State::There,
                // The fetch failed before any thread needed the shard, so it is tried once more.
                Err(_) if is_waited_for && !held.is_late => State::Wanted,
                Err(error) => State::Failed(error),
            };
        }
        self.plan(held, walk);
    }
}

impl HeldShards {
    /// Makes failed shards be tried again, since another epoch begins.
    pub(super) fn forgive(&mut self) {
        self.shards.retain(|_, held| !matches!(held.state, State::Failed(_)) || !held.is_idle());
    }

    fn begin_wait(&mut self, shard: ShardIdx) {
        *self.waiting.entry(shard).or_default() += 1;
    }

    fn end_wait(&mut self, shard: ShardIdx) {
        if let Entry::Occupied(mut waiting) = self.waiting.entry(shard) {
            *waiting.get_mut() -= 1;
            if *waiting.get() == 0 {
                waiting.remove();
            }
        }
    }
}

impl Held {
    /// Whether the shard is neither read nor being fetched.
    fn is_idle(&self) -> bool {
        self.n_readers == 0 && !matches!(self.state, State::Coming)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Mutex, mpsc};
    use std::thread;

    use gular_bundle::{FreeSpace, OpenOptions, SingleValues, TakeValue};

    use super::super::ahead::{Ahead, FETCHERS};
    use super::super::batch_slots::{BatchSlots, Waiting};
    use super::super::epoch_steps::{Run, Span};
    use super::super::row_maker::RowMaker;
    use super::super::stats::Meters;
    use super::*;
    use crate::fixtures::{Made, Recipe, make};
    use crate::{Loader, LoaderOptions, Transform};
    use gular_order::{EpochOrder, OrderSpec};

    const SHARDS: [usize; 3] = [4; 3];
    const SIDE: u32 = 8;

    fn made() -> Made {
        make(&Recipe { train: &SHARDS, ..Recipe::default() })
    }

    /// Brings shards with `bring`, and says which ones threads wait for.
    struct Script {
        space: FreeSpace,
        bring: Box<dyn Fn(ShardIdx) + Send + Sync>,
        waited_for: Box<dyn Fn(Option<ShardIdx>) + Send + Sync>,
    }

    impl fmt::Debug for Script {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.space.fmt(f)
        }
    }

    impl ShardSource for Script {
        fn space(&self) -> &FreeSpace {
            &self.space
        }

        fn hold(
            &self,
            _: ShardIdx,
            _: &AtomicBool,
        ) -> Result<Box<dyn Any + Send + Sync>, NotBrought> {
            Ok(Box::new(()))
        }

        fn hold_split(&self, _: Split, _: &AtomicBool) -> Option<Box<dyn Any + Send + Sync>> {
            None
        }

        fn bring(
            &self,
            shard: ShardIdx,
            _: &dyn Fn(ShardIdx) -> u64,
            _: &AtomicBool,
        ) -> Result<(), NotBrought> {
            (self.bring)(shard);
            Ok(())
        }

        fn is_here(&self, _: ShardIdx) -> bool {
            false
        }

        fn read_values(
            &self,
            values: &SingleValues<'_>,
            _: &TakeValue<'_>,
            _: &AtomicBool,
        ) -> Result<(), NotBrought> {
            panic!("at shard {}", values.shard.0)
        }

        fn waited_for(&self, shard: Option<ShardIdx>) {
            (self.waited_for)(shard);
        }
    }

    /// The bundle in `dir` with shards from there, and options of windows of one shard.
    fn open(dir: &Path, script: Script) -> (Arc<Bundle>, LoaderOptions) {
        let bundle = Bundle::open(dir, OpenOptions::default()).unwrap();
        let order = OrderSpec { kind: OrderKind::Window { shards: 1 }, seed: 5, drop_last: false };
        let transform = Transform::eval(SIDE);
        let options = LoaderOptions { order, transform, ..LoaderOptions::new(Split::Train) };
        (Arc::new(bundle.with_source(Arc::new(script))), options)
    }

    #[test]
    fn a_thread_that_needs_the_next_window_leaves_the_others_their_shard() {
        let made = made();
        let bytes = made.bundle.manifest().shards.iter().map(|shard| shard.file.bytes);
        let space = FreeSpace::new(bytes.max().unwrap(), 0);
        let brought = Arc::new(Mutex::new(Vec::new()));
        let (tell, told) = mpsc::channel();
        let noted = Arc::clone(&brought);
        let bring = Box::new(move |shard| noted.lock().unwrap().push(shard));
        let waited_for = Box::new(move |shard| tell.send(shard).unwrap());
        let (bundle, options) = open(made.dir.path(), Script { space, bring, waited_for });
        let shards = Shards::new(&bundle, Split::Train, options.order.kind).unwrap();
        let maker = RowMaker::new(bundle, &options).unwrap();
        let reader = maker.reader();
        let row_bytes = (SIDE * SIDE * 3) as usize;
        let ring = BatchSlots::new(1, 12, &[Some(row_bytes)], Waiting::default()).unwrap();
        ring.read_ahead(Ahead::new(Arc::clone(reader), 0, shards).unwrap());
        let ahead = ring.ahead().unwrap();
        let order = EpochOrder::new(&options.order, &SHARDS.map(|n| n as u64), 0, 1);
        let (chosen, span) = (Arc::default(), Span::new(0, 12, 12, false));
        ring.start(Run { order, chosen, epoch: 0, span, rank: 0, world_size: 1 });

        let meters = Meters::default();
        let take = || {
            let ticket = ring.take(&meters).unwrap();
            let shard = reader.shard_of(ticket.sample).unwrap();
            (ticket, shard)
        };
        for _ in 0..3 {
            let (ticket, shard) = take();
            ahead.need(ticket.place.run, ticket.position, shard).map(drop).unwrap();
            ring.put(ticket, Ok(None), &meters);
        }
        let ((last, first_shard), (next, second_shard)) = (take(), take());
        assert_ne!(first_shard, second_shard);
        thread::scope(|scope| {
            let overtakes =
                scope.spawn(|| ahead.need(next.place.run, next.position, second_shard).map(drop));
            while told.recv().unwrap() != Some(second_shard) {}
            ahead.need(last.place.run, last.position, first_shard).map(drop).unwrap();
            ring.put(last, Ok(None), &meters);
            overtakes.join().unwrap().unwrap();
        });
        assert_eq!(*brought.lock().unwrap(), [first_shard, second_shard]);
    }

    fn broken(dir: &Path) -> Result<Loader, Error> {
        let (space, waited_for) = (FreeSpace::new(1 << 30, 0), Box::new(|_| ()));
        let bring = Box::new(|shard: ShardIdx| panic!("at shard {}", shard.0));
        let (bundle, options) = open(dir, Script { space, bring, waited_for });
        Loader::new(bundle, options)
    }

    #[test]
    fn a_source_of_shards_that_panics_is_an_error_and_not_a_wait_for_ever() {
        let made = made();
        let mut loader = broken(made.dir.path()).unwrap();
        for epoch in 0..2 {
            let error = loader.epoch(epoch).last().unwrap().unwrap_err();
            let Error::Loader(LoaderError::Shard(error)) = error else { panic!("{error}") };
            assert!(error.reason.contains("panicked: at shard "), "{error}");
            assert!(error.hint.is_some(), "{error}");
        }
    }

    /// Runs in the process that [`where_no_thread_can_bring_shards_there_is_no_loader`] starts.
    #[test]
    fn child_without_threads() {
        let Some(dir) = std::env::var_os("GULAR_TEST_NO_THREADS") else { return };
        let error = broken(Path::new(&dir)).map(drop).unwrap_err();
        let Error::Loader(LoaderError::Thread { number: 1, wanted, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(wanted, FETCHERS);
    }

    #[test]
    fn where_no_thread_can_bring_shards_there_is_no_loader() {
        let made = made();
        let name = "loader::shards::tests::child_without_threads";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--test-threads", "1"])
            .env("GULAR_TEST_NO_THREADS", made.dir.path())
            // This is more than the address space, so no thread can get a stack.
            .env("RUST_MIN_STACK", (1_u64 << 47).to_string())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && told.contains("1 passed"), "{child:?}");
    }
}
