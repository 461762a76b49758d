//! How each field of a bundle appears in a batch.

use gular_augment::{
    AxisOrder, Depth, Normalise, Normalised, Numbers, StoredPixels, Writer, number_bytes,
};
use gular_bundle::{Axes, Bundle, Dtype, Field, FieldIdx, FieldKind, Manifest};

use super::boxes::{CoordinateKind, POINTS, Related, coordinate_kind};
use super::columns::Column;
use super::{LoaderError, LoaderOptions};
use crate::Error;

/// The field of the classes of pixels.
const MASK: &str = "mask";
/// What the batch has of the place of each picture on its image. Format: the `fields` of
/// [`LoaderOptions`].
const AFFINE: &str = "image_affine";
/// The transform from the pixels of an image to its CRS. Format: `FORMAT.md`, "Fields".
const TRANSFORM: &str = "image_transform";

/// The media types of npy files, and of files of an unknown kind.
const NPY: &str = "application/x-npy";
const OCTETS: &str = "application/octet-stream";

/// The number of channels of a decoded picture, and of a batch of grey pictures.
pub(super) const RGB: usize = 3;

/// The fields of a batch besides the label.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) image: Option<ImageField>,
    /// The requested fields, which follow the image in each row.
    pub(super) others: Vec<OtherField>,
    pub(super) columns: Vec<Column>,
    /// The field whose digests prove that a sample was delivered: the image, or else the first.
    pub(super) proof: FieldIdx,
}

#[derive(Debug)]
pub(super) struct ImageField {
    pub(super) field: FieldIdx,
    /// The form in which it stores pixels, if it is not encoded.
    pub(super) pixels: Option<StoredPixels>,
    pub(super) writer: Writer,
    /// How pixels are normalised, and in words what was chosen; or why they cannot be.
    pub(super) normalise: Result<(Normalise, Option<String>), String>,
}

#[derive(Debug)]
pub(super) struct OtherField {
    pub(super) field: FieldIdx,
    pub(super) is_mask: bool,
    pub(super) kind: OtherKind,
}

#[derive(Debug)]
pub(super) enum OtherKind {
    /// Moved with the image: for each pixel the stored value under its centre.
    Nearest(NearestField),
    /// Moved with the image and interpolated like it.
    Interpolated(InterpolatedField),
    /// Boxes and points, which move with the image, and what is said of each.
    Coordinates(CoordinateKind),
    /// The transform from the pixels of the batch to those of the image, which is not stored.
    Affine,
    /// The transform from the pixels of the batch to the CRS of the image.
    Transform,
    /// Delivered as it is stored; a number has this many bytes.
    Plain(usize),
}

/// Classes, or other numbers that must not be mixed.
#[derive(Debug)]
pub(super) struct NearestField {
    /// The form in which it stores pixels, if it is not encoded.
    pub(super) pixels: Option<StoredPixels>,
    /// Whether encoded values become `u16`, and not `u8`.
    pub(super) wide: bool,
    /// The bytes of a pixel that lies outside of what is stored.
    pub(super) fill: Vec<u8>,
    /// Whether bands come before rows and columns in a batch.
    pub(super) planes: bool,
}

/// A second picture, or numbers like heights.
#[derive(Debug)]
pub(super) struct InterpolatedField {
    /// The form in which it stores pixels, if it is not encoded.
    pub(super) pixels: Option<StoredPixels>,
    /// Writes the pixels; `None`: as those of the image are written.
    pub(super) writer: Option<Writer>,
    /// The number of planes in a row of a batch.
    pub(super) planes: usize,
    /// The bytes of a pixel, in all planes, that lies outside of what is stored.
    pub(super) fill: Vec<u8>,
    /// Whether that is NaN, and not a zero as around the image.
    pub(super) is_nan: bool,
}

impl OtherField {
    /// Whether the bundle has it.
    pub(super) fn is_stored(&self) -> bool {
        !matches!(self.kind, OtherKind::Affine)
    }

    /// Whether it has values on the pixels of its image, or coordinates.
    pub(super) fn is_on_image(&self) -> bool {
        use OtherKind::{Coordinates, Interpolated, Nearest};
        matches!(self.kind, Coordinates(_) | Interpolated(_) | Nearest(_))
    }

    /// Whether it is a second picture that is made as the image is.
    pub(super) fn is_picture(&self) -> bool {
        matches!(&self.kind, OtherKind::Interpolated(of) if of.writer.is_none())
    }
}

impl OtherKind {
    /// Whether it is moved with the image.
    pub(super) fn is_moved(&self) -> bool {
        match self {
            Self::Coordinates(kind) => kind.is_moved(),
            other => !matches!(other, Self::Plain(_)),
        }
    }

    /// The pixels that it stores, if it is moved with the image and not encoded.
    pub(super) fn pixels(&self) -> Option<&StoredPixels> {
        match self {
            Self::Nearest(field) => field.pixels.as_ref(),
            Self::Interpolated(field) => field.pixels.as_ref(),
            _ => None,
        }
    }

    /// The number of planes in a row of a batch, each of which has one value, or one pixel of
    /// several values, for each pixel of the image; and the bytes of a pixel outside, of all planes.
    pub(super) fn planes(&self) -> (usize, &[u8]) {
        match self {
            Self::Nearest(field) => {
                let planes = field.pixels.filter(|_| field.planes);
                (planes.map_or(1, |pixels| pixels.channels), &field.fill)
            }
            Self::Interpolated(field) => (field.planes, &field.fill),
            _ => (1, &[]),
        }
    }
}

impl Fields {
    /// The fields that are read for a batch.
    pub(super) fn loaded(&self) -> impl Iterator<Item = FieldIdx> + '_ {
        let image = self.image.iter().map(|image| image.field);
        image.chain(self.others.iter().filter(|other| other.is_stored()).map(|other| other.field))
    }

    /// Whether any of them tells places on the image.
    pub(super) fn have_places(&self) -> bool {
        self.others.iter().any(|other| other.kind.is_moved())
    }

    /// # Errors
    /// [`Error::Option`], [`LoaderError::NoImages`].
    pub(super) fn new(bundle: &Bundle, options: &LoaderOptions) -> Result<Self, Error> {
        let fields = &bundle.manifest().fields;
        let image = bundle.manifest().image();
        let image = image.and_then(|at| Some((at, at.of(fields)?)));
        if image.is_none() && options.fields.is_empty() {
            return Err(LoaderError::NoImages { found: "no field `image`".into() }.into());
        }
        let mut columns: Vec<Column> = Vec::new();
        let mut others = Vec::new();
        let image = match image {
            // Without rows and columns there is nothing to crop.
            Some((at, field)) if is_no_picture(field, options)? => {
                if options.bands.is_some() {
                    let reason = "the bundle's images have no rows and columns, and are delivered as they are stored".into();
                    return Err(Error::Option { option: "bands", reason });
                }
                let Loaded { kind, fixed, channels_last } = plain_field(field);
                others.push(OtherField { field: at, is_mask: false, kind });
                columns.push(Column { name: "image".into(), field: at, fixed, channels_last });
                None
            }
            Some((at, field)) => {
                let image = image_field(at, field, options, bundle.manifest())?;
                let fixed = Some((image.writer.dtype(), image_shape(&image, options)));
                let channels_last = image.writer.layout == AxisOrder::ChannelsLast;
                columns.push(Column { name: "image".into(), field: at, fixed, channels_last });
                Some(image)
            }
            None => None,
        };
        if options.mask_fill.is_some() && !options.fields.iter().any(|name| name == MASK) {
            let reason = "no mask is loaded: name it among the fields".into();
            return Err(Error::Option { option: "mask_fill", reason });
        }
        for name in &options.fields {
            let refuse = |reason: String| Error::Option { option: "fields", reason };
            let at = fields.iter().position(|field| field.name.as_str() == name);
            if let (Some(image), None, true) = (&image, at, name == AFFINE) {
                let (field, fixed) = (image.field, Some((Dtype::F64, vec![6])));
                others.push(OtherField { field, is_mask: false, kind: OtherKind::Affine });
                let name = name.clone();
                columns.push(Column { name, field, fixed, channels_last: false });
                continue;
            }
            let Some((at, field)) = at.and_then(|at| Some((FieldIdx(at), fields.get(at)?))) else {
                let names = fields.iter().map(|field| field.name.as_str());
                // Not stored, and there wherever there are images.
                let names: Vec<&str> = names.chain(image.as_ref().map(|_| AFFINE)).collect();
                let names = names.join("`, `");
                return Err(refuse(format!(
                    "the bundle has no field `{name}`; its fields are `{names}`"
                )));
            };
            if field.is_image() || field.is_label() || columns.iter().any(|c| c.field == at) {
                return Err(refuse(format!("every batch contains `{name}` already")));
            }
            // Files that were adopted are octets.
            let is_npy = matches!(&field.kind, FieldKind::Bytes { media_types }
                if media_types.iter().all(|m| [NPY, OCTETS].contains(&m.as_str())));
            let has = |of: &str| {
                let mut named = fields.iter().filter(|field| field.name.as_str() == of);
                named.any(|field| of != POINTS || field.is_on_image())
            };
            let of_rows = coordinate_kind(name, &has).filter(|_| is_npy);
            let Loaded { kind, fixed, channels_last } = match (&image, of_rows) {
                (Some(image), None) if field.is_on_image() => {
                    moved_field(bundle, (at, field), image, options)?
                }
                (None, _) if name == MASK => {
                    return Err(refuse(
                        "masks belong to images, and the bundle has no images".into(),
                    ));
                }
                (Some(_), Some((kind, related))) => {
                    let is_named = |of: &str| options.fields.iter().any(|field| field == of);
                    if let Some(Related { each, of }) = related.filter(|to| !is_named(to.of)) {
                        return Err(refuse(format!(
                            "`{name}` tells something of each {each}, and crops drop some: name `{of}`, too"
                        )));
                    }
                    Loaded::bytes(OtherKind::Coordinates(kind))
                }
                (Some(_), None) if name == TRANSFORM && is_transform(field) => {
                    Loaded { kind: OtherKind::Transform, ..plain_field(field) }
                }
                _ => plain_field(field),
            };
            others.push(OtherField { field: at, is_mask: field.name.is_mask(), kind });
            columns.push(Column { name: name.clone(), field: at, fixed, channels_last });
        }
        let proof = columns.first().map_or(FieldIdx(0), |column| column.field);
        Ok(Self { image, others, columns, proof })
    }

    /// Bytes of a row of each field, after checking that a batch of them is possible.
    pub(super) fn row_bytes(&self, options: &LoaderOptions) -> Result<Vec<Option<usize>>, Error> {
        let (width, height) = options.transform.size();
        let rows = self.columns.iter().map(|column| {
            let bytes = column.row_bytes();
            // A slice has at most isize::MAX bytes.
            let all = bytes.and_then(|bytes| bytes.checked_mul(options.batch_size));
            if column.fixed.is_some() && all.is_none_or(|all| isize::try_from(all).is_err()) {
                let n = options.batch_size;
                let reason = format!("a batch of {n} x {width} x {height} pixels");
                return Err(Error::Option { option: "transform", reason });
            }
            Ok(bytes)
        });
        rows.collect()
    }
}

/// The way in which a field is loaded.
struct Loaded {
    kind: OtherKind,
    /// The type and shape of the result, unless it is bytes of any length.
    fixed: Option<(Dtype, Vec<usize>)>,
    /// Whether that shape ends with channels, after rows and columns.
    channels_last: bool,
}

impl Loaded {
    fn bytes(kind: OtherKind) -> Self {
        Self { kind, fixed: None, channels_last: false }
    }

    fn array(kind: OtherKind, dtype: Dtype, shape: Vec<usize>, channels_last: bool) -> Self {
        Self { kind, fixed: Some((dtype, shape)), channels_last }
    }
}

/// Whether images are arrays without rows and columns, which are delivered as they are stored.
fn is_no_picture(field: &Field, options: &LoaderOptions) -> Result<bool, Error> {
    let Some((_, shape)) = field.as_fixed() else {
        if options.axes.is_some() {
            let reason = "the bundle's images are encoded, and no arrays".into();
            return Err(Error::Option { option: "axes", reason });
        }
        return Ok(false);
    };
    let axes = options.axes_of(field, shape)?;
    Ok(axes.place('y').is_none() || axes.place('x').is_none())
}

fn is_transform(field: &Field) -> bool {
    field.as_fixed().is_some_and(|(dtype, shape)| dtype == Dtype::F64 && *shape == [6])
}

/// A field that is delivered as it is stored.
fn plain_field(field: &Field) -> Loaded {
    let number = |n: &u64| usize::try_from(*n).unwrap_or(usize::MAX);
    let fixed = field.as_fixed();
    let element = fixed.map_or(1, |(dtype, _)| dtype.size_bytes());
    let fixed = fixed.map(|(dtype, shape)| (dtype, shape.iter().map(number).collect()));
    Loaded { kind: OtherKind::Plain(number(&element)), fixed, channels_last: false }
}

fn image_field(
    field: FieldIdx,
    of: &Field,
    options: &LoaderOptions,
    manifest: &Manifest,
) -> Result<ImageField, Error> {
    let (pixels, stored) = match of.as_fixed() {
        None => {
            let wide = options.depth == Depth::U16;
            (None, if wide { Dtype::U16 } else { Dtype::U8 })
        }
        Some((dtype, shape)) => {
            let axes = options.axes_of(of, shape)?;
            let Some(pixels) = StoredPixels::of(dtype, shape, &axes) else {
                let found = format!("a field `image` of {dtype} {shape:?}");
                return Err(LoaderError::NoImages { found }.into());
            };
            let made = pixels.made_as(options.depth);
            let is_wide = matches!(dtype, Dtype::U32 | Dtype::I32 | Dtype::I64 | Dtype::F64);
            if is_wide && options.numbers == Numbers::Stored {
                let reason = format!(
                    "images of {dtype} become f32, f16 or bf16, and are not delivered as they are stored"
                );
                return Err(Error::Option { option: "numbers", reason });
            }
            // Floats are used only as an intermediate step.
            (Some(pixels), if made == Dtype::F32 { dtype } else { made })
        }
    };
    let channels = pixels.map_or(RGB, |pixels| pixels.bands());
    let bands = match &options.bands {
        Some(bands) => bands.clone(),
        // Networks take grey pictures with three channels, like colour.
        None if channels == 1 && !pixels.is_some_and(|pixels| pixels.is_series()) => vec![0; RGB],
        None => (0..channels).collect(),
    };
    if bands.is_empty() || bands.iter().any(|band| *band >= channels) {
        let reason = format!("{bands:?} of {channels} channels, which count from 0");
        return Err(Error::Option { option: "bands", reason });
    }
    let LoaderOptions { numbers, layout, .. } = options;
    // What was encoded again had 8 bits when it was added up.
    let of_bundle = of.as_fixed().map_or(Dtype::U8, |(dtype, _)| dtype);
    let images = Normalised { manifest, stored: of_bundle, made: stored, channels, bands: &bands };
    let normalise = options.normalise.of(images);
    let how = match &normalise {
        Err(reason) if *numbers != Numbers::Stored => {
            return Err(Error::Option { option: "normalise", reason: reason.clone() });
        }
        // Stored numbers are not normalised.
        Err(_) => Normalise::scaled(),
        Ok((how, _)) => how.clone(),
    };
    let Some(pixels) = pixels.filter(StoredPixels::is_series) else {
        let writer = Writer::new(*numbers, *layout, bands, stored, &how);
        return Ok(ImageField { field, pixels, writer, normalise });
    };
    if *layout == AxisOrder::ChannelsLast {
        let reason = "images with an axis of times or depths have their bands before rows and columns, in the order [times, depths, bands, rows, columns]".into();
        return Err(Error::Option { option: "layout", reason });
    }
    let all = pixels.channels_of(&bands);
    let how = how.repeated(all.len());
    let writer = Writer::new(*numbers, AxisOrder::Contiguous, all, stored, &how);
    Ok(ImageField { field, pixels: Some(pixels), writer, normalise })
}

impl LoaderOptions {
    /// Returns how the images of a bundle are normalised with these options, for the channels of a
    /// batch; and in words what was chosen, if [`LoaderOptions::normalise`] leaves it open and it is
    /// not ImageNet's mean and standard deviation.
    ///
    /// # Errors
    /// [`Error::Option`], also if nothing can be chosen; [`LoaderError::NoImages`].
    pub fn normalisation(&self, bundle: &Bundle) -> Result<(Normalise, Option<String>), Error> {
        let manifest = bundle.manifest();
        let image = manifest.image();
        let Some((at, field)) = image.and_then(|at| Some((at, at.of(&manifest.fields)?))) else {
            return Err(LoaderError::NoImages { found: "no field `image`".into() }.into());
        };
        let options = Self { numbers: Numbers::Stored, ..self.clone() };
        let image = image_field(at, field, &options, manifest)?;
        image.normalise.map_err(|reason| Error::Option { option: "normalise", reason })
    }
}

/// The shape of an image, in the order of its memory layout.
fn image_shape(image: &ImageField, options: &LoaderOptions) -> Vec<usize> {
    let (width, height) = options.transform.size();
    let (width, height) = (width as usize, height as usize);
    let channels = image.writer.bands.len();
    let series = image.pixels.map(|pixels| pixels.series).unwrap_or_default();
    let series: Vec<usize> = series.into_iter().flatten().collect();
    match image.writer.layout {
        AxisOrder::Contiguous => {
            let bands = channels / series.iter().product::<usize>().max(1);
            [series, vec![bands, height, width]].concat()
        }
        AxisOrder::ChannelsLast => vec![height, width, channels],
    }
}

/// A field whose values lie on the pixels of `image`.
fn moved_field(
    bundle: &Bundle,
    (at, field): (FieldIdx, &Field),
    image: &ImageField,
    options: &LoaderOptions,
) -> Result<Loaded, Error> {
    let (width, height) = options.transform.size();
    let (width, height) = (width as usize, height as usize);
    let is_mask = field.is_mask();
    let axes = field.known_axes();
    let Some((dtype, shape)) = field.as_fixed() else {
        if !is_mask && axes != Some(Axes::yx()) {
            return Ok(encoded_picture(image, options));
        }
        // The numbers of other fields are their own, whatever is asked of the images.
        let wide = match field.name.is_mask() {
            true => options.depth == Depth::U16,
            false => options.is_wide(bundle, at)?,
        };
        let dtype = if wide { Dtype::U16 } else { Dtype::U8 };
        let fill = fill_value(field, dtype, options)?;
        let kind = OtherKind::Nearest(NearestField { pixels: None, wide, fill, planes: false });
        return Ok(Loaded::array(kind, dtype, vec![height, width], false));
    };
    let pixels = axes.as_ref().and_then(|axes| StoredPixels::of(dtype, shape, axes));
    let Some(pixels) = pixels else {
        let reason = format!("`{}` of {dtype} {shape:?} is not a picture", field.name);
        return Err(Error::Option { option: "fields", reason });
    };
    let has_bands = axes.is_some_and(|axes| axes.n() > 2);
    let is_second = |image: &StoredPixels| {
        let alike = |of: &StoredPixels| (of.dtype, of.channels, of.series);
        pixels.channels > 1 && alike(image) == alike(&pixels)
    };
    if !is_mask && image.pixels.as_ref().is_some_and(is_second) {
        return Ok(second_picture(Some(pixels), image, options));
    }
    let is_float = matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64);
    let layout = if pixels.is_series() { AxisOrder::Contiguous } else { options.layout };
    let is_flat = field.name.is_mask();
    let planes = has_bands && !is_flat && layout == AxisOrder::Contiguous;
    let series: Vec<usize> = pixels.series.into_iter().flatten().collect();
    let result = match (has_bands, planes) {
        (false, _) => vec![height, width],
        (true, true) => [series, vec![pixels.bands(), height, width]].concat(),
        (true, false) => vec![height, width, pixels.channels],
    };
    let channels_last = has_bands && !planes && !is_flat;
    if is_float && !is_mask && field.nodata.is_none() {
        // The arithmetic is that of f32.
        let made = if dtype == Dtype::F64 { Dtype::F32 } else { dtype };
        let (bands, how) = ((0..pixels.channels).collect(), Normalise::scaled());
        let writer = Some(Writer::new(Numbers::Stored, layout, bands, made, &how));
        let planes = if planes { pixels.channels } else { 1 };
        let fill = fill_value(field, made, options)?.repeat(pixels.channels);
        let kind = InterpolatedField { pixels: Some(pixels), writer, planes, fill, is_nan: true };
        return Ok(Loaded::array(OtherKind::Interpolated(kind), made, result, channels_last));
    }
    let fill = fill_value(field, dtype, options)?.repeat(pixels.channels);
    let kind = NearestField { pixels: Some(pixels), wide: false, fill, planes };
    Ok(Loaded::array(OtherKind::Nearest(kind), dtype, result, channels_last))
}

/// A second picture that is made as the image is; encoded if `pixels` is `None`.
fn second_picture(
    pixels: Option<StoredPixels>,
    image: &ImageField,
    options: &LoaderOptions,
) -> Loaded {
    let writer = &image.writer;
    let (planes, fill) = (writer.planes(), writer.zeros());
    let kind = InterpolatedField { pixels, writer: None, planes, fill, is_nan: false };
    let channels_last = writer.layout == AxisOrder::ChannelsLast;
    let (dtype, shape) = (writer.dtype(), image_shape(image, options));
    Loaded::array(OtherKind::Interpolated(kind), dtype, shape, channels_last)
}

/// A second picture, encoded.
fn encoded_picture(image: &ImageField, options: &LoaderOptions) -> Loaded {
    if image.pixels.is_none() {
        return second_picture(None, image, options);
    }
    let (width, height) = options.transform.size();
    let (width, height) = (width as usize, height as usize);
    let dtype = if options.depth == Depth::U16 { Dtype::U16 } else { Dtype::U8 };
    let (layout, how) = (options.layout, Normalise::scaled());
    let writer = Writer::new(Numbers::Stored, layout, (0..RGB).collect(), dtype, &how);
    let shape = match layout {
        AxisOrder::Contiguous => vec![RGB, height, width],
        AxisOrder::ChannelsLast => vec![height, width, RGB],
    };
    let (planes, fill) = (writer.planes(), writer.zeros());
    let kind =
        InterpolatedField { pixels: None, writer: Some(writer), planes, fill, is_nan: false };
    let channels_last = layout == AxisOrder::ChannelsLast;
    Loaded::array(OtherKind::Interpolated(kind), dtype, shape, channels_last)
}

/// The bytes of a value that lies outside of a stored field: that of the options for `mask`, the
/// field's number for pixels without a class, its nodata, or the largest value of unsigned numbers, -1 of signed ones, or NaN.
fn fill_value(field: &Field, dtype: Dtype, options: &LoaderOptions) -> Result<Vec<u8>, Error> {
    let nodata = field.nodata.as_ref().and_then(|text| text.as_str().parse::<f64>().ok());
    let given = options.mask_fill.filter(|_| field.name.is_mask()).map(|fill| fill as f64);
    let ignore = field.ignore.map(|ignore| ignore as f64);
    if let Some(bytes) = given.or(ignore).or(nodata).and_then(|value| number_bytes(dtype, value)) {
        return Ok(bytes);
    }
    if let Some(given) = given {
        let reason =
            format!("{given}, but the numbers of the mask are {dtype}, which do not have it");
        return Err(Error::Option { option: "mask_fill", reason });
    }
    let value = match dtype {
        Dtype::U8 => f64::from(u8::MAX),
        Dtype::U16 => f64::from(u16::MAX),
        Dtype::U32 => f64::from(u32::MAX),
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => -1.0,
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64 => f64::NAN,
    };
    Ok(number_bytes(dtype, value).unwrap_or_default())
}
