//! The file formats, recognised by their first bytes.

use std::fmt;

/// A file format this crate reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// ITU-T T.81, in a JFIF, EXIF or Adobe file.
    Jpeg,
    /// ISO/IEC 15948; for an animation, the default image.
    Png,
    /// RFC 9649; for an animation, the first frame.
    WebP,
    /// Adobe's TIFF 6.0, BigTIFF and GeoTIFF. `sniff` never returns it, since such files hold
    /// numbers rather than a picture: see `tiff`.
    Tiff,
    /// ISO/IEC 15444-1, in a JP2 file or alone. As TIFF, it holds numbers: see `jpeg2000`.
    Jpeg2000,
    /// NIfTI-1 and NIfTI-2 in one file. As TIFF, it holds numbers: see `nifti`.
    Nifti,
}

impl Format {
    /// Recognises a format by its magic bytes; file names do not matter.
    pub fn sniff(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"\xff\xd8\xff") {
            Some(Self::Jpeg)
        } else if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(Self::Png)
        } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            Some(Self::WebP)
        } else {
            None
        }
    }

    /// The media type, such as `image/jpeg`.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::WebP => "image/webp",
            Self::Tiff => "image/tiff",
            Self::Jpeg2000 => "image/jp2",
            Self::Nifti => "application/x-nifti",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::WebP => "WebP",
            Self::Tiff => "TIFF",
            Self::Jpeg2000 => "JPEG 2000",
            Self::Nifti => "NIfTI",
        })
    }
}

/// The first bytes of a file that gzip compressed.
pub(crate) const GZIP: &[u8] = b"\x1f\x8b";

/// The first bytes of a file that was not recognised, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    bytes: [u8; Self::LEN],
    len: usize,
}

impl Start {
    // The length is enough for every magic number in `guess`.
    const LEN: usize = 16;

    pub(crate) fn of(file: &[u8]) -> Self {
        let mut bytes = [0; Self::LEN];
        let len = file.len().min(Self::LEN);
        bytes[..len].copy_from_slice(&file[..len]);
        Self { bytes, len }
    }

    /// Returns at most the first 16 bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the name of the image format that these bytes belong to, if it is a common one.
    pub fn guess(&self) -> Option<&'static str> {
        let magic: [(usize, &[u8], &'static str); 20] = [
            (0, b"GIF8", "GIF"),
            (0, b"II*\0", "TIFF"),
            (0, b"MM\0*", "TIFF"),
            (0, b"BM", "BMP"),
            (4, b"ftypavif", "AVIF"),
            (4, b"ftyphei", "HEIC"),
            (4, b"ftyphev", "HEIC"),
            (4, b"ftypmif1", "HEIC"),
            (4, b"ftypmsf1", "HEIC"),
            (0, b"\0\0\x01\0", "ICO"),
            (0, b"P1", "PBM"),
            (0, b"P2", "PGM"),
            (0, b"P3", "PPM"),
            (0, b"P4", "PBM"),
            (0, b"P5", "PGM"),
            (0, b"P6", "PPM"),
            (0, b"8BPS", "Photoshop"),
            (0, GZIP, "a file compressed with gzip"),
            (0, b"\0\0\0\x0cjP  ", "JPEG 2000"),
            (0, b"\xff\x0a", "JPEG XL"),
        ];
        let found = |(at, magic, _): &(usize, &[u8], _)| {
            self.bytes().get(*at..).is_some_and(|rest| rest.starts_with(magic))
        };
        magic.into_iter().find(found).map(|(_, _, name)| name)
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.bytes().escape_ascii())?;
        self.guess().map_or(Ok(()), |name| write!(f, ", which looks like {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_magic_bytes() {
        let check = |bytes: &[u8], expected| assert_eq!(Format::sniff(bytes), expected);
        check(b"\xff\xd8\xff\xe0", Some(Format::Jpeg));
        check(b"\x89PNG\r\n\x1a\n", Some(Format::Png));
        check(b"\x89PNG\r\n\x1a", None);
        check(b"RIFF\x10\0\0\0WEBPVP8 ", Some(Format::WebP));
        check(b"RIFF\x10\0\0\0WAVE", None);
        check(b"hello", None);
        check(b"", None);
    }

    #[test]
    fn an_unknown_start_is_shown_and_named() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(Start::of(bytes).to_string(), expected);
        };
        check(b"a text\n", "`a text\\n`");
        check(b"\0\0\0\x1cftypavif", "`\\x00\\x00\\x00\\x1cftypavif`, which looks like AVIF");
        check(b"BMxx, and more than sixteen bytes", "`BMxx, and more t`, which looks like BMP");
    }
}
