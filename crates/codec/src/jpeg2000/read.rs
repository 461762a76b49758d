//! A picture in JPEG 2000, and its numbers.

use std::io;

use hayro_jpeg2000::{ComponentData, DecodeSettings, DecoderContext, Image};

use super::boxes::{Parts, parts};
use super::gml;
use super::size::{MOST_BYTES, Size};
use super::tiles;
use crate::tiff::{Geo, Number, Pages, Positioned, Tiff};
use crate::{Error, Format, Limits};

/// The first bytes of a JP2 file, and those of a code stream.
const JP2: &[u8] = b"\0\0\0\x0cjP  \r\n\x87\n";
const STREAM: &[u8] = b"\xff\x4f\xff\x51";

/// Whether a file begins as JPEG 2000.
#[must_use]
pub fn is_jpeg_2000(start: &[u8]) -> bool {
    start.starts_with(JP2) || start.starts_with(STREAM)
}

/// A picture whose header was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Jpeg2000 {
    /// Columns of the picture.
    pub width: u32,
    /// Rows of the picture.
    pub height: u32,
    /// Numbers of a pixel.
    pub bands: u16,
    /// Type of the numbers: `U8`, `I8`, `U16` or `I16`.
    pub number: Number,
    /// Where the picture is on the Earth.
    pub geo: Geo,
    size: Size,
    /// Offset and length of the code stream.
    stream: (u64, u64),
}

impl Jpeg2000 {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Unsupported`] where bands differ, and for numbers of more than
    /// 16 bits; [`Error::TooLarge`].
    pub fn read<S: Positioned + ?Sized>(file: &S, limits: &Limits) -> Result<Self, Error> {
        let len = file.len_bytes().map_err(|e| io(&e))?;
        let mut start = [0; JP2.len()];
        if len < start.len() as u64 {
            return Err(corrupt("it is too short"));
        }
        file.read_at(0, &mut start).map_err(|e| io(&e))?;
        let found = match start {
            start if start.starts_with(STREAM) => {
                Parts { stream: Some((0, len)), ..Parts::default() }
            }
            start if start == *JP2 => parts(file)?,
            _ => return Err(corrupt("it does not begin as JPEG 2000")),
        };
        let stream = found.stream.ok_or_else(|| corrupt("it has no code stream"))?;
        let n = usize::try_from(stream.1.min(MOST_BYTES)).unwrap_or(0);
        let mut head = vec![0; n];
        file.read_at(stream.0, &mut head).map_err(|e| io(&e))?;
        let size = Size::parse(&head)?;
        let Size { width, height, bands, number, .. } = size;
        limits.check(width, height)?;
        // The decoder takes some 24 bytes for each number.
        let limit = limits.max_pixels;
        if u64::from(width) * u64::from(height) > limit / u64::from(bands) {
            return Err(Error::ManyNumbers { width, height, bands, limit });
        }
        let of_tiff = |tiff: &Vec<u8>| {
            let tiff = Tiff::read_pages(tiff.as_slice(), limits, Pages::First).ok()?;
            let Geo { transform, crs, gcps, .. } = tiff.geo;
            let is_placed = transform.is_some() || crs.is_some();
            is_placed.then(|| Geo { transform, crs, gcps, ..Geo::default() })
        };
        let geo = found.geo_tiff.as_ref().and_then(of_tiff);
        let geo = geo.or_else(|| found.gml.iter().find_map(|content| gml::geo(content)));
        let geo = geo.unwrap_or_default();
        Ok(Self { width, height, bands, number, geo, size, stream })
    }

    /// The numbers of `file`, which this was read from: `[height, width, bands]`, little-endian.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Memory`].
    pub fn decode(&self, file: &[u8]) -> Result<Vec<u8>, Error> {
        let (from, len) = self.stream;
        let range = usize::try_from(from).ok().zip(usize::try_from(len).ok());
        let stream = range.and_then(|(from, len)| file.get(from..)?.get(..len));
        let stream = stream.ok_or_else(|| corrupt("it is cut short"))?;
        // The decoder fills what is missing.
        tiles::check(stream, self.size.tiles)?;
        // No colours are made of its numbers.
        let settings = DecodeSettings {
            resolve_palette_indices: false,
            strict: true,
            target_resolution: None,
        };
        let of_decoder = |e: hayro_jpeg2000::DecodeError| corrupt(e.to_string());
        let image = Image::new(stream, &settings).map_err(of_decoder)?;
        let mut context = DecoderContext::default();
        let decoded = image.decode(&mut context).map_err(of_decoder)?;
        let planes: Vec<&[f32]> = decoded.components().iter().map(ComponentData::samples).collect();
        let pixels = usize::try_from(u64::from(self.width) * u64::from(self.height));
        let pixels = pixels.map_err(|_| corrupt("it has too many pixels"))?;
        let is_whole = planes.len() == usize::from(self.bands)
            && planes.iter().all(|plane| plane.len() == pixels);
        if !is_whole {
            return Err(corrupt("its bands do not have the size of the picture"));
        }
        let number = self.number.bytes();
        let bytes = pixels.saturating_mul(planes.len()).saturating_mul(number);
        let mut values = Vec::new();
        values.try_reserve_exact(bytes).map_err(|_| Error::Memory { bytes })?;
        // The decoder moves all numbers up by half their range, those with a sign, too.
        let half = f32::from(1_u16 << (self.size.bits - 1));
        let (least, most, moved) = match self.number {
            Number::I8 | Number::I16 => (-half, half - 1.0, half),
            _ => (0.0, half * 2.0 - 1.0, 0.0),
        };
        for pixel in 0..pixels {
            for plane in &planes {
                let value = plane.get(pixel).copied().unwrap_or_default() - moved;
                let value = value.round().clamp(least, most) as i32;
                let [low, high, ..] = value.to_le_bytes();
                values.push(low);
                if number == 2 {
                    values.push(high);
                }
            }
        }
        Ok(values)
    }
}

pub(super) fn corrupt(detail: impl Into<String>) -> Error {
    Error::corrupt(Format::Jpeg2000, detail)
}

pub(super) fn io(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => corrupt("it is cut short"),
        _ => corrupt(format!("it cannot be read: {error}")),
    }
}
