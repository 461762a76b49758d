//! Builds a recipe's images, as one call.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::compile_python::compile_python;
use super::maintainer_scripts::maintainer_scripts;
use super::program::program;
use super::steps::steps;
use super::{
    Asked, AssembledImage, BuildOptions, BuiltStep, ImageFormat, ImageWatch, Note, Output, Places,
    Program, Project, Step, Writing, lock, unpack,
};
use crate::assemble::{Base, BeforeProgram, Parts};
use crate::check::{CheckReport, size};
use crate::export::ImageFacts;
use crate::fetch::Transport;
use crate::lock::ImageLock;
use crate::python::{Interpreter, Scheme};
use crate::replay::{Replay, Replays, judge};
use crate::{Error, Result};

/// The result of [`build`]; also its JSON form.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Built {
    /// Whether it was a dry run, which writes nothing.
    pub dry_run: bool,
    /// Files and folders that were written; empty if the image was refused.
    pub outputs: Vec<Output>,
    /// Paths of the lists of contents (SPDX), one beside each output.
    pub sbom: Vec<PathBuf>,
    /// Values of the image that jobs must ask for.
    pub facts: ImageFacts,
    /// What became of the recipe's steps, in their order.
    pub steps: Vec<BuiltStep>,
    /// The result of all checks: whether the image would run.
    pub check: CheckReport,
    /// Results of the command lines with which HTCondor tests and starts an image, as far as they
    /// could be tried.
    pub replay: Vec<Replay>,
    /// Number of files inside the image.
    pub files: u64,
    /// Seconds that the whole command took.
    pub seconds: f64,
}

/// Builds an image: locks the recipe where needed, fetches and unpacks the packages,
/// adds the program, checks and replays the result, and writes it.
///
/// An image that would not run is not an error: [`Built::check`] says so, and nothing is
/// written then, unless [`BuildOptions::force`] is set.
///
/// # Errors
/// Those of [`Project::open`], [`lock::lock`](super::lock()), [`unpack`],
/// [`image`](super::image()) and [`AssembledImage::write`]; [`Error::NoFolder`] for a vendor folder
/// that is not there; [`Error::Program`]; [`Error::Cancelled`].
pub fn build(
    options: &BuildOptions<'_>,
    transport: &dyn Transport,
    watch: &dyn ImageWatch,
) -> Result<Built> {
    let start = Instant::now();
    let project = Project::open(&options.recipe)?;
    let lock = lock::current(options, &project, transport, watch)?;
    let program = program(options, &project)?;
    let (image, steps) = assembled(options, &project, &lock, program.as_ref(), transport, watch)?;
    image.brought.iter().for_each(|library| watch.note(&Note::Brought(library)));
    let mut built = Built {
        dry_run: options.dry_run,
        outputs: Vec::new(),
        sbom: Vec::new(),
        facts: image.facts.clone(),
        steps,
        check: image.report.clone(),
        replay: Vec::new(),
        files: image.files(),
        seconds: 0.0,
    };
    if !built.check.refused() {
        let replays = replays(options, watch)?;
        built.replayed(replays.of_tree(&image.tree, image.arch, image.program.as_ref())?);
    }
    if !options.dry_run && (!built.check.refused() || options.force) {
        write(options, &image, watch, &mut built)?;
    }
    built.seconds = start.elapsed().as_secs_f64();
    Ok(built)
}

/// Fetches and unpacks the packages, runs the steps, and lays all together.
fn assembled(
    options: &BuildOptions<'_>,
    project: &Project,
    lock: &ImageLock,
    program: Option<&Program>,
    transport: &dyn Transport,
    watch: &dyn ImageWatch,
) -> Result<(AssembledImage, Vec<BuiltStep>)> {
    if let Some(dir) = options.vendor.iter().find(|dir| !dir.is_dir()) {
        return Err(Error::NoFolder { path: dir.display().to_string() });
    }
    let archives = options.cache.archives(&options.vendor, options.offline);
    let (store, limits) = (options.cache.store(), &options.limits);
    let places = Places { dir: &project.dir, archives: &archives, store: &store, limits };
    let mut unpacked = unpack(lock, &places, transport, watch)?;
    let conda = unpacked.take_conda();
    // A Python among `packages` gets byte code, too.
    let of_debs = || Interpreter::of_debs(&lock.debs, lock.platform.0).ok();
    let scheme = match unpacked.scheme() {
        Some(scheme) => Some(scheme.clone()),
        None if lock.oci.is_some() => None,
        None => of_debs().map(|found| Scheme::debian(found.minor)),
    };
    let sources =
        scheme.as_ref().map_or_else(|| Ok(Vec::new()), |scheme| unpacked.sources(scheme))?;
    let scripts = maintainer_scripts(options, lock, &unpacked, &places, transport, watch)?;
    let (mut base, wheels, mut python) = unpacked.into_parts(scripts);
    match (&mut python, &project.recipe.python, &mut base, &scheme) {
        (Some(python), Some(asked), ..) if asked.bytecode => {
            python.byte_code =
                compile_python(options, lock, &base, &python.scheme, &sources, watch)?;
        }
        // It works without byte code too, as on another processor.
        (None, _, Base::Debian(..), Some(scheme)) => {
            match compile_python(options, lock, &base, scheme, &sources, watch) {
                Ok(byte_code) => base.add(byte_code),
                Err(Error::ByteCode { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        _ => {}
    }
    let parts = Parts {
        recipe: &project.recipe,
        base,
        wheels,
        python,
        conda,
        program: program.map(|program| program.path.as_path()),
        dir: &project.dir,
        lock_path: &project.lock_path,
    };
    let mut before = BeforeProgram::lay(&parts)?;
    let steps = steps(options, project, lock, &mut before, watch)?;
    let cargo_lock = program.and_then(|program| program.cargo_lock.as_deref());
    let asked = Asked { form: options.form(), host_paths: &options.host_paths };
    let image = super::image(&parts, before, lock, &project.text, cargo_lock, &asked)?;
    Ok((image, steps))
}

fn replays<'a>(options: &'a BuildOptions<'_>, watch: &'a dyn ImageWatch) -> Result<Replays<'a>> {
    let temp = options.cache.folder()?;
    Ok(Replays { tools: &options.tools, temp, cancel: watch.cancel() })
}

/// Writes every format, tries what was written, and takes back what is refused then.
fn write(
    options: &BuildOptions<'_>,
    image: &AssembledImage,
    watch: &dyn ImageWatch,
    built: &mut Built,
) -> Result<()> {
    write_formats(options, image, watch, built)?;
    for output in &built.outputs {
        let name = output.path.display().to_string();
        built.check.findings.extend(size(&name, output.bytes));
    }
    let replays = replays(options, watch)?;
    let sifs = built.outputs.iter().filter(|output| output.format == ImageFormat::Sif);
    let sifs: Vec<PathBuf> = sifs.map(|output| output.path.clone()).collect();
    for sif in sifs {
        built.replayed(replays.of_sif(&sif)?);
    }
    if built.check.refused() && !options.force {
        // An output that existed before stays: it was not made now.
        for output in built.outputs.drain(..).filter(|output| !output.was_there) {
            remove(&output.path)?;
        }
    }
    for output in &built.outputs {
        built.sbom.push(image.write_sbom(output)?);
    }
    if let Some(first) = built.outputs.first() {
        let name = first.path.file_name().unwrap_or_default().to_string_lossy();
        built.facts = image.facts.clone().of_file(&name, first.bytes, Some(first.digest));
    }
    Ok(())
}

fn write_formats(
    options: &BuildOptions<'_>,
    image: &AssembledImage,
    watch: &dyn ImageWatch,
    built: &mut Built,
) -> Result<()> {
    let blocks = options.cache.blocks(options.cache_bytes);
    let layers = options.cache.layers(options.cache_bytes);
    let formats = options.each_format();
    let total = image.bytes() * formats.len() as u64;
    for (n, format) in formats.into_iter().enumerate() {
        let before = image.bytes() * n as u64;
        let told = |done: u64| watch.progress(Step::Write, before + done, total);
        let with = Writing {
            dir: &options.out,
            squash: options.compression.squash(),
            compressor: options.compression.compressor(),
            jobs: options.jobs,
            blocks: Some(&blocks),
            layers: Some(&layers),
            progress: &told,
            cancel: watch.cancel(),
        };
        let written = image.write(format, &with);
        watch.ended(Step::Write);
        let written = written?;
        if let Some(why) = &written.not_cached {
            watch.note(&Note::NotCached(why));
        }
        built.outputs.push(written);
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(Error::io("remove", path))
}

impl Built {
    /// Adds the results of replays, and what the check makes of them.
    fn replayed(&mut self, replays: Vec<Replay>) {
        judge(&replays, &mut self.check);
        self.replay.extend(replays);
    }
}
