//! The facts about a picture that its file gives before any pixel is decoded.

use crate::{Format, Orientation};

/// The facts about a picture that its file gives, read before any pixel is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The file's format, by content.
    pub format: Format,
    /// Stored columns, before orientation.
    pub width: u32,
    /// Stored rows, before orientation.
    pub height: u32,
    /// Stored channels: 1 grey, 2 grey and alpha, 3 colour (also a palette), 4 colour
    /// and alpha, or CMYK.
    pub channels: u8,
    /// Bits of a stored sample, or of an index if there is a palette.
    pub bit_depth: u8,
    /// How the picture is turned to be upright.
    pub orientation: Orientation,
    /// Whether it is a progressive JPEG or an interlaced PNG.
    pub progressive: bool,
}

impl Header {
    /// (width, height) of the picture when it is upright.
    pub fn upright_size(&self) -> (u32, u32) {
        self.orientation.upright_size(self.width, self.height)
    }
}
