//! Prepares the machine for building: looks for tools, and installs libtorch.
//!
//! ```text
//! target/libtorch/         include/ lib/ build-version      (2.11.0)
//! target/libtorch-2.7.0/   the same for GPUs before Turing
//! target/tools/            cmake from pip, where nasm is there and cmake is not
//! ```
//! Each folder is made under a name ending in `.part` and renamed when it is
//! whole, so what has its final name is complete and a second run returns at once.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use gular_files::{Lock, LockMode};

mod cmake;
mod disk;
mod download;
mod libtorch;
mod tools;

pub use disk::require_free;
pub use libtorch::Line;
pub(crate) use tools::{Missing, Tool, venv};

use crate::workspace::Workspace;

/// Look for build tools and put libtorch into the target folder.
///
/// Prints the variables with which plain `cargo build` finds libtorch:
/// `eval "$(cargo xtask setup)"`. An existing `LIBTORCH` of the right version is
/// used as it is.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Say what would be done, download nothing
    #[arg(long)]
    dry_run: bool,
    /// The libtorch release: 2.11.0 for compute capability 7.5 and newer,
    /// 2.7.0 (with `cargo update -p tch --precise 0.20.0`) for 5.0 to 9.0
    #[arg(long, default_value = "2.11.0", value_name = "VERSION")]
    torch: Line,
}

/// The environment that a build needs.
#[derive(Debug, Clone)]
pub struct Ready {
    /// The folder of libtorch, with `lib` and `include`.
    pub libtorch: PathBuf,
    /// Whether libjpeg-turbo can be built; zune-jpeg decodes otherwise.
    pub turbo: bool,
    /// The path of cmake, if it is not in `PATH`.
    pub cmake: Option<PathBuf>,
    /// Whether packages are linted while they are compiled, with warnings denied.
    pub lints: bool,
}

/// `cargo xtask setup`.
pub fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let ready =
        if args.dry_run { plan(&workspace, args.torch)? } else { prepare(&workspace, args.torch)? };
    println!("{}", ready.export_line());
    Ok(())
}

/// Looks for every tool first, then fetches what is absent.
pub fn prepare(workspace: &Workspace, line: Line) -> Result<Ready> {
    let survey = Survey::of(workspace, line)?;
    fs::create_dir_all(&workspace.target)
        .with_context(|| format!("cannot make `{}`", workspace.target.display()))?;
    let _lock = lock(&workspace.target)?;
    if let Need::Fetch(python) = &survey.libtorch.need {
        libtorch::install(workspace, line, python)?;
    }
    if let Some(Need::Fetch(python)) = survey.cmake.as_ref().map(|part| &part.need) {
        cmake::install(workspace, python)?;
    }
    Ok(survey.ready(workspace))
}

/// Returns the environment for builds without libtorch; downloads nothing.
///
/// # Errors
/// If a compiler is missing.
pub fn without_libtorch(workspace: &Workspace) -> Result<Ready> {
    let mut missing = Missing::default();
    missing.need(Tool::CCompiler, tools::c_compiler());
    missing.check()?;
    let cmake = tools::nasm().and_then(|_| cmake::find(workspace));
    if cmake.is_none() {
        eprintln!("note: {}", tools::without_turbo());
    }
    // Named and not used: nothing that is built asks for it.
    Ok(Ready::new(workspace, libtorch::home(workspace, Line::Current), cmake))
}

fn plan(workspace: &Workspace, line: Line) -> Result<Ready> {
    let survey = Survey::of(workspace, line)?;
    if matches!(survey.libtorch.need, Need::Fetch(_)) {
        eprintln!(
            "would download {} and unpack it to `{}`",
            line.summary(),
            survey.libtorch.path.display()
        );
    }
    if let Some(Part { need: Need::Fetch(_), path }) = &survey.cmake {
        eprintln!("would download cmake and unpack it to `{}`", path.display());
    }
    Ok(survey.ready(workspace))
}

/// The parts that exist, and those that have to be downloaded.
struct Survey {
    libtorch: Part,
    /// The cmake to use; without one, libjpeg-turbo is not built.
    cmake: Option<Part>,
}

struct Part {
    path: PathBuf,
    need: Need,
}

enum Need {
    Nothing,
    /// The part is downloaded with the pip of this Python.
    Fetch(PathBuf),
}

impl Survey {
    /// # Errors
    /// One error that names every missing tool.
    fn of(workspace: &Workspace, line: Line) -> Result<Self> {
        let mut missing = Missing::default();
        missing.need(Tool::CCompiler, tools::c_compiler());
        missing.need(Tool::CxxCompiler, tools::cxx_compiler());
        let pip = tools::pip();
        let part = |missing: &mut Missing, found: Option<PathBuf>, fallback: PathBuf| match found {
            Some(path) => Part { path, need: Need::Nothing },
            None => {
                let python = missing.need(Tool::Pip, pip.clone()).unwrap_or_default();
                Part { path: fallback, need: Need::Fetch(python) }
            }
        };
        let libtorch =
            part(&mut missing, libtorch::find(workspace, line)?, libtorch::home(workspace, line));
        let cmake = match tools::nasm() {
            Some(_) => Some(part(&mut missing, cmake::find(workspace), cmake::program(workspace))),
            None => {
                eprintln!("note: {}", tools::without_turbo());
                None
            }
        };
        missing.check()?;
        if matches!(libtorch.need, Need::Fetch(_)) {
            libtorch::check_platform(line)?;
        }
        Ok(Self { libtorch, cmake })
    }

    fn ready(self, workspace: &Workspace) -> Ready {
        Ready::new(workspace, self.libtorch.path, self.cmake.map(|part| part.path))
    }
}

impl Ready {
    fn new(workspace: &Workspace, libtorch: PathBuf, cmake: Option<PathBuf>) -> Self {
        let own_cmake = cmake::program(workspace);
        let turbo = cmake.is_some();
        let cmake = cmake.filter(|path| *path == own_cmake);
        Self { libtorch, turbo, cmake, lints: false }
    }

    /// Lets `command`, and what it starts, build and run against libtorch.
    pub fn apply(&self, command: &mut Command) {
        command
            .env("LIBTORCH", &self.libtorch)
            .env("LD_LIBRARY_PATH", self.library_path(env::var_os("LD_LIBRARY_PATH")));
        // Either would make torch-sys look elsewhere than in `LIBTORCH`.
        command.env_remove("LIBTORCH_USE_PYTORCH").env_remove("LIBTORCH_BYPASS_VERSION_CHECK");
        if let Some(cmake) = &self.cmake {
            command.env("CMAKE", cmake);
        }
    }

    /// `LD_LIBRARY_PATH` with libtorch before what was `inherited`.
    #[must_use]
    pub fn library_path(&self, inherited: Option<OsString>) -> OsString {
        let lib = self.libtorch.join("lib");
        let mut text = lib.clone().into_os_string();
        let rest = inherited.unwrap_or_default();
        for dir in env::split_paths(&rest).filter(|dir| *dir != lib && !dir.as_os_str().is_empty())
        {
            text.push(":");
            text.push(dir);
        }
        text
    }

    /// Returns the line that a shell evaluates to find libtorch.
    pub fn export_line(&self) -> String {
        let libtorch = quote(&self.libtorch);
        let lib = quote(&self.libtorch.join("lib"));
        let mut line = format!(
            "export LIBTORCH={libtorch} LD_LIBRARY_PATH={lib}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
        );
        if let Some(cmake) = &self.cmake {
            line.push_str(&format!(" CMAKE={}", quote(cmake)));
        }
        line
    }
}

/// Quotes a path as one word of a POSIX shell.
pub fn quote(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Held while the target folder changes, so that two runs do not fetch twice.
fn lock(target: &Path) -> Result<Option<Lock>> {
    let mut told = false;
    let mut keep_waiting = |_| {
        if !std::mem::replace(&mut told, true) {
            eprintln!("waiting for another set-up in `{}`", target.display());
        }
        true
    };
    Ok(Lock::wait_at(&target.join("setup.lock"), LockMode::Exclusive, &mut keep_waiting)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(libtorch: &str, cmake: Option<&str>) -> Ready {
        let cmake = cmake.map(PathBuf::from);
        Ready { libtorch: libtorch.into(), turbo: true, cmake, lints: false }
    }

    #[test]
    fn own_libraries_come_first_and_once() {
        let check = |inherited: Option<&str>, expected: &str| {
            let found = ready("/t", None).library_path(inherited.map(OsString::from));
            assert_eq!(found, OsString::from(expected), "{inherited:?}");
        };
        check(None, "/t/lib");
        check(Some(""), "/t/lib");
        check(Some("/a:/t/lib:/b"), "/t/lib:/a:/b");
    }

    #[test]
    fn export_line_is_safe_to_evaluate() {
        let line = ready("/it's here", Some("/c make")).export_line();
        assert_eq!(
            line,
            r"export LIBTORCH='/it'\''s here' LD_LIBRARY_PATH='/it'\''s here/lib'${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} CMAKE='/c make'"
        );
    }
}
