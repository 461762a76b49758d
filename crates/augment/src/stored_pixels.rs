//! Writes a picture to a row of a batch: crops it, resizes it and converts it to numbers.
//!
//! ```text
//! encoded ─ decode the part ─┐
//!                            ├─▶ pixels of the size wanted ─ Writer ─▶ row
//! stored pixels ─ cut ───────┘   u8, u16 or f32
//! ```
//!
//! Stored bytes that are not resized go straight to the row.

use std::ops::Range;

use gular_bundle::{Axes, Dtype};
use gular_codec::{Error, Rect, Resize, Resizer, Sample};
use half::{bf16, f16};

use crate::normalise::{PixelRows, Writer};
use crate::{Depth, Placement};

/// The shape in which a field stores pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredPixels {
    /// Number of columns.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// Values at each pixel: the bands, of all times and depths together.
    pub channels: usize,
    /// The type of a value.
    pub dtype: Dtype,
    /// The numbers of times and of depths, if these are axes.
    pub series: [Option<usize>; 2],
    /// How the values lie if they are not `[height, width, channels]`.
    strides: Option<Strides>,
}

/// How far apart neighbouring values lie, counted in values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Strides {
    row: usize,
    column: usize,
    /// The axes at one pixel, the last one fastest: their lengths and strides.
    channels: [(usize, usize); 3],
}

impl Strides {
    /// Where the values of a pixel lie, from its first one on.
    fn offsets(&self) -> impl Iterator<Item = usize> {
        let [times, depths, bands] =
            self.channels.map(|(n, stride)| (0..n).map(move |i| i * stride));
        times.flat_map(move |t| {
            let bands = bands.clone();
            depths.clone().flat_map(move |z| bands.clone().map(move |c| t + z + c))
        })
    }
}

/// Buffers that a thread keeps between samples.
#[derive(Default)]
pub struct PixelTools {
    /// Resizes pixels of any type.
    pub resizer: Resizer,
    /// Pixels of type `u8`.
    pub u8s: Kept<u8>,
    /// Pixels of type `u16`.
    pub u16s: Kept<u16>,
    f32s: Kept<f32>,
    /// Stored values that were brought into the order `[height, width, channels]`.
    pub ordered: Vec<u8>,
    /// The value of floats around a picture.
    pub fill: f32,
    /// StoredPixels that were moved, before they are written as planes.
    pub moved: Vec<u8>,
}

/// Buffers for pixels between two steps.
#[derive(Default)]
pub struct Kept<T> {
    /// The part of a stored picture that is resized.
    cut: Vec<T>,
    /// The pixels that were resized before a part of them is kept, or that were kept before zeros
    /// are added around them.
    pub whole: Vec<T>,
    /// The finished pixels.
    pub made: Vec<T>,
}

/// The type of pixels of the size wanted, and with it where they are.
#[derive(Debug, Clone, Copy)]
pub enum PixelType {
    /// In [`PixelTools::u8s`].
    U8,
    /// In [`PixelTools::u16s`].
    U16,
    /// In buffers for floats.
    F32,
}

impl PixelTools {
    /// Writes the result, which has `pixel_type`: rows of `width` pixels, mirrored where `flip`.
    pub fn write(
        &self,
        pixel_type: PixelType,
        (width, channels): (usize, usize),
        flip: bool,
        writer: &Writer,
        out: &mut [u8],
    ) {
        match pixel_type {
            PixelType::U8 => writer.u8s(self.u8s.picture(width, channels), flip, out),
            PixelType::U16 => writer.u16s(self.u16s.picture(width, channels), flip, out),
            PixelType::F32 => writer.f32s(self.f32s.picture(width, channels), flip, out),
        }
    }

    /// Copies the result, bytes in rows of `line` with pixels of `pixel`, mirrored where `flip`.
    pub fn copy_bytes(&self, line: usize, pixel: usize, flip: bool, out: &mut [u8]) {
        let made = &self.u8s.made;
        if !flip {
            let n = made.len().min(out.len());
            out[..n].copy_from_slice(&made[..n]);
            return;
        }
        for (row, out) in made.chunks_exact(line).zip(out.chunks_exact_mut(line)) {
            match (row.as_chunks::<3>(), out.as_chunks_mut::<3>()) {
                ((row, []), (out, [])) if pixel == 3 => {
                    out.iter_mut().zip(row.iter().rev()).for_each(|(to, from)| *to = *from);
                }
                _ => {
                    let row = row.chunks_exact(pixel).rev();
                    out.chunks_exact_mut(pixel)
                        .zip(row)
                        .for_each(|(to, from)| to.copy_from_slice(from));
                }
            }
        }
    }

    /// Surrounds the result, which has `pixel_type` and is a part of a picture, with what `place`
    /// adds: zeros, or [`PixelTools::fill`].
    pub fn pad(&mut self, pixel_type: PixelType, place: &Placement, channels: usize) {
        match pixel_type {
            PixelType::U8 => self.u8s.pad(place, channels, 0),
            PixelType::U16 => self.u16s.pad(place, channels, 0),
            PixelType::F32 => self.f32s.pad(place, channels, self.fill),
        }
    }

    /// The result, which has `pixel_type`, to be changed.
    pub fn pixels(&mut self, pixel_type: PixelType) -> crate::Pixels<'_> {
        match pixel_type {
            PixelType::U8 => crate::Pixels::U8(&mut self.u8s.made),
            PixelType::U16 => crate::Pixels::U16(&mut self.u16s.made),
            PixelType::F32 => crate::Pixels::F32(&mut self.f32s.made),
        }
    }
}

impl<T: Copy + Default> Kept<T> {
    fn picture(&self, width: usize, channels: usize) -> PixelRows<'_, T> {
        PixelRows { values: &self.made, width, channels, pitch: width }
    }

    fn pad(&mut self, place: &Placement, channels: usize, fill: T) {
        let Some(pad) = place.pad else { return };
        let Self { whole, made, .. } = self;
        std::mem::swap(whole, made);
        let pitch = pad.width as usize * channels;
        made.clear();
        made.resize(pitch * pad.height as usize, fill);
        let kept = place.kept();
        let (start, len) = (pad.left as usize * channels, kept.width as usize * channels);
        let lines = made.chunks_exact_mut(pitch).skip(pad.top as usize);
        for (line, row) in lines.zip(whole.chunks_exact(len).take(kept.height as usize)) {
            // A row that begins at the right edge is not visible at all.
            let seen = line.get_mut(start..start + len);
            seen.into_iter().for_each(|line| line.copy_from_slice(row));
        }
    }
}

impl StoredPixels {
    /// `None` where the shape is not a picture's.
    pub fn of(dtype: Dtype, shape: &[u64], axes: &Axes) -> Option<Self> {
        let grid = axes.grid(shape)?;
        let side = |n: u64| u32::try_from(n).ok().filter(|n| *n > 0);
        let (width, height) = (side(grid.width)?, side(grid.height)?);
        let channels = side(grid.channels)? as usize;
        // The length and the stride of an axis.
        let axis = |letter| {
            let at = axes.place(letter)?;
            let stride = shape.iter().skip(at + 1).try_fold(1_u64, |n, m| n.checked_mul(*m))?;
            Some((usize::try_from(*shape.get(at)?).ok()?, usize::try_from(stride).ok()?))
        };
        let ((_, row), (_, column)) = (axis('y')?, axis('x')?);
        let of_pixel = ['t', 'z', 'c'].map(axis);
        let strides =
            Strides { row, column, channels: of_pixel.map(|axis| axis.unwrap_or((1, 0))) };
        let in_order = column == channels
            && row == width as usize * channels
            && strides.offsets().eq(0..channels);
        let series = [of_pixel[0], of_pixel[1]].map(|axis| axis.map(|(n, _)| n));
        let strides = (!in_order).then_some(strides);
        Some(Self { width, height, channels, dtype, series, strides })
    }

    /// Whether values are stored in the order `[height, width, channels]`.
    pub fn is_in_order(&self) -> bool {
        self.strides.is_none()
    }

    /// Whether there is an axis of times or depths.
    pub fn is_series(&self) -> bool {
        self.series.iter().any(Option::is_some)
    }

    /// The number of bands, which each time and depth has.
    pub fn bands(&self) -> usize {
        self.channels / self.series.iter().flatten().product::<usize>().max(1)
    }

    /// The chosen bands of all times and depths, by their number among the channels.
    pub fn channels_of(&self, bands: &[usize]) -> Vec<usize> {
        let starts = (0..self.channels).step_by(self.bands().max(1));
        starts.flat_map(|start| bands.iter().map(move |band| start + band)).collect()
    }

    /// Returns `part` of a stored sample, that [`Pixels::part`] named, in the order
    /// `[height, width, channels]`; `rows` are those that are needed.
    pub fn in_order<'a>(
        &self,
        part: &'a [u8],
        rows: Range<u32>,
        ordered: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let Some(strides) = self.strides else { return part };
        match self.dtype.size_bytes() {
            1 => self.reorder::<1>(&strides, part, rows, ordered),
            2 => self.reorder::<2>(&strides, part, rows, ordered),
            4 => self.reorder::<4>(&strides, part, rows, ordered),
            _ => self.reorder::<8>(&strides, part, rows, ordered),
        }
        ordered
    }

    fn reorder<const N: usize>(
        &self,
        strides: &Strides,
        stored: &[u8],
        rows: Range<u32>,
        ordered: &mut Vec<u8>,
    ) {
        let (values, _) = stored.as_chunks::<N>();
        let line = self.width as usize * self.channels;
        ordered.resize(rows.len() * line * N, 0);
        let (cells, _) = ordered.as_chunks_mut::<N>();
        for (y, cells) in rows.zip(cells.chunks_exact_mut(line.max(1))) {
            for (channel, offset) in strides.offsets().enumerate() {
                let from = values.get(offset + y as usize * strides.row..).unwrap_or_default();
                let from = from.iter().step_by(strides.column.max(1));
                let to = cells.get_mut(channel..).unwrap_or_default();
                to.iter_mut().step_by(self.channels).zip(from).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// The type in which they are cut and resized.
    pub fn made_as(self, depth: Depth) -> Dtype {
        match (self.dtype, depth) {
            (Dtype::U8, Depth::Stored) | (Dtype::U8 | Dtype::U16, Depth::U8) => Dtype::U8,
            (Dtype::U16, Depth::Stored) | (Dtype::U8 | Dtype::U16, Depth::U16) => Dtype::U16,
            _ => Dtype::F32,
        }
    }

    /// Returns what `place` needs of a stored sample.
    pub fn part(self, place: &Placement) -> PixelPart {
        let (rows, place) = place.rows();
        let element = usize::try_from(self.dtype.size_bytes()).unwrap_or(1);
        let line = self.width as usize * self.channels * element;
        let needed = if self.strides.is_some() { 0..self.height } else { rows.clone() };
        let bytes = needed.start as usize * line..needed.end as usize * line;
        let pixels = Self { height: rows.end - rows.start, strides: None, ..self };
        PixelPart { bytes, rows, pixels, place }
    }

    /// Whether the result of `place` is a row of a batch, byte by byte.
    pub fn is_row(&self, place: &Placement, writer: &Writer) -> bool {
        let whole = Some(Rect::whole(self.width, self.height));
        let as_is = place.straight() == whole && place.pad.is_none() && !place.resize.flip;
        self.dtype == Dtype::U8 && as_is && writer.copies(self.channels)
    }

    /// Brings a stored sample to the size wanted, as `place` says but not mirrored; to `tools`.
    pub fn resize(
        &self,
        stored: &[u8],
        place: &Placement,
        depth: Depth,
        tools: &mut PixelTools,
    ) -> Result<PixelType, Error> {
        let PixelTools { resizer, u8s, u16s, f32s, .. } = tools;
        let pixel_type = match (self.dtype, self.made_as(depth)) {
            (Dtype::U8, Dtype::U8) => {
                let Kept { whole, made, .. } = u8s;
                made.resize(place.len(self.channels), 0);
                self.bytes(stored, place, false, resizer, whole, made)?;
                PixelType::U8
            }
            // The second byte of a little-endian pair is the high one.
            (_, Dtype::U8) => {
                self.bring(stored, place, resizer, u8s, |[_, high]: [u8; 2]| high)?;
                PixelType::U8
            }
            (Dtype::U8, Dtype::U16) => {
                self.bring(stored, place, resizer, u16s, |[v]: [u8; 1]| u16::from(v) * 257)?;
                PixelType::U16
            }
            (_, Dtype::U16) => {
                self.bring(stored, place, resizer, u16s, u16::from_le_bytes)?;
                PixelType::U16
            }
            (dtype, _) => {
                match dtype {
                    Dtype::I8 => {
                        self.bring(stored, place, resizer, f32s, |[v]: [u8; 1]| f32::from(v as i8))
                    }
                    Dtype::I16 => self.bring(stored, place, resizer, f32s, |v: [u8; 2]| {
                        f32::from(i16::from_le_bytes(v))
                    }),
                    Dtype::F16 => self.bring(stored, place, resizer, f32s, |v: [u8; 2]| {
                        f16::from_le_bytes(v).to_f32()
                    }),
                    Dtype::U32 => self.bring(stored, place, resizer, f32s, |v: [u8; 4]| {
                        u32::from_le_bytes(v) as f32
                    }),
                    Dtype::I32 => self.bring(stored, place, resizer, f32s, |v: [u8; 4]| {
                        i32::from_le_bytes(v) as f32
                    }),
                    Dtype::I64 => self.bring(stored, place, resizer, f32s, |v: [u8; 8]| {
                        i64::from_le_bytes(v) as f32
                    }),
                    Dtype::F64 => self.bring(stored, place, resizer, f32s, |v: [u8; 8]| {
                        f64::from_le_bytes(v) as f32
                    }),
                    Dtype::Bf16 => self.bring(stored, place, resizer, f32s, |v: [u8; 2]| {
                        bf16::from_le_bytes(v).to_f32()
                    }),
                    _ => self.bring(stored, place, resizer, f32s, f32::from_le_bytes),
                }?;
                PixelType::F32
            }
        };
        tools.pad(pixel_type, place, self.channels);
        Ok(pixel_type)
    }

    /// Bytes of which a row is made without a step between, straight to that row; whether they
    /// are such.
    pub fn straight(
        &self,
        stored: &[u8],
        place: &Placement,
        tools: &mut PixelTools,
        writer: &Writer,
        out: &mut [u8],
    ) -> Result<bool, Error> {
        let bytes = self.dtype == Dtype::U8 && writer.stored == Dtype::U8;
        if !bytes || place.pad.is_some() {
            return Ok(false);
        }
        let (copies, flip) = (writer.copies(self.channels), place.resize.flip);
        if let Some(rect) = place.straight()
            && (flip || !copies)
        {
            let (x, y, pitch) = (rect.x as usize, rect.y as usize, self.width as usize);
            let (width, channels) = (rect.width as usize, self.channels);
            let start = (y * pitch + x) * channels;
            let len = (rect.height as usize - 1) * pitch + width;
            let values = stored.get(start..start + len * channels).unwrap_or_default();
            writer.u8s(PixelRows { values, width, channels, pitch }, flip, out);
            return Ok(true);
        }
        // The picture is mirrored while it is resized.
        let made = copies && (!flip || place.keep.is_none());
        if made {
            self.bytes(stored, place, flip, &mut tools.resizer, &mut tools.u8s.whole, out)?;
        }
        Ok(made)
    }

    /// Bytes as they are stored, cut and resized; mirrored, where `flip`, only as they are resized.
    fn bytes(
        &self,
        stored: &[u8],
        place: &Placement,
        flip: bool,
        resizer: &mut Resizer,
        whole: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let Self { width, height, channels, .. } = *self;
        let Placement { region, keep, .. } = *place;
        let resize = Resize { flip, ..place.resize };
        if let Some(straight) = place.straight() {
            copy(stored, width, channels, straight, out);
            return Ok(());
        }
        let mut to = |out: &mut [u8]| match channels {
            3 => resizer.crop_resize(stored, (width, height), region, &resize, out),
            _ => resizer.resize_channels(stored, (width, height), channels, region, &resize, out),
        };
        let Some(keep) = keep else { return to(out) };
        whole.resize(resize.width as usize * resize.height as usize * channels, 0);
        to(whole)?;
        copy(whole, resize.width, channels, keep, out);
        Ok(())
    }

    /// Does the same as [`Pixels::bytes`], with values that `read` makes of `N` bytes each, and
    /// writes to `kept.made`.
    fn bring<T: Sample, const N: usize>(
        &self,
        stored: &[u8],
        place: &Placement,
        resizer: &mut Resizer,
        kept: &mut Kept<T>,
        read: impl Fn([u8; N]) -> T,
    ) -> Result<(), Error> {
        let Self { width, channels, .. } = *self;
        let Kept { cut, whole, made } = kept;
        let (values, _) = stored.as_chunks::<N>();
        made.resize(place.len(channels), T::default());
        if let Some(straight) = place.straight() {
            let lines = made.chunks_exact_mut(straight.width as usize * channels);
            for (line, row) in lines.zip(rows(values, width, channels, straight)) {
                line.iter_mut().zip(row).for_each(|(to, from)| *to = read(*from));
            }
            return Ok(());
        }
        let Placement { region, keep, .. } = *place;
        cut.clear();
        for row in rows(values, width, channels, region).take(region.height as usize) {
            cut.extend(row.iter().map(|from| read(*from)));
        }
        let (size, all) = ((region.width, region.height), Rect::whole(region.width, region.height));
        let resize = Resize { flip: false, ..place.resize };
        let Some(keep) = keep else {
            return resizer.resize_channels(cut, size, channels, all, &resize, made);
        };
        whole.resize(resize.width as usize * resize.height as usize * channels, T::default());
        resizer.resize_channels(cut, size, channels, all, &resize, whole)?;
        copy(whole, resize.width, channels, keep, made);
        Ok(())
    }
}

/// The part of a stored sample that a row of a batch needs.
#[derive(Debug)]
pub struct PixelPart {
    /// The bytes that are read.
    pub bytes: Range<usize>,
    /// The rows that are needed of them.
    pub rows: Range<u32>,
    /// The shape of these rows once they are in order.
    pub pixels: StoredPixels,
    /// What is done to them.
    pub place: Placement,
}

/// Moves a mask as its image is moved: from `stored`, (width, height) pixels of `pixel` bytes,
/// the value under the centre of each pixel of the result, and `fill` around it.
pub fn move_mask(
    stored: &[u8],
    (width, height): (u32, u32),
    pixel: usize,
    place: &Placement,
    fill: &[u8],
    out: &mut [u8],
) {
    let Placement { region, resize, pad, .. } = *place;
    let keep = place.kept();
    let (columns, _) = place.size();
    let (left, top) = pad.map_or((0, 0), |pad| (pad.left, pad.top));
    let from = |at: u32, start: u32, len: u32, of: u32| {
        let centre = (2 * u64::from(at) + 1) * u64::from(len) / (2 * u64::from(of.max(1)));
        start as usize + centre as usize
    };
    let lines = out.chunks_exact_mut(columns as usize * pixel);
    let stored = stored.chunks_exact(width as usize * pixel).take(height as usize);
    let stored: Vec<&[u8]> = stored.collect();
    let within = |at: u32, zeros: u32, len: u32| at.checked_sub(zeros).filter(|at| *at < len);
    for (y, line) in (0..).zip(lines) {
        let y = within(y, top, keep.height);
        let row = y.map(|y| from(keep.y + y, region.y, region.height, resize.height));
        let Some(row) = row.and_then(|row| stored.get(row)) else {
            line.chunks_exact_mut(pixel).for_each(|cell| cell.copy_from_slice(fill));
            continue;
        };
        for (x, cell) in (0..columns).zip(line.chunks_exact_mut(pixel)) {
            let x = if resize.flip { columns - 1 - x } else { x };
            match within(x, left, keep.width) {
                None => cell.copy_from_slice(fill),
                Some(x) => {
                    let x = from(keep.x + x, region.x, region.width, resize.width);
                    cell.copy_from_slice(&row[x * pixel..][..pixel]);
                }
            }
        }
    }
}

/// Writes pixels of `channels` values of `element` bytes as one plane for each channel.
pub fn planes(pixels: &[u8], channels: usize, element: usize, out: &mut [u8]) {
    let plane = out.len() / channels.max(1);
    for (channel, plane) in out.chunks_exact_mut(plane.max(1)).enumerate() {
        let values = pixels.chunks_exact(element).skip(channel).step_by(channels);
        plane.chunks_exact_mut(element).zip(values).for_each(|(to, from)| to.copy_from_slice(from));
    }
}

/// The little-endian bytes of `value` as `dtype`; `None` if it is not one of its numbers.
pub fn number_bytes(dtype: Dtype, value: f64) -> Option<Vec<u8>> {
    let bits = match dtype {
        Dtype::U8 | Dtype::I8 => 8,
        Dtype::U16 | Dtype::I16 => 16,
        Dtype::U32 | Dtype::I32 => 32,
        Dtype::I64 => 53,
        Dtype::F16 => return Some(f16::from_f64(value).to_le_bytes().to_vec()),
        Dtype::Bf16 => return Some(bf16::from_f64(value).to_le_bytes().to_vec()),
        Dtype::F32 => return Some((value as f32).to_le_bytes().to_vec()),
        Dtype::F64 => return Some(value.to_le_bytes().to_vec()),
    };
    let signed = matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
    let most = (1_i64 << if signed { bits - 1 } else { bits }) as f64;
    let least = if signed { -most } else { 0.0 };
    let fits = value.fract() == 0.0 && (least..most).contains(&value);
    let size = usize::try_from(dtype.size_bytes()).unwrap_or(1);
    fits.then(|| (value as i64).to_le_bytes()[..size].to_vec())
}

/// The rows of `rect` of pixels whose rows are `width` long, and those below.
fn rows<T>(pixels: &[T], width: u32, channels: usize, rect: Rect) -> impl Iterator<Item = &[T]> {
    let (from, len) = (rect.x as usize * channels, rect.width as usize * channels);
    let rows = pixels.chunks_exact(width as usize * channels).skip(rect.y as usize);
    rows.map(move |row| &row[from..from + len])
}

/// Copies `rect` of pixels whose rows are `width` long to the rows of `out`.
pub fn copy<T: Copy>(pixels: &[T], width: u32, channels: usize, rect: Rect, out: &mut [T]) {
    let lines = out.chunks_exact_mut(rect.width as usize * channels);
    lines.zip(rows(pixels, width, channels, rect)).for_each(|(to, from)| to.copy_from_slice(from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_rows_and_columns() {
        let of =
            |shape: &[u64], axes: &str| StoredPixels::of(Dtype::U16, shape, &axes.parse().unwrap());
        assert_eq!(of(&[4, 6], "yx"), of(&[4, 6, 1], "yxc"));
        assert_eq!(of(&[4, 6, 7], "yxc").map(|pixels| pixels.channels), Some(7));
        assert_eq!(
            of(&[2, 7, 4, 6], "tcyx").map(|pixels| (pixels.channels, pixels.bands())),
            Some((14, 7))
        );
        for (shape, axes) in [
            (&[3][..], "c"),
            (&[0, 6, 3], "yxc"),
            (&[1 << 32, 6, 3], "yxc"),
            (&[4, 6, 0], "yxc"),
            (&[4, 6, 3], "yx"),
        ] {
            assert_eq!(of(shape, axes), None, "{shape:?}");
        }
    }

    #[test]
    fn values_of_any_order_come_in_the_order_of_pixels() {
        // Each value is named by its place: 1000 t + 100 c + 10 y + x.
        let lens = [('t', 2_usize), ('z', 1), ('c', 3), ('y', 4), ('x', 5)];
        let named = |axes: &str| {
            let lens: Vec<usize> = axes
                .chars()
                .map(|axis| lens.iter().find(|(of, _)| *of == axis).unwrap().1)
                .collect();
            let n: usize = lens.iter().product();
            let value = |mut at: usize| {
                let mut value = 0;
                for (axis, len) in axes.bytes().map(char::from).zip(&lens).rev() {
                    let i = at % len;
                    at /= len;
                    value += i * match axis {
                        't' => 1000,
                        'c' => 100,
                        'y' => 10,
                        'x' => 1,
                        _ => 0,
                    };
                }
                value as u16
            };
            let shape: Vec<u64> = lens.iter().map(|n| *n as u64).collect();
            (shape, (0..n).flat_map(|at| value(at).to_le_bytes()).collect::<Vec<u8>>())
        };
        let ordered = |axes: &str| {
            let (shape, stored) = named(axes);
            let pixels = StoredPixels::of(Dtype::U16, &shape, &axes.parse().unwrap()).unwrap();
            let mut ordered = Vec::new();
            let values = match pixels.strides {
                None => stored[2 * 5 * pixels.channels..][..2 * 2 * 5 * pixels.channels].to_vec(),
                Some(_) => pixels.in_order(&stored, 1..3, &mut ordered).to_vec(),
            };
            values.chunks(2).map(|v| u16::from_le_bytes([v[0], v[1]])).collect::<Vec<_>>()
        };
        let (_, stored) = named("yxc");
        assert_eq!(stored.len(), 2 * 60);
        let expected = ordered("yxc");
        assert_eq!(expected[..4], [10, 110, 210, 11]);
        for axes in ["cyx", "ycx", "xyc", "cxy", "zcyx", "xcyz"] {
            assert_eq!(ordered(axes), expected, "{axes}");
        }
        let expected = ordered("yxtc");
        assert_eq!(expected[..7], [10, 110, 210, 1010, 1110, 1210, 11]);
        for axes in ["tcyx", "tyxc", "ctyx", "ytcx"] {
            assert_eq!(ordered(axes), expected, "{axes}");
        }
    }

    #[test]
    fn a_number_has_bytes_if_its_type_has_it() {
        assert_eq!(number_bytes(Dtype::U8, 255.0), Some(vec![255]));
        assert_eq!(number_bytes(Dtype::I16, -1.0), Some(vec![255, 255]));
        assert_eq!(number_bytes(Dtype::U32, 4_294_967_295.0), Some(vec![255; 4]));
        assert_eq!(number_bytes(Dtype::I64, -9999.0), Some((-9999_i64).to_le_bytes().to_vec()));
        for (dtype, value) in
            [(Dtype::U8, 256.0), (Dtype::U8, -1.0), (Dtype::I8, 0.5), (Dtype::I16, f64::NAN)]
        {
            assert_eq!(number_bytes(dtype, value), None, "{dtype:?} {value}");
        }
        assert_eq!(number_bytes(Dtype::F32, 0.5), Some(0.5_f32.to_le_bytes().to_vec()));
    }

    #[test]
    fn a_mask_goes_where_its_image_goes() {
        // 4 x 3 pixels of two bytes, named by their number.
        let stored: Vec<u8> = (0..12).flat_map(|i| [i, 100 + i]).collect();
        let check = |region, resize: Resize, keep, expected: &[u8]| {
            let place = Placement { region, resize, keep, pad: None };
            let mut out = vec![0; expected.len() * 2];
            move_mask(&stored, (4, 3), 2, &place, &[0, 0], &mut out);
            let expected: Vec<u8> = expected.iter().flat_map(|i| [*i, 100 + i]).collect();
            assert_eq!(out, expected, "{place:?}");
        };
        let flip = |resize| Resize { flip: true, ..resize };
        check(Rect::new(1, 1, 2, 2), Resize::to(2, 2), None, &[5, 6, 9, 10]);
        check(Rect::new(1, 1, 2, 2), flip(Resize::to(2, 2)), None, &[6, 5, 10, 9]);
        check(Rect::whole(4, 3), Resize::to(2, 1), None, &[5, 7]);
        check(Rect::new(0, 0, 2, 1), Resize::to(4, 2), None, &[0, 0, 1, 1, 0, 0, 1, 1]);
        check(Rect::whole(4, 3), Resize::to(4, 3), Some(Rect::new(2, 0, 2, 2)), &[2, 3, 6, 7]);
    }

    #[test]
    fn zeros_surround_pictures_and_a_value_of_its_own_masks() {
        use crate::Pad;

        // 3 x 2 pixels of 4 x 3 that are named by their number.
        let stored: Vec<u8> = (1..=12).collect();
        let check = |flip, (left, top), expected: &[u8]| {
            let resize = Resize { flip, ..Resize::to(3, 2) };
            let pad = Some(Pad { left, top, width: 4, height: 3 });
            let place = Placement { region: Rect::new(1, 1, 3, 2), resize, keep: None, pad };
            let mut mask = [9; 12];
            move_mask(&stored, (4, 3), 1, &place, &[255], &mut mask);
            let filled = expected.iter().map(|v| if *v == 0 { 255 } else { *v });
            assert!(mask.into_iter().eq(filled), "{place:?}: {mask:?}");
            let mut tools = PixelTools::default();
            let pixels = StoredPixels::of(Dtype::U8, &[3, 4], &Axes::yx()).unwrap();
            let pixel_type = pixels.resize(&stored, &place, Depth::Stored, &mut tools).unwrap();
            let how = crate::Normalise::scaled();
            let layout = crate::AxisOrder::ChannelsLast;
            let stored = crate::Numbers::Stored;
            let writer = Writer::new(stored, layout, vec![0], Dtype::U8, &how);
            let mut picture = [9; 12];
            tools.write(pixel_type, (4, 1), flip, &writer, &mut picture);
            assert_eq!(picture, *expected, "{place:?}");
        };
        check(false, (0, 0), &[6, 7, 8, 0, 10, 11, 12, 0, 0, 0, 0, 0]);
        check(false, (1, 1), &[0, 0, 0, 0, 0, 6, 7, 8, 0, 10, 11, 12]);
        check(true, (1, 1), &[0, 0, 0, 0, 8, 7, 6, 0, 12, 11, 10, 0]);
        check(false, (4, 3), &[0; 12]);
    }
}
