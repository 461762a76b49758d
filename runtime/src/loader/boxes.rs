//! Boxes of objects, moved with their image. Format: `FORMAT.md`, "Fields".

use gular_augment::Affine;
use gular_bundle::{Dtype, Npy, npy_header};

/// Left, top, right and bottom of each box, as fractions of the image's width and height.
pub(super) const BOXES: &str = "boxes";
/// What is said of each box, in the order of the boxes.
pub(super) const OF_BOXES: [&str; 2] = ["box_labels", "box_crowd"];

/// The shortest side of a box that stays, in pixels: as torchvision's `SanitizeBoundingBoxes` has
/// it, after `ClampBoundingBoxes`.
const SHORTEST: f64 = 1.0;

/// Moves the boxes of `file`, a value of field `boxes`, as the image of size `from` became one of
/// size `to`, in one or more steps: those partly outside are cut, and those of which less than a pixel is left are
/// dropped. Returns for each box whether it stays; `None` for what is not such a value.
pub(super) fn move_boxes(
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

/// Whether a box of `file` reaches beyond its image, so that it must be cut although the whole image
/// is used.
pub(super) fn reach_beyond(file: &[u8]) -> bool {
    let numbers = rows(file, Dtype::F64, 4).unwrap_or_default().as_chunks::<8>().0;
    numbers.iter().any(|number| !(0.0..=1.0).contains(&f64::from_le_bytes(*number)))
}

/// Leaves out of `file`, a value of a field in [`OF_BOXES`], what belongs to boxes that do not
/// stay.
pub(super) fn keep_rows(file: &mut Vec<u8>, stay: &[bool]) -> Option<()> {
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
        assert!(!reach_beyond(&boxes(&[[0.0, 0.1, 1.0, 0.9]])) && !reach_beyond(&boxes(&[])));
        let beyond = boxes(&[[0.1, 0.1, 0.4, 0.9], [0.5, -0.2, 0.9, 0.7]]);
        assert!(reach_beyond(&beyond));
    }
}
