//! `gular job new`, `plan` and `hosts`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use gular_tests::{Outcome, files, finish, gular, jpeg, kill, put};
use serde_json::Value;

fn job(dir: &Path, args: &[&str]) -> Outcome {
    finish(Command::new(gular()).arg("job").args(args).current_dir(dir))
}

#[test]
fn urls_are_inputs_and_files_of_a_sweep_travel() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("c.sh", "#!/bin/sh\ncat \"$1\"\n"), ("a.csv", "1"), ("b.csv", "2")] {
        put(dir.path(), name, text.as_bytes());
    }
    let words = [
        "job",
        "new",
        "run1",
        "--input",
        "osdf:///lab/w-v1.zip",
        "--sweep",
        "config=a.csv,b.csv",
        "--",
        "sh",
        "c.sh",
        "{config}",
        "--weights",
        "w.safetensors",
    ];
    let made = finish(Command::new(gular()).args(words).current_dir(dir.path()));
    assert_eq!(made.code, Some(0), "{made:?}");
    let submit = fs::read_to_string(dir.path().join("run1/run1.sub")).unwrap();
    assert!(
        submit.contains("transfer_input_files = c.sh, a.csv, b.csv, osdf:///lab/w-v1.zip\n"),
        "{submit}"
    );
    let said = format!("{}{}", made.stdout, made.stderr);
    assert!(said.contains("`w.safetensors`, which is not here"), "{said}");
}

#[test]
fn a_written_folder_has_no_trap_and_its_wrapper_goes_on_after_a_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let program = "#!/bin/sh\nif [ -e ckpt/half ]; then echo \"$1\" > output/done; exit 0; fi\ntouch ckpt/half\nexit 85\n";
    put(dir.path(), "step.sh", program.as_bytes());
    let args = [
        "new",
        "run1",
        "--checkpoint",
        "ckpt",
        "--every",
        "2s",
        "--sweep",
        "lr=1e-3,3e-4",
        "--",
        "sh",
        "./step.sh",
        "--lr={lr}",
    ];
    let outcome = job(dir.path(), &args);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let run = dir.path().join("run1");
    let lint = job(&run, &["lint", "run1.sub", "--strict"]);
    assert_eq!(lint.code, Some(0), "{lint:?}");
    assert_eq!(fs::read_to_string(run.join("parameters.txt")).unwrap(), "1e-3\n3e-4\n");
    let start = || finish(Command::new("./run.sh").arg("3e-4").current_dir(&run)).code;
    let since = Instant::now();
    assert_eq!((start(), start()), (Some(85), Some(0)));
    // HTCondor would start it again at once.
    assert!(since.elapsed() >= Duration::from_secs(1), "{:?}", since.elapsed());
    let listed =
        finish(Command::new("tar").args(["-xOf", "results.tar", "output/done"]).current_dir(&run));
    assert_eq!(listed.stdout, "--lr=3e-4\n");
}

/// The signal goes only to the wrapper, as when HTCondor evicts a job.
#[test]
fn an_evicted_program_is_told_to_save_and_its_exit_code_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let program = "#!/bin/sh\ntrap 'sleep 1; touch ckpt/saved; exit 85' TERM\ntouch output/started\nwhile :; do sleep 0.1; done\n";
    put(dir.path(), "train.sh", program.as_bytes());
    let made = job(dir.path(), &["new", "a", "--checkpoint", "ckpt", "--", "sh", "train.sh"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let run = dir.path().join("a");
    let mut wrapper = Command::new("./run.sh").current_dir(&run).spawn().unwrap();
    while !run.join("output/started").exists() {
        sleep(Duration::from_millis(20));
    }
    let pid = wrapper.id().to_string();
    assert!(kill().args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(wrapper.wait().unwrap().code(), Some(85));
    assert!(run.join("ckpt/saved").exists() && run.join("results.tar").exists());
}

/// HTCondor copies a checkpoint only when the program ends with 85.
#[test]
fn a_program_is_told_to_save_when_its_interval_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["new", "a", "--checkpoint", "ckpt", "--every", "1s", "--", "sleep", "60"];
    assert_eq!(job(dir.path(), &args).code, Some(0));
    let run = dir.path().join("a");
    let outcome = finish(Command::new("./run.sh").current_dir(&run));
    // The program is ended by SIGTERM, which it does not handle.
    assert_eq!(outcome.code, Some(128 + 15), "{outcome:?}");
    assert!(run.join("results.tar").exists());
}

#[test]
fn what_would_change_nothing_or_fail_later_is_refused_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "train.py", b"print('output')\n");
    let check = |options: &[&str], command: &[&str], what: &str| {
        let outcome =
            job(dir.path(), &[&["new", "a", "--dry-run"], options, &["--"], command].concat());
        assert_eq!(outcome.code, Some(2), "{what}: {outcome:?}");
        assert!(outcome.stderr.contains(what), "{what}: {outcome:?}");
        assert!(outcome.stderr.contains("hint: "), "{outcome:?}");
    };
    let python = ["python3", "train.py"];
    check(&["--memory", "16"], &python, "`16` has no unit; write for example `16GB`");
    check(&["--time", "10"], &python, "`10` has no unit of time; write for example `10h`");
    check(&["--capability", "8.0"], &python, "`--capability` has no effect without a GPU");
    check(&["--account", "a"], &python, "`--account` has no effect on HTCondor");
    let slurm = ["--site", "slurm", "--gpus", "1", "--cuda", "12.4"];
    check(&slurm, &python, "`--cuda` has no effect on Slurm");
    let every = ["--site", "slurm", "--checkpoint", "c", "--every", "1h"];
    check(&every, &python, "`--every` has no effect on Slurm");
    check(&["--image", "train.py"], &python, "`train.py` is not a container image");
    check(&["--image", "gone.sif"], &python, "cannot read the image `gone.sif`");
    check(&["--input", "gone.py"], &python, "cannot read `gone.py`");
    check(&["--data", "gone"], &python, "`gone` is neither a URL nor a folder here");
    check(&["--data", "."], &python, "`.` is not a bundle: it has no `manifest.json`");
    check(&[], &["python3", "trian.py"], "the file `trian.py` does not exist here");
    check(&[], &["./train.py"], "`./train.py` is not executable");
    let chtc = ["pack", "p", ".", "out", "--parts", "2", "--site", "chtc", "--dry-run"];
    let outcome = job(dir.path(), &chtc);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("machines of CHTC share only `/staging`"), "{outcome:?}");
}

#[test]
fn what_a_program_needs_travels_and_what_stays_is_said() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "train.py", b"import nets\nprint('output')\n");
    put(dir.path(), "nets/__init__.py", b"from . import small\n");
    put(dir.path(), "nets/small.py", b"");
    put(dir.path(), "settings/a.yaml", b"a: 1\n");
    put(dir.path(), "photos/1.jpg", b"");
    let command = ["python3", "train.py", "--config=settings/a.yaml", "--lr={lr}", "photos"];
    let made = job(dir.path(), &[&["new", "a", "--"], &command[..]].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    for note in ["names `photos`, a folder here", "has `{lr}`, which is not a parameter"] {
        assert!(made.stdout.contains(note), "{made:?}");
    }
    let run = dir.path().join("a");
    let submit = fs::read_to_string(run.join("a.sub")).unwrap();
    assert!(submit.contains("\ntransfer_input_files = train.py, a.yaml, nets\n"), "{submit}");
    let script = fs::read_to_string(run.join("run.sh")).unwrap();
    assert!(script.contains("\npython3 train.py --config=a.yaml "), "{script}");
    assert!(run.join("nets/small.py").is_file() && !run.join("photos").exists());
    let lint = job(&run, &["lint", "a.sub", "--strict"]);
    assert_eq!(lint.code, Some(0), "{lint:?}");
    // The program would be stopped every hour, and lose its work each time.
    let deaf = ["new", "c", "--checkpoint", "ckpt", "--", "python3", "train.py"];
    assert_eq!(job(dir.path(), &deaf).code, Some(0));
    let lint = job(&dir.path().join("c"), &["lint", "c.sub"]);
    assert!(lint.stdout.contains("warning[never-checkpoints]"), "{lint:?}");
    let all = job(dir.path(), &[&["new", "b", "--input", "photos", "--"], &command[..]].concat());
    assert!(
        dir.path().join("b/photos/1.jpg").is_file() && !all.stdout.contains("`photos`"),
        "{all:?}"
    );
}

#[test]
fn a_bundle_in_a_folder_is_listed_by_the_paths_of_its_files() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "photos/cat/1.jpg", &jpeg(0));
    let pack =
        Command::new(gular()).args(["pack", "photos", "bundle"]).current_dir(dir.path()).output();
    assert!(pack.unwrap().status.success());
    let bundle = dir.path().join("bundle");
    let listed = |data: &str| {
        let shown = job(dir.path(), &["new", "a", "--dry-run", "--data", data, "--", "hostname"]);
        let line =
            shown.stdout.lines().find_map(|line| line.strip_prefix("transfer_input_files = "));
        line.unwrap_or_else(|| panic!("{shown:?}")).to_owned()
    };
    let files = listed("bundle");
    assert_eq!(files, listed(&format!("file://{}", bundle.display())));
    let paths: Vec<&str> = files.split(", ").collect();
    assert!(paths.len() >= 3 && paths.iter().all(|path| Path::new(path).is_file()), "{files}");
    let slurm =
        ["new", "a", "--dry-run", "--site", "slurm", "--data", "bundle", "--", "ls", "{data}"];
    let slurm = job(dir.path(), &slurm);
    assert!(slurm.stdout.contains(&format!(" ls {}\n", bundle.display())), "{slurm:?}");
    assert!(!slurm.stdout.contains("gular fetch"), "{slurm:?}");
}

#[test]
fn a_program_that_fails_keeps_its_exit_code_and_sends_what_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "fails.sh", b"#!/bin/sh\necho why > output/log\nexit 7\n");
    assert_eq!(job(dir.path(), &["new", "a", "--", "sh", "fails.sh"]).code, Some(0));
    let run = dir.path().join("a");
    let outcome = finish(Command::new("./run.sh").current_dir(&run));
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert!(run.join("results.tar").exists());
    // A job with damaged packages also writes its outputs: HTCondor holds one without them.
    put(dir.path(), "x-1.0-py3-none-any.whl", b"no zip");
    let wheel = ["new", "b", "--input", "x-1.0-py3-none-any.whl", "--", "sh", "fails.sh"];
    assert_eq!(job(dir.path(), &wheel).code, Some(0));
    let run = dir.path().join("b");
    let outcome = finish(Command::new("./run.sh").current_dir(&run));
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert!(outcome.stderr.contains("BadZipFile"), "{outcome:?}");
    assert!(run.join("results.tar").exists() && !run.join("wheels").exists());
}

#[test]
fn nothing_is_overwritten_and_a_dry_run_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dry = job(
        dir.path(),
        &["new", "a", "--dry-run", "--site", "jsc", "--nodes", "2", "--", "hostname"],
    );
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(dry.stdout.contains("#SBATCH --nodes=2"), "{dry:?}");
    assert!(files(dir.path()).is_empty());
    assert_eq!(job(dir.path(), &["new", "a", "--", "hostname"]).code, Some(0));
    let before = files(dir.path());
    let again = job(dir.path(), &["new", "a", "--", "true"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("hint: "), "{again:?}");
    assert_eq!(files(dir.path()), before);
}

#[test]
fn requests_are_read_from_the_facts_of_an_image() {
    let dir = tempfile::tempdir().unwrap();
    let facts = r#"{"version":1,"image":"a.sif","bytes":6442450944,"digest":null,"unpacked_bytes":0,
        "arch":"amd64","minimum_capability":"7.5","maximum_capability":"12.0","capabilities":["7.5"],
        "cuda_runtime":"13.0","minimum_driver":null,"glibc":"2.36"}"#;
    put(dir.path(), "facts.json", facts.as_bytes());
    let image = ["new", "a", "--dry-run", "--image", "osdf:///lab/a.sif", "--gpus", "1"];
    let with = |more: &[&str]| job(dir.path(), &[&image, more, &["--", "hostname"]].concat());
    let text = with(&["--facts", "facts.json", "--disk", "1MB"]).stdout;
    // The request is for 6 GB, 1 GB to spare, and a tenth.
    for line in
        ["gpus_minimum_capability = 7.5", "gpus_minimum_runtime = 13.0", "request_disk = 8 GB"]
    {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let newer = with(&["--facts", "facts.json", "--capability", "8.0"]).stdout;
    assert!(newer.contains("gpus_minimum_capability = 8.0\n"), "{newer}");
    put(dir.path(), "facts.json", b"{}");
    let outcome = with(&["--facts", "facts.json"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("hint: write such a file with"), "{outcome:?}");
}

#[test]
fn parts_of_a_pack_are_written_for_both_batch_systems() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("photos")).unwrap();
    for (site, name) in [("generic", "pack.dag"), ("slurm", "pack.sbatch")] {
        let args =
            ["pack", "pack", "photos", "out", "--parts", "3", "--site", site, "--", "--seed", "1"];
        let made = job(dir.path(), &args);
        assert_eq!(made.code, Some(0), "{made:?}");
        let run = dir.path().join("pack");
        let lint = job(&run, &["lint", name, "--strict"]);
        assert_eq!(lint.code, Some(0), "{lint:?}");
        assert_eq!(fs::read_to_string(run.join("parameters.txt")).unwrap(), "1\n2\n3\n");
        fs::remove_dir_all(run).unwrap();
    }
    let gone = job(dir.path(), &["pack", "pack", "gone", "out", "--parts", "3"]);
    assert_eq!(gone.code, Some(2), "{gone:?}");
}

#[test]
fn a_plan_says_jobs_hours_and_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "plan",
        "--items",
        "18e6",
        "--item-in",
        "1MB",
        "--item-out",
        "4MB",
        "--gpu",
        "5s",
        "--cpu",
        "5min",
        "--model",
        "8GB",
    ];
    let plan: Value =
        serde_json::from_str(&job(dir.path(), &[&args[..], &["--json"]].concat()).stdout).unwrap();
    assert_eq!(
        (plan["gpu_hours"].as_f64(), plan["cpu_hours"].as_f64()),
        (Some(25_000.0), Some(1_500_000.0))
    );
    assert_eq!(
        (&plan["jobs"][1]["items_per_job"], &plan["jobs"][1]["jobs"]),
        (&2880.into(), &6250.into())
    );
    let shown = job(dir.path(), &args);
    assert!(shown.stdout.contains("many independent jobs are the right way"), "{shown:?}");
    assert_eq!(job(dir.path(), &["plan", "--items", "10"]).code, Some(2));
}

#[test]
fn nodes_are_unfolded() {
    let dir = tempfile::tempdir().unwrap();
    let first = job(dir.path(), &["hosts", "jwb[0021-0023]", "--first", "--suffix", "i"]);
    assert_eq!(first.stdout, "jwb0021i\n");
    assert_eq!(job(dir.path(), &["hosts", "jwb[0021"]).code, Some(2));
}
