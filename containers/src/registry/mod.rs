//! Images in registries: pushes and pulls them, and defines how a SIF is stored there.
//!
//! ```text
//! docker://HOST/REPOSITORY[:TAG][@DIGEST]   an image: manifest, configuration, layers
//! oras://HOST/REPOSITORY[:TAG][@DIGEST]     an artifact of one layer: a SIF, as Apptainer has it
//!
//! Registry (of `crates/registry`)
//!    ├─ base   an image that another begins with: its digest once, its blobs by that
//!    ├─ pull   manifest by digest, each byte of a blob hashed as it comes
//!    └─ sif    one file, pushed and pulled
//! ```

mod base;
mod pull;
mod push;
mod sif;
mod terms;

pub(crate) use self::base::{Kept, look_up};
pub use self::pull::{Pulled, Pulling, pull_image};
pub use self::push::push_image;
pub use self::sif::{SIF_LAYER, pull_sif, push_sif};
pub use self::terms::{NVIDIA_TERMS, nvidia_of_image, nvidia_of_sif};
pub use gular_registry::{NotAReference, Reference};
