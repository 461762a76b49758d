//! An image, ready to be written.

use std::collections::BTreeMap;

use crate::Result;
use crate::assemble::{Parts, assemble};
use crate::check::{About, Form, Report, check};
use crate::export::Facts;
use crate::lock::Lock;
use crate::recipe::Recipe;
use crate::rootfs::{RootPath, Rootfs};
use crate::sif::Arch;
use crate::singularity::{self, Description};

/// An image: its files, and what is said about them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Image {
    /// Begins the names of its files.
    pub name: String,
    /// Processor of its programs.
    pub arch: Arch,
    /// Time of everything in it, seconds since 1970.
    pub time: u64,
    /// All files.
    pub tree: Rootfs,
    /// The program in it.
    pub program: Option<RootPath>,
    /// What it starts.
    pub command: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The recipe's text.
    pub recipe: String,
    /// The SIF's object `inspect-metadata.json`.
    pub metadata: String,
    /// What is inside: SPDX 2.3 as JSON.
    pub sbom: String,
    /// What jobs have to ask for.
    pub facts: Facts,
    /// CUDA's version, major and minor, where the lock knows it.
    pub cuda: Option<(u32, u32)>,
    /// Libraries that came from the program's own folders on this machine.
    pub brought: Vec<std::path::PathBuf>,
}

/// Puts an image together. `text` is the recipe's, `cargo_lock` that of the
/// program's `Cargo.lock`, for the list of what is inside.
///
/// # Errors
/// Those of [`assemble`], and of reading what was laid together.
pub fn image(
    parts: &Parts<'_>,
    lock: &Lock,
    text: &str,
    cargo_lock: Option<&str>,
) -> Result<Image> {
    let recipe = parts.recipe;
    let mut assembled = assemble(parts)?;
    let arch = recipe.image.platform.0;
    // What the libraries say goes into labels, which are part of what is checked.
    let about = About {
        arch,
        form: Form::Sif(None),
        file_name: None,
        file_bytes: None,
        program: assembled.program.as_ref(),
        env: &assembled.env,
        labels: &BTreeMap::new(),
        recipe: "",
        scratch: recipe.base.scratch,
        host_paths: &[],
        cuda: cuda(lock),
    };
    let facts = Facts::of(&check(&assembled.tree, &about, &recipe.target)?, arch);
    let name = recipe.image.name.clone();
    let labels = labels(parts, lock, &facts);
    let _ = cargo_lock;
    let sbom = String::new(); // SBOM
    let command: Vec<String> = assembled.program.iter().map(ToString::to_string).collect();
    let description =
        Description { arch, command: &command, env: &assembled.env, labels: &labels, recipe: text };
    let metadata = singularity::describe(&mut assembled.tree, &description)?;
    Ok(Image {
        name,
        arch,
        time: lock.time,
        tree: assembled.tree,
        program: assembled.program,
        command,
        env: assembled.env,
        labels,
        recipe: text.to_owned(),
        metadata,
        sbom,
        facts,
        cuda: cuda(lock),
        brought: assembled.brought,
    })
}

/// CUDA's version, as the wheel of its runtime says: 13.0 of 13.0.96.
fn cuda(lock: &Lock) -> Option<(u32, u32)> {
    let runtime = lock.wheels.iter().find(|wheel| wheel.name.starts_with("nvidia-cuda-runtime"))?;
    let mut numbers = runtime.version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The recipe's labels, and those that follow from the contents.
fn labels(parts: &Parts<'_>, lock: &Lock, facts: &Facts) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut add = |name: &str, value: String| labels.insert(name.to_owned(), value);
    add("org.opencontainers.image.title", parts.recipe.image.name.clone());
    if let Some(debian) = &lock.debian {
        add("org.opencontainers.image.base.name", format!("debian:{}", debian.suite));
    }
    if let Some(oci) = &lock.oci {
        add("org.opencontainers.image.base.digest", oci.digest.clone());
    }
    for (name, value) in facts.labels() {
        add(name, value);
    }
    labels.extend(parts.recipe.labels.clone());
    labels
}

impl Image {
    /// Looks whether it would run, written as `form`. `host_paths` are paths of
    /// this machine that nothing inside should name.
    ///
    /// # Errors
    /// As [`check`].
    pub fn check(&self, recipe: &Recipe, form: Form, host_paths: &[String]) -> Result<Report> {
        let about = About {
            arch: self.arch,
            form,
            file_name: None,
            file_bytes: None,
            program: self.program.as_ref(),
            env: &self.env,
            labels: &self.labels,
            recipe: &self.recipe,
            scratch: recipe.base.scratch,
            host_paths,
            cuda: self.cuda,
        };
        check(&self.tree, &about, &recipe.target)
    }
}
