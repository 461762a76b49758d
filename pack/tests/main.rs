//! The tests of `pack` from outside, as one program: linking many takes longer than the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adopt;
mod archives;
mod axes;
mod borne_out;
mod boxes;
mod cards;
mod convert;
mod datasets;
mod derive;
mod doubts;
mod duplicates;
mod fields;
mod formats;
mod fractions;
mod frames;
mod imagefolder;
mod interrupted;
mod jpeg2000;
mod labels;
mod lists;
mod mask_colours;
mod nifti;
mod pack;
mod parquet_images;
mod parts;
mod patterns;
mod payload;
mod pixel_files;
mod pixels;
mod places;
mod polygons;
mod refused;
mod scenes;
mod several_rows;
mod stacks;
mod support;
mod tolerated;
mod versions;
mod versions_of_images;
