//! What of an image its recipe asks for, so that what it lacks is an error.

use std::collections::{BTreeSet, HashMap};

use super::inventory::{Inventory, ours};
use super::{Finding, Severity};
use crate::Result;
use crate::recipe::Recipe;
use crate::rootfs::{Layer, Node, RootPath, Rootfs, What, program_folders};

/// Where dpkg, and images without it, keep the lists of the files of packages.
const LISTS: [&str; 2] = ["var/lib/dpkg/status.d", "var/lib/dpkg/info"];
/// Largest list that is read: that of a package with a hundred thousand files.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// Packages that come with the certificates of every image. Their scripts are for administrators,
/// and need a Perl, which nobody asks for with them.
const COME_ALONG: [&str; 2] = ["debconf", "openssl"];

/// Folders whose programs are examples, or for finding errors.
const NOT_FOR_USE: [&str; 3] = ["usr/share/doc/", "usr/share/examples/", "usr/lib/debug/"];

/// The folder of an environment of conda.
const ENVIRONMENT: &str = "opt/env/";

/// What is asked for, and which package each file is of.
pub(super) struct Named<'a> {
    tree: &'a Rootfs,
    /// The packages that the recipe names.
    packages: BTreeSet<String>,
    /// The package of a file of the base, where there are lists.
    package_of: HashMap<String, String>,
    /// Packages that are there.
    installed: BTreeSet<String>,
    /// Whether somebody else made the base, so that this build does not answer for it.
    is_foreign: bool,
    /// The folders of programs, links followed.
    folders: BTreeSet<RootPath>,
}

impl<'a> Named<'a> {
    pub(super) fn of(inventory: &Inventory<'a>) -> Result<Self> {
        let recipe = Recipe::parse(inventory.about.recipe, "the image's recipe").ok();
        let base = recipe.as_ref().map(|recipe| &recipe.base);
        let packages = base.and_then(|base| base.packages.clone()).unwrap_or_default();
        let tree = inventory.tree;
        let real = |folder: RootPath| tree.follow(&folder).map(|(real, _)| real);
        let (package_of, installed) = packages_of(tree)?;
        Ok(Self {
            tree,
            packages: packages.into_iter().collect(),
            package_of,
            installed,
            is_foreign: base.is_none_or(|base| base.oci.is_some()),
            folders: program_folders(inventory.about.env).into_iter().filter_map(real).collect(),
        })
    }

    /// Whether a package is in the image.
    pub(super) fn has_package(&self, name: &str) -> bool {
        self.installed.contains(name)
    }

    /// Whether a shell finds a command of this name.
    pub(super) fn find(&self, name: &str) -> bool {
        let at = |folder: &RootPath| self.tree.follow(&folder.join(name)).is_some();
        self.folders.iter().any(at)
    }

    /// Whether somebody else made the base.
    pub(super) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Whether a shell finds the file by its name alone.
    pub(super) fn is_command(&self, path: &RootPath) -> bool {
        path.parent().is_some_and(|folder| self.folders.contains(&folder))
    }

    /// How bad it is that a library or an ELF program of the base does not load. Packages of Debian
    /// depend on all that they load, so such a fault stops something that was asked for.
    /// `is_found`: programs and libraries find it by its name.
    pub(super) fn of_base(&self, path: &RootPath, is_found: bool) -> Severity {
        if NOT_FOR_USE.iter().any(|folder| path.as_str().starts_with(folder)) {
            return Severity::Note;
        }
        match (self.is_foreign && !self.is_named(path), is_found) {
            (false, true) => Severity::Error,
            (true, true) => Severity::Warning,
            (_, false) => Severity::Note,
        }
    }

    /// How bad it is that a script does not start; `None` if nobody misses it. Debian's packages may
    /// leave out the interpreter of a script that few people need.
    pub(super) fn of_script(&self, path: &RootPath, node: &Node) -> Option<Severity> {
        let is_command = self.is_command(path);
        if NOT_FOR_USE.iter().any(|folder| path.as_str().starts_with(folder)) {
            return None;
        }
        let is_named = self.is_named(path);
        Some(match (node.layer, is_command) {
            (Layer::App, _) => Severity::Error,
            // Packages of conda have scripts for a Perl that they do not depend on: `c_rehash`.
            _ if path.as_str().starts_with(ENVIRONMENT) => match is_command {
                true => Severity::Note,
                false => return None,
            },
            _ if ours(node) && is_command => Severity::Error,
            _ if is_command && is_named => Severity::Error,
            _ if is_command && self.is_foreign => Severity::Warning,
            _ if !is_command || self.is_of(path, &COME_ALONG) => return None,
            _ => Severity::Note,
        })
    }

    /// The package of a file that the recipe names, and how many commands that package has.
    pub(super) fn commands_beside(&self, path: &RootPath) -> Option<(&str, usize)> {
        let package =
            self.package_of.get(path.as_str()).filter(|name| self.packages.contains(*name));
        let package = package?.as_str();
        let is_command = |file: &str| RootPath::new(file).is_ok_and(|path| self.is_command(&path));
        let files = self.package_of.iter().filter(|(_, of)| *of == package);
        Some((package, files.filter(|(file, _)| is_command(file)).count()))
    }

    /// Whether the file is of one of these packages.
    fn is_of(&self, path: &RootPath, packages: &[&str]) -> bool {
        let package = self.package_of.get(path.as_str());
        package.is_some_and(|package| packages.contains(&package.as_str()))
    }

    /// Whether the recipe names the file's package.
    fn is_named(&self, path: &RootPath) -> bool {
        let package = self.package_of.get(path.as_str());
        package.is_some_and(|package| self.packages.contains(package))
    }

    /// Reports the links among programs, and to libraries, that lead nowhere.
    pub(super) fn links(&self, findings: &mut Vec<Finding>) {
        for (path, node) in self.tree.iter() {
            let What::Symlink(target) = &node.what else { continue };
            // Those of this build are judged elsewhere.
            if ours(node) || !self.is_command(path) || self.tree.follow(path).is_some() {
                continue;
            }
            let message = format!(
                "it points to `{target}`, which does not exist: the command `{}` does not start",
                path.name()
            );
            let is_alternative = target.starts_with("/etc/alternatives/");
            let severity = match is_alternative && !self.is_foreign {
                true => Severity::Error,
                false => Severity::Warning,
            };
            let hint = "add the Debian package that has this program to `base.packages`";
            findings.push(Finding::new(severity, "command-link", path, message).hint(hint));
        }
    }
}

/// The package of each file, and all packages, as far as the image has lists of them.
fn packages_of(tree: &Rootfs) -> Result<(HashMap<String, String>, BTreeSet<String>)> {
    let (mut of, mut installed) = (HashMap::new(), BTreeSet::new());
    for folder in LISTS {
        let folder = RootPath::new(folder)?;
        let lists: Vec<_> = tree.children(&folder).collect();
        for (path, node) in lists {
            let What::File(source) = &node.what else { continue };
            let name = path.name();
            let (stem, is_sums) = match (name.strip_suffix(".md5sums"), name.strip_suffix(".list"))
            {
                (Some(stem), _) => (stem, true),
                (None, Some(stem)) => (stem, false),
                // `status.d` has the control files themselves.
                (None, None) if folder.name() == "status.d" => {
                    installed.insert(name.to_owned());
                    continue;
                }
                (None, None) => continue,
            };
            // `libc6:amd64.list`
            let package = stem.split(':').next().unwrap_or(stem);
            installed.insert(package.to_owned());
            let text = source.text(MAX_LIST_BYTES)?.unwrap_or_default();
            for line in text.lines() {
                let file =
                    if is_sums { line.split_once("  ").map(|(_, file)| file) } else { Some(line) };
                let Some(file) = file.and_then(RootPath::inside) else { continue };
                // Packages name `bin/x`, where `bin` is a link.
                let real = tree.follow(&file).map_or(file, |(real, _)| real);
                of.insert(real.as_str().to_owned(), package.to_owned());
            }
        }
    }
    Ok((of, installed))
}
