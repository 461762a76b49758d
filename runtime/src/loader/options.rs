//! The options of a loader.

use std::time::Duration;

use gular_augment::{Augment, AxisOrder, Blend, Depth, NormaliseBy, Numbers, Transform};
use gular_bundle::{Axes, Field, Split};
use gular_codec::{JpegBackend, Limits, OrientationPolicy, Scaling};
use gular_order::{OrderKind, OrderSpec};
use serde::Deserialize;

use super::{Draw, Each, Select, UnknownLabels};
use crate::{Error, Ranks, StopFlag};

/// How a split is loaded. Start from [`LoaderOptions::new`] and change single fields.
///
/// ```
/// use gular_runtime::augment::{Augment, Blend};
/// use gular_runtime::{LoaderOptions, Split, Transform};
///
/// let options = LoaderOptions {
///     transform: Transform::train(224),
///     augment: Some(Augment::new(|picture, rng| picture.jitter(0.4, 0.4, 0.4, 0.1, rng))),
///     blend: Some(Blend::MixUp { alpha: 0.2 }),
///     ..LoaderOptions::new(Split::Train)
/// };
/// ```
#[derive(Debug, Clone)]
pub struct LoaderOptions {
    /// The split to load.
    pub split: Split,
    /// Samples per batch, on each rank.
    pub batch_size: usize,
    /// The order of samples; its seed is also that of the augmentations.
    pub order: OrderSpec,
    /// The rank of this process, from 0.
    pub rank: u64,
    /// Number of ranks that share each epoch.
    pub world_size: u64,
    /// Threads that decode; 0 takes as many as this process may use cores
    /// (its affinity and its cgroup's quota are respected).
    pub threads: usize,
    /// The most batches in memory at the same time, including lent ones; at least 2.
    pub slots: usize,
    /// The most bytes of stored samples that may be read before a decoding thread needs them.
    /// Separate threads do this when reads are seen to wait, as on a cold disk or a network; with 0
    /// they never do.
    pub read_ahead_bytes: u64,
    /// How each picture is cropped, resized and mirrored.
    pub transform: Transform,
    /// A function of your own that is applied next. It is not part of a loader's state: a training
    /// run that resumes must be given the same function.
    pub augment: Option<Augment>,
    /// A function that is called next, with all fields of a sample. It is not part of a loader's
    /// state either.
    pub each: Option<Each>,
    /// How the samples of a batch are finally blended in pairs;
    /// [`Batch::blended`](super::Batch::blended) has the result. It is not part of a loader's
    /// state.
    pub blend: Option<Blend>,
    /// The type of the images' numbers in a batch. A `Feed` sets this and `layout` itself, by its
    /// own options.
    pub numbers: Numbers,
    /// How these numbers are laid out in memory.
    pub layout: AxisOrder,
    /// The way in which pixels become numbers, unless they stay as they are stored.
    pub normalise: NormaliseBy,
    /// The samples of the split that are used.
    pub select: Select,
    /// Whether each selected sample is delivered once per epoch, or some more often. With anything
    /// but [`Draw::EachOnce`], the order must be `elastic`.
    pub draw: Draw,
    /// Whether the first batches of the next epoch are made while training uses the last ones of
    /// this epoch. The next epoch is the one after it, or the same one again if it was also the
    /// previous one. Batches that are not requested then are thrown away. By default, this is on
    /// only for `train`.
    pub across_epochs: bool,
    /// The total number of epochs, so that no epoch after the last is made ahead.
    pub n_epochs: Option<u64>,
    /// The number of bits of pixels.
    pub depth: Depth,
    /// The channels of the images in a batch, by their numbers from 0 in the bundle, in any
    /// order; [`Field::bands`](gular_bundle::Field) names them. `None` takes all channels; a single
    /// channel (grey) is then copied three times.
    pub bands: Option<Vec<usize>>,
    /// The value of mask pixels that lie outside of the stored mask, where a transform pads the
    /// picture. `None`: the mask's nodata, or else 255 for `u8`, 65,535 for `u16`, -1 for signed
    /// numbers. Losses must ignore it.
    pub mask_fill: Option<i64>,
    /// What the axes of images that are arrays mean, for a bundle that does not say it.
    pub axes: Option<Axes>,
    /// Whether a picture with colours is an error, since `bands` was chosen for grey ones.
    pub only_grey: bool,
    /// What [`LoaderOptions::fitted`] has chosen, and why, in words.
    pub fitted: Option<String>,
    /// Fields that batches have besides `image` and `label`, by name. A `mask` is cropped, resized
    /// and mirrored like its image, without interpolation, and so is every other field on the
    /// image's pixels ([`Field::is_on_image`]): floats without nodata are interpolated, and a
    /// second picture like the image is made as the image is. `image_transform` leads from the
    /// pixels of the batch to the Earth. `image_affine`, which is not stored, leads from them to
    /// those of the stored, upright image: six `f64` in GDAL's order, x = t0 + column·t1 + row·t2,
    /// y = t3 + column·t4 + row·t5. Other fields are delivered as stored.
    pub fields: Vec<String>,
    /// What to do about an image that cannot be decoded.
    pub on_error: OnBadSample,
    /// What to do about a sample whose class is unknown: label -1.
    pub unknown_labels: UnknownLabels,
    /// Whether pictures are rotated by their EXIF orientation. torchvision's `ImageFolder`
    /// and FFCV do not rotate them. Pixels of payload `raw` are already upright.
    pub orientation: OrientationPolicy,
    /// A flag that ends a wait for a batch, within a second, with
    /// [`LoaderError::Stopped`](super::LoaderError::Stopped).
    pub stop: Option<StopFlag>,
    /// How long to wait for a batch to be dropped while all of them are held, before
    /// [`LoaderError::AllLent`](super::LoaderError::AllLent). It is at least ten minutes once a
    /// batch was dropped by another thread than the one that takes them.
    pub lent_patience: Duration,
    /// Limits on the cost of decoding an image.
    pub limits: Limits,
    /// The library that decodes JPEG. The pixel values of libraries differ slightly.
    pub jpeg: JpegBackend,
    /// Whether a JPEG that is shrunk to a sixth or less is decoded at reduced size; by default
    /// within a stated distance of the full decode.
    pub scaling: Scaling,
}

/// What to do about an image that cannot be decoded.
///
/// Such an image is a fault of the dataset, the same in every copy of the bundle. Bytes
/// that differ from the manifest's digest, or cannot be read, are a fault of
/// this copy. They are always an error, since skipping them would make this training run
/// differ from the same run on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadSample {
    /// The batch that would contain it is an error, which names the sample.
    #[default]
    Fail,
    /// The sample is left out: its batch is one sample smaller, and counts it as skipped. This is
    /// for evaluations, which must count each sample once.
    Skip,
    /// The next sample in the order that can be decoded replaces it, cropped and mirrored
    /// differently than at its own position, and the batch counts it as skipped. So all batches
    /// have the same size. This is for training runs. `FORMAT.md`, "Orders".
    Replace,
}

impl LoaderOptions {
    /// Makes the same options as [`LoaderOptions::new`] for one rank of a training run: its share of
    /// the samples.
    #[must_use]
    pub fn for_ranks(split: Split, ranks: &Ranks) -> Self {
        Self { rank: ranks.rank, world_size: ranks.world_size, ..Self::new(split) }
    }

    /// Returns options to load `split` in a process that trains alone: order `elastic` with seed 0,
    /// batches of 64, random crops of 224 pixels for `train`, and the central 224 pixels for the
    /// other splits.
    ///
    /// If several ranks train together, use [`LoaderOptions::for_ranks`]: with this function, each
    /// of them would take all samples.
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
            // This is more than a hundred photographs, or two batches of them.
            read_ahead_bytes: 16 << 20,
            transform: match split {
                Split::Train => Transform::train(224),
                Split::Val | Split::Test => Transform::eval(224),
            },
            augment: None,
            each: None,
            blend: None,
            numbers: Numbers::Stored,
            layout: AxisOrder::ChannelsLast,
            normalise: NormaliseBy::default(),
            select: Select::default(),
            draw: Draw::default(),
            across_epochs: split == Split::Train,
            n_epochs: None,
            depth: Depth::default(),
            bands: None,
            mask_fill: None,
            axes: None,
            only_grey: false,
            fitted: None,
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

    /// The axes of the images, `field`, that are arrays of `shape`.
    pub(super) fn axes_of(&self, field: &Field, shape: &[u64]) -> Result<Axes, Error> {
        let wrong = |reason: String| Err(Error::Option { option: "axes", reason });
        match (&field.axes, &self.axes) {
            (Some(known), Some(given)) if known != given => {
                wrong(format!("`{given}`, but the bundle says that its images are `{known}`"))
            }
            (None, Some(given)) if given.n() != shape.len() => {
                wrong(format!("`{given}`, but the images have the shape {shape:?}"))
            }
            (None, Some(given)) => Ok(given.clone()),
            _ => match field.known_axes() {
                Some(axes) => Ok(axes),
                None => wrong(format!(
                    "the bundle does not say what the axes of its images of shape {shape:?} mean: name them, such as `cyx` for bands, rows and columns, or `yxc`"
                )),
            },
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
                "samples can be drawn by weight only in the order `elastic`, not {}",
                self.order.kind
            );
            return fail("draw", reason);
        }
        self.transform.fault().map_or(Ok(()), |reason| fail("transform", reason))
    }
}
