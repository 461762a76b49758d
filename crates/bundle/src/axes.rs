//! What the axes of an array mean. Format: `FORMAT.md`, "Fields".

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Dtype;

/// The letters an axis may have: time, depth, bands, rows, columns.
const LETTERS: &[u8] = b"tzcyx";

/// The meaning of each axis of an array, in the order of its shape: a text of the letters `t`
/// (time), `z` (depth), `c` (bands or channels), `y` (rows, from the top) and `x` (columns), each
/// at most once, such as `yxc`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Axes(String);

/// A text that does not name axes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` does not name axes: each is one of the letters `t` (time), `z` (depth), `c` (bands), \
     `y` (rows) and `x` (columns), and none occurs twice",
    found.escape_debug()
)]
pub struct AxesError {
    found: String,
}

/// The size of an array that is seen as pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridSize {
    /// Number of rows.
    pub height: u64,
    /// Number of columns.
    pub width: u64,
    /// Number of values at each place: the product of all other axes.
    pub channels: u64,
}

impl Axes {
    /// Most axes that can be named: one for each letter.
    pub const MOST: usize = LETTERS.len();

    /// Rows, columns, bands: as pictures and TIFF files have them.
    #[must_use]
    pub fn yxc() -> Self {
        Self("yxc".to_owned())
    }

    /// A series of [`Self::yxc`]: times, rows, columns, bands.
    #[must_use]
    pub fn tyxc() -> Self {
        Self("tyxc".to_owned())
    }

    /// Bands, rows, columns: as `rasterio` reads them.
    #[must_use]
    pub fn cyx() -> Self {
        Self("cyx".to_owned())
    }

    /// Rows, columns.
    #[must_use]
    pub fn yx() -> Self {
        Self("yx".to_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number of axes.
    #[must_use]
    pub fn n(&self) -> usize {
        self.0.len()
    }

    /// The place of the axis `letter`.
    #[must_use]
    pub fn place(&self, letter: char) -> Option<usize> {
        self.0.find(letter)
    }

    /// The axes of an array of which only type and shape are known, if they have one reading.
    ///
    /// Two axes are rows and columns. Of three, the first or the last holds the bands, if it is at
    /// most half as long as each other axis; and the last holds the colours of numbers of 8 or 16
    /// bits, if there are one or three.
    #[must_use]
    pub fn of_array(dtype: Dtype, shape: &[u64]) -> Option<Self> {
        let is_short = |one: u64, others: [u64; 2]| others.iter().all(|side| one <= side / 2);
        match *shape {
            [_, _] => Some(Self::yx()),
            [_, _, 1 | 3] if matches!(dtype, Dtype::U8 | Dtype::U16) => Some(Self::yxc()),
            [a, b, c] if is_short(c, [a, b]) => Some(Self::yxc()),
            [a, b, c] if is_short(a, [b, c]) => Some(Self::cyx()),
            _ => None,
        }
    }

    /// The rows, columns and channels of an array of `shape`; `None` if it has no rows or no
    /// columns, or if it has another number of axes.
    #[must_use]
    pub fn grid(&self, shape: &[u64]) -> Option<GridSize> {
        let side = |letter| self.place(letter).and_then(|at| shape.get(at).copied());
        let (height, width) = (side('y')?, side('x')?);
        let others = shape.iter().zip(self.0.chars()).filter(|(_, c)| !matches!(c, 'y' | 'x'));
        let channels = others.map(|(n, _)| *n).try_fold(1_u64, u64::checked_mul)?;
        (shape.len() == self.n()).then_some(GridSize { height, width, channels })
    }
}

impl FromStr for Axes {
    type Err = AxesError;

    fn from_str(text: &str) -> Result<Self, AxesError> {
        let once = |(at, letter)| text.bytes().take(at).all(|before| before != letter);
        let known = !text.is_empty() && text.bytes().all(|letter| LETTERS.contains(&letter));
        if known && text.bytes().enumerate().all(once) {
            return Ok(Self(text.to_owned()));
        }
        Err(AxesError { found: text.to_owned() })
    }
}

impl TryFrom<String> for Axes {
    type Error = AxesError;

    fn try_from(text: String) -> Result<Self, AxesError> {
        text.parse()
    }
}

impl From<Axes> for String {
    fn from(axes: Axes) -> Self {
        axes.0
    }
}

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_letters_that_occur_once() {
        for good in ["yx", "yxc", "cyx", "tcyx", "zyx", "c", "xy"] {
            assert_eq!(good.parse::<Axes>().map(String::from), Ok(good.to_owned()));
        }
        for bad in ["", "yy", "hwc", "y x", "YX", "yxcy", "é"] {
            let error = bad.parse::<Axes>().unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("`y` (rows)"), "{error}");
        }
    }

    #[test]
    fn a_shape_tells_its_axes_only_if_there_is_one_reading() {
        let of = |shape: &[u64]| Axes::of_array(Dtype::F32, shape).map(String::from);
        for (shape, axes) in [
            (&[64, 48][..], "yx"),
            (&[64, 48, 3], "yxc"),
            (&[12, 64, 64], "cyx"),
            (&[1, 28, 28], "cyx"),
            (&[2, 2, 1], "yxc"),
        ] {
            assert_eq!(of(shape).as_deref(), Some(axes), "{shape:?}");
        }
        for shape in [&[7][..], &[64, 64, 64], &[9, 9, 200], &[224, 64, 64], &[3, 64, 3], &[1; 4]] {
            assert_eq!(of(shape), None, "{shape:?}");
        }
        assert_eq!(Axes::of_array(Dtype::U8, &[4, 3, 3]), Some(Axes::yxc()));
    }

    #[test]
    fn a_grid_is_what_the_axes_say() {
        let grid = |axes: &str, shape: &[u64]| {
            let axes: Axes = axes.parse().unwrap();
            axes.grid(shape).map(|grid| (grid.height, grid.width, grid.channels))
        };
        assert_eq!(grid("cyx", &[12, 64, 48]), Some((64, 48, 12)));
        assert_eq!(grid("yxc", &[64, 48, 12]), Some((64, 48, 12)));
        assert_eq!(grid("tcyx", &[5, 4, 64, 48]), Some((64, 48, 20)));
        assert_eq!(grid("yx", &[64, 48]), Some((64, 48, 1)));
        assert_eq!(grid("yx", &[64, 48, 3]), None);
        assert_eq!(grid("tc", &[5, 4]), None);
        assert_eq!(grid("tcyx", &[u64::MAX, 4, 64, 48]), None);
    }
}
