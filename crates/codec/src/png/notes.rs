//! The chunks besides the pixels: they give the orientation, and whether there are more frames.
//!
//! ```text
//! eXIf                                           EXIF block
//! tEXt, zTXt   Raw profile type exif (or APP1)   the same as hex digits, by ImageMagick
//! iTXt         XML:com.adobe.xmp                 XMP packet
//! acTL fcTL fdAT                                 an animation; fcTL and fdAT are numbered
//! ```

use std::io::Read as _;

use crate::{Orientation, exif, xmp};

/// The most bytes that a compressed text is inflated to: notes have some kilobytes, and a few
/// compressed bytes could become gigabytes.
const MOST_TEXT: u64 = 1 << 20;

/// The notes that were found so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    exif: Option<Result<Option<Orientation>, exif::Damaged>>,
    profile: Option<Result<Option<Orientation>, exif::Damaged>>,
    xmp: Option<Orientation>,
    pub(super) is_animated: bool,
    /// The number that the next chunk of a frame must have.
    next: u32,
    is_out_of_order: bool,
}

/// Returns whether a chunk belongs to an animation.
pub(super) fn is_frame(kind: &[u8]) -> bool {
    matches!(kind, b"acTL" | b"fcTL" | b"fdAT")
}

impl Notes {
    pub(super) fn add(&mut self, kind: &[u8], data: &[u8]) {
        match kind {
            b"eXIf" if self.exif.is_none() => self.exif = Some(exif::orientation(data)),
            b"tEXt" | b"zTXt" | b"iTXt" => self.add_text(kind, data),
            _ if is_frame(kind) => {
                self.is_animated = true;
                if kind != b"acTL" {
                    let number = data.first_chunk().map(|number| u32::from_be_bytes(*number));
                    self.is_out_of_order |= number != Some(self.next);
                    self.next = self.next.wrapping_add(1);
                }
            }
            _ => {}
        }
    }

    fn add_text(&mut self, kind: &[u8], data: &[u8]) {
        let Some(end) = data.iter().take(80).position(|byte| *byte == 0) else { return };
        let (keyword, rest) = (&data[..end], &data[end + 1..]);
        match keyword {
            b"Raw profile type exif" | b"Raw profile type APP1" if self.profile.is_none() => {
                let text = match kind {
                    b"tEXt" => rest.to_vec(),
                    b"zTXt" => inflated(rest.get(1..).unwrap_or_default()),
                    _ => return,
                };
                let block = profile(&text);
                // Under the name APP1 there may be XMP as well.
                if keyword.ends_with(b"exif") || block.starts_with(b"Exif\0\0") {
                    self.profile = Some(exif::orientation(&block));
                }
            }
            b"XML:com.adobe.xmp" if kind == b"iTXt" && self.xmp.is_none() => {
                let [is_compressed, _, names @ ..] = rest else { return };
                let mut parts = names.splitn(3, |byte| *byte == 0);
                let Some(text) = parts.nth(2) else { return };
                self.xmp = if *is_compressed == 0 {
                    xmp::orientation(text)
                } else {
                    xmp::orientation(&inflated(text))
                };
            }
            _ => {}
        }
    }

    /// Returns the orientation in the EXIF block, else in ImageMagick's copy of one, else in XMP.
    pub(super) fn orientation(&self) -> Orientation {
        let of_exif = self.exif.or(self.profile).and_then(|read| read.ok().flatten());
        of_exif.or(self.xmp).unwrap_or_default()
    }

    pub(super) fn flaw(&self) -> Option<&'static str> {
        if self.is_out_of_order {
            Some("the frames of its animation are out of order")
        } else if matches!(self.exif.or(self.profile), Some(Err(exif::Damaged))) {
            Some("its EXIF block is damaged")
        } else {
            None
        }
    }
}

/// Inflates a text as far as possible.
fn inflated(data: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    // If the end is damaged, the bytes before it are used.
    let _ = flate2::read::ZlibDecoder::new(data).take(MOST_TEXT).read_to_end(&mut text);
    text
}

/// Returns the bytes of a profile, which are written as hex digits behind three lines: an empty
/// one, the profile's name, and its length.
fn profile(text: &[u8]) -> Vec<u8> {
    let lines = text.split(|byte| *byte == b'\n').skip(3).flatten();
    let digits: Vec<u8> = lines
        .filter_map(|digit| char::from(*digit).to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_gigabytes_is_inflated_to_its_beginning() {
        use std::io::Write as _;
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&vec![b' '; 64 << 20]).unwrap();
        assert_eq!(inflated(&packed.finish().unwrap()).len() as u64, MOST_TEXT);
    }

    #[test]
    fn profiles_are_hex_behind_three_lines() {
        assert_eq!(profile(b"\nexif\n       3\n4d4D\n00\n"), b"MM\0");
        assert_eq!(profile(b"\nexif\n"), b"");
        assert_eq!(profile(b""), b"");
    }
}
