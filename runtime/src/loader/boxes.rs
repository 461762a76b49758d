//! Boxes of objects, and points, moved with their image. Format: `FORMAT.md`, "Fields".

use gular_augment::Affine;
use gular_bundle::{Dtype, FieldIdx, Npy, npy_header};

/// Left, top, right and bottom of each box, as fractions of the image's width and height.
const BOXES: &str = "boxes";
/// What is said of each box, in the order of the boxes.
pub(super) const OF_BOXES: [&str; 2] = ["box_labels", "box_crowd"];
/// Column, row and visibility of the points of each box, in the order of the boxes.
const KEYPOINTS: &str = "keypoints";
/// Column and row of each point, as fractions of the image's width and height.
pub(super) const POINTS: &str = "points";
/// What is said of each point, in the order of the points.
const OF_POINTS: &str = "point_labels";

/// What the rows of a value are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoordinateKind {
    Boxes,
    /// What is said of each box.
    OfBoxes,
    /// Points of what is in each box.
    Keypoints,
    Points,
    /// What is said of each point.
    OfPoints,
}

impl CoordinateKind {
    /// Whether its values are coordinates.
    pub(super) fn is_moved(self) -> bool {
        matches!(self, Self::Boxes | Self::Keypoints | Self::Points)
    }
}

/// The field whose rows the rows of another one belong to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Related {
    /// A word for one row.
    pub(super) each: &'static str,
    pub(super) of: &'static str,
}

/// What the rows of the field `name` are, in a bundle that `has` other fields, and which of these they
/// belong to.
pub(super) fn coordinate_kind(
    name: &str,
    has: &dyn Fn(&str) -> bool,
) -> Option<(CoordinateKind, Option<Related>)> {
    use CoordinateKind::{Boxes, Keypoints, OfBoxes, OfPoints, Points};
    let of_box = has(BOXES).then_some(Related { each: "box", of: BOXES });
    let of_point = has(POINTS).then_some(Related { each: "point", of: POINTS });
    match name {
        BOXES => Some((Boxes, None)),
        name if OF_BOXES.contains(&name) => Some((OfBoxes, of_box)),
        // Columns of a table may have these names, too, and be in pixels: `has` knows of points by
        // what the manifest says of them.
        KEYPOINTS => of_box.map(|of| (Keypoints, Some(of))),
        POINTS => has(POINTS).then_some((Points, None)),
        OF_POINTS => of_point.map(|of| (OfPoints, Some(of))),
        _ => None,
    }
}

/// The shortest side of a box that stays, in pixels: as torchvision's `SanitizeBoundingBoxes` has
/// it, after `ClampBoundingBoxes`.
const SHORTEST: f64 = 1.0;

/// A value of a field.
type FieldValue<'a> = (FieldIdx, &'a mut Vec<u8>);

/// The values of a sample that are coordinates on its image, or are said of some.
#[derive(Default)]
pub(super) struct Coordinates<'a> {
    boxes: Option<FieldValue<'a>>,
    of_boxes: Vec<FieldValue<'a>>,
    keypoints: Option<FieldValue<'a>>,
    points: Option<FieldValue<'a>>,
    of_points: Vec<FieldValue<'a>>,
}

impl<'a> Coordinates<'a> {
    /// Takes a value.
    pub(super) fn add(&mut self, kind: CoordinateKind, field: FieldIdx, value: &'a mut Vec<u8>) {
        match kind {
            CoordinateKind::Boxes => self.boxes = Some((field, value)),
            CoordinateKind::OfBoxes => self.of_boxes.push((field, value)),
            CoordinateKind::Keypoints => self.keypoints = Some((field, value)),
            CoordinateKind::Points => self.points = Some((field, value)),
            CoordinateKind::OfPoints => self.of_points.push((field, value)),
        }
    }

    /// Whether there are boxes or points.
    pub(super) fn are_there(&self) -> bool {
        self.boxes.is_some() || self.points.is_some()
    }

    /// Whether a box, or a point, reaches beyond its image, so that it must be cut or dropped although
    /// the whole image is used.
    pub(super) fn reach_beyond(&self) -> bool {
        let is_beyond = |value: &Option<FieldValue<'_>>, columns| {
            value.as_ref().is_some_and(|(_, file)| reach_beyond(file, columns))
        };
        is_beyond(&self.boxes, 4) || is_beyond(&self.points, 2)
    }

    /// Moves all as the image of size `from` became one of size `to`.
    ///
    /// # Errors
    /// The field whose value is not of its kind, or has another number of rows.
    pub(super) fn move_by(
        self,
        steps: &[Affine],
        from: (u32, u32),
        to: (u32, u32),
    ) -> Result<(), FieldIdx> {
        if let Some((field, boxes)) = self.boxes {
            let stay = move_boxes(boxes, steps, from, to).ok_or(field)?;
            for (field, value) in self.of_boxes {
                keep_rows(value, &stay).ok_or(field)?;
            }
            if let Some((field, value)) = self.keypoints {
                move_keypoints(value, steps, from, to, &stay).ok_or(field)?;
            }
        }
        if let Some((field, points)) = self.points {
            let stay = move_points(points, steps, from, to).ok_or(field)?;
            for (field, value) in self.of_points {
                keep_rows(value, &stay).ok_or(field)?;
            }
        }
        Ok(())
    }
}

/// Moves the boxes of `file`, a value of field `boxes`, as the image of size `from` became one of
/// size `to`, in one or more steps: those partly outside are cut, and those of which less than a pixel is left are
/// dropped. Returns for each box whether it stays; `None` for what is not such a value.
fn move_boxes(
    file: &mut Vec<u8>,
    steps: &[Affine],
    from: (u32, u32),
    to: (u32, u32),
) -> Option<Vec<bool>> {
    let rows = rows(file, Dtype::F64, 4)?;
    let sides = |(width, height): (u32, u32)| [width, height, width, height].map(f64::from);
    let (from, to) = (sides(from), sides(to));
    let (mut stay, mut kept) = (Vec::new(), Vec::new());
    for row in rows.chunks_exact(32) {
        let (numbers, _) = row.as_chunks::<8>();
        let mut sides = [0.0; 4];
        for ((side, number), of) in sides.iter_mut().zip(numbers).zip(from) {
            *side = f64::from_le_bytes(*number) * of;
        }
        for step in steps {
            // What a step cuts off does not come back with the next one.
            sides = step.rect(sides);
            sides.iter_mut().zip(to).for_each(|(side, of)| *side = side.clamp(0.0, of));
        }
        let [left, top, right, bottom] = sides;
        let stays = right - left >= SHORTEST && bottom - top >= SHORTEST;
        stay.push(stays);
        if stays {
            let fractions = sides.into_iter().zip(to).map(|(side, of)| side / of);
            kept.extend(fractions.flat_map(f64::to_le_bytes));
        }
    }
    let n = kept.len() as u64 / 32;
    *file = [npy_header(Dtype::F64, &[n, 4]), kept].concat();
    Some(stay)
}

/// Moves the points of `file`, a value of field `points`, as [`move_boxes`] does boxes: those that
/// leave the picture are dropped. Returns for each whether it stays.
fn move_points(
    file: &mut Vec<u8>,
    steps: &[Affine],
    from: (u32, u32),
    to: (u32, u32),
) -> Option<Vec<bool>> {
    let rows = rows(file, Dtype::F64, 2)?;
    let (mut stay, mut kept) = (Vec::new(), Vec::new());
    for row in rows.as_chunks::<16>().0 {
        let [x, y] = numbers_of(row);
        let moved = move_point((x, y), steps, from, to);
        stay.push(moved.is_some());
        kept.extend(moved.into_iter().flatten().flat_map(f64::to_le_bytes));
    }
    let n = kept.len() as u64 / 16;
    *file = [npy_header(Dtype::F64, &[n, 2]), kept].concat();
    Some(stay)
}

/// Moves the points of `file`, a value of field `keypoints`, and leaves out those of boxes that do not
/// `stay`. Points that leave the picture are no longer known.
fn move_keypoints(
    file: &mut Vec<u8>,
    steps: &[Affine],
    from: (u32, u32),
    to: (u32, u32),
    stay: &[bool],
) -> Option<()> {
    let npy = Npy::parse(file).ok()?;
    let &[n, columns] = npy.shape.as_slice() else { return None };
    let rows = rows(file, Dtype::F64, columns)?;
    if columns % 3 != 0 || n != stay.len() as u64 {
        return None;
    }
    let mut kept = Vec::new();
    let row_bytes = usize::try_from(columns).ok()?.checked_mul(8)?;
    for row in rows
        .chunks_exact(row_bytes.max(1))
        .zip(stay)
        .filter_map(|(row, stays)| stays.then_some(row))
    {
        for point in row.as_chunks::<24>().0 {
            let [x, y, known] = numbers_of(point);
            let moved = move_point((x, y), steps, from, to).filter(|_| known > 0.0);
            let [x, y, known] = moved.map_or([0.0; 3], |[x, y]| [x, y, known]);
            kept.extend([x, y, known].into_iter().flat_map(f64::to_le_bytes));
        }
    }
    let n = stay.iter().filter(|stays| **stays).count() as u64;
    *file = [npy_header(Dtype::F64, &[n, columns]), kept].concat();
    Some(())
}

/// Where a point goes, in fractions before and after; `None` if one of the steps takes it out of the
/// picture.
fn move_point(
    (x, y): (f64, f64),
    steps: &[Affine],
    from: (u32, u32),
    to: (u32, u32),
) -> Option<[f64; 2]> {
    let (width, height) = (f64::from(to.0), f64::from(to.1));
    let mut point = (x * f64::from(from.0), y * f64::from(from.1));
    for step in steps {
        point = step.point(point);
        if !(0.0..=width).contains(&point.0) || !(0.0..=height).contains(&point.1) {
            return None;
        }
    }
    Some([point.0 / width, point.1 / height])
}

fn numbers_of<const BYTES: usize, const N: usize>(bytes: &[u8; BYTES]) -> [f64; N] {
    let numbers = bytes.as_chunks::<8>().0;
    std::array::from_fn(|at| numbers.get(at).map_or(0.0, |of| f64::from_le_bytes(*of)))
}

/// Whether a row of `file`, which has so many numbers, has one beyond its image.
fn reach_beyond(file: &[u8], columns: u64) -> bool {
    let numbers = rows(file, Dtype::F64, columns).unwrap_or_default().as_chunks::<8>().0;
    numbers.iter().any(|number| !(0.0..=1.0).contains(&f64::from_le_bytes(*number)))
}

/// Leaves out of `file`, a value of a field in [`OF_BOXES`], what belongs to boxes that do not
/// stay.
fn keep_rows(file: &mut Vec<u8>, stay: &[bool]) -> Option<()> {
    let rows = rows(file, Dtype::I64, 1)?;
    if rows.len() != stay.len() * 8 {
        return None;
    }
    let rows = rows.chunks_exact(8).zip(stay).filter(|(_, stays)| **stays);
    let kept: Vec<u8> = rows.flat_map(|(row, _)| row.iter().copied()).collect();
    let n = kept.len() as u64 / 8;
    *file = [npy_header(Dtype::I64, &[n]), kept].concat();
    Some(())
}

/// The numbers of an npy file of `columns` columns.
fn rows(file: &[u8], dtype: Dtype, columns: u64) -> Option<&[u8]> {
    let npy = Npy::parse(file).ok()?;
    let fits = match *npy.shape.as_slice() {
        [_] => columns == 1,
        [_, n] => n == columns,
        _ => false,
    };
    let data = file.get(usize::try_from(npy.data_at).ok()?..)?;
    let is_plain = npy.dtype == dtype && !npy.big_endian && (!npy.fortran || columns == 1);
    (fits && is_plain && npy.data_bytes() == Some(data.len() as u64)).then_some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxes(of: &[[f64; 4]]) -> Vec<u8> {
        let numbers = of.as_flattened().iter().flat_map(|v| v.to_le_bytes()).collect();
        [npy_header(Dtype::F64, &[of.len() as u64, 4]), numbers].concat()
    }

    #[test]
    fn boxes_are_cut_and_dropped_with_what_is_said_of_them() {
        // 20 x 10 pixels, moved left by 10, of which 8 x 10 are left.
        let moved = &[Affine::shift(-10, 0)];
        let mut file = boxes(&[
            [0.6, 0.1, 0.7, 0.5],
            [0.0, 0.0, 1.0, 1.0],
            [0.1, 0.1, 0.4, 0.9],
            [0.8, 0.0, 0.96, 0.05],
        ]);
        let stay = move_boxes(&mut file, moved, (20, 10), (8, 10)).unwrap();
        assert_eq!(stay, [true, true, false, false]);
        assert_eq!(file, boxes(&[[0.25, 0.1, 0.5, 0.5], [0.0, 0.0, 1.0, 1.0]]));
        let numbers = |of: &[i64]| {
            let numbers: Vec<u8> = of.iter().flat_map(|v| v.to_le_bytes()).collect();
            [npy_header(Dtype::I64, &[of.len() as u64]), numbers].concat()
        };
        let mut labels = numbers(&[4, 5, 6, 7]);
        keep_rows(&mut labels, &stay).unwrap();
        assert_eq!(labels, numbers(&[4, 5]));
        assert_eq!(keep_rows(&mut labels, &stay), None);
        let mut none = boxes(&[]);
        assert_eq!(move_boxes(&mut none, moved, (20, 10), (8, 10)), Some(Vec::new()));
        assert_eq!(move_boxes(&mut labels, moved, (20, 10), (8, 10)), None);
        // A box that left the picture does not come back.
        let there_and_back = &[Affine::shift(-10, 0), Affine::shift(10, 0)];
        let mut file = boxes(&[[0.1, 0.1, 0.4, 0.9]]);
        assert_eq!(move_boxes(&mut file, there_and_back, (20, 10), (20, 10)), Some(vec![false]));
        let reach_beyond = |file: &[u8]| reach_beyond(file, 4);
        assert!(!reach_beyond(&boxes(&[[0.0, 0.1, 1.0, 0.9]])) && !reach_beyond(&boxes(&[])));
        let beyond = boxes(&[[0.1, 0.1, 0.4, 0.9], [0.5, -0.2, 0.9, 0.7]]);
        assert!(reach_beyond(&beyond));
    }
    #[test]
    fn points_that_leave_the_picture_are_dropped_or_no_longer_known() {
        let file = |shape: &[u64], numbers: &[f64]| {
            let numbers = numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
            [npy_header(Dtype::F64, shape), numbers].concat()
        };
        // 20 x 10 pixels, moved left by 10, of which 8 x 10 are left.
        let moved = &[Affine::shift(-10, 0)];
        let mut points = file(&[4, 2], &[0.6, 0.1, 0.4, 0.5, 0.9, 1.0, 0.95, 0.5]);
        let stay = move_points(&mut points, moved, (20, 10), (8, 10)).unwrap();
        assert_eq!(stay, [true, false, true, false]);
        assert_eq!(points, file(&[2, 2], &[0.25, 0.1, 1.0, 1.0]));
        let of_boxes = [
            [0.6, 0.1, 2.0, 0.4, 0.5, 1.0],
            [0.7, 0.1, 2.0, 0.8, 0.5, 1.0],
            [0.0, 0.0, 0.0, 0.7, 0.5, 1.0],
        ];
        let mut keypoints = file(&[3, 6], of_boxes.as_flattened());
        move_keypoints(&mut keypoints, moved, (20, 10), (8, 10), &[true, false, true]).unwrap();
        let expected = [[0.25, 0.1, 2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.5, 0.5, 1.0]];
        assert_eq!(keypoints, file(&[2, 6], expected.as_flattened()));
        let mut other = file(&[1, 4], &[0.0; 4]);
        assert_eq!(move_keypoints(&mut other, moved, (20, 10), (8, 10), &[true]), None);
        assert_eq!(move_keypoints(&mut keypoints, moved, (20, 10), (8, 10), &[true]), None);
        let mut none = file(&[0, 6], &[]);
        assert_eq!(move_keypoints(&mut none, moved, (20, 10), (8, 10), &[]), Some(()));
        // A point that left the picture does not come back.
        let there_and_back = &[Affine::shift(-10, 0), Affine::shift(10, 0)];
        let mut points = file(&[1, 2], &[0.1, 0.1]);
        assert_eq!(move_points(&mut points, there_and_back, (20, 10), (20, 10)), Some(vec![false]));
        assert!(reach_beyond(&file(&[1, 2], &[0.5, 1.2]), 2));
    }
}
