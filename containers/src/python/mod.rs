//! Python packages in an image: the section `[python]` of the recipe.
//!
//! ```text
//! files ─ kind ▶ input ▶ resolve ▶ image.lock ─ unpack ▶ store ─ install ▶ Rootfs
//!                    uv ┘ └ from_source                    └─ compiler ▶ store ─┘
//!
//! /usr/bin/python3                                  Debian's
//! /usr/local/lib/python3.11/dist-packages           wheels, each file as it is in its wheel
//! /usr/local/bin                                    their programs, and `python`
//! …/__pycache__/NAME.cpython-311.pyc                compiled by the image's own Python
//! ```
//!
//! Nothing of a wheel is run: it is unpacked, and its sources are compiled. Sources are built into
//! wheels only if the recipe says so.

mod base_python;
mod bases;
mod compiler;
mod conda_environment;
mod decode;
mod from_source;
mod graph;
mod imports;
mod input;
mod install;
mod interpreter;
mod kind;
mod local;
mod locked;
mod modules;
mod pinned;
mod pipfile_lock;
mod poetry_lock;
mod pylock;
mod pyproject;
mod requirements;
mod resolve;
mod scheme;
mod selection;
mod tags;
mod unpack;
mod uv;
mod uv_lock;
mod wanted;

pub(crate) use self::base_python::BasePython;
pub(crate) use self::compiler::{Compiler, Unit};
pub(crate) use self::from_source::BUILT;
pub(crate) use self::imports::{Import, When, imports};
pub use self::input::count_named;
pub(crate) use self::input::{check_input, digest};
pub use self::install::Python;
pub(crate) use self::install::{install, is_site, metadata, site_of};
pub(crate) use self::interpreter::{DEBIAN_PACKAGE, Interpreter};
pub(crate) use self::local::local_path;
pub use self::locked::LockedPython;
pub use self::modules::PythonModules;
pub(crate) use self::resolve::resolve;
pub use self::scheme::Scheme;
pub use self::unpack::unpack_whole;
