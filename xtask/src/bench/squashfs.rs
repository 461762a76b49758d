//! Our SquashFS writer against `mksquashfs`, with the same settings, threads and warm files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{machine, median};

/// A setting: its name, and how each of the two is told.
struct Setting {
    name: &'static str,
    theirs: &'static [&'static str],
    ours: &'static [&'static str],
}

const SETTINGS: [Setting; 4] = [
    Setting {
        name: "stored",
        theirs: &["-noD", "-noF", "-noI", "-noX", "-no-fragments", "-no-sparse", "-no-duplicates"],
        ours: &["--stored", "--fragments", "none", "--keep-zeros"],
    },
    Setting {
        name: "zstd 3",
        theirs: &["-tailends", "-comp", "zstd", "-Xcompression-level", "3"],
        ours: &["--zstd", "3", "--fragments", "tails", "--deduplicate"],
    },
    Setting {
        name: "gzip 1",
        theirs: &["-tailends", "-comp", "gzip", "-Xcompression-level", "1"],
        ours: &["--gzip", "1", "--fragments", "tails", "--deduplicate"],
    },
    Setting {
        name: "gzip 9",
        theirs: &["-tailends", "-comp", "gzip", "-Xcompression-level", "9"],
        ours: &["--gzip", "9", "--fragments", "tails", "--deduplicate"],
    },
];

/// Runs `rounds` rounds on `source`, and one before them that warms.
pub(crate) fn run(
    example: &Path,
    source: &Path,
    threads: usize,
    rounds: usize,
    work: &Path,
) -> Result<()> {
    let (image, threads) = (work.join("image.squashfs"), threads.to_string());
    let mut rows = Vec::new();
    eprintln!("{:<8}{:<12}{:>9}{:>12}{:>13}", "", "", "seconds", "memory MB", "image bytes");
    for setting in &SETTINGS {
        let mut runs = [("mksquashfs", Vec::new()), ("gular", Vec::new())];
        for round in 0..=rounds {
            for (name, done) in &mut runs {
                let _ = fs::remove_file(&image);
                let mut command = Command::new("time");
                command.args(["-f", "%e %M"]);
                if *name == "gular" {
                    command.arg(example).arg(source).arg(&image);
                    command.args(["--threads", &threads]).args(setting.ours);
                } else {
                    command.arg("mksquashfs").arg(source).arg(&image);
                    command.args(["-no-progress", "-processors", &threads]).args(setting.theirs);
                }
                let measured = measure(&mut command, &image)?;
                if round > 0 {
                    done.push(measured);
                }
            }
        }
        for (name, done) in runs {
            rows.push(row(setting.name, name, &done));
        }
    }
    let _ = fs::remove_file(&image);
    println!("{}", json!({ "bench": "squashfs", "machine": machine(), "rows": rows }));
    Ok(())
}

struct Measured {
    seconds: f64,
    memory: u64,
    bytes: u64,
}

/// Runs `command`, GNU time with the program to measure.
fn measure(command: &mut Command, image: &Path) -> Result<Measured> {
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output();
    let output = output.context("cannot start `time`; install: apt-get install time")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
    let figures: Vec<_> = said.lines().last().unwrap_or_default().split(' ').collect();
    let [seconds, memory] = figures[..] else { bail!("{command:?} printed no figures: {said}") };
    Ok(Measured {
        seconds: seconds.parse()?,
        memory: memory.parse::<u64>()? * 1024,
        bytes: fs::metadata(image)?.len(),
    })
}

fn row(setting: &str, program: &str, runs: &[Measured]) -> Value {
    let seconds: Vec<_> = runs.iter().map(|run| run.seconds).collect();
    let memory = runs.iter().map(|run| run.memory).max().unwrap_or_default();
    let bytes = runs.first().map_or(0, |run| run.bytes);
    let (middle, megabytes) = (median(&seconds), memory as f64 / 1e6);
    eprintln!("{setting:<8}{program:<12}{middle:>9.2}{megabytes:>12.0}{bytes:>13}");
    json!({
        "setting": setting, "program": program, "seconds": seconds,
        "peak_memory_bytes": memory, "image_bytes": bytes,
    })
}
