//! Reads TIFF and GeoTIFF as numbers: any type, any number of bands, the whole picture or windows.
//!
//! ```text
//! "II*\0" or "MM\0*" (BigTIFF 43) ─▶ directories ─▶ strips or tiles ─▶ unpack ─▶ predictor
//!                                      └ geo: CRS, transform, bands, nodata    [height, width, bands]
//! ```
//!
//! Values are returned as they are stored, like GDAL and rasterio do: neither palettes nor colour
//! spaces are applied (except JPEG's own YCbCr), nor the orientation tag. Only the chunks that a
//! window touches are read. A file with several pages is read where it says, or the caller, what
//! they are: see [`Pages`].
//!
//! This reader is our own, since the `tiff` crate knows colours and not bands, reads no windows
//! across tiles, and has no sparse files. Decompressing is left to libraries.

#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::indexing_slicing, reason = "tests may panic"))]

mod crs;
mod directory;
mod geo;
mod layout;
mod lerc;
mod outside;
mod page_words;
mod pages;
mod predict;
mod read;
mod source;
mod unpack;
mod valid;
mod write;

pub use geo::{Geo, Volume};
pub use layout::{Number, Tiff};
pub use pages::Pages;
pub use read::Chunks;
pub use source::Positioned;
pub use write::{GeoTiffWriter, Packing};
