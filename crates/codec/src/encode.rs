//! Encodes pixels as JPEG.

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use crate::{
    Error, Format,
    picture::{CHANNELS, check_buffer},
};

/// Encodes RGB pixels `[height, width, 3]` as baseline JPEG, 4:2:0, in one
/// interleaved scan with the standard's Huffman tables; `quality` is 1 to 100 (values
/// outside are moved to the ends).
///
/// The bytes depend on the arguments alone: not on machine, feature or backend.
///
/// # Errors
/// [`Error::BadBuffer`]; [`Error::BadSize`] above 65,535 columns or rows.
pub fn encode_jpeg(rgb: &[u8], width: u32, height: u32, quality: u8) -> Result<Vec<u8>, Error> {
    check_buffer(rgb.len(), width, height)?;
    let bad_size = Error::BadSize { format: Format::Jpeg, width, height };
    let (Ok(w), Ok(h)) = (u16::try_from(width), u16::try_from(height)) else {
        return Err(bad_size);
    };
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, quality.clamp(1, 100));
    encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
    encoder.encode(rgb, w, h, ColorType::Rgb).map_err(|_| bad_size)?;
    Ok(bytes)
}

/// The library that encodes JPEG where speed matters more than equal bytes from every build; each
/// library gives the same bytes on every machine.
///
/// All of them write baseline JPEG, 4:2:0, with the standard's Huffman tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JpegEncoder {
    /// libjpeg-turbo.
    #[cfg(feature = "turbo")]
    Turbo,
    /// jpeg-encoder, as [`encode_jpeg`].
    Rust,
}

impl JpegEncoder {
    /// All encoders in this build, the default first.
    pub const ALL: &[Self] = &[
        #[cfg(feature = "turbo")]
        Self::Turbo,
        Self::Rust,
    ];

    /// Library and version, as in `libjpeg-turbo 3.1.0`.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "turbo")]
            Self::Turbo => crate::JpegBackend::Turbo.name(),
            Self::Rust => "jpeg-encoder 0.7.1",
        }
    }

    /// Encodes RGB pixels `[height, width, 3]`; `quality` is 1 to 100 (values outside
    /// are moved to the ends), and means the same quantisation in every encoder.
    ///
    /// # Errors
    /// Those of [`encode_jpeg`]; [`Error::Memory`].
    pub fn encode(
        self,
        rgb: &[u8],
        width: u32,
        height: u32,
        quality: u8,
    ) -> Result<Vec<u8>, Error> {
        match self {
            #[cfg(feature = "turbo")]
            Self::Turbo => {
                check_buffer(rgb.len(), width, height)?;
                if width.max(height) > u32::from(u16::MAX) {
                    return Err(Error::BadSize { format: Format::Jpeg, width, height });
                }
                crate::jpeg::encode_turbo(rgb, width, height, quality.clamp(1, 100))
            }
            Self::Rust => encode_jpeg(rgb, width, height, quality),
        }
    }
}

impl Default for JpegEncoder {
    fn default() -> Self {
        Self::ALL[0]
    }
}

/// Encodes 8-bit pixels as PNG: RGB `[height, width, 3]` or, by their number of bytes, grey
/// `[height, width]` or RGB with alpha `[height, width, 4]`.
///
/// The bytes depend on the arguments alone.
///
/// # Errors
/// [`Error::BadBuffer`]; [`Error::BadSize`] above 2^31 - 1 columns or rows.
pub fn encode_png(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, Error> {
    let area = u64::from(width) * u64::from(height);
    let has = |bytes: u64| area > 0 && u64::try_from(pixels.len()) == Ok(area * bytes);
    let colour = match (has(1), has(4)) {
        (true, _) => png::ColorType::Grayscale,
        (_, true) => png::ColorType::Rgba,
        _ => {
            check_buffer(pixels.len(), width, height)?;
            png::ColorType::Rgb
        }
    };
    let bad_size = |_| Error::BadSize { format: Format::Png, width, height };
    let mut bytes = Vec::with_capacity(pixels.len() / CHANNELS);
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(bad_size)?;
    writer.write_image_data(pixels).map_err(bad_size)?;
    writer.finish().map_err(bad_size)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecodeOptions, Decoder};

    #[test]
    fn every_encoder_writes_what_decodes_to_the_picture() {
        let (width, height) = (75_u32, 41_u32);
        let slope = |x: u32, y: u32| [x * 3, y * 6, 255 - x - y].map(|v| v as u8);
        let rgb: Vec<u8> =
            (0..height).flat_map(|y| (0..width).flat_map(move |x| slope(x, y))).collect();
        for encoder in JpegEncoder::ALL {
            let file = encoder.encode(&rgb, width, height, 95).unwrap();
            assert_eq!(file, encoder.encode(&rgb, width, height, 95).unwrap());
            assert!(encoder.encode(&rgb, width, height, 50).unwrap().len() < file.len());
            let image = Decoder::new(DecodeOptions::default()).decode(&file).unwrap();
            assert_eq!((image.width(), image.height()), (width, height));
            let far = image.data().iter().zip(&rgb).map(|(a, b)| u64::from(a.abs_diff(*b)));
            assert!(far.sum::<u64>() < rgb.len() as u64 * 3, "{}", encoder.name());
            let wide = vec![0; 65_536 * 3];
            let refused = encoder.encode(&wide, 65_536, 1, 90);
            assert!(matches!(refused, Err(Error::BadSize { .. })), "{refused:?}");
            let refused = encoder.encode(&rgb, width, height + 1, 90);
            assert!(matches!(refused, Err(Error::BadBuffer { .. })), "{refused:?}");
        }
    }

    #[test]
    fn a_png_with_alpha_keeps_its_colours() {
        let file = encode_png(&[1, 2, 3, 0, 4, 5, 6, 255], 2, 1).unwrap();
        let image = Decoder::new(DecodeOptions::default()).decode(&file).unwrap();
        assert_eq!(image.data(), [1, 2, 3, 4, 5, 6]);
        assert!(matches!(encode_png(&[0; 5], 2, 1), Err(Error::BadBuffer { .. })));
    }

    #[test]
    fn the_named_version_is_the_locked_one() {
        let lock = include_str!("../../../Cargo.lock");
        let (name, version) = JpegEncoder::Rust.name().split_once(' ').unwrap();
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")));
    }
}
