//! Limits on what decoding an untrusted image may cost.

use crate::Error;

/// Limits for an untrusted image; checked with its header, before any allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most pixels (width times height) of one image, `--max-pixels`; 2^28 by default.
    ///
    /// Decoding takes up to 3 bytes per pixel (4 for CMYK), and 6 more for a progressive JPEG.
    pub max_pixels: u64,
}

impl Default for Limits {
    fn default() -> Self {
        // 16,384 x 16,384 pixels are the largest scenes that people do not cut further: 0.8 GiB as
        // RGB.
        Self { max_pixels: 1 << 28 }
    }
}

impl Limits {
    /// Refuses a picture with more pixels than the limit.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn check(&self, width: u32, height: u32) -> Result<(), Error> {
        if u64::from(width) * u64::from(height) > self.max_pixels {
            return Err(Error::TooLarge { width, height, limit: self.max_pixels });
        }
        Ok(())
    }
}
