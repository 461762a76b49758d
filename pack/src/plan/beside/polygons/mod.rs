//! Masks whose classes are polygons.
//!
//! ```text
//! coordinates ─ transform of the image, if it has a location ─▶ columns and rows ─ scan lines ─▶ mask
//! ```
//!
//! A pixel has the class of the last polygon in which its middle is, or 0: as GDAL's `rasterize`.

mod fill;
mod geojson;
mod mask_class;

use crate::facts::{Fault, Grid};

use fill::PlacedPolygon;
pub(crate) use fill::PlacedPolygons;
pub use mask_class::MaskClass;

/// The class of polygons without a class of their own.
const INSIDE: u8 = 1;
/// Larger files take more memory than a thread should.
const MOST_BYTES: u64 = 256 << 20;
/// What coordinates are in unless a file says otherwise. RFC 7946, section 4.
const DEFAULT_CRS: &str = "EPSG:4326";

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
