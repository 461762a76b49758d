//! `image.lock`: the exact archives an image is made of.
//!
//! One TOML file beside the recipe. [`resolve`] asks mirrors and indexes what is
//! there and writes it; everything after that needs the bytes it names and no others.

mod changes;
mod document;
mod oci;
mod resolve;
mod text;
mod vendor;

pub use self::changes::{BaseMoved, Changes};
pub use self::document::{Debian, ImageLock, LockedStep, Oci, python_inputs, recipe_digest};
pub use self::resolve::{DEFAULT_SUITE, resolve};
pub(crate) use self::resolve::{OnBase, resolve_on};
pub(crate) use self::text::LOCK_BEGINS;
pub use self::vendor::vendor;
pub use crate::package_sources::Sources;
pub use crate::python::LockedPython;
