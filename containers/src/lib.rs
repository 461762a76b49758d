//! Container images from a recipe: SIF and OCI, without root, daemon or Docker.
//!
//! | module | what |
//! |---|---|
//! | [`sif`] | Singularity image files: written, and read back |

mod error;
pub mod sif;

pub use self::error::{Error, Result};
