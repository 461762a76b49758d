//! The programs that a submit file runs: its wrapper, and the programs that the wrapper calls.

use std::collections::BTreeSet;

use super::check::Context;
use super::files::{folder, inputs, is_interpreter};
use super::sandbox::{self, Program};
use super::scripts::{needed, not_brought};
use crate::disk::{base_name, below};
use crate::finding::{Edit, FileFindings, JobFinding};
use crate::rules;
use crate::script::shell::{Command, Script};
use crate::script::{self, Job, Language, options, python, shell};

/// A text that the job runs.
struct Text {
    path: String,
    text: String,
}

/// Whether a program is for Windows, by its name.
fn is_of_windows(program: &Text) -> bool {
    let end = program.path.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
    let is_windows = matches!(end.as_deref(), Some("bat" | "cmd" | "exe" | "ps1"));
    is_windows && !program.text.starts_with("#!")
}

pub(super) fn check(
    context: &Context<'_>,
    report: &mut FileFindings,
    seen: &mut BTreeSet<String>,
) -> Vec<JobFinding> {
    let mut findings = Vec::new();
    let arguments = context.value("arguments").map(|(_, value)| value.text).unwrap_or_default();
    let names: Vec<String> =
        inputs(context).iter().map(|input| base_name(&input.text).to_owned()).collect();
    let code = context.checkpoint_code();
    let job = Job {
        restarts: code.is_some(),
        exit_code: code.map(|(_, code)| code),
        inputs: &names,
        needs_shebang: Some(&rules::NO_SHEBANG),
    };
    let Some(Started { name, line, inline, by_argument }) = started(context, &arguments) else {
        return findings;
    };
    let wrapper = match inline {
        Some(text) => Some(Text { path: String::new(), text }),
        None => find(context, &name),
    };
    if by_argument {
        not_brought(context, &[(line, &name)], "", &names, report);
    }
    let Some(wrapper) = wrapper else {
        sandbox::check_program(context, &Program::default(), report, &mut FileFindings::new(""));
        return findings;
    };
    let language = Language::of(&wrapper.text);
    let is_python = language.map_or(wrapper.path.ends_with(".py"), |l| l == Language::Python);
    if language == Some(Language::Other) || is_of_windows(&wrapper) {
        if seen.insert(wrapper.path.clone()) {
            let mut own = FileFindings::new(&wrapper.path);
            script::other(&wrapper.text, &mut own);
            findings.append(&mut own.findings);
        }
        sandbox::check_program(context, &Program::default(), report, &mut FileFindings::new(""));
        return findings;
    }
    if is_python {
        let program = context.value("executable").map(|(_, value)| value.text);
        let program = program.map(|program| base_name(program.trim()).to_owned());
        let brought: Vec<String> = names.iter().cloned().chain(program).collect();
        let is_first = !seen.contains(&wrapper.path);
        let mut own = of_python(context, &wrapper, &job, Some(&brought), seen);
        if is_first && !by_argument {
            let mut ends = FileFindings::new(&wrapper.path);
            let _ = shell::windows_lines(&wrapper.text, &mut ends);
            own.splice(0..0, ends.findings);
        }
        if is_first && !by_argument && !wrapper.text.starts_with("#!") {
            own.insert(0, no_interpreter(&wrapper.path));
        }
        findings.append(&mut own);
        options_in_arguments(context, &wrapper.text, None, report);
        outputs(context, &[&wrapper], &arguments, report);
        let program = Program { wrapper: None, texts: vec![wrapper.text.as_str()] };
        sandbox::check_program(context, &program, report, &mut FileFindings::new(""));
        return findings;
    }
    let script = Script::parse(&wrapper.text);
    let mut own = FileFindings::new(&wrapper.path);
    if !wrapper.path.is_empty() && seen.insert(wrapper.path.clone()) {
        shell::check(&wrapper.text, &script, &job, &mut own);
    }
    if script.unread.is_some() {
        sandbox::check_program(context, &Program::default(), report, &mut FileFindings::new(""));
        return own.findings;
    }
    let called: Vec<(usize, &str)> = script.scripts().collect();
    if !script.brings_files() {
        let others = called.iter().copied().filter(|(_, name)| !script.writes(name));
        not_brought(context, &others.collect::<Vec<_>>(), &wrapper.text, &names, &mut own);
    }
    let mut texts = Vec::new();
    let mut unknown = false;
    for (_, name) in &called {
        match find(context, name) {
            Some(text) => texts.push(text),
            None => unknown = true,
        }
    }
    let text_of = |name: &str| {
        let mut texts = texts.iter();
        let text = texts.find(|text| base_name(&text.path) == base_name(name));
        // A module or a program in `bash -c` is not among the scripts that are called.
        text.map(|text| text.text.clone()).or_else(|| Some(find(context, name)?.text))
    };
    options::check(&script, text_of, &mut own);
    // Words that the wrapper reads itself do not reach the program.
    let reads = |command: &Command| {
        matches!(command.program(), "shift" | "getopts" | "getopt")
            || command.words.starts_with(&["set".to_owned(), "--".to_owned()])
    };
    if !script.commands.iter().any(reads) {
        for command in &script.commands {
            let Some((name, words)) = command.script_words() else { continue };
            if name.ends_with(".py")
                && words.iter().any(|word| word == "$@" || word == "$*")
                && let Some(text) = text_of(name)
            {
                options_in_arguments(context, &text, Some(name), report);
            }
        }
    }
    if let Some((set, code)) = code {
        wrong_script(
            context,
            (&wrapper, &script),
            &called,
            &texts,
            code,
            (set.line, unknown),
            report,
            &mut own,
        );
    }
    let program = Program {
        wrapper: Some((wrapper.text.as_str(), &script)),
        texts: texts.iter().map(|text| text.text.as_str()).collect(),
    };
    sandbox::check_program(context, &program, report, &mut own);
    own.findings.sort_by_key(|finding| finding.line);
    if language.is_none() && !script.is_certain(&wrapper.path) {
        own.findings.iter_mut().for_each(|finding| finding.edit = None);
    }
    if wrapper.path.is_empty() {
        for finding in &mut own.findings {
            finding.file.clone_from(&report.file);
            finding.line = line;
            finding.edit = None;
        }
    }
    findings.append(&mut own.findings);
    let written = script.commands.iter().flat_map(Command::writes).map(base_name);
    let brought: Vec<String> = names.iter().cloned().chain(written.map(str::to_owned)).collect();
    let brought = (!script.brings_files()).then_some(brought.as_slice());
    for text in texts.iter().filter(|text| text.path.ends_with(".py")) {
        findings.append(&mut of_python(context, text, &job, brought, seen));
    }
    if !unknown {
        let all: Vec<&Text> = std::iter::once(&wrapper).chain(&texts).collect();
        outputs(context, &all, &arguments, report);
    }
    findings
}

/// Reports options in the job's arguments that the program does not have.
fn options_in_arguments(
    context: &Context<'_>,
    text: &str,
    name: Option<&str>,
    report: &mut FileFindings,
) {
    let Some(set) = context.submit.any(&["arguments", "args"]) else { return };
    let words = set.value.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    // Options before the program's name are those of its interpreter.
    let at = words.clone().position(|word| word.ends_with(".py")).map_or(0, |at| at + 1);
    for found in options::unknown(text, words.skip(at)) {
        let program = name.map_or("the program".to_owned(), |name| format!("`{name}`"));
        options::say(&program, found, set.line, report);
    }
}

/// Findings of a program, once. `brought`: all that is brought, where that is known.
fn of_python(
    context: &Context<'_>,
    program: &Text,
    job: &Job<'_>,
    brought: Option<&[String]>,
    seen: &mut BTreeSet<String>,
) -> Vec<JobFinding> {
    let mut own = FileFindings::new(&program.path);
    if seen.insert(program.path.clone()) {
        python::check(&program.text, job, &mut own);
        if let Some(brought) = brought {
            needed(context, &program.path, &program.text, brought, &mut own);
        }
        own.findings.sort_by_key(|finding| finding.line);
    }
    own.findings
}

/// The finding for a Python program that is started without an interpreter.
fn no_interpreter(path: &str) -> JobFinding {
    let mut own = FileFindings::new(path);
    let what = "the program does not begin with `#!`";
    let line = "#!/usr/bin/env python3";
    own.add(&rules::NO_SHEBANG, 1, what).fix(format!("begin it with `{line}`")).edit =
        Some(Edit { line: 1, count: 0, lines: vec![line.to_owned()] });
    own.findings.remove(0)
}

/// The program that HTCondor starts.
struct Started {
    name: String,
    line: usize,
    /// The text of the command `shell`.
    inline: Option<String>,
    /// An interpreter is started, and the script is an argument.
    by_argument: bool,
}

fn started(context: &Context<'_>, arguments: &str) -> Option<Started> {
    if let Some((set, value)) = context.value("shell") {
        let inline = Some(format!("#!/bin/sh\n{}\n", value.text));
        return Some(Started { name: String::new(), line: set.line, inline, by_argument: false });
    }
    let (set, value) = context.value("executable")?;
    let path = value.text.trim();
    if !is_interpreter(path) {
        let name = path.to_owned();
        return Some(Started { name, line: set.line, inline: None, by_argument: false });
    }
    let is_script = |word: &&str| word.ends_with(".sh") || word.ends_with(".py");
    let mut words = arguments.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    let line = context.submit.any(&["arguments", "args"]).map_or(set.line, |set| set.line);
    let name = words.find(is_script)?.to_owned();
    Some(Started { name, line, inline: None, by_argument: true })
}

/// The file that a job knows as `name`: an input of that name, else the one beside the
/// submit file, which an image may hold a copy of.
fn find(context: &Context<'_>, name: &str) -> Option<Text> {
    if name.contains('$') {
        return None;
    }
    let inputs_folder = folder(context).unwrap_or_else(|| context.folder.clone());
    let from_inputs = inputs(context)
        .into_iter()
        .map(|input| input.text)
        .find(|path| base_name(path) == base_name(name) && !path.contains("://"));
    let paths = [
        from_inputs.map(|path| below(&inputs_folder, &path)),
        Some(below(&context.folder, name)),
        Some(below(&context.folder, base_name(name))),
    ];
    // One name for one file: another node of a DAG may run it from the folder `.`.
    let short = |path: String| {
        let path = path.replace("/./", "/");
        path.strip_prefix("./").map(str::to_owned).unwrap_or(path)
    };
    paths
        .into_iter()
        .flatten()
        .map(short)
        .find_map(|path| Some(Text { text: context.disk.text(&path)?, path }))
}

/// A wrapper that runs another script than the one that checkpoints.
#[expect(clippy::too_many_arguments, reason = "facts of one job, used once")]
fn wrong_script(
    context: &Context<'_>,
    (wrapper, script): (&Text, &Script),
    called: &[(usize, &str)],
    texts: &[Text],
    code: i64,
    (line, unknown): (usize, bool),
    report: &mut FileFindings,
    own: &mut FileFindings,
) {
    let ends = |text: &str| python::exits_with(text, code);
    let own_program = wrapper.text.contains("gular-train");
    if called.is_empty()
        || own_program
        || script.exits_with(code)
        || texts.iter().any(|text| ends(&text.text))
    {
        return;
    }
    let Some((at, name)) = called.last() else { return };
    let beside = context.disk.list(&context.folder);
    let others: Vec<String> = beside
        .into_iter()
        .filter(|other| other.ends_with(".py") && other != base_name(name))
        .filter(|other| {
            context.disk.text(&below(&context.folder, other)).is_some_and(|text| ends(&text))
        })
        .collect();
    if let Some(other) = others.first() {
        let what = format!("`{name}` never exits with {code}, but `{other}` does");
        own.add(&rules::WRONG_SCRIPT, *at, what).fix(format!("call `{other}`"));
    } else if !unknown {
        let what = format!("no program that the job runs exits with {code}");
        report.add(&rules::NEVER_CHECKPOINTS, line, what);
    }
}

/// Reports outputs that no program names.
fn outputs(context: &Context<'_>, texts: &[&Text], arguments: &str, report: &mut FileFindings) {
    let named = |name: &str| {
        let parts = [name, base_name(name), name.split('/').next().unwrap_or(name)];
        parts.iter().any(|part| {
            arguments.contains(part) || texts.iter().any(|text| text.text.contains(part))
        })
    };
    // The outputs of a program that is called by its name alone are unknown.
    let binary = texts.iter().any(|text| {
        text.path.ends_with(".sh") && Script::parse(&text.text).scripts().next().is_none()
    });
    for list in ["transfer_output_files", "transfer_checkpoint_files"] {
        let Some(set) = context.submit.get(list).filter(|_| !binary) else { continue };
        for output in context.list(list) {
            let name = output.text.trim_end_matches('/');
            if output.varies || output.per_job || name.contains(['$', '*']) || named(name) {
                continue;
            }
            let what = format!("no program that the job runs mentions `{name}`");
            report.add(&rules::OUTPUT_NEVER_MADE, set.line, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::disk::tests::Files;
    use crate::lint::lint;

    #[test]
    fn a_wrapper_without_a_first_line_is_repaired_only_as_a_shell_script() {
        let check = |name: &str, text: &str, expected: &str| {
            let submit = format!(
                "executable = {name}\ncheckpoint_exit_code = 85\ntransfer_checkpoint_files = a\nrequest_memory = 1 GB\nqueue\n"
            );
            let mut better = text.to_owned();
            for _ in 0..3 {
                let files = [("x.sub", submit.as_str()), (name, better.as_str())];
                let found = lint("x.sub", &Files::of(&files)).unwrap_or_default();
                let found = found.iter().filter(|finding| finding.file == name);
                let edits: Vec<_> = found.filter_map(|finding| finding.edit.as_ref()).collect();
                better = crate::repair(name, &better, &edits);
            }
            assert_eq!(better, expected, "{name}");
        };
        let text = "cat <<E\nmkdir a\nE\nmkdir b\n";
        let right = "#!/bin/bash\ncat <<E\nmkdir a\nE\nmkdir -p b\n";
        check("run", text, right);
        check("run.sh", text, right);
        for (name, text) in [("run", "puts 1\nmkdir b\n"), ("a.R", text), ("a.jl", text)] {
            check(name, text, text);
        }
    }
}
