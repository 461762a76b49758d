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

/// Encodes 8-bit pixels as PNG: RGB `[height, width, 3]` or, when there is one byte a
/// pixel, grey `[height, width]`.
///
/// The bytes depend on the arguments alone.
///
/// # Errors
/// [`Error::BadBuffer`]; [`Error::BadSize`] above 2^31 - 1 columns or rows.
pub fn encode_png(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, Error> {
    let area = u64::from(width) * u64::from(height);
    let grey = area > 0 && u64::try_from(pixels.len()) == Ok(area);
    if !grey {
        check_buffer(pixels.len(), width, height)?;
    }
    let bad_size = |_| Error::BadSize { format: Format::Png, width, height };
    let mut bytes = Vec::with_capacity(pixels.len() / CHANNELS);
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(if grey { png::ColorType::Grayscale } else { png::ColorType::Rgb });
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(bad_size)?;
    writer.write_image_data(pixels).map_err(bad_size)?;
    writer.finish().map_err(bad_size)?;
    Ok(bytes)
}
