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
const BEYOND: u8 = 255;
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
        // Names of properties may have colons, such as OpenStreetMap's `addr:city`.
        let names = text.split_once('=').map_or("", |(before, _)| before);
        let (property, classes) = match names.rfind(':') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, ""),
        };
        let mut numbers: Vec<(String, u8)> = Vec::new();
        for class in classes.split(',').filter(|class| !class.is_empty()) {
            let parts = class.rsplit_once('=');
            let number = parts.and_then(|(name, number)| Some((name, number.parse::<u8>().ok()?)));
            match number.filter(|(_, number)| *number < BEYOND) {
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
                // GDAL writes numbers of some columns as 1.0.
                let whole =
                    value.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64);
                let number = whole.filter(|n| *n < BEYOND.into() && self.numbers.is_empty());
                let text = value.to_string();
                let named = self.numbers.iter().find(|(known, _)| *known == text);
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
            fault(format!("a polygon has {value} as `{property}`, which is not a number from 0 to 254, nor a class that was given"))
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
        let wrong = || {
            Fault::new(
                "it is not GeoJSON: a polygon is not lists of three or more [x, y]".to_owned(),
                None,
            )
        };
        let list = |name: &str| geometry[name].as_array().ok_or_else(wrong);
        let is_empty = |rings: &Value| rings.as_array().is_some_and(Vec::is_empty);
        let mut push = |rings: &Value| {
            if is_empty(rings) {
                return Ok(());
            }
            let ring = |ring: &Value| {
                let points = ring.as_array()?.iter().map(point).collect::<Option<Vec<_>>>()?;
                (points.len() > 2).then_some(points)
            };
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
                    Some("leave it out, for example with `ogr2ogr -where`, or make polygons of it"),
                ))
            }
            None => Err(wrong()),
        }
    }

    /// Brings the polygons to the pixels of an image of size `whole`. Coordinates are columns and rows
    /// of an image that has no location.
    pub(crate) fn placed(
        self,
        grid: Option<&Grid>,
        whole: (u32, u32),
    ) -> Result<PlacedPolygons, Fault> {
        let to_pixels = match grid {
            None => None,
            Some(grid) => {
                let crs = self.crs.as_deref().unwrap_or(DEFAULT_CRS);
                grid.pixels_of(crs).map_err(|reason| {
                    let hint = "bring the polygons to the CRS of the image, for example with `ogr2ogr -t_srs EPSG:… -lco RFC7946=NO out.geojson in.geojson`";
                    Fault::new(reason, Some(hint))
                })?
            }
        };
        let hint = Some("images in TIFF have their location if they are packed as arrays");
        if let (None, Some(crs)) = (&to_pixels, &self.crs) {
            let reason = format!("its coordinates are in {crs}, but its image has no location");
            return Err(Fault::new(reason, hint));
        }
        let has_polygons = !self.all.is_empty();
        let place = |Polygon { class, mut rings }| {
            for at in rings.iter_mut().flatten() {
                *at = to_pixels.as_ref().map_or(*at, |to_pixels| to_pixels(*at));
            }
            PlacedPolygon::new(class, &rings)
        };
        let all: Vec<PlacedPolygon> = self.all.into_iter().map(place).collect();
        // Longitude and latitude would be a small part of one pixel.
        let least = if to_pixels.is_some() { 0.0 } else { 1.0 };
        if !has_polygons || all.iter().any(|polygon| polygon.is_on(whole, least)) {
            return Ok(PlacedPolygons { all, whole });
        }
        let (reason, hint) = match to_pixels {
            Some(_) => (
                "none of its polygons is on its image",
                Some(
                    "compare the locations of both (`gdalinfo`, `ogrinfo`); a file without polygons is right for an image that has none",
                ),
            ),
            None => (
                "none of its polygons is on its image, which has no location, so that their coordinates are read as columns and rows",
                hint,
            ),
        };
        Err(Fault::new(reason.to_owned(), hint))
    }
}

/// The polygons of an image, in its pixels.
#[derive(Debug)]
pub(crate) struct PlacedPolygons {
    all: Vec<PlacedPolygon>,
    /// Columns and rows of the image.
    whole: (u32, u32),
}

#[derive(Debug)]
struct PlacedPolygon {
    class: u8,
    /// From the end with the lower row to the other, sorted by that row.
    edges: Vec<[[f64; 2]; 2]>,
    /// The least and the largest column and row.
    least: [f64; 2],
    most: [f64; 2],
}

impl PlacedPolygon {
    fn new(class: u8, rings: &[Vec<[f64; 2]>]) -> Self {
        let down =
            |[from, to]: [[f64; 2]; 2]| if from[1] < to[1] { [from, to] } else { [to, from] };
        let mut edges: Vec<_> = rings.iter().flat_map(|ring| edges(ring)).map(down).collect();
        edges.sort_by(|a, b| a[0][1].total_cmp(&b[0][1]));
        let points = || rings.iter().flatten();
        let of = |axis: usize, start: f64, pick: fn(f64, f64) -> f64| {
            points().map(|at| at[axis]).fold(start, pick)
        };
        let least = [0, 1].map(|axis| of(axis, f64::MAX, f64::min));
        let most = [0, 1].map(|axis| of(axis, f64::MIN, f64::max));
        Self { class, edges, least, most }
    }

    /// Whether it may have a part of an image, and is at least so many pixels wide and high.
    fn is_on(&self, (width, height): (u32, u32), at_least: f64) -> bool {
        let within = |axis: usize, side: u32| {
            let (least, most) = (self.least[axis], self.most[axis]);
            most > 0.0 && least < f64::from(side) && most - least >= at_least
        };
        within(0, width) && within(1, height)
    }

    /// Writes its class to the pixels of `mask`, which has lines of `width` from `corner` on.
    fn fill(&self, mask: &mut [u8], width: usize, (left, top): (u32, u32)) {
        let (left, top) = (f64::from(left), f64::from(top));
        if self.most[0] <= left || self.least[0] >= left + width as f64 {
            return;
        }
        // Truncated to what there is: `as` keeps to the range of its type.
        let first = (self.least[1] - top).floor().max(0.0) as usize;
        let last = (self.most[1] - top).ceil().max(0.0) as usize;
        let (mut next, mut active): (usize, Vec<&[[f64; 2]; 2]>) = (0, Vec::new());
        let mut crossings = Vec::new();
        for (row, line) in mask.chunks_exact_mut(width.max(1)).enumerate().take(last).skip(first) {
            let y = top + row as f64 + 0.5;
            while let Some(edge) = self.edges.get(next).filter(|edge| edge[0][1] <= y) {
                active.push(edge);
                next += 1;
            }
            // An edge has its lower end, so that two that meet are crossed once.
            active.retain(|[_, to]| y < to[1]);
            let crossing =
                |[[x1, y1], [x2, y2]]: &[[f64; 2]; 2]| (y - y1) * (x2 - x1) / (y2 - y1) + x1 - left;
            crossings.clear();
            crossings.extend(active.iter().map(|edge| crossing(edge)));
            crossings.sort_by(f64::total_cmp);
            for pair in crossings.chunks_exact(2) {
                let [start, end] =
                    [pair[0], pair[1]].map(|x: f64| (x + 0.5).floor().max(0.0) as usize);
                let end = end.min(line.len());
                line.get_mut(start..end).unwrap_or_default().fill(self.class);
            }
        }
    }
}

impl PlacedPolygons {
    /// The classes of the pixels of `size` = (columns, rows) from `corner` on; those beyond the image
    /// have none.
    pub(crate) fn mask(&self, corner: (u32, u32), size: (u32, u32)) -> Vec<u8> {
        let (width, height) = (size.0 as usize, size.1 as usize);
        let mut mask = vec![OUTSIDE; width * height];
        self.all.iter().for_each(|polygon| polygon.fill(&mut mask, width, corner));
        let seen = |whole: u32, start: u32| whole.saturating_sub(start) as usize;
        let (columns, rows) = (seen(self.whole.0, corner.0), seen(self.whole.1, corner.1));
        for (row, line) in mask.chunks_exact_mut(width.max(1)).enumerate() {
            let from = if row < rows { columns } else { 0 };
            line.get_mut(from..).unwrap_or_default().fill(BEYOND);
        }
        mask
    }
}

/// The edges of a ring, closed whether its last point is its first or not.
fn edges(ring: &[[f64; 2]]) -> impl Iterator<Item = [[f64; 2]; 2]> + '_ {
    let next = ring.iter().cycle().skip(1);
    ring.iter().zip(next).map(|(from, to)| [*from, *to])
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
