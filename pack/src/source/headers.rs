//! What the first bytes of a file say of its picture or array.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use gular_bundle::{Axes, Npy};
use gular_codec::jpeg2000::Jpeg2000;
use gular_codec::nifti::Nifti;
use gular_codec::tiff::{Geo, Pages, Tiff};
use gular_codec::{Format, Header, Limits, read_header};

use super::{BOM, Source};
use crate::facts::array::{dtype_of, header, is_tiff, picture_kind, unpacked};
use crate::facts::{
    Fault, MOST_BYTES, Start, check_bytes, formats, is_jpeg_2000_name, is_nifti_name,
    stem_and_extension,
};

/// Bytes of a picture that are read to find its size: mostly the first ones do. A JPEG's EXIF, which
/// is before its size, has at most 64 KiB; a profile of colours may be longer.
const HEADER_BYTES: [usize; 3] = [4 << 10, 68 << 10, 1 << 20];

/// The first line of the text at `path`, of which at most `bytes` bytes are read; empty if there is none,
/// as in an archive.
pub(crate) fn first_line(path: &Path, bytes: u64) -> String {
    let mut line = String::new();
    let file = File::open(path).map(|file| BufReader::new(file.take(bytes)));
    let _ = file.and_then(|mut file| file.read_line(&mut line));
    line.trim().to_owned()
}

/// Bytes at the beginning of a document that say what it is.
const MOST_OF_START: u64 = 64 << 10;

/// The beginning of the document at `path`, without a mark of its byte order.
pub(crate) fn document_start(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(MOST_OF_START).read_to_end(&mut start)?;
    Ok(start.strip_prefix(BOM).map(<[u8]>::to_vec).unwrap_or(start))
}

/// Type and shape of the array in the file at `path`, which has `bytes` bytes.
pub(crate) fn array_start(
    source: &Source,
    path: &str,
    bytes: u64,
    limits: &Limits,
    pages: Pages,
) -> Result<Start, Fault> {
    let unreadable = |e| Fault::new(format!("it cannot be read: {e}"), None);
    if let Source::Datasets(rows) = source {
        let missing = || Fault::new("there is no such row".to_owned(), None);
        return rows.start(path).ok_or_else(missing);
    }
    if is_tiff(path) {
        let tiff = match source {
            Source::Folder(folder) => {
                let file = File::open(folder.join(path)).map_err(unreadable)?;
                Tiff::read_pages(&file, limits, pages)?
            }
            Source::Archive(_) => {
                check_bytes(bytes)?;
                let file = source.head(path, usize::MAX).map_err(unreadable)?;
                Tiff::read_pages(file.as_slice(), limits, pages)?
            }
            Source::Pixels(_) | Source::Datasets(_) => {
                return Err(Fault::new("it is a row of a table".to_owned(), None));
            }
        };
        let shape = vec![tiff.height.into(), tiff.width.into(), tiff.bands.into()];
        let (dtype, is_jpeg) = (dtype_of(tiff.number), tiff.is_jpeg());
        let axes = Some(Axes::yxc());
        return Ok(Start { dtype, shape, axes, geo: Some(tiff.geo), is_jpeg });
    }
    if is_jpeg_2000_name(path) {
        let jp2 = jpeg_2000_header(source, path, bytes, *limits)?;
        let shape = vec![jp2.height.into(), jp2.width.into(), jp2.bands.into()];
        let (dtype, axes) = (dtype_of(jp2.number), Some(Axes::yxc()));
        return Ok(Start { dtype, shape, axes, geo: Some(jp2.geo), is_jpeg: false });
    }
    let named = formats::picture(stem_and_extension(path).1);
    if matches!(named, Some(Format::Png | Format::Jpeg))
        && let Some((_, start)) = picture_start(source, path, limits)
    {
        let (dtype, shape) = picture_kind(&start, limits)?;
        let is_jpeg = Format::sniff(&start) == Some(Format::Jpeg);
        let (axes, geo) = (Some(Axes::yxc()), Some(Geo::default()));
        return Ok(Start { dtype, shape, axes, geo, is_jpeg });
    }
    if is_nifti_name(path) {
        check_bytes(bytes)?;
        let file = source.head(path, Nifti::HEAD_BYTES).map_err(unreadable)?;
        let Nifti { number, shape, axes, geo, .. } = Nifti::parse(&file, limits)?;
        // The letters are those of the reader, which are axes.
        let axes = axes.parse().ok();
        return Ok(Start { dtype: dtype_of(number), shape, axes, geo: Some(geo), is_jpeg: false });
    }
    check_bytes(bytes)?;
    let packed = path.to_ascii_lowercase().ends_with(".npz");
    let most = if packed { usize::MAX } else { Npy::HEAD_BYTES };
    let file = source.head(path, most).map_err(unreadable)?;
    let npy = header(&unpacked(&file)?)?
        .ok_or_else(|| Fault::new("it is not an .npy or .npz file".to_owned(), None))?;
    Ok(Start { dtype: npy.dtype, shape: npy.shape, axes: None, geo: None, is_jpeg: false })
}

/// The header of a JPEG 2000 file, which has `bytes` bytes.
fn jpeg_2000_header(
    source: &Source,
    path: &str,
    bytes: u64,
    limits: Limits,
) -> Result<Jpeg2000, Fault> {
    let unreadable = |e| Fault::new(format!("it cannot be read: {e}"), None);
    if let Source::Folder(folder) = source {
        let file = File::open(folder.join(path)).map_err(unreadable)?;
        return Ok(Jpeg2000::read(&file, &limits)?);
    }
    check_bytes(bytes)?;
    let file = source.head(path, usize::MAX).map_err(unreadable)?;
    Ok(Jpeg2000::read(file.as_slice(), &limits)?)
}

/// Returns the header of the picture at `path`, and the bytes that it was read from; `None` if it
/// cannot be read.
pub(crate) fn picture_start(
    source: &Source,
    path: &str,
    limits: &Limits,
) -> Option<(Header, Vec<u8>)> {
    // A member of an archive is read as a whole in any case.
    let first = if matches!(source, Source::Archive(_)) { 2 } else { 0 };
    let mut sizes = HEADER_BYTES.into_iter().skip(first);
    let mut next = sizes.next();
    while let Some(most) = next {
        let start = source.head(path, most).ok()?;
        match read_header(&start, limits) {
            Ok(header) => return Some((header, start)),
            Err(gular_codec::Error::Truncated { .. } | gular_codec::Error::Corrupt { .. })
                if start.len() == most => {}
            Err(_) => return None,
        }
        next = match Format::sniff(&start) {
            // Its EXIF is behind its pixels.
            Some(Format::WebP) => usize::try_from(MOST_BYTES).ok().filter(|whole| most < *whole),
            _ => sizes.next(),
        };
    }
    None
}

/// Reads the whole of a planned file, into `memory` if possible.
pub(crate) fn read_file(
    source: &Source,
    path: &str,
    bytes: u64,
    memory: Vec<u8>,
) -> Result<Vec<u8>, Fault> {
    check_bytes(bytes)?;
    let (file, found) = source.read(path, bytes, memory).map_err(|e: io::Error| {
        let denied = e.kind() == io::ErrorKind::PermissionDenied;
        Fault::new(format!("cannot be read: {e}"), denied.then_some("check its permissions"))
    })?;
    if file.len() as u64 != bytes {
        let reason = format!(
            "it was changed during the run: it now has {found} bytes, and had {bytes} at the beginning"
        );
        return Err(Fault::new(reason, Some("run again when no program is writing to the folder")));
    }
    if file.is_empty() {
        return Err(Fault::new("the file is empty".to_owned(), None));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use gular_codec::tiff::{Geo, GeoTiffWriter, Number, Packing};

    use super::*;
    use crate::facts::Remedy;

    #[test]
    fn a_tiff_is_planned_within_the_limit_of_pixels() {
        let out = io::Cursor::new(Vec::new());
        let (geo, packing) = (Geo::default(), Packing::None);
        let mut tiff = GeoTiffWriter::new(out, (8, 4), 1, Number::U8, geo, packing).unwrap();
        tiff.push(&[7; 32]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.tif"), tiff.finish().unwrap().get_ref()).unwrap();
        let source = Source::Folder(dir.path().to_owned());
        let found =
            |max_pixels| array_start(&source, "a.tif", 500, &Limits { max_pixels }, Pages::AsSaid);
        assert_eq!(found(32).unwrap().shape, [4, 8, 1]);
        let refused = found(31).unwrap_err();
        assert!(matches!(refused.remedy, Remedy::AllowMorePixels), "{refused:?}");
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read_for_its_header() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("a.npz")).unwrap();
        file.set_len(MOST_BYTES + 1).unwrap();
        let source = Source::Folder(dir.path().to_owned());
        let pages = Pages::AsSaid;
        let refused =
            array_start(&source, "a.npz", MOST_BYTES + 1, &Limits::default(), pages).unwrap_err();
        assert!(refused.reason.contains("it has 2147483648 bytes"), "{refused:?}");
    }
}
