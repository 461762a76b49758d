//! Makes the value of a file.

use std::cell::RefCell;
use std::sync::Arc;

use gular_bundle::{Axes, Dtype};
use gular_codec::tiff::{Geo, Pages};
use gular_codec::{Decoder, Rect, encode_png, fit_nearest, holds_values, read_header};
use serde_json::Value;

use super::framed::{self, Framed, framed};
use crate::facts::{Fault, Grid, Remedy, array, nearest};
use crate::plan::{FilesOf, Make, MaskColours, PlacedPolygons, Polygons, other_size, unlike};
use crate::shards::{Scenes, StoredValue, Wanted};
use crate::source::read_file;

/// Reads the files of samples; one per thread.
pub(crate) struct ReadFiles<'a> {
    fields: &'a [FilesOf],
    pages: Pages,
    /// The last file of polygons, which many tiles of a scene share.
    polygons: RefCell<Option<(String, Arc<PlacedPolygons>)>>,
}

impl<'a> ReadFiles<'a> {
    pub(crate) fn new(fields: &'a [FilesOf], pages: Pages) -> Self {
        Self { fields, pages, polygons: RefCell::default() }
    }

    /// Whether there is a field.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether [`ReadFiles::read`] uses its argument `size`.
    pub(crate) fn compares_sizes(&self) -> bool {
        self.fields.iter().any(|of| match of.make {
            Make::Array { on_image, .. } => on_image,
            Make::Mask
            | Make::Picture { .. }
            | Make::Fitted { .. }
            | Make::Framed { .. }
            | Make::Resampled { .. } => true,
            Make::Bytes | Make::Window { .. } => false,
        })
    }

    /// Reads one value per field; `planned` is what the plan has for them.
    pub(crate) fn read(
        &self,
        planned: &[Value],
        image: &OfImage,
        decoder: &mut Decoder,
        scenes: &mut Scenes,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let files = self.files(planned);
        files.map(|file| file.value(image, decoder, scenes).map_err(|e| file.named(&e))).collect()
    }

    /// Whether these values would be those of a bundle. Files that are stored unchanged were
    /// checked when they were packed.
    pub(crate) fn are(
        &self,
        planned: &[Value],
        stored: &[StoredValue],
        image: &OfImage,
        decoder: &mut Decoder,
        scenes: &mut Scenes,
    ) -> Result<bool, Fault> {
        for (file, stored) in self.files(planned).zip(stored) {
            let value = match file.of.make {
                Make::Bytes | Make::Mask | Make::Picture { .. } if file.of.is_stored_as_is() => {
                    if !stored.has_len(file.bytes) {
                        return Ok(false);
                    }
                    file.read()?
                }
                _ => file.value(image, decoder, scenes)?,
            };
            if !stored.is(&value) {
                return Ok(false);
            }
        }
        Ok(planned.len() == stored.len())
    }

    fn files<'p>(&'p self, planned: &'p [Value]) -> impl Iterator<Item = PlannedFile<'p>> {
        (1..).zip(self.fields).zip(planned).map(|((number, of), planned)| PlannedFile {
            of,
            number,
            pages: self.pages,
            last: &self.polygons,
            bytes: planned.get(0).and_then(Value::as_u64).unwrap_or(0),
            path: planned.get(1).and_then(Value::as_str).unwrap_or_default(),
        })
    }
}

/// A file of a sample.
struct PlannedFile<'a> {
    of: &'a FilesOf,
    /// The file's number in its field, from 1.
    number: usize,
    pages: Pages,
    last: &'a RefCell<Option<(String, Arc<PlacedPolygons>)>>,
    bytes: u64,
    path: &'a str,
}

impl PlannedFile<'_> {
    fn named(&self, fault: &Fault) -> Fault {
        let reason = format!("its `{}`, `{}`: {}", self.of.field.name, self.path, fault.reason);
        Fault { reason, ..*fault }
    }

    fn read(&self) -> Result<Vec<u8>, Fault> {
        read_file(&self.of.source, self.path, self.bytes, Vec::new())
    }

    fn value(
        &self,
        image: &OfImage,
        decoder: &mut Decoder,
        scenes: &mut Scenes,
    ) -> Result<Vec<u8>, Fault> {
        let Self { of, number, bytes, path, pages, .. } = *self;
        if of.polygons.is_some() {
            return self.polygons(image, decoder);
        }
        if let Make::Resampled { dtype, tile: Some(side) } = of.make {
            let (source, corner) = (&of.source, image.corner);
            let (min_valid, fill) = (0.0, Some(of.fill.as_slice()));
            let wanted = Wanted { source, number, path, bytes, corner, side, min_valid, fill };
            return resampled_tile(&wanted, dtype, image, scenes);
        }
        let Make::Window { dtype, side, mask } = of.make else {
            let mut file = self.read()?;
            let is_mask = matches!(of.make, Make::Mask) || of.colours.is_some();
            if let Some(further) = gular_codec::Further::sniff(&file).filter(|_| is_mask) {
                let limits = decoder.options().limits;
                file = further.to_png(&file, &limits, pages == Pages::First)?;
            }
            if let Some(colours) = &of.colours {
                file = colours.mask(&file, decoder, pages)?;
            }
            return of.value(file, image, decoder, pages);
        };
        let (source, corner) = (&of.source, image.corner);
        let (min_valid, fill) = (0.0, mask.then_some(of.fill.as_slice()));
        let wanted = Wanted { source, number, path, bytes, corner, side, min_valid, fill };
        let (size, geo) = scenes.size(&wanted)?;
        image.check_place(geo)?;
        same_size(size, image.size)?;
        let window = scenes.read(wanted)?;
        let bands = of.bands();
        let pixels = u64::from(side) * u64::from(side);
        let expected = bands.iter().product::<u64>() * pixels * dtype.size_bytes();
        let found = window.values.len() as u64;
        let Some(colours) = of.colours.as_ref().filter(|_| found == pixels || found == 3 * pixels)
        else {
            if found == expected && of.colours.is_none() {
                return Ok(window.values);
            }
            let reason = "its type or its bands are not those of the other scenes";
            return Err(Fault::new(reason.to_owned(), None));
        };
        let rgb =
            if found == pixels { MaskColours::in_colour(&window.values) } else { window.values };
        colours.classes(&rgb, window.valid.as_deref(), side as usize)
    }
}

impl PlannedFile<'_> {
    /// The mask of a file of polygons.
    fn polygons(&self, image: &OfImage, decoder: &mut Decoder) -> Result<Vec<u8>, Fault> {
        let no_size = || Fault::new("the size of its image is not known".to_owned(), None);
        let (of, whole) = (self.of, image.size.ok_or_else(no_size)?);
        let class = of.polygons.as_ref().and_then(Option::as_ref);
        let last = self.last.borrow().clone().filter(|(path, _)| path == self.path);
        let polygons = match (last, &of.make) {
            (Some((_, polygons)), Make::Window { .. }) => polygons,
            _ => {
                let polygons = Polygons::parse(self.path, &self.read()?, class, &|path| {
                    of.source.head(path, Polygons::MOST_READ)
                })?;
                Arc::new(polygons.placed(image.grid.as_ref(), !image.ignores_place, whole)?)
            }
        };
        *self.last.borrow_mut() = Some((self.path.to_owned(), Arc::clone(&polygons)));
        if let Make::Window { side, .. } = of.make {
            return Ok(polygons.mask(image.corner, (side, side)));
        }
        let mask = polygons.mask((0, 0), whole);
        of.value(encode_png(&mask, whole.0, whole.1)?, image, decoder, self.pages)
    }
}

/// The facts about an image that its other files are compared with.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfImage {
    /// Columns and rows: of a tile those of its scene.
    pub(crate) size: Option<(u32, u32)>,
    /// Where the tile begins: (column, row).
    pub(crate) corner: (u32, u32),
    /// Where the image, or the scene, is on the Earth, if other files are compared with it.
    pub(crate) grid: Option<Grid>,
    /// Whether other files belong to its pixels, whatever they say of their place.
    pub(crate) ignores_place: bool,
}

impl OfImage {
    /// The place that those of other files are compared with.
    fn compared(&self) -> Option<&Grid> {
        self.grid.as_ref().filter(|_| !self.ignores_place)
    }

    /// The transform from its columns and rows to those of a file, if both have a location.
    fn to_file(&self, geo: Option<&Geo>) -> Result<Option<[f64; 6]>, Fault> {
        let Some((grid, geo)) = self.compared().zip(geo) else { return Ok(None) };
        let hint = Some("bring both files to the same CRS, for example with `gdalwarp`");
        grid.to_file(&Grid::of(geo)).map_err(|reason| Fault::new(reason, hint))
    }

    /// Checks that a file is where its image is.
    fn check_place(&self, geo: &Geo) -> Result<(), Fault> {
        let Some((grid, size)) = self.compared().zip(self.size) else { return Ok(()) };
        match grid.difference(&Grid::of(geo), size) {
            None => Ok(()),
            Some(reason) => {
                let hint = Some(match geo.volume {
                    None => "bring both files to the same grid, for example with `gdalwarp`",
                    Some(_) => {
                        "bring both files to the same grid, for example in Python with `nibabel.processing.resample_from_to`"
                    }
                });
                Err(Fault { remedy: Remedy::Align, ..Fault::new(reason, hint) })
            }
        }
    }
}

impl FilesOf {
    /// Returns the last axis of a picture's shape.
    fn bands(&self) -> &[u64] {
        self.field.as_fixed().and_then(|(_, shape)| shape.get(2..)).unwrap_or_default()
    }

    /// The fault of a file that has not the size of its image, where another one has.
    fn unlike(&self, fault: Fault) -> Fault {
        let Some(like) = &self.like else { return fault };
        Fault { reason: unlike(&fault.reason, like), remedy: Remedy::NotOnImage, ..fault }
    }

    fn value(
        &self,
        file: Vec<u8>,
        image: &OfImage,
        decoder: &mut Decoder,
        pages: Pages,
    ) -> Result<Vec<u8>, Fault> {
        match &self.make {
            Make::Mask => {
                let (size, _) = decoder.decode_values(&file)?;
                same_size(size, image.size)?;
                Ok(file)
            }
            Make::Picture { one_channel } => {
                // A grey picture among others in colour is read as colours.
                if *one_channel && !holds_values(&file) {
                    let like = self.like.as_deref().unwrap_or_default();
                    let reason = format!("it is not a PNG of one channel, as `{like}` is");
                    return Err(Fault { remedy: Remedy::SameColours, ..Fault::new(reason, None) });
                }
                let size = match one_channel {
                    true => decoder.decode_values(&file)?.0,
                    false => read_header(&file, &decoder.options().limits)?.upright_size(),
                };
                same_size(size, image.size).map_err(|fault| self.unlike(fault))?;
                Ok(file)
            }
            Make::Bytes => {
                check_text(&self.field, &file)?;
                Ok(file)
            }
            Make::Array { dtype, shape, axes, on_image, frame } => {
                let limits = decoder.options().limits;
                if image.compared().is_some()
                    && let Some(geo) = array::geo(&file, &limits, pages)?
                {
                    image.check_place(&geo)?;
                }
                let yx = Axes::yx();
                if let (Some(frame), Some(axes)) = (frame, axes) {
                    let found = framed::size(&file, shape, axes, &limits, pages)?;
                    same_size(found, image.size).map_err(|fault| self.unlike(fault))?;
                    let fill = self.field.is_mask().then_some(self.fill.as_slice());
                    let framed = Framed { frame, dtype: *dtype, shape, axes, fill };
                    return Ok(framed.read(&file, &limits, pages)?.values);
                }
                let grid = axes.as_ref().unwrap_or(&yx).grid(shape);
                if let (Some(grid), true) = (grid, on_image) {
                    let side = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
                    same_size((side(grid.width), side(grid.height)), image.size)
                        .map_err(|fault| self.unlike(fault))?;
                }
                Ok(array::values(&file, *dtype, shape, &limits, pages)?.values)
            }
            Make::Resampled { dtype, .. } => resampled(&file, *dtype, image, decoder, pages),
            Make::Window { .. } => {
                Err(Fault::new("it is a scene, which can only be read in parts".to_owned(), None))
            }
            Make::Fitted { dtype, to, fit } => {
                let (size, values) = mask(&file, *dtype, decoder, pages)?;
                same_size(size, image.size)?;
                Ok(fit_nearest(&values, size, &self.fill, *to, *fit)?)
            }
            Make::Framed { dtype, frame } => {
                let limits = decoder.options().limits;
                let geo = array::geo(&file, &limits, pages)?;
                if let Some(geo) = geo.as_ref().filter(|_| image.compared().is_some()) {
                    image.check_place(geo)?;
                }
                let (size, values) = mask(&file, *dtype, decoder, pages)?;
                same_size(size, image.size)?;
                frame.corner(size)?;
                let pixel = usize::try_from(dtype.size_bytes()).unwrap_or(1);
                Ok(framed(&values, size, frame.size, pixel, &self.fill))
            }
        }
    }
}

/// A mask on the grid of its image; a mask or an image without a location must have the other's
/// size.
fn resampled(
    file: &[u8],
    dtype: Dtype,
    image: &OfImage,
    decoder: &mut Decoder,
    pages: Pages,
) -> Result<Vec<u8>, Fault> {
    let limits = decoder.options().limits;
    let geo = array::geo(file, &limits, pages)?;
    let (size, values) = mask(file, dtype, decoder, pages)?;
    let to_file = image.to_file(geo.as_ref())?;
    let (Some(to_file), Some(image_size)) = (to_file, image.size) else {
        same_size(size, image.size)?;
        return Ok(values);
    };
    let whole = Rect::whole(size.0, size.1);
    let pixel = usize::try_from(dtype.size_bytes()).unwrap_or(1);
    let mut made = Vec::with_capacity(values.len());
    for row in 0..image_size.1 {
        for column in 0..image_size.0 {
            let at = nearest(&to_file, (column, row));
            made.extend_from_slice(cell(&values, whole, pixel, at).ok_or_else(not_covered)?);
        }
    }
    Ok(made)
}

/// The part of a mask that is in the tile of an image, on the grid of the image.
fn resampled_tile(
    wanted: &Wanted<'_>,
    dtype: Dtype,
    image: &OfImage,
    scenes: &mut Scenes,
) -> Result<Vec<u8>, Fault> {
    let (size, geo) = scenes.size(wanted)?;
    let same = [0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let to_file = match image.to_file(Some(geo))? {
        Some(to_file) => to_file,
        None => same_size(size, image.size).map(|()| same)?,
    };
    let (scene, (left, top), side) = (image.size.unwrap_or(size), wanted.corner, wanted.side);
    // Beyond the scene is nothing to be read.
    let right = left.saturating_add(side).min(scene.0).max(left.saturating_add(1));
    let bottom = top.saturating_add(side).min(scene.1).max(top.saturating_add(1));
    let corners = [(left, top), (right - 1, top), (left, bottom - 1), (right - 1, bottom - 1)];
    let corners = corners.map(|at| nearest(&to_file, at));
    let least = |of: fn(&(f64, f64)) -> f64| corners.iter().map(of).fold(f64::MAX, f64::min);
    let most = |of: fn(&(f64, f64)) -> f64| corners.iter().map(of).fold(f64::MIN, f64::max);
    let along = |from: f64, to: f64, n: u32| {
        let is_inside = from >= 0.0 && to < f64::from(n);
        // Both are whole numbers below `n`.
        is_inside.then(|| (from as u32, (to - from) as u32 + 1)).ok_or_else(not_covered)
    };
    let (x, width) = along(least(|at| at.0), most(|at| at.0), size.0)?;
    let (y, height) = along(least(|at| at.1), most(|at| at.1), size.1)?;
    let rect = Rect::new(x, y, width, height);
    let tiff = scenes.tiff(wanted)?;
    let nothing = wanted.fill.map_or_else(|| vec![0; tiff.number.bytes()], <[u8]>::to_vec);
    let values = scenes.part(wanted, rect)?.values;
    let pixel = usize::try_from(dtype.size_bytes()).unwrap_or(1);
    if nothing.len() != pixel
        || values.len() as u64 != u64::from(width) * u64::from(height) * pixel as u64
    {
        let reason = "its type or its bands are not those of the other scenes";
        return Err(Fault::new(reason.to_owned(), None));
    }
    let mut made = Vec::with_capacity(side as usize * side as usize * pixel);
    for row in top..top.saturating_add(side) {
        for column in left..left.saturating_add(side) {
            if row >= bottom || column >= right {
                made.extend_from_slice(&nothing);
                continue;
            }
            let at = nearest(&to_file, (column, row));
            made.extend_from_slice(cell(&values, rect, pixel, at).ok_or_else(not_covered)?);
        }
    }
    Ok(made)
}

/// The bytes of a pixel of a file, of which `rect` was read.
fn cell(values: &[u8], rect: Rect, pixel: usize, (column, row): (f64, f64)) -> Option<&[u8]> {
    let (x, y) = (column - f64::from(rect.x), row - f64::from(rect.y));
    let is_inside = |n: f64, of: u32| n >= 0.0 && n < f64::from(of);
    if !is_inside(x, rect.width) || !is_inside(y, rect.height) {
        return None;
    }
    // Both are whole numbers within the rectangle.
    let at = (y as usize * rect.width as usize + x as usize) * pixel;
    values.get(at..at + pixel)
}

fn not_covered() -> Fault {
    let hint = Some("extend it to the edges of its image, or cut the image");
    Fault::new("it does not cover its whole image".to_owned(), hint)
}

/// Size and values of a mask, as numbers of type `dtype`.
fn mask(
    file: &[u8],
    dtype: Dtype,
    decoder: &mut Decoder,
    pages: Pages,
) -> Result<((u32, u32), Vec<u8>), Fault> {
    let limits = decoder.options().limits;
    if let Some((size, values)) = array::mask(file, dtype, &limits, pages)? {
        return Ok((size, values));
    }
    let (size, values) = decoder.decode_values(file)?;
    let bytes = match dtype {
        Dtype::U8 => values.iter().map(|v| u8::try_from(*v).unwrap_or(u8::MAX)).collect(),
        _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    Ok((size, bytes))
}

fn same_size(mask: (u32, u32), image: Option<(u32, u32)>) -> Result<(), Fault> {
    let Some(image) = image.filter(|image| *image != mask) else { return Ok(()) };
    let reason = other_size(mask, image);
    Err(Fault::new(
        reason,
        Some(
            "save image and mask at the same size; save the image upright (without an EXIF rotation)",
        ),
    ))
}

/// Values of media type `text/plain` are UTF-8. Format: `FORMAT.md`, "Fields".
pub(crate) fn check_text(field: &gular_bundle::Field, file: &[u8]) -> Result<(), Fault> {
    let gular_bundle::FieldKind::Bytes { media_types } = &field.kind else { return Ok(()) };
    if media_types.iter().any(|m| m != "text/plain") {
        return Ok(());
    }
    match std::str::from_utf8(file) {
        Ok(_) => Ok(()),
        Err(e) => {
            let reason = format!("it is a text file, but not UTF-8 at byte {}", e.valid_up_to());
            Err(Fault::new(
                reason,
                Some("save it as UTF-8, or give it another extension if it is not text"),
            ))
        }
    }
}
