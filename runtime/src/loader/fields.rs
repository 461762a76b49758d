//! How each field of a bundle appears in a batch.

use gular_bundle::{Bundle, Dtype, Field, FieldIdx};

use super::columns::Column;
use super::normalise::Writer;
use super::pixels::Pixels;
use super::{AxisOrder, Depth, LoaderError, LoaderOptions};
use crate::Error;

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
    pub(super) pixels: Option<Pixels>,
    pub(super) writer: Writer,
}

#[derive(Debug)]
pub(super) struct OtherField {
    pub(super) field: FieldIdx,
    pub(super) kind: OtherKind,
}

#[derive(Debug)]
pub(super) enum OtherKind {
    /// A mask, cropped and resized like the image. It is stored as these pixels, or encoded if this
    /// is `None`.
    Mask(Option<Pixels>),
    /// Delivered as it is stored; a number has this many bytes.
    Plain(usize),
}

impl Fields {
    /// The fields that are read for a batch.
    pub(super) fn loaded(&self) -> impl Iterator<Item = FieldIdx> + '_ {
        let image = self.image.iter().map(|image| image.field);
        image.chain(self.others.iter().map(|other| other.field))
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
        let image = image.map(|(at, field)| image_field(at, field, options)).transpose()?;
        let mut columns: Vec<Column> = image
            .iter()
            .map(|image| Column {
                name: "image".into(),
                field: image.field,
                fixed: Some((image.writer.dtype(), image_shape(image, options))),
            })
            .collect();
        let mut others = Vec::new();
        for name in &options.fields {
            let refuse = |reason: String| Error::Option { option: "fields", reason };
            let at = fields.iter().position(|field| field.name.as_str() == name);
            let Some((at, field)) = at.and_then(|at| Some((FieldIdx(at), fields.get(at)?))) else {
                let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
                let names = names.join("`, `");
                return Err(refuse(format!(
                    "the bundle has no field `{name}`; its fields are `{names}`"
                )));
            };
            if field.is_image() || field.is_label() || columns.iter().any(|c| c.field == at) {
                return Err(refuse(format!("every batch contains `{name}` already")));
            }
            let (kind, fixed) = if name == "mask" {
                if image.is_none() {
                    return Err(refuse(
                        "masks belong to images, and the bundle has no images".into(),
                    ));
                }
                mask_field(field, options).map_err(refuse)?
            } else {
                let number = |n: &u64| usize::try_from(*n).unwrap_or(usize::MAX);
                let fixed = field.as_fixed();
                let fixed = fixed.map(|(dtype, shape)| (dtype, shape.iter().map(number).collect()));
                let element = field.as_fixed().map_or(1, |(dtype, _)| dtype.size_bytes());
                (OtherKind::Plain(number(&element)), fixed)
            };
            others.push(OtherField { field: at, kind });
            columns.push(Column { name: name.clone(), field: at, fixed });
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

fn image_field(field: FieldIdx, of: &Field, options: &LoaderOptions) -> Result<ImageField, Error> {
    let (pixels, stored) = match of.as_fixed() {
        None => {
            let wide = options.depth == Depth::U16;
            (None, if wide { Dtype::U16 } else { Dtype::U8 })
        }
        Some((dtype, shape)) => {
            let pixels = Pixels::of(dtype, shape);
            let made = pixels.and_then(|pixels| pixels.made_as(options.depth));
            let Some((pixels, made)) = pixels.zip(made) else {
                let found = format!("a field `image` of {dtype:?} {shape:?}");
                return Err(LoaderError::NoImages { found }.into());
            };
            // Floats are used only as an intermediate step.
            (Some(pixels), if made == Dtype::F32 { dtype } else { made })
        }
    };
    let channels = pixels.map_or(RGB, |pixels| pixels.channels);
    let bands = match &options.bands {
        Some(bands) => bands.clone(),
        // Networks take grey pictures with three channels, like colour.
        None if channels == 1 => vec![0; RGB],
        None => (0..channels).collect(),
    };
    if bands.is_empty() || bands.iter().any(|band| *band >= channels) {
        let reason = format!("{bands:?} of {channels} channels, which count from 0");
        return Err(Error::Option { option: "bands", reason });
    }
    let LoaderOptions { numbers, layout, .. } = options;
    let normalise = options.normalise.of_channels(bands.len());
    if *numbers != super::Numbers::Stored
        && let Some(reason) = normalise.fault(bands.len())
    {
        return Err(Error::Option { option: "normalise", reason });
    }
    let writer = Writer::new(*numbers, *layout, bands, stored, &normalise);
    Ok(ImageField { field, pixels, writer })
}

/// The shape of an image, in the order of its memory layout.
fn image_shape(image: &ImageField, options: &LoaderOptions) -> Vec<usize> {
    let (width, height) = options.transform.size();
    let (width, height) = (width as usize, height as usize);
    let channels = image.writer.bands.len();
    match image.writer.layout {
        AxisOrder::Contiguous => vec![channels, height, width],
        AxisOrder::ChannelsLast => vec![height, width, channels],
    }
}

/// The way in which a mask is loaded, and the type and shape of the result.
type MaskField = (OtherKind, Option<(Dtype, Vec<usize>)>);

fn mask_field(field: &Field, options: &LoaderOptions) -> Result<MaskField, String> {
    let (width, height) = options.transform.size();
    let mut result = vec![height as usize, width as usize];
    let Some((dtype, shape)) = field.as_fixed() else {
        let wide = options.depth == Depth::U16;
        let dtype = if wide { Dtype::U16 } else { Dtype::U8 };
        return Ok((OtherKind::Mask(None), Some((dtype, result))));
    };
    let pixels = Pixels::of(dtype, shape);
    let pixels = pixels.ok_or_else(|| format!("`mask` of {dtype:?} {shape:?} is not a picture"))?;
    if shape.len() == 3 {
        result.push(pixels.channels);
    }
    Ok((OtherKind::Mask(Some(pixels)), Some((dtype, result))))
}
