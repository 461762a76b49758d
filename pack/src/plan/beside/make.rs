//! What the files of a field become.

use gular_bundle::{Axes, Dtype};
use gular_codec::Fit;

/// The values that a field's files become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Make {
    /// The bytes of each file.
    Bytes,
    /// The bytes of each file, which is a mask of its image's size.
    Mask,
    /// The bytes of each file, which is a picture of its image's size.
    Picture { one_channel: bool },
    /// Numbers of one type and shape; on its image's pixels, or of any size.
    Array { dtype: Dtype, shape: Vec<u64>, axes: Option<Axes>, on_image: bool },
    /// The part of a scene that matches the image's tile.
    Window { dtype: Dtype, side: u32, mask: bool },
    /// A mask on the grid of its image, or of the image's tile of so many columns and rows.
    Resampled { dtype: Dtype, tile: Option<u32> },
    /// A mask of the shape that its image is brought to.
    Fitted { dtype: Dtype, to: (u32, u32), fit: Fit },
}

/// What is wrong with a file of another size than its image, where the file `like` has that size.
pub(crate) fn unlike(reason: &str, like: &str) -> String {
    format!("{reason}; `{like}` has the size of its image")
}

/// What is wrong with a file of `found` = (columns, rows).
pub(crate) fn other_size(found: (u32, u32), image: (u32, u32)) -> String {
    let ((width, height), (of_image, rows_of_image)) = (found, image);
    format!("it has {width} x {height} pixels, but its image has {of_image} x {rows_of_image}")
}
