//! `image.lock`: the exact archives an image is made of.
//!
//! One TOML file beside the recipe. `lock` asks mirrors and indexes what is
//! there and writes it; everything after that needs the bytes it names and no others.

mod document;
mod oci;
mod resolve;
mod text;
mod vendor;

pub use self::document::{Debian, Lock, Oci, recipe_digest};
pub use self::resolve::{DEFAULT_SUITE, Sources, lock};
pub use self::vendor::vendor;
