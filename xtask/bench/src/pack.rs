//! `gular pack` against `tar` of the same files followed by `sync` of the result.
//!
//! Both read warm files and write to the same disk; a round runs one after the
//! other, so that a noisy minute hits both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{machine, median};

/// Rounds not counted: on a virtual machine they give the page cache its memory,
/// and writing to memory touched for the first time takes up to four times as long.
const WARM_UP: usize = 4;

/// Runs `rounds` rounds on `images`, each file `copies` times under other names.
pub(crate) fn run(
    gular: &Path,
    images: &Path,
    copies: usize,
    rounds: usize,
    work: &Path,
) -> Result<()> {
    let source = work.join("source");
    let (files, bytes) = fill(images, &source, copies)?;
    eprintln!("{files} files, {:.1} MB, {rounds} rounds", bytes as f64 / 1e6);
    let (mut tar, mut pack) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + rounds {
        warm(&source)?;
        let archive = work.join("x.tar");
        let t = timed(|| {
            run_quiet(
                Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&source).arg("."),
            )?;
            run_quiet(Command::new("sync").arg(&archive))
        })?;
        fs::remove_file(&archive)?;
        warm(&source)?;
        let bundle = work.join("bundle");
        let p = timed(|| {
            run_quiet(Command::new(gular).arg("pack").arg(&source).arg(&bundle).arg("--quiet"))
        })?;
        fs::remove_dir_all(&bundle)?;
        if round >= WARM_UP {
            tar.push(t);
            pack.push(p);
        }
    }
    fs::remove_dir_all(&source)?;
    let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
    eprintln!("{:<24}{:>10}{:>10}", "", "seconds", "MB/s");
    for (name, values) in [("tar, then sync", &tar), ("gular pack, with hashes", &pack)] {
        let m = median(values);
        eprintln!("{name:<24}{m:>10.3}{:>10.0}", rate(m));
    }
    let record = json!({
        "bench": "pack", "machine": machine(), "files": files, "bytes": bytes, "cache": "warm",
        "tar_sync_seconds": tar, "gular_pack_seconds": pack,
        "pack_over_tar": median(&pack) / median(&tar),
    });
    println!("{record}");
    Ok(())
}

/// Copies images under `to`, each `copies` times; returns files and bytes.
fn fill(images: &Path, to: &Path, copies: usize) -> Result<(usize, u64)> {
    let _ = fs::remove_dir_all(to);
    let mut found = Vec::new();
    walk(images, &mut found)?;
    ensure!(!found.is_empty(), "no files below `{}`", images.display());
    let mut bytes = 0;
    for copy in 0..copies {
        for file in &found {
            let relative = file.strip_prefix(images)?;
            let name = relative.file_name().context("a file without a name")?.to_string_lossy();
            let path = to.join(relative).with_file_name(format!("{copy}-{name}"));
            fs::create_dir_all(path.parent().context("a file without a folder")?)?;
            bytes += fs::copy(file, &path)?;
        }
    }
    Ok((found.len() * copies, bytes))
}

pub(super) fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list `{}`", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() { walk(&path, found)? } else { found.push(path) }
    }
    found.sort();
    Ok(())
}

pub(super) fn warm(dir: &Path) -> Result<()> {
    let mut files = Vec::new();
    walk(dir, &mut files)?;
    for file in files {
        std::io::copy(&mut fs::File::open(file)?, &mut std::io::sink())?;
    }
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

fn run_quiet(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status =
        status.with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    ensure!(status.success(), "`{}` ended with {status}", command.get_program().display());
    Ok(())
}
