//! `gular job translate`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use gular_jobs::translate::{Translation, translate};
use gular_jobs::{Disk as _, LocalDisk};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;

/// Write a Slurm batch script as an HTCondor submit file, or the reverse
///
/// The new files are written beside FILE: `train.sub` and `train.sh` for `train.sbatch`,
/// `train.sbatch` for `train.sub`. Everything that the other batch system has no counterpart for is
/// named with its line. Jobs of several nodes or tasks are refused. Nothing is overwritten or
/// submitted.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular job translate train.sbatch --dry-run")]
pub(super) struct TranslateArgs {
    /// A batch script for sbatch, or a submit file
    file: PathBuf,
    /// Show the new files and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &TranslateArgs, output: &Output) -> Result<Exit, Failure> {
    let name = args.file.to_string_lossy();
    let disk = LocalDisk::default();
    let Some(text) = disk.text(&name) else {
        let hint = "give a batch script or a submit file";
        return Err(Failure::new(
            format!("`{name}` cannot be read as a text"),
            Some(hint.to_owned()),
        ));
    };
    let done = translate(&name, &text, &disk)
        .map_err(|refusal| Failure::new(refusal.what, Some(refusal.fix)))?;
    let folder = args.file.parent().unwrap_or(Path::new(""));
    let paths: Vec<PathBuf> = done.files.iter().map(|(file, _)| folder.join(file)).collect();
    if !args.dry_run {
        write(&done, &paths)?;
    }
    let facts = json!({
        "files": done.files.iter().zip(&paths).map(|((_, text), path)| json!({ "path": path, "text": text })).collect::<Vec<_>>(),
        "left": done.left, "dry_run": args.dry_run,
    });
    show::value(&facts, &words(&done, &paths, args.dry_run), output)?;
    Ok(Exit::Done)
}

/// Writes the files, none of which may exist.
fn write(done: &Translation, paths: &[PathBuf]) -> Result<(), Failure> {
    if let Some(path) = paths.iter().find(|path| path.exists()) {
        let hint = "move it away, or see the new files with `--dry-run`: nothing is overwritten";
        let message = format!("`{}` exists already", path.display());
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let mut made = Vec::new();
    for ((_, text), path) in done.files.iter().zip(paths) {
        let mut temp = gular_files::temp_with_mode(gular_files::folder_of(path), 0o666)?;
        temp.write_all(text.as_bytes()).map_err(|e| gular_files::Error::new("write", path, e))?;
        made.push((temp, path));
    }
    let mut written: Vec<&Path> = Vec::new();
    for (temp, path) in made {
        if let Err(error) = gular_files::persist_new(temp, path) {
            // One is of no use without the other.
            for path in written {
                let _ = fs::remove_file(path);
            }
            return Err(error.into());
        }
        written.push(path);
    }
    Ok(())
}

fn words(done: &Translation, paths: &[PathBuf], dry_run: bool) -> String {
    let mut text = String::new();
    for ((_, contents), path) in done.files.iter().zip(paths) {
        let _ = match dry_run {
            true => write!(text, "--- {}\n{contents}", path.display()),
            false => writeln!(text, "wrote {}", path.display()),
        };
    }
    if !done.left.is_empty() {
        text.push_str("not translated:\n");
    }
    for left in &done.left {
        let _ = writeln!(text, "  line {}: {}: {}", left.line, left.what, left.why);
    }
    text
}
