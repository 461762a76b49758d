//! Where the voxels of a file are.

use super::header::NiftiHeader;
use crate::tiff::Volume;

/// The part of a unit quaternion that the header leaves out may come out this far below 0, since
/// the others are rounded to `f32`; nibabel takes the same.
const ROUNDED: f64 = -3.0 * f32::EPSILON as f64;

/// What a header says of its voxels.
pub(super) fn volume(header: &NiftiHeader) -> Volume {
    let [by_quaternion, by_rows] = header.codes.map(|code| code != 0);
    let affine = match (by_rows, by_quaternion) {
        (true, _) => Some(header.rows),
        (false, true) => rotated(header),
        // The distances alone do not say in which direction the columns go.
        (false, false) => None,
    };
    let [_, x, y, z, t, ..] = header.pixdim.map(f64::abs);
    let of_space = match header.units & 0x07 {
        1 => "meter",
        2 => "mm",
        3 => "micron",
        _ => "unknown",
    };
    let of_time = match header.units & 0x38 {
        8 => "sec",
        16 => "msec",
        24 => "usec",
        32 => "hz",
        40 => "ppm",
        48 => "rads",
        _ => "unknown",
    };
    Volume {
        affine: affine.filter(|affine| affine.iter().all(|n| n.is_finite())),
        spacing: [x, y, z, t],
        units: format!("{of_space} {of_time}"),
    }
}

/// The place that a quaternion, the distances and an origin tell. Source: nifti1.h, method 2.
fn rotated(header: &NiftiHeader) -> Option<[f64; 12]> {
    let [b, c, d] = header.quaternion;
    let left = 1.0 - (b * b + c * c + d * d);
    if left.is_nan() || left < ROUNDED {
        return None;
    }
    let a = left.max(0.0).sqrt();
    // Without the part that is nearly 0, the others have to be of length 1 themselves.
    let of_length = (a * a + b * b + c * c + d * d).sqrt();
    let [a, b, c, d] = [a, b, c, d].map(|n| n / of_length);
    let [sign, x, y, z, ..] = header.pixdim;
    let z = if sign < 0.0 { -z } else { z };
    let [i, j, k] = header.origin;
    Some([
        (a * a + b * b - c * c - d * d) * x,
        2.0 * (b * c - a * d) * y,
        2.0 * (b * d + a * c) * z,
        i,
        2.0 * (b * c + a * d) * x,
        (a * a + c * c - b * b - d * d) * y,
        2.0 * (c * d - a * b) * z,
        j,
        2.0 * (b * d - a * c) * x,
        2.0 * (c * d + a * b) * y,
        (a * a + d * d - b * b - c * c) * z,
        k,
    ])
}
