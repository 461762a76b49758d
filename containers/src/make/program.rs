//! The program that goes into an image.

use std::path::{Path, PathBuf};

use super::{BuildOptions, Project};
use crate::recipe::App;
use crate::{Error, Result};

/// A program on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The path of the file or folder.
    pub path: PathBuf,
    /// Text of the `Cargo.lock` of the workspace it was built in, for the list of
    /// contents.
    pub cargo_lock: Option<String>,
}

/// Builds the program of a cargo package. The caller gives it, since this room starts
/// no compiler.
pub trait Compile {
    /// Builds a program of `package` with what else `app` says. `dir` is the recipe's
    /// folder. The program must look for its libraries in `$ORIGIN/../lib`.
    ///
    /// # Errors
    /// [`Error::Program`].
    fn compile(&self, app: &App, package: &str, dir: &Path) -> Result<Program>;
}

/// The program of a build: named there, compiled, or there already.
pub(super) fn program(options: &BuildOptions<'_>, project: &Project) -> Result<Option<Program>> {
    let there = |path: PathBuf| Ok(Some(Program { path, cargo_lock: None }));
    if let Some(path) = &options.program {
        return there(path.clone());
    }
    let Some(app) = project.recipe.app.as_ref().filter(|app| app.embed) else { return Ok(None) };
    if let Some(path) = &app.path {
        return there(project.dir.join(path));
    }
    match (&app.package, options.compile) {
        (Some(package), Some(cargo)) => cargo.compile(app, package, &project.dir).map(Some),
        (Some(package), None) => Err(Error::Program {
            reason: format!(
                "the package `{package}` must be built by cargo, which is not available here"
            ),
            hint: Some("build the program yourself and write `path = \"…\"` in `[app]`".to_owned()),
        }),
        (None, _) => Ok(None),
    }
}
