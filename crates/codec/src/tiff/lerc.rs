//! Chunks of LERC: one blob for all bands, or one for each where their masks differ.
//!
//! ```text
//! (deflate or Zstandard) ─▶ blob ─▶ [rows, columns, bands]; float pixels without a value become NaN
//! ```
//!
//! Source: `tif_lerc.c` of libtiff 4.7, which also defines tag 50674: the version, and how blobs are
//! compressed further.

use std::borrow::Cow;
use std::io::Read as _;

use lerc_core::PixelData;
use lerc_reader::{InspectOptions, decode, inspect_first_with_options};

use super::directory::corrupt;
use super::{Number, outside};
use crate::Error;

/// How chunks of LERC are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lerc {
    further: Further,
    number: Number,
    samples: u16,
}

/// How a blob is compressed once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Further {
    No,
    Deflate,
    Zstd,
}

impl Lerc {
    /// Takes the numbers of tag 50674.
    pub(super) fn new(parameters: &[u64], number: Number, samples: u16) -> Result<Self, Error> {
        let further = match parameters.get(1) {
            None | Some(0) => Further::No,
            Some(1) => Further::Deflate,
            Some(2) => Further::Zstd,
            Some(other) => {
                return Err(outside::other(format!("LERC with further compression {other}")));
            }
        };
        Ok(Self { further, number, samples })
    }

    /// Fills `out` with the numbers of a chunk of `size` = (columns, rows), little-endian.
    pub(super) fn unpack(
        &self,
        packed: &[u8],
        size: (u32, u32),
        out: &mut [u8],
    ) -> Result<(), Error> {
        let blobs = self.blobs(packed, out.len())?;
        let mut rest = &*blobs;
        let samples = usize::from(self.samples);
        let mut done = 0;
        while done < samples {
            let options = InspectOptions::new().with_compute_value_range(false);
            let info = inspect_first_with_options(rest, options).map_err(|e| damaged(&e))?;
            let depth = info.depth as usize;
            // The whole chunk is one blob, or each band is.
            if (info.width, info.height) != size || !(depth == samples || depth == 1) {
                return Err(corrupt(format!(
                    "a chunk of LERC is {} x {} x {depth}, expected {} x {} x {samples}",
                    info.width, info.height, size.0, size.1
                )));
            }
            let (blob, after) = rest
                .split_at_checked(info.blob_size)
                .ok_or_else(|| corrupt("a chunk of LERC is cut short"))?;
            self.one(blob, done, depth, out)?;
            rest = after;
            done += depth;
        }
        Ok(())
    }

    /// Decodes a blob into the bands from `first` on.
    fn one(&self, blob: &[u8], first: usize, depth: usize, out: &mut [u8]) -> Result<(), Error> {
        let decoded = decode(blob).map_err(|e| damaged(&e))?;
        let masked = decoded.mask.filter(|mask| mask.contains(&0));
        let nan = match self.number {
            Number::F32 => f32::NAN.to_le_bytes().to_vec(),
            Number::F64 => f64::NAN.to_le_bytes().to_vec(),
            _ if masked.is_some() => return Err(outside::other("LERC of integers with a mask")),
            _ => Vec::new(),
        };
        let values = bytes_of(decoded.pixels, self.number)?;
        let number = self.number.bytes();
        let of_blob = values.chunks_exact(depth * number);
        let pixels = out.chunks_exact_mut(usize::from(self.samples) * number);
        if of_blob.len() != pixels.len() {
            return Err(corrupt("a chunk of LERC has not the pixels that it says"));
        }
        for (at, (pixel, values)) in pixels.zip(of_blob).enumerate() {
            let place = pixel.get_mut(first * number..).and_then(|p| p.get_mut(..values.len()));
            let place = place.ok_or_else(|| corrupt("a chunk of LERC has too many bands"))?;
            match masked.as_ref().and_then(|mask| mask.get(at)) {
                Some(0) => place.chunks_exact_mut(number).for_each(|p| p.copy_from_slice(&nan)),
                _ => place.copy_from_slice(values),
            }
        }
        Ok(())
    }

    /// The blobs of a chunk that has `len` bytes of numbers.
    fn blobs<'a>(&self, packed: &'a [u8], len: usize) -> Result<Cow<'a, [u8]>, Error> {
        // Numbers that cannot be compressed are stored as they are, behind a header for each band.
        let most = len as u64 * 2 + (1 << 16);
        let mut blobs = Vec::new();
        let read = match self.further {
            Further::No => return Ok(Cow::Borrowed(packed)),
            Further::Deflate => {
                flate2::bufread::ZlibDecoder::new(packed).take(most).read_to_end(&mut blobs)
            }
            Further::Zstd => zstd::Decoder::with_buffer(packed)
                .and_then(|decoder| decoder.take(most).read_to_end(&mut blobs)),
        };
        read.map_err(|e| corrupt(format!("a chunk cannot be decompressed: {e}")))?;
        Ok(Cow::Owned(blobs))
    }
}

/// The numbers of a blob, little-endian, if they are of this type.
fn bytes_of(pixels: PixelData, number: Number) -> Result<Vec<u8>, Error> {
    fn bytes<T: Copy, const N: usize>(numbers: &[T], of: fn(T) -> [u8; N]) -> Vec<u8> {
        numbers.iter().flat_map(|one| of(*one)).collect()
    }
    Ok(match (pixels, number) {
        (PixelData::U8(numbers), Number::U8) => numbers,
        (PixelData::I8(numbers), Number::I8) => bytes(&numbers, i8::to_le_bytes),
        (PixelData::U16(numbers), Number::U16) => bytes(&numbers, u16::to_le_bytes),
        (PixelData::I16(numbers), Number::I16) => bytes(&numbers, i16::to_le_bytes),
        (PixelData::U32(numbers), Number::U32) => bytes(&numbers, u32::to_le_bytes),
        (PixelData::I32(numbers), Number::I32) => bytes(&numbers, i32::to_le_bytes),
        (PixelData::F32(numbers), Number::F32) => bytes(&numbers, f32::to_le_bytes),
        (PixelData::F64(numbers), Number::F64) => bytes(&numbers, f64::to_le_bytes),
        _ => return Err(corrupt("a chunk of LERC has numbers of another type than the file")),
    })
}

fn damaged(error: &lerc_core::Error) -> Error {
    corrupt(format!("a chunk of LERC: {error}"))
}
