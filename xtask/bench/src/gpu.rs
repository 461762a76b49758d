//! What only a GPU can show, as a folder that runs where there is one and no Rust.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use xtask::cargo;
use xtask::process::{self, command, find};
use xtask::setup::Ready;
use xtask::workspace::Workspace;

use super::date;
use super::pack::walk;

/// What is measured and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// A folder of images, `class/file`
    #[arg(long, value_name = "DIR")]
    images: PathBuf,
    /// Images are packed again and again under other names, until there are about so many
    #[arg(long, default_value_t = 12_000)]
    samples: usize,
    /// How many bytes of images travel, in MB; the first of each class
    #[arg(long, default_value_t = 16)]
    limit: u64,
    /// Make the folder, and run nothing
    #[arg(long)]
    no_run: bool,
}

/// Makes the kit; runs it on a machine with a GPU, else says how.
pub(crate) fn run(
    workspace: &Workspace,
    ready: &Ready,
    settings: &Settings,
    work: &Path,
) -> Result<()> {
    let kit = work.join("kit");
    let _ = fs::remove_dir_all(&kit);
    fs::create_dir_all(&kit)?;
    // First, since building takes minutes.
    let (n, bytes) =
        copy_images(&settings.images, &kit.join("images"), settings.limit * 1_000_000)?;
    let release = |artifact| cargo::build_release(workspace, ready, artifact);
    let (gular, train) = (release(&cargo::GULAR)?, release(&cargo::TRAIN)?);
    let gpu = release(&cargo::GPU)?;
    for (name, program) in [("gular", gular), ("gular-train", train), ("gpu", gpu)] {
        copy(&program, &kit.join(name))?;
    }
    for name in ["run.sh", "peers.py"] {
        copy(&workspace.root.join("xtask/bench/gpu").join(name), &kit.join(name))?;
    }
    eprintln!("{n} images, {:.1} MB, in `{}`", bytes as f64 / 1e6, kit.display());

    let out = work.join("out");
    let driver = find("nvidia-smi").is_some();
    if settings.no_run || !driver {
        let why = if driver { "" } else { "This machine has no `nvidia-smi`, so no GPU. " };
        eprintln!(
            "{why}Carry the folder to a machine with a GPU and PyTorch 2.11, and run there\n  \
             SAMPLES={} sh kit/run.sh out\nThen keep out/record.json as docs/bench/gpu-DATE.json.",
            settings.samples
        );
        return Ok(());
    }
    let mut run = command("sh");
    run.arg(kit.join("run.sh")).arg(&out).env("SAMPLES", settings.samples.to_string());
    process::run(&mut run)?;
    let record = workspace.root.join(format!("docs/bench/gpu-{}.json", date()));
    copy(&out.join("record.json"), &record)?;
    eprintln!("record `{}`", record.display());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))?;
    Ok(())
}

/// Takes files of all classes in turn, up to `limit` bytes.
fn copy_images(from: &Path, to: &Path, limit: u64) -> Result<(usize, u64)> {
    let mut classes = Vec::new();
    for entry in fs::read_dir(from).with_context(|| format!("cannot read `{}`", from.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            let mut files = Vec::new();
            walk(&path, &mut files)?;
            files.sort();
            files.reverse();
            classes.push((path, files));
        }
    }
    classes.sort();
    ensure!(!classes.is_empty(), "`{}` has no folders, expected class/file", from.display());
    let (mut n, mut bytes, mut took) = (0, 0, true);
    while std::mem::take(&mut took) {
        for (class, files) in &mut classes {
            let Some(file) = files.pop() else { continue };
            let len = fs::metadata(&file)?.len();
            if bytes + len > limit {
                continue;
            }
            let folder = to.join(class.file_name().unwrap_or_default());
            fs::create_dir_all(&folder)?;
            copy(&file, &folder.join(file.file_name().unwrap_or_default()))?;
            (n, bytes, took) = (n + 1, bytes + len, true);
        }
    }
    ensure!(n > 0, "no image of `{}` fits into {limit} bytes", from.display());
    Ok((n, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gpu/run.sh");
        let output = command("sh").arg("-n").arg(&script).output().expect("there is a shell");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
