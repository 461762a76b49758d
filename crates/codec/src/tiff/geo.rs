//! The location of a picture on the Earth, and the meaning of its bands.

use super::crs::Keys;
use super::directory::Directory;
use super::{Number, Positioned};
use crate::Error;

/// The contents of GeoTIFF's and GDAL's own tags.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Geo {
    /// Transform from pixel to CRS, in GDAL's order: x = t0 + column·t1 + row·t2, y = t3 +
    /// column·t4 + row·t5.
    pub transform: Option<[f64; 6]>,
    /// The coordinate reference system: `EPSG:n`; WKT 1, if its keys do not have the number of the
    /// whole system; or `GeoKeys:` and the keys as a JSON object, if one of them is not understood.
    pub crs: Option<String>,
    /// The value that means "not measured".
    pub nodata: Option<f64>,
    /// Names of all bands, when any has one, or a wavelength.
    pub bands: Vec<String>,
    /// The central wavelength of each band in nanometres, when any has one.
    pub wavelengths: Vec<Option<f64>>,
    /// Scale and offset of each band, when any has one: a stored number stands for itself times
    /// the scale, plus the offset.
    pub scales: Vec<[f64; 2]>,
    /// Ground control points, if there is no transform: column, row, x, y, z.
    pub gcps: Vec<[f64; 5]>,
    /// Rational polynomial coefficients: the 92 numbers of tag 50844, or none.
    pub rpc: Vec<f64>,
    /// The place of a volume, which TIFF files have none of.
    pub volume: Option<Volume>,
}

/// The place of voxels, in a body and not on the Earth.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    /// Three rows of four numbers: x, y and z are each the first three times column, row and slice,
    /// counted from the middle of the first voxel, plus the fourth. `None` if it is not told.
    pub affine: Option<[f64; 12]>,
    /// Distances between columns, rows, slices and times.
    pub spacing: [f64; 4],
    /// The units of space and time, such as `mm sec`.
    pub units: String,
}

/// GDAL's XML is ignored if it is longer than this.
const MOST_XML: usize = 1 << 20;

impl Geo {
    /// The numbers of rational polynomial coefficients: 2 errors, 5 offsets, 5 scales, 4 times 20.
    pub const RPC: usize = 92;

    pub(super) fn read<S: Positioned + ?Sized>(
        of: &Directory<'_, S>,
        bands: u16,
    ) -> Result<Self, Error> {
        let keys = Keys::read(of)?;
        let nodata = of.text(42_113)?.and_then(|text| nodata(&text));
        let transform = transform(of, keys.is_point())?;
        let points = of.doubles(33_922)?.filter(|_| transform.is_none()).unwrap_or_default();
        let half = if keys.is_point() { 0.5 } else { 0.0 };
        let point = |[i, j, _, x, y, z]: &[f64; 6]| [i + half, j + half, *x, *y, *z];
        let mut geo = Self {
            transform,
            crs: keys.crs(),
            nodata,
            gcps: points.as_chunks().0.iter().map(point).collect(),
            rpc: of.doubles(50_844)?.filter(|rpc| rpc.len() == Self::RPC).unwrap_or_default(),
            ..Self::default()
        };
        if let Some(xml) = of.text(42_112)?.filter(|xml| xml.len() <= MOST_XML) {
            geo.add_bands(&xml, bands.into());
        }
        Ok(geo)
    }

    /// Returns what is known of a window whose corner is at (`x`, `y`).
    #[must_use]
    pub fn of_window(&self, x: u32, y: u32) -> Self {
        let (x, y) = (f64::from(x), f64::from(y));
        let mut geo = self.clone();
        if let Some([x0, a, b, y0, d, e]) = &mut geo.transform {
            (*x0, *y0) = (*x0 + x * *a + y * *b, *y0 + x * *d + y * *e);
        }
        for [column, row, ..] in &mut geo.gcps {
            (*column, *row) = (*column - x, *row - y);
        }
        if let Some(affine) = geo.volume.as_mut().and_then(|volume| volume.affine.as_mut()) {
            for [a, b, _, origin] in affine.as_chunks_mut().0 {
                *origin += x * *a + y * *b;
            }
        }
        if let [_, _, row, column, ..] = geo.rpc.as_mut_slice() {
            (*column, *row) = (*column - x, *row - y);
        }
        geo
    }

    /// Scale and offset of each of `n` bands, also if there are none.
    #[must_use]
    pub fn scales_of(&self, n: usize) -> Vec<[f64; 2]> {
        if self.scales.is_empty() { vec![[1.0, 0.0]; n] } else { self.scales.clone() }
    }

    /// Notes scale and offset of each band, if any has one.
    pub fn set_scales(&mut self, scales: Vec<[f64; 2]>) {
        let is_scaled = scales.iter().any(|scale| *scale != [1.0, 0.0]);
        self.scales = if is_scaled { scales } else { Vec::new() };
    }

    /// Adds what GDAL's XML says of the bands.
    fn add_bands(&mut self, xml: &str, n: usize) {
        let Ok(document) = roxmltree::Document::parse(xml) else { return };
        let items: Vec<_> =
            document.descendants().filter(|node| node.has_tag_name("Item")).collect();
        let text = |name: &str, role: &str, band: usize| {
            let is_it = |item: &&roxmltree::Node<'_, '_>| {
                let named = item.attribute("name").is_some_and(|of| of.eq_ignore_ascii_case(name));
                let sample = item.attribute("sample").and_then(|n| n.parse().ok());
                sample == Some(band) && (named || item.attribute("role") == Some(role))
            };
            // The last one counts.
            let item = items.iter().rev().find(is_it)?;
            Some(unescaped(item.text().unwrap_or_default().trim()))
        };
        let number = |name: &str, role: &str, band: usize| -> Option<f64> {
            text(name, role, band)?.parse().ok().filter(|n: &f64| n.is_finite())
        };
        let wavelength = |band| {
            let is_said = number("CENTRAL_WAVELENGTH_UM", "", band);
            let is_unit =
                |units: &[&str], of: &str| units.iter().any(|u| of.eq_ignore_ascii_case(u));
            let of_envi = || match text("wavelength_units", "", band)?.as_str() {
                of if is_unit(&["nanometers", "nm"], of) => number("wavelength", "", band),
                of if is_unit(&["micrometers", "microns", "um", "µm"], of) => {
                    number("wavelength", "", band).map(nanometres)
                }
                _ => None,
            };
            is_said.map(nanometres).or_else(of_envi).filter(|n| *n > 0.0)
        };
        let names: Vec<_> = (0..n)
            .map(|band| text("DESCRIPTION", "description", band).filter(|name| !name.is_empty()))
            .collect();
        self.wavelengths = (0..n).map(wavelength).collect();
        if self.wavelengths.iter().all(Option::is_none) {
            self.wavelengths.clear();
        }
        if names.iter().any(Option::is_some) || !self.wavelengths.is_empty() {
            // GDAL counts the bands in this way.
            let named =
                |(name, i): (Option<String>, u32)| name.unwrap_or_else(|| format!("band_{i}"));
            self.bands = names.into_iter().zip(1..).map(named).collect();
        }
        let scale = |band| {
            let (scale, offset) =
                (number("SCALE", "scale", band), number("OFFSET", "offset", band));
            [scale.unwrap_or(1.0), offset.unwrap_or(0.0)]
        };
        self.set_scales((0..n).map(scale).collect());
    }
}

/// Micrometres as nanometres, without the digits that only the multiplication makes.
fn nanometres(micrometres: f64) -> f64 {
    (micrometres * 1e9).round() / 1e6
}

fn nodata(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

fn transform<S: Positioned + ?Sized>(
    of: &Directory<'_, S>,
    is_point: bool,
) -> Result<Option<[f64; 6]>, Error> {
    let matrix = of.doubles(34_264)?.filter(|matrix| matrix.len() == 16);
    let found = if let Some(&[a, b, _, x, d, e, _, y, ..]) = matrix.as_deref() {
        Some([x, a, b, y, d, e])
    } else {
        let (scale, tie) = (of.doubles(33_550)?, of.doubles(33_922)?);
        match (scale.as_deref(), tie.as_deref()) {
            (Some([sx, sy, ..]), Some([i, j, _, x, y, _, ..])) => {
                Some([x - i * sx, *sx, 0.0, y + j * sy, 0.0, -sy])
            }
            _ => None,
        }
    };
    // With such points, a tie point is the middle of a pixel.
    let shifted =
        |[x, a, b, y, d, e]: [f64; 6]| [x - a * 0.5 - b * 0.5, a, b, y - d * 0.5 - e * 0.5, d, e];
    let found = if is_point { found.map(shifted) } else { found };
    Ok(found.filter(|numbers| numbers.iter().all(|n| n.is_finite())))
}

/// Replaces entities. GDAL escapes its texts twice, so this is applied twice.
fn unescaped(text: &str) -> String {
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, c)| text.replace(entity, c))
}

impl Number {
    /// Encodes a number in this type, little-endian; `None` if the type cannot represent it.
    pub fn encode(self, value: f64) -> Option<Vec<u8>> {
        let whole = value.fract() == 0.0;
        macro_rules! integer {
            ($type:ty) => {{
                let inside = value >= <$type>::MIN as f64 && value <= <$type>::MAX as f64;
                (whole && inside).then(|| (value as $type).to_le_bytes().to_vec())
            }};
        }
        match self {
            Self::U8 => integer!(u8),
            Self::I8 => integer!(i8),
            Self::U16 => integer!(u16),
            Self::I16 => integer!(i16),
            Self::U32 => integer!(u32),
            Self::I32 => integer!(i32),
            Self::I64 => integer!(i64),
            Self::F16 => half(value).map(|bits| bits.to_le_bytes().to_vec()),
            Self::F32 => Some((value as f32).to_le_bytes().to_vec()),
            Self::F64 => Some(value.to_le_bytes().to_vec()),
        }
    }
}

/// Returns the bits of the nearest half-precision float; `None` if the value is too large.
fn half(value: f64) -> Option<u16> {
    let sign = u16::from(value.is_sign_negative()) << 15;
    if value.is_nan() {
        return Some(0x7e00);
    }
    if value.is_infinite() {
        return Some(sign | 0x7c00);
    }
    // The limit is halfway between the largest half-precision float and what would be the next one.
    if value.abs() >= 65_520.0 {
        return None;
    }
    // The unit is 2^-24, the smallest such float. From 2048 units on, floats are two and more
    // apart.
    let (mut units, mut exponent) = (value.abs() * f64::from(1 << 24), 0_u16);
    while units >= 2048.0 {
        (units, exponent) = (units / 2.0, exponent + 1);
    }
    // If it rounds up to 2048, the carry increases the exponent.
    Some(sign | (exponent * 1024 + units.round_ties_even() as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_xml(xml: &str, bands: usize) -> Geo {
        let mut geo = Geo::default();
        geo.add_bands(xml, bands);
        geo
    }

    #[test]
    fn bands_have_the_names_that_gdal_gives_them() {
        let xml = "<GDALMetadata><Item name=\"DESCRIPTION\" sample=\"1\" role=\"description\">B04</Item>\
            <Item name=\"x\">7</Item></GDALMetadata>";
        assert_eq!(of_xml(xml, 3).bands, ["band_1", "B04", "band_3"]);
        let twice = xml.replace("B04", "red &amp;amp; &amp;lt;NIR");
        assert_eq!(of_xml(&twice, 2).bands[1], "red & <NIR");
        assert_eq!(of_xml("<GDALMetadata/>", 3), Geo::default());
        assert_eq!(of_xml("<no", 3), Geo::default());
    }

    #[test]
    fn bands_have_scales_and_wavelengths() {
        let item = |name: &str, sample: usize, rest: &str, text: &str| {
            format!("<Item name=\"{name}\" sample=\"{sample}\"{rest}>{text}</Item>")
        };
        let xml = |items: &[String]| format!("<GDALMetadata>{}</GDALMetadata>", items.concat());
        let scaled = [
            item("SCALE", 0, " role=\"scale\"", "2.75e-05"),
            item("OFFSET", 0, " role=\"offset\"", "-0.2"),
            item("OFFSET", 2, " role=\"offset\"", "7"),
        ];
        let geo = of_xml(&xml(&scaled), 3);
        assert_eq!(geo.scales, [[2.75e-5, -0.2], [1.0, 0.0], [1.0, 7.0]]);
        assert!(geo.bands.is_empty());
        let same = [item("SCALE", 0, "", "1"), item("OFFSET", 1, "", "nan")];
        assert_eq!(of_xml(&xml(&same), 2), Geo::default());
        let waves = [
            item("CENTRAL_WAVELENGTH_UM", 0, " domain=\"IMAGERY\"", "0.4427"),
            item("wavelength", 1, "", "559.8"),
            item("wavelength_units", 1, "", "Nanometers"),
            item("wavelength", 2, "", "2.2024"),
            item("wavelength_units", 2, "", "Micrometers"),
            // Without a unit, nobody knows what it is.
            item("wavelength", 3, "", "5"),
        ];
        let geo = of_xml(&xml(&waves), 4);
        assert_eq!(geo.wavelengths, [Some(442.7), Some(559.8), Some(2202.4), None]);
        assert_eq!(geo.bands, ["band_1", "band_2", "band_3", "band_4"]);
    }

    #[test]
    fn nodata_is_of_the_bands_type_or_none() {
        assert_eq!(Number::I16.encode(-9999.0).unwrap(), (-9999_i16).to_le_bytes());
        assert_eq!(Number::U8.encode(-1.0), None);
        assert_eq!(Number::U8.encode(0.5), None);
        assert!(Number::F32.encode(f64::NAN).unwrap() == f32::NAN.to_le_bytes());
        assert_eq!(nodata(" -3.4028234663852886e+38 "), Some(f64::from(f32::MIN)));
        assert_eq!(nodata("none"), None);
        for (value, bits) in [
            (1.0, 0x3c00),
            (-2.5, 0xc100),
            (65_504.0, 0x7bff),
            (-9999.0, 0xf0e2),
            (2047.75, 0x6800),
            (0.0, 0),
            (f64::INFINITY, 0x7c00),
            (2.0_f64.powi(-24), 1),
            (f64::NAN, 0x7e00),
        ] {
            assert_eq!(Number::F16.encode(value), Some(u16::to_le_bytes(bits).to_vec()), "{value}");
        }
        assert_eq!(Number::F16.encode(1e6), None);
        assert_eq!(Number::F16.encode(f64::MAX), None);
    }

    #[test]
    fn windows_move_the_corner() {
        let geo = Geo { transform: Some([100.0, 10.0, 0.5, 50.0, 0.25, -10.0]), ..Geo::default() };
        let moved = geo.of_window(2, 3).transform.unwrap();
        assert_eq!(moved, [121.5, 10.0, 0.5, 20.5, 0.25, -10.0]);
        let rpc: Vec<f64> = (0..92).map(f64::from).collect();
        let moved = Geo { gcps: vec![[5.0, 7.0, 1.0, 2.0, 3.0]], rpc, ..geo }.of_window(2, 3);
        assert_eq!(moved.gcps, [[3.0, 4.0, 1.0, 2.0, 3.0]]);
        assert_eq!(moved.rpc[..6], [0.0, 1.0, -1.0, 1.0, 4.0, 5.0]);
    }
}
