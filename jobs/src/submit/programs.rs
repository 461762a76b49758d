//! The programs that a submit file runs: its wrapper, and what that calls.

use std::collections::BTreeSet;

use super::check::Context;
use super::files::{folder, inputs};
use crate::disk::{base_name, below};
use crate::finding::{Edit, Finding, Report};
use crate::script::shell::Script;
use crate::script::{Job, python, shell};

/// A text that the job runs.
struct Text {
    path: String,
    text: String,
}

pub(super) fn check(
    context: &Context<'_>,
    report: &mut Report,
    seen: &mut BTreeSet<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let arguments = context.value("arguments").map(|(_, value)| value.text).unwrap_or_default();
    let names: Vec<String> =
        inputs(context).iter().map(|input| base_name(&input.text).to_owned()).collect();
    let code = context.checkpoint_code();
    let job =
        Job { restarts: code.is_some(), exit_code: code.map(|(_, code)| code), inputs: &names };
    let Some((name, line, inline)) = started(context, &arguments) else { return findings };
    let wrapper = match inline {
        Some(text) => Some(Text { path: String::new(), text }),
        None => find(context, &name),
    };
    let Some(wrapper) = wrapper else { return findings };
    let is_python = wrapper.path.ends_with(".py")
        || wrapper
            .text
            .lines()
            .next()
            .is_some_and(|line| line.starts_with("#!") && line.contains("python"));
    if is_python {
        if seen.insert(wrapper.path.clone()) {
            let mut own = Report::new(&wrapper.path);
            python::check(&wrapper.text, &job, &mut own);
            findings.append(&mut own.findings);
        }
        outputs(context, &[&wrapper], &arguments, report);
        return findings;
    }
    let script = Script::parse(&wrapper.text);
    let mut own = Report::new(&wrapper.path);
    if !wrapper.path.is_empty() && seen.insert(wrapper.path.clone()) {
        shell::check(&wrapper.text, &script, &job, &mut own);
    }
    let called: Vec<(usize, &str)> = script.scripts().collect();
    not_brought(context, &wrapper, &script, &names, &mut own);
    let mut texts = Vec::new();
    let mut unknown = false;
    for (_, name) in &called {
        match find(context, name) {
            Some(text) => texts.push(text),
            None => unknown = true,
        }
    }
    if let Some((set, code)) = code {
        wrong_script(
            context,
            &wrapper,
            &called,
            &texts,
            code,
            (set.line, unknown),
            report,
            &mut own,
        );
    }
    own.findings.sort_by_key(|finding| finding.line);
    if wrapper.path.is_empty() {
        for finding in &mut own.findings {
            finding.file.clone_from(&report.file);
            finding.line = line;
            finding.edit = None;
        }
    }
    findings.append(&mut own.findings);
    for text in texts.iter().filter(|text| text.path.ends_with(".py")) {
        if seen.insert(text.path.clone()) {
            let mut own = Report::new(&text.path);
            python::check(&text.text, &job, &mut own);
            findings.append(&mut own.findings);
        }
    }
    if !unknown {
        let all: Vec<&Text> = std::iter::once(&wrapper).chain(&texts).collect();
        outputs(context, &all, &arguments, report);
    }
    findings
}

/// The script that HTCondor starts, with its line; or the text of `shell`.
fn started(context: &Context<'_>, arguments: &str) -> Option<(String, usize, Option<String>)> {
    if let Some((set, value)) = context.value("shell") {
        return Some((String::new(), set.line, Some(format!("#!/bin/sh\n{}\n", value.text))));
    }
    let (set, value) = context.value("executable")?;
    let path = value.text.trim();
    let interpreter =
        matches!(base_name(path), "bash" | "sh" | "env") || base_name(path).starts_with("python");
    if !interpreter {
        return Some((path.to_owned(), set.line, None));
    }
    let is_script = |word: &&str| word.ends_with(".sh") || word.ends_with(".py");
    let words = arguments.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    Some((words.into_iter().find(is_script)?.to_owned(), set.line, None))
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
    paths
        .into_iter()
        .flatten()
        .find_map(|path| Some(Text { text: context.disk.text(&path)?, path }))
}

/// A script that the wrapper runs and nobody brings.
fn not_brought(
    context: &Context<'_>,
    wrapper: &Text,
    script: &Script,
    names: &[String],
    own: &mut Report,
) {
    let program = context
        .value("executable")
        .map(|(_, value)| base_name(value.text.trim()).to_owned())
        .unwrap_or_default();
    let at = folder(context).unwrap_or_else(|| context.folder.clone());
    let folders = inputs(context).iter().any(|input| {
        let is_file = || context.disk.len(&below(&at, &input.text)).is_some();
        (!base_name(&input.text).contains('.') && !is_file())
            || input.text.ends_with('/')
            || input.text.contains('$')
    });
    if script.brings_files() || folders {
        return;
    }
    for (line, name) in script.scripts() {
        let here = base_name(name);
        let relative = !name.starts_with('/') && !name.contains('$');
        if !relative
            || names.iter().any(|input| input == here)
            || here == program
            || wrapper.text.contains(&format!("> {here}"))
        {
            continue;
        }
        let image = context.submit.any(&["container_image", "docker_image"]).is_some();
        let path = below(&context.folder, name);
        if image && context.disk.len(&path).is_none() {
            // The image may have it, but not where an input has almost this name.
            let Some(near) = names.iter().find(|input| is_near(input, here)) else { continue };
            let what = format!("`{name}` is not in `transfer_input_files`, and `{near}` is");
            let right = wrapper.text.lines().nth(line - 1).unwrap_or_default();
            let right = right.replacen(here, near, 1);
            own.error(
                "not-brought",
                line,
                [
                    &what,
                    "the job runs in an empty folder with its inputs alone: the script is not there",
                    &format!("write `{near}`"),
                ],
            )
            .edit = Some(Edit { line, count: 1, lines: vec![right] });
            continue;
        }
        let what = format!("`{name}` is not in `transfer_input_files`");
        own.error(
            "not-brought",
            line,
            [
                &what,
                "the job runs in an empty folder with its inputs alone: the script is not there",
                "add it to `transfer_input_files`",
            ],
        );
    }
}

/// Whether two scripts of one kind differ by a slip of the fingers.
fn is_near(one: &str, other: &str) -> bool {
    let end = |name: &str| name.rsplit_once('.').map(|(_, end)| end.to_owned());
    // `part1.py` and `part2.py` are two files.
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    end(one) == end(other)
        && digits(one) == digits(other)
        && strsim::damerau_levenshtein(one, other) == 1
}

/// A wrapper that runs another script than the one that checkpoints.
#[expect(clippy::too_many_arguments, reason = "facts of one job, used once")]
fn wrong_script(
    context: &Context<'_>,
    wrapper: &Text,
    called: &[(usize, &str)],
    texts: &[Text],
    code: i64,
    (line, unknown): (usize, bool),
    report: &mut Report,
    own: &mut Report,
) {
    let ends = |text: &str| python::exits_with(text, code);
    let own_program = wrapper.text.contains("gular-train");
    if called.is_empty()
        || own_program
        || ends(&wrapper.text)
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
        let what = format!("`{name}` never ends with {code}; `{other}` does");
        let lines: Vec<&str> = wrapper.text.lines().collect();
        let right = name.replace(base_name(name), other);
        let edit = lines
            .get(at - 1)
            .filter(|line| line.contains(name) && others.len() == 1)
            .map(|line| Edit { line: *at, count: 1, lines: vec![line.replacen(name, &right, 1)] });
        own.error(
            "wrong-script",
            *at,
            [
                &what,
                "no checkpoint is ever sent: a job that is evicted begins from nothing",
                &format!("call `{other}`"),
            ],
        )
        .edit = edit;
    } else if !unknown {
        let what = format!("nothing that the job runs ends with {code}");
        report.warning(
            "never-checkpoints",
            line,
            [
                &what,
                "no checkpoint is ever sent: a job that is evicted begins from nothing",
                "save regularly and end with that code, or remove `checkpoint_exit_code`",
            ],
        );
    }
}

/// Outputs that no program names.
fn outputs(context: &Context<'_>, texts: &[&Text], arguments: &str, report: &mut Report) {
    let Some(set) = context.submit.get("transfer_output_files") else { return };
    let named = |name: &str| {
        let parts = [name, base_name(name), name.split('/').next().unwrap_or(name)];
        parts.iter().any(|part| {
            arguments.contains(part) || texts.iter().any(|text| text.text.contains(part))
        })
    };
    // What a program called by its name alone writes is unknown.
    let binary = texts.iter().any(|text| {
        text.path.ends_with(".sh") && Script::parse(&text.text).scripts().next().is_none()
    });
    for output in context.list("transfer_output_files") {
        let name = output.text.trim_end_matches('/');
        if output.varies || output.per_job || name.contains('$') || binary || named(name) {
            continue;
        }
        let what = format!("nothing that the job runs names `{name}`");
        report.error(
            "output-never-made",
            set.line,
            [
                &what,
                "a listed output that does not exist puts the job on hold when it is done",
                "list what the program writes, by its name in the job's folder",
            ],
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::disk::tests::Files;
    use crate::lint::lint;

    #[test]
    fn a_script_with_a_slip_in_its_name_is_found_beside_an_image() {
        let said = |script: &str, inputs: &str| {
            let submit = format!(
                "universe = container\ncontainer_image = osdf:///lab/a-v1.sif\nexecutable = run.sh\ntransfer_input_files = {inputs}\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 9 GB\nqueue\n"
            );
            let run = format!("#!/bin/sh\npython3 {script}\n");
            let files =
                [("x.sub", submit.as_str()), ("run.sh", &run), ("train.py", "1\n"), ("tool", "")];
            let found = lint("x.sub", &Files::of(&files)).unwrap_or_default();
            found.into_iter().map(|finding| (finding.rule, finding.line)).collect::<Vec<_>>()
        };
        assert_eq!(said("train.py", "train.py"), []);
        assert_eq!(said("trian.py", "train.py"), [("not-brought", 2)]);
        // A program among the inputs is not a folder, in which anything may be.
        assert_eq!(said("trian.py", "train.py, tool"), [("not-brought", 2)]);
        // The image may have these.
        assert_eq!((said("eval.py", "train.py"), said("train2.py", "train.py")), (vec![], vec![]));
    }
}
