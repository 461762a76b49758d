//! Checks what programs and libraries load at their start: every ELF file of the image.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::{Elf, Inventory, ours};
use super::libraries::machine;
use super::named::Named;
use super::providers::package_with;
use super::{Finding, Severity};
use crate::cuda::from_host;
use crate::elf::{LinkFault, Linker};
use crate::python::site_of;
use crate::rootfs::{RootPath, Rootfs, What};
use crate::sif::Arch;
use crate::{Error, Result};

/// The shells that start jobs, and wrappers around them.
const SHELLS: [&str; 2] = ["bin/sh", "bin/bash"];
/// Folders that files share without belonging together.
const SHARED: [&str; 4] =
    ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/local/lib", "usr/local/bin"];
/// Folders from the root that a program's own folder has at least: `usr/lib/R`.
const OWN_DEPTH: usize = 3;

/// Follows everything that starts or is loaded by its name, what this build put in, and the plugins
/// of the base, in this order: each fault counts as what it stops first.
pub(super) fn check(
    inventory: &Inventory<'_>,
    named: &Named<'_>,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    // Jobs start the program, and all of them a shell.
    let started = SHELLS.iter().filter_map(|path| RootPath::inside(path));
    let started = started.chain(inventory.about.program.cloned());
    let started: BTreeSet<RootPath> =
        started.filter_map(|path| inventory.tree.follow(&path)).map(|(path, _)| path).collect();
    let library_path = inventory.library_path();
    let elsewhere = Elsewhere::of(inventory.tree);
    let fallback = |name: &str, by: &RootPath| elsewhere.find(name, by);
    let linker = Linker::new(inventory.tree, &library_path, &from_host)?;
    let mut linker = linker.or_at(&fallback);
    let expected = match inventory.about.arch {
        Arch::Amd64 => 62,
        Arch::Arm64 => 183,
    };
    let of_system: BTreeSet<RootPath> = linker
        .system_folders(expected)
        .iter()
        .filter_map(|folder| Some(inventory.tree.follow(&RootPath::inside(folder)?)?.0))
        .collect();
    let mut roots: Vec<(Severity, bool, &Elf<'_>)> = Vec::new();
    for elf in &inventory.elves {
        let of_build = started.contains(elf.path) || ours(elf.node);
        let severity = match of_build {
            true if is_plugin(elf.path) => plugin_severity(elf.path),
            true => Severity::Error,
            false if elf.facts.machine != expected => continue,
            false => named.of_base(elf.path, is_found(elf, named, &of_system)),
        };
        roots.push((severity, of_build, elf));
    }
    roots.sort_by_key(|(severity, of_build, elf)| (*severity, *of_build, elf.path));
    let mut said = BTreeSet::new();
    let mut missing = Missing::default();
    for (severity, of_build, elf) in roots {
        let found = match linker.closure(std::slice::from_ref(elf.path)) {
            Ok(found) => found,
            // A finding about that file itself has been added already; distributions have such
            // files as test data.
            Err(Error::Elf { path, reason }) if of_build => {
                let reason = format!("`{path}`, which it loads, is not a valid ELF file: {reason}");
                findings.push(Finding::new(severity, "elf", elf.path, reason));
                continue;
            }
            Err(Error::Path { reason, .. }) if of_build => {
                findings.push(Finding::new(severity, "interpreter", elf.path, reason));
                continue;
            }
            Err(Error::Elf { .. } | Error::Path { .. }) => continue,
            Err(other) => return Err(other),
        };
        // Many need one library: each is blamed once, wherever it was searched for.
        for fault in found.faults {
            let key = match &fault {
                LinkFault::Missing { library, by, .. } => (library.clone(), by.clone()),
                other => (format!("{other:?}"), elf.path.clone()),
            };
            if !said.insert(key) {
                continue;
            }
            match fault {
                // A library that may be started, as glibc's, need not be.
                LinkFault::Interpreter { .. } if elf.facts.soname.is_some() && !of_build => {}
                // Programs of others may bring their own.
                LinkFault::Missing { .. }
                    if severity == Severity::Note && named.is_foreign() && !of_build => {}
                LinkFault::Missing { library, by, searched } => {
                    missing.add(severity, of_build && is_plugin(elf.path), library, by, searched);
                }
                other if of_build && is_plugin(elf.path) => {
                    findings.push(softened(elf.path, finding(&other, severity)));
                }
                other => findings.push(finding(&other, severity)),
            }
        }
    }
    findings.extend(missing.findings(named));
    Ok(())
}

/// Whether programs are started, and libraries found, by their names or by Python. A program in a
/// folder of its own is started by another one, as R's is.
fn is_found(elf: &Elf<'_>, named: &Named<'_>, of_system: &BTreeSet<RootPath>) -> bool {
    let is_program =
        elf.facts.interpreter.is_some() && elf.facts.soname.is_none() && elf.node.mode & 0o111 != 0;
    let in_system = elf.path.parent().is_some_and(|folder| of_system.contains(&folder));
    let is_module = is_imported(elf.path.name())
        && (site_of(elf.path).is_some() || elf.path.as_str().contains("/lib-dynload/"));
    let is_command = named.is_command(elf.path);
    is_command || in_system || is_module || (is_program && !named.is_foreign())
}

fn is_imported(name: &str) -> bool {
    name.contains(".cpython-") || name.ends_with(".abi3.so")
}

/// Whether this is a library of a Python package that Python does not import by itself:
/// some package may open it, and some wheels bring such for what few machines have.
pub(super) fn is_plugin(path: &RootPath) -> bool {
    site_of(path).is_some() && !is_imported(path.name())
}

fn plugin_severity(path: &RootPath) -> Severity {
    let of_nvidia = site_of(path).is_some_and(|site| {
        path.as_str().strip_prefix(site).is_some_and(|rest| rest.starts_with("/nvidia/"))
    });
    // NVIDIA's wheels bring ways over InfiniBand and MPI that no other library asks for.
    if of_nvidia { Severity::Note } else { Severity::Warning }
}

pub(super) fn softened(path: &RootPath, finding: Finding) -> Finding {
    let message = format!("{}; programs that use it fail", finding.message);
    Finding { severity: plugin_severity(path), message, ..finding }
}

/// Libraries that `ld.so` alone does not find, but a program that is loaded earlier, or the script
/// that starts it, does.
struct Elsewhere<'a> {
    by_name: BTreeMap<&'a str, Vec<&'a RootPath>>,
}

impl<'a> Elsewhere<'a> {
    fn of(tree: &'a Rootfs) -> Self {
        let mut by_name: BTreeMap<&str, Vec<&RootPath>> = BTreeMap::new();
        let is_library = |node: &What| !matches!(node, What::Dir);
        for (path, _) in
            tree.iter().filter(|(path, node)| path.name().contains(".so") && is_library(&node.what))
        {
            by_name.entry(path.name()).or_default().push(path);
        }
        Self { by_name }
    }

    /// One package of a folder of Python packages loads what another one brings before it needs it,
    /// as all that is built on torch does, and no header says so. A program of a distribution with
    /// a folder of its own, such as R and Java, has its libraries there.
    fn find(&self, name: &str, by: &RootPath) -> Option<RootPath> {
        let paths = self.by_name.get(name)?;
        let together = |path: &&&RootPath| match site_of(by) {
            Some(site) => site_of(path) == Some(site),
            None => is_own(&common(path, by)),
        };
        paths.iter().find(together).map(|path| (*path).clone())
    }
}

/// The folder that two files share.
fn common(one: &RootPath, other: &RootPath) -> String {
    let pairs = one.as_str().split('/').zip(other.as_str().split('/'));
    let same: Vec<&str> = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    same.join("/")
}

fn is_own(folder: &str) -> bool {
    let is_of_build = ["app", "usr/local", "opt"].iter().any(|top| {
        folder.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    !is_of_build && folder.split('/').count() >= OWN_DEPTH && !SHARED.contains(&folder)
}

/// Libraries that are missing, by severity, whether a plugin needs it, and name.
#[derive(Default)]
struct Missing(BTreeMap<(Severity, bool, String), Needed>);

/// Who needs a library, and where it was searched for first.
struct Needed {
    by: Vec<RootPath>,
    searched: Vec<String>,
}

impl Missing {
    fn add(
        &mut self,
        severity: Severity,
        is_plugin: bool,
        library: String,
        by: RootPath,
        searched: Vec<String>,
    ) {
        let known = self.0.entry((severity, is_plugin, library));
        known.or_insert_with(|| Needed { by: Vec::new(), searched }).by.push(by);
    }

    fn findings(self, named: &Named<'_>) -> impl Iterator<Item = Finding> {
        self.0.into_iter().filter_map(move |((severity, is_plugin, library), needed)| {
            let Needed { by, searched } = needed;
            let (first, others) = by.split_first()?;
            let folders = searched.join(" ");
            let mut message = format!("it needs `{library}`, which none of {folders} has");
            match others {
                [] => {}
                [other] => message.push_str(&format!("; `{other}` needs it, too")),
                others => message.push_str(&format!("; {} other files need it, too", others.len())),
            }
            let hint = match package_with(&library) {
                Some(package) if named.has_package(package) => format!(
                    "the package `{package}` is in the image, but the link to its library is not: its script, which makes it, has not run"
                ),
                Some(package) => format!(
                    "add the Debian package `{package}`, which has it, to `base.packages`, beside `default`"
                ),
                None => "add the Debian package that contains this library to `base.packages`, beside `default` (packages.debian.org finds it), or add the file to `app.files`".to_owned(),
            };
            let finding = Finding::new(severity, "missing-library", first, message).hint(hint);
            Some(if is_plugin { softened(first, finding) } else { finding })
        })
    }
}

fn finding(fault: &LinkFault, severity: Severity) -> Finding {
    match fault {
        LinkFault::Missing { library, by, .. } => {
            Finding::new(severity, "missing-library", by, format!("it needs `{library}`"))
        }
        LinkFault::Version { library, version, by, newest } => {
            let rule = if library == "libc.so.6" { "glibc" } else { "symbol-version" };
            let has = newest.as_ref().map_or_else(
                || "the image's has none of that family".to_owned(),
                |newest| format!("the image's ends at {newest}"),
            );
            let hint = "take a newer base, or build the program on an older system";
            let message = format!("it needs {version} of `{library}`, {has}");
            Finding::new(severity, rule, by, message).hint(hint)
        }
        LinkFault::Interpreter { interpreter, by } => {
            let message = format!("its `{interpreter}` is not in the image");
            Finding::new(severity, "interpreter", by, message)
                .hint("add a base with a C library, or link the program statically")
        }
        LinkFault::Machine { file, found, expected } => {
            let (found, expected) = (machine(*found), machine(*expected));
            let message = format!("it is for {found}, expected {expected}");
            Finding::new(severity, "processor", file, message)
        }
    }
}
