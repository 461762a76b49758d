//! Polygons of GeoJSON (RFC 7946).

use serde_json::Value;

use super::{INSIDE, MaskClass, Polygon, Polygons};
use crate::facts::Fault;

/// What coordinates are in unless a file says otherwise. RFC 7946, section 4.
const DEFAULT_CRS: &str = "EPSG:4326";

impl Polygons {
    pub(super) fn of_geojson(file: &[u8], class: Option<&MaskClass>) -> Result<Self, Fault> {
        let text = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
        let wrong = |what: String| Fault::new(format!("it is not GeoJSON: {what}"), None);
        let value: Value = serde_json::from_slice(text).map_err(|e| wrong(e.to_string()))?;
        let named = crs_of(&value)?;
        let is_default = named.is_none();
        let crs = Some(named.unwrap_or_else(|| DEFAULT_CRS.to_owned()));
        let mut made = Self { crs, is_default, all: Vec::new() };
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
