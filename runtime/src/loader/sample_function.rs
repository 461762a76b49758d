//! A function of the training program that is called with each sample, before it is part of a
//! batch.
//!
//! ```text
//! pixels, cropped and augmented ─┐             ┌─▶ pixels, normalised then, or final numbers
//! other fields ──────────────────┼─▶ function ─┼─▶ other fields
//! label, random numbers ─────────┘             └─▶ label
//! ```
//!
//! Order, resume and tally know nothing of it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;
use gular_augment::{
    AxisOrder, Normalise, Numbers, PixelRows, PixelTools, PixelType, Placement, Transform, Writer,
};
use gular_bundle::Dtype;
use half::{bf16, f16};

use super::columns::Column;
use super::fields::{Fields, ImageField, OtherField, OtherKind};
use super::slot::Cell;
use super::{LoaderError, LoaderOptions};
use crate::Error;

/// The only column of batches whose samples are put together by the training program.
const SAMPLE: &str = "sample";

/// A function that is called with each sample. Samples are made by several threads, each of which
/// calls it through a lane of its own.
///
/// It must depend on nothing but the sample and its random numbers, so that threads, ranks and
/// resumes never change a batch.
pub trait SampleFunction: Send + Sync {
    /// What a thread calls the function through.
    ///
    /// # Errors
    /// Why there is none, in words.
    fn lane(self: Arc<Self>) -> Result<Box<dyn SampleLane>, String>;

    /// Ends calls that are under way, with errors: the loader is dropped, and waits for them.
    fn end(&self) {}
}

/// Calls of a [`SampleFunction`] by one thread. The thread makes the next samples while the function
/// runs, so several are given before the first is taken.
pub trait SampleLane: Send {
    /// Memory of `len` bytes for the picture of the sample that is given next, so that it need not be
    /// copied there.
    ///
    /// # Errors
    /// Why the function cannot be reached, in words.
    fn picture(&mut self, len: usize) -> Result<&mut [u8], String>;

    /// Queues a sample. Not called while the lane is full.
    ///
    /// # Errors
    /// Why the function cannot be reached, in words; then the sample is not taken.
    fn give(&mut self, sample: &GivenSample<'_>) -> Result<(), String>;

    /// Whether a sample has to be taken before another one is given.
    fn is_full(&self) -> bool;

    /// Waits for the sample that was given first of those not taken, and calls `take` with its result,
    /// which has all fields.
    ///
    /// # Errors
    /// Why there is none; or what `take` says.
    fn take(
        &mut self,
        take: &mut dyn FnMut(&SampleResult<'_>) -> Result<(), String>,
    ) -> Result<(), Untaken>;
}

/// Why there is no result of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Untaken {
    /// The function failed, as these words say.
    Failed(String),
    /// It was interrupted, may have changed what it was given, and is to be called again.
    Interrupted,
}

impl From<String> for Untaken {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// A [`SampleFunction`], and what becomes of its results.
#[derive(Clone)]
pub struct Each {
    function: Arc<dyn SampleFunction>,
    collected: bool,
}

/// A sample as a function gets it.
#[derive(Debug)]
pub struct GivenSample<'a> {
    /// Its number in the split.
    pub number: u64,
    /// Its key.
    pub key: &'a str,
    /// The epoch.
    pub epoch: u64,
    /// Random bits that depend on (seed, epoch, sample) alone.
    pub random: [u64; 2],
    /// Its class, in a bundle with labels.
    pub label: Option<i64>,
    /// Its fields: the pixels of pictures `[height, width, bands]`, other fields as in a batch.
    pub values: Vec<GivenValue<'a>>,
}

/// A field of a [`GivenSample`].
#[derive(Debug)]
pub struct GivenValue<'a> {
    /// The field's name.
    pub name: &'a str,
    /// Type and shape of numbers; `None` for bytes of any length.
    pub numbers: Option<(Dtype, Vec<usize>)>,
    /// Whether it is a picture, which may be returned as floats, or with its bands first.
    pub is_picture: bool,
    /// Whether it is on the pixels of the image, or tells places on it, so that what moves one moves
    /// the other.
    pub is_on_image: bool,
    /// The numbers, in this machine's byte order, or the bytes; `None`: what was written to
    /// [`SampleLane::picture`].
    pub bytes: Option<&'a [u8]>,
}

/// What a function made of a sample.
#[derive(Debug)]
pub struct SampleResult<'a> {
    /// The class, if the sample has one.
    pub label: Option<i64>,
    /// The fields; ignored where the training program puts samples together.
    pub values: Vec<ResultValue>,
    /// The memory of the fields, or all that the training program needs of the sample.
    pub bytes: &'a [u8],
}

/// A field of a [`SampleResult`].
#[derive(Debug)]
pub struct ResultValue {
    /// The field's name.
    pub name: String,
    /// Type and shape of numbers; `None` for bytes of any length.
    pub numbers: Option<(Dtype, Vec<usize>)>,
    /// Whether the shape of a picture is `[bands, height, width]`.
    pub planes: bool,
    /// Where in the result's memory the numbers or bytes are.
    pub range: Range<usize>,
}

impl Each {
    /// Calls `function`, whose results are the rows of batches: pictures of the batch's size, and
    /// other fields of their type and shape. Pixels of the type that it was given are then
    /// normalised; floats in place of whole numbers are final.
    #[must_use]
    pub fn new(function: Arc<dyn SampleFunction>) -> Self {
        Self { function, collected: false }
    }

    /// Calls `function`; the training program puts its results together. Batches have a field
    /// `sample` instead of their own: the [`bytes`](SampleResult::bytes) of each result.
    #[must_use]
    pub fn collected(function: Arc<dyn SampleFunction>) -> Self {
        Self { function, collected: true }
    }

    pub(super) fn end(&self) {
        self.function.end();
    }
}

impl fmt::Debug for Each {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Each").field("collected", &self.collected).finish_non_exhaustive()
    }
}

/// What a thread keeps between samples: its lane, once it has made one.
#[derive(Default)]
pub(super) struct EachTools {
    lane: Option<Box<dyn SampleLane>>,
}

impl EachTools {
    /// Whether a result has to be taken before the next sample is given.
    pub(super) fn are_full(&self) -> bool {
        self.lane.as_ref().is_some_and(|lane| lane.is_full())
    }
}

/// How samples are given to a function, and how its results become rows.
#[derive(Debug)]
pub(super) struct EachStage {
    each: Each,
    /// The fields of the bundle in a batch.
    fields: Vec<Column>,
    /// The columns of batches.
    columns: Vec<Column>,
    pictures: Option<Pictures>,
    /// Columns and rows of the pictures in a batch.
    size: (usize, usize),
}

/// How pictures are given and taken.
#[derive(Debug)]
struct Pictures {
    /// The type of the pixels.
    given: Dtype,
    bands: usize,
    /// Writes pixels as they are given.
    give: Writer,
    /// Normalises pixels that are like those given.
    pixels: Writer,
    /// Writes floats that are final.
    finals: Writer,
    /// Which of the columns are pictures.
    columns: Vec<usize>,
}

impl EachStage {
    /// # Errors
    /// [`Error::Option`].
    pub(super) fn new(fields: &Fields, options: &LoaderOptions) -> Result<Option<Self>, Error> {
        let Some(each) = options.each.clone() else {
            if matches!(options.transform, Transform::Whole { .. }) {
                let reason = "whole pictures are for a function that brings them to the size of the batch, and `each` is not given".into();
                return Err(Error::Option { option: "transform", reason });
            }
            return Ok(None);
        };
        let pictures =
            fields.image.as_ref().map(|image| Pictures::new(image, &fields.others, options));
        let own = fields.columns.clone();
        let columns = match (each.collected, own.first()) {
            (true, Some(first)) => vec![Column {
                name: SAMPLE.to_owned(),
                field: first.field,
                fixed: None,
                channels_last: false,
            }],
            _ => own.clone(),
        };
        let (width, height) = options.transform.size();
        let size = (width as usize, height as usize);
        Ok(Some(Self { each, fields: own, columns, pictures: pictures.transpose()?, size }))
    }

    /// The fields in a row of a batch.
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(super) fn is_collected(&self) -> bool {
        self.each.collected
    }

    pub(super) fn end(&self) {
        self.each.end();
    }

    /// Writes the pixels of second pictures.
    pub(super) fn writer(&self) -> Option<&Writer> {
        self.pictures.as_ref().map(|pictures| &pictures.give)
    }

    /// Makes memory for the fields besides the image, whose placement is `place`.
    pub(super) fn cells(&self, others: &[OtherField], place: Option<&Placement>) -> Vec<Cell> {
        let skip = self.fields.len() - others.len();
        let columns = self.fields.iter().skip(skip).zip(others);
        let cells = columns.map(|(column, other)| {
            let Some((dtype, shape)) = self.given(column, other, place) else {
                return Cell::Bytes(Vec::new());
            };
            Cell::Row(BytesMut::zeroed(shape.iter().product::<usize>() * size_of(dtype)))
        });
        cells.collect()
    }

    /// Type and shape of a field besides the image, as it is given.
    fn given(
        &self,
        column: &Column,
        other: &OtherField,
        place: Option<&Placement>,
    ) -> Option<(Dtype, Vec<usize>)> {
        let (dtype, mut shape) = column.fixed.clone()?;
        let Some((width, height)) = place.map(Placement::size) else { return Some((dtype, shape)) };
        let (width, height) = (width as usize, height as usize);
        if let Some(pictures) = self.pictures.as_ref().filter(|_| other.is_picture()) {
            return Some((pictures.given, vec![height, width, pictures.bands]));
        }
        if matches!(other.kind, OtherKind::Interpolated(_) | OtherKind::Nearest(_)) {
            let rows = if column.channels_last { 0 } else { shape.len().saturating_sub(2) };
            if let Some([y, x]) = shape.get_mut(rows..rows + 2) {
                (*y, *x) = (height, width);
            }
        }
        Some((dtype, shape))
    }

    /// Writes the pixels that `tools` has as they are given.
    pub(super) fn give_picture(
        &self,
        tools: &PixelTools,
        pixel_type: PixelType,
        (width, height, channels): (usize, usize, usize),
        flip: bool,
        to: &mut EachTools,
        key: &str,
    ) -> Result<(), Error> {
        let Some(pictures) = &self.pictures else { return Ok(()) };
        let len = width * height * pictures.bands * size_of(pictures.given);
        let memory = self.lane(to).and_then(|lane| lane.picture(len));
        let memory = memory.map_err(|reason| failed(key, reason))?;
        if pictures.give.copies(channels) {
            // Three times as fast as value by value, which is for other bands and types.
            tools.copy_bytes(width * channels, channels, flip, memory);
        } else {
            tools.write(pixel_type, (width, channels), flip, &pictures.give, memory);
        }
        Ok(())
    }

    /// Whether a picture of `channels` 8-bit values is given as it is decoded.
    pub(super) fn gives_decoded(&self, channels: usize) -> bool {
        self.pictures.as_ref().is_some_and(|pictures| pictures.give.copies(channels))
    }

    /// Memory for a picture of `len` bytes that is given next.
    pub(super) fn memory<'a>(
        &self,
        tools: &'a mut EachTools,
        len: usize,
    ) -> Result<&'a mut [u8], String> {
        self.lane(tools)?.picture(len)
    }

    fn lane<'a>(&self, tools: &'a mut EachTools) -> Result<&'a mut dyn SampleLane, String> {
        if tools.lane.is_none() {
            tools.lane = Some(Arc::clone(&self.each.function).lane()?);
        }
        Ok(&mut **tools.lane.as_mut().expect("made above"))
    }

    /// Gives a sample to the function. `sample` has no values yet.
    pub(super) fn give(
        &self,
        sample: &GivenSample<'_>,
        others: (&[OtherField], &[Cell]),
        place: Option<&Placement>,
        tools: &mut EachTools,
    ) -> Result<(), Error> {
        let mut columns = self.fields.iter();
        let mut values = Vec::with_capacity(self.fields.len());
        if let (Some(place), Some(pictures)) = (place, &self.pictures)
            && let Some(column) = columns.next()
        {
            let (width, height) = place.size();
            let shape = vec![height as usize, width as usize, pictures.bands];
            let numbers = Some((pictures.given, shape));
            values.push(GivenValue {
                name: &column.name,
                numbers,
                is_picture: true,
                is_on_image: true,
                bytes: None,
            });
        }
        for ((column, other), cell) in columns.zip(others.0).zip(others.1) {
            let bytes = match cell {
                Cell::Row(bytes) => &bytes[..],
                Cell::Bytes(bytes) => bytes,
            };
            let (numbers, bytes) = (self.given(column, other, place), Some(bytes));
            let (is_picture, is_on_image) = (other.is_picture(), other.is_on_image());
            values.push(GivenValue { name: &column.name, numbers, is_picture, is_on_image, bytes });
        }
        let sample = GivenSample { values, ..*sample };
        let given = self.lane(tools).and_then(|lane| lane.give(&sample));
        given.map_err(|reason| failed(sample.key, reason))
    }

    /// Waits for the result of the sample that was given first, and writes it to the cells of its row.
    /// Returns its class; `None` where the sample has to be made and given again.
    pub(super) fn take_result(
        &self,
        tools: &mut EachTools,
        key: &str,
        row: &mut [Cell],
    ) -> Result<Option<Option<i64>>, Error> {
        let mut label = None;
        let mut take = |result: &SampleResult<'_>| {
            label = result.label;
            if let ([Cell::Bytes(cell)], true) = (&mut *row, self.each.collected) {
                cell.clear();
                cell.extend_from_slice(result.bytes);
                return Ok(());
            }
            let mut fields = self.fields.iter().zip(&mut *row).enumerate();
            fields.try_for_each(|(at, (column, cell))| self.take((at, column), result, cell))
        };
        match self.lane(tools).map_err(Untaken::Failed).and_then(|lane| lane.take(&mut take)) {
            Ok(()) => Ok(Some(label)),
            Err(Untaken::Interrupted) => Ok(None),
            Err(Untaken::Failed(reason)) => Err(failed(key, reason)),
        }
    }

    /// Writes a field of `result` to its cell.
    fn take(
        &self,
        (at, column): (usize, &Column),
        result: &SampleResult<'_>,
        cell: &mut Cell,
    ) -> Result<(), String> {
        let name = &column.name;
        let Some(value) = result.values.iter().find(|value| value.name == *name) else {
            return Err(format!("it returned no `{name}`"));
        };
        let bytes = result.bytes.get(value.range.clone()).unwrap_or_default();
        match (cell, &value.numbers, &self.pictures) {
            (Cell::Bytes(cell), None, _) => {
                cell.clear();
                cell.extend_from_slice(bytes);
                Ok(())
            }
            (Cell::Row(cell), Some((dtype, shape)), Some(pictures))
                if pictures.columns.contains(&at) =>
            {
                pictures.take(name, (*dtype, shape), value.planes, bytes, self.size, cell)
            }
            (Cell::Row(cell), Some(numbers), _)
                if column.fixed.as_ref() == Some(numbers) && cell.len() == bytes.len() =>
            {
                cell.copy_from_slice(bytes);
                Ok(())
            }
            (Cell::Row(_), found, _) => Err(format!(
                "it returned {} as `{name}`, and a batch has {} for each sample",
                shown(found.as_ref()),
                shown(column.fixed.as_ref())
            )),
            (Cell::Bytes(_), found, _) => {
                Err(format!("it returned {} as `{name}`, which is bytes", shown(found.as_ref())))
            }
        }
    }
}

impl Pictures {
    fn new(
        image: &ImageField,
        others: &[OtherField],
        options: &LoaderOptions,
    ) -> Result<Self, Error> {
        let ImageField { writer, normalise, .. } = image;
        if image.pixels.is_some_and(|pixels| pixels.is_series()) {
            let reason = "images with an axis of times or depths are not given to a function; call it with the batch".into();
            return Err(Error::Option { option: "each", reason });
        }
        let given = match writer.stored {
            dtype @ (Dtype::U8 | Dtype::U16) => dtype,
            // Cropped and resized, they are floats, and would be rounded.
            dtype @ (Dtype::I8 | Dtype::I16 | Dtype::F16) if options.numbers == Numbers::Stored => {
                dtype
            }
            _ => Dtype::F32,
        };
        let bands = writer.bands.len();
        let how = normalise.as_ref().map_or_else(|_| Normalise::scaled(), |(how, _)| how.clone());
        let as_is = Normalise { scale: Some(1.0), ..Normalise::scaled() };
        let all = || (0..bands).collect();
        let LoaderOptions { numbers, layout, .. } = *options;
        let others = others.iter().enumerate().filter(|(_, other)| other.is_picture());
        Ok(Self {
            given,
            bands,
            give: Writer::new(
                Numbers::Stored,
                AxisOrder::ChannelsLast,
                writer.bands.clone(),
                given,
                &as_is,
            ),
            pixels: Writer::new(numbers, layout, all(), writer.stored, &how),
            finals: Writer::new(numbers, layout, all(), Dtype::F32, &as_is),
            columns: std::iter::once(0).chain(others.map(|(at, _)| at + 1)).collect(),
        })
    }

    /// Writes a picture to a row.
    fn take(
        &self,
        name: &str,
        (dtype, shape): (Dtype, &[usize]),
        planes: bool,
        bytes: &[u8],
        (width, height): (usize, usize),
        out: &mut [u8],
    ) -> Result<(), String> {
        let Self { bands, .. } = *self;
        let wanted = if planes { vec![bands, height, width] } else { vec![height, width, bands] };
        let is_grey = bands == 1 && shape == [height, width];
        if shape != wanted && !is_grey || bytes.len() != width * height * bands * size_of(dtype) {
            return Err(format!(
                "it returned {} as `{name}`, and a batch has {}",
                shown(Some(&(dtype, shape.to_vec()))),
                shown(Some(&(self.given, wanted)))
            ));
        }
        let is_float = matches!(dtype, Dtype::F16 | Dtype::F32 | Dtype::F64);
        let writer = match () {
            () if dtype == self.given => &self.pixels,
            () if is_float && self.pixels.numbers != Numbers::Stored => &self.finals,
            () => {
                let floats = if self.pixels.numbers == Numbers::Stored {
                    ", as the numbers of batches are those stored"
                } else {
                    " or floats"
                };
                return Err(format!(
                    "it returned {} as `{name}`, expected {}{floats}",
                    shown(Some(&(dtype, shape.to_vec()))),
                    name_of(self.given)
                ));
            }
        };
        let is_final = planes && dtype == Dtype::F32 && writer.numbers == Numbers::F32;
        if is_final && writer.layout == AxisOrder::Contiguous && dtype != self.given {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        let order = |at: usize| if planes { at % bands * width * height + at / bands } else { at };
        let rows = PixelRows { values: bytes, width, channels: bands, pitch: width };
        match dtype {
            Dtype::U8 if !planes => writer.u8s(rows, false, out),
            Dtype::U8 => writer.u8s(of(rows, &ordered(bytes, order, |[v]: [u8; 1]| v)), false, out),
            Dtype::U16 => {
                let values = ordered(bytes, order, u16::from_ne_bytes);
                writer.u16s(of(rows, &values), false, out);
            }
            _ => writer.f32s(of(rows, &floats(dtype, bytes, order)), false, out),
        }
        Ok(())
    }
}

fn failed(key: &str, reason: String) -> Error {
    LoaderError::Each { key: key.to_owned(), reason }.into()
}

/// The same picture with other values.
fn of<'a, T>(rows: PixelRows<'_, u8>, values: &'a [T]) -> PixelRows<'a, T> {
    let PixelRows { width, channels, pitch, .. } = rows;
    PixelRows { values, width, channels, pitch }
}

/// The numbers of `bytes`, each from the place that `order` says.
fn ordered<T: Copy, const N: usize>(
    bytes: &[u8],
    order: impl Fn(usize) -> usize,
    number: impl Fn([u8; N]) -> T,
) -> Vec<T> {
    let (numbers, _) = bytes.as_chunks::<N>();
    (0..numbers.len()).map(|at| number(numbers[order(at)])).collect()
}

fn floats(dtype: Dtype, bytes: &[u8], order: impl Fn(usize) -> usize) -> Vec<f32> {
    match dtype {
        Dtype::I8 => ordered(bytes, order, |[v]: [u8; 1]| f32::from(v as i8)),
        Dtype::I16 => ordered(bytes, order, |v: [u8; 2]| f32::from(i16::from_ne_bytes(v))),
        Dtype::F16 => ordered(bytes, order, |v: [u8; 2]| f16::from_ne_bytes(v).to_f32()),
        Dtype::Bf16 => ordered(bytes, order, |v: [u8; 2]| bf16::from_ne_bytes(v).to_f32()),
        Dtype::F64 => ordered(bytes, order, |v: [u8; 8]| f64::from_ne_bytes(v) as f32),
        _ => ordered(bytes, order, f32::from_ne_bytes),
    }
}

fn size_of(dtype: Dtype) -> usize {
    usize::try_from(dtype.size_bytes()).unwrap_or(1)
}

fn shown(numbers: Option<&(Dtype, Vec<usize>)>) -> String {
    numbers.map_or("bytes".to_owned(), |(dtype, shape)| format!("{} {shape:?}", name_of(*dtype)))
}

fn name_of(dtype: Dtype) -> String {
    format!("{dtype:?}").to_ascii_lowercase()
}
