//! Stored arrays as pictures to look at.

use gular_bundle::{Band, Dtype, Field};
use gular_codec::Picture;

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

/// Returns a stored value of a field as 8-bit RGB: three of its bands, or the first one as grey.
/// Of 16-bit samples the high byte is taken; other numbers are spread between the least and the
/// greatest value of the band.
pub(super) fn picture(field: &Field, bytes: &[u8]) -> Result<Picture, String> {
    let Some((dtype, shape)) = field.as_fixed() else { return Err("no array".to_owned()) };
    let other = || format!("{dtype:?} {shape:?} is not a picture");
    let number = |n: u64| usize::try_from(n).map_err(|_| other());
    let axes = field.known_axes().ok_or_else(other)?;
    let grid = axes.grid(shape).ok_or_else(other)?;
    let size = number(dtype.size_bytes())?;
    if field.size_bytes() != Some(bytes.len() as u64) || bytes.is_empty() {
        return Err(other());
    }
    // The length and the stride of an axis, in bytes. Of times and depths, the first is shown.
    let axis = |letter| {
        let Some(at) = axes.place(letter) else { return Ok::<_, String>((1, 0)) };
        let (of, after) = shape.split_at_checked(at + 1).ok_or_else(other)?;
        let stride = after.iter().try_fold(size, |n, m| n.checked_mul(number(*m).ok()?));
        Ok((number(of.last().copied().unwrap_or(0))?, stride.ok_or_else(other)?))
    };
    let ((height, row), (width, column), (n, band_stride)) = (axis('y')?, axis('x')?, axis('c')?);
    let nodata = field.nodata.as_ref().and_then(|nodata| nodata.as_str().parse::<f64>().ok());
    let planes = shown(&field.bands, n).into_iter().map(|band| {
        let places = (0..height).flat_map(|y| (0..width).map(move |x| y * row + x * column));
        let cells = places.filter_map(|at| bytes.get(at + band * band_stride..)?.get(..size));
        grey(dtype, cells, nodata)
    });
    let planes: Vec<Vec<u8>> = planes.collect();
    let rgb = match planes.as_slice() {
        [grey] => grey.iter().flat_map(|value| [*value; 3]).collect(),
        [red, green, blue] => {
            let pixels = red.iter().zip(green).zip(blue);
            pixels.flat_map(|((red, green), blue)| [*red, *green, *blue]).collect()
        }
        _ => return Err(other()),
    };
    let side = |n: u64| u32::try_from(n).map_err(|_| other());
    Picture::new(side(grid.width)?, side(grid.height)?, rgb).map_err(|e| e.to_string())
}

/// The bands that are shown: red, green and blue where all are known, else the first three, or one.
fn shown(bands: &[Band], n: usize) -> Vec<usize> {
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

/// The numbers of one band as bytes.
fn grey<'a>(dtype: Dtype, cells: impl Iterator<Item = &'a [u8]>, nodata: Option<f64>) -> Vec<u8> {
    if matches!(dtype, Dtype::U8 | Dtype::U16) {
        return cells.filter_map(|cell| cell.last().copied()).collect();
    }
    let values = cells.map(|cell| number(dtype, cell).filter(|n| Some(*n) != nodata));
    let values: Vec<Option<f64>> = values.collect();
    let known = || values.iter().flatten().copied();
    let (least, most) = (known().fold(f64::MAX, f64::min), known().fold(f64::MIN, f64::max));
    let spread = (most - least).max(f64::MIN_POSITIVE);
    let byte = |value: &Option<f64>| value.map_or(0, |n| ((n - least) / spread * 255.0) as u8);
    values.iter().map(byte).collect()
}

/// A little-endian number; `None` if it is not finite.
fn number(dtype: Dtype, cell: &[u8]) -> Option<f64> {
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

    fn rgb(dtype: Dtype, shape: &[u64], bands: &[&str], bytes: &[u8]) -> Result<Vec<u8>, String> {
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
        assert_eq!(picture(&unknown, &[0; 180]).unwrap_err(), "U8 [5, 6, 6] is not a picture");
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
}
