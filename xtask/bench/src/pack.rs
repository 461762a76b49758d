//! Compares `gular pack` with `tar` of the same files followed by `sync` of the result, and its
//! parts with what limits them (`bench/examples/pack_rates.rs`).
//!
//! Both read warm files and write to the same disk; a round runs one after the
//! other, so that a noisy minute hits both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
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

/// The measurements of `pack_rates`.
pub(crate) const RATES: [&str; 4] = ["raw", "archives", "tiles", "index"];

/// Tiles of 256 pixels, cut from scenes of 4096 in blocks of 256; their rates on one thread, read
/// alone, and written to a file, which is on the disk before the clock stops.
const SCENES: &str = "
import os, pathlib, sys, time
import numpy as np, rasterio
from rasterio.windows import Window
folder, rounds = pathlib.Path(sys.argv[2]), int(sys.argv[3])
if sys.argv[1] == 'make':
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(2):
        random = np.random.default_rng(i)
        hills = np.add.outer(np.arange(4096), np.arange(4096)) // 8
        with rasterio.open(folder / f'{i}.tif', 'w', driver='GTiff', width=4096, height=4096, count=4, dtype='uint16', tiled=True, blockxsize=256, blockysize=256, compress='deflate', predictor=2) as file:
            for band in range(1, 5):
                file.write((hills + random.integers(0, 200, hills.shape) + 1000 * band).astype('uint16'), band)
else:
    def rate(take, done):
        start, n = time.perf_counter(), 0
        for path in sorted(folder.glob('*.tif')):
            with rasterio.open(path) as file:
                for y in range(0, 4096, 256):
                    for x in range(0, 4096, 256):
                        take(file.read(window=Window(x, y, 256, 256)))
                        n += 1
        done()
        return n / (time.perf_counter() - start)
    def written():
        with open(folder / 'tiles.bin', 'wb') as out:
            def take(tile):
                out.write(np.ascontiguousarray(tile.transpose(1, 2, 0)))
            def done():
                out.flush()
                os.fsync(out.fileno())
            return rate(take, done)
    for measure in (lambda: rate(lambda tile: None, lambda: None), written):
        rates = [measure() for _ in range(rounds + 1)][1:]
        print(sorted(rates)[len(rates) // 2])
";

/// The programs that [`rates`] starts.
pub(crate) struct Programs {
    pub(crate) rates: PathBuf,
    /// An interpreter with rasterio.
    pub(crate) python: PathBuf,
}

/// Measures each of `names`, and returns a record for each.
pub(crate) fn rates(
    programs: &Programs,
    images: &Path,
    rounds: usize,
    names: &[&str],
    work: &Path,
) -> Result<()> {
    let _ = fs::remove_dir_all(work);
    fs::create_dir_all(work)?;
    let (images, scenes) = (fs::canonicalize(images)?, work.join("scenes"));
    let python = |verb: &str| {
        let mut python = Command::new(&programs.python);
        python.args(["-c", SCENES, verb]).arg(&scenes).arg(rounds.to_string());
        // By default GDAL decodes on all cores.
        python.env("GDAL_NUM_THREADS", "1");
        python
    };
    for name in names {
        let source = match *name {
            "archives" => {
                run_quiet(
                    Command::new("tar")
                        .arg("-cf")
                        .arg(work.join("images.tar"))
                        .arg("-C")
                        .arg(&images)
                        .arg("."),
                )?;
                let zip =
                    "import shutil, sys; shutil.make_archive(sys.argv[1], 'zip', sys.argv[2])";
                let base = work.join("images");
                run_quiet(Command::new(&programs.python).args(["-c", zip]).arg(base).arg(&images))?;
                &images
            }
            "tiles" => {
                run_quiet(&mut python("make"))?;
                &scenes
            }
            _ => &images,
        };
        let mut command = Command::new(&programs.rates);
        command.arg(name).arg(source).arg(work).arg(rounds.to_string());
        let mut record: serde_json::Value = serde_json::from_str(&said(&mut command)?)?;
        if *name == "tiles" {
            let said = said(&mut python("read"))?;
            let peers = said.lines().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
            let [reads, writes] = peers.as_slice() else { bail!("two rates, not `{said}`") };
            let ours = record["median"].as_f64().unwrap_or_default();
            record["rasterio_reads_per_core"] = json!(reads);
            record["rasterio_writes_per_core"] = json!(writes);
            record["tiles_over_rasterio_that_reads"] = json!(ours / reads);
            record["tiles_over_rasterio_that_writes"] = json!(ours / writes);
            record["wanted"] = json!(1.0);
        }
        record["bench"] = json!(format!("pack {name}"));
        record["machine"] = machine();
        eprintln!("{name}: {record:#}");
        println!("{record}");
    }
    fs::remove_dir_all(work)?;
    Ok(())
}

/// Returns the output of a program.
fn said(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output =
        output.with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    ensure!(
        output.status.success(),
        "`{}` ended with {}",
        command.get_program().display(),
        output.status
    );
    Ok(String::from_utf8(output.stdout)?)
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
