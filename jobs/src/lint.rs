//! `gular job lint`: finds out what kind of file it is given, and checks it.

use std::collections::BTreeSet;

use crate::disk::{Disk, folder_of};
use crate::file_kind::FileKind;
use crate::finding::{FileFindings, JobFinding};
use crate::script::shell::Script;
use crate::script::{self, Job, options, python, shell};
use crate::submit::{self, Given};
use crate::{dag, sbatch};

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
        FileKind::Submit => {
            return dag::check_node(name, text, disk, &mut seen)
                .unwrap_or_else(|| submit::check(name, text, disk, &Given::default(), &mut seen));
        }
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
            crate::fuzzing::read_as_all(&text, &files);
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
        for (call, is_known) in [
            ("python -m train --lr 1", true),
            ("python -m train --rate 1", false),
            ("python -m torch.distributed.run train.py --rate 1", false),
            ("python -m pytest --rate 1", true),
            ("python -u -m train --rate 1", false),
            ("python tool.py -m train --rate 1", true),
            ("srun bash -c 'python train.py --rate 1'", false),
            ("bash -c \"cd x; python train.py --rate 1\"", true),
            ("python train.py -z 1", false),
            ("python train.py -1", true),
            ("python train.py -h", true),
        ] {
            let found = said("d/a.sbatch", &format!("{head}{call}\n"));
            let found = found.iter().any(|found| found == "unknown-option d/a.sbatch:3");
            assert_eq!(found, !is_known, "{call}");
        }
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

    /// Each finding without the requests that are not set, as `rule severity`.
    fn said(name: &str, files: &[(&str, &str)]) -> Vec<String> {
        let found = lint(name, &Files::of(files)).expect("it is there");
        let told = found.iter().filter(|finding| finding.rule != "no-request");
        told.map(|f| format!("{} {:?}", f.rule, f.severity).to_lowercase()).collect()
    }

    #[test]
    fn a_node_is_judged_with_what_its_dag_gives() {
        let node =
            "executable = cat.sh\narguments = $(what)\ntransfer_input_files = a.txt\nqueue\n";
        let make = "executable = cat.sh\noutput = a.txt\nqueue\n";
        let dag = "JOB A a.sub\nJOB B d/b.sub\nVARS B what=\"x\"\nPARENT A CHILD B\n";
        let alone = [
            ("d/b.sub", node),
            ("a.sub", make),
            ("cat.sh", "#!/bin/sh\n"),
            ("d/cat.sh", "#!/bin/sh\n"),
        ];
        assert_eq!(said("d/b.sub", &alone), ["undefined-macro warning", "missing-file error"]);
        let with = [alone[0], alone[1], alone[2], ("g.dag", dag)];
        assert_eq!(said("d/b.sub", &with), [""; 0]);
        // A script that writes the DAG gives the macro, too.
        let writer = "print('VARS B what=1')\n";
        let with = [alone[0], alone[3], ("d/write.py", writer)];
        assert_eq!(said("d/b.sub", &with), ["missing-file error"]);
    }

    #[test]
    fn paths_begin_where_the_files_are_found() {
        let run = ("jobs/run.sh", "#!/bin/sh\ntrue\n");
        let sub = "executable = jobs/run.sh\nlog = logs/a.log\nqueue\n";
        assert_eq!(said("jobs/a.sub", &[("jobs/a.sub", sub), run, ("logs/x", "")]), [""; 0]);
        assert_eq!(
            said("jobs/a.sub", &[("jobs/a.sub", sub)]),
            ["missing-file error", "missing-folder note"]
        );
        let batch = "#!/bin/sh\n#SBATCH -t 1:00:00 -o logs/out/%j\npython3 src/a/t.py\n";
        let files = [("src/run/a.sbatch", batch), ("src/a/t.py", ""), ("logs/out/x", "")];
        assert_eq!(said("src/run/a.sbatch", &files), [""; 0]);
        assert_eq!(
            said("src/run/a.sbatch", &files[..1]),
            ["missing-folder warning", "missing-file warning"]
        );
        // The file's own folder comes first.
        let sub = "executable = run.sh\nlog = logs/a.log\nqueue\n";
        let files = [("jobs/a.sub", sub), run, ("logs/x", "")];
        assert_eq!(said("jobs/a.sub", &files), ["missing-folder note"]);
    }

    #[test]
    fn paths_of_another_machine_are_not_looked_up() {
        let sub = "executable = /staging/me/run.sh\ntransfer_input_files = /home/me/a.csv\nqueue\n";
        let files = [("a.sub", sub), ("/home/you/x", "")];
        assert_eq!(said("a.sub", &files), ["missing-file note", "missing-file error"]);
        let batch = "#!/bin/sh\n#SBATCH -t 1:00:00 -o /scratch/x/%j\nsrun apptainer exec /scratch/a.sif t\n";
        assert_eq!(said("a.sbatch", &[("a.sbatch", batch)]), ["missing-file note"]);
    }

    #[test]
    fn right_files_of_users_are_left_in_peace() {
        let check = |name: &str, text: &str| {
            let files = [
                (name, text),
                ("run.sh", "#!/bin/sh\ntrue\n"),
                ("make.sh", "#!/bin/sh\nmkdir results\n"),
                ("run.bat", "@echo off\nREM it's for Windows\n"),
                ("train.py", "import os\n"),
            ];
            let found = said(name, &files);
            assert!(found.iter().all(|f| f.ends_with(" note")), "{text}\n{found:?}");
        };
        check("a.sub", "executable = run.sh\narguments = a \\\"& b\nqueue\n");
        check("a.sub", "executable = run.bat\nqueue\n");
        check("a.sub", "executable = run.sh\ninput = /dev/null\nqueue\n");
        check("a.sub", "executable = run.sh\nrequirements = Machine =!= LastRemoteHost\nqueue\n");
        check("a.sh", "#!/bin/sh\ntest a = b\n[ $x = y ]\nexpr 1 = 2\n");
        check("a.sub", "executable = make.sh\ntransfer_output_files = results\nqueue 4\n");
        check("a.sub", "executable = run.sh\ntransfer_output_files = out/\nqueue 4\n");
        check("a.sub", "executable = run.sh\narguments = $(Request_CPUs) $(TaskId)\nqueue\n");
        let batch = |options: &str, body: &str| {
            check("a.sbatch", &format!("#!/bin/bash\n#SBATCH -t 1:00:00\n{options}\n{body}\n"));
        };
        batch("#SBATCH --nodes=1\t\t#one node", "true");
        batch("#SBATCH --job-name='a b' --comment=\"x # y\" -n1#2", "true");
        batch("#SBATCH --mem=100 # in MB", "true");
        batch("#SBATCH --image=a/b:1 --module=gpu", "srun shifter true");
        batch("#SBATCH --container-image=a/b:1", "true");
        batch("#   sbatch --array=1-5 a.sbatch", "true");
        batch("# SBATCH --time, and the command, follow.", "true");
        batch("#SBATCH --nodes={{ nodes }} --time={{ time }}", "true");
        batch("#SBATCH -n4", "srun python train.py --deepspeed");
        check("a.sub", "executable = /usr/bin/docker\nqueue\n");
        batch("#SBATCH --array=1-10%1 -o %A_%a", "srun python train.py");
        batch("", "srun server &\nwhile true; do curl -s x || exit 1; sleep 9; done");
        batch("#SBATCH -n4", "srun --container-image=x python train.py");
        batch("#SBATCH -n1 --mem=16G\n#SBATCH hetjob\n#SBATCH -n64 --mem-per-cpu=2G", "true");
        batch("#SBATCH --gpus=a100:2,v100:2 --nodes=4 --begin=\"now + 2 hours\"", "true");
        batch("#SBATCH --hint=compute_bound,nomultithread --mail-type=ARRAY_TASKS", "true");
        batch("#SBATCH -n4", "# PyTorch lightning\nsrun python train.py");
        batch(
            "#SBATCH -n4",
            "srun -n1 python train.py 1 &\nsrun --ntasks=1 python train.py 2 &\nwait",
        );
        check(
            "a.dag",
            "SUBMIT-DESCRIPTION D {\nexecutable = run.sh\n}\nJOB A D\nMAXJOBS S+big 2\n",
        );
    }

    #[test]
    fn a_mistake_that_resembles_a_right_file_is_reported() {
        let check = |name: &str, text: &str, expected: &str| {
            let found = said(name, &[(name, text), ("train.py", "")]);
            assert!(found.iter().any(|f| f == expected), "{text}\n{found:?}");
        };
        check("a.sub", "executable = /bin/x\ninput = a.txt\nqueue\n", "missing-file error");
        check("a.sh", "#!/bin/sh\nOUT = /scratch/me\nmkdir $OUT\n", "spaced-assignment warning");
        check("a.sub", "executable = /bin/x\narguments = a \"& b\nqueue\n", "open-quote error");
        check(
            "a.sub",
            "executable = /bin/x\ntransfer_output_files = r\nqueue 4\n",
            "outputs-collide error",
        );
        let batch = |options: &str, body: &str, expected: &str| {
            let text = format!("#!/bin/bash\n#SBATCH -t 1:00:00\n{options}\n{body}\n");
            check("a.sbatch", &text, expected);
        };
        batch("#SBATCH --nodes=1 one node", "true", "sbatch-option error");
        batch("#SBATCH --job-name=a b", "true", "sbatch-option error");
        batch("#SBATCH --mem=100", "true", "unit warning");
        batch("#SBATCH --imag=x", "true", "sbatch-option warning");
        batch("#sbatch --array=1-5", "true", "sbatch-comment warning");
        batch("# SBATCH --array=1-5", "true", "sbatch-comment warning");
        batch("#SBATCH --array=1-10 -o %a", "srun x", "array-unused warning");
        batch("", "srun server &\necho started", "no-wait error");
    }

    #[test]
    fn files_are_known_by_name_or_text() {
        let check = |name: &str, text: &str, kind: FileKind| {
            assert_eq!(FileKind::of(name, text), kind, "{name}");
        };
        check("a.dag", "", FileKind::Dag);
        check("a.sub", "", FileKind::Submit);
        check("run.sub", "#!/bin/bash\n#SBATCH -n 1\nsrun x\n", FileKind::Sbatch);
        check("a.sub", "#!/usr/bin/env condor_submit\nexecutable = x\nqueue\n", FileKind::Submit);
        check("a", "executable = x\nqueue\n", FileKind::Submit);
        check("a", "# graph\nJOB a x.sub\n", FileKind::Dag);
        check("run.sh", "#!/bin/bash\n#SBATCH -n 1\n", FileKind::Sbatch);
        check("run", "#!/bin/sh\n", FileKind::Shell);
        check("run", "#!/usr/bin/env python3\n", FileKind::Python);
        check("job.sh", "executable = x\nqueue\n", FileKind::Submit);
        check("run.sh", "#!/usr/bin/perl\n", FileKind::Other);
    }
}
