//! Which base of an image has which Python.

use std::collections::BTreeMap;
use std::fmt;

use super::Interpreter;
use super::wanted::NeededPython;
use pep440_rs::Version;

/// A base that has a Python.
#[derive(Debug)]
pub(super) struct Base {
    from: From,
    /// The whole version of its Python, in the last update that is known.
    python: &'static str,
    minor: u32,
    glibc: (u32, u32),
}

/// The key of `[base]`, and its value.
#[derive(Debug)]
enum From {
    /// A Debian release.
    Debian(&'static str),
    /// An image of Docker Hub.
    Oci(&'static str),
}

/// Releases whose archive is on Debian's mirrors, the newest first; then images for the Pythons that
/// none of them has.
///
/// Source: <https://packages.debian.org/python3-minimal>, <https://packages.debian.org/libc6>,
/// <https://hub.docker.com/_/python> and <https://www.python.org/downloads/>. The images are built
/// on bookworm.
const BASES: [Base; 7] = [
    Base { from: From::Debian("trixie"), python: "3.13.5", minor: 13, glibc: (2, 41) },
    Base { from: From::Debian("bookworm"), python: "3.11.2", minor: 11, glibc: (2, 36) },
    Base { from: From::Debian("bullseye"), python: "3.9.2", minor: 9, glibc: (2, 31) },
    slim("docker://python:3.14-slim-bookworm", "3.14.2", 14),
    slim("docker://python:3.12-slim-bookworm", "3.12.12", 12),
    slim("docker://python:3.10-slim-bookworm", "3.10.19", 10),
    slim("docker://python:3.8-slim-bookworm", "3.8.20", 8),
];

/// An image of Python on bookworm.
const fn slim(name: &'static str, python: &'static str, minor: u32) -> Base {
    Base { from: From::Oci(name), python, minor, glibc: (2, 36) }
}

/// The other bases, each with the interpreter that it would give an image.
pub(super) fn others(than: &Interpreter) -> Vec<(&'static Base, Interpreter)> {
    let other = BASES.iter().filter(|base| base.minor != than.minor);
    let of = |base: &'static Base| {
        let Base { python, minor, glibc, .. } = *base;
        let (version, installed) = (python.to_owned(), BTreeMap::new());
        (base, Interpreter { version, minor, arch: than.arch, glibc, installed })
    };
    other.map(of).collect()
}

/// What to write for an image that has one of these versions.
pub(super) fn hint(needed: &NeededPython, than: &Interpreter) -> String {
    let others = others(than);
    match others.iter().find(|(_, interpreter)| needed.allows(interpreter)) {
        Some((base, _)) => choose(base),
        None => {
            let known: Vec<_> =
                BASES.iter().map(|base| format!("{} has 3.{}", base.from, base.minor)).collect();
            format!("write the file again for a Python of these bases: {}", known.join(", "))
        }
    }
}

/// What to write for an image with the Python of a base.
pub(super) fn choose(base: &Base) -> String {
    let key = match base.from {
        From::Debian(_) => "debian",
        From::Oci(_) => "oci",
    };
    format!("write `{key} = \"{}\"` in `[base]`: it has Python 3.{}", base.from, base.minor)
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Debian(suite) => f.write_str(suite),
            Self::Oci(name) => f.write_str(name),
        }
    }
}

impl NeededPython {
    pub(super) fn allows(&self, interpreter: &Interpreter) -> bool {
        let version: Result<Version, _> = interpreter.version.parse();
        version.is_ok_and(|version| self.versions.holds(&version))
    }
}
