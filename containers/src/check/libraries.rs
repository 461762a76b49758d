//! Libraries: what `ld.so` would stop at, what is opened only later, and what
//! the host must bring.

use std::collections::BTreeSet;

use super::inventory::{Elf, Inventory, numbers, ours};
use super::{Finding, Severity};
use crate::cuda::{from_host, matches, opened_by};
use crate::elf::{Fault, closure};
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
    let mut said = BTreeSet::new();
    for elf in &inventory.elves {
        let is_program = program.as_ref() == Some(elf.path);
        if !is_program && !ours(elf.node) {
            continue;
        }
        let root = [elf.path.clone()];
        let found = match closure(inventory.tree, &root, &library_path, &from_host) {
            Ok(found) => found,
            // Said already, of the file itself.
            Err(Error::Elf { path, reason }) => {
                let reason = format!("`{path}`, which it loads, is not a sound ELF file: {reason}");
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
        let new = |fault: &&Fault| {
            said.insert(match fault {
                Fault::Missing { library, by, .. } => (library.clone(), by.clone()),
                other => (format!("{other:?}"), elf.path.clone()),
            })
        };
        findings.extend(found.faults.iter().filter(new).map(fault));
    }
    Ok(())
}

fn fault(fault: &Fault) -> Finding {
    match fault {
        Fault::Missing { library, by, searched } => {
            let folders = searched.join(" ");
            let message = format!("it needs `{library}`, which is in none of {folders}");
            Finding::error("missing-library", by, message)
                .hint("name the Debian package that has it in `base.packages`, beside `default` (packages.debian.org finds it), or the file in `app.files`")
        }
        Fault::Version { library, version, by, newest } => {
            let rule = if library == "libc.so.6" { "glibc" } else { "symbol-version" };
            let has = newest.as_ref().map_or_else(
                || "the image's has none of that family".to_owned(),
                |newest| format!("the image's ends at {newest}"),
            );
            let hint = "take a newer base, or build the program on an older system";
            Finding::error(rule, by, format!("it needs {version} of `{library}`, {has}")).hint(hint)
        }
        Fault::Interpreter { interpreter, by } => {
            Finding::error("interpreter", by, format!("its `{interpreter}` is not in the image"))
                .hint("add a base with a C library, or link the program statically")
        }
        Fault::Machine { file, found, expected } => {
            let (found, expected) = (machine(*found), machine(*expected));
            Finding::error("processor", file, format!("it is for {found}, expected {expected}"))
        }
    }
}

/// What a library opens once it runs.
fn opened(inventory: &Inventory<'_>, elf: &Elf<'_>, findings: &mut Vec<Finding>) {
    let here = elf.path.parent().unwrap_or(RootPath::ROOT);
    let searched = inventory.library_path();
    for name in opened_by(elf.path.name()) {
        let near = |path: &RootPath| {
            let folder = path.parent().unwrap_or(RootPath::ROOT);
            let folders = searched.iter().map(String::as_str);
            let mut folders = folders.chain(["/lib", "/usr/lib"]);
            folder == here || folders.any(|known| folder.to_string().starts_with(known))
        };
        let is_there = inventory.tree.iter().any(|(path, _)| {
            matches(name, path.name()) && near(path) && inventory.tree.follow(path).is_some()
        });
        if !is_there {
            let message = format!("it opens `{name}` when it runs, which is not beside it");
            findings.push(
                Finding::error("opened-library", elf.path, message)
                    .hint("take it from the same wheel, or the one of the same CUDA version"),
            );
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
        findings.push(
            Finding::error("processor", elf.path, message)
                .hint("build it for the image's platform"),
        );
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
            let message = "it belongs to the host's driver, and would stand before the host's own";
            findings.push(
                Finding::error("driver-library", path, message)
                    .hint("leave it out: `--nv` brings the host's"),
            );
        } else if path.as_str().split('/').rev().skip(1).any(|folder| folder == "stubs") {
            let message = "it is a stub to link with, and does nothing when it runs";
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
