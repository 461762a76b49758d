//! One sample from the bundle into its row.

use std::sync::Arc;

use gular_bundle::{Bundle, FieldKind, SampleId, Split};
use gular_image::{DecodeOptions, Decoder, JpegBackend, Limits, OrientationPolicy, read_header};

use super::LoaderOptions;
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
    seed: u64,
    transform: Transform,
    limits: Limits,
    jpeg: JpegBackend,
}

/// What a thread keeps between samples.
pub(super) struct Tools {
    decoder: Decoder,
    /// The sample as stored.
    encoded: Vec<u8>,
    /// A picture of which only a part is kept.
    whole: Vec<u8>,
}

impl Source {
    pub(super) fn new(bundle: Arc<Bundle>, options: &LoaderOptions) -> Result<Self, Error> {
        let fields = &bundle.manifest().fields;
        let image = fields.iter().position(|f| f.name.as_str() == "image");
        let image = image.ok_or(Error::NoImages { found: "no field `image`".into() })?;
        if let Some(FieldKind::Fixed { dtype, shape }) = fields.get(image).map(|f| &f.kind) {
            let found = format!("a field `image` of decoded {dtype:?} {shape:?}");
            return Err(Error::NoImages { found });
        }
        Ok(Self {
            image,
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
        Tools { decoder, encoded: Vec::new(), whole: Vec::new() }
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
            shard.fetch(id.row, self.image, &mut tools.encoded)?;
            Ok::<_, Error>(shard)
        })?;
        meters.count(tools.encoded.len());
        meters.time(Stage::Check, || shard.check(id.row, self.image, &tools.encoded))?;
        let made = meters.time(Stage::Decode, || self.picture(ticket, tools));
        if tools.encoded.capacity() > KEPT_BYTES {
            tools.encoded = Vec::new();
        }
        made.map_err(|source| self.decode_error(ticket.sample, id, source))?;
        Ok(shard.label(id.row).map(i64::from))
    }

    fn picture(&self, ticket: &mut Ticket, tools: &mut Tools) -> Result<(), gular_image::Error> {
        let Tools { decoder, encoded, whole } = tools;
        let (width, height) = read_header(encoded, &self.limits)?.upright_size();
        let mut rng = KeyedRng::of_sample(self.seed, ticket.epoch, ticket.sample);
        let placement = self.transform.place(width, height, &mut rng);
        let resize = placement.resize;
        let Some(keep) = placement.keep else {
            return decoder.crop_resize(encoded, placement.region, &resize, &mut ticket.out);
        };
        whole.resize(resize.width as usize * resize.height as usize * 3, 0);
        decoder.crop_resize(encoded, placement.region, &resize, whole)?;
        let (from, len) = (keep.x as usize * 3, keep.width as usize * 3);
        let rows = whole.chunks_exact(resize.width as usize * 3).skip(keep.y as usize);
        for (out, row) in ticket.out.chunks_exact_mut(len).zip(rows) {
            out.copy_from_slice(&row[from..from + len]);
        }
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
