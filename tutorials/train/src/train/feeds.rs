//! Makes the feeds that deliver batches.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::Result;
use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::torch::{AxisOrder, Feed, FeedOptions, Numbers, Place};
use gular_runtime::{
    Bundle, Digest, Draw, Env, Fold, LoaderOptions, LoaderPlan, Normalise, OnBadSample,
    OrientationPolicy, Ranks, Select, Split, StopFlag, Transform, available_cores,
};

use crate::args::{Drawn, Precision, TrainArgs};

/// The settings that the feeds of all splits share.
pub(super) struct Feeds<'a> {
    pub(super) args: &'a TrainArgs,
    pub(super) bundle: &'a Arc<Bundle>,
    pub(super) place: &'a Place,
    pub(super) ranks: &'a Ranks,
    pub(super) env: &'a Env,
    pub(super) stop: &'a StopFlag,
    pub(super) normalise: &'a Normalise,
    /// Digests of images that are left out of training.
    pub(super) never: Option<Arc<HashSet<Digest>>>,
}

impl Feeds<'_> {
    /// Returns the batches of `split`, on the device.
    pub(super) fn of(&self, split: Split) -> Result<Feed> {
        let Self { args, bundle, place, ranks, env, stop, normalise, never } = self;
        let kind = match split {
            Split::Train => args.order_kind(),
            // With this order ranks share the samples without repeating one.
            _ => OrderKind::Elastic,
        };
        let fold = args.fold.map(|(number, of)| {
            let held_out = split != Split::Train;
            // Always the same division, so that training runs of other seeds may be compared.
            Fold { of, number, held_out, seed: 0 }
        });
        // A fold to validate on is one of the training split.
        let of_split = if fold.is_some() { Split::Train } else { split };
        let options = LoaderOptions {
            select: Select {
                fold,
                never: never.clone().filter(|_| split == Split::Train),
                ..Select::default()
            },
            draw: match (args.draw, split) {
                (Drawn::ByClass, Split::Train) => Draw::ByClass,
                _ => Draw::EachOnce,
            },
            across_epochs: split == Split::Train,
            batch_size: args.data.batch_size.get(),
            order: OrderSpec { kind, seed: args.seed, drop_last: false },
            threads: args.data.jobs.unwrap_or_else(|| available_cores(env)),
            transform: match split {
                Split::Train => args.augment.transform(args.size),
                _ => Transform::eval(args.size),
            },
            augment: args.augment.function().filter(|_| split == Split::Train),
            blend: args.augment.blend().filter(|_| split == Split::Train),
            scaling: args.scaling.into(),
            on_error: match (args.skip_broken, split) {
                (false, _) => OnBadSample::Fail,
                (true, Split::Train) => OnBadSample::Replace,
                (true, _) => OnBadSample::Skip,
            },
            n_epochs: Some(args.epochs),
            unknown_labels: args.unknown_labels.into(),
            depth: args.depth.into(),
            normalise: (*normalise).clone().into(),
            orientation: match args.data.ignore_exif {
                true => OrientationPolicy::Ignore,
                false => OrientationPolicy::Apply,
            },
            stop: Some((*stop).clone()),
            ..LoaderOptions::for_ranks(of_split, ranks)
        };
        let feed = match (args.precision, split) {
            // The numbers are those that mixed precision would make of `f32`, in the layout that
            // products on a GPU use.
            (Precision::Bf16, Split::Train) => FeedOptions {
                numbers: Numbers::Bf16,
                layout: match place.device().is_cuda() {
                    true => AxisOrder::ChannelsLast,
                    false => AxisOrder::Contiguous,
                },
                ..FeedOptions::default()
            },
            _ => FeedOptions::default(),
        };
        Ok(Feed::new(LoaderPlan::new(Arc::clone(bundle), options)?, place, feed)?)
    }
}
