//! The EXIF orientation of a picture, and how its pixels are rotated to be upright.

use crate::{
    Rect,
    picture::{CHANNELS, View},
};

/// How stored pixels are turned to stand upright: EXIF tag 0x0112, values 1 to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Orientation {
    /// 1: stored upright.
    #[default]
    Normal = 1,
    /// 2: mirrored left to right.
    FlipHorizontal = 2,
    /// 3: turned by 180 degrees.
    Rotate180 = 3,
    /// 4: mirrored top to bottom.
    FlipVertical = 4,
    /// 5: mirrored at the main diagonal.
    Transpose = 5,
    /// 6: to be turned clockwise by 90 degrees.
    Rotate90 = 6,
    /// 7: mirrored at the other diagonal.
    Transverse = 7,
    /// 8: to be turned clockwise by 270 degrees.
    Rotate270 = 8,
}

impl Orientation {
    /// Returns the orientation with an EXIF value; `None` outside 1 to 8.
    pub fn from_exif(value: u16) -> Option<Self> {
        use Orientation::*;
        [
            Normal,
            FlipHorizontal,
            Rotate180,
            FlipVertical,
            Transpose,
            Rotate90,
            Transverse,
            Rotate270,
        ]
        .into_iter()
        .find(|orientation| *orientation as u16 == value)
    }

    /// Returns (rows become columns, stored x runs backwards, stored y runs backwards).
    fn axes(self) -> (bool, bool, bool) {
        match self {
            Self::Normal => (false, false, false),
            Self::FlipHorizontal => (false, true, false),
            Self::Rotate180 => (false, true, true),
            Self::FlipVertical => (false, false, true),
            Self::Transpose => (true, false, false),
            Self::Rotate90 => (true, false, true),
            Self::Transverse => (true, true, true),
            Self::Rotate270 => (true, true, false),
        }
    }

    /// Returns the size of the upright picture, from the stored size.
    pub(crate) fn upright_size(self, width: u32, height: u32) -> (u32, u32) {
        if self.axes().0 { (height, width) } else { (width, height) }
    }

    /// Returns where the rectangle `upright` is in the stored picture of `width` by `height`, which
    /// contains it.
    pub(crate) fn stored_rect(self, upright: Rect, width: u32, height: u32) -> Rect {
        let (swap, back_x, back_y) = self.axes();
        let across = (upright.x, upright.width);
        let down = (upright.y, upright.height);
        let (along_x, along_y) = if swap { (down, across) } else { (across, down) };
        let start = |(start, len): (u32, u32), end: u32, back| {
            if back { end - start - len } else { start }
        };
        Rect {
            x: start(along_x, width, back_x),
            y: start(along_y, height, back_y),
            width: along_x.1,
            height: along_y.1,
        }
    }

    /// Returns where the rectangle `stored` of a stored picture of `width` by `height` is in the
    /// upright one.
    pub(crate) fn upright_rect(self, stored: Rect, width: u32, height: u32) -> Rect {
        // This orientation rotates the upright picture back.
        let back = match self {
            Self::Rotate90 => Self::Rotate270,
            Self::Rotate270 => Self::Rotate90,
            other => other,
        };
        let (width, height) = self.upright_size(width, height);
        back.stored_rect(stored, width, height)
    }

    /// Returns the stored column and row of the upright picture's pixel (`x`, `y`); the stored
    /// picture is `width` by `height`.
    pub(crate) fn stored_pixel(
        self,
        (x, y): (usize, usize),
        (width, height): (usize, usize),
    ) -> (usize, usize) {
        let (swap, back_x, back_y) = self.axes();
        let (x, y) = if swap { (y, x) } else { (x, y) };
        (if back_x { width - 1 - x } else { x }, if back_y { height - 1 - y } else { y })
    }

    /// Copies stored pixels into `out`, upright and without gaps.
    pub(crate) fn copy_upright(self, view: View<'_>, out: &mut [u8]) {
        let (swap, back_x, back_y) = self.axes();
        let rows = view.rows();
        if swap {
            let columns = view.rect.height as usize;
            for (y, row) in rows.enumerate() {
                let column = if back_y { columns - 1 - y } else { y };
                put_column(row, back_x, column, columns, out);
            }
        } else {
            let lines = out.chunks_exact_mut(view.rect.width as usize * CHANNELS);
            if back_y {
                lines.zip(rows.rev()).for_each(|(line, row)| put_row(row, back_x, line));
            } else {
                lines.zip(rows).for_each(|(line, row)| put_row(row, back_x, line));
            }
        }
    }
}

fn put_row(row: &[u8], backwards: bool, out: &mut [u8]) {
    out.copy_from_slice(row);
    if backwards {
        mirror_row(out);
    }
}

/// Writes a stored row as column `column` of an upright picture of `columns` columns.
fn put_column(row: &[u8], backwards: bool, column: usize, columns: usize, out: &mut [u8]) {
    let cells = out.chunks_exact_mut(CHANNELS).skip(column).step_by(columns);
    let pixels = row.chunks_exact(CHANNELS);
    if backwards {
        cells.zip(pixels.rev()).for_each(|(cell, pixel)| cell.copy_from_slice(pixel));
    } else {
        cells.zip(pixels).for_each(|(cell, pixel)| cell.copy_from_slice(pixel));
    }
}

/// Mirrors one row of RGB pixels in place.
pub(crate) fn mirror_row(row: &mut [u8]) {
    let (pixels, _) = row.as_chunks_mut::<CHANNELS>();
    pixels.reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored pixels, 3 wide and 2 high, each named by a letter.
    const STORED: [&str; 2] = ["abc", "def"];

    fn upright(value: u16, region: Option<Rect>) -> Vec<String> {
        let orientation = Orientation::from_exif(value).unwrap();
        let pixels: Vec<u8> = STORED.concat().bytes().flat_map(|b| [b; CHANNELS]).collect();
        let (width, height) = orientation.upright_size(3, 2);
        let region = region.unwrap_or(Rect::whole(width, height));
        let stored = orientation.stored_rect(region, 3, 2);
        assert_eq!(orientation.upright_rect(stored, 3, 2), region);
        let view = View { pixels: &pixels, stride: 3, rect: stored };
        let mut out = vec![0; region.width as usize * region.height as usize * CHANNELS];
        orientation.copy_upright(view, &mut out);
        for (i, cell) in out.chunks(CHANNELS).enumerate() {
            let columns = region.width as usize;
            let at = (region.x as usize + i % columns, region.y as usize + i / columns);
            let (x, y) = orientation.stored_pixel(at, (3, 2));
            assert_eq!(cell[0], STORED[y].as_bytes()[x]);
        }
        out.chunks(region.width as usize * CHANNELS)
            .map(|row| row.iter().step_by(CHANNELS).map(|b| char::from(*b)).collect())
            .collect()
    }

    #[test]
    fn each_exif_value_turns_as_the_standard_says() {
        let check =
            |value, expected: &[&str]| assert_eq!(upright(value, None), expected, "{value}");
        check(1, &["abc", "def"]);
        check(2, &["cba", "fed"]);
        check(3, &["fed", "cba"]);
        check(4, &["def", "abc"]);
        check(5, &["ad", "be", "cf"]);
        check(6, &["da", "eb", "fc"]);
        check(7, &["fc", "eb", "da"]);
        check(8, &["cf", "be", "ad"]);
        assert_eq!(Orientation::from_exif(0), None);
        assert_eq!(Orientation::from_exif(9), None);
    }

    #[test]
    fn every_region_is_the_same_part_of_the_upright_picture() {
        for value in 1..=8 {
            let whole = upright(value, None);
            let (width, height) = (whole[0].len() as u32, whole.len() as u32);
            for x in 0..width {
                for y in 0..height {
                    for w in 1..=width - x {
                        for h in 1..=height - y {
                            let cut: Vec<String> = whole[y as usize..(y + h) as usize]
                                .iter()
                                .map(|row| row[x as usize..(x + w) as usize].to_owned())
                                .collect();
                            assert_eq!(upright(value, Some(Rect::new(x, y, w, h))), cut);
                        }
                    }
                }
            }
        }
    }
}
