//! The tools that libjpeg-turbo is built with. Those that the system does not have are installed
//! below the target folder, so that a machine without root decodes as fast as any other.
//!
//! ```text
//! target/tools/cmake/   of the package index, by pip
//! target/tools/ninja/   of the package index, in place of make
//! target/tools/nasm/    of Debian's archive
//! ```
//! Each folder is made under a name ending in `.part`, tried, and renamed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::download;
use super::require_free;
use crate::process::{self, command};
use crate::workspace::Workspace;

/// A variable of the environment and its value.
pub(super) type Variable = (&'static str, OsString);

/// A tool, any of whose `programs` will do.
struct Tool {
    /// The name of its folder.
    name: &'static str,
    /// The programs of the system that are as good.
    programs: &'static [&'static str],
    /// The variable by which the user names another one.
    named_by: &'static str,
    source: Source,
    /// The path of the program in its folder.
    program: &'static str,
    /// Returns the variables with which CMake and the crate `cmake` find `program`.
    variables: fn(&Path) -> Vec<Variable>,
}

enum Source {
    /// A package of the package index, with its version.
    Pip(&'static str),
    Debian(Deb),
}

/// One file of a package in Debian's archive, fixed by the package's digest.
struct Deb {
    urls: &'static [&'static str],
    sha256: &'static str,
    member: &'static str,
}

const FETCH_DEB: &str = include_str!("fetch_deb.py");

const CMAKE: Tool = Tool {
    name: "cmake",
    programs: &["cmake"],
    named_by: "CMAKE",
    // The last release before 4, which dropped support for policies that C
    // projects of this age still declare.
    source: Source::Pip("cmake==3.31.10"),
    // The `bin/cmake` beside it is a Python script that finds its package only with PYTHONPATH.
    program: "cmake/data/bin/cmake",
    variables: |program| vec![("CMAKE", program.into())],
};

const MAKE: Tool = Tool {
    name: "ninja",
    programs: &["make", "gmake"],
    named_by: "CMAKE_GENERATOR",
    source: Source::Pip("ninja==1.13.0"),
    program: "bin/ninja",
    variables: |program| {
        let dir = program.parent().unwrap_or(program);
        vec![("CMAKE_GENERATOR", "Ninja".into()), ("CMAKE_PROGRAM_PATH", dir.into())]
    },
};

// Debian 11's, since it needs only glibc 2.14; Debian 12's needs 2.34, which RHEL 8 and Ubuntu 20.04
// do not have. libjpeg-turbo asks for nasm 2.13. No package index and no crate has the program:
// packages and crates of this name are something else, or start a nasm that is installed.
const NASM: Tool = Tool {
    name: "nasm",
    programs: &["nasm", "yasm"],
    named_by: "ASM_NASM",
    source: Source::Debian(Deb {
        urls: &[
            // As apt fetches it; the digest proves what came.
            "http://deb.debian.org/debian/pool/main/n/nasm/nasm_2.15.05-1_amd64.deb",
            // Keeps what the archive above drops when Debian 11 ends.
            "https://snapshot.debian.org/archive/debian/20220101T000000Z/pool/main/n/nasm/nasm_2.15.05-1_amd64.deb",
        ],
        sha256: "c860caec653b865d5b83359452d97b11f1b3ba5b18b07cac554cf72550b3bfc9",
        member: "./usr/bin/nasm",
    }),
    program: "nasm",
    variables: |program| vec![("ASM_NASM", program.into())],
};

/// Only for x86 is the vector code written for an assembler of its own.
const TOOLS: &[&Tool] =
    if cfg!(target_arch = "x86_64") { &[&CMAKE, &MAKE, &NASM] } else { &[&CMAKE, &MAKE] };

/// Returns the variables with which libjpeg-turbo is built, if every tool is there; downloads
/// nothing.
///
/// # Errors
/// The names of the tools that are missing.
pub(super) fn find(workspace: &Workspace) -> Result<Vec<Variable>, Vec<&'static str>> {
    let missing: Vec<_> = TOOLS
        .iter()
        .filter(|tool| !tool.in_system(workspace) && !tool.own(workspace).is_file())
        .map(|tool| tool.programs[0])
        .collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    Ok(own(workspace))
}

/// Returns the variables that name our own tools, if they are there, for those that the system does
/// not have.
pub(super) fn own(workspace: &Workspace) -> Vec<Variable> {
    let own = TOOLS.iter().filter(|tool| !tool.in_system(workspace));
    own.flat_map(|tool| (tool.variables)(&tool.own(workspace))).collect()
}

/// Installs the tools that are missing, with the pip of this Python.
///
/// # Errors
/// If one cannot be downloaded or does not run here.
pub(super) fn install(workspace: &Workspace, python: &Path) -> Result<()> {
    ensure!(!is_offline(), "CARGO_NET_OFFLINE is set");
    for tool in TOOLS.iter().filter(|tool| !tool.in_system(workspace)) {
        if !tool.own(workspace).is_file() {
            tool.install(workspace, python).with_context(|| format!("cannot install {tool}"))?;
        }
    }
    Ok(())
}

/// Whether the user has told cargo, and so us, that there is no network.
pub(super) fn is_offline() -> bool {
    env::var_os("CARGO_NET_OFFLINE").is_some_and(|value| value == "true")
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Tool {
    /// Whether the system has it, or the user names one.
    fn in_system(&self, workspace: &Workspace) -> bool {
        self.is_named(workspace, |name| env::var_os(name))
            || self.programs.iter().any(|name| process::find(name).is_some())
    }

    /// Whether a variable names another one than ours: `cargo xtask setup` prints ours for shells,
    /// and its file goes with the target folder.
    fn is_named(&self, workspace: &Workspace, get: impl Fn(&str) -> Option<OsString>) -> bool {
        let ours = (self.variables)(&self.own(workspace));
        get(self.named_by).is_some_and(|value| !value.is_empty())
            && ours.into_iter().any(|(name, value)| get(name) != Some(value))
    }

    fn home(&self, workspace: &Workspace) -> PathBuf {
        workspace.target.join("tools").join(self.name)
    }

    /// The program that set-up installs.
    fn own(&self, workspace: &Workspace) -> PathBuf {
        self.home(workspace).join(self.program)
    }

    fn install(&self, workspace: &Workspace, python: &Path) -> Result<()> {
        let home = self.home(workspace);
        let part = home.with_extension("part");
        // cmake, the largest, is 29 MB to download, and 82 MB unpacked.
        require_free(&workspace.target, 150_000_000, &format!("setting up {self}"))?;
        eprintln!("setting up {self} in `{}`", workspace.relative(&home).display());
        for old in [&part, &home] {
            let _ = fs::remove_dir_all(old);
        }
        let unpacked = part.join("unpacked");
        fs::create_dir_all(&unpacked)
            .with_context(|| format!("cannot make `{}`", unpacked.display()))?;
        match &self.source {
            Source::Pip(package) => {
                let mut pip = download::pip(python);
                // One try more: on a machine without a network, the user waits for all of them.
                pip.args(["install", "--no-deps", "--only-binary=:all:", "--no-compile"]);
                pip.args(["--retries=1", package, "--target"]).arg(&unpacked).env("TMPDIR", &part);
                download::watch(&mut pip, &part.join("pip.log"), || {})?;
            }
            Source::Debian(deb) => deb.fetch(python, &unpacked.join(self.program))?,
        }
        // Also a C library older than the program's ends here.
        let works = process::succeeds(command(unpacked.join(self.program)).arg("--version"));
        ensure!(works, "the downloaded {self} does not run on this system");
        fs::rename(&unpacked, &home)
            .with_context(|| format!("cannot rename `{}`", unpacked.display()))?;
        let _ = fs::remove_dir_all(&part);
        Ok(())
    }
}

impl Deb {
    /// Copies the member to `to`, with Python, which can fetch, hash and unpack it.
    fn fetch(&self, python: &Path, to: &Path) -> Result<()> {
        let mut fetch = command(python);
        fetch.args(["-I", "-c", FETCH_DEB, self.sha256, self.member]).arg(to).args(self.urls);
        let output = fetch.output().with_context(|| process::cannot_start(&fetch))?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", text.lines().last().unwrap_or("no message").trim());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a package that holds `usr/bin/x`, and prints its digest.
    const MAKE_DEB: &str = r#"
import hashlib, io, sys, tarfile
tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w:xz") as archive:
    info = tarfile.TarInfo("./usr/bin/x")
    info.size, info.mode = 5, 0o755
    archive.addfile(info, io.BytesIO(b"hello"))
deb = b"!<arch>\n"
for name, data in [("debian-binary", b"2.0\n"), ("odd", b"123"), ("data.tar.xz", tar.getvalue())]:
    deb += ("%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name, 0, 0, 0, "100644", len(data))).encode()
    deb += data + b"\n" * (len(data) % 2)
open(sys.argv[1], "wb").write(deb)
print(hashlib.sha256(deb).hexdigest())
"#;

    /// Fetches `member` of a package with that digest, which `None` stands for the right one of.
    fn check(sha256: Option<&'static str>, member: &'static str, expected: Result<&str, &str>) {
        let Some(python) = super::super::tools::pip() else {
            return println!("skipped: there is no Python with pip");
        };
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (package, to) = (dir.path().join("x.deb"), dir.path().join("out/x"));
        let mut make = command(&python);
        let digest = process::stdout_of(make.args(["-c", MAKE_DEB]).arg(&package)).expect("made");
        let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let there = leak(format!("file://{}", package.display()));
        let gone = leak(format!("file://{}", dir.path().join("gone.deb").display()));
        let urls = Box::leak(Box::new([gone, there]));
        let sha256 = sha256.unwrap_or_else(|| leak(digest.trim().to_owned()));
        let deb = Deb { urls, sha256, member };
        match (deb.fetch(&python, &to), expected) {
            (Ok(()), Ok(text)) => assert_eq!(fs::read_to_string(to).expect("a file"), text),
            (Err(error), Err(words)) => {
                assert!(error.to_string().contains(words), "{error}");
                assert!(!to.exists());
            }
            (found, _) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_file_of_a_package_is_fetched_by_digest_from_the_first_url_that_has_it() {
        check(None, "./usr/bin/x", Ok("hello"));
        check(None, "./usr/bin/y", Err("no `./usr/bin/y`"));
        let other = "c860caec653b865d5b83359452d97b11f1b3ba5b18b07cac554cf72550b3bfc9";
        check(Some(other), "./usr/bin/x", Err("other bytes than expected"));
    }

    #[test]
    fn a_missing_tool_is_named_and_an_installed_one_is_used() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let workspace = Workspace { root: dir.path().into(), target: dir.path().join("tar get") };
        let own = NASM.own(&workspace);
        assert_eq!(own, dir.path().join("tar get/tools/nasm/nasm"));
        assert_eq!((NASM.variables)(&own), [("ASM_NASM", own.clone().into_os_string())]);
        let ninja = MAKE.own(&workspace);
        let folder = dir.path().join("tar get/tools/ninja/bin").into_os_string();
        let variables =
            [("CMAKE_GENERATOR", OsString::from("Ninja")), ("CMAKE_PROGRAM_PATH", folder)];
        assert_eq!((MAKE.variables)(&ninja), variables);
    }

    #[test]
    fn a_variable_that_names_our_own_tool_does_not_count_as_one_of_the_system() {
        let workspace = Workspace { root: "/w".into(), target: "/w/target".into() };
        let check = |tool: &Tool, set: &[Variable], expected| {
            let get = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
            };
            assert_eq!(tool.is_named(&workspace, get), expected, "{set:?}");
        };
        for tool in [&CMAKE, &MAKE, &NASM] {
            check(tool, &(tool.variables)(&tool.own(&workspace)), false);
            check(tool, &[], false);
            check(tool, &[(tool.named_by, "/opt/other".into())], true);
        }
        check(&MAKE, &[("CMAKE_GENERATOR", "Ninja".into())], true);
    }
}
