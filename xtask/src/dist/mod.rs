//! `cargo xtask dist`: makes a folder with exactly what people download, ready to be put online.
//!
//! ```text
//!   target/dist/gular                                     the program
//!   target/dist/gular-VERSION-cp39-abi3-manylinux_2_28_x86_64.whl   the package, the program in it
//!   target/dist/share/man/man1/*.1, bash-completion, zsh, fish   for those who install the program
//!   target/dist/docs/index.html                           all pages
//!   target/dist/CHANGELOG.md, LICENSE-APACHE, LICENSE-MIT
//!   target/dist/NOTICES.txt                               licences of everything inside
//!   target/dist/SHA256SUMS                                of all these files
//!   target/dist-tools/                                    what makes them
//! ```

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

mod notices;
mod release_files;

use crate::cargo;
use crate::docs;
use crate::process::{self, command};
use crate::setup::{self, Missing, Ready, Tool};
use crate::workspace::{Workspace, empty};

/// The tag of PEP 600. It promises to run with a certain glibc, that of Debian 10 and RHEL 8.
const TAG: &str = "manylinux_2_28";
const GLIBC: [u32; 2] = [2, 28];
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// 64-bit ARM, which is compiled and not yet handed out.
const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// The folder of the tools, below cargo's: they are not for those who download.
const HOME: &str = "dist-tools";

/// The tools, with their versions.
const REQUIREMENTS: &str = include_str!("requirements.txt");

/// Make what people download: the program, and the wheel for Python that brings it.
///
/// Both run on Linux x86-64 with glibc 2.28 or newer (Debian 10, RHEL 8, Ubuntu 20.04):
/// everything, C included, is compiled by zig for that glibc. The tools are installed from
/// PyPI into `target/dist-tools` (200 MB). Results go to `target/dist`, with the pages as HTML,
/// the changelog, licences and checksums: the folder can be put online as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Compile with this cargo profile instead of `release`, to try the steps
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// Where results go [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Make a wheel for this Python as well, such as a free-threaded one, for which the usual
    /// wheel is not (PEP 703)
    #[arg(long, value_name = "PROGRAM")]
    python: Vec<PathBuf>,
}

/// `cargo xtask dist`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let ready = setup::for_release(&workspace)?;
    let home = workspace.target.join(HOME);
    let out = args.out.clone().unwrap_or_else(|| workspace.target.join("dist"));
    release_files::check_changelog(&workspace.root)?;
    let tools = tools(&workspace, &home)?;
    let work = home.join("work");
    fs::create_dir_all(&out).with_context(|| format!("cannot make `{}`", out.display()))?;
    empty(&work)?;
    release_files::forget_earlier(&out)?;

    let profile = &args.profile;
    let built = Build { workspace: &workspace, ready: &ready, tools: &tools, profile };
    let program = built.program()?;
    let own = setup::venv().context("no Python with the module `venv` was found")?;
    let mut bare = vec![(built.wheel(&work.join("usual"), None)?, own)];
    for (number, python) in args.python.iter().enumerate() {
        let work = work.join(number.to_string());
        bare.push((built.wheel(&work, Some(python))?, python.clone()));
    }

    let notices = out.join("NOTICES.txt");
    let text = notices::notices(&workspace, &["gular", "gular-python"], TARGET)?;
    fs::write(&notices, text).with_context(|| format!("cannot write `{}`", notices.display()))?;
    let named = out.join("gular");
    fs::copy(&program, &named).with_context(|| format!("cannot write `{}`", named.display()))?;
    let share = out.join("share");
    empty(&share)?;
    let shared = shared(&named, &share)?;
    let licence =
        |name: &str| format!("@info/licenses/{name}={}", workspace.root.join(name).display());
    let mut added = vec![
        format!("@data/scripts/gular={}", program.display()),
        format!("@info/licenses/NOTICES.txt={}", notices.display()),
    ];
    added.extend(["LICENSE-APACHE", "LICENSE-MIT"].map(licence));
    // They are installed to the same places below the environment.
    added.extend(shared.iter().map(|name| format!("@data/data/{name}={}/{name}", out.display())));
    let mut wheels = Vec::new();
    for (bare, python) in bare {
        let wheel = out.join(bare.file_name().context("a wheel has a name")?);
        let mut add = command(tools.join("python"));
        add.arg(workspace.root.join("xtask/src/dist/add_to_wheel.py")).args([&bare, &wheel]);
        process::run(add.args(&added))?;
        built.check(&named, &wheel, bare.parent().context("a wheel is in a folder")?, &python)?;
        wheels.push(wheel);
    }
    docs::write(&workspace, &ready, &out.join("docs"))?;
    let mut files = vec![named.clone(), notices];
    files.extend(wheels.iter().cloned());
    files.extend(shared.iter().map(|name| out.join(name)));
    files.extend(release_files::copy(&workspace.root, &out)?);
    files.extend(release_files::files_below(&out.join("docs"))?);
    sums(&out, &files)?;
    for file in std::iter::once(&named).chain(&wheels) {
        let bytes = fs::metadata(file).map(|found| found.len()).unwrap_or_default();
        println!("{:>6.1} MB  {}", bytes as f64 / 1e6, file.display());
    }
    Ok(())
}

/// Compiles the program and the package for 64-bit ARM, C included. Nothing is linked or run.
pub(crate) fn check_aarch64(workspace: &Workspace, ready: &Ready) -> Result<()> {
    let tools = tools(workspace, &workspace.target.join(HOME))?;
    if process::find("rustup").is_some() {
        process::run(command("rustup").args(["target", "add", AARCH64]))?;
    }
    let built = Build { workspace, ready, tools: &tools, profile: "dev" };
    let mut check = built.command("cargo-zigbuild");
    check.args(["check", "-p", "gular", "-p", "gular-python", "--target", &with_glibc(AARCH64)]);
    built.turbo(&mut check);
    process::run(&mut check)
}

/// The target as zig knows it, which compiles for that glibc.
fn with_glibc(target: &str) -> String {
    format!("{target}.{}.{}", GLIBC[0], GLIBC[1])
}

struct Build<'a> {
    workspace: &'a Workspace,
    ready: &'a Ready,
    tools: &'a Path,
    profile: &'a str,
}

impl Build<'_> {
    /// Builds the program with cargo-zigbuild.
    fn program(&self) -> Result<PathBuf> {
        let mut build = self.command("cargo-zigbuild");
        build.args(["zigbuild", "-p", "gular", "--bin", "gular", "--profile", self.profile]);
        build.args(["--target", &with_glibc(TARGET)]);
        self.turbo(&mut build);
        process::run(&mut build)?;
        let profile = if self.profile == "dev" { "debug" } else { self.profile };
        Ok(self.workspace.target.join(TARGET).join(profile).join("gular"))
    }

    /// Builds the wheel without the program, with maturin: that of all Pythons, or of `python`.
    fn wheel(&self, work: &Path, python: Option<&Path>) -> Result<PathBuf> {
        let mut build = self.command("maturin");
        build.args(["build", "--zig", "--compatibility", TAG, "--target", TARGET]);
        build.args(["--profile", self.profile, "--out"]).arg(work);
        build.arg("--manifest-path").arg(self.workspace.root.join("python/Cargo.toml"));
        if let Some(python) = python {
            build.arg("--interpreter").arg(python);
        }
        self.turbo(&mut build);
        process::run(&mut build)?;
        let entries = fs::read_dir(work).context("maturin left no wheel")?;
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths
            .find(|path| path.extension().is_some_and(|e| e == "whl"))
            .context("maturin left no wheel")
    }

    fn turbo(&self, build: &mut Command) {
        if !self.ready.turbo {
            build.arg("--no-default-features");
        }
    }

    /// Compares both with what the tag promises, by auditwheel and by our own reader, and tries
    /// them where nothing else is installed, with `own`.
    fn check(&self, program: &Path, wheel: &Path, work: &Path, own: &Path) -> Result<()> {
        let found =
            process::stdout_of(command(self.tools.join("auditwheel")).arg("show").arg(wheel))?;
        // The output is wrapped at spaces, and names are in quotes.
        let words = found.split_whitespace().collect::<Vec<_>>().join(" ");
        let judged = |text: &str| {
            let rest = text.split_once("following platform tag: \"manylinux_2_")?.1;
            rest.split('_').next()?.parse::<u32>().ok()
        };
        ensure!(
            judged(&words).is_some_and(|minor| minor <= GLIBC[1]),
            "auditwheel does not confirm that `{}` is {TAG}:\n{found}",
            wheel.display()
        );

        let python = self.tools.join("python");
        let unpacked = work.join("unpacked");
        process::run(command(&python).args(["-m", "zipfile", "-e"]).args([wheel, &unpacked]))?;
        let mut files = release_files::files_below(&unpacked)?.into_iter();
        let library = files.find(|file| file.extension().is_some_and(|end| end == "so"));
        let library = library.context("the wheel has no library")?;
        let [reader] =
            cargo::build(self.workspace, self.ready, cargo::Set::Plain, [&cargo::GLIBC_NEEDED])?;
        let needed = process::stdout_of(command(reader).args([program, &library]))?;
        for (file, needed) in [program, &library].into_iter().zip(needed.lines()) {
            let numbers: Vec<u32> =
                needed.split('.').map(|n| n.parse().unwrap_or(u32::MAX)).collect();
            ensure!(
                numbers.as_slice() <= GLIBC.as_slice(),
                "`{}` needs glibc {needed}, which {TAG} does not promise",
                file.display()
            );
            self.names_no_folder(file)?;
        }

        let bare = work.join("venv");
        process::run(command(own).args(["-m", "venv"]).arg(&bare))?;
        let mut pip = command(bare.join("bin/python"));
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]);
        process::run(pip.arg(wheel))?;
        for file in ["share/man/man1/gular-pack.1", "share/bash-completion/completions/gular"] {
            ensure!(bare.join(file).is_file(), "the wheel installs no `{file}`");
        }
        let version = process::stdout_of(command(bare.join("bin/gular")).arg("--version"))?;
        let imported = process::stdout_of(
            command(bare.join("bin/python"))
                .args(["-c", "import gular; print('gular', gular.__version__)"]),
        )?;
        if version.trim() != imported.trim() {
            bail!(
                "the versions differ: the program says `{}`, the Python package `{}`",
                version.trim(),
                imported.trim()
            );
        }
        Ok(())
    }

    /// Returns the command of a tool, able to find cargo, zig and cmake.
    fn command(&self, tool: &str) -> Command {
        let mut made = command(self.tools.join(tool));
        made.current_dir(&self.workspace.root);
        self.ready.apply(&mut made);
        let set = made.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
        let path = set.map(ToOwned::to_owned).or_else(|| env::var_os("PATH")).unwrap_or_default();
        // zig is a package of the Python beside the tools.
        let mut first = OsString::from(self.tools);
        first.push(":");
        first.push(path);
        made.env("PATH", first);
        made.env("RUSTFLAGS", self.without_paths());
        made
    }

    /// The caller's flags for rustc, and those by which panics name a crate's files and not the
    /// folders of this machine.
    fn without_paths(&self) -> OsString {
        let mut flags = env::var_os("RUSTFLAGS").unwrap_or_default();
        for (folder, name) in self.folders() {
            flags.push(" --remap-path-prefix=");
            flags.push(folder);
            flags.push("=");
            flags.push(name);
        }
        flags
    }

    /// The folders of this machine that hold sources, and what stands for each.
    fn folders(&self) -> Vec<(PathBuf, &'static str)> {
        let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
        let cargo = env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
        let ours = (self.workspace.root.clone(), "/gular");
        // rustc uses the last prefix that matches.
        cargo.map(|cargo| (cargo, "/cargo")).into_iter().chain([ours]).collect()
    }

    /// Compares that a result names none of the folders.
    fn names_no_folder(&self, file: &Path) -> Result<()> {
        let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        for (folder, _) in self.folders() {
            let name = folder.as_os_str().as_encoded_bytes();
            ensure!(
                !bytes.windows(name.len()).any(|found| found == name),
                "`{}` names `{}`, a folder of this machine: rustc was not given `RUSTFLAGS`",
                file.display(),
                folder.display()
            );
        }
        Ok(())
    }
}

/// Installs the tools once, and returns the folder of their programs.
fn tools(workspace: &Workspace, home: &Path) -> Result<PathBuf> {
    let (venv, stamp) = (home.join("tools"), home.join("tools.stamp"));
    let bin = venv.join("bin");
    if fs::read_to_string(&stamp).is_ok_and(|text| text == REQUIREMENTS) {
        return Ok(bin);
    }
    let mut missing = Missing::default();
    let python = missing.need(Tool::Venv, setup::venv());
    missing.check()?;
    let python = python.context("no Python with the module `venv` was found")?;
    eprintln!("installing maturin and zig in `{}`", workspace.relative(&venv).display());
    empty(&venv)?;
    process::run(command(python).args(["-m", "venv"]).arg(&venv))?;
    let mut pip = command(bin.join("python"));
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--requirement"]);
    process::run(pip.arg(workspace.root.join("xtask/src/dist/requirements.txt")))?;
    fs::write(&stamp, REQUIREMENTS)
        .with_context(|| format!("cannot write `{}`", stamp.display()))?;
    Ok(bin)
}

/// Writes completions and man pages to `share`, and returns their names below its parent.
fn shared(program: &Path, share: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (shell, name) in [
        ("bash", "bash-completion/completions/gular"),
        ("zsh", "zsh/site-functions/_gular"),
        ("fish", "fish/vendor_completions.d/gular.fish"),
    ] {
        let path = share.join(name);
        let folder = path.parent().context("a file is in a folder")?;
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make `{}`", folder.display()))?;
        let script = process::stdout_of(command(program).args(["completions", shell]))?;
        fs::write(&path, script).with_context(|| format!("cannot write `{}`", path.display()))?;
        names.push(format!("share/{name}"));
    }
    let pages = share.join("man/man1");
    process::run(command(program).arg("man").arg(&pages))?;
    let entries =
        fs::read_dir(&pages).with_context(|| format!("cannot list `{}`", pages.display()))?;
    for entry in entries {
        names.push(format!("share/man/man1/{}", entry?.file_name().to_string_lossy()));
    }
    names.sort();
    ensure!(names.len() > 10, "the program wrote only these files: {}", names.join(", "));
    Ok(names)
}

fn sums(out: &Path, files: &[PathBuf]) -> Result<()> {
    let names = files.iter().filter_map(|file| file.strip_prefix(out).ok());
    let text = process::stdout_of(command("sha256sum").args(names).current_dir(out))?;
    let path = out.join(release_files::SUMS);
    fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))
}
