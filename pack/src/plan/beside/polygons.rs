//! Masks whose classes are polygons of GeoJSON (RFC 7946).
//!
//! ```text
//! coordinates ─ transform of the image, if it has a location ─▶ columns and rows ─ scan lines ─▶ mask
//! ```
//!
//! A pixel has the class of the last polygon in which its middle is, or 0: as GDAL's `rasterize`.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::facts::{Fault, Grid, Remedy, setting};
use crate::plan::PlanError;

/// The class of pixels in no polygon, and of those in polygons without a class of their own.
const OUTSIDE: u8 = 0;
const INSIDE: u8 = 1;
/// What loaders fill beyond an image, which no class has.
const BEYOND: u64 = 255;
/// Larger files take more memory than a thread should.
const MOST_BYTES: u64 = 256 << 20;
/// What coordinates are in unless a file says otherwise. RFC 7946, section 4.
const DEFAULT_CRS: &str = "EPSG:4326";

/// The property of polygons that is their class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MaskClass {
    property: String,
    /// The numbers of classes that are words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    numbers: Vec<(String, u8)>,
}

impl MaskClass {
    /// Reads `PROPERTY`, whose values are numbers from 0 to 254, or `PROPERTY:NAME=NUMBER,…`.
    ///
    /// # Errors
    /// [`PlanError::Run`], which says what is wrong.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let fail = |what: String| -> PlanError { setting(&["mask_class"], what) };
        let (property, classes) = text.split_once(':').unwrap_or((text, ""));
        let mut numbers: Vec<(String, u8)> = Vec::new();
        for class in classes.split(',').filter(|class| !class.is_empty()) {
            let parts = class.rsplit_once('=');
            let number = parts.and_then(|(name, number)| Some((name, number.parse::<u8>().ok()?)));
            match number.filter(|(_, number)| u64::from(*number) < BEYOND) {
                Some((name, number)) if numbers.iter().all(|(known, _)| known != name) => {
                    numbers.push((name.to_owned(), number));
                }
                Some((name, _)) => return Err(fail(format!("the class `{name}` occurs twice"))),
                None => {
                    return Err(fail(format!(
                        "`{class}` is not a class and its number from 0 to 254, such as `road=1`"
                    )));
                }
            }
        }
        if property.is_empty() {
            return Err(fail(format!("`{text}` names no property")));
        }
        Ok(Self { property: property.to_owned(), numbers })
    }

    /// The option in words, for the manifest.
    pub(crate) fn note(&self) -> String {
        let classes = self.numbers.iter().map(|(name, number)| format!("{name}={number}"));
        let classes: Vec<String> = classes.collect();
        match classes.is_empty() {
            true => self.property.clone(),
            false => format!("{}:{}", self.property, classes.join(",")),
        }
    }

    /// The class of a polygon with these properties.
    fn of(&self, properties: Option<&Map<String, Value>>) -> Result<u8, Fault> {
        let property = &self.property;
        let fault =
            |reason: String| Fault { remedy: Remedy::NameClasses, ..Fault::new(reason, None) };
        let value = properties.and_then(|all| all.get(property));
        let number = match value {
            Some(Value::String(name)) => {
                let known = self.numbers.iter().find(|(known, _)| known == name);
                known.map(|(_, number)| *number)
            }
            Some(value) => {
                let number = value.as_u64().filter(|n| *n < BEYOND && self.numbers.is_empty());
                let named = self.numbers.iter().find(|(known, _)| *known == value.to_string());
                number.and_then(|n| u8::try_from(n).ok()).or(named.map(|(_, number)| *number))
            }
            None => {
                let names =
                    properties.into_iter().flat_map(Map::keys).map(|name| format!("`{name}`"));
                let names: Vec<String> = names.collect();
                return Err(fault(format!(
                    "a polygon has no property `{property}`; its properties are {}",
                    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
                )));
            }
        };
        number.ok_or_else(|| {
            let value = value.unwrap_or(&Value::Null);
            fault(format!("a polygon has {value} as `{property}`, which is not a class"))
        })
    }
}

/// The polygons of a file, in its coordinates.
#[derive(Debug, Default)]
pub(crate) struct Polygons {
    crs: Option<String>,
    all: Vec<Polygon>,
}

#[derive(Debug)]
struct Polygon {
    class: u8,
    rings: Vec<Vec<[f64; 2]>>,
}

/// Whether the name of a file says that it is GeoJSON.
pub(crate) fn is_geojson_name(extension: &str) -> bool {
    matches!(extension, "geojson" | "json")
}

impl Polygons {
    /// Checks how long a file of polygons is, before it is read.
    pub(crate) fn check_len(bytes: u64) -> Result<(), Fault> {
        if bytes <= MOST_BYTES {
            return Ok(());
        }
        let reason = format!("it has {bytes} bytes, and polygons are read up to {MOST_BYTES}");
        Err(Fault::new(
            reason,
            Some("write a file for each image, for example with `ogr2ogr -spat`"),
        ))
    }

    pub(crate) fn parse(file: &[u8], class: Option<&MaskClass>) -> Result<Self, Fault> {
        let text = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
        let wrong = |what: String| Fault::new(format!("it is not GeoJSON: {what}"), None);
        let value: Value = serde_json::from_slice(text).map_err(|e| wrong(e.to_string()))?;
        let mut made = Self { crs: crs_of(&value)?, all: Vec::new() };
        match value["type"].as_str() {
            Some("FeatureCollection") => {
                let features = value["features"].as_array();
                for feature in features.ok_or_else(|| wrong("it has no `features`".to_owned()))? {
                    made.feature(feature, class)?;
                }
            }
            Some("Feature") => made.feature(&value, class)?,
            Some(_) => made.feature(&serde_json::json!({ "geometry": value }), class)?,
            None => return Err(wrong("it has no `type`".to_owned())),
        }
        Ok(made)
    }

    fn feature(&mut self, feature: &Value, class: Option<&MaskClass>) -> Result<(), Fault> {
        let geometry = &feature["geometry"];
        // RFC 7946, section 3.2: a feature without a place.
        if geometry.is_null() {
            return Ok(());
        }
        let properties = feature["properties"].as_object();
        let class = class.map_or(Ok(INSIDE), |class| class.of(properties))?;
        self.geometry(geometry, class)
    }

    fn geometry(&mut self, geometry: &Value, class: u8) -> Result<(), Fault> {
        let wrong =
            || Fault::new("it is not GeoJSON: a polygon is not lists of [x, y]".to_owned(), None);
        let list = |name: &str| geometry[name].as_array().ok_or_else(wrong);
        let mut push = |rings: &Value| {
            let ring = |ring: &Value| ring.as_array()?.iter().map(point).collect();
            let rings: Option<Vec<_>> =
                rings.as_array().and_then(|all| all.iter().map(ring).collect());
            self.all.push(Polygon { class, rings: rings.ok_or_else(wrong)? });
            Ok(())
        };
        match geometry["type"].as_str() {
            Some("Polygon") => push(&geometry["coordinates"]),
            Some("MultiPolygon") => list("coordinates")?.iter().try_for_each(push),
            Some("GeometryCollection") => {
                list("geometries")?.iter().try_for_each(|one| self.geometry(one, class))
            }
            Some(other) => {
                let reason = format!("it has a {other}, and only polygons have an area");
                Err(Fault::new(
                    reason,
                    Some("make polygons of it, for example with `ST_Buffer` of ogr2ogr"),
                ))
            }
            None => Err(wrong()),
        }
    }

    /// The classes of the pixels of `size` = (columns, rows) from `corner` on, of an image of size
    /// `whole`. Coordinates are pixels of an image that has no location.
    pub(crate) fn mask(
        &self,
        grid: Option<&Grid>,
        whole: (u32, u32),
        (left, top): (u32, u32),
        size: (u32, u32),
    ) -> Result<Vec<u8>, Fault> {
        let crs = self.crs.as_deref().unwrap_or(DEFAULT_CRS);
        let to_pixels = match grid {
            None => None,
            Some(grid) => grid.pixels_of(crs).map_err(|reason| {
                let hint = "bring the polygons to the CRS of the image, for example with `ogr2ogr -t_srs EPSG:… -lco RFC7946=NO out.geojson in.geojson`";
                Fault::new(reason, Some(hint))
            })?,
        };
        let (width, height) = (size.0 as usize, size.1 as usize);
        let mut mask = vec![OUTSIDE; width * height];
        let mut is_seen = self.all.is_empty();
        for polygon in &self.all {
            let pixel = |at: &[f64; 2]| to_pixels.as_ref().map_or(*at, |to_pixels| to_pixels(*at));
            let rings: Vec<Vec<[f64; 2]>> =
                polygon.rings.iter().map(|ring| ring.iter().map(pixel).collect()).collect();
            is_seen |= touches(&rings, whole);
            let shift = |[x, y]: [f64; 2]| [x - f64::from(left), y - f64::from(top)];
            let edges: Vec<_> =
                rings.iter().flat_map(|ring| edges(ring)).map(|edge| edge.map(shift)).collect();
            let heights = || edges.iter().map(|[from, _]| from[1]);
            // Truncated to what there is: `as` keeps to the range of its type.
            let first = heights().fold(f64::MAX, f64::min).floor().max(0.0) as usize;
            let last = heights().fold(f64::MIN, f64::max).ceil().max(0.0) as usize;
            let lines = mask.chunks_exact_mut(width.max(1)).enumerate();
            for (row, line) in lines.take(last).skip(first) {
                fill(&edges, row as f64 + 0.5, polygon.class, line);
            }
        }
        if is_seen {
            return Ok(mask);
        }
        let (reason, hint) = match to_pixels {
            Some(_) => (
                "none of its polygons is on its image",
                "compare the locations of both (`gdalinfo`, `ogrinfo`); a file without polygons is right for an image that has none",
            ),
            None => (
                "none of its polygons is on its image, which has no location, so that their coordinates are read as columns and rows",
                "images in TIFF have their location if they are packed as arrays",
            ),
        };
        Err(Fault::new(reason.to_owned(), Some(hint)))
    }
}

/// Whether a polygon, in pixels, may have a part of an image.
fn touches(rings: &[Vec<[f64; 2]>], (width, height): (u32, u32)) -> bool {
    let points = || rings.iter().flatten();
    let within = |axis: usize, side: u32| {
        points().any(|at| at[axis] > 0.0) && points().any(|at| at[axis] < f64::from(side))
    };
    within(0, width) && within(1, height)
}

/// The edges of a ring, closed whether its last point is its first or not.
fn edges(ring: &[[f64; 2]]) -> impl Iterator<Item = [[f64; 2]; 2]> + '_ {
    let next = ring.iter().cycle().skip(1);
    ring.iter().zip(next).map(|(from, to)| [*from, *to])
}

/// Fills the pixels of a line of which the middle, at height `y`, is inside.
fn fill(edges: &[[[f64; 2]; 2]], y: f64, class: u8, line: &mut [u8]) {
    let crossing = |[from, to]: &[[f64; 2]; 2]| {
        let ([x1, y1], [x2, y2]) = if from[1] < to[1] { (from, to) } else { (to, from) };
        // An edge has its lower end, so that two that meet are crossed once.
        (y >= *y1 && y < *y2).then(|| (y - y1) * (x2 - x1) / (y2 - y1) + x1)
    };
    let mut crossings: Vec<f64> = edges.iter().filter_map(crossing).collect();
    crossings.sort_by(f64::total_cmp);
    for pair in crossings.chunks_exact(2) {
        // Truncated to the line: `as` keeps to the range of its type.
        let [start, end] = [pair[0], pair[1]].map(|x| (x + 0.5).floor().max(0.0) as usize);
        let end = end.min(line.len());
        line.get_mut(start..end).unwrap_or_default().fill(class);
    }
}

/// A point; a height after x and y is ignored.
fn point(value: &Value) -> Option<[f64; 2]> {
    let point = value.as_array()?;
    Some([point.first()?.as_f64()?, point.get(1)?.as_f64()?])
}

/// The CRS that a file names, as GeoJSON had it before RFC 7946; GDAL still writes it.
fn crs_of(value: &Value) -> Result<Option<String>, Fault> {
    let crs = &value["crs"];
    if crs.is_null() {
        return Ok(None);
    }
    let name = crs["properties"]["name"].as_str().unwrap_or_default();
    let code = name.rsplit(':').next().unwrap_or_default();
    if name.contains("CRS84") {
        return Ok(None);
    }
    if name.to_ascii_uppercase().contains("EPSG") && code.parse::<u32>().is_ok() {
        return Ok(Some(format!("EPSG:{code}")));
    }
    let reason =
        format!("its CRS is `{crs}`, expected a name such as `urn:ogc:def:crs:EPSG::32632`");
    Err(Fault::new(reason, None))
}
