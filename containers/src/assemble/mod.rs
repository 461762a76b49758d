//! Assembles the files of an image from its parts: base, libraries, program.
//!
//! ```text
//! /                    the base: Debian packages, another image, or nothing
//! /app/bin/PROGRAM     finds its libraries in `$ORIGIN/../lib`
//! /app/lib/*.so*       libtorch and NVIDIA's libraries, flat: those that the program
//!                      loads at its start, and those that libtorch opens later; links to
//!                      those of `[python]` where that has the same torch
//! /opt/env             an environment of conda (see [`conda`](crate::conda))
//! /usr/local           Python packages (see [`python`](crate::python))
//! /usr/share/licenses  what the wheels say about copying them
//! ```

mod app;
mod base;
mod libraries;
mod licences;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use self::base::Base;
use crate::conda;
use crate::python::{self, Python};
use crate::recipe::Recipe;
use crate::rootfs::{RootPath, Rootfs};
use crate::singularity::has_python;
use crate::store::Listing;
use crate::{Package, Result};

/// The folder of programs in an image.
pub const BIN: &str = "app/bin";
/// The folder in an image for libraries that belong to no package.
pub const LIB: &str = "app/lib";

/// The parts that an image is assembled from.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The recipe, which says what is asked for.
    pub recipe: &'a Recipe,
    /// The files below everything else.
    pub base: Base,
    /// The wheels, each with its files.
    pub wheels: Vec<(&'a Package, Listing)>,
    /// Python packages.
    pub python: Option<Python<'a>>,
    /// An environment of conda.
    pub conda: Option<Listing>,
    /// The program, built; `None` when the recipe has none or does not embed it.
    pub program: Option<&'a Path>,
    /// The folder that relative paths of the recipe start from.
    pub dir: &'a Path,
    /// The lock file, which the build writes.
    pub lock_path: &'a Path,
}

/// An image's files, before what runtimes need is added.
#[derive(Debug)]
pub struct Assembled {
    /// The files.
    pub tree: Rootfs,
    /// The program in the tree.
    pub program: Option<RootPath>,
    /// Environment variables: the recipe's, and what the parts need.
    pub env: BTreeMap<String, String>,
    /// Wheels that at least one library was taken from.
    pub wheels: Vec<String>,
    /// Libraries that came from the program's own folders on this machine.
    pub brought: Vec<PathBuf>,
}

/// The search path of the programs of a base, `sh` among them.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What an image has before the program is added: what steps of the recipe see and change.
#[derive(Debug)]
pub struct BeforeProgram {
    /// The files.
    pub tree: Rootfs,
    /// Environment variables of the base, and what the parts need.
    pub env: BTreeMap<String, String>,
}

impl BeforeProgram {
    /// Lays the base, Python packages and the recipe's files over each other.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) for two things at one path, and what
    /// reading the parts gives.
    pub fn lay(parts: &Parts<'_>) -> Result<Self> {
        let (mut tree, mut env) = parts.base.lay()?;
        if let Some(python) = &parts.python {
            python::install(&mut tree, python)?;
        }
        let mut path = env.remove("PATH").unwrap_or_else(|| PATH.to_owned());
        if let Some(files) = &parts.conda {
            conda::install(&mut tree, files, &mut env)?;
            path = format!("/{}/bin:{path}", conda::PREFIX);
        }
        env.insert("PATH".to_owned(), path);
        app::add_files(&mut tree, parts)?;
        Ok(Self { tree, env })
    }
}

/// Adds the program and its libraries to what is there.
///
/// # Errors
/// Those of [`BeforeProgram::lay`].
pub fn assemble(parts: &Parts<'_>, before: BeforeProgram) -> Result<Assembled> {
    let BeforeProgram { mut tree, mut env } = before;
    let program = app::add_program(&mut tree, parts)?;
    let libraries = libraries::add(&mut tree, parts, program.as_ref())?;
    licences::add(&mut tree, parts, &libraries.wheels)?;
    let path = format!("/{BIN}:{}", env.get("PATH").map_or(PATH, String::as_str));
    env.insert("PATH".to_owned(), path);
    if libraries.need_path {
        let further = env.get("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
        let further = further.map(|path| format!(":{path}")).unwrap_or_default();
        env.insert("LD_LIBRARY_PATH".to_owned(), format!("/{LIB}{further}"));
    }
    let of_python = parts.python.iter().flat_map(|python| &python.wheels);
    let cuda =
        of_python.into_iter().any(|(wheel, _)| wheel.name.starts_with("nvidia-cuda-runtime"));
    if libraries.gpu || cuda {
        // NVIDIA's container toolkit looks for this variable; Apptainer has `--nv` instead.
        env.insert("NVIDIA_VISIBLE_DEVICES".to_owned(), "all".to_owned());
        env.insert("NVIDIA_DRIVER_CAPABILITIES".to_owned(), "compute,utility".to_owned());
    }
    if has_python(&tree, &env) {
        // Slurm's jobs see the home folder, whose `~/.local` would come before the image's packages.
        env.entry("PYTHONNOUSERSITE".to_owned()).or_insert_with(|| "1".to_owned());
    }
    env.extend(parts.recipe.env.clone());
    Ok(Assembled { tree, program, env, wheels: libraries.wheels, brought: libraries.brought })
}
