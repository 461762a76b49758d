//! The job's own folder: all inputs are directly in it, and only new files directly in it are
//! transferred back.
//!
//! ```text
//! transfer_input_files = src/train.py, data/    ▶  train.py, what is in data
//! mkdir results; … > results/a.csv              ▶  nothing comes back
//! ```

use std::ops::Range;

use super::check::Context;
use super::files::{folder, targets};
use super::parse::Set;
use crate::disk::{base_name, below};
use crate::finding::{Edit, FileFindings};
use crate::rules;
use crate::script::python;
use crate::script::shell::{Command, Script, Token};

/// An input that lies in another folder here than in the job.
struct Placed {
    /// The input's path on this machine.
    path: String,
    /// The input's name in the job.
    name: String,
    is_folder: bool,
}

/// Whether the job runs in a folder of its own, with copies of its inputs.
pub(super) fn is_apart(context: &Context<'_>) -> bool {
    let is = |name: &str, words: &[&str]| {
        let value = context.value(name);
        value
            .is_some_and(|(_, v)| words.iter().any(|word| v.text.trim().eq_ignore_ascii_case(word)))
    };
    !is("should_transfer_files", &["no", "false", "if_needed"])
        && !is("universe", &["local", "scheduler", "grid", "vm"])
}

fn keeps_paths(context: &Context<'_>) -> bool {
    let value = context.value("preserve_relative_paths");
    value.is_some_and(|(_, value)| {
        !["false", "no", "0"].iter().any(|word| value.text.trim().eq_ignore_ascii_case(word))
    })
}

/// Inputs with a folder in their path: as they are written, since each job may have another.
fn placed(context: &Context<'_>) -> Vec<Placed> {
    if !is_apart(context) || keeps_paths(context) {
        return Vec::new();
    }
    let at = folder(context).unwrap_or_else(|| context.folder.clone());
    let sets = ["transfer_input_files", "public_input_files"];
    let sets = sets.into_iter().filter_map(|name| context.submit.get(name));
    let written = sets.flat_map(|set| set.value.trim_matches('"').split(','));
    let mut placed: Vec<Placed> = Vec::new();
    for path in written.map(str::trim) {
        let path = path.strip_prefix("./").unwrap_or(path);
        // For `data/`, the job gets the contents of the folder.
        let contents = path.ends_with('/') || path.contains("://");
        if contents || !path.contains('/') || placed.iter().any(|other| other.path == path) {
            continue;
        }
        placed.push(Placed {
            path: path.to_owned(),
            name: base_name(path).to_owned(),
            is_folder: context.disk.is_folder(&below(&at, path)),
        });
    }
    placed
}

/// The place of a path of this machine in `word`, and what the job knows it by.
fn misplaced(placed: &[Placed], word: &str) -> Option<(Range<usize>, String)> {
    let in_job = |word: &str| {
        let word = word.strip_prefix("./").unwrap_or(word);
        // `src/a.py` is there where the folder `src` is an input, too.
        let first = word.split('/').next().unwrap_or_default();
        if placed.iter().any(|input| input.is_folder && input.name == first) {
            return None;
        }
        placed.iter().find_map(|input| match word.strip_prefix(input.path.as_str())? {
            "" => Some(input.name.clone()),
            rest if rest.starts_with('/') && input.is_folder => {
                Some(format!("{}{rest}", input.name))
            }
            _ => None,
        })
    };
    let quotes = ['"', '\''];
    let from = word.len() - word.trim_start_matches(quotes).len();
    let inner = word.trim_matches(quotes);
    let value = inner.rsplit_once('=').map_or(inner, |(_, value)| value);
    let from = from + inner.len() - value.len();
    Some((from..from + value.len(), in_job(value)?))
}

/// Checks that need the submit file alone.
pub(super) fn check(context: &Context<'_>, report: &mut FileFindings) {
    if !is_apart(context) {
        return;
    }
    if let Some(set) = context.submit.get("transfer_input_files")
        && !keeps_paths(context)
    {
        same_name(context, set, report);
    }
}

/// Two inputs of one name, by what is written: a macro that both have is the same in each.
fn same_name(context: &Context<'_>, set: &Set, report: &mut FileFindings) {
    let at = folder(context).unwrap_or_else(|| context.folder.clone());
    // The contents of two folders of one name are put into one.
    let is_folder = |path: &str| context.disk.is_folder(&below(&at, path));
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for path in set.value.trim_matches('"').split(',').map(str::trim) {
        let name = base_name(path);
        if path.ends_with('/') || name.is_empty() {
            continue;
        }
        match seen.iter().find(|(_, other)| *other == name) {
            Some((other, _)) if is_folder(other) && is_folder(path) => {}
            Some((other, _)) if *other != path => {
                let what = format!("`{other}` and `{path}` are both `{name}` in the job");
                report.add(&rules::INPUTS_COLLIDE, set.line, what);
            }
            Some(_) => {}
            None => seen.push((path, name)),
        }
    }
}

/// The programs that a job runs.
#[derive(Default)]
pub(super) struct Program<'a> {
    /// The wrapper's text and commands.
    pub(super) wrapper: Option<(&'a str, &'a Script)>,
    /// Texts of the programs that the wrapper starts.
    pub(super) texts: Vec<&'a str>,
}

/// Findings in the arguments of a job, and in its wrapper, which go to `own`.
pub(super) fn check_program(
    context: &Context<'_>,
    program: &Program<'_>,
    report: &mut FileFindings,
    own: &mut FileFindings,
) {
    if !is_apart(context) {
        return;
    }
    let mut placed = placed(context);
    let commands = program.wrapper.map_or(&[][..], |(_, script)| script.commands.as_slice());
    let texts = program.texts.as_slice();
    if commands.iter().any(|c| c.brings() || matches!(c.program(), "cd" | "pushd")) {
        placed.clear();
    }
    // Folders that the wrapper makes and fills do exist in the job.
    placed.retain(|input| {
        let first = input.path.split('/').next();
        !commands.iter().any(|command| {
            matches!(command.program(), "mkdir" | "ln" | "install")
                && command
                    .words
                    .iter()
                    .any(|word| word.trim_start_matches("./").split('/').next() == first)
        })
    });
    arguments(context, &placed, report);
    homes(context, commands, report, own);
    if let Some((text, script)) = program.wrapper {
        wrapper(text, &placed, script, own);
    }
    folders(context, commands, texts, report, own);
}

/// Folders of users, which other machines do not have.
fn homes(
    context: &Context<'_>,
    commands: &[Command],
    report: &mut FileFindings,
    own: &mut FileFindings,
) {
    // An image may have a `/home` of its own.
    let image = context.submit.any(&["container_image", "docker_image"]).is_some();
    let is_home = |word: &&str| {
        // An installer that the job runs may make `~/.bashrc`.
        ["/home/", "/Users/", "~/"].iter().any(|at| word.starts_with(at))
            && !word.starts_with("~/.")
            && (!image || context.disk.exists(word))
    };
    let value = |word: &str| word.rsplit_once('=').map_or(0, |(head, _)| head.len() + 1);
    let say = |report: &mut FileFindings, line: usize, word: &str| {
        let what = format!("`{word}` is in a folder of this machine");
        report.add(&rules::HOME_PATH, line, what);
    };
    for command in commands {
        let words = command.words.iter().map(|word| word.get(value(word)..).unwrap_or_default());
        if let Some(word) = words.into_iter().find(&is_home) {
            say(own, command.line, word);
        }
    }
    let Some(set) = context.submit.any(&["arguments", "args"]) else { return };
    let words = set.value.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
    let mut words = words.map(|word| word.get(value(word)..).unwrap_or_default());
    let listed = placed(context);
    if let Some(word) = words.find(|word| is_home(word) && listed.iter().all(|l| l.path != *word)) {
        say(report, set.line, word);
    }
}

fn arguments(context: &Context<'_>, placed: &[Placed], report: &mut FileFindings) {
    let Some(set) = context.submit.any(&["arguments", "args"]) else { return };
    let mut at = 0;
    for piece in set.value.split_inclusive(char::is_whitespace) {
        let found = misplaced(placed, piece.trim_end());
        if let Some((range, name)) = found
            && let (Some(path), Some(head), Some(tail)) = (
                piece.get(range.clone()),
                set.value.get(..at + range.start),
                set.value.get(at + range.end..),
            )
        {
            in_job(report, set.line, path, &name).edit =
                context.with_value(set, &format!("{head}{name}{tail}"));
        }
        at += piece.len();
    }
}

pub(super) fn in_job<'a>(
    report: &'a mut FileFindings,
    line: usize,
    path: &str,
    name: &str,
) -> &'a mut crate::finding::JobFinding {
    let what = format!("`{path}` is `{name}` in the job");
    report.add(&rules::INPUT_PATH, line, what).fix(format!("write `{name}`"))
}

fn wrapper(text: &str, placed: &[Placed], script: &Script, own: &mut FileFindings) {
    for command in &script.commands {
        // The words as they are written, quotes included.
        let mut written = script.tokens_of(command).iter();
        let mut edit = |path: &str, name: &str| {
            let is_path = |token: &Token, range: &Range<usize>| {
                token.text.get(range.clone()) == Some(path) && !token.text.contains('\n')
            };
            let found = |token: &Token| {
                let (range, _) = misplaced(placed, &token.text)?;
                let at = token.at.filter(|_| is_path(token, &range))?;
                Some((token.line, at + range.start..at + range.end))
            };
            let (line, range) = written.find_map(found)?;
            Edit::within(text, line, range, name)
        };
        for word in &command.words {
            let Some((range, name)) = misplaced(placed, word) else { continue };
            let path = word.get(range).unwrap_or_default();
            in_job(own, command.line, path, &name).edit = edit(path, &name);
        }
    }
}

/// Words in the names of folders with results.
const RESULTS: [&str; 12] = [
    "out",
    "result",
    "model",
    "checkpoint",
    "ckpt",
    "weight",
    "pred",
    "metric",
    "figure",
    "plot",
    "save",
    "runs",
];

/// Folders that a job makes: none of them comes back unless it is listed, and none is remapped.
fn folders(
    context: &Context<'_>,
    commands: &[Command],
    texts: &[&str],
    report: &mut FileFindings,
    own: &mut FileFindings,
) {
    let made = made(commands, texts);
    if let Some(set) = context.submit.get("transfer_output_remaps") {
        for (from, _) in targets(context) {
            if made.iter().any(|(folder, _)| *folder == from) {
                let what = format!("`{from}` is a folder, and remapped");
                let fix = format!(
                    "list the files in it, or pack it (`tar -cf {from}.tar {from}`) and list the archive"
                );
                report.add(&rules::BAD_REMAP, set.line, what).fix(fix);
            }
        }
    }
    let lists = ["transfer_output_files", "output_destination"];
    if lists.iter().any(|name| context.submit.get(name).is_some()) {
        return;
    }
    let is_result = |folder: &str| {
        let lower = folder.to_ascii_lowercase();
        RESULTS.iter().any(|part| lower.contains(part))
    };
    // Packed, copied or moved: then its files may be somewhere else.
    let is_taken = |folder: &str| {
        commands.iter().any(|command| {
            matches!(
                command.program(),
                "tar" | "zip" | "mv" | "cp" | "rsync" | "gzip" | "cat" | "rm" | "cd"
            ) && command.words.iter().any(|word| word.contains(folder))
        }) || texts.iter().any(|text| text.contains("make_archive") || text.contains("tarfile"))
    };
    let Some((folder, line)) =
        made.into_iter().find(|(folder, _)| is_result(folder) && !is_taken(folder))
    else {
        return;
    };
    let what = format!("the folder `{folder}` does not come back");
    let fix = format!("`transfer_output_files = {folder}` in the submit file");
    match line {
        Some(line) if !own.file.is_empty() => own.add(&rules::FOLDER_NOT_SENT, line, what).fix(fix),
        _ => report
            .add(
                &rules::FOLDER_NOT_SENT,
                context.submit.get("executable").map_or(1, |set| set.line),
                what,
            )
            .fix(fix),
    };
}

/// Folders below the job's own that its programs make, with the wrapper's line.
fn made(commands: &[Command], texts: &[&str]) -> Vec<(String, Option<usize>)> {
    let first = |path: &str| {
        let path = path.trim_start_matches("./");
        let first = path.split('/').next().unwrap_or_default();
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        (!first.is_empty() && !first.starts_with(['.', '-']) && first.chars().all(plain))
            .then(|| first.to_owned())
    };
    let mut made: Vec<(String, Option<usize>)> = Vec::new();
    if commands.iter().any(|command| matches!(command.program(), "cd" | "pushd")) {
        return made;
    }
    for command in commands.iter().filter(|command| command.program() == "mkdir") {
        let folders = command.call().iter().skip(1).filter_map(|word| first(word));
        made.extend(folders.map(|folder| (folder, Some(command.line))));
    }
    let by_programs = texts.iter().flat_map(|text| python::made_folders(text));
    made.extend(by_programs.filter_map(first).map(|folder| (folder, None)));
    made
}

#[cfg(test)]
mod tests {
    use crate::disk::tests::Files;
    use crate::lint::lint;

    const RUN: &str = "#!/bin/sh\npython3 train.py \"$@\"\n";

    /// `rule line` of what is said of a submit file with these lines and this wrapper, and the
    /// texts of both when they are repaired.
    fn said(lines: &str, run: &str, train: &str) -> (Vec<String>, [String; 2]) {
        let submit = format!(
            "{lines}executable = run.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\nqueue\n"
        );
        let files = [
            ("x.sub", submit.as_str()),
            ("run.sh", run),
            ("train.py", train),
            ("src/train.py", train),
            ("data/a.csv", "1"),
            ("more/a.csv", "1"),
        ];
        let found = lint("x.sub", &Files::of(&files)).unwrap_or_default();
        let better = [("x.sub", submit.as_str()), ("run.sh", run)].map(|(file, text)| {
            let of_file = found.iter().filter(|finding| finding.file == file);
            crate::repair(file, text, &of_file.filter_map(|f| f.edit.as_ref()).collect::<Vec<_>>())
        });
        let rules = found.iter().map(|f| format!("{} {}:{}", f.rule, f.file, f.line)).collect();
        (rules, better)
    }

    fn rules(lines: &str, run: &str) -> Vec<String> {
        said(lines, run, "print(1)\n").0
    }

    #[test]
    fn paths_of_this_machine_are_found_in_arguments_and_wrapper() {
        let inputs = "transfer_input_files = train.py, data/a.csv\n";
        let arguments = format!("{inputs}arguments = --data=data/a.csv --out b\n");
        let (found, [submit, _]) = said(&arguments, RUN, "1\n");
        assert_eq!(found, ["input-path x.sub:2"]);
        assert!(submit.contains("\narguments = --data=a.csv --out b\n"), "{submit}");
        let inputs = "transfer_input_files = ./src/train.py, data/a.csv\n";
        let (found, [_, run]) =
            said(inputs, "#!/bin/sh\npython3 src/train.py ./data/a.csv\n", "1\n");
        assert_eq!(found, ["input-path run.sh:2", "input-path run.sh:2"]);
        assert!(run.contains("python3 train.py "), "{run}");
        // Only the word that is the path is changed, wherever its text is, too.
        let inputs = "transfer_input_files = train.py, data/a.csv\n";
        let arguments = format!("{inputs}arguments = --old mydata/a.csv --new  data/a.csv\n");
        let (_, [submit, _]) = said(&arguments, RUN, "1\n");
        assert!(submit.contains("= --old mydata/a.csv --new  a.csv\n"), "{submit}");
        for (run, right) in [
            ("echo mydata/a.csv; python3 t data/a.csv", "echo mydata/a.csv; python3 t a.csv"),
            ("echo 'x data/a.csv'; t \"data/a.csv\"", "echo 'x data/a.csv'; t \"a.csv\""),
            ("t mydata/a.csv \\\n  --x=data/a.csv", "t mydata/a.csv \\\n  --x=a.csv"),
            // The word is the path, but is written in another way.
            ("t \"data\"/a.csv", "t \"data\"/a.csv"),
        ] {
            let (_, [_, better]) = said(inputs, &format!("#!/bin/sh\n{run}\n"), "1\n");
            assert_eq!(better, format!("#!/bin/sh\n{right}\n"));
        }
        // Each job has another file, so the path differs.
        let each = "transfer_input_files = train.py, data/$(Process).csv\narguments = data/$(Process).csv\n";
        assert_eq!(rules(each, RUN), ["input-path x.sub:2"]);
        // The job has the files of these statements.
        let there = [
            ("transfer_input_files = train.py, data\narguments = data/a.csv\n", RUN),
            ("transfer_input_files = train.py, data/a.csv\narguments = a.csv\n", RUN),
            (
                "transfer_input_files = train.py, data/a.csv\npreserve_relative_paths = true\narguments = data/a.csv\n",
                RUN,
            ),
            (
                "transfer_input_files = train.py, data/a.csv\nshould_transfer_files = NO\narguments = data/a.csv\n",
                RUN,
            ),
            (
                "transfer_input_files = train.py, data/a.csv\narguments = data/a.csv\n",
                "#!/bin/sh\nmkdir -p data\nmv a.csv data\npython3 train.py \"$@\"\n",
            ),
        ];
        for (lines, run) in there {
            assert_eq!(rules(lines, run), [""; 0], "{lines}");
        }
    }

    #[test]
    fn folders_of_users_are_not_on_other_machines() {
        let inputs = "transfer_input_files = train.py\n";
        let arguments = format!("{inputs}arguments = --data=/home/me/data --lr 1\n");
        assert_eq!(rules(&arguments, RUN), ["home-path x.sub:2"]);
        let enters = "#!/bin/sh\nset -e\ncd /home/me/project\npython3 train.py\n";
        assert_eq!(rules(inputs, enters), ["home-path run.sh:3"]);
        assert_eq!(rules(&format!("{inputs}should_transfer_files = NO\n"), enters), [""; 0]);
        assert_eq!(rules(inputs, &enters.replace("/home/me/project", "\"$HOME\"")), [""; 0]);
    }

    #[test]
    fn lists_begin_with_a_job() {
        let listed = "executable = run.sh\narguments = $(lr)\nqueue lr, seed from (\n  lr, seed\n  1, 2\n)\n";
        let found = |text: &str| {
            let found = lint("x.sub", &Files::of(&[("x.sub", text), ("run.sh", RUN)]));
            found.unwrap_or_default().iter().any(|finding| finding.rule == "header-as-job")
        };
        assert!(found(listed));
        assert!(
            !found(&listed.replace("  lr, seed\n", ""))
                && !found(&listed.replace("  lr,", "  # lr,"))
        );
    }

    #[test]
    fn two_inputs_of_one_name_are_found() {
        let both = "transfer_input_files = train.py, data/a.csv, more/a.csv\n";
        assert_eq!(rules(both, RUN), ["inputs-collide x.sub:1"]);
        for right in [
            "transfer_input_files = train.py, data, more/\n",
            "transfer_input_files = train.py, data/a.csv, data/a.csv\n",
            "transfer_input_files = train.py, data/a.csv, more/a.csv\npreserve_relative_paths = true\n",
        ] {
            assert_eq!(rules(right, RUN), [""; 0], "{right}");
        }
    }

    #[test]
    fn folders_that_do_not_come_back_are_found() {
        let inputs = "transfer_input_files = train.py\n";
        let run = "#!/bin/sh\nmkdir -p results\npython3 train.py\n";
        assert_eq!(rules(inputs, run), ["folder-not-sent run.sh:2"]);
        let makes = "import os\nos.makedirs('outputs/run1', exist_ok=True)\n";
        assert_eq!(said(inputs, RUN, makes).0, ["folder-not-sent x.sub:2"]);
        let listed = format!("{inputs}transfer_output_files = results\n");
        assert_eq!(rules(&listed, run), [""; 0]);
        let packed =
            "#!/bin/sh\nset -e\nmkdir -p results\npython3 train.py\ntar -czf all.tgz results\n";
        assert_eq!(rules(inputs, packed), [""; 0]);
        assert_eq!(rules(inputs, "#!/bin/sh\nmkdir -p tmp\npython3 train.py\n"), [""; 0]);
        let remapped = format!("{listed}transfer_output_remaps = \"results = results-1\"\n");
        assert_eq!(rules(&remapped, run), ["bad-remap x.sub:3"]);
    }
}
