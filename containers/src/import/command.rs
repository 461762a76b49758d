//! What becomes of the commands of `RUN` and `%post`.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::copy::Copied;
use super::draft::Draft;
use super::leftovers::{Leftover, Need};
use super::options::{
    APT_LETTERS, APT_VALUES, CHOOSING, Given, PIP_FLAGS, PIP_OTHERS, PIP_TAKEN, PIP_VALUES,
    SETTINGS, given, takes_next,
};
use super::shell::{self, Command};
use super::step::Fate;
use super::variables::{Unknown, Variables};
use crate::package::names_a_user;

/// What becomes of a command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    /// The image is the same without it.
    Nothing,
    Left(Fate),
    /// It makes something that only a step can.
    Makes(Fate),
    /// The same, with a program that only the file's own base has.
    MakesOnImage(Fate),
    /// It changes nothing that an image needs, unless a step follows or came before.
    Beside(Fate),
    /// `apt-get install`.
    Packages,
    /// `pip install`.
    Wheels,
    /// `uv sync` and `poetry install`: what a lock file names.
    Lock,
}

const NEEDLESS: Outcome = Outcome::Nothing;
const VENV: Outcome = Outcome::Left(Fate::Different(
    "packages are installed for the image's own Python, without a virtual environment",
));
const CONDA: Outcome = Outcome::MakesOnImage(Fate::Missing(
    "a recipe takes a whole environment: pack one that works with `conda-pack`, and name the archive in `[conda]`; or name the packages that PyPI has in the requirements",
));
const UPGRADE: Outcome = Outcome::Left(Fate::Different(
    "Debian's packages have the versions of the lock; those of another base are not upgraded",
));
const REMOVE: Outcome = Outcome::Left(Fate::Different(
    "no package is removed: take those that the image does not need out of `packages`",
));
const BUILD_DEPENDS: Outcome = Outcome::Left(Fate::Missing(
    "name the packages that it installs in `packages`, if the image needs them",
));
const INDEX: Outcome =
    Outcome::Left(Fate::Missing("write the indexes of packages into the requirements"));
const PROJECT: Outcome = Outcome::Left(NO_LOCK);
const NO_LOCK: Fate = Fate::Missing(
    "name its `uv.lock`, `poetry.lock` or `Pipfile.lock` in `lock` of `[python]`; `uv export --format pylock.toml` makes such a file, too",
);
const WHEEL: Outcome = Outcome::Left(Fate::Missing(
    "build its wheel with `uv build --wheel`, and name it in `wheels` of `[python]`",
));
const FETCH: Outcome =
    Outcome::Makes(Fate::Missing("fetch it to this machine, and name it in `[app.files]`"));
const BUILD: Outcome =
    Outcome::Makes(Fate::Missing("build it on this machine, and name the result in `[app.files]`"));
const OTHER_PACKAGES: Outcome =
    Outcome::Left(Fate::Missing("only packages of Debian's own archive can be installed"));
const USERS: Outcome = Outcome::Left(Fate::Different("jobs run as the user who starts them"));
const LOCALE: Outcome =
    Outcome::Left(Fate::Different("the locale `C.UTF-8` is in every image, others are not"));
const R: Outcome = Outcome::Makes(Fate::Missing(
    "name Debian's packages of R in `packages`, such as `r-cran-dplyr`",
));
const OWNER: Outcome =
    Outcome::Beside(Fate::Different("all files belong to root and can be read by everyone"));
const MODE: Fate = Fate::Missing("make it executable on this machine");
const FOLDER: Outcome = Outcome::Beside(Fate::Different(
    "an empty folder is not made: jobs write to folders that are mounted",
));
const CACHE: Outcome = Outcome::Beside(Fate::Different(
    "libraries are found in the system's folders; name others in `LD_LIBRARY_PATH`",
));

/// Commands by their first words; the first row that fits counts. What they do is in their manual
/// pages, and for Python's tools in <https://pip.pypa.io/en/stable/cli/>,
/// <https://docs.astral.sh/uv/reference/cli/>, <https://docs.conda.io/projects/conda/en/stable/commands/>.
const COMMANDS: &[(&[&str], Outcome)] = &[
    (&["apt-get", "install"], Outcome::Packages),
    (&["apt-get", "update"], NEEDLESS),
    (&["apt-get", "clean"], NEEDLESS),
    (&["apt-get", "autoclean"], NEEDLESS),
    (&["apt-get", "autoremove"], NEEDLESS),
    (&["apt-get", "check"], NEEDLESS),
    (&["apt-get", "upgrade"], UPGRADE),
    (&["apt-get", "dist-upgrade"], UPGRADE),
    (&["apt-get", "full-upgrade"], UPGRADE),
    (&["apt-get", "remove"], REMOVE),
    (&["apt-get", "purge"], REMOVE),
    (&["apt-get", "build-dep"], BUILD_DEPENDS),
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
    (&["pip", "cache"], NEEDLESS),
    (&["pip", "check"], NEEDLESS),
    (&["pip", "debug"], NEEDLESS),
    (&["pip", "freeze"], NEEDLESS),
    (&["pip", "list"], NEEDLESS),
    (&["pip", "show"], NEEDLESS),
    (&["pip", "config"], INDEX),
    (&["uv", "pip", "install"], Outcome::Wheels),
    (&["uv", "venv"], VENV),
    (&["uv", "cache"], NEEDLESS),
    (&["uv", "sync"], Outcome::Lock),
    (&["uv"], PROJECT),
    (&["poetry", "config"], NEEDLESS),
    (&["poetry", "install"], Outcome::Lock),
    (&["poetry", "sync"], Outcome::Lock),
    (&["poetry"], PROJECT),
    (&["pipenv"], PROJECT),
    (&["pdm"], PROJECT),
    (&["python", "setup.py"], WHEEL),
    (&["ensurepip"], NEEDLESS),
    (&["venv"], VENV),
    (&["virtualenv"], VENV),
    (&["conda", "clean"], NEEDLESS),
    (&["conda", "config"], NEEDLESS),
    (&["conda", "init"], NEEDLESS),
    (&["conda"], CONDA),
    (&["export"], NEEDLESS),
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

/// Programs that need more than a step may do: other users, services, the kernel.
const NO_STEP: [&str; 10] = [
    "chroot",
    "docker",
    "iptables",
    "modprobe",
    "mount",
    "service",
    "su",
    "sysctl",
    "systemctl",
    "umount",
];

/// Programs that install packages: in a text that is not understood, they would not find what they
/// need in the image.
const INSTALLS: [&str; 15] = [
    "apk",
    "apt",
    "apt-get",
    "aptitude",
    "dnf",
    "dpkg",
    "microdnf",
    "pip",
    "pip3",
    "pipenv",
    "poetry",
    "uv",
    "yum",
    "zypper",
    "add-apt-repository",
];

/// What becomes of a command that no row of the table has.
pub(super) fn unknown(text: &str) -> Outcome {
    let mut words = text.split(|c: char| c.is_whitespace() || ";&|(){}`\"'".contains(c));
    let is_other = |word: &str| NO_STEP.contains(&word) || INSTALLS.contains(&word);
    if words.any(is_other) { Outcome::Left(NOT_RUN) } else { Outcome::Makes(NOT_RUN) }
}

const NOT_RUN: Fate = Fate::Missing("a recipe does not run this command");

/// Programs with other names.
const SAME: [(&str, &str); 9] = [
    ("pip3", "pip"),
    ("python3", "python"),
    ("mamba", "conda"),
    ("micromamba", "conda"),
    ("bash", "sh"),
    ("dash", "sh"),
    ("apt-fast", "apt-get"),
    ("apt", "apt-get"),
    ("aptitude", "apt-get"),
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
    /// Variables that are set for the present command alone.
    pub(super) before: Vec<(String, String)>,
    /// The present command as it was written.
    pub(super) source: String,
    /// Commands that only a step can run.
    pub(super) leftovers: Vec<Leftover>,
}

impl Walk<'_> {
    pub(super) fn command(&mut self, command: &Command, line: usize) {
        let text = &command.text;
        self.before.clear();
        self.source.clone_from(&command.source);
        if !command.is_plain {
            if let Some(assignment) = to_environment(text) {
                self.environment.push((line, assignment));
                return;
            }
            self.variables.forget_assigned(text);
            return match assigned(text) {
                // What pip is told is part of the requirements.
                Some(name) if name.starts_with("PIP_") || name.starts_with("UV_") => {
                    self.draft.fate(line, text, NOT_RUN);
                }
                Some(_) => self.leave(line, text, Need::State, None),
                None => self.outcome(unknown(text), line, text, &[]),
            };
        }
        // A command that is not understood is shown as it is.
        let words = match self.variables.expand(text, true) {
            Ok(expanded) => shlex::split(&expanded),
            Err(Unknown(name)) => {
                let plain = shlex::split(text).unwrap_or_default();
                let outcome = outcome_of(&self.names(&plain));
                self.variables.forget_assigned(text);
                return match outcome {
                    Outcome::Packages | Outcome::Wheels | Outcome::Lock => {
                        let reason = format!("the value of `${name}` is not known here");
                        self.draft.missing(line, text, reason);
                    }
                    outcome => self.outcome(outcome, line, text, &plain),
                };
            }
        };
        let Some(words) = words else { return self.outcome(unknown(text), line, text, &[]) };
        let words = self.names(&words);
        let outcome = outcome_of(&words);
        self.environments(&words);
        self.outcome(outcome, line, text, &words);
    }

    /// Notes the folders of virtual environments, which become the image's own Python.
    fn environments(&mut self, words: &[String]) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let to = match words.as_slice() {
            ["venv" | "virtualenv", rest @ ..] | ["uv", "venv", rest @ ..] => {
                rest.iter().rfind(|word| !word.starts_with('-')).copied().unwrap_or(".venv")
            }
            ["uv", "sync", ..] | ["poetry", "install" | "sync", ..] => ".venv",
            _ => return,
        };
        let folder = joined(&self.folder, to);
        self.draft.environments.insert(folder);
    }

    /// The words without variables before them, and with one name for each program. Variables that
    /// are set for all that follows are noted.
    pub(super) fn names(&mut self, words: &[String]) -> Vec<String> {
        let assigns = |word: &str| {
            let (name, value) = word.split_once('=')?;
            crate::singularity::is_variable(name).then(|| (name.to_owned(), value.to_owned()))
        };
        let mut rest = words;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "command" if others.first().is_some_and(|word| word.starts_with('-')) => {
                    return vec!["which".to_owned()];
                }
                "sudo" | "exec" | "time" | "command" | "-E" => rest = others,
                "export" => {
                    for (name, value) in others.iter().filter_map(|word| assigns(word)) {
                        self.variables.set(&name, value);
                    }
                    return vec!["export".to_owned()];
                }
                word if assigns(word).is_some() => {
                    if let (true, Some((name, value))) = (others.is_empty(), assigns(word)) {
                        self.variables.set(&name, value);
                        return vec!["export".to_owned()];
                    }
                    self.before.extend(assigns(word));
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
                return self.leave(line, text, Need::State, None);
            }
            "export" | "set" | "shopt" | "umask" => {
                return self.leave(line, text, Need::State, None);
            }
            "rm" => {
                if !empties_caches(rest) {
                    let fate = Fate::Different("nothing is removed from the image");
                    self.leave(line, text, Need::Beside, Some(fate));
                }
                return;
            }
            "chmod" if needs_modes(rest, &self.folder, self.copied, self.context) => {
                return self.leave(line, text, Need::Makes, Some(MODE));
            }
            // Debian's `python3` has this name, too, in images with `[python]`.
            "ln" if rest.last().is_some_and(|to| to.ends_with("/python"))
                && rest.iter().any(|from| from.starts_with("/usr/bin/python3")) =>
            {
                return;
            }
            "." | "source" if rest.first().is_some_and(|script| script.ends_with("/activate")) => {
                return self.outcome(VENV, line, text, &[]);
            }
            "sh" if rest
                .first()
                .is_some_and(|word| word.starts_with('-') && word.ends_with('c')) =>
            {
                if let Some(text) = rest.get(1) {
                    // Within quotes, lines are not counted.
                    shell::lists(text).iter().for_each(|list| self.list(text, list, |_| line));
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
            Outcome::Makes(fate) => self.leave(line, text, Need::Makes, Some(fate)),
            Outcome::MakesOnImage(fate) => self.leave(line, text, Need::MakesOnImage, Some(fate)),
            Outcome::Beside(fate) => self.leave(line, text, Need::Beside, Some(fate)),
            Outcome::Packages => self.packages(line, text, rest),
            Outcome::Wheels => self.wheels(line, text, first, rest),
            Outcome::Lock => self.lock(line, text, first, rest),
        }
    }

    pub(super) fn leave(&mut self, line: usize, text: &str, need: Need, fate: Option<Fate>) {
        let mut source = self.source.as_str();
        if let Some(rest) = source.strip_prefix("sudo ") {
            source = rest.trim_start();
            while let Some(rest) = ["-E ", "-H ", "-n "].iter().find_map(|o| source.strip_prefix(o))
            {
                source = rest.trim_start();
            }
        }
        let source = source.to_owned();
        self.leftovers.push(Leftover { line, text: text.to_owned(), source, need, fate });
    }

    /// `uv sync`, `poetry install`
    fn lock(&mut self, line: usize, text: &str, program: &str, words: &[String]) {
        let file = if program == "uv" { "uv.lock" } else { "poetry.lock" };
        let Some(path) = self.file_here(file) else {
            return self.draft.fate(line, text, NO_LOCK);
        };
        let mut lock = self.draft.lock.take().unwrap_or_default();
        if !lock.path.is_empty() && lock.path != path {
            self.draft.lock = Some(lock);
            return self.draft.fate(line, text, NO_LOCK);
        }
        lock.path.clone_from(&path);
        let mut unwanted = BTreeSet::new();
        let mut is_alone = program == "uv" && !self.is_package(&path);
        let mut left_out = self.default_groups(program, &path);
        let is_without = ["--no-default-groups", "--only-root"];
        let (mut is_only, mut words) = (false, words.iter());
        while let Some(word) = words.next() {
            let (name, mut value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let names = match name {
                "--extra" | "--extras" | "-E" => Some(&mut lock.extras),
                "--group" | "--with" => Some(&mut lock.groups),
                "--only" | "--only-group" => {
                    is_only = true;
                    Some(&mut lock.groups)
                }
                "--without" | "--no-group" => Some(&mut unwanted),
                "--dev" | "--only-dev" => {
                    is_only |= name == "--only-dev";
                    lock.groups.insert("dev".to_owned());
                    None
                }
                _ => None,
            };
            if let Some(names) = names {
                value = value.or_else(|| words.next().cloned());
                let value = value.unwrap_or_default();
                let value = value.split([',', ' ']).filter(|name| !name.is_empty());
                names.extend(value.map(str::to_owned));
            } else if name == "--all-extras" || name == "--all-groups" {
                let reason = format!(
                    "name those that you need in `[python]`, with `{}`",
                    name.trim_start_matches("--all-")
                );
                self.draft.missing(line, text, reason);
            }
            is_alone |= ["--no-install-project", "--no-root"].contains(&name);
            if is_without.contains(&name) || name == "--no-dev" && program != "uv" {
                left_out.clear();
            } else if name == "--no-dev" {
                left_out.remove("dev");
            }
        }
        // Main dependencies are always taken.
        let has_main = lock.groups.remove("main");
        if is_only && !has_main {
            let reason = "the packages that the project itself depends on are installed, too";
            self.draft.other(line, text, reason);
        }
        left_out.retain(|name| !is_only && !lock.groups.contains(name) && !unwanted.contains(name));
        if !left_out.is_empty() {
            let names: Vec<String> = left_out.iter().map(|name| format!("`{name}`")).collect();
            let reason = format!(
                "groups that are not named are left out: add those that you need to `groups` of `[python]`, of {}",
                names.join(", ")
            );
            self.draft.other(line, text, reason);
        }
        self.draft.lock = Some(lock);
        self.draft.lock_line = line;
        if !is_alone {
            self.project(line, text, ".");
        }
    }

    /// The groups that `uv sync` and `poetry install` take without being told
    /// (<https://docs.astral.sh/uv/concepts/projects/dependencies/#default-groups>,
    /// <https://python-poetry.org/docs/managing-dependencies/#dependency-groups>).
    fn default_groups(&self, program: &str, lock: &str) -> BTreeSet<String> {
        let table = self.project_of(lock);
        let tool = |name: &str| table.get("tool").and_then(|tool| tool.get(name));
        let names = |table: Option<&toml::Value>| -> Vec<String> {
            let table = table.and_then(toml::Value::as_table);
            table.map_or_else(Vec::new, |table| table.keys().cloned().collect())
        };
        let mut all = names(table.get("dependency-groups"));
        if program == "uv" {
            let uv = tool("uv");
            if uv.is_some_and(|uv| uv.get("dev-dependencies").is_some()) {
                all.push("dev".to_owned());
            }
            let defaults = uv.and_then(|uv| uv.get("default-groups"));
            let is_default = |name: &String| match defaults {
                None => name == "dev",
                Some(toml::Value::Array(names)) => {
                    names.iter().any(|one| one.as_str() == Some(name.as_str()))
                }
                Some(_) => true,
            };
            all.retain(is_default);
            return all.into_iter().collect();
        }
        let poetry = tool("poetry");
        let groups = poetry.and_then(|poetry| poetry.get("group"));
        all.extend(names(groups));
        if poetry.is_some_and(|poetry| poetry.get("dev-dependencies").is_some()) {
            all.push("dev".to_owned());
        }
        let is_optional = |name: &String| {
            let group = groups.and_then(|groups| groups.get(name.as_str()));
            let optional = group.and_then(|group| group.get("optional"));
            optional.and_then(toml::Value::as_bool).unwrap_or(false)
        };
        all.retain(|name| !is_optional(name));
        all.into_iter().collect()
    }

    /// The project of a lock file.
    fn project_of(&self, lock: &str) -> toml::Table {
        let folder = lock.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = self.context.join(folder).join("pyproject.toml");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.parse().unwrap_or_default()
    }

    /// Whether the project of a lock file is itself installed by `uv`
    /// (<https://docs.astral.sh/uv/concepts/projects/config/#project-packaging>).
    fn is_package(&self, lock: &str) -> bool {
        let table = self.project_of(lock);
        let uv = table.get("tool").and_then(|tool| tool.get("uv"));
        let said = uv.and_then(|uv| uv.get("package")).and_then(toml::Value::as_bool);
        said.unwrap_or(table.contains_key("build-system"))
    }

    /// `apt-get … install …`
    fn packages(&mut self, line: usize, text: &str, words: &[String]) {
        let mut words = words.iter().filter(|word| *word != "install");
        let mut recommends = true;
        while let Some(word) = words.next() {
            if word.starts_with('-') {
                let own = takes_next(word, &APT_VALUES, APT_LETTERS);
                let value = own.then(|| words.next()).flatten().map_or("", String::as_str);
                recommends &= word != "--no-install-recommends"
                    && ![word, value].iter().any(|text| text.contains("Recommends=false"));
                let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
                let letter = short.and_then(|rest| rest.chars().find(|c| APT_LETTERS.contains(*c)));
                let release = (letter == Some('t') || word.contains("-release"))
                    .then_some(if own { value } else { word });
                if let Some(release) = release {
                    let reason = format!(
                        "packages come from the base's release and its updates, not from `{release}`"
                    );
                    self.draft.other(line, text, reason);
                }
            } else if word.contains(['/', '*'])
                || word.ends_with(".deb")
                || word.ends_with('-')
                || word.split_once(':').is_some_and(|(_, of)| !["amd64", "native"].contains(&of))
            {
                let reason = format!(
                    "`{word}` is not the name of a package in Debian's archive for this processor"
                );
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
                self.draft.packages_line.get_or_insert(line);
            }
        }
        if recommends {
            self.draft.recommends.get_or_insert(line);
        }
    }

    /// `pip install …`
    fn wheels(&mut self, line: usize, text: &str, program: &str, words: &[String]) {
        let Some(given) = given(words) else {
            let reason = "it has an option that is not known here, and the word after it may be its value: write a requirements file";
            return self.draft.missing(line, text, reason);
        };
        let mut asked = Asked::default();
        let told = |name: &str| given.iter().any(|given| given.is(name));
        let mut settings = self.variables.clone();
        for (name, value) in &self.before {
            settings.set(name, value.clone());
        }
        let prefix = if program == "uv" { "UV_" } else { "PIP_" };
        for (name, value) in settings.all().filter(|(name, _)| name.starts_with(prefix)) {
            let text = format!("{name}={value}");
            match SETTINGS.iter().find(|(found, _)| *found == name) {
                Some((_, option)) if !told(option) => {
                    for value in value.split_whitespace() {
                        self.option(line, &text, option, Some(value.to_owned()), &mut asked);
                    }
                }
                None if CHOOSING.iter().any(|part| name.contains(part)) => {
                    let reason = "it is not taken into the requirements: see to it";
                    self.draft.missing(line, &text, reason);
                }
                _ => {}
            }
        }
        for given in &given {
            match given {
                Given::Word(word) => self.wheel(line, text, word, &mut asked),
                Given::Option(name, value) => {
                    self.option(line, text, name, value.clone(), &mut asked);
                }
            }
        }
        let Asked { requirements, wheels, index, is_secret } = asked;
        // Without their index, packages of these names would come from PyPI.
        if is_secret {
            return self.draft.missing(line, text, SECRET);
        }
        if !requirements.is_empty() {
            self.draft.indexes.push((line, text.to_owned(), index));
        }
        for line in requirements {
            if !self.draft.requirements.contains(&line) {
                self.draft.requirements.push(line);
            }
        }
        self.draft.wheels.extend(wheels);
    }

    /// An option of `pip install`.
    fn option(
        &mut self,
        line: usize,
        text: &str,
        name: &str,
        value: Option<String>,
        asked: &mut Asked,
    ) {
        let value = value.unwrap_or_default();
        if value.contains("://") && names_a_user(&value) {
            asked.is_secret = true;
            return;
        }
        let is_pypi = matches!(
            value.trim_end_matches('/'),
            "https://pypi.org/simple" | "https://pypi.python.org/simple"
        );
        match name {
            "--requirement" | "--requirements" | "--constraint" | "--constraints" => {
                let option = if name.starts_with("--r") { "-r" } else { "-c" };
                match self.file_here(&value) {
                    Some(here) => asked.requirements.push(format!("{option} {here}")),
                    None => self.no_file(line, text, &value),
                }
            }
            "--index-url" | "--default-index" => {
                asked.index = (!is_pypi).then(|| format!("--index-url {value}"));
            }
            "--extra-index-url" | "--index" => {
                // uv's indexes may have a name: `NAME=URL`.
                let named = value.split_once('=').filter(|(name, _)| !name.contains(['/', ':']));
                let url = named.map_or(value.as_str(), |(_, url)| url);
                if !is_pypi {
                    asked.requirements.push(format!("--extra-index-url {url}"));
                }
            }
            "--no-index" => asked.index = Some(name.to_owned()),
            "--find-links" if value.contains("://") => {
                asked.requirements.push(format!("--find-links {value}"));
            }
            "--find-links" => {
                let here = self.copied.here(&joined(&self.folder, &value));
                match here.filter(|here| self.context.join(here).is_dir()) {
                    Some(here) => asked.requirements.push(format!("--find-links {here}")),
                    None => self.no_file(line, text, &value),
                }
            }
            "--editable" if value.starts_with("git+") => asked.requirements.push(value),
            "--editable" => self.pip_from_source(line, text, &value, asked),
            "--target" | "--prefix" | "--root" => {
                let reason =
                    format!("packages are installed for the image's own Python, not in `{value}`");
                self.draft.other(line, text, reason);
                // What another stage copies from there.
                let folder = joined(&self.folder, &value);
                if folder != "/" && folder != "/usr" && !folder.starts_with("/usr/") {
                    self.draft.environments.insert(folder);
                }
            }
            "--no-deps" => {
                self.draft.other(line, text, "what the packages depend on is installed, too");
            }
            "--pre" => asked.requirements.push(name.to_owned()),
            name if PIP_FLAGS.contains(&name) || PIP_VALUES.contains(&name) => {}
            name => {
                let reason =
                    format!("the option `{name}` is not taken into the requirements: see to it");
                self.draft.missing(line, text, reason);
            }
        }
    }

    /// What `pip install` installs.
    fn wheel(&mut self, line: usize, text: &str, word: &str, asked: &mut Asked) {
        match word {
            word if word.contains("://") && names_a_user(word) => {
                self.draft.missing(line, text, SECRET);
            }
            word if word.ends_with(".whl") && !word.contains("://") => match self.file_here(word) {
                Some(here) => asked.wheels.push(here),
                None => self.no_file(line, text, word),
            },
            word if word.starts_with("git+") => asked.requirements.push(word.to_owned()),
            word if word.contains("://") && !word.contains('@') => match wheel_name(word) {
                Some(name) => asked.requirements.push(format!("{name} @ {word}")),
                None => {
                    let reason =
                        "it is not a wheel: build one, and name it in `wheels` of `[python]`";
                    self.draft.missing(line, text, reason);
                }
            },
            word if word.starts_with(['.', '/']) => self.pip_from_source(line, text, word, asked),
            word if INSTALLERS.contains(&name_of(word)) => {}
            word => asked.requirements.push(word.to_owned()),
        }
    }

    fn no_file(&mut self, line: usize, text: &str, file: &str) {
        let reason =
            format!("`{file}` is not a file that was copied into the image from this machine");
        self.draft.missing(line, text, reason);
    }

    /// A project that was copied is built when the image is, if the user says so.
    fn pip_from_source(&mut self, line: usize, text: &str, path: &str, asked: &mut Asked) {
        let (folder, extras) = match path.split_once('[') {
            Some((folder, extras)) => (folder, format!("[{extras}")),
            None => (path, String::new()),
        };
        let here = self.copied.here(&joined(&self.folder, folder));
        let context = self.context;
        let has = |here: &str, name: &str| context.join(here).join(name).is_file();
        let is_project = |here: &String| has(here, "pyproject.toml") || has(here, "setup.py");
        // The project may be copied file by file.
        let here = here.or_else(|| {
            let one = ["pyproject.toml", "setup.py"];
            let mut files = one.iter().filter_map(|name| {
                let here = self.copied.here(&joined(&joined(&self.folder, folder), name))?;
                Some(here.strip_suffix(name)?.trim_end_matches('/').to_owned())
            });
            files.next()
        });
        let Some(here) = here.filter(is_project) else { return self.project(line, text, path) };
        let here = if here.is_empty() { ".".to_owned() } else { here };
        asked.requirements.push(format!("-e {here}{extras}"));
        let reason = format!(
            "the wheel of `{here}` is installed, and not a link to its folder: add `build = true` to `[python]`, and `uv` builds it on this machine"
        );
        self.draft.other(line, text, reason);
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

/// Whether a mode lets a file be run: `+x`, `a+rx`, `755`.
pub(super) fn makes_programs(mode: &str) -> bool {
    let octal = mode.chars().all(|c| c.is_digit(8));
    match octal {
        true => mode.chars().rev().take(3).any(|c| "1357".contains(c)),
        false => mode.split(',').any(|part| {
            let sign = part.find(['+', '=']);
            sign.and_then(|at| part.get(at..)).is_some_and(|bits| bits.contains('x'))
        }),
    }
}

/// Whether the words of `chmod` make programs of files that were copied and are none here.
pub(super) fn needs_modes(words: &[String], folder: &str, copied: &Copied, context: &Path) -> bool {
    let is_deep = words.iter().any(|word| matches!(word.as_str(), "-R" | "--recursive"));
    let mut rest = words
        .iter()
        .filter(|word| !word.starts_with('-') || word.starts_with("-x") || word.starts_with("-w"));
    let Some(mode) = rest.next().filter(|mode| makes_programs(mode)) else { return false };
    let is_octal = mode.starts_with(|c: char| c.is_ascii_digit());
    rest.any(|path| {
        let Some(here) = copied.here(&joined(folder, path)) else { return false };
        if here.contains(['*', '?', '[']) {
            return true;
        }
        let Ok(meta) = std::fs::metadata(context.join(here)) else { return false };
        match meta.is_dir() {
            // A folder's own mode, or those of all files in it: `755` may not be meant for them.
            true => is_deep && (!is_octal || mode.ends_with(['1', '3', '5', '7'])),
            false => meta.permissions().mode() & 0o111 == 0,
        }
    })
}

/// The variable, if a text only gives it the output of a command.
fn assigned(text: &str) -> Option<&str> {
    let text = text.strip_prefix("export ").unwrap_or(text);
    let (name, value) = text.split_once('=')?;
    let value = value.trim_matches('"');
    let is_output = value.starts_with("$(") && value.ends_with(')')
        || value.starts_with('`') && value.ends_with('`');
    (crate::singularity::is_variable(name) && is_output).then_some(name)
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

/// Why a URL with a password becomes nothing.
const SECRET: &str = "a URL has a user name or password, which the recipe and the lock would reveal: fetch the wheels, and name them in `wheels` of `[python]`";

/// What one `pip install` asks for.
#[derive(Debug, Default)]
struct Asked {
    requirements: Vec<String>,
    wheels: Vec<String>,
    /// The option that says where packages come from, unless it is PyPI.
    index: Option<String>,
    /// Whether an option has a password.
    is_secret: bool,
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

pub(super) fn outcome_of(words: &[String]) -> Outcome {
    let program = words.first().map_or("", String::as_str);
    let valued = |word: &str| match program {
        "apt-get" => takes_next(word, &APT_VALUES, APT_LETTERS),
        "pip" | "uv" => {
            let names = [&PIP_VALUES[..], &PIP_OTHERS, &PIP_TAKEN, &["--project"]].concat();
            takes_next(word, &names, "")
        }
        _ => false,
    };
    // `apt-get -y install` and `conda run pip` have options before the verb.
    let mut verbs = vec![program];
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        if valued(word) {
            rest.next();
        } else if !word.starts_with('-') {
            verbs.push(word);
        }
    }
    let only_says = |word: &String| matches!(word.as_str(), "--version" | "--help");
    if verbs.len() == 1 && words.len() == 2 && words.last().is_some_and(only_says) {
        return NEEDLESS;
    }
    let fits = |row: &&(&[&str], Outcome)| {
        row.0.iter().enumerate().all(|(n, wanted)| verbs.get(n) == Some(wanted))
    };
    COMMANDS.iter().find(fits).map_or_else(|| unknown(program), |(_, outcome)| *outcome)
}

/// Whether all that `rm` removes is what no image needs.
pub(super) fn empties_caches(words: &[String]) -> bool {
    let mut paths = words.iter().filter(|word| !word.starts_with('-'));
    paths.all(|path| CACHES.iter().any(|cache| path.contains(cache)))
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
