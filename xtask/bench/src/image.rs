//! Measures writing container images of one tree: with our code, with our code again after a change
//! of the program alone, and with `mksquashfs`, which Apptainer calls.
//!
//! All read warm files. Our code also hashes the image, and waits until it is on the disk;
//! `mksquashfs` does neither.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use gular_plot::{Bar, Panel, chart};
use serde_json::{Value, json};

use xtask::process::{self, find};
use xtask::workspace::Workspace;

use super::pack::{walk, warm};
use super::timed::{self, Timed, measure};
use super::{bar, machine, median};

/// What is measured and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// A folder of libraries
    #[arg(long, value_name = "DIR")]
    set: Option<PathBuf>,
    /// The wheels of torch, as `pip download torch==2.11.0 -d DIR` fetches them (2.7 GB);
    /// their libraries are unpacked into target/bench (3.5 GB), once
    #[arg(long, value_name = "DIR", conflicts_with = "set")]
    wheels: Option<PathBuf>,
    /// Threads each may use
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Measured rounds of ours; one more comes before them, and mksquashfs runs once
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

const UNPACK: &str = include_str!("torch_libraries.py");

/// Name, and how `mksquashfs` is told: as Apptainer does, and as our zstd is.
const PEERS: [(&str, &[&str]); 2] =
    [("gzip", &["-comp", "gzip"]), ("zstd", &["-comp", "zstd", "-Xcompression-level", "3"])];

/// Most seconds that a first image may take with gzip, where the plot has its line.
const LIMIT: f64 = 20.0;

/// Runs the benchmark.
pub(crate) fn run(
    workspace: &Workspace,
    example: &Path,
    settings: &Settings,
    work: &Path,
) -> Result<()> {
    ensure!(settings.rounds > 0 && settings.jobs > 0, "`--rounds` and `--jobs` must be at least 1");
    fs::create_dir_all(work)?;
    let set = match (&settings.set, &settings.wheels) {
        (Some(set), _) => std::path::absolute(set)?,
        (None, Some(wheels)) => unpack(wheels, &work.with_file_name("torch-libraries"))?,
        (None, None) => bail!(
            "no files were given to make an image from: give a folder of libraries with `--set \
            DIR`, or fetch the wheels of torch (2.7 GB) with `python3 -m pip download \
            torch==2.11.0 -d wheels` and give `--wheels wheels`"
        ),
    };
    let mut files = Vec::new();
    walk(&set, &mut files)?;
    let bytes: u64 = files.iter().map(|f| Ok(fs::metadata(f)?.len())).sum::<Result<_>>()?;
    ensure!(!files.is_empty(), "no files below `{}`", set.display());
    eprintln!("{} files, {:.1} MB, {} threads", files.len(), bytes as f64 / 1e6, settings.jobs);
    let bench = Bench { example, set: &set, work, threads: settings.jobs.to_string() };
    let rows = bench.rows(settings.rounds)?;
    let _ = fs::remove_dir_all(work);
    let caption = format!(
        "{} libraries of {:.1} GiB, warm, {} threads",
        files.len(),
        bytes as f64 / f64::from(1 << 30),
        settings.jobs
    );
    let plot = workspace.root.join("docs/bench/image.svg");
    fs::write(&plot, chart(&panels(&rows), &caption))?;
    let record = json!({
        "bench": "image", "machine": machine(), "files": files.len(), "bytes": bytes,
        "threads": settings.jobs, "cache": "warm", "rows": rows,
    });
    println!("{record}");
    Ok(())
}

fn unpack(wheels: &Path, to: &Path) -> Result<PathBuf> {
    if !to.exists() {
        eprintln!("unpacking the libraries of `{}`", wheels.display());
        let part = to.with_extension("part");
        let _ = fs::remove_dir_all(&part);
        process::run(Command::new("python3").args(["-c", UNPACK]).arg(wheels).arg(&part))?;
        fs::rename(&part, to).with_context(|| format!("cannot make `{}`", to.display()))?;
    }
    Ok(to.to_owned())
}

struct Bench<'a> {
    example: &'a Path,
    set: &'a Path,
    work: &'a Path,
    threads: String,
}

/// Measurements of our code: the setting, what is in the cache, and the runs.
type Ours = (&'static str, &'static str, Vec<Timed>);

impl Bench<'_> {
    fn rows(&self, rounds: usize) -> Result<Vec<Value>> {
        // Digests that a build knows since the archives were unpacked.
        let known = self.work.join("known");
        let list = process::stdout_of(Command::new(self.example).arg("--digests").arg(self.set))?;
        fs::write(&known, list)?;
        let programs = [self.example.to_owned(), std::env::current_exe()?];
        let mut ours: Vec<Ours> = Vec::new();
        for squash in ["gzip", "zstd"] {
            ours.push((squash, "gular, first", Vec::new()));
            ours.push((squash, "gular, other program", Vec::new()));
        }
        for round in 0..=rounds {
            eprintln!("round {round} of {rounds}");
            for (number, (squash, _, runs)) in ours.iter_mut().enumerate() {
                let again = number % 2;
                let measured = self.ours(squash, &known, &programs[again], again == 1)?;
                // Round 0 fills the page cache, so it is not counted.
                if round > 0 {
                    runs.push(measured);
                }
            }
        }
        timed::head();
        let mut rows: Vec<_> =
            ours.iter().map(|(s, name, runs)| timed::row(s, name, runs)).collect();
        if find("mksquashfs").is_none() {
            eprintln!(
                "the program `mksquashfs` is missing; install it with `apt-get install squashfs-tools`"
            );
            return Ok(rows);
        }
        for (setting, flags) in PEERS {
            warm(self.set)?;
            let image = self.fresh("peer.squashfs")?;
            let mut command = Command::new("mksquashfs");
            command.arg(self.set).arg(&programs[0]).arg(&image).args(flags);
            command.args(["-no-progress", "-quiet", "-processors", &self.threads]);
            rows.push(timed::row(setting, "mksquashfs", &[measure(&command, &image)?]));
        }
        Ok(rows)
    }

    fn ours(&self, squash: &str, known: &Path, program: &Path, again: bool) -> Result<Timed> {
        let blocks = self.work.join("blocks");
        if !again {
            let _ = fs::remove_dir_all(&blocks);
        }
        warm(self.set)?;
        let image = self.fresh(if again { "again.sif" } else { "first.sif" })?;
        let mut command = Command::new(self.example);
        command.arg(self.set).arg(&image).args(["--jobs", &self.threads]);
        command.arg("--known").arg(known).arg("--blocks").arg(&blocks);
        command.arg("--program").arg(program);
        if squash == "zstd" {
            command.arg("--zstd");
        }
        let measured = measure(&command, &image)?;
        let reused = measured.said.split_whitespace().nth(1) != Some("0");
        ensure!(reused == again, "{command:?} used other blocks than expected: {}", measured.said);
        Ok(measured)
    }

    fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.work.join(name);
        if path.exists() {
            fs::remove_file(&path)?;
        }
        Ok(path)
    }
}

fn panels(rows: &[Value]) -> Vec<Panel> {
    let bar_of = |row: &Value, value: f64, digits: usize| -> Bar {
        let (setting, program) = (&row["setting"], &row["program"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        bar(&format!("{}, {}", text(program), text(setting)), value, digits)
    };
    let seconds = |row: &Value| {
        let values = row["seconds"].as_array().into_iter().flatten();
        median(&values.filter_map(Value::as_f64).collect::<Vec<_>>())
    };
    let bytes = |row: &Value| row["image_bytes"].as_f64().unwrap_or_default() / 1e9;
    vec![
        Panel {
            title: "Making an image, seconds (shorter is better)".to_owned(),
            bars: rows.iter().map(|row| bar_of(row, seconds(row), 1)).collect(),
            limit: Some((LIMIT, "20 s")),
        },
        Panel {
            title: "The image, GB (smaller is better)".to_owned(),
            bars: rows.iter().map(|row| bar_of(row, bytes(row), 2)).collect(),
            limit: None,
        },
    ]
}
