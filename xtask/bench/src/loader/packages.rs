//! Other loaders: their packages, their stores, and how they are started.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;

use xtask::process::{self, command};
use xtask::workspace::Workspace;

use super::Programs;
use super::data::{Data, SIDE, done, files};
use super::process::Start;
use super::rows::{EACH, WHEEL};

/// Peers that read the folder of images as it is.
const FOLDERS: [&str; 4] = ["files", "litdata-raw", "datago", "grain"];

pub(crate) struct Peers<'a> {
    workspace: &'a Workspace,
    python: &'a std::result::Result<PathBuf, String>,
    images: PathBuf,
    bundle: PathBuf,
    /// The wheel, if the command line names one.
    wheel: Option<&'a Path>,
    work: &'a Path,
    /// Results of installing and packing in this run.
    ready: RefCell<BTreeMap<String, Result<(), String>>>,
}

impl<'a> Peers<'a> {
    pub(crate) fn new(
        workspace: &'a Workspace,
        programs: &'a Programs,
        data: &Data,
        wheel: Option<&'a Path>,
        work: &'a Path,
    ) -> Self {
        Self {
            workspace,
            python: &programs.python,
            images: data.images(),
            bundle: work.join("envelopes/shards"),
            wheel,
            work,
            ready: RefCell::default(),
        }
    }

    /// Installs a peer's packages and writes its store, and returns how to start it.
    pub(crate) fn start(&self, peer: &str, stack: &str, mode: &str, name: &str) -> Result<Start> {
        for group in [group(peer), stack] {
            self.once(&format!("packages of {group}"), || match group {
                WHEEL => self.install_wheel(),
                _ => self.install(group),
            })?;
        }
        let store = self.store(peer);
        if !FOLDERS.contains(&peer) && !reads_bundle(peer) {
            self.once(&format!("store of {peer}"), || self.pack(peer, stack, &store))?;
        }
        let mut run = self.script("host", peer, stack)?;
        run.args(["--mode", mode]);
        let read = if FOLDERS.contains(&peer) { &self.images } else { &store };
        let is_ours = group(peer) == WHEEL;
        Ok(Start { command: run, name: name.to_owned(), is_ours, files: files(read)? })
    }

    /// Does `work` unless this run did; what failed is not tried again.
    fn once(&self, what: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        if let Some(known) = self.ready.borrow().get(what) {
            return known.clone().map_err(|reason| anyhow!("{reason}"));
        }
        let done = work().map_err(|error| format!("{error:#}"));
        self.ready.borrow_mut().insert(what.to_owned(), done.clone());
        done.map_err(|reason| anyhow!("{reason}"))
    }

    fn store(&self, peer: &str) -> PathBuf {
        match reads_bundle(peer) {
            true => self.bundle.clone(),
            false => self.work.join("stores").join(peer),
        }
    }

    fn requirements(&self, group: &str) -> PathBuf {
        self.workspace.root.join(format!("xtask/bench/peers/requirements/{group}.txt"))
    }

    /// The packages of a peer, beside those of the peer tests, in a folder of their own: one that
    /// cannot be installed, or asks for other versions than another, harms no other.
    fn install(&self, group: &str) -> Result<()> {
        let Ok(wanted) = fs::read_to_string(self.requirements(group)) else { return Ok(()) };
        let folder = self.packages(group);
        let stamp = folder.with_extension("stamp");
        if fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) && folder.exists() {
            return Ok(());
        }
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        eprintln!("  installing the packages of `{group}`");
        let mut pip = command(self.python()?);
        pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "install"]);
        pip.args(["--no-compile", "--no-deps", "--quiet", "--requirement"]);
        pip.arg(self.requirements(group)).arg("--target").arg(&folder);
        if let Err(error) = done(&mut pip) {
            let _ = fs::remove_dir_all(&folder);
            return Err(error.context(format!("cannot install its packages ({group}.txt)")));
        }
        Ok(fs::write(&stamp, wanted)?)
    }

    /// Installs the current wheel, in each run.
    fn install_wheel(&self) -> Result<()> {
        let wheel = match self.wheel {
            Some(wheel) => wheel.to_owned(),
            None => wheel_in(&self.workspace.target.join("dist"))?,
        };
        let folder = self.packages(WHEEL);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let mut pip = command(self.python()?);
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]);
        done(pip.args(["--no-compile", "--no-deps", "--target"]).arg(&folder).arg(wheel))
            .context("cannot install the wheel")
    }

    fn packages(&self, group: &str) -> PathBuf {
        self.work.join("packages").join(group)
    }

    /// Writes the images as the peer stores them, unless it is done.
    fn pack(&self, peer: &str, stack: &str, store: &Path) -> Result<()> {
        let stamp = store.with_extension("packed");
        if stamp.exists() {
            return Ok(());
        }
        if let Some(parent) = store.parent() {
            fs::create_dir_all(parent)?;
        }
        eprintln!("  packing for `{peer}`");
        let packed = last_object(&mut self.script("pack", peer, stack)?)?;
        Ok(fs::write(&stamp, format!("{packed}\n"))?)
    }

    fn script(&self, verb: &str, peer: &str, stack: &str) -> Result<Command> {
        let mut run = command(self.python()?);
        run.arg(self.workspace.root.join("xtask/bench/peers/run.py")).arg(verb);
        run.args(["--peer", peer, "--stack", stack]);
        run.arg("--images").arg(&self.images).arg("--store").arg(self.store(peer));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        run.args(["--workers", &cores.to_string()]);
        if peer == "ffcv-raw" {
            run.args(["--size", SIDE]);
        }
        let path: Vec<PathBuf> = [group(peer), stack].map(|group| self.packages(group)).into();
        let inherited = env::var_os("PYTHONPATH").unwrap_or_default();
        let path: OsString = env::join_paths(path.into_iter().chain(env::split_paths(&inherited)))
            .context("the folder has a `:` in its name, which PYTHONPATH cannot hold")?;
        run.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
        // The torch of Python has its own libtorch.
        run.env_remove("LD_LIBRARY_PATH");
        Ok(run)
    }

    fn python(&self) -> Result<&Path> {
        self.python.as_deref().map_err(|reason| anyhow!("{reason}"))
    }
}

/// The newest wheel in `dir`, where each version leaves one.
fn wheel_in(dir: &Path) -> Result<PathBuf> {
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let found = fs::read_dir(dir).into_iter().flatten();
    let wheels = found.filter_map(|entry| Some(entry.ok()?.path())).filter(is_wheel);
    let newest = wheels.max_by_key(|path| path.metadata().and_then(|found| found.modified()).ok());
    newest.with_context(|| {
        format!(
            "there is no wheel in `{}`; make one with `cargo xtask dist`, or give one with `--wheel`",
            dir.display()
        )
    })
}

/// The group of packages that a peer uses.
fn group(peer: &str) -> &str {
    match peer.starts_with(WHEEL) || peer.starts_with(EACH) {
        true => WHEEL,
        false => peer.strip_suffix("-raw").unwrap_or(peer),
    }
}

fn reads_bundle(peer: &str) -> bool {
    peer == "gular-python" || group(peer) == WHEEL
}

/// The last line of what `run` prints, an object; what it said if it failed.
fn last_object(run: &mut Command) -> Result<Value> {
    let output = run.output().with_context(|| process::cannot_start(run))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let object = |line: &str| serde_json::from_str(line).ok().filter(Value::is_object);
    let found: Option<Value> = text.lines().rev().find_map(object);
    match found {
        Some(found) if output.status.success() => match found["error"].as_str() {
            Some(error) => bail!("{error}"),
            None => Ok(found),
        },
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
            let last = lines[lines.len().saturating_sub(6)..].join("\n");
            bail!("`{}` ended with {}:\n{last}", process::line(run), output.status)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_wheel_is_taken_and_none_names_the_command() {
        let dir = env::temp_dir().join(format!("wheels-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let error = wheel_in(&dir).unwrap_err().to_string();
        assert!(error.contains("cargo xtask dist"), "{error}");
        for name in ["gular-2.whl", "gular-1.whl", "gular"] {
            fs::write(dir.join(name), name).unwrap();
        }
        let older = fs::File::options().append(true).open(dir.join("gular-2.whl")).unwrap();
        older.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert!(wheel_in(&dir).unwrap().ends_with("gular-1.whl"));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_last_object_counts_and_failures_show_what_was_said() {
        let run = |script: &str| last_object(command("sh").args(["-c", script]));
        let found = run("echo '{\"a\": 0}'; echo '{\"a\": 1}'; echo goodbye").unwrap();
        assert_eq!(found["a"], 1);
        for (script, expected) in [
            ("echo lost >&2; exit 3", "lost"),
            ("echo nothing", "ended with"),
            ("echo '{\"error\": \"no module\"}'", "no module"),
        ] {
            let error = run(script).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
