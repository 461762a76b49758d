//! The files on this machine that a recipe's `[python]` names.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use serde_json::json;

use super::decode::decode;
use super::kind::{self, InputKind};
use super::pinned::Pins;
use super::requirements::{self, Line, below};
use super::selection::Selection;
use super::wanted::{Ask, Place, Target, Wanted};
use super::{
    Interpreter, conda_environment, pipfile_lock, poetry_lock, pylock, pyproject, uv_lock,
};
use crate::recipe::PythonSection;
use crate::wheel::{Environment, machine};
use crate::{Error, OciDigest, Result, Sha256};

/// Largest file read: some 20,000 packages.
const MAX_BYTES: u64 = 32 << 20;

/// Most files that include each other.
const MAX_FILES: usize = 100;

/// The file that says which packages are needed, and those that belong to it.
#[derive(Debug)]
pub(super) struct Input {
    /// The path in the recipe.
    pub(super) path: String,
    kind: InputKind,
    text: String,
    /// Files that it includes, or that belong to it, by their paths from the recipe's folder.
    more: BTreeMap<String, String>,
    /// Wheels that requirements name by their paths.
    wheels: Vec<String>,
}

/// What a file says.
#[derive(Debug)]
pub(super) enum Read {
    /// Versions are chosen.
    Pins(Pins),
    Wanted(Wanted),
}

impl Input {
    /// `None` where wheels of this machine alone are asked for.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Limit`]; [`Error::Requirements`] for what is not such a file;
    /// [`Error::Recipe`] for a line of it that cannot be used.
    pub(super) fn open(python: &PythonSection, dir: &Path) -> Result<Option<Self>> {
        let Some(named) = python.lock.as_ref().or(python.requirements.as_ref()) else {
            return Ok(None);
        };
        let path = named.display().to_string();
        let text = read(&path, dir)?;
        let unusable = |reason: String, hint: String| Error::Requirements {
            path: path.clone(),
            reason,
            hint: Some(hint),
        };
        let kind = match kind::of(&text) {
            Some(InputKind::Unusable(kind)) => {
                let command = kind.command.replace("FILE", &path);
                return Err(unusable(
                    format!("it is {}", kind.what),
                    format!("run `{command}`, and write `{}", kind.then),
                ));
            }
            Some(kind) => kind,
            None => {
                return Err(unusable(
                    "it does not name Python packages in a way that is known".to_owned(),
                    "give a `requirements.txt`, a `pyproject.toml`, an `environment.yml` or a lock file".to_owned(),
                ));
            }
        };
        if python.lock.is_some() && kind == InputKind::Pyproject {
            let beside = ["uv.lock", "poetry.lock", "pylock.toml"]
                .into_iter()
                .find(|name| dir.join(named).with_file_name(name).is_file());
            let hint = match beside {
                Some(name) => {
                    format!("write `lock = \"{}\"`", named.with_file_name(name).display())
                }
                None => format!(
                    "write `requirements = \"{path}\"`: its versions are then chosen by `uv`"
                ),
            };
            return Err(unusable(
                "it is not a lock file: it does not pin versions".to_owned(),
                hint,
            ));
        }
        let mut input = Self { path, kind, text, more: BTreeMap::new(), wheels: Vec::new() };
        input.open_more(python, dir)?;
        Ok(Some(input))
    }

    /// Reads the files that belong to the first one.
    fn open_more(&mut self, python: &PythonSection, dir: &Path) -> Result<()> {
        let mut waiting = match self.kind {
            InputKind::Requirements => self.lines_of(requirements::parse(&self.text, &self.path)?),
            InputKind::CondaEnvironment => self.lines_of(self.conda()?.0),
            InputKind::Pyproject => {
                pyproject::parse(&self.text, &self.path, &python.selection())?.files
            }
            InputKind::PoetryLock => {
                let beside = below(Path::new(&self.path), "../pyproject.toml");
                let there = dir.join(&beside).is_file();
                there.then_some(beside).into_iter().collect()
            }
            _ => Vec::new(),
        };
        while let Some(path) = waiting.pop() {
            if path == self.path || self.more.contains_key(&path) {
                continue;
            }
            if self.more.len() >= MAX_FILES {
                let (found, limit) = (MAX_FILES as u64 + 1, MAX_FILES as u64);
                return Err(Error::Limit { path, what: "files", found, limit });
            }
            let text = read(&path, dir)?;
            if self.kind != InputKind::PoetryLock {
                waiting.extend(self.lines_of(requirements::parse(&text, &path)?));
            }
            self.more.insert(path, text);
        }
        Ok(())
    }

    /// Keeps the wheels that lines name, and returns the files that they include.
    fn lines_of(&mut self, lines: Vec<Line>) -> Vec<String> {
        let mut files = Vec::new();
        for line in lines {
            match line {
                Line::Include { path, .. } => files.push(path),
                Line::Ask(Ask { target: Target::Here(path), .. }) => self.wheels.push(path),
                _ => {}
            }
        }
        files
    }

    /// Lines of an environment's part for pip, and its Python.
    fn conda(&self) -> Result<(Vec<Line>, conda_environment::Environment)> {
        let found = conda_environment::parse(&self.text, &self.path)?;
        let mut lines = Vec::new();
        for (line, text) in &found.lines {
            let read = requirements::parse(text, &self.path)?;
            let from = Place { path: self.path.clone(), line: *line };
            lines.extend(read.into_iter().map(|read| read.moved(&from)));
        }
        Ok((lines, found))
    }

    /// What the file says, for an image's Python.
    ///
    /// # Errors
    /// [`Error::Recipe`] with the line.
    pub(super) fn read(&self, selection: Selection<'_>, interpreter: &Interpreter) -> Result<Read> {
        let environment = Environment {
            machine: machine(interpreter.arch),
            extras: &[],
            python: &interpreter.version,
        };
        let (text, path) = (&self.text, &self.path);
        if matches!(
            self.kind,
            InputKind::Requirements | InputKind::Pylock | InputKind::CondaEnvironment
        ) {
            selection.must_be_empty(&Place { path: path.clone(), line: 1 })?;
        }
        Ok(match self.kind {
            InputKind::Pylock => Read::Pins(pylock::parse(text, path)?),
            InputKind::UvLock => Read::Pins(uv_lock::parse(text, path, &selection, &environment)?),
            InputKind::PoetryLock => {
                let project = self.more.values().next().map(String::as_str);
                Read::Pins(poetry_lock::parse(text, path, project, &selection, &environment)?)
            }
            InputKind::PipfileLock => Read::Pins(pipfile_lock::parse(text, path, &selection)?),
            InputKind::Pyproject => {
                let project = pyproject::parse(text, path, &selection)?;
                let mut wanted = project.wanted;
                for file in project.files {
                    self.include(&file, false, &mut wanted, &mut Vec::new())?;
                }
                Read::Wanted(wanted)
            }
            InputKind::CondaEnvironment => {
                let (lines, found) = self.conda()?;
                let mut wanted = Wanted { python: found.python, ..Wanted::default() };
                self.add(lines, false, &mut wanted, &mut Vec::new())?;
                Read::Wanted(wanted)
            }
            // Others were refused when the file was opened.
            InputKind::Requirements | InputKind::Unusable(_) => {
                let mut wanted = Wanted::default();
                let lines = requirements::parse(text, path)?;
                self.add(lines, false, &mut wanted, &mut vec![(path.clone(), false)])?;
                Read::Wanted(wanted)
            }
        })
    }

    fn add(
        &self,
        lines: Vec<Line>,
        constraints: bool,
        wanted: &mut Wanted,
        seen: &mut Vec<(String, bool)>,
    ) -> Result<()> {
        for line in lines {
            match line {
                Line::Ask(ask) if constraints => wanted.constraints.push(ask),
                Line::Ask(ask) => wanted.asks.push(ask),
                Line::Include { path, constraints: own, .. } => {
                    self.include(&path, constraints || own, wanted, seen)?;
                }
                Line::Prereleases => wanted.prereleases = true,
                other => other.add_to(&mut wanted.indexes),
            }
        }
        Ok(())
    }

    /// Adds another file's lines, once.
    fn include(
        &self,
        path: &str,
        constraints: bool,
        wanted: &mut Wanted,
        seen: &mut Vec<(String, bool)>,
    ) -> Result<()> {
        let known = (path.to_owned(), constraints);
        let Some(text) = self.more.get(path).filter(|_| !seen.contains(&known)) else {
            return Ok(());
        };
        seen.push(known);
        self.add(requirements::parse(text, path)?, constraints, wanted, seen)
    }

    /// Wheels that requirements name by their paths.
    pub(super) fn wheels(&self) -> impl Iterator<Item = &Path> {
        self.wheels.iter().map(Path::new)
    }
}

impl PythonSection {
    pub(super) fn selection(&self) -> Selection<'_> {
        Selection { extras: &self.extras, groups: &self.groups }
    }
}

/// Reads the file that a recipe's `[python]` names, to refuse it before anything is fetched.
///
/// # Errors
/// Those of [`Input::open`].
pub(crate) fn check_input(python: &PythonSection, dir: &Path) -> Result<()> {
    Input::open(python, dir).map(drop)
}

/// Number of packages that a file names, whatever its kind; `path` names it in errors. No other
/// file is read.
///
/// # Errors
/// [`Error::Recipe`] with the line; [`Error::Requirements`].
pub fn count_named(bytes: &[u8], path: &str) -> Result<usize> {
    let unknown = |reason: &str| Error::Requirements {
        path: path.to_owned(),
        reason: reason.to_owned(),
        hint: None,
    };
    let text = decode(bytes).ok_or_else(|| unknown("it is not a text"))?;
    let kind = kind::of(&text).ok_or_else(|| unknown("its kind is not known"))?;
    let (more, wheels) = (BTreeMap::new(), Vec::new());
    let input = Input { path: path.to_owned(), kind, text, more, wheels };
    let interpreter = Interpreter {
        version: "3.11.2".to_owned(),
        minor: 11,
        arch: crate::sif::Arch::Amd64,
        glibc: (2, 36),
        installed: BTreeMap::new(),
    };
    match input.read(Selection { extras: &[], groups: &[] }, &interpreter)? {
        Read::Pins(pins) => Ok(pins.pinned.len()),
        Read::Wanted(wanted) => Ok(wanted.asks.len()),
    }
}

/// Reads a file of at most [`MAX_BYTES`].
fn read(path: &str, dir: &Path) -> Result<String> {
    let here = dir.join(path);
    let unusable = |reason: &str, hint: &str| Error::Requirements {
        path: path.to_owned(),
        reason: reason.to_owned(),
        hint: Some(hint.to_owned()),
    };
    // A device has no end, and a pipe perhaps nothing that writes to it.
    if !std::fs::metadata(&here).map_err(Error::io("read", &here))?.is_file() {
        return Err(unusable("it is not a file", "save its text to a file, and give that"));
    }
    let file = std::fs::File::open(&here).map_err(Error::io("read", &here))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(Error::io("read", &here))?;
    let found = bytes.len() as u64;
    if found > MAX_BYTES {
        let path = path.to_owned();
        return Err(Error::Limit { path, what: "bytes", found, limit: MAX_BYTES });
    }
    decode(&bytes)
        .ok_or_else(|| unusable("it is not a text in UTF-8 or UTF-16", "save it as UTF-8"))
}

/// Digest of all that decides which wheels go in and is not in the recipe itself. It changes after
/// an edit of `requirements.txt`, or a new build of a wheel.
///
/// # Errors
/// Those of [`Input::open`].
pub(crate) fn digest(python: &PythonSection, dir: &Path) -> Result<OciDigest> {
    let input = Input::open(python, dir)?;
    let mut wheels = Vec::new();
    let named = input.iter().flat_map(Input::wheels);
    for path in python.wheels.iter().map(std::path::PathBuf::as_path).chain(named) {
        for path in super::local::find(path, dir)? {
            let digest = Sha256::of_file(&dir.join(&path))?.to_string();
            wheels.push([path.display().to_string(), digest]);
        }
    }
    let mut parts = json!({
        "text": input.as_ref().map(|input| Sha256::of(input.text.as_bytes())),
        "wheels": wheels,
    });
    // Locks made before files could include others stay as good as they are.
    if let Some(more) = input.map(|input| input.more).filter(|more| !more.is_empty())
        && let Some(parts) = parts.as_object_mut()
    {
        let texts =
            more.iter().map(|(path, text)| (path.clone(), json!(Sha256::of(text.as_bytes()))));
        parts.insert("more".to_owned(), texts.collect());
    }
    Ok(Sha256::of(parts.to_string().as_bytes()).into())
}
