//! A program measured by GNU time.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::median;

/// One run of a program that writes an image.
pub(super) struct Timed {
    pub(super) seconds: f64,
    /// CPU time of all threads, in the kernel too, which other work on the machine changes little.
    cpu_seconds: f64,
    /// Largest resident memory, in bytes.
    memory: u64,
    /// Length of the image.
    bytes: u64,
    /// The program's output.
    pub(super) said: String,
}

/// Runs `program`, and takes down what it needed to write `image`.
pub(super) fn measure(program: &Command, image: &Path) -> Result<Timed> {
    let mut command = Command::new("time");
    command.args(["-f", "%e %U %S %M"]).arg(program.get_program()).args(program.get_args());
    let output = command.stdin(Stdio::null()).output();
    let output = output
        .context("cannot start the program `time`; install it with `apt-get install time`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
    let figures: Vec<_> = said.lines().last().unwrap_or_default().split(' ').collect();
    let [seconds, user, system, memory] = figures[..] else {
        bail!("{command:?} printed no figures: {said}")
    };
    let cpu_seconds = user.parse::<f64>()? + system.parse::<f64>()?;
    Ok(Timed {
        seconds: seconds.parse()?,
        // The time is rounded to the precision with which it was printed.
        cpu_seconds: (cpu_seconds * 100.0).round() / 100.0,
        memory: memory.parse::<u64>()? * 1024,
        bytes: fs::metadata(image)?.len(),
        said: String::from_utf8_lossy(&output.stdout).into_owned(),
    })
}

/// Prints the header for the columns of [`row`].
pub(super) fn head() {
    eprintln!(
        "{:<10}{:<26}{:>9}{:>13}{:>12}{:>13}",
        "", "", "seconds", "CPU seconds", "memory MB", "image bytes"
    );
}

/// A line of the table, and the same for the record.
pub(super) fn row(setting: &str, program: &str, runs: &[Timed]) -> Value {
    let of = |figure: fn(&Timed) -> f64| runs.iter().map(figure).collect::<Vec<_>>();
    let (seconds, cpu) = (of(|run| run.seconds), of(|run| run.cpu_seconds));
    let memory = runs.iter().map(|run| run.memory).max().unwrap_or_default();
    let bytes = runs.first().map_or(0, |run| run.bytes);
    eprintln!(
        "{setting:<10}{program:<26}{:>9.2}{:>13.2}{:>12.0}{bytes:>13}",
        median(&seconds),
        median(&cpu),
        memory as f64 / 1e6
    );
    json!({
        "setting": setting, "program": program, "seconds": seconds, "cpu_seconds": cpu,
        "peak_memory_bytes": memory, "image_bytes": bytes,
    })
}
