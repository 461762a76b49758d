//! An environment of conda, packed by `conda-pack`: the section `[conda]` of the recipe.
//!
//! ```text
//! env.tar.gz ─ unpack ▶ store ─ install ▶ Rootfs
//!
//! /opt/env/bin/python3                  the environment's Python, first in PATH
//! /opt/env/lib/python3.N/site-packages
//! ```
//!
//! conda's packages contain the path of the folder that they are installed in. `conda-pack` lists
//! these places in the script `bin/conda-unpack`, and here they get the path in the image, as that
//! script would give it to them. Nothing of the archive is run.

mod archive;
mod install;
mod prefix;

pub use self::archive::{CondaArchive, unpack_environment};
pub(crate) use self::install::{PREFIX, install};
