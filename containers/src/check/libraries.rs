//! Checks libraries: which are opened only later, are for another processor, and which the host must
//! provide.

use super::closures::{is_plugin, softened};
use super::inventory::{Elf, Inventory, numbers, ours};
use super::{Finding, Severity};
use crate::cuda::{from_host, matches, opened_by};
use crate::python::site_of;
use crate::rootfs::{RootPath, What};
use crate::sif::Arch;

/// The C library of Debian 12. Libraries that `--nv` binds come from the host's
/// distribution, and an older C library than theirs cannot load them
/// (apptainer#2421).
const HOST_GLIBC: &str = "2.36";

pub(super) fn check(inventory: &Inventory<'_>, findings: &mut Vec<Finding>) {
    for elf in &inventory.elves {
        opened(inventory, elf, findings);
        if ours(elf.node) {
            processor(inventory, elf, findings);
        }
    }
    shipped(inventory, findings);
    old_for_host(inventory, findings);
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

pub(super) fn machine(number: u16) -> String {
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
