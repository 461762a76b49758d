//! Where a point of a picture goes.

use crate::Placement;

/// Maps points of one picture to those of another; (0, 0) is the outer corner of the first pixel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Affine {
    /// The new column is `x[0]` · column + `x[1]` · row + `x[2]`.
    x: [f64; 3],
    y: [f64; 3],
}

impl Affine {
    /// Leaves every point where it is.
    pub const SAME: Self = Self { x: [1.0, 0.0, 0.0], y: [0.0, 1.0, 0.0] };

    /// What `place` does to the points of a picture.
    #[must_use]
    pub fn of(place: &Placement) -> Self {
        let Placement { region, resize, pad, .. } = *place;
        let kept = place.kept();
        let (left, top) = pad.map_or((0, 0), |pad| (pad.left, pad.top));
        let axis = |start: u32, len: u32, of: u32, cut: u32, before: u32| {
            let scale = f64::from(of) / f64::from(len.max(1));
            (scale, f64::from(before) - f64::from(cut) - f64::from(start) * scale)
        };
        let (scale, shift) = axis(region.x, region.width, resize.width, kept.x, left);
        let x = [scale, 0.0, shift];
        let (scale, shift) = axis(region.y, region.height, resize.height, kept.y, top);
        let y = [0.0, scale, shift];
        let placed = Self { x, y };
        match resize.flip {
            true => placed.then(&Self::mirror(place.size().0 as usize)),
            false => placed,
        }
    }

    /// Mirrors a picture of `width` columns left to right.
    #[must_use]
    pub fn mirror(width: usize) -> Self {
        Self { x: [-1.0, 0.0, width as f64], ..Self::SAME }
    }

    /// Mirrors a picture of `height` rows top to bottom.
    #[must_use]
    pub fn mirror_rows(height: usize) -> Self {
        Self { y: [0.0, -1.0, height as f64], ..Self::SAME }
    }

    /// Turns a square by a quarter, counter-clockwise.
    #[must_use]
    pub fn turn(side: usize) -> Self {
        Self { x: [0.0, 1.0, 0.0], y: [-1.0, 0.0, side as f64] }
    }

    /// Moves a picture right and down.
    #[must_use]
    pub fn shift(right: i64, down: i64) -> Self {
        Self { x: [1.0, 0.0, right as f64], y: [0.0, 1.0, down as f64] }
    }

    /// Does this first, and then `next`.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        let row = |of: [f64; 3]| {
            let [a, b, c] = of;
            [
                a * self.x[0] + b * self.y[0],
                a * self.x[1] + b * self.y[1],
                a * self.x[2] + b * self.y[2] + c,
            ]
        };
        Self { x: row(next.x), y: row(next.y) }
    }

    /// The way back; `None` if the picture has no area.
    #[must_use]
    pub fn back(&self) -> Option<Self> {
        let ([a, b, c], [d, e, f]) = (self.x, self.y);
        let area = a * e - b * d;
        let x = [e / area, -b / area, (b * f - e * c) / area];
        let y = [-d / area, a / area, (d * c - a * f) / area];
        let is_finite = x.iter().chain(&y).all(|n| n.is_finite());
        is_finite.then_some(Self { x, y })
    }

    /// The transform in GDAL's order: x = t0 + column·t1 + row·t2, y = t3 + column·t4 + row·t5.
    #[must_use]
    pub fn numbers(&self) -> [f64; 6] {
        let ([a, b, c], [d, e, f]) = (self.x, self.y);
        [c, a, b, f, d, e]
    }

    /// Reads what [`Self::numbers`] returns.
    #[must_use]
    pub fn of_numbers([c, a, b, f, d, e]: [f64; 6]) -> Self {
        Self { x: [a, b, c], y: [d, e, f] }
    }

    /// Where a point goes.
    #[must_use]
    pub fn point(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let of = |row: [f64; 3]| row[0] * x + row[1] * y + row[2];
        (of(self.x), of(self.y))
    }

    /// Where a box goes, whose sides are along the axes before and after: left, top, right, bottom.
    #[must_use]
    pub fn rect(&self, [left, top, right, bottom]: [f64; 4]) -> [f64; 4] {
        let ((a, b), (c, d)) = (self.point((left, top)), self.point((right, bottom)));
        [a.min(c), b.min(d), a.max(c), b.max(d)]
    }
}

#[cfg(test)]
mod tests {
    use gular_codec::{Rect, Resize};

    use super::*;
    use crate::Pad;

    #[test]
    fn points_go_where_pixels_go() {
        // The right half of 8 x 4 pixels, twice as large, of which 4 x 4 are kept, with a border.
        let resize = Resize::to(8, 8);
        let place = Placement {
            region: Rect::new(4, 0, 4, 4),
            resize,
            keep: Some(Rect::new(2, 4, 4, 4)),
            pad: Some(Pad { left: 1, top: 3, width: 10, height: 9 }),
        };
        let affine = Affine::of(&place);
        assert_eq!(affine.point((5.0, 2.0)), (1.0, 3.0));
        assert_eq!(affine.rect([5.0, 2.0, 7.0, 4.0]), [1.0, 3.0, 5.0, 7.0]);
        let flipped = Affine::of(&Placement { resize: Resize { flip: true, ..resize }, ..place });
        assert_eq!(flipped.rect([5.0, 2.0, 7.0, 4.0]), [5.0, 3.0, 9.0, 7.0]);
    }

    #[test]
    fn what_is_done_one_after_the_other_is_one() {
        let all = Affine::mirror(10).then(&Affine::turn(10)).then(&Affine::shift(1, -2));
        assert_eq!(all.point((2.0, 3.0)), (4.0, 0.0));
        let back =
            Affine::turn(6).then(&Affine::turn(6)).then(&Affine::turn(6)).then(&Affine::turn(6));
        assert_eq!(back.point((1.0, 4.0)), (1.0, 4.0));
        let way = Affine::mirror(10).then(&Affine::turn(10)).then(&Affine::shift(3, 1));
        assert_eq!(way.back().unwrap().point(way.point((2.0, 3.0))), (2.0, 3.0));
        assert_eq!(Affine::of_numbers(way.numbers()), way);
        assert_eq!(Affine::of_numbers([0.0; 6]).back(), None);
        assert_eq!(Affine::mirror_rows(6).point((1.0, 4.0)), (1.0, 2.0));
    }
}
