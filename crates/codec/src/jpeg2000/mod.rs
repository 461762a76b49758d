//! JPEG 2000 as numbers: bands of 1 to 16 bits, as Sentinel-2 is delivered.
//!
//! ```text
//! JP2: boxes ─┬ `jp2c` ─ code stream ─▶ size, bands, bits ─ decoder ─▶ [height, width, bands]
//!             ├ `uuid` GeoJP2: a TIFF of one pixel ─▶ CRS, transform
//!             └ `asoc` GMLJP2: XML ────────────────▶ the same, if there is no GeoJP2
//! J2K: the code stream alone
//! ```
//!
//! Values are those of the code stream: palettes and colour spaces are not applied, as in GDAL's
//! bands. Source: ISO/IEC 15444-1 (ITU-T T.800), annexes A and I; GML in JPEG 2000 (OGC 05-047r3).

mod boxes;
mod gml;
mod read;
mod size;
mod tiles;

pub use read::{Jpeg2000, is_jpeg_2000};
