//! Dockerfiles: instructions as steps. The grammar is the crate `parse-dockerfile`'s.

use std::collections::{BTreeMap, BTreeSet};

use parse_dockerfile::{Command, Flag, Instruction, Source, Span, Stage};

use super::base;
use super::step::{Fate, Start, Step, StepKind};
use super::variables::Variables;
use crate::{Error, Result};

/// Instructions that become nothing, as the reference describes them
/// (<https://docs.docker.com/reference/dockerfile/>).
const OTHERS: [(&str, Fate); 7] = [
    ("USER", Fate::Different("jobs run as the user who starts them")),
    ("EXPOSE", Fate::Different("a job sees the network of its machine: ports need no opening")),
    ("VOLUME", Fate::Different("the job's own folders are mounted when it starts")),
    ("STOPSIGNAL", Fate::Different("batch systems choose the signal that ends a job")),
    ("HEALTHCHECK", Fate::Different("batch systems do not ask a job for its health")),
    ("ONBUILD", Fate::Different("it matters only to images that are built on this one")),
    ("MAINTAINER", Fate::Different("it is deprecated")),
];

/// Returns the steps of one stage, with those of the stages that it begins with.
///
/// # Errors
/// [`Error::Recipe`] with the line of what is not a Dockerfile, and for a stage that is not there.
pub(super) fn steps(
    text: &str,
    path: &str,
    arguments: &BTreeMap<String, String>,
    stage: Option<&str>,
    keep_base: bool,
) -> Result<Vec<Step>> {
    // The parser takes no empty lists.
    let changed = match parse_dockerfile::parse(text) {
        Ok(_) => None,
        Err(_) => Some(with_empty_words(text)),
    };
    let text = changed.as_deref().unwrap_or(text);
    let file = parse_dockerfile::parse(text).map_err(|error| Error::Recipe {
        path: path.to_owned(),
        line: error.line().max(1),
        reason: format!("not a Dockerfile: {error:#}"),
        hint: None,
    })?;
    let stages: Vec<Stage<'_, '_>> = file.stages().collect();
    let name = |stage: &Stage<'_, '_>| stage.from.as_.as_ref().map(|(_, n)| n.value.to_string());
    let no_stage = || {
        let names: Vec<String> = stages.iter().filter_map(name).collect();
        let reason = format!("there is no stage `{}`", stage.unwrap_or_default());
        let hint = (!names.is_empty()).then(|| format!("the stages are: {}", names.join(", ")));
        Error::Recipe { path: path.to_owned(), line: 1, reason, hint }
    };
    let lines = Lines::new(text);
    // The name of a stage may depend on arguments.
    let mut values = Variables::before_base();
    for arg in file.global_args() {
        for word in shlex::split(&arg.arguments.value).unwrap_or_default() {
            let Some((name, value)) = word.split_once('=') else { continue };
            if let Ok(value) = values.expand(value, false) {
                values.set(name, value);
            }
        }
        for (name, value) in arguments {
            values.set(name, value.clone());
        }
    }
    let steps_of = Stages { stages: &stages, values: &values, lines: &lines, keep_base };
    let at = match stage {
        None => stages.len().checked_sub(1),
        Some(wanted) => steps_of.named(wanted, stages.len()).or_else(|| wanted.parse().ok()),
    };
    let own = at.filter(|at| *at < stages.len()).ok_or_else(no_stage)?;
    let chain: BTreeSet<usize> = steps_of.chain(own).into_iter().collect();
    let mut steps: Vec<Step> = file
        .global_args()
        .map(|arg| {
            lines.step(
                &arg.arg.span,
                &arg.arguments.span,
                StepKind::Arg(arg.arguments.value.to_string()),
            )
        })
        .collect();
    let mark = |kind| Step { line: 0, text: String::new(), kind };
    steps.push(mark(StepKind::StageEnd(None)));
    // Each stage is done once, and those that it begins with before it.
    let mut needed = steps_of.others(own);
    needed.extend(&chain);
    for index in needed {
        let Some(stage) = stages.get(index) else { continue };
        if !chain.contains(&index) {
            let begins_with = steps_of.parent(index);
            steps.push(mark(StepKind::OtherStage { begins_with }));
            steps_of.add(index, own, &mut steps);
            steps.push(mark(StepKind::StageEnd(Some(index))));
            steps.push(mark(StepKind::OwnStage));
            continue;
        }
        if chain.first() == Some(&index) {
            let from = stage.from;
            let image = StepKind::Image(from.image.value.to_string());
            let mut step = lines.step(&from.from.span, &from.image.span, image);
            step.text = format!("FROM {}", from.image.value);
            if let Some(platform) = option(&from.options, "platform") {
                let kind = StepKind::Platform(platform.to_owned());
                steps.push(Step { kind, ..step.clone() });
            }
            steps.push(step);
        } else {
            let line = lines.line(stage.from.from.span.start);
            steps.push(Step { line, text: "FROM".to_owned(), kind: StepKind::Stage });
        }
        steps_of.add(index, own, &mut steps);
        steps.push(mark(StepKind::StageEnd(Some(index))));
    }
    Ok(steps)
}

/// The stages of a file.
struct Stages<'s, 'a, 'b> {
    stages: &'s [Stage<'a, 'b>],
    values: &'s Variables,
    lines: &'s Lines<'s>,
    keep_base: bool,
}

impl Stages<'_, '_, '_> {
    /// The last stage before `of` with this name.
    fn named(&self, name: &str, of: usize) -> Option<usize> {
        let name = self.values.expand(name, false).unwrap_or_else(|_| name.to_owned());
        let is_named = |stage: &Stage<'_, '_>| {
            stage.from.as_.as_ref().is_some_and(|(_, own)| own.value.eq_ignore_ascii_case(&name))
        };
        self.stages.get(..of)?.iter().rposition(is_named)
    }

    /// The stage that another one begins with.
    fn parent(&self, stage: usize) -> Option<usize> {
        self.named(&self.stages.get(stage)?.from.image.value, stage)
    }

    /// A stage, and those that it begins with.
    fn chain(&self, stage: usize) -> Vec<usize> {
        std::iter::successors(Some(stage), |stage| self.parent(*stage)).collect()
    }

    /// The base image of a stage.
    fn image(&self, stage: usize) -> Option<String> {
        let image = &self.stages.get(*self.chain(stage).last()?)?.from.image.value;
        self.values.expand(image, false).ok()
    }

    /// Whether a recipe can begin with the same base for two stages.
    fn is_same(&self, one: usize, other: usize) -> bool {
        let images = self.image(one).zip(self.image(other));
        images.is_some_and(|(one, other)| base::is_same(&one, &other, self.keep_base))
    }

    /// The stage that an instruction copies from, if a recipe can begin with the same base.
    fn source(&self, instruction: &Instruction<'_>, of: usize) -> Option<usize> {
        let Instruction::Copy(copy) = instruction else { return None };
        let from = option(&copy.options, "from")?;
        let from =
            self.named(from, of).or_else(|| from.parse::<usize>().ok().filter(|at| *at < of))?;
        self.is_same(from, of).then_some(from)
    }

    /// The stages that a stage copies from, with those that they begin with.
    fn others(&self, own: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = self.chain(own);
        while let Some(at) = open.pop() {
            let Some(stage) = self.stages.get(at) else { continue };
            for from in stage.instructions.iter().filter_map(|one| self.source(one, at)) {
                for stage in self.chain(from) {
                    if found.insert(stage) {
                        open.push(stage);
                    }
                }
            }
        }
        found
    }

    /// Adds the steps of a stage's instructions.
    fn add(&self, at: usize, own: usize, steps: &mut Vec<Step>) {
        let Some(stage) = self.stages.get(at) else { return };
        for instruction in stage.instructions {
            let mut step = self.lines.instruction(instruction);
            if let (Instruction::Copy(copy), Some(_)) = (instruction, self.source(instruction, at))
                && self.is_same(at, own)
            {
                let paths = copy.src.iter().filter_map(|source| match source {
                    Source::Path(path) => Some(unquoted(&path.value)),
                    _ => None,
                });
                let (sources, dest) = (paths.collect(), unquoted(&copy.dest.value));
                step.kind = StepKind::CopyFrom { sources, dest, is_apptainer: false };
            }
            steps.extend(flags(instruction, &step));
            let modes = modes(instruction, &step);
            steps.push(step);
            steps.extend(modes);
        }
    }
}

/// The text with `[""]` for the `[]` of `ENTRYPOINT []`, which starts nothing.
fn with_empty_words(text: &str) -> String {
    let line = |line: &str| {
        let is_empty = line.split_once(char::is_whitespace).is_some_and(|(keyword, words)| {
            let starts = ["ENTRYPOINT", "CMD"].iter().any(|of| keyword.eq_ignore_ascii_case(of));
            let inner = words.trim().strip_prefix('[').and_then(|w| w.strip_suffix(']'));
            starts && inner.is_some_and(|inner| inner.trim().is_empty())
        });
        if is_empty { line.replace('[', "[\"\"") } else { line.to_owned() }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Where things are in the text.
struct Lines<'a> {
    text: &'a str,
    /// Where the lines end.
    ends: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, ends: text.match_indices('\n').map(|(at, _)| at).collect() }
    }

    /// The line, from 1.
    fn line(&self, at: usize) -> usize {
        self.ends.partition_point(|end| *end < at) + 1
    }

    fn step(&self, begin: &Span, end: &Span, kind: StepKind) -> Step {
        let text = self.text.get(begin.start..end.end).unwrap_or_default().to_owned();
        Step { line: self.line(begin.start), text, kind }
    }

    fn instruction(&self, instruction: &Instruction<'_>) -> Step {
        let other = |keyword: &Span, end: Option<&Span>| {
            let name = self.text.get(keyword.clone()).unwrap_or_default().to_ascii_uppercase();
            let row = OTHERS.iter().find(|(row, _)| *row == name);
            let fate = row.map_or(Fate::Missing("a recipe has nothing like it"), |(_, fate)| *fate);
            let line_end = self.text.get(keyword.start..).and_then(|rest| rest.find('\n'));
            let line_end = line_end.map_or(self.text.len(), |len| keyword.start + len);
            let end = end.map_or(line_end, |span| span.end);
            self.step(keyword, &(keyword.start..end), StepKind::Other(fate))
        };
        match instruction {
            Instruction::Arg(i) => {
                let kind = StepKind::Arg(i.arguments.value.to_string());
                self.step(&i.arg.span, &i.arguments.span, kind)
            }
            Instruction::Env(i) => {
                let kind = StepKind::Env(i.arguments.value.to_string());
                self.step(&i.env.span, &i.arguments.span, kind)
            }
            Instruction::Label(i) => {
                let kind = StepKind::Label(i.arguments.value.to_string());
                self.step(&i.label.span, &i.arguments.span, kind)
            }
            Instruction::Maintainer(i) => {
                let name = "org.opencontainers.image.authors".to_owned();
                let kind = StepKind::LabelIs(name, unquoted(&i.name.value));
                self.step(&i.maintainer.span, &i.name.span, kind)
            }
            Instruction::Workdir(i) => {
                let kind = StepKind::WorkDir(unquoted(&i.arguments.value));
                self.step(&i.workdir.span, &i.arguments.span, kind)
            }
            Instruction::Copy(i) => {
                self.copy(&i.copy.span, &i.options, &i.src, &i.dest.value, &i.dest.span, false)
            }
            Instruction::Add(i) => {
                self.copy(&i.add.span, &i.options, &i.src, &i.dest.value, &i.dest.span, true)
            }
            Instruction::Entrypoint(i) => {
                let (start, span) = start(&i.arguments);
                self.step(&i.entrypoint.span, span, StepKind::Entrypoint(start))
            }
            Instruction::Cmd(i) => {
                let (start, span) = start(&i.arguments);
                self.step(&i.cmd.span, span, StepKind::Cmd(start))
            }
            Instruction::Run(i) => {
                let (text, span) = match (&i.arguments, i.here_docs.first()) {
                    (Command::Shell(text), None) => (without_comments(text.value), &text.span),
                    (Command::Shell(begin), Some(document)) => {
                        // The value is what follows the document's name on its line.
                        let is_alone = begin.value.trim().is_empty();
                        let script = document.value.trim_start();
                        let shells = ["#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env bash"];
                        let own = script.starts_with("#!");
                        let is_shell = !own || shells.iter().any(|s| script.starts_with(s));
                        if !is_alone || !is_shell {
                            let fate = Fate::Missing(RUN_OTHER);
                            return self.step(&i.run.span, &document.span, StepKind::Other(fate));
                        }
                        (format!("\n{}", document.value), &document.span)
                    }
                    (Command::Exec(words), _) => {
                        let words = words.value.iter().map(|word| word.value.as_ref());
                        let joined = shlex::try_join(words).unwrap_or_default();
                        let Command::Exec(all) = &i.arguments else {
                            return other(&i.run.span, None);
                        };
                        (joined, &all.span)
                    }
                    _ => return other(&i.run.span, None),
                };
                let mounts = i.options.iter().filter(|option| option.name.value == "mount");
                let values = mounts.filter_map(|m| Some(m.value.as_ref()?.value.as_ref()));
                let values: Vec<&str> = values.collect();
                let mounts: Vec<_> = values.iter().filter_map(|mount| bound(mount)).collect();
                // A cache only saves time.
                let n_caches = values.iter().filter(|mount| mount.contains("type=cache")).count();
                let needs_more = mounts.len() + n_caches < values.len();
                let is_cut_off = option(&i.options, "network") == Some("none");
                let kind = StepKind::Run { text, mounts, needs_more, is_cut_off };
                self.step(&i.run.span, span, kind)
            }
            Instruction::User(i) => other(&i.user.span, None),
            Instruction::Expose(i) => other(&i.expose.span, None),
            Instruction::Volume(i) => other(&i.volume.span, None),
            Instruction::Stopsignal(i) => other(&i.stopsignal.span, None),
            Instruction::Healthcheck(i) => other(&i.healthcheck.span, None),
            Instruction::Onbuild(i) => other(&i.onbuild.span, None),
            Instruction::Shell(i) => {
                let words = i.arguments.iter().map(|word| word.value.to_string()).collect();
                self.step(&i.shell.span, &i.shell.span, StepKind::OwnShell(words))
            }
            Instruction::From(i) => other(&i.from.span, None),
            _ => other(&(0..0), None),
        }
    }

    fn copy(
        &self,
        keyword: &Span,
        options: &[Flag<'_>],
        sources: &[Source<'_>],
        dest: &str,
        end: &Span,
        is_add: bool,
    ) -> Step {
        let paths: Option<Vec<String>> = sources
            .iter()
            .map(|source| match source {
                Source::Path(path) => Some(unquoted(&path.value)),
                _ => None,
            })
            .collect();
        let missing = |reason| self.step(keyword, end, StepKind::Other(Fate::Missing(reason)));
        if let Some(from) = option(options, "from") {
            if from.contains("astral-sh/uv") {
                let fate = Fate::Different("packages are installed without `uv` in the image");
                return self.step(keyword, end, StepKind::Other(fate));
            }
            if from.contains(['/', ':']) {
                return missing(
                    "it is in another image: copy it from there to this machine, and name it in `[app.files]`",
                );
            }
            return missing(
                "it is made by another stage: build it on this machine, and name it in `[app.files]`",
            );
        }
        let Some(sources) = paths else {
            let [Source::HereDoc(document)] = sources else {
                return missing("write the text to a file, and name it in `[app.files]`");
            };
            let kind = StepKind::Text {
                lines: document.value.to_string(),
                expands: document.expand,
                dest: unquoted(dest),
            };
            return self.step(keyword, end, kind);
        };
        if is_add
            && sources.iter().any(|source| source.contains("://") || source.starts_with("git@"))
        {
            return missing("fetch it to this machine, and name it in `[app.files]`");
        }
        if has(options, "parents") {
            return missing("with `--parents`, folders are kept: name each file in `[app.files]`");
        }
        let archives = [
            ".tar.zst", ".tzst", ".tbz", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".txz",
            ".tbz2",
        ];
        if is_add && sources.iter().any(|source| archives.iter().any(|end| source.ends_with(end))) {
            if !sources.iter().all(|source| archives.iter().any(|end| source.ends_with(end))) {
                return missing("unpack it on this machine, and name its folder in `[app.files]`");
            }
            return self.step(keyword, end, StepKind::Unpack { sources, dest: unquoted(dest) });
        }
        let kind = StepKind::Copy { sources, dest: unquoted(dest), is_apptainer: false };
        self.step(keyword, end, kind)
    }
}

/// Why a script for something else than a shell is left out.
const RUN_OTHER: &str = "it is not a script for a shell";

/// What the options of an instruction would change.
const FLAGS: [(&str, Fate); 5] = [
    ("chown", MODES),
    (
        "exclude",
        Fate::Different(
            "all files are copied, also those that `--exclude` names: remove them here",
        ),
    ),
    ("keep-git-dir", Fate::Different("a folder is copied with all that is in it")),
    ("checksum", Fate::Different("the lock has the digests of all files")),
    ("unpack", Fate::Missing("unpack archives on this machine")),
];
const MODES: Fate = Fate::Different("all files belong to root and can be read by everyone");
const MODES_THERE: Fate = Fate::Missing(
    "`--chmod` is not done: the files keep the modes that they have there; `chmod` them in a step of `[[run]]`",
);
/// Options that change nothing in an image.
const WITHOUT_TRACE: [&str; 8] =
    ["from", "chmod", "link", "parents", "mount", "network", "security", "platform"];

/// What `--chmod` asks for.
fn modes(instruction: &Instruction<'_>, step: &Step) -> Option<Step> {
    let options = match instruction {
        Instruction::Copy(i) => &i.options,
        Instruction::Add(i) => &i.options,
        _ => return None,
    };
    let mode = option(options, "chmod")?.to_owned();
    let kind = match &step.kind {
        StepKind::Copy { .. } | StepKind::Text { .. } => StepKind::Modes(mode),
        StepKind::CopyFrom { .. } | StepKind::Unpack { .. } => StepKind::Other(MODES_THERE),
        _ => return None,
    };
    Some(Step { kind, ..step.clone() })
}

/// Notes on an instruction's options.
fn flags(instruction: &Instruction<'_>, step: &Step) -> Vec<Step> {
    let options = match instruction {
        Instruction::Copy(i) => &i.options,
        Instruction::Add(i) => &i.options,
        Instruction::Run(i) => &i.options,
        _ => return Vec::new(),
    };
    if matches!(step.kind, StepKind::Other(_)) {
        return Vec::new();
    }
    let names = options.iter().map(|option| option.name.value.as_ref());
    let told = names.filter(|name| !WITHOUT_TRACE.contains(name));
    let step = |name: &str| {
        let row = FLAGS.iter().find(|(row, _)| *row == name);
        let fate = row.map_or(Fate::Missing("this option is not known here"), |(_, fate)| *fate);
        Step { kind: StepKind::Other(fate), ..step.clone() }
    };
    told.map(step).collect()
}

fn has(options: &[Flag<'_>], name: &str) -> bool {
    options.iter().any(|option| option.name.value == name)
}

fn option<'a>(options: &'a [Flag<'_>], name: &str) -> Option<&'a str> {
    let found = options.iter().find(|option| option.name.value == name)?;
    found.value.as_ref().map(|value| value.value.as_ref())
}

/// The path in the image and the path here of `--mount=type=bind,source=…,target=…`.
fn bound(mount: &str) -> Option<(String, String)> {
    let value = |names: &[&str]| {
        let mut all = mount.split(',').filter_map(|part| part.split_once('='));
        all.find(|(name, _)| names.contains(name)).map(|(_, value)| value.to_owned())
    };
    let is_bind = value(&["type"]).is_none_or(|kind| kind == "bind");
    let target = value(&["target", "dst", "destination"])?;
    (is_bind && value(&["from"]).is_none())
        .then(|| (target, value(&["source", "src"]).unwrap_or_else(|| ".".to_owned())))
}

fn start<'a>(command: &'a Command<'_>) -> (Start, &'a Span) {
    match command {
        Command::Exec(words) => {
            let all = words.value.iter().map(|word| word.value.to_string());
            // Empty: nothing is started.
            let all: Vec<String> = all.collect();
            let is_nothing = all.iter().all(String::is_empty);
            (Start::Words(if is_nothing { Vec::new() } else { all }), &words.span)
        }
        Command::Shell(text) => (Start::Shell(without_comments(text.value)), &text.span),
        _ => (Start::Words(Vec::new()), const { &(0..0) }),
    }
}

/// A text of several lines; Docker takes comments between continued lines away.
fn without_comments(text: &str) -> String {
    let mut lines = text.split('\n');
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        // The number of lines stays.
        out.push('\n');
        let bare = line.trim();
        out.push_str(if bare.starts_with('#') || bare.is_empty() { "\\" } else { line });
    }
    out
}

/// A value without the quotes around it.
fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote).and_then(|t: &str| t.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text).to_owned()
}
