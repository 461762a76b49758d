//! Scenes that are cut into tiles, each read by itself.
//!
//! ```text
//! north/a.tif ─ header ─▶ north/a.tif/r000000_c000000, …/r000000_c000480, …  (row, column)
//!                              └─ the strips or tiles that the window touches ─▶ numbers
//! ```

use std::fs::File;
use std::io;
use std::sync::Arc;

use gular_codec::tiff::{Chunks, Geo, Number, Pages, Positioned, Tiff};
use gular_codec::{Limits, Rect};

use super::framed::framed;
use super::unpacked::{FilePart, UnpackedScenes, as_tiff};
use crate::facts::{Fault, Grid, array, check_bytes};
use crate::source::Source;

/// The number of files that one thread keeps open, unless a sample has more.
const MOST_OPEN: usize = 8;
/// The number of files that one thread keeps open whatever samples have: 32 threads stay below the
/// 1024 files that a process may often have open.
const MOST_OF_A_SAMPLE: usize = 24;
/// Bytes of decoded chunks that one thread keeps: neighbours share them.
const CHUNK_BYTES: usize = 32 << 20;

/// The pixels of a tile, `[size, size, bands]`.
pub(crate) struct Window {
    pub(crate) values: Vec<u8>,
    pub(crate) geo: Geo,
    /// 0 for each pixel that has no value by mask or alpha, or that is beyond a scene which has no
    /// nodata; `None` if there are none.
    pub(crate) valid: Option<Vec<u8>>,
    /// Columns and rows of the tile's scene.
    pub(crate) scene: (u32, u32),
    /// Where the scene is on the Earth.
    pub(crate) scene_grid: Grid,
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
    /// The number beyond a scene, for masks; else it is nodata, or 0.
    pub(crate) fill: Option<&'a [u8]>,
}

/// The open scenes of a thread.
pub(crate) struct Scenes {
    limits: Limits,
    pages: Pages,
    /// The scenes; the one that was not used for the longest time is first.
    open: Vec<Open>,
    most_open: usize,
    n_opened: u64,
    chunks: Chunks,
    unpacked: Arc<UnpackedScenes>,
}

struct Open {
    source: usize,
    path: String,
    number: u64,
    contents: SceneBytes,
    tiff: Tiff,
}

enum SceneBytes {
    File(File),
    /// A file that was read, or decoded, as a whole.
    Bytes(Vec<u8>),
    /// A scene that was unpacked.
    Part(FilePart),
}

impl Positioned for SceneBytes {
    fn len_bytes(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => file.len_bytes(),
            Self::Bytes(bytes) => bytes.as_slice().len_bytes(),
            Self::Part(part) => part.len_bytes(),
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_at(offset, out),
            Self::Bytes(bytes) => bytes.as_slice().read_at(offset, out),
            Self::Part(part) => part.read_at(offset, out),
        }
    }
}

/// A part of a scene.
pub(crate) struct ScenePart {
    pub(crate) values: Vec<u8>,
    /// 0 for each pixel that has no value by mask or alpha, if the file has one.
    pub(crate) valid: Option<Vec<u8>>,
}

impl Scenes {
    pub(crate) fn new(max_pixels: u64, pages: Pages, unpacked: &Arc<UnpackedScenes>) -> Self {
        let limits = Limits { max_pixels };
        let (open, most_open, chunks) = (Vec::new(), MOST_OPEN, Chunks::new(CHUNK_BYTES));
        let unpacked = Arc::clone(unpacked);
        Self { limits, pages, open, most_open, n_opened: 0, chunks, unpacked }
    }

    /// Columns and rows of the scene of a window, which may be outside of it, and the scene's
    /// location.
    pub(crate) fn size(&mut self, wanted: &Wanted<'_>) -> Result<((u32, u32), &Geo), Fault> {
        let tiff = self.tiff(wanted)?;
        Ok(((tiff.width, tiff.height), &tiff.geo))
    }

    /// The header of the scene of a window.
    pub(crate) fn tiff(&mut self, wanted: &Wanted<'_>) -> Result<&Tiff, Fault> {
        let at = self.find(wanted)?;
        Ok(&self.open[at].tiff)
    }

    /// Keeps so many files open, if that is not too many.
    pub(crate) fn keep_open(&mut self, files: usize) {
        self.most_open = self.most_open.max(files.min(MOST_OF_A_SAMPLE));
    }

    /// Opens a file that is read as a whole, in memory if it is not a TIFF in a folder.
    pub(crate) fn load(&mut self, wanted: &Wanted<'_>) -> Result<(), Fault> {
        let known = |open: &Open| open.source == wanted.number && open.path == wanted.path;
        if !is_read_in_parts(wanted) && !self.open.iter().any(known) {
            let bytes = as_tiff(wanted, &self.limits)?;
            self.open(wanted, SceneBytes::Bytes(bytes))?;
        }
        Ok(())
    }

    /// Closes all files.
    pub(crate) fn close(&mut self) {
        self.open.clear();
    }

    /// Reads a window; beyond the scene is nodata, or what is wanted there.
    pub(crate) fn read(&mut self, wanted: Wanted<'_>) -> Result<Window, Fault> {
        let at = self.find(&wanted)?;
        let open = self.open.remove(at);
        let window = window(&open, &wanted, &mut self.chunks);
        self.open.push(open);
        window
    }

    /// Reads a part of the scene of a window.
    pub(crate) fn part(&mut self, wanted: &Wanted<'_>, rect: Rect) -> Result<ScenePart, Fault> {
        let at = self.find(wanted)?;
        let open = self.open.remove(at);
        let Open { tiff, contents, number, .. } = &open;
        let read = tiff.window_bytes(rect).map_err(Fault::from).and_then(|bytes| {
            check_bytes(bytes as u64)?;
            let mut values = vec![0; bytes];
            tiff.read_window(contents, *number, rect, &mut self.chunks, &mut values)?;
            let valid = tiff.valid_window(contents, *number, rect, &mut self.chunks, &values)?;
            Ok(ScenePart { values, valid })
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
        let (Source::Folder(folder), true) = (wanted.source, is_read_in_parts(wanted)) else {
            let part = self.unpacked.scene(wanted, &self.limits)?;
            return self.open(wanted, SceneBytes::Part(part));
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
        self.open(wanted, SceneBytes::File(file))
    }

    fn open(&mut self, wanted: &Wanted<'_>, contents: SceneBytes) -> Result<usize, Fault> {
        let tiff = Tiff::read_pages(&contents, &self.limits, self.pages)?;
        while self.open.len() >= self.most_open {
            self.open.remove(0);
        }
        self.n_opened += 1;
        let (source, path, number) = (wanted.number, wanted.path.to_owned(), self.n_opened);
        self.open.push(Open { source, path, number, contents, tiff });
        Ok(self.open.len() - 1)
    }
}

/// Whether a file is a TIFF in a folder, of which parts can be read.
fn is_read_in_parts(wanted: &Wanted<'_>) -> bool {
    matches!(wanted.source, Source::Folder(_)) && array::is_tiff(wanted.path)
}

fn window(open: &Open, wanted: &Wanted<'_>, chunks: &mut Chunks) -> Result<Window, Fault> {
    let Open { tiff, contents, number, .. } = open;
    let ((x, y), side) = (wanted.corner, wanted.side);
    let scene = (tiff.width, tiff.height);
    let rect = inside(scene, wanted.corner, side);
    let bytes = tiff.number.bytes();
    let pixel = bytes * usize::from(tiff.bands);
    // The limit also applies to a tile that the scene covers only in part.
    check_bytes(u64::from(side) * u64::from(side) * pixel as u64)?;
    let nodata = tiff.geo.nodata.and_then(|nodata| tiff.number.encode(nodata));
    let asks = wanted.min_valid > 0.0;
    if asks && nodata.is_some() && tiff.is_unwritten(rect) {
        return Ok(Window::empty(scene));
    }
    let mut values = vec![0; tiff.window_bytes(rect)?];
    tiff.read_window(contents, *number, rect, chunks, &mut values)?;
    let valid = tiff.valid_window(contents, *number, rect, chunks, &values)?;
    let all = f64::from(side) * f64::from(side);
    if asks {
        let bands = usize::from(tiff.bands);
        let found = n_valid(&values, tiff.number, bands, nodata.as_deref(), valid.as_deref());
        if (found as f64) / all < wanted.min_valid {
            return Ok(Window::empty(scene));
        }
    }
    let fill = wanted.fill.or(nodata.as_deref()).map_or_else(|| vec![0; bytes], <[u8]>::to_vec);
    let (values, valid) = padded((values, valid), rect, side, pixel, &fill, nodata.is_some());
    let geo = tiff.geo.of_window(x, y);
    let scene_grid = Grid::of(&tiff.geo);
    Ok(Window { values, geo, valid, scene, scene_grid, is_empty: false })
}

/// The part of a tile that is in a scene of `size` = (columns, rows).
pub(crate) fn inside(size: (u32, u32), (x, y): (u32, u32), side: u32) -> Rect {
    Rect::new(x, y, side.min(size.0.saturating_sub(x)), side.min(size.1.saturating_sub(y)))
}

/// The pixels of `rect`, each of `pixel` bytes, continued to `side` columns and rows with the number
/// `fill`; these pixels have no value. `is_nodata` says whether that is what the number means.
pub(crate) fn padded(
    (values, valid): (Vec<u8>, Option<Vec<u8>>),
    rect: Rect,
    side: u32,
    pixel: usize,
    fill: &[u8],
    is_nodata: bool,
) -> (Vec<u8>, Option<Vec<u8>>) {
    let (from, to) = ((rect.width, rect.height), (side, side));
    if from == to {
        return (values, valid);
    }
    let all = || vec![1; rect.width as usize * rect.height as usize];
    let valid = valid.or_else(|| (!is_nodata).then(all));
    let valid = valid.map(|valid| framed(&valid, from, to, 1, &[0]));
    (framed(&values, from, to, pixel, fill), valid)
}

impl Window {
    /// A tile of which too little was measured.
    pub(crate) fn empty(scene: (u32, u32)) -> Self {
        let (values, geo, valid, scene_grid) = (Vec::new(), Geo::default(), None, Grid::default());
        Self { values, geo, valid, scene, scene_grid, is_empty: true }
    }
}

/// Returns the number of pixels that have a value in some band, and are not masked.
pub(crate) fn n_valid(
    values: &[u8],
    number: Number,
    bands: usize,
    nodata: Option<&[u8]>,
    valid: Option<&[u8]>,
) -> usize {
    if let Some(valid) = valid {
        // Rare enough to be counted pixel by pixel.
        let pixels = values.chunks_exact((bands * number.bytes()).max(1));
        let kept = pixels.zip(valid).filter(|(_, keep)| **keep != 0);
        return kept.map(|(pixel, _)| n_valid(pixel, number, bands, nodata, None)).sum();
    }
    match (number, number.bytes()) {
        (Number::F16, _) => {
            n_valid_of(values, bands, nodata, |b| u16::from_le_bytes(b) & 0x7fff > 0x7c00)
        }
        (Number::F32, _) => n_valid_of(values, bands, nodata, |b| f32::from_le_bytes(b).is_nan()),
        (Number::F64, _) => n_valid_of(values, bands, nodata, |b| f64::from_le_bytes(b).is_nan()),
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
