//! The user's files that travel with a job.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use gular_containers::python::PythonModules;
use gular_jobs::imports;

use crate::exit::Failure;

/// A file or folder that travels: where it is, its name in the job, its length.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// Most files that travel with a job. More are slow to move, and belong into a bundle or an
/// archive.
const MAX_FILES: usize = 1000;

/// Programs that a command means to be those of the machine or the image.
const INTERPRETERS: [&str; 8] =
    ["bash", "env", "julia", "perl", "python", "python3", "Rscript", "sh"];

/// Files that are named with `--input`, those of the command that are here, and the modules beside
/// them that they import.
pub(super) fn sources(input: &[PathBuf], commands: &[&[String]]) -> Result<Vec<Source>, Failure> {
    let mut found: Vec<Source> = Vec::new();
    let named = input.iter().map(|path| (path.clone(), true));
    let words = commands.iter().copied().flatten();
    let words = words.map(|word| (PathBuf::from(option_value(word).1), false));
    for (path, wanted) in named.chain(words) {
        let length = match fs::metadata(&path) {
            Ok(about) if about.is_file() => about.len(),
            Ok(_) if wanted => bytes_of_folder(&path)?,
            Err(error) if wanted => {
                let hint = "give the path of a file or folder, relative to this folder";
                let what = format!("cannot read `{}`: {error}", path.display());
                return Err(Failure::new(what, Some(hint.to_owned())));
            }
            _ => continue,
        };
        let name =
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut programs = commands.iter().filter_map(|command| command.first());
        let is_program = programs.any(|program| Path::new(program) == path);
        // `python3` is the machine's, whatever a file here is named.
        if is_program
            && !wanted
            && INTERPRETERS.contains(&name.as_str())
            && path.as_os_str() == name.as_str()
        {
            continue;
        }
        if is_program && !is_executable(&path) {
            let shown = path.display();
            let hint = format!(
                "run `chmod +x {shown}`, or put its interpreter in front: `python3 {shown}`"
            );
            return Err(Failure::new(format!("`{shown}` is not executable"), Some(hint)));
        }
        // A program of the system, by its path, is not a file of the user.
        if (!wanted && path.is_absolute()) || found.iter().any(|source| source.path == path) {
            continue;
        }
        found.push(Source { path, name, bytes: length });
    }
    let mut at = 0;
    while let Some(program) = found.get(at) {
        for module in modules(program)? {
            if !found.iter().any(|source| source.name == module.name) {
                found.push(module);
            }
        }
        at += 1;
    }
    Ok(found)
}

/// Splits `--config=a.yaml` before the value; any other word is a value as a whole.
pub(super) fn option_value(word: &str) -> (&str, &str) {
    let at = word.find('=').filter(|_| word.starts_with('-')).map_or(0, |at| at + 1);
    word.split_at(at)
}

/// Folders here that a command names and that do not travel: the job does not have them.
pub(super) fn left_here(sources: &[Source], commands: &[&[String]]) -> Vec<String> {
    let words = commands.iter().copied().flatten();
    let words = words.map(|word| option_value(word).1);
    let is_left = |word: &&str| {
        let path = Path::new(word);
        let travels = sources.iter().any(|source| source.path == path);
        !word.is_empty() && path.is_relative() && path.is_dir() && !travels
    };
    let mut left: Vec<String> = words.filter(is_left).map(str::to_owned).collect();
    left.sort();
    left.dedup();
    left
}

/// Files that the commands seem to read and that nobody brings, such as `weights.pt`.
pub(super) fn absent(sources: &[Source], urls: &[String], commands: &[&[String]]) -> Vec<String> {
    const READ: [&str; 12] = [
        "safetensors",
        "pt",
        "pth",
        "ckpt",
        "onnx",
        "npy",
        "npz",
        "yaml",
        "yml",
        "toml",
        "csv",
        "h5",
    ];
    let is_absent = |word: &&String| {
        let (option, value) = option_value(word);
        let end = value.rsplit_once('.').map_or("", |(_, end)| end);
        let writes = ["out", "save", "log", "result"].iter().any(|part| option.contains(part));
        READ.contains(&end)
            && !writes
            && !value.contains(['/', '{', '$', '*', ' '])
            && !sources.iter().any(|source| source.name == value)
            && !urls.iter().any(|url| url.rsplit('/').next() == Some(value))
    };
    // `--out model.pt` is written by the job.
    let mut absent = BTreeSet::new();
    for command in commands {
        for (at, word) in command.iter().enumerate().filter(|(_, word)| is_absent(word)) {
            let before =
                at.checked_sub(1).and_then(|at| command.get(at)).map_or("", String::as_str);
            let writes = ["out", "save", "log", "result"].iter().any(|part| before.contains(part));
            if !writes {
                absent.insert(option_value(word).1.to_owned());
            }
        }
    }
    absent.into_iter().collect()
}

/// Files and folders of this machine that commands name by their whole path: not those where an
/// image has its own.
pub(super) fn of_machine(commands: &[&[String]]) -> Vec<String> {
    const OF_IMAGES: [&str; 12] = [
        "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/sbin", "/sys",
        "/usr", "/var",
    ];
    let words = commands.iter().copied().flatten().map(|word| option_value(word).1);
    let is_ours = |word: &&str| {
        let path = Path::new(word);
        let of_image = OF_IMAGES.iter().any(|place| path.starts_with(place));
        let is_plain = !word.contains(['\'', ':', ',']);
        path.is_absolute() && *word != "/" && !of_image && is_plain && path.exists()
    };
    let mut paths: Vec<String> = words.filter(is_ours).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Modules and packages beside a Python program that it imports.
fn modules(program: &Source) -> Result<Vec<Source>, Failure> {
    let Some(text) = python_text(program) else { return Ok(Vec::new()) };
    let folder = program.path.parent().unwrap_or(Path::new(""));
    let mut modules: Vec<Source> = Vec::new();
    for (_, name) in imports(&text) {
        let file = format!("{name}.py");
        let (path, package) = (folder.join(&file), folder.join(name));
        let found = if let Ok(about) = fs::metadata(&path) {
            Source { path, name: file, bytes: about.len() }
        } else if package.join("__init__.py").is_file() {
            Source { bytes: bytes_of_folder(&package)?, path: package, name: name.to_owned() }
        } else {
            continue;
        };
        modules.push(found);
    }
    Ok(modules)
}

/// Returns the text of a Python program.
fn python_text(source: &Source) -> Option<String> {
    const MAX_BYTES: u64 = 1 << 20;
    let is_program = source.name.ends_with(".py") && source.bytes <= MAX_BYTES;
    is_program.then(|| fs::read_to_string(&source.path).ok()).flatten()
}

/// The files of a folder that travels, by their paths below it: not hidden ones, and not what
/// Python compiled. Links to folders are refused: they may lead anywhere.
pub(super) fn files_of_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |path: &Path, e| Failure::from(gular_files::Error::new("read", path, e));
    let mut files = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let at = folder.join(&below);
        for entry in fs::read_dir(&at).map_err(|e| failed(&at, e))? {
            let entry = entry.map_err(|e| failed(&at, e))?;
            let name = entry.file_name();
            let is_left = name.to_string_lossy().starts_with('.') || name == "__pycache__";
            if is_left {
                continue;
            }
            let path = below.join(name);
            let about = fs::metadata(entry.path()).map_err(|e| failed(&entry.path(), e))?;
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if about.is_dir() && is_link {
                let what = format!("`{}` is a link to a folder", entry.path().display());
                return Err(Failure::new(what, Some("name that folder with `--input`".to_owned())));
            }
            if about.is_dir() {
                open.push(path);
            } else {
                files.push(path);
            }
            if files.len() > MAX_FILES {
                let what = format!("`{}` has more than {MAX_FILES} files", folder.display());
                let hint = "many files are slow to move: make a bundle of images (`gular pack`), or pack the folder with tar";
                return Err(Failure::new(what, Some(hint.to_owned())));
            }
        }
    }
    files.sort();
    Ok(files)
}

fn bytes_of_folder(folder: &Path) -> Result<u64, Failure> {
    let files = files_of_folder(folder)?;
    let bytes = files.iter().filter_map(|file| Some(fs::metadata(folder.join(file)).ok()?.len()));
    Ok(bytes.sum())
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o111 != 0)
}

/// Whether a file is a Python program that imports the package.
pub(super) fn imports_gular(source: &Source) -> bool {
    python_text(source)
        .is_some_and(|text| imports(&text).iter().any(|(_, module)| *module == "gular"))
}

/// Modules that programs among the sources import wherever they run, and that neither travel nor are
/// in the image. A wheel may bring any.
pub(super) fn not_in_image(sources: &[Source], image: &PythonModules) -> Vec<(String, String)> {
    if sources.iter().any(|source| source.name.ends_with(".whl")) {
        return Vec::new();
    }
    let travels = |name: &str| {
        sources.iter().any(|s| s.name == name || s.name.strip_suffix(".py") == Some(name))
    };
    let mut found: Vec<(String, String)> = Vec::new();
    for (source, text) in sources.iter().filter_map(|s| Some((s, python_text(s)?))) {
        // Indented imports may belong to a `try:` or an `if`.
        let lines: Vec<&str> = text.lines().collect();
        let is_outer = |line: usize| {
            let (before, rest) = lines.split_at(line.saturating_sub(1).min(lines.len()));
            let in_text = ["\"\"\"", "'''"].iter().any(|quotes| {
                before.iter().map(|line| line.matches(quotes).count()).sum::<usize>() % 2 == 1
            });
            !in_text && rest.first().is_some_and(|line| line.starts_with(['i', 'f']))
        };
        for (line, name) in imports(&text) {
            let pair = (source.name.clone(), name.to_owned());
            let is_known = name == "gular" || !image.lacks(name) || travels(name);
            if is_outer(line) && !is_known && !found.contains(&pair) {
                found.push(pair);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_an_image_lacks_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.py");
        let text = "\"\"\"Train.\n\nimport never\n\"\"\"\nimport os, torch\nimport timm\nimport local, gular\nfrom .a import b\ntry:\n  import fast\nexcept ImportError:\n  pass\n";
        fs::write(&path, text).unwrap();
        fs::write(dir.path().join("local.py"), "").unwrap();
        let image = ["usr/lib/python3.11/os.py", "usr/lib/python3/dist-packages/torch/__init__.py"];
        let image: PythonModules = image.into_iter().collect();
        let mut sources = sources(&[path], &[]).unwrap();
        let lacking = not_in_image(&sources, &image);
        assert_eq!(lacking, [("train.py".to_owned(), "timm".to_owned())]);
        let wheel = Source { path: "a.whl".into(), name: "a.whl".to_owned(), bytes: 1 };
        sources.push(wheel);
        assert_eq!(not_in_image(&sources, &image), []);
    }

    #[test]
    fn modules_travel_with_the_program_that_imports_them() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("train.py", "import os, losses\nfrom nets.small import Net\nimport data\n");
        put("losses.py", "import more\n");
        put("more.py", "import losses\n");
        put("nets/__init__.py", "");
        put("nets/small.py", "import unused\n");
        put("nets/__pycache__/small.pyc", "x");
        put("nets/.hidden", "x");
        put("data/1.jpg", "not a package");
        let found = sources(&[dir.path().join("train.py")], &[]).unwrap();
        let names: Vec<&str> = found.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["train.py", "losses.py", "nets", "more.py"]);
        let files = files_of_folder(&dir.path().join("nets")).unwrap();
        assert_eq!(files, [Path::new("__init__.py"), Path::new("small.py")]);
        std::os::unix::fs::symlink(dir.path(), dir.path().join("nets/up")).unwrap();
        assert!(files_of_folder(&dir.path().join("nets")).is_err());
    }
}
