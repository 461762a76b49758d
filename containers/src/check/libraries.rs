//! Checks libraries: which ones `ld.so` would not find, which are opened only later, and which the
//! host must provide.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::{Elf, Inventory, numbers, ours};
use super::{Finding, Severity};
use crate::cuda::{from_host, matches, opened_by};
use crate::elf::{LinkFault, closure};
use crate::python::site_of;
use crate::rootfs::{RootPath, What};
use crate::sif::Arch;
use crate::{Error, Result};

/// The C library of Debian 12. Libraries that `--nv` binds come from the host's
/// distribution, and an older C library than theirs cannot load them
/// (apptainer#2421).
const HOST_GLIBC: &str = "2.36";

pub(super) fn check(inventory: &Inventory<'_>, findings: &mut Vec<Finding>) -> Result<()> {
    closures(inventory, findings)?;
    for elf in &inventory.elves {
        opened(inventory, elf, findings);
        if ours(elf.node) {
            processor(inventory, elf, findings);
        }
    }
    shipped(inventory, findings);
    old_for_host(inventory, findings);
    Ok(())
}

/// Follows the program, and all that this build put in.
fn closures(inventory: &Inventory<'_>, findings: &mut Vec<Finding>) -> Result<()> {
    let program = inventory.about.program.and_then(|path| inventory.tree.follow(path));
    let program = program.map(|(path, _)| path);
    let library_path = inventory.library_path();
    let of_sites = of_sites(inventory);
    let mut said = BTreeSet::new();
    // Libraries that Python imports come first: what they lack is an error, even if a plugin lacks
    // it, too.
    let (plugins, others): (Vec<_>, Vec<_>) =
        inventory.elves.iter().partition(|elf| is_plugin(elf.path));
    for (elf, plugin) in
        others.into_iter().map(|elf| (elf, false)).chain(plugins.into_iter().map(|elf| (elf, true)))
    {
        let is_program = program.as_ref() == Some(elf.path);
        if !is_program && !ours(elf.node) {
            continue;
        }
        let root = [elf.path.clone()];
        let found = match closure(inventory.tree, &root, &library_path, &from_host) {
            Ok(found) => found,
            // A finding about that file itself has been added already.
            Err(Error::Elf { path, reason }) => {
                let reason = format!("`{path}`, which it loads, is not a valid ELF file: {reason}");
                findings.push(Finding::error("elf", elf.path, reason));
                continue;
            }
            Err(Error::Path { reason, .. }) => {
                findings.push(Finding::error("interpreter", elf.path, reason));
                continue;
            }
            Err(other) => return Err(other),
        };
        // Many need one library: each is blamed once, wherever it was searched for.
        let new = |fault: &&LinkFault| {
            said.insert(match fault {
                LinkFault::Missing { library, by, .. } => (library.clone(), by.clone()),
                other => (format!("{other:?}"), elf.path.clone()),
            })
        };
        let counts = |fault: &&LinkFault| match fault {
            LinkFault::Missing { library, by, .. } => !site_of(by)
                .and_then(|site| of_sites.get(site))
                .is_some_and(|names| names.contains(library.as_str())),
            _ => true,
        };
        let faults = found.faults.iter().filter(counts).filter(new).map(fault);
        findings.extend(faults.map(|finding| match plugin {
            true => softened(elf.path, finding),
            false => finding,
        }));
    }
    Ok(())
}

/// Whether this is a library of a Python package that Python does not import by itself:
/// some package may open it, and some wheels bring such for what few machines have.
fn is_plugin(path: &RootPath) -> bool {
    let name = path.name();
    let imported = name.contains(".cpython-") || name.ends_with(".abi3.so");
    site_of(path).is_some() && !imported
}

fn softened(path: &RootPath, finding: Finding) -> Finding {
    let of_nvidia = site_of(path).is_some_and(|site| {
        path.as_str().strip_prefix(site).is_some_and(|rest| rest.starts_with("/nvidia/"))
    });
    // NVIDIA's wheels bring ways over InfiniBand and MPI that no other library asks for.
    let severity = if of_nvidia { Severity::Note } else { Severity::Warning };
    let message = format!("{}; programs that use it fail", finding.message);
    Finding { severity, message, ..finding }
}

/// The libraries in each folder of Python packages. One package loads what another one
/// brings before it needs it, as all that is built on torch does, and no header says so.
fn of_sites<'a>(inventory: &Inventory<'a>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, _) in inventory.tree.iter().filter(|(path, _)| path.name().contains(".so")) {
        if let Some(site) = site_of(path) {
            found.entry(site).or_default().insert(path.name());
        }
    }
    found
}

fn fault(fault: &LinkFault) -> Finding {
    match fault {
        LinkFault::Missing { library, by, searched } => {
            let folders = searched.join(" ");
            let message = format!("it needs `{library}`, which none of {folders} has");
            Finding::error("missing-library", by, message)
                .hint("add the Debian package that contains this library to `base.packages`, beside `default` (packages.debian.org finds it), or add the file to `app.files`")
        }
        LinkFault::Version { library, version, by, newest } => {
            let rule = if library == "libc.so.6" { "glibc" } else { "symbol-version" };
            let has = newest.as_ref().map_or_else(
                || "the image's has none of that family".to_owned(),
                |newest| format!("the image's ends at {newest}"),
            );
            let hint = "take a newer base, or build the program on an older system";
            Finding::error(rule, by, format!("it needs {version} of `{library}`, {has}")).hint(hint)
        }
        LinkFault::Interpreter { interpreter, by } => {
            Finding::error("interpreter", by, format!("its `{interpreter}` is not in the image"))
                .hint("add a base with a C library, or link the program statically")
        }
        LinkFault::Machine { file, found, expected } => {
            let (found, expected) = (machine(*found), machine(*expected));
            Finding::error("processor", file, format!("it is for {found}, expected {expected}"))
        }
    }
}

/// Finds libraries that a library opens only once it runs.
fn opened(inventory: &Inventory<'_>, elf: &Elf<'_>, findings: &mut Vec<Finding>) {
    let here = elf.path.parent().unwrap_or(RootPath::ROOT);
    let searched = inventory.library_path();
    for name in opened_by(elf.path.name()) {
        let near = |path: &RootPath| {
            let folder = path.parent().unwrap_or(RootPath::ROOT);
            let folders = searched.iter().map(String::as_str);
            let mut folders = folders.chain(["/lib", "/usr/lib"]);
            let beside = site_of(path).is_some() && site_of(path) == site_of(elf.path);
            folder == here || beside || folders.any(|known| folder.to_string().starts_with(known))
        };
        let is_there = inventory.tree.iter().any(|(path, _)| {
            matches(name, path.name()) && near(path) && inventory.tree.follow(path).is_some()
        });
        if !is_there {
            let message = format!("it opens `{name}` at run time, which is not beside it");
            let hint =
                format!("take `{name}` from the same wheel, or from one for the same CUDA version");
            findings.push(Finding::error("opened-library", elf.path, message).hint(hint));
        }
    }
}

fn processor(inventory: &Inventory<'_>, elf: &Elf<'_>, findings: &mut Vec<Finding>) {
    let expected = match inventory.about.arch {
        Arch::Amd64 => 62,
        Arch::Arm64 => 183,
    };
    if elf.facts.machine != expected {
        let (found, expected) = (machine(elf.facts.machine), machine(expected));
        let message = format!("it is for {found}, the image is for {expected}");
        let finding = Finding::error("processor", elf.path, message)
            .hint("build it for the image's platform");
        findings.push(match is_plugin(elf.path) {
            true => softened(elf.path, finding),
            false => finding,
        });
    }
}

fn machine(number: u16) -> String {
    match number {
        62 => "x86-64".to_owned(),
        183 => "64-bit ARM".to_owned(),
        other => format!("processor {other}"),
    }
}

/// The host's own libraries, and those that stand in for them while linking.
fn shipped(inventory: &Inventory<'_>, findings: &mut Vec<Finding>) {
    for (path, node) in inventory.tree.iter() {
        let name = path.name();
        if node.what == What::Dir || !name.contains(".so") {
            continue;
        }
        if from_host(name) {
            let message = "it belongs to the driver, and would hide the host's own copy";
            findings.push(
                Finding::error("driver-library", path, message)
                    .hint("leave it out: `--nv` brings the host's own driver libraries"),
            );
        } else if path.as_str().split('/').rev().skip(1).any(|folder| folder == "stubs") {
            let message = "it is a stub for linking, and does nothing at run time";
            findings.push(Finding::error("stub", path, message).hint("leave out `stubs` folders"));
        }
    }
}

fn old_for_host(inventory: &Inventory<'_>, findings: &mut Vec<Finding>) {
    let Some(glibc) = inventory.glibc() else { return };
    if numbers(&glibc) < numbers(HOST_GLIBC) {
        let message = format!(
            "it is {glibc}; libraries of newer hosts, as `--nv` brings them, need {HOST_GLIBC} or newer"
        );
        findings.push(
            Finding::new(Severity::Warning, "glibc-host", "libc.so.6", message)
                .hint("take Debian 12 or newer as base"),
        );
    }
}
