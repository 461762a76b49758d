//! Reads the header of a picture of any format.

use crate::{Error, Format, Header, Limits, Start, jpeg, png, webp};

/// Reads a header: no pixel is decoded, nothing is allocated but an error's text.
///
/// # Errors
/// [`Error::Empty`], [`Error::UnknownFormat`], [`Error::TooLarge`], and
/// [`Error::Truncated`], [`Error::Corrupt`] or [`Error::Unsupported`] as far as a
/// header shows it.
pub fn read_header(bytes: &[u8], limits: &Limits) -> Result<Header, Error> {
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    let header = match Format::sniff(bytes) {
        Some(Format::Jpeg) => jpeg::Frame::parse(bytes)?.header(),
        Some(Format::Png) => png::parse(bytes)?.header,
        Some(Format::WebP) => webp::parse(bytes)?.header,
        Some(Format::Tiff | Format::Jpeg2000 | Format::Nifti) | None => {
            return Err(Error::UnknownFormat { start: Start::of(bytes) });
        }
    };
    limits.check(header.width, header.height)?;
    Ok(header)
}

/// Returns the bits of a stored sample, from a file's first 25 bytes; `None` if they do not say.
///
/// This is for callers that need no other fact about many files. JPEG and WebP have 8 bits, since
/// other depths are not read.
pub fn bit_depth(start: &[u8]) -> Option<u8> {
    match Format::sniff(start)? {
        Format::Jpeg | Format::WebP => Some(8),
        Format::Tiff | Format::Jpeg2000 | Format::Nifti => None,
        Format::Png => start.get(24).copied().filter(|_| start.get(12..16) == Some(b"IHDR")),
    }
}

/// Returns whether a file, by its first 26 bytes, may contain classes or heights instead of
/// colours, as [`Decoder::decode_values`](crate::Decoder::decode_values) needs them: a PNG of one
/// channel or with a palette.
pub fn holds_values(start: &[u8]) -> bool {
    Format::sniff(start) == Some(Format::Png) && matches!(start.get(25), Some(0 | 3))
}
