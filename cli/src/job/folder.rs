//! Writes a job's folder, or shows what would be written.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use gular_jobs::write::{Folder, Written};
use serde_json::json;

use super::sources::{Source, files_of_folder};
use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;

/// Writes the folder, or shows what would be in it.
pub(super) fn finish(
    dir: &Path,
    folder: &Folder,
    sources: &[Source],
    dry_run: bool,
    output: &Output,
) -> Result<Exit, Failure> {
    if !dry_run {
        make(dir, folder, sources)?;
    }
    if output.json {
        let files: Vec<_> = folder
            .files
            .iter()
            .map(|file| json!({ "name": file.name, "text": file.text }))
            .collect();
        show::json(&json!({
            "dir": dir, "files": files, "notes": folder.notes, "once": folder.once,
            "start": folder.start, "dry_run": dry_run,
        }))?;
    } else if dry_run {
        show::text(&shown(folder))?;
    } else if !output.quiet {
        show::text(&made(dir, folder))?;
    }
    Ok(Exit::Done)
}

/// Writes the folder, which must not exist.
fn make(dir: &Path, folder: &Folder, sources: &[Source]) -> Result<(), Failure> {
    let failed = |action, path: &Path, e| Failure::from(gular_files::Error::new(action, path, e));
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|e| failed("create", parent, e))?;
    }
    fs::create_dir(dir).map_err(|e| {
        let mut failure = failed("create", dir, e);
        if dir.exists() {
            let hint = "choose a new folder: nothing is overwritten";
            failure =
                Failure::new(format!("`{}` exists already", dir.display()), Some(hint.to_owned()));
        }
        failure
    })?;
    for name in &folder.folders {
        let path = dir.join(name);
        fs::create_dir(&path).map_err(|e| failed("create", &path, e))?;
    }
    for source in sources {
        let to = dir.join(&source.name);
        if !source.path.is_dir() {
            fs::copy(&source.path, &to).map_err(|e| failed("copy to", &to, e))?;
            continue;
        }
        for file in files_of_folder(&source.path)? {
            let to = to.join(&file);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(|e| failed("create", parent, e))?;
            }
            fs::copy(source.path.join(&file), &to).map_err(|e| failed("copy to", &to, e))?;
        }
    }
    for Written { name, text, executable } in &folder.files {
        let path = dir.join(name);
        let mode = if *executable { 0o755 } else { 0o644 };
        let mut temp = gular_files::temp_with_mode(dir, mode)?;
        temp.write_all(text.as_bytes()).map_err(|e| failed("write", &path, e))?;
        gular_files::persist(temp, &path)?;
    }
    Ok(())
}

fn shown(folder: &Folder) -> String {
    let mut text = String::new();
    for file in &folder.files {
        let _ = write!(text, "== {}\n{}\n", file.name, file.text);
    }
    text
}

fn made(dir: &Path, folder: &Folder) -> String {
    let mut text = String::new();
    for note in &folder.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = write!(text, "next: cd {}", dir.display());
    for command in folder.once.iter().chain(&folder.start) {
        let _ = write!(text, " && {command}");
    }
    text.push('\n');
    text
}
