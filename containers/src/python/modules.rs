//! The modules that the Python of an image can import, by the names of its files.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use super::is_site;
use crate::Result;
use crate::sif::Sif;

/// Modules of CPython that have no file, here or in another build of it.
const BUILT_IN: [&str; 26] = [
    "array",
    "atexit",
    "audioop",
    "binascii",
    "builtins",
    "cmath",
    "errno",
    "faulthandler",
    "fcntl",
    "gc",
    "grp",
    "itertools",
    "marshal",
    "math",
    "mmap",
    "posix",
    "pwd",
    "pyexpat",
    "resource",
    "select",
    "spwd",
    "syslog",
    "sys",
    "time",
    "unicodedata",
    "zlib",
];

/// The scripts that set the variables of an image, and the longest that is read.
const VARIABLES: &str = ".singularity.d/env/";
const MAX_VARIABLES_BYTES: u64 = 256 << 10;

/// Names of modules that an image has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PythonModules {
    names: BTreeSet<String>,
    /// Whether Python itself is there.
    has_python: bool,
    /// Whether a `.pth` file of a package names other folders.
    is_open: bool,
}

impl PythonModules {
    /// Reads the names in a SIF; nothing is unpacked. `None` if not all modules can be known.
    ///
    /// # Errors
    /// [`Error::Sif`](crate::Error::Sif) for a damaged image.
    pub fn of_sif(path: &Path) -> Result<Option<Self>> {
        let (modules, scripts) = (RefCell::new(Self::default()), RefCell::new(Vec::new()));
        let sif = Sif::open(path)?;
        let read = sif.has_path(|path| {
            let path = String::from_utf8_lossy(path);
            modules.borrow_mut().add(&path);
            if path.starts_with(VARIABLES) {
                scripts.borrow_mut().push(path.into_owned());
            }
            false
        })?;
        let modules = modules.into_inner();
        if read.is_none() || !modules.has_python || modules.is_open {
            return Ok(None);
        }
        for script in scripts.into_inner() {
            // What is behind a link is not known.
            let text = sif.text(&script, MAX_VARIABLES_BYTES)?;
            if text.is_none_or(|text| adds_folders(&text)) {
                return Ok(None);
            }
        }
        Ok(Some(modules))
    }

    /// Whether all modules are known.
    pub(crate) fn are_known(&self) -> bool {
        self.has_python && !self.is_open
    }

    /// Whether an image certainly has no module of this name.
    #[must_use]
    pub fn lacks(&self, name: &str) -> bool {
        !name.starts_with('_') && !BUILT_IN.contains(&name) && !self.names.contains(name)
    }

    fn add(&mut self, path: &str) {
        // What the distribution and virtual environments have, and what only adds to a package.
        const CLOSED: [&str; 3] = ["distutils-precedence", "_virtualenv", "-nspkg"];
        let mut folders = path.split('/').peekable();
        while let Some(folder) = folders.next() {
            let is_library = folder.starts_with("python3") || folder == "lib-dynload";
            let Some(name) = folders.peek().filter(|_| is_library || is_site(folder)) else {
                continue;
            };
            self.has_python |= folder.starts_with("python3.") && *name == "os.py";
            if let Some(stem) = name.strip_suffix(".pth") {
                self.is_open |= !CLOSED.iter().any(|known| stem.ends_with(known));
            }
            self.names.extend(name.split('.').next().map(str::to_owned));
        }
    }
}

/// Whether a script may set other folders in which Python looks for modules.
fn adds_folders(script: &str) -> bool {
    let mut lines = script.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.any(|line| ["PYTHONPATH", "PYTHONHOME"].iter().any(|name| line.contains(name)))
}

impl<'a> FromIterator<&'a str> for PythonModules {
    /// The modules of an image with these paths.
    fn from_iter<I: IntoIterator<Item = &'a str>>(paths: I) -> Self {
        let mut modules = Self::default();
        paths.into_iter().for_each(|path| modules.add(path));
        modules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(paths: &[&str]) -> PythonModules {
        paths.iter().copied().collect()
    }

    #[test]
    fn modules_are_known_by_their_files() {
        let found = modules(&[
            "usr/lib/python3.11/os.py",
            "usr/lib/python3.11/json/__init__.py",
            "usr/lib/python3.11/lib-dynload/_bz2.cpython-311-x86_64-linux-gnu.so",
            "usr/local/lib/python3.11/dist-packages/torch/nn/__init__.py",
            "usr/local/lib/python3.11/dist-packages/six.py",
            "usr/local/lib/python3.11/dist-packages/fast.cpython-311-x86_64-linux-gnu.so",
            "usr/lib/python3/dist-packages/yaml/__init__.py",
            "usr/lib/python3/dist-packages/distutils-precedence.pth",
            "opt/timm/__init__.py",
        ]);
        assert!(found.has_python && !found.is_open);
        for name in ["os", "json", "torch", "six", "fast", "yaml", "sys", "math", "_bz2", "_x"] {
            assert!(!found.lacks(name), "{name}");
        }
        for name in ["timm", "nn", "train"] {
            assert!(found.lacks(name), "{name}");
        }
        assert!(modules(&["opt/conda/lib/python3.12/site-packages/__editable__.a.pth"]).is_open);
        assert!(!modules(&["usr/share/os.py"]).has_python);
    }

    #[test]
    fn a_variable_of_an_image_may_add_folders() {
        let check =
            |script: &str, expected: bool| assert_eq!(adds_folders(script), expected, "{script}");
        check("#!/bin/sh\nexport PYTHONPATH=\"${PYTHONPATH:-\"/opt/x\"}\"\n", true);
        check("export PATH=/opt/bin PYTHONHOME=/opt\n", true);
        check("# PYTHONPATH is not set\nexport PATH=/opt/bin PYTHONUNBUFFERED=1\n", false);
    }
}
