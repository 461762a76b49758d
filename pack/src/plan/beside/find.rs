//! Finds the file that belongs to each image, and the field that all of them form.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gular_bundle::{Axes, Dtype, Field, FieldName, GridSize, Nodata, media_type_of_extension};
use gular_codec::tiff::Pages;
use gular_codec::{DecodeOptions, Decoder, Format, Limits, Orientation};
use serde_json::Value;

use super::colours::{BEYOND, MaskColours};
use super::polygons::{MaskClass, Polygons, has_shapes, is_of_polygons};
use crate::facts::{
    BAND, BadInput, DATE, Doubt, Fault, Names, Remedy, Start, array, formats, is_nifti_name,
    setting, stem_and_extension,
};
use crate::layout::{Found, Layout, Placed, Stems};
use crate::plan::{
    Align, Fit, Frame, OfFile, PayloadOptions, PayloadRecipe, PlanError, PlanOptions, with_size,
};
use crate::source::{FieldFiles, Inputs, Source, array_start, picture_start};

/// The masks whose values are looked at when the plan is made, and the values that are told apart.
const MOST_LOOKED: usize = 4;
const MOST_VALUES: usize = 8;
/// Whole scenes, which are larger, are not read while the plan is made.
const MOST_LOOKED_BYTES: u64 = 64 << 20;

/// The fields whose values are files, while the plan is made.
#[derive(Debug, Default)]
pub(crate) struct Beside<'a> {
    fields: Vec<Finding>,
    /// The images.
    images: Option<&'a Source>,
    limits: Limits,
    pages: Pages,
}

/// Returns columns and rows of an image, if they are known.
type Size<'a> = &'a dyn Fn() -> Option<(u32, u32)>;

/// One field whose files are being found.
#[derive(Debug)]
struct Finding {
    name: FieldName,
    /// Whether its values are classes of pixels.
    is_mask: bool,
    /// The number that says that a pixel has no class, if it is given.
    ignore: Option<i64>,
    source: Source,
    stems: Stems,
    /// Whether a mask becomes pixels of one shape, like its image.
    pixels: bool,
    /// Whether TIFF files become numbers, like images.
    arrays: bool,
    /// What the user says about the axes of arrays.
    axes: Option<Option<Axes>>,
    /// Why pictures are not on the pixels of the image, whatever their size.
    apart: Option<&'static str>,
    /// Whether images, and what lies on their pixels, are cropped or padded.
    framed: bool,
    /// Whether a mask is brought to the grid of its image.
    resample: bool,
    /// The classes of a mask whose pixels are colours.
    colours: Option<MaskColours>,
    /// The property of polygons that is their class.
    class: Option<MaskClass>,
    /// Columns and rows of tiles.
    tile: Option<u32>,
    limits: Limits,
    pages: Pages,
    /// The last scene and its file: tiles of one scene follow each other.
    last: Option<(String, Found)>,
    seen: Seen,
}

/// What the names of fields with classes begin with.
const OF_CLASSES: [&str; 5] = ["annotation", "gt", "label", "mask", "seg"];

/// Ratios of width and height that differ by less are the same: resized sizes are rounded.
const SAME_RATIO: f64 = 0.02;

/// The properties that the files of a field share.
#[derive(Debug, Default)]
struct Seen {
    media_types: BTreeSet<&'static str>,
    /// Type and shape of the first array, and its image.
    array: Option<(Dtype, Vec<u64>, String)>,
    /// The first file that is not an array.
    file: Option<String>,
    /// The first file of polygons.
    polygons: Option<String>,
    /// The axes of the values, if they are known.
    axes: Option<Axes>,
    /// The first file whose values are on the pixels of its image.
    on_image: Option<String>,
    /// The first image that has another size than its file, and what is wrong.
    unlike: Option<(String, String)>,
    /// The value that means "not measured" in all arrays, and the first one that says so.
    nodata: Option<(Option<Nodata>, String)>,
    /// Whether one has a scale or an offset.
    scaled: bool,
    /// Whether a mask of pictures has 16-bit values.
    wide: bool,
    /// The values of the first masks, if these are few.
    values: BTreeSet<u16>,
    n_looked: usize,
    used: u64,
    /// Whether a JPEG decoder makes the numbers of a file.
    jpeg: bool,
}

/// A field whose files are known.
#[derive(Debug)]
pub(crate) struct FilesOf {
    pub(crate) field: Field,
    pub(crate) source: Source,
    pub(crate) make: Make,
    /// The classes of a mask whose pixels are colours.
    pub(crate) colours: Option<MaskColours>,
    /// Whether the files are polygons, with the property that is their class.
    pub(crate) polygons: Option<Option<MaskClass>>,
    /// The bytes of a number of a mask beyond its image.
    pub(crate) fill: Vec<u8>,
    /// A file that has the size of its image, where those of all files are compared.
    pub(crate) like: Option<String>,
    /// The number of files that belong to no image.
    pub(crate) unused: u64,
}

/// The values that a field's files become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Make {
    /// The bytes of each file.
    Bytes,
    /// The bytes of each file, which is a mask of its image's size.
    Mask,
    /// The bytes of each file, which is a picture of its image's size.
    Picture { one_channel: bool },
    /// Numbers of one type and shape; on its image's pixels, or of any size.
    Array {
        dtype: Dtype,
        shape: Vec<u64>,
        axes: Option<Axes>,
        on_image: bool,
        /// The size that images, and arrays on their pixels, are brought to.
        frame: Option<Frame>,
    },
    /// The part of a scene that matches the image's tile.
    Window { dtype: Dtype, side: u32, mask: bool },
    /// A mask on the grid of its image, or of the image's tile of so many columns and rows.
    Resampled { dtype: Dtype, tile: Option<u32> },
    /// A mask of the shape that its image is brought to.
    Fitted { dtype: Dtype, to: (u32, u32), fit: Fit },
    /// A mask of the size that its image is brought to, without resizing.
    Framed { dtype: Dtype, frame: Frame },
}

impl FilesOf {
    /// Whether files that are stored as bytes are those that were found.
    pub(crate) fn is_stored_as_is(&self) -> bool {
        self.colours.is_none() && self.polygons.is_none()
    }
}

impl<'a> Beside<'a> {
    /// Lists the files of every field; a compressed tar is unpacked in folder `temp`.
    pub(crate) fn open(
        options: &PlanOptions,
        images: &'a Source,
        layout: &Layout,
        temp: &Path,
        cancel: &AtomicBool,
    ) -> Result<Self, PlanError> {
        let limits = Limits { max_pixels: options.max_pixels };
        let open = |of: &FieldFiles| {
            let path = of.files.as_deref().unwrap_or(images.path());
            let source = Source::open(path, &options.source(), Some(temp), cancel)?;
            let arrays = options.inputs == Inputs::Arrays;
            let is_mask = options.is_mask(&of.name);
            let is_resized = match options.payload {
                PayloadOptions::Encoded => false,
                PayloadOptions::Reencoded(reencode) => reencode.max_side.is_some(),
                PayloadOptions::Raw(_) => true,
            };
            // Masks in colours are compared, as other files are.
            let colours = options.mask_colours.clone().filter(|_| of.name.is_mask());
            let of_classes = is_mask && colours.is_none();
            Ok(Finding {
                name: of.name.clone(),
                is_mask,
                ignore: options.mask_ignore.get(&of.name).copied(),
                stems: Stems::list(&source, of, layout)?,
                source,
                pixels: is_mask && matches!(options.payload, PayloadOptions::Raw(_)),
                arrays,
                axes: options.axes.get(&of.name).cloned(),
                apart: match options.inputs {
                    Inputs::Bytes => Some("and no images are packed"),
                    _ if options.frame.is_some() => Some("which is not cropped or padded"),
                    _ => is_resized.then_some("which is not resized with its image"),
                },
                framed: options.frame.is_some(),
                resample: arrays && of_classes && options.align == Align::Resample,
                colours,
                class: options.mask_class.clone().filter(|_| of.name.is_mask()),
                tile: options.tile.map(|tile| tile.size),
                limits,
                pages: options.pages,
                last: None,
                seen: Seen::default(),
            })
        };
        let fields: Result<_, PlanError> = options.fields.iter().map(open).collect();
        Ok(Self { fields: fields?, images: Some(images), limits, pages: options.pages })
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
        let (images, limits, known) = (self.images, self.limits, OnceCell::new());
        let pages = self.pages;
        let find = || images.and_then(|images| recipe.size_of(images, key, &limits, pages));
        let size = || *known.get_or_init(find);
        for field in &mut self.fields {
            let Found { path, bytes } = field.find(key, placed, &size)?;
            all = all.saturating_add(bytes);
            values.push(Value::Array(vec![bytes.into(), path.into()]));
        }
        Ok((values, all))
    }

    /// Compares the size of the image `key` with the one that its annotations are of. Where only the
    /// scale differs, boxes still fit, and the image is noted in `resized`; one that is turned to be
    /// upright, in `turned`.
    pub(crate) fn check_size(
        &self,
        key: &str,
        annotated: (u32, u32),
        [resized, turned]: [&mut Names; 2],
    ) -> Result<(), Fault> {
        let size = self.upright_size(key, turned);
        let Some(size) = size.filter(|size| *size != annotated) else { return Ok(()) };
        let ratio = |(width, height): (u32, u32)| f64::from(width) / f64::from(height);
        if (ratio(size) / ratio(annotated) - 1.0).abs() < SAME_RATIO {
            resized.push(key);
            return Ok(());
        }
        let ((w, h), (width, height)) = (size, annotated);
        Err(Fault::new(
            format!(
                "it has {w} x {h} pixels, and its boxes are of an image with {width} x {height}"
            ),
            Some("correct the annotations; turned images must be upright in the file"),
        ))
    }

    /// The size of an image as it is seen; one that is turned to be upright is noted.
    pub(crate) fn size_of(&self, key: &str, turned: &mut Names) -> Result<(u32, u32), Fault> {
        let text = "its size cannot be read, and its boxes are in pixels";
        self.upright_size(key, turned).ok_or_else(|| Fault::new(text.to_owned(), None))
    }

    fn upright_size(&self, key: &str, turned: &mut Names) -> Option<(u32, u32)> {
        let start = self.images.and_then(|images| picture_start(images, key, &self.limits));
        let (header, _) = start?;
        if header.orientation != Orientation::Normal {
            turned.push(key);
        }
        Some(header.upright_size())
    }

    /// Whether a JPEG decoder makes the numbers of any field.
    pub(crate) fn has_jpeg(&self) -> bool {
        self.fields.iter().any(|field| field.seen.jpeg)
    }

    /// The first files that have not the size of their images, of fields where others have.
    pub(crate) fn unlike(&self) -> Vec<BadInput> {
        let of = |field: &Finding| {
            let (like, (key, reason)) =
                field.seen.on_image.as_ref().zip(field.seen.unlike.as_ref())?;
            let fault = Fault::new(unlike(reason, like), None);
            Some(Fault { remedy: Remedy::NotOnImage, ..fault }.at(key.clone()))
        };
        self.fields.iter().filter_map(of).collect()
    }

    /// What the user should know of the values of masks.
    pub(crate) fn doubts(&self) -> impl Iterator<Item = Doubt> {
        let is_binary = |field: &&Finding| {
            let is_class = field.ignore.is_some_and(|ignore| ignore != i64::from(u8::MAX));
            !is_class && field.seen.values.iter().eq(&[0, u16::from(u8::MAX)])
        };
        let scaled = self.fields.iter().filter(|of| of.seen.scaled).map(|of| {
            let text = format!(
                "files of `{}` have a scale or an offset, which the bundle does not record: its numbers are the stored ones",
                of.name
            );
            Doubt::new(text, Vec::new())
        });
        let binary = self.fields.iter().find(is_binary).map(|_| {
            let text = "the first masks have only the values 0 and 255, and loaders fill what is beyond an image with 255, which losses ignore: a table of colours with `0,0,0` and `255,255,255` makes the classes 0 and 1 of them";
            Doubt::new(text.to_owned(), Vec::new())
        });
        let in_colour = self.fields.iter().filter(|of| of.has_name_of_classes()).map(|of| {
            let text = format!(
                "`{}` has the name of classes, but its files are pictures in colour, which are interpolated like the image: if their colours are classes, write them as numbers, in PNG of one channel",
                of.name
            );
            Doubt::new(text, Vec::new())
        });
        binary.into_iter().chain(scaled).chain(in_colour)
    }

    /// The fields, now that all their files are known.
    pub(crate) fn finish(self, recipe: &PayloadRecipe) -> Vec<FilesOf> {
        self.fields.into_iter().map(|finding| finding.finish(recipe)).collect()
    }
}

/// Checks that axes are given only where they can be read in another way.
fn check_axes(options: &PlanOptions) -> Result<(), PlanError> {
    let fail = |text: String| Err(setting(&["axes"], text));
    for (name, axes) in &options.axes {
        if *name == FieldName::image() {
            match (options.inputs, axes) {
                (Inputs::Arrays | Inputs::Pixels { .. }, Some(_)) => {}
                (_, None) => return fail("the image is always on its own pixels".to_owned()),
                (Inputs::Images, Some(axes)) => {
                    return fail(format!(
                        "the axes `{axes}` were given for the images, but these are pictures, whose axes are known"
                    ));
                }
                (Inputs::Bytes, Some(axes)) => {
                    return fail(format!(
                        "the axes `{axes}` were given, but the files are packed as bytes, which have no axes"
                    ));
                }
            }
        } else if !options.fields.iter().any(|of| of.name == *name) {
            let fields = options.fields.iter().map(|of| format!("`{}`", of.name));
            let those = match fields.collect::<Vec<_>>().as_slice() {
                [] => "no field has files of its own".to_owned(),
                of => format!("the fields with files of their own are {}", of.join(", ")),
            };
            return fail(format!("axes were given for the field `{name}`, but {those}"));
        } else if options.is_mask(name) && axes.is_none() {
            return fail(format!("a mask, such as `{name}`, is always on the pixels of its image"));
        } else if name.is_mask() {
            return fail(
                "axes were given for the field `mask`, which always has the axes `yx`, on the pixels of its image".to_owned(),
            );
        }
    }
    Ok(())
}

/// Checks that the fields of files go with the other options.
pub(crate) fn check(options: &PlanOptions) -> Result<(), PlanError> {
    let fail = |names, text: String| Err(setting(names, text));
    check_axes(options)?;
    check_ignored(options)?;
    let has_mask = options.fields.iter().any(|of| of.name.is_mask());
    if options.mask_colours.is_some() && !has_mask {
        let text = "a table of colours was given, but no masks".to_owned();
        return fail(&["mask_colours", "mask"], text);
    }
    if options.mask_class.is_some() && !has_mask {
        let text =
            "the property of polygons that is their class was given, but no masks".to_owned();
        return fail(&["mask_class", "mask"], text);
    }
    for (i, FieldFiles { name, pattern, .. }) in options.fields.iter().enumerate() {
        let (is_mask, name) = (options.is_mask(name), name.as_str());
        let of_axis = |axis: &&&str| pattern.as_ref().is_some_and(|of| of.has(axis));
        if let Some(axis) = [BAND, DATE].iter().find(of_axis).filter(|_| options.joins_files()) {
            return fail(
                &["mask", "field"],
                format!(
                    "the pattern of field `{name}` has `{{{axis}}}`, but a sample has one file of a field, whatever its bands and dates: write out which one"
                ),
            );
        }
        if matches!(name, "image" | "label" | "labels" | "data") {
            return fail(&["field"], format!("a field cannot be called `{name}`"));
        }
        if options.fields.iter().skip(i + 1).any(|other| other.name.as_str() == name) {
            return fail(&["field"], format!("two fields are called `{name}`"));
        }
        if matches!(name, "image_crs" | "image_transform") || OfFile::NAMES.contains(&name) {
            return fail(
                &["field"],
                format!(
                    "field `{name}` is made from the tiles themselves, and cannot come from files"
                ),
            );
        }
        if is_mask && options.inputs == Inputs::Bytes {
            return fail(
                &["mask", "inputs"],
                "masks can only be packed with images, and no images are packed".to_owned(),
            );
        }
        if let PayloadOptions::Reencoded(reencode) = options.payload
            && is_mask
            && reencode.max_side.is_some()
        {
            let text = "masks cannot be packed with images that are made smaller, since a mask would keep its size; the payload `raw` resizes both";
            return fail(&["mask", "max_side"], text.to_owned());
        }
    }
    Ok(())
}

/// Checks that the numbers for pixels without a class are of masks, and not of those that are made
/// of colours or polygons.
fn check_ignored(options: &PlanOptions) -> Result<(), PlanError> {
    let fail = |text: String| Err(setting(&["mask_ignore"], text));
    for (name, ignore) in &options.mask_ignore {
        if !options.fields.iter().any(|of| of.name == *name) {
            return fail(format!(
                "a number for pixels without a class was given for `{name}`, but no files for this field"
            ));
        }
        if name.is_mask() && options.mask_colours.is_some() && *ignore != i64::from(BEYOND) {
            return fail(format!(
                "masks that are made of colours have {BEYOND} in pixels without a class, not {ignore}"
            ));
        }
    }
    Ok(())
}

impl Finding {
    /// Whether it is a picture in colour that its name says to be of classes.
    fn has_name_of_classes(&self) -> bool {
        let is_picture = self.seen.media_types.iter().any(|of| of.starts_with("image/"));
        let is_in_colour = is_picture && self.seen.axes == Some(Axes::yxc());
        let name = self.name.as_str();
        !self.is_mask && is_in_colour && OF_CLASSES.iter().any(|word| name.starts_with(word))
    }

    /// Finds the file of the image `key`, whose columns and rows `size` returns.
    fn find(&mut self, key: &str, placed: &Placed<'_>, size: Size<'_>) -> Result<Found, Fault> {
        if let Some((_, found)) = self.last.as_ref().filter(|(last, _)| last == key) {
            return Ok(found.clone());
        }
        let name = &self.name;
        let mut found = self.stems.find(key, placed);
        let all = found.len() as u64;
        let extension = |of: &Found| stem_and_extension(&of.path).1.to_ascii_lowercase();
        if self.is_mask && found.iter().any(|of| has_shapes(&extension(of))) {
            let is_mask =
                |extension: &str| is_of_polygons(extension) || formats::is_image(extension);
            found.retain(|of| is_mask(&extension(of)));
        }
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
        self.seen.used += all;
        if self.tile.is_some() {
            self.last = Some((key.to_owned(), found.clone()));
        }
        Ok(found)
    }

    /// Finds what a file is and whether it goes with those before.
    fn look(&mut self, key: &str, found: &Found, size: Size<'_>) -> Result<(), Fault> {
        let Found { path, bytes } = found;
        let name = &self.name.clone();
        let extension = stem_and_extension(path).1.to_ascii_lowercase();
        let fault = |reason: String, hint| Err(Fault::new(reason, hint));
        let is_mask = self.is_mask;
        if is_mask && is_of_polygons(&extension) {
            return self.polygons((key, path), *bytes);
        }
        if let Some(other) = &self.seen.polygons {
            let reason =
                format!("its `{name}`, `{path}`, is no file of polygons, but that of `{other}` is");
            return fault(reason, Some("use files of one kind for a field"));
        }
        let is_array = match extension.as_str() {
            "npy" => true,
            "npz" => is_mask,
            _ if array::is_tiff(path) && self.colours.is_some() => self.tile.is_some(),
            // The part of a tile becomes numbers.
            "png" | "jpg" | "jpeg" => self.tile.is_some() && self.colours.is_none(),
            _ if array::is_tiff(path) || array::is_jpeg_2000_name(path) => self.arrays || is_mask,
            // No part of it can be read as a scene's.
            _ if is_nifti_name(path) => {
                self.tile.is_none() && self.colours.is_none() && (self.arrays || is_mask)
            }
            _ => false,
        };
        if is_array {
            let named = |fault: Fault| Fault {
                reason: format!("`{name}` is `{path}`: {}", fault.reason),
                ..fault
            };
            let start = array_start(&self.source, path, *bytes, &self.limits, self.pages);
            let start = start.map_err(named)?;
            let Start { dtype, mut shape, is_jpeg, axes, geo } = start;
            if is_mask && is_jpeg {
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
            let colours = self.colours.is_some() && dtype == Dtype::U8;
            // The masks of volumes are volumes, which are neither resampled nor made pixels.
            let is_flat = name.is_mask() || self.pixels || self.resample;
            if is_mask
                && axes.as_ref().is_none_or(|axes| *axes == Axes::yxc())
                && matches!(shape.get(2), Some(bands) if *bands == 1 || colours && *bands == 3)
            {
                shape.truncate(2);
            }
            if is_mask && (is_flat && shape.len() != 2 || !dtype.is_integer()) {
                let remedy = match (dtype, shape.get(2)) {
                    (Dtype::U8, Some(3)) => Remedy::NameColours,
                    _ => Remedy::Repair,
                };
                let reason = format!("the mask `{path}` is {dtype} of shape {shape:?}");
                let hint = match self.colours {
                    None => {
                        "masks must hold integers, with the shape [height, width]; pack those of several bands as a field of another name, which moves with the image, too"
                    }
                    Some(_) => {
                        "masks in colour must be U8, with the shape [height, width, 3], or [height, width] in grey"
                    }
                };
                return Err(Fault { remedy, ..Fault::new(reason, Some(hint)) });
            }
            if let (Some(side), [height, width, ..]) = (self.tile, shape.as_mut_slice()) {
                (*height, *width) = (side.into(), side.into());
            }
            let (d, s, first) =
                self.seen.array.get_or_insert_with(|| (dtype, shape.clone(), key.to_owned()));
            // A mask that becomes pixels, or is brought to the grid of its image, gets one shape.
            let one_shape = self.pixels || self.resample || self.framed;
            if *d != dtype || (*s != shape && !one_shape) {
                let reason = format!(
                    "its `{name}`, `{path}`, is {dtype} of shape {shape:?}, but that of `{first}` is {d} of shape {s:?}"
                );
                let hint = match is_mask {
                    true => "all masks need the same type and shape",
                    false => {
                        "all values of a field need the same type and shape; arrays of any shape are stored as files of another kind, such as .npz"
                    }
                };
                return fault(reason, Some(hint));
            }
            self.seen.scaled |= geo.as_ref().is_some_and(|geo| !geo.scales.is_empty());
            self.same_nodata(path, geo.and_then(|geo| geo.nodata).map(Nodata::of))?;
            self.check_ignore(path, dtype)?;
            if is_mask && self.colours.is_none() && self.tile.is_none() {
                self.look_at_values(path, *bytes, Some((dtype, &shape)));
            }
            return self.place((key, path), &shape, axes, size);
        }
        if self.tile.is_some() {
            let reason =
                format!("its `{name}`, `{path}`, is not of a format that is cut into tiles");
            return fault(reason, Some("save it as TIFF"));
        }
        if let Some((.., other)) = &self.seen.array {
            let reason =
                format!("its `{name}`, `{path}`, is not an array, but that of `{other}` is");
            return fault(reason, Some("use files of one kind for a field"));
        }
        if self.colours.is_some() {
            self.seen.file.get_or_insert_with(|| key.to_owned());
            self.seen.media_types.insert("image/png");
            return Ok(());
        }
        let mut becomes_png = false;
        if is_mask {
            let start = self.source.head(path, 32).map_err(|e| unreadable(path, &e))?;
            let start = match gular_codec::Further::sniff(&start) {
                None => start,
                // A grey picture of another format becomes a PNG of one channel.
                Some(further) => {
                    becomes_png = true;
                    let file = self.source.head(path, usize::MAX);
                    let file = file.map_err(|e| unreadable(path, &e))?;
                    further.to_png(&file, &self.limits, self.pages == Pages::First)?
                }
            };
            if !gular_codec::holds_values(&start) {
                let reason = format!(
                    "the mask `{path}` is not a PNG with one channel or with a palette, nor a grey picture"
                );
                let is_jpeg = Format::sniff(&start) == Some(Format::Jpeg);
                let remedy = if is_jpeg { Remedy::WriteMasks } else { Remedy::NameColours };
                return Err(Fault { remedy, ..Fault::new(reason, None) });
            }
            let is_wide = gular_codec::bit_depth(&start) == Some(16);
            self.check_ignore(path, if is_wide { Dtype::U16 } else { Dtype::U8 })?;
            self.seen.wide |= is_wide;
            self.look_at_values(path, *bytes, None);
        }
        let media_type = match becomes_png {
            true => "image/png",
            false => media_type_of_extension(&extension).unwrap_or("application/octet-stream"),
        };
        // The files of a field of texts need not be opened.
        if self.seen.file.is_none() || self.axes.is_some() || media_type.starts_with("image/") {
            self.picture((key, path), size)?;
        }
        self.seen.file.get_or_insert_with(|| key.to_owned());
        self.seen.media_types.insert(media_type);
        Ok(())
    }

    /// Records a file of polygons.
    fn polygons(&mut self, (key, path): (&str, &str), bytes: u64) -> Result<(), Fault> {
        Polygons::check_len(bytes)?;
        let array = self.seen.array.as_ref().map(|(.., first)| first);
        let others = array.or(self.seen.file.as_ref()).filter(|_| self.seen.polygons.is_none());
        let (name, fault) = (&self.name, |reason, hint| Err(Fault::new(reason, Some(hint))));
        if let Some(other) = others {
            let reason = format!(
                "its `{name}`, `{path}`, is a file of polygons, but that of `{other}` is not"
            );
            return fault(reason, "use files of one kind for a field");
        }
        if self.colours.is_some() {
            let reason =
                format!("its `{name}`, `{path}`, is a file of polygons, which have no colours");
            return fault(reason, "leave out the table of colours");
        }
        if let Some(ignore) = self.ignore.filter(|ignore| *ignore != i64::from(BEYOND)) {
            let reason = format!(
                "its `{name}`, `{path}`, is a file of polygons, of which masks have {BEYOND} in pixels without a class, not {ignore}"
            );
            return fault(reason, "leave out that number");
        }
        self.seen.polygons.get_or_insert_with(|| key.to_owned());
        match self.tile {
            Some(side) => {
                let shape = vec![side.into(), side.into()];
                self.seen.array.get_or_insert_with(|| (Dtype::U8, shape, key.to_owned()));
            }
            None => {
                self.seen.media_types.insert("image/png");
            }
        }
        Ok(())
    }

    /// Checks that a mask can have the number that says that a pixel has no class.
    fn check_ignore(&self, path: &str, dtype: Dtype) -> Result<(), Fault> {
        let Some(ignore) = self.ignore else { return Ok(()) };
        if bytes_of(dtype, ignore as f64).is_some() {
            return Ok(());
        }
        let reason = format!(
            "its `{}`, `{path}`, is {dtype}, which does not have the number {ignore} for pixels without a class",
            self.name
        );
        Err(Fault::new(reason, Some("choose one that the masks' type has")))
    }

    /// Records the values of one of the first masks, an array of bytes or a picture; what cannot be
    /// read is named when it is packed.
    fn look_at_values(&mut self, path: &str, bytes: u64, array: Option<(Dtype, &[u64])>) {
        let is_enough = self.seen.n_looked == MOST_LOOKED || self.seen.values.len() >= MOST_VALUES;
        if is_enough
            || bytes > MOST_LOOKED_BYTES
            || array.is_some_and(|(dtype, _)| dtype != Dtype::U8)
        {
            return;
        }
        self.seen.n_looked += 1;
        if let Some(values) = self.values(path, bytes, array) {
            self.seen.values.extend(values.into_iter().take(MOST_VALUES));
        }
    }

    /// The different values of a mask.
    fn values(
        &self,
        path: &str,
        bytes: u64,
        array: Option<(Dtype, &[u64])>,
    ) -> Option<BTreeSet<u16>> {
        let (mut file, _) = self.source.read(path, bytes, Vec::new()).ok()?;
        if let Some((dtype, shape)) = array {
            let values = match shape.len() {
                2 => array::mask(&file, dtype, &self.limits, self.pages).ok()??.1,
                _ => array::values(&file, dtype, shape, &self.limits, self.pages).ok()?.values,
            };
            return Some(values.into_iter().map(u16::from).collect());
        }
        if let Some(further) = gular_codec::Further::sniff(&file) {
            file = further.to_png(&file, &self.limits, self.pages == Pages::First).ok()?;
        }
        let options = DecodeOptions { limits: self.limits, ..DecodeOptions::default() };
        let (_, values): (_, Vec<u16>) = Decoder::new(options).decode_values(&file).ok()?;
        Some(values.into_iter().collect())
    }

    /// Checks that all arrays have the same value that means "not measured". NaN means it in any
    /// case, so an array that does not say so is like one that does.
    fn same_nodata(&mut self, path: &str, found: Option<Nodata>) -> Result<(), Fault> {
        let is_nan =
            |nodata: &Option<Nodata>| nodata.as_ref().is_none_or(|nodata| nodata.value().is_nan());
        match &mut self.seen.nodata {
            None => self.seen.nodata = Some((found, path.to_owned())),
            Some((known, _)) if *known == found => {}
            Some((known, _)) if is_nan(known) && is_nan(&found) => {
                *known = known.take().or(found);
            }
            Some((known, first)) => {
                let text = |nodata: &Option<Nodata>| match nodata {
                    Some(nodata) => format!("the nodata value {}", nodata.as_str()),
                    None => "no nodata value".to_owned(),
                };
                let (name, found, known) = (&self.name, text(&found), text(known));
                let reason =
                    format!("its `{name}`, `{path}`, has {found}, but `{first}` has {known}");
                return Err(Fault::new(
                    reason,
                    Some("save all files of a field with the same nodata value"),
                ));
            }
        }
        Ok(())
    }

    /// Finds what the axes of arrays of `shape` mean, and whether their values are on the pixels of
    /// the image. This is looked for until it is true of one; the others are compared with their
    /// images when they are packed. `of_format` are the axes that the format of the file gives.
    fn place(
        &mut self,
        (key, path): (&str, &str),
        shape: &[u64],
        of_format: Option<Axes>,
        size: Size<'_>,
    ) -> Result<(), Fault> {
        if self.name.is_mask() || self.seen.on_image.is_some() {
            return Ok(());
        }
        if self.is_mask && shape.len() == 2 {
            self.seen.axes = Some(Axes::yx());
            self.seen.on_image = Some(path.to_owned());
            return Ok(());
        }
        let name = &self.name;
        let fault = |reason: String| Fault { remedy: Remedy::NameAxes, ..Fault::new(reason, None) };
        let is_of_format = of_format.is_some();
        let readings = match (&self.axes, of_format) {
            (Some(None), _) => return Ok(()),
            (Some(Some(axes)), None) if axes.n() == shape.len() => vec![axes.clone()],
            (Some(Some(axes)), of_format) if of_format.as_ref() != Some(axes) => {
                return Err(fault(format!(
                    "its `{name}`, `{path}`, has the shape {shape:?}{}, not the axes `{axes}`",
                    of_format.map_or_else(String::new, |axes| format!(" and the axes `{axes}`"))
                )));
            }
            (_, Some(axes)) => vec![axes],
            (_, None) => {
                let all = [Axes::yx(), Axes::yxc(), Axes::cyx()].into_iter();
                all.filter(|axes| axes.n() == shape.len()).collect()
            }
        };
        let is_given = matches!(self.axes, Some(Some(_)));
        if let ([axes], true) = (readings.as_slice(), is_given || is_of_format) {
            self.seen.axes = Some(axes.clone());
        }
        let grids = readings.iter().filter_map(|axes| Some((axes, axes.grid(shape)?)));
        let grids: Vec<(&Axes, GridSize)> = grids.collect();
        let image = if grids.is_empty() || self.tile.is_some() { None } else { size() };
        let is_on = |grid: &GridSize| match image {
            Some((width, height)) => (grid.width, grid.height) == (width.into(), height.into()),
            None => self.tile.is_some(),
        };
        let mut fitting = grids.iter().filter(|(_, grid)| is_on(grid));
        match (fitting.next(), fitting.next(), image) {
            (Some(_), Some(_), _) => {
                return Err(fault(format!(
                    "its `{name}`, `{path}`, has the shape {shape:?}, which can be read in two ways"
                )));
            }
            (Some((axes, _)), None, _) => {
                self.seen.axes = Some((*axes).clone());
                self.seen.on_image = Some(path.to_owned());
            }
            (None, _, Some((width, height))) => {
                let reason = format!(
                    "its `{name}`, `{path}`, has the shape {shape:?}, but its image has {width} x {height} pixels"
                );
                self.unlike(key, reason)?;
            }
            (None, _, None) => {}
        }
        Ok(())
    }

    /// Records a file that has not the size of its image, which is a fault if the axes are given.
    fn unlike(&mut self, key: &str, reason: String) -> Result<(), Fault> {
        if self.is_mask {
            return Err(Fault::new(reason, None));
        }
        if matches!(self.axes, Some(Some(_))) {
            return Err(Fault { remedy: Remedy::NotOnImage, ..Fault::new(reason, None) });
        }
        self.seen.unlike.get_or_insert_with(|| (key.to_owned(), reason));
        Ok(())
    }

    /// Finds whether pictures are on the pixels of the image. This is looked for until it is true of
    /// one; the others are compared with their images when they are packed.
    fn picture(&mut self, (key, path): (&str, &str), size: Size<'_>) -> Result<(), Fault> {
        let given = match &self.axes {
            Some(None) => return Ok(()),
            Some(Some(axes)) => Some(axes),
            None => None,
        };
        if self.seen.on_image.is_some() {
            return Ok(());
        }
        let name = &self.name;
        let fault = |remedy, reason: String| Fault { remedy, ..Fault::new(reason, None) };
        let Some((header, start)) = picture_start(&self.source, path, &self.limits) else {
            let Some(axes) = given else { return Ok(()) };
            return Err(fault(
                Remedy::NameAxes,
                format!(
                    "its `{name}`, `{path}`, is neither an array nor a picture, so it has no axes `{axes}`"
                ),
            ));
        };
        let (own, known) = match gular_codec::holds_values(&start) {
            true => (Axes::yx(), "`yx` or `yxc`"),
            false => (Axes::yxc(), "`yxc`"),
        };
        if let Some(axes) = given.filter(|axes| **axes != own && **axes != Axes::yxc()) {
            return Err(fault(
                Remedy::NameAxes,
                format!("its `{name}`, `{path}`, is a picture with the axes {known}, not `{axes}`"),
            ));
        }
        if let (Some(axes), Some(reason)) = (given, self.apart) {
            return Err(fault(
                Remedy::NotOnImage,
                format!(
                    "the axes `{axes}` were given for `{name}`, but `{path}` is a picture, {reason}"
                ),
            ));
        }
        let Some(image) = size().filter(|_| self.apart.is_none()) else { return Ok(()) };
        if image == header.upright_size() {
            self.seen.axes = Some(given.cloned().unwrap_or(own));
            self.seen.on_image = Some(path.to_owned());
            return Ok(());
        }
        let reason = other_size(header.upright_size(), image);
        self.unlike(key, format!("its `{name}`, `{path}`: {reason}"))
    }

    fn finish(self, recipe: &PayloadRecipe) -> FilesOf {
        let Self { name, is_mask: mask, ignore, source, stems, seen, tile, .. } = self;
        let polygons = seen.polygons.is_some().then_some(self.class);
        let resample = self.resample && polygons.is_none();
        let unused = stems.len().saturating_sub(seen.used);
        let on_image = seen.on_image.is_some();
        let grid = on_image.then(FieldName::image);
        let axes = seen.axes.filter(|_| !name.is_mask());
        let nodata = seen.nodata.and_then(|(nodata, _)| nodata);
        let beyond = ignore.map(|n| n as f64).or_else(|| nodata.as_ref().map(Nodata::value));
        let is_further = mask && !name.is_mask();
        let fixed = |name, dtype, shape| Field { nodata, ..Field::fixed(name, dtype, shape) };
        let of_png = if seen.wide { Dtype::U16 } else { Dtype::U8 };
        let dtype = seen.array.as_ref().map_or(of_png, |(dtype, ..)| *dtype);
        let is_flat = seen.array.as_ref().is_none_or(|(_, shape, _)| shape.len() == 2);
        let (mut field, make) = match (recipe, seen.array) {
            (PayloadRecipe::Raw { width, height, fit, .. }, _) if mask => {
                let shape = vec![u64::from(*height), u64::from(*width)];
                let make = Make::Fitted { dtype, to: (*width, *height), fit: *fit };
                (fixed(name, dtype, shape), make)
            }
            (_, Some((_, shape, _))) if resample => {
                let size = recipe.size().map(|(width, height)| vec![height.into(), width.into()]);
                let make = Make::Resampled { dtype, tile };
                (fixed(name, dtype, size.unwrap_or(shape)), make)
            }
            (PayloadRecipe::Arrays { frame: Some(frame), .. }, _) if mask && is_flat => {
                let shape = vec![frame.size.1.into(), frame.size.0.into()];
                (fixed(name, dtype, shape), Make::Framed { dtype, frame: *frame })
            }
            (_, Some((_, shape, _))) => {
                let on_image = on_image || mask;
                let frame = recipe.frame().filter(|_| on_image);
                let shape = match (frame, &axes) {
                    (Some(frame), Some(axes)) => with_size(&shape, axes, frame.size),
                    _ => shape,
                };
                let make = match tile {
                    Some(side) => Make::Window { dtype, side, mask },
                    None => {
                        let (shape, axes) = (shape.clone(), axes.clone());
                        Make::Array { dtype, shape, axes, on_image, frame }
                    }
                };
                (Field { axes, grid, ..fixed(name, dtype, shape) }, make)
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
        field.ignore = ignore;
        if is_further {
            // Readers that know of one mask only take the others for fields that move with it.
            field.axes.get_or_insert_with(Axes::yx);
            field.grid = Some(FieldName::image());
        }
        let fill = beyond.and_then(|number| bytes_of(dtype, number));
        // The largest unsigned number or -1, so that no class has it.
        let of_no_class = || vec![0xff; usize::try_from(dtype.size_bytes()).unwrap_or(1)];
        FilesOf {
            field,
            source,
            make,
            colours: self.colours,
            polygons,
            fill: fill.unwrap_or_else(of_no_class),
            like: seen.on_image.filter(|_| !is_further),
            unused,
        }
    }
}

/// A number as the bytes of one of type `dtype`, if it has it.
fn bytes_of(dtype: Dtype, number: f64) -> Option<Vec<u8>> {
    array::number_of(dtype)?.encode(number)
}

fn unreadable(path: &str, error: &std::io::Error) -> Fault {
    Fault::new(format!("`{path}` cannot be read: {error}"), None)
}

/// What is wrong with a file of another size than its image, where the file `like` has that size.
pub(crate) fn unlike(reason: &str, like: &str) -> String {
    format!("{reason}; `{like}` has the size of its image")
}

/// What is wrong with a file of `found` = (columns, rows).
pub(crate) fn other_size(found: (u32, u32), image: (u32, u32)) -> String {
    let ((width, height), (of_image, rows_of_image)) = (found, image);
    format!("it has {width} x {height} pixels, but its image has {of_image} x {rows_of_image}")
}
