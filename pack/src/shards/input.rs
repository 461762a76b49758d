//! Reads an input file, decides whether it can be packed, and makes its value.
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use gular_bundle::{Digest, Payload};
use gular_codec::tiff::{Geo, Pages};
use gular_codec::{DecodeOptions, Decoder, Format, Header, Limits, read_header};

use super::framed;
use crate::facts::{
    ArrayValues, BadInput, Fault, Grid, PixelBudget, Pixels, Spares, array, becomes_png,
    is_jpeg_2000_name, stem_and_extension,
};
use crate::layout::stored;
use crate::plan::{
    Align, CheckImages, Extra, PayloadRecipe, Plan, PlanOptions, Record, Stack, TileOptions, tiles,
};
use crate::shards::{
    Maker, OfImage, ReadFiles, Scenes, StackWindow, UnpackedScenes, Value, Wanted, Window, stack,
};
use crate::source::{Inputs, Source, array_start, media_type_of, read_file};

/// Memory of larger files is not kept: every thread keeps that of one.
const MOST_KEPT: usize = 4 << 20;

/// The values that packing an input would give, compared with those of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// The same values.
    Same,
    /// The values differ, or there is a fault.
    Other,
    /// There would be no value, since too little of a tile was measured.
    Empty,
}

/// The facts that a bundle stores about a sample, without its values.
#[derive(Debug, Clone)]
pub(crate) struct StoredSample {
    pub(crate) image: StoredValue,
    /// Digest of the file that the image was made from.
    pub(crate) source: Option<Digest>,
    /// Values of the fields beside image and label, in order.
    pub(crate) further: Vec<StoredValue>,
}

/// Length and digest of a value.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StoredValue {
    pub(crate) len: Option<usize>,
    pub(crate) digest: Option<Digest>,
}

impl StoredValue {
    pub(crate) fn has_len(&self, bytes: u64) -> bool {
        self.len.is_some_and(|len| len as u64 == bytes)
    }

    pub(crate) fn is(&self, value: &[u8]) -> bool {
        self.has_len(value.len() as u64) && self.digest == Some(Digest::of(value))
    }
}

/// Reads and checks inputs; one per thread.
pub(crate) struct InputReader<'a> {
    plan: &'a Plan,
    options: &'a PlanOptions,
    limits: Limits,
    decoder: Decoder,
    maker: Maker<'a>,
    files: ReadFiles<'a>,
    /// Whether images have files of other fields.
    has_files: bool,
    /// Whether these belong to their pixels, whatever they say of their place.
    ignores_places: bool,
    scenes: Scenes,
    pixels: &'a PixelBudget,
    /// Memory of the last file, for the next: the system maps and clears new memory.
    file: Vec<u8>,
}

impl<'a> InputReader<'a> {
    /// Returns a reader of the samples of `plan`, with memory from `spares`, which decodes as
    /// `pixels` allows, with the scenes that other readers unpacked.
    pub(crate) fn new(
        plan: &'a Plan,
        options: &'a PlanOptions,
        spares: &'a Spares,
        pixels: &'a PixelBudget,
        unpacked: &Arc<UnpackedScenes>,
    ) -> Self {
        let PlanOptions { max_pixels, pages, align, .. } = *options;
        let limits = Limits { max_pixels };
        let files = ReadFiles::new(&plan.files, pages);
        Self {
            plan,
            options,
            limits,
            decoder: Decoder::new(DecodeOptions { limits, ..DecodeOptions::default() }),
            maker: Maker { recipe: &plan.recipe, spares, statistics: false, pages },
            has_files: !files.is_empty(),
            ignores_places: align == Align::Ignore,
            files,
            scenes: Scenes::new(max_pixels, pages, unpacked),
            pixels,
            file: Vec::new(),
        }
    }

    /// Sums the pixels of pictures that are decoded.
    pub(crate) fn sum_pixels(&mut self, statistics: bool) {
        self.maker.statistics = statistics;
    }

    /// The values of a planned input, or why it cannot be packed.
    pub(crate) fn read(&mut self, source: &Source, record: &Record) -> Result<Value, BadInput> {
        self.value(source, record).map_err(|fault| fault.at(record.key.to_string()))
    }

    fn value(&mut self, source: &Source, record: &Record) -> Result<Value, Fault> {
        let (of_table, of_files, extra) = further(self.plan, record).ok_or_else(|| {
            Fault::new("this file's line in the plan is damaged".to_owned(), None)
        })?;
        let (mut value, image) = match self.assembled(source, record, extra.as_ref())? {
            Some(made) => made,
            None => self.whole(source, record)?,
        };
        if value.is_empty {
            return Ok(value);
        }
        value.further = of_table;
        let Self { files, decoder, scenes, .. } = self;
        value.further.extend(files.read(&of_files, &image, decoder, scenes)?);
        value.further.extend(self.of_array(value.geo.take(), extra.as_ref()));
        Ok(value)
    }

    /// Compares the values that packing would make of a planned input with those that a bundle has
    /// of it, if it has any. An input that cannot be packed is not the same: packing says why.
    pub(crate) fn compare(
        &mut self,
        source: &Source,
        record: &Record,
        stored: Option<&StoredSample>,
    ) -> Likeness {
        self.likeness(source, record, stored).unwrap_or(Likeness::Other)
    }

    /// Compares an input with a sample. If the digest of the source file is stored, the value is
    /// not made again.
    fn likeness(
        &mut self,
        source: &Source,
        record: &Record,
        stored: Option<&StoredSample>,
    ) -> Result<Likeness, Fault> {
        let Some((of_table, of_files, extra)) = further(self.plan, record) else {
            return Ok(Likeness::Other);
        };
        let made = self.assembled(source, record, extra.as_ref())?;
        let (like, image, of_array) = match (made, stored) {
            (Some((value, _)), _) if value.is_empty => return Ok(Likeness::Empty),
            (Some((value, image)), _) => {
                let like = stored.is_some_and(|stored| stored.image.is(&value.bytes));
                (like, image, Some(self.of_array(value.geo, extra.as_ref())))
            }
            (None, Some(stored)) => {
                let encoded = self.plan.recipe.payload() == Payload::Encoded;
                let becomes_png = becomes_png(stem_and_extension(record.key.as_str()).1);
                if encoded && !becomes_png && !stored.image.has_len(record.bytes) {
                    return Ok(Likeness::Other);
                }
                let bytes = read_file(source, record.key.as_str(), record.bytes, Vec::new())?;
                let bytes = self.as_picture(bytes)?;
                let known = if encoded { stored.image.digest } else { stored.source };
                (known == Some(Digest::of(&bytes)), self.of_file(&bytes)?, None)
            }
            (None, None) => return Ok(Likeness::Other),
        };
        let Some(stored) = stored.filter(|_| like) else { return Ok(Likeness::Other) };
        let (n, m) = (of_table.len(), of_table.len() + of_files.len());
        let part = |range: Range<usize>| stored.further.get(range).unwrap_or_default();
        let are = |values: &[Vec<u8>], stored: &[StoredValue]| {
            values.len() == stored.len() && values.iter().zip(stored).all(|(v, s)| s.is(v))
        };
        let Self { files, decoder, scenes, .. } = self;
        let same = are(&of_table, part(0..n))
            && of_array.is_none_or(|values| are(&values, part(m..stored.further.len())))
            && files.are(&of_files, part(n..m), &image, decoder, scenes)?;
        Ok(if same { Likeness::Same } else { Likeness::Other })
    }

    /// Returns the values of the fields that an array brings along.
    fn of_array(&self, geo: Option<Geo>, extra: Option<&Extra>) -> Vec<Vec<u8>> {
        let recipe = &self.plan.recipe;
        let PayloadRecipe::Arrays { geo: is_geo, nodatas, ref of_files, .. } = *recipe else {
            return Vec::new();
        };
        let geo = geo.unwrap_or_default();
        let further =
            of_files.iter().map(|of| of.value(&geo, recipe.n_bands())).collect::<Vec<_>>();
        let Geo { crs, transform, nodata, .. } = geo;
        let mut values = Vec::new();
        if is_geo {
            let transform = transform.unwrap_or([f64::NAN; 6]);
            let transform = transform.iter().flat_map(|n| n.to_le_bytes()).collect();
            values.extend([crs.unwrap_or_default().into_bytes(), transform]);
        }
        if nodatas {
            values.push(nodata.unwrap_or(f64::NAN).to_le_bytes().to_vec());
        }
        values.extend(further);
        if let (true, Some(Extra::Stack(stack))) = (self.plan.recipe.n_dates() > 0, extra) {
            values.push(stack.dates.join("\n").into_bytes());
        }
        values
    }

    /// Makes the value of a file.
    fn whole(&mut self, source: &Source, record: &Record) -> Result<(Value, OfImage), Fault> {
        if let Source::Pixels(rows) = source {
            let pixels = rows.pixels(record.key.as_str())?;
            let size = self.plan.recipe.size();
            let image = OfImage { size, ..OfImage::default() };
            let array = ArrayValues { values: pixels, geo: None, valid: None };
            return Ok((self.maker.array(array)?, image));
        }
        let memory = mem::take(&mut self.file);
        let file = read_file(source, record.key.as_str(), record.bytes, memory)?;
        let mut file = self.as_picture(file)?;
        let _held = match self.options.inputs {
            Inputs::Arrays => {
                let numbers = array::numbers_at_once(&file, &self.limits)?;
                numbers.map(|numbers| self.pixels.take(numbers))
            }
            _ => self.decodes().then(|| self.held(&file)).transpose()?,
        };
        let flaw = self.check(&file)?;
        let image = self.of_file(&file)?;
        let source = self.options.source_digests.then(|| Digest::of(&file));
        let (media_type, misnamed) = self.recognised(record, &file);
        let made = self.maker.make(&mut file, &mut self.decoder)?;
        let mut value = Value { source, media_type, misnamed, ..made };
        if file.capacity() <= MOST_KEPT {
            self.file = file;
        }
        if flaw.is_some() {
            value.flaw = flaw;
        }
        Ok((value, image))
    }

    /// A picture of a format that is not stored as it is, as PNG; all other files as they are.
    fn as_picture(&self, file: Vec<u8>) -> Result<Vec<u8>, Fault> {
        let further =
            gular_codec::Further::sniff(&file).filter(|_| self.options.inputs == Inputs::Images);
        let Some(further) = further else { return Ok(file) };
        let (width, height) = further.size(&file, &self.limits)?;
        let _held = self.pixels.take(u64::from(width) * u64::from(height));
        Ok(further.to_png(&file, &self.limits, self.options.pages == Pages::First)?)
    }

    /// Returns the facts about an image that the files beside it need.
    fn of_file(&self, bytes: &[u8]) -> Result<OfImage, Fault> {
        let size = match self.options.inputs == Inputs::Images && self.files.compares_sizes() {
            true => Some(read_header(bytes, &self.limits)?.upright_size()),
            false => match self.plan.recipe {
                PayloadRecipe::Arrays {
                    frame: Some(_), ref shape, axes: Some(ref axes), ..
                } => Some(framed::size(bytes, shape, axes, &self.limits, self.options.pages)?),
                _ => self.plan.recipe.size(),
            },
        };
        let grid = match self.has_files && self.options.inputs == Inputs::Arrays {
            true => array::geo(bytes, &self.limits, self.options.pages)?.map(|geo| Grid::of(&geo)),
            false => None,
        };
        Ok(OfImage { size, grid, ignores_place: self.ignores_places, ..OfImage::default() })
    }

    /// Makes the value of a sample that is a tile or has several files; `None` for others.
    fn assembled(
        &mut self,
        source: &Source,
        record: &Record,
        extra: Option<&Extra>,
    ) -> Result<Option<(Value, OfImage)>, Fault> {
        match (self.options.tile, extra) {
            (tile, Some(Extra::Stack(stack))) => {
                self.stacked(source, record, stack, tile.as_ref()).map(Some)
            }
            (Some(tile), Some(Extra::Scene(bytes))) => {
                self.cut(source, record, *bytes, &tile).map(Some)
            }
            (Some(tile), None) => self.cut(source, record, 0, &tile).map(Some),
            (None, _) => Ok(None),
        }
    }

    /// The value of a sample that has several files, or of a tile of it.
    fn stacked(
        &mut self,
        source: &Source,
        record: &Record,
        stack: &Stack,
        tile: Option<&TileOptions>,
    ) -> Result<(Value, OfImage), Fault> {
        let corner = tiles::parse(record.key.as_str()).map(|(_, corner)| corner);
        let tile = corner.zip(tile).map(|(corner, tile)| (corner, tile.size, tile.min_valid));
        let (bands, n_dates) = (self.plan.recipe.bands_of_files(), self.plan.recipe.n_dates());
        let wanted = StackWindow { source, stack, tile, bands, n_dates };
        // JPEG 2000 takes much memory for each number, one file after the other.
        let decodes = stack.parts.iter().any(|part| is_jpeg_2000_name(&part.path));
        let (width, height) = self.plan.recipe.size().unwrap_or_default();
        let pixels = u64::from(width) * u64::from(height);
        let _held = decodes.then(|| self.pixels.take(pixels));
        let window = stack::read(&mut self.scenes, wanted)?;
        self.of_window(window, tile.map(|(corner, ..)| corner))
    }

    /// The value of a sample whose pixels were read, of a scene or of all of it.
    fn of_window(
        &mut self,
        window: Window,
        corner: Option<(u32, u32)>,
    ) -> Result<(Value, OfImage), Fault> {
        let Window { values, geo, valid, scene, scene_grid, is_empty } = window;
        if is_empty {
            return Ok((Value { is_empty, ..Value::default() }, OfImage::default()));
        }
        if self.plan.recipe.value_bytes() != Some(values.len() as u64) {
            let reason = "its type or its bands are not those of the other scenes".to_owned();
            return Err(Fault::new(reason, None));
        }
        let value = self.maker.array(ArrayValues { values, geo: Some(geo), valid })?;
        let grid = self.has_files.then_some(scene_grid);
        let corner = corner.unwrap_or_default();
        let ignores_place = self.ignores_places;
        Ok((value, OfImage { size: Some(scene), corner, grid, ignores_place }))
    }

    /// The value of a tile, whose scene has `bytes` bytes.
    fn cut(
        &mut self,
        source: &Source,
        record: &Record,
        bytes: u64,
        tile: &TileOptions,
    ) -> Result<(Value, OfImage), Fault> {
        let key = record.key.as_str();
        let Some((scene, corner)) = tiles::parse(key) else {
            // A scene that could not be read when the plan was made.
            array_start(source, key, record.bytes, &self.limits, self.options.pages)?;
            let reason = "it could not be read when the run began".to_owned();
            return Err(Fault::new(reason, Some("run again")));
        };
        let TileOptions { size: side, min_valid, .. } = *tile;
        let wanted =
            Wanted { source, number: 0, path: scene, bytes, corner, side, min_valid, fill: None };
        let window = self.scenes.read(wanted)?;
        self.of_window(window, Some(corner))
    }

    /// Whether inputs are decoded, to be checked or to be stored otherwise.
    fn decodes(&self) -> bool {
        let checks = matches!(self.options.check, CheckImages::Full | CheckImages::Strict);
        self.options.inputs == Inputs::Images
            && (checks || self.plan.recipe.payload() != Payload::Encoded)
    }

    /// Waits until a picture may be decoded.
    fn held(&self, bytes: &[u8]) -> Result<Pixels<'a>, Fault> {
        let Header { width, height, .. } = read_header(bytes, &self.limits)?;
        Ok(self.pixels.take(u64::from(width) * u64::from(height)))
    }

    /// What a file is by its first bytes, if it is stored as it is, and in words if its name says
    /// something else.
    fn recognised(&self, record: &Record, bytes: &[u8]) -> (Option<&'static str>, Option<String>) {
        if self.options.inputs != Inputs::Images {
            return (None, None);
        }
        let named = media_type_of(record.key.as_str(), self.options.inputs);
        let found = Format::sniff(bytes).map(Format::media_type);
        let misnamed = found.zip(named).filter(|(found, named)| found != named);
        let misnamed = misnamed.map(|(found, named)| {
            format!("its extension says {named}, and its content is {found}")
        });
        let is_stored = matches!(self.plan.recipe, PayloadRecipe::Encoded);
        (found.or(named).filter(|_| is_stored), misnamed)
    }

    /// Returns what is wrong with an input that can still be packed.
    fn check(&mut self, bytes: &[u8]) -> Result<Option<String>, Fault> {
        if self.options.check == CheckImages::None || self.options.inputs != Inputs::Images {
            return Ok(None);
        }
        read_header(bytes, &self.limits)?;
        match self.options.check {
            CheckImages::None | CheckImages::Header => {}
            CheckImages::Full => drop(self.decoder.check(bytes)?),
            CheckImages::Strict => drop(self.decoder.validate(bytes)?),
        }
        Ok(self
            .decoder
            .flaw()
            .filter(|_| self.options.check == CheckImages::Full)
            .map(ToString::to_string))
    }
}

/// The values that a record has of a table, the planned files, and what else is read.
type Further = (Vec<Vec<u8>>, Vec<serde_json::Value>, Option<Extra>);

fn further(plan: &Plan, record: &Record) -> Option<Further> {
    if record.values.is_empty() {
        return (plan.n_planned() == 0).then_some((Vec::new(), Vec::new(), None));
    }
    let mut values: Vec<serde_json::Value> = serde_json::from_str(&record.values).ok()?;
    let extra = match values.len() == plan.n_planned() + 1 {
        true => Some(Extra::of_value(values.pop()?)?),
        false => None,
    };
    if values.len() != plan.n_planned() {
        return None;
    }
    let n_table = plan.n_planned() - plan.files.len();
    let of_files = values.split_off(n_table);
    Some((stored(plan.fields.get(..n_table)?, &values)?, of_files, extra))
}
