//! A rectangle of pixels.

use std::fmt;

/// A rectangle in pixels, `x` to the right and `y` downwards from the top left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rect {
    /// First column.
    pub x: u32,
    /// First row.
    pub y: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Rect {
    /// Makes the rectangle at (`x`, `y`) of `width` by `height`.
    pub fn new(x: u32, y: u32, width: u32, height: u32) -> Self {
        Self { x, y, width, height }
    }

    /// Makes the rectangle that covers a whole image.
    pub fn whole(width: u32, height: u32) -> Self {
        Self::new(0, 0, width, height)
    }

    /// Returns the same place, counted from the corner of `outer`, which contains it.
    pub(crate) fn within(self, outer: Self) -> Self {
        Self { x: self.x - outer.x, y: self.y - outer.y, ..self }
    }
}

impl fmt::Display for Rect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { x, y, width, height } = self;
        write!(f, "{width} x {height} at ({x}, {y})")
    }
}
