//! Fetches wheels with pip, by digest, with a progress bar.
//!
//! pip knows the user's index, proxy and certificates; we only watch the
//! folder it writes to. The wheels are named for one platform and one Python,
//! so the digest holds whichever Python runs pip.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use gular_files::Size;
use indicatif::{ProgressBar, ProgressStyle};

use crate::process::{self, command};

/// A file of the package index, fixed by its digest.
#[derive(Debug)]
pub(super) struct Wheel {
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    pub(super) sha256: &'static str,
    pub(super) len_bytes: u64,
}

/// The platforms a wheel may name that run on glibc 2.28 and newer.
const PLATFORMS: [&str; 5] = [
    "manylinux_2_28_x86_64",
    "manylinux_2_25_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
];

const UNPACK_WHEEL: &str = include_str!("unpack_wheel.py");

/// Downloads `wheels` into `dir` one after another and returns their paths in
/// that order. Existing files are kept, so a run that was stopped resumes
/// with the wheel at which it stopped.
pub(super) fn fetch(python: &Path, wheels: &[Wheel], dir: &Path) -> Result<Vec<PathBuf>> {
    let total = wheels.iter().map(|wheel| wheel.len_bytes).sum();
    let bar = bar(total);
    let mut before = 0;
    let mut paths = Vec::new();
    for wheel in wheels {
        if bar.is_hidden() {
            eprintln!(
                "downloading {} {} ({})",
                wheel.package,
                wheel.version,
                Size(wheel.len_bytes)
            );
        }
        bar.set_message(format!("{} {}", wheel.package, wheel.version));
        paths.push(fetch_one(python, wheel, dir, |len| bar.set_position(before + len))?);
        before += wheel.len_bytes;
    }
    bar.finish_and_clear();
    Ok(paths)
}

/// Copies members of `wheel` to the given paths; a member ending in `/` is a folder.
pub(super) fn unpack(python: &Path, wheel: &Path, members: &[(String, PathBuf)]) -> Result<()> {
    let mut unpack = command(python);
    unpack.args(["-I", "-c", UNPACK_WHEEL]).arg(wheel);
    for (member, target) in members {
        unpack.arg(member).arg(target);
    }
    let output = unpack.output().with_context(|| process::cannot_start(&unpack))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!(
            "cannot unpack `{}`: {}",
            wheel.display(),
            text.lines().last().unwrap_or("no message")
        );
    }
    Ok(())
}

fn fetch_one(python: &Path, wheel: &Wheel, dir: &Path, progress: impl Fn(u64)) -> Result<PathBuf> {
    let own = dir.join(wheel.package);
    let (scratch, done, log) = (own.join("scratch"), own.join("done"), own.join("pip.log"));
    // A stopped run may have left this half-done; complete wheels are in `done`.
    let _ = fs::remove_dir_all(&scratch);
    for folder in [&scratch, &done] {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make `{}`", folder.display()))?;
    }
    let requirements = own.join("requirements.txt");
    fs::write(
        &requirements,
        format!("{}=={} --hash=sha256:{}\n", wheel.package, wheel.version, wheel.sha256),
    )?;

    let mut pip = pip(python);
    pip.args([
        "download",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--python-version=3.11",
    ]);
    pip.args(PLATFORMS.map(|platform| format!("--platform={platform}")));
    pip.arg("--requirement").arg(&requirements).arg("--dest").arg(&done).env("TMPDIR", &scratch);
    watch(&mut pip, &log, || {
        progress(largest_wheel(&scratch).max(largest_wheel(&done)).min(wheel.len_bytes));
    })
    .with_context(|| format!("cannot download {} {}", wheel.package, wheel.version))?;
    progress(wheel.len_bytes);
    let _ = fs::remove_dir_all(&scratch);
    wheels_in(&done)
        .into_iter()
        .next()
        .with_context(|| format!("pip did not write a wheel to `{}`", done.display()))
}

/// A pip that asks nothing, changes no Python environment and fills no cache.
pub(super) fn pip(python: &Path) -> Command {
    let mut pip = command(python);
    pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input", "--no-cache-dir"]);
    pip.env("PIP_PROGRESS_BAR", "off").env("PIP_REQUIRE_VIRTUALENV", "0").env("PIP_USER", "0");
    pip
}

/// Runs `pip` with its output in the file `log`, calling `tick` until it ends.
pub(super) fn watch(pip: &mut Command, log: &Path, tick: impl Fn()) -> Result<()> {
    let out = File::create(log).with_context(|| format!("cannot make `{}`", log.display()))?;
    let mut child = pip
        .stderr(out.try_clone()?)
        .stdout(Stdio::from(out))
        .spawn()
        .with_context(|| process::cannot_start(pip))?;
    loop {
        if let Some(status) = child.try_wait()? {
            if status.success() {
                return Ok(());
            }
            let text = fs::read_to_string(log).unwrap_or_default();
            bail!("{}", explain(&text));
        }
        tick();
        sleep(Duration::from_millis(100));
    }
}

/// pip's failure in one sentence, its own last words, and what to do.
fn explain(log: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|word| log.contains(word));
    let (what, hint) = if has(&["No space left on device", "Errno 28"]) {
        (
            "the disk is full",
            "free some space, or set CARGO_TARGET_DIR to a folder on a larger disk",
        )
    } else if has(&["DO NOT MATCH THE HASHES"]) {
        (
            "the package index sent different bytes than those that this project expects",
            "check which index or mirror pip is configured to use",
        )
    } else if has(&["CERTIFICATE_VERIFY_FAILED", "SSLError"]) {
        (
            "the package index's certificate was not accepted",
            "set PIP_CERT to your network's certificate bundle",
        )
    } else if has(&[
        "NewConnectionError",
        "name resolution",
        "ConnectTimeout",
        "ReadTimeout",
        "ProxyError",
        "ConnectionError",
        "Network is unreachable",
    ]) {
        (
            "the package index could not be reached",
            "connect this machine to the network, or copy a libtorch to it and set LIBTORCH to that folder",
        )
    } else if has(&["No matching distribution found"]) {
        (
            "pip's package index does not have this package",
            "check which index or mirror pip is configured to use, or set LIBTORCH to a libtorch of this version",
        )
    } else {
        ("pip failed", "see pip's message above")
    };
    let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
    let said: Vec<_> = if errors.is_empty() { log.lines().rev().take(3).collect() } else { errors };
    let said: String =
        said.iter().take(3).map(|line| format!("\n  pip: {}", line.trim())).collect();
    format!("{what}{said}\nhint: {hint}")
}

/// The length of the longest `.whl` below `dir`, in bytes: the one pip is writing.
fn largest_wheel(dir: &Path) -> u64 {
    let folders = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    let all = folders.flat_map(|folder| wheels_in(&folder)).chain(wheels_in(dir));
    all.filter_map(|path| fs::metadata(path).ok()).map(|meta| meta.len()).max().unwrap_or(0)
}

fn wheels_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension() == Some(&OsString::from("whl"))).collect()
}

/// Drawn on stderr, and only where that is a terminal.
fn bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style.progress_chars("=> "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart() {
        let check = |log: &str, expected: &str| {
            assert!(explain(log).starts_with(expected), "{}", explain(log));
        };
        check(
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "the disk is full",
        );
        check(
            "WARNING: Retrying … NewConnectionError\nERROR: No matching distribution found for torch==2.11.0",
            "the package index could not be reached",
        );
        check(
            "ERROR: No matching distribution found for torch==2.11.0",
            "pip's package index does not have this package",
        );
        check(
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE",
            "the package index sent different bytes",
        );
        check("something new", "pip failed\n  pip: something new\nhint:");
    }
}
