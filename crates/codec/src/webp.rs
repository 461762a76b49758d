//! WebP through the `image-webp` crate, which decodes whole pictures.
//!
//! ```text
//! "RIFF" length "WEBP" | VP8 or VP8L | or VP8X, … pixels …, EXIF, XMP
//! ```
//! For an animation only the first frame is read. Pixels equal those of libwebp, with its smooth
//! upsampling of colours.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image_webp::{DecodingError, WebPDecoder};

use crate::{
    Error, Format, Header, Limits, Orientation, Rect, exif,
    picture::{CHANNELS, byte_len, grow},
    xmp,
};

/// The facts that a file gives before its pixels are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WebP {
    pub(crate) header: Header,
    /// A violation of the format that does not affect the pixels.
    pub(crate) flaw: Option<&'static str>,
}

/// Reads the chunks.
pub(crate) fn parse(bytes: &[u8]) -> Result<WebP, Error> {
    let declared = bytes.get(4..).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b));
    if declared.is_none_or(|n| u64::from(n) + 8 > bytes.len() as u64) {
        let detail = format!("the file ends at byte {}, before its end", bytes.len());
        return Err(Error::truncated(Format::WebP, detail));
    }
    guarded(|| {
        let mut decoder = open(bytes)?;
        // A chunk may declare 4 GiB, but a complete one has no more bytes than the file.
        decoder.set_memory_limit(bytes.len());
        let (width, height) = decoder.dimensions();
        let (orientation, flaw) = orientation(&mut decoder);
        let channels = if decoder.has_alpha() { 4 } else { 3 };
        let header = Header {
            format: Format::WebP,
            width,
            height,
            channels,
            bit_depth: 8,
            orientation,
            progressive: false,
        };
        Ok(WebP { header, flaw })
    })
}

fn orientation(decoder: &mut WebPDecoder<Cursor<&[u8]>>) -> (Orientation, Option<&'static str>) {
    let block = decoder.exif_metadata().ok().flatten();
    let of_exif = block.as_deref().map(exif::orientation);
    let flaw = matches!(of_exif, Some(Err(exif::Damaged))).then_some("its EXIF block is damaged");
    let of_exif = of_exif.and_then(Result::ok).flatten();
    let found = of_exif.or_else(|| xmp::orientation(&decoder.xmp_metadata().ok().flatten()?));
    (found.unwrap_or_default(), flaw)
}

/// Decodes exactly `region` of the stored picture into the start of `out`, as RGB.
pub(crate) fn decode(
    bytes: &[u8],
    file: &WebP,
    region: Rect,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let Header { width, height, .. } = file.header;
    let pixels = grow(out, byte_len(region.width, region.height, CHANNELS)?)?;
    guarded(|| {
        let mut decoder = open(bytes)?;
        let most = limits.max_pixels.saturating_mul(16).saturating_add(64 << 20);
        decoder.set_memory_limit(usize::try_from(most).unwrap_or(usize::MAX));
        let samples = if decoder.has_alpha() { 4 } else { CHANNELS };
        let len = byte_len(width, height, samples)?;
        if samples == CHANNELS && region == Rect::whole(width, height) {
            return decoder.read_image(pixels).map_err(|cause| error(&cause));
        }
        let mut whole = Vec::new();
        let whole = grow(&mut whole, len)?;
        decoder.read_image(whole).map_err(|cause| error(&cause))?;
        let rows = whole.chunks_exact(width as usize * samples).skip(region.y as usize);
        let lines = pixels.chunks_exact_mut(region.width as usize * CHANNELS);
        for (row, line) in rows.zip(lines) {
            let cells = line.as_chunks_mut::<CHANNELS>().0.iter_mut();
            let stored = row.chunks_exact(samples).skip(region.x as usize);
            cells.zip(stored).for_each(|(cell, pixel)| cell.copy_from_slice(&pixel[..CHANNELS]));
        }
        Ok(())
    })
}

/// Decodes a whole picture into `out`, with three or four samples for each pixel, if it has this
/// size; returns its size.
#[cfg(feature = "tiff")]
pub(crate) fn samples(
    bytes: &[u8],
    size: (u32, u32),
    samples: usize,
    limits: &Limits,
    out: &mut [u8],
) -> Result<(u32, u32), Error> {
    guarded(|| {
        let mut decoder = open(bytes)?;
        let most = limits.max_pixels.saturating_mul(16).saturating_add(64 << 20);
        decoder.set_memory_limit(usize::try_from(most).unwrap_or(usize::MAX));
        if decoder.dimensions() != size {
            return Ok(decoder.dimensions());
        }
        let stored = if decoder.has_alpha() { 4 } else { CHANNELS };
        let mut whole = Vec::new();
        let whole = grow(&mut whole, byte_len(size.0, size.1, stored)?)?;
        decoder.read_image(whole).map_err(|cause| error(&cause))?;
        for (pixel, from) in out.chunks_exact_mut(samples).zip(whole.chunks_exact(stored)) {
            // Without alpha, all is opaque.
            for (at, sample) in pixel.iter_mut().enumerate() {
                *sample = from.get(at).copied().unwrap_or(u8::MAX);
            }
        }
        Ok(size)
    })
}

fn open(bytes: &[u8]) -> Result<WebPDecoder<Cursor<&[u8]>>, Error> {
    WebPDecoder::new(Cursor::new(bytes)).map_err(|cause| error(&cause))
}

/// Catches panics of the library: one must cost one file, not the program.
fn guarded<T>(decode: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(Error::corrupt(Format::WebP, "the decoder gave up")))
}

fn error(cause: &DecodingError) -> Error {
    match cause {
        DecodingError::IoError(cause) if cause.kind() == std::io::ErrorKind::UnexpectedEof => {
            Error::truncated(Format::WebP, "the file ends within its pixels")
        }
        DecodingError::UnsupportedFeature(what) => Error::unsupported(Format::WebP, what.clone()),
        other => Error::corrupt(Format::WebP, other.to_string()),
    }
}
