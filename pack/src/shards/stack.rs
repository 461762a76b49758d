//! Reads the pixels of a sample from its files.

use std::mem;

use gular_codec::Rect;
use gular_codec::tiff::{Geo, Number};

use super::resample::{Coarse, bilinear};
use crate::facts::{Fault, Grid, check_bytes};
use crate::plan::{Stack, StackFile};
use crate::shards::{Scenes, Wanted, Window, inside, n_valid, padded};
use crate::source::Source;

/// The part of a sample that is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackWindow<'a> {
    pub(crate) source: &'a Source,
    pub(crate) stack: &'a Stack,
    /// The tile's corner (column, row), the number of its columns and rows, and the part of its
    /// pixels that must have a value; `None` for all pixels.
    pub(crate) tile: Option<((u32, u32), u32, f64)>,
    /// The names of the bands that are files of their own.
    pub(crate) bands: &'a [String],
    /// The number of dates that all samples have, or 0: shorter series are filled up.
    pub(crate) n_dates: usize,
}

/// What all files of a sample share.
struct StackCommon {
    /// The location of the finest file.
    geo: Geo,
    /// Scale and offset of each band.
    scales: Vec<[f64; 2]>,
    /// Columns and rows of the finest file.
    size: (u32, u32),
    number: Number,
    /// Bands of each file.
    bands: usize,
    /// The value that means "not measured", as bytes.
    nodata: Option<Vec<u8>>,
}

/// Reads a window, `[date, row, column, band]`.
pub(crate) fn read(scenes: &mut Scenes, wanted: StackWindow<'_>) -> Result<Window, Fault> {
    let StackWindow { source, stack, tile, bands, n_dates } = wanted;
    let n_frames = n_dates.max(stack.n_frames());
    scenes.keep_open(stack.parts.len());
    let common = common(scenes, source, stack, tile.is_none())?;
    let (corner, side, min_valid) = tile.unwrap_or_default();
    let rect = match tile {
        Some(_) => inside(common.size, corner, side),
        None => Rect::whole(common.size.0, common.size.1),
    };
    let frame_bands = stack.parts.len() / stack.n_frames() * common.bands;
    let pixel = common.number.bytes() * frame_bands;
    let (width, height) = match tile {
        Some(_) => (side, side),
        None => (rect.width, rect.height),
    };
    let pixels = u64::from(width) * u64::from(height);
    check_bytes(pixels.saturating_mul(pixel as u64).saturating_mul(n_frames as u64))?;
    let fill = common.nodata.clone().unwrap_or_else(|| vec![0; common.number.bytes()]);
    let (mut values, mut valid, mut found) = (Vec::new(), None::<Vec<u8>>, 0);
    for (i, parts) in stack.frames().enumerate() {
        let (of_frame, kept) = frame(scenes, source, parts, &common, rect, tile.is_none())?;
        if min_valid > 0.0 {
            let nodata = common.nodata.as_deref();
            found += n_valid(&of_frame, common.number, frame_bands, nodata, kept.as_deref());
        }
        let (mut of_frame, kept) = match tile {
            Some(_) => {
                let is_nodata = common.nodata.is_some();
                padded((of_frame, kept), rect, side, pixel, &fill, is_nodata)
            }
            None => (of_frame, kept),
        };
        // The frames before had a value everywhere, or this one has.
        let n = of_frame.len() / pixel.max(1);
        if let (Some(kept), None) = (&kept, &valid) {
            valid = Some(vec![1; i * kept.len()]);
        }
        if let Some(valid) = &mut valid {
            valid.extend(kept.unwrap_or_else(|| vec![1; n]));
        }
        match i {
            0 => values = of_frame,
            _ => values.append(&mut of_frame),
        }
    }
    if tile.is_none() {
        // No other sample has these files.
        scenes.close();
    }
    let missing = n_frames - stack.n_frames();
    let n = usize::try_from(pixels).unwrap_or(0) * missing;
    if missing > 0 && (valid.is_some() || common.nodata.is_none()) {
        let valid = valid.get_or_insert_with(|| vec![1; values.len() / pixel.max(1)]);
        valid.resize(valid.len() + n, 0);
    }
    values.extend(fill.repeat(n * frame_bands));
    let asked = pixels as f64 * stack.n_frames() as f64 * min_valid;
    if min_valid > 0.0 && (found as f64) < asked {
        return Ok(Window::empty(common.size));
    }
    let scene_grid = Grid::of(&common.geo);
    let mut geo = common.geo.of_window(rect.x, rect.y);
    geo.set_scales(common.scales);
    if !bands.is_empty() {
        geo.bands = bands.to_vec();
    }
    Ok(Window { values, geo, valid, scene: common.size, scene_grid, is_empty: false })
}

fn file<'a>(source: &'a Source, part: &'a StackFile) -> Wanted<'a> {
    let StackFile { path, bytes } = part;
    let (number, corner, side, min_valid, fill) = (0, (0, 0), 0, 0.0, None);
    Wanted { source, number, path, bytes: *bytes, corner, side, min_valid, fill }
}

/// Reads a file that cannot be read in parts, if it is wanted as a whole and not in memory.
fn load(scenes: &mut Scenes, wanted: &Wanted<'_>, is_whole: bool) -> Result<(), Fault> {
    if is_whole { scenes.load(wanted) } else { Ok(()) }
}

/// What the header of a file says.
struct RasterHeader {
    size: (u32, u32),
    number: Number,
    bands: usize,
    geo: Geo,
}

fn header(scenes: &mut Scenes, wanted: &Wanted<'_>) -> Result<RasterHeader, Fault> {
    let tiff = scenes.tiff(wanted)?;
    let (size, number, bands) = ((tiff.width, tiff.height), tiff.number, tiff.bands.into());
    Ok(RasterHeader { size, number, bands, geo: tiff.geo.clone() })
}

/// Looks at the headers again: files may have been changed since the plan was made.
fn common(
    scenes: &mut Scenes,
    source: &Source,
    stack: &Stack,
    is_whole: bool,
) -> Result<StackCommon, Fault> {
    let mut common: Option<StackCommon> = None;
    let (mut scales, n_of_frame) = (Vec::new(), stack.parts.len() / stack.n_frames());
    for (i, part) in stack.parts.iter().enumerate() {
        load(scenes, &file(source, part), is_whole)?;
        let RasterHeader { size, number, bands, geo } = header(scenes, &file(source, part))?;
        let pixels = |size: (u32, u32)| u64::from(size.0) * u64::from(size.1);
        // Those of each band, at whatever date.
        let own = geo.scales_of(bands);
        match scales.get(i % n_of_frame) {
            None => scales.push(own),
            Some(first) if *first == own => {}
            Some(_) => {
                let reason =
                    format!("its file `{}` has another scale than at the first date", part.path);
                return Err(Fault::new(reason, Some("bring all dates to one scale")));
            }
        }
        let nodata = geo.nodata.and_then(|nodata| number.encode(nodata));
        match &mut common {
            Some(of) if (of.number, of.bands) != (number, bands) => {
                let reason = format!("its file `{}` was changed during the run", part.path);
                return Err(Fault::new(reason, None));
            }
            Some(of) if pixels(of.size) >= pixels(size) => {}
            _ => {
                let scales = Vec::new();
                common = Some(StackCommon { geo, scales, size, number, bands, nodata });
            }
        }
    }
    let common = common.ok_or_else(|| Fault::new("it has no files".to_owned(), None))?;
    Ok(StackCommon { scales: scales.concat(), ..common })
}

/// The pixels of one date.
fn frame(
    scenes: &mut Scenes,
    source: &Source,
    parts: &[StackFile],
    common: &StackCommon,
    rect: Rect,
    is_whole: bool,
) -> Result<(Vec<u8>, Option<Vec<u8>>), Fault> {
    let of_part = common.number.bytes() * common.bands;
    let pixel = of_part * parts.len();
    let pixels = rect.width as usize * rect.height as usize;
    let mut values = Vec::new();
    let mut valid: Option<Vec<u8>> = None;
    for (at, part) in parts.iter().enumerate() {
        let (mut read, kept) = plane(scenes, &file(source, part), common, rect, is_whole)?;
        if parts.len() == 1 {
            values = mem::take(&mut read);
        } else {
            values.resize(pixels * pixel, 0);
            let to = values.chunks_exact_mut(pixel).map(|to| &mut to[at * of_part..]);
            to.zip(read.chunks_exact(of_part)).for_each(|(to, from)| {
                to[..of_part].copy_from_slice(from);
            });
        }
        match (&mut valid, kept) {
            (Some(valid), Some(kept)) => {
                valid.iter_mut().zip(kept).for_each(|(all, one)| *all = (*all).min(one));
            }
            (None, kept @ Some(_)) => valid = kept,
            (_, None) => {}
        }
    }
    Ok((values, valid))
}

/// The pixels of one file, on the grid of the finest.
fn plane(
    scenes: &mut Scenes,
    wanted: &Wanted<'_>,
    common: &StackCommon,
    rect: Rect,
    is_whole: bool,
) -> Result<(Vec<u8>, Option<Vec<u8>>), Fault> {
    load(scenes, wanted, is_whole)?;
    let RasterHeader { size, number, bands, geo } = header(scenes, wanted)?;
    if size == common.size {
        let read = scenes.part(wanted, rect)?;
        return Ok((read.values, read.valid));
    }
    let (nodata, own) = (geo.nodata, Grid::of(&geo));
    let by_location = Grid::of(&common.geo).to_file(&own);
    let by_location = by_location.map_err(|reason| Fault::new(reason, None))?;
    let ratio = |n: u32, of: u32| f64::from(n) / f64::from(of);
    let by_size = [0.0, ratio(size.0, common.size.0), 0.0, 0.0, 0.0, ratio(size.1, common.size.1)];
    let to_file = by_location.unwrap_or(by_size);
    let around = around(&to_file, rect, size);
    let read = scenes.part(wanted, around)?;
    let (values, valid) = (read.values.as_slice(), read.valid.as_deref());
    let coarse = Coarse { values, valid, rect: around, number, bands, nodata };
    Ok(bilinear(coarse, &to_file, rect))
}

/// The pixels of a file of `size` between whose centres those of a rectangle of an image lie.
fn around(to_file: &[f64; 6], rect: Rect, size: (u32, u32)) -> Rect {
    let [x0, a, b, y0, d, e] = *to_file;
    let (left, top) = (f64::from(rect.x), f64::from(rect.y));
    let (right, bottom) = (left + f64::from(rect.width), top + f64::from(rect.height));
    let corners = [(left, top), (right, top), (left, bottom), (right, bottom)];
    let along = |of: &dyn Fn((f64, f64)) -> f64, n: u32| {
        let places = corners.map(of);
        let (least, most) = places
            .iter()
            .fold((f64::MAX, f64::MIN), |(least, most), at| (least.min(*at), most.max(*at)));
        // One more at each side, and at least one; both numbers are within the file.
        let last = f64::from(n.saturating_sub(1));
        let from = (least.floor() - 1.0).clamp(0.0, last);
        let to = (most.ceil() + 1.0).clamp(from + 1.0, last + 1.0);
        (from as u32, (to - from) as u32)
    };
    let (x, width) = along(&|(x, y)| x0 + x * a + y * b, size.0);
    let (y, height) = along(&|(x, y)| y0 + x * d + y * e, size.1);
    Rect::new(x, y, width, height)
}
