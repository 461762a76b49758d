//! One sample from the bundle into its row.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use gular_bundle::{Bundle, Field, FieldIdx, Row, SampleId, Shard, Split};
use gular_codec::{DecodeOptions, Decoder, JpegBackend, Limits, OrientationPolicy, read_header};

use super::ahead::Ahead;
use super::batch_slots::Ticket;
use super::labels::{self, UNKNOWN};
use super::pixels::{PixelTools, Pixels, copy};
use super::stats::{Meters, Phase};
use super::{IGNORED_LABEL, LoaderError, LoaderOptions, OnBadSample, UnknownLabels};
use crate::Error;
use crate::augment::Transform;
use crate::order::{KeyedRng, term};

// A thread keeps what it read into; one huge sample must not hold memory for good.
const KEPT_BYTES: usize = 16 << 20;

/// Where samples come from and what is done to them.
#[derive(Debug)]
pub(super) struct Source {
    bundle: Arc<Bundle>,
    split: Split,
    /// Position of `image` in the manifest.
    image: FieldIdx,
    /// How it holds pixels, when it is not encoded.
    pixels: Option<Pixels>,
    seed: u64,
    transform: Transform,
    on_error: OnBadSample,
    unknown_labels: UnknownLabels,
    narrow_u16: bool,
    orientation: OrientationPolicy,
    limits: Limits,
    jpeg: JpegBackend,
}

/// Why there is no picture.
enum Unmade {
    Undecodable(gular_codec::Error),
    /// It has 16 bits, and nobody asked for 8 of them.
    U16,
}

impl From<gular_codec::Error> for Unmade {
    fn from(error: gular_codec::Error) -> Self {
        Self::Undecodable(error)
    }
}

/// The error of pixels that would lose bits unasked.
fn would_narrow(what: &str) -> Error {
    let reason =
        format!("{what} has pixels of 16 bits, batches hold 8: set it to keep the high byte");
    Error::Option { option: "narrow_u16", reason }
}

/// What a thread keeps between samples.
pub(super) struct Tools {
    decoder: Decoder,
    pixels: PixelTools,
    /// The sample as stored; unused where files are mapped.
    stored: Vec<u8>,
    /// A picture of which only a part is kept.
    whole: Vec<u8>,
    /// Who may have read the sample already.
    ahead: Option<Arc<Ahead>>,
}

/// A sample as it is stored, not read yet.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    shard: Arc<Shard>,
    row: Row,
    pub(super) bytes: u64,
}

/// Waits here, and not in a decoder, for pages of a map that are not in memory.
fn touch(bytes: &[u8]) {
    /// The smallest there is.
    const PAGE: usize = 4096;
    let sum = bytes.iter().step_by(PAGE).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    black_box(sum);
}

impl Source {
    pub(super) fn new(bundle: Arc<Bundle>, options: &LoaderOptions) -> Result<Self, Error> {
        let image = bundle.manifest().image();
        let image = image.ok_or(LoaderError::NoImages { found: "no field `image`".into() })?;
        let pixels = match image.of(&bundle.manifest().fields).and_then(Field::as_fixed) {
            None => None,
            Some((dtype, shape)) => Some(Pixels::of(dtype, shape).ok_or_else(|| {
                LoaderError::NoImages { found: format!("a field `image` of {dtype:?} {shape:?}") }
            })?),
        };
        if pixels.is_some_and(|pixels| pixels.are_u16()) && !options.narrow_u16 {
            return Err(would_narrow("field `image`"));
        }
        Ok(Self {
            image,
            pixels,
            split: options.split,
            seed: options.order.seed,
            transform: options.transform,
            on_error: options.on_error,
            unknown_labels: options.unknown_labels,
            narrow_u16: options.narrow_u16,
            orientation: options.orientation,
            limits: options.limits,
            jpeg: options.jpeg,
            bundle,
        })
    }

    pub(super) fn tools(&self, ahead: Option<&Arc<Ahead>>) -> Tools {
        let decoder = Decoder::new(DecodeOptions {
            limits: self.limits,
            orientation: self.orientation,
            jpeg: self.jpeg,
        });
        let pixels = PixelTools::default();
        let ahead = ahead.cloned();
        Tools { decoder, pixels, stored: Vec::new(), whole: Vec::new(), ahead }
    }

    /// Where a sample's bytes are, and how many; opens its shard.
    pub(super) fn stored(&self, sample: u64) -> Result<Stored, Error> {
        let id = self.bundle.locate(self.split, sample)?;
        let shard = self.bundle.shard(id.shard)?;
        let bytes = shard.len_of(id.row, self.image)?.unwrap_or(0) as u64;
        Ok(Stored { shard, row: id.row, bytes })
    }

    /// Reads `stored` into `bytes`, not checked; of a map brings its pages into memory, and
    /// leaves `bytes` empty.
    pub(super) fn read(&self, stored: &Stored, bytes: &mut Vec<u8>) -> Result<(), Error> {
        touch(stored.shard.view(stored.row, self.image, bytes)?);
        Ok(())
    }

    /// Fills `ticket.out` with its sample, or as [`OnBadSample`] says with another one or with
    /// nothing; returns its class, if it has one.
    pub(super) fn deliver(
        &self,
        ticket: &mut Ticket,
        tools: &mut Tools,
        meters: &Meters,
    ) -> Result<Option<i64>, Error> {
        let is_broken = |error: &Error| matches!(error, Error::Loader(LoaderError::Decode { .. }));
        let error = match self.make(ticket, tools, meters) {
            Err(error) if self.on_error != OnBadSample::Fail && is_broken(&error) => error,
            made => return made,
        };
        if self.on_error == OnBadSample::Skip {
            ticket.broken = Some(error);
            return Ok(None);
        }
        // The tally counts what belongs there.
        let (of, term) = (Arc::clone(&ticket.of), ticket.term);
        for sample in of.replacements(ticket.position) {
            (ticket.sample, ticket.draws) = (sample, KeyedRng::of_position(ticket.position));
            match self.make(ticket, tools, meters) {
                Err(error) if is_broken(&error) => {}
                made => {
                    (ticket.term, ticket.broken) = (term, Some(error));
                    return made;
                }
            }
        }
        Err(error)
    }

    /// Fills `ticket.out`; returns the sample's class, if it has one.
    fn make(
        &self,
        ticket: &mut Ticket,
        tools: &mut Tools,
        meters: &Meters,
    ) -> Result<Option<i64>, Error> {
        let id = self.bundle.locate(self.split, ticket.sample)?;
        let mut buffer = std::mem::take(&mut tools.stored);
        let shard = meters.time(Phase::Read, || self.bundle.shard(id.shard))?;
        let ahead = tools.ahead.as_deref();
        let taken = meters.time(Phase::Read, || ahead.and_then(|ahead| ahead.take(ticket)));
        meters.count_ahead(taken.is_some());
        let stored = match taken {
            Some(bytes) if !bytes.is_empty() => {
                buffer = bytes;
                &buffer
            }
            // Mapped, or not read: what is in memory already takes no time.
            _ => meters.time(Phase::Read, || {
                let since = Instant::now();
                let stored = shard.view(id.row, self.image, &mut buffer)?;
                touch(stored);
                if let Some(ahead) = ahead {
                    ahead.note(since.elapsed(), stored.len());
                }
                Ok::<_, Error>(stored)
            })?,
        };
        meters.count(stored.len());
        meters.time(Phase::Check, || shard.check(id.row, self.image, stored))?;
        ticket.term = self.term(&shard, id.row, ticket.of.epoch, ticket.position, ticket.sample)?;
        let made = meters.time(Phase::Decode, || self.picture(stored, ticket, tools));
        if buffer.capacity() <= KEPT_BYTES {
            tools.stored = buffer;
        }
        made.map_err(|unmade| match unmade {
            Unmade::Undecodable(source) => self.decode_error(ticket.sample, id, source),
            Unmade::U16 => would_narrow(&format!("sample `{}`", self.name(ticket.sample))),
        })?;
        match (shard.label(id.row)?, self.unknown_labels) {
            (Some(UNKNOWN), UnknownLabels::Ignore) => Ok(Some(IGNORED_LABEL)),
            // Of a split with too many shards to be looked through at the start.
            (Some(UNKNOWN), _) => {
                Err(labels::refused(&format!("sample `{}` has no class", self.name(ticket.sample))))
            }
            (label, _) => Ok(label.map(i64::from)),
        }
    }

    fn picture(&self, stored: &[u8], ticket: &mut Ticket, tools: &mut Tools) -> Result<(), Unmade> {
        let Tools { decoder, pixels: pixel_tools, whole, .. } = tools;
        let (width, height) = match &self.pixels {
            Some(pixels) => (pixels.width, pixels.height),
            None => {
                let header = read_header(stored, &self.limits)?;
                if header.bit_depth > 8 && !self.narrow_u16 {
                    return Err(Unmade::U16);
                }
                match self.orientation {
                    OrientationPolicy::Apply => header.upright_size(),
                    OrientationPolicy::Ignore => (header.width, header.height),
                }
            }
        };
        let mut rng = KeyedRng::of_sample(self.seed, ticket.of.epoch, ticket.draws);
        let placement = self.transform.place(width, height, &mut rng);
        if let Some(pixels) = &self.pixels {
            pixels.make(stored, &placement, pixel_tools, whole, &mut ticket.out)?;
            return Ok(());
        }
        let resize = placement.resize;
        let Some(keep) = placement.keep else {
            decoder.crop_resize(stored, placement.region, &resize, &mut ticket.out)?;
            return Ok(());
        };
        whole.resize(resize.width as usize * resize.height as usize * 3, 0);
        decoder.crop_resize(stored, placement.region, &resize, whole)?;
        copy(whole, resize.width, keep, &mut ticket.out);
        Ok(())
    }

    /// What sample `sample`, row `row` of `shard`, adds to the tally of `epoch` at `position`.
    pub(super) fn term(
        &self,
        shard: &Shard,
        row: Row,
        epoch: u64,
        position: u64,
        sample: u64,
    ) -> Result<Option<u64>, Error> {
        let digest = shard.digest(row, self.image)?;
        Ok(digest.map(|digest| term(epoch, position, sample, &digest)))
    }

    pub(super) fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Names a sample as far as the bundle still can.
    pub(super) fn name(&self, sample: u64) -> String {
        let id = self.bundle.locate(self.split, sample);
        id.and_then(|id| self.bundle.key(id))
            .map_or_else(|_| format!("{} {sample}", self.split), |key| key.as_str().to_owned())
    }

    fn decode_error(&self, sample: u64, id: SampleId, source: gular_codec::Error) -> Error {
        let shard = id.shard.of(&self.bundle.manifest().shards);
        let shard = shard.map(|s| s.file.name.to_string()).unwrap_or_default();
        LoaderError::Decode { key: self.name(sample), shard, row: id.row.0, source }.into()
    }
}

#[cfg(test)]
mod tests {
    use gular_bundle::{
        About, Backend, BundlePath, DATA_DIR, Envelope, FieldName, Manifest, OpenOptions, Payload,
        ShardIdx, ShardSpec, ShardWriter, write_manifest,
    };

    use super::super::batch_slots::{BatchSlots, Run, Span, Waiting};
    use super::*;
    use crate::order::{EpochOrder, OrderKind, OrderSpec};

    const SIDE: u32 = 6;

    /// A bundle of one picture in `dir`.
    fn write(dir: &std::path::Path) {
        let data = dir.join(DATA_DIR);
        std::fs::create_dir(&data).unwrap();
        let fields = vec![Field::bytes(FieldName::image(), vec!["image/png".into()])];
        let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
        let mut writer = ShardWriter::create(&data, &spec).unwrap();
        let pixels: Vec<u8> = (0..SIDE * SIDE * 3).map(|i| i as u8).collect();
        let image = gular_codec::encode_png(&pixels, SIDE, SIDE).unwrap();
        writer.push(&BundlePath::parse("0.png").unwrap(), &[&image]).unwrap();
        let manifest = Manifest {
            envelope: Envelope::Shards,
            payload: Payload::Encoded,
            classes: Vec::new(),
            fields,
            made: [].into(),
            about: About::default(),
            statistics: None,
            shards: vec![writer.finish().unwrap()],
        };
        write_manifest(dir, &manifest).unwrap();
    }

    /// The picture, and the bytes that a thread holds of it as it is stored.
    fn made(dir: &std::path::Path, backend: Backend) -> (Result<Vec<u8>, Error>, usize) {
        let open = OpenOptions { backend, ..OpenOptions::default() };
        let bundle = Arc::new(Bundle::open(dir, open).unwrap());
        let options =
            LoaderOptions { transform: Transform::eval(SIDE), ..LoaderOptions::new(Split::Train) };
        let source = Source::new(bundle, &options).unwrap();
        let ring = BatchSlots::new(2, 1, (SIDE * SIDE * 3) as usize, Waiting::default()).unwrap();
        let order = OrderSpec { kind: OrderKind::Elastic, seed: 0, drop_last: false };
        let order = EpochOrder::new(&order, &[1], 0, 1);
        let span = Span::new(0, 1, 1, false);
        ring.start(Run { order, chosen: Arc::default(), epoch: 0, span, rank: 0, world_size: 1 });
        let meters = Meters::default();
        let mut ticket = ring.take(&meters).unwrap();
        let mut tools = source.tools(None);
        let made = source.make(&mut ticket, &mut tools, &meters);
        (made.map(|_| ticket.out.to_vec()), tools.stored.capacity())
    }

    #[test]
    fn what_is_mapped_is_decoded_where_it_lies_and_checked_before() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path());
        let (read, held) = made(dir.path(), Backend::Pread);
        assert!(held > 0);
        let (mapped, held) = made(dir.path(), Backend::Map);
        assert_eq!((mapped.unwrap(), held), (read.unwrap(), 0));

        let bundle = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
        let path = bundle.path_of(&bundle.manifest().shards[0].file);
        let shard = bundle.shard(ShardIdx(0)).unwrap();
        let (offset, len) = shard.range(Row(0), FieldIdx(0)).unwrap().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[usize::try_from(offset).unwrap() + len / 2] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        for backend in [Backend::Pread, Backend::Map] {
            let error = made(dir.path(), backend).0.unwrap_err().to_string();
            assert!(error.starts_with("sample `0.png` in `"), "{backend:?}: {error}");
        }
    }
}
