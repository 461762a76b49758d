//! Masks whose classes are polygons, of GeoJSON or of shapefiles.
//!
//! ```text
//! coordinates ─ transform of the image, if it has a location ─▶ columns and rows ─ scan lines ─▶ mask
//! ```
//!
//! A pixel has the class of the last polygon in which its middle is, or 0: as GDAL's `rasterize`.

mod fill;
mod geojson;
mod mask_class;
mod shapefile;

use std::io;

use crate::facts::{Fault, Grid, Remedy};

use fill::PlacedPolygon;
pub(crate) use fill::PlacedPolygons;
pub use mask_class::MaskClass;

/// The class of polygons without a class of their own.
const INSIDE: u8 = 1;
/// The extension of the shapes of a shapefile.
const SHAPES: &str = "shp";
/// Larger files take more memory than a thread should.
const MOST_BYTES: u64 = 256 << 20;

/// The polygons of a file, in its coordinates.
#[derive(Debug)]
pub(crate) struct Polygons {
    /// What the coordinates are in, if the files say it.
    crs: Option<String>,
    /// Whether `crs` is only what a format has unless a file says otherwise.
    is_default: bool,
    all: Vec<Polygon>,
}

#[derive(Debug)]
struct Polygon {
    class: u8,
    rings: Vec<Vec<[f64; 2]>>,
}

/// Whether files with this extension have polygons.
pub(crate) fn is_of_polygons(extension: &str) -> bool {
    matches!(extension, "geojson" | "json" | SHAPES)
}

/// Whether a file has the shapes of a shapefile; those with its other parts have the same name.
pub(crate) fn has_shapes(extension: &str) -> bool {
    extension.eq_ignore_ascii_case(SHAPES)
}

impl Polygons {
    /// No more is read of a file, so that one that is too long is noticed.
    pub(crate) const MOST_READ: usize = (MOST_BYTES + 1) as usize;

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

    /// Reads the file `path`; `read` gives what is beside it.
    pub(crate) fn parse(
        path: &str,
        file: &[u8],
        class: Option<&MaskClass>,
        read: &dyn Fn(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Self, Fault> {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        match has_shapes(extension) {
            true => Self::of_shapefile(path, file, class, read),
            false => Self::of_geojson(file, class),
        }
    }

    /// Brings the polygons to the pixels of an image of size `whole`. Coordinates are columns and rows
    /// of an image that has no location. Where systems are not compared, coordinates are in that of
    /// the image.
    pub(crate) fn placed(
        self,
        grid: Option<&Grid>,
        is_compared: bool,
        whole: (u32, u32),
    ) -> Result<PlacedPolygons, Fault> {
        let crs = self.crs.as_deref().filter(|_| is_compared);
        let to_pixels = match grid {
            None => None,
            Some(grid) => grid.pixels_of(crs).map_err(|reason| Fault {
                remedy: Remedy::AlignPolygons,
                ..Fault::new(reason, None)
            })?,
        };
        if to_pixels.is_some() && is_compared && crs.is_none() {
            let reason = "nothing says what its coordinates are in: it has no `.prj`".to_owned();
            return Err(Fault { remedy: Remedy::AlignPolygons, ..Fault::new(reason, None) });
        }
        let hint = Some("images in TIFF have their location if they are packed as arrays");
        if let (None, Some(crs), false) = (&to_pixels, crs, self.is_default) {
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
