//! The build tools: which ones are installed, and how to install the others.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::process::{self, command, find};

/// A program that is needed for building.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tool {
    CCompiler,
    CxxCompiler,
    Pip,
    Venv,
}

impl Tool {
    fn what(self) -> &'static str {
        match self {
            Self::CCompiler => {
                "a C compiler (`cc`, `gcc` or `clang`): links every program, builds the C parts of crates"
            }
            Self::CxxCompiler => {
                "a C++ compiler (`c++`, `g++` or `clang++`): builds the libtorch bindings"
            }
            Self::Pip => {
                "Python 3.7 or newer with pip 20.3 or newer (`python3 -m pip`): downloads libtorch"
            }
            Self::Venv => {
                "Python 3.11 or newer with venv (`python3 -m venv`): holds the peer tests' packages"
            }
        }
    }

    /// The package names for apt, dnf and conda.
    fn packages(self) -> [&'static str; 3] {
        match self {
            Self::CCompiler => ["gcc libc6-dev", "gcc", "gcc"],
            Self::CxxCompiler => ["g++", "gcc-c++", "gxx"],
            Self::Pip => ["python3 python3-pip", "python3 python3-pip", "python pip"],
            Self::Venv => ["python3 python3-venv", "python3", "python"],
        }
    }
}

/// The tools found to be missing; all are named in one error.
#[derive(Debug, Default)]
pub(crate) struct Missing(BTreeSet<Tool>);

impl Missing {
    /// Passes on what was found, and remembers what was not.
    pub(crate) fn need<T>(&mut self, tool: Tool, found: Option<T>) -> Option<T> {
        if found.is_none() {
            self.0.insert(tool);
        }
        found
    }

    /// # Errors
    /// Unless every needed tool was found.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut text = format!(
            "{} needed for building not found:",
            if self.0.len() == 1 { "a tool" } else { "tools" }
        );
        for tool in &self.0 {
            let _ = write!(text, "\n  - {}", tool.what());
        }
        let packages: Vec<_> = self.0.iter().map(|tool| tool.packages()).collect();
        bail!("{text}\n{}", install_lines(&packages));
    }
}

/// The C compiler, as the crate `cc` looks for it.
pub(super) fn c_compiler() -> Option<PathBuf> {
    compiler("CC", &["cc", "gcc", "clang"])
}

/// Finds the C++ compiler.
pub(super) fn cxx_compiler() -> Option<PathBuf> {
    compiler("CXX", &["c++", "g++", "clang++"])
}

fn compiler(variable: &str, names: &[&str]) -> Option<PathBuf> {
    match env::var(variable) {
        // The variable may hold a wrapper or flags too: `ccache g++ -m64`.
        Ok(text) => text.split_whitespace().next().and_then(find),
        Err(_) => names.iter().find_map(find),
    }
}

/// The message if tools for libjpeg-turbo are `missing`; `failure` is that of installing them.
pub(super) fn without_turbo(missing: &[&str], failure: Option<&anyhow::Error>) -> String {
    let failure = failure.map(|error| format!("{error:#}"));
    let why = failure.as_deref().and_then(|text| text.lines().next());
    format!(
        "libjpeg-turbo cannot be built without {}{}, so zune-jpeg decodes JPEG, which loads crops and \
         large photographs more slowly\n{}",
        missing.join(", "),
        why.map(|why| format!(" ({why})")).unwrap_or_default(),
        install_lines(&[[missing.join(" ").as_str(); 3]])
    )
}

/// The Python whose pip can fetch wheels for a named platform.
pub(super) fn pip() -> Option<PathBuf> {
    python(
        "import pip, sys; v = tuple(map(int, pip.__version__.split('.')[:2])); sys.exit(sys.version_info < (3, 7) or v < (20, 3))",
    )
}

/// The Python that can make an environment for the peer tests' packages.
pub(crate) fn venv() -> Option<PathBuf> {
    python("import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))")
}

/// `python3` where it is there and `check` exits with 0 in it.
fn python(check: &str) -> Option<PathBuf> {
    let python = find("python3")?;
    process::succeeds(command(&python).args(["-c", check])).then_some(python)
}

/// Returns one line for each family of systems; packages are given as `[apt, dnf, conda]`.
fn install_lines(packages: &[[&str; 3]]) -> String {
    let systems = [
        "Debian, Ubuntu  sudo apt-get install",
        "Fedora, RHEL    sudo dnf install",
        "conda           conda install -c conda-forge",
    ];
    let mut lines = Vec::new();
    for (idx, system) in systems.iter().enumerate() {
        let names: Vec<_> = packages.iter().filter_map(|row| row.get(idx).copied()).collect();
        let prefix = if idx == 0 { "hint:" } else { "     " };
        lines.push(format!("{prefix} {system} {}", names.join(" ")));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_missing_tool_is_named_once_with_its_install_line() {
        let mut missing = Missing::default();
        missing.need::<()>(Tool::Pip, None);
        missing.need::<()>(Tool::CxxCompiler, None);
        missing.need::<()>(Tool::Pip, None);
        missing.need(Tool::CCompiler, Some(()));
        let text = missing.check().expect_err("two are missing").to_string();
        assert_eq!(text.matches("  - ").count(), 2, "{text}");
        assert!(text.contains("apt-get install g++ python3 python3-pip\n"), "{text}");
        assert!(text.contains("dnf install gcc-c++ python3 python3-pip\n"), "{text}");
        assert!(text.ends_with("conda-forge gxx python pip"), "{text}");
    }

    #[test]
    fn why_the_other_decoder_is_built_is_one_line_and_what_to_install_follows() {
        let failure =
            anyhow::anyhow!("no network\n  pip: much more").context("cannot install make");
        let text = without_turbo(&["make", "nasm"], Some(&failure));
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.contains("without make, nasm (cannot install make: no network), so"),
            "{text}"
        );
        assert!(text.contains("apt-get install make nasm\n"), "{text}");
        assert!(!text.contains("pip:"), "{text}");
    }

    #[test]
    fn nothing_missing_is_no_error() {
        assert!(Missing::default().check().is_ok());
    }
}
