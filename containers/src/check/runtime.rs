//! Checks what Apptainer and HTCondor need in an image, and the image file itself.

use super::about::Form;
use super::inventory::Inventory;
use super::{Finding, Severity, scripts};
use crate::Result;
use crate::elf::ElfFacts;
use crate::oci::Compressor;
use crate::recipe::{Runtime, TargetSection};
use crate::rootfs::{Node, RootPath, What};
use crate::sif::Squash;

/// The first Apptainer that takes zstd, for SquashFS and layers alike.
const ZSTD_SINCE: Runtime = Runtime(1, 4);
/// Images above this size need thought about a job's disk request and OSDF's caches.
const LARGE_BYTES: u64 = 10_000_000_000;
/// Hex digits that are taken for part of a digest.
const MIN_HASH: usize = 8;

pub(super) fn check(
    inventory: &Inventory<'_>,
    target: &TargetSection,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    shells(inventory, findings);
    htcondor(inventory, findings)?;
    program(inventory, findings)?;
    compression(inventory.about.form, target, findings);
    file(inventory, findings);
    Ok(())
}

/// Jobs are scripts, and OSPool's wrapper is one.
fn shells(inventory: &Inventory<'_>, findings: &mut Vec<Finding>) {
    // If the recipe asks for an image without a distribution, a missing shell is intended.
    let missing = if inventory.about.scratch { Severity::Warning } else { Severity::Error };
    if !stands(inventory, "bin/sh") {
        let message = "there is none: OSPool's wrapper enters the image through it";
        findings.push(
            Finding::new(missing, "shell", "/bin/sh", message)
                .hint("a Debian base has one by default; name `default` in `base.packages`"),
        );
    }
    if !stands(inventory, "bin/bash") {
        let message = "there is none: most jobs' scripts begin with `#!/bin/bash`";
        findings.push(
            Finding::warning("bash", "/bin/bash", message).hint("add `bash` to `base.packages`"),
        );
    }
}

/// Checks what HTCondor needs to start a job, and to hand it its environment.
fn htcondor(inventory: &Inventory<'_>, findings: &mut Vec<Finding>) -> Result<()> {
    const TEST: &str = ".singularity.d/test";
    const BASE: &str = ".singularity.d/env/99-base.sh";
    match node(inventory, TEST)? {
        None => findings.push(
            Finding::error(
                "test",
                &format!("/{TEST}"),
                "there is none: HTCondor runs it before each job, and starts none when it fails",
            )
            .hint("build the image with this tool, or add a script that ends with 0"),
        ),
        Some((path, node)) => runnable(inventory, "test", &path, node, findings)?,
    }
    if node(inventory, BASE)?.is_none() {
        let message = "there is none: Apptainer then drops all `APPTAINERENV_` variables, with which HTCondor passes a job its environment";
        findings.push(
            Finding::error("base-environment", &format!("/{BASE}"), message)
                .hint("build the image with this tool"),
        );
    }
    Ok(())
}

/// The program of jobs: there, and to be run by anybody.
fn program(inventory: &Inventory<'_>, findings: &mut Vec<Finding>) -> Result<()> {
    let Some(path) = inventory.about.program else { return Ok(()) };
    match inventory.tree.follow(path) {
        Some((real, node)) => {
            findings.extend(without_interpreter(path, node)?);
            if let What::File(source) = &node.what
                && let Some(fault) = scripts::started(inventory, source)?
            {
                let hint = "install it with `packages`, `[python]` or a step, or copy it with `[app.files]`";
                findings.push(Finding::error("program", path, fault).hint(hint));
            }
            runnable(inventory, "program", &real, node, findings)
        }
        None => {
            findings.push(Finding::error("program", path, "there is no program"));
            Ok(())
        }
    }
}

/// First lines for programs in languages that need one, by the end of their names.
const FIRST_LINES: [(&str, &str); 8] = [
    ("R", "#!/usr/bin/env Rscript"),
    ("jl", "#!/usr/bin/env julia"),
    ("js", "#!/usr/bin/env node"),
    ("pl", "#!/usr/bin/env perl"),
    ("py", "#!/usr/bin/env python3"),
    ("r", "#!/usr/bin/env Rscript"),
    ("rb", "#!/usr/bin/env ruby"),
    ("sh", "#!/bin/sh"),
];

/// Linux starts programs and files whose first line names one. A shell takes all else for its own
/// commands.
fn without_interpreter(path: &RootPath, node: &Node) -> Result<Option<Finding>> {
    let What::File(source) = &node.what else { return Ok(None) };
    let Some((_, line)) = path
        .name()
        .rsplit_once('.')
        .and_then(|(_, end)| FIRST_LINES.iter().find(|(known, _)| *known == end))
    else {
        return Ok(None);
    };
    if ElfFacts::read(source)?.is_some() || scripts::first_line(source)?.is_some() {
        return Ok(None);
    }
    let message = "its first line does not name an interpreter, so Linux does not start it";
    let hint = format!("make `{line}` its first line");
    Ok(Some(Finding::error("program", path, message).hint(hint)))
}

/// Whether anybody can start the file at `path`.
fn runnable(
    inventory: &Inventory<'_>,
    rule: &'static str,
    path: &RootPath,
    node: &Node,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let What::File(source) = &node.what else {
        findings.push(Finding::error(rule, path, "it is not a file"));
        return Ok(());
    };
    if node.mode & 0o001 == 0 {
        let message = format!("mode {:04o} does not let ordinary users run it", node.mode);
        findings.push(Finding::error(rule, path, message).hint("give it mode 0755"));
    }
    if let Some(fault) = scripts::fault(inventory, source)? {
        findings.push(scripts::finding(Severity::Error, path, fault));
    }
    Ok(())
}

fn compression(form: Form, target: &TargetSection, findings: &mut Vec<Finding>) {
    let zstd = match form {
        Form::Sif(squash) => squash == Some(Squash::Zstd),
        Form::Oci(compressor) => compressor == Some(Compressor::Zstd),
    };
    if zstd && target.apptainer < ZSTD_SINCE {
        let Runtime(major, minor) = target.apptainer;
        let message = format!(
            "it must run under Apptainer {major}.{minor}, which cannot read zstd; {}.{} and newer can",
            ZSTD_SINCE.0, ZSTD_SINCE.1
        );
        findings.push(
            Finding::error("zstd", "target.apptainer", message)
                .hint("compress with gzip, or ask for `apptainer = \"1.4\"`"),
        );
    }
}

/// Checks the name and the length of a SIF.
fn file(inventory: &Inventory<'_>, findings: &mut Vec<Finding>) {
    if !matches!(inventory.about.form, Form::Sif(_)) {
        return;
    }
    if let Some(name) = inventory.about.file_name {
        let stem = name.strip_suffix(".sif");
        if stem.is_none() {
            let message = "HTCondor does not take it for an image: its name does not end in `.sif`";
            findings.push(Finding::error("file-name", name, message));
        }
        let words = stem.unwrap_or(name).split(|c: char| !c.is_ascii_alphanumeric());
        let is_hash = |word: &str| {
            word.len() >= MIN_HASH
                && word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
                // A date is not a digest.
                && (word.len() > MIN_HASH || word.bytes().any(|b| b.is_ascii_lowercase()))
        };
        if !words.into_iter().any(is_hash) {
            let message =
                "caches know it by its name, and keep serving the old file after it was replaced";
            findings.push(
                Finding::warning("file-hash", name, message)
                    .hint("put part of the content's digest into the name"),
            );
        }
    }
    if let Some(bytes) = inventory.about.file_bytes {
        findings.extend(size(inventory.about.file_name.unwrap_or("the image"), bytes));
    }
}

/// Returns a finding if a file of this length is too large to go unmentioned.
pub fn size(name: &str, bytes: u64) -> Option<Finding> {
    (bytes > LARGE_BYTES).then(|| {
        let gigabytes = bytes as f64 / 1e9;
        let message = format!(
            "{gigabytes:.1} GB: ask for this disk space in each job, and expect slow first starts"
        );
        Finding::warning("size", name, message).hint("leave out what the program does not load")
    })
}

fn stands(inventory: &Inventory<'_>, path: &str) -> bool {
    RootPath::inside(path).is_some_and(|path| inventory.tree.follow(&path).is_some())
}

fn node<'a>(inventory: &Inventory<'a>, path: &str) -> Result<Option<(RootPath, &'a Node)>> {
    Ok(inventory.tree.follow(&RootPath::new(path)?))
}
