//! Prepares the machine for building: looks for tools, and installs libtorch.
//!
//! ```text
//! target/libtorch/         include/ lib/ build-version      (2.11.0)
//! target/libtorch-2.7.0/   the same for GPUs before Turing
//! target/tools/            what libjpeg-turbo is built with, if the system does not have it
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

mod disk;
mod download;
mod libtorch;
mod tools;
mod turbo;

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
    /// The variables that name the tools of libjpeg-turbo in the target folder.
    pub tools: Vec<(&'static str, OsString)>,
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
    if let (Need::Fetch, Some(python)) = (&survey.need, &survey.python) {
        libtorch::install(workspace, line, python)?;
    }
    let mut failure = None;
    if let (Err(_), Some(python)) = (turbo::find(workspace), &survey.python) {
        failure = turbo::install(workspace, python).err();
    }
    Ok(Ready::new(workspace, survey.libtorch, failure.as_ref()))
}

/// Returns the environment for builds without libtorch; downloads nothing.
///
/// # Errors
/// If a compiler is missing.
pub fn without_libtorch(workspace: &Workspace) -> Result<Ready> {
    let mut missing = Missing::default();
    missing.need(Tool::CCompiler, tools::c_compiler());
    missing.check()?;
    // Named and not used: nothing that is built asks for it.
    Ok(Ready::new(workspace, libtorch::home(workspace, Line::Current), None))
}

/// Returns the environment for builds of a release: without libtorch, with the fast decoder, whose
/// tools are downloaded where they are missing.
///
/// # Errors
/// If a compiler is missing, or a tool cannot be had.
pub fn for_release(workspace: &Workspace) -> Result<Ready> {
    if let Err(missing) = turbo::find(workspace) {
        let python = tools::pip().with_context(|| {
            let missing = missing.join(", ");
            format!("a release decodes with libjpeg-turbo: install {missing}, or Python's pip, which downloads them")
        })?;
        let _lock = lock(&workspace.target)?;
        turbo::install(workspace, &python)?;
    }
    without_libtorch(workspace)
}

fn plan(workspace: &Workspace, line: Line) -> Result<Ready> {
    let survey = Survey::of(workspace, line)?;
    if let Need::Fetch = survey.need {
        eprintln!(
            "would download {} and unpack it to `{}`",
            line.summary(),
            survey.libtorch.display()
        );
    }
    match (turbo::find(workspace), &survey.python) {
        (Err(missing), Some(_)) if !turbo::is_offline() => {
            let missing = missing.join(", ");
            eprintln!("would download the tools of libjpeg-turbo that are missing: {missing}");
            let tools = turbo::own(workspace);
            Ok(Ready { libtorch: survey.libtorch, turbo: true, tools, lints: false })
        }
        _ => Ok(Ready::new(workspace, survey.libtorch, None)),
    }
}

/// What is there, and what has to be downloaded.
struct Survey {
    /// The folder of libtorch, also if it is not there yet.
    libtorch: PathBuf,
    need: Need,
    /// The Python whose pip downloads.
    python: Option<PathBuf>,
}

enum Need {
    Nothing,
    Fetch,
}

impl Survey {
    /// # Errors
    /// One error that names every missing tool.
    fn of(workspace: &Workspace, line: Line) -> Result<Self> {
        let mut missing = Missing::default();
        missing.need(Tool::CCompiler, tools::c_compiler());
        missing.need(Tool::CxxCompiler, tools::cxx_compiler());
        let mut python = tools::pip();
        let (libtorch, need) = match libtorch::find(workspace, line)? {
            Some(path) => (path, Need::Nothing),
            None => {
                python = missing.need(Tool::Pip, python);
                (libtorch::home(workspace, line), Need::Fetch)
            }
        };
        missing.check()?;
        if let Need::Fetch = need {
            libtorch::check_platform(line)?;
        }
        Ok(Self { libtorch, need, python })
    }
}

impl Ready {
    /// Looks for the tools of libjpeg-turbo; without one, says why and what to do. `failure` is
    /// that of installing them.
    fn new(workspace: &Workspace, libtorch: PathBuf, failure: Option<&anyhow::Error>) -> Self {
        let (turbo, tools) = match turbo::find(workspace) {
            Ok(tools) => (true, tools),
            Err(missing) => {
                eprintln!("note: {}", tools::without_turbo(&missing, failure));
                (false, Vec::new())
            }
        };
        Self { libtorch, turbo, tools, lints: false }
    }

    /// Lets `command`, and what it starts, build and run against libtorch.
    pub fn apply(&self, command: &mut Command) {
        command
            .env("LIBTORCH", &self.libtorch)
            .env("LD_LIBRARY_PATH", self.library_path(env::var_os("LD_LIBRARY_PATH")));
        // Either would make torch-sys look elsewhere than in `LIBTORCH`.
        command.env_remove("LIBTORCH_USE_PYTORCH").env_remove("LIBTORCH_BYPASS_VERSION_CHECK");
        command.envs(self.tools.iter().map(|(name, value)| (name, value)));
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
        for (name, value) in &self.tools {
            line.push_str(&format!(" {name}={}", quote(Path::new(value))));
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
        let tools = cmake.map(|path| ("CMAKE", path.into())).into_iter().collect();
        Ready { libtorch: libtorch.into(), turbo: true, tools, lints: false }
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
