//! Python packages in an image: the section `[python]` of the recipe.
//!
//! ```text
//! requirements.txt, pylock.toml ─ resolve ▶ image.lock ─ unpack ▶ store ─ install ▶ Rootfs
//!                                                                 └─ compiler ▶ store ─┘
//!
//! /usr/bin/python3                                  Debian's
//! /usr/local/lib/python3.11/dist-packages           wheels, each file as it is in its wheel
//! /usr/local/bin                                    their programs, and `python`
//! …/__pycache__/NAME.cpython-311.pyc                compiled by the image's own Python
//! ```
//!
//! Nothing of a wheel is run: it is unpacked, and its sources are compiled.

mod compiler;
mod input;
mod install;
mod interpreter;
mod local;
mod locked;
mod modules;
mod pin;
mod pinned;
mod pylock;
mod requirements;
mod resolve;
mod tags;
mod unpack;

pub(crate) use self::compiler::{Compiler, Unit};
pub(crate) use self::input::{Input, digest};
pub use self::install::Python;
pub(crate) use self::install::{install, installed_path, is_site, metadata, site_of};
pub(crate) use self::interpreter::{DEBIAN_PACKAGE, Interpreter};
pub(crate) use self::local::local_path;
pub use self::locked::LockedPython;
pub use self::modules::PythonModules;
pub use self::resolve::count_pinned;
pub(crate) use self::resolve::resolve;
pub use self::unpack::unpack_whole;
