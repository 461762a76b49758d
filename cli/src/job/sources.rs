//! Files of the user that travel with a job.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// A file that travels: where it is, its name in the job, its length.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// Files that are named with `--input`, and those of the command that are here.
pub(super) fn sources(input: &[PathBuf], commands: &[&[String]]) -> Result<Vec<Source>, Failure> {
    let mut found: Vec<Source> = Vec::new();
    let named = input.iter().map(|path| (path.clone(), true));
    let words = commands.iter().copied().flatten().map(|word| (PathBuf::from(word), false));
    for (path, wanted) in named.chain(words) {
        let length = match fs::metadata(&path) {
            Ok(about) if about.is_file() => about.len(),
            Ok(_) if wanted => {
                let hint = "pack it with tar, or publish it";
                return Err(Failure::new(
                    format!("`{}` is a folder", path.display()),
                    Some(hint.to_owned()),
                ));
            }
            Err(error) if wanted => {
                let hint = "give the path of a file from this folder";
                let what = format!("cannot read `{}`: {error}", path.display());
                return Err(Failure::new(what, Some(hint.to_owned())));
            }
            _ => continue,
        };
        let name =
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut programs = commands.iter().filter_map(|command| command.first());
        let is_program = programs.any(|program| Path::new(program) == path);
        if is_program && !is_executable(&path) {
            let shown = path.display();
            let hint = format!("run `chmod +x {shown}`, or name what starts it: `python3 {shown}`");
            return Err(Failure::new(format!("`{shown}` is not executable"), Some(hint)));
        }
        // A program of the system, by its path, is not a file of the user.
        if (!wanted && path.is_absolute()) || found.iter().any(|source| source.path == path) {
            continue;
        }
        found.push(Source { path, name, bytes: length });
    }
    Ok(found)
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o111 != 0)
}

/// Whether a file is a Python program with a line that imports the package.
pub(super) fn imports_gular(source: &Source) -> bool {
    const MAX_BYTES: u64 = 1 << 20;
    let is_program = source.name.ends_with(".py") && source.bytes <= MAX_BYTES;
    let text = is_program.then(|| fs::read_to_string(&source.path).ok()).flatten();
    let imports = |line: &str| {
        let line = line.trim_start();
        ["import gular", "from gular "].iter().any(|start| line.starts_with(start))
    };
    text.is_some_and(|text| text.lines().any(imports))
}
