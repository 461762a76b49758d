//! Checks the user's own Python programs: whether what they import is in the image. Their own
//! modules are followed; packages answer for themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::distributions::distribution_of;
use super::inventory::{Inventory, ours};
use super::named::Named;
use super::{Finding, Severity};
use crate::Result;
use crate::python::{Import, PythonModules, When, imports, is_site};
use crate::recipe::Recipe;
use crate::rootfs::{RootPath, Rootfs, What};

/// Largest source that is read; those of people have some kilobytes.
const MAX_BYTES: u64 = 4 << 20;
/// Most sources that are followed.
const MAX_SOURCES: usize = 4096;

/// A source that is to be looked at, and the folder of the program that imports it.
struct Source {
    path: RootPath,
    /// The first folder in which its imports are looked for.
    folder: RootPath,
    severity: Severity,
    is_program: bool,
}

pub(super) fn check(
    inventory: &Inventory<'_>,
    named: &Named<'_>,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let tree = inventory.tree;
    let modules: PythonModules = tree.iter().map(|(path, _)| path.as_str()).collect();
    if !modules.are_known() {
        return Ok(());
    }
    let places = Places::of(inventory);
    let mut todo: VecDeque<Source> = programs(inventory, named)?.into();
    let mut seen: BTreeSet<RootPath> = BTreeSet::new();
    // By severity, module and file: the first line.
    let mut missing: BTreeMap<(Severity, String, RootPath), usize> = BTreeMap::new();
    while let Some(source) = todo.pop_front() {
        if seen.len() >= MAX_SOURCES || !seen.insert(source.path.clone()) {
            continue;
        }
        let Some((_, node)) = tree.follow(&source.path) else { continue };
        let What::File(bytes) = &node.what else { continue };
        let Some(text) = bytes.text(MAX_BYTES)? else { continue };
        for import in imports(&text) {
            if source.is_program && import.module.starts_with('.') && import.when == When::Always {
                let message = format!(
                    "line {} imports from `{}`, which works inside of a package only, and this is a program",
                    import.line, import.module
                );
                let hint = "import the module by its name, without the dots";
                let finding = Finding::new(source.severity, "python-import", &source.path, message);
                findings.push(finding.hint(hint));
                continue;
            }
            let severity = match import.when {
                When::Always => source.severity,
                When::Sometimes => source.severity.max(Severity::Warning),
                When::Tried | When::Never => Severity::Note,
            };
            let own = places.own(tree, &source, &import);
            if own.is_empty() && is_missing(&modules, &places, tree, &import) {
                let key = (severity, import.module.clone(), source.path.clone());
                missing.entry(key).or_insert(import.line);
            }
            let folder = source.folder.clone();
            todo.extend(own.into_iter().map(|path| Source {
                path,
                folder: folder.clone(),
                severity,
                is_program: false,
            }));
        }
    }
    let mut said = BTreeSet::new();
    for ((severity, module, path), line) in missing {
        // What stops the program at its start need not be said of other lines.
        if said.insert((module.clone(), path.clone())) {
            let message = format!("line {line} imports `{module}`, which is not in the image");
            let top = module.split('.').next().unwrap_or_default();
            let name = distribution_of(&module).unwrap_or(top);
            let hint = format!(
                "add `{name}` to the requirements of `[python]`, or your own module to `app.files`, beside the program"
            );
            findings.push(Finding::new(severity, "python-import", &path, message).hint(hint));
        }
    }
    Ok(())
}

/// The Python programs that the image is for: the program itself, files that the recipe names, and
/// those in folders that it names.
fn programs(inventory: &Inventory<'_>, named: &Named<'_>) -> Result<Vec<Source>> {
    let tree = inventory.tree;
    let mut found = Vec::new();
    let mut add = |path: RootPath, severity: Severity| {
        let folder = path.parent().unwrap_or(RootPath::ROOT);
        found.push(Source { path, folder, severity, is_program: true });
    };
    let is_python = |path: &RootPath| -> Result<bool> {
        let Some((_, node)) = tree.follow(path) else { return Ok(false) };
        let What::File(bytes) = &node.what else { return Ok(false) };
        if path.name().ends_with(".py") {
            return Ok(true);
        }
        let line = super::scripts::first_line(bytes)?;
        Ok(line.is_some_and(|line| line.contains("python")))
    };
    if let Some((program, node)) = inventory.about.program.and_then(|path| tree.follow(path))
        && is_python(&program)?
    {
        let is_own = ours(node) || !named.is_foreign();
        add(program, if is_own { Severity::Error } else { Severity::Warning });
    }
    let recipe = Recipe::parse(inventory.about.recipe, "the image's recipe").ok();
    let files = recipe.and_then(|recipe| recipe.app).map(|app| app.files).unwrap_or_default();
    for inside in files.keys().filter_map(|inside| RootPath::inside(inside)) {
        match tree.follow(&inside) {
            // A module beside a program is not started itself.
            Some((file, node)) if matches!(node.what, What::File(_)) => {
                let is_started = is_program(tree, &file)? && is_python(&file)?;
                is_started.then(|| add(file, Severity::Error));
            }
            Some((folder, _)) => {
                let prefix = format!("{}/", folder.as_str());
                let inside = tree.iter().filter(|(path, _)| path.as_str().starts_with(&prefix));
                for (path, _) in inside.filter(|(path, _)| path.name().ends_with(".py")) {
                    // Folders have tests and tools, too, for which nobody makes an image.
                    if is_program(tree, path)? {
                        add(path.clone(), Severity::Warning);
                    }
                }
            }
            None => {}
        }
    }
    Ok(found)
}

/// Whether a source is started itself, as far as its text says.
fn is_program(tree: &Rootfs, path: &RootPath) -> Result<bool> {
    let Some((_, node)) = tree.follow(path) else { return Ok(false) };
    let What::File(bytes) = &node.what else { return Ok(false) };
    let text = bytes.text(MAX_BYTES)?.unwrap_or_default();
    Ok(text.starts_with("#!") || text.contains("__main__"))
}

/// Where Python looks for modules.
struct Places {
    /// Folders of `PYTHONPATH`.
    given: Vec<RootPath>,
    /// Folders of packages.
    sites: Vec<RootPath>,
}

impl Places {
    fn of(inventory: &Inventory<'_>) -> Self {
        let given = inventory.about.env.get("PYTHONPATH").map_or("", String::as_str);
        let given = given.split(':').filter(|folder| folder.starts_with('/'));
        let sites = inventory
            .tree
            .iter()
            .filter(|(path, node)| node.what == What::Dir && is_site(path.name()));
        Self {
            given: given.filter_map(RootPath::inside).collect(),
            sites: sites.map(|(path, _)| path.clone()).collect(),
        }
    }

    /// The user's own sources that an import loads.
    fn own(&self, tree: &Rootfs, from: &Source, import: &Import) -> Vec<RootPath> {
        let dots = import.module.bytes().take_while(|byte| *byte == b'.').count();
        let name = import.module.get(dots..).unwrap_or_default();
        let parts: Vec<&str> = name.split('.').filter(|part| !part.is_empty()).collect();
        let beside = from.path.parent().unwrap_or(RootPath::ROOT);
        let folders: Vec<RootPath> = match dots {
            0 => [std::slice::from_ref(&from.folder), &*self.given].concat(),
            // One dot is the module's own folder.
            _ => (1..dots).try_fold(beside, |at, _| at.parent()).into_iter().collect(),
        };
        let Some((folder, first)) = folders.iter().find_map(|folder| {
            let found = module(tree, folder, &parts);
            (!found.is_empty()).then_some((folder, found))
        }) else {
            return Vec::new();
        };
        let within = parts.iter().fold(folder.clone(), |at, part| at.join(part));
        let names = import.names.iter().flat_map(|name| module(tree, &within, &[name]));
        first.into_iter().chain(names).collect()
    }
}

/// The sources that an import of `parts` from a folder runs: of each package, and of the module.
fn module(tree: &Rootfs, folder: &RootPath, parts: &[&str]) -> Vec<RootPath> {
    let is_file = |path: &RootPath| {
        tree.follow(path).is_some_and(|(_, node)| matches!(node.what, What::File(_)))
    };
    let (mut at, mut found) = (folder.clone(), Vec::new());
    for part in parts {
        let source = at.join(&format!("{part}.py"));
        at = at.join(part);
        let package = at.join("__init__.py");
        match () {
            () if is_file(&package) => found.push(package),
            () if is_file(&source) => found.push(source),
            // A folder alone is a package, too.
            () if tree.follow(&at).is_some_and(|(_, node)| node.what == What::Dir) => {
                found.push(at.clone());
            }
            () => return found,
        }
    }
    if parts.is_empty() {
        let package = at.join("__init__.py");
        found.push(if is_file(&package) { package } else { at });
    }
    found
}

/// Whether the image certainly lacks the module: by its first name, or by the second where the
/// first is a folder that several packages share, such as `google`.
fn is_missing(modules: &PythonModules, places: &Places, tree: &Rootfs, import: &Import) -> bool {
    if import.module.starts_with('.') {
        return false;
    }
    let mut parts = import.module.split('.');
    let top = parts.next().unwrap_or_default();
    if modules.lacks(top) {
        return true;
    }
    let Some(second) = parts.next() else { return false };
    let folders: Vec<RootPath> = places.sites.iter().map(|site| site.join(top)).collect();
    let folders: Vec<_> = folders.iter().filter(|folder| tree.get(folder).is_some()).collect();
    let has = |folder: &RootPath, name: &str| {
        tree.children(folder).any(|(path, _)| path.name().split('.').next() == Some(name))
    };
    let is_shared = !folders.is_empty() && !folders.iter().any(|folder| has(folder, "__init__"));
    is_shared && !folders.iter().any(|folder| has(folder, second))
}
