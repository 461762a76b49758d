//! NIfTI, versions 1 and 2: volumes and series of volumes, in one file, alone or compressed by gzip.
//!
//! ```text
//! .nii: header (348 or 540 bytes) ─ extensions ─ numbers, from the byte that the header names
//!        │                                        column fastest: x, y, z, t, bands
//!        ├ size, type, byte order ─▶ [bands, time, slice, row, column], the last axis fastest
//!        └ scale, place, spacing, units ─▶ `Geo`
//! .nii.gz: the same bytes, compressed
//! ```
//!
//! Numbers are the stored ones, in the order in which they are stored: neither the scale nor the
//! place is applied. Source: nifti1.h and nifti2.h of the NIfTI Data Format Working Group
//! (nifti.nimh.nih.gov).

#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::indexing_slicing, reason = "tests may panic"))]

mod affine;
mod header;
mod read;

pub use read::{Nifti, is_nifti};
