//! `gular doctor` without a URL looks at this machine. Scripts take the place of the programs that
//! it asks, so that each machine is the same.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use gular_tests::{Outcome, finish, gular, is_root};
use serde_json::Value;

/// The token {"alg":"none"} . {"iss":"https://a.invalid","exp":1} . a signature.
const EXPIRED: &str =
    "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2EuaW52YWxpZCIsImV4cCI6MX0.c2lnbmF0dXJl";

/// A machine with these programs, each a script.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new(programs: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["bin", "run", "tmp"] {
            fs::create_dir(dir.path().join(sub)).unwrap();
        }
        for (name, script) in programs {
            let path = dir.path().join("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { dir }
    }

    fn doctor(&self, env: &[(&str, &str)], args: &[&str]) -> Outcome {
        let at = |name: &str| self.dir.path().join(name);
        let mut command = Command::new(gular());
        command.env_clear().arg("doctor").args(args);
        command.env("PATH", at("bin")).env("XDG_RUNTIME_DIR", at("run"));
        command.env("TMPDIR", at("tmp")).envs(env.iter().copied());
        finish(&mut command)
    }

    /// The lines about `what`: each with its verdict, what was found, and what to do.
    fn lines(&self, env: &[(&str, &str)], what: &str) -> Vec<(String, String, String)> {
        let outcome = self.doctor(env, &["--json"]);
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let lines = report["lines"].as_array().unwrap();
        let problem = lines.iter().any(|line| line["verdict"] == "problem");
        assert_eq!(report["well"], !problem, "{outcome:?}");
        assert_eq!(outcome.code, Some(i32::from(problem)), "{outcome:?}");
        let text =
            |line: &Value, member: &str| line[member].as_str().unwrap_or_default().to_owned();
        let of = lines.iter().filter(|line| line["what"] == what);
        of.map(|line| (text(line, "verdict"), text(line, "found"), text(line, "do"))).collect()
    }

    #[track_caller]
    fn check(&self, env: &[(&str, &str)], what: &str, verdict: &str, found: &str, next: &str) {
        let lines = self.lines(env, what);
        let is = |(v, f, n): &(String, String, String)| {
            v == verdict && f.contains(found) && n.contains(next) && n.is_empty() == next.is_empty()
        };
        assert!(lines.iter().any(is), "{what}: {verdict}, {found}, {next}: {lines:?}");
    }
}

/// A Python that has this version of the package, or none.
fn python(name: &str, wheel: &str) -> String {
    format!("echo '3.12.1|{wheel}|/opt/{name}'")
}

#[test]
fn a_bare_machine_is_described_on_one_page() {
    let bare = Machine::new(&[]);
    let outcome = bare.doctor(&[], &[]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines.len() <= 24, "{}", outcome.stdout);
    for what in
        ["program", "wheel", "libtorch", "GPU", "cache", "tokens", "batch", "images", "namespaces"]
    {
        let named = lines.iter().filter(|line| line.split_whitespace().next() == Some(what));
        assert_eq!(named.count(), 1, "{what}: {}", outcome.stdout);
    }
    assert!(lines[0].contains(env!("CARGO_PKG_VERSION")) && lines[0].contains("jpeg"), "{lines:?}");
    let end = "no problem was found; `gular doctor URL` checks the servers of a federation\n";
    assert!(outcome.stdout.ends_with(end), "{}", outcome.stdout);
    let quiet = bare.doctor(&[], &["--quiet"]);
    assert_eq!((quiet.code, quiet.stdout.as_str()), (Some(0), ""));
    // Nothing is left behind.
    assert_eq!(fs::read_dir(bare.dir.path().join("tmp")).unwrap().count(), 0);
}

#[test]
fn a_wheel_of_another_version_is_a_problem() {
    let ours = env!("CARGO_PKG_VERSION");
    let same = Machine::new(&[("python3", &python("a", ours)), ("python3.9", &python("b", ""))]);
    same.check(&[], "wheel", "ok", &format!("in `/opt/a` has gular {ours}"), "");
    same.check(&[], "wheel", "ok", "without gular: Python 3.12.1 in `/opt/b`", "");
    let other = Machine::new(&[("python", &python("a", "0.0.1")), ("python3", "exit 1")]);
    let next = format!("`/opt/a/bin/python -m pip install gular-{ours}-*.whl`");
    other.check(&[], "wheel", "problem", "has gular 0.0.1, and this program is", &next);
    let without = Machine::new(&[("python3", &python("a", "")), ("python3-config", "exit 1")]);
    without.check(&[], "wheel", "note", "without gular: Python 3.12.1", "pip install");
}

#[test]
fn gpus_are_described_and_a_driver_that_fails_is_named() {
    let one = "echo 'NVIDIA H100, 9.0, 81559 MiB, 550.54'";
    let found = "NVIDIA H100, compute capability 9.0, 81559 MiB, driver 550.54";
    Machine::new(&[("nvidia-smi", one)]).check(&[], "GPU", "ok", found, "");
    let broken = "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18";
    let broken = Machine::new(&[("nvidia-smi", broken)]);
    broken.check(&[], "GPU", "problem", "version mismatch", "run `nvidia-smi`");
    let quiet = broken.doctor(&[], &["-q"]);
    assert_eq!(quiet.stdout.lines().count(), 2, "{quiet:?}");
    assert!(quiet.stdout.contains("  do: "), "{quiet:?}");
}

#[test]
fn libtorch_is_looked_for_where_it_is_named() {
    let machine = Machine::new(&[]);
    let torch = machine.dir.path().join("torch");
    fs::create_dir_all(torch.join("lib")).unwrap();
    let env = [("LIBTORCH", torch.to_str().unwrap())];
    machine.check(&env, "libtorch", "problem", "no `lib/libtorch_cpu.so`", "cargo xtask setup");
    fs::write(torch.join("lib/libtorch_cpu.so"), "").unwrap();
    fs::write(torch.join("build-version"), "2.9.0+cpu\n").unwrap();
    machine.check(&env, "libtorch", "ok", "libtorch 2.9.0+cpu for CPUs only", "");
}

#[test]
fn the_cache_must_be_a_folder_of_one_s_own() {
    let machine = Machine::new(&[]);
    machine.check(&[], "cache", "ok", "gular-cache`, free: ", "");
    let shared = machine.dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let env = [("GULAR_CACHE", shared.to_str().unwrap())];
    machine.check(&env, "cache", "problem", "other users may write to it", "GULAR_CACHE");
    if !is_root() {
        let env = [("GULAR_CACHE", "/proc/nowhere/cache")];
        machine.check(&env, "cache", "problem", "cannot be written", "GULAR_CACHE");
    }
}

#[test]
fn tokens_are_found_and_never_shown() {
    let machine = Machine::new(&[]);
    let env = [("BEARER_TOKEN", EXPIRED)];
    machine.check(&env, "tokens", "problem", "`BEARER_TOKEN`: expired ", "gular login");
    let opaque = [("BEARER_TOKEN", "of-a-kind-that-hides")];
    machine.check(&opaque, "tokens", "note", "not a JSON Web Token", "gular login");
    let mistaken = [("BEARER_TOKEN_FILE", EXPIRED)];
    machine.check(&mistaken, "tokens", "problem", "this is a token", "repair or remove");
    for (name, secret) in [env[0], opaque[0], mistaken[0]] {
        for args in [&[][..], &["--json"]] {
            let outcome = machine.doctor(&[(name, secret)], args);
            let shown = outcome.stdout + &outcome.stderr;
            assert!(shown.contains(name) && !shown.contains(secret), "{shown}");
        }
    }
    let uid = std::os::unix::fs::MetadataExt::uid(&fs::metadata(machine.dir.path()).unwrap());
    fs::write(machine.dir.path().join(format!("run/bt_u{uid}")), "no token\n").unwrap();
    machine.check(&[], "tokens", "problem", "neither a token nor JSON", "repair or remove");
}

#[test]
fn batch_systems_and_programs_for_images_are_seen() {
    let cluster = Machine::new(&[
        ("condor_submit", "echo '$CondorVersion: 24.0.1 $'; echo more"),
        ("sbatch", "echo 'slurm 24.05.2'"),
        ("singularity", "echo 'apptainer version 1.3.4'"),
        ("unshare", "exit 0"),
    ]);
    cluster.check(&[], "batch", "ok", "HTCondor: $CondorVersion: 24.0.1 $", "");
    let job = [("SLURM_JOB_ID", "7")];
    cluster.check(&job, "batch", "ok", "this is a job of Slurm", "");
    cluster.check(&[], "batch", "ok", "Slurm: slurm 24.05.2", "");
    cluster.check(&[], "images", "ok", "apptainer version 1.3.4", "");
    cluster.check(&[], "namespaces", "ok", "allowed", "");
    let strict = Machine::new(&[("unshare", "echo 'unshare failed: no' >&2; exit 1")]);
    strict.check(&[], "namespaces", "note", "not allowed: ", "ask the operators");
    strict.check(&[], "batch", "note", "neither HTCondor", "log in");
}

#[test]
fn a_program_that_never_answers_is_not_waited_for() {
    // `exec`, so that it is the process that is ended.
    let machine = Machine::new(&[("nvidia-smi", "exec /bin/sleep 1000")]);
    machine.check(&[], "GPU", "problem", "no answer within 5 s", "nvidia-smi");
    assert!(Path::new("/bin/sleep").exists());
}
