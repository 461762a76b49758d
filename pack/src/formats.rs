//! The image formats that people have, by the extensions of their names.
//!
//! An extension says whether a file is taken. What a file is, its first bytes say.

use gular_codec::Format;

/// Extensions, in lower case, of files that are packed as pictures, and what they stand for. The
/// first picture of an `.mpo` is a JPEG, which is what every decoder of JPEG reads.
pub(crate) const PICTURES: [(&str, Format); 7] = [
    ("jpg", Format::Jpeg),
    ("jpeg", Format::Jpeg),
    ("jpe", Format::Jpeg),
    ("jfif", Format::Jpeg),
    ("mpo", Format::Jpeg),
    ("png", Format::Png),
    ("webp", Format::WebP),
];

/// Extensions and media types of arrays.
pub(crate) const ARRAYS: [(&str, &str); 4] = [
    ("npy", "application/x-npy"),
    ("npz", "application/x-npz"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
];

/// Extensions, in lower case, of images that are not packed as pictures. Other loaders may read
/// them, so that leaving them out deserves a warning.
pub(crate) const OTHERS: [&str; 20] = [
    "tif", "tiff", "bmp", "dib", "gif", "ico", "ppm", "pgm", "pbm", "pnm", "tga", "jp2", "j2k",
    "jxl", "avif", "heic", "heif", "psd", "dng", "svg",
];

/// The format that a name stands for, if such files are packed as pictures.
pub(crate) fn picture(extension: &str) -> Option<Format> {
    PICTURES.iter().find(|(e, _)| e.eq_ignore_ascii_case(extension)).map(|(_, format)| *format)
}

/// Whether files with this extension, in upper or lower case, are images or arrays.
pub(crate) fn is_image(extension: &str) -> bool {
    let is = |known: &str| known.eq_ignore_ascii_case(extension);
    picture(extension).is_some() || ARRAYS.iter().any(|(e, _)| is(e)) || OTHERS.into_iter().any(is)
}
