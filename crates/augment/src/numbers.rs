//! The type of a picture's numbers in a batch, and their layout in memory.

use gular_bundle::Dtype;
use serde::Deserialize;

/// The type that the pixels of a batch are converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Numbers {
    /// Normalised `f32`.
    #[default]
    F32,
    /// `f16`: the values of [`Numbers::F32`], rounded to the nearest.
    F16,
    /// `bf16`: the values of [`Numbers::F32`], rounded to the nearest.
    Bf16,
    /// Numbers as they are stored or decoded, not normalised: `u8`, `u16`, or the field's own type.
    Stored,
}

impl Numbers {
    /// The resulting type of pixels that are stored as `stored`.
    #[must_use]
    pub fn dtype(self, stored: Dtype) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::Bf16 => Dtype::Bf16,
            Self::F16 => Dtype::F16,
            Self::Stored => stored,
        }
    }
}

/// How the numbers of a picture are laid out in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AxisOrder {
    /// Plane by plane, `[n, channels, height, width]`: `torch.contiguous_format`.
    #[default]
    Contiguous,
    /// Pixel by pixel, `[n, height, width, channels]`, as they are decoded:
    /// `torch.channels_last`, which the tensor cores of a GPU read fastest.
    ChannelsLast,
}

/// The number of bits of the pixels in a batch, if they are unsigned integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// As in the bundle: pixels of payload `raw` have the bits of their field, and encoded images
    /// have 8. An encoded image with 16 bits is an error.
    #[default]
    #[serde(skip)]
    Stored,
    /// Eight bits. Of 16 bits, the high byte is kept (the value divided by 256, rounded down), as
    /// in libpng, Pillow and OpenCV. This is right for pictures that use the whole range, and wrong
    /// for reflectances from 0 to 10000.
    U8,
    /// Sixteen. Values of 8 bits are multiplied by 257, so that white stays white.
    U16,
}
