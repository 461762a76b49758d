//! The ring of batch slots and the tickets that fill them.
//!
//! A slot's memory is one allocation for the loader's life. While it is filled it
//! is split into rows, each *owned* by the thread that writes it, and joined
//! again when the last one is back; so no two threads ever see the same bytes,
//! and no lock is held while pixels are made.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::LoaderError;
use super::ahead::Ahead;
use super::blender::{Blender, pair};
use super::chosen::Chosen;
use super::stats::{Meters, Phase};
use crate::augment::{Blended, Mixture};
use crate::order::{EpochOrder, KeyedRng};
use crate::{Error, StopFlag};

/// How often a wait for a batch looks up.
const LOOK: Duration = Duration::from_millis(200);

/// How long batches may all be held by those who are known to pass them between threads.
const PASSED_ON: Duration = Duration::from_secs(600);

// Of FORMAT.md. A bundle with as many broken samples in a row has other troubles.
const MAX_REPLACEMENTS: usize = 1000;

/// The memory of one batch, reused for ever.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Of each field.
    pub(super) columns: Vec<Memory>,
    /// Samples of the rows.
    pub(super) ids: Vec<u64>,
    /// Positions of the epoch that the rows are at.
    pub(super) positions: Vec<u64>,
    /// What the rows add to the epoch's tally.
    pub(super) terms: Vec<Option<u64>>,
    /// Keys of the rows.
    pub(super) keys: Vec<String>,
    /// Classes of the rows; empty when the bundle has none.
    pub(super) labels: Vec<i64>,
    /// What each row was blended with; empty where none are.
    pub(super) blended: Vec<Blended>,
    /// Rows that failed, in order.
    pub(super) faults: Vec<(usize, Error)>,
    /// Rows whose own sample cannot be decoded, in order: left out, or with another one.
    pub(super) broken: Vec<(usize, Error)>,
    /// Where rows are while the slot is filled.
    rows: Vec<Option<Row>>,
    /// Which of them hold a sample that may be blended.
    whole: Vec<bool>,
    /// Rows without memory, for the next time.
    spare: Vec<Row>,
}

/// A field of a batch.
#[derive(Debug)]
pub(super) enum Memory {
    /// Rows of one length; always whole pages, enough for the full batch.
    Rows(BytesMut),
    /// Values of any length.
    Bytes(Vec<Vec<u8>>),
}

/// The memory of one sample, owned by the thread that makes it.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Of each field.
    pub(super) cells: Vec<Cell>,
    pub(super) key: String,
}

/// A field of one sample.
#[derive(Debug)]
pub(super) enum Cell {
    Row(BytesMut),
    Bytes(Vec<u8>),
}

/// One sample to be made, and the memory to make it in.
#[derive(Debug)]
pub(super) struct Ticket {
    run: u64,
    step: u64,
    row: usize,
    /// The epoch it is of.
    pub(super) of: Arc<Run>,
    /// The sample's number in the split.
    pub(super) sample: u64,
    /// What its random numbers are drawn for: the sample, or the position where that says more.
    pub(super) draws: u64,
    /// Its position in the epoch.
    pub(super) position: u64,
    /// What it adds to the epoch's tally, once its digest is known.
    pub(super) term: Option<u64>,
    /// Why the sample that belongs there is not, or nothing is.
    pub(super) broken: Option<Error>,
    pub(super) out: Row,
}

impl Ticket {
    /// Of which run it is, and its step and row there.
    pub(super) fn place(&self) -> (u64, u64, usize) {
        (self.run, self.step, self.row)
    }
}

/// An epoch under way.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) order: EpochOrder,
    /// What the order's numbers are in the split.
    pub(super) chosen: Arc<Chosen>,
    pub(super) epoch: u64,
    pub(super) span: Span,
    pub(super) rank: u64,
    pub(super) world_size: u64,
}

impl Run {
    /// The samples that may come instead of a broken one at `position`, as FORMAT.md says: those
    /// of the positions after it, and after the last those of the first.
    pub(super) fn replacements(&self, position: u64) -> impl Iterator<Item = u64> + '_ {
        let n = self.order.n_positions();
        let after = (1..n).take(MAX_REPLACEMENTS);
        let at = after.filter_map(move |i| self.order.sample_at((position + i) % n.max(1)));
        at.map(|nth| self.chosen.sample(nth))
    }
}

/// The positions of an epoch that are still to come, cut into steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    from: u64,
    end: u64,
    /// The end of the epoch, which is past `end` where a partial step is left out.
    total: u64,
    /// Positions a step, of all ranks.
    stride: u64,
}

impl Span {
    /// Steps of `stride` positions over `from..total`, without a partial last one
    /// when `drop_last`.
    pub(super) fn new(from: u64, total: u64, stride: u64, drop_last: bool) -> Self {
        let (from, stride) = (from.min(total), stride.max(1));
        let left = total - from;
        let end = from + if drop_last { left / stride * stride } else { left };
        Self { from, end, total, stride }
    }

    /// Positions of the whole epoch.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn n_steps(&self) -> u64 {
        (self.end - self.from).div_ceil(self.stride)
    }

    /// Positions of `step`; empty past the end.
    fn positions(&self, step: u64) -> (u64, u64) {
        let at = |step: u64| self.from.saturating_add(step.saturating_mul(self.stride));
        (at(step).min(self.end), at(step.saturating_add(1)).min(self.end))
    }

    /// Positions consumed after `steps` steps: all, after the last.
    pub(super) fn consumed(&self, steps: u64) -> u64 {
        if steps >= self.n_steps() { self.total } else { self.positions(steps).0 }
    }
}

impl Run {
    /// Steps of this rank.
    pub(super) fn n_steps(&self) -> u64 {
        self.span.n_steps()
    }

    /// How many samples this rank has in a window of the order.
    pub(super) fn n_of_window(&self, window: usize) -> u64 {
        let Range { start, end } = self.order.positions_of(window);
        let first = self.span.from.saturating_add(self.rank);
        let before =
            |position: u64| position.saturating_sub(first).div_ceil(self.world_size.max(1));
        before(end.min(self.span.end)).saturating_sub(before(start.min(self.span.end)))
    }

    /// The position of this rank's first sample of `step`.
    fn first_position(&self, step: u64) -> u64 {
        self.span.positions(step).0.saturating_add(self.rank)
    }

    /// This rank's samples of `step`, as numbers of the split.
    pub(super) fn samples(&self, step: u64) -> impl Iterator<Item = u64> {
        let (from, to) = self.span.positions(step);
        let samples = self.order.rank_samples(from, to, self.rank, self.world_size);
        samples.map(|n| self.chosen.sample(n))
    }
}

#[derive(Debug)]
struct Filling {
    run: u64,
    step: u64,
    slot: Slot,
    issued: usize,
    /// Rows that are back, and not with a thread that blends them.
    done: usize,
    mixture: Option<Mixture>,
}

impl Filling {
    /// The rows that wait for no other than row `row` to be blended, taken out.
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

/// Two rows that a thread blends.
#[derive(Debug)]
struct Pair {
    at: (usize, usize),
    rows: (Row, Row),
    mixture: Mixture,
}

/// An epoch whose batches are made.
#[derive(Debug)]
struct UnderWay {
    /// Counts epochs, so that a ticket of one that was left is known.
    number: u64,
    run: Arc<Run>,
    /// The next step to be begun.
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
    /// In the order of their steps; slots of abandoned runs among them until
    /// their last row is back.
    filling: VecDeque<Filling>,
    /// The one that is handed out.
    current: Option<UnderWay>,
    /// The one after it, made when there is nothing left to make of the first.
    ahead: Option<UnderWay>,
    /// Epochs begun, made ahead or not.
    n_begun: u64,
    closed: bool,
    /// A thread ended that should not have.
    broken: bool,
    /// The thread that takes batches.
    taker: Option<ThreadId>,
    /// Whether another thread has dropped one.
    passed_on: bool,
}

/// What ends the wait for a batch, besides a batch.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) stop: Option<StopFlag>,
    /// While all of them are held.
    pub(super) lent: Duration,
}

/// The slots, shared by the threads, the epoch and its batches.
#[derive(Debug)]
pub(super) struct BatchSlots {
    /// Before the slots, so that they let go of the memory before it is freed.
    #[cfg(feature = "cuda")]
    holds: OnceLock<Vec<Hold>>,
    state: Mutex<State>,
    /// There may be a ticket.
    work: Condvar,
    /// There may be a batch.
    ready: Condvar,
    /// Bytes of a row of each field; `None` for those of any length.
    row_bytes: Vec<Option<usize>>,
    n_slots: usize,
    waiting: Waiting,
    ahead: OnceLock<Arc<Ahead>>,
    blender: OnceLock<Blender>,
}

/// Something that holds on to the memory of the slots, such as a page lock.
#[cfg(feature = "cuda")]
pub(crate) type Hold = Box<dyn std::any::Any + Send + Sync>;

impl BatchSlots {
    /// `n_slots` slots of `rows` rows of `row_bytes` bytes for each field, allocated here.
    pub(super) fn new(
        n_slots: usize,
        rows: usize,
        row_bytes: &[Option<usize>],
        waiting: Waiting,
    ) -> Result<Self, Error> {
        let all = row_bytes.iter().flatten().fold(0_usize, |sum, n| sum.saturating_add(*n));
        let all = (rows as u64).saturating_mul(all as u64).saturating_mul(n_slots as u64);
        let memory = || LoaderError::Memory { bytes: all };
        let free = (0..n_slots).map(|_| {
            let columns = row_bytes.iter().enumerate().map(|(column, bytes)| match bytes {
                None => Ok(Memory::Bytes(Vec::new())),
                Some(bytes) => {
                    // One copy brings images and labels to a GPU, where these follow those.
                    let labels = if column == 0 { rows.saturating_add(1) } else { 0 };
                    let len = rows.saturating_mul(*bytes).saturating_add(labels.saturating_mul(8));
                    pages(len).map(Memory::Rows).ok_or_else(memory)
                }
            });
            Ok(Slot { columns: columns.collect::<Result<_, _>>()?, ..Slot::default() })
        });
        let state = State { free: free.collect::<Result<_, Error>>()?, ..State::default() };
        Ok(Self {
            #[cfg(feature = "cuda")]
            holds: OnceLock::new(),
            state: Mutex::new(state),
            work: Condvar::new(),
            ready: Condvar::new(),
            row_bytes: row_bytes.to_vec(),
            n_slots,
            waiting,
            ahead: OnceLock::new(),
            blender: OnceLock::new(),
        })
    }

    /// Shows the whole memory of the first field of each slot, in pages of its own, to `hold`,
    /// and keeps what it returns for as long as the memory. Once, before the first epoch.
    #[cfg(feature = "cuda")]
    pub(super) fn hold(
        &self,
        hold: &mut dyn FnMut(&[u8]) -> Result<Hold, Error>,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        // Rows of an epoch that was left come back by themselves, soon.
        let since = Instant::now();
        while state.current.is_none() && !state.filling.is_empty() && since.elapsed() < PASSED_ON {
            let waited = self.ready.wait_timeout(state, LOOK / 10);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.free.len() < self.n_slots || self.holds.get().is_some() {
            let reason = "it is in use, or another feed has it".into();
            return Err(Error::Option { option: "loader", reason });
        }
        let first = state.free.iter().filter_map(|slot| match slot.columns.first()? {
            Memory::Rows(memory) => Some(&memory[..]),
            Memory::Bytes(_) => None,
        });
        let holds = first.map(hold).collect::<Result<_, Error>>()?;
        // Nobody else set it: the lock is held.
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

    /// Has an epoch made after the one under way.
    pub(super) fn make_ahead(&self, run: Run) {
        let mut state = self.lock();
        state.ahead = Some(state.begin(run));
        self.tell(&state);
        state.recycle_abandoned();
        drop(state);
        self.work.notify_all();
    }

    /// Ends the epoch whose batches were all taken; the one after it is made on.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        state.current = None;
        self.tell(&state);
    }

    /// Ends all epochs wherever they are. Rows being made come back later, by themselves.
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

    /// Waits for the next sample to make; `None` when the loader goes away.
    pub(super) fn take(&self, meters: &Meters) -> Option<Ticket> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            let ticket = state.issue(&self.row_bytes, self.blender.get());
            if state.has_empty_batch() {
                self.ready.notify_all();
            }
            if ticket.is_some() {
                return ticket;
            }
            // Only a wait for the training counts, not one between epochs.
            let starved = state.current.as_ref().is_some_and(UnderWay::has_steps_left);
            let since = Instant::now();
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            if starved {
                meters.add(Phase::WaitForSlot, since.elapsed());
            }
        }
    }

    /// Brings a row back, made (with its class) or not; blends it with the other of its pair
    /// where that is back too.
    pub(super) fn put(&self, ticket: Ticket, made: Result<Option<i64>, Error>, meters: &Meters) {
        if let Some(ahead) = self.ahead.get() {
            ahead.made(&ticket);
        }
        let Ticket { run, step, row, sample, term, broken, out, .. } = ticket;
        let mut state = self.lock();
        let live = state.is_live(run);
        let Some(filling) = state.filling_of(run, step) else { return };
        let blender = self.blender.get().filter(|_| live);
        filling.slot.whole[row] =
            blender.is_some_and(|blender| blender.is_whole(&made, broken.as_ref()));
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
        let Some(filling) = state.filling_of(run, step) else { return };
        let complete = filling.done == filling.slot.ids.len();
        if !state.is_live(run) {
            state.recycle_abandoned();
            drop(state);
            self.work.notify_all();
        } else if complete {
            drop(state);
            self.ready.notify_all();
        }
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
            let Some(number) = state.number_of(step) else { return Ok(None) };
            let complete =
                |f: &Filling| f.run == number && f.step == step && f.done == f.slot.ids.len();
            if let Some(at) = state.filling.iter().position(complete)
                && let Some(filling) = state.filling.remove(at)
            {
                return Ok(Some(filling.slot.join()));
            }
            if self.waiting.stop.as_ref().is_some_and(StopFlag::requested) {
                return Err(LoaderError::Stopped.into());
            }
            let since = Instant::now();
            if state.free.is_empty() && state.filling.is_empty() {
                // Who holds them may be this thread, and then nothing will ever come back.
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

    /// Waits until [`BatchSlots::batch`] would return a batch, the end or an error at once, and
    /// no longer than `at_most`; whether it would.
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

    /// Whether, with one batch more held, there are still two to be made, or one of two.
    pub(super) fn has_others(&self) -> bool {
        let state = self.lock();
        state.free.len() + state.filling.len() >= if self.n_slots > 2 { 2 } else { 1 }
    }

    /// Takes a batch's slot back.
    pub(super) fn give_back(&self, slot: Slot) {
        let mut state = self.lock();
        state.free.push(slot);
        state.passed_on |= state.taker.is_some_and(|taker| taker != thread::current().id());
        drop(state);
        self.work.notify_all();
    }

    /// Sends the threads home.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        if let Some(ahead) = self.ahead.get() {
            ahead.close();
        }
    }

    /// Blends the samples of each step from now on. Once, and before the first epoch.
    pub(super) fn blend(&self, blender: Blender) {
        // A second one would be of the same options.
        let _ = self.blender.set(blender);
    }

    /// Tells `ahead`, from now on, what comes next. Once, and before the first epoch.
    pub(super) fn read_ahead(&self, ahead: Ahead) {
        // Of a second one nobody would ask.
        let _ = self.ahead.set(Arc::new(ahead));
    }

    /// Who reads ahead.
    pub(super) fn ahead(&self) -> Option<&Arc<Ahead>> {
        self.ahead.get()
    }

    /// Says that a thread ended by a panic; whoever waits for a batch gets an error.
    pub(super) fn break_down(&self) {
        self.lock().broken = true;
        self.ready.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with the lock held has set `broken` on its way out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A huge page, as x86-64 has them and Linux elsewhere with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// At least `len` bytes of zeros: whole pages, which nothing else shares; as many as fill a huge
/// page begin and end with one, so that the kernel can take those where it is told to.
pub(crate) fn pages(len: usize) -> Option<BytesMut> {
    let page = rustix::param::page_size();
    let page = if len < HUGE_PAGE { page } else { page.max(HUGE_PAGE) };
    let whole = len.max(1).checked_next_multiple_of(page)?;
    let with_room = whole.checked_add(page)?;
    // `zeroed` aborts when memory is short; so ask first.
    Vec::<u8>::new().try_reserve_exact(with_room).ok()?;
    let mut memory = BytesMut::zeroed(with_room);
    let mut aligned = memory.split_off(memory.as_ptr().align_offset(page));
    drop(aligned.split_off(whole));
    Some(aligned)
}

impl State {
    fn issue(&mut self, row_bytes: &[Option<usize>], blender: Option<&Blender>) -> Option<Ticket> {
        loop {
            for under_way in [&self.current, &self.ahead].into_iter().flatten() {
                let run = under_way.number;
                let unissued = |f: &&mut Filling| f.run == run && f.issued < f.slot.ids.len();
                let Some(filling) = self.filling.iter_mut().find(unissued) else { continue };
                let row = filling.issued;
                filling.issued += 1;
                let out = filling.slot.rows[row].take()?;
                let (sample, position) = (filling.slot.ids[row], filling.slot.positions[row]);
                return Some(Ticket {
                    run,
                    step: filling.step,
                    row,
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
            let both = [&mut self.current, &mut self.ahead].into_iter().flatten();
            let under_way = both.into_iter().find(|under_way| under_way.has_steps_left())?;
            let mut slot = self.free.pop()?;
            let (run, step) = (&under_way.run, under_way.next_step);
            slot.split(run.samples(step), row_bytes);
            slot.number(run.first_position(step), run.world_size);
            let first = run.span.positions(step).0;
            let mixture = blender.map(|blender| blender.mixture(run.epoch, first));
            slot.blend(mixture.is_some());
            under_way.next_step += 1;
            let run = under_way.number;
            self.filling.push_back(Filling { run, step, slot, issued: 0, done: 0, mixture });
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

    /// Whether the batch of `step` is made, or will never be.
    fn has_answer(&self, step: u64) -> bool {
        let Some(number) = self.number_of(step) else { return true };
        let complete =
            |f: &Filling| f.run == number && f.step == step && f.done == f.slot.ids.len();
        self.broken || self.filling.iter().any(complete)
    }

    fn filling_of(&mut self, run: u64, step: u64) -> Option<&mut Filling> {
        self.filling.iter_mut().find(|f| f.run == run && f.step == step)
    }

    fn is_live(&self, run: u64) -> bool {
        [&self.current, &self.ahead].into_iter().flatten().any(|live| live.number == run)
    }

    /// Whether a rank's share of a last step is nothing, which no thread will complete.
    fn has_empty_batch(&self) -> bool {
        self.filling.iter().any(|f| f.slot.ids.is_empty())
    }

    fn abandon(&mut self) {
        (self.current, self.ahead) = (None, None);
        self.recycle_abandoned();
    }

    /// Frees slots of earlier runs whose rows are all back.
    fn recycle_abandoned(&mut self) {
        for _ in 0..self.filling.len() {
            let Some(filling) = self.filling.pop_front() else { return };
            if !self.is_live(filling.run) && filling.done == filling.issued {
                self.free.push(filling.slot.join());
            } else {
                self.filling.push_back(filling);
            }
        }
    }
}

impl Slot {
    /// Splits the memory into one row a sample.
    fn split(&mut self, samples: impl Iterator<Item = u64>, row_bytes: &[Option<usize>]) {
        self.ids.clear();
        self.ids.extend(samples);
        self.labels.clear();
        self.labels.resize(self.ids.len(), 0);
        self.faults.clear();
        self.broken.clear();
        self.rows.clear();
        for _ in 0..self.ids.len() {
            let mut row = self.spare.pop().unwrap_or_default();
            row.key = self.keys.pop().unwrap_or_default();
            let columns = self.columns.iter_mut().zip(row_bytes);
            row.cells.extend(columns.map(|(column, bytes)| match column {
                Memory::Rows(memory) => Cell::Row(memory.split_to(bytes.unwrap_or_default())),
                Memory::Bytes(values) => Cell::Bytes(values.pop().unwrap_or_default()),
            }));
            self.rows.push(Some(row));
        }
        self.keys.clear();
        for column in &mut self.columns {
            if let Memory::Bytes(values) = column {
                values.clear();
            }
        }
    }

    /// Says at which positions the rows are: `first`, and every `stride` after it.
    fn number(&mut self, first: u64, stride: u64) {
        let n = self.ids.len() as u64;
        self.positions.clear();
        self.positions.extend((0..n).map(|i| first.saturating_add(i.saturating_mul(stride))));
        self.terms.clear();
        self.terms.resize(self.ids.len(), None);
    }

    /// Makes room for what rows are blended with, where they are.
    fn blend(&mut self, blended: bool) {
        let n = self.ids.len();
        self.whole.clear();
        self.whole.resize(n, false);
        self.blended.clear();
        let none = Blended { weight: 1.0, label: 0, sample: 0 };
        self.blended.resize(if blended { n } else { 0 }, none);
    }

    /// Joins the rows again; neighbours in memory, so that nothing is copied.
    fn join(mut self) -> Self {
        let ends: Vec<_> = self.columns.iter_mut().map(Memory::take).collect();
        for mut row in self.rows.drain(..).flatten() {
            for (column, cell) in self.columns.iter_mut().zip(row.cells.drain(..)) {
                column.join(cell);
            }
            self.keys.push(std::mem::take(&mut row.key));
            self.spare.push(row);
        }
        for (column, end) in self.columns.iter_mut().zip(ends) {
            end.into_iter().for_each(|end| column.join(Cell::Row(end)));
        }
        self.faults.sort_by_key(|(row, _)| *row);
        self.broken.sort_by_key(|(row, _)| *row);
        self
    }
}

impl Memory {
    /// What was not split off, where it is of rows.
    fn take(&mut self) -> Option<BytesMut> {
        match self {
            Self::Rows(memory) => Some(std::mem::take(memory)),
            Self::Bytes(_) => None,
        }
    }

    fn join(&mut self, cell: Cell) {
        match (self, cell) {
            (Self::Rows(memory), Cell::Row(row)) => memory.unsplit(row),
            (Self::Bytes(values), Cell::Bytes(value)) => values.push(value),
            (Self::Rows(_), Cell::Bytes(_)) | (Self::Bytes(_), Cell::Row(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_whole_pages_of_their_own_and_stay_where_they_are() {
        let page = rustix::param::page_size();
        for len in [0, 1, page - 1, page, page + 1, 10 * page + 7] {
            let memory = pages(len).unwrap();
            assert_eq!((memory.as_ptr().align_offset(page), memory.len() % page), (0, 0), "{len}");
            assert!(memory.len() >= len && memory.len() < len + page + 1, "{len}");
            let start = memory.as_ptr();
            let columns = vec![Memory::Bytes(Vec::new()), Memory::Rows(memory)];
            let mut slot = Slot { columns, ..Slot::default() };
            for rows in [3_usize, 0, 2] {
                slot.split(0..rows as u64, &[None, Some(len / 3)]);
                slot = slot.join();
                let [Memory::Bytes(values), Memory::Rows(memory)] = &slot.columns[..] else {
                    panic!("other fields");
                };
                assert_eq!((values.len(), slot.keys.len()), (rows, rows));
                assert_eq!((memory.as_ptr(), memory.len()), (start, pages(len).unwrap().len()));
            }
        }
        assert!(pages(usize::MAX).is_none());
    }

    #[test]
    fn large_slots_begin_and_end_with_a_huge_page() {
        for len in [HUGE_PAGE, HUGE_PAGE + 1, 3 * HUGE_PAGE - 1] {
            let memory = pages(len).unwrap();
            let found = (memory.as_ptr().align_offset(HUGE_PAGE), memory.len() % HUGE_PAGE);
            assert_eq!(found, (0, 0), "{len}");
            assert!(memory.len() >= len && memory.len() < len + HUGE_PAGE, "{len}");
        }
    }

    #[test]
    fn behind_the_first_field_is_room_for_labels() {
        let slots = BatchSlots::new(2, 5, &[Some(3), Some(3)], Waiting::default()).unwrap();
        let state = slots.lock();
        let Some(Memory::Rows(first)) = state.free[0].columns.first() else { panic!("rows") };
        assert!(first.len() >= (5_usize * 3).next_multiple_of(8) + 5 * 8, "{}", first.len());
    }
}
