//! The options of payloads.

use gular_codec::Fit;
use serde::{Deserialize, Serialize};

use crate::facts::setting;
use crate::plan::PlanError;

/// How images are stored in the bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PayloadOptions {
    /// Their bytes are kept as they are.
    #[default]
    Encoded,
    /// They become JPEG of a chosen size and quality.
    Reencoded(ReencodeOptions),
    /// They become pixels of one shape.
    Raw(RawOptions),
}

/// How images are encoded again: upright baseline JPEG, 4:2:0; alpha is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReencodeOptions {
    /// Larger ones are resized until their long side has this many pixels.
    pub max_side: Option<u32>,
    /// The quality, 1 to 100.
    pub quality: u8,
}

impl Default for ReencodeOptions {
    fn default() -> Self {
        Self { max_side: None, quality: 90 }
    }
}

/// How images become pixels `[height, width, channels]`, upright; alpha is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawOptions {
    /// Number of columns.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// How an image of another shape is changed to this one.
    pub fit: Fit,
    /// 3, where grey becomes RGB, or 1, where only grey images are taken.
    pub channels: u8,
    /// The type of a sample; `None` takes that of the files, which must all have the same.
    pub depth: Option<StoredDepth>,
}

impl RawOptions {
    /// Makes RGB pixels of one size, cropped, with the depth of the files.
    #[must_use]
    pub fn new(width: u32, height: u32) -> Self {
        Self { width, height, fit: Fit::Crop, channels: 3, depth: None }
    }
}

/// The type of a sample of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoredDepth {
    /// 0 to 255; the high byte of a 16-bit sample.
    U8,
    /// 0 to 65,535; 257 times an 8-bit sample.
    U16,
}

impl StoredDepth {
    /// Bytes of a sample.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
        }
    }
}

impl PayloadOptions {
    /// Refuses values that make no sense.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let fail = |name: &'static [&'static str], text: String| Err(setting(name, text));
        match *self {
            Self::Encoded => Ok(()),
            Self::Reencoded(ReencodeOptions { max_side: Some(0 | 65_536..), .. }) => fail(
                &["max_side"],
                "the longest side must be 1 to 65535 pixels, as in every JPEG".to_owned(),
            ),
            Self::Reencoded(ReencodeOptions { quality, .. }) if !(1..=100).contains(&quality) => {
                fail(&["quality"], format!("the quality is {quality}, expected 1 to 100"))
            }
            Self::Reencoded(_) => Ok(()),
            Self::Raw(raw) => {
                if !matches!(raw.channels, 1 | 3) {
                    return fail(
                        &["channels"],
                        format!("the number of channels is {}, expected 1 or 3", raw.channels),
                    );
                }
                // The limit is that for RGB with 16 bits, which intermediate pixels may have.
                let bytes = u128::from(raw.width) * u128::from(raw.height) * 6;
                if bytes == 0 || bytes >= 1 << 31 {
                    let size = format!("{}x{}", raw.width, raw.height);
                    return fail(
                        &["size"],
                        format!("the size is {size}, expected 1x1 to about 18000x18000"),
                    );
                }
                Ok(())
            }
        }
    }
}
