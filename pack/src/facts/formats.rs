//! The image formats that people have, by the extensions of their names.
//!
//! An extension says whether a file is taken. What a file is, its first bytes say.

use std::collections::BTreeMap;
use std::path::Path;

use gular_codec::Format;

/// The files of a source without images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtherFiles {
    /// Of any kind, or none.
    #[default]
    Any,
    /// Pictures in a format that is not packed as such.
    Pictures,
    /// Arrays, or TIFF.
    Arrays,
    /// PNG or JPEG, which are left out only where arrays are packed.
    PngOrJpeg,
    /// Archives.
    Archives,
    /// Tables, whose columns may be pixels.
    Tables,
}

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

/// Extensions, in lower case, of pictures that become PNG with the same pixels.
pub(crate) const BECOME_PNG: [&str; 7] = ["bmp", "dib", "gif", "pbm", "pgm", "ppm", "pnm"];

/// Extensions and media types of arrays.
pub(crate) const ARRAYS: [(&str, &str); 9] = [
    ("npy", "application/x-npy"),
    ("npz", "application/x-npz"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("jp2", "image/jp2"),
    ("j2k", "image/j2k"),
    ("j2c", "image/j2k"),
    ("nii", "application/x-nifti"),
    (PACKED_NIFTI, "application/x-nifti"),
];

/// Extensions, in lower case, of images that are not packed as pictures. Other loaders may read
/// them, so that leaving them out deserves a warning.
pub(crate) const OTHERS: [&str; 13] =
    ["tif", "tiff", "ico", "tga", "jp2", "j2k", "jxl", "avif", "heic", "heif", "psd", "dng", "svg"];

/// Extensions of archives.
pub(crate) const ARCHIVES: [&str; 7] = ["zip", "tar", "tgz", "gz", "zst", "7z", "rar"];

/// The number of arrays among files that were left out, by the extensions of these.
pub(crate) fn arrays(ignored: &BTreeMap<String, u64>) -> u64 {
    let is_array = |e: &String| ARRAYS.iter().any(|(known, _)| known == e);
    ignored.iter().filter(|(e, _)| is_array(e)).map(|(_, n)| *n).sum()
}

/// What most of these files are, by extension, where no images are.
pub(crate) fn others(found: &BTreeMap<String, u64>) -> OtherFiles {
    let kind = |extension: &str| match extension {
        e if ARRAYS.iter().any(|(known, _)| *known == e) => OtherFiles::Arrays,
        e if OTHERS.contains(&e) => OtherFiles::Pictures,
        e if ARCHIVES.contains(&e) => OtherFiles::Archives,
        "csv" | "tsv" => OtherFiles::Tables,
        "png" | "jpg" | "jpeg" => OtherFiles::PngOrJpeg,
        _ => OtherFiles::Any,
    };
    let known = found.iter().filter(|(e, _)| kind(e) != OtherFiles::Any);
    known.max_by_key(|(_, n)| **n).map_or(OtherFiles::Any, |(e, _)| kind(e))
}

/// The format that a name stands for, if such files are packed as pictures.
pub(crate) fn picture(extension: &str) -> Option<Format> {
    let known = PICTURES.iter().find(|(e, _)| e.eq_ignore_ascii_case(extension));
    known.map(|(_, format)| *format).or_else(|| becomes_png(extension).then_some(Format::Png))
}

/// Whether pictures with this extension become PNG.
pub(crate) fn becomes_png(extension: &str) -> bool {
    BECOME_PNG.iter().any(|e| e.eq_ignore_ascii_case(extension))
}

/// Whether files with this extension, in upper or lower case, are images or arrays.
pub(crate) fn is_image(extension: &str) -> bool {
    let is = |known: &str| known.eq_ignore_ascii_case(extension);
    picture(extension).is_some() || ARRAYS.iter().any(|(e, _)| is(e)) || OTHERS.into_iter().any(is)
}

/// The one extension of two parts.
const PACKED_NIFTI: &str = "nii.gz";

/// Whether a file with this name, compressed or not, is NIfTI.
pub(crate) fn is_nifti_name(path: &str) -> bool {
    let extension = stem_and_extension(path).1;
    ["nii", PACKED_NIFTI].into_iter().any(|known| known.eq_ignore_ascii_case(extension))
}

/// A path without the extension of its last segment, and that.
pub(crate) fn stem_and_extension(path: &str) -> (&str, &str) {
    let packed =
        path.len().checked_sub(PACKED_NIFTI.len() + 1).and_then(|at| path.split_at_checked(at));
    if let Some((stem, end)) = packed
        && end.strip_prefix('.').is_some_and(|end| end.eq_ignore_ascii_case(PACKED_NIFTI))
        && !stem.is_empty()
        && !stem.ends_with('/')
    {
        return (stem, &path[stem.len() + 1..]);
    }
    match Path::new(path).extension().and_then(|e| e.to_str()) {
        Some(extension) => (&path[..path.len() - extension.len() - 1], extension),
        None => (path, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::stem_and_extension;

    #[test]
    fn only_the_last_extension_is_left_out() {
        assert_eq!(stem_and_extension("a.b/cat.0.jpg"), ("a.b/cat.0", "jpg"));
        assert_eq!(stem_and_extension("a.b/cat"), ("a.b/cat", ""));
        assert_eq!(stem_and_extension("1"), ("1", ""));
        assert_eq!(stem_and_extension("a/b.T1.nii.gz"), ("a/b.T1", "nii.gz"));
        assert_eq!(stem_and_extension("b.NII.GZ"), ("b", "NII.GZ"));
        assert_eq!(stem_and_extension("a/.nii.gz"), ("a/.nii", "gz"));
        assert_eq!(stem_and_extension("é.gz"), ("é", "gz"));
    }
}
