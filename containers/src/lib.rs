//! Container images from a recipe: SIF and OCI, without root, daemon or Docker.
//!
//! | module | what |
//! |---|---|
//! | [`assemble`] | base, libraries and program laid over each other |
//! | [`blocks`] | what earlier images lend to later ones |
//! | [`check`] | whether an image could run |
//! | [`conda`] | an environment of conda, packed by `conda-pack` |
//! | [`convert`] | an image from elsewhere, as a SIF |
//! | [`cuda`] | which GPUs a library has code for |
//! | [`debian`] | which packages are needed |
//! | [`elf`] | which libraries a program needs, and which of them are there |
//! | [`export`] | the same image for other tools, facts for jobs |
//! | [`fetch`] | archives from elsewhere, verified |
//! | [`import`] | a recipe from a Dockerfile or a definition file |
//! | [`lock`] | `image.lock`: the exact archives |
//! | [`make`] | all of it: from a recipe and its lock to an image and its files |
//! | [`oci`] | images as registries know them |
//! | [`python`] | Python packages: which wheels, their files, their byte code |
//! | [`recipe`] | what is asked for |
//! | [`registry`] | images in registries: pushed and pulled |
//! | [`replay`] | HTCondor's lines, tried on an image |
//! | [`rootfs`] | the files of an image, before they are written |
//! | [`scripts`] | maintainer scripts of Debian packages, run without root |
//! | [`sif`] | Singularity image files: written, and read back |
//! | [`singularity`] | what runtimes look for inside |
//! | [`sbom`] | a list of what is inside |
//! | [`store`] | unpacked archives on this machine |
//! | [`wheel`] | libraries out of Python wheels |

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::indexing_slicing, reason = "tests may panic"))]

pub mod assemble;
pub mod blocks;
pub mod check;
pub mod conda;
pub mod convert;
pub mod cuda;
pub mod debian;
pub mod elf;
mod error;
pub mod export;
pub mod fetch;
mod hash_file;
mod image_digest;
mod image_watch;
pub mod import;
mod labels;
pub mod lock;
pub mod make;
pub mod oci;
mod openpgp;
mod package;
mod package_sources;
pub mod python;
pub mod recipe;
pub mod registry;
pub mod replay;
pub mod rootfs;
pub mod sbom;
pub mod scripts;
pub mod sif;
pub mod singularity;
pub mod store;
mod stored_image;
mod swept_dir;
mod unix_time;
pub mod wheel;

pub use self::error::{Error, Result};
pub use self::image_digest::ImageDigest;
pub use self::labels::ImageLabels;
pub use self::package::Package;
pub use self::stored_image::{ImagePart, StoredImage};
pub use self::unix_time::UnixTime;
pub use gular_registry::{NotADigest, OciDigest, Sha256, StreamSha256};
