//! The JPEG backend written in Rust: zune-jpeg.
//!
//! If zune-jpeg refuses a file, it gets the file again with simpler headers. Damage within scans
//! gives other pixels than with libjpeg, so it is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};
use zune_jpeg::{JpegDecoder, errors::DecodeErrors};

use super::{Frame, backend::MAX_SCANS};
use crate::{
    Error, Format, Rect,
    picture::{CHANNELS, byte_len, grow},
};

/// Decodes the whole picture into `out`.
pub(super) fn decode(
    bytes: &[u8],
    frame: &Frame,
    strict: bool,
    out: &mut Vec<u8>,
) -> Result<(Rect, Option<Error>), Error> {
    check_sampling(frame)?;
    // zune-jpeg only notices a missing end if a whole row of MCUs is missing.
    if !frame.is_complete(bytes) {
        let detail =
            format!("the file ends at byte {} without an end-of-image marker", bytes.len());
        return Err(Error::truncated(Format::Jpeg, detail));
    }
    let pixels = grow(out, byte_len(frame.width, frame.height, CHANNELS)?)?;
    let flaw = match decode_guarded(bytes, frame, pixels) {
        Ok(()) => None,
        Err(error) if strict => return Err(error),
        Err(error) => {
            let plain = frame.with_plain_headers(bytes)?;
            // If that fails as well, the first error is returned, which is about the file as it is.
            decode_guarded(&plain, frame, pixels).map_err(|_| error.clone())?;
            Some(error)
        }
    };
    if strict {
        check_scans_are_full(bytes, frame, pixels)?;
    }
    Ok((Rect::whole(frame.width, frame.height), flaw))
}

/// Finds scans that end before the picture does. zune-jpeg fills them up with zero bits; the
/// picture then depends on the bytes after the last scan, so other bytes there give other pixels.
fn check_scans_are_full(bytes: &[u8], frame: &Frame, pixels: &[u8]) -> Result<(), Error> {
    let end = bytes.windows(2).rposition(|pair| pair == [0xff, 0xd9]).unwrap_or(bytes.len());
    let other = [&bytes[..end], &[0xaa; 64], &bytes[end..]].concat();
    let mut again = Vec::new();
    let again = grow(&mut again, pixels.len())?;
    match decode_guarded(&other, frame, again) {
        Ok(()) if again == pixels => Ok(()),
        _ => Err(Error::corrupt(Format::Jpeg, "its scans end before the picture does")),
    }
}

fn decode_guarded(bytes: &[u8], frame: &Frame, pixels: &mut [u8]) -> Result<(), Error> {
    // The authors of zune-jpeg removed panics on damaged files one report at a time. A panic that
    // is left must cost one file, not the program.
    catch_unwind(AssertUnwindSafe(|| decode_pixels(bytes, frame, pixels)))
        .unwrap_or_else(|_| Err(Error::corrupt(Format::Jpeg, "the decoder gave up")))
}

/// Refuses files that zune-jpeg 0.5.15 would decode to wrong pixels without an error: sequential
/// planes in separate scans with subsampling (its issues 419 and 422), and samplings for which
/// there were no test files.
fn check_sampling(frame: &Frame) -> Result<(), Error> {
    let tested = match frame.plain_sampling {
        Some((1, 1)) => true,
        Some((2, 1) | (1, 2) | (2, 2) | (4, 1)) => frame.progressive || frame.interleaved,
        Some((4, 2) | (1, 4) | (2, 4)) => frame.progressive,
        _ => false,
    };
    if tested {
        return Ok(());
    }
    let detail = "its chroma sampling, which zune-jpeg misreads and libjpeg-turbo \
        (a build with the feature `turbo`) does not";
    Err(Error::unsupported(Format::Jpeg, detail))
}

fn decode_pixels(bytes: &[u8], frame: &Frame, pixels: &mut [u8]) -> Result<(), Error> {
    // Strict mode is needed: otherwise missing or damaged parts become grey pixels without an
    // error.
    let options = DecoderOptions::default()
        .set_max_width(u16::MAX.into())
        .set_max_height(u16::MAX.into())
        .set_strict_mode(true)
        .jpeg_set_max_scans(MAX_SCANS.into())
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(error)?;
    if decoder.dimensions() != Some((frame.width as usize, frame.height as usize)) {
        return Err(Error::corrupt(Format::Jpeg, "its headers are ambiguous"));
    }
    decoder.decode_into(pixels).map_err(error)
}

fn error(error: DecodeErrors) -> Error {
    match error {
        DecodeErrors::Unsupported(kind) => Error::unsupported(Format::Jpeg, format!("{kind:?}")),
        DecodeErrors::ExhaustedData => Error::truncated(Format::Jpeg, "the data end within a scan"),
        other => Error::corrupt(Format::Jpeg, other.to_string().trim_matches('"')),
    }
}
