//! One sample from the bundle into its row.

use std::sync::Arc;

use gular_bundle::{Bundle, Field, SampleId, Split};
use gular_image::{DecodeOptions, Decoder, JpegBackend, Limits, OrientationPolicy, read_header};

use super::LoaderOptions;
use super::pixels::{PixelTools, Pixels, copy};
use super::ring::Ticket;
use super::stats::{Meters, Stage};
use crate::Error;
use crate::augment::Transform;
use crate::order::KeyedRng;

// A thread keeps what it read into; one huge sample must not hold memory for good.
const KEPT_BYTES: usize = 16 << 20;

/// Where samples come from and what is done to them.
#[derive(Debug)]
pub(super) struct Source {
    bundle: Arc<Bundle>,
    split: Split,
    /// Position of `image` in the manifest.
    image: usize,
    /// How it holds pixels, when it is not encoded.
    pixels: Option<Pixels>,
    seed: u64,
    transform: Transform,
    limits: Limits,
    jpeg: JpegBackend,
}

/// What a thread keeps between samples.
pub(super) struct Tools {
    decoder: Decoder,
    pixels: PixelTools,
    /// The sample as stored.
    stored: Vec<u8>,
    /// A picture of which only a part is kept.
    whole: Vec<u8>,
}

impl Source {
    pub(super) fn new(bundle: Arc<Bundle>, options: &LoaderOptions) -> Result<Self, Error> {
        let fields = &bundle.manifest().fields;
        let image = fields.iter().position(|f| f.name.as_str() == "image");
        let image = image.ok_or(Error::NoImages { found: "no field `image`".into() })?;
        let pixels = match fields.get(image).and_then(Field::as_fixed) {
            None => None,
            Some((dtype, shape)) => Some(Pixels::of(dtype, shape).ok_or_else(|| {
                Error::NoImages { found: format!("a field `image` of {dtype:?} {shape:?}") }
            })?),
        };
        Ok(Self {
            image,
            pixels,
            split: options.split,
            seed: options.order.seed,
            transform: options.transform,
            limits: options.limits,
            jpeg: options.jpeg,
            bundle,
        })
    }

    pub(super) fn tools(&self) -> Tools {
        let decoder = Decoder::new(DecodeOptions {
            limits: self.limits,
            orientation: OrientationPolicy::Apply,
            jpeg: self.jpeg,
        });
        let pixels = PixelTools::default();
        Tools { decoder, pixels, stored: Vec::new(), whole: Vec::new() }
    }

    /// Fills `ticket.out`; returns the sample's class, if it has one.
    pub(super) fn make(
        &self,
        ticket: &mut Ticket,
        tools: &mut Tools,
        meters: &Meters,
    ) -> Result<Option<i64>, Error> {
        let id = self.bundle.locate(self.split, ticket.sample)?;
        let shard = meters.time(Stage::Read, || {
            let shard = self.bundle.shard(id.shard)?;
            shard.fetch(id.row, self.image, &mut tools.stored)?;
            Ok::<_, Error>(shard)
        })?;
        meters.count(tools.stored.len());
        meters.time(Stage::Check, || shard.check(id.row, self.image, &tools.stored))?;
        let made = meters.time(Stage::Decode, || self.picture(ticket, tools));
        if tools.stored.capacity() > KEPT_BYTES {
            tools.stored = Vec::new();
        }
        made.map_err(|source| self.decode_error(ticket.sample, id, source))?;
        Ok(shard.label(id.row).map(i64::from))
    }

    fn picture(&self, ticket: &mut Ticket, tools: &mut Tools) -> Result<(), gular_image::Error> {
        let Tools { decoder, pixels: pixel_tools, stored, whole } = tools;
        let (width, height) = match &self.pixels {
            Some(pixels) => (pixels.width, pixels.height),
            None => read_header(stored, &self.limits)?.upright_size(),
        };
        let mut rng = KeyedRng::of_sample(self.seed, ticket.epoch, ticket.sample);
        let placement = self.transform.place(width, height, &mut rng);
        if let Some(pixels) = &self.pixels {
            return pixels.make(stored, &placement, pixel_tools, whole, &mut ticket.out);
        }
        let resize = placement.resize;
        let Some(keep) = placement.keep else {
            return decoder.crop_resize(stored, placement.region, &resize, &mut ticket.out);
        };
        whole.resize(resize.width as usize * resize.height as usize * 3, 0);
        decoder.crop_resize(stored, placement.region, &resize, whole)?;
        copy(whole, resize.width, keep, &mut ticket.out);
        Ok(())
    }

    /// Names a sample as far as the bundle still can.
    pub(super) fn name(&self, sample: u64) -> String {
        let id = self.bundle.locate(self.split, sample);
        id.and_then(|id| self.bundle.key(id))
            .map_or_else(|_| format!("{} {sample}", self.split), |key| key.as_str().to_owned())
    }

    fn decode_error(&self, sample: u64, id: SampleId, source: gular_image::Error) -> Error {
        let shard = self.bundle.manifest().shards.get(id.shard);
        Error::Decode {
            key: self.name(sample),
            shard: shard.map(|s| s.file.name.to_string()).unwrap_or_default(),
            row: id.row,
            source,
        }
    }
}
