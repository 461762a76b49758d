//! Samples stored as pixels: payload `raw`.

use gular_bundle::Dtype;
use gular_codec::{Error, Image, Rect, Resizer};

use crate::augment::Placement;

/// Channels of a batch.
const RGB: usize = 3;

/// How field `image` holds pixels: `[height, width, channels]`, or `[height, width]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pixels {
    pub(super) width: u32,
    pub(super) height: u32,
    /// 1 or 3.
    channels: usize,
    /// Bytes of a sample, 1 or 2.
    bytes: usize,
}

/// What a thread keeps between samples.
#[derive(Default)]
pub(super) struct PixelTools {
    resizer: Resizer,
    /// A sample as 8-bit RGB, where it is stored otherwise.
    rgb: Vec<u8>,
}

impl Pixels {
    /// `None` for what is no picture of a kind that the loader reads.
    pub(super) fn of(dtype: Dtype, shape: &[u64]) -> Option<Self> {
        let bytes = match dtype {
            Dtype::U8 => 1,
            Dtype::U16 => 2,
            _ => return None,
        };
        let (height, width, channels) = match *shape {
            [height, width] => (height, width, 1),
            [height, width, 1] => (height, width, 1),
            [height, width, 3] => (height, width, 3),
            _ => return None,
        };
        let side = |n: u64| u32::try_from(n).ok().filter(|n| *n > 0);
        Some(Self { width: side(width)?, height: side(height)?, channels, bytes })
    }

    /// Whether they have 16 bits.
    pub(super) fn are_u16(&self) -> bool {
        self.bytes == 2
    }

    /// Brings a stored sample to `out` as `place` says. A part that is not resized is
    /// copied row by row; grey becomes RGB, and 16-bit samples keep their high byte, as
    /// those of a PNG do when it is decoded.
    pub(super) fn make(
        &self,
        stored: &[u8],
        place: &Placement,
        tools: &mut PixelTools,
        whole: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let PixelTools { resizer, rgb } = tools;
        let stored = if (self.channels, self.bytes) == (RGB, 1) {
            stored
        } else {
            self.to_rgb(stored, rgb);
            rgb
        };
        let size = (self.width, self.height);
        let Placement { region, resize, keep } = *place;
        let Some(keep) = keep else {
            return resizer.crop_resize(stored, size, region, &resize, out);
        };
        if (region.width, region.height) == (resize.width, resize.height) && !resize.flip {
            // Nothing is resized: what is kept lies in the sample itself.
            let kept = Rect { x: region.x + keep.x, y: region.y + keep.y, ..keep };
            copy(stored, self.width, kept, out);
            return Ok(());
        }
        whole.resize(resize.width as usize * resize.height as usize * RGB, 0);
        resizer.crop_resize(stored, size, region, &resize, whole)?;
        copy(whole, resize.width, keep, out);
        Ok(())
    }

    fn to_rgb(self, stored: &[u8], rgb: &mut Vec<u8>) {
        // The second byte of a little-endian pair is the high one.
        let values = stored.iter().skip(self.bytes - 1).step_by(self.bytes).copied();
        rgb.clear();
        if self.channels == 1 {
            rgb.extend(values.flat_map(|v| [v; RGB]));
        } else {
            rgb.extend(values);
        }
    }
}

/// The picture that a sample of payload `raw` holds, as the loader takes it: 8-bit RGB.
///
/// `None` for what is no `u8` or `u16` of shape `[height, width, 3 or 1]`, or for bytes of
/// another length.
#[must_use]
pub fn stored_picture(dtype: Dtype, shape: &[u64], stored: &[u8]) -> Option<Image> {
    let pixels = Pixels::of(dtype, shape)?;
    let mut rgb = Vec::new();
    pixels.to_rgb(stored, &mut rgb);
    Image::new(pixels.width, pixels.height, rgb).ok()
}

/// Copies `rect` of RGB pixels whose rows are `width` long to the rows of `out`.
pub(super) fn copy(pixels: &[u8], width: u32, rect: Rect, out: &mut [u8]) {
    let (from, len) = (rect.x as usize * RGB, rect.width as usize * RGB);
    let rows = pixels.chunks_exact(width as usize * RGB).skip(rect.y as usize);
    for (out, row) in out.chunks_exact_mut(len).zip(rows) {
        out.copy_from_slice(&row[from..from + len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_of_whole_numbers_are_read() {
        assert!(Pixels::of(Dtype::U8, &[4, 6, 3]).is_some());
        assert_eq!(Pixels::of(Dtype::U16, &[4, 6]), Pixels::of(Dtype::U16, &[4, 6, 1]));
        for (dtype, shape) in [
            (Dtype::F32, &[4, 6, 3][..]),
            (Dtype::U8, &[4, 6, 4]),
            (Dtype::U8, &[3]),
            (Dtype::U8, &[0, 6, 3]),
            (Dtype::U8, &[1 << 32, 6, 3]),
        ] {
            assert_eq!(Pixels::of(dtype, shape), None, "{dtype:?} {shape:?}");
        }
    }

    #[test]
    fn grey_is_repeated_and_16_bits_keep_the_high_byte() {
        let mut rgb = Vec::new();
        let to_rgb = |dtype, shape: &[u64], stored: &[u8], rgb: &mut Vec<u8>| {
            Pixels::of(dtype, shape).unwrap().to_rgb(stored, rgb);
        };
        to_rgb(Dtype::U8, &[1, 2], &[5, 6], &mut rgb);
        assert_eq!(rgb, [5, 5, 5, 6, 6, 6]);
        to_rgb(Dtype::U16, &[1, 1, 3], &[1, 2, 3, 4, 5, 6], &mut rgb);
        assert_eq!(rgb, [2, 4, 6]);
        to_rgb(Dtype::U16, &[1, 1], &[255, 7], &mut rgb);
        assert_eq!(rgb, [7, 7, 7]);
    }
}
