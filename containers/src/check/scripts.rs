//! Checks the first lines of scripts: whether what they name is in the image.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;

use super::inventory::Inventory;
use super::named::Named;
use super::{Finding, Severity};
use crate::rootfs::{FileBytes, Node, RootPath, What, find_program};
use crate::{Error, Result};

/// Longest first line of a script that Linux reads (`BINPRM_BUF_SIZE`).
const MAX_SHEBANG: u64 = 256;

/// Debian packages with interpreters that scripts name (Debian 12).
const INTERPRETERS: [(&str, &str); 14] = [
    ("Rscript", "r-base-core"),
    ("awk", "mawk"),
    ("bash", "bash"),
    ("csh", "csh"),
    ("gawk", "gawk"),
    ("ksh", "ksh"),
    ("node", "nodejs"),
    ("perl", "perl"),
    ("python", "python-is-python3"),
    ("python3", "python3"),
    ("ruby", "ruby"),
    ("tclsh", "tcl"),
    ("tcsh", "tcsh"),
    ("zsh", "zsh"),
];

/// Looks at every file that may be executed. Scripts that lack the same are one finding.
pub(super) fn check(
    inventory: &Inventory<'_>,
    named: &Named<'_>,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    // The program and the test have findings of their own.
    let program = inventory.about.program.and_then(|path| inventory.tree.follow(path));
    let program = program.map(|(path, _)| path);
    let mut faults: Vec<(Severity, String, &RootPath)> = Vec::new();
    for (path, node) in inventory.tree.iter() {
        let What::File(source) = &node.what else { continue };
        let is_own = program.as_ref() == Some(path) || path.as_str().starts_with(".singularity.d/");
        if node.mode & 0o111 == 0 || is_own {
            continue;
        }
        let Some(severity) = named.of_script(path, node) else { continue };
        if let Some(fault) = fault(inventory, source)? {
            faults.push((severity, fault, path));
        }
    }
    // A package has some scripts for few people; without all of its commands it is of no use.
    let mut of_package: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (_, _, path) in &faults {
        if let Some((package, commands)) = named.commands_beside(path) {
            of_package.entry(package).or_insert((0, commands)).0 += 1;
        }
    }
    let mut lacking: BTreeMap<(Severity, String), Vec<&RootPath>> = BTreeMap::new();
    for (severity, fault, path) in faults {
        let package = named.commands_beside(path).and_then(|(name, _)| of_package.get(name));
        let severity = match package {
            Some((lacking, all)) if lacking < all => severity.max(Severity::Warning),
            _ => severity,
        };
        lacking.entry((severity, fault)).or_default().push(path);
    }
    for ((severity, fault), scripts) in lacking {
        let Some((first, others)) = scripts.split_first() else { continue };
        let mut message = fault;
        match others {
            [] => {}
            [other] => message.push_str(&format!("; `{other}`, too")),
            others => message.push_str(&format!("; {} other scripts, too", others.len())),
        }
        findings.push(finding(severity, first, message));
    }
    Ok(())
}

/// The finding for a script with this fault, with the package that has its interpreter.
pub(super) fn finding(severity: Severity, path: &RootPath, fault: String) -> Finding {
    let package = INTERPRETERS.iter().find(|(name, _)| {
        fault.contains(&format!("/{name}`")) || fault.contains(&format!("env {name}`"))
    });
    let finding = Finding::new(severity, "interpreter", path, fault);
    match package {
        Some((_, package)) => {
            finding.hint(format!("add `{package}` to `base.packages`, beside `default`"))
        }
        None => finding,
    }
}

/// What keeps Linux from starting a script; `None` for what is not one, or starts.
pub(super) fn fault(inventory: &Inventory<'_>, source: &FileBytes) -> Result<Option<String>> {
    let Some(line) = first_line(source)? else { return Ok(None) };
    let text = line.trim_matches([' ', '\t']);
    let (interpreter, argument) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let argument = argument.trim_matches([' ', '\t']);
    if interpreter.ends_with('\r') {
        return Ok(Some(
            "its first line ends as lines of Windows do, so that Linux does not find its interpreter; `dos2unix` changes that"
                .to_owned(),
        ));
    }
    let found = RootPath::inside(interpreter).and_then(|path| inventory.tree.follow(&path));
    let is_program = |node: &Node| matches!(node.what, What::File(_)) && node.mode & 0o111 != 0;
    if !found.as_ref().is_some_and(|(_, node)| is_program(node)) {
        return Ok(Some(format!("it is a script for `{interpreter}`, which is not in the image")));
    }
    if interpreter.rsplit('/').next() != Some("env") {
        return Ok(None);
    }
    Ok(match asked_of_env(argument) {
        Some(name) if name.contains('/') || find(inventory, &name) => None,
        Some(name) if name.contains(' ') => Some(format!(
            "its first line asks `env` for a program with the name `{name}`; write `env -S {name}`"
        )),
        Some(name) => Some(format!(
            "it is a script for `env {name}`, and `PATH` of the image has no `{name}`"
        )),
        None => None,
    })
}

/// Longest script that is read.
const MAX_SCRIPT: u64 = 64 << 10;

/// What is wrong with the program that a script of a shell starts in its own place; nothing if that
/// cannot be told, since the script looks for programs in other folders than the image.
pub(super) fn started(inventory: &Inventory<'_>, source: &FileBytes) -> Result<Option<String>> {
    let shells = ["/bin/sh", "/bin/bash", "/usr/bin/env bash", "/usr/bin/env sh"];
    let first = first_line(source)?.unwrap_or_default();
    if !shells.iter().any(|shell| first.trim().split(" -").next() == Some(*shell)) {
        return Ok(None);
    }
    let Some(text) = source.text(MAX_SCRIPT)? else { return Ok(None) };
    if may_look_elsewhere(&text) {
        return Ok(None);
    }
    // What stands alone on its line is run whenever the script is.
    for line in text.lines() {
        let words = line.strip_prefix("exec ").and_then(shlex::split).unwrap_or_default();
        let Some(name) = words.first().filter(|name| is_name(name)) else { continue };
        let is_there = match name.starts_with('/') {
            true => RootPath::inside(name).is_some_and(|at| is_program(inventory, &at)),
            false => name.contains('/') || find(inventory, name),
        };
        if !is_there {
            return Ok(Some(format!(
                "it starts `{name}`, which is not in the image, or not a program"
            )));
        }
    }
    Ok(None)
}

/// Words of a script that may change where programs are looked for.
const OF_ENVIRONMENTS: [&str; 11] = [
    ".",
    "activate",
    "conda",
    "eval",
    "load",
    "mamba",
    "micromamba",
    "ml",
    "module",
    "source",
    "spack",
];

/// Whether a script may look for programs in other folders than the image, or has documents, whose
/// lines are not its own.
fn may_look_elsewhere(text: &str) -> bool {
    let is_apart = |c: char| c.is_whitespace() || ";&|(){}`\"'".contains(c);
    text.contains("PATH=")
        || text.contains("PATH+=")
        || text.contains("<<")
        || text.split(is_apart).any(|word| OF_ENVIRONMENTS.contains(&word))
}

fn is_program(inventory: &Inventory<'_>, path: &RootPath) -> bool {
    inventory.tree.follow(path).is_some_and(|(_, node)| node.mode & 0o111 != 0)
}

/// Whether a word of a script names a program, and not a variable or an option.
fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._+-".contains(c))
}

fn find(inventory: &Inventory<'_>, name: &str) -> bool {
    find_program(inventory.tree, inventory.about.env, name).is_some()
}

/// The program that `env` starts with this one argument, as Linux passes it: without `-S`, all of it
/// is one name.
fn asked_of_env(argument: &str) -> Option<String> {
    let split = ["-S", "--split-string=", "--split-string ", "-vS"]
        .iter()
        .find_map(|option| argument.strip_prefix(option));
    let Some(split) = split else {
        return (!argument.is_empty() && !argument.starts_with('-')).then(|| argument.to_owned());
    };
    let mut words = split.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "-u" | "-C" | "--unset" | "--chdir" => drop(words.next()),
            word if word.starts_with('-') || word.contains('=') => {}
            word => return Some(word.trim_matches(['"', '\'']).to_owned()),
        }
    }
    None
}

/// The first line of a script, behind `#!`.
pub(super) fn first_line(source: &FileBytes) -> Result<Option<String>> {
    let mut line = Vec::new();
    match source {
        FileBytes::Bytes(bytes) => line.extend(bytes.iter().take(MAX_SHEBANG as usize)),
        FileBytes::File { path, .. } => {
            let file = File::open(path).map_err(Error::io("open", path))?;
            file.take(MAX_SHEBANG).read_to_end(&mut line).map_err(Error::io("read", path))?;
        }
    }
    let Some(rest) = line.strip_prefix(b"#!") else { return Ok(None) };
    let first = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(first).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_with_an_interpreter_is_named() {
        let hint = |text: &str| {
            let fault = format!("it is a script for `{text}`, which is not in the image");
            finding(Severity::Error, &RootPath::ROOT, fault).hint.unwrap_or_default()
        };
        assert_eq!(hint("env python3"), "add `python3` to `base.packages`, beside `default`");
        assert!(hint("/usr/bin/python").contains("`python-is-python3`"));
        assert_eq!(hint("/usr/bin/my-python"), "");
    }

    #[test]
    fn scripts_that_change_where_programs_are_found_are_told() {
        for (text, expected) in [
            ("eval \"$(micromamba shell hook)\"\nexec tool\n", true),
            ("[ -f /x ] && . /x\nexec tool\n", true),
            ("if true; then source /x; fi\nexec tool\n", true),
            ("module load gdal\nexec tool\n", true),
            ("export PATH=/x:$PATH\nexec tool\n", true),
            ("cat > /x <<EOF\nexec tool\nEOF\n", true),
            ("# The resources.\nexec ./tool a.b\n", false),
        ] {
            assert_eq!(may_look_elsewhere(text), expected, "{text}");
        }
    }

    #[test]
    fn env_takes_all_that_follows_for_one_name_unless_it_is_told_to_split() {
        for (argument, expected) in [
            ("python3", Some("python3")),
            ("python3 -u", Some("python3 -u")),
            ("-S python3 -u", Some("python3")),
            ("-Spython3", Some("python3")),
            ("-S -i A=1 -u B perl -w", Some("perl")),
            ("--split-string=bash -e", Some("bash")),
            ("-i", None),
            ("", None),
        ] {
            assert_eq!(asked_of_env(argument).as_deref(), expected, "{argument}");
        }
    }
}
