//! `gular job translate`: a batch script as a submit file, and back.
//!
//! ```text
//! train.sbatch ─▶ train.sub, train.sh    the options become commands, the rest is the program
//! train.sub    ─▶ train.sbatch           the commands become options, and lines around the program
//! ```
//!
//! What has a counterpart is translated. Everything else is named, with its line, and nothing is
//! guessed: what cannot be one job there is refused.

mod to_condor;
mod to_slurm;
mod words;

use serde::Serialize;

use crate::disk::{Disk, base_name, below, folder_of};
use crate::file_kind::FileKind;
use crate::write::{Refusal, refuse};

/// Most jobs of an array.
const MAX_JOBS: usize = 10_000;

/// Options of sbatch, the commands of HTCondor for the same purpose, and why the value of one is not
/// that of the other.
const PAIRS: &[(&str, &str, &str)] = &[
    ("account", "accounting_group", "accounts and groups are names of each site"),
    ("begin", "deferral_time", "the one is a date, the other counts seconds since 1970"),
    ("licenses", "concurrency_limits", "each site has names of its own for licences"),
    ("nice", "priority", "`--nice` lowers a job among all, `priority` orders your own"),
    ("priority", "priority", "`priority` orders your own jobs"),
    ("constraint", "requirements", "sites name features, HTCondor compares attributes of machines"),
    ("nodelist", "requirements", "`requirements = (Machine == \"NAME\")` names a machine"),
    ("exclude", "requirements", "`requirements = (Machine != \"NAME\")` excludes a machine"),
    ("signal", "kill_sig", "HTCondor sends a signal only when it evicts the job"),
    ("comment", "description", "both are free texts"),
    ("hold", "hold", "let the job wait when you submit it"),
    ("chdir", "initialdir", "or submit the job from that folder"),
    ("export", "environment", "HTCondor gives a job no variables by itself"),
];

/// The files that a translation gives, and what it leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Translation {
    /// Name and text of each new file, in the folder of the translated one.
    pub files: Vec<(String, String)>,
    /// What the other batch system has no counterpart for, by line.
    pub left: Vec<Untranslated>,
}

/// Something that has no counterpart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Untranslated {
    /// The line in the translated file, from 1.
    pub line: usize,
    /// The option, command or variable.
    pub what: String,
    /// Why it is left out, and what to do.
    pub why: String,
}

impl Translation {
    fn leave(&mut self, line: usize, what: impl Into<String>, why: impl Into<String>) {
        self.left.push(Untranslated { line, what: what.into(), why: why.into() });
    }
}

/// Translates the batch script or submit file `name` for the other batch system.
///
/// # Errors
/// When the file is neither, or cannot be one job of the other batch system.
pub fn translate(name: &str, text: &str, disk: &dyn Disk) -> Result<Translation, Refusal> {
    let mut translation = match FileKind::of(name, text) {
        FileKind::Sbatch => to_condor::translate(name, text, disk)?,
        FileKind::Submit => to_slurm::translate(name, text, disk)?,
        FileKind::Dag => {
            return Err(refuse(
                format!("`{name}` is a DAG"),
                "translate the submit files of its nodes, and start them in order with `sbatch --dependency=afterok:JOB`",
            ));
        }
        _ => {
            return Err(refuse(
                format!("`{name}` is neither a batch script nor a submit file"),
                "give a script with `#SBATCH` lines, or a submit file that ends with `queue`",
            ));
        }
    };
    translation.left.sort();
    translation.left.dedup();
    Ok(translation)
}

/// The name of a file without folder and ending.
fn stem(name: &str) -> &str {
    let name = base_name(name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Whether a file is in the folder of `name`.
fn is_beside(name: &str, path: &str, disk: &dyn Disk) -> bool {
    !path.starts_with('/') && disk.exists(&below(folder_of(name), path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::Files;

    /// The text of the file that ends with `end`, and what is left.
    fn translated(name: &str, files: &[(&str, &str)], end: &str) -> (String, Vec<String>) {
        let disk = Files::of(files);
        let text = disk.text(name).expect("it is there");
        let done = translate(name, &text, &disk).unwrap_or_else(|e| panic!("{e}: {}", e.fix));
        let file = done.files.iter().find(|(name, _)| name.ends_with(end)).expect("it is written");
        let left = done.left.iter().map(|left| format!("{} {}", left.line, left.what));
        (file.1.clone(), left.collect())
    }

    #[test]
    fn files_that_the_script_reads_are_sent() {
        let head = "#!/bin/bash\n#SBATCH --time=1:00:00 --mem=1G\n";
        let check = |body: &str, expected: Option<&str>| {
            let batch = format!("{head}{body}");
            let files = [
                ("d/a.sbatch", batch.as_str()),
                ("d/train.py", "import nets, losses, os\nc = open('conf/b.yaml')\n"),
                ("d/losses.py", "import more\n"),
                ("d/more.py", ""),
                ("d/nets/__init__.py", ""),
                ("d/conf/a.yaml", ""),
                ("d/conf/b.yaml", ""),
                ("d/out.csv", ""),
                ("d/env.sh", ""),
                ("d/data/x", ""),
            ];
            let (submit, _) = translated("d/a.sbatch", &files, ".sub");
            let inputs = submit.lines().find_map(|l| l.strip_prefix("transfer_input_files = "));
            assert_eq!(inputs, expected, "{body}");
        };
        let all = "train.py, conf/a.yaml, nets, losses.py, conf/b.yaml, more.py";
        check("srun python train.py --config conf/a.yaml --out out.csv data\n", Some(all));
        check("cd $SLURM_SUBMIT_DIR\npython train.py --config=./conf/a.yaml\n", Some(all));
        check("source ./env.sh\nsort conf/a.yaml > out.csv\n", Some("env.sh, conf/a.yaml"));
        check("echo conf/a.yaml; rm out.csv; sort /d/conf/a.yaml\n", None);
        check("cd other\nsort conf/a.yaml\n", None);
        // Results of an earlier run are not inputs.
        check("zip -r out.csv conf/a.yaml\n", Some("conf/a.yaml"));
        check("sort conf/a.yaml\ntar czf out.csv conf\n", Some("conf/a.yaml"));
        check("sort conf/a.yaml | tee out.csv\n", Some("conf/a.yaml"));
        check("sort -o out.csv conf/a.yaml\ncat out.csv\n", Some("conf/a.yaml"));
        check("sort -o out.csv out.csv\n", Some("out.csv"));
        check("sort out.csv | wc\nsort conf/a.yaml > out.csv\n", Some("out.csv, conf/a.yaml"));
        check("f=$(sed -n 1p conf/a.yaml)\necho $f\n", Some("conf/a.yaml"));
        check("echo \"$(cat out.csv | head)\"\n", Some("out.csv"));
        check("while read x; do echo $x; done < conf/a.yaml\n", Some("conf/a.yaml"));
    }

    const BATCH: &str = "\
#!/bin/bash
#SBATCH --job-name=train --partition=gpu
#SBATCH -c 4 --mem=16G --gres=gpu:a100:2
#SBATCH --time=1-00:00:00 --array=1-5:2%2
#SBATCH --output=logs/%x-%A_%a.out
#SBATCH --mail-type=END,FAIL --mail-user=me@x.org
module load python
srun python train.py --fold $SLURM_ARRAY_TASK_ID --node $SLURMD_NODENAME
";

    #[test]
    fn a_batch_script_becomes_a_submit_file_and_a_program() {
        let files = [("d/train.sbatch", BATCH), ("d/train.py", "import torch\n")];
        let (sub, left) = translated("d/train.sbatch", &files, ".sub");
        for line in [
            "executable = train.sh",
            "request_cpus = 4",
            "request_memory = 16 GB",
            "request_gpus = 2",
            "allowed_execute_duration = 86400",
            "max_materialize = 2",
            "output = logs/train-$(Cluster)_$(task).out",
            "environment = \"SLURM_ARRAY_TASK_ID=$(task)\"",
            "transfer_input_files = train.py",
            "notification = Always",
            "notify_user = me@x.org",
            "queue task in (1, 3, 5)",
        ] {
            assert!(sub.lines().any(|l| l == line), "{line}\n{sub}");
        }
        assert_eq!(
            left,
            [
                "1 the environment",
                "1 the shared file system",
                "1 the size of disk",
                "2 --partition=gpu",
                "3 the type of GPU `a100`",
                "7 module",
                "8 $SLURMD_NODENAME"
            ]
        );
        let (program, _) = translated("d/train.sbatch", &files, ".sh");
        assert!(
            program.ends_with(
                "\npython train.py --fold $SLURM_ARRAY_TASK_ID --node $SLURMD_NODENAME\n"
            )
        );
        assert!(!program.contains("#SBATCH"));
        // What is written has no mistake.
        let written = [
            ("d/train.sub", sub.as_str()),
            ("d/train.sh", program.as_str()),
            files[1],
            ("d/logs/x", ""),
        ];
        let found = crate::lint::lint("d/train.sub", &Files::of(&written)).expect("it is there");
        let found: Vec<_> = found.iter().filter(|f| f.severity != crate::Severity::Note).collect();
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_submit_file_becomes_a_batch_script() {
        let sub = "\
executable = train.sh
arguments = \"--lr $(lr) --name 'a b' --n $(Process)\"
universe = container
container_image = train.sif
request_cpus = 2
request_memory = 512
request_disk = 10 GB
request_gpus = 1
gpus_minimum_capability = 8.0
environment = \"OMP_NUM_THREADS=2 NAME='x y'\"
transfer_input_files = data/train.csv, osdf:///lab/big.tar
transfer_output_files = model.pt
transfer_output_remaps = \"model.pt = results/model-$(Process).pt\"
max_retries = 3
output = logs/$(Cluster)_$(Process).out
error = logs/$(Cluster)_$(Process).err
log = train.log
+ProjectName = \"x\"
queue lr, seed from params.txt
";
        let files = [
            ("train.sub", sub),
            ("train.sh", "#!/bin/sh\n"),
            ("data/train.csv", ""),
            ("train.sif", ""),
            ("params.txt", "0.1, 1\n0.2, 2\n"),
        ];
        let (batch, left) = translated("train.sub", &files, ".sbatch");
        for line in [
            "#SBATCH --cpus-per-task=2",
            "#SBATCH --mem=512M",
            "#SBATCH --tmp=10G",
            "#SBATCH --gres=gpu:1",
            "#SBATCH --array=0-1",
            "#SBATCH --output=logs/%A_%a.out",
            "IFS=$'\\x1f' read -r item_lr item_seed <<< \"${items[Process]}\"",
            "cp -rL -- \"$submitted\"/train.sh \"$submitted\"/data/train.csv . || exit 2",
            "env OMP_NUM_THREADS=2 NAME='x y' apptainer exec --nv \"$submitted\"/train.sif ./train.sh --lr \"${item_lr}\" --name 'a b' --n \"${Process}\"",
            "keep model.pt \"$submitted\"/\"results/model-${Process}.pt\" || failed",
        ] {
            assert!(batch.lines().any(|l| l == line), "{line}\n{batch}");
        }
        assert_eq!(
            left,
            [
                "1 the time limit",
                "9 gpus_minimum_capability",
                "11 osdf:///lab/big.tar",
                "14 max_retries",
                "17 log",
                "18 +ProjectName"
            ]
        );
        let script = crate::script::shell::Script::parse(&batch);
        assert_eq!(script.unread, None, "{batch}");
    }

    #[test]
    fn what_slurm_has_otherwise_or_not_at_all_is_named() {
        let check = |line: &str, expected: &str| {
            let text = format!("executable = x\nallowed_execute_duration = 1\n{line}\nqueue 2\n");
            let done = translate("a.sub", &text, &Files::of(&[("x", "")])).expect(line);
            let left: Vec<_> =
                done.left.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
            let is_named = left.iter().any(|left| left.contains(expected));
            assert!(is_named && left.len() == 1, "{line}: {left:?}");
        };
        for name in ["transfer_input_files", "transfer_output_files", "environment", "output"] {
            check(&format!("{name} = $ENV(HOME)/a"), &format!("{name}: its value is known only"));
        }
        check("transfer_output_remaps = \"a=$(nowhere)\"", "transfer_output_remaps: its value");
        check("transfer_output_remaps = \"a=osdf:///x\"", "with its own name");
        check("when_to_transfer_output = ON_EXIT_OR_EVICT", "whenever the program ends");
        check("accounting_group = lab", "`--account`");
        check("deferral_time = 1", "`--begin`");
        check("concurrency_limits = a", "`--licenses`");
        check("requirements = true", "`--constraint`");
        check("JobBatchName = train-$(Process)", "cannot be different for each job");
        check("output = $(Process)\\x", "output: only");
        check("max_materialize = x", "max_materialize");
        check("preserve_relative_paths = true", "one folder");
        let batch = |line: &str, expected: &str| {
            let text = format!("executable = x\n{line}\nqueue\n");
            let done = translate("a b.sub", &text, &Files::of(&[])).expect(line);
            let text = &done.files[0].1;
            assert!(text.lines().any(|line| line == expected) && !text.contains('\u{1}'), "{text}");
        };
        batch("batch_name = my job", "#SBATCH --job-name=\"my job\"");
        batch("JobBatchName = \"my # job\"", "#SBATCH --job-name=\"my # job\"");
        batch("", "#SBATCH --job-name=\"a b\"");
        batch("output = a b/$(Cluster).txt", "#SBATCH --output=\"a b/%j.txt\"");
        batch("input = a.csv", "#SBATCH --input=a.csv");
        batch("RequestMemory = 1GB", "#SBATCH --mem=1024M");
    }

    #[test]
    fn options_of_sbatch_keep_their_meaning_or_are_named() {
        let check = |options: &str, lines: &[&str], named: &[&str]| {
            let text = format!("#!/bin/bash\n#SBATCH --time=1 {options}\necho $SLURM_JOB_ID\n");
            let done = translate("a.sbatch", &text, &Files::of(&[])).expect(options);
            let sub = &done.files[0].1;
            for line in lines {
                assert!(sub.lines().any(|l| l == *line), "{options}: no {line} in\n{sub}");
            }
            let left: Vec<_> = done.left.iter().map(|l| format!("{}: {}", l.what, l.why)).collect();
            for what in named {
                assert!(left.iter().any(|left| left.contains(what)), "{options}: {what}: {left:?}");
            }
        };
        check("--gres=gpu:a100:4,nvme:1", &["request_gpus = 4"], &["GPU `a100`", "--gres=nvme:1"]);
        check("--gres=gpu:2,craynetwork:0", &["request_gpus = 2"], &["--gres=craynetwork:0"]);
        check("--gres=gpu:a100:4(S:0-1)", &["request_gpus = 4"], &[]);
        check("--gres=gpu:a:1(IDX:0,2),gpu:b:2", &["request_gpus = 3"], &["`a`", "`b`"]);
        check("--gres=nvme:1 --gpus=v100:2", &["request_gpus = 2"], &["`v100`"]);
        check("--gres=gpu", &["request_gpus = 1"], &["the memory"]);
        check("--mem-per-gpu=8G -G 2", &["request_memory = 16 GB"], &[]);
        check("--tmp=8G", &["request_disk = 8 GB"], &["the shared file system"]);
        let output = "output = slurm-$(Cluster).out";
        check("--output=o-%4a.out", &[output], &["--output=o-%4a.out"]);
        let id = "SLURM_JOB_ID=$(Cluster)_$(Process)";
        let id = format!("environment = \"{id}\"");
        check(
            "-a [2,1-2]%4 -o %j",
            &["output = $(Cluster)_$(Process)", "queue task in (1, 2)", "max_materialize = 4", &id],
            &[],
        );
        check(
            "--begin=now -A lab -L a",
            &[],
            &["`deferral_time`", "`accounting_group`", "`concurrency_limits`"],
        );
        check("--tmie=5", &[], &["sbatch has no option `tmie`"]);
    }

    #[test]
    fn programs_keep_their_paths_and_texts() {
        let text = "#!/bin/bash\n#SBATCH -n 1\ncat > b.sbatch <<E\n#SBATCH -n 2\nE\npython src/train.py\n./bin/tool\n../other.sh\n";
        let files = [("d/a.sh", text), ("d/src/train.py", ""), ("d/bin/tool", "")];
        let (sub, left) = translated("d/a.sh", &files, ".sub");
        for line in [
            "executable = a-run.sh",
            "transfer_input_files = src/train.py, bin/tool",
            "preserve_relative_paths = True",
        ] {
            assert!(sub.lines().any(|l| l == line), "{line}\n{sub}");
        }
        assert!(left.contains(&"8 `../other.sh`".to_owned()), "{left:?}");
        let (program, _) = translated("d/a.sh", &files, "-run.sh");
        assert_eq!(program, text.replace("#SBATCH -n 1\n", ""));
    }

    #[test]
    fn what_cannot_be_one_job_is_refused() {
        let check = |name: &str, text: &str, what: &str| {
            let refused = translate(name, text, &Files::of(&[])).expect_err(text);
            assert!(refused.what.contains(what), "{}", refused.what);
        };
        let batch = |options: &str| format!("#!/bin/bash\n#SBATCH {options}\ntrue\n");
        check("a.sbatch", &batch("-N 2"), "2 nodes");
        check("a.sbatch", &batch("--ntasks-per-node=4"), "4 tasks");
        check("a.sbatch", &batch("--array=a"), "array");
        check("a.sbatch", "#!/usr/bin/perl\n#SBATCH -n 1\n", "not a shell script");
        check("a.sbatch", "#!/bin/sh\n#SBATCH -n 1\nif true\n", "cannot be read");
        for options in [
            "hetjob",
            "--mem={{mem}}",
            "--ntasks-per-n=2",
            "-N x",
            "--ntasks-per-core=2",
            "--ntasks-per-socket=2",
            "--gres=gpu:2 --ntasks-per-gpu=1",
            "-c x",
            "--gres=gpu:a100:x",
            "--gres=gpu:a:b:1",
            "--gpus=a100:",
            "--array=5-1",
            "--array=1-10%",
            "--array=1-4%0",
            "--array=0-10000",
        ] {
            check("a.sbatch", &batch(options), "");
        }
        check("a.sub", "executable = x\nuniverse = parallel\nqueue\n", "parallel");
        check("a.sub", "executable = x\nqueue 2\nqueue 3\n", "`queue`");
        check("a.sub", "executable = x\nqueue f matching *.txt\n", "items");
        check("a.sub", "if true\nexecutable = x\nendif\nqueue\n", "if");
        check("a.sub", "queue\n", "executable");
        check("a.sub", "executable = x\nqueue arguments in (a, b)\n", "`arguments`");
        check("a.sub", "executable = x\narguments = $INT(Process,%03d)\nqueue\n", "line 2");
        check("a.sub", "executable = x\nn = $INT(Process)\narguments = $(n)\nqueue\n", "line 3");
        check("a.sub", "executable = x\narguments = $ENV(HOME)\nqueue\n", "line 2");
        check("a.sub", "executable = x\narguments = $(a)\nqueue a from (\n1 2\n)\n", "spaces");
        check("a.dag", "JOB A a.sub\n", "DAG");
        let files = |name: &str, item: &str, what: &str| {
            let text = format!("executable = x\n{name} = $(a)\nqueue a from (\n{item}\n)\n");
            check("a.sub", &text, what);
        };
        for item in ["/a", "a,b", "https://x.org/a", "a/"] {
            files("transfer_input_files", item, "not one file");
            files("container_image", item, "not one file");
            files("transfer_output_files", item, "not one file");
        }
        check("a.sub", "executable = x\nenv = \"A=$(a)\"\nqueue a from (\n1 2\n)\n", "spaces");
        files("executable", "x", "another `executable`");
        for queue in ["queue 0", "queue a in ()", "queue a from (\n)", "queue 2 a from (\n)"] {
            check("a.sub", &format!("executable = x\n{queue}\n"), "makes no job");
        }
        check("a.sub", "executable = x\nqueue a from [0:1] (\n1\n2\n)\n", "slice");
        check("a.sub", "executable = x\nqueue 10001\n", "10001 jobs, more than 10000");
        check("a.sub", "executable = x\ncontainer_image = $ENV(HOME)/a.sif\nqueue\n", "line 2");
        check("a.sub", "executable = x\ninitialdir = r$(Process)\nqueue 2\n", "initialdir");
    }
}
