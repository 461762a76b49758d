//! Compares our SquashFS writer with `mksquashfs`, with the same settings, threads and warm files.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde_json::json;

use super::machine;
use super::timed::{self, measure};

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
    timed::head();
    for setting in &SETTINGS {
        let mut runs = [("mksquashfs", Vec::new()), ("gular", Vec::new())];
        for round in 0..=rounds {
            for (name, done) in &mut runs {
                let _ = fs::remove_file(&image);
                let ours = *name == "gular";
                let program = if ours { example } else { Path::new("mksquashfs") };
                let mut command = Command::new(program);
                command.arg(source).arg(&image);
                if ours {
                    command.args(["--jobs", &threads]).args(setting.ours);
                } else {
                    command.args(["-no-progress", "-processors", &threads]).args(setting.theirs);
                }
                let measured = measure(&command, &image)?;
                if round > 0 {
                    done.push(measured);
                }
            }
        }
        for (name, done) in runs {
            rows.push(timed::row(setting.name, name, &done));
        }
    }
    let _ = fs::remove_file(&image);
    println!("{}", json!({ "bench": "squashfs", "machine": machine(), "rows": rows }));
    Ok(())
}
