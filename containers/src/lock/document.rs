//! The contents of a lock: the parts that an image is made of.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::conda::CondaArchive;
use crate::python::LockedPython;
use crate::recipe::{OciBase, Platform, Recipe};
use crate::{Error, OciDigest, Package, Result, Sha256, UnixTime, python};

/// The contents of `image.lock`, which say what an image is made of: from `image.lock`, or just
/// found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLock {
    /// The time of every file in the image, and of the image.
    pub time: UnixTime,
    /// Digest of what the recipe said that this depends on: [`recipe_digest`].
    pub recipe: OciDigest,
    /// The platform that the lock was resolved for.
    pub platform: Platform,
    /// The Debian archive, when the base is made of its packages.
    pub debian: Option<Debian>,
    /// The image that the base is.
    pub oci: Option<Oci>,
    /// Debian packages, by name.
    pub debs: Vec<Package>,
    /// Further Debian packages that are needed to run the scripts of those, and are not in the
    /// image: dpkg and what it needs, by name.
    pub tools: Vec<Package>,
    /// Wheels that libraries are taken from, by name.
    pub wheels: Vec<Package>,
    /// Python packages.
    pub python: Option<LockedPython>,
    /// The archive of an environment.
    pub conda: Option<CondaArchive>,
    /// Results of the recipe's steps, in their order; empty until a build has run them.
    pub steps: Vec<LockedStep>,
}

/// The result of a step of `[[run]]`; also its form in the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedStep {
    /// Digest of the step's script.
    pub script: OciDigest,
    /// Digest of all that decides about the result: the step, and the image that it is run over.
    pub inputs: OciDigest,
    /// Digest of what the step did: paths, modes, links and contents.
    pub layer: OciDigest,
    /// Whether two runs, side by side, did the same.
    pub reproducible: bool,
}

/// A Debian archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Debian {
    /// The release's code name, as the recipe gives it.
    pub suite: String,
    /// The mirror's URL.
    pub mirror: String,
    /// The security archive's URL.
    pub security: String,
    /// `20260712T101637Z`: when snapshot.debian.org has these packages.
    pub snapshot: String,
}

/// The base image that the recipe gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oci {
    /// The image's address, as the recipe gives it.
    pub path: OciBase,
    /// Digest of the image's manifest for the platform.
    pub digest: OciDigest,
}

impl ImageLock {
    /// Checks that the lock was made from the current recipe; `path` names the lock in errors.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn check(&self, recipe: &Recipe, path: &str) -> Result<()> {
        if self.recipe == recipe_digest(recipe) {
            Ok(())
        } else {
            Err(Error::Stale { path: path.to_owned() })
        }
    }

    /// Checks like [`check`](Self::check), and also the files that the recipe names; `dir` is the
    /// recipe's folder.
    ///
    /// # Errors
    /// [`Error::Stale`]; [`Error::Io`] for a file that is not there.
    pub fn check_files(&self, recipe: &Recipe, dir: &Path, path: &str) -> Result<()> {
        self.check(recipe, path)?;
        let inputs = python_inputs(recipe, dir)?;
        let archive = conda_archive(recipe, dir)?;
        if inputs == self.python.as_ref().map(|python| python.inputs) && archive == self.conda {
            Ok(())
        } else {
            Err(Error::Stale { path: path.to_owned() })
        }
    }

    /// Bytes of all packages' files, the tools' included.
    pub fn bytes(&self) -> u64 {
        self.archives().map(|package| package.bytes).sum()
    }

    /// All packages whose files a build needs.
    pub fn archives(&self) -> impl Iterator<Item = &Package> {
        self.packages().chain(&self.tools)
    }

    /// The packages of the image: Debian's, then the wheels.
    pub fn packages(&self) -> impl Iterator<Item = &Package> {
        self.debs.iter().chain(self.all_wheels())
    }

    /// Wheels that libraries are taken from, then Python packages.
    pub fn all_wheels(&self) -> impl Iterator<Item = &Package> {
        self.wheels.iter().chain(self.python.iter().flat_map(|python| &python.wheels))
    }
}

/// The archive that `[conda]` of a recipe names; `dir` is the recipe's folder.
///
/// # Errors
/// Those of [`CondaArchive::find`].
pub(super) fn conda_archive(recipe: &Recipe, dir: &Path) -> Result<Option<CondaArchive>> {
    let asked = recipe.conda.as_ref();
    asked.map(|conda| CondaArchive::find(&conda.archive, dir)).transpose()
}

/// Digest of the files that `[python]` of a recipe names; `dir` is the recipe's folder.
///
/// # Errors
/// [`Error::Io`] for a file that is not there, [`Error::Limit`].
pub fn python_inputs(recipe: &Recipe, dir: &Path) -> Result<Option<OciDigest>> {
    recipe.python.as_ref().map(|python| python::digest(python, dir)).transpose()
}

/// Digest of the parts of a recipe that decide which archives are needed: base,
/// torch and platform. The program, its environment and labels may change without a
/// new lock.
pub fn recipe_digest(recipe: &Recipe) -> OciDigest {
    let base = &recipe.base;
    let mut parts = json!({
        "platform": recipe.image.platform.to_string(),
        "scratch": base.scratch,
        "debian": base.debian,
        "oci": base.oci.as_ref().map(ToString::to_string),
        "packages": base.packages,
        "torch": recipe.cuda.as_ref().and_then(|cuda| cuda.torch.as_ref()).map(|torch| &torch.0),
    });
    // Locks made before there was `[python]` stay as good as they are.
    if let Some(python) = &recipe.python {
        let shown = |path: &PathBuf| path.display().to_string();
        let mut of_python = json!({
            "lock": python.lock.as_ref().map(shown),
            "requirements": python.requirements.as_ref().map(shown),
            "wheels": python.wheels.iter().map(shown).collect::<Vec<_>>(),
        });
        let interpreter = python.interpreter.as_ref().map(shown);
        // The same holds for keys that came later.
        let later = [
            ("extras", json!(python.extras), python.extras.is_empty()),
            ("groups", json!(python.groups), python.groups.is_empty()),
            ("build", json!(python.build), !python.build),
            ("interpreter", json!(interpreter), interpreter.is_none()),
        ];
        for (name, value, _) in later.into_iter().filter(|(.., absent)| !absent) {
            if let Some(parts) = of_python.as_object_mut() {
                parts.insert(name.to_owned(), value);
            }
        }
        if let Some(parts) = parts.as_object_mut() {
            parts.insert("python".to_owned(), of_python);
        }
    }
    if let (Some(conda), Some(parts)) = (&recipe.conda, parts.as_object_mut()) {
        parts.insert("conda".to_owned(), json!(conda.archive.display().to_string()));
    }
    Sha256::of(parts.to_string().as_bytes()).into()
}
