//! Scenes that cannot be read in parts where they are: each is decoded once, as a whole, and
//! continues as a TIFF without compression.
//!
//! ```text
//! a.jp2, a.png, a.jpg, a member of an archive ─▶ TIFF ─▶ behind the others in a file without a name
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Cursor};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gular_codec::Limits;
use gular_codec::tiff::{Geo, GeoTiffWriter, Packing, Pages, Positioned};

use crate::facts::{ArrayValues, Fault, array};
use crate::shards::Wanted;
use crate::source::read_file;

/// The scenes of a run that were unpacked, shared by all threads.
#[derive(Debug)]
pub(crate) struct UnpackedScenes {
    /// Where the file is made.
    dir: PathBuf,
    /// Locked while a scene is unpacked, so that one is in memory at a time.
    scenes: Mutex<Scenes>,
}

#[derive(Debug, Default)]
struct Scenes {
    file: Option<Arc<File>>,
    end: u64,
    /// The part of each scene, by its source and path, or why it has none.
    parts: HashMap<(usize, String), Result<(u64, u64), Fault>>,
}

/// A part of a file.
pub(crate) struct FilePart {
    file: Arc<File>,
    from: u64,
    len: u64,
}

impl Positioned for FilePart {
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= self.len);
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.file.read_exact_at(out, self.from + offset)
    }
}

impl UnpackedScenes {
    /// Unpacks into a file without a name in folder `dir`.
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), scenes: Mutex::default() }
    }

    /// The scene of a window as a TIFF, unpacked at the first time.
    pub(super) fn scene(&self, wanted: &Wanted<'_>, limits: &Limits) -> Result<FilePart, Fault> {
        let io = |e: io::Error| {
            let reason = format!("it cannot be unpacked in `{}`: {e}", self.dir.display());
            Fault::new(reason, None)
        };
        let mut scenes = self.scenes.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &scenes.file {
            Some(file) => Arc::clone(file),
            None => Arc::new(tempfile::tempfile_in(&self.dir).map_err(io)?),
        };
        scenes.file = Some(Arc::clone(&file));
        let name = (wanted.number, wanted.path.to_owned());
        if let Some(known) = scenes.parts.get(&name).cloned() {
            return known.map(|(from, len)| FilePart { file, from, len });
        }
        // A damaged scene has many tiles, too, and is not decoded for each.
        let tiff = match as_tiff(wanted, limits) {
            Ok(tiff) => tiff,
            Err(fault) => {
                scenes.parts.insert(name, Err(fault.clone()));
                return Err(fault);
            }
        };
        let (from, len) = (scenes.end, tiff.len() as u64);
        let free = gular_files::free(&self.dir).map_err(|e| Fault::new(e.to_string(), None))?.bytes;
        if free < len {
            let text = format!("there are {free} bytes free in `{}`, ", self.dir.display());
            return Err(Fault::new(text + &format!("and it unpacks to {len}"), None));
        }
        file.write_all_at(&tiff, from).map_err(io)?;
        scenes.end += len;
        scenes.parts.insert(name, Ok((from, len)));
        Ok(FilePart { file, from, len })
    }
}

/// A file as a TIFF: itself, or what it decodes to.
pub(super) fn as_tiff(wanted: &Wanted<'_>, limits: &Limits) -> Result<Vec<u8>, Fault> {
    let file = read_file(wanted.source, wanted.path, wanted.bytes, Vec::new())?;
    if array::is_tiff_file(&file) {
        return Ok(file);
    }
    let not_array = || Fault::new("it is not an array".to_owned(), None);
    let (dtype, shape) = array::kind(&file, limits, Pages::AsSaid)?.ok_or_else(not_array)?;
    let number = array::number_of(dtype).ok_or_else(|| {
        Fault::new(format!("it is of type {dtype}, which TIFF does not have"), None)
    })?;
    let ArrayValues { values, geo, .. } =
        array::values(&file, dtype, &shape, limits, Pages::AsSaid)?;
    let sides = shape.iter().map(|n| u32::try_from(*n).unwrap_or(0)).collect::<Vec<_>>();
    let (height, width, bands) = match *sides.as_slice() {
        [height, width] => (height, width, 1),
        [height, width, bands] => (height, width, u16::try_from(bands).unwrap_or(0)),
        _ => return Err(Fault::new(format!("it has the shape {shape:?}"), None)),
    };
    let Geo { transform, crs, nodata, gcps, .. } = geo.unwrap_or_default();
    let geo = Geo { transform, crs, nodata, gcps, ..Geo::default() };
    let memory = |e: io::Error| Fault::new(format!("it cannot be unpacked: {e}"), None);
    let out = Cursor::new(Vec::new());
    let tiff = GeoTiffWriter::new(out, (width, height), bands, number, geo, Packing::None);
    let mut tiff = tiff.map_err(memory)?;
    tiff.push(&values).map_err(memory)?;
    Ok(tiff.finish().map_err(memory)?.into_inner())
}
