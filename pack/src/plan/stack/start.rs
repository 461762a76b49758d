//! What the headers of a sample's files say of its array.

use gular_bundle::{Axes, Nodata};
use gular_codec::Limits;
use gular_codec::tiff::{Geo, Pages};

use super::{Stack, StackFile};
use crate::facts::{Fault, Grid, Remedy, Start};
use crate::plan::Align;
use crate::source::{Source, array_start};

/// The part of a pixel that a coarse file may lack at its edges; the rest is for rounding.
const ROUNDED: f64 = 0.5 + 1e-6;

/// The settings by which files are joined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackOptions<'a> {
    pub(crate) limits: Limits,
    pub(crate) pages: Pages,
    pub(crate) align: Align,
    /// The names of the bands that are files of their own, in order.
    pub(crate) bands: &'a [String],
}

/// A file with what its header says.
struct Opened {
    /// What messages call it.
    name: String,
    start: Start,
    geo: Geo,
    /// Columns and rows.
    size: (u64, u64),
}

/// Type, shape and location of the array that the files become: `[date, row, column, band]`,
/// without the first if there are no dates, with the rows and columns of the finest file.
///
/// # Errors
/// What does not fit together.
pub(crate) fn start(
    source: &Source,
    stack: &Stack,
    options: &StackOptions<'_>,
) -> Result<Start, Fault> {
    let StackOptions { limits, pages, align, bands } = *options;
    let mut opened = Vec::with_capacity(stack.parts.len());
    for (i, part) in stack.parts.iter().enumerate() {
        let start = array_start(source, &part.path, part.bytes, &limits, pages)
            .map_err(|fault| of_part(part, fault))?;
        let geo = start.geo.clone().filter(|_| start.is_raster());
        let (Some(geo), &[height, width, n]) = (geo, start.shape.as_slice()) else {
            let reason = "it is not a raster, and only TIFF and JPEG 2000 files are joined";
            return Err(of_part(part, Fault::new(reason.to_owned(), None)));
        };
        if !bands.is_empty() && n != 1 {
            let reason = format!("it has {n} bands, but its path names one");
            return Err(of_part(part, Fault::new(reason, None)));
        }
        let name = match bands.get(i % bands.len().max(1)) {
            Some(band) if stack.dates.is_empty() => format!("band `{band}`"),
            _ => format!("file `{}`", part.path),
        };
        opened.push(Opened { name, start, geo, size: (width, height) });
    }
    let pixels = |of: &Opened| of.size.0.saturating_mul(of.size.1);
    // The first of those that have the most.
    let finest = opened.iter().rev().max_by_key(|of| pixels(of));
    let Some(finest) = finest else {
        return Err(Fault::new("it has no files".to_owned(), None));
    };
    for other in &opened {
        check_type(other, finest, !bands.is_empty())?;
        check_grid(other, finest, align)?;
    }
    let n_bands = match bands.len() {
        0 => finest.start.shape.get(2).copied().unwrap_or(1),
        n => n as u64,
    };
    let (width, height) = finest.size;
    let (mut shape, mut axes) = (vec![height, width, n_bands], Axes::yxc());
    if !stack.dates.is_empty() {
        shape.insert(0, stack.dates.len() as u64);
        axes = Axes::tyxc();
    }
    let of_file = finest.geo.bands.clone();
    let names = if bands.is_empty() { of_file } else { bands.to_vec() };
    // Only whether there are any is known here.
    let scaled = opened.iter().find(|of| !of.geo.scales.is_empty());
    let scales = scaled.map(|of| of.geo.scales.clone()).unwrap_or_default();
    let mut wavelengths = finest.geo.wavelengths.clone();
    if !bands.is_empty() {
        let of_file = |of: &Opened| of.geo.wavelengths.first().copied().flatten();
        wavelengths = opened.iter().take(bands.len()).map(of_file).collect();
    }
    if wavelengths.iter().all(Option::is_none) {
        wavelengths.clear();
    }
    Ok(Start {
        dtype: finest.start.dtype,
        shape,
        axes: Some(axes),
        geo: Some(Geo { bands: names, wavelengths, scales, ..finest.geo.clone() }),
        is_jpeg: opened.iter().any(|of| of.start.is_jpeg),
    })
}

/// Names the file that a fault is of.
fn of_part(part: &StackFile, fault: Fault) -> Fault {
    let Fault { reason, hint, remedy } = fault;
    Fault { reason: format!("of its file `{}`: {reason}", part.path), hint, remedy }
}

fn check_type(other: &Opened, first: &Opened, by_path: bool) -> Result<(), Fault> {
    let fail = |other_has: String, first_has: String| {
        let (other, first) = (&other.name, &first.name);
        let reason = format!("its {other} has {other_has}, and its {first} has {first_has}");
        let hint = "pack those that differ as a field of their own, and leave them out of the pattern of images";
        Err(Fault::new(reason, Some(hint)))
    };
    if other.start.dtype != first.start.dtype {
        let (a, b) = (other.start.dtype, first.start.dtype);
        return fail(format!("numbers of type {a:?}"), format!("numbers of type {b:?}"));
    }
    // Bands that are files of their own may each have a name, which the path says, too.
    let other_names = !by_path && other.geo.bands != first.geo.bands;
    if other.start.shape.get(2) != first.start.shape.get(2) || other_names {
        return fail("other bands".to_owned(), "other ones".to_owned());
    }
    let nodata = |of: &Opened| of.geo.nodata.map(Nodata::of);
    let said = |of: &Opened| {
        nodata(of).map_or_else(|| "no nodata".to_owned(), |n| format!("the nodata {}", n.as_str()))
    };
    if nodata(other) != nodata(first) {
        return fail(said(other), said(first));
    }
    Ok(())
}

fn check_grid(other: &Opened, finest: &Opened, align: Align) -> Result<(), Fault> {
    let (a, b) = (&other.name, &finest.name);
    let (own, whole) = (Grid::of(&other.geo), Grid::of(&finest.geo));
    let side = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let size = |of: &Opened| (side(of.size.0), side(of.size.1));
    if other.size != finest.size {
        if align != Align::Resample {
            let ((w, h), (of_w, of_h)) = (other.size, finest.size);
            let reason = format!("its {a} has {w} x {h} pixels, and its {b} has {of_w} x {of_h}");
            return Err(Fault { remedy: Remedy::Resample, ..Fault::new(reason, None) });
        }
        let to_file = whole.to_file(&own).map_err(|reason| {
            let reason = format!("its {a} does not fit its {b}: {reason}");
            Fault::new(
                reason,
                Some("bring both files to the same CRS, for example with `gdalwarp`"),
            )
        })?;
        let covers = match to_file {
            Some(to_file) => covers(&to_file, size(finest), size(other)),
            None if has_place(other) || has_place(finest) => {
                let reason = format!("only one of its {a} and its {b} has a location");
                return Err(Fault::new(reason, Some("give both files their location, or none")));
            }
            // Without locations, the same number of pixels on both sides.
            None => {
                let ((w, h), (of_w, of_h)) = (other.size, finest.size);
                w > 0 && h > 0 && of_w % w == 0 && of_h % h == 0 && of_w / w == of_h / h
            }
        };
        if !covers {
            let reason = format!("its {a} does not cover its {b}");
            return Err(Fault::new(reason, Some("cut both files to the same area")));
        }
        return Ok(());
    }
    match align == Align::Ignore {
        true => Ok(()),
        false => match whole.difference(&own, size(finest)) {
            None => Ok(()),
            Some(reason) => {
                let reason = format!("its {a} does not fit its {b}: {reason}");
                Err(Fault { remedy: Remedy::Align, ..Fault::new(reason, None) })
            }
        },
    }
}

fn has_place(of: &Opened) -> bool {
    of.geo.transform.is_some()
}

/// Whether a file covers an image but for half of the file's pixel at each side: some products round
/// the corners of coarse bands.
fn covers(to_file: &[f64; 6], image: (u32, u32), file: (u32, u32)) -> bool {
    let [x0, a, b, y0, d, e] = *to_file;
    let (width, height) = (f64::from(image.0), f64::from(image.1));
    [(0.0, 0.0), (width, 0.0), (0.0, height), (width, height)].into_iter().all(|(x, y)| {
        let (column, row) = (x0 + x * a + y * b, y0 + x * d + y * e);
        let along = |at: f64, n: u32| (-ROUNDED..=f64::from(n) + ROUNDED).contains(&at);
        along(column, file.0) && along(row, file.1)
    })
}
