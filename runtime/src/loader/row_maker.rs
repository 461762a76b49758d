//! Makes the row of one sample: decodes it, and does to it what the options say.

use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;
use gular_augment::{
    Affine, Depth, Kept, MaskView, Normalise, PictureEdit, PixelPart, PixelTools, PixelType,
    Placement, Transform, copy, move_mask, planes,
};
use gular_bundle::{Bundle, Field, FieldIdx, FieldKind, SampleId, Shard, other_coordinate};
use gular_codec::{
    DecodeOptions, Decoder, Header, Orientation, OrientationPolicy, Resize, Sample, read_header,
};
use gular_order::{KeyedRng, Visit, term};

use super::ahead::{Ahead, NEVER};
use super::boxes::{Coordinates, OF_BOXES};
use super::columns::Column;
use super::fields::{Fields, ImageField, InterpolatedField, NearestField, OtherKind, RGB};
use super::fitted::is_grey;
use super::labels::{self, UNKNOWN};
use super::sample_function::{EachStage, EachTools, GivenSample};
use super::sample_reader::SampleReader;
use super::slot::Cell;
use super::stats::{Meters, Phase};
use super::stored_value::StoredValue;
use super::ticket::Ticket;
use super::{IGNORED_LABEL, LoaderError, LoaderOptions, OnBadSample, UnknownLabels};
use crate::Error;

/// Bytes of a number of a transform.
const F64_BYTES: usize = 8;

/// Words in the names of columns that tell places.
const PLACES: [&str; 6] = ["box", "corner", "landmark", "point", "polygon", "vertex"];

// A thread keeps what it read into; one huge sample must not hold memory for good.
const KEPT_BYTES: usize = 16 << 20;

/// What is done to samples, and the reader of their bytes.
#[derive(Debug)]
pub(super) struct RowMaker {
    reader: Arc<SampleReader>,
    fields: Fields,
    each: Option<EachStage>,
    options: LoaderOptions,
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
    /// The function that is called with each sample cannot be reached.
    Function(String),
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

/// How far the row of a ticket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowStage {
    /// It is made, and its sample has this class, if any.
    Made(Option<i64>),
    /// The function that is called with each sample has it: [`RowMaker::take_result`] is next.
    Given,
}

/// The size of a sample's picture, and what is done to it.
type Placed = ((u32, u32), Placement);

impl RowMaker {
    pub(super) fn new(bundle: Arc<Bundle>, options: &LoaderOptions) -> Result<Self, Error> {
        let fields = Fields::new(&bundle, options)?;
        let reader = SampleReader::new(bundle, options.split, fields.loaded().collect());
        Ok(Self {
            reader: Arc::new(reader),
            each: EachStage::new(&fields, options)?,
            fields,
            options: options.clone(),
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
        self.options.augment.is_none() && self.each.is_none()
    }

    /// The first field that is moved with the image.
    pub(super) fn moved(&self) -> Option<&str> {
        let other = self.fields.others.iter().find(|other| other.kind.is_moved())?;
        Some(other.field.of(&self.bundle().manifest().fields)?.name.as_str())
    }

    /// The fields that are delivered as stored although the image is cropped or turned, and that
    /// may tell places on it: arrays of two axes or more, pictures, and columns such as `landmarks`, or `nose_x` beside
    /// `nose_y`.
    pub(super) fn left_behind(&self) -> Vec<String> {
        if self.fields.image.is_none() || self.keeps_places() {
            return Vec::new();
        }
        let fields = &self.bundle().manifest().fields;
        let unmoved = self.fields.others.iter().filter(|other| !other.kind.is_moved());
        let unmoved = unmoved.filter_map(|other| other.field.of(fields));
        let is_coordinate = |name: &str| {
            let other = other_coordinate(name);
            other.is_some_and(|other| fields.iter().any(|field| field.name.as_str() == other))
        };
        let tells_places = |field: &&Field| match &field.kind {
            FieldKind::Fixed { shape, .. } => {
                let name = field.name.as_str();
                let is_named = || shape.len() == 1 && PLACES.iter().any(|word| name.contains(word));
                shape.len() > 1 || is_named() || is_coordinate(name)
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
        matches!(self.options.transform, Resize { .. } | Whole { .. })
            && self.options.augment.is_none()
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

    /// Returns the reader of the samples' bytes.
    pub(super) fn reader(&self) -> &Arc<SampleReader> {
        &self.reader
    }

    fn bundle(&self) -> &Bundle {
        self.reader.bundle()
    }

    pub(super) fn tools(&self, ahead: Option<&Arc<Ahead>>) -> Tools {
        let decoder = Decoder::new(DecodeOptions {
            limits: self.options.limits,
            orientation: self.options.orientation,
            jpeg: self.options.jpeg,
            scaling: self.options.scaling,
        });
        let (pixels, second) = (PixelTools::default(), PixelTools::default());
        let (each, stored) = (EachTools::default(), Vec::new());
        Tools { decoder, pixels, second, each, stored, ahead: ahead.cloned() }
    }

    /// Fills `ticket.out` with its sample, or as [`OnBadSample`] says with another one or with
    /// nothing; or gives the sample to the function that is called with each.
    pub(super) fn deliver(
        &self,
        ticket: &mut Ticket,
        tools: &mut Tools,
        meters: &Meters,
    ) -> Result<RowStage, Error> {
        let is_broken = |error: &Error| {
            use LoaderError::{Decode, FieldSize, NoBoxes, Turned};
            matches!(
                error,
                Error::Loader(Decode { .. } | FieldSize { .. } | NoBoxes { .. } | Turned { .. })
            )
        };
        let error = match self.make(ticket, tools, meters) {
            Err(error) if self.options.on_error != OnBadSample::Fail && is_broken(&error) => error,
            made => return made,
        };
        if self.options.on_error == OnBadSample::Skip {
            ticket.broken = Some(error);
            return Ok(RowStage::Made(None));
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

    /// Fills `ticket.out`, or gives its sample to the function that is called with each.
    fn make(
        &self,
        ticket: &mut Ticket,
        tools: &mut Tools,
        meters: &Meters,
    ) -> Result<RowStage, Error> {
        let id = self.reader.locate(ticket.sample)?;
        let ahead = tools.ahead.clone();
        let ahead = ahead.as_deref();
        let (place, at) = (ticket.place, ticket.position);
        let need = || ahead.map(|ahead| ahead.need(place.run, at, id.shard)).transpose();
        let _in_use = meters.time(Phase::Read, need)?;
        let closed = ahead.map_or(&NEVER, Ahead::closed);
        let shard = meters.time(Phase::Read, || self.bundle().shard_until(id.shard, closed))?;
        let taken = meters.time(Phase::Read, || ahead.and_then(|ahead| ahead.take(place)));
        meters.count_ahead(taken.is_some());
        let mut taken = taken.unwrap_or_default();
        let row = &mut ticket.out;
        let look = || shard.entry(id.row, self.fields.proof, &mut row.key);
        let entry = meters.time(Phase::Read, look)?;
        let (position, sample) = (ticket.position, ticket.sample);
        let visit = Visit { epoch: ticket.of.epoch, position, sample };
        ticket.term = entry.digest().map(|digest| term(visit, &digest));
        let mut value = |field| {
            // An empty one is mapped, and what is in memory takes no time.
            let at = taken.iter().position(|(of, bytes)| *of == field && !bytes.is_empty());
            let read = at.map(|at| taken.swap_remove(at).1);
            StoredValue { shard: &shard, id, field, entry: &entry, read, ahead }
        };
        let mut rng = KeyedRng::of_sample(self.options.order.seed, ticket.of.epoch, ticket.draws);
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
            let value = value(field);
            let (read, placed, pixel_type) =
                self.image(image, value, &mut rng, tools, meters, cell)?;
            bytes += read;
            made = Some((image, cell, placed, pixel_type));
        }
        let (mut moved, mut coordinates) = (Vec::new(), Coordinates::default());
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
            let value = value(field);
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
                (Cell::Bytes(cell), OtherKind::Coordinates(kind)) => {
                    coordinates.add(*kind, field, cell);
                }
                _ => {}
            }
        }
        let placed = made.as_ref().map(|(.., (_, place), _)| Affine::of(place));
        let moves = placed.filter(|_| {
            coordinates.are_there() && (!self.keeps_places() || coordinates.reach_beyond())
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
                if let Some(augment) = &self.options.augment {
                    let pixels = tools.pixels.pixels(pixel_type);
                    let (sample, key) = (ticket.sample, row.key.as_str());
                    let size = (width, height, channels);
                    let mut picture = PictureEdit::new(pixels, size, (sample, key));
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
                    let steps = augment.apply(&mut picture, &mut rng);
                    let refused = |reason| Error::Option { option: "augment", reason };
                    augmented = steps.map_err(refused)?;
                }
                if let Some(each) = &self.each {
                    let size = (width, height, channels);
                    let Tools { pixels, each: to, .. } = &mut *tools;
                    each.give_picture(pixels, pixel_type, size, flip, to, &row.key)?;
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
        if let (false, Some((from, to))) = (steps.is_empty(), from) {
            let moved = coordinates.move_by(&steps, from, to);
            moved.map_err(|field| self.unmade(&shard, id, field, Unmade::NoBoxes))?;
        }
        meters.count(bytes);
        let label = match (entry.label(), self.options.unknown_labels) {
            (Some(UNKNOWN), UnknownLabels::Ignore) => Some(IGNORED_LABEL),
            // This happens only if the split has too many shards to be searched at the start.
            (Some(UNKNOWN), _) => {
                let name = self.reader.name(ticket.sample);
                return Err(labels::refused(&format!("sample `{name}` has no known class")));
            }
            (label, _) => label.map(i64::from),
        };
        let Some(each) = &self.each else { return Ok(RowStage::Made(label)) };
        let draws = KeyedRng::of_function(ticket.draws);
        let mut rng = KeyedRng::of_sample(self.options.order.seed, ticket.of.epoch, draws);
        let (number, epoch, key) = (ticket.sample, ticket.of.epoch, row.key.as_str());
        let random = [rng.next_u64(), rng.next_u64()];
        let sample = GivenSample { number, key, epoch, random, label, values: Vec::new() };
        let others = (&self.fields.others[..], &own[..]);
        let give = || each.give(&sample, others, placement.as_ref(), &mut tools.each);
        meters.time(Phase::Each, give)?;
        Ok(RowStage::Given)
    }

    /// Whether results have to be taken before the next sample is delivered: where the function has
    /// enough to do, and where the next sample's shard may need the space of those before.
    pub(super) fn must_take(&self, tools: &Tools) -> bool {
        tools.each.are_full() || tools.ahead.as_ref().is_some_and(|ahead| ahead.brings_shards())
    }

    /// Waits for the function's result with the ticket's sample, the first one given of those not
    /// taken, and puts it to the ticket's row. Returns its class, or that it was given again.
    pub(super) fn take_result(
        &self,
        ticket: &mut Ticket,
        tools: &mut Tools,
        meters: &Meters,
    ) -> Result<RowStage, Error> {
        let Some(each) = &self.each else { return Ok(RowStage::Made(None)) };
        let row = &mut ticket.out;
        let take = || each.take_result(&mut tools.each, &row.key, &mut row.cells);
        if let Some(label) = meters.time(Phase::Each, take)? {
            return Ok(RowStage::Made(label));
        }
        // Of a sample in another one's place, the tally has counted that one.
        let (term, broken) = (ticket.term, ticket.broken.take());
        let delivered = self.deliver(ticket, tools, meters)?;
        if broken.is_some() {
            (ticket.term, ticket.broken) = (term, broken);
        }
        Ok(delivered)
    }

    /// Makes the picture, in its row if nothing is left to be done, else in `tools`. Returns the
    /// number of bytes that were read for it, and what was done to it.
    fn image(
        &self,
        image: &ImageField,
        value: StoredValue<'_>,
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
        let placed = (size, self.options.transform.place(size.0, size.1, rng));
        let PixelPart { bytes: part, rows, pixels, place } = whole.part(&placed.1);
        let is_row = self.is_plain() && whole.is_in_order() && pixels.is_row(&place, &image.writer);
        if is_row && value.needs_no_check() {
            value.read_part(part.start, cell, self.bundle(), meters)?;
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
                    false => Some(pixels.resize(part, &place, self.options.depth, tools)?),
                };
            tools.ordered = ordered;
            Ok(made)
        };
        let (bytes, pixel_type) = self.with_stored(value, Some(part), tools, meters, bring)?;
        Ok((bytes, placed, pixel_type))
    }

    /// Calls `job` with a value, as [`StoredValue::with`] does.
    fn with_stored<T>(
        &self,
        value: StoredValue<'_>,
        part: Option<Range<usize>>,
        tools: &mut Tools,
        meters: &Meters,
        job: impl FnOnce(&[u8], &mut Tools) -> Result<T, Unmade>,
    ) -> Result<(usize, T), Error> {
        let StoredValue { shard, id, field, .. } = value;
        let mut buffer = std::mem::take(&mut tools.stored);
        let job = |stored: &[u8]| job(stored, tools);
        let (len, made) = value.with(part, self.bundle(), &mut buffer, meters, job)?;
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
        let header = read_header(stored, &self.options.limits)?;
        let ignores = self.options.orientation == OrientationPolicy::Ignore;
        if ignores && header.orientation != Orientation::Normal && self.fields.have_places() {
            return Err(Unmade::Turned);
        }
        let size = self.size(&header);
        let place = self.options.transform.place(size.0, size.1, rng);
        let Tools { decoder, pixels, each: of_each, .. } = tools;
        let Placement { region, keep, pad, .. } = place;
        let is_decoded = keep.is_none() && pad.is_none() && self.options.augment.is_none();
        if let Some(each) = self.each.as_ref().filter(|each| is_decoded && each.gives_decoded(RGB))
            && header.bit_depth <= 8
        {
            let memory = each.memory(of_each, place.len(RGB)).map_err(Unmade::Function)?;
            decoder.crop_resize(stored, region, &place.resize, memory)?;
            return Ok(((size, place), None));
        }
        let is_row = is_decoded && self.each.is_none();
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
            let PixelPart { rows, pixels: part, place, .. } = pixels.part(place);
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
            let PixelPart { rows, pixels: part, place, .. } = pixels.part(place);
            let mut ordered = std::mem::take(&mut second.ordered);
            let stored = pixels.in_order(stored, rows, &mut ordered);
            second.fill = if of.is_nan { f32::NAN } else { 0.0 };
            let pixel_type = part.resize(stored, &place, self.options.depth, second)?;
            second.ordered = ordered;
            second.write(pixel_type, (width, pixels.channels), flip, writer, cell);
            return Ok(());
        }
        let header = read_header(stored, &self.options.limits)?;
        same_size(self.size(&header), *size)?;
        let pixel_type = self.decoded(&header, stored, place, decoder, second)?;
        second.write(pixel_type, (width, RGB), flip, writer, cell);
        Ok(())
    }

    /// Columns and rows of an encoded picture.
    fn size(&self, header: &Header) -> (u32, u32) {
        match self.options.orientation {
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
        if header.bit_depth > 8 && self.options.depth == Depth::Stored {
            return Err(Unmade::U16);
        }
        if self.options.only_grey && !is_grey(header) {
            return Err(Unmade::Colours);
        }
        let PixelTools { u8s, u16s, .. } = pixels;
        // The picture is mirrored while it is written.
        let resize = Resize { flip: false, ..place.resize };
        let pixel_type = if self.options.depth == Depth::U16 {
            decode(u16s, place, |out| decoder.crop_resize_u16(stored, place.region, &resize, out))?;
            PixelType::U16
        } else {
            decode(u8s, place, |out| decoder.crop_resize(stored, place.region, &resize, out))?;
            PixelType::U8
        };
        pixels.pad(pixel_type, place, RGB);
        Ok(pixel_type)
    }

    fn unmade(&self, shard: &Shard, id: SampleId, field: FieldIdx, unmade: Unmade) -> Error {
        let key = shard.key(id.row).ok().flatten().unwrap_or_default();
        let entry = id.shard.of(&self.bundle().manifest().shards);
        let shard = entry.map(|s| s.file.name.to_string()).unwrap_or_default();
        let row = id.row;
        let field = field.of(&self.bundle().manifest().fields);
        let field = field.map(|field| field.name.to_string()).unwrap_or_default();
        match unmade {
            Unmade::Undecodable(source) => LoaderError::Decode { key, shard, row, source }.into(),
            Unmade::Turned => LoaderError::Turned { key, shard, row }.into(),
            Unmade::Function(reason) => LoaderError::Each { key, reason }.into(),
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
        Payload, Row, ShardIdx, ShardSpec, ShardWriter, Split, write_manifest,
    };

    use super::super::batch_slots::{BatchSlots, Waiting};
    use super::super::epoch_steps::{Run, Span};
    use super::*;
    use gular_order::{EpochOrder, OrderKind, OrderSpec};

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
        let maker = RowMaker::new(bundle, &options).unwrap();
        let ring =
            BatchSlots::new(2, 1, &[Some((SIDE * SIDE * 3) as usize)], Waiting::default()).unwrap();
        let order = OrderSpec { kind: OrderKind::Elastic, seed: 0, drop_last: false };
        let order = EpochOrder::new(&order, &[1], 0, 1);
        let span = Span::new(0, 1, 1, false);
        ring.start(Run { order, chosen: Arc::default(), epoch: 0, span, rank: 0, world_size: 1 });
        let meters = Meters::default();
        let mut ticket = ring.take(&meters).unwrap();
        let mut tools = maker.tools(None);
        let made = maker.make(&mut ticket, &mut tools, &meters);
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
