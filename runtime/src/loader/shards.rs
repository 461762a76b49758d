//! Where the bytes of shards come from: they are there, or they come from a federation.
//!
//! ```text
//!  walk ─▶ windows not made yet ─▶ as many shards as there is room for ─▶ held
//!                                                                          │ fetchers: bring each,
//!                                                                          ▼ the first window's first
//!  a thread that decodes ◀── waits for its shard ────────────────────── there, till its window is made
//! ```
//!
//! What is held is never removed by anybody. The room of the window that is being made was
//! promised to this loader, so it always comes where loaders of this process share the room: one
//! that holds more than its own lets go of it when another one needs it (`Room::changed`). Other
//! processes may hold shards; for those it waits ten minutes.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{Bundle, NotBrought, ShardIdx, ShardSource, Split};

use super::LoaderError;
use super::walk::{Walk, of_split};
use crate::Error;
use crate::order::OrderKind;

/// Shards that are held beyond those of the next window, at most: each costs a lock.
const MOST_AHEAD: usize = 64;

/// The places in a plan of shards that threads wait for, and of those that stay.
const URGENT: usize = 0;
const PINNED: usize = 1;

/// Where the bytes of shards come from.
#[derive(Debug)]
pub(super) enum Shards {
    /// From the bundle's folder, which has all of them.
    Here,
    /// From a federation, into a folder that has some of them at a time.
    Brought(Box<Brought>),
}

/// The shards of a federation that this loader needs now and next.
#[derive(Debug)]
pub(super) struct Brought {
    pub(super) source: Arc<dyn ShardSource>,
    bundle: Arc<Bundle>,
    split: Split,
    /// Bytes of room that are promised.
    promised: u64,
    /// Set when the loader goes away.
    pub(super) cancel: AtomicBool,
}

/// Which shards are held, and what becomes of each.
#[derive(Default)]
pub(super) struct HeldShards {
    shards: HashMap<ShardIdx, Held>,
    /// Those that threads wait for and no window needs: replacements of broken samples.
    urgent: Vec<ShardIdx>,
    /// All that an order without windows needs, once it was needed.
    pinned: Vec<ShardIdx>,
    /// What holds those, all at once.
    split: Option<Hold>,
}

type Hold = Arc<dyn Any + Send + Sync>;

struct Held {
    hold: Option<Hold>,
    state: State,
    /// The place in the plan: window, and shard in it. `None`: not needed any more.
    planned: Option<(usize, usize)>,
    /// Threads that read it.
    n_readers: usize,
    /// Threads that wait for it.
    n_waiting: usize,
    /// Whether a thread was already waiting when its bringing began.
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
    /// It did not come; tried again when somebody needs it.
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
    /// Where the shards of `bundle` come from; of a federation's, room for what order `kind` of
    /// `split` needs at a time is promised.
    ///
    /// # Errors
    /// [`LoaderError::NoRoom`].
    pub(super) fn new(bundle: &Arc<Bundle>, split: Split, kind: OrderKind) -> Result<Self, Error> {
        let Some(source) = bundle.source() else { return Ok(Self::Here) };
        let mut bytes: Vec<u64> = of_split(bundle, split).map(|(_, bytes)| bytes).collect();
        let n_shards = bytes.len();
        if let OrderKind::Window { shards } = kind {
            // Any of them may meet in one window.
            bytes.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
            bytes.truncate(usize::try_from(shards.max(1)).unwrap_or(usize::MAX));
        }
        let promised = bytes.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        source.room().promise(promised).map_err(|needed| {
            let (limit, shards) = (source.room().limit(), bytes.len());
            LoaderError::NoRoom { split, shards, of: n_shards, needed, limit }
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
        self.source.room().give_back(self.promised);
    }
}

impl Brought {
    /// Ends what is under way.
    pub(super) fn close(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// Holds what the walk needs next, as far as there is room, and lets go of all else.
    pub(super) fn plan(&self, held: &mut HeldShards, walk: &Walk) {
        let mut room = self.source.room().free().saturating_add(self.promised);
        held.shards.values_mut().for_each(|shard| shard.planned = None);
        let HeldShards { shards, urgent, pinned, split } = held;
        urgent.retain(|shard| shards.get(shard).is_some_and(|shard| shard.n_waiting > 0));
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
                if bytes > room || n_ahead > MOST_AHEAD {
                    break 'plan;
                }
                room -= bytes;
                let entry = shards.entry(shard).or_insert_with(|| self.hold(shard, split.as_ref()));
                entry.planned = Some((number, place));
            }
        }
        let HeldShards { shards, .. } = held;
        shards.retain(|shard, held| {
            let is_over = held.planned.is_none() && held.is_idle();
            if is_over {
                // Before the hold: a file that is open takes its room after its removal, too.
                self.bundle.close(*shard);
            }
            !is_over
        });
    }

    /// Why a shard did not come whose source panicked.
    pub(super) fn panicked(&self, shard: ShardIdx, message: &str) -> NotBrought {
        let entry = shard.of(&self.bundle.manifest().shards);
        NotBrought {
            shard: entry.map_or_else(String::new, |entry| entry.file.name.to_string()),
            url: self.bundle.digest().to_string(),
            reason: format!("what brings it panicked: {message}"),
            hint: Some("please report this as a bug".to_owned()),
            is_passing: false,
        }
    }

    /// Keeps a shard where it is, or will be; `split` does so where all of them are kept.
    fn hold(&self, shard: ShardIdx, split: Option<&Hold>) -> Held {
        let hold = match split {
            Some(split) => Ok(Arc::clone(split)),
            None => self.source.hold(shard, &self.cancel).map(Hold::from),
        };
        let (hold, state) = match hold {
            Ok(hold) => (Some(hold), State::Wanted),
            Err(error) => (None, State::Failed(error)),
        };
        Held { hold, state, planned: None, n_readers: 0, n_waiting: 0, is_late: false }
    }

    /// The shard to be brought next. Those of a window wait until the window before it is there:
    /// together they would make the training wait for both. Nor does any come after one that
    /// failed, unless it is waited for: that one may need their room.
    pub(super) fn next(&self, held: &mut HeldShards) -> Option<ShardIdx> {
        let is_waited_for = |held: &Held| held.n_waiting > 0 && matches!(held.state, State::Wanted);
        let any_waits = held.shards.values().any(is_waited_for);
        let planned = held.shards.iter_mut().filter(|(_, held)| match held.state {
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
        held.is_late = held.n_waiting > 0;
        Some(shard)
    }

    /// When each shard is needed next, by windows; `u64::MAX`: not in the epochs that are known.
    pub(super) fn next_uses(&self, walk: &Walk) -> HashMap<ShardIdx, u64> {
        let mut uses = HashMap::new();
        for (window, number) in walk.windows(&self.bundle, self.split).zip(0..) {
            for shard in window {
                uses.entry(shard).or_insert(number);
            }
        }
        uses
    }

    /// Whether `shard` is there for one more reader, who says when it is done.
    pub(super) fn read(&self, held: &mut HeldShards, shard: ShardIdx) -> bool {
        match held.shards.get_mut(&shard) {
            Some(held) if matches!(held.state, State::There) => {
                held.n_readers += 1;
                true
            }
            _ => false,
        }
    }

    /// As [`Brought::read`], of a shard that is needed now; `is_first`: asked for the first time.
    pub(super) fn need(
        &self,
        held: &mut HeldShards,
        walk: &Walk,
        shard: ShardIdx,
        is_first: bool,
    ) -> Answer {
        if self.read(held, shard) {
            return Answer::There;
        }
        if held.shards.get(&shard).is_none_or(|held| held.planned.is_none()) {
            if !held.urgent.contains(&shard) {
                held.urgent.push(shard);
            }
            let entry =
                held.shards.entry(shard).or_insert_with(|| self.hold(shard, held.split.as_ref()));
            entry.n_waiting += 1;
            self.plan(held, walk);
            if let Some(entry) = held.shards.get_mut(&shard) {
                entry.n_waiting -= 1;
            }
        }
        match held.shards.get_mut(&shard) {
            Some(Held { state: State::Failed(error), hold, n_waiting, .. }) => {
                let error = error.clone();
                if is_first && *n_waiting == 0 && hold.is_some() {
                    // It failed before anybody needed it: once more.
                    if let Some(held) = held.shards.get_mut(&shard) {
                        held.state = State::Wanted;
                    }
                    return Answer::Wait;
                }
                Answer::Failed(error)
            }
            _ => Answer::Wait,
        }
    }

    /// A thread waits for a shard, or no more.
    pub(super) fn wait(&self, held: &mut HeldShards, shard: ShardIdx, begins: bool) {
        let Some(entry) = held.shards.get_mut(&shard) else { return };
        if begins {
            entry.n_waiting += 1;
        } else {
            entry.n_waiting = entry.n_waiting.saturating_sub(1);
        }
        if begins {
            self.source.waited_for(Some(shard));
        } else if held.shards.values().all(|held| held.n_waiting == 0) {
            self.source.waited_for(None);
        }
    }

    /// A reader is done; whether that changes what is planned.
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

    /// What became of a shard that was to be brought.
    pub(super) fn came(
        &self,
        held: &mut HeldShards,
        walk: &Walk,
        shard: ShardIdx,
        brought: Result<(), NotBrought>,
    ) {
        if let Some(held) = held.shards.get_mut(&shard) {
            held.state = match brought {
                Ok(()) => State::There,
                // It failed before anybody needed it: once more.
                Err(_) if held.n_waiting > 0 && !held.is_late => State::Wanted,
                Err(error) => State::Failed(error),
            };
        }
        self.plan(held, walk);
    }
}

impl HeldShards {
    /// What did not come is tried again: another epoch begins.
    pub(super) fn forgive(&mut self) {
        self.shards.retain(|_, held| !matches!(held.state, State::Failed(_)) || !held.is_idle());
    }
}

impl Held {
    /// Whether nobody is at it.
    fn is_idle(&self) -> bool {
        let coming = matches!(self.state, State::Coming);
        self.n_readers == 0 && self.n_waiting == 0 && !coming
    }
}
