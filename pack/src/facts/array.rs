//! Arrays: NumPy's `.npy`, `.npz` with one array, TIFF, JPEG 2000, NIfTI, PNG and JPEG.

use std::borrow::Cow;
use std::io::Read as _;

use gular_bundle::{Axes, Dtype, Npy};
use gular_codec::jpeg2000::{Jpeg2000, is_jpeg_2000};
use gular_codec::nifti::{Nifti, is_nifti};
use gular_codec::tiff::{Chunks, Geo, Number, Pages, Tiff};
use gular_codec::{DecodeOptions, Decoder, Format, Limits, bit_depth, holds_values, read_header};
use rawzip::CompressionMethod;

use crate::facts::{Fault, MOST_BYTES, check_bytes, stem_and_extension};

/// The header of an `.npy` file; `None` for other files.
pub(crate) fn header(file: &[u8]) -> Result<Option<Npy>, Fault> {
    if !file.starts_with(b"\x93NUMPY") {
        return Ok(None);
    }
    Npy::parse(file).map(Some).map_err(|e| Fault::new(e, None))
}

/// The numbers of an array of this type and shape: little-endian, the last axis fastest. `shape`
/// of a picture of one channel may leave that axis out.
pub(crate) fn npy(file: &[u8], dtype: Dtype, shape: &[u64]) -> Result<Vec<u8>, Fault> {
    let fail = |reason: String| Err(Fault::new(reason, None));
    let Some(npy) = header(file)? else {
        return fail("it does not begin as an .npy file".to_owned());
    };
    let one_channel = matches!(npy.shape.as_slice(), [h, w, 1] if *shape == [*h, *w]);
    if npy.dtype != dtype || (npy.shape != shape && !one_channel) {
        return Err(other_array(npy.dtype, &npy.shape, dtype, shape));
    }
    let data = usize::try_from(npy.data_at).ok().and_then(|at| file.get(at..)).unwrap_or_default();
    if Some(data.len() as u64) != npy.data_bytes() {
        return fail(format!(
            "it has {} bytes of numbers, but its type and shape need {}",
            data.len(),
            npy.data_bytes()
                .map_or_else(|| "more than any file can have".to_owned(), |n| n.to_string())
        ));
    }
    let element = usize::try_from(dtype.size_bytes()).unwrap_or(1);
    let mut values = match npy.fortran {
        true => transposed(data, shape, element),
        false => data.to_vec(),
    };
    if npy.big_endian {
        values.chunks_exact_mut(element).for_each(<[u8]>::reverse);
    }
    Ok(values)
}

/// Transposes from column-major (first axis fastest) to row-major order (last axis fastest).
fn transposed(data: &[u8], shape: &[u64], element: usize) -> Vec<u8> {
    let dims: Vec<usize> = shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
    // Bytes from one element to the next along each axis.
    let mut strides = Vec::with_capacity(dims.len());
    let mut stride = element;
    for n in &dims {
        strides.push(stride);
        stride = stride.saturating_mul(*n);
    }
    let mut values = Vec::with_capacity(data.len());
    let mut at = vec![0_usize; dims.len()];
    while values.len() < data.len() {
        let from: usize = at.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        values.extend_from_slice(data.get(from..from + element).unwrap_or_default());
        for (i, n) in at.iter_mut().zip(&dims).rev() {
            *i += 1;
            if *i < *n {
                break;
            }
            *i = 0;
        }
    }
    values
}

/// The facts about an array that are known before its numbers are read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Start {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    /// What the axes mean, if the format says it.
    pub(crate) axes: Option<Axes>,
    /// The location, if the file's format tells one.
    pub(crate) geo: Option<Geo>,
    /// Whether a JPEG decoder makes the array's numbers.
    pub(crate) is_jpeg: bool,
}

impl Start {
    /// Whether it is a raster: a picture of bands that can be cut into tiles and joined with others.
    pub(crate) fn is_raster(&self) -> bool {
        self.geo.as_ref().is_some_and(|geo| geo.volume.is_none())
    }
}

/// Whether a file's name is that of a TIFF.
pub(crate) fn is_tiff(path: &str) -> bool {
    let extension = stem_and_extension(path).1;
    extension.eq_ignore_ascii_case("tif") || extension.eq_ignore_ascii_case("tiff")
}

/// Whether a file's name is that of JPEG 2000.
pub(crate) fn is_jpeg_2000_name(path: &str) -> bool {
    let extension = stem_and_extension(path).1;
    JPEG_2000.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Extensions of JPEG 2000, in lower case.
const JPEG_2000: [&str; 3] = ["jp2", "j2k", "j2c"];

pub(crate) fn dtype_of(number: Number) -> Dtype {
    match number {
        Number::U8 => Dtype::U8,
        Number::I8 => Dtype::I8,
        Number::U16 => Dtype::U16,
        Number::I16 => Dtype::I16,
        Number::U32 => Dtype::U32,
        Number::I32 => Dtype::I32,
        Number::I64 => Dtype::I64,
        Number::F16 => Dtype::F16,
        Number::F32 => Dtype::F32,
        Number::F64 => Dtype::F64,
    }
}

/// The type of number that a TIFF has for a type of the bundle.
pub(crate) fn number_of(dtype: Dtype) -> Option<Number> {
    use Number::{F16, F32, F64, I8, I16, I32, I64, U8, U16, U32};
    [U8, I8, U16, I16, U32, I32, I64, F16, F32, F64].into_iter().find(|n| dtype_of(*n) == dtype)
}

/// The contents of an array file.
pub(crate) struct ArrayValues {
    /// The numbers, little-endian, the last axis fastest.
    pub(crate) values: Vec<u8>,
    /// The location on the Earth and what the bands are, if the file is a TIFF.
    pub(crate) geo: Option<Geo>,
    /// 0 for each pixel that a mask or alpha says has no value, if there is one.
    pub(crate) valid: Option<Vec<u8>>,
}

/// Reads an array file of any kind. `shape` of a TIFF of one band may leave that axis out.
pub(crate) fn values(
    file: &[u8],
    dtype: Dtype,
    shape: &[u64],
    limits: &Limits,
    pages: Pages,
) -> Result<ArrayValues, Fault> {
    if is_jpeg_2000(file) {
        let jp2 = Jpeg2000::read(file, limits)?;
        let found: [u64; 3] = [jp2.height.into(), jp2.width.into(), jp2.bands.into()];
        let same = shape == found.as_slice() || (jp2.bands == 1 && shape == &found[..2]);
        let number = dtype_of(jp2.number);
        if !same || number != dtype {
            return Err(other_array(number, &found, dtype, shape));
        }
        let bytes = found.iter().try_fold(number.size_bytes(), |n, side| n.checked_mul(*side));
        check_bytes(bytes.unwrap_or(u64::MAX))?;
        let values = jp2.decode(file)?;
        return Ok(ArrayValues { values, geo: Some(jp2.geo), valid: None });
    }
    if is_picture(file) {
        let values = picture(file, dtype, shape, limits)?;
        return Ok(ArrayValues { values, geo: Some(Geo::default()), valid: None });
    }
    if is_nifti(file) {
        let nifti = Nifti::parse(file, limits)?;
        let number = dtype_of(nifti.number);
        if shape != nifti.shape.as_slice() || number != dtype {
            return Err(other_array(number, &nifti.shape, dtype, shape));
        }
        check_bytes(nifti.len_bytes())?;
        let values = nifti.values(file)?;
        return Ok(ArrayValues { values, geo: Some(nifti.geo), valid: None });
    }
    if !is_tiff_file(file) {
        let values = npy(&unpacked(file)?, dtype, shape)?;
        return Ok(ArrayValues { values, geo: None, valid: None });
    }
    let tiff = Tiff::read_pages(file, limits, pages)?;
    limits.check(tiff.width, tiff.height)?;
    let found: [u64; 3] = [tiff.height.into(), tiff.width.into(), tiff.bands.into()];
    let same = shape == found.as_slice() || (tiff.bands == 1 && shape == &found[..2]);
    if !same || dtype_of(tiff.number) != dtype {
        let number = dtype_of(tiff.number);
        return Err(other_array(number, &found, dtype, shape));
    }
    let bytes = tiff.window_bytes(tiff.whole())?;
    check_bytes(bytes as u64)?;
    let mut values = vec![0; bytes];
    let mut chunks = Chunks::new(0);
    tiff.read_window(file, 0, tiff.whole(), &mut chunks, &mut values)?;
    let valid = tiff.valid_window(file, 0, tiff.whole(), &mut chunks, &values)?;
    Ok(ArrayValues { values, geo: Some(tiff.geo), valid })
}

/// The numbers that are decoded at the same time, with much memory for each; `None` for formats
/// that take little.
pub(crate) fn numbers_at_once(file: &[u8], limits: &Limits) -> Result<Option<u64>, Fault> {
    if !is_jpeg_2000(file) {
        return Ok(None);
    }
    let Jpeg2000 { width, height, bands, .. } = Jpeg2000::read(file, limits)?;
    Ok(Some(u64::from(width) * u64::from(height) * u64::from(bands)))
}

/// A mask: columns and rows, and the numbers.
pub(crate) type Mask = ((u32, u32), Vec<u8>);

/// The location of a file, if its format tells one.
pub(crate) fn geo(file: &[u8], limits: &Limits, pages: Pages) -> Result<Option<Geo>, Fault> {
    if is_jpeg_2000(file) {
        return Ok(Some(Jpeg2000::read(file, limits)?.geo));
    }
    if is_nifti(file) {
        return Ok(Some(Nifti::parse(file, limits)?.geo));
    }
    let tiff = is_tiff_file(file).then(|| Tiff::read_pages(file, limits, pages)).transpose()?;
    Ok(tiff.map(|tiff| tiff.geo))
}

/// Type and shape of an array, of which only the header is read; `None` for other files.
pub(crate) fn kind(
    file: &[u8],
    limits: &Limits,
    pages: Pages,
) -> Result<Option<(Dtype, Vec<u64>)>, Fault> {
    if is_tiff_file(file) {
        let tiff = Tiff::read_pages(file, limits, pages)?;
        let shape = vec![tiff.height.into(), tiff.width.into(), tiff.bands.into()];
        return Ok(Some((dtype_of(tiff.number), shape)));
    }
    if is_jpeg_2000(file) {
        let jp2 = Jpeg2000::read(file, limits)?;
        let shape = vec![jp2.height.into(), jp2.width.into(), jp2.bands.into()];
        return Ok(Some((dtype_of(jp2.number), shape)));
    }
    if is_picture(file) {
        return picture_kind(file, limits).map(Some);
    }
    if is_nifti(file) {
        let nifti = Nifti::parse(file, limits)?;
        return Ok(Some((dtype_of(nifti.number), nifti.shape)));
    }
    Ok(header(&unpacked(file)?)?.map(|npy| (npy.dtype, npy.shape)))
}

fn is_picture(file: &[u8]) -> bool {
    matches!(Format::sniff(file), Some(Format::Png | Format::Jpeg))
}

/// Type and shape of a PNG or a JPEG, of which the beginning is enough: one band of grey or of a
/// palette's numbers, or three of colours.
pub(crate) fn picture_kind(file: &[u8], limits: &Limits) -> Result<(Dtype, Vec<u64>), Fault> {
    let header = read_header(file, limits)?;
    let (width, height) = header.upright_size();
    if header.format == Format::Jpeg && !matches!(header.channels, 1 | 3) {
        let reason = format!("it is a JPEG of {} channels, not in grey or RGB", header.channels);
        let hint = "convert it: `gdal_translate IN.jpg OUT.tif`";
        return Err(Fault::new(reason, Some(hint)));
    }
    let is_grey_jpeg = header.format == Format::Jpeg && header.channels == 1;
    let has_values = holds_values(file) || is_grey_jpeg;
    let is_wide = bit_depth(file) == Some(16);
    if !has_values && (is_wide || header.channels != 3) {
        let reason = "it is a PNG with alpha, or in colours of 16 bits".to_owned();
        let hint = "convert it: `gdal_translate IN.png OUT.tif`";
        return Err(Fault::new(reason, Some(hint)));
    }
    let dtype = if is_wide { Dtype::U16 } else { Dtype::U8 };
    Ok((dtype, vec![height.into(), width.into(), if has_values { 1 } else { 3 }]))
}

fn picture(file: &[u8], dtype: Dtype, shape: &[u64], limits: &Limits) -> Result<Vec<u8>, Fault> {
    let (of, found) = picture_kind(file, limits)?;
    let same = shape == found.as_slice() || (found[2] == 1 && shape == &found[..2]);
    if !same || of != dtype {
        return Err(other_array(of, &found, dtype, shape));
    }
    let mut decoder = Decoder::new(DecodeOptions { limits: *limits, ..Default::default() });
    if found[2] == 3 {
        return Ok(decoder.decode(file)?.into_data());
    }
    if Format::sniff(file) == Some(Format::Jpeg) {
        // Grey is repeated in each channel.
        return Ok(decoder.decode(file)?.into_data().into_iter().step_by(3).collect());
    }
    let values = decoder.decode_values(file)?.1.into_iter();
    let bytes = usize::try_from(dtype.size_bytes()).unwrap_or(1);
    Ok(values.flat_map(|value| value.to_le_bytes().into_iter().take(bytes)).collect())
}

/// Columns, rows and bands of a file, if it is a TIFF.
pub(crate) fn size(
    file: &[u8],
    limits: &Limits,
    pages: Pages,
) -> Result<Option<(u32, u32, u64)>, Fault> {
    let tiff = is_tiff_file(file).then(|| Tiff::read_pages(file, limits, pages)).transpose()?;
    Ok(tiff.map(|tiff| (tiff.width, tiff.height, tiff.bands.into())))
}

/// A mask that is an array; `None` for other files.
pub(crate) fn mask(
    file: &[u8],
    dtype: Dtype,
    limits: &Limits,
    pages: Pages,
) -> Result<Option<Mask>, Fault> {
    let found = if is_picture(file) { None } else { kind(file, limits, pages)? };
    let Some((_, found)) = found else { return Ok(None) };
    let side = |at: usize| found.get(at).and_then(|n| u32::try_from(*n).ok());
    let size = side(1).zip(side(0)).unwrap_or_default();
    let grid = found.get(..2).unwrap_or(&found);
    Ok(Some((size, values(file, dtype, grid, limits, pages)?.values)))
}

/// Whether a file begins as TIFF does.
pub(crate) fn is_tiff_file(file: &[u8]) -> bool {
    matches!(file, [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..])
}

fn other_array(found: Dtype, found_shape: &[u64], dtype: Dtype, shape: &[u64]) -> Fault {
    let reason = format!(
        "it is {found} of shape {found_shape:?}, and the arrays of this bundle are {dtype} of shape {shape:?}"
    );
    Fault::new(reason, None)
}

/// The `.npy` file in an `.npz` of one array; other files as they are.
pub(crate) fn unpacked(file: &[u8]) -> Result<Cow<'_, [u8]>, Fault> {
    if !file.starts_with(b"PK") {
        return Ok(Cow::Borrowed(file));
    }
    let bad = |e: rawzip::Error| Fault::new(format!("it is a damaged .npz file: {e}"), None);
    let fail = |reason: String, hint| Fault::new(reason, hint);
    let archive = rawzip::ZipArchive::from_slice(file).map_err(bad)?;
    let mut entries = archive.entries();
    let first = entries.next_entry().map_err(bad)?;
    let Some(member) = first else { return Err(fail("it is an empty .npz file".into(), None)) };
    if let Some(second) = entries.next_entry().map_err(bad)? {
        let name = |entry: &rawzip::ZipFileHeaderRecord<'_>| {
            String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned()
        };
        let reason =
            format!("it has several arrays, such as `{}` and `{}`", name(&member), name(&second));
        return Err(fail(reason, Some("save each array as an .npy file of its own")));
    }
    let (size, crc) = (member.uncompressed_size_hint(), member.crc32());
    if size > MOST_BYTES {
        let reason = format!("its array takes {size} bytes, more than the limit of {MOST_BYTES}");
        return Err(fail(reason, None));
    }
    let method = member.compression_method();
    let packed = archive.get_entry(member.wayfinder()).map_err(bad)?.data();
    let mut array = Vec::new();
    match method {
        CompressionMethod::STORE => array.extend_from_slice(packed),
        CompressionMethod::DEFLATE => {
            // One more byte is read, to notice an array that is longer than its header says.
            let inflated = flate2::bufread::DeflateDecoder::new(packed);
            let read = inflated.take(size.saturating_add(1)).read_to_end(&mut array);
            read.map_err(|e| fail(format!("its array cannot be decompressed: {e}"), None))?;
        }
        _ => {
            let reason = "its array is compressed by a method other than deflate";
            return Err(fail(reason.to_owned(), None));
        }
    }
    if array.len() as u64 != size || crc32fast::hash(&array) != crc {
        return Err(fail("its array is damaged: its length or CRC-32 is wrong".to_owned(), None));
    }
    Ok(Cow::Owned(array))
}

#[cfg(test)]
mod tests {
    use gular_bundle::npy_header;

    use super::*;

    fn file(dtype: Dtype, shape: &[u64], change: (&str, &str), data: &[u8]) -> Vec<u8> {
        let header = String::from_utf8_lossy(&npy_header(dtype, shape)[1..]).into_owned();
        assert!(header.contains(change.0), "{header}");
        [b"\x93".as_slice(), header.replace(change.0, change.1).as_bytes(), data].concat()
    }

    #[test]
    fn order_and_endianness_do_not_change_an_array() {
        let plain: Vec<u8> = (0..24_u16).flat_map(u16::to_le_bytes).collect();
        let c = file(Dtype::U16, &[2, 3, 4], ("", ""), &plain);
        assert_eq!(npy(&c, Dtype::U16, &[2, 3, 4]).unwrap(), plain);
        // Element (i, j, k) is number i + 2j + 6k, and has the value that C order has there.
        let value = |n: u16| (n % 2) * 12 + (n / 2 % 3) * 4 + n / 6;
        let data: Vec<u8> = (0..24).map(value).flat_map(u16::to_be_bytes).collect();
        let f = file(Dtype::U16, &[2, 3, 4], ("False", "True "), &data);
        let f = String::from_utf8_lossy(&f[1..128]).replace("<u2", ">u2");
        let f = [b"\x93".as_slice(), f.as_bytes(), &data].concat();
        assert_eq!(npy(&f, Dtype::U16, &[2, 3, 4]).unwrap(), plain);
    }

    #[test]
    fn arrays_of_other_lengths_types_and_shapes_are_refused() {
        let good = file(Dtype::I32, &[3], ("", ""), &[1; 12]);
        assert!(npy(&good, Dtype::I32, &[3]).is_ok());
        assert!(npy(&good[..good.len() - 1], Dtype::I32, &[3]).is_err());
        assert!(npy(&good, Dtype::I32, &[4]).is_err());
        let grey = file(Dtype::U8, &[2, 3, 1], ("", ""), &[1; 6]);
        assert_eq!(npy(&grey, Dtype::U8, &[2, 3]).unwrap(), [1; 6]);
        assert!(npy(&grey, Dtype::U8, &[3, 2]).is_err());
        assert!(npy(&good, Dtype::U32, &[3]).is_err());
        let huge = file(Dtype::U8, &[3], ("(3,)", "(18446744073709551615, 2)"), &[1; 12]);
        let parsed = header(&huge).unwrap().unwrap();
        assert!(npy(&huge, Dtype::U8, &parsed.shape).is_err());
        for (dtype, data) in [("<u8", 8), ("<U5", 20), ("|O", 8), ("<c8", 8), ("<M8[s]", 8)] {
            let bytes = vec![0; data];
            assert!(header(&file(Dtype::I64, &[], ("<i8", dtype), &bytes)).is_err(), "{dtype}");
        }
        let truth = file(Dtype::U8, &[2], ("|u1", "|b1"), &[1, 0]);
        assert_eq!(npy(&truth, Dtype::U8, &[2]).unwrap(), [1, 0]);
    }
}
