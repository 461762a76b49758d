//! The loader and its epochs.
//!
//! While the last batches of an epoch are trained on, the first of the next are made: an epoch
//! is a pure function of its number, so it can be begun before anybody asks for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gular_augment::{AxisOrder, Numbers};
use gular_bundle::Bundle;
use gular_order::{LoaderState, Tally};

use super::ahead::Ahead;
use super::batch::About;
#[cfg(feature = "cuda")]
use super::batch_slots::Hold;
use super::batch_slots::{BatchSlots, Waiting};
use super::blender::Blender;
use super::epoch_steps::{Run, Span, Turns};
use super::loader_plan::{LoaderPlan, cores};
use super::row_maker::RowMaker;
use super::shards::Shards;
use super::slot::Slot;
use super::stats::{Meters, Stats};
use super::worker::Pool;
use super::{Batch, LoaderOptions, OnBadSample};
use crate::Error;

/// Loads the batches of one split, ahead of their use, with a fixed pool of threads.
///
/// ```no_run
/// # use std::{path::Path, sync::Arc};
/// # use gular_runtime::{Bundle, Loader, LoaderOptions, OpenOptions, Split};
/// let bundle = Arc::new(Bundle::open(Path::new("bundle"), OpenOptions::default())?);
/// let mut loader = Loader::new(bundle, LoaderOptions::new(Split::Train))?;
/// for epoch in 0..90 {
///     for batch in loader.epoch(epoch) {
///         let batch = batch?;
///         println!("{} images, labels {:?}", batch.len(), batch.labels());
///     }
/// }
/// # Ok::<(), gular_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Loader {
    pub(super) plan: LoaderPlan,
    pub(super) maker: Arc<RowMaker>,
    about: Arc<About>,
    epoch: u64,
    consumed: u64,
    /// The tally of what was delivered; `None` if a state without one was restored.
    tally: Option<Tally>,
    /// Whether `consumed` was restored, and the epoch has not begun since.
    restored: bool,
    /// The epoch that was begun last.
    begun: Option<u64>,
    turns: Turns,
    /// The current epoch, whose batches are handed out.
    under_way: Option<UnderWay>,
    counted: Stats,
    meters: Arc<Meters>,
    ring: Arc<BatchSlots>,
    /// Dropped, it ends its threads.
    _pool: Pool,
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    span: Span,
    step: u64,
    since: Instant,
}

impl LoaderPlan {
    /// Reserves the slots for images of these numbers in this layout, and starts the threads.
    ///
    /// # Errors
    /// [`Error::Option`]; [`LoaderError::NoImages`](super::LoaderError::NoImages) for a bundle
    /// without images; [`Error::Bundle`], [`LoaderError::Memory`](super::LoaderError::Memory),
    /// [`LoaderError::Thread`](super::LoaderError::Thread).
    pub fn start(mut self, numbers: Numbers, layout: AxisOrder) -> Result<Loader, Error> {
        (self.options.numbers, self.options.layout) = (numbers, layout);
        let options = &self.options;
        let maker = Arc::new(RowMaker::new(Arc::clone(&self.bundle), options)?);
        let columns = maker.columns().to_vec();
        let blender = Blender::new(options, &columns, maker.has_pictures(), maker.moved())?;
        let about = About {
            pictured: maker.has_pictures(),
            columns,
            labelled: self.bundle.manifest().has_labels(),
            size: options.transform.size(),
            layout,
        };
        let waiting = Waiting { stop: options.stop.clone(), lent: options.lent_patience };
        let row_bytes = maker.row_bytes(options)?;
        let ring = BatchSlots::new(options.slots, options.batch_size, &row_bytes, waiting)?;
        let shards = Shards::new(&self.bundle, options.split, options.order.kind)?;
        let reader = Arc::clone(maker.reader());
        ring.read_ahead(Ahead::new(reader, options.read_ahead_bytes, shards)?);
        blender.into_iter().for_each(|blender| ring.blend(blender));
        let (ring, meters, threads) = (Arc::new(ring), Arc::default(), self.n_threads());
        Ok(Loader {
            _pool: Pool::start(threads, &ring, &maker, &meters)?,
            plan: self,
            maker,
            about: Arc::new(about),
            epoch: 0,
            consumed: 0,
            tally: Some(Tally::default()),
            restored: false,
            begun: None,
            turns: Turns::ALL,
            under_way: None,
            counted: Stats { threads, cores: cores(), ..Stats::default() },
            meters,
            ring,
        })
    }
}

impl Loader {
    /// Plans the epochs and starts the threads: [`LoaderPlan::new`], then [`LoaderPlan::start`]
    /// with the numbers and the layout of the options.
    ///
    /// # Errors
    /// Those of both.
    pub fn new(bundle: Arc<Bundle>, options: LoaderOptions) -> Result<Self, Error> {
        let LoaderOptions { numbers, layout, .. } = options;
        LoaderPlan::new(bundle, options)?.start(numbers, layout)
    }

    /// Returns what was chosen by the bundle and its images, in words: by [`LoaderOptions::fitted`],
    /// and how pixels are normalised if that is not chosen and is not usual.
    #[must_use]
    pub fn fitted(&self) -> Option<String> {
        let chosen = self.plan.options.fitted.clone();
        let normalised =
            self.maker.normalise().filter(|_| self.plan.options.numbers != Numbers::Stored);
        let Some((_, Some(words))) = normalised.and_then(|found| found.as_ref().ok()) else {
            return chosen;
        };
        Some(match chosen {
            Some(chosen) => format!("{chosen}; {words}"),
            None => format!("pictures {words}"),
        })
    }

    /// How the images in a batch are normalised, if they are.
    ///
    /// # Errors
    /// [`Error::Option`].
    #[cfg(feature = "cuda")]
    pub(crate) fn normalise(&self) -> Result<gular_augment::Normalise, Error> {
        match self.maker.normalise() {
            None => Ok(gular_augment::Normalise::scaled()),
            Some(Ok((how, _))) => Ok(how.clone()),
            Some(Err(reason)) => Err(Error::Option { option: "normalise", reason: reason.clone() }),
        }
    }

    /// Type and number of channels of the images in a batch.
    #[cfg(feature = "torch")]
    pub(crate) fn image(&self) -> Option<(gular_bundle::Dtype, usize)> {
        let image = self.about.columns.first().filter(|_| self.about.pictured)?;
        let (dtype, shape) = image.fixed.as_ref()?;
        let channels = match self.about.layout {
            // Those of all times and depths.
            AxisOrder::Contiguous => shape.iter().rev().skip(2).product(),
            AxisOrder::ChannelsLast => *shape.last()?,
        };
        Some((*dtype, channels))
    }

    /// Passes the memory of the images of all batches to `hold`, in whole pages, and keeps what it
    /// returns until that memory is freed. Called once, before the first epoch.
    #[cfg(feature = "cuda")]
    pub(crate) fn hold(
        &self,
        hold: &mut dyn FnMut(&[u8]) -> Result<Hold, Error>,
    ) -> Result<(), Error> {
        self.ring.hold(hold)
    }

    /// Makes this the loader of another rank, from the next epoch on. An epoch under way ends; a
    /// state must be restored again.
    ///
    /// # Errors
    /// [`Error::Option`] for a rank that does not exist.
    pub fn set_ranks(&mut self, rank: u64, world_size: u64) -> Result<(), Error> {
        let options = &self.plan.options;
        if (options.rank, options.world_size) == (rank, world_size) {
            return Ok(());
        }
        let options = LoaderOptions { rank, world_size, ..options.clone() };
        options.check()?;
        self.leave();
        // The epoch that was made ahead, too, has the samples of another rank.
        self.ring.abandon();
        self.plan.options = options;
        Ok(())
    }

    /// Makes only some steps of each epoch, from the next one on: other loaders make the others.
    pub fn set_turns(&mut self, turns: Turns) {
        self.turns = turns;
    }

    /// Begins `epoch` and returns its batches: from its start, or from the restored position if the
    /// last call was [`Loader::restore`] with a state of this epoch.
    ///
    /// Threads begin at once, or began before ([`LoaderOptions::across_epochs`]). Dropping the
    /// [`Epoch`] ends the epoch early.
    pub fn epoch(&mut self, epoch: u64) -> Epoch<'_> {
        self.begin(epoch);
        Epoch { loader: self }
    }

    /// Returns the batches of `epoch`, begun as by [`Loader::epoch`], and then of all later epochs,
    /// without end. An error ends it, and so does an epoch without steps.
    pub fn stream(&mut self, epoch: u64) -> Stream<'_> {
        self.begin(epoch);
        Stream { loader: self, ended: false }
    }

    /// Begins an epoch like [`Loader::epoch`], for owners that cannot lend, such as objects of
    /// another language: [`Loader::next_batch`] returns the batches.
    pub fn begin(&mut self, epoch: u64) {
        self.leave();
        let resumed = std::mem::take(&mut self.restored) && epoch == self.epoch;
        if !resumed {
            (self.epoch, self.consumed, self.tally) = (epoch, 0, Some(Tally::default()));
        }
        let span = self.plan.span(self.consumed).of_turns(self.turns);
        if !self.ring.go_on(epoch, span) {
            self.ring.start(self.run(epoch, span));
        }
        self.under_way = Some(UnderWay { span, step: 0, since: Instant::now() });
        let next = if self.begun == Some(epoch) { epoch } else { epoch.saturating_add(1) };
        self.begun = Some(epoch);
        let LoaderOptions { across_epochs, n_epochs, .. } = self.plan.options;
        if across_epochs && n_epochs.is_none_or(|n| next < n) {
            let first = self.turns.first % self.turns.of.max(1);
            let span = self.plan.span(0).of_turns(Turns { first, ..self.turns });
            self.ring.make_ahead(self.run(next, span));
        }
    }

    /// Returns the next batch of the current epoch; `None` after the last batch and after an error.
    pub fn next_batch(&mut self) -> Option<Result<Batch, Error>> {
        let UnderWay { span, step, .. } = self.under_way?;
        let taken = self.take(span, step).transpose();
        match (&taken, &mut self.under_way) {
            (Some(Ok(_)), Some(under_way)) => under_way.step += 1,
            (Some(Err(_)), _) => self.leave(),
            _ => {
                self.ring.finish();
                self.end();
            }
        }
        taken
    }

    /// Waits up to `at_most` until [`Loader::next_batch`] would return at once; returns whether it
    /// would. This is for callers that check something else meanwhile, such as the signals of
    /// another language.
    #[must_use]
    pub fn wait(&self, at_most: Duration) -> bool {
        self.under_way.is_none_or(|now| self.ring.wait(now.step, at_most, &self.meters))
    }

    /// Ends the current epoch early, if not all of its batches were taken.
    pub fn leave(&mut self) {
        if self.under_way.is_some() {
            self.ring.abandon();
            self.end();
        }
    }

    fn end(&mut self) {
        let since = self.under_way.take().map(|under_way| under_way.since.elapsed());
        self.counted.elapsed += since.unwrap_or_default();
    }

    fn run(&self, epoch: u64, span: Span) -> Run {
        let LoaderOptions { rank, world_size, .. } = self.plan.options;
        let (order, chosen) = (self.plan.order_of(epoch), Arc::clone(&self.plan.chosen));
        Run { order, chosen, epoch, span, rank, world_size }
    }

    /// Returns the state to save in a checkpoint: counts batches handed out, not those made ahead.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        let options = &self.plan.options;
        LoaderState {
            bundle: self.plan.bundle.digest(),
            split: options.split,
            order: options.order,
            epoch: self.epoch,
            consumed: self.consumed,
            world_size: options.world_size,
            left_out: self.n_left_out(),
            selection: self.plan.chosen.checksum(),
            drawn_by: options.draw.drawn_by(),
            tally: self.tally.clone(),
        }
    }

    /// Continues where `state` was taken: the next [`Loader::epoch`] of its epoch begins there.
    /// This takes only arithmetic; nothing is read or made again.
    ///
    /// The tally in the state is continued by rank 0 alone: the state has the tally of all ranks,
    /// so when all of them restore it, their tallies still add up to the epoch's.
    ///
    /// # Errors
    /// [`Error::State`] if the state is of another bundle, split, order or seed, or of another
    /// number of samples.
    pub fn restore(&mut self, state: &LoaderState) -> Result<(), Error> {
        state.check(&self.state())?;
        (self.epoch, self.consumed, self.restored) = (state.epoch, state.consumed, true);
        let goes_on = self.plan.options.rank == 0 && state.consumed > 0;
        let begins = state.consumed == 0 || state.tally.is_some();
        self.tally = begins.then(Tally::default);
        if goes_on {
            self.tally.clone_from(&state.tally);
        }
        Ok(())
    }

    /// The number of positions of an epoch, of all ranks together: [`LoaderState::consumed`] at
    /// its end.
    #[must_use]
    pub fn n_positions(&self) -> u64 {
        self.plan.n_positions()
    }

    /// The number of samples of the split that are in no epoch, because of
    /// [`LoaderOptions::select`] or [`UnknownLabels::Drop`](super::UnknownLabels::Drop).
    #[must_use]
    pub fn n_left_out(&self) -> u64 {
        self.plan.n_left_out()
    }

    /// The number of steps of a whole epoch, the same on every rank.
    #[must_use]
    pub fn n_steps(&self) -> u64 {
        self.plan.n_steps()
    }

    /// Returns [`Loader::n_steps`] for another number of ranks.
    #[must_use]
    pub fn n_steps_among(&self, world_size: u64) -> u64 {
        self.plan.n_steps_among(world_size)
    }

    /// The number of batches of the current epoch that were not taken yet.
    #[must_use]
    pub fn n_steps_left(&self) -> u64 {
        self.under_way.map_or(0, |under_way| under_way.span.n_steps() - under_way.step)
    }

    /// The fields of its batches that are delivered as stored, although the image is cropped or
    /// turned, and that may tell places on it: arrays of two axes or more, and pictures.
    #[must_use]
    pub fn left_behind(&self) -> Vec<String> {
        self.maker.left_behind()
    }

    /// The options that the loader was made with.
    #[must_use]
    pub fn options(&self) -> &LoaderOptions {
        &self.plan.options
    }

    /// The bundle that the loader reads.
    #[must_use]
    pub fn bundle(&self) -> &Arc<Bundle> {
        &self.plan.bundle
    }

    /// Returns how long each phase has worked and waited since the loader was made.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.counted;
        stats.elapsed += self.under_way.map(|now| now.since.elapsed()).unwrap_or_default();
        self.meters.fill(&mut stats);
        stats.repaired_blocks = self.bundle().mended().iter().map(|(_, blocks)| blocks).sum();
        stats
    }
}

impl Loader {
    fn take(&mut self, span: Span, step: u64) -> Result<Option<Batch>, Error> {
        let Some(slot) = self.ring.batch(step, &self.meters)? else { return Ok(None) };
        let slot = self.accept(slot)?;
        self.consumed = span.consumed(step + 1);
        if let Some(tally) = &mut self.tally {
            tally.join(&slot.tally);
        }
        let replaced = self.plan.options.on_error == OnBadSample::Replace;
        let batch = Batch::new(slot, replaced, Arc::clone(&self.about), Arc::clone(&self.ring));
        self.counted.batches += 1;
        self.counted.images += batch.len() as u64;
        self.counted.skipped += batch.skipped().len() as u64;
        self.counted.unlabelled += (batch.labels().len() - batch.n_labelled()) as u64;
        Ok(Some(batch))
    }

    /// Returns the slot, unless it has a fault.
    fn accept(&self, mut slot: Slot) -> Result<Slot, Error> {
        if slot.faults.is_empty() {
            return Ok(slot);
        }
        let (_, error) = slot.faults.swap_remove(0);
        self.ring.give_back(slot);
        Err(error)
    }
}

/// The batches of one epoch, in order.
///
/// An error ends it: what follows is `None`. The loader's state is then that
/// before the batch with the error.
#[derive(Debug)]
pub struct Epoch<'a> {
    loader: &'a mut Loader,
}

impl Epoch<'_> {
    /// Returns the same as [`Loader::state`]: the state after the batches taken so far.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.loader.state()
    }

    /// Returns the same as [`Loader::stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.loader.stats()
    }

    /// The number of batches of this epoch that were not taken yet.
    #[must_use]
    pub fn n_steps_left(&self) -> u64 {
        self.loader.n_steps_left()
    }

    /// Whether the next batch, the end or an error is there without waiting.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_ready(&self) -> bool {
        let Loader { under_way, ring, .. } = &*self.loader;
        under_way.is_none_or(|under_way| ring.is_ready(under_way.step))
    }
}

impl Iterator for Epoch<'_> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.loader.next_batch()
    }
}

impl std::iter::FusedIterator for Epoch<'_> {}

impl Drop for Epoch<'_> {
    fn drop(&mut self) {
        self.loader.leave();
    }
}

/// The batches of one epoch after the other, without end.
#[derive(Debug)]
pub struct Stream<'a> {
    loader: &'a mut Loader,
    ended: bool,
}

impl Stream<'_> {
    /// Returns the same as [`Loader::state`]: the state after the batches taken so far, in the
    /// epoch of the last one.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        self.loader.state()
    }
}

impl Iterator for Stream<'_> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let taken = self.loader.next_batch();
            if let Some(taken) = taken {
                self.ended = taken.is_err();
                return Some(taken);
            }
            self.ended = self.loader.n_steps() == 0;
            if !self.ended {
                self.loader.begin(self.loader.epoch.saturating_add(1));
            }
        }
        None
    }
}

impl std::iter::FusedIterator for Stream<'_> {}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        self.loader.leave();
    }
}
