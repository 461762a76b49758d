//! Pictures of further formats, which become PNG with the same pixels.
//!
//! ```text
//! BMP ─ RGB, alpha is dropped as by Pillow ──┐
//! PGM, PPM (binary) ─ 8 or 16 bits ──────────┼─ grey if all of a palette is ─▶ PNG
//! GIF ─ the only frame, or the first one ────┘
//! ```

use std::io::Cursor;

use image::codecs::gif::GifDecoder;
use image::{AnimationDecoder as _, DynamicImage, ImageFormat, ImageReader};

use crate::{Error, Limits};

/// The bits per pixel of a BMP, behind its header of 14 bytes. Source: `BITMAPINFOHEADER`.
const BMP_BITS: usize = 28;
/// Pixels of at most so many bits are numbers of colours in a palette.
const PALETTE_BITS: u8 = 8;

/// A format that is not stored as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Further {
    /// Windows bitmap.
    Bmp,
    /// Graphics Interchange Format.
    Gif,
    /// Portable bitmap, greymap or pixmap, in binary form or in digits.
    Pnm,
}

/// Pixels, row-major, in channels of 8 bits, or of 16 bits with the high byte first.
struct Pixels {
    bytes: Vec<u8>,
    size: (u32, u32),
    channels: usize,
    is_wide: bool,
    /// Whether the pixels are numbers of colours in a palette.
    is_palette: bool,
}

impl Further {
    /// Recognises a format by its magic bytes.
    pub fn sniff(file: &[u8]) -> Option<Self> {
        match file {
            [b'B', b'M', ..] => Some(Self::Bmp),
            [b'G', b'I', b'F', b'8', ..] => Some(Self::Gif),
            [b'P', b'1'..=b'6', b' ' | b'\t' | b'\n' | b'\r' | b'#', ..] => Some(Self::Pnm),
            _ => None,
        }
    }

    /// Columns and rows of a picture, within the limits.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Further`].
    pub fn size(self, file: &[u8], limits: &Limits) -> Result<(u32, u32), Error> {
        let format = match self {
            Self::Bmp => ImageFormat::Bmp,
            Self::Gif => ImageFormat::Gif,
            Self::Pnm => ImageFormat::Pnm,
        };
        let reader = ImageReader::with_format(Cursor::new(file), format);
        let (width, height) = reader.into_dimensions().map_err(|e| self.damaged(&e))?;
        limits.check(width, height)?;
        Ok((width, height))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bmp => "BMP",
            Self::Gif => "GIF",
            Self::Pnm => "PNM",
        }
    }

    /// A PNG with the pixels of `file`, which is of this format. The bytes depend on the arguments
    /// alone. Of an animation, `first_frame` takes the first picture.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Frames`] for an animation; [`Error::Further`].
    pub fn to_png(self, file: &[u8], limits: &Limits, first_frame: bool) -> Result<Vec<u8>, Error> {
        let is_palette = match self {
            Self::Bmp => file.get(BMP_BITS).is_some_and(|bits| *bits <= PALETTE_BITS),
            Self::Gif => true,
            Self::Pnm => false,
        };
        let picture = match self {
            Self::Bmp => self.read(file, ImageFormat::Bmp, limits)?,
            Self::Pnm => self.read(file, ImageFormat::Pnm, limits)?,
            Self::Gif => self.frame(file, limits, first_frame)?,
        };
        Pixels::of(picture, is_palette).encode(self)
    }

    fn read(
        self,
        file: &[u8],
        format: ImageFormat,
        limits: &Limits,
    ) -> Result<DynamicImage, Error> {
        self.size(file, limits)?;
        let reader = ImageReader::with_format(Cursor::new(file), format);
        reader.decode().map_err(|e| self.damaged(&e))
    }

    fn frame(self, file: &[u8], limits: &Limits, first: bool) -> Result<DynamicImage, Error> {
        let (width, height) = self.size(file, limits)?;
        // The decoder takes as much memory as a frame says, which may be larger than the picture.
        let frames = gif_frames(file).ok_or_else(|| self.damaged(&"it is cut short"))?;
        if frames.iter().any(|[right, bottom]| *right > width || *bottom > height) {
            return Err(self.damaged(&"a frame is not within the picture"));
        }
        if frames.len() > 1 && !first {
            return Err(Error::Frames);
        }
        let none = || self.damaged(&"it has no picture");
        let decoder = GifDecoder::new(Cursor::new(file)).map_err(|e| self.damaged(&e))?;
        let frame = decoder.into_frames().next().ok_or_else(none)?;
        let picture = frame.map_err(|e| self.damaged(&e))?.into_buffer();
        // Programs differ in the colour beneath.
        if picture.pixels().any(|pixel| pixel.0[3] == 0) {
            return Err(self.damaged(&"it has transparent pixels, whose colour is not known"));
        }
        Ok(picture.into())
    }

    fn damaged(self, detail: &dyn std::fmt::Display) -> Error {
        Error::Further { format: self.name(), detail: detail.to_string() }
    }
}

/// Where the first frames of a GIF end, in columns and rows of the picture; `None` if it is cut
/// short. Source: GIF89a, 17 to 27.
fn gif_frames(file: &[u8]) -> Option<Vec<[u32; 2]>> {
    /// Two are an animation already.
    const MOST: usize = 2;
    let table = |packed: u8| if packed & 0x80 == 0 { 0 } else { 3 << ((packed & 7) + 1) };
    let mut rest = file.get(13..)?;
    rest = rest.get(table(*file.get(10)?)..)?;
    let mut frames = Vec::new();
    while frames.len() < MOST {
        let (kind, after) = rest.split_first()?;
        rest = match kind {
            0x2c => {
                let (descriptor, after) = after.split_first_chunk::<9>()?;
                let (sides, _) = descriptor.as_chunks::<2>();
                let side = |at: usize| sides.get(at).map(|side| u16::from_le_bytes(*side));
                let end = |from: usize| Some(u32::from(side(from)?) + u32::from(side(from + 2)?));
                frames.push([end(0)?, end(1)?]);
                // Behind the colours is the size of codes.
                after.get(table(descriptor[8]) + 1..)?
            }
            // An extension, with its kind.
            0x21 => after.get(1..)?,
            0x3b => break,
            _ => return None,
        };
        loop {
            let (len, after) = rest.split_first()?;
            rest = after.get(usize::from(*len)..)?;
            if *len == 0 {
                break;
            }
        }
    }
    Some(frames)
}

impl Pixels {
    fn of(picture: DynamicImage, is_palette: bool) -> Self {
        let size = (picture.width(), picture.height());
        let wide = |values: Vec<u16>| values.iter().flat_map(|n| n.to_be_bytes()).collect();
        let (channels, is_wide, bytes) = match picture {
            DynamicImage::ImageLuma8(grey) => (1, false, grey.into_raw()),
            DynamicImage::ImageLuma16(grey) => (1, true, wide(grey.into_raw())),
            DynamicImage::ImageRgb16(rgb) => (3, true, wide(rgb.into_raw())),
            // Alpha is dropped, and the colours beneath stay.
            other => (3, false, without_alpha(other)),
        };
        Self { bytes, size, channels, is_wide, is_palette }
    }

    fn encode(self, of: Further) -> Result<Vec<u8>, Error> {
        let Self { mut bytes, size: (width, height), mut channels, is_wide, is_palette } = self;
        let is_grey = |rgb: &[u8; 3]| rgb[0] == rgb[1] && rgb[1] == rgb[2];
        if is_palette && bytes.as_chunks::<3>().0.iter().all(is_grey) {
            bytes = bytes.as_chunks::<3>().0.iter().map(|rgb| rgb[0]).collect();
            channels = 1;
        }
        let mut file = Vec::new();
        let mut encoder = ::png::Encoder::new(&mut file, width, height);
        let (grey, rgb) = (::png::ColorType::Grayscale, ::png::ColorType::Rgb);
        encoder.set_color(if channels == 1 { grey } else { rgb });
        let (eight, sixteen) = (::png::BitDepth::Eight, ::png::BitDepth::Sixteen);
        encoder.set_depth(if is_wide { sixteen } else { eight });
        let fault = |e| of.damaged(&e);
        let mut writer = encoder.write_header().map_err(fault)?;
        writer.write_image_data(&bytes).map_err(fault)?;
        writer.finish().map_err(fault)?;
        Ok(file)
    }
}

fn without_alpha(picture: DynamicImage) -> Vec<u8> {
    match picture {
        DynamicImage::ImageRgba8(rgba) => {
            let pixels = rgba.as_raw().as_chunks::<4>().0.iter();
            pixels.flat_map(|[r, g, b, _]| [*r, *g, *b]).collect()
        }
        other => other.into_rgb8().into_raw(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecodeOptions, Decoder};

    fn pixels(png: &[u8]) -> Vec<u8> {
        Decoder::new(DecodeOptions::default()).decode(png).unwrap().data().to_vec()
    }

    /// A BMP of 2 x 1 pixels: the bits of each, the palette, and the row.
    fn bmp_of(bits: u8, palette: &[u8], row: &[u8]) -> Vec<u8> {
        let start = 54 + palette.len() as u32;
        let mut file = b"BM".to_vec();
        file.extend((start + row.len() as u32).to_le_bytes());
        file.extend([0; 4]);
        file.extend(start.to_le_bytes());
        for number in [40_u32, 2, 1] {
            file.extend(number.to_le_bytes());
        }
        file.extend([1, 0, bits, 0]);
        file.extend([0; 16]);
        file.extend((palette.len() as u32 / 4).to_le_bytes());
        file.extend([0; 4]);
        file.extend_from_slice(palette);
        file.extend_from_slice(row);
        file
    }

    /// A GIF of 2 x 1 pixels in two colours, with so many frames.
    fn gif_of(rgb: [u8; 6], frames: usize) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = image::codecs::gif::GifEncoder::new(&mut file);
        for _ in 0..frames {
            encoder.encode(&rgb, 2, 1, image::ExtendedColorType::Rgb8).unwrap();
        }
        drop(encoder);
        file
    }

    #[test]
    fn pixels_stay_the_same() {
        let of = |file: &[u8], first| {
            let further = Further::sniff(file).unwrap();
            further.to_png(file, &Limits::default(), first)
        };
        let bgr = bmp_of(24, &[], &[3, 2, 1, 6, 5, 4, 0, 0]);
        assert_eq!(pixels(&of(&bgr, false).unwrap()), [1, 2, 3, 4, 5, 6]);
        let grey = bmp_of(8, &[7, 7, 7, 0, 9, 9, 9, 0], &[1, 0, 0, 0]);
        let png = of(&grey, false).unwrap();
        assert_eq!(pixels(&png), [9, 9, 9, 7, 7, 7]);
        assert_eq!(crate::read_header(&png, &Limits::default()).unwrap().channels, 1);
        let ppm = b"P6 # a comment\n2 1\n255\n\x01\x02\x03\x04\x05\x06";
        assert_eq!(pixels(&of(ppm, false).unwrap()), [1, 2, 3, 4, 5, 6]);
        let wide = of(b"P5\n2 1\n65535\n\x01\x02\x03\x04", false).unwrap();
        assert_eq!(crate::bit_depth(&wide), Some(16));
        assert_eq!(pixels(&wide), [1, 1, 1, 3, 3, 3]);
        assert_eq!(pixels(&of(b"P5\n2 1\n5\n\x01\x05", false).unwrap())[3..], [255; 3]);
        assert_eq!(pixels(&of(b"P2\n2 1\n255\n7 9\n", false).unwrap()), [7, 7, 7, 9, 9, 9]);
        let (one, two) = (gif_of([1, 2, 3, 4, 5, 6], 1), gif_of([1, 2, 3, 4, 5, 6], 2));
        assert_eq!(pixels(&of(&one, false).unwrap()), [1, 2, 3, 4, 5, 6]);
        assert_eq!(of(&two, false), Err(Error::Frames));
        assert_eq!(of(&two, true), of(&one, false));
    }

    #[test]
    fn a_frame_larger_than_its_picture_is_refused_before_it_is_decoded() {
        let mut file = gif_of([1, 2, 3, 4, 5, 6], 1);
        let at = file.iter().rposition(|b| *b == 0x2c).unwrap();
        file[at + 5..at + 9].fill(0xff);
        let error = Further::Gif.to_png(&file, &Limits::default(), true).unwrap_err().to_string();
        assert!(error.contains("not within the picture"), "{error}");
    }

    #[test]
    fn damaged_files_are_errors() {
        let files = [
            bmp_of(8, &[7; 8], &[1, 0, 0, 0]),
            gif_of([1, 2, 3, 4, 5, 6], 1),
            b"P6\n2 1\n255\n123456".to_vec(),
        ];
        let limits = Limits { max_pixels: 1000 };
        for file in files {
            let further = Further::sniff(&file).unwrap();
            for len in 0..file.len() {
                drop(further.to_png(&file[..len], &limits, false));
            }
            for at in 0..file.len() {
                for bits in [0x01, 0x80, 0xff] {
                    let mut file = file.clone();
                    file[at] ^= bits;
                    drop(further.to_png(&file, &limits, false));
                }
            }
        }
        let large = Further::Pnm.to_png(b"P6\n9999 9999\n255\n", &limits, false);
        assert!(matches!(large, Err(Error::TooLarge { .. })), "{large:?}");
    }
}
