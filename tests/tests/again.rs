//! The same command on files that it has finished, or was killed at: exit code 0, and the same
//! files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gular_tests::{Outcome, files, finish, gular, jpeg, noisy_png, put, run};
use serde_json::Value;

struct Case {
    dir: tempfile::TempDir,
    images: PathBuf,
    bundle: PathBuf,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (images, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
        for i in 0..24 {
            let split = if i % 4 == 0 { "val" } else { "train" };
            put(&images, format!("{split}/c{}/{i}.jpg", i % 3), &jpeg(i));
        }
        Self { dir, images, bundle }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn done(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// Runs `args` twice; the second run reports that there was nothing to do, and changes nothing.
fn twice(args: &[&str], made: &Path) {
    done(&run(args));
    let before = if made.is_dir() { files(made) } else { Vec::new() };
    let modified = made.metadata().unwrap().modified().unwrap();
    let again = run(args);
    done(&again);
    assert!(
        again.stdout.starts_with("nothing to do") || again.stdout.contains("\nnothing to do"),
        "{again:?}"
    );
    assert!(again.stderr.is_empty(), "{again:?}");
    let json: Value = serde_json::from_str(&run([args, &["--json"]].concat()).stdout).unwrap();
    assert_eq!(json["already_done"], true, "{json}");
    assert_eq!(made.metadata().unwrap().modified().unwrap(), modified);
    if made.is_dir() {
        assert!(files(made) == before);
    }
}

#[test]
fn what_is_finished_is_not_done_again() {
    let case = Case::new();
    let bundle = text(&case.bundle);
    twice(&["pack", text(&case.images), bundle], &case.bundle);
    for envelope in ["arrow", "tar", "directory"] {
        let out = case.at(envelope);
        twice(&["convert", bundle, text(&out), "--envelope", envelope], &out);
    }
    let tar = case.at("bundle.tar.zst");
    twice(&["export", bundle, "--tar-zst", text(&tar)], &tar);
    let adopted = case.at("adopted");
    let shards = case.at("tar/data");
    let args = ["adopt", text(&shards), "--out", text(&adopted), "--label-column", "cls"];
    let tars: Vec<_> = shards.read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    let tars: Vec<&str> = tars.iter().map(|p| text(p)).filter(|p| p.ends_with(".tar")).collect();
    twice(&[&["adopt"], &tars[..], &["--out", args[3]]].concat(), &adopted);
}

#[test]
fn what_another_command_made_is_refused() {
    let case = Case::new();
    let bundle = text(&case.bundle);
    done(&run(["pack", text(&case.images), bundle]));
    let (folder, tar) = (case.at("folder"), case.at("b.tar.zst"));
    done(&run(["convert", bundle, text(&folder), "--envelope", "directory"]));
    done(&run(["export", bundle, "--tar-zst", text(&tar)]));
    put(&case.images, "train/c0/new.jpg", &jpeg(99));
    let other = case.at("other");
    done(&run(["pack", text(&case.images), text(&other)]));
    let refused = |args: &[&str]| {
        let outcome = run(args);
        assert_eq!(outcome.code, Some(2), "{args:?} {outcome:?}");
        assert_eq!(outcome.stderr.matches("error: ").count(), 1, "{outcome:?}");
    };
    refused(&["pack", text(&case.images), bundle]);
    refused(&["convert", text(&other), text(&folder), "--envelope", "directory"]);
    refused(&["export", text(&other), "--tar-zst", text(&tar)]);
    // One file of the folder is changed.
    let file =
        files(&folder).into_iter().find(|(name, _)| name.extension().is_some_and(|e| e == "jpg"));
    std::fs::write(folder.join(file.unwrap().0), b"cut").unwrap();
    refused(&["convert", bundle, text(&folder), "--envelope", "directory"]);
}

#[test]
fn a_killed_conversion_to_a_directory_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (images, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
    for i in 0..60 {
        put(&images, format!("c{}/{i}.png", i % 3), &noisy_png(i, 150));
    }
    done(&run(["pack", text(&images), text(&bundle), "--shard-size", "1MiB"]));
    let whole = dir.path().join("whole");
    let command = |out: &Path| {
        let mut command = Command::new(gular());
        let args = ["convert", text(&bundle), text(out), "--envelope", "directory"];
        command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let begin = Instant::now();
    done(&finish(&mut command(&whole)));
    let took = begin.elapsed();
    let expected = files(&whole);
    for step in 0..12 {
        let out = dir.path().join(format!("killed{step}"));
        let mut child = command(&out).spawn().unwrap();
        std::thread::sleep(took.mul_f64(f64::from(step) / 10.0).max(Duration::from_millis(1)));
        child.kill().unwrap();
        child.wait().unwrap();
        let again = finish(command(&out).stdout(Stdio::piped()).stderr(Stdio::piped()));
        done(&again);
        assert!(files(&out) == expected, "killed after {step} tenths: {again:?}");
        std::fs::remove_dir_all(&out).unwrap();
    }
}
