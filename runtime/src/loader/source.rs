//! Loads one sample from the bundle into its row.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use gular_bundle::{
    Bundle, Field, FieldIdx, FieldKind, Row, SampleEntry, SampleId, Shard, ShardIdx, Split,
};
use gular_codec::{
    DecodeOptions, Decoder, Header, JpegBackend, Limits, Orientation, OrientationPolicy, Resize,
    Sample, Scaling, read_header,
};

use super::ahead::Ahead;
use super::batch_slots::Ticket;
use super::boxes::{OF_BOXES, keep_rows, move_boxes, reach_beyond};
use super::columns::Column;
use super::fields::{Fields, ImageField, InterpolatedField, NearestField, OtherKind, RGB};
use super::fitted::is_grey;
use super::labels::{self, UNKNOWN};
use super::pixels::{Kept, Part, PixelTools, PixelType, copy, move_mask, planes};
use super::sample_function::{EachStage, EachTools, GivenSample};
use super::slot::Cell;
use super::stats::{Meters, Phase};
use super::{
    Depth, IGNORED_LABEL, LoaderError, LoaderOptions, Normalise, OnBadSample, UnknownLabels,
};
use crate::Error;
use crate::augment::{Affine, Augment, MaskView, PictureEdit, Placement, Transform};
use crate::order::{KeyedRng, Visit, term};

/// Bytes of a number of a transform.
const F64_BYTES: usize = 8;

/// Words in the names of columns that tell places.
const PLACES: [&str; 6] = ["box", "corner", "landmark", "point", "polygon", "vertex"];

// A thread keeps what it read into; one huge sample must not hold memory for good.
const KEPT_BYTES: usize = 16 << 20;

/// The source of samples, and what is done to them.
#[derive(Debug)]
pub(super) struct Source {
    bundle: Arc<Bundle>,
    split: Split,
    fields: Fields,
    seed: u64,
    transform: Transform,
    augment: Option<Augment>,
    each: Option<EachStage>,
    on_error: OnBadSample,
    unknown_labels: UnknownLabels,
    depth: Depth,
    orientation: OrientationPolicy,
    limits: Limits,
    jpeg: JpegBackend,
    scaling: Scaling,
    only_grey: bool,
}

/// Why no picture could be made.
enum Unmade {
    Undecodable(gular_codec::Error),
    /// The image has 16 bits, and no option says what to do with them.
    U16,
    /// The image has colours, and one channel was chosen as others are grey.
    Colours,
    /// The image is stored turned and stays so, but its mask or its boxes are those of the upright
    /// image.
    Turned,
    /// A value of boxes, or of what is said of them, is not one, or has another number of them.
    NoBoxes,
    /// A field on the image's pixels has another size than the image.
    Size {
        field: (u32, u32),
        image: (u32, u32),
    },
}

impl From<gular_codec::Error> for Unmade {
    fn from(error: gular_codec::Error) -> Self {
        Self::Undecodable(error)
    }
}

/// Buffers that a thread keeps between samples.
pub(super) struct Tools {
    decoder: Decoder,
    pixels: PixelTools,
    /// Of fields that move with the image, whose own pixels are kept until the end.
    second: PixelTools,
    each: EachTools,
    /// The sample as stored; unused where files are mapped.
    stored: Vec<u8>,
    /// The reader that may have read the sample already.
    ahead: Option<Arc<Ahead>>,
}

/// A sample as it is stored, not read yet.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    shard: Arc<Shard>,
    row: Row,
    pub(super) bytes: u64,
}

/// The values that were read of a sample, by field.
pub(super) type Values = Vec<(FieldIdx, Vec<u8>)>;

/// A value of a sample.
struct Value<'a> {
    shard: &'a Shard,
    id: SampleId,
    field: FieldIdx,
    /// The entry of the sample in the index.
    entry: &'a SampleEntry,
    /// The value's bytes, if they were read already.
    read: Option<Vec<u8>>,
}

impl Value<'_> {
    /// Returns the value's bytes, or `part` of them, not checked.
    fn view<'a>(
        &'a self,
        part: Option<Range<usize>>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], gular_bundle::Error> {
        let Self { shard, id, field, entry, .. } = *self;
        match part {
            part if entry.field() == field => shard.view_entry(entry, part, buffer),
            Some(part) => shard.view_part(id.row, field, part, buffer),
            None => shard.view(id.row, field, buffer),
        }
    }

    /// Reads bytes of the value from `start` on into `out`, not checked.
    fn read_part(&self, start: usize, out: &mut [u8]) -> Result<(), gular_bundle::Error> {
        match self.entry.field() == self.field {
            true => self.shard.read_entry(self.entry, start, out),
            false => self.shard.read_part(self.id.row, self.field, start, out),
        }
    }

    /// Whether a part of the value may be read alone.
    fn needs_no_check(&self) -> bool {
        self.read.is_none() && self.shard.is_checked(self.id.row, self.field)
    }
}

impl Tools {
    /// Tells the reader that reads ahead how long a read took.
    fn note(&self, since: Instant, bytes: usize) {
        if let Some(ahead) = &self.ahead {
            ahead.note(since.elapsed(), bytes);
        }
    }
}

/// The size of a sample's picture, and what is done to it.
type Placed = ((u32, u32), Placement);

/// Waits here, and not in a decoder, for pages of a map that are not in memory.
fn touch(bytes: &[u8]) {
    /// Smallest size of a page.
    const PAGE: usize = 4096;
    let sum = bytes.iter().step_by(PAGE).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    black_box(sum);
}

impl Source {
    pub(super) fn new(bundle: Arc<Bundle>, options: &LoaderOptions) -> Result<Self, Error> {
        let fields = Fields::new(&bundle, options)?;
        Ok(Self {
            each: EachStage::new(&fields, options)?,
            fields,
            split: options.split,
            seed: options.order.seed,
            transform: options.transform,
            augment: options.augment.clone(),
            on_error: options.on_error,
            unknown_labels: options.unknown_labels,
            depth: options.depth,
            orientation: options.orientation,
            limits: options.limits,
            jpeg: options.jpeg,
            scaling: options.scaling,
            only_grey: options.only_grey,
            bundle,
        })
    }

    /// Returns the fields in a row of a batch.
    pub(super) fn columns(&self) -> &[Column] {
        self.each.as_ref().map_or(&self.fields.columns, EachStage::columns)
    }

    /// Whether the first field in a row is a picture.
    pub(super) fn has_pictures(&self) -> bool {
        self.fields.image.is_some() && !self.each.as_ref().is_some_and(EachStage::is_collected)
    }

    /// Ends calls of the training program's function, with errors.
    pub(super) fn end(&self) {
        self.each.iter().for_each(EachStage::end);
    }

    /// Whether pixels become a row as soon as they are decoded.
    fn is_plain(&self) -> bool {
        self.augment.is_none() && self.each.is_none()
    }

    /// The first field that is moved with the image.
    pub(super) fn moved(&self) -> Option<&str> {
        let other = self.fields.others.iter().find(|other| other.kind.is_moved())?;
        Some(other.field.of(&self.bundle.manifest().fields)?.name.as_str())
    }

    /// The fields that are delivered as stored although the image is cropped or turned, and that
    /// may tell places on it: arrays of two axes or more, pictures, and columns such as `keypoints`.
    pub(super) fn left_behind(&self) -> Vec<String> {
        if self.fields.image.is_none() || self.keeps_places() {
            return Vec::new();
        }
        let fields = &self.bundle.manifest().fields;
        let unmoved = self.fields.others.iter().filter(|other| !other.kind.is_moved());
        let unmoved = unmoved.filter_map(|other| other.field.of(fields));
        let tells_places = |field: &&Field| match &field.kind {
            FieldKind::Fixed { shape, .. } => {
                let name = field.name.as_str();
                shape.len() > 1 || shape.len() == 1 && PLACES.iter().any(|word| name.contains(word))
            }
            FieldKind::Bytes { .. } if OF_BOXES.contains(&field.name.as_str()) => false,
            FieldKind::Bytes { media_types } => {
                media_types.iter().any(|m| m.starts_with("image/") || m == "application/x-npy")
            }
        };
        unmoved.filter(tells_places).map(|field| field.name.to_string()).collect()
    }

    /// Whether each point of an image stays at the same fraction of its width and height.
    fn keeps_places(&self) -> bool {
        use Transform::{Resize, Whole};
        matches!(self.transform, Resize { .. } | Whole { .. }) && self.augment.is_none()
    }

    /// Returns the number of bytes in a row of each field.
    pub(super) fn row_bytes(&self, options: &LoaderOptions) -> Result<Vec<Option<usize>>, Error> {
        match &self.each {
            Some(each) if each.is_collected() => Ok(vec![None]),
            _ => self.fields.row_bytes(options),
        }
    }

    /// The field whose digests prove that a sample was delivered.
    pub(super) fn proof(&self) -> FieldIdx {
        self.fields.proof
    }

    /// Returns how images are normalised, as [`ImageField`] has it.
    pub(super) fn normalise(&self) -> Option<&Result<(Normalise, Option<String>), String>> {
        self.fields.image.as_ref().map(|image| &image.normalise)
    }

    /// Returns the bundle that is read.
    pub(super) fn bundle(&self) -> &Arc<Bundle> {
        &self.bundle
    }

    pub(super) fn tools(&self, ahead: Option<&Arc<Ahead>>) -> Tools {
        let decoder = Decoder::new(DecodeOptions {
            limits: self.limits,
            orientation: self.orientation,
            jpeg: self.jpeg,
            scaling: self.scaling,
        });
        let (pixels, second) = (PixelTools::default(), PixelTools::default());
        let (each, stored) = (EachTools::default(), Vec::new());
        Tools { decoder, pixels, second, each, stored, ahead: ahead.cloned() }
    }

    /// Returns the shard of a sample.
    pub(super) fn shard_of(&self, sample: u64) -> Result<ShardIdx, Error> {
        Ok(self.bundle.locate(self.split, sample)?.shard)
    }

    /// Returns where a sample's bytes are, and their number; opens its shard.
    pub(super) fn stored(&self, sample: u64) -> Result<Stored, Error> {
        let id = self.bundle.locate(self.split, sample)?;
        let shard = self.bundle.shard(id.shard)?;
        let mut bytes = 0_u64;
        for field in self.fields.loaded() {
            let len = shard.len_of(id.row, field)?.unwrap_or(0);
            bytes = bytes.saturating_add(len as u64);
        }
        Ok(Stored { shard, row: id.row, bytes })
    }

    /// Reads the values of `stored`, not checked; of a map brings its pages into memory, and
    /// leaves them empty.
    pub(super) fn read(&self, stored: &Stored) -> Result<Values, Error> {
        let read = |field| {
            let mut bytes = Vec::new();
            touch(stored.shard.view(stored.row, field, &mut bytes)?);
            Ok((field, bytes))
        };
        self.fields.loaded().map(read).collect()
    }

    /// Fills `ticket.out` with its sample, or as [`OnBadSample`] says with another one or with
    /// nothing; returns its class, if it has one.
    pub(super) fn deliver(
        &self,
        ticket: &mut Ticket,
        tools: &mut Tools,
        meters: &Meters,
    ) -> Result<Option<i64>, Error> {
        let is_broken = |error: &Error| {
            use LoaderError::{Decode, FieldSize, NoBoxes, Turned};
            matches!(
                error,
                Error::Loader(Decode { .. } | FieldSize { .. } | NoBoxes { .. } | Turned { .. })
            )
        };
        let error = match self.make(ticket, tools, meters) {
            Err(error) if self.on_error != OnBadSample::Fail && is_broken(&error) => error,
            made => return made,
        };
        if self.on_error == OnBadSample::Skip {
            ticket.broken = Some(error);
            return Ok(None);
        }
        // The tally counts the sample that belongs to this position.
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
        let ahead = tools.ahead.clone();
        let ahead = ahead.as_deref();
        let need = || ahead.map(|ahead| ahead.need(ticket, id.shard)).transpose();
        let _in_use = meters.time(Phase::Read, need)?;
        let shard = meters.time(Phase::Read, || self.bundle.shard(id.shard))?;
        let taken = meters.time(Phase::Read, || ahead.and_then(|ahead| ahead.take(ticket)));
        meters.count_ahead(taken.is_some());
        let mut taken = taken.unwrap_or_default();
        let mut read = |field| {
            // An empty one is mapped, and what is in memory takes no time.
            let at = taken.iter().position(|(of, bytes)| *of == field && !bytes.is_empty())?;
            Some(taken.swap_remove(at).1)
        };
        let row = &mut ticket.out;
        let look = || shard.entry(id.row, self.fields.proof, &mut row.key);
        let entry = meters.time(Phase::Read, look)?;
        let (position, sample) = (ticket.position, ticket.sample);
        let visit = Visit { epoch: ticket.of.epoch, position, sample };
        ticket.term = entry.digest().map(|digest| term(visit, &digest));
        let mut rng = KeyedRng::of_sample(self.seed, ticket.of.epoch, ticket.draws);
        let mut bytes = 0;
        let mut made = None;
        // What a function gets first has memory of its own.
        let (mut own, mut row_cells) = (Vec::new(), row.cells.iter_mut());
        let mut nothing = Cell::Row(BytesMut::new());
        let first = match (&self.fields.image, &self.each) {
            (Some(_), Some(_)) => Some(&mut nothing),
            (Some(_), None) => row_cells.next(),
            (None, _) => None,
        };
        if let Some(image) = &self.fields.image
            && let Some(Cell::Row(cell)) = first
        {
            let field = image.field;
            let value = Value { shard: &shard, id, field, entry: &entry, read: read(field) };
            let (read, placed, pixel_type) =
                self.image(image, value, &mut rng, tools, meters, cell)?;
            bytes += read;
            made = Some((image, cell, placed, pixel_type));
        }
        let (mut moved, mut boxes, mut of_boxes) = (Vec::new(), None, Vec::new());
        let mut places = Vec::new();
        let placement = made.as_ref().map(|(_, _, (_, place), _)| *place);
        let cells = match &self.each {
            Some(each) => {
                own = each.cells(&self.fields.others, placement.as_ref());
                own.iter_mut()
            }
            None => row_cells,
        };
        for (other, cell) in self.fields.others.iter().zip(cells) {
            let field = other.field;
            if !other.is_stored() {
                if let Cell::Row(cell) = cell {
                    places.push((other, cell));
                }
                continue;
            }
            let value = Value { shard: &shard, id, field, entry: &entry, read: read(field) };
            let part = match (other.kind.pixels(), &made) {
                (Some(pixels), Some((_, _, (size, place), _)))
                    if (pixels.width, pixels.height) == *size =>
                {
                    Some(pixels.part(place).bytes)
                }
                _ => None,
            };
            let (read, ()) = self.with_stored(value, part, tools, meters, |stored, tools| {
                match (&mut *cell, &other.kind, &made) {
                    (Cell::Row(cell), OtherKind::Nearest(of), Some((.., placed, _))) => {
                        self.nearest(of, stored, placed, tools, cell)?;
                    }
                    (Cell::Row(cell), OtherKind::Interpolated(of), Some((image, _, placed, _))) => {
                        self.interpolated(of, image, stored, placed, tools, cell)?;
                    }
                    (Cell::Row(cell), OtherKind::Plain(element), _) => {
                        native(stored, cell, *element);
                    }
                    (Cell::Row(cell), OtherKind::Transform, _) => native(stored, cell, F64_BYTES),
                    // Without an image, nothing moves with it.
                    (Cell::Row(_), ..) => {}
                    (Cell::Bytes(cell), ..) => {
                        cell.clear();
                        cell.extend_from_slice(stored);
                    }
                }
                Ok(())
            })?;
            bytes += read;
            match (cell, &other.kind) {
                (Cell::Row(cell), OtherKind::Nearest(_) | OtherKind::Interpolated(_)) => {
                    moved.push((other, cell));
                }
                (Cell::Row(cell), OtherKind::Transform) => places.push((other, cell)),
                (Cell::Bytes(cell), OtherKind::Boxes) => boxes = Some((field, cell)),
                (Cell::Bytes(cell), OtherKind::OfBoxes) => of_boxes.push((field, cell)),
                _ => {}
            }
        }
        let placed = made.as_ref().map(|(.., (_, place), _)| Affine::of(place));
        let moves = placed.filter(|_| {
            let reach_beyond = |(_, boxes): &(_, &mut Vec<u8>)| reach_beyond(boxes);
            boxes.as_ref().is_some_and(|boxes| !self.keeps_places() || reach_beyond(boxes))
        });
        let mut steps: Vec<_> = moves.into_iter().collect();
        let mut augmented = Vec::new();
        let from = made.as_ref().map(|(_, _, (size, place), _)| (*size, place.size()));
        if let Some((image, cell, (_, place), Some(pixel_type))) = made {
            let finish = || {
                let (width, height) = place.size();
                let (width, height) = (width as usize, height as usize);
                let channels = image.pixels.map_or(RGB, |pixels| pixels.channels);
                let mut flip = place.resize.flip;
                if let Some(augment) = &self.augment {
                    let pixels = tools.pixels.pixels(pixel_type);
                    let (sample, key) = (ticket.sample, row.key.as_str());
                    let mut picture = PictureEdit {
                        pixels,
                        width,
                        height,
                        channels,
                        mask: None,
                        others: Vec::new(),
                        steps: Vec::new(),
                        sample,
                        key,
                        refused: None,
                    };
                    if std::mem::take(&mut flip) {
                        // The other fields have been mirrored already.
                        picture.flip_horizontal();
                    }
                    for (other, cell) in &mut moved {
                        let (planes, fill) = other.kind.planes();
                        let view = |bytes: &mut [u8]| bytes.len() / (width * height);
                        let plane = cell.len() / planes.max(1);
                        let fills = fill.chunks_exact((fill.len() / planes.max(1)).max(1));
                        for (bytes, fill) in cell.chunks_exact_mut(plane.max(1)).zip(fills) {
                            let view = MaskView { pixel: view(bytes), bytes, fill };
                            if other.is_mask {
                                picture.mask = Some(view);
                            } else {
                                picture.others.push(view);
                            }
                        }
                    }
                    // The picture is now as the placement says.
                    picture.steps.clear();
                    let done = augment.apply(&mut picture, &mut rng);
                    done.map_err(|reason| Error::Option { option: "augment", reason })?;
                    augmented.append(&mut picture.steps);
                }
                if let Some(each) = &self.each {
                    let size = (width, height, channels);
                    each.give(&tools.pixels, pixel_type, size, flip, &mut tools.each);
                } else {
                    tools.pixels.write(pixel_type, (width, channels), flip, &image.writer, cell);
                }
                Ok::<_, Error>(())
            };
            meters.time(Phase::Decode, finish)?;
        }
        if let (Some(placed), false) = (placed, places.is_empty()) {
            let way = augmented.iter().fold(placed, |way, step| way.then(step));
            for (other, cell) in places {
                move_transform(cell, &way, other.is_stored());
            }
        }
        steps.append(&mut augmented);
        if let (Some((field, boxes)), false, Some((from, to))) = (boxes, steps.is_empty(), from) {
            let no_boxes = |field| self.unmade(&shard, id, field, Unmade::NoBoxes);
            let stay = move_boxes(boxes, &steps, from, to).ok_or_else(|| no_boxes(field))?;
            for (field, of_boxes) in of_boxes {
                keep_rows(of_boxes, &stay).ok_or_else(|| no_boxes(field))?;
            }
        }
        meters.count(bytes);
        let label = match (entry.label(), self.unknown_labels) {
            (Some(UNKNOWN), UnknownLabels::Ignore) => Some(IGNORED_LABEL),
            // This happens only if the split has too many shards to be searched at the start.
            (Some(UNKNOWN), _) => {
                let name = self.name(ticket.sample);
                return Err(labels::refused(&format!("sample `{name}` has no known class")));
            }
            (label, _) => label.map(i64::from),
        };
        let Some(each) = &self.each else { return Ok(label) };
        let draws = KeyedRng::of_function(ticket.draws);
        let mut rng = KeyedRng::of_sample(self.seed, ticket.of.epoch, draws);
        let (number, epoch, key) = (ticket.sample, ticket.of.epoch, row.key.as_str());
        let random = [rng.next_u64(), rng.next_u64()];
        let sample = GivenSample { number, key, epoch, random, label, values: Vec::new() };
        let others = (&self.fields.others[..], &own[..]);
        let call = || each.make(&sample, others, placement.as_ref(), &tools.each, &mut row.cells);
        meters.time(Phase::Each, call)
    }

    /// Makes the picture, in its row if nothing is left to be done, else in `tools`. Returns the
    /// number of bytes that were read for it, and what was done to it.
    fn image(
        &self,
        image: &ImageField,
        value: Value<'_>,
        rng: &mut KeyedRng,
        tools: &mut Tools,
        meters: &Meters,
        cell: &mut [u8],
    ) -> Result<(usize, Placed, Option<PixelType>), Error> {
        let Some(whole) = image.pixels else {
            let decode =
                |stored: &[u8], tools: &mut Tools| self.picture(image, stored, rng, tools, cell);
            let (bytes, (placed, pixel_type)) =
                self.with_stored(value, None, tools, meters, decode)?;
            return Ok((bytes, placed, pixel_type));
        };
        // For stored pixels it is known which are needed before they are read.
        let size = (whole.width, whole.height);
        let placed = (size, self.transform.place(size.0, size.1, rng));
        let Part { bytes: part, rows, pixels, place } = whole.part(&placed.1);
        let is_row = self.is_plain() && whole.is_in_order() && pixels.is_row(&place, &image.writer);
        if is_row && value.needs_no_check() {
            let since = Instant::now();
            meters.time(Phase::Read, || value.read_part(part.start, cell))?;
            tools.note(since, part.len());
            return Ok((part.len(), placed, None));
        }
        let bring = |part: &[u8], tools: &mut Tools| -> Result<Option<PixelType>, Unmade> {
            let tools = &mut tools.pixels;
            let writer = &image.writer;
            let mut ordered = std::mem::take(&mut tools.ordered);
            let part = whole.in_order(part, rows, &mut ordered);
            let made =
                match self.is_plain() && pixels.straight(part, &place, tools, writer, cell)? {
                    true => None,
                    false => Some(pixels.resize(part, &place, self.depth, tools)?),
                };
            tools.ordered = ordered;
            Ok(made)
        };
        let (bytes, pixel_type) = self.with_stored(value, Some(part), tools, meters, bring)?;
        Ok((bytes, placed, pixel_type))
    }

    /// Reads a value, unless it was read already, checks it, and calls `job` with it, or with
    /// `part` of it, which is read alone if it needs no check. Returns the number of bytes that
    /// were read.
    fn with_stored<T>(
        &self,
        mut value: Value<'_>,
        mut part: Option<Range<usize>>,
        tools: &mut Tools,
        meters: &Meters,
        job: impl FnOnce(&[u8], &mut Tools) -> Result<T, Unmade>,
    ) -> Result<(usize, T), Error> {
        let alone = part.take_if(|_| value.needs_no_check());
        let mut buffer = std::mem::take(&mut tools.stored);
        let stored = match value.read.take() {
            Some(bytes) => {
                buffer = bytes;
                &buffer
            }
            None => meters.time(Phase::Read, || {
                let since = Instant::now();
                let stored = value.view(alone, &mut buffer)?;
                touch(stored);
                tools.note(since, stored.len());
                Ok::<_, Error>(stored)
            })?,
        };
        let len = stored.len();
        let Value { shard, id, field, .. } = value;
        let stored = match meters.time(Phase::Check, || shard.check(id.row, field, stored)) {
            Err(damaged @ gular_bundle::Error::SampleDigest(_)) => {
                meters.time(Phase::Read, || {
                    let mended = self.bundle.mend(id, field).map_err(LoaderError::Shard)?;
                    if mended {
                        Ok::<_, Error>(shard.read(id.row, field, &mut buffer)?)
                    } else {
                        Err(damaged.into())
                    }
                })?;
                &buffer
            }
            checked => {
                checked?;
                stored
            }
        };
        // A value that was accepted is as long as its shape says.
        let stored = part.map_or(stored, |part| stored.get(part).unwrap_or_default());
        let made = meters.time(Phase::Decode, || job(stored, tools));
        if buffer.capacity() <= KEPT_BYTES {
            tools.stored = buffer;
        }
        Ok((len, made.map_err(|unmade| self.unmade(shard, id, field, unmade))?))
    }

    /// Decodes a picture, to its row where that takes it as it is, else to `tools`; what was done
    /// to it.
    fn picture(
        &self,
        image: &ImageField,
        stored: &[u8],
        rng: &mut KeyedRng,
        tools: &mut Tools,
        cell: &mut [u8],
    ) -> Result<(Placed, Option<PixelType>), Unmade> {
        let header = read_header(stored, &self.limits)?;
        let ignores = self.orientation == OrientationPolicy::Ignore;
        if ignores && header.orientation != Orientation::Normal && self.fields.have_places() {
            return Err(Unmade::Turned);
        }
        let size = self.size(&header);
        let place = self.transform.place(size.0, size.1, rng);
        let Tools { decoder, pixels, .. } = tools;
        let Placement { region, keep, pad, .. } = place;
        let is_row = keep.is_none() && pad.is_none() && self.is_plain();
        if is_row && image.writer.copies(RGB) && header.bit_depth <= 8 {
            decoder.crop_resize(stored, region, &place.resize, cell)?;
            return Ok(((size, place), None));
        }
        let pixel_type = self.decoded(&header, stored, &place, decoder, pixels)?;
        Ok(((size, place), Some(pixel_type)))
    }

    /// Crops, resizes and mirrors a field in the way of its image, without interpolation.
    fn nearest(
        &self,
        of: &NearestField,
        stored: &[u8],
        (image, place): &Placed,
        tools: &mut Tools,
        cell: &mut [u8],
    ) -> Result<(), Unmade> {
        if let Some(pixels) = of.pixels {
            same_size((pixels.width, pixels.height), *image)?;
            let element = usize::try_from(pixels.dtype.size_bytes()).unwrap_or(1);
            let Part { rows, pixels: part, place, .. } = pixels.part(place);
            let size = (part.width, part.height);
            let pixel = pixels.channels * element;
            let PixelTools { ordered, moved, .. } = &mut tools.pixels;
            let stored = pixels.in_order(stored, rows, ordered);
            if of.planes && pixels.channels > 1 {
                moved.resize(cell.len(), 0);
                move_mask(stored, size, pixel, &place, &of.fill, moved);
                planes(moved, pixels.channels, element, cell);
            } else {
                move_mask(stored, size, pixel, &place, &of.fill, cell);
            }
            to_native(cell, element);
            return Ok(());
        }
        let (size, values) = tools.decoder.decode_values(stored)?;
        same_size(size, *image)?;
        if of.wide {
            let values: Vec<[u8; 2]> = values.iter().map(|v| v.to_le_bytes()).collect();
            move_mask(values.as_flattened(), size, 2, place, &of.fill, cell);
            to_native(cell, 2);
            return Ok(());
        }
        let narrow = |v: &u16| u8::try_from(*v).map_err(|_| Unmade::U16);
        let values: Vec<u8> = values.iter().map(narrow).collect::<Result<_, _>>()?;
        move_mask(&values, size, 1, place, &of.fill, cell);
        Ok(())
    }

    /// Crops, resizes and mirrors a field in the way of its image, interpolated like it.
    fn interpolated(
        &self,
        of: &InterpolatedField,
        image: &ImageField,
        stored: &[u8],
        (size, place): &Placed,
        tools: &mut Tools,
        cell: &mut [u8],
    ) -> Result<(), Unmade> {
        let Tools { decoder, second, .. } = tools;
        let of_each = self.each.as_ref().and_then(EachStage::writer);
        let writer = of.writer.as_ref().or(of_each).unwrap_or(&image.writer);
        let (width, _) = place.size();
        let (width, flip) = (width as usize, place.resize.flip);
        if let Some(pixels) = of.pixels {
            same_size((pixels.width, pixels.height), *size)?;
            let Part { rows, pixels: part, place, .. } = pixels.part(place);
            let mut ordered = std::mem::take(&mut second.ordered);
            let stored = pixels.in_order(stored, rows, &mut ordered);
            second.fill = if of.is_nan { f32::NAN } else { 0.0 };
            let pixel_type = part.resize(stored, &place, self.depth, second)?;
            second.ordered = ordered;
            second.write(pixel_type, (width, pixels.channels), flip, writer, cell);
            return Ok(());
        }
        let header = read_header(stored, &self.limits)?;
        same_size(self.size(&header), *size)?;
        let pixel_type = self.decoded(&header, stored, place, decoder, second)?;
        second.write(pixel_type, (width, RGB), flip, writer, cell);
        Ok(())
    }

    /// Columns and rows of an encoded picture.
    fn size(&self, header: &Header) -> (u32, u32) {
        match self.orientation {
            OrientationPolicy::Apply => header.upright_size(),
            OrientationPolicy::Ignore => (header.width, header.height),
        }
    }

    /// Decodes a picture to `pixels`, as `place` says but not mirrored.
    fn decoded(
        &self,
        header: &Header,
        stored: &[u8],
        place: &Placement,
        decoder: &mut Decoder,
        pixels: &mut PixelTools,
    ) -> Result<PixelType, Unmade> {
        if header.bit_depth > 8 && self.depth == Depth::Stored {
            return Err(Unmade::U16);
        }
        if self.only_grey && !is_grey(header) {
            return Err(Unmade::Colours);
        }
        let PixelTools { u8s, u16s, .. } = pixels;
        // The picture is mirrored while it is written.
        let resize = Resize { flip: false, ..place.resize };
        let pixel_type = if self.depth == Depth::U16 {
            decode(u16s, place, |out| decoder.crop_resize_u16(stored, place.region, &resize, out))?;
            PixelType::U16
        } else {
            decode(u8s, place, |out| decoder.crop_resize(stored, place.region, &resize, out))?;
            PixelType::U8
        };
        pixels.pad(pixel_type, place, RGB);
        Ok(pixel_type)
    }

    /// Names a sample as far as the bundle still can.
    pub(super) fn name(&self, sample: u64) -> String {
        let id = self.bundle.locate(self.split, sample);
        id.and_then(|id| self.bundle.key(id))
            .map_or_else(|_| format!("{} {sample}", self.split), |key| key.as_str().to_owned())
    }

    fn unmade(&self, shard: &Shard, id: SampleId, field: FieldIdx, unmade: Unmade) -> Error {
        let key = shard.key(id.row).ok().flatten().unwrap_or_default();
        let entry = id.shard.of(&self.bundle.manifest().shards);
        let shard = entry.map(|s| s.file.name.to_string()).unwrap_or_default();
        let row = id.row;
        let field = field.of(&self.bundle.manifest().fields);
        let field = field.map(|field| field.name.to_string()).unwrap_or_default();
        match unmade {
            Unmade::Undecodable(source) => LoaderError::Decode { key, shard, row, source }.into(),
            Unmade::Turned => LoaderError::Turned { key, shard, row }.into(),
            Unmade::NoBoxes => LoaderError::NoBoxes { field, key, shard, row }.into(),
            Unmade::Size { field: size, image } => {
                LoaderError::FieldSize { field, key, shard, row, size, image }.into()
            }
            Unmade::U16 => {
                let reason = match field.as_str() {
                    "image" => format!(
                        "sample `{key}` has 16-bit pixels: choose `u16` to keep them, or `u8` for their high byte"
                    ),
                    _ => format!(
                        "the `{field}` of sample `{key}` has 16 bits, and the first ones of the split have 8: choose `u16`"
                    ),
                };
                Error::Option { option: "depth", reason }
            }
            Unmade::Colours => {
                let reason = format!(
                    "the `{field}` of sample `{key}` has colours, and the first pictures of the split are grey: choose bands 0, 1 and 2 for three channels of each, or band 0 for one"
                );
                Error::Option { option: "bands", reason }
            }
        }
    }
}

/// Decodes by `to` what is kept of a picture, to `kept.made`.
fn decode<T: Sample>(
    kept: &mut Kept<T>,
    place: &Placement,
    to: impl FnOnce(&mut [T]) -> Result<(), gular_codec::Error>,
) -> Result<(), gular_codec::Error> {
    let Kept { whole, made, .. } = kept;
    made.resize(place.len(RGB), T::default());
    let Some(keep) = place.keep else { return to(made) };
    let Resize { width, height, .. } = place.resize;
    whole.resize(width as usize * height as usize * RGB, T::default());
    to(whole)?;
    copy(whole, width, RGB, keep, made);
    Ok(())
}

/// Checks that a field on the pixels of an image has the image's size.
fn same_size(field: (u32, u32), image: (u32, u32)) -> Result<(), Unmade> {
    (field == image).then_some(()).ok_or(Unmade::Size { field, image })
}

/// Copies numbers as they are stored, little-endian, to this machine's order.
fn native(stored: &[u8], out: &mut [u8], size: usize) {
    // Both have the length that follows from the field's shape.
    let len = stored.len().min(out.len());
    out[..len].copy_from_slice(&stored[..len]);
    to_native(out, size);
}

/// Writes the transform from the pixels of a batch to those of the image, whose points went this
/// `way`; or, if the cell has a transform of the image, brings it to the pixels of the batch.
fn move_transform(cell: &mut [u8], way: &Affine, is_stored: bool) {
    let Some(back) = way.back() else { return };
    let (numbers, _) = cell.as_chunks_mut::<F64_BYTES>();
    let stored = || {
        let mut of_image = [f64::NAN; 6];
        of_image.iter_mut().zip(&*numbers).for_each(|(to, b)| *to = f64::from_ne_bytes(*b));
        of_image
    };
    let moved = match is_stored {
        true => back.then(&Affine::of_numbers(stored())),
        false => back,
    };
    // Plus zero makes -0 a plain zero.
    let moved = moved.numbers().map(|n| n + 0.0);
    numbers.iter_mut().zip(moved).for_each(|(to, n)| *to = n.to_ne_bytes());
}

fn to_native(numbers: &mut [u8], size: usize) {
    if cfg!(target_endian = "big") {
        numbers.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use gular_bundle::{
        About, Backend, BundlePath, DATA_DIR, Envelope, Field, FieldName, Manifest, OpenOptions,
        Payload, ShardIdx, ShardSpec, ShardWriter, write_manifest,
    };

    use super::super::batch_slots::{BatchSlots, Waiting};
    use super::super::epoch_steps::{Run, Span};
    use super::*;
    use crate::order::{EpochOrder, OrderKind, OrderSpec};

    const SIDE: u32 = 6;

    /// Writes a bundle of one picture to `dir`.
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
        let ring =
            BatchSlots::new(2, 1, &[Some((SIDE * SIDE * 3) as usize)], Waiting::default()).unwrap();
        let order = OrderSpec { kind: OrderKind::Elastic, seed: 0, drop_last: false };
        let order = EpochOrder::new(&order, &[1], 0, 1);
        let span = Span::new(0, 1, 1, false);
        ring.start(Run { order, chosen: Arc::default(), epoch: 0, span, rank: 0, world_size: 1 });
        let meters = Meters::default();
        let mut ticket = ring.take(&meters).unwrap();
        let mut tools = source.tools(None);
        let made = source.make(&mut ticket, &mut tools, &meters);
        let Some(Cell::Row(picture)) = ticket.out.cells.first() else { panic!("no picture") };
        (made.map(|_| picture.to_vec()), tools.stored.capacity())
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
