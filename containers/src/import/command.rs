//! What becomes of the commands of `RUN` and `%post`.

use std::path::Path;

use super::copy::Copied;
use super::draft::Draft;
use super::shell::{self, Command};
use super::step::Fate;
use super::variables::Variables;

/// What becomes of a command.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    /// The image is the same without it.
    Nothing,
    Left(Fate),
    /// `apt-get install`.
    Packages,
    /// `pip install`.
    Wheels,
}

const NEEDLESS: Outcome = Outcome::Nothing;
const VENV: Outcome = Outcome::Left(Fate::Different(
    "packages are installed for the image's own Python, without a virtual environment",
));
const CONDA: Outcome = Outcome::Left(Fate::Missing(
    "a recipe does not install conda packages: name those that PyPI has in the requirements",
));
const PROJECT: Outcome = Outcome::Left(Fate::Missing(
    "export its packages with `uv export --format pylock.toml`, and name that file in `lock` of `[python]`",
));
const WHEEL: Outcome = Outcome::Left(Fate::Missing(
    "build its wheel with `uv build --wheel`, and name it in `wheels` of `[python]`",
));
const FETCH: Outcome =
    Outcome::Left(Fate::Missing("fetch it to this machine, and name it in `[app.files]`"));
const BUILD: Outcome =
    Outcome::Left(Fate::Missing("build it on this machine, and name the result in `[app.files]`"));
const OTHER_PACKAGES: Outcome =
    Outcome::Left(Fate::Missing("only packages of Debian's own archive can be installed"));
const USERS: Outcome = Outcome::Left(Fate::Different("jobs run as the user who starts them"));
const LOCALE: Outcome =
    Outcome::Left(Fate::Different("the locale `C.UTF-8` is in every image, others are not"));
const R: Outcome = Outcome::Left(Fate::Missing(
    "name Debian's packages of R in `packages`, such as `r-cran-dplyr`",
));
const OWNER: Outcome = Outcome::Left(Fate::Different(
    "all files belong to root and can be read by everyone; programs must be executable on this machine",
));
const FOLDER: Outcome = Outcome::Left(Fate::Different(
    "an empty folder is not made: jobs write to folders that are mounted",
));
const CACHE: Outcome = Outcome::Left(Fate::Different(
    "libraries are found in the system's folders; name others in `LD_LIBRARY_PATH`",
));

/// Commands by their first words; the first row that fits counts. What they do is in their manual
/// pages, and for Python's tools in <https://pip.pypa.io/en/stable/cli/>,
/// <https://docs.astral.sh/uv/reference/cli/>, <https://docs.conda.io/projects/conda/en/stable/commands/>.
const COMMANDS: &[(&[&str], Outcome)] = &[
    (&["apt-get", "install"], Outcome::Packages),
    (&["apt", "install"], Outcome::Packages),
    (&["aptitude", "install"], Outcome::Packages),
    (&["apt-get"], NEEDLESS),
    (&["apt"], NEEDLESS),
    (&["aptitude"], NEEDLESS),
    (&["apt-mark"], NEEDLESS),
    (&["apt-key"], OTHER_PACKAGES),
    (&["add-apt-repository"], OTHER_PACKAGES),
    (&["dpkg"], OTHER_PACKAGES),
    (&["apk"], OTHER_PACKAGES),
    (&["yum"], OTHER_PACKAGES),
    (&["dnf"], OTHER_PACKAGES),
    (&["microdnf"], OTHER_PACKAGES),
    (&["zypper"], OTHER_PACKAGES),
    (&["pip", "install"], Outcome::Wheels),
    (
        &["pip", "uninstall"],
        Outcome::Left(Fate::Different("it is not needed: only what is named is installed")),
    ),
    (&["pip"], NEEDLESS),
    (&["uv", "pip", "install"], Outcome::Wheels),
    (&["uv", "venv"], VENV),
    (&["uv", "cache"], NEEDLESS),
    (&["uv"], PROJECT),
    (&["poetry", "config"], NEEDLESS),
    (&["poetry"], PROJECT),
    (&["pipenv"], PROJECT),
    (&["pdm"], PROJECT),
    (&["python", "setup.py"], WHEEL),
    (&["ensurepip"], NEEDLESS),
    (&["venv"], VENV),
    (&["virtualenv"], VENV),
    (&["."], VENV),
    (&["source"], VENV),
    (&["conda", "clean"], NEEDLESS),
    (&["conda", "config"], NEEDLESS),
    (&["conda", "init"], NEEDLESS),
    (&["conda"], CONDA),
    (&["set"], NEEDLESS),
    (&["echo"], NEEDLESS),
    (&["true"], NEEDLESS),
    (&[":"], NEEDLESS),
    (&["exit"], NEEDLESS),
    (&["ls"], NEEDLESS),
    (&["which"], NEEDLESS),
    (&["date"], NEEDLESS),
    (&["unset"], NEEDLESS),
    (&["mkdir"], FOLDER),
    (&["chmod"], OWNER),
    (&["chown"], OWNER),
    (&["chgrp"], OWNER),
    (&["useradd"], USERS),
    (&["adduser"], USERS),
    (&["groupadd"], USERS),
    (&["addgroup"], USERS),
    (&["usermod"], USERS),
    (&["locale-gen"], LOCALE),
    (&["update-locale"], LOCALE),
    (&["localedef"], LOCALE),
    (&["dpkg-reconfigure"], LOCALE),
    (&["ldconfig"], CACHE),
    (&["git"], FETCH),
    (&["wget"], FETCH),
    (&["curl"], FETCH),
    (&["tar"], FETCH),
    (&["unzip"], FETCH),
    (&["make"], BUILD),
    (&["cmake"], BUILD),
    (&["ninja"], BUILD),
    (&["./configure"], BUILD),
    (&["./autogen.sh"], BUILD),
    (&["gcc"], BUILD),
    (&["g++"], BUILD),
    (&["gfortran"], BUILD),
    (&["cargo"], BUILD),
    (&["go"], BUILD),
    (&["npm"], BUILD),
    (&["mvn"], BUILD),
    (&["R"], R),
    (&["Rscript"], R),
    (&["install2.r"], R),
    (&["install.r"], R),
];

/// What becomes of a command that no row of the table has.
fn unknown() -> Outcome {
    Outcome::Left(Fate::Missing("a recipe does not run this command"))
}

/// Programs with other names.
const SAME: [(&str, &str); 7] = [
    ("pip3", "pip"),
    ("python3", "python"),
    ("mamba", "conda"),
    ("micromamba", "conda"),
    ("bash", "sh"),
    ("dash", "sh"),
    ("apt-fast", "apt-get"),
];

/// Folders of files that no image needs.
const CACHES: [&str; 8] = [
    "/var/lib/apt/lists",
    "/var/cache",
    "/tmp",
    "/var/tmp",
    "/root/.cache",
    "~/.cache",
    "/var/log",
    ".cache",
];

/// Options of `apt-get install` that have a value of their own.
const APT_VALUES: [&str; 5] = ["-t", "--target-release", "-o", "-c", "--default-release"];

/// Options of `pip install` that have a value, and matter for nothing here.
const PIP_VALUES: [&str; 22] = [
    "--trusted-host",
    "--timeout",
    "--retries",
    "--platform",
    "--python-version",
    "--only-binary",
    "--no-binary",
    "--progress-bar",
    "--cache-dir",
    "--proxy",
    "--cert",
    "--log",
    "--src",
    "--upgrade-strategy",
    "--index-strategy",
    "--python",
    "-p",
    "--config-settings",
    "--global-option",
    "--use-feature",
    "--link-mode",
    "--implementation",
];

/// Packages that only install others.
const INSTALLERS: [&str; 7] = ["pip", "wheel", "uv", "virtualenv", "poetry", "pipenv", "pip-tools"];

/// A shell that is followed through its commands.
pub(super) struct Walk<'a> {
    pub(super) draft: &'a mut Draft,
    pub(super) copied: &'a mut Copied,
    pub(super) variables: Variables,
    /// The folder it is in.
    pub(super) folder: String,
    pub(super) context: &'a Path,
    /// Lines that are written to Apptainer's script of variables, and where.
    pub(super) environment: Vec<(usize, String)>,
}

impl Walk<'_> {
    /// Takes what a recipe can say from a text that begins at `line`.
    pub(super) fn run(&mut self, text: &str, line: usize) {
        for command in shell::commands(text) {
            self.command(&command, line + command.line);
        }
    }

    fn command(&mut self, command: &Command, line: usize) {
        let text = &command.text;
        if !command.is_plain {
            if let Some(assignment) = to_environment(text) {
                self.environment.push((line, assignment));
                return;
            }
            return self.outcome(unknown(), line, text, &[]);
        }
        // A command that is not understood is shown as it is.
        let words = match self.variables.expand(text, true) {
            Ok(expanded) => shlex::split(&expanded),
            Err(name) => {
                let plain = shlex::split(text).unwrap_or_default();
                let outcome = outcome_of(&self.names(&plain));
                return match outcome {
                    Outcome::Packages | Outcome::Wheels => {
                        let reason = format!("the value of `${name}` is not known here");
                        self.draft.missing(line, text, reason);
                    }
                    outcome => self.outcome(outcome, line, text, &plain),
                };
            }
        };
        let Some(words) = words else { return self.outcome(unknown(), line, text, &[]) };
        let words = self.names(&words);
        let outcome = outcome_of(&words);
        self.outcome(outcome, line, text, &words);
    }

    /// The words without variables before them, and with one name for each program. Variables that
    /// are set for all that follows are noted.
    fn names(&mut self, words: &[String]) -> Vec<String> {
        let assigns = |word: &str| {
            let (name, value) = word.split_once('=')?;
            crate::singularity::is_variable(name).then(|| (name.to_owned(), value.to_owned()))
        };
        let mut rest = words;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "sudo" | "exec" | "time" | "command" | "-E" => rest = others,
                "export" => {
                    for (name, value) in others.iter().filter_map(|word| assigns(word)) {
                        self.variables.set(&name, value);
                    }
                    return vec![":".to_owned()];
                }
                word if assigns(word).is_some() => {
                    if let (true, Some((name, value))) = (others.is_empty(), assigns(word)) {
                        self.variables.set(&name, value);
                        return vec![":".to_owned()];
                    }
                    rest = others;
                }
                _ => break,
            }
        }
        let mut words = rest.to_vec();
        let Some(first) = words.first_mut() else { return vec![":".to_owned()] };
        if !first.starts_with("./") {
            *first = first.rsplit('/').next().unwrap_or_default().to_owned();
        }
        if let Some((_, same)) = SAME.iter().find(|(name, _)| *name == first.as_str()) {
            *first = (*same).to_owned();
        }
        let is_python = first.starts_with("python");
        // `python -m pip` is `pip`.
        if is_python && words.get(1).is_some_and(|word| word == "-m") {
            words.drain(..2);
        }
        // `pip3.11`
        if let Some(first) = words.first_mut().filter(|first| first.starts_with("pip3.")) {
            *first = "pip".to_owned();
        }
        words
    }

    fn outcome(&mut self, outcome: Outcome, line: usize, text: &str, words: &[String]) {
        let (first, rest) = match words.split_first() {
            Some((first, rest)) => (first.as_str(), rest),
            None => ("", &[][..]),
        };
        match first {
            "cd" | "pushd" => {
                let to = rest.first().map_or("/root", String::as_str);
                self.folder = joined(&self.folder, to);
                return;
            }
            "rm" => {
                let mut paths = rest.iter().filter(|word| !word.starts_with('-'));
                let is_cache = |path: &String| CACHES.iter().any(|cache| path.contains(cache));
                if !paths.all(is_cache) {
                    self.draft.other(line, text, "nothing is removed from the image");
                }
                return;
            }
            // Debian's `python3` has this name, too, in images with `[python]`.
            "ln" if rest.last().is_some_and(|to| to.ends_with("/python")) => return,
            "sh" if rest
                .first()
                .is_some_and(|word| word.starts_with('-') && word.ends_with('c')) =>
            {
                if let Some(text) = rest.get(1) {
                    // Within quotes, lines are not counted.
                    for command in shell::commands(text) {
                        self.command(&command, line);
                    }
                }
                return;
            }
            "mkdir" => {
                for path in rest.iter().filter(|word| !word.starts_with('-')) {
                    self.copied.folder(&joined(&self.folder, path));
                }
            }
            _ => {}
        }
        match outcome {
            Outcome::Nothing => {}
            Outcome::Left(fate) => self.draft.fate(line, text, fate),
            Outcome::Packages => self.packages(line, text, rest),
            Outcome::Wheels => self.wheels(line, text, rest),
        }
    }

    /// `apt-get … install …`
    fn packages(&mut self, line: usize, text: &str, words: &[String]) {
        let mut words = words.iter().filter(|word| *word != "install");
        let mut recommends = true;
        while let Some(word) = words.next() {
            if APT_VALUES.contains(&word.as_str()) {
                words.next();
            } else if word.starts_with('-') {
                recommends &=
                    word != "--no-install-recommends" && !word.contains("Recommends=false");
            } else if word.contains('/') || word.ends_with(".deb") || word.contains('*') {
                let reason = format!("`{word}` is not the name of a package in Debian's archive");
                self.draft.missing(line, text, reason);
            } else {
                let (name, version) = match word.split_once('=') {
                    Some((name, version)) => (name, Some(version)),
                    None => (word.as_str(), None),
                };
                if let Some(version) = version {
                    let reason = format!(
                        "`{name}` is installed in the release's version, not `{version}`: the lock has the exact one"
                    );
                    self.draft.other(line, text, reason);
                }
                let name = name.split(':').next().unwrap_or(name);
                self.draft.packages.insert(name.to_owned());
            }
        }
        if recommends {
            self.draft.recommends.get_or_insert(line);
        }
    }

    /// `pip install …`
    fn wheels(&mut self, line: usize, text: &str, words: &[String]) {
        let words = words.iter().skip_while(|word| *word != "install").skip(1);
        let words: Vec<String> = words.flat_map(|word| split_option(word)).collect();
        let mut words = words.iter();
        let mut requirements = Vec::new();
        let mut wheels = Vec::new();
        while let Some(word) = words.next() {
            let value = &mut || words.next().cloned().unwrap_or_default();
            match word.as_str() {
                "-r" | "--requirement" | "--requirements" => {
                    let (option, file) = ("-r", value());
                    match self.file_here(&file) {
                        Some(here) => requirements.push(format!("{option} {here}")),
                        None => self.no_file(line, text, &file),
                    }
                }
                "-c" | "--constraint" => {
                    let file = value();
                    match self.file_here(&file) {
                        Some(here) => requirements.push(format!("-c {here}")),
                        None => self.no_file(line, text, &file),
                    }
                }
                "-i" | "--index-url" | "--extra-index-url" | "--default-index" | "--index" => {
                    let url = value();
                    if !matches!(
                        url.trim_end_matches('/'),
                        "https://pypi.org/simple" | "https://pypi.python.org/simple"
                    ) {
                        requirements.push(format!("--extra-index-url {url}"));
                    }
                }
                "-f" | "--find-links" => requirements.push(format!("--find-links {}", value())),
                "-e" | "--editable" => {
                    let path = value();
                    self.project(line, text, &path);
                }
                "-t" | "--target" | "--prefix" | "--root" => {
                    let reason = format!(
                        "packages are installed for the image's own Python, not in `{}`",
                        value()
                    );
                    self.draft.other(line, text, reason);
                }
                "--no-deps" => {
                    self.draft.other(line, text, "what the packages depend on is installed, too");
                }
                "--pre" => requirements.push("--pre".to_owned()),
                word if PIP_VALUES.contains(&word) => drop(value()),
                word if word.starts_with('-') => {}
                word if word.ends_with(".whl") && !word.contains("://") => {
                    match self.file_here(word) {
                        Some(here) => wheels.push(here),
                        None => self.no_file(line, text, word),
                    }
                }
                word if word.starts_with("git+") => requirements.push(word.to_owned()),
                word if word.contains("://") && !word.contains('@') => match wheel_name(word) {
                    Some(name) => requirements.push(format!("{name} @ {word}")),
                    None => {
                        let reason =
                            "it is not a wheel: build one, and name it in `wheels` of `[python]`";
                        self.draft.missing(line, text, reason);
                    }
                },
                word if word.starts_with(['.', '/']) => self.project(line, text, word),
                word if INSTALLERS.contains(&name_of(word)) => {}
                word => requirements.push(word.to_owned()),
            }
        }
        for line in requirements {
            if !self.draft.requirements.contains(&line) {
                self.draft.requirements.push(line);
            }
        }
        self.draft.wheels.extend(wheels);
    }

    fn no_file(&mut self, line: usize, text: &str, file: &str) {
        let reason =
            format!("`{file}` is not a file that was copied into the image from this machine");
        self.draft.missing(line, text, reason);
    }

    fn project(&mut self, line: usize, text: &str, path: &str) {
        let reason = format!(
            "`{path}` is a project: build its wheel with `uv build --wheel`, and name it in `wheels` of `[python]`"
        );
        self.draft.missing(line, text, reason);
    }

    /// The path from the context of a file that a command names.
    fn file_here(&self, path: &str) -> Option<String> {
        let here = self.copied.here(&joined(&self.folder, path))?;
        self.context.join(&here).is_file().then_some(here)
    }
}

/// The line that `echo '…' >> $APPTAINER_ENVIRONMENT` adds to the variables of the image
/// (<https://apptainer.org/docs/user/main/environment_and_metadata.html>).
fn to_environment(text: &str) -> Option<String> {
    let (line, to) = text.strip_prefix("echo ")?.split_once(">>")?;
    let to = to.trim().trim_matches(['"', '{', '}', '$']);
    let known = ["APPTAINER_ENVIRONMENT", "SINGULARITY_ENVIRONMENT", "/environment"];
    let words = shlex::split(line).filter(|_| known.contains(&to))?;
    Some(words.join(" "))
}

/// `--option=value` and `-rfile` as two words.
fn split_option(word: &str) -> Vec<String> {
    if word.starts_with("--")
        && let Some((option, value)) = word.split_once('=')
    {
        return vec![option.to_owned(), value.to_owned()];
    }
    match word.strip_prefix("-r") {
        Some(file) if !file.is_empty() && !word.starts_with("--") => {
            vec!["-r".to_owned(), file.to_owned()]
        }
        _ => vec![word.to_owned()],
    }
}

/// The project's name in a requirement.
pub(super) fn name_of(requirement: &str) -> &str {
    let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    requirement.get(..end.unwrap_or(requirement.len())).unwrap_or_default()
}

/// The project's name in the URL of a wheel.
fn wheel_name(url: &str) -> Option<String> {
    let file = url.split(['?', '#']).next()?.rsplit('/').next()?;
    let name = file.strip_suffix(".whl")?.split('-').next()?;
    Some(name.replace('_', "-"))
}

fn outcome_of(words: &[String]) -> Outcome {
    // `apt-get -y install` and `conda run pip` have options before the verb.
    let verbs: Vec<&str> = words
        .iter()
        .enumerate()
        .filter(|(n, word)| *n == 0 || !word.starts_with('-'))
        .map(|(_, word)| word.as_str())
        .collect();
    let fits = |row: &&(&[&str], Outcome)| {
        row.0.iter().enumerate().all(|(n, wanted)| verbs.get(n) == Some(wanted))
    };
    COMMANDS.iter().find(fits).map_or_else(unknown, |(_, outcome)| *outcome)
}

/// A path in the image, from a folder in it; without a `/` at its end unless the path has one.
pub(super) fn joined(folder: &str, path: &str) -> String {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    let mut segments: Vec<&str> = Vec::new();
    for segment in whole.split('/') {
        match segment {
            ".." => drop(segments.pop()),
            "" | "." => {}
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}
