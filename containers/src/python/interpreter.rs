//! The Python of an image: Debian's, in the version that the lock names.

use std::collections::BTreeMap;

use pep440_rs::Version;

use crate::sif::Arch;
use crate::{Error, Package, Result};

/// The package that a base gets if the recipe has `[python]`.
pub(crate) const DEBIAN_PACKAGE: &str = "python3";

/// A Python, and the system it runs on: what decides which wheels fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// The whole version: `3.11.2`.
    pub(crate) version: String,
    /// The minor number: 11.
    pub(crate) minor: u32,
    pub(crate) arch: Arch,
    /// Major and minor number of the C library.
    pub(crate) glibc: (u32, u32),
    /// Packages that a base image has for it, by name.
    pub(crate) installed: BTreeMap<String, Version>,
}

impl Interpreter {
    /// Returns the Python that is among locked Debian packages.
    ///
    /// # Errors
    /// [`Error::Package`] when none of them is a Python, or the C library.
    pub(crate) fn of_debs(debs: &[Package], arch: Arch) -> Result<Self> {
        let missing = |name: &str, reason: &str| Error::Package {
            name: name.to_owned(),
            reason: reason.to_owned(),
            hint: None,
        };
        let python = debs.iter().find_map(|deb| {
            // `python3` has the number of its release, this one the interpreter's own.
            let rest = deb.name.strip_prefix("python3.")?.strip_suffix("-minimal")?;
            Some((rest.parse::<u32>().ok()?, upstream(&deb.version)))
        });
        let (minor, version) = python.ok_or_else(|| {
            missing(
                DEBIAN_PACKAGE,
                "`[python]` needs a Python, and the base has no `python3.N-minimal`",
            )
        })?;
        let libc = debs.iter().find(|deb| deb.name == "libc6").and_then(|deb| {
            let mut numbers = upstream(&deb.version).split('.').map(str::parse);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        });
        let glibc =
            libc.ok_or_else(|| missing("libc6", "the base has no known version of glibc"))?;
        Ok(Self { version: version.to_owned(), minor, arch, glibc, installed: BTreeMap::new() })
    }

    /// Whether the base has this version of a package: the same number, and the same build of it
    /// where one is asked for (`2.1.0` is there in `2.1.0+cu121`).
    pub(crate) fn has(&self, name: &str, version: &Version) -> bool {
        let Some(there) = self.installed.get(name) else { return false };
        let is_any_build = version.local().is_empty();
        there == version || (is_any_build && there.clone().without_local() == *version)
    }

    /// Major and minor number: `3.11`.
    pub(crate) fn short(&self) -> String {
        format!("3.{}", self.minor)
    }

    /// The text for errors: `Python 3.11 on x86_64 with glibc 2.36`.
    pub(crate) fn shown(&self) -> String {
        let (machine, (major, minor)) = (crate::wheel::machine(self.arch), self.glibc);
        format!("Python {} on {machine} with glibc {major}.{minor}", self.short())
    }
}

/// A Debian version without its epoch and Debian's own part: 3.11.2 of 3.11.2-6+deb12u6.
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, version)| version);
    version.split(['-', '+', '~']).next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sha256;

    #[test]
    fn the_python_is_that_of_the_locked_packages() {
        let deb = |name: &str, version: &str| Package {
            name: name.to_owned(),
            version: version.to_owned(),
            arch: Some("amd64".to_owned()),
            bytes: 1,
            sha256: Sha256::of(b""),
            urls: Vec::new(),
            license: None,
        };
        let libc = deb("libc6", "2.36-9+deb12u9");
        let minimal = deb("python3.11-minimal", "3.11.2-6+deb12u6");
        let debs = [deb("python3", "3.11.2-1+b1"), libc.clone(), minimal];
        let found = Interpreter::of_debs(&debs, Arch::Amd64).unwrap();
        assert_eq!((found.version.as_str(), found.minor, found.glibc), ("3.11.2", 11, (2, 36)));
        assert_eq!(found.shown(), "Python 3.11 on x86_64 with glibc 2.36");
        let error = Interpreter::of_debs(&[libc], Arch::Amd64).unwrap_err();
        assert!(error.to_string().contains("`python3.N-minimal`"), "{error}");
    }
}
