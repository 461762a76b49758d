//! Container images from a recipe: SIF and OCI, without root, daemon or Docker.
//!
//! | module | what |
//! |---|---|
//! | [`cuda`] | which GPUs a library has code for |
//! | [`debian`] | which packages are needed |
//! | [`elf`] | which libraries a program needs, and which of them are there |
//! | [`fetch`] | archives from elsewhere, verified |
//! | [`lock`] | `image.lock`: the exact archives |
//! | [`oci`] | images as registries know them |
//! | [`recipe`] | what is asked for |
//! | [`rootfs`] | the files of an image, before they are written |
//! | [`store`] | unpacked archives on this machine |
//! | [`wheel`] | libraries out of Python wheels |
//! | [`singularity`] | what runtimes look for inside |
//! | [`sif`] | Singularity image files: written, and read back |

pub mod cuda;
pub mod debian;
mod digest;
pub mod elf;
mod error;
pub mod fetch;
pub mod lock;
pub mod oci;
pub mod recipe;
pub mod rootfs;
pub mod sif;
pub mod singularity;
pub mod store;
pub mod wheel;

pub use self::error::{Error, Result};
