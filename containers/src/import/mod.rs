//! A recipe from a Dockerfile, or from Apptainer's definition file, as far as a recipe can say the
//! same. What it cannot say is named line by line.
//!
//! ```text
//! text ─ dockerfile, definition ▶ steps ─ translate ▶ draft ─ write ▶ recipe, files beside it
//!                                  └─ shell, command: the commands of RUN and %post
//!                                      └─ leftovers: those that become steps
//! ```
//!
//! Nothing of the file is run.

mod base;
mod command;
mod copy;
mod definition;
mod dockerfile;
mod draft;
mod leftovers;
mod lists;
mod options;
mod shell;
mod step;
mod translate;
mod variables;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

pub use self::draft::{Difference, LeftOutLine};
pub use self::translate::translate;

/// How a file is translated.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The name of the image.
    pub name: String,
    /// The folder that paths of the file start from.
    pub context: PathBuf,
    /// The path of that folder from the recipe's; empty if they are the same.
    pub prefix: String,
    /// Values of the file's arguments (`ARG`, `%arguments`).
    pub arguments: BTreeMap<String, String>,
    /// The stage to translate; without it the last one.
    pub stage: Option<String>,
    /// Whether the file's own base image is kept where Debian's packages could replace it.
    pub keep_base: bool,
}

/// A recipe that was made from another tool's file; also its JSON form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Imported {
    /// The recipe's text.
    pub recipe: String,
    /// Files that the recipe names, by their paths from its folder: requirements, a script.
    pub files: BTreeMap<String, String>,
    /// What the recipe does not say, in the order of lines.
    pub left_out: Vec<LeftOutLine>,
}
