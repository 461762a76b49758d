//! Apptainer's definition files: a header of keys, then sections
//! (<https://apptainer.org/docs/user/main/definition_files.html>).
//!
//! ```text
//! Bootstrap: docker
//! From: debian:12
//! %post
//!     apt-get install -y gdal-bin
//! ```

use std::collections::BTreeMap;

use super::base;
use super::step::{Fate, Start, Step, StepKind};
use crate::{Error, Result};

/// What becomes of a section.
#[derive(Debug, Clone, Copy)]
enum Section {
    /// Defaults of `{{ name }}`.
    Arguments,
    Files,
    Post,
    Environment,
    Labels,
    Run,
    Other(Fate),
}

/// The sections, in the order of Apptainer's page.
const SECTIONS: [(&str, Section); 19] = [
    ("arguments", Section::Arguments),
    (
        "setup",
        Section::Other(Fate::Missing(
            "it runs on the machine that builds the image: run it yourself",
        )),
    ),
    ("files", Section::Files),
    ("environment", Section::Environment),
    ("post", Section::Post),
    ("runscript", Section::Run),
    ("startscript", Section::Other(Fate::Missing("images of a recipe have no services"))),
    (
        "test",
        Section::Other(Fate::Different("run these commands with `apptainer exec` and the image")),
    ),
    ("labels", Section::Labels),
    ("help", Section::Other(Fate::Different("images of a recipe have no help text"))),
    (
        "pre",
        Section::Other(Fate::Missing(
            "it runs on the machine that builds the image: run it yourself",
        )),
    ),
    ("appinstall", Section::Other(Fate::Missing(APPS))),
    ("appenv", Section::Other(Fate::Missing(APPS))),
    ("apprun", Section::Other(Fate::Missing(APPS))),
    ("appfiles", Section::Other(Fate::Missing(APPS))),
    ("applabels", Section::Other(Fate::Missing(APPS))),
    ("apphelp", Section::Other(Fate::Missing(APPS))),
    ("apptest", Section::Other(Fate::Missing(APPS))),
    ("appstart", Section::Other(Fate::Missing(APPS))),
];

const APPS: &str = "a recipe has one program: write a recipe for each";

/// The key that begins a stage.
const BOOTSTRAP: &str = "bootstrap";

/// A header and its sections.
#[derive(Debug, Default, Clone)]
struct StageText {
    /// Line, key in lower case, value.
    keys: Vec<(usize, String, String)>,
    sections: Vec<SectionText>,
}

#[derive(Debug, Clone)]
struct SectionText {
    line: usize,
    name: String,
    /// What follows the name on its line.
    rest: String,
    /// The lines after that.
    text: String,
}

/// Returns the steps of one stage.
///
/// # Errors
/// [`Error::Recipe`] with the line of what no definition file has.
pub(super) fn steps(
    text: &str,
    path: &str,
    arguments: &BTreeMap<String, String>,
    stage: Option<&str>,
    keep_base: bool,
) -> Result<Vec<Step>> {
    let text = filled(text, path, arguments)?;
    let stages = parse(&text, path)?;
    let at = match stage {
        None => stages.len().checked_sub(1),
        Some(wanted) => {
            let named = |one: &StageText| one.key("stage").is_some_and(|(_, name)| name == wanted);
            stages.iter().position(named)
        }
    };
    let Some((at, stage)) = at.and_then(|at| Some((at, stages.get(at)?))) else {
        let reason = "there is no stage of this name".to_owned();
        return Err(Error::Recipe { path: path.to_owned(), line: 1, reason, hint: None });
    };
    let others = others_of(&stages, at, keep_base);
    let mut steps = Vec::new();
    for other in &others.stages {
        let marked = |kind| Step { line: 0, text: String::new(), kind };
        steps.push(marked(StepKind::OtherStage { begins_with: None }));
        all(&mut steps, other, &others.names);
        steps.push(marked(StepKind::OwnStage));
    }
    all(&mut steps, stage, &others.names);
    Ok(steps)
}

/// The steps of a stage. `names` are those of stages that are done before.
fn all(steps: &mut Vec<Step>, stage: &StageText, names: &[String]) {
    steps.push(begin(stage));
    steps.extend(others(stage));
    // `%files` come before `%post`, wherever they are in the file.
    let before_post = |section: &&SectionText| section.name == "files";
    let first = stage.sections.iter().filter(before_post);
    let then = stage.sections.iter().filter(|section| !before_post(section));
    for section in first.chain(then) {
        add(steps, section, names);
    }
}

/// Stages that another one copies from.
struct OtherStages {
    names: Vec<String>,
    stages: Vec<StageText>,
}

/// The stages before a stage that it copies from, if a recipe can begin with the same base.
fn others_of(stages: &[StageText], own: usize, keep_base: bool) -> OtherStages {
    let image = |stage: &StageText| match begin(stage).kind {
        StepKind::Image(image) => Some(image),
        _ => None,
    };
    let mut found = OtherStages { names: Vec::new(), stages: Vec::new() };
    let Some(stage) = stages.get(own) else { return found };
    let sources: Vec<&str> = stage.sections.iter().filter_map(SectionText::other_stage).collect();
    for other in stages.iter().take(own) {
        let Some((_, name)) = other.key("stage").filter(|(_, name)| sources.contains(name)) else {
            continue;
        };
        let images = image(other).zip(image(stage));
        if images.is_some_and(|(one, two)| base::is_same(&one, &two, keep_base)) {
            found.names.push(name.to_owned());
            found.stages.push(other.clone());
        }
    }
    found
}

impl SectionText {
    /// The stage of `%files from STAGE`.
    fn other_stage(&self) -> Option<&str> {
        let mut words = self.rest.split_whitespace();
        (self.name == "files" && words.next() == Some("from")).then(|| words.next()).flatten()
    }
}

impl StageText {
    fn key(&self, name: &str) -> Option<(usize, &str)> {
        let found = self.keys.iter().find(|(_, key, _)| key == name);
        found.map(|(line, _, value)| (*line, value.as_str()))
    }
}

/// The base.
fn begin(stage: &StageText) -> Step {
    let (line, agent) = stage.key(BOOTSTRAP).unwrap_or((1, ""));
    let (from_line, from) = stage.key("from").unwrap_or((line, ""));
    let path = || StepKind::Archive(from.to_owned());
    let place = |key: &str| {
        let found = stage.key(key).map(|(_, value)| value.trim_matches('/'));
        found.filter(|value| !value.is_empty()).map(|value| format!("{value}/"))
    };
    let kind = match agent.to_ascii_lowercase().as_str() {
        "docker" => {
            let (registry, namespace) = (place("registry"), place("namespace"));
            let before = [registry.unwrap_or_default(), namespace.unwrap_or_default()].concat();
            let from = if before.is_empty() { from } else { from.trim_start_matches("//") };
            StepKind::Image(format!("{before}{from}"))
        }
        "oci" | "oci-archive" | "docker-archive" => path(),
        "scratch" => StepKind::Scratch,
        "debootstrap" => match stage.key("osversion").and_then(|(_, v)| base::release(v)) {
            Some(release) => StepKind::Debian(release.to_owned()),
            None => StepKind::NoBase("of Debian's releases, a recipe can begin with 12 and 13"),
        },
        "library" | "shub" | "oras" | "localimage" => StepKind::NoBase(
            "a recipe cannot begin with a SIF: name the OCI image that it is made of",
        ),
        _ => StepKind::NoBase("a recipe begins with Debian's packages or an OCI image"),
    };
    let text = match from.is_empty() {
        true => format!("Bootstrap: {agent}"),
        false => format!("Bootstrap: {agent}, From: {from}"),
    };
    Step { line: from_line, text, kind }
}

/// The keys that do not say what the base is.
fn others(stage: &StageText) -> Vec<Step> {
    let agent = stage.key(BOOTSTRAP).map(|(_, agent)| agent.to_ascii_lowercase());
    let read: &[&str] = match agent.as_deref() {
        Some("docker") => &["from", "stage", BOOTSTRAP, "registry", "namespace"],
        Some("debootstrap") => &["osversion", "stage", BOOTSTRAP],
        _ => &["from", "stage", BOOTSTRAP],
    };
    let fate = |key: &str| match (agent.as_deref(), key) {
        (Some("debootstrap"), "mirrorurl") => {
            Fate::Different("packages come from the mirror that the image is built with")
        }
        _ => Fate::Missing("a recipe has nothing like this key"),
    };
    let unread = stage.keys.iter().filter(|(_, key, _)| !read.contains(&key.as_str()));
    let step = |(line, key, value): &(usize, String, String)| {
        let names: Vec<&str> = value.split([' ', ',']).filter(|name| !name.is_empty()).collect();
        let kind = match agent.as_deref() == Some("debootstrap") && key == "include" {
            true => StepKind::post(format!(
                "apt-get install --no-install-recommends {}",
                names.join(" ")
            )),
            false => StepKind::Other(fate(key)),
        };
        Step { line: *line, text: format!("{key}: {value}"), kind }
    };
    unread.map(step).collect()
}

fn add(steps: &mut Vec<Step>, section: &SectionText, stages: &[String]) {
    let SectionText { line, name, rest, text } = section;
    let known = SECTIONS.iter().find(|(known, _)| known == name).map(|(_, known)| *known);
    let shown = format!("%{name} {rest}").trim_end().to_owned();
    let step = |kind: StepKind| Step { line: *line, text: shown.clone(), kind };
    let lines = || text.split('\n').enumerate().map(|(n, text)| (line + 1 + n, text.trim()));
    match known {
        Some(Section::Arguments) | None => {}
        Some(Section::Post) => {
            let is_shell = !rest.contains("-c") || rest.contains("sh");
            steps.push(step(match is_shell {
                true => StepKind::post(format!("\n{text}")),
                false => StepKind::Other(Fate::Missing("it is not a script for a shell")),
            }));
        }
        Some(Section::Environment) => steps.push(step(StepKind::Environment(format!("\n{text}")))),
        Some(Section::Run) => steps.push(step(StepKind::Entrypoint(Start::Script(text.clone())))),
        Some(Section::Other(fate)) => {
            if !text.trim().is_empty() {
                steps.push(step(StepKind::Other(fate)));
            }
        }
        Some(Section::Files) => {
            let from_stage = rest.split_whitespace().next() == Some("from");
            let is_done =
                section.other_stage().is_some_and(|name| stages.iter().any(|one| one == name));
            for (line, text) in
                lines().filter(|(_, text)| !text.is_empty() && !text.starts_with('#'))
            {
                let words = shlex::split(text).unwrap_or_default();
                let kind = match words.as_slice() {
                    [source, ..] if is_done => {
                        let dest = words.get(1).unwrap_or(source).clone();
                        StepKind::CopyFrom {
                            sources: vec![source.clone()],
                            dest,
                            is_apptainer: true,
                        }
                    }
                    _ if from_stage => StepKind::Other(Fate::Missing(
                        "it is made by another stage: build it on this machine, and name it in `[app.files]`",
                    )),
                    [source] => {
                        let (sources, dest) = (vec![source.clone()], source.clone());
                        StepKind::Copy { sources, dest, is_apptainer: true }
                    }
                    [source, dest] => {
                        let (sources, dest) = (vec![source.clone()], dest.clone());
                        StepKind::Copy { sources, dest, is_apptainer: true }
                    }
                    _ => {
                        StepKind::Other(Fate::Missing("expected a path here, and one in the image"))
                    }
                };
                steps.push(Step { line, text: text.to_owned(), kind });
            }
        }
        Some(Section::Labels) => {
            for (line, text) in
                lines().filter(|(_, text)| !text.is_empty() && !text.starts_with('#'))
            {
                let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
                let value = value.trim().trim_matches('"').to_owned();
                let name = name.trim_end_matches(':').to_owned();
                steps.push(Step {
                    line,
                    text: text.to_owned(),
                    kind: StepKind::LabelIs(name, value),
                });
            }
        }
    }
}

/// Splits the text into stages.
fn parse(text: &str, path: &str) -> Result<Vec<StageText>> {
    let wrong = |line: usize, reason: String| Error::Recipe {
        path: path.to_owned(),
        line,
        reason,
        hint: None,
    };
    let mut stages: Vec<StageText> = Vec::new();
    let mut open: Option<SectionText> = None;
    for (n, whole) in text.lines().enumerate() {
        let line = n + 1;
        let bare = whole.trim();
        let header = key_of(bare).filter(|(key, _)| {
            open.is_none() || (key == BOOTSTRAP && !whole.starts_with(char::is_whitespace))
        });
        if let Some((key, value)) = header {
            // `From:` may come first.
            let is_new = stages.last().is_none_or(|stage: &StageText| {
                open.is_some() || !stage.sections.is_empty() || stage.key(BOOTSTRAP).is_some()
            });
            if stages.is_empty() || (key == BOOTSTRAP && is_new) {
                if let (Some(section), Some(stage)) = (open.take(), stages.last_mut()) {
                    stage.sections.push(section);
                }
                stages.push(StageText::default());
            }
            if let Some(stage) = stages.last_mut() {
                stage.keys.push((line, key, value));
            }
            continue;
        }
        let section = bare.strip_prefix('%').map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            rest.split_at(end)
        });
        let section =
            section.filter(|(name, _)| name.starts_with(|c: char| c.is_ascii_alphabetic()));
        if let Some((name, rest)) = section {
            let name = name.to_ascii_lowercase();
            if !SECTIONS.iter().any(|(known, _)| *known == name) {
                return Err(wrong(line, format!("unknown section `%{name}`")));
            }
            let Some(stage) = stages.last_mut() else {
                return Err(wrong(line, "a section before `Bootstrap:`".to_owned()));
            };
            stage.sections.extend(open.take());
            let rest = rest.split('#').next().unwrap_or_default().trim().to_owned();
            open = Some(SectionText { line, name, rest, text: String::new() });
        } else if let Some(section) = &mut open {
            section.text.push_str(whole);
            section.text.push('\n');
        } else if !bare.is_empty() && !bare.starts_with('#') {
            return Err(wrong(
                line,
                format!("expected `Bootstrap: …`, a key or a section, found `{bare}`"),
            ));
        }
    }
    match stages.last_mut() {
        Some(stage) => stage.sections.extend(open),
        None => return Err(wrong(1, "the key `Bootstrap` is missing".to_owned())),
    }
    Ok(stages)
}

/// `Key: value` of a header.
fn key_of(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim_end();
    let good =
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let value = value.split(" #").next().unwrap_or_default().trim();
    good.then(|| (key.to_ascii_lowercase(), value.trim_matches('"').to_owned()))
}

/// Replaces `{{ name }}` by the values given, or by the defaults of `%arguments`.
fn filled(text: &str, path: &str, given: &BTreeMap<String, String>) -> Result<String> {
    let mut values = BTreeMap::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('%') {
            inside = name.split_whitespace().next() == Some("arguments");
        } else if let (true, Some((name, value))) = (inside, line.split_once('=')) {
            values.insert(name.trim().to_owned(), value.trim().trim_matches('"').to_owned());
        }
    }
    values.extend(given.clone());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((name, end)) = after.split_once("}}").filter(|(name, _)| !name.contains('\n'))
        else {
            out.push_str("{{");
            rest = after;
            continue;
        };
        let Some(value) = values.get(name.trim()) else {
            let line = out.matches('\n').count() + 1;
            let reason = format!("the argument `{}` has no value", name.trim());
            return Err(Error::Recipe { path: path.to_owned(), line, reason, hint: None });
        };
        out.push_str(value);
        rest = end;
    }
    out.push_str(rest);
    Ok(out)
}
