//! Runs the two commands of README.md on a machine that has only what README.md says is needed.
//!
//! `PATH` is one folder of links, so that nothing else is found: the programs that every Debian has,
//! and those below. `HOME` is empty. Downloaded crates and the target folder are those of CI, and
//! what is compiled is linted, so that the other stages need not compile it again.

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;
use crate::process::{self, command};
use crate::workspace::{Workspace, empty};

/// What README.md says is needed, besides Rust.
const NEEDED: &[&str] = &[
    // A C++ compiler, with its binutils.
    "ar", "as", "c++", "cc", "g++", "gcc", "ld", "nm", "objcopy", "objdump", "ranlib", "strip",
    // Python's pip.
    "python3",
];

/// Of Rust. Clippy is not needed: it lints what the other stages use.
const RUST: &[&str] = &["cargo", "clippy-driver", "rustc", "rustdoc"];

/// Programs that single tests use. Without them these tests are skipped.
const OF_TESTS: &[&str] = &["gpgv", "mksquashfs", "mount", "umount"];

/// The beginnings of the names of variables that stay: how things are fetched, how cargo reports.
const KEPT: &[&str] = &[
    "CARGO_BUILD_",
    "CARGO_HTTP_",
    "CARGO_INCREMENTAL",
    "CARGO_NET_",
    "CARGO_REGISTR",
    "CARGO_TARGET_DIR",
    "CARGO_TERM_",
    "CI",
    "GIT_SSL_",
    "GULAR_SAMPLE_IMAGES",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "PIP_",
    "RUST_TEST_",
    "SSL_CERT_",
    "TERM",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// What the demo says if the fast decoder was built.
const FAST_DECODER: &str = "libjpeg-turbo";

/// A machine like that, made of folders in the target folder.
pub(super) struct BareMachine {
    root: PathBuf,
    home: PathBuf,
    /// The folders of programs: those needed, and those of tests.
    programs: [PathBuf; 2],
    demo: String,
    test: String,
}

impl BareMachine {
    /// # Errors
    /// If a program that is needed is missing here, or README.md does not have the two commands.
    pub(super) fn prepare(workspace: &Workspace) -> Result<Self> {
        let readme = workspace.root.join("README.md");
        let page = fs::read_to_string(&readme)
            .with_context(|| format!("cannot read `{}`", readme.display()))?;
        let dir = workspace.target.join("bare");
        let programs = ["bin", "bin of tests"].map(|name| dir.join(name));
        let home = dir.join("home");
        for folder in programs.iter().chain([&home]) {
            empty(folder)?;
        }
        for program in of_every_debian()? {
            link(&program, &programs[0])?;
        }
        // Not those of `PATH`: there may be a wrapper in front, which needs more.
        let system = |name: &&str| Path::new("/usr/bin").join(name);
        let sysroot = process::stdout_of(command("rustc").args(["--print", "sysroot"]))?;
        let rust = RUST.iter().map(|name| Path::new(sysroot.trim()).join("bin").join(name));
        for program in NEEDED.iter().map(system).chain(rust) {
            ensure!(program.exists(), "`{}` does not exist", program.display());
            link(&program, &programs[0])?;
        }
        for program in OF_TESTS.iter().map(system).filter(|program| program.exists()) {
            link(&program, &programs[1])?;
        }
        let [demo, test] = commands(&page)?.map(str::to_owned);
        Ok(Self { root: workspace.root.clone(), home, programs, demo, test })
    }

    /// Runs the demo, which must have built the fast decoder.
    pub(super) fn demo(&self) -> Result<()> {
        let mut is_fast = false;
        self.run(&self.demo, &self.programs[..1], &mut |line| {
            is_fast |= line.starts_with("decoder ") && line.contains(FAST_DECODER);
        })?;
        ensure!(is_fast, "`{}` did not decode with {FAST_DECODER}", self.demo);
        Ok(())
    }

    /// Runs the tests; `strictly`, without the tools that single tests use where they are.
    pub(super) fn test(&self, strictly: bool) -> Result<()> {
        let mut programs = &self.programs[..];
        if strictly {
            programs = &self.programs[..1];
        } else {
            eprintln!(
                "left out for time: a run of the tests without {}, which `ci --long` does first",
                OF_TESTS.join(", ")
            );
        }
        self.run(&self.test, programs, &mut |_| {})
    }

    /// Runs a line of README.md, passing on what it prints.
    fn run(&self, line: &str, programs: &[PathBuf], see: &mut dyn FnMut(&str)) -> Result<()> {
        eprintln!("on a bare machine: {line}");
        let (lines, pipe) = io::pipe().context("cannot make a pipe")?;
        let mut shell = self.shell(line, programs)?;
        let mut child = shell
            .stderr(pipe.try_clone().context("cannot make a pipe")?)
            .stdout(pipe)
            .spawn()
            .with_context(|| process::cannot_start(&shell))?;
        // The lines end when nobody can write any more, and the command has the pipe, too.
        drop(shell);
        for line in BufReader::new(lines).split(b'\n') {
            let line = line.context("cannot read from a pipe")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            see(&line);
        }
        let status = child.wait()?;
        ensure!(status.success(), "`{line}` failed on a bare machine: {status}");
        Ok(())
    }

    fn shell(&self, line: &str, programs: &[PathBuf]) -> Result<Command> {
        let mut shell = command("/bin/sh");
        shell.args(["-c", line]).current_dir(&self.root).env_clear();
        let is_kept = |name: &str| KEPT.iter().any(|kept| name.starts_with(kept));
        shell.envs(env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept)));
        let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
        let cargo_home = cargo_home.or_else(|| Some(env::home_dir()?.join(".cargo")));
        shell.envs(cargo_home.map(|dir| ("CARGO_HOME", dir)));
        shell.env("HOME", &self.home).env("PATH", env::join_paths(programs)?);
        cargo::lint_what_is_compiled(&mut shell);
        Ok(shell)
    }
}

/// The programs of the packages without which no Debian is one.
fn of_every_debian() -> Result<Vec<PathBuf>> {
    let mut list = command("dpkg-query");
    list.args(["--show", "--showformat=${Essential} ${Package}\\n"]);
    let packages = process::stdout_of(&mut list)?;
    let essential = packages.lines().filter_map(|line| line.strip_prefix("yes "));
    let files = process::stdout_of(command("dpkg-query").arg("--listfiles").args(essential))?;
    let folders = ["/bin", "/sbin", "/usr/bin", "/usr/sbin"].map(Path::new);
    let programs = files.lines().map(PathBuf::from);
    Ok(programs
        .filter(|path| path.parent().is_some_and(|dir| folders.contains(&dir)) && path.is_file())
        .collect())
}

fn link(program: &Path, dir: &Path) -> Result<()> {
    let name = program.file_name().context("a program has a name")?;
    let to = dir.join(name);
    // Files of `/bin` are also files of `/usr/bin`.
    if to.symlink_metadata().is_ok() {
        return Ok(());
    }
    symlink(program, &to).with_context(|| format!("cannot make `{}`", to.display()))
}

/// The lines of the page that start the demo and the tests.
fn commands(page: &str) -> Result<[&str; 2]> {
    let command = |words: &str| {
        let mut lines = page.lines().filter(|line| line.starts_with(words));
        let line = lines.next().filter(|_| lines.next().is_none());
        line.with_context(|| format!("README.md does not have one line that begins with `{words}`"))
    };
    Ok([command("cargo xtask demo")?, command("cargo xtask test")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_taken_as_written_and_is_there_once() {
        let page =
            "`cargo xtask demo`\n```sh\ncargo xtask demo     # packs\ncargo xtask test\n```\n";
        assert_eq!(commands(page).unwrap(), ["cargo xtask demo     # packs", "cargo xtask test"]);
        for wrong in ["cargo xtask demo\n", &format!("{page}cargo xtask test -- x\n")] {
            let error = commands(wrong).unwrap_err().to_string();
            assert!(error.contains("begins with `cargo xtask test`"), "{error}");
        }
    }
}
