//! The settings of a loader as programs in other languages write them: JSON.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use gular_augment::{
    Augment, AxisOrder, Blend, Change, Depth, Normalise, NormaliseBy, Numbers, Transform,
};
use gular_bundle::{Axes, CheckWhen, Digest, Split};
use gular_codec::{JpegBackend, Limits, OrientationPolicy, Scaling};
use gular_files::Env;
use gular_order::{OrderKind, OrderSpec};
use serde::Deserialize;

use super::{Draw, Fold, LoaderOptions, OnBadSample, Predicate, Select, Unchosen, UnknownLabels};
use crate::{Error, available_cores};

/// All settings; those that are absent are as in [`LoaderOptions::new`], where samples of unknown
/// class and images that cannot be decoded are errors.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoaderSettings {
    /// The bundle's folder or URL.
    pub source: String,
    /// The split to load.
    pub split: Split,
    /// Only the samples with these keys.
    pub only: Option<Vec<String>>,
    /// Not the samples with these digests.
    pub never: Option<HashSet<Digest>>,
    /// One of several parts of the split, or all others.
    pub fold: Option<Fold>,
    batch_size: usize,
    order: OrderKind,
    seed: u64,
    drop_last: bool,
    rank: u64,
    world_size: u64,
    workers: usize,
    slots: usize,
    read_ahead: Option<u64>,
    transform: Option<Transform>,
    augment: Vec<Change>,
    mixup: Option<f64>,
    cutmix: Option<f64>,
    numbers: Numbers,
    layout: Layout,
    normalise: Option<Scale>,
    depth: Option<Depth>,
    bands: Option<Vec<usize>>,
    axes: Option<Axes>,
    mask_fill: Option<i64>,
    fields: Vec<String>,
    on_bad_sample: OnBadSample,
    unknown_labels: UnknownLabels,
    apply_orientation: bool,
    jpeg: Option<String>,
    scaling: Option<Scaling>,
    max_pixels: Option<u64>,
    draw: Option<Draw>,
    across_epochs: Option<bool>,
    n_epochs: Option<u64>,
    /// When samples are checked.
    pub check: CheckWhen,
    /// Whether files are mapped.
    pub map: bool,
    /// The bundle digest that is wanted.
    pub digest: Option<Digest>,
    /// The node's folder of fetched bundles.
    pub cache: Option<PathBuf>,
    /// The most that the bundle may take there, such as `200GB`.
    pub cache_limit: Option<String>,
    /// Files with tokens for a URL.
    pub token_files: Vec<PathBuf>,
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

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scale {
    Imagenet,
    Bundle,
    Scaled,
    By(Normalise),
}

impl Default for LoaderSettings {
    fn default() -> Self {
        let LoaderOptions { batch_size, order, slots, .. } = LoaderOptions::new(Split::Train);
        Self {
            source: String::new(),
            split: Split::Train,
            only: None,
            never: None,
            fold: None,
            batch_size,
            order: order.kind,
            seed: order.seed,
            drop_last: order.drop_last,
            rank: 0,
            world_size: 1,
            workers: 0,
            slots,
            read_ahead: None,
            transform: None,
            augment: Vec::new(),
            mixup: None,
            cutmix: None,
            numbers: Numbers::default(),
            layout: Layout::Planes,
            normalise: None,
            depth: None,
            bands: None,
            axes: None,
            mask_fill: None,
            fields: Vec::new(),
            on_bad_sample: OnBadSample::default(),
            unknown_labels: UnknownLabels::default(),
            apply_orientation: true,
            jpeg: None,
            scaling: None,
            max_pixels: None,
            draw: None,
            across_epochs: None,
            n_epochs: None,
            check: CheckWhen::default(),
            map: false,
            digest: None,
            cache: None,
            cache_limit: None,
            token_files: Vec::new(),
        }
    }
}

impl LoaderSettings {
    /// Returns the options that follow the bundle's pictures.
    #[must_use]
    pub fn unchosen(&self) -> Unchosen {
        Unchosen { transform: self.transform.is_none(), bands: self.bands.is_none() }
    }

    /// Returns whether images that are stored pixel by pixel name their channels first.
    #[must_use]
    pub fn permuted(&self) -> bool {
        self.layout == Layout::ChannelsLast
    }

    /// Returns whether shards of a URL are fetched on demand: with order `window`, which needs a
    /// few at a time, and if there is a limit.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        let by_windows = matches!(self.order, OrderKind::Window { .. });
        self.source.contains("://") && (by_windows || self.cache_limit.is_some())
    }

    /// How the bundle is opened.
    ///
    /// # Errors
    /// [`Error::Option`] for a limit that is not a size.
    #[cfg(feature = "net")]
    pub fn bundle(&self) -> Result<gular_transfer::BundleOptions, Error> {
        use gular_bundle::{Backend, OpenOptions};
        use gular_files::Size;
        use gular_transfer::{Access, BundleOptions};

        let size = |text: &String| {
            Size::parse(text).map(|size| size.0).ok_or_else(|| {
                let reason = format!(
                    "`{text}` is not a size; expected for example `200GB`, `64GiB` or plain bytes"
                );
                Error::Option { option: "cache_limit", reason }
            })
        };
        let cache_limit = self.cache_limit.as_ref().map(size).transpose()?;
        let backend = if self.map { Backend::Map } else { Backend::Pread };
        Ok(BundleOptions {
            splits: vec![self.split],
            open: OpenOptions {
                check: self.check,
                backend,
                digest: self.digest,
                ..OpenOptions::default()
            },
            cache: self.cache.clone(),
            cache_limit_bytes: cache_limit,
            access: Access { token_files: self.token_files.clone(), ..Access::default() },
            ..BundleOptions::default()
        })
    }

    /// The options of the loader; `only` says which samples it uses.
    ///
    /// # Errors
    /// [`Error::Option`] for what [`Loader::new`](super::Loader::new) cannot see.
    pub fn loader(self, env: &Env, only: Option<Predicate>) -> Result<LoaderOptions, Error> {
        let base = LoaderOptions::new(self.split);
        let fail = |option, reason: &str| Err(Error::Option { option, reason: reason.to_owned() });
        let normalise = match self.normalise {
            None => NormaliseBy::Kind,
            Some(Scale::Imagenet) => Normalise::default().into(),
            Some(Scale::Scaled) => Normalise::scaled().into(),
            Some(Scale::By(numbers)) => numbers.into(),
            Some(Scale::Bundle) => NormaliseBy::Bundle,
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
        Ok(LoaderOptions {
            batch_size: self.batch_size,
            rank: self.rank,
            world_size: self.world_size,
            order: OrderSpec { kind: self.order, seed: self.seed, drop_last: self.drop_last },
            threads: if self.workers == 0 { available_cores(env) } else { self.workers },
            slots: self.slots,
            read_ahead_bytes: self.read_ahead.unwrap_or(base.read_ahead_bytes),
            transform: self.transform.unwrap_or(base.transform),
            augment: Augment::of_changes(self.augment)
                .map_err(|reason| Error::Option { option: "augment", reason })?,
            blend: match (self.mixup, self.cutmix) {
                (None, None) => None,
                (Some(alpha), None) => Some(Blend::MixUp { alpha }),
                (None, Some(alpha)) => Some(Blend::CutMix { alpha }),
                (Some(mixup), Some(cutmix)) => Some(Blend::Either { mixup, cutmix }),
            },
            numbers: self.numbers,
            layout: match self.layout {
                Layout::Planes => AxisOrder::Contiguous,
                Layout::Pixels | Layout::ChannelsLast => AxisOrder::ChannelsLast,
            },
            normalise,
            select: Select { only, never: self.never.map(Arc::new), fold: self.fold },
            draw: self.draw.unwrap_or_default(),
            across_epochs: self.across_epochs.unwrap_or(base.across_epochs),
            n_epochs: self.n_epochs,
            depth: self.depth.unwrap_or_default(),
            bands: self.bands,
            axes: self.axes,
            mask_fill: self.mask_fill,
            fields: self.fields,
            on_error: self.on_bad_sample,
            unknown_labels: self.unknown_labels,
            orientation: match self.apply_orientation {
                true => OrientationPolicy::Apply,
                false => OrientationPolicy::Ignore,
            },
            jpeg,
            scaling: self.scaling.unwrap_or(base.scaling),
            limits: self.max_pixels.map_or(base.limits, |max_pixels| Limits { max_pixels }),
            ..base
        })
    }
}
