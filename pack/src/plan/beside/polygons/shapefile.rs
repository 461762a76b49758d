//! Polygons of shapefiles (ESRI, 1998): shapes in `.shp`, their properties in `.dbf`, the CRS in `.prj`.

use std::io::{self, Cursor};

use dbase::FieldValue;
use serde_json::{Map, Value};
use shapefile::record::polygon::GenericPolygon;
use shapefile::{Shape, ShapeReader};

use super::{INSIDE, MaskClass, Polygon, Polygons};
use crate::facts::Fault;

/// What `ogr2ogr` brings in order.
const REWRITE: &str = "write it with `ogr2ogr OUT.shp IN.shp`, into another folder";
/// Names of systems in `.prj` files, in ESRI's words as PROJ writes them, and their codes. Those with
/// columns and rows on a plane are in metres.
const SYSTEMS: [(&str, u32); 26] = [
    ("GCS_WGS_1984", 4326),
    ("WGS 84", 4326),
    ("GCS_North_American_1983", 4269),
    ("GCS_ETRS_1989", 4258),
    ("GCS_GDA_1994", 4283),
    ("GCS_SIRGAS_2000", 4674),
    ("WGS_1984_Web_Mercator_Auxiliary_Sphere", 3857),
    ("WGS_1984_EASE-Grid_2.0_Global", 6933),
    ("WGS_1984_NSIDC_Sea_Ice_Polar_Stereographic_North", 3413),
    ("WGS_1984_Antarctic_Polar_Stereographic", 3031),
    ("ETRS_1989_LAEA", 3035),
    ("ETRS_1989_Portugal_TM06", 3763),
    ("ETRF2000-PL_CS92", 2180),
    ("EUREF-FIN_TM35FIN", 3067),
    ("SWEREF99_TM", 3006),
    ("British_National_Grid", 27700),
    ("RGF_1993_Lambert_93", 2154),
    ("RD_New", 28992),
    ("Belge_Lambert_1972", 31370),
    ("CH1903+_LV95", 2056),
    ("S-JTSK_Krovak_East_North", 5514),
    ("GDA_1994_Australia_Albers", 3577),
    ("NZGD_2000_New_Zealand_Transverse_Mercator", 2193),
    ("NAD_1983_Contiguous_USA_Albers", 5070),
    ("NAD_1983_BC_Environment_Albers", 3005),
    ("NAD_1983_Statistics_Canada_Lambert", 3347),
];
/// Names before the zone of a UTM system, the side of the equator after it, the code of zone 0, and
/// the zones.
const UTM: [(&str, char, u32, std::ops::RangeInclusive<u32>); 5] = [
    ("WGS_1984_UTM_Zone_", 'N', 32_600, 1..=60),
    ("WGS_1984_UTM_Zone_", 'S', 32_700, 1..=60),
    ("ETRS_1989_UTM_Zone_", 'N', 25_800, 28..=38),
    ("NAD_1983_UTM_Zone_", 'N', 26_900, 1..=23),
    ("SIRGAS_2000_UTM_Zone_", 'S', 31_960, 17..=25),
];

impl Polygons {
    /// Reads the shapefile `path`; `read` gives the files beside it.
    pub(super) fn of_shapefile(
        path: &str,
        file: &[u8],
        class: Option<&MaskClass>,
        read: &dyn Fn(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Self, Fault> {
        let wrong = |what: String| {
            Fault::new(format!("it is not a shapefile of polygons: {what}"), Some(REWRITE))
        };
        let beside = |extension: &str| beside(path, extension, read);
        let crs = beside("prj")?.map(|text| crs_of(&String::from_utf8_lossy(&text)));
        let mut made = Self { crs, is_default: false, all: Vec::new() };
        let mut shapes = ShapeReader::new(Cursor::new(file)).map_err(|e| wrong(e.to_string()))?;
        let mut classes = match (beside("dbf")?, class) {
            (None, None) => None,
            (table, class) => Some(classes(table, class)?.into_iter()),
        };
        for shape in shapes.iter_shapes() {
            let shape = shape.map_err(|e| wrong(e.to_string()))?;
            let class = match &mut classes {
                None => Ok(INSIDE),
                Some(classes) => classes.next().ok_or_else(other_number)?,
            };
            let rings = match shape {
                Shape::NullShape => continue,
                Shape::Polygon(polygon) => rings(polygon, |at| [at.x, at.y]),
                Shape::PolygonM(polygon) => rings(polygon, |at| [at.x, at.y]),
                Shape::PolygonZ(polygon) => rings(polygon, |at| [at.x, at.y]),
                other => {
                    let reason =
                        format!("it has a {}, and only polygons have an area", other.shapetype());
                    return Err(Fault::new(
                        reason,
                        Some("make polygons of it, for example with `ST_Buffer` of `ogr2ogr -sql`"),
                    ));
                }
            };
            made.all.push(Polygon { class: class?, rings });
        }
        match classes.is_some_and(|mut more| more.next().is_some()) {
            true => Err(other_number()),
            false => Ok(made),
        }
    }
}

fn rings<P>(polygon: GenericPolygon<P>, at: impl Fn(P) -> [f64; 2]) -> Vec<Vec<[f64; 2]>> {
    let rings = polygon.into_inner().into_iter();
    rings.map(|ring| ring.into_inner().into_iter().map(&at).collect()).collect()
}

/// Which row belongs to which shape is only known if there are as many.
fn other_number() -> Fault {
    let reason = "its `.dbf` has another number of rows than it has shapes".to_owned();
    Fault::new(reason, Some(REWRITE))
}

/// The class of each shape that is not deleted, or why it has none: a shape without a place needs none.
fn classes(
    table: Option<Vec<u8>>,
    class: Option<&MaskClass>,
) -> Result<Vec<Result<u8, Fault>>, Fault> {
    let wrong =
        |e: dbase::Error| Fault::new(format!("its `.dbf` cannot be read: {e}"), Some(REWRITE));
    let Some(table) = table else {
        let reason = "it has no `.dbf`, in which the properties of its polygons are".to_owned();
        return Err(Fault::new(reason, Some("put the `.dbf` beside it")));
    };
    let mut rows = dbase::Reader::new(Cursor::new(table)).map_err(wrong)?;
    let of = |row: Result<dbase::Record, dbase::Error>| {
        let row = row.map_err(wrong)?;
        let Some(class) = class else { return Ok(Ok(INSIDE)) };
        let properties = row.into_iter().map(|(name, value)| (name, json(value)));
        Ok(class.of(Some(&properties.collect::<Map<_, _>>())))
    };
    rows.iter_records().map(of).collect()
}

/// A cell as GeoJSON would have it.
fn json(value: FieldValue) -> Value {
    // Most digits that a whole number keeps in 64 bits of floating point.
    const WHOLE: f64 = 9e15;
    let number = |n: f64| match n.fract() == 0.0 && n.abs() < WHOLE {
        true => Value::from(n as i64),
        false => Value::from(n),
    };
    match value {
        FieldValue::Character(text) => text.map_or(Value::Null, Value::from),
        FieldValue::Memo(text) => Value::from(text),
        FieldValue::Numeric(n) => n.map_or(Value::Null, number),
        FieldValue::Float(n) => n.map_or(Value::Null, |n| number(n.into())),
        FieldValue::Double(n) | FieldValue::Currency(n) => number(n),
        FieldValue::Integer(n) => Value::from(n),
        FieldValue::Logical(is) => is.map_or(Value::Null, Value::from),
        FieldValue::Date(_) | FieldValue::DateTime(_) => Value::Null,
    }
}

/// The file of the same name with another extension, if there is one.
fn beside(
    path: &str,
    extension: &str,
    read: &dyn Fn(&str) -> io::Result<Vec<u8>>,
) -> Result<Option<Vec<u8>>, Fault> {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    for extension in [extension.to_owned(), extension.to_ascii_uppercase()] {
        let path = format!("{stem}.{extension}");
        match read(&path) {
            Ok(file) => {
                Polygons::check_len(file.len() as u64)?;
                return Ok(Some(file));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Fault::new(format!("`{path}` cannot be read: {e}"), None)),
        }
    }
    Ok(None)
}

/// The system of a `.prj` file, with its code if that is known.
fn crs_of(text: &str) -> String {
    let text = text.trim();
    let code = text.strip_suffix("\"]]").and_then(|text| {
        let (_, code) = text.rsplit_once("AUTHORITY[\"EPSG\",\"")?;
        code.parse::<u32>().ok()
    });
    let name = text.split('"').nth(1).unwrap_or_default();
    // A name is that of a system only if nothing else was changed that can be seen here.
    let words = text.to_lowercase();
    let is_of = |part: &str| words.contains(part);
    let is_in_metres = is_of("unit[\"meter\",1") || is_of("unit[\"metre\",1");
    let has_unit = text.starts_with("GEOGCS[") || is_in_metres;
    let known = SYSTEMS.iter().find(|(known, _)| *known == name).map(|(_, code)| *code);
    let zone = || {
        UTM.iter().find_map(|(before, side, zero, zones)| {
            let zone = name.strip_prefix(before)?.strip_suffix(*side)?.parse().ok()?;
            let meridian = 6 * i64::from(zone) - 183;
            let central = format!("parameter[\"central_meridian\",{meridian}");
            let is_central = words.split_once(&central).is_some_and(|(_, rest)| {
                let end = rest.split([']', ',']).next().unwrap_or_default();
                let fraction = end.strip_prefix('.').or(end.is_empty().then_some(""));
                fraction.is_some_and(|of| of.bytes().all(|byte| byte == b'0'))
            });
            (zones.contains(&zone) && is_central).then_some(zero + zone)
        })
    };
    let by_name = known.or_else(zone).filter(|_| has_unit);
    match code.or(by_name) {
        Some(code) => format!("EPSG:{code}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use shapefile::{Point, Polygon, PolygonRing, ShapeWriter};

    use super::*;

    #[test]
    fn systems_are_known_by_their_code_or_name() {
        let utm = |name: &str, meridian: &str, unit: &str| {
            format!(
                "PROJCS[\"{name}\",GEOGCS[\"x\"],PARAMETER[\"Central_Meridian\",{meridian}],UNIT[\"{unit}\",1.0]]"
            )
        };
        let cases = [
            (
                "GEOGCS[\"WGS 84\",DATUM[\"WGS_1984\"],AUTHORITY[\"EPSG\",\"4326\"]]\n".to_owned(),
                "EPSG:4326",
            ),
            ("GEOGCS[\"GCS_North_American_1983\",DATUM[\"D\"]]".to_owned(), "EPSG:4269"),
            ("PROJCS[\"RD_New\",GEOGCS[\"x\"],UNIT[\"Meter\",1.0]]".to_owned(), "EPSG:28992"),
            (utm("WGS_1984_UTM_Zone_33N", "15.0", "Meter"), "EPSG:32633"),
            (utm("WGS_1984_UTM_Zone_7S", "-141", "metre"), "EPSG:32707"),
            (utm("NAD_1983_UTM_Zone_17N", "-81.0", "Meter"), "EPSG:26917"),
            // Changed, or of another name.
            (utm("WGS_1984_UTM_Zone_33N", "15.5", "Meter"), ""),
            (utm("WGS_1984_UTM_Zone_33N", "150", "Meter"), ""),
            (utm("WGS_1984_UTM_Zone_33N", "15.0", "Foot_US"), ""),
            (utm("ETRS_1989_UTM_Zone_50N", "117.0", "Meter"), ""),
            (
                "PROJCS[\"Albers\",GEOGCS[\"y\",AUTHORITY[\"EPSG\",\"4326\"]],UNIT[\"m\",1]]"
                    .to_owned(),
                "",
            ),
        ];
        for (text, code) in cases {
            assert_eq!(crs_of(&text), if code.is_empty() { &text } else { code });
        }
    }

    #[test]
    fn damaged_shapes_are_polygons_or_an_error() {
        let corners = [(1.0, 1.0), (1.0, 7.0), (7.0, 7.0), (1.0, 1.0)];
        let corners = corners.map(|(x, y)| Point::new(x, y)).to_vec();
        let mut file = Cursor::new(Vec::new());
        ShapeWriter::new(&mut file)
            .write_shapes(&vec![Polygon::new(PolygonRing::Outer(corners)); 2])
            .unwrap();
        let file = file.into_inner();
        let parse = |file: &[u8]| {
            Polygons::of_shapefile("a.shp", file, None, &|_| Err(io::ErrorKind::NotFound.into()))
        };
        assert_eq!(parse(&file).unwrap().all.len(), 2);
        for at in 0..file.len() {
            let reason = parse(&file[..at]).unwrap_err().reason;
            assert!(reason.contains("not a shapefile of polygons"), "{reason}");
            for bits in [0x01, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[at] ^= bits;
                let _ = parse(&damaged);
            }
        }
    }
}
