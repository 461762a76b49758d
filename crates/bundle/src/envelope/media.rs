//! Media types of values, found from their first bytes and from file name extensions.

/// Extension and media type; for each type the first extension is the one that is written.
const TYPES: [(&str, &str); 22] = [
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("jpe", "image/jpeg"),
    ("png", "image/png"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("webp", "image/webp"),
    ("gif", "image/gif"),
    ("bmp", "image/bmp"),
    ("ppm", "image/x-portable-pixmap"),
    ("pgm", "image/x-portable-graymap"),
    ("jp2", "image/jp2"),
    ("jxl", "image/jxl"),
    ("avif", "image/avif"),
    ("json", "application/json"),
    ("txt", "text/plain"),
    ("npy", "application/x-npy"),
    ("npz", "application/x-npz"),
    ("pdf", "application/pdf"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
    ("bin", "application/octet-stream"),
];

/// The media type an extension stands for, in any case of letters.
#[must_use]
pub fn of_extension(extension: &str) -> Option<&'static str> {
    TYPES.iter().find(|(e, _)| e.eq_ignore_ascii_case(extension)).map(|(_, media)| *media)
}

/// The extension of a media type.
pub(crate) fn extension_of(media_type: &str) -> Option<&'static str> {
    TYPES.iter().find(|(_, media)| *media == media_type).map(|(e, _)| *e)
}

/// The media type of an image by its first bytes.
#[must_use]
pub fn sniff(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Some("image/tiff"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        _ => None,
    }
}
