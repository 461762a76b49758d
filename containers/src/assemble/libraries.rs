//! Adds libtorch and NVIDIA's libraries: only those that are loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{LIB, Parts};
use crate::cuda::{from_host, matches, opened_by};
use crate::elf::{self, Closure, ElfFacts, LinkFault};
use crate::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use crate::store::MemberKind;
use crate::{Error, Package, Result};

pub(super) struct Libraries {
    /// Wheels that at least one library was taken from.
    pub(super) wheels: Vec<String>,
    /// Files of this machine that the program found by its own search path.
    pub(super) brought: Vec<PathBuf>,
    /// Whether the program finds the libraries only if a search path names their folder.
    pub(super) need_path: bool,
    /// Whether NVIDIA's libraries are among them, not only libtorch's CPU part.
    pub(super) gpu: bool,
}

/// A library that may be taken into the image.
struct Candidate {
    what: What,
    layer: Layer,
    wheel: Option<String>,
}

/// The layer that a wheel's files belong to.
pub(super) fn layer_of(wheel: &str) -> Layer {
    if wheel == "torch" { Layer::Libtorch } else { Layer::Cuda }
}

pub(super) fn add(
    tree: &mut Rootfs,
    parts: &Parts<'_>,
    program: Option<&RootPath>,
) -> Result<Libraries> {
    let mut candidates = of_wheels(parts)?;
    if let Some(folder) = parts.recipe.cuda.as_ref().and_then(|cuda| cuda.libtorch.as_ref()) {
        of_folder(&parts.dir.join(folder), &mut candidates)?;
    }
    for (name, candidate) in &candidates {
        let path = RootPath::new(&format!("{LIB}/{name}"))?;
        let mode = if let What::Symlink(_) = candidate.what { 0o777 } else { 0o755 };
        tree.add(candidate.layer, &path, mode, candidate.what.clone())?;
    }
    let gpu = candidates.contains_key("libtorch_cuda.so") && !parts.recipe.is_cpu_only();
    // A script loads no libraries.
    let loads = parts.program.map(ElfFacts::open).transpose()?.flatten().is_some();
    let roots = roots(gpu, program.filter(|_| loads), &candidates)?;
    let mut brought = BTreeMap::new();
    if let Some(here) = parts.program {
        bring(tree, here, &roots, &mut brought)?;
    }
    let closure = with_opened(tree, &roots, &candidates, &[])?;
    let hidden = closure.faults.iter().any(|fault| match fault {
        LinkFault::Missing { library, .. } => {
            candidates.contains_key(library) || brought.contains_key(library)
        }
        _ => false,
    });
    // Programs brought by the job look where the environment says.
    let need_path = hidden || (program.is_none() && !candidates.is_empty());
    let library_path = if need_path { vec![format!("/{LIB}")] } else { Vec::new() };
    let closure =
        if hidden { with_opened(tree, &roots, &candidates, &library_path)? } else { closure };
    let mut wheels = BTreeSet::new();
    for (name, candidate) in &candidates {
        let path = RootPath::new(&format!("{LIB}/{name}"))?;
        if is_loaded(tree, &closure, &path) {
            wheels.extend(candidate.wheel.clone());
        } else {
            tree.remove(&path);
        }
    }
    Ok(Libraries {
        wheels: wheels.into_iter().collect(),
        brought: brought.into_values().collect(),
        need_path,
        gpu,
    })
}

/// Whether a file, or what a link leads to, is among what is loaded.
fn is_loaded(tree: &Rootfs, closure: &Closure, path: &RootPath) -> bool {
    tree.follow(path).is_some_and(|(real, _)| closure.loaded.contains_key(&real))
}

/// All shared libraries that are in a folder `lib` of a wheel: files, or links to those that are
/// there for Python.
fn of_wheels(parts: &Parts<'_>) -> Result<BTreeMap<String, Candidate>> {
    let mut candidates: BTreeMap<String, Candidate> = BTreeMap::new();
    let torch = parts.recipe.cuda.as_ref().is_some_and(|cuda| cuda.torch.is_some());
    let shares = |wheel: &str| torch && (wheel == "torch" || wheel.starts_with("nvidia-"));
    let of_python = parts.python.iter().flat_map(|python| {
        let shared = python.wheels.iter().filter(|(wheel, _)| shares(&wheel.name));
        shared.map(|(wheel, files)| (*wheel, files, Some(&python.scheme)))
    });
    let alone = parts.wheels.iter().map(|(wheel, files)| (*wheel, files, None));
    for (Package { name: wheel, .. }, files, python) in alone.chain(of_python) {
        for entry in &files.entries {
            let MemberKind::File(..) = entry.kind else { continue };
            let Some((folder, name)) = entry.path.rsplit_once('/') else { continue };
            if folder.rsplit('/').next() != Some("lib") || !is_library(name) || from_host(name) {
                continue;
            }
            let what = match python {
                Some(scheme) => {
                    What::Symlink(format!("/{}", scheme.installed_path(&entry.path, wheel)))
                }
                None => files.what(entry)?,
            };
            let candidate = Candidate { what, layer: layer_of(wheel), wheel: Some(wheel.clone()) };
            if let Some(there) = candidates.insert(name.to_owned(), candidate) {
                let other = there.wheel.unwrap_or_default();
                let reason = format!("the wheels `{other}` and `{wheel}` both contain this file");
                return Err(Error::Conflict { path: format!("/{LIB}/{name}"), reason });
            }
        }
    }
    Ok(candidates)
}

/// The libraries of an unpacked libtorch, or of a folder of libraries.
fn of_folder(dir: &Path, candidates: &mut BTreeMap<String, Candidate>) -> Result<()> {
    let inner = dir.join("lib");
    let dir = if inner.is_dir() { &inner } else { dir };
    for entry in fs::read_dir(dir).map_err(Error::io("read", dir))? {
        let path = entry.map_err(Error::io("read", dir))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        // A linker script may stand there under a library's name.
        if !is_library(name) || from_host(name) || ElfFacts::open(&path)?.is_none() {
            continue;
        }
        let torch = ["libtorch", "libc10", "libcaffe2", "libgomp"];
        let of_torch = torch.iter().any(|prefix| name.starts_with(prefix));
        let layer = if of_torch { Layer::Libtorch } else { Layer::Cuda };
        let what = What::File(FileBytes::of(&path)?);
        candidates.insert(name.to_owned(), Candidate { what, layer, wheel: None });
    }
    Ok(())
}

fn is_library(name: &str) -> bool {
    name.ends_with(".so") || name.contains(".so.")
}

/// The files that are loaded in any case: the program; libtorch, if the job brings the program; and
/// libtorch's CUDA half, which a program loads by name.
fn roots(
    gpu: bool,
    program: Option<&RootPath>,
    candidates: &BTreeMap<String, Candidate>,
) -> Result<Vec<RootPath>> {
    let mut roots: Vec<RootPath> = program.cloned().into_iter().collect();
    let mut names = Vec::new();
    if program.is_none() {
        names.push("libtorch_cpu.so");
    }
    if gpu {
        names.push("libtorch_cuda.so");
    }
    // `libtorch.so` is a shell that asks for both parts.
    if gpu && program.is_none() {
        names.push("libtorch.so");
    }
    for name in names.into_iter().filter(|name| candidates.contains_key(*name)) {
        roots.push(RootPath::new(&format!("{LIB}/{name}"))?);
    }
    Ok(roots)
}

/// The closure of `roots` with what their libraries open later.
fn with_opened(
    tree: &Rootfs,
    roots: &[RootPath],
    candidates: &BTreeMap<String, Candidate>,
    library_path: &[String],
) -> Result<Closure> {
    let mut roots = roots.to_vec();
    loop {
        let closure = elf::closure(tree, &roots, library_path, &from_host)?;
        let mut more = Vec::new();
        for loaded in closure.loaded.keys() {
            for opened in opened_by(loaded.name()) {
                for name in candidates.keys().filter(|name| matches(opened, name)) {
                    let path = RootPath::new(&format!("{LIB}/{name}"))?;
                    if !is_loaded(tree, &closure, &path) {
                        more.push(path);
                    }
                }
            }
        }
        if more.is_empty() {
            return Ok(closure);
        }
        roots.extend(more);
    }
}

/// Adds libraries that nothing in the image has, from the folders that the program itself names
/// (RPATH, RUNPATH): those are a project's own. Libraries of the system belong into `[base]
/// packages`.
fn bring(
    tree: &mut Rootfs,
    here: &Path,
    roots: &[RootPath],
    brought: &mut BTreeMap<String, PathBuf>,
) -> Result<()> {
    let Some(facts) = ElfFacts::open(here)? else { return Ok(()) };
    let origin = here.parent().map_or_else(|| ".".to_owned(), |dir| dir.display().to_string());
    let mut folders = ElfFacts::folders(&facts.runpath, &origin);
    folders.extend(ElfFacts::folders(&facts.rpath, &origin));
    folders.retain(|folder| folder.starts_with('/'));
    loop {
        let library_path = [format!("/{LIB}")];
        let closure = elf::closure(tree, roots, &library_path, &from_host)?;
        let mut found = false;
        for fault in &closure.faults {
            let LinkFault::Missing { library, .. } = fault else { continue };
            if library.contains('/') || brought.contains_key(library) {
                continue;
            }
            let place = folders.iter().map(|folder| Path::new(folder).join(library));
            let Some(path) = place.into_iter().find(|path| path.is_file()) else { continue };
            let inside = RootPath::new(&format!("{LIB}/{library}"))?;
            tree.add(Layer::App, &inside, 0o755, What::File(FileBytes::of(&path)?))?;
            brought.insert(library.clone(), path);
            found = true;
        }
        if !found {
            return Ok(());
        }
    }
}
