//! The settings of a loader, as the package writes them in JSON.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use gular_runtime::augment::Blend;
use gular_runtime::order::{OrderKind, OrderSpec, Weights};
use gular_runtime::{
    AxisOrder, Backend, BundleOptions, CheckWhen, Depth, Digest, Draw, Env, Error, Fold,
    JpegBackend, Limits, LoaderOptions, Normalise, NormaliseBy, Numbers, OnBadSample, OpenOptions,
    OrientationPolicy, Predicate, Scaling, Select, Size, Split, Transform, Unchosen, UnknownLabels,
    available_cores,
};
use serde::Deserialize;

use crate::augment::{Change, augment};
use crate::selection::{Asked, Keys};

/// All options; options that are absent are those of [`LoaderOptions::new`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) source: String,
    pub(crate) split: Split,
    batch_size: usize,
    order: OrderSetting,
    seed: u64,
    drop_last: bool,
    rank: u64,
    world_size: u64,
    workers: usize,
    slots: usize,
    read_ahead: Option<u64>,
    transform: Option<Shape>,
    augment: Vec<Change>,
    mixup: Option<f64>,
    cutmix: Option<f64>,
    numbers: NumberKind,
    layout: Layout,
    normalise: Option<Scale>,
    depth: Option<Bits>,
    bands: Option<Vec<usize>>,
    axes: Option<gular_runtime::Axes>,
    mask_fill: Option<i64>,
    fields: Vec<String>,
    on_bad_sample: Bad,
    unknown_labels: Unknown,
    apply_orientation: bool,
    jpeg: Option<String>,
    scaling: Option<Reduction>,
    max_pixels: Option<u64>,
    only: Option<Vec<String>>,
    never: Option<HashSet<Digest>>,
    fold: Option<FoldOf>,
    draw: Option<Drawing>,
    across_epochs: Option<bool>,
    n_epochs: Option<u64>,
    check: When,
    map: bool,
    digest: Option<Digest>,
    cache: Option<PathBuf>,
    cache_limit: Option<String>,
    token_files: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum OrderSetting {
    Elastic,
    Torch { shuffle: bool },
    Window { shards: u64 },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Shape {
    Random { width: u32, height: u32, scale: (f64, f64), ratio: (f64, f64), flip: f64 },
    Pad { width: u32, height: u32, padding: u32, flip: f64 },
    Center { width: u32, height: u32, resize_short: Option<u32> },
    Whole { width: u32, height: u32 },
    Resize { width: u32, height: u32 },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reduction {
    Full,
    Reduced,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NumberKind {
    F32,
    F16,
    Bf16,
    Stored,
}

/// The order of images in memory, and the order in which their axes are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Layout {
    #[serde(rename = "NCHW")]
    Planes,
    #[serde(rename = "NHWC")]
    Pixels,
    /// The order in memory is `NHWC`, and the names are in the order `NCHW`.
    #[serde(rename = "channels_last")]
    ChannelsLast,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Scale {
    Imagenet,
    Bundle,
    Scaled,
    By { scale: Option<f32>, mean: Vec<f32>, std: Vec<f32> },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Bits {
    U8,
    U16,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Bad {
    Fail,
    Skip,
    Replace,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unknown {
    Refuse,
    Drop,
    Ignore,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FoldOf {
    of: u64,
    number: u64,
    held_out: bool,
    seed: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Drawing {
    Class,
    Weights(Vec<f64>),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum When {
    OnFetch,
    FirstTouch,
    Always,
}

impl Settings {
    /// Returns the request for samples of the split; `selects` says whether the user has given a
    /// function.
    pub(crate) fn asked(&mut self, selects: bool) -> Asked {
        let by = [
            ("keys", self.only.is_some()),
            ("select", selects),
            ("never", self.never.is_some()),
            ("fold", self.fold.is_some()),
        ];
        let by = by.into_iter().find_map(|(option, is_given)| is_given.then_some(option));
        Asked { split: self.split, by, keys: self.only.take().map(Keys::new) }
    }

    /// Returns the options that follow the bundle's pictures.
    pub(crate) fn unchosen(&self) -> Unchosen {
        Unchosen { transform: self.transform.is_none(), bands: self.bands.is_none() }
    }

    /// Returns whether images that are stored pixel by pixel name their channels first.
    pub(crate) fn permuted(&self) -> bool {
        self.layout == Layout::ChannelsLast
    }

    /// Returns whether shards of a URL are fetched on demand: with order `window`, which needs a
    /// few at a time, and if there is a limit.
    pub(crate) fn is_streamed(&self) -> bool {
        let by_windows = matches!(self.order, OrderSetting::Window { .. });
        self.source.contains("://") && (by_windows || self.cache_limit.is_some())
    }

    /// # Errors
    /// [`Error::Option`] for a limit that is not a size.
    pub(crate) fn bundle(&self) -> Result<BundleOptions, Error> {
        let size = |text: &String| {
            Size::parse(text).map(|size| size.0).ok_or_else(|| {
                let reason = format!(
                    "`{text}` is not a size; expected for example `200GB`, `64GiB` or plain bytes"
                );
                Error::Option { option: "cache_limit", reason }
            })
        };
        let cache_limit = self.cache_limit.as_ref().map(size).transpose()?;
        let check = match self.check {
            When::OnFetch => CheckWhen::OnFetch,
            When::FirstTouch => CheckWhen::FirstTouch,
            When::Always => CheckWhen::Always,
        };
        let backend = if self.map { Backend::Map } else { Backend::Pread };
        Ok(BundleOptions {
            splits: vec![self.split],
            open: OpenOptions { check, backend, digest: self.digest, ..OpenOptions::default() },
            cache: self.cache.clone(),
            cache_limit_bytes: cache_limit,
            token_files: self.token_files.clone(),
            ..BundleOptions::default()
        })
    }

    /// # Errors
    /// [`Error::Option`] for what [`gular_runtime::Loader::new`] cannot see.
    pub(crate) fn loader(self, env: &Env, only: Option<Predicate>) -> Result<LoaderOptions, Error> {
        let base = LoaderOptions::new(self.split);
        let fail = |option, reason: &str| Err(Error::Option { option, reason: reason.to_owned() });
        let normalise = match self.normalise {
            None => NormaliseBy::Kind,
            Some(Scale::Imagenet) => Normalise::default().into(),
            Some(Scale::Scaled) => Normalise::scaled().into(),
            Some(Scale::By { scale, mean, std }) => Normalise { scale, mean, std }.into(),
            Some(Scale::Bundle) => NormaliseBy::Bundle,
        };
        let draw = match self.draw {
            None => Draw::EachOnce,
            Some(Drawing::Class) => Draw::ByClass,
            Some(Drawing::Weights(weights)) => match Weights::scaled(&weights) {
                Some(weights) => Draw::ByWeight(weights),
                None => return fail("draw", "expected weights of 0 or more, and not all 0"),
            },
        };
        let jpeg = match self.jpeg.as_deref() {
            None => JpegBackend::default(),
            Some(name) => {
                let words =
                    |backend: &&JpegBackend| backend.name().split(['-', ' ']).any(|w| w == name);
                match JpegBackend::ALL.iter().find(words) {
                    Some(backend) => *backend,
                    None => return fail("jpeg", &format!("this build does not have `{name}`")),
                }
            }
        };
        let kind = match self.order {
            OrderSetting::Elastic => OrderKind::Elastic,
            OrderSetting::Torch { shuffle } => OrderKind::Torch { shuffle },
            OrderSetting::Window { shards } => OrderKind::Window { shards },
        };
        let fold = self.fold.map(|fold| {
            let FoldOf { of, number, held_out, seed } = fold;
            Fold { of, number, held_out, seed }
        });
        Ok(LoaderOptions {
            batch_size: self.batch_size,
            rank: self.rank,
            world_size: self.world_size,
            order: OrderSpec { kind, seed: self.seed, drop_last: self.drop_last },
            threads: if self.workers == 0 { available_cores(env) } else { self.workers },
            slots: self.slots,
            read_ahead_bytes: self.read_ahead.unwrap_or(base.read_ahead_bytes),
            transform: self.transform.map_or(base.transform, Shape::transform),
            augment: augment(self.augment)?,
            blend: match (self.mixup, self.cutmix) {
                (None, None) => None,
                (Some(alpha), None) => Some(Blend::MixUp { alpha }),
                (None, Some(alpha)) => Some(Blend::CutMix { alpha }),
                (Some(mixup), Some(cutmix)) => Some(Blend::Either { mixup, cutmix }),
            },
            numbers: match self.numbers {
                NumberKind::F32 => Numbers::F32,
                NumberKind::F16 => Numbers::F16,
                NumberKind::Bf16 => Numbers::Bf16,
                NumberKind::Stored => Numbers::Stored,
            },
            layout: match self.layout {
                Layout::Planes => AxisOrder::Contiguous,
                Layout::Pixels | Layout::ChannelsLast => AxisOrder::ChannelsLast,
            },
            normalise,
            select: Select { only, never: self.never.map(Arc::new), fold },
            draw,
            across_epochs: self.across_epochs.unwrap_or(base.across_epochs),
            n_epochs: self.n_epochs,
            depth: match self.depth {
                None => Depth::Stored,
                Some(Bits::U8) => Depth::U8,
                Some(Bits::U16) => Depth::U16,
            },
            bands: self.bands,
            axes: self.axes,
            mask_fill: self.mask_fill,
            fields: self.fields,
            on_error: match self.on_bad_sample {
                Bad::Fail => OnBadSample::Fail,
                Bad::Skip => OnBadSample::Skip,
                Bad::Replace => OnBadSample::Replace,
            },
            unknown_labels: match self.unknown_labels {
                Unknown::Refuse => UnknownLabels::Refuse,
                Unknown::Drop => UnknownLabels::Drop,
                Unknown::Ignore => UnknownLabels::Ignore,
            },
            orientation: match self.apply_orientation {
                true => OrientationPolicy::Apply,
                false => OrientationPolicy::Ignore,
            },
            jpeg,
            scaling: match self.scaling {
                None => base.scaling,
                Some(Reduction::Full) => Scaling::Full,
                Some(Reduction::Reduced) => Scaling::Reduced,
            },
            limits: self.max_pixels.map_or(base.limits, |max_pixels| Limits { max_pixels }),
            ..base
        })
    }
}

impl Shape {
    fn transform(self) -> Transform {
        match self {
            Self::Random { width, height, scale, ratio, flip } => {
                Transform::Train { width, height, scale, ratio, flip }
            }
            Self::Pad { width, height, padding, flip } => {
                Transform::Crop { width, height, padding, flip }
            }
            Self::Center { width, height, resize_short } => {
                // The ratio is that of 256 to 224.
                let short = width.min(height);
                let resize_short = resize_short.unwrap_or(short.saturating_add(short / 7));
                Transform::Eval { resize_short, width, height }
            }
            Self::Whole { width, height } => Transform::Whole { width, height },
            Self::Resize { width, height } => Transform::Resize { width, height },
        }
    }
}
