//! An image that is ready to be written.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::assemble::{Assembled, Base, BeforeProgram, Parts, assemble};
use crate::check::{About, CheckReport, Form, check};
use crate::export::ImageFacts;
use crate::lock::ImageLock;
use crate::oci::BaseImage;
use crate::recipe::OciBase;
use crate::rootfs::{Layer, RootPath, Rootfs};
use crate::sbom::{self, Sbom};
use crate::sif::Arch;
use crate::singularity::{self, Description};
use crate::wheel::Metadata;
use crate::{Package, Result, Sha256, UnixTime, python};

/// An image: its files, and what is said about them.
#[derive(Debug)]
#[non_exhaustive]
pub struct AssembledImage {
    /// The beginning of the names of the image's files.
    pub name: String,
    /// Processor of its programs.
    pub arch: Arch,
    /// Time of every file in the image.
    pub time: UnixTime,
    /// All files of the image.
    pub tree: Rootfs,
    /// The image that it is built on.
    pub base: Option<Arc<BaseImage>>,
    /// The program in the image.
    pub program: Option<RootPath>,
    /// The command that the image starts.
    pub command: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The recipe's text.
    pub recipe: String,
    /// The SIF's object `inspect-metadata.json`.
    pub metadata: String,
    /// The list of contents: SPDX 2.3 as JSON.
    pub sbom: String,
    /// The report on whether the image would run.
    pub report: CheckReport,
    /// The values that jobs must ask for.
    pub facts: ImageFacts,
    /// Libraries that came from the program's own folders on this machine.
    pub brought: Vec<std::path::PathBuf>,
}

/// The requirements that an image is checked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The format that the image is written in.
    pub form: Form,
    /// Paths of this machine that nothing inside should name.
    pub host_paths: &'a [String],
}

/// Adds the program to an image, and checks whether it would run. `text` is the recipe's,
/// `cargo_lock` that of the program's `Cargo.lock`, for the list of what is inside.
///
/// # Errors
/// Those of [`assemble`], [`check`], and of reading what was laid together.
pub fn image(
    parts: &Parts<'_>,
    before: BeforeProgram,
    lock: &ImageLock,
    text: &str,
    cargo_lock: Option<&str>,
    asked: &Asked<'_>,
) -> Result<AssembledImage> {
    let recipe = parts.recipe;
    let mut assembled = assemble(parts, before)?;
    let arch = recipe.image.platform.0;
    let name = recipe.image.name.clone();
    let sbom = contents(parts, lock, &assembled, cargo_lock)?;
    let place = RootPath::new(&format!("usr/share/sbom/{name}.spdx.json"))?;
    assembled.tree.add_text(Layer::App, &place, 0o644, &sbom)?;
    let command: Vec<String> = assembled.program.iter().map(ToString::to_string).collect();
    let given = labels(parts, lock);
    let mut description = Description {
        arch,
        command: &command,
        arguments: &[],
        env: &assembled.env,
        labels: &given,
        recipe: text,
    };
    singularity::describe(&mut assembled.tree, &description)?;
    let about = About {
        arch,
        form: asked.form,
        file_name: None,
        file_bytes: None,
        program: assembled.program.as_ref(),
        env: &assembled.env,
        labels: &given,
        recipe: text,
        scratch: recipe.base.scratch,
        host_paths: asked.host_paths,
        cuda: cuda(lock),
    };
    let report = check(&assembled.tree, &about, &recipe.target)?;
    let facts = ImageFacts::of(&report, arch);
    // The labels include what the check found out about the libraries.
    let found = facts.labels().into_iter().map(|(name, value)| (name.to_owned(), value));
    let labels = found.chain(given.clone()).collect();
    description.labels = &labels;
    let metadata = singularity::describe(&mut assembled.tree, &description)?;
    Ok(AssembledImage {
        name,
        arch,
        time: lock.time,
        tree: assembled.tree,
        base: match &parts.base {
            Base::Image(image, ..) => Some(Arc::clone(image)),
            Base::Scratch | Base::Debian(..) => None,
        },
        program: assembled.program,
        command,
        env: assembled.env,
        labels,
        recipe: text.to_owned(),
        metadata,
        sbom,
        report,
        facts,
        brought: assembled.brought,
    })
}

/// Makes the list of contents.
fn contents(
    parts: &Parts<'_>,
    lock: &ImageLock,
    assembled: &Assembled,
    cargo_lock: Option<&str>,
) -> Result<String> {
    let taken = lock.wheels.iter().filter(|wheel| assembled.wheels.contains(&wheel.name));
    let mut of_python = Vec::new();
    for (package, files) in parts.python.iter().flat_map(|python| &python.wheels) {
        let metadata = python::metadata(files)?.unwrap_or_default();
        let license = Metadata::parse(&metadata).license;
        of_python.push(Package { license, ..(*package).clone() });
    }
    let package = parts.recipe.app.as_ref().and_then(|app| app.package.as_deref());
    let crates = cargo_lock.map(|text| sbom::crates(text, package)).transpose()?;
    let program = parts.program.map(|path| -> Result<_> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(sbom::SbomProgram { name, version: None, sha256: Sha256::of_file(path)? })
    });
    Ok(sbom::spdx(&Sbom {
        name: &parts.recipe.image.name,
        time: lock.time,
        tool: concat!("gular-", env!("CARGO_PKG_VERSION")),
        debs: &lock.debs,
        wheels: &taken.chain(&of_python).collect::<Vec<_>>(),
        base: lock.oci.as_ref().map(|oci| oci.digest),
        program: program.transpose()?.as_ref(),
        crates: &crates.unwrap_or_default(),
    }))
}

/// CUDA's version, as the wheel of its runtime says: 13.0 of 13.0.96.
fn cuda(lock: &ImageLock) -> Option<(u32, u32)> {
    let runtime = lock.all_wheels().find(|wheel| wheel.name.starts_with("nvidia-cuda-runtime"))?;
    let mut numbers = runtime.version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The recipe's labels, and those that follow from the lock.
fn labels(parts: &Parts<'_>, lock: &ImageLock) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut add = |name: &str, value: String| labels.insert(name.to_owned(), value);
    add("org.opencontainers.image.title", parts.recipe.image.name.clone());
    if let (Some(debian), None) = (&lock.debian, &lock.oci) {
        add("org.opencontainers.image.base.name", format!("debian:{}", debian.suite));
    }
    if let Some(oci) = &lock.oci {
        add("org.opencontainers.image.base.digest", oci.digest.to_string());
        if let OciBase::Registry(reference) = &oci.path {
            add("org.opencontainers.image.base.name", reference.to_string());
        }
    }
    labels.extend(parts.recipe.labels.clone());
    labels
}
