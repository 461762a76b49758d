//! Commands that no other part of a recipe can say: they become steps of `[[run]]`.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Base, Draft};
use super::step::Fate;
use super::variables::Variables;
use crate::package::names_a_user;
use crate::recipe::{MAX_STEPS, RunStep};
use crate::singularity::{is_variable, quoted};

/// A command that only a step can run.
#[derive(Debug)]
pub(super) struct Leftover {
    pub(super) line: usize,
    /// How it is shown.
    pub(super) text: String,
    /// As it was written.
    pub(super) source: String,
    pub(super) need: Need,
    /// What is said if it does not become part of a step.
    pub(super) fate: Option<Fate>,
}

/// Whether a command needs a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// It makes something.
    Makes,
    /// It makes something with a program that only the file's own base has.
    MakesOnImage,
    /// It matters only beside such commands.
    Beside,
    /// It sets a variable or the folder for those that follow.
    State,
}

/// The commands of one `RUN`, or of `%post`.
#[derive(Debug)]
pub(super) struct LeftoverRun {
    pub(super) commands: Vec<Leftover>,
    /// The folder that they begin in.
    pub(super) folder: String,
    /// The variables before them.
    pub(super) variables: Variables,
    /// The names of those that were given for this import, whose values no recipe is to show.
    pub(super) given: BTreeSet<String>,
    /// The names of arguments, which each command sees.
    pub(super) arguments: BTreeSet<String>,
    /// The words of the file's own shell.
    pub(super) shell: Vec<String>,
    /// Whether they see files that the image does not have.
    pub(super) has_mounts: bool,
    /// Whether they have no network.
    pub(super) is_cut_off: bool,
}

/// Programs of Debian's packages that many images have and Debian's base does not, with what they
/// need to be of use.
const PACKAGES: [(&str, &[&str]); 8] = [
    ("cc", &["gcc", "libc6-dev"]),
    ("cmake", &["cmake"]),
    ("curl", &["curl"]),
    ("g++", &["g++"]),
    ("gcc", &["gcc", "libc6-dev"]),
    ("git", &["git"]),
    ("make", &["make"]),
    ("wget", &["wget"]),
];

/// Words of a script that fetches something.
const FETCHING: [&str; 21] = [
    "aria2c",
    "cargo",
    "conda",
    "cpan",
    "curl",
    "ftp",
    "gem",
    "git",
    "go",
    "http",
    "https",
    "install.packages",
    "install.r",
    "install2.r",
    "mamba",
    "micromamba",
    "npm",
    "pip",
    "svn",
    "wget",
    "yarn",
];

/// Parts of words that say the same: `nltk.download`, `from_pretrained`.
const FETCHING_PARTS: [&str; 2] = ["download", "from_pretrained"];

/// What only bash understands.
const OF_BASH: [&str; 7] = ["[[ ", "pipefail", "source ", "<(", "<<<", "&>", "|&"];

/// Why a URL with a password does not become part of a step.
const SECRET: &str = "a URL has a user name or password, which the recipe would reveal: fetch it to this machine, and name it in `[app.files]`";
const GIVEN: &str = "the recipe would show a value that was given for this import: write the command into a step of `[[run]]`";
const OTHER_SHELL: &str = "the file has a shell of its own for it, which a step does not have: write the command into a step of `[[run]]`";
const MOUNTS: &str = "it sees files of `--mount`, which a step does not: copy them with `[app.files]`, and run the commands in a step of `[[run]]`";

/// Makes steps of the commands that need one. What only stands beside such commands becomes part of
/// the next step, or of the last.
pub(super) fn steps(runs: Vec<LeftoverRun>, draft: &mut Draft) {
    let on_image = matches!(draft.base, Some(Base::Oci(_)));
    let has_shell = draft.base != Some(Base::Scratch);
    let makes = |one: &Leftover| match one.need {
        Need::Makes => true,
        Need::MakesOnImage => on_image,
        Need::Beside | Need::State => false,
    };
    let mut waiting: Vec<LeftoverRun> = Vec::new();
    for mut run in runs {
        let (kept, not) = std::mem::take(&mut run.commands)
            .into_iter()
            .partition(|one| one.need != Need::MakesOnImage || on_image);
        run.commands = kept;
        leave(&not, draft);
        let is_needed = has_shell && run.commands.iter().any(makes);
        match obstacle(&run) {
            Some(reason) if is_needed => {
                let made = run.commands.iter().filter(|one| makes(one));
                made.for_each(|one| draft.missing(one.line, &one.text, reason));
            }
            Some(_) => leave(&run.commands, draft),
            None if is_needed && draft.steps.len() < MAX_STEPS => {
                waiting.iter().for_each(|run| tell_beside(run, draft));
                let before: String = std::mem::take(&mut waiting).iter().map(beside).collect();
                let step = step(&run, &before);
                tell(&run, &step, draft);
                draft.steps.push(step);
            }
            None => waiting.push(run),
        }
    }
    if !draft.steps.is_empty() {
        waiting.iter().for_each(|run| tell_beside(run, draft));
    }
    match draft.steps.last_mut() {
        Some(step) => {
            waiting.iter().for_each(|run| step.script.push_str(&beside(run)));
            step.network |= fetches(&step.script);
        }
        None => waiting.iter().for_each(|run| leave(&run.commands, draft)),
    }
    if matches!(draft.base, Some(Base::Debian(_))) {
        for (_, packages) in PACKAGES
            .iter()
            .filter(|(program, _)| draft.steps.iter().any(|step| has_word(&step.script, program)))
        {
            draft.packages.extend(packages.iter().map(|name| (*name).to_owned()));
        }
    }
}

/// Says what becomes of commands without a step.
fn leave(commands: &[Leftover], draft: &mut Draft) {
    for one in commands {
        one.fate.into_iter().for_each(|fate| draft.fate(one.line, &one.text, fate));
    }
}

/// Why commands cannot become a step.
fn obstacle(run: &LeftoverRun) -> Option<&'static str> {
    let is_secret = |text: &str| text.contains("://") && names_a_user(text);
    let env = variables(run, &script_of(run));
    let is_given = |name: &String| run.commands.iter().any(|one| names(&one.source, name));
    match () {
        () if run.commands.iter().any(|one| is_secret(&one.source)) => Some(SECRET),
        () if env.values().any(|value| is_secret(value)) => Some(SECRET),
        () if run.given.iter().any(is_given) => Some(GIVEN),
        () if own_shell(run) == OwnShell::Other => Some(OTHER_SHELL),
        () if run.has_mounts => Some(MOUNTS),
        () => None,
    }
}

/// Says that commands became a step.
fn tell(run: &LeftoverRun, step: &RunStep, draft: &mut Draft) {
    let is_shown = |one: &&Leftover| one.need != Need::State;
    let shown: Vec<&Leftover> = run.commands.iter().filter(is_shown).collect();
    let texts: Vec<&str> = shown.iter().map(|one| one.text.as_str()).collect();
    let line = shown.first().map_or(1, |one| one.line);
    let network = if step.network { " with a network" } else { "" };
    let reason = format!(
        "it became a step of `[[run]]`{network}: steps run after all packages and files are there"
    );
    draft.other(line, &texts.join("; "), reason);
}

/// Says that commands of another `RUN` are in a step that is needed for others.
fn tell_beside(run: &LeftoverRun, draft: &mut Draft) {
    for one in run.commands.iter().filter(|one| one.need != Need::State) {
        let reason = "it became part of a step of `[[run]]` that other commands need";
        draft.other(one.line, &one.text, reason);
    }
}

fn step(run: &LeftoverRun, before: &str) -> RunStep {
    let own = script_of(run);
    let env = variables(run, &own);
    let mut script = format!("{before}{own}");
    let network = fetches(&script) && !run.is_cut_off;
    let options = match own_shell(run) {
        OwnShell::Bash(options) => Some(options),
        _ if OF_BASH.iter().any(|part| script.contains(part)) => Some(String::new()),
        _ => None,
    };
    if let Some(options) = options {
        script.insert_str(0, &format!("#!/bin/bash\nset -e{options}\n"));
    }
    RunStep { script, network, workdir: run.folder.clone(), env }
}

fn script_of(run: &LeftoverRun) -> String {
    run.commands.iter().map(|one| format!("{}\n", one.source)).collect()
}

/// The variables that a script uses, and the arguments, which a program may look up.
fn variables(run: &LeftoverRun, script: &str) -> BTreeMap<String, String> {
    let is_own = |name: &str| {
        let is_of_image = name == "PATH" && !run.arguments.contains(name);
        !is_of_image && name != "HOME" && is_variable(name)
    };
    let is_seen = |name: &str| run.arguments.contains(name) || names(script, name);
    let all = run.variables.all().filter(|(name, _)| is_own(name) && is_seen(name));
    let all = all.filter(|(name, _)| !run.given.contains(*name));
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The shell that a file has commands run by.
#[derive(Debug, PartialEq, Eq)]
enum OwnShell {
    Posix,
    /// Each of its options is behind a blank.
    Bash(String),
    Other,
}

fn own_shell(run: &LeftoverRun) -> OwnShell {
    let words: Vec<&str> = run.shell.iter().map(String::as_str).collect();
    let is_plain = |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    match words.as_slice() {
        [] | ["sh" | "/bin/sh", "-c"] => OwnShell::Posix,
        ["bash" | "/bin/bash" | "/usr/bin/bash", options @ .., "-c"]
            if options.iter().all(is_plain) =>
        {
            OwnShell::Bash(options.iter().map(|option| format!(" {option}")).collect())
        }
        _ => OwnShell::Other,
    }
}

/// Commands of another `RUN`, in a shell of their own.
fn beside(run: &LeftoverRun) -> String {
    let needs = run.commands.iter().any(|one| one.need != Need::State);
    let script = script_of(run);
    let exports = variables(run, &script).into_iter();
    let exports = exports.map(|(name, value)| format!("export {name}={}\n", quoted(&value)));
    match needs {
        true => {
            let exports = exports.collect::<String>();
            format!("(\n{exports}cd {}\n{script})\n", quoted(&run.folder))
        }
        false => String::new(),
    }
}

fn fetches(script: &str) -> bool {
    FETCHING.iter().any(|word| has_word(script, word))
        || FETCHING_PARTS.iter().any(|part| script.contains(part))
}

/// Whether a script has a word, or a program by its path.
fn has_word(script: &str, word: &str) -> bool {
    let is_apart = |c: char| !c.is_ascii_alphanumeric() && !"_-+.".contains(c);
    script.split(is_apart).any(|found| found == word)
}

/// Whether a script uses a variable.
fn names(script: &str, variable: &str) -> bool {
    script.split('$').skip(1).any(|rest| {
        let rest = rest.trim_start_matches(['{', '#', '!']);
        let after = rest.strip_prefix(variable);
        after.is_some_and(|after| {
            !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_variables_are_told_from_parts_of_others() {
        for (script, word, expected) in [
            ("git clone x", "git", true),
            ("/usr/bin/curl -o x", "curl", true),
            ("sh -c 'wget x'", "wget", true),
            ("echo digits; my-git x", "git", false),
            ("g++ a.cc", "g++", true),
            ("curl https://x", "https", true),
        ] {
            assert_eq!(has_word(script, word), expected, "{script}");
        }
        for (script, expected) in
            [("echo $A", true), ("x${A:-b}y", true), ("${#A}", true), ("$AB $B A", false)]
        {
            assert_eq!(names(script, "A"), expected, "{script}");
        }
    }
}
