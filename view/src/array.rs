//! Stored arrays as pictures to look at.

use gular_bundle::{Band, Dtype, Field};
use gular_codec::Picture;

use crate::error::PictureError;

/// A colour, the names of its band, and its wavelengths in nanometres.
struct Colour {
    names: [&'static str; 3],
    wavelengths: (f64, f64),
}

/// Red, green and blue. `B04`, `B03` and `B02` are those of Sentinel-2; the wavelengths are those
/// of the bands of Sentinel-2 and Landsat 8 and 9, and some more.
const COLOURS: [Colour; 3] = [
    Colour { names: ["red", "r", "b04"], wavelengths: (620.0, 690.0) },
    Colour { names: ["green", "g", "b03"], wavelengths: (520.0, 600.0) },
    Colour { names: ["blue", "b", "b02"], wavelengths: (450.0, 515.0) },
];

/// How numbers become bytes from 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stretch {
    /// Whole numbers without a sign are shown as they are (of 16 bits, the high byte), others
    /// between the least and the greatest of the band.
    #[default]
    Stored,
    /// From the 2nd to the 98th percentile of the band: what is brighter or darker is cut.
    Percentiles,
}

impl Stretch {
    /// How values of `field` are shown unless somebody chooses otherwise: numbers that do not go
    /// from 0 to 255 by their percentiles.
    #[must_use]
    pub fn usual(field: &Field) -> Self {
        match field.as_fixed() {
            None | Some((Dtype::U8, _)) => Self::Stored,
            Some(_) => Self::Percentiles,
        }
    }
}

/// The numbers of an array with rows and columns, one list per band.
#[derive(Debug)]
pub(crate) struct Cells<'a> {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) n_bands: usize,
    dtype: Dtype,
    bytes: &'a [u8],
    /// Bytes between rows, columns and bands.
    strides: [usize; 3],
    nodata: Option<f64>,
}

impl<'a> Cells<'a> {
    /// Finds rows, columns and bands of a value of `field`.
    pub(crate) fn new(field: &Field, bytes: &'a [u8]) -> Result<Self, PictureError> {
        let Some((dtype, shape)) = field.as_fixed() else { return Err(PictureError::NotArray) };
        let other = || PictureError::Shape { dtype, shape: shape.to_vec() };
        let number = |n: u64| usize::try_from(n).map_err(|_| other());
        let axes = field.known_axes().ok_or_else(other)?;
        axes.grid(shape).ok_or_else(other)?;
        let size = number(dtype.size_bytes())?;
        if field.size_bytes() != Some(bytes.len() as u64) || bytes.is_empty() {
            return Err(other());
        }
        // The length and the stride of an axis, in bytes. Of times and depths, the first is shown.
        let axis = |letter| {
            let Some(at) = axes.place(letter) else { return Ok::<_, PictureError>((1, 0)) };
            let (of, after) = shape.split_at_checked(at + 1).ok_or_else(other)?;
            let stride = after.iter().try_fold(size, |n, m| n.checked_mul(number(*m).ok()?));
            Ok((number(of.last().copied().unwrap_or(0))?, stride.ok_or_else(other)?))
        };
        let ((height, row), (width, column), (n_bands, band)) =
            (axis('y')?, axis('x')?, axis('c')?);
        let nodata = field.nodata.as_ref().and_then(|nodata| nodata.as_str().parse::<f64>().ok());
        Ok(Self { width, height, n_bands, dtype, bytes, strides: [row, column, band], nodata })
    }

    /// The stored numbers of a band, of every `step`th row and column.
    fn stored(&self, band: usize, step: usize) -> impl Iterator<Item = &'a [u8]> {
        let [row, column, of_band] = self.strides;
        let (bytes, size) = (self.bytes, self.dtype.size_bytes());
        let (width, size) = (self.width, usize::try_from(size).unwrap_or(1));
        let places = (0..self.height)
            .step_by(step)
            .flat_map(move |y| (0..width).step_by(step).map(move |x| y * row + x * column));
        places.filter_map(move |at| bytes.get(at + band * of_band..)?.get(..size))
    }

    /// The numbers of a band as they are; `None` for nodata and what is not finite.
    pub(crate) fn numbers(&self, band: usize, step: usize) -> impl Iterator<Item = Option<f64>> {
        let (dtype, nodata) = (self.dtype, self.nodata);
        let cells = self.stored(band, step);
        cells.map(move |cell| number(dtype, cell).filter(|n| Some(*n) != nodata))
    }

    /// A band as bytes, of every `step`th row and column.
    fn bytes(&self, band: usize, step: usize, stretch: Stretch) -> Vec<u8> {
        let is_plain = matches!(self.dtype, Dtype::U8 | Dtype::U16);
        if is_plain && stretch == Stretch::Stored {
            return self.stored(band, step).filter_map(|cell| cell.last().copied()).collect();
        }
        let values: Vec<Option<f64>> = self.numbers(band, step).collect();
        let known = || values.iter().flatten().copied();
        let (least, most) = match stretch {
            Stretch::Stored => (known().fold(f64::MAX, f64::min), known().fold(f64::MIN, f64::max)),
            Stretch::Percentiles => percentiles(known().collect()).unwrap_or((0.0, 1.0)),
        };
        let spread = (most - least).max(f64::MIN_POSITIVE);
        let byte = |value: &Option<f64>| value.map_or(0, |n| ((n - least) / spread * 255.0) as u8);
        values.iter().map(byte).collect()
    }

    /// The picture of `bands`, or of those that are [`shown`], of every `step`th row and column.
    pub(crate) fn picture(
        &self,
        bands: &[usize],
        step: usize,
        stretch: Stretch,
    ) -> Result<Picture, PictureError> {
        let planes = bands.iter().map(|band| self.bytes(*band, step, stretch));
        let planes: Vec<Vec<u8>> = planes.collect();
        let rgb = match planes.as_slice() {
            [grey] => grey.iter().flat_map(|value| [*value; 3]).collect(),
            [red, green, blue] => {
                let pixels = red.iter().zip(green).zip(blue);
                pixels.flat_map(|((red, green), blue)| [*red, *green, *blue]).collect()
            }
            other => return Err(PictureError::BandCount { found: other.len() }),
        };
        // A side that does not fit has another area than the bytes, which is refused.
        let side = |n: usize| u32::try_from(n.div_ceil(step)).unwrap_or(u32::MAX);
        Ok(Picture::new(side(self.width), side(self.height), rgb)?)
    }
}

/// The 2nd and the 98th percentile; `None` without numbers.
pub(crate) fn percentiles(mut numbers: Vec<f64>) -> Option<(f64, f64)> {
    let last = numbers.len().checked_sub(1)?;
    let mut at = |share: f64| {
        let place = (last as f64 * share).round() as usize;
        *numbers.select_nth_unstable_by(place, f64::total_cmp).1
    };
    Some((at(0.02), at(0.98)))
}

/// The bands that are shown: red, green and blue where all are known, else the first three, or one.
pub(crate) fn shown(bands: &[Band], n: usize) -> Vec<usize> {
    if n < COLOURS.len() {
        return vec![0];
    }
    let of = |colour: &Colour| {
        let has_name = |band: &Band| colour.names.contains(&band.name.to_lowercase().trim());
        let has_wavelength = |band: &Band| {
            let wavelength = band.wavelength_nm.as_ref().and_then(|n| n.as_str().parse().ok());
            let (least, most) = colour.wavelengths;
            wavelength.is_some_and(|n: f64| (least..=most).contains(&n))
        };
        let by_name = bands.iter().position(has_name);
        by_name.or_else(|| bands.iter().position(has_wavelength)).filter(|band| *band < n)
    };
    let named: Option<Vec<usize>> = COLOURS.iter().map(of).collect();
    named.unwrap_or_else(|| vec![0, 1, 2])
}

/// A little-endian number; `None` if it is not finite.
pub(crate) fn number(dtype: Dtype, cell: &[u8]) -> Option<f64> {
    macro_rules! of {
        ($type:ty) => {
            <$type>::from_le_bytes(*cell.first_chunk()?)
        };
    }
    let number = match dtype {
        Dtype::U8 => f64::from(of!(u8)),
        Dtype::I8 => f64::from(of!(i8)),
        Dtype::U16 => f64::from(of!(u16)),
        Dtype::I16 => f64::from(of!(i16)),
        Dtype::U32 => f64::from(of!(u32)),
        Dtype::I32 => f64::from(of!(i32)),
        Dtype::I64 => of!(i64) as f64,
        Dtype::F16 => half(of!(u16)),
        Dtype::Bf16 => f64::from(f32::from_bits(u32::from(of!(u16)) << 16)),
        Dtype::F32 => f64::from(of!(f32)),
        Dtype::F64 => of!(f64),
    };
    number.is_finite().then_some(number)
}

/// The value of a half-precision float.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    sign * match (bits >> 10) & 0x1f {
        0 => fraction * 2.0_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1024.0 + fraction) * 2.0_f64.powi(i32::from(exponent) - 25),
    }
}

#[cfg(test)]
mod tests {
    use gular_bundle::{Axes, Decimal, FieldName, Nodata};

    use super::*;

    fn picture(field: &Field, bytes: &[u8]) -> Result<Picture, PictureError> {
        let cells = Cells::new(field, bytes)?;
        cells.picture(&shown(&field.bands, cells.n_bands), 1, Stretch::Stored)
    }

    fn rgb(
        dtype: Dtype,
        shape: &[u64],
        bands: &[&str],
        bytes: &[u8],
    ) -> Result<Vec<u8>, PictureError> {
        let band = |name: &&str| Band { name: (*name).to_owned(), wavelength_nm: None };
        let axes = match *shape {
            [_, _] => Axes::yx(),
            [n, _, _] if n > 4 => Axes::cyx(),
            _ => Axes::yxc(),
        };
        let field = Field {
            axes: Some(axes),
            bands: bands.iter().map(band).collect(),
            ..Field::fixed(FieldName::image(), dtype, shape.to_vec())
        };
        picture(&field, bytes).map(Picture::into_data)
    }

    #[test]
    fn any_number_of_bands_is_shown() {
        let u8s = |shape: &[u64], bands: &[&str]| {
            let n: u64 = shape.iter().product();
            rgb(Dtype::U8, shape, bands, &(0..n as u8).collect::<Vec<_>>())
        };
        assert_eq!(u8s(&[1, 2], &[]).unwrap(), [0, 0, 0, 1, 1, 1]);
        assert_eq!(u8s(&[1, 2, 2], &[]).unwrap(), [0, 0, 0, 2, 2, 2]);
        assert_eq!(u8s(&[1, 2, 3], &[]).unwrap(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(u8s(&[1, 2, 4], &[]).unwrap(), [0, 1, 2, 4, 5, 6]);
        let names = ["B02", "B03", "B04", "B08"];
        assert_eq!(u8s(&[1, 2, 4], &names).unwrap(), [2, 1, 0, 6, 5, 4]);
        let names = ["Blue", "Red edge", "green", "NIR", "red"];
        assert_eq!(u8s(&[1, 1, 5], &names).unwrap(), [4, 2, 0]);
        // Bands in front, which are not to be taken for columns.
        assert_eq!(u8s(&[5, 1, 2], &[]).unwrap(), [0, 2, 4, 1, 3, 5]);
        let unknown = Field::fixed(FieldName::image(), Dtype::U8, vec![5, 6, 6]);
        let error = picture(&unknown, &[0; 180]).unwrap_err();
        assert_eq!(error.to_string(), "U8 [5, 6, 6] is not a picture");
        assert!(u8s(&[2], &[]).is_err() && u8s(&[1, 2, 0], &[]).is_err());
        assert!(rgb(Dtype::U8, &[1, 2], &[], &[1]).is_err());
    }

    #[test]
    fn colours_are_known_by_their_wavelengths() {
        let band = |(name, wavelength): (&str, Option<&str>)| Band {
            name: name.to_owned(),
            wavelength_nm: wavelength.and_then(Decimal::parse),
        };
        let bands = [("x", Some("492.4")), ("y", Some("664.6")), ("z", None), ("w", Some("559.8"))];
        let mut bands: Vec<Band> = bands.into_iter().map(band).collect();
        assert_eq!(shown(&bands, 4), [1, 3, 0]);
        bands.pop();
        assert_eq!(shown(&bands, 3), [0, 1, 2], "there is no green");
    }

    #[test]
    fn numbers_are_spread_over_their_range() {
        let floats =
            |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
        let found = rgb(Dtype::F32, &[1, 4], &[], &floats(&[-1.0, f32::NAN, 1.0, 0.0]));
        assert_eq!(found.unwrap(), [0, 0, 0, 0, 0, 0, 255, 255, 255, 127, 127, 127]);
        assert_eq!(rgb(Dtype::F32, &[1, 1], &[], &floats(&[7.0])).unwrap(), [0; 3]);
        assert_eq!(rgb(Dtype::U16, &[1, 1, 2], &[], &[1, 2, 3, 4]).unwrap(), [2; 3]);
        let shorts = [-5_i16, 5].map(i16::to_le_bytes).concat();
        assert_eq!(rgb(Dtype::I16, &[1, 2], &[], &shorts).unwrap(), [0, 0, 0, 255, 255, 255]);
        for (bits, value) in
            [(0x3c00, 1.0), (0xc100, -2.5), (1, 2.0_f64.powi(-24)), (0x7bff, 65_504.0)]
        {
            assert_eq!(half(bits), value);
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f64::NEG_INFINITY);
        let missing = Field {
            nodata: Nodata::parse("-9999"),
            ..Field::fixed(FieldName::image(), Dtype::I16, vec![1, 3])
        };
        let values = [-9999_i16, 0, 10].map(i16::to_le_bytes).concat();
        assert_eq!(picture(&missing, &values).unwrap().data()[6..], [255; 3]);
    }

    #[test]
    fn a_stretch_cuts_what_is_rare_and_leaves_out_nodata() {
        let mut values: Vec<u16> = (0..100).map(|n| 1000 + n * 10).collect();
        (values[0], values[99]) = (0, 60_000);
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let field = Field {
            nodata: Nodata::parse("0"),
            ..Field::fixed(FieldName::image(), Dtype::U16, vec![10, 10])
        };
        let cells = Cells::new(&field, &bytes).unwrap();
        let found = cells.picture(&[0], 1, Stretch::Percentiles).unwrap();
        let grey: Vec<u8> = found.data().iter().step_by(3).copied().collect();
        assert_eq!((grey[0], grey[1], grey[98], grey[99]), (0, 0, 255, 255));
        assert!(grey[50] > 115 && grey[50] < 140, "{}", grey[50]);
        let small = cells.picture(&[0], 4, Stretch::Percentiles).unwrap();
        assert_eq!((small.width(), small.height()), (3, 3));
        assert_eq!(percentiles(Vec::new()), None);
    }
}
