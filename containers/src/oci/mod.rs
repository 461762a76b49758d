//! OCI images: layers, configuration, manifest, and the layout on disk.
//!
//! Specification: opencontainers/image-spec 1.1, `layer.md`, `config.md`,
//! `manifest.md`, `image-layout.md`.

mod base;
mod cache;
mod gzip;
mod layer;
mod layout;
mod read;

pub use self::base::BaseImage;
pub use self::cache::LayerCache;
pub use self::layer::Compressor;
pub use self::layout::{Config, WrittenOci, write_archive, write_layout};
pub(crate) use self::layout::{complete, new_folder};
pub use self::read::{LayerBlob, LayersAs, OciImage, OciLayout};
pub(crate) use self::read::{platforms, variant_rank};
