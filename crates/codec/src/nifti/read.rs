//! A volume, and its numbers.

use std::io::{self, Read as _};

use flate2::bufread::MultiGzDecoder;

use super::affine;
use super::header::{self, NiftiHeader};
use crate::format::GZIP;
use crate::tiff::{Geo, Number};
use crate::{Error, Format, Limits};

/// What may follow the numbers of a compressed file before its checksum is not looked for.
const MOST_BEHIND: u64 = 1 << 20;

/// The letters of the axes in a file's order, of which the first changes fastest.
const LETTERS: [char; 5] = ['x', 'y', 'z', 't', 'c'];

/// A file whose header was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Nifti {
    /// Type of the numbers.
    pub number: Number,
    /// The lengths of the axes; the last one changes fastest. Axes of one entry behind the rows
    /// and columns, such as one time, are left out if no longer one follows in the file.
    pub shape: Vec<u64>,
    /// What the axes are: a letter for each, of `c` (bands or colours), `t`, `z`, `y` and `x`.
    pub axes: String,
    /// Where the voxels are, and their scale.
    pub geo: Geo,
    data_at: u64,
    len_bytes: u64,
    big_endian: bool,
}

/// Whether a file begins as NIfTI, also if it is compressed.
#[must_use]
pub fn is_nifti(start: &[u8]) -> bool {
    match start.starts_with(GZIP) {
        true => header::is_header(&head(start)),
        false => header::is_header(start),
    }
}

/// The first bytes of a file, unpacked.
fn head(start: &[u8]) -> Vec<u8> {
    let mut head = Vec::with_capacity(header::MOST_BYTES);
    let most = header::MOST_BYTES as u64;
    let _ = match start.starts_with(GZIP) {
        // What comes before an error may be enough.
        true => MultiGzDecoder::new(start).take(most).read_to_end(&mut head),
        false => start.take(most).read_to_end(&mut head),
    };
    head
}

impl Nifti {
    /// The first bytes of a file, compressed or not, in which [`Self::parse`] finds all it needs.
    pub const HEAD_BYTES: usize = 8 << 10;

    /// Reads the header of a file that begins with `start`.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Unsupported`] for files of two parts, other types of numbers,
    /// and more than five axes; [`Error::TooLarge`].
    pub fn parse(start: &[u8], limits: &Limits) -> Result<Self, Error> {
        let header = NiftiHeader::parse(&head(start))?;
        let (number, colours) = number(&header)?;
        let (mut shape, mut axes) = axes(&header)?;
        if colours > 1 {
            if axes.contains('c') {
                return Err(unsupported("it has both colours and several values of a voxel"));
            }
            shape.push(colours);
            axes.push('c');
        }
        let len = |letter| axes.find(letter).and_then(|at| shape.get(at)).copied().unwrap_or(1);
        let side = |letter| u32::try_from(len(letter)).unwrap_or(u32::MAX);
        limits.check(side('x'), side('y'))?;
        let all = shape.iter().try_fold(number.bytes() as u64, |n, side| n.checked_mul(*side));
        let end = all.and_then(|all| all.checked_add(header.data_at));
        let (Some(len_bytes), Some(_)) = (all, end) else {
            return Err(corrupt("it has more numbers than any file can have"));
        };
        let mut geo = Geo { volume: Some(affine::volume(&header)), ..Geo::default() };
        let NiftiHeader { slope, intercept, data_at, big_endian, .. } = header;
        // A scale of 0 means that there is none; colours have none.
        if slope != 0.0 && slope.is_finite() && colours == 1 {
            if !intercept.is_finite() {
                return Err(corrupt("it has a scale, but its offset is not a number"));
            }
            let bands = usize::try_from(len('c')).unwrap_or(1);
            geo.set_scales(vec![[slope, intercept]; bands]);
        }
        Ok(Self { number, shape, axes, geo, data_at, len_bytes, big_endian })
    }

    /// Bytes of all numbers.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The numbers of `file`, which this was read from: little-endian, the last axis fastest.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Truncated`].
    pub fn values(&self, file: &[u8]) -> Result<Vec<u8>, Error> {
        let mut values = match file.starts_with(GZIP) {
            true => self.unpacked(file)?,
            false => {
                let from = usize::try_from(self.data_at).ok().and_then(|at| file.get(at..));
                let len = usize::try_from(self.len_bytes).unwrap_or(usize::MAX);
                from.map(|rest| rest.get(..len).unwrap_or(rest)).unwrap_or_default().to_vec()
            }
        };
        if values.len() as u64 != self.len_bytes {
            let (found, expected) = (values.len(), self.len_bytes);
            let detail = format!("it has {found} bytes of numbers, and its header says {expected}");
            return Err(Error::truncated(Format::Nifti, detail));
        }
        if self.big_endian {
            values.chunks_exact_mut(self.number.bytes()).for_each(<[u8]>::reverse);
        }
        Ok(values)
    }

    fn unpacked(&self, file: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = |e: io::Error| match e.kind() {
            io::ErrorKind::UnexpectedEof => Error::truncated(Format::Nifti, "by gzip's own words"),
            _ => corrupt(format!("it cannot be decompressed: {e}")),
        };
        let mut stream = MultiGzDecoder::new(file);
        io::copy(&mut stream.by_ref().take(self.data_at), &mut io::sink()).map_err(failed)?;
        let mut values = Vec::new();
        stream.by_ref().take(self.len_bytes).read_to_end(&mut values).map_err(failed)?;
        // The checksum is at the end, behind whatever follows the numbers.
        io::copy(&mut stream.take(MOST_BEHIND), &mut io::sink()).map_err(failed)?;
        Ok(values)
    }
}

/// The type of the numbers, and how many of them a colour has.
fn number(header: &NiftiHeader) -> Result<(Number, u64), Error> {
    let (number, colours, bits) = match header.datatype {
        2 => (Number::U8, 1, 8),
        4 => (Number::I16, 1, 16),
        8 => (Number::I32, 1, 32),
        16 => (Number::F32, 1, 32),
        64 => (Number::F64, 1, 64),
        128 => (Number::U8, 3, 24),
        256 => (Number::I8, 1, 8),
        512 => (Number::U16, 1, 16),
        768 => (Number::U32, 1, 32),
        1024 => (Number::I64, 1, 64),
        2304 => (Number::U8, 4, 32),
        1 => return Err(unsupported("its numbers are single bits")),
        1280 => return Err(unsupported("its numbers are unsigned integers of 64 bits")),
        1536 => return Err(unsupported("its numbers are floats of 128 bits")),
        32 | 1792 | 2048 => return Err(unsupported("its numbers are complex")),
        other => return Err(corrupt(format!("{other} is not a type of numbers"))),
    };
    if header.bits != bits {
        let found = header.bits;
        return Err(corrupt(format!("its numbers have {bits} bits, and its header says {found}")));
    }
    Ok((number, colours))
}

/// The lengths and the letters of the axes, the last one fastest.
fn axes(header: &NiftiHeader) -> Result<(Vec<u64>, String), Error> {
    let [n, dim @ ..] = header.dim;
    let lengths = usize::try_from(n).ok().filter(|n| *n > 0).and_then(|n| dim.get(..n));
    let lengths = lengths.ok_or_else(|| corrupt(format!("it has {n} axes, not 1 to 7")))?;
    let length = |n: &i64| u64::try_from(*n).ok().filter(|n| *n > 0);
    let lengths: Option<Vec<u64>> = lengths.iter().map(length).collect();
    let mut lengths = lengths.ok_or_else(|| corrupt("an axis has no length"))?;
    while lengths.len() > 2 && lengths.last() == Some(&1) {
        lengths.pop();
    }
    if lengths.len() > LETTERS.len() {
        let n = lengths.len();
        return Err(unsupported(format!(
            "it has {n} axes, of which no more than 5 have a meaning"
        )));
    }
    let axes = LETTERS.into_iter().take(lengths.len()).rev().collect();
    lengths.reverse();
    Ok((lengths, axes))
}

pub(super) fn corrupt(detail: impl Into<String>) -> Error {
    Error::corrupt(Format::Nifti, detail)
}

pub(super) fn unsupported(detail: impl Into<String>) -> Error {
    Error::unsupported(Format::Nifti, detail)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A file of version 1, little-endian: these axes, type and bits, then `numbers`.
    pub(super) fn first(dim: &[i16], (datatype, bits): (i16, i16), numbers: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 352];
        file[..4].copy_from_slice(&348_i32.to_le_bytes());
        let dim = [&[dim.len() as i16], dim].concat();
        for (at, n) in dim.iter().enumerate() {
            file[40 + 2 * at..][..2].copy_from_slice(&n.to_le_bytes());
        }
        file[70..72].copy_from_slice(&datatype.to_le_bytes());
        file[72..74].copy_from_slice(&bits.to_le_bytes());
        file[108..112].copy_from_slice(&352_f32.to_le_bytes());
        file[344..348].copy_from_slice(b"n+1\0");
        file.extend(numbers);
        file
    }

    fn put(file: &mut [u8], at: usize, floats: &[f32]) {
        for (i, n) in floats.iter().enumerate() {
            file[at + 4 * i..][..4].copy_from_slice(&n.to_le_bytes());
        }
    }

    fn parsed(file: &[u8]) -> Result<Nifti, Error> {
        assert_eq!(is_nifti(file), Nifti::parse(file, &Limits::default()).is_ok());
        Nifti::parse(file, &Limits::default())
    }

    #[test]
    fn axes_are_those_of_the_header_without_single_ones_at_the_end() {
        for (dim, axes, shape) in [
            (&[4, 3, 2][..], "zyx", &[2, 3, 4][..]),
            (&[4, 3, 2, 1], "zyx", &[2, 3, 4]),
            (&[4, 3, 1, 2], "tzyx", &[2, 1, 3, 4]),
            (&[4, 3, 1, 1, 2], "ctzyx", &[2, 1, 1, 3, 4]),
            (&[4, 6, 1, 1, 1, 1, 1], "yx", &[6, 4]),
            (&[24, 1, 1], "yx", &[1, 24]),
            (&[24], "x", &[24]),
        ] {
            let numbers: Vec<u8> = (0..24).collect();
            let file = first(dim, (2, 8), &numbers);
            let nifti = parsed(&file).unwrap();
            assert_eq!((nifti.axes.as_str(), nifti.shape.as_slice()), (axes, shape), "{dim:?}");
            assert_eq!(nifti.values(&file).unwrap(), numbers);
        }
        let colours = first(&[2, 1, 2], (128, 24), &[7; 12]);
        let nifti = parsed(&colours).unwrap();
        assert_eq!((nifti.axes.as_str(), nifti.shape.as_slice()), ("zyxc", &[2, 1, 2, 3][..]));
    }

    #[test]
    fn compressed_files_and_both_byte_orders_have_the_same_numbers() {
        let numbers: Vec<u8> = (1..=6_i16).flat_map(i16::to_le_bytes).collect();
        let little = first(&[3, 2], (4, 16), &numbers);
        let mut big = little.clone();
        big[..4].reverse();
        for at in (40..46).step_by(2).chain([70, 72]).chain((352..364).step_by(2)) {
            big[at..at + 2].reverse();
        }
        big[108..112].reverse();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&big).unwrap();
        let mut packed = packed.finish().unwrap();
        for file in [&little, &big, &packed] {
            let nifti = parsed(file).unwrap();
            assert_eq!((nifti.number, nifti.len_bytes()), (Number::I16, 12));
            assert_eq!(nifti.values(file).unwrap(), numbers);
        }
        let nifti = parsed(&packed).unwrap();
        let at = packed.len() - 8;
        packed[at] ^= 1;
        let wrong = nifti.values(&packed).unwrap_err();
        assert!(wrong.to_string().contains("cannot be decompressed"), "{wrong}");
        assert!(matches!(nifti.values(&packed[..at]), Err(Error::Truncated { .. })));
    }

    #[test]
    fn the_place_is_that_of_the_rows_or_of_the_quaternion() {
        let mut file = first(&[2, 2, 2], (2, 8), &[0; 8]);
        put(&mut file, 76, &[-1.0, 2.0, 3.0, 4.0, 0.5]);
        let volume = |file: &[u8]| parsed(file).unwrap().geo.volume.unwrap();
        let unknown = volume(&file);
        assert_eq!((unknown.affine, unknown.spacing), (None, [2.0, 3.0, 4.0, 0.5]));
        assert_eq!(unknown.units, "unknown unknown");
        // Half a turn about z, with slices in the other direction.
        file[252] = 1;
        put(&mut file, 256, &[0.0, 0.0, 1.0, 10.0, 20.0, 30.0]);
        file[123] = 2 | 8;
        let turned = volume(&file);
        let affine = [-2.0, 0.0, 0.0, 10.0, 0.0, -3.0, 0.0, 20.0, 0.0, 0.0, -4.0, 30.0];
        assert_eq!((turned.affine, turned.units.as_str()), (Some(affine), "mm sec"));
        file[254] = 2;
        let rows: Vec<f32> = (1_u8..=12).map(f32::from).collect();
        put(&mut file, 280, &rows);
        assert_eq!(
            volume(&file).affine.unwrap().to_vec(),
            (1..=12).map(f64::from).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_scale_holds_for_every_band_unless_it_is_0() {
        let mut file = first(&[1, 1, 1, 1, 2], (4, 16), &[0; 4]);
        put(&mut file, 112, &[0.0, 7.0]);
        assert!(parsed(&file).unwrap().geo.scales.is_empty());
        put(&mut file, 112, &[0.5, 7.0]);
        assert_eq!(parsed(&file).unwrap().geo.scales, [[0.5, 7.0]; 2]);
        put(&mut file, 112, &[0.5, f32::NAN]);
        assert!(Nifti::parse(&file, &Limits::default()).is_err());
    }

    #[test]
    fn what_has_no_reading_is_refused() {
        let good = first(&[2, 2], (2, 8), &[1; 4]);
        let refused = |change: &dyn Fn(&mut Vec<u8>), told: &str| {
            let mut file = good.clone();
            change(&mut file);
            let error = Nifti::parse(&file, &Limits::default()).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        };
        refused(&|file| file[344..348].copy_from_slice(b"ni1\0"), "in another file, `.img`");
        refused(&|file| file[344] = 0, "does not begin as NIfTI");
        refused(&|file| file.truncate(347), "does not begin as NIfTI");
        refused(&|file| file[40] = 0, "it has 0 axes, not 1 to 7");
        refused(&|file| file[40] = 8, "it has 8 axes, not 1 to 7");
        refused(&|file| file[42] = 0, "an axis has no length");
        refused(&|file| file[70] = 32, "complex");
        refused(&|file| file[70] = 3, "3 is not a type");
        refused(&|file| file[72] = 16, "have 8 bits, and its header says 16");
        refused(&|file| put(file, 108, &[351.0]), "within its header");
        refused(&|file| put(file, 108, &[f32::NAN]), "within its header");
        let many = first(&[i16::MAX; 7], (2, 8), &[]);
        let error = Nifti::parse(&many, &Limits::default()).unwrap_err().to_string();
        assert!(error.contains("7 axes"), "{error}");
        let short = parsed(&good).unwrap().values(&good[..355]).unwrap_err().to_string();
        assert!(short.contains("3 bytes of numbers, and its header says 4"), "{short}");
        let limits = Limits { max_pixels: 3 };
        assert!(matches!(Nifti::parse(&good, &limits), Err(Error::TooLarge { .. })));
    }
}
