//! One size for arrays of nearly one size, without resizing them.
//!
//! ```text
//! crop: the middle of each        pad: each, and beyond its right and its lower edge nodata
//! ```

use gular_bundle::Axes;
use gular_codec::Fit;
use serde::Serialize;

use crate::facts::Fault;

/// How arrays of other sizes are brought to one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameOptions {
    /// `Crop` or `Pad`; arrays are never stretched.
    pub fit: Fit,
    /// Columns and rows; by default the fewest of all arrays if they are cropped, and the most if
    /// they are padded.
    pub size: Option<(u32, u32)>,
}

/// The size that all arrays are brought to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Frame {
    pub(crate) fit: Fit,
    /// Columns and rows, which the shape also contains.
    #[serde(skip)]
    pub(crate) size: (u32, u32),
}

impl Frame {
    /// The first column and row that are kept of an array of `size` = (columns, rows).
    ///
    /// # Errors
    /// An array that is too small to be cropped, or too large to be padded.
    pub(crate) fn corner(&self, size: (u32, u32)) -> Result<(u32, u32), Fault> {
        let ((width, height), (to_width, to_height)) = (size, self.size);
        let (fits, what, other) = match self.fit {
            Fit::Crop => (width >= to_width && height >= to_height, "cropped", "pad"),
            _ => (width <= to_width && height <= to_height, "padded", "crop"),
        };
        if !fits {
            let reason = format!(
                "it has {width} x {height} pixels, and cannot be {what} to {to_width} x {to_height}"
            );
            let hint = match other {
                "pad" => "choose a size that no array is smaller than, or pad them",
                _ => "choose a size that no array is larger than, or crop them",
            };
            return Err(Fault::new(reason, Some(hint)));
        }
        Ok((width.saturating_sub(to_width) / 2, height.saturating_sub(to_height) / 2))
    }
}

/// `shape` with other numbers of columns and rows.
pub(crate) fn with_size(shape: &[u64], axes: &Axes, (width, height): (u32, u32)) -> Vec<u64> {
    let mut shape = shape.to_vec();
    for (letter, side) in [('x', width), ('y', height)] {
        if let Some(n) = axes.place(letter).and_then(|at| shape.get_mut(at)) {
            *n = side.into();
        }
    }
    shape
}
