//! Finds the file that belongs to each image, and the field that all of them form.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gular_bundle::{Axes, Dtype, Field, FieldName, media_type_of_extension};
use gular_codec::tiff::Pages;
use gular_codec::{Limits, read_header};
use serde_json::Value;

use super::make::Make;
use super::stems::{Found, Stems};
use crate::array::{self, Start};
use crate::error::{Fault, Remedy};
use crate::layout::{Layout, Placed};
use crate::payload::{HEADER_BYTES, PayloadOptions, PayloadRecipe};
use crate::scan::stem_and_extension;
use crate::source::Source;
use crate::{Align, Error, FieldFiles, Inputs, PlanOptions};

/// The fields whose values are files, while the plan is made.
#[derive(Debug, Default)]
pub(crate) struct Beside<'a> {
    fields: Vec<Finding>,
    /// The images.
    images: Option<&'a Source>,
}

/// One field whose files are being found.
#[derive(Debug)]
struct Finding {
    name: FieldName,
    source: Source,
    stems: Stems,
    /// Whether a mask becomes pixels of one shape, like its image.
    pixels: bool,
    /// Whether TIFF files become numbers, like images.
    arrays: bool,
    /// What the user says about the axes of arrays.
    axes: Option<Option<Axes>>,
    /// Whether a mask is brought to the grid of its image.
    resample: bool,
    /// Columns and rows of tiles.
    tile: Option<u32>,
    limits: Limits,
    pages: Pages,
    /// The last scene and its file: tiles of one scene follow each other.
    last: Option<(String, Found)>,
    seen: Seen,
}

/// The properties that the files of a field share.
#[derive(Debug, Default)]
struct Seen {
    media_types: BTreeSet<&'static str>,
    /// Type and shape of the first array, and its image.
    array: Option<(Dtype, Vec<u64>, String)>,
    /// The first file that is not an array.
    file: Option<String>,
    /// The axes of the values of the first file, if they are known.
    axes: Option<Axes>,
    /// Whether these values are on the pixels of the image.
    on_image: bool,
    /// Whether a mask has 16-bit values.
    wide: bool,
    used: u64,
    /// Whether a JPEG decoder makes the numbers of a file.
    jpeg: bool,
}

/// A field whose files are known.
#[derive(Debug)]
pub(crate) struct FilesOf {
    pub(crate) field: Field,
    pub(super) source: Source,
    pub(super) make: Make,
    /// The number of files that belong to no image.
    pub(crate) unused: u64,
}

impl<'a> Beside<'a> {
    /// Lists the files of every field; a compressed tar is unpacked in folder `temp`.
    pub(crate) fn open(
        options: &PlanOptions,
        images: &'a Source,
        layout: &Layout,
        temp: &Path,
        cancel: &AtomicBool,
    ) -> Result<Self, Error> {
        let open = |of: &FieldFiles| {
            let path = of.files.as_deref().unwrap_or(images.path());
            let source = Source::open(path, options, Some(temp), cancel)?;
            let name = &of.name;
            let stems = Stems::list(&source, of, layout)?;
            let pixels = is_mask(name) && matches!(options.payload, PayloadOptions::Raw(_));
            let name = name.clone();
            let arrays = options.inputs == Inputs::Arrays;
            let axes = options.axes.get(&name).cloned();
            let resample = arrays && is_mask(&name) && options.align == Align::Resample;
            let tile = options.tile.map(|tile| tile.size);
            let limits = Limits { max_pixels: options.max_pixels };
            let (pages, last, seen) = (options.pages, None, Seen::default());
            Ok(Finding {
                name,
                source,
                stems,
                pixels,
                arrays,
                axes,
                resample,
                tile,
                limits,
                pages,
                last,
                seen,
            })
        };
        let fields: Result<_, Error> = options.fields.iter().map(open).collect();
        Ok(Self { fields: fields?, images: Some(images) })
    }

    /// Returns the plan's values for the files of the image `key`, and their bytes. The order of
    /// images does not depend on the folder's, so the first one is always the same.
    pub(crate) fn planned(
        &mut self,
        key: &str,
        placed: &Placed<'_>,
        recipe: &PayloadRecipe,
    ) -> Result<(Vec<Value>, u64), Fault> {
        let mut all = 0_u64;
        let mut values = Vec::with_capacity(self.fields.len());
        let size = || self.images.and_then(|images| recipe.size_of(images, key));
        for field in &mut self.fields {
            let Found { path, bytes } = field.find(key, placed, &size)?;
            all = all.saturating_add(bytes);
            values.push(Value::Array(vec![bytes.into(), path.into()]));
        }
        Ok((values, all))
    }

    /// Whether a JPEG decoder makes the numbers of any field.
    pub(crate) fn has_jpeg(&self) -> bool {
        self.fields.iter().any(|field| field.seen.jpeg)
    }

    /// The fields, now that all their files are known.
    pub(crate) fn finish(self, recipe: &PayloadRecipe) -> Vec<FilesOf> {
        self.fields.into_iter().map(|finding| finding.finish(recipe)).collect()
    }
}

fn is_mask(name: &FieldName) -> bool {
    name.as_str() == "mask"
}

/// Checks that the fields of files go with the other options.
pub(crate) fn check(options: &PlanOptions) -> Result<(), Error> {
    let fail = |names, text: String| Err(Error::setting(names, text));
    for (i, FieldFiles { name, .. }) in options.fields.iter().enumerate() {
        let name = name.as_str();
        if matches!(name, "image" | "label" | "labels" | "data") {
            return fail(&["field"], format!("a field cannot be called `{name}`"));
        }
        if options.fields.iter().skip(i + 1).any(|other| other.name.as_str() == name) {
            return fail(&["field"], format!("two fields are called `{name}`"));
        }
        if matches!(name, "image_crs" | "image_transform") {
            return fail(
                &["field"],
                format!(
                    "field `{name}` is made from the tiles themselves, and cannot come from files"
                ),
            );
        }
        if name == "mask" && options.inputs == Inputs::Bytes {
            return fail(
                &["mask", "inputs"],
                "masks can only be packed with images, and no images are packed".to_owned(),
            );
        }
        if let PayloadOptions::Reencoded(reencode) = options.payload
            && name == "mask"
            && reencode.max_side.is_some()
        {
            let text = "masks cannot be packed with images that are made smaller, since a mask would keep its size; the payload `raw` resizes both";
            return fail(&["mask", "max_side"], text.to_owned());
        }
    }
    Ok(())
}

impl Finding {
    /// Finds the file of the image `key`, whose columns and rows `size` returns.
    fn find(
        &mut self,
        key: &str,
        placed: &Placed<'_>,
        size: &dyn Fn() -> Option<(u32, u32)>,
    ) -> Result<Found, Fault> {
        if let Some((_, found)) = self.last.as_ref().filter(|(last, _)| last == key) {
            return Ok(found.clone());
        }
        let name = &self.name;
        let mut found = self.stems.find(key, placed);
        if found.len() > 1 {
            let paths: Vec<String> = found.iter().map(|f| format!("`{}`", f.path)).collect();
            let reason = format!("several files match it as its `{name}`: {}", paths.join(", "));
            return Err(Fault::new(reason, Some("keep one of them")));
        }
        let Some(found) = found.pop() else {
            let reason = format!(
                "`{}` has no file {} for the field `{name}`",
                self.source.path().display(),
                self.stems.wanted(key, placed)
            );
            return Err(Fault::new(reason, Some("add the file")));
        };
        self.look(key, &found, size)?;
        self.seen.used += 1;
        if self.tile.is_some() {
            self.last = Some((key.to_owned(), found.clone()));
        }
        Ok(found)
    }

    /// Finds what a file is and whether it goes with those before.
    fn look(
        &mut self,
        key: &str,
        found: &Found,
        size: &dyn Fn() -> Option<(u32, u32)>,
    ) -> Result<(), Fault> {
        let Found { path, bytes } = found;
        let name = &self.name.clone();
        let extension = stem_and_extension(path).1.to_ascii_lowercase();
        let fault = |reason: String, hint| Err(Fault::new(reason, hint));
        let is_array = match extension.as_str() {
            "npy" => true,
            "tif" | "tiff" => self.arrays || is_mask(name),
            _ => false,
        };
        if is_array {
            let named = |fault: Fault| Fault {
                reason: format!("`{name}` is `{path}`: {}", fault.reason),
                ..fault
            };
            let start = array::start(&self.source, path, *bytes, &self.limits, self.pages);
            let start = start.map_err(named)?;
            let Start { dtype, mut shape, is_jpeg, axes, .. } = start;
            if is_mask(name) && is_jpeg {
                let reason =
                    format!("the mask `{path}` is compressed by JPEG, which changes its values");
                return fault(reason, Some("save it as TIFF with deflate"));
            }
            self.seen.jpeg |= is_jpeg;
            if let Some(other) = &self.seen.file {
                let reason =
                    format!("its `{name}`, `{path}`, is an array, but that of `{other}` is not");
                return fault(reason, Some("use files of one kind for a field"));
            }
            if is_mask(name) && matches!(shape.as_slice(), [_, _, 1]) {
                shape.truncate(2);
            }
            if is_mask(name) && (shape.len() != 2 || !dtype.is_integer()) {
                let reason = format!("the mask `{path}` is {dtype:?} of shape {shape:?}");
                return fault(
                    reason,
                    Some("masks must hold integers, with the shape [height, width]"),
                );
            }
            if let (Some(side), [height, width, ..]) = (self.tile, shape.as_mut_slice()) {
                if extension == "npy" {
                    let reason = format!(
                        "its `{name}`, `{path}`, is not a TIFF, and only TIFF can be cut into tiles"
                    );
                    return fault(reason, Some("save it as TIFF"));
                }
                (*height, *width) = (side.into(), side.into());
            }
            if self.seen.array.is_none() {
                self.place(path, &shape, axes, size())?;
            }
            let (d, s, first) =
                self.seen.array.get_or_insert_with(|| (dtype, shape.clone(), key.to_owned()));
            // A mask that becomes pixels, or is brought to the grid of its image, gets one shape.
            if *d != dtype || (*s != shape && !self.pixels && !self.resample) {
                let reason = format!(
                    "its `{name}`, `{path}`, is {dtype:?} of shape {shape:?}, but that of `{first}` is {d:?} of shape {s:?}"
                );
                return fault(reason, Some("all values of a field need the same type and shape"));
            }
            return Ok(());
        }
        if self.tile.is_some() {
            let reason = format!(
                "its `{name}`, `{path}`, is not a TIFF, and only TIFF can be cut into tiles"
            );
            return fault(reason, Some("save it as TIFF"));
        }
        if let Some((.., other)) = &self.seen.array {
            let reason =
                format!("its `{name}`, `{path}`, is not an array, but that of `{other}` is");
            return fault(reason, Some("use files of one kind for a field"));
        }
        if is_mask(name) {
            let start = self.source.head(path, 32).map_err(|e| unreadable(path, &e))?;
            if !gular_codec::holds_values(&start) {
                let reason =
                    format!("the mask `{path}` is not a PNG with one channel or with a palette");
                return fault(
                    reason,
                    Some(
                        "save masks as PNG with one channel or with a palette, as TIFF, or as .npy",
                    ),
                );
            }
            self.seen.wide |= gular_codec::bit_depth(&start) == Some(16);
        }
        if self.seen.file.is_none() && !is_mask(name) {
            let (axes, on_image) = self.picture(path, size);
            (self.seen.axes, self.seen.on_image) = (axes, on_image);
        }
        self.seen.file.get_or_insert_with(|| key.to_owned());
        let media_type = media_type_of_extension(&extension).unwrap_or("application/octet-stream");
        self.seen.media_types.insert(media_type);
        Ok(())
    }

    /// Finds what the axes of the first array, of `shape`, mean, and whether its values are on the
    /// pixels of its image, which has `size`. `of_format` are the axes that its format gives.
    fn place(
        &mut self,
        path: &str,
        shape: &[u64],
        of_format: Option<Axes>,
        size: Option<(u32, u32)>,
    ) -> Result<(), Fault> {
        if is_mask(&self.name) {
            return Ok(());
        }
        let fault = |reason: String| Fault { remedy: Remedy::NameAxes, ..Fault::new(reason, None) };
        let is_on = |axes: &Axes| {
            let grid = axes.grid(shape).map(|grid| (grid.width, grid.height));
            grid.is_some()
                && (self.tile.is_some() || grid == size.map(|(w, h)| (w.into(), h.into())))
        };
        let axes = match (&self.axes, of_format) {
            (Some(None), _) => return Ok(()),
            (Some(Some(axes)), None) if axes.n() == shape.len() => Some(axes.clone()),
            (Some(Some(axes)), of_format) if of_format.as_ref() != Some(axes) => {
                let name = &self.name;
                return Err(fault(format!(
                    "its `{name}`, `{path}`, has the shape {shape:?}{}, not the axes `{axes}`",
                    of_format.map_or_else(String::new, |axes| format!(" and the axes `{axes}`"))
                )));
            }
            (_, Some(axes)) => Some(axes),
            (_, None) => {
                let fitting = [Axes::yx(), Axes::yxc(), Axes::cyx()];
                let mut fitting = fitting.into_iter().filter(|axes| is_on(axes));
                match (fitting.next(), fitting.next()) {
                    (Some(_), Some(_)) => {
                        let name = &self.name;
                        return Err(fault(format!(
                            "its `{name}`, `{path}`, has the shape {shape:?}, which can be read in two ways"
                        )));
                    }
                    (axes, _) => axes,
                }
            }
        };
        self.seen.on_image = axes.as_ref().is_some_and(is_on);
        self.seen.axes = axes;
        Ok(())
    }

    /// The axes of a picture, and whether it is on the pixels of its image.
    fn picture(&self, path: &str, size: &dyn Fn() -> Option<(u32, u32)>) -> (Option<Axes>, bool) {
        let head = || self.source.head(path, HEADER_BYTES).ok();
        let (None, Some(head)) = (&self.axes, head()) else { return (None, false) };
        let header = read_header(&head, &self.limits).ok();
        let on_image = header.is_some_and(|header| size() == Some(header.upright_size()));
        let axes = if gular_codec::holds_values(&head) { Axes::yx() } else { Axes::yxc() };
        (on_image.then_some(axes), on_image)
    }

    fn finish(self, recipe: &PayloadRecipe) -> FilesOf {
        let Self { name, source, stems, seen, tile, resample, .. } = self;
        let unused = stems.len().saturating_sub(seen.used);
        let mask = is_mask(&name);
        let grid = seen.on_image.then(FieldName::image);
        let axes = seen.axes.filter(|_| !mask);
        let on_image = seen.on_image;
        let (field, make) = match (recipe, seen.array) {
            (PayloadRecipe::Raw { width, height, fit, .. }, array) if mask => {
                let of_png = if seen.wide { Dtype::U16 } else { Dtype::U8 };
                let dtype = array.map_or(of_png, |(dtype, ..)| dtype);
                let shape = vec![u64::from(*height), u64::from(*width)];
                let make = Make::Fitted { dtype, to: (*width, *height), fit: *fit };
                (Field::fixed(name, dtype, shape), make)
            }
            (_, Some((dtype, shape, _))) if resample => {
                let size = recipe.size().map(|(width, height)| vec![height.into(), width.into()]);
                let make = Make::Resampled { dtype, tile };
                (Field::fixed(name, dtype, size.unwrap_or(shape)), make)
            }
            (_, Some((dtype, shape, _))) => {
                let on_image = on_image || mask;
                let make = match tile {
                    Some(side) => Make::Window { dtype, side, mask },
                    None => {
                        Make::Array { dtype, shape: shape.clone(), axes: axes.clone(), on_image }
                    }
                };
                (Field { axes, grid, ..Field::fixed(name, dtype, shape) }, make)
            }
            (_, None) => {
                let media_types = seen.media_types.into_iter().map(str::to_owned).collect();
                let make = match &axes {
                    _ if mask => Make::Mask,
                    Some(axes) if on_image => Make::Picture { one_channel: *axes == Axes::yx() },
                    _ => Make::Bytes,
                };
                (Field { axes, grid, ..Field::bytes(name, media_types) }, make)
            }
        };
        FilesOf { field, source, make, unused }
    }
}

fn unreadable(path: &str, error: &std::io::Error) -> Fault {
    Fault::new(format!("`{path}` cannot be read: {error}"), None)
}
