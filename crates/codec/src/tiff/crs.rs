//! The coordinate reference system that GeoTIFF's keys describe, as text.
//!
//! ```text
//! keys ─▶ `EPSG:n`, where they have the code of the whole system
//!      └▶ WKT, from ESRI's text in a citation, or from the keys of datum, projection and unit
//!      └▶ `GeoKeys:{"1024":1,…}`, the keys themselves, where one of them is not understood
//! ```
//!
//! Numbers of keys, units and projections: OGC GeoTIFF 1.1 (19-008r4), annex B, and
//! `geokeys.inc`, `epsg_ellipse.inc`, `geo_ctrans.inc` of libgeotiff 1.7.

use std::fmt::Write as _;

use super::Positioned;
use super::directory::Directory;
use crate::Error;

/// The number of what the file describes itself.
const USER_DEFINED: u64 = 32_767;
/// No system takes more text than this.
const MOST_TEXT: usize = 64 << 10;
/// What ESRI's text in a citation begins with.
pub(super) const ESRI: &str = "ESRI PE String = ";
/// What the keys themselves, as text, begin with.
pub(super) const RAW: &str = "GeoKeys:";

/// Whether the keys are of a projected or of a geographic system.
const MODEL: u64 = 1024;
const RASTER: u64 = 1025;
const CITATION: u64 = 1026;
const GEOGRAPHIC: u64 = 2048;
const GEOGRAPHIC_CITATION: u64 = 2049;
const DATUM: u64 = 2050;
const PRIME_MERIDIAN: u64 = 2051;
const ANGULAR_UNIT: u64 = 2054;
const ELLIPSOID: u64 = 2056;
const SEMI_MAJOR: u64 = 2057;
const SEMI_MINOR: u64 = 2058;
const INVERSE_FLATTENING: u64 = 2059;
const PRIME_MERIDIAN_LONGITUDE: u64 = 2061;
const PROJECTED: u64 = 3072;
const PROJECTED_CITATION: u64 = 3073;
/// A projection with all its parameters, such as a zone of UTM.
const CONVERSION: u64 = 3074;
const METHOD: u64 = 3075;
const LINEAR_UNIT: u64 = 3076;
const LINEAR_UNIT_SIZE: u64 = 3077;

/// The value of a key.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Numbers(Vec<u64>),
    Doubles(Vec<f64>),
    Text(String),
}

/// All keys of a directory.
#[derive(Debug, Default)]
pub(super) struct Keys {
    keys: Vec<(u64, Value)>,
    /// Whether the value of some key is not where the key says.
    is_damaged: bool,
}

impl Keys {
    pub(super) fn read<S: Positioned + ?Sized>(of: &Directory<'_, S>) -> Result<Self, Error> {
        let all = of.integers(34_735)?.unwrap_or_default();
        let doubles = of.doubles(34_736)?.unwrap_or_default();
        let texts = of.text(34_737)?.unwrap_or_default();
        let mut found = Self::default();
        // Four numbers each, after a header of four.
        for [id, place, n, value] in all.as_chunks().0.iter().skip(1) {
            let range = usize::try_from(*value).ok().zip(usize::try_from(*n).ok());
            let range = range.and_then(|(at, n)| Some(at..at.checked_add(n)?));
            let value = match *place {
                0 => Some(Value::Numbers(vec![*value])),
                34_735 => {
                    range.and_then(|range| all.get(range)).map(|n| Value::Numbers(n.to_vec()))
                }
                34_736 => {
                    range.and_then(|range| doubles.get(range)).map(|n| Value::Doubles(n.to_vec()))
                }
                34_737 => range
                    .and_then(|range| texts.get(range.start..range.end.min(texts.len())))
                    .map(|text| Value::Text(text.trim_end_matches(['|', '\0']).trim().to_owned())),
                _ => None,
            };
            match value {
                Some(value) => found.keys.push((*id, value)),
                None => found.is_damaged = true,
            }
        }
        Ok(found)
    }

    fn find(&self, id: u64) -> Option<&Value> {
        self.keys.iter().find(|(of, _)| *of == id).map(|(_, value)| value)
    }

    fn number(&self, id: u64) -> Option<u64> {
        match self.find(id) {
            Some(Value::Numbers(numbers)) => numbers.first().copied().filter(|n| *n > 0),
            _ => None,
        }
    }

    fn double(&self, id: u64) -> Option<f64> {
        match self.find(id) {
            Some(Value::Doubles(numbers)) => numbers.first().copied().filter(|n| n.is_finite()),
            _ => None,
        }
    }

    fn text(&self, id: u64) -> Option<&str> {
        match self.find(id) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Whether a tie point is the middle of a pixel.
    pub(super) fn is_point(&self) -> bool {
        self.number(RASTER) == Some(2)
    }

    /// The system as text; `None` if there is none.
    pub(super) fn crs(&self) -> Option<String> {
        // Whether points or areas are measured says nothing of the system.
        if self.keys.iter().all(|(id, _)| *id == RASTER) {
            return None;
        }
        let wkt = || if self.is_damaged { None } else { self.wkt() };
        let text = self.code().or_else(wkt).or_else(|| self.raw());
        text.filter(|text| text.len() <= MOST_TEXT)
    }

    /// `EPSG:n`, if the keys have the number of the whole system.
    fn code(&self) -> Option<String> {
        let of = |id| self.number(id).filter(|code| (1024..USER_DEFINED).contains(code));
        let code = match self.number(MODEL) {
            Some(2) => of(GEOGRAPHIC)?,
            Some(1 | USER_DEFINED) | None => match (of(PROJECTED), self.esri()) {
                (Some(code), _) => code,
                (None, Some(wkt)) if wkt.starts_with("GEOGCS[") => of(GEOGRAPHIC)?,
                _ => self.code_of_name()?,
            },
            Some(_) => return None,
        };
        let is_projected = self.number(MODEL) != Some(2) && self.number(PROJECTED) == Some(code);
        let is_of_another_kind = is_projected && is_geographic(code);
        let unit = self.number(LINEAR_UNIT).unwrap_or(METRE);
        let has_another_unit = is_projected && unit != METRE && is_in_metres(code);
        if is_of_another_kind || has_another_unit || (is_projected && unit == USER_DEFINED) {
            return None;
        }
        Some(format!("EPSG:{code}"))
    }

    /// The number of a projected system that is known by its name alone.
    fn code_of_name(&self) -> Option<u64> {
        if self.number(METHOD).is_some_and(|method| method != USER_DEFINED) {
            return None;
        }
        let name = self.name();
        NAMES.iter().find(|(of, _)| *of == name).map(|(_, code)| *code)
    }

    /// The name of the system, if it has one.
    fn name(&self) -> &str {
        let citations = [CITATION, PROJECTED_CITATION, GEOGRAPHIC_CITATION];
        let mut texts = citations.into_iter().filter_map(|id| self.text(id));
        let text = texts.find(|text| !text.starts_with(ESRI) && !text.starts_with("GCS Name = "));
        let text = text.unwrap_or("unknown").split('|').next().unwrap_or_default();
        text.strip_prefix("PCS Name = ").unwrap_or(text)
    }

    /// ESRI's text in a citation, if it is whole.
    fn esri(&self) -> Option<&str> {
        let citations = [PROJECTED_CITATION, CITATION, GEOGRAPHIC_CITATION];
        let mut texts = citations.into_iter().filter_map(|id| self.text(id));
        texts.find_map(|text| text.strip_prefix(ESRI)).filter(|wkt| is_wkt(wkt))
    }

    /// WKT 1 as GDAL writes it, of what the keys describe.
    fn wkt(&self) -> Option<String> {
        if let Some(text) = self.text(PROJECTED_CITATION).filter(|text| text.starts_with(RAW)) {
            return Some(text.to_owned());
        }
        if let Some(wkt) = self.esri() {
            return Some(wkt.to_owned());
        }
        match self.number(MODEL)? {
            1 => {}
            2 => return self.geographic(),
            _ => return None,
        }
        let (unit, metres) = self.linear_unit()?;
        let (name, geographic) = (quoted(self.name()), self.geographic()?);
        let (method, parameters) = match (self.number(CONVERSION), self.number(METHOD)) {
            (_, Some(code)) if code != USER_DEFINED => self.projection(code)?,
            (Some(code), _) if unit == "metre" && self.is_without_parameters() => utm(code)?,
            _ => return None,
        };
        let mut wkt = format!("PROJCS[{name},{geographic},PROJECTION[\"{method}\"]");
        for (parameter, value) in parameters {
            let _ = write!(wkt, ",PARAMETER[\"{parameter}\",{value}]");
        }
        let _ = write!(wkt, ",UNIT[\"{unit}\",{metres}]]");
        Some(wkt)
    }

    fn geographic(&self) -> Option<String> {
        if !matches!(self.number(ANGULAR_UNIT), None | Some(9102 | 9122))
            || !matches!(self.number(PRIME_MERIDIAN), None | Some(8901))
            || self
                .find(PRIME_MERIDIAN_LONGITUDE)
                .is_some_and(|of| *of != Value::Doubles(vec![0.0]))
        {
            return None;
        }
        let code = self.number(GEOGRAPHIC).filter(|code| *code != USER_DEFINED);
        let datum = self.number(DATUM).filter(|code| *code != USER_DEFINED);
        let known = |is: &dyn Fn(&Datum) -> bool| DATUMS.iter().find(|datum| is(datum));
        let (name, datum, spheroid, authority) = match (code, datum) {
            (Some(code), _) => {
                let known = known(&|datum| datum.geographic == code)?;
                let authority = format!(",AUTHORITY[\"EPSG\",\"{code}\"]");
                (known.name, known.datum, known.spheroid(), authority)
            }
            (None, Some(code)) => {
                let known = known(&|datum| datum.code == code)?;
                ("unknown", known.datum, known.spheroid(), String::new())
            }
            (None, None) => ("unknown", "unknown", self.spheroid()?, String::new()),
        };
        Some(format!(
            "GEOGCS[\"{name}\",DATUM[\"{datum}\",{spheroid}],PRIMEM[\"Greenwich\",0],UNIT[\"degree\",0.0174532925199433]{authority}]"
        ))
    }

    fn spheroid(&self) -> Option<String> {
        let code = self.number(ELLIPSOID).filter(|code| *code != USER_DEFINED);
        let known = ELLIPSOIDS.iter().find(|(of, ..)| Some(*of) == code);
        let (major, minor) = (self.double(SEMI_MAJOR), self.double(SEMI_MINOR));
        let (name, a, flattening) = match (known, self.double(INVERSE_FLATTENING)) {
            (Some((_, name, a, flattening)), _) => (*name, *a, *flattening),
            (None, Some(flattening)) => ("unknown", major?, flattening),
            (None, None) => {
                let (a, b) = (major?, minor?);
                ("unknown", a, if a == b { 0.0 } else { a / (a - b) })
            }
        };
        (a > 0.0 && flattening >= 0.0).then(|| format!("SPHEROID[\"{name}\",{a},{flattening}]"))
    }

    /// The unit of coordinates, and its metres.
    fn linear_unit(&self) -> Option<(&'static str, f64)> {
        match self.number(LINEAR_UNIT) {
            None | Some(METRE) => Some(("metre", 1.0)),
            Some(9002) => Some(("foot", 0.3048)),
            // 1200 / 3937 metres.
            Some(9003) => Some(("US survey foot", 0.304_800_609_601_219_2)),
            Some(9036) => Some(("kilometre", 1000.0)),
            Some(USER_DEFINED) => {
                let size = self.double(LINEAR_UNIT_SIZE).filter(|size| *size > 0.0)?;
                Some((if size == 1.0 { "metre" } else { "unknown" }, size))
            }
            Some(_) => None,
        }
    }

    /// Whether there are no parameters of a projection.
    fn is_without_parameters(&self) -> bool {
        !self.keys.iter().any(|(id, _)| PARAMETERS.contains(id))
    }

    /// The name of a projection, and its parameters.
    fn projection(&self, code: u64) -> Option<(&'static str, Vec<(&'static str, f64)>)> {
        let (of, method, parameters) = PROJECTIONS.iter().find(|(of, _, parameters)| {
            // The two forms of Mercator have one number.
            let is_first = parameters.iter().any(|(name, ..)| *name == "standard_parallel_1");
            *of == code && (code != MERCATOR || is_first == self.find(3078).is_some())
        })?;
        debug_assert_eq!(*of, code, "the projection that was looked for");
        // Some projections have an origin that is always 0.
        let unused = |id: &u64| !parameters.iter().any(|(_, keys, _)| keys.contains(id));
        let is_nothing = |value: &Value| *value == Value::Doubles(vec![0.0]);
        let strange = |(id, value): &(u64, Value)| {
            PARAMETERS.contains(id) && unused(id) && !is_nothing(value)
        };
        if self.keys.iter().any(strange) {
            return None;
        }
        let mut values = Vec::with_capacity(parameters.len());
        for (name, keys, default) in *parameters {
            let given: Vec<u64> =
                keys.iter().copied().filter(|id| self.find(*id).is_some()).collect();
            let value = match given.as_slice() {
                [] => (*default)?,
                [id] => self.double(*id)?,
                _ => return None,
            };
            values.push((*name, value));
        }
        Some((method, values))
    }

    /// The keys themselves, as JSON.
    fn raw(&self) -> Option<String> {
        let list = |texts: Vec<String>| match texts.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(",")),
        };
        let double = |n: &f64| if n.is_finite() { n.to_string() } else { "null".to_owned() };
        let mut text = RAW.to_owned();
        for (i, (id, value)) in self.keys.iter().enumerate() {
            let value = match value {
                Value::Numbers(numbers) => list(numbers.iter().map(u64::to_string).collect()),
                Value::Doubles(numbers) => list(numbers.iter().map(double).collect()),
                Value::Text(text) => json_text(text),
            };
            let before = if i == 0 { '{' } else { ',' };
            let _ = write!(text, "{before}\"{id}\":{value}");
            if text.len() > MOST_TEXT {
                return None;
            }
        }
        (!self.keys.is_empty()).then(|| text + "}")
    }
}

/// Whether a text is a whole system in WKT 1.
pub(super) fn is_wkt(text: &str) -> bool {
    let is_system = ["PROJCS[", "GEOGCS[", "COMPD_CS["].iter().any(|of| text.starts_with(of));
    let open = text.bytes().filter(|b| *b == b'[').count();
    is_system && text.ends_with(']') && open == text.bytes().filter(|b| *b == b']').count()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn json_text(text: &str) -> String {
    let mut json = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

/// A zone of UTM: 16001 to 16060 are in the north, 16101 to 16160 in the south.
fn utm(code: u64) -> Option<(&'static str, Vec<(&'static str, f64)>)> {
    let (zone, northing) = match code {
        16_001..=16_060 => (code - 16_000, 0.0),
        16_101..=16_160 => (code - 16_100, 1e7),
        _ => return None,
    };
    let meridian = f64::from(u8::try_from(zone).ok()?) * 6.0 - 183.0;
    let parameters = vec![
        ("latitude_of_origin", 0.0),
        ("central_meridian", meridian),
        ("scale_factor", 0.9996),
        ("false_easting", 500_000.0),
        ("false_northing", northing),
    ];
    Some(("Transverse_Mercator", parameters))
}

/// A geographic system, and its datum.
struct Datum {
    geographic: u64,
    name: &'static str,
    code: u64,
    datum: &'static str,
    ellipsoid: u64,
}

impl Datum {
    const fn of(
        geographic: u64,
        name: &'static str,
        code: u64,
        datum: &'static str,
        ellipsoid: u64,
    ) -> Self {
        Self { geographic, name, code, datum, ellipsoid }
    }

    fn spheroid(&self) -> String {
        let known = ELLIPSOIDS.iter().find(|(code, ..)| *code == self.ellipsoid);
        let (name, a, flattening) = known.map_or(("", 0.0, 0.0), |(_, name, a, f)| (*name, *a, *f));
        format!("SPHEROID[\"{name}\",{a},{flattening}]")
    }
}

/// Source: EPSG's registry 11, as WKT 1 by PROJ 9.5 (pyproj 3.7.2).
const DATUMS: [Datum; 14] = [
    Datum::of(4326, "WGS 84", 6326, "WGS_1984", 7030),
    Datum::of(4322, "WGS 72", 6322, "World_Geodetic_System_1972", 7043),
    Datum::of(4269, "NAD83", 6269, "North_American_Datum_1983", 7019),
    Datum::of(4267, "NAD27", 6267, "North_American_Datum_1927", 7008),
    Datum::of(4258, "ETRS89", 6258, "European_Terrestrial_Reference_System_1989", 7019),
    Datum::of(4283, "GDA94", 6283, "Geocentric_Datum_of_Australia_1994", 7019),
    Datum::of(7844, "GDA2020", 1168, "Geocentric_Datum_of_Australia_2020", 7019),
    Datum::of(6318, "NAD83(2011)", 1116, "NAD83_National_Spatial_Reference_System_2011", 7019),
    Datum::of(6668, "JGD2011", 1128, "Japanese_Geodetic_Datum_2011", 7019),
    Datum::of(4617, "NAD83(CSRS)", 6140, "NAD83_Canadian_Spatial_Reference_System", 7019),
    Datum::of(
        4674,
        "SIRGAS 2000",
        6674,
        "Sistema_de_Referencia_Geocentrico_para_las_AmericaS_2000",
        7019,
    ),
    Datum::of(4167, "NZGD2000", 6167, "New_Zealand_Geodetic_Datum_2000", 7019),
    Datum::of(4612, "JGD2000", 6612, "Japanese_Geodetic_Datum_2000", 7019),
    Datum::of(4490, "China Geodetic Coordinate System 2000", 1043, "China_2000", 1024),
];

/// Numbers, names, semi-major axes in metres and inverse flattenings. Source: as of `DATUMS`.
const ELLIPSOIDS: [(u64, &str, f64, f64); 9] = [
    (7030, "WGS 84", 6_378_137.0, 298.257_223_563),
    (7019, "GRS 1980", 6_378_137.0, 298.257_222_101),
    (7043, "WGS 72", 6_378_135.0, 298.26),
    (7008, "Clarke 1866", 6_378_206.4, 294.978_698_213_898),
    (7004, "Bessel 1841", 6_377_397.155, 299.152_812_8),
    (7022, "International 1924", 6_378_388.0, 297.0),
    (7024, "Krassowsky 1940", 6_378_245.0, 298.3),
    (7048, "GRS 1980 Authalic Sphere", 6_371_007.0, 0.0),
    (1024, "CGCS2000", 6_378_137.0, 298.257_222_101),
];

/// Projected systems that are known by their name. Source: EPSG 3857 and its alias of ESRI.
const NAMES: [(&str, u64); 2] =
    [("WGS_1984_Web_Mercator_Auxiliary_Sphere", 3857), ("WGS 84 / Pseudo-Mercator", 3857)];

/// The unit metre.
const METRE: u64 = 9001;
/// Mercator's projection.
const MERCATOR: u64 = 7;

/// Keys of the parameters of projections.
const PARAMETERS: std::ops::RangeInclusive<u64> = 3078..=3096;

/// A parameter in WKT, the keys that may have it, and its value without one.
type Parameter = (&'static str, &'static [u64], Option<f64>);

const LATITUDES: &[u64] = &[3081, 3085, 3089];
const LONGITUDES: &[u64] = &[3080, 3084, 3088];
const EASTING: Parameter = ("false_easting", &[3082, 3086, 3090], Some(0.0));
const NORTHING: Parameter = ("false_northing", &[3083, 3087, 3091], Some(0.0));
const ORIGIN: Parameter = ("latitude_of_origin", LATITUDES, Some(0.0));
const MERIDIAN: Parameter = ("central_meridian", LONGITUDES, Some(0.0));
const CENTRE_LATITUDE: Parameter = ("latitude_of_center", LATITUDES, Some(0.0));
const CENTRE_LONGITUDE: Parameter = ("longitude_of_center", LONGITUDES, Some(0.0));
const SCALE: Parameter = ("scale_factor", &[3092, 3093], Some(1.0));
const PARALLEL_1: Parameter = ("standard_parallel_1", &[3078], None);
const PARALLEL_2: Parameter = ("standard_parallel_2", &[3079], None);

/// The projections that are understood: their numbers, their names in WKT, and their parameters.
/// Source: `geo_ctrans.inc`, `geo_normalize.c` (defaults) and GDAL 3.10's `gt_wkt_srs.cpp`.
const PROJECTIONS: [(u64, &str, &[Parameter]); 15] = [
    (1, "Transverse_Mercator", &[ORIGIN, MERIDIAN, SCALE, EASTING, NORTHING]),
    (MERCATOR, "Mercator_1SP", &[MERIDIAN, SCALE, EASTING, NORTHING]),
    (MERCATOR, "Mercator_2SP", &[PARALLEL_1, MERIDIAN, EASTING, NORTHING]),
    (
        8,
        "Lambert_Conformal_Conic_2SP",
        &[PARALLEL_1, PARALLEL_2, ORIGIN, MERIDIAN, EASTING, NORTHING],
    ),
    (9, "Lambert_Conformal_Conic_1SP", &[ORIGIN, MERIDIAN, SCALE, EASTING, NORTHING]),
    (10, "Lambert_Azimuthal_Equal_Area", &[CENTRE_LATITUDE, CENTRE_LONGITUDE, EASTING, NORTHING]),
    (
        11,
        "Albers_Conic_Equal_Area",
        &[PARALLEL_1, PARALLEL_2, CENTRE_LATITUDE, CENTRE_LONGITUDE, EASTING, NORTHING],
    ),
    (12, "Azimuthal_Equidistant", &[CENTRE_LATITUDE, CENTRE_LONGITUDE, EASTING, NORTHING]),
    (
        13,
        "Equidistant_Conic",
        &[PARALLEL_1, PARALLEL_2, CENTRE_LATITUDE, CENTRE_LONGITUDE, EASTING, NORTHING],
    ),
    (14, "Stereographic", &[ORIGIN, MERIDIAN, SCALE, EASTING, NORTHING]),
    (
        15,
        "Polar_Stereographic",
        &[
            ("latitude_of_origin", LATITUDES, None),
            ("central_meridian", &[3095, 3080, 3084, 3088], Some(0.0)),
            SCALE,
            EASTING,
            NORTHING,
        ],
    ),
    (16, "Oblique_Stereographic", &[ORIGIN, MERIDIAN, SCALE, EASTING, NORTHING]),
    (
        17,
        "Equirectangular",
        &[ORIGIN, MERIDIAN, ("standard_parallel_1", &[3078], Some(0.0)), EASTING, NORTHING],
    ),
    (24, "Sinusoidal", &[CENTRE_LONGITUDE, EASTING, NORTHING]),
    (28, "Cylindrical_Equal_Area", &[PARALLEL_1, MERIDIAN, EASTING, NORTHING]),
];

/// Whether a number is that of a geographic system, as far as it is known.
pub(super) fn is_geographic(code: u64) -> bool {
    DATUMS.iter().any(|datum| datum.geographic == code)
}

/// Whether a projected system is known to have metres: zones of UTM, and some that are often used.
fn is_in_metres(code: u64) -> bool {
    matches!(code, 32_601..=32_660 | 32_701..=32_760 | 25_828..=25_838 | 3857 | 3035 | 3031 | 3413)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the system of keys, of which some have doubles and some texts.
    fn crs(numbers: &[(u64, u64)], doubles: &[(u64, f64)], texts: &[(u64, &str)]) -> String {
        let numbers = numbers.iter().map(|(id, n)| (*id, Value::Numbers(vec![*n])));
        let doubles = doubles.iter().map(|(id, n)| (*id, Value::Doubles(vec![*n])));
        let texts = texts.iter().map(|(id, text)| (*id, Value::Text((*text).to_owned())));
        let keys = numbers.chain(doubles).chain(texts).collect();
        Keys { keys, is_damaged: false }.crs().unwrap_or_default()
    }

    #[test]
    fn a_code_is_that_of_the_whole_system_or_none() {
        assert_eq!(crs(&[(1024, 1), (2048, 4326), (3072, 32_633)], &[], &[]), "EPSG:32633");
        assert_eq!(crs(&[(1024, 2), (2048, 4326)], &[], &[]), "EPSG:4326");
        assert_eq!(crs(&[(1024, 32_767), (3072, 3035)], &[], &[]), "EPSG:3035");
        assert_eq!(crs(&[], &[], &[]), "");
        assert_eq!(crs(&[(1025, 1)], &[], &[]), "");
        // A projected system with the geographic code alone, and numbers that are not EPSG's.
        for keys in [
            &[(1024, 1), (2048, 4326)][..],
            &[(1024, 1), (2048, 4326), (3072, 32_767)],
            &[(1024, 1), (3072, 4326)],
            &[(1024, 1), (3072, 54_009)],
            &[(1024, 1), (3072, 32_633), (3076, 9003)],
            &[(1024, 3), (2048, 4978)],
            &[(2048, 4326)],
        ] {
            let found = crs(keys, &[], &[]);
            assert!(found.starts_with("GeoKeys:{\""), "{found}");
        }
    }

    #[test]
    fn web_mercator_is_known_by_its_name() {
        let name = "PCS Name = WGS_1984_Web_Mercator_Auxiliary_Sphere|";
        let esri =
            "ESRI PE String = PROJCS[\"WGS_1984_Web_Mercator_Auxiliary_Sphere\",GEOGCS[\"x\"]]";
        let keys = [(1024, 32_767), (2048, 4326), (3076, 9001)];
        assert_eq!(crs(&keys, &[], &[(1026, name), (3073, esri)]), "EPSG:3857");
        let cut = "ESRI PE String = PROJCS[\"a\",GEOGCS[\"x\"";
        assert!(crs(&keys, &[], &[(3073, cut)]).starts_with("GeoKeys:"));
        let other = "ESRI PE String = PROJCS[\"a\",GEOGCS[\"x\"]]";
        assert_eq!(crs(&keys, &[], &[(3073, other)]), "PROJCS[\"a\",GEOGCS[\"x\"]]");
        let plain = "ESRI PE String = GEOGCS[\"GCS_WGS_1984\"]";
        assert_eq!(crs(&[(1024, 32_767), (2048, 4326)], &[], &[(3073, plain)]), "EPSG:4326");
    }

    #[test]
    fn a_projection_with_its_parameters_is_wkt_and_without_the_keys_themselves() {
        let numbers =
            [(1024, 1), (2048, 4269), (3072, 32_767), (3074, 32_767), (3075, 11), (3076, 9001)];
        let doubles =
            [(3078, 29.5), (3079, 45.5), (3080, -96.0), (3081, 23.0), (3082, 0.0), (3083, 0.0)];
        let name = [(1026, "Albers \"US\"|")];
        assert_eq!(
            crs(&numbers, &doubles, &name),
            "PROJCS[\"Albers \"\"US\"\"\",GEOGCS[\"NAD83\",DATUM[\"North_American_Datum_1983\",\
             SPHEROID[\"GRS 1980\",6378137,298.257222101]],PRIMEM[\"Greenwich\",0],\
             UNIT[\"degree\",0.0174532925199433],AUTHORITY[\"EPSG\",\"4269\"]],\
             PROJECTION[\"Albers_Conic_Equal_Area\"],PARAMETER[\"standard_parallel_1\",29.5],\
             PARAMETER[\"standard_parallel_2\",45.5],PARAMETER[\"latitude_of_center\",23],\
             PARAMETER[\"longitude_of_center\",-96],PARAMETER[\"false_easting\",0],\
             PARAMETER[\"false_northing\",0],UNIT[\"metre\",1]]"
        );
        // A parallel that is missing, a parameter that does not belong, two that contradict.
        let raw = |doubles: &[(u64, f64)]| {
            assert!(crs(&numbers, doubles, &name).starts_with("GeoKeys:"), "{doubles:?}");
        };
        raw(&doubles[1..]);
        raw(&[&doubles[..], &[(3094, 30.0)]].concat());
        raw(&[&doubles[..], &[(3088, -95.0)]].concat());
        // A datum, a meridian and a method that are not known.
        for other in [(2048, 4277), (2051, 8903), (3075, 5), (2054, 9105), (3076, 9040)] {
            let mut numbers = numbers.to_vec();
            numbers.retain(|(id, _)| *id != other.0);
            numbers.push(other);
            assert!(crs(&numbers, &doubles, &[]).starts_with("GeoKeys:"), "{other:?}");
        }
    }

    #[test]
    fn the_keys_themselves_are_json() {
        let found = crs(&[(1024, 1)], &[(2057, 6_378_137.5)], &[(1026, "a \"b\"\\\n")]);
        let expected =
            "GeoKeys:{\"1024\":1,\"2057\":6378137.5,\"1026\":\"a \\\"b\\\"\\\\\\u000a\"}";
        assert_eq!(found, expected);
        assert_eq!(crs(&[], &[], &[(1026, &"x".repeat(MOST_TEXT))]), "");
    }

    #[test]
    fn a_zone_of_utm_is_a_transverse_mercator() {
        let keys = [(1024, 1), (2048, 4326), (3072, 32_767), (3074, 16_133), (3076, 9001)];
        let found = crs(&keys, &[], &[]);
        assert!(found.contains("PARAMETER[\"central_meridian\",15]"), "{found}");
        assert!(found.contains("PARAMETER[\"false_northing\",10000000]"), "{found}");
    }
}
