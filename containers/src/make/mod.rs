//! The whole sequence from a recipe to an image on the disk, as one call.
//!
//! ```text
//! image.toml ─ lock ▶ image.lock ─ fetch ▶ archives ─ unpack ▶ store ┐
//! recipe ────────────────────────────────────────────────────────────┼─ assemble ▶ check ▶ image
//! program ───────────────────────────────────────────────────────────┘        replay ▶ SIF, OCI
//! ```
//!
//! [`lock`] writes `image.lock` beside a recipe; [`build`] takes it (or makes it first) and
//! writes the image. Bytes come by a [`Transport`](crate::fetch::Transport), a program that cargo
//! must build by [`Compile`], and an [`ImageWatch`] hears how far it is and says when to stop:
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use gular_containers::UnixTime;
//! use gular_containers::fetch::{Stream, Transport, TransportFault};
//! use gular_containers::lock::Sources;
//! use gular_containers::make::{BuildCache, BuildOptions, build};
//!
//! /// A recipe that takes nothing from elsewhere needs no network.
//! struct Nowhere;
//!
//! impl Stream for Nowhere {
//!     fn stream(
//!         &self,
//!         url: &str,
//!         _bytes: u64,
//!         _from: u64,
//!         _sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
//!     ) -> Result<(), TransportFault> {
//!         Err(TransportFault::NotFound(url.to_owned()))
//!     }
//! }
//!
//! impl Transport for Nowhere {
//!     fn read(&self, url: &str, _limit: u64) -> Result<Vec<u8>, TransportFault> {
//!         Err(TransportFault::NotFound(url.to_owned()))
//!     }
//!     fn len(&self, url: &str) -> Result<Option<u64>, TransportFault> {
//!         Err(TransportFault::NotFound(url.to_owned()))
//!     }
//! }
//!
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! std::fs::write(dir.join("hello"), "hello")?;
//! let recipe = dir.join("image.toml");
//! std::fs::write(
//!     &recipe,
//!     "[image]\nname = \"data\"\n[base]\nscratch = true\n[app.files]\n\"srv/hello\" = \"hello\"\n",
//! )?;
//! let cache = BuildCache::new(&dir.join("cache"));
//! let mut options = BuildOptions::new(&recipe, cache, Sources::new(UnixTime::default()));
//! options.out = dir.join("out");
//! let built = build(&options, &Nowhere, &AtomicBool::new(false))?;
//! assert!(built.outputs[0].path.is_file());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod build;
mod cache;
mod compile_python;
mod image;
mod lock;
mod maintainer_scripts;
mod options;
mod program;
mod project;
mod steps;
mod unpack;
mod write;

pub use self::build::{Built, build};
pub use self::cache::BuildCache;
pub use self::image::{Asked, AssembledImage, image};
pub use self::lock::{LockOptions, Locked, lock};
pub use self::options::{BuildOptions, ImageCompression, ImageFormat};
pub use self::program::{Compile, Program};
pub use self::project::Project;
pub use self::steps::BuiltStep;
pub use self::unpack::{Places, Unpacked, unpack};
pub(crate) use self::write::{Named, write_sif};
pub use self::write::{Output, OutputLayer, Writing, name_by_content};
pub use crate::image_watch::{ImageWatch, Note, Relocked, Step};
