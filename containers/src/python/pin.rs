//! Requirements without versions or hashes: `uv` resolves them.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Interpreter;
use crate::wheel::machine;
use crate::{Error, Result};

/// The words of the command that pins `path` for an image's Python; its answer goes to
/// standard output.
fn words(path: &str, interpreter: &Interpreter) -> Vec<String> {
    let platform = platform(interpreter);
    let python = interpreter.short();
    let words = [
        "pip",
        "compile",
        path,
        "--generate-hashes",
        "--python-version",
        &python,
        "--python-platform",
        &platform,
        "--only-binary",
        ":all:",
        "--emit-index-url",
    ];
    words.map(str::to_owned).to_vec()
}

/// The newest that uv knows of those that the C library serves.
fn platform(interpreter: &Interpreter) -> String {
    // The versions that `uv pip compile --help` lists.
    let known = [40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 28];
    let (major, minor) = interpreter.glibc;
    let serves = |number: &&u32| major > 2 || **number <= minor;
    let number = known.iter().find(serves).unwrap_or(&28);
    format!("{}-manylinux_2_{number}", machine(interpreter.arch))
}

/// The command for a person to run.
pub(super) fn command(path: &str, interpreter: &Interpreter) -> String {
    let pinned = match path.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}.pinned.{extension}"),
        None => format!("{path}.pinned"),
    };
    format!("uv {} -o {pinned}", words(path, interpreter).join(" "))
}

/// Runs `uv` on a file in `dir`, with `index` unless the file names one of its own.
/// Returns pinned requirements.
///
/// # Errors
/// [`Error::Wheel`] with what uv says.
pub(super) fn pin(
    uv: &Path,
    path: &str,
    dir: &Path,
    index: Option<&str>,
    interpreter: &Interpreter,
) -> Result<String> {
    let mut command = Command::new(uv);
    command.args(words(path, interpreter)).args(["--quiet", "--no-header"]);
    if let Some(index) = index {
        command.args(["--default-index", index]);
    }
    command.current_dir(dir).stdin(Stdio::null());
    let failed = |reason: String| Error::Wheel { name: path.to_owned(), reason, hint: None };
    let answer = command
        .output()
        .map_err(|e| failed(format!("`{}` cannot be started: {e}", uv.display())))?;
    if !answer.status.success() {
        let said = String::from_utf8_lossy(&answer.stderr);
        return Err(failed(format!("uv finds no versions that fit together: {}", said.trim())));
    }
    String::from_utf8(answer.stdout).map_err(|_| failed("uv's answer is not UTF-8".to_owned()))
}
