//! Augmentation of each picture: [`Transform`] crops and resizes it, a function of the training
//! program may change the result ([`PictureEdit`]), and [`Blend`] mixes two samples of a batch into
//! one.
//!
//! All results depend on seed, epoch and sample alone, or for [`Blend`] on seed, epoch and step;
//! the random numbers are not torchvision's.
//!
//! ```
//! use gular_runtime::augment::{Augment, Blend, Pixels};
//! use gular_runtime::{LoaderOptions, Split, Transform};
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
//! let options = LoaderOptions {
//!     transform: Transform::train(224),
//!     augment: Some(augment),
//!     blend: Some(Blend::MixUp { alpha: 0.2 }),
//!     ..LoaderOptions::new(Split::Train)
//! };
//! ```

mod affine;
mod blend;
mod colour;
mod picture_edit;
mod transform;
#[cfg(test)]
mod vectors;

pub(crate) use affine::Affine;
pub use blend::{Blend, Blended};
pub(crate) use blend::{Mixture, Numbers};
pub use picture_edit::{Augment, MaskView, PictureEdit, Pixels};
pub use transform::{Pad, Placement, Transform};
