//! `gular job translate`, and the lines of a site in `gular job new`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use gular_tests::{Outcome, finish, gular, put};
use serde_json::Value;

fn job(dir: &Path, args: &[&str]) -> Outcome {
    finish(Command::new(gular()).arg("job").args(args).current_dir(dir))
}

const BATCH: &str =
    "#!/bin/bash\n#SBATCH -c 4 --mem=16G -t 1:00:00 -p gpu\nsrun python3 train.py\n";

#[test]
fn a_translation_is_written_beside_and_says_what_is_left() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "d/train.sbatch", BATCH.as_bytes());
    put(dir.path(), "d/train.py", b"print(1)\n");
    let shown = job(dir.path(), &["translate", "d/train.sbatch", "--dry-run", "--json"]);
    let report: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(report["files"][0]["path"], "d/train.sub", "{report}");
    assert!(!dir.path().join("d/train.sub").exists());
    let done = job(dir.path(), &["translate", "d/train.sbatch"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.starts_with("wrote d/train.sub\nwrote d/train.sh\nnot translated:\n"));
    assert!(done.stdout.contains("  line 2: --partition=gpu: "), "{done:?}");
    let sub = fs::read_to_string(dir.path().join("d/train.sub")).unwrap();
    assert!(sub.contains("\nrequest_cpus = 4\n") && sub.contains("= train.py\n"), "{sub}");
    // What was written is found right, and stays as it is.
    let lint = job(dir.path(), &["lint", "--strict", "d/train.sub"]);
    assert_eq!(lint.code, Some(0), "{lint:?}");
    let again = job(dir.path(), &["translate", "d/train.sbatch"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("`d/train.sub` exists already"), "{again:?}");
}

/// Translates a submit file, runs the script as Slurm would run job 0 of the array, and compares
/// the files that are there afterwards and the exit code. The folder of the
/// job stays exactly if `stays`.
fn check(submit: &str, before: &[(&str, &str)], after: &[(&str, &str)], code: i32, stays: bool) {
    let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(dir.path(), "x.sub", submit.as_bytes());
    for (name, text) in before {
        put(dir.path(), name, text.as_bytes());
        let mode = if name.ends_with(".sh") { 0o755 } else { 0o644 };
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(dir.path().join(name), mode).unwrap();
    }
    let done = job(dir.path(), &["translate", "x.sub"]);
    assert_eq!(done.code, Some(0), "{submit}\n{done:?}");
    let script = fs::read_to_string(dir.path().join("x.sbatch")).unwrap();
    let mut bash = Command::new("bash");
    bash.arg("x.sbatch").current_dir(dir.path()).env("TMPDIR", scratch.path());
    let ran = finish(bash.env("SLURM_JOB_ID", "1").env("SLURM_ARRAY_TASK_ID", "0"));
    assert_eq!(ran.code, Some(code), "{submit}\n{script}\n{ran:?}");
    for (name, text) in after {
        let found = fs::read_to_string(dir.path().join(name)).unwrap_or_else(|e| e.to_string());
        assert_eq!(found, *text, "{name}\n{script}\n{ran:?}");
    }
    let known = |name: &str| {
        let all = before.iter().chain(after).map(|(name, _)| name.split('/').next().unwrap());
        ["x.sub", "x.sbatch"].into_iter().chain(all).any(|known| known == name)
    };
    for entry in fs::read_dir(dir.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known(&name), "{name} should not be there\n{script}\n{ran:?}");
    }
    let n = fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(n, usize::from(stays), "{script}\n{ran:?}");
    assert_eq!(ran.stderr.contains("the files of this job are in "), stays, "{ran:?}");
}

#[test]
fn a_translated_job_brings_its_results_back_or_keeps_them() {
    let head = "executable = run.sh\n";
    let check = |rest: &str, run: &str, after: &[(&str, &str)], code, stays| {
        let run = format!("#!/bin/sh\n{run}\n");
        let before = [("run.sh", run.as_str()), ("in.txt", "in\n"), ("d/e.txt", "e\n")];
        check(&format!("{head}{rest}\n"), &before, after, code, stays);
    };
    // All new and changed files, also those with an old time, come back; inputs stay.
    check(
        "transfer_input_files = in.txt\nqueue",
        "touch -d 2001-01-01 'a b'; cat in.txt > out; mkdir f; touch f/g; exit 3",
        &[("a b", ""), ("out", "in\n"), ("in.txt", "in\n")],
        3,
        false,
    );
    check(
        "transfer_output_remaps = \"o = r/o-$(Process)\"\nqueue 2",
        "echo 1 > o; echo 2 > p",
        &[("r/o-0", "1\n"), ("p", "2\n")],
        0,
        false,
    );
    check(
        "transfer_output_files = o, f, g/\ntransfer_output_remaps = \"o=r/s/o\"\nqueue",
        "echo 1 > o; mkdir f g; echo 2 > f/x; echo 3 > g/y; ln -s x f/z; echo 4 > n",
        &[("r/s/o", "1\n"), ("f/x", "2\n"), ("f/z", "2\n"), ("y", "3\n")],
        0,
        false,
    );
    // A result that is missing, or cannot be copied, is an error, and the folder stays.
    check("transfer_output_files = o, p\nqueue", "echo 1 > o", &[("o", "1\n")], 2, true);
    check(
        "transfer_output_files = o\ntransfer_output_remaps = \"o = in.txt/o\"\nqueue",
        "echo 1 > o",
        &[("in.txt", "in\n")],
        2,
        true,
    );
    check("queue", "echo 1 > d", &[("d/e.txt", "e\n")], 2, true);
    check("transfer_input_files = none.txt\nqueue", "echo 1 > o", &[], 2, true);
    // Items may be empty, and arguments are whole words.
    check(
        "arguments = \"[$(a)] [$(b)] [$(c)]\"\nqueue a, b, c from (\n1,,3\n)",
        "echo \"$*\" > o",
        &[("o", "[1] [] [3]\n")],
        0,
        false,
    );
    check(
        "environment = \"A='it''s $(x)' B=$(Cluster)\"\nqueue x in (1, 2)",
        "echo \"$A $B\" > o",
        &[("o", "it's 1 1\n")],
        0,
        false,
    );
    // Variables of the program do not replace those of the script.
    check(
        "environment = \"work=d submitted=e code=7 whole=no Process=9\"\nqueue",
        "echo $work $code > o",
        &[("o", "d 7\n"), ("d/e.txt", "e\n")],
        0,
        false,
    );
    // Folders are copied with what links name; where nothing is transferred, they stay in place.
    check(
        "transfer_input_files = d/, d\nqueue",
        "cat e.txt d/e.txt > o",
        &[("o", "e\ne\n")],
        0,
        false,
    );
    check(
        "should_transfer_files = NO\nqueue",
        "cat d/e.txt > o; exit 4",
        &[("o", "e\n")],
        4,
        false,
    );
}

#[test]
fn a_linked_input_is_copied_with_its_contents() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(data.path(), "x.csv", b"x\n");
    put(
        dir.path(),
        "run.sh",
        b"#!/bin/sh\n[ ! -L data ] && [ ! -L data/x.csv ] && cat data/x.csv > o\n",
    );
    put(dir.path(), "x.sub", b"executable = run.sh\ntransfer_input_files = data\nqueue\n");
    std::os::unix::fs::symlink(data.path(), dir.path().join("data")).unwrap();
    assert_eq!(job(dir.path(), &["translate", "x.sub"]).code, Some(0));
    let mut bash = Command::new("bash");
    let ran = finish(bash.arg("x.sbatch").current_dir(dir.path()).env("SLURM_JOB_ID", "1"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(fs::read_to_string(dir.path().join("o")).unwrap(), "x\n");
}

#[test]
fn what_cannot_be_translated_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "a.sbatch", BATCH.replace("-c 4", "-N 4").as_bytes());
    for (file, what) in [("a.sbatch", "the job has 4 nodes"), ("none.sub", "cannot be read")] {
        let refused = job(dir.path(), &["translate", file]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(what), "{refused:?}");
    }
}

#[test]
fn the_first_file_goes_if_the_second_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "train.sbatch", BATCH.as_bytes());
    // A link to nowhere does not exist, and is not replaced.
    std::os::unix::fs::symlink("nowhere", dir.path().join("train.sh")).unwrap();
    let refused = job(dir.path(), &["translate", "train.sbatch"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "{refused:?}");
}

#[test]
fn lines_of_a_site_are_written_with_their_source() {
    let dir = tempfile::tempdir().unwrap();
    let site = "[[line]]\ntext = \"--threads-per-core=1\"\npage = \"https://x.org/a\"\ndate = \"2026-08\"\n";
    put(dir.path(), "site.toml", site.as_bytes());
    put(dir.path(), "bad.toml", b"\n[[line]]\ntext = \"--qos=a\"\n");
    let words = ["new", "run1", "--site", "slurm", "--site-file", "site.toml", "--", "true"];
    let made = job(dir.path(), &words);
    assert_eq!(made.code, Some(0), "{made:?}");
    let batch = fs::read_to_string(dir.path().join("run1/run1.sbatch")).unwrap();
    assert!(batch.contains("\n# https://x.org/a, 2026-08\n#SBATCH --threads-per-core=1\n"));
    let refused = job(dir.path(), &["new", "run2", "--site-file", "bad.toml", "--", "true"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("line 2: missing field `page`"), "{refused:?}");
}

#[test]
fn the_site_file_for_jsc_gives_each_line_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tutorials/slurm/jsc.toml");
    let words =
        ["new", "run1", "--site", "jsc", "--account", "a", "--nodes", "2", "--site-file", file];
    let made = job(dir.path(), &[&words[..], &["--", "true"]].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    let batch = fs::read_to_string(dir.path().join("run1/run1.sbatch")).unwrap();
    assert!(batch.contains("| head -n 1)i\n"), "{batch}");
    let lines: Vec<&str> = batch.lines().collect();
    for line in [
        "#SBATCH --threads-per-core=1",
        "export NCCL_SOCKET_IFNAME=ib0",
        "export GLOO_SOCKET_IFNAME=ib0",
    ] {
        let at = lines.iter().position(|found| *found == line);
        let source = at.and_then(|at| lines.get(at.checked_sub(1)?)).unwrap();
        assert!(source.starts_with("# ") && source.contains(" 20"), "{batch}");
    }
    let lint = job(&dir.path().join("run1"), &["lint", "--strict", "run1.sbatch"]);
    assert_eq!(lint.code, Some(0), "{lint:?}");
}
