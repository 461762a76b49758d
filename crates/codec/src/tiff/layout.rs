//! The contents of a TIFF file, and their offsets.

use super::directory::{ByteOrder, Directory, corrupt};
use super::geo::Geo;
use super::{Positioned, outside, unpack, valid};
use crate::{Error, Limits, Rect};

/// The type of a band's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant is the type it names")]
pub enum Number {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    I64,
    F16,
    F32,
    F64,
}

impl Number {
    /// Returns the bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64)
    }
}

/// No instrument has more bands than this.
pub(super) const MOST_BANDS: u64 = 4096;

/// A TIFF whose directory was read and accepted, or those of pages that are its bands.
#[derive(Debug, Clone)]
pub struct Tiff {
    /// Columns of the picture.
    pub width: u32,
    /// Rows of the picture.
    pub height: u32,
    /// Samples of a pixel.
    pub bands: u16,
    /// Type of the samples; `U8` for samples of 1, 2 and 4 bits.
    pub number: Number,
    /// Where the picture is on the Earth, and what its bands are.
    pub geo: Geo,
    /// The band of alpha, which is 0 where a pixel has no value.
    pub(super) alpha: Option<u16>,
    /// The file's mask, which is 0 where a pixel has no value.
    pub(super) mask: Option<Box<Tiff>>,
    pub(super) order: ByteOrder,
    /// Bits of a stored sample.
    pub(super) bits: u8,
    pub(super) compression: unpack::Compression,
    pub(super) predictor: u64,
    /// The number of groups of bands with separate chunks: pages, or bands that are stored apart.
    pub(super) planes: u16,
    pub(super) tiled: bool,
    /// Columns and rows of a chunk, which is a tile or a strip.
    pub(super) chunk: (u32, u32),
    pub(super) offsets: Vec<u64>,
    pub(super) lengths: Vec<u64>,
}

impl Tiff {
    /// Reads a directory as a picture of its own.
    pub(super) fn of<S: Positioned + ?Sized>(
        of: &Directory<'_, S>,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let required = |tag: u16, name: &str| {
            let value = of.integer(tag)?.filter(|n| *n > 0);
            value.ok_or_else(|| corrupt(format!("it has no {name}")))
        };
        let side = |tag, name| {
            let side = required(tag, name)?;
            u32::try_from(side).map_err(|_| corrupt(format!("its {name} is {side}")))
        };
        let (width, height) = (side(256, "width")?, side(257, "height")?);
        let bands = of.integer(277)?.unwrap_or(1);
        let bands = u16::try_from(bands).ok().filter(|n| *n > 0 && u64::from(*n) <= MOST_BANDS);
        let bands = bands.ok_or_else(|| corrupt("its number of bands is not 1 to 4096"))?;
        let bits = same(of.integers(258)?, 1, "bits per sample")?;
        let format = same(of.integers(339)?, 1, "sample format")?;
        let number = number(bits, format)?;
        let planes = match of.integer(284)?.unwrap_or(1) {
            1 => 1,
            2 => bands,
            other => return Err(corrupt(format!("its planar configuration is {other}"))),
        };
        let photometric = of.integer(262)?.unwrap_or(1);
        let tables = of.bytes(347)?.unwrap_or_default();
        let samples = bands / planes;
        let kind = of.integer(259)?.unwrap_or(1);
        let parameters = of.integers(50_674)?.unwrap_or_default();
        let compression = unpack::Compression::new(
            (kind, &parameters),
            photometric,
            samples,
            (bits, number),
            &tables,
        )?;
        // Its numbers have an order of their own.
        if matches!(compression, unpack::Compression::Lerc(_)) && of.order == ByteOrder::Big {
            return Err(outside::other("LERC in a big-endian file"));
        }
        // With other compressions, libtiff ignores the predictor.
        let predictor = match compression.has_predictor() {
            true => of.integer(317)?.unwrap_or(1),
            false => 1,
        };
        if !(1..=3).contains(&predictor)
            || (predictor == 3 && !number.is_float())
            || (predictor == 2 && bits < 8)
        {
            let detail = format!("predictor {predictor} with samples of {bits} bits");
            return Err(outside::other(detail));
        }
        if of.integer(266)?.unwrap_or(1) != 1 {
            return Err(outside::other("bits in reverse order (FillOrder 2)"));
        }
        let tiled = of.integer(322)?.is_some() || of.integer(323)?.is_some();
        let chunk = if tiled {
            (side(322, "width of tiles")?, side(323, "height of tiles")?)
        } else {
            let rows = of.integer(278)?.unwrap_or(u64::MAX);
            let rows = u32::try_from(rows).unwrap_or(u32::MAX).min(height);
            if rows == 0 {
                return Err(corrupt("its strips have no rows"));
            }
            (width, rows)
        };
        limits.check(chunk.0, chunk.1)?;
        let places = |tag: u16, name: &str| {
            let found = of.integers(tag)?;
            found.ok_or_else(|| corrupt(format!("it does not say where its {name} are")))
        };
        let chunks = if tiled { "tiles" } else { "strips" };
        let offsets = places(if tiled { 324 } else { 273 }, chunks)?;
        let lengths = places(if tiled { 325 } else { 279 }, chunks)?;
        let geo = Geo::read(of, bands)?;
        let alpha = valid::alpha(of, bands);
        let order = of.order;
        let bits = u8::try_from(bits).unwrap_or(u8::MAX);
        let tiff = Self {
            width,
            height,
            bands,
            number,
            geo,
            alpha,
            mask: None,
            order,
            bits,
            compression,
            predictor,
            planes,
            tiled,
            chunk,
            offsets,
            lengths,
        };
        let expected = tiff.chunks_of_a_plane().saturating_mul(planes.into());
        let found = (tiff.offsets.len() as u64, tiff.lengths.len() as u64);
        if found != (expected, expected) {
            let detail = format!(
                "it has {} offsets and {} lengths for {expected} {chunks}",
                found.0, found.1
            );
            return Err(corrupt(detail));
        }
        // A decoded chunk is in memory, whatever the limit of pixels is.
        let bytes = tiff.chunk_bytes();
        if bytes.is_none_or(|n| n > 1 << 31) {
            let detail = format!("its {chunks} take more than 2 GiB each");
            return Err(outside::other(detail));
        }
        Ok(tiff)
    }

    /// Returns whether the chunks are JPEG, whose samples depend on the decoder.
    pub fn is_jpeg(&self) -> bool {
        matches!(self.compression, unpack::Compression::Jpeg { .. })
    }

    /// Returns the window that covers the whole picture.
    pub fn whole(&self) -> Rect {
        Rect::whole(self.width, self.height)
    }

    /// Bytes of `window`, `[height, width, bands]`.
    ///
    /// # Errors
    /// [`Error::Memory`] when there are too many.
    pub fn window_bytes(&self, window: Rect) -> Result<usize, Error> {
        let pixel = usize::from(self.bands) * self.number.bytes();
        crate::picture::byte_len(window.width, window.height, pixel)
    }

    /// Returns how many samples a pixel has in a chunk.
    pub(super) fn samples(&self) -> usize {
        usize::from(self.bands / self.planes.max(1))
    }

    /// Bytes of a decoded chunk.
    pub(super) fn chunk_bytes(&self) -> Option<u64> {
        let samples = (self.samples() * self.number.bytes()) as u64;
        u64::from(self.chunk.0).checked_mul(self.chunk.1.into())?.checked_mul(samples)
    }

    /// Returns the number of chunks side by side.
    pub(super) fn across(&self) -> u32 {
        self.width.div_ceil(self.chunk.0)
    }

    pub(super) fn chunks_of_a_plane(&self) -> u64 {
        u64::from(self.across()) * u64::from(self.height.div_ceil(self.chunk.1))
    }
}

/// Returns the one value that a tag has for all bands.
fn same(values: Option<Vec<u64>>, default: u64, name: &str) -> Result<u64, Error> {
    let values = values.unwrap_or_default();
    let first = values.first().copied().unwrap_or(default);
    // Only one other value is named, since a damaged file may have millions.
    if let Some(other) = values.iter().find(|value| **value != first) {
        let detail = format!("bands of different {name}, such as {first} and {other}");
        return Err(outside::other(detail));
    }
    Ok(first)
}

fn number(bits: u64, format: u64) -> Result<Number, Error> {
    Ok(match (format, bits) {
        // Format 4 is `void`, which does not say the type.
        (1 | 4, 1 | 2 | 4 | 8) => Number::U8,
        (1 | 4, 16) => Number::U16,
        (1 | 4, 32) => Number::U32,
        (2, 8) => Number::I8,
        (2, 16) => Number::I16,
        (2, 32) => Number::I32,
        (2, 64) => Number::I64,
        (3, 16) => Number::F16,
        (3, 32) => Number::F32,
        (3, 64) => Number::F64,
        _ => return Err(outside::number(bits, format)),
    })
}
