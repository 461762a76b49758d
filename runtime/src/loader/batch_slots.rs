//! The ring of batch slots and the tickets that fill them.
//!
//! No lock is held while pixels are made: a ticket owns the memory of its row.

use std::collections::VecDeque;
use std::iter;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use gular_augment::{Blended, Mixture};
use gular_order::KeyedRng;

use super::LoaderError;
use super::ahead::Ahead;
use super::blender::{Blender, pair};
use super::epoch_steps::{Run, Span};
#[cfg(feature = "cuda")]
use super::slot::Memory;
use super::slot::{Row, Slot, lens, reserve};
use super::stats::{Meters, Phase};
use super::ticket::Ticket;
use super::walk::Place;
use crate::{Error, StopFlag};

/// How often a wait for a batch checks whether it should end for another reason.
const LOOK: Duration = Duration::from_millis(200);

/// How long all batches may be held by a program that is known to pass them between threads.
const PASSED_ON: Duration = Duration::from_secs(600);

/// The progress of a batch. A thread that makes samples splits and joins its slot, and owns the
/// slot meanwhile: other threads continue to make samples, and taking the batch costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Splitting,
    Rows,
    Joining,
    Made,
}

#[derive(Debug)]
struct Filling {
    run: u64,
    step: u64,
    progress: Progress,
    slot: Slot,
    issued: usize,
    /// Rows that have been put back, without those that a thread is blending.
    done: usize,
    mixture: Option<Mixture>,
}

impl Filling {
    /// Whether all rows have been put back, and no thread owns the slot.
    fn is_idle(&self) -> bool {
        matches!(self.progress, Progress::Rows | Progress::Made) && self.done == self.issued
    }

    /// Takes out row `row` and its partner if both are there and may be blended.
    fn take_pair(&mut self, row: usize) -> Option<Pair> {
        let mixture = self.mixture?;
        let Slot { rows, whole, ids, .. } = &mut self.slot;
        let (one, other) =
            pair(row, ids.len()).filter(|(one, other)| whole[*one] && whole[*other])?;
        let pair =
            Pair { at: (one, other), rows: (rows[one].take()?, rows[other].take()?), mixture };
        self.done -= 2;
        Some(pair)
    }

    fn put_pair(&mut self, pair: Pair) {
        let Pair { at: (one, other), rows, mixture } = pair;
        let slot = &mut self.slot;
        (slot.rows[one], slot.rows[other]) = (Some(rows.0), Some(rows.1));
        for (row, from) in [(one, other), (other, one)] {
            let (label, sample) = (slot.labels[from], slot.ids[from]);
            slot.blended[row] = Blended { weight: mixture.weight(), label, sample };
        }
        self.done += 2;
    }
}

/// Two rows that one thread blends.
#[derive(Debug)]
struct Pair {
    at: (usize, usize),
    rows: (Row, Row),
    mixture: Mixture,
}

/// An epoch whose batches are made.
#[derive(Debug, Clone)]
struct UnderWay {
    /// Counts epochs, so that tickets of an abandoned epoch are recognised.
    number: u64,
    run: Arc<Run>,
    /// The next step to begin.
    next_step: u64,
}

impl UnderWay {
    fn has_steps_left(&self) -> bool {
        self.next_step < self.run.span.n_steps()
    }
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Slot>,
    /// Batches being filled, in the order of their steps. Slots of abandoned runs stay among them
    /// until their last row has been put back.
    filling: VecDeque<Filling>,
    /// The epoch whose batches are handed out.
    current: Option<UnderWay>,
    /// The epoch after it, made when nothing is left to make of the first.
    ahead: Option<UnderWay>,
    /// Number of epochs that were begun, including those that are made ahead.
    n_begun: u64,
    closed: bool,
    /// Whether a thread ended by a panic.
    broken: bool,
    /// Whether there was too little memory for a slot.
    is_short: bool,
    /// The thread that takes batches.
    taker: Option<ThreadId>,
    /// Whether another thread has dropped a batch.
    passed_on: bool,
}

/// Reasons besides a batch for which waiting ends.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) stop: Option<StopFlag>,
    /// The longest wait while all batches are held.
    pub(super) lent: Duration,
}

/// The slots, shared by the threads, the epoch and its batches.
#[derive(Debug)]
pub(super) struct BatchSlots {
    /// Declared before the slots, so that holds are dropped before the memory is freed.
    #[cfg(feature = "cuda")]
    holds: OnceLock<Vec<Hold>>,
    state: Mutex<State>,
    /// Signals that there may be a ticket.
    work: Condvar,
    /// Signals that there may be a batch.
    ready: Condvar,
    /// Bytes of a row of each field; `None` for those of any length.
    row_bytes: Vec<Option<usize>>,
    /// Number of rows in a slot.
    rows: usize,
    /// Number of bytes in all slots.
    bytes: u64,
    n_slots: usize,
    waiting: Waiting,
    ahead: OnceLock<Arc<Ahead>>,
    blender: OnceLock<Blender>,
}

/// Something that holds on to the memory of the slots, such as a page lock.
#[cfg(feature = "cuda")]
pub(crate) type Hold = Box<dyn std::any::Any + Send + Sync>;

impl BatchSlots {
    /// `n_slots` slots of `rows` rows of `row_bytes` bytes for each field. There is memory for all
    /// of them; each is allocated by the thread that fills it first.
    pub(super) fn new(
        n_slots: usize,
        rows: usize,
        row_bytes: &[Option<usize>],
        waiting: Waiting,
    ) -> Result<Self, Error> {
        let lens = lens(rows, row_bytes).flatten();
        let lens: Vec<usize> = iter::repeat_n(lens, n_slots).flatten().collect();
        let bytes = lens.iter().fold(0_u64, |sum, len| sum.saturating_add(*len as u64));
        let short = LoaderError::Memory { bytes };
        let is_there: Option<Vec<Vec<u8>>> = lens.into_iter().map(reserve).collect();
        is_there.map(drop).ok_or(short)?;
        let free = iter::repeat_with(Slot::default).take(n_slots).collect();
        let state = State { free, ..State::default() };
        Ok(Self {
            #[cfg(feature = "cuda")]
            holds: OnceLock::new(),
            state: Mutex::new(state),
            work: Condvar::new(),
            ready: Condvar::new(),
            row_bytes: row_bytes.to_vec(),
            rows,
            bytes,
            n_slots,
            waiting,
            ahead: OnceLock::new(),
            blender: OnceLock::new(),
        })
    }

    /// Passes the whole memory of the first field of each slot, in separate pages, to `hold`,
    /// and keeps what it returns as long as the memory. Called once, before the first epoch.
    #[cfg(feature = "cuda")]
    pub(super) fn hold(
        &self,
        hold: &mut dyn FnMut(&[u8]) -> Result<Hold, Error>,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        // Rows of an abandoned epoch are put back soon, without help.
        let since = Instant::now();
        while state.current.is_none() && !state.filling.is_empty() && since.elapsed() < PASSED_ON {
            let waited = self.ready.wait_timeout(state, LOOK / 10);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.free.len() < self.n_slots || self.holds.get().is_some() {
            let reason = "it is in use, or another feed has it".into();
            return Err(Error::Option { option: "loader", reason });
        }
        let short = LoaderError::Memory { bytes: self.bytes };
        let mut slots = state.free.iter_mut();
        slots.try_for_each(|slot| slot.allocate(self.rows, &self.row_bytes)).ok_or(short)?;
        let first = state.free.iter().filter_map(|slot| match slot.columns.first()? {
            Memory::Rows(memory) => Some(&memory[..]),
            Memory::Bytes(_) => None,
        });
        let holds = first.map(hold).collect::<Result<_, Error>>()?;
        // No other thread can have set the value, since the lock is held.
        let _ = self.holds.set(holds);
        Ok(())
    }

    /// Begins an epoch; those before, if any, are abandoned.
    pub(super) fn start(&self, run: Run) {
        let mut state = self.lock();
        state.abandon();
        state.current = Some(state.begin(run));
        self.tell(&state);
        drop(state);
        self.work.notify_all();
    }

    /// Begins the epoch that was made ahead, if it is `epoch` over `span`.
    pub(super) fn go_on(&self, epoch: u64, span: Span) -> bool {
        let mut state = self.lock();
        let Some(ahead) = state.ahead.take_if(|a| a.run.epoch == epoch && a.run.span == span)
        else {
            return false;
        };
        state.current = Some(ahead);
        state.recycle_abandoned();
        drop(state);
        self.work.notify_all();
        true
    }

    /// Lets an epoch be made ahead, after the current one.
    pub(super) fn make_ahead(&self, run: Run) {
        let mut state = self.lock();
        state.ahead = Some(state.begin(run));
        self.tell(&state);
        state.recycle_abandoned();
        drop(state);
        self.work.notify_all();
    }

    /// Ends the epoch whose batches were all taken; the one after it is still being made.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        state.current = None;
        self.tell(&state);
    }

    /// Ends all epochs, wherever they are. Rows that are being made are put back later.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.abandon();
        self.tell(&state);
    }

    /// Tells the reader ahead which epochs come next, before a sample of them is handed out.
    fn tell(&self, state: &State) {
        if let Some(ahead) = self.ahead.get() {
            let live = [&state.current, &state.ahead].into_iter().flatten();
            ahead.follow(live.map(|live| (live.number, Arc::clone(&live.run))).collect());
        }
    }

    /// Waits for the next sample to make; `None` when the loader is dropped.
    pub(super) fn take(&self, meters: &Meters) -> Option<Ticket> {
        self.issued(true, meters)
    }

    /// Returns the next sample to make, if there is one now.
    pub(super) fn take_now(&self, meters: &Meters) -> Option<Ticket> {
        self.issued(false, meters)
    }

    fn issued(&self, waits: bool, meters: &Meters) -> Option<Ticket> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(ticket) = state.issue() {
                return Some(ticket);
            }
            if let Some((under_way, step, slot)) = state.begin_step() {
                drop(state);
                let filling = self.split(&under_way, step, slot);
                state = self.lock();
                let is_news =
                    filling.as_ref().is_none_or(|filling| filling.progress == Progress::Made);
                match filling {
                    Some(filling) => state.replace(filling),
                    None => state.is_short = true,
                }
                // A rank may have no sample in the last step, so its batch is ready at once.
                if is_news {
                    self.ready.notify_all();
                }
                self.work.notify_all();
                continue;
            }
            if !waits {
                return None;
            }
            // Only waits for the training program count, not those between epochs.
            let starved = state.current.as_ref().is_some_and(UnderWay::has_steps_left);
            let since = Instant::now();
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            if starved {
                meters.add(Phase::WaitForSlot, since.elapsed());
            }
        }
    }

    /// Puts a row back, whether it was made (then with its class) or not; blends it with its
    /// partner if that has been put back too.
    pub(super) fn put(&self, ticket: Ticket, made: Result<Option<i64>, Error>, meters: &Meters) {
        if let Some(ahead) = self.ahead.get() {
            ahead.made(ticket.place.run, ticket.position);
        }
        let Ticket { place, of, sample, term, broken, out, .. } = ticket;
        let Place { run, step, row } = place;
        let mut state = self.lock();
        let live = state.is_live(run);
        let Some(filling) = state.filling_of(run, step) else { return };
        let blender = self.blender.get().filter(|_| live);
        filling.slot.whole[row] =
            blender.is_some_and(|blender| blender.takes(&made, broken.as_ref()));
        filling.slot.rows[row] = Some(out);
        filling.slot.terms[row] = term;
        filling.slot.ids[row] = sample;
        filling.slot.broken.extend(broken.map(|error| (row, error)));
        match made {
            Ok(label) => filling.slot.labels[row] = label.unwrap_or_default(),
            Err(error) => filling.slot.faults.push((row, error)),
        }
        filling.done += 1;
        if filling.mixture.is_some() {
            let label = filling.slot.labels[row];
            filling.slot.blended[row] = Blended { weight: 1.0, label, sample };
        }
        if let Some(blender) = blender
            && let Some(mut pair) = filling.take_pair(row)
        {
            drop(state);
            meters.time(Phase::Decode, || {
                blender.apply(&pair.mixture, &mut pair.rows.0, &mut pair.rows.1);
            });
            state = self.lock();
            let Some(filling) = state.filling_of(run, step) else { return };
            filling.put_pair(pair);
        }
        let live = state.is_live(run);
        let Some(filling) = state.filling_of(run, step) else { return };
        if live && filling.done < filling.slot.ids.len() {
            return;
        }
        if live {
            filling.progress = Progress::Joining;
            let mut slot = std::mem::take(&mut filling.slot);
            drop(state);
            slot.join();
            slot.count(of.span.total());
            state = self.lock();
            let Some(filling) = state.filling_of(run, step) else { return };
            (filling.slot, filling.progress) = (slot, Progress::Made);
        }
        if state.is_live(run) {
            drop(state);
            self.ready.notify_all();
        } else {
            state.recycle_abandoned();
            drop(state);
            self.work.notify_all();
        }
    }

    /// Splits a slot into the rows of a step; `None` when its memory cannot be allocated.
    fn split(&self, under_way: &UnderWay, step: u64, mut slot: Slot) -> Option<Filling> {
        let run = &under_way.run;
        slot.allocate(self.rows, &self.row_bytes)?;
        slot.split(run.samples(step), &self.row_bytes);
        slot.number(run.first_position(step), run.world_size);
        let first = run.span.positions(step).0;
        let mixture = self.blender.get().map(|blender| blender.mixture(run.epoch, first));
        slot.blend(mixture.is_some());
        let progress = if slot.ids.is_empty() { Progress::Made } else { Progress::Rows };
        Some(Filling { run: under_way.number, step, progress, slot, issued: 0, done: 0, mixture })
    }

    /// Waits for the batch of `step`; `None` past the last step.
    pub(super) fn batch(&self, step: u64, meters: &Meters) -> Result<Option<Slot>, Error> {
        let mut state = self.lock();
        state.taker = Some(thread::current().id());
        let mut all_lent_since = None;
        loop {
            if state.broken {
                return Err(LoaderError::Broken.into());
            }
            if state.is_short {
                return Err(LoaderError::Memory { bytes: self.bytes }.into());
            }
            let Some(number) = state.number_of(step) else { return Ok(None) };
            let made =
                |f: &Filling| f.run == number && f.step == step && f.progress == Progress::Made;
            if let Some(at) = state.filling.iter().position(made)
                && let Some(filling) = state.filling.remove(at)
            {
                return Ok(Some(filling.slot));
            }
            if self.waiting.stop.as_ref().is_some_and(StopFlag::requested) {
                return Err(LoaderError::Stopped.into());
            }
            let since = Instant::now();
            if state.free.is_empty() && state.filling.is_empty() {
                // This thread itself may hold the batches, so that none would ever be returned.
                let Waiting { lent, .. } = self.waiting;
                let patience = if state.passed_on { lent.max(PASSED_ON) } else { lent };
                if since - *all_lent_since.get_or_insert(since) >= patience {
                    return Err(LoaderError::AllLent { slots: self.n_slots }.into());
                }
            } else {
                all_lent_since = None;
            }
            let waited = self.ready.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            meters.add(Phase::WaitForBatch, since.elapsed());
        }
    }

    /// Whether [`BatchSlots::batch`] would return a batch, the end or an error at once.
    #[cfg(feature = "cuda")]
    pub(super) fn is_ready(&self, step: u64) -> bool {
        self.lock().has_answer(step)
    }

    /// Waits up to `at_most` until [`BatchSlots::batch`] would return a batch, the end or an error
    /// at once; returns whether it would.
    pub(super) fn wait(&self, step: u64, at_most: Duration, meters: &Meters) -> bool {
        let begin = Instant::now();
        let mut state = self.lock();
        loop {
            if state.has_answer(step) || self.waiting.stop.as_ref().is_some_and(StopFlag::requested)
            {
                return true;
            }
            let left = at_most.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return false;
            }
            let since = Instant::now();
            let waited = self.ready.wait_timeout(state, left.min(LOOK));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            meters.add(Phase::WaitForBatch, since.elapsed());
        }
    }

    /// Whether, if one more batch were held, at least two slots (one, if there are two in all)
    /// would still be free or being filled.
    pub(super) fn has_others(&self) -> bool {
        let state = self.lock();
        state.free.len() + state.filling.len() >= if self.n_slots > 2 { 2 } else { 1 }
    }

    /// Takes back the slot of a batch.
    pub(super) fn give_back(&self, slot: Slot) {
        let mut state = self.lock();
        state.free.push(slot);
        state.passed_on |= state.taker.is_some_and(|taker| taker != thread::current().id());
        drop(state);
        self.work.notify_all();
    }

    /// Ends the threads.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        if let Some(ahead) = self.ahead.get() {
            ahead.close();
        }
    }

    /// Blends the samples of each step from now on. Called once, before the first epoch.
    pub(super) fn blend(&self, blender: Blender) {
        // A second blender would have the same options.
        let _ = self.blender.set(blender);
    }

    /// Tells `ahead`, from now on, what comes next. Called once, before the first epoch.
    pub(super) fn read_ahead(&self, ahead: Ahead) {
        // The value is set only once, since nothing would use a second one.
        let _ = self.ahead.set(Arc::new(ahead));
    }

    /// Returns the reader that reads ahead.
    pub(super) fn ahead(&self) -> Option<&Arc<Ahead>> {
        self.ahead.get()
    }

    /// Notes that a thread panicked; all waits for a batch end with an error.
    pub(super) fn break_down(&self) {
        self.lock().broken = true;
        self.ready.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked while it held the lock has set `broken` on its way out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next sample of the steps that have begun.
    fn issue(&mut self) -> Option<Ticket> {
        for under_way in [&self.current, &self.ahead].into_iter().flatten() {
            let run = under_way.number;
            let unissued = |f: &&mut Filling| f.run == run && f.issued < f.slot.ids.len();
            let Some(filling) = self.filling.iter_mut().find(unissued) else { continue };
            let row = filling.issued;
            filling.issued += 1;
            let out = filling.slot.rows[row].take()?;
            let (sample, position) = (filling.slot.ids[row], filling.slot.positions[row]);
            return Some(Ticket {
                place: Place { run, step: filling.step, row },
                of: Arc::clone(&under_way.run),
                sample,
                draws: if under_way.run.order.repeats() {
                    KeyedRng::of_position(position)
                } else {
                    sample
                },
                position,
                term: None,
                broken: None,
                out,
            });
        }
        None
    }

    /// Returns the next step, and a free slot for it.
    fn begin_step(&mut self) -> Option<(UnderWay, u64, Slot)> {
        let both = [&mut self.current, &mut self.ahead].into_iter().flatten();
        let under_way = both.into_iter().find(|under_way| under_way.has_steps_left())?;
        let slot = self.free.pop()?;
        let (run, step, progress) = (under_way.number, under_way.next_step, Progress::Splitting);
        under_way.next_step += 1;
        let begun = under_way.clone();
        let (slot_away, mixture) = (Slot::default(), None);
        let filling = Filling { run, step, progress, slot: slot_away, issued: 0, done: 0, mixture };
        self.filling.push_back(filling);
        Some((begun, step, slot))
    }

    /// Puts a split step back in its place; frees its slot if it is not needed any more.
    fn replace(&mut self, filling: Filling) {
        let Some(place) = self.filling_of(filling.run, filling.step) else { return };
        let run = filling.run;
        *place = filling;
        if !self.is_live(run) {
            self.recycle_abandoned();
        }
    }

    fn begin(&mut self, run: Run) -> UnderWay {
        self.n_begun += 1;
        UnderWay { number: self.n_begun, run: Arc::new(run), next_step: 0 }
    }

    /// The number of the epoch that is handed out, if it has a step `step`.
    fn number_of(&self, step: u64) -> Option<u64> {
        let current = self.current.as_ref();
        current.filter(|current| step < current.run.span.n_steps()).map(|current| current.number)
    }

    /// Whether the batch of `step` is finished, or can never be.
    fn has_answer(&self, step: u64) -> bool {
        let Some(number) = self.number_of(step) else { return true };
        let made = |f: &Filling| f.run == number && f.step == step && f.progress == Progress::Made;
        self.broken || self.is_short || self.filling.iter().any(made)
    }

    fn filling_of(&mut self, run: u64, step: u64) -> Option<&mut Filling> {
        self.filling.iter_mut().find(|f| f.run == run && f.step == step)
    }

    fn is_live(&self, run: u64) -> bool {
        [&self.current, &self.ahead].into_iter().flatten().any(|live| live.number == run)
    }

    fn abandon(&mut self) {
        (self.current, self.ahead) = (None, None);
        self.recycle_abandoned();
    }

    /// Frees slots of earlier runs whose rows have all been put back.
    fn recycle_abandoned(&mut self) {
        for _ in 0..self.filling.len() {
            let Some(mut filling) = self.filling.pop_front() else { return };
            if !self.is_live(filling.run) && filling.is_idle() {
                filling.slot.join();
                self.free.push(filling.slot);
            } else {
                self.filling.push_back(filling);
            }
        }
    }
}
