//! The way in which each image is stored. The plan records it, so that no input has to be examined
//! again.

use std::collections::BTreeMap;

use gular_bundle::{Axes, Band, Decimal, Dtype, Field, FieldName, MadeValue, Nodata, Payload};
use gular_codec::tiff::Pages;
use gular_codec::{Fit, JpegEncoder, Limits, jpeg_backend};
use serde::Serialize;

use super::depth::Common;
use super::{Depths, Frame, OfFile, PayloadOptions, RawOptions, StoredDepth};
use crate::facts::{BAND, DATE, MOST_BYTES, setting};
use crate::plan::{Align, BandNames, PlanError, PlanOptions, TileOptions};
use crate::source::{Inputs, Source, array_start, picture_start};

/// Fields of what is on the Earth. Format: `FORMAT.md`, "Fields".
const CRS: &str = "image_crs";
const TRANSFORM: &str = "image_transform";
/// The nodata of each array, if they differ.
const NODATA: &str = "image_nodata";
/// The dates of a series, one per line.
const DATES: &str = "image_dates";

/// Options, and which libraries make the pixels. Serialised it is the plan's
/// member `payload`; the order of members is part of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub(crate) enum PayloadRecipe {
    Encoded,
    /// Files of any kind are stored in field `data`.
    Bytes,
    /// Arrays of one type and shape are stored.
    Arrays {
        dtype: Dtype,
        shape: Vec<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        axes: Option<Axes>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        bands: Vec<String>,
        /// The wavelengths of the bands in nanometres, empty for those that have none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        wavelengths: Vec<String>,
        #[serde(skip_serializing_if = "BandNames::are_compared")]
        band_names: BandNames,
        #[serde(skip_serializing_if = "Option::is_none")]
        nodata: Option<String>,
        /// Whether the nodata value of each array becomes a field, since they differ.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        nodatas: bool,
        /// Whether the CRS and the transform of each array become fields.
        geo: bool,
        /// What else the files say of their arrays; the plan lists these fields.
        #[serde(skip)]
        of_files: Vec<OfFile>,
        /// The parts of paths that are axes, `band` and `date`: arrays that have several files.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        joined: Vec<&'static str>,
        /// The size that arrays of other sizes are brought to.
        #[serde(skip_serializing_if = "Option::is_none")]
        frame: Option<Frame>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tile: Option<Box<Tile>>,
        /// `resample`, if masks are brought to the grid of their images.
        #[serde(skip_serializing_if = "Option::is_none")]
        align: Option<&'static str>,
        /// The decoder of TIFF files whose chunks are JPEG.
        #[serde(skip_serializing_if = "Option::is_none")]
        decoder: Option<&'static str>,
    },
    Reencoded {
        #[serde(skip_serializing_if = "Option::is_none")]
        max_side: Option<u32>,
        quality: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        decoder: Option<&'static str>,
        encoder: &'static str,
    },
    Raw {
        width: u32,
        height: u32,
        fit: Fit,
        channels: u8,
        depth: StoredDepth,
        #[serde(skip_serializing_if = "Option::is_none")]
        decoder: Option<&'static str>,
    },
}

/// The way in which scenes are cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Tile {
    /// The size, which the shape also contains.
    #[serde(skip)]
    size: u32,
    overlap: u32,
    min_valid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<u32>,
}

impl PayloadRecipe {
    /// Returns the recipe for inputs with these depths and media types.
    pub(crate) fn new(
        options: &PlanOptions,
        depths: Depths,
        media_types: &[String],
    ) -> Result<Self, PlanError> {
        match options.inputs {
            Inputs::Images => {}
            Inputs::Bytes => return Ok(Self::Bytes),
            Inputs::Arrays | Inputs::Pixels { .. } => {
                let given = options.axes.get(&FieldName::image()).and_then(Option::as_ref);
                let (common, frame) = depths.arrays(given, options.on_error, options.frame)?;
                let Common { dtype, shape, axes, is_geo: geo, .. } = common;
                let Common { is_jpeg, mut bands, mut wavelengths, .. } = common;
                let Common { nodata, nodatas, of_files, .. } = common;
                let band_names = options.band_names;
                if band_names == BandNames::Ignore {
                    (bands, wavelengths) = (Vec::new(), Vec::new());
                }
                let bytes =
                    shape.iter().try_fold(dtype.size_bytes(), |n, side| n.checked_mul(*side));
                if bytes.is_none_or(|n| n > MOST_BYTES) {
                    return Err(setting(
                        &["tile"],
                        format!(
                            "an array of {dtype} {shape:?} is larger than {MOST_BYTES} bytes, the most that a value may have; cut scenes into smaller tiles"
                        ),
                    ));
                }
                let tile = options.tile.map(|tile| {
                    let TileOptions { size, overlap, min_valid, block } = tile;
                    Box::new(Tile { size, overlap, min_valid: min_valid.to_string(), block })
                });
                let decoder = is_jpeg.then(jpeg_backend);
                let has_mask = options.fields.iter().any(|field| options.is_mask(&field.name));
                let joined = options.joined();
                let resamples =
                    options.align == Align::Resample && (has_mask || !joined.is_empty());
                let align = resamples.then_some("resample");
                return Ok(Self::Arrays {
                    dtype,
                    shape,
                    axes,
                    bands,
                    wavelengths,
                    band_names,
                    nodata,
                    nodatas,
                    geo,
                    of_files,
                    joined,
                    frame,
                    tile,
                    align,
                    decoder,
                });
            }
        }
        // Every decoder makes the same pixels of a PNG.
        let jpeg = media_types.iter().any(|m| m == "image/jpeg");
        let decoder = jpeg.then(jpeg_backend);
        Ok(match options.payload {
            PayloadOptions::Encoded => Self::Encoded,
            PayloadOptions::Reencoded(o) => Self::Reencoded {
                max_side: o.max_side,
                quality: o.quality,
                decoder,
                encoder: JpegEncoder::default().name(),
            },
            PayloadOptions::Raw(RawOptions { width, height, fit, channels, depth }) => {
                let depth = depth.map_or_else(|| depths.depth(), Ok)?;
                Self::Raw { width, height, fit, channels, depth, decoder }
            }
        })
    }

    /// Notes that a JPEG decoder makes the numbers of a field beside the arrays.
    pub(crate) fn with_jpeg(&mut self) {
        if let Self::Arrays { decoder, .. } = self {
            *decoder = Some(jpeg_backend());
        }
    }

    /// Returns the payload that the manifest names.
    pub(crate) fn payload(&self) -> Payload {
        match self {
            Self::Encoded | Self::Bytes => Payload::Encoded,
            Self::Reencoded { .. } => Payload::Reencoded,
            Self::Raw { .. } | Self::Arrays { .. } => Payload::Raw,
        }
    }

    /// Returns the field of the input, for files of `media_types`.
    pub(crate) fn field(&self, media_types: &[String]) -> Field {
        let name = FieldName::image();
        match *self {
            Self::Encoded => Field::bytes(name, media_types.to_vec()),
            Self::Bytes => {
                let name = FieldName::parse("data").unwrap_or(name);
                Field::bytes(name, media_types.to_vec())
            }
            Self::Arrays {
                dtype,
                ref shape,
                ref axes,
                ref bands,
                ref wavelengths,
                ref nodata,
                ..
            } => {
                let band = |(i, name): (usize, &String)| {
                    let wavelength_nm = wavelengths.get(i).and_then(|n| Decimal::parse(n));
                    Band { name: name.clone(), wavelength_nm }
                };
                Field {
                    axes: axes.clone(),
                    bands: bands.iter().enumerate().map(band).collect(),
                    nodata: nodata.as_deref().and_then(Nodata::parse),
                    ..Field::fixed(name, dtype, shape.clone())
                }
            }
            Self::Reencoded { .. } => Field::bytes(name, vec!["image/jpeg".to_owned()]),
            Self::Raw { width, height, channels, depth, .. } => {
                let dtype = match depth {
                    StoredDepth::U8 => Dtype::U8,
                    StoredDepth::U16 => Dtype::U16,
                };
                Field::fixed(name, dtype, vec![height.into(), width.into(), channels.into()])
            }
        }
    }

    /// Returns the fields that every array brings along.
    pub(crate) fn of_arrays(&self) -> Vec<Field> {
        let Self::Arrays { geo, nodatas, ref of_files, ref joined, .. } = *self else {
            return Vec::new();
        };
        let named = |name, is_there: bool| FieldName::parse(name).filter(|_| is_there);
        let crs = named(CRS, geo).map(|name| Field::bytes(name, vec!["text/plain".to_owned()]));
        let transform = named(TRANSFORM, geo).map(|name| Field::fixed(name, Dtype::F64, vec![6]));
        let nodata = named(NODATA, nodatas).map(|name| Field::fixed(name, Dtype::F64, Vec::new()));
        let dates = named(DATES, joined.contains(&DATE));
        let dates = dates.map(|name| Field::bytes(name, vec!["text/plain".to_owned()]));
        let further = of_files.iter().filter_map(|of| of.field(self.n_bands()));
        crs.into_iter().chain(transform).chain(nodata).chain(further).chain(dates).collect()
    }

    /// Returns the number of bands of an array.
    pub(crate) fn n_bands(&self) -> u64 {
        let Self::Arrays { shape, axes, .. } = self else { return 1 };
        let at = axes.as_ref().and_then(|axes| axes.place('c'));
        at.and_then(|at| shape.get(at)).copied().unwrap_or(1)
    }

    /// Returns the names of bands that are files of their own; empty if files have all bands.
    pub(crate) fn bands_of_files(&self) -> &[String] {
        match self {
            Self::Arrays { joined, bands, .. } if joined.contains(&BAND) => bands,
            _ => &[],
        }
    }

    /// Returns the number of dates of a series; 0 if arrays have none.
    pub(crate) fn n_dates(&self) -> usize {
        match self {
            Self::Arrays { joined, shape, .. } if joined.contains(&DATE) => {
                shape.first().and_then(|n| usize::try_from(*n).ok()).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Returns the size that arrays are brought to, if they are.
    pub(crate) fn frame(&self) -> Option<Frame> {
        match self {
            Self::Arrays { frame, .. } => *frame,
            _ => None,
        }
    }

    /// Returns columns and rows of images that are arrays.
    pub(crate) fn size(&self) -> Option<(u32, u32)> {
        let Self::Arrays { shape, axes: Some(axes), .. } = self else { return None };
        let grid = axes.grid(shape)?;
        Some((u32::try_from(grid.width).ok()?, u32::try_from(grid.height).ok()?))
    }

    /// Returns columns and rows of the image `key` as it is stored, if files beside it can have the
    /// same pixels: if it is an array, or a picture that is not made smaller.
    pub(crate) fn size_of(
        &self,
        images: &Source,
        key: &str,
        limits: &Limits,
        pages: Pages,
    ) -> Option<(u32, u32)> {
        match *self {
            Self::Arrays { frame: Some(_), ref shape, axes: Some(ref axes), .. } => {
                // Only arrays in files of their own have one.
                let start = array_start(images, key, 0, limits, pages).ok()?;
                let axes = start.axes.as_ref().unwrap_or(axes);
                let grid = axes.grid(&start.shape).filter(|_| start.shape.len() == shape.len())?;
                Some((u32::try_from(grid.width).ok()?, u32::try_from(grid.height).ok()?))
            }
            Self::Arrays { .. } => self.size(),
            Self::Encoded | Self::Reencoded { max_side: None, .. } => {
                Some(picture_start(images, key, limits)?.0.upright_size())
            }
            Self::Reencoded { .. } | Self::Raw { .. } | Self::Bytes => None,
        }
    }

    /// Bytes of every value, where they all have the same.
    pub(crate) fn value_bytes(&self) -> Option<u64> {
        match *self {
            Self::Encoded | Self::Bytes | Self::Reencoded { .. } => None,
            Self::Arrays { dtype, ref shape, .. } => {
                shape.iter().try_fold(dtype.size_bytes(), |acc, n| acc.checked_mul(*n))
            }
            Self::Raw { width, height, channels, depth, .. } => {
                let pixels = u64::from(width) * u64::from(height);
                Some(pixels * u64::from(channels) * depth.bytes())
            }
        }
    }

    /// Bytes of a picture `[height, width, 3]` of 8 bits, where values are made of such; or 0.
    pub(crate) fn picture_bytes(&self) -> usize {
        match *self {
            Self::Raw { width, height, depth: StoredDepth::U8, .. } => {
                width as usize * height as usize * 3
            }
            _ => 0,
        }
    }

    /// Adds the recipe to the manifest's `made`.
    pub(crate) fn note(&self, made: &mut BTreeMap<String, MadeValue>) {
        let mut text = |name: &str, value: &str| {
            made.insert(name.to_owned(), MadeValue::Text(value.to_owned()));
        };
        match *self {
            Self::Encoded | Self::Bytes => {}
            Self::Arrays { ref frame, ref tile, align, decoder, .. } => {
                if let Some(Frame { fit, size: (width, height) }) = frame {
                    text("size", &format!("{width}x{height}"));
                    text("fit", name_of(*fit));
                }
                if let Some(align) = align {
                    text("align", align);
                }
                if let Some(decoder) = decoder {
                    text("decoder", decoder);
                }
                if let Some(tile) = tile {
                    text("min_valid", &tile.min_valid);
                    made.insert("tile".to_owned(), MadeValue::Number(tile.size.into()));
                    made.insert("overlap".to_owned(), MadeValue::Number(tile.overlap.into()));
                    if let Some(block) = tile.block {
                        made.insert("block".to_owned(), MadeValue::Number(block.into()));
                    }
                }
            }
            Self::Reencoded { max_side, quality, decoder, encoder } => {
                text("encoder", encoder);
                if let Some(decoder) = decoder {
                    text("decoder", decoder);
                }
                made.insert("quality".to_owned(), MadeValue::Number(quality.into()));
                if let Some(side) = max_side {
                    made.insert("max_side".to_owned(), MadeValue::Number(side.into()));
                }
            }
            Self::Raw { width, height, fit, decoder, .. } => {
                text("size", &format!("{width}x{height}"));
                text("fit", name_of(fit));
                if let Some(decoder) = decoder {
                    text("decoder", decoder);
                }
            }
        }
    }
}

fn name_of(fit: Fit) -> &'static str {
    match fit {
        Fit::Crop => "crop",
        Fit::Pad => "pad",
        Fit::Stretch => "stretch",
    }
}
