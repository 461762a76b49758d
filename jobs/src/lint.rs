//! `gular job lint`: finds out what kind of file it is given, and checks it.

use std::collections::BTreeSet;

use crate::disk::{Disk, folder_of};
use crate::finding::{FileFindings, JobFinding};
use crate::script::shell::Script;
use crate::script::{self, Job, Language, options, python, shell};
use crate::submit::{self, Given, Submit};
use crate::{dag, sbatch};

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// HTCondor's submit file.
    Submit,
    /// DAGMan's graph.
    Dag,
    /// A script for `sbatch`.
    Sbatch,
    /// Any other shell script.
    Shell,
    /// A program in Python.
    Python,
    /// A program in a language that is not read.
    Other,
}

impl FileKind {
    /// Recognises a file by its name, else by its text.
    #[must_use]
    pub fn of(name: &str, text: &str) -> Self {
        let end = name.rsplit('.').next().unwrap_or_default();
        if matches!(end, "sh" | "bash") && is_submit(text) {
            return Self::Submit;
        }
        match end {
            "dag" => return Self::Dag,
            "sub" | "submit" | "condor" => return Self::Submit,
            "sbatch" | "slurm" => return Self::Sbatch,
            "py" => return Self::Python,
            _ => {}
        }
        if sbatch::is_sbatch(text) {
            return Self::Sbatch;
        }
        match Language::of(text) {
            Some(Language::Python) => return Self::Python,
            Some(Language::Other) => return Self::Other,
            Some(Language::Shell) => return Self::Shell,
            None if end == "sh" || end == "bash" => return Self::Shell,
            None => {}
        }
        let dag = |line: &str| {
            let mut words = line.split_whitespace();
            matches!(words.next(), Some("JOB" | "PARENT" | "SPLICE" | "SUBDAG"))
                && !line.contains('=')
        };
        if text.lines().any(dag) { Self::Dag } else { Self::Submit }
    }
}

/// Whether a text without a first line `#!` has what every submit file has, whatever its name.
fn is_submit(text: &str) -> bool {
    let begins = |word: &str| {
        text.lines().any(|line| {
            let line = line.trim_start();
            let rest = line.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word));
            rest.and_then(|_| line.get(word.len()..)).is_some_and(|rest| {
                let rest = rest.trim_start();
                rest.is_empty() || word == "queue" || rest.starts_with('=')
            })
        })
    };
    !text.starts_with("#!") && begins("queue") && begins("executable")
}

/// Returns all findings in the file at `name` and in the files that it names, file by file, in the
/// order of lines. `None` if a file cannot be read or is not text.
#[must_use]
pub fn lint(name: &str, disk: &dyn Disk) -> Option<Vec<JobFinding>> {
    let text = disk.text(name)?;
    Some(lint_text(name, &text, disk))
}

/// Does the same as [`lint`] for a text that is not on disk.
#[must_use]
pub fn lint_text(name: &str, text: &str, disk: &dyn Disk) -> Vec<JobFinding> {
    let mut seen = BTreeSet::from([name.to_owned()]);
    let mut report = FileFindings::new(name);
    match FileKind::of(name, text) {
        FileKind::Submit => return submit::check(name, text, disk, &Given::default(), &mut seen),
        FileKind::Dag => return dag::check(name, text, disk, &mut seen),
        FileKind::Sbatch => return sbatch::check(name, text, disk, &mut seen),
        FileKind::Shell => {
            let script = Script::parse(text);
            shell::check(text, &script, &Job::default(), &mut report);
            if script.unread.is_none() {
                options::check_in(folder_of(name), &script, disk, &mut report);
            }
        }
        FileKind::Python => python::check(text, &Job::default(), &mut report),
        FileKind::Other => script::other(text, &mut report),
    }
    report.findings.sort_by_key(|finding| finding.line);
    report.findings
}

/// Reads `text` as every kind of file, for tests with any bytes.
pub fn read_as_all(text: &str, disk: &dyn Disk) {
    for name in ["x.sub", "x.dag", "x.sbatch", "x.sh", "x.py"] {
        let findings = lint_text(name, text, disk);
        let edits: Vec<_> = findings.iter().filter_map(|finding| finding.edit.as_ref()).collect();
        let _ = crate::repair(name, text, &edits);
    }
    let _ = Submit::parse(text);
    let _ = crate::why::why(text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disk::tests::Files;

    /// Pieces of which the files are made, in any order.
    const PIECES: [&str; 54] = [
        "queue",
        " from ",
        " in ",
        "(",
        ")",
        "\n",
        "\n",
        "\n",
        " = ",
        "\\\n",
        "\\ \n",
        "$(",
        "$(x)",
        ":",
        "\"",
        "'",
        "#",
        "#!/bin/bash\n",
        "#SBATCH ",
        "--mem=",
        "executable = x.sh\n",
        "transfer_output_files = a, b\n",
        "request_memory",
        "16",
        "GB",
        "JOB a x.sub\n",
        "PARENT ",
        " CHILD ",
        "VARS a ",
        "a",
        "INCLUDE x.dag\n",
        "{",
        "}",
        "if ",
        "endif\n",
        "mkdir ",
        "python x.py",
        " | ",
        "<<E",
        "for epoch in x:\n ",
        "torch.save(",
        "add_argument('-e'",
        "é",
        "@=e\n",
        "000 (1.0.0) ",
        "[0] 0 ",
        "1.0:  Run analysis summary\n",
        "JobId=1 JobState=",
        "JOBID|State\n",
        "HoldReasonCode = 1\n",
        "! ",
        "f() ",
        "$((",
        "))",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_text_is_read_and_repaired(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
            let text: String = pieces.iter().filter_map(|&piece| PIECES.get(piece)).copied().collect();
            let names = ["x.sub", "x.dag", "x.sh", "x.py", "x"];
            let files = Files::of(&names.map(|name| (name, text.as_str())));
            read_as_all(&text, &files);
        }
    }

    #[test]
    fn a_program_in_another_language_is_said_to_be_not_judged() {
        let perl = "#!/usr/bin/perl\nuse strict;\n";
        let sub = "executable = a.pl\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\nqueue\n";
        let batch = "#!/usr/bin/env Rscript\n#SBATCH --time=1:00:00\nx <- 1\n";
        let files = Files::of(&[("a.pl", perl), ("a.sub", sub), ("a.sbatch", batch)]);
        for (name, file) in [("a.pl", "a.pl"), ("a.sub", "a.pl"), ("a.sbatch", "a.sbatch")] {
            let found = lint(name, &files).expect("it is there");
            let said = found.iter().map(|f| (f.rule, f.severity, f.file.as_str(), f.line));
            let expected = [("not-judged", crate::Severity::Note, file, 1)];
            assert_eq!(said.collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn options_of_a_program_are_looked_up_wherever_it_is_started() {
        let train = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()\n";
        let said = |name: &str, text: &str| {
            let files = Files::of(&[("d/train.py", train), (name, text)]);
            let found = lint(name, &files).expect("it is there");
            found.iter().map(|f| format!("{} {}:{}", f.rule, f.file, f.line)).collect::<Vec<_>>()
        };
        let head = "#!/bin/bash\n#SBATCH --time=1:00:00\n";
        for launcher in ["python", "srun python3 -u", "torchrun --nproc-per-node 2"] {
            let wrong = format!("{head}{launcher} train.py --learning-rate 1\n");
            assert_eq!(said("d/a.sbatch", &wrong), ["unknown-option d/a.sbatch:3"], "{wrong}");
            assert_eq!(said("d/a.sbatch", &wrong.replace("learning-rate", "lr")), [""; 0]);
        }
        let wrong = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\npython3 \\\n  train.py --rate=$RATE\n";
        assert_eq!(said("d/a.sh", wrong), ["unknown-option d/a.sh:3"]);
        // Which program these start is not certain.
        assert_eq!(said("d/a.sh", "cd src\npython3 train.py --rate 1\n"), [""; 0]);
        assert_eq!(said("d/a.sh", "cp new.py train.py\npython3 train.py --rate 1\n"), [""; 0]);
        assert_eq!(said("d/a.sh", "python3 $DIR/train.py --rate 1\n"), [""; 0]);
        let wrong = "python train.py --rate 1\n";
        for option in ["--chdir=src", "-D src", "-Dsrc", "--chdir src"] {
            let text = format!("{head}#SBATCH {option}\n{wrong}");
            assert_eq!(said("d/a.sbatch", &text), [""; 0], "{option}");
            let text = format!("{head}srun {option} {wrong}");
            assert_eq!(said("d/a.sbatch", &text), [""; 0], "{option}");
        }
        let here = format!("{head}#SBATCH --chdir=.\n{wrong}");
        assert_eq!(said("d/a.sbatch", &here), ["unknown-option d/a.sbatch:4"]);
    }

    #[test]
    fn files_are_known_by_name_or_text() {
        let check = |name: &str, text: &str, kind: FileKind| {
            assert_eq!(FileKind::of(name, text), kind, "{name}");
        };
        check("a.dag", "", FileKind::Dag);
        check("a.sub", "", FileKind::Submit);
        check("a", "executable = x\nqueue\n", FileKind::Submit);
        check("a", "# graph\nJOB a x.sub\n", FileKind::Dag);
        check("run.sh", "#!/bin/bash\n#SBATCH -n 1\n", FileKind::Sbatch);
        check("run", "#!/bin/sh\n", FileKind::Shell);
        check("run", "#!/usr/bin/env python3\n", FileKind::Python);
        check("job.sh", "executable = x\nqueue\n", FileKind::Submit);
        check("run.sh", "#!/usr/bin/perl\n", FileKind::Other);
    }
}
