//! Brings pixels to another size by cutting off or adding columns and rows.

use gular_bundle::{Axes, Dtype};
use gular_codec::Limits;
use gular_codec::tiff::Pages;

use crate::facts::{ArrayValues, Fault, array};
use crate::plan::{Frame, with_size};

/// An array that is brought to one size.
pub(crate) struct Framed<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) dtype: Dtype,
    /// The shape that it gets.
    pub(crate) shape: &'a [u64],
    pub(crate) axes: &'a Axes,
    /// The number beyond a mask; of others it is nodata, or 0.
    pub(crate) fill: Option<&'a [u8]>,
}

impl Framed<'_> {
    /// Reads the array in a file.
    pub(crate) fn read(
        &self,
        file: &[u8],
        limits: &Limits,
        pages: Pages,
    ) -> Result<ArrayValues, Fault> {
        let Self { frame, dtype, shape, axes, fill } = *self;
        let size = size(file, shape, axes, limits, pages)?;
        let (x, y) = frame.corner(size)?;
        let own = with_size(shape, axes, size);
        let ArrayValues { values, geo, valid } = array::values(file, dtype, &own, limits, pages)?;
        let bytes = usize::try_from(dtype.size_bytes()).unwrap_or(1);
        let after = axes.place('x').and_then(|at| shape.get(at + 1..)).unwrap_or_default();
        let pixel = after.iter().fold(bytes as u64, |all, n| all.saturating_mul(*n));
        let nodata = geo.as_ref().and_then(|geo| geo.nodata);
        let nodata = nodata.and_then(|nodata| array::number_of(dtype)?.encode(nodata));
        let is_padded = size.0 < frame.size.0 || size.1 < frame.size.1;
        let valid = match valid {
            None if is_padded && nodata.is_none() => {
                let channels = axes.place('c').and_then(|at| own.get(at)).copied().unwrap_or(1);
                let numbers: u64 = own.iter().product();
                Some(vec![1; usize::try_from(numbers / channels.max(1)).unwrap_or(0)])
            }
            valid => valid,
        };
        let fill = fill.or(nodata.as_deref()).map_or_else(|| vec![0; bytes], <[u8]>::to_vec);
        let pixel = usize::try_from(pixel).unwrap_or(usize::MAX);
        Ok(ArrayValues {
            values: framed(&values, size, frame.size, pixel, &fill),
            geo: geo.map(|geo| geo.of_window(x, y)),
            valid: valid.map(|valid| framed(&valid, size, frame.size, 1, &[0])),
        })
    }
}

/// Columns and rows of an array that may have another size than `shape` says.
pub(crate) fn size(
    file: &[u8],
    shape: &[u64],
    axes: &Axes,
    limits: &Limits,
    pages: Pages,
) -> Result<(u32, u32), Fault> {
    let mut found = array::kind(file, limits, pages)?.map(|(_, shape)| shape).unwrap_or_default();
    // A picture of one band may leave that axis out.
    if found.len() == shape.len() + 1 && found.last() == Some(&1) {
        found.pop();
    }
    let grid = axes.grid(&found).ok_or_else(|| {
        let reason = format!("it has the shape {found:?}, not the axes `{axes}`");
        Fault::new(reason, None)
    })?;
    let side = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Ok((side(grid.width), side(grid.height)))
}

/// Pictures of `from` = (columns, rows), one after another, each brought to the size `to`: the middle
/// of more columns and rows, and fewer ones continued to the right and down with the number `fill`.
/// A pixel has `pixel` bytes.
pub(crate) fn framed(
    values: &[u8],
    from: (u32, u32),
    to: (u32, u32),
    pixel: usize,
    fill: &[u8],
) -> Vec<u8> {
    let [width, height, to_width, to_height] = [from.0, from.1, to.0, to.1].map(|n| n as usize);
    let (left, top) = (width.saturating_sub(to_width) / 2, height.saturating_sub(to_height) / 2);
    let kept = left * pixel..(left + to_width.min(width)) * pixel;
    let empty = fill.repeat(to_width * pixel / fill.len().max(1));
    let planes = values.chunks_exact((width * height * pixel).max(1));
    let mut made = Vec::with_capacity(planes.len() * to_height * empty.len());
    for plane in planes {
        let rows = plane.chunks_exact(width * pixel).skip(top).take(to_height);
        for row in rows {
            let row = row.get(kept.clone()).unwrap_or_default();
            made.extend_from_slice(row);
            made.extend_from_slice(empty.get(row.len()..).unwrap_or_default());
        }
        made.extend(empty.repeat(to_height.saturating_sub(height)));
    }
    made
}

#[cfg(test)]
mod tests {
    use super::framed;

    #[test]
    fn sides_are_cut_in_the_middle_or_continued() {
        let check = |from: (u32, u32), to: (u32, u32), expected: &[u8]| {
            let values: Vec<u8> = (1..=2 * (from.0 * from.1) as u8).collect();
            assert_eq!(framed(&values, from, to, 1, &[0]), expected, "{from:?} {to:?}");
        };
        check((2, 2), (2, 2), &[1, 2, 3, 4, 5, 6, 7, 8]);
        check((2, 2), (3, 3), &[1, 2, 0, 3, 4, 0, 0, 0, 0, 5, 6, 0, 7, 8, 0, 0, 0, 0]);
        check((3, 3), (1, 1), &[5, 14]);
        check((4, 1), (2, 2), &[2, 3, 0, 0, 6, 7, 0, 0]);
        assert_eq!(framed(&[1, 2, 3, 4], (1, 1), (2, 1), 4, &[8, 9]), [1, 2, 3, 4, 8, 9, 8, 9]);
    }
}
