//! From stored bytes to the numbers a network takes, in one pass.

/// Per channel: value / 255, less `mean`, divided by `std`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalise {
    /// Means of red, green and blue, in 0 to 1.
    pub mean: [f32; 3],
    /// Standard deviations of red, green and blue, in 0 to 1.
    pub std: [f32; 3],
}

impl Default for Normalise {
    /// ImageNet's.
    fn default() -> Self {
        Self { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }
    }
}

/// All 256 results of each channel.
///
/// A table gives to the bit what torchvision's `ToTensor` and `Normalize` give,
/// which a fused multiply-add does not; and a load costs no more than the
/// conversion it saves.
#[derive(Debug)]
pub(super) struct Table([[f32; 256]; 3]);

impl Table {
    pub(super) fn new(how: &Normalise) -> Self {
        let mut table = [[0.0; 256]; 3];
        for ((channel, mean), std) in table.iter_mut().zip(how.mean).zip(how.std) {
            for (value, out) in channel.iter_mut().enumerate() {
                *out = (value as f32 / 255.0 - mean) / std;
            }
        }
        Self(table)
    }

    /// One image: RGB `[h, w, 3]` to three planes `[3, h, w]`; `out` is as long as `rgb`.
    pub(super) fn image(&self, rgb: &[u8], out: &mut [f32]) {
        let [red, green, blue] = &self.0;
        let (pixels, _) = rgb.as_chunks::<3>();
        let (r, rest) = out.split_at_mut(pixels.len());
        let (g, b) = rest.split_at_mut(pixels.len());
        for (((pixel, r), g), b) in pixels.iter().zip(r).zip(g).zip(b) {
            *r = red[usize::from(pixel[0])];
            *g = green[usize::from(pixel[1])];
            *b = blue[usize::from(pixel[2])];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_hold_the_plain_formula() {
        let rgb: Vec<u8> = (0..=255).chain((0..=255).rev()).chain(0..=255).collect();
        let how = Normalise::default();
        let mut out = vec![f32::NAN; rgb.len()];
        Table::new(&how).image(&rgb, &mut out);
        for (i, pixel) in rgb.chunks(3).enumerate() {
            for c in 0..3 {
                let expected = (f32::from(pixel[c]) / 255.0 - how.mean[c]) / how.std[c];
                assert_eq!(out[c * 256 + i].to_bits(), expected.to_bits());
            }
        }
    }
}
