//! Augmentation of each picture: [`Transform`] crops and resizes it, a function of the training
//! program may change the result ([`PictureEdit`]), and [`Blend`] mixes two samples of a batch into
//! one. [`StoredPixels`] says which stored pixels a crop needs, and a [`Writer`] turns pixels into the
//! numbers of a batch, normalised by [`Normalise`].
//!
//! All results depend on seed, epoch and sample alone, or for [`Blend`] on seed, epoch and step;
//! the random numbers are not torchvision's.
//!
//! ```
//! use gular_augment::{Augment, Pixels};
//!
//! let augment = Augment::new(|picture, rng| {
//!     if rng.unit() < 0.5 {
//!         picture.flip_vertical();                        // RandomVerticalFlip(0.5)
//!     }
//!     picture.rotate_90(rng.below(4) as u32);
//!     picture.jitter(0.4, 0.4, 0.4, 0.1, rng);            // ColorJitter(0.4, 0.4, 0.4, 0.1)
//!     if let Pixels::U8(values) = &mut picture.pixels {   // [height, width, channels]
//!         values.iter_mut().for_each(|v| *v = 255 - *v);
//!     }
//! });
//! ```

#![forbid(unsafe_code)]

mod affine;
mod blend;
mod change;
mod colour;
mod normalise;
mod numbers;
mod picture_edit;
mod stored_pixels;
mod transform;
#[cfg(test)]
mod vectors;

pub use affine::Affine;
pub use blend::{Blend, Blended, Mixture, PictureShape};
pub use change::Change;
pub use normalise::{NoStatistics, Normalise, NormaliseBy, Normalised, PixelRows, Writer};
pub use numbers::{AxisOrder, Depth, Numbers};
pub use picture_edit::{Augment, MaskView, PictureEdit, Pixels};
pub use stored_pixels::{
    Kept, PixelPart, PixelTools, PixelType, StoredPixels, copy, move_mask, number_bytes, planes,
};
pub use transform::{Pad, Placement, Transform};
