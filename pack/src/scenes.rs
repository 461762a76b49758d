//! Scenes that are cut into tiles, each read by itself.
//!
//! ```text
//! north/a.tif ─ header ─▶ north/a.tif/r000000_c000000, …/r000000_c000480, …  (row, column)
//!                              └─ the strips or tiles that the window touches ─▶ numbers
//! ```

use std::fs::File;

use gular_bundle::Dtype;
use gular_codec::tiff::{Chunks, Geo, Pages, Tiff};
use gular_codec::{Limits, Rect};

use crate::TileOptions;
use crate::array::dtype_of;
use crate::error::Fault;
use crate::input::check_bytes;
use crate::source::Source;

/// The number of files that one thread keeps open.
const MOST_OPEN: usize = 8;
/// Bytes of decoded chunks that one thread keeps: neighbours share them.
const CHUNK_BYTES: usize = 32 << 20;

/// Most tiles of one scene: a million tiles of 512 are 512 GB of bytes.
const MOST_TILES: u64 = 1 << 22;

/// The corners (column, row) of the tiles of a scene of `size` = (columns, rows); an error with
/// the number of tiles if there are too many.
pub(crate) fn corners(size: (u32, u32), tile: &TileOptions) -> Result<Vec<(u32, u32)>, u64> {
    let step = u64::from(tile.size - tile.overlap).max(1);
    let n = |len: u32| u64::from(len.saturating_sub(tile.size)).div_ceil(step) + 1;
    let all = n(size.0).saturating_mul(n(size.1));
    if all > MOST_TILES {
        return Err(all);
    }
    let along = |len: u32| -> Vec<u32> {
        let last = len.saturating_sub(tile.size);
        let step = (tile.size - tile.overlap).max(1) as usize;
        // The last tile ends at the edge of the scene.
        (0..last).step_by(step).chain([last]).collect()
    };
    let columns = along(size.0);
    Ok(along(size.1).into_iter().flat_map(|y| columns.iter().map(move |x| (*x, y))).collect())
}

/// Returns the key of a tile.
pub(crate) fn key(scene: &str, (column, row): (u32, u32)) -> String {
    format!("{scene}/r{row:06}_c{column:06}")
}

/// The scene of a key that [`key`] made, and where the tile begins: (column, row).
pub(crate) fn parse(key: &str) -> Option<(&str, (u32, u32))> {
    let (scene, name) = key.rsplit_once('/')?;
    let (row, column) = name.strip_prefix('r')?.split_once("_c")?;
    Some((scene, (column.parse().ok()?, row.parse().ok()?)))
}

/// The pixels of a tile, `[size, size, bands]`.
pub(crate) struct Window {
    pub(crate) values: Vec<u8>,
    pub(crate) geo: Geo,
    /// 0 for each pixel that has no value by mask or alpha, or that is beyond a scene which has no
    /// nodata; `None` if there are none.
    pub(crate) valid: Option<Vec<u8>>,
    /// Columns and rows of the tile's scene.
    pub(crate) scene: (u32, u32),
    /// Whether too few of its pixels have a value in some band.
    pub(crate) is_empty: bool,
}

/// The window that is wanted, and its file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) source: &'a Source,
    /// Tells sources apart: that of the images and those of fields.
    pub(crate) number: usize,
    /// The file's path below the source.
    pub(crate) path: &'a str,
    /// The file's length when the run began.
    pub(crate) bytes: u64,
    /// The window's corner: (column, row).
    pub(crate) corner: (u32, u32),
    /// Number of columns and of rows.
    pub(crate) side: u32,
    /// The part of its pixels that must have a value.
    pub(crate) min_valid: f64,
    /// The byte that numbers beyond a scene without nodata are made of: of masks 0xff, which gives
    /// the largest unsigned number or -1, so that no class has it.
    pub(crate) beyond: u8,
}

/// The open scenes of a thread.
pub(crate) struct Scenes {
    limits: Limits,
    pages: Pages,
    /// The scenes; the one that was not used for the longest time is first.
    open: Vec<Open>,
    n_opened: u64,
    chunks: Chunks,
}

struct Open {
    source: usize,
    path: String,
    number: u64,
    file: File,
    tiff: Tiff,
}

impl Scenes {
    pub(crate) fn new(max_pixels: u64, pages: Pages) -> Self {
        let limits = Limits { max_pixels };
        Self { limits, pages, open: Vec::new(), n_opened: 0, chunks: Chunks::new(CHUNK_BYTES) }
    }

    /// Columns and rows of the scene of a window, which may be outside of it, and the scene's
    /// location.
    pub(crate) fn size(&mut self, wanted: &Wanted<'_>) -> Result<((u32, u32), &Geo), Fault> {
        let at = self.find(wanted)?;
        let Open { tiff, .. } = &self.open[at];
        Ok(((tiff.width, tiff.height), &tiff.geo))
    }

    /// Reads a window; beyond the scene is nodata, or what is wanted there.
    pub(crate) fn read(&mut self, wanted: Wanted<'_>) -> Result<Window, Fault> {
        let at = self.find(&wanted)?;
        let open = self.open.remove(at);
        let window = window(&open, &wanted, &mut self.chunks);
        self.open.push(open);
        window
    }

    /// Reads a part of the scene of a window; bytes of a pixel, and the value of its pixels that
    /// means there is none, or 0.
    pub(crate) fn part(
        &mut self,
        wanted: &Wanted<'_>,
        rect: Rect,
    ) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        let at = self.find(wanted)?;
        let open = self.open.remove(at);
        let tiff = &open.tiff;
        let nodata = tiff.geo.nodata.and_then(|nodata| tiff.number.encode(nodata));
        let nodata = nodata.unwrap_or_else(|| vec![0; tiff.number.bytes()]);
        let read = tiff.window_bytes(rect).map_err(Fault::from).and_then(|bytes| {
            check_bytes(bytes as u64)?;
            let mut values = vec![0; bytes];
            tiff.read_window(&open.file, open.number, rect, &mut self.chunks, &mut values)?;
            Ok((values, nodata))
        });
        self.open.push(open);
        read
    }

    fn find(&mut self, wanted: &Wanted<'_>) -> Result<usize, Fault> {
        let source = wanted.number;
        let known = |open: &Open| open.source == source && open.path == wanted.path;
        if let Some(at) = self.open.iter().position(known) {
            return Ok(at);
        }
        let Source::Folder(folder) = wanted.source else {
            let reason = "a scene in an archive cannot be cut".to_owned();
            return Err(Fault::new(reason, Some("unpack the archive")));
        };
        let unreadable = |e| Fault::new(format!("cannot be read: {e}"), None);
        let file = File::open(folder.join(wanted.path)).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?.len();
        if found != wanted.bytes {
            let reason = format!(
                "it was changed during the run: it now has {found} bytes, and had {} at the beginning",
                wanted.bytes
            );
            return Err(Fault::new(
                reason,
                Some("run again when no program is writing to the folder"),
            ));
        }
        let tiff = Tiff::read_pages(&file, &self.limits, self.pages)?;
        if self.open.len() >= MOST_OPEN {
            self.open.remove(0);
        }
        self.n_opened += 1;
        let path = wanted.path.to_owned();
        self.open.push(Open { source, path, number: self.n_opened, file, tiff });
        Ok(self.open.len() - 1)
    }
}

fn window(open: &Open, wanted: &Wanted<'_>, chunks: &mut Chunks) -> Result<Window, Fault> {
    let Open { tiff, .. } = open;
    let ((x, y), side) = (wanted.corner, wanted.side);
    let width = side.min(tiff.width.saturating_sub(x));
    let height = side.min(tiff.height.saturating_sub(y));
    let rect = Rect::new(x, y, width, height);
    let bytes = tiff.number.bytes();
    let pixel = bytes * usize::from(tiff.bands);
    // The limit also applies to a tile that the scene covers only in part.
    check_bytes(u64::from(side) * u64::from(side) * pixel as u64)?;
    let scene = (tiff.width, tiff.height);
    let nodata = tiff.geo.nodata.and_then(|nodata| tiff.number.encode(nodata));
    let asks = wanted.min_valid > 0.0;
    let empty = || {
        let (values, geo, valid) = (Vec::new(), Geo::default(), None);
        Window { values, geo, valid, scene, is_empty: true }
    };
    if asks && nodata.is_some() && tiff.is_unwritten(rect) {
        return Ok(empty());
    }
    let mut values = vec![0; tiff.window_bytes(rect)?];
    tiff.read_window(&open.file, open.number, rect, chunks, &mut values)?;
    let mut valid = tiff.valid_window(&open.file, open.number, rect, chunks, &values)?;
    let all = f64::from(side) * f64::from(side);
    if asks {
        let found = n_valid(&values, tiff, nodata.as_deref(), valid.as_deref());
        if (found as f64) / all < wanted.min_valid {
            return Ok(empty());
        }
    }
    if (width, height) != (side, side) {
        if valid.is_some() || nodata.is_none() {
            let inside = valid.unwrap_or_else(|| vec![1; width as usize * height as usize]);
            let mut padded = vec![0; side as usize * side as usize];
            let rows = inside.chunks_exact(width as usize);
            for (row, line) in rows.zip(padded.chunks_exact_mut(side as usize)) {
                line[..row.len()].copy_from_slice(row);
            }
            valid = Some(padded);
        }
        let fill = nodata.unwrap_or_else(|| vec![wanted.beyond; bytes]);
        let line = side as usize * pixel;
        let mut padded = fill.repeat(line * side as usize / bytes);
        let rows = values.chunks_exact(width as usize * pixel);
        for (row, line) in rows.zip(padded.chunks_exact_mut(line)) {
            line[..row.len()].copy_from_slice(row);
        }
        values = padded;
    }
    let transform = tiff.geo.window_transform(x, y);
    let geo = Geo { transform, ..tiff.geo.clone() };
    Ok(Window { values, geo, valid, scene, is_empty: false })
}

/// Returns the number of pixels that have a value in some band, and are not masked.
fn n_valid(values: &[u8], tiff: &Tiff, nodata: Option<&[u8]>, valid: Option<&[u8]>) -> usize {
    let bands = usize::from(tiff.bands);
    if let Some(valid) = valid {
        // Rare enough to be counted pixel by pixel.
        let pixels = values.chunks_exact((bands * tiff.number.bytes()).max(1));
        let kept = pixels.zip(valid).filter(|(_, keep)| **keep != 0);
        return kept.map(|(pixel, _)| n_valid(pixel, tiff, nodata, None)).sum();
    }
    match (dtype_of(tiff.number), tiff.number.bytes()) {
        (Dtype::F16, _) => {
            n_valid_of(values, bands, nodata, |b| u16::from_le_bytes(b) & 0x7fff > 0x7c00)
        }
        (Dtype::F32, _) => n_valid_of(values, bands, nodata, |b| f32::from_le_bytes(b).is_nan()),
        (Dtype::F64, _) => n_valid_of(values, bands, nodata, |b| f64::from_le_bytes(b).is_nan()),
        (_, 1) => n_valid_of::<1>(values, bands, nodata, |_| false),
        (_, 2) => n_valid_of::<2>(values, bands, nodata, |_| false),
        (_, 4) => n_valid_of::<4>(values, bands, nodata, |_| false),
        _ => n_valid_of::<8>(values, bands, nodata, |_| false),
    }
}

fn n_valid_of<const B: usize>(
    values: &[u8],
    bands: usize,
    nodata: Option<&[u8]>,
    is_nan: impl Fn([u8; B]) -> bool,
) -> usize {
    let cells = values.as_chunks::<B>().0;
    let nodata: Option<[u8; B]> = nodata.and_then(|nodata| nodata.try_into().ok());
    let is_valid = |cell: &[u8; B]| !is_nan(*cell) && nodata != Some(*cell);
    match bands {
        1 => cells.iter().filter(|cell| is_valid(cell)).count(),
        _ => cells.chunks_exact(bands).filter(|pixel| pixel.iter().any(is_valid)).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_a_scene_and_end_with_it() {
        let check = |len: u32, size: u32, overlap: u32, expected: &[u32]| {
            let tile = TileOptions { size, overlap, min_valid: 0.0 };
            let found: Vec<u32> =
                corners((len, 1), &tile).unwrap().into_iter().map(|(x, _)| x).collect();
            assert_eq!(found, expected, "{len} {size} {overlap}");
        };
        check(100, 40, 0, &[0, 40, 60]);
        check(100, 40, 10, &[0, 30, 60]);
        check(101, 40, 10, &[0, 30, 60, 61]);
        check(80, 40, 0, &[0, 40]);
        check(40, 40, 8, &[0]);
        check(7, 40, 8, &[0]);
        let tile = TileOptions { size: 2, overlap: 1, min_valid: 0.0 };
        assert_eq!(corners((3, 2), &tile).unwrap(), [(0, 0), (1, 0)]);
        assert_eq!(corners((10_001, 2001), &tile), Err(20_000_000));
    }

    #[test]
    fn keys_say_scene_row_and_column() {
        let found = key("north/a.tif", (480, 1_234_567));
        assert_eq!(found, "north/a.tif/r1234567_c000480");
        assert_eq!(parse(&found), Some(("north/a.tif", (480, 1_234_567))));
        assert_eq!(parse("north/a.tif"), None);
    }
}
