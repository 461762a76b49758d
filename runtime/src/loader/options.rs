//! The options of a loader.

use std::time::Duration;

use gular_bundle::Split;
use gular_codec::{JpegBackend, Limits, OrientationPolicy, Scaling};

use super::{AxisOrder, Depth, Draw, Normalise, Numbers, Select, UnknownLabels};
use crate::augment::{Augment, Blend, Transform};
use crate::order::{OrderKind, OrderSpec};
use crate::{Error, Ranks, StopFlag};

/// How a split is loaded. Start from [`LoaderOptions::new`] and change what is to differ.
#[derive(Debug, Clone)]
pub struct LoaderOptions {
    /// Which part of the bundle.
    pub split: Split,
    /// Samples a batch, on each rank.
    pub batch_size: usize,
    /// The order of samples; its seed is also that of the augmentations.
    pub order: OrderSpec,
    /// Which of the ranks this is, from 0.
    pub rank: u64,
    /// How many ranks share each epoch.
    pub world_size: u64,
    /// Threads that decode; 0 takes as many as this process may use cores
    /// (its affinity and its cgroup's quota are respected).
    pub threads: usize,
    /// Batches in memory at a time, lent ones included; at least 2.
    pub slots: usize,
    /// Bytes of samples, as they are stored, that may be read before a thread needs them. Other
    /// threads do so when reads are seen to wait, as on a cold disk or a network; 0 never does.
    pub read_ahead_bytes: u64,
    /// What is done to each picture.
    pub transform: Transform,
    /// What is done then, by a function of your own. No state of a loader knows it: a training run
    /// that goes on takes the same.
    pub augment: Option<Augment>,
    /// How the samples of a batch are at last blended in pairs; [`Batch::blended`](super::Batch::blended)
    /// says how. No state of a loader knows it.
    pub blend: Option<Blend>,
    /// What batches hold of the images. A `Feed` chooses this and `layout`
    /// itself, by its own options.
    pub numbers: Numbers,
    /// How these lie in memory.
    pub layout: AxisOrder,
    /// How pixels become numbers, unless they stay as they are stored.
    pub normalise: Normalise,
    /// Which samples of the split are used.
    pub select: Select,
    /// Whether each of them comes once, or some more often; with any other than
    /// [`Draw::EachOnce`] the kind of the order is to be `elastic`.
    pub draw: Draw,
    /// Whether the first batches of the next epoch are made while the last of this one are
    /// trained on: the epoch after it, or the same where that was the last one too. What is then
    /// not asked for is thrown away. Unless told otherwise for `train` alone.
    pub across_epochs: bool,
    /// How many epochs there are to be: none past the last is made ahead.
    pub n_epochs: Option<u64>,
    /// How many bits pixels have.
    pub depth: Depth,
    /// The channels of the images in a batch, by their numbers from 0 in the bundle, in any
    /// order; [`Field::bands`](gular_bundle::Field) names them. `None` takes all; of one channel
    /// (grey) three copies.
    pub bands: Option<Vec<usize>>,
    /// Fields that batches have besides `image` and `label`, by name. A `mask` is moved as its
    /// image is, its values unmixed; other fields come as they are stored.
    pub fields: Vec<String>,
    /// What to do about an image that cannot be decoded.
    pub on_error: OnBadSample,
    /// What to do about a sample whose class is unknown: label -1.
    pub unknown_labels: UnknownLabels,
    /// Whether pictures are turned as their EXIF orientation says. torchvision's `ImageFolder`
    /// and FFCV do not turn them. Pixels of payload `raw` are upright already.
    pub orientation: OrientationPolicy,
    /// Ends the wait for a batch, within a second, with [`LoaderError::Stopped`](super::LoaderError::Stopped).
    pub stop: Option<StopFlag>,
    /// How long to wait for a batch to be dropped while all of them are held, before
    /// [`LoaderError::AllLent`](super::LoaderError::AllLent). Ten minutes at least once a batch was dropped by another thread than
    /// the one that takes them.
    pub lent_patience: Duration,
    /// What an image may cost.
    pub limits: Limits,
    /// Which library decodes JPEG; its pixels are its own.
    pub jpeg: JpegBackend,
    /// Whether a JPEG of which a sixth or less is wanted is decoded at a fraction of its size,
    /// unless told otherwise within a stated distance of the full decode.
    pub scaling: Scaling,
}

/// What to do about an image that cannot be decoded.
///
/// This is a fault of the dataset, the same in every copy of the bundle. Bytes
/// that differ from the manifest's digest, or cannot be read, are a fault of
/// this copy: always an error, since skipping them would make this training run
/// another one than that on the next machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadSample {
    /// The batch that would hold it is an error, which names the sample.
    #[default]
    Fail,
    /// Its batch is one sample smaller and counts it; nothing else changes. For evaluations,
    /// which are to count each sample once.
    Skip,
    /// The sample of the next position that can be decoded comes instead of it, cropped and
    /// mirrored in another way than there, and the batch counts it: so that all batches have the
    /// same size. For training runs. `FORMAT.md`, "Orders".
    Replace,
}

impl LoaderOptions {
    /// Makes the same options as [`LoaderOptions::new`] for one rank of a training run: its share of
    /// the samples.
    #[must_use]
    pub fn for_ranks(split: Split, ranks: &Ranks) -> Self {
        Self { rank: ranks.rank, world_size: ranks.world_size, ..Self::new(split) }
    }

    /// Loads `split` in a process that trains alone: order `elastic` with seed 0, batches of 64,
    /// random crops of 224 pixels for `train` and the middle 224 for the others.
    ///
    /// Where several ranks train together, each of them would take all samples:
    /// [`LoaderOptions::for_ranks`].
    #[must_use]
    pub fn new(split: Split) -> Self {
        Self {
            split,
            batch_size: 64,
            order: OrderSpec { kind: OrderKind::Elastic, seed: 0, drop_last: false },
            rank: 0,
            world_size: 1,
            threads: 0,
            slots: 4,
            // Over a hundred photographs, or two batches of them.
            read_ahead_bytes: 16 << 20,
            transform: match split {
                Split::Train => Transform::train(224),
                Split::Val | Split::Test => Transform::eval(224),
            },
            augment: None,
            blend: None,
            numbers: Numbers::Stored,
            layout: AxisOrder::ChannelsLast,
            normalise: Normalise::default(),
            select: Select::default(),
            draw: Draw::default(),
            across_epochs: split == Split::Train,
            n_epochs: None,
            depth: Depth::default(),
            bands: None,
            fields: Vec::new(),
            on_error: OnBadSample::default(),
            unknown_labels: UnknownLabels::default(),
            orientation: OrientationPolicy::Apply,
            stop: None,
            lent_patience: Duration::from_secs(10),
            limits: Limits::default(),
            jpeg: JpegBackend::default(),
            scaling: Scaling::Reduced,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let fail = |option, reason: String| Err(Error::Option { option, reason });
        if self.batch_size == 0 {
            return fail("batch_size", "it is 0".into());
        }
        if let Some(reason) = self.blend.and_then(|blend| blend.fault()) {
            return fail("blend", reason);
        }
        if self.slots < 2 {
            return fail("slots", format!("it is {}, expected at least 2", self.slots));
        }
        if self.rank >= self.world_size {
            let reason = format!(
                "rank {} does not exist among {} ranks, which count from 0",
                self.rank, self.world_size
            );
            return fail("rank", reason);
        }
        if let Some(reason) = self.select.fault() {
            return fail("select", reason);
        }
        if !matches!((&self.draw, self.order.kind), (Draw::EachOnce, _) | (_, OrderKind::Elastic)) {
            let reason = format!(
                "samples can be drawn by weight only in the order `elastic`, not {:?}",
                self.order.kind
            );
            return fail("draw", reason);
        }
        self.transform.fault().map_or(Ok(()), |reason| fail("transform", reason))
    }
}
