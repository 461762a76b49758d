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
    /// Names of all bands, when any has one.
    pub bands: Vec<String>,
}

/// GDAL's XML is ignored if it is longer than this.
const MOST_XML: usize = 1 << 20;

impl Geo {
    pub(super) fn read<S: Positioned + ?Sized>(
        of: &Directory<'_, S>,
        bands: u16,
    ) -> Result<Self, Error> {
        let keys = Keys::read(of)?;
        let nodata = of.text(42_113)?.and_then(|text| nodata(&text));
        let xml = of.text(42_112)?.filter(|xml| xml.len() <= MOST_XML);
        Ok(Self {
            transform: transform(of, keys.is_point())?,
            crs: keys.crs(),
            nodata,
            bands: xml.map(|xml| band_names(&xml, bands)).unwrap_or_default(),
        })
    }

    /// Returns the transform of a window whose corner is at (`x`, `y`).
    pub fn window_transform(&self, x: u32, y: u32) -> Option<[f64; 6]> {
        let [x0, a, b, y0, d, e] = self.transform?;
        let (x, y) = (f64::from(x), f64::from(y));
        Some([x0 + x * a + y * b, a, b, y0 + x * d + y * e, d, e])
    }
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

/// Returns the descriptions of bands in GDAL's XML; empty if there are none.
fn band_names(xml: &str, bands: u16) -> Vec<String> {
    let Ok(document) = roxmltree::Document::parse(xml) else { return Vec::new() };
    let mut names = vec![String::new(); usize::from(bands)];
    for item in document.descendants().filter(|node| node.has_tag_name("Item")) {
        let is_name = item.attribute("role") == Some("description")
            || item.attribute("name") == Some("DESCRIPTION");
        let sample = item.attribute("sample").and_then(|n| n.parse::<usize>().ok());
        if let (true, Some(name)) = (is_name, sample.and_then(|n| names.get_mut(n))) {
            *name = unescaped(item.text().unwrap_or_default().trim());
        }
    }
    if names.iter().all(String::is_empty) {
        return Vec::new();
    }
    // GDAL counts the bands in this way.
    for (i, name) in names.iter_mut().enumerate().filter(|(_, name)| name.is_empty()) {
        *name = format!("band_{}", i + 1);
    }
    names
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

    #[test]
    fn bands_have_the_names_that_gdal_gives_them() {
        let xml = "<GDALMetadata><Item name=\"DESCRIPTION\" sample=\"1\" role=\"description\">B04</Item>\
            <Item name=\"x\">7</Item></GDALMetadata>";
        assert_eq!(band_names(xml, 3), ["band_1", "B04", "band_3"]);
        let twice = xml.replace("B04", "red &amp;amp; &amp;lt;NIR");
        assert_eq!(band_names(&twice, 2)[1], "red & <NIR");
        assert!(band_names("<GDALMetadata/>", 3).is_empty());
        assert!(band_names("<no", 3).is_empty());
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
        let moved = geo.window_transform(2, 3).unwrap();
        assert_eq!(moved, [121.5, 10.0, 0.5, 20.5, 0.25, -10.0]);
    }
}
