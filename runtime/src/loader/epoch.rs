//! The loader and its epochs.
//!
//! While the last batches of an epoch are trained on, the first of the next are made: an epoch
//! is a pure function of its number, so it can be begun before anybody asks for it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gular_bundle::{Bundle, Digest};

#[cfg(feature = "torch")]
use super::AxisOrder;
use super::ahead::Ahead;
use super::batch::About;
#[cfg(feature = "cuda")]
use super::batch_slots::Hold;
use super::batch_slots::{BatchSlots, Waiting};
use super::blender::Blender;
use super::chosen::{Asked, Chosen, choose};
use super::epoch_steps::{Run, Span, Turns};
use super::shards::Shards;
use super::slot::Slot;
use super::source::Source;
use super::stats::{Meters, Stats};
use super::worker::Pool;
use super::{Batch, Draw, LoaderOptions, Numbers, OnBadSample};
use crate::Error;
use crate::order::{Draws, LoaderState, Tally};

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
    pub(super) options: LoaderOptions,
    digest: Digest,
    /// Samples of each shard of the split, without those left out.
    pub(super) shard_samples: Vec<u64>,
    pub(super) chosen: Arc<Chosen>,
    /// The weights or classes that samples are drawn by.
    pub(super) draws: Option<Arc<Draws>>,
    pub(super) source: Arc<Source>,
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
    #[cfg_attr(not(feature = "torch"), expect(dead_code, reason = "dropped, it ends its threads"))]
    pool: Pool,
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    span: Span,
    step: u64,
    since: Instant,
}

impl Loader {
    /// Reserves the slots and starts the threads. Reads only indexes, for
    /// [`LoaderOptions::unknown_labels`].
    ///
    /// # Errors
    /// [`Error::Option`], which names the option with the impossible value;
    /// [`LoaderError::NoImages`](super::LoaderError::NoImages) for a bundle without images;
    /// [`Error::Bundle`], [`LoaderError::Memory`](super::LoaderError::Memory),
    /// [`LoaderError::Thread`](super::LoaderError::Thread).
    pub fn new(bundle: Arc<Bundle>, options: LoaderOptions) -> Result<Self, Error> {
        let labelled = bundle.manifest().has_labels();
        let digest = bundle.digest();
        let (threads, cores) = threads_of(&options);
        let n_all = bundle.n_samples(options.split);
        let (mut chosen, shard_samples) = chosen_of(&bundle, &options, threads)?;
        let labels = std::mem::take(&mut chosen.labels);
        let n_chosen = shard_samples.iter().sum();
        let draws = options.draw.prepare(n_all, n_chosen, &chosen, labels)?;
        let source = Arc::new(Source::new(bundle, &options)?);
        let meters = Arc::new(Meters::default());
        let (about, ring, pool) = start(&options, &source, labelled, threads, &meters)?;
        Ok(Self {
            options,
            digest,
            shard_samples,
            chosen: Arc::new(chosen),
            draws: draws.map(Arc::new),
            source,
            about,
            epoch: 0,
            consumed: 0,
            tally: Some(Tally::default()),
            restored: false,
            begun: None,
            turns: Turns::ALL,
            under_way: None,
            counted: Stats { threads, cores, ..Stats::default() },
            meters,
            ring,
            pool,
        })
    }

    /// Returns the loader with another type and layout of images; no batch may have been taken yet.
    ///
    /// # Errors
    /// Those of [`Loader::new`].
    #[cfg(feature = "torch")]
    pub(crate) fn with_numbers(self, numbers: Numbers, layout: AxisOrder) -> Result<Self, Error> {
        if (self.options.numbers, self.options.layout) == (numbers, layout) {
            return Ok(self);
        }
        let options = LoaderOptions { numbers, layout, ..self.options };
        let (bundle, threads) = (Arc::clone(self.source.bundle()), self.counted.threads);
        // Slots have no memory yet, but the threads that fetch shards keep room for them until the
        // last one ends.
        match bundle.source() {
            None => self.pool.dismiss(),
            Some(_) => drop(self.pool),
        }
        drop((self.ring, self.source));
        let source = Arc::new(Source::new(bundle, &options)?);
        let (about, ring, pool) =
            start(&options, &source, self.about.labelled, threads, &self.meters)?;
        Ok(Self { options, about, source, ring, pool, ..self })
    }

    /// Returns what was chosen by the bundle and its images, in words: by [`LoaderOptions::fitted`],
    /// and how pixels are normalised if that is not chosen and is not usual.
    #[must_use]
    pub fn fitted(&self) -> Option<String> {
        let chosen = self.options.fitted.clone();
        let normalised =
            self.source.normalise().filter(|_| self.options.numbers != Numbers::Stored);
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
    pub(crate) fn normalise(&self) -> Result<super::Normalise, Error> {
        match self.source.normalise() {
            None => Ok(super::Normalise::scaled()),
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
        if (self.options.rank, self.options.world_size) == (rank, world_size) {
            return Ok(());
        }
        let options = LoaderOptions { rank, world_size, ..self.options.clone() };
        options.check()?;
        self.leave();
        // The epoch that was made ahead, too, has the samples of another rank.
        self.ring.abandon();
        self.options = options;
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
        let span = self.span(self.consumed).of_turns(self.turns);
        if !self.ring.go_on(epoch, span) {
            self.ring.start(self.run(epoch, span));
        }
        self.under_way = Some(UnderWay { span, step: 0, since: Instant::now() });
        let next = if self.begun == Some(epoch) { epoch } else { epoch.saturating_add(1) };
        self.begun = Some(epoch);
        let LoaderOptions { across_epochs, n_epochs, .. } = self.options;
        if across_epochs && n_epochs.is_none_or(|n| next < n) {
            let first = self.turns.first % self.turns.of.max(1);
            let span = self.span(0).of_turns(Turns { first, ..self.turns });
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

    fn span(&self, from: u64) -> Span {
        span(&self.options, &self.shard_samples, from)
    }

    fn run(&self, epoch: u64, span: Span) -> Run {
        let LoaderOptions { rank, world_size, .. } = self.options;
        let (order, chosen) = (self.order_of(epoch), Arc::clone(&self.chosen));
        Run { order, chosen, epoch, span, rank, world_size }
    }

    /// Returns the state to save in a checkpoint: counts batches handed out, not those made ahead.
    #[must_use]
    pub fn state(&self) -> LoaderState {
        LoaderState {
            bundle: self.digest,
            split: self.options.split,
            order: self.options.order,
            epoch: self.epoch,
            consumed: self.consumed,
            world_size: self.options.world_size,
            left_out: self.n_left_out(),
            selection: self.chosen.checksum(),
            drawn_by: self.options.draw.drawn_by(),
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
        let goes_on = self.options.rank == 0 && state.consumed > 0;
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
        n_positions(&self.options, &self.shard_samples)
    }

    /// The number of samples of the split that are in no epoch, because of
    /// [`LoaderOptions::select`] or [`UnknownLabels::Drop`](super::UnknownLabels::Drop).
    #[must_use]
    pub fn n_left_out(&self) -> u64 {
        self.chosen.n_left_out()
    }

    /// Computes [`Loader::n_steps`] for these options without making a loader.
    ///
    /// # Errors
    /// [`Error::Option`] naming the option that cannot be; [`Error::Bundle`].
    pub fn n_steps_of(bundle: &Bundle, options: &LoaderOptions) -> Result<u64, Error> {
        let (threads, _) = threads_of(options);
        let (_, shard_samples) = chosen_of(bundle, options, threads)?;
        Ok(span(options, &shard_samples, 0).n_steps())
    }

    /// The number of steps of a whole epoch, the same on every rank.
    #[must_use]
    pub fn n_steps(&self) -> u64 {
        self.span(0).n_steps()
    }

    /// Returns [`Loader::n_steps`] for another number of ranks.
    #[must_use]
    pub fn n_steps_among(&self, world_size: u64) -> u64 {
        let options = LoaderOptions { world_size, ..self.options.clone() };
        span(&options, &self.shard_samples, 0).n_steps()
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
        self.source.left_behind()
    }

    /// The options that the loader was made with.
    #[must_use]
    pub fn options(&self) -> &LoaderOptions {
        &self.options
    }

    /// The bundle that the loader reads.
    #[must_use]
    pub fn bundle(&self) -> &Arc<Bundle> {
        self.source.bundle()
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
        let replaced = self.options.on_error == OnBadSample::Replace;
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

/// The threads of a loader, and the cores of this machine.
fn threads_of(options: &LoaderOptions) -> (usize, usize) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (if options.threads == 0 { cores } else { options.threads }, cores)
}

/// The samples that epochs have, and how many of each shard.
fn chosen_of(
    bundle: &Bundle,
    options: &LoaderOptions,
    threads: usize,
) -> Result<(Chosen, Vec<u64>), Error> {
    options.check()?;
    let of_split = bundle.manifest().of_split(options.split);
    let mut shard_samples: Vec<u64> = of_split.map(|shard| shard.samples).collect();
    let asked = Asked {
        split: options.split,
        unknown: options.unknown_labels,
        select: &options.select,
        labels: matches!(options.draw, Draw::ByClass),
        threads,
    };
    let chosen = choose(bundle, &asked, &mut shard_samples)?;
    Ok((chosen, shard_samples))
}

fn n_positions(options: &LoaderOptions, shard_samples: &[u64]) -> u64 {
    options.order.n_positions(shard_samples.iter().sum(), options.world_size)
}

fn span(options: &LoaderOptions, shard_samples: &[u64], from: u64) -> Span {
    let LoaderOptions { order, world_size, batch_size, .. } = *options;
    let stride = world_size.saturating_mul(batch_size as u64);
    Span::new(from, n_positions(options, shard_samples), stride, order.drop_last)
}

/// Allocates the slots and starts the threads.
fn start(
    options: &LoaderOptions,
    source: &Arc<Source>,
    labelled: bool,
    threads: usize,
    meters: &Arc<Meters>,
) -> Result<(Arc<About>, Arc<BatchSlots>, Pool), Error> {
    let columns = source.columns().to_vec();
    let blender = Blender::new(options, &columns, source.has_pictures(), source.moved())?;
    let about = About {
        pictured: source.has_pictures(),
        columns,
        labelled,
        size: options.transform.size(),
        layout: options.layout,
    };
    let waiting = Waiting { stop: options.stop.clone(), lent: options.lent_patience };
    let row_bytes = source.row_bytes(options)?;
    let ring = BatchSlots::new(options.slots, options.batch_size, &row_bytes, waiting)?;
    let shards = Shards::new(source.bundle(), options.split, options.order.kind)?;
    ring.read_ahead(Ahead::new(Arc::clone(source), options.read_ahead_bytes, shards)?);
    blender.into_iter().for_each(|blender| ring.blend(blender));
    let ring = Arc::new(ring);
    let pool = Pool::start(threads, &ring, source, meters)?;
    Ok((Arc::new(about), ring, pool))
}
