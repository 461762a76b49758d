//! Images in a `.beton`: JPEG, whose sizes are in the allocation table, or pixels.

use crate::envelope::foreign::ffcv::header::Header;
use crate::envelope::foreign::le::{u16_at, u64_at};
use crate::envelope::{FixedPlaces, Run, Values};
use crate::{Dtype, Error, ReadAt};

/// Bytes of an entry of the allocation table.
const ENTRY: usize = 24;

/// Where a row has its image, as the row says.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImageEntry {
    is_jpeg: bool,
    width: u16,
    height: u16,
    pub(super) offset: u64,
}

impl ImageEntry {
    pub(super) fn parse(row: &[u8], at: usize) -> Option<Self> {
        let is_jpeg = match row.get(at)? {
            0 => true,
            1 => false,
            _ => return None,
        };
        let width = u16_at(row, at.saturating_add(1))?;
        let height = u16_at(row, at.saturating_add(3))?;
        let offset = u64_at(row, at.saturating_add(5))?;
        Some(Self { is_jpeg, width, height, offset })
    }
}

/// Returns the values of an image field: all JPEG, or all pixels of one size.
pub(super) fn values(
    file: &ReadAt,
    header: &Header,
    images: &[ImageEntry],
) -> Result<Values, Error> {
    let n_jpeg = images.iter().filter(|image| image.is_jpeg).count();
    if n_jpeg == images.len() {
        return jpegs(file, header, images);
    }
    if n_jpeg > 0 {
        return Ok(Values::NotStored(format!(
            "{n_jpeg} of {} images are JPEG, the others pixels; written again with `write_mode='jpg'` all are",
            images.len()
        )));
    }
    let Some(first) = images.first() else {
        return Ok(Values::NotStored("it has no images".into()));
    };
    if images.iter().any(|i| (i.width, i.height) != (first.width, first.height)) {
        let reason = "its images are pixels of different sizes; written again with `write_mode='jpg'` they can be read";
        return Ok(Values::NotStored(reason.to_owned()));
    }
    let shape = vec![u64::from(first.height), u64::from(first.width), 3];
    let size: u64 = shape.iter().fold(1, |acc, n| acc.saturating_mul(*n));
    let inside = |i: &ImageEntry| i.offset.checked_add(size).is_some_and(|end| end <= header.table);
    if size == 0 || !images.iter().all(inside) {
        return Err(Error::malformed(file.path(), "an image is past the last page"));
    }
    let places = FixedPlaces::Offsets(images.iter().map(|i| i.offset).collect());
    Ok(Values::Fixed { dtype: Dtype::U8, shape, places })
}

fn jpegs(file: &ReadAt, header: &Header, images: &[ImageEntry]) -> Result<Values, Error> {
    let table = allocations(file, header)?;
    let run = |image: &ImageEntry| {
        // If values begin at the same offset, all but the last are empty.
        let after = table.partition_point(|run| run.offset <= image.offset);
        let run = after.checked_sub(1).and_then(|at| table.get(at)).copied();
        run.filter(|run| run.offset == image.offset).map(Some).ok_or_else(|| {
            let reason =
                format!("the image at byte {} is not in its allocation table", image.offset);
            Error::malformed(file.path(), reason)
        })
    };
    Ok(Values::Bytes(images.iter().map(run).collect::<Result<_, _>>()?))
}

/// Returns the ranges of all values that are outside rows.
fn allocations(file: &ReadAt, header: &Header) -> Result<Vec<Run>, Error> {
    let bytes = file.len_bytes().saturating_sub(header.table);
    let bad = |reason: &str| Error::malformed(file.path(), reason);
    if !bytes.is_multiple_of(ENTRY as u64) {
        return Err(bad("its allocation table is cut"));
    }
    let mut runs = Vec::with_capacity(usize::try_from(bytes.div_ceil(ENTRY as u64)).unwrap_or(0));
    let mut piece = vec![0; 1000 * ENTRY];
    let mut at = header.table;
    while at < file.len_bytes() {
        let n = file.len_bytes().saturating_sub(at).min(piece.len() as u64);
        let part = piece.get_mut(..usize::try_from(n).unwrap_or(0)).unwrap_or_default();
        file.read_at(at, part)?;
        for entry in part.chunks_exact(ENTRY) {
            let run = u64_at(entry, 8).zip(u64_at(entry, 16));
            let run = run.map(|(offset, len)| Run { offset, len });
            let inside =
                |run: &Run| run.offset.checked_add(run.len).is_some_and(|end| end <= header.table);
            runs.push(run.filter(inside).ok_or_else(|| bad("a value is past the last page"))?);
        }
        at = at.saturating_add(n);
    }
    runs.sort_unstable_by_key(|run| (run.offset, run.len));
    Ok(runs)
}
