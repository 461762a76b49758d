//! The steps of a file, one after the other, and the recipe that they make.

use gular_registry::Reference;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::base::{self, Chosen};
use super::command::{Walk, joined, makes_programs, name_of};
use super::copy::{Copied, NoFile};
use super::draft::{Base, Draft};
use super::leftovers::{self, Leftover, LeftoverRun, Need};
use super::step::{Fate, Start, Step, StepKind};
use super::variables::{Unknown, Variables};
use super::write::{Launch, write};
use super::{ImportOptions, Imported, definition, dockerfile};
use crate::recipe::{MAX_STEPS, RunStep};
use crate::singularity::quoted;
use crate::{Error, Result};

/// Packages of Debian that are of no use in an image with `[python]`, and those with other names
/// than in Ubuntu or older releases: <https://packages.debian.org>.
const RENAMED: [(&str, Option<&str>); 10] = [
    ("python3-pip", None),
    ("python-pip", None),
    ("python3-venv", None),
    ("python3-virtualenv", None),
    ("python3-distutils", None),
    ("software-properties-common", None),
    ("libgl1-mesa-glx", Some("libgl1")),
    ("python", Some("python-is-python3")),
    ("python-dev", Some("python3-dev")),
    ("netcat", Some("netcat-openbsd")),
];

/// Variables that only tell the tools of a build something.
const OF_THE_BUILD: [&str; 3] = ["DEBIAN_FRONTEND", "DEBCONF_NONINTERACTIVE_SEEN", "TERM"];
const PREFIXES_OF_THE_BUILD: [&str; 3] = ["PIP_", "UV_", "POETRY_"];

/// Names of wheels that bring the CUDA libraries, or depend on such wheels
/// (<https://pypi.org/project/torch/>, <https://docs.jax.dev/en/latest/installation.html>,
/// <https://www.tensorflow.org/install/pip>).
const CUDA_WHEELS: [&str; 10] = [
    "torch",
    "torchvision",
    "torchaudio",
    "lightning",
    "pytorch-lightning",
    "vllm",
    "xformers",
    "jax[cuda",
    "tensorflow[and-cuda",
    "nvidia-",
];

/// Programs that run the file that follows them, and ends of the names of such files.
const INTERPRETERS: [&str; 8] =
    ["python", "bash", "sh", "dash", "Rscript", "perl", "julia", "node"];
const SCRIPTS: [&str; 6] = [".py", ".sh", ".R", ".pl", ".jl", ".js"];

/// Shells that wait for a person.
const SHELLS: [&str; 4] = ["bash", "sh", "zsh", "dash"];

/// Translates a Dockerfile or a definition file; `path` names it in errors and in the recipe.
///
/// # Errors
/// [`Error::Recipe`] with the line of what neither has.
pub fn translate(text: &str, path: &str, options: &ImportOptions) -> Result<Imported> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let stage = options.stage.as_deref();
    let is_definition = is_definition(&text);
    let steps = match is_definition {
        true => definition::steps(&text, path, &options.arguments, stage, options.keep_base)?,
        false => dockerfile::steps(&text, path, &options.arguments, stage, options.keep_base)?,
    };
    let mut work = Work {
        draft: Draft::default(),
        copied: Copied::default(),
        variables: Variables::before_base(),
        folder: "/".to_owned(),
        image: None,
        entrypoint: None,
        command: None,
        is_inherited: false,
        leftovers: Vec::new(),
        arguments: BTreeSet::new(),
        shell: Vec::new(),
        own: None,
        ended: BTreeMap::new(),
        placed: Vec::new(),
        packed: Vec::new(),
        options,
    };
    for (name, value) in &options.arguments {
        work.variables.set(name, value.clone());
    }
    for step in &steps {
        work.step(step);
    }
    let (draft, launch) = work.finish();
    if draft.base == Some(Base::Scratch) && launch.is_none() && draft.files.is_empty() {
        let reason = "the recipe would be empty: nothing of this file can be in it".to_owned();
        return Err(Error::Recipe { path: path.to_owned(), line: 1, reason, hint: None });
    }
    write(draft, launch, path, options)
}

/// Whether a text is a definition file: its first word is a key of the header.
fn is_definition(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let key = first.split(':').next().unwrap_or_default();
    first.contains(':') && !key.contains(char::is_whitespace) && !key.is_empty()
}

struct Work<'a> {
    draft: Draft,
    copied: Copied,
    variables: Variables,
    /// The folder in which commands run.
    folder: String,
    /// Line and name of the base image.
    image: Option<(usize, String)>,
    entrypoint: Option<(usize, Start)>,
    command: Option<(usize, Start)>,
    /// Whether the command is that of an earlier stage.
    is_inherited: bool,
    /// What each `RUN` or `%post` leaves to steps.
    leftovers: Vec<LeftoverRun>,
    /// The names of arguments.
    arguments: BTreeSet<String>,
    /// The words of the shell, if the file has one of its own.
    shell: Vec<String>,
    /// While another stage is done: what the image's own has.
    own: Option<OwnStage>,
    /// What stages leave to those that begin with them.
    ended: BTreeMap<Option<usize>, StageEnd>,
    /// What the last step copied: absolute path in the image, path from the context, if it has one.
    placed: Vec<(String, Option<String>)>,
    /// Line and text of archives, and the package with the program that unpacks them.
    packed: Vec<(usize, String, &'static str)>,
    options: &'a ImportOptions,
}

/// What another stage does not change.
struct OwnStage {
    env: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    variables: Variables,
    folder: String,
    image: Option<(usize, String)>,
    arguments: BTreeSet<String>,
    shell: Vec<String>,
    n_leftovers: usize,
}

/// What a stage leaves to those that begin with it.
#[derive(Clone)]
struct StageEnd {
    env: BTreeMap<String, String>,
    variables: Variables,
    folder: String,
    arguments: BTreeSet<String>,
    shell: Vec<String>,
}

impl Work<'_> {
    fn step(&mut self, step: &Step) {
        let Step { line, text, kind } = step;
        let line = *line;
        match kind {
            StepKind::OtherStage { begins_with } => return self.other_stage(*begins_with),
            StepKind::StageEnd(stage) => return self.stage_end(*stage),
            StepKind::OwnStage => return self.own_stage(),
            StepKind::WorkDir(_) => {}
            // What says how an image is started, or only differs.
            StepKind::Entrypoint(_)
            | StepKind::Cmd(_)
            | StepKind::Stage
            | StepKind::Other(Fate::Different(_))
                if self.own.is_some() =>
            {
                return;
            }
            _ => {}
        }
        match kind {
            StepKind::Image(image) => match self.variables.expand(image, false) {
                Ok(image) if image == "scratch" || is_image(&image) => {
                    self.begins(base::has_no_variables(&image), base::search_path(&image));
                    self.image = Some((line, image));
                }
                Ok(image) => {
                    self.begins(false, None);
                    let reason = format!("`{image}` is not the name of an image in a registry");
                    self.draft.missing(line, text, reason);
                }
                Err(Unknown(name)) => {
                    self.begins(false, None);
                    let reason = format!("`${name}` has no value: give one");
                    self.draft.missing(line, text, reason);
                }
            },
            StepKind::Archive(path) => {
                self.begins(false, None);
                self.draft.base = Some(Base::Oci(path.clone()));
            }
            StepKind::Debian(release) => {
                self.begins(true, Some(base::of_debian()));
                self.draft.base = base::release(release).map(Base::Debian);
            }
            StepKind::Scratch => {
                self.begins(true, Some(base::of_debian()));
                self.draft.base = Some(Base::Scratch);
            }
            StepKind::NoBase(reason) => {
                self.begins(false, None);
                self.draft.missing(line, text, *reason);
            }
            StepKind::Platform(platform) => match platform.as_str() {
                "linux/amd64" | "linux/arm64" => self.draft.platform = Some(platform.clone()),
                _ => self.draft.other(line, text, "the recipe is for `linux/amd64`"),
            },
            StepKind::Arg(text) => self.argument(text),
            StepKind::Env(words) => self.pairs(line, text, words, true),
            StepKind::Label(words) => self.pairs(line, text, words, false),
            StepKind::LabelIs(name, value) => match value.is_empty() {
                true => self.draft.other(line, text, "a label without a value says nothing"),
                false => drop(self.draft.labels.insert(name.clone(), value.clone())),
            },
            StepKind::Run { text, mounts, needs_more, is_cut_off } => {
                for (inside, here) in mounts {
                    self.copied.mount(&joined(&self.folder, inside), here);
                }
                let mut walk = Walk {
                    draft: &mut self.draft,
                    copied: &mut self.copied,
                    variables: self.variables.clone(),
                    folder: self.folder.clone(),
                    context: &self.options.context,
                    environment: Vec::new(),
                    before: Vec::new(),
                    source: String::new(),
                    leftovers: Vec::new(),
                };
                walk.run(text, line);
                let (environment, commands) = (walk.environment, walk.leftovers);
                self.leftovers.push(LeftoverRun {
                    commands,
                    folder: self.folder.clone(),
                    variables: self.variables.clone(),
                    given: self.options.arguments.keys().cloned().collect(),
                    arguments: self.arguments.clone(),
                    shell: self.shell.clone(),
                    has_mounts: !mounts.is_empty() || *needs_more,
                    is_cut_off: *is_cut_off,
                });
                for (line, text) in environment {
                    self.environment(&text, line);
                }
            }
            StepKind::OwnShell(words) => {
                self.shell.clone_from(words);
                let fate = "commands that become steps of `[[run]]` keep it; all others are read as those of a POSIX shell";
                self.draft.fate(line, text, Fate::Different(fate));
            }
            StepKind::Environment(script) => self.environment(script, line),
            StepKind::Copy { sources, dest, is_apptainer } => {
                self.copy(line, text, sources, dest, *is_apptainer);
            }
            StepKind::OtherStage { .. } | StepKind::OwnStage | StepKind::StageEnd(_) => {}
            StepKind::CopyFrom { sources, dest, is_apptainer } => {
                self.copy_from(line, text, sources, dest, *is_apptainer);
            }
            StepKind::Unpack { sources, dest } => self.unpack(line, text, sources, dest),
            StepKind::Text { lines, expands, dest } => {
                self.text(line, text, lines, *expands, dest);
            }
            StepKind::Modes(mode) => self.modes(line, text, mode),
            StepKind::WorkDir(dir) => {
                let dir = self.variables.expand(dir, false).unwrap_or_else(|_| dir.clone());
                self.folder = joined(&self.folder, &dir);
                self.copied.folder(&self.folder);
                if self.own.is_none() {
                    self.draft.other(line, text, "jobs start in their own folder");
                }
            }
            StepKind::Stage => self.is_inherited = true,
            StepKind::Entrypoint(start) => {
                // A new entrypoint drops the command of an earlier stage.
                if self.is_inherited {
                    self.command = None;
                }
                self.entrypoint = Some((line, start.clone()));
            }
            StepKind::Cmd(start) => {
                self.is_inherited = false;
                self.command = Some((line, start.clone()));
            }
            StepKind::Other(fate) => self.draft.fate(line, text, *fate),
        }
    }

    /// Notes whether the base's variables are known: `PATH` alone. Of others, it may be known too.
    fn begins(&mut self, is_known: bool, path: Option<String>) {
        self.variables.are_all = is_known;
        // Those before the base are not seen behind it.
        self.arguments.clear();
        if let Some(path) = path {
            self.variables.set("PATH", path);
        }
        if is_known {
            self.variables.set("HOME", "/root".to_owned());
        }
    }

    /// `ARG NAME=default`, or several.
    fn argument(&mut self, text: &str) {
        for word in shlex::split(text).unwrap_or_default() {
            let (name, default) =
                word.split_once('=').map_or((word.as_str(), None), |(n, v)| (n, Some(v)));
            self.arguments.insert(name.to_owned());
            if self.options.arguments.contains_key(name) {
                continue;
            }
            match default.map(|value| self.variables.expand(value, false)) {
                Some(Ok(value)) => self.variables.set(name, value),
                Some(Err(_)) => self.variables.forget(name),
                None => {}
            }
        }
    }

    /// `NAME=VALUE …` or `NAME VALUE`, of ENV and LABEL.
    fn pairs(&mut self, line: usize, text: &str, words: &str, is_env: bool) {
        let expanded = match self.variables.expand(words, true) {
            Ok(expanded) => expanded,
            Err(Unknown(name)) => {
                self.variables.forget_assigned(words);
                let reason = format!("the value of `${name}` is not known here: write the value");
                return self.draft.missing(line, text, reason);
            }
        };
        let first = expanded.split_whitespace().next().unwrap_or_default();
        let pairs: Vec<(String, String)> = if first.contains('=') {
            let words = shlex::split(&expanded).unwrap_or_default();
            words.iter().filter_map(|word| word.split_once('=')).map(owned).collect()
        } else {
            let pair = expanded.trim().split_once(char::is_whitespace);
            let unquoted = |value: &str| without_quotes(value.trim());
            pair.map(|(name, value)| (name.to_owned(), unquoted(value))).into_iter().collect()
        };
        if pairs.is_empty() {
            return self.draft.missing(line, text, "expected `NAME=VALUE`");
        }
        for (name, value) in pairs {
            match is_env {
                true => self.variable(line, text, &name, value),
                false => drop(self.draft.labels.insert(name, value)),
            }
        }
    }

    fn variable(&mut self, line: usize, text: &str, name: &str, value: String) {
        self.variables.set(name, value.clone());
        let of_build = OF_THE_BUILD.contains(&name)
            || PREFIXES_OF_THE_BUILD.iter().any(|prefix| name.starts_with(prefix));
        if of_build {
            return;
        }
        if !crate::singularity::is_variable(name) {
            return self.draft.missing(line, text, "it is not the name of a variable");
        }
        self.draft.env.insert(name.to_owned(), value);
    }

    /// `%environment`: a script, of which the assignments are taken.
    fn environment(&mut self, script: &str, line: usize) {
        for command in super::shell::commands(script) {
            let line = line + command.line;
            let text = command.text.as_str();
            let reason = "only plain assignments can be in `[env]`";
            let expanded = self.variables.expand(text, true);
            let unknown = expanded.as_ref().err().cloned();
            let words = expanded.ok().and_then(|expanded| shlex::split(&expanded));
            let (Some(words), true) = (words, command.is_plain) else {
                self.variables.forget_assigned(text);
                let reason = match &unknown {
                    Some(Unknown(name)) if command.is_plain => {
                        format!("the value of `${name}` is not known here: write the value")
                    }
                    _ => reason.to_owned(),
                };
                self.draft.missing(line, text, reason);
                continue;
            };
            let words = match words.split_first() {
                Some((first, rest)) if first == "export" => rest.to_vec(),
                _ => words,
            };
            for word in words {
                match word.split_once('=') {
                    Some((name, value)) => self.variable(line, text, name, value.to_owned()),
                    // `export NAME` after its assignment.
                    None if self.variables.get(&word).is_some() => {}
                    None => {
                        self.draft.missing(line, text, reason);
                        break;
                    }
                }
            }
        }
    }

    fn copy(
        &mut self,
        line: usize,
        text: &str,
        sources: &[String],
        dest: &str,
        is_apptainer: bool,
    ) {
        self.placed.clear();
        let expand = |text: &String| self.variables.expand(text, false);
        let sources: Result<Vec<String>, Unknown> = sources.iter().map(expand).collect();
        let (sources, dest) = match (sources, expand(&dest.to_owned())) {
            (Ok(sources), Ok(dest)) => (sources, dest),
            (Err(Unknown(name)), _) | (_, Err(Unknown(name))) => {
                let reason = format!("the value of `${name}` is not known here");
                return self.draft.missing(line, text, reason);
            }
        };
        // The `/` at the end says that it is a folder.
        let slash =
            if dest.ends_with('/') || matches!(dest.as_str(), "." | "./") { "/" } else { "" };
        let dest = format!("{}{slash}", joined(&self.folder, &dest).trim_end_matches('/'));
        let context = &self.options.context;
        let copied = match self.copied.copy(&sources, &dest, context, is_apptainer) {
            Ok(copied) => copied,
            Err(NoFile(pattern)) => {
                let reason = format!("no file is called `{pattern}`");
                return self.draft.missing(line, text, reason);
            }
        };
        for (inside, here) in copied {
            if context.join(&here).is_dir() && context.join(".dockerignore").exists() {
                let reason = "`.dockerignore` is not read: all files of the folder are copied";
                self.draft.other(line, text, reason);
            }
            if !context.join(&here).exists() {
                let reason = format!("`{here}` is not here: copy it before the image is built");
                self.draft.other(line, text, reason);
            }
            let here = if here.is_empty() { ".".to_owned() } else { here };
            let inside = inside.trim_start_matches('/').to_owned();
            if inside.is_empty() {
                let reason = "files cannot be copied to `/` itself: name a folder";
                self.draft.missing(line, text, reason);
                continue;
            }
            self.placed.push((format!("/{inside}"), Some(here.clone())));
            self.draft.texts.remove(&inside);
            self.draft.files.insert(inside, here);
        }
    }

    /// Another stage begins.
    fn other_stage(&mut self, begins_with: Option<usize>) {
        self.own = Some(OwnStage {
            env: std::mem::take(&mut self.draft.env),
            labels: self.draft.labels.clone(),
            variables: self.variables.clone(),
            folder: std::mem::replace(&mut self.folder, "/".to_owned()),
            image: self.image.take(),
            arguments: self.arguments.clone(),
            shell: std::mem::take(&mut self.shell),
            n_leftovers: self.leftovers.len(),
        });
        if let Some(end) = self.ended.get(&begins_with).cloned() {
            self.draft.env = end.env;
            self.variables = end.variables;
            self.folder = end.folder;
            self.arguments = end.arguments;
            self.shell = end.shell;
        }
    }

    /// A stage ends, which another one may begin with.
    fn stage_end(&mut self, stage: Option<usize>) {
        let end = StageEnd {
            env: self.draft.env.clone(),
            variables: self.variables.clone(),
            folder: self.folder.clone(),
            arguments: self.arguments.clone(),
            shell: self.shell.clone(),
        };
        self.ended.insert(stage, end);
    }

    /// Another stage ends: its commands keep its variables.
    fn own_stage(&mut self) {
        let Some(own) = self.own.take() else { return };
        let env = std::mem::replace(&mut self.draft.env, own.env);
        for run in self.leftovers.iter_mut().skip(own.n_leftovers) {
            run.arguments.extend(env.keys().cloned());
        }
        self.draft.labels = own.labels;
        self.variables = own.variables;
        self.folder = own.folder;
        self.image = own.image;
        self.arguments = own.arguments;
        self.shell = own.shell;
    }

    /// Files of another stage are there already: a step puts them where they belong.
    fn copy_from(
        &mut self,
        line: usize,
        text: &str,
        sources: &[String],
        dest: &str,
        is_apptainer: bool,
    ) {
        let expand = |text: &String| self.variables.expand(text, false);
        let sources: Result<Vec<String>, Unknown> = sources.iter().map(expand).collect();
        let (sources, to) = match (sources, expand(&dest.to_owned())) {
            (Ok(sources), Ok(to)) => (sources, to),
            (Err(Unknown(name)), _) | (_, Err(Unknown(name))) => {
                let reason = format!("the value of `${name}` is not known here");
                return self.draft.missing(line, text, reason);
            }
        };
        let is_folder = to.ends_with('/') || sources.len() > 1 || matches!(to.as_str(), "." | "..");
        let to = joined(&self.folder, &to);
        let (mut source, mut is_of_python) = (String::new(), false);
        for from in sources.iter().map(|from| joined("/", from)) {
            if from != to && self.is_of_python(&from) && self.copied.has_within(&from) {
                let reason = "it has packages of Python, which are in `[python]`, and files of this machine: name those in `[app.files]`";
                return self.draft.missing(line, text, reason);
            } else if self.is_of_python(&from) {
                is_of_python = true;
                let reason = "it has packages of Python, which are in `[python]`";
                self.draft.other(line, text, reason);
            } else if let Some(path) = [&from, &to].into_iter().find(|path| is_unkept(path)) {
                let reason = format!(
                    "steps of `[[run]]` do not keep what is in `{path}`: make it in another folder"
                );
                return self.draft.missing(line, text, reason);
            } else if from != to && to.starts_with(&format!("{}/", from.trim_end_matches('/'))) {
                let reason =
                    "a folder cannot be copied into itself: copy it in a step of `[[run]]`";
                return self.draft.missing(line, text, reason);
            } else if from != to {
                source.push_str(&match is_apptainer {
                    true => copying_as_apptainer(&from, &to, is_folder),
                    false => copying(&from, &to, is_folder),
                });
            }
        }
        if source.is_empty() && is_of_python {
            return;
        }
        if source.is_empty() {
            let reason = "it is there: what the other stage installs and makes stays in the image";
            return self.draft.other(line, text, reason);
        }
        self.makes(line, text, source.trim_end().to_owned());
    }

    /// Whether a path of another stage is where its `pip` installs packages.
    fn is_of_python(&self, path: &str) -> bool {
        let has_packages = !self.draft.requirements.is_empty() || self.draft.lock.is_some();
        let is_environment = self.draft.environments.iter().any(|env| {
            path.strip_prefix(env.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        let ends = ["/.local", "/site-packages", "/dist-packages"];
        is_environment || has_packages && ends.iter().any(|end| path.ends_with(end))
    }

    /// Archives that are unpacked into a folder: by a step, which removes them.
    fn unpack(&mut self, line: usize, text: &str, sources: &[String], dest: &str) {
        let folder = format!("{}/", dest.trim_end_matches('/'));
        let to = self.variables.expand(&folder, false).unwrap_or_else(|_| folder.clone());
        if is_unkept(&joined(&self.folder, &to)) {
            let reason = format!(
                "steps of `[[run]]` do not keep what is in `{to}`: unpack it on this machine, and name its folder in `[app.files]`"
            );
            return self.draft.missing(line, text, reason);
        }
        self.copy(line, text, sources, &folder, false);
        let source = self.placed.iter().map(|(archive, _)| {
            let folder = archive.rsplit_once('/').map_or("", |(folder, _)| folder);
            let folder = if folder.is_empty() { "/" } else { folder };
            let (archive, folder) = (quoted(archive), quoted(folder));
            format!("tar -xf {archive} -C {folder} && rm {archive}")
        });
        let source: Vec<String> = source.collect();
        for (archive, _) in &self.placed {
            let row = UNPACKERS.iter().find(|(end, _)| archive.ends_with(end));
            self.packed.extend(row.map(|(_, package)| (line, text.to_owned(), *package)));
        }
        if !source.is_empty() {
            self.makes(line, text, source.join("\n"));
        }
    }

    /// A text that becomes a file.
    fn text(&mut self, line: usize, text: &str, lines: &str, expands: bool, dest: &str) {
        self.placed.clear();
        let expanded = match expands {
            true => self.variables.expand(lines, false),
            false => Ok(lines.to_owned()),
        };
        let (Ok(lines), Ok(dest)) = (expanded, self.variables.expand(dest, false)) else {
            let reason = "it has the value of a variable that is not known here: write the text to a file, and name it in `[app.files]`";
            return self.draft.missing(line, text, reason);
        };
        let inside = joined(&self.folder, &dest);
        let base = inside.rsplit('/').next().unwrap_or_default();
        let name = format!("{}-{base}", self.options.name);
        // The packages of Python have a file of this name.
        let is_taken = base == "requirements.txt"
            || self.draft.texts.values().any(|(other, _)| *other == name);
        if dest.ends_with('/') || base.is_empty() || is_taken {
            let reason = "write the text to a file, and name it in `[app.files]`";
            return self.draft.missing(line, text, reason);
        }
        self.placed.push((inside.clone(), None));
        let inside = inside.trim_start_matches('/').to_owned();
        self.draft.files.remove(&inside);
        self.draft.texts.insert(inside, (name, lines));
    }

    /// `--chmod`: a step, if files are to be programs and are none here.
    fn modes(&mut self, line: usize, text: &str, mode: &str) {
        let Ok(mode) = self.variables.expand(mode, false) else {
            let reason =
                "the mode of `--chmod` is not known here: write it into a step of `[[run]]`";
            return self.draft.missing(line, text, reason);
        };
        if !makes_programs(&mode) {
            return;
        }
        let mut paths = Vec::new();
        for (inside, here) in &self.placed {
            if is_unkept(inside) {
                let reason = format!(
                    "steps of `[[run]]` do not keep modes in `{}`: `chmod` the file here",
                    parent(inside)
                );
                return self.draft.missing(line, text, reason);
            }
            let here = here.as_ref().map(|here| self.options.context.join(here));
            if !programs(inside, here.as_deref(), &mut paths) {
                let reason = "`--chmod` of so many files is not done: `chmod` them here, or in a step of `[[run]]`";
                return self.draft.missing(line, text, reason);
            }
        }
        if !paths.is_empty() {
            let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
            let source = format!("chmod {} {}", quoted(&mode), paths.join(" "));
            self.makes(line, &source, source.clone());
        }
    }

    /// A command that only a step can run.
    fn makes(&mut self, line: usize, text: &str, source: String) {
        let fate = Some(Fate::Missing("write it into a step of `[[run]]`"));
        let text = text.to_owned();
        self.leftovers.push(LeftoverRun {
            commands: vec![Leftover { line, text, source, need: Need::Makes, fate }],
            folder: "/".to_owned(),
            variables: Variables::default(),
            given: BTreeSet::new(),
            arguments: BTreeSet::new(),
            shell: Vec::new(),
            has_mounts: false,
            is_cut_off: false,
        });
    }

    /// Chooses what depends on all steps.
    fn finish(mut self) -> (Draft, Option<Launch>) {
        let cuda = self.brings_cuda();
        let mut differs = None;
        let mut has_python = false;
        if let Some((line, image)) = &self.image {
            let chosen = base::choose(image, cuda, self.options.keep_base);
            let Chosen { base, has_python: python, differs: how } = chosen;
            self.draft.base = Some(base);
            has_python = python;
            differs = how.map(|how| (*line, format!("FROM {image}"), how));
        }
        if let Some((line, text, how)) = differs {
            self.draft.other(line, &text, how);
        }
        self.draft.base.get_or_insert(Base::Debian("bookworm"));
        let is_debian = matches!(self.draft.base, Some(Base::Debian(_)));
        leftovers::steps(std::mem::take(&mut self.leftovers), &mut self.draft);
        if is_debian {
            self.rename();
        }
        self.by_apt();
        self.lock();
        let has_packages = !self.draft.requirements.is_empty()
            || !self.draft.wheels.is_empty()
            || self.draft.lock.is_some();
        self.unpackers();
        self.indexes();
        if is_debian && has_python && !has_packages {
            self.draft.packages.extend(["python3", "python-is-python3"].map(str::to_owned));
        }
        if let Some(line) = self.draft.recommends.filter(|_| !self.draft.packages.is_empty()) {
            let reason = "packages that others only recommend are not installed: name them";
            self.draft.other(line, "apt-get install", reason);
        }
        let launch = self.launch();
        let is_same = |a: &super::LeftOutLine, b: &super::LeftOutLine| {
            a.line == b.line && a.text == b.text && a.reason == b.reason
        };
        self.draft.left_out.sort_by_key(|left| left.line);
        self.draft.left_out.dedup_by(|a, b| is_same(a, b));
        (self.draft, launch)
    }

    /// The programs by which `tar` unpacks archives, which images need not have.
    fn unpackers(&mut self) {
        for (line, text, package) in std::mem::take(&mut self.packed) {
            if matches!(self.draft.base, Some(Base::Debian(_))) {
                self.draft.packages.insert(package.to_owned());
            } else {
                let reason = format!(
                    "`tar` needs the programs of `{package}` to unpack it: add them if the base does not have them"
                );
                self.draft.other(line, &text, reason);
            }
        }
    }

    /// A recipe takes its packages from one file.
    fn lock(&mut self) {
        let taken = |line: &String| {
            !line.starts_with('-') || line.starts_with("-r ") || line.starts_with("-e ")
        };
        if self.draft.lock.is_none() || !self.draft.requirements.iter().any(taken) {
            if self.draft.lock.is_some() {
                self.draft.requirements.clear();
            }
            return;
        }
        if let Some(lock) = self.draft.lock.take() {
            let reason = format!(
                "a recipe takes its packages from one file, and other commands name some: add those of `{}`, as `uv export` writes them",
                lock.path
            );
            self.draft.missing(self.draft.lock_line, &lock.path, reason);
        }
    }

    /// A file of requirements has one index for all its lines.
    fn indexes(&mut self) {
        let indexes = std::mem::take(&mut self.draft.indexes);
        if self.draft.requirements.is_empty() {
            return;
        }
        let first = indexes.first().and_then(|(_, _, index)| index.clone());
        if indexes.iter().all(|(_, _, index)| *index == first) {
            self.draft.requirements.splice(0..0, first);
            return;
        }
        let mut extra = Vec::new();
        for (line, text, index) in indexes {
            let Some(index) = index else { continue };
            let reason = format!(
                "other commands take packages from elsewhere, so `{index}` cannot hold for this one alone: all indexes are asked for all packages"
            );
            self.draft.other(line, &text, reason);
            let option = index.replacen("--index-url", "--extra-index-url", 1);
            let is_new = !extra.contains(&option) && !self.draft.requirements.contains(&option);
            if is_new && option != "--no-index" {
                extra.push(option);
            }
        }
        self.draft.requirements.splice(0..0, extra);
    }

    /// Whether a requirement brings the CUDA libraries.
    fn brings_cuda(&self) -> bool {
        let brings = |text: &str| {
            let text = text.trim();
            CUDA_WHEELS.iter().any(|name| match name.ends_with('-') || name.contains('[') {
                true => text.starts_with(name),
                false => name_of(text).eq_ignore_ascii_case(name),
            })
        };
        self.draft.requirements.iter().any(|line| match line.strip_prefix("-r ") {
            None => brings(line),
            Some(file) => {
                let text = std::fs::read_to_string(self.options.context.join(file));
                text.is_ok_and(|text| text.lines().any(brings))
            }
        })
    }

    /// Packages of an image that is not Debian's: its own `apt-get` installs them.
    fn by_apt(&mut self) {
        let Some(Base::Oci(oci)) = &self.draft.base else { return };
        let has_space = self.draft.steps.len() < MAX_STEPS;
        if base::takes_packages(oci) || self.draft.packages.is_empty() || !has_space {
            return;
        }
        let names: Vec<String> = std::mem::take(&mut self.draft.packages).into_iter().collect();
        let only = match self.draft.recommends {
            Some(_) => "",
            None => " --no-install-recommends",
        };
        let script = format!(
            "apt-get update\napt-get install -y{only} {}\nrm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*\n",
            names.join(" ")
        );
        let (workdir, env) = ("/".to_owned(), BTreeMap::new());
        self.draft.steps.insert(0, RunStep { script, network: true, workdir, env });
        let reason =
            "it became a step of `[[run]]` with a network: `packages` holds for Debian 12 and 13";
        self.draft.other(self.draft.packages_line.unwrap_or(1), "apt-get install", reason);
    }

    /// Packages as Debian's release calls them.
    fn rename(&mut self) {
        let packages = std::mem::take(&mut self.draft.packages);
        for name in packages {
            if let Some((_, now)) = RENAMED.iter().find(|(old, _)| *old == name) {
                self.draft.packages.extend(now.map(str::to_owned));
                continue;
            }
            // `python3.10-dev`: a release has one version.
            let of_version = name.strip_prefix("python3.").map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                rest.split_at(end).1
            });
            match of_version {
                Some("-venv" | "-distutils" | "-pip") => {}
                Some(rest) => drop(self.draft.packages.insert(format!("python3{rest}"))),
                None => drop(self.draft.packages.insert(name)),
            }
        }
    }

    /// How the image starts its program.
    fn launch(&mut self) -> Option<Launch> {
        let text_of =
            |found: &Option<(usize, Start)>| found.as_ref().map(|(_, found)| plain(found));
        let (entrypoint, command) = (text_of(&self.entrypoint), text_of(&self.command));
        // What follows a program is read by that.
        let is_interpreter = |found: &Start| match found {
            Start::Words(words) => matches!(words.as_slice(), [one] if is_interpreter(one)),
            Start::Shell(_) | Start::Script(_) => false,
        };
        for (found, of) in [(&entrypoint, &self.entrypoint), (&command, &self.command)] {
            let Some((line, _)) = of else { continue };
            if let Some(tool) = found.as_ref().and_then(tool_of) {
                let reason = "the image need not have this tool: name the program that it runs";
                self.draft.missing(*line, &tool, reason);
            }
        }
        let is_program = entrypoint.as_ref().is_none_or(is_interpreter);
        let needs_folder =
            [&entrypoint, &command].into_iter().flatten().any(|found| self.is_of_folder(found));
        let entrypoint = entrypoint.map(|found| self.absolute(found, true));
        let command = command.map(|found| self.absolute(found, is_program));
        let is_shell = |found: &Start| {
            let Start::Words(words) = found else { return false };
            let name = words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
            words.is_empty() || (words.len() == 1 && SHELLS.contains(&name))
        };
        let mut launch = Launch {
            entrypoint: entrypoint.filter(|found| !is_shell(found)),
            command: command.filter(|found| !is_shell(found)),
            folder: None,
        };
        let begins_nothing = launch.entrypoint.is_none() && launch.command.is_none();
        if let Some((line, _)) = self.entrypoint.as_ref().or(self.command.as_ref()) {
            if begins_nothing {
                let fate = Fate::Different(
                    "the image starts no program: a job names the one that it runs",
                );
                self.draft.fate(*line, "a shell", fate);
            } else if needs_folder {
                launch.folder = Some(self.folder.clone());
                let reason = format!(
                    "the program starts in `{}`, as `WORKDIR` says: in a SIF it cannot write files there",
                    self.folder
                );
                self.draft.other(*line, "WORKDIR", reason);
            }
        }
        (!begins_nothing).then_some(launch)
    }

    /// Whether a program depends on the folder in which it is started.
    fn is_of_folder(&self, found: &Start) -> bool {
        let words = match found {
            Start::Shell(_) => return self.folder != "/",
            Start::Script(_) => return false,
            Start::Words(words) => words,
        };
        let Some(program) = words.first() else { return false };
        let rest = words.get(1..).unwrap_or_default();
        let has = |option: &str| rest.iter().any(|word| word == option);
        let at_module = rest.iter().position(|word| word == "-m");
        let module = at_module.and_then(|at| rest.get(at + 1)?.split('.').next());
        // In `/`, there is nothing else that a program could look for.
        if self.folder == "/" {
            return is_interpreter(program) && module.is_some_and(|name| self.has_module(name));
        }
        let is_unknown = program.contains('/')
            && !program.starts_with('/')
            && self.file_of(program, true).is_none();
        let mut started = words.iter().take(if is_interpreter(program) { 2 } else { 1 });
        // What a script of a shell names is looked for where it is started.
        let is_script = started.any(|word| {
            word.ends_with(".sh") && self.copied.here(&joined(&self.folder, word)).is_some()
        });
        let reads_there = module.is_some() || has("-c") || has("-lc");
        is_interpreter(program) && reads_there || is_unknown || is_script
    }

    /// Whether a module of Python of this name was copied to the working folder.
    fn has_module(&self, name: &str) -> bool {
        [name.to_owned(), format!("{name}.py")].iter().any(|file| {
            let here = self.copied.here(&joined(&self.folder, file));
            here.is_some_and(|here| self.options.context.join(here).exists())
        })
    }

    /// The words of a program with absolute paths of copied files: of those that exist, of scripts, and
    /// of the first word, if that is a program.
    fn absolute(&self, found: Start, is_program: bool) -> Start {
        let Start::Words(mut words) = found else { return found };
        // The programs of a virtual environment are the image's own.
        if let Some(first) = words.first_mut().filter(|first| self.copied.here(first).is_none()) {
            let of_environment = self.draft.environments.iter().find_map(|folder| {
                first.strip_prefix(folder.as_str())?.strip_prefix("/bin/").map(str::to_owned)
            });
            *first = of_environment.unwrap_or_else(|| first.clone());
        }
        let at_program = match words.first() {
            Some(first) if is_interpreter(first) => 1,
            _ => 0,
        };
        let words = words.into_iter().enumerate().map(|(at, word)| {
            let may_be_missing =
                is_program && at == at_program || SCRIPTS.iter().any(|end| word.ends_with(end));
            self.file_of(&word, may_be_missing).unwrap_or(word)
        });
        Start::Words(words.collect())
    }

    /// The path of a copied file in the image, by a word that names it from the working folder.
    fn file_of(&self, word: &str, may_be_missing: bool) -> Option<String> {
        if word.starts_with(['-', '/']) || word.contains([' ', ':', '$']) {
            return None;
        }
        let inside = joined(&self.folder, word);
        let here = self.copied.here(&inside)?;
        let is_named = may_be_missing && word.contains(['.', '/']);
        (is_named || self.options.context.join(&here).is_file()).then_some(inside)
    }
}

/// Adds the paths in the image of files that are no programs here; `false` if they are too many.
fn programs(inside: &str, here: Option<&Path>, paths: &mut Vec<String>) -> bool {
    let meta = here.and_then(|here| std::fs::metadata(here).ok().map(|meta| (here, meta)));
    match meta {
        Some((here, meta)) if meta.is_dir() => {
            let Ok(entries) = std::fs::read_dir(here) else { return false };
            let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            names.sort();
            names.iter().all(|name| {
                let Some(text) = name.to_str() else { return false };
                let here = here.join(name);
                // What a link leads to has a name of its own.
                here.is_symlink() || programs(&format!("{inside}/{text}"), Some(&here), paths)
            })
        }
        Some((_, meta)) if meta.permissions().mode() & 0o111 != 0 => true,
        _ => {
            paths.push(inside.to_owned());
            paths.len() <= MAX_PROGRAMS
        }
    }
}

/// Most files that one step makes programs.
const MAX_PROGRAMS: usize = 100;

/// Folders in which nothing stays that a step makes or changes (`docs/images.md`, "What stays").
const UNKEPT: [&str; 6] = ["/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp"];

/// Whether a path is in such a folder.
fn is_unkept(path: &str) -> bool {
    UNKEPT.iter().any(|folder| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Ends of the names of archives that `tar` unpacks by another program, and Debian's package with it.
const UNPACKERS: [(&str, &str); 7] = [
    (".bz2", "bzip2"),
    (".tbz", "bzip2"),
    (".tbz2", "bzip2"),
    (".txz", "xz-utils"),
    (".tzst", "zstd"),
    (".xz", "xz-utils"),
    (".zst", "zstd"),
];

/// A path for a shell, which fills in its patterns.
fn pattern(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if !c.is_alphanumeric() && !"/._-+@*?[]".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The folder that a path is in.
fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Commands that copy a path as Docker does: of a folder, what is in it.
pub(super) fn copying(from: &str, to: &str, is_folder: bool) -> String {
    // A file that is copied to its own folder is there.
    let is_there = parent(from) == to;
    let folder = quoted(to);
    if from.contains(['*', '?', '[']) {
        let file =
            if is_there { String::new() } else { format!("else cp -a -H \"$one\" {folder}/; ") };
        return format!(
            "mkdir -p {folder}\nfor one in {}; do if [ -d \"$one\" ]; then cp -a \"$one/.\" {folder}; {file}fi; done\n",
            pattern(from)
        );
    }
    let file = match is_folder {
        true => format!("mkdir -p {folder} && cp -a -H {} {folder}/", quoted(from)),
        false => format!("mkdir -p {} && cp -a -H {} {folder}", quoted(parent(to)), quoted(from)),
    };
    let file = if is_there { String::new() } else { format!("else {file}; ") };
    let from = quoted(from);
    format!("if [ -d {from} ]; then mkdir -p {folder} && cp -a {from}/. {folder}; {file}fi\n")
}

/// Commands that copy a path as Apptainer does: a folder under its own name into one that is there.
fn copying_as_apptainer(from: &str, to: &str, is_folder: bool) -> String {
    if parent(from) == to {
        return String::new();
    }
    let name = if from.contains(['*', '?', '[']) { pattern(from) } else { quoted(from) };
    match is_folder {
        true => format!("mkdir -p {to} && cp -a -H {name} {to}/\n", to = quoted(to)),
        false => format!("mkdir -p {} && cp -a -H {name} {}\n", quoted(parent(to)), quoted(to)),
    }
}

/// A program as words, if its text is one plain command of a shell.
fn plain(found: &Start) -> Start {
    let text = match found {
        Start::Shell(text) => text,
        Start::Words(words) => return Start::Words(without_tool(words.clone())),
        Start::Script(_) => return found.clone(),
    };
    let commands = super::shell::commands(text);
    let words = match commands.as_slice() {
        [one] if one.is_plain && !one.text.contains('$') => shlex::split(&one.text),
        _ => None,
    };
    let Some(mut words) = words else { return found.clone() };
    if words.first().is_some_and(|word| word == "exec") {
        words.remove(0);
    }
    Start::Words(without_tool(words))
}

/// The words without `uv run` and `poetry run`: the image has the packages, and not the tool.
fn without_tool(words: Vec<String>) -> Vec<String> {
    if !is_of_tool(&words) {
        return words;
    }
    let rest = words.get(2..).unwrap_or_default();
    let rest: Vec<String> =
        rest.iter().skip_while(|word| RUN_FLAGS.contains(&word.as_str())).cloned().collect();
    let rest = match rest.split_first() {
        Some((first, rest)) if first == "--" => rest.to_vec(),
        _ => rest,
    };
    match rest.first() {
        // Another option, or nothing to run.
        None => words,
        Some(first) if first.starts_with('-') => words,
        Some(first) if first.ends_with(".py") => [vec!["python3".to_owned()], rest].concat(),
        Some(_) => rest,
    }
}

/// `uv run` or the like, if a program is started by it.
fn tool_of(found: &Start) -> Option<String> {
    let text = match found {
        // One of them may be a text for a shell.
        Start::Words(words) => words.join(" "),
        Start::Shell(text) | Start::Script(text) => text.clone(),
    };
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    words.windows(2).find(|pair| is_of_tool(pair)).map(|pair| pair.join(" "))
}

/// Whether words are those of `uv run` or a similar tool.
fn is_of_tool(words: &[String]) -> bool {
    let [tool, verb, ..] = words else { return false };
    ["uv", "poetry", "pdm", "pipenv"].contains(&tool.as_str()) && verb == "run"
}

/// Options of `uv run` that have no value and leave the command as it is
/// (<https://docs.astral.sh/uv/reference/cli/#uv-run>).
const RUN_FLAGS: [&str; 20] = [
    "--active",
    "--exact",
    "--frozen",
    "--isolated",
    "--locked",
    "--managed-python",
    "--native-tls",
    "--no-cache",
    "--no-config",
    "--no-default-groups",
    "--no-dev",
    "--no-editable",
    "--no-env-file",
    "--no-progress",
    "--no-project",
    "--no-python-downloads",
    "--no-sync",
    "--offline",
    "--quiet",
    "--verbose",
];

/// Whether a program runs the file that follows it, such as `/usr/bin/python3.11`.
fn is_interpreter(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&name)
}

/// Whether this is the name of an image, with or without `docker://`.
fn is_image(name: &str) -> bool {
    let name = name.trim_start_matches("docker://");
    Reference::parse(&format!("docker://{name}")).is_ok()
}

/// A text without the quotes of its parts and the `\` before characters.
fn without_quotes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open: Option<char> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (open, c) {
            (Some(quote), c) if c == quote => open = None,
            (None, '"' | '\'') => open = Some(c),
            (None | Some('"'), '\\') => out.extend(chars.next()),
            (_, c) => out.push(c),
        }
    }
    out
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
