//! Reads the orientation from an XMP packet, for files that store it nowhere else.
//!
//! ```text
//! <rdf:Description tiff:Orientation="6" …   or   <tiff:Orientation>6</tiff:Orientation>
//! ```
//! The orientation is found as in Pillow's `exif_transpose`: at the first place that looks like one
//! of these.

use crate::Orientation;

const NAME: &[u8] = b"tiff:Orientation";

/// The orientation of a packet, if it has one.
pub(crate) fn orientation(packet: &[u8]) -> Option<Orientation> {
    let mut rest = packet;
    while let Some(at) = rest.windows(NAME.len()).position(|window| window == NAME) {
        rest = &rest[at + NAME.len()..];
        let digit = match rest {
            [b'=', b'"' | b'\'', digit, ..] | [b'>', digit, ..] => digit,
            _ => continue,
        };
        if digit.is_ascii_digit() {
            return Orientation::from_exif(u16::from(digit - b'0'));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_and_elements_are_read() {
        let check = |packet: &str, value: Option<u16>| {
            let expected = value.and_then(Orientation::from_exif);
            assert_eq!(orientation(packet.as_bytes()), expected, "{packet}");
        };
        check(r#"<x xmlns:tiff="…" tiff:Orientation="6"/>"#, Some(6));
        check("<x tiff:Orientation='3'/>", Some(3));
        check("<tiff:Orientation>8</tiff:Orientation>", Some(8));
        check("<tiff:Orientation/><tiff:Orientation>5<", Some(5));
        check("<x tiff:Orientation=\"0\"/>", None);
        check("<x tiff:Orientation=\"", None);
        check("tiff:Orientation", None);
        check("", None);
    }
}
