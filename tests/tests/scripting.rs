//! Properties that scripts rely on: exit codes, silence, pipes that end early.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gular_tests::{Outcome, finish, gular, jpeg, put, run};
use serde_json::Value;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A bundle of two classes, in a folder that is removed with it.
struct Packed {
    dir: tempfile::TempDir,
    bundle: PathBuf,
}

impl Packed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (source, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
        for i in 0..12 {
            put(&source, format!("c{}/{i}.jpg", i % 2), &jpeg(i));
        }
        let packed = run(["pack", text(&source), text(&bundle), "--quiet"]);
        assert_eq!(
            (packed.code, packed.stdout.as_str(), packed.stderr.as_str()),
            (Some(0), "", "")
        );
        Self { dir, bundle }
    }

    /// Returns the path of the only shard.
    fn shard(&self) -> PathBuf {
        let data = fs::read_dir(self.bundle.join("data")).unwrap();
        let mut paths = data.map(|e| e.unwrap().path());
        paths.find(|p| !text(p).ends_with(".index.safetensors")).unwrap()
    }

    /// Changes a byte of the first image.
    fn damage(&self) {
        let mut bytes = fs::read(self.shard()).unwrap();
        bytes[4100] ^= 1;
        fs::write(self.shard(), bytes).unwrap();
    }
}

/// Makes a pipe that nobody reads.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_pipe_that_nobody_reads_changes_no_exit_code() {
    let packed = Packed::new();
    let check = |args: &[&str], expected: i32| {
        for (out, err) in [(true, false), (false, true), (true, true)] {
            let mut command = Command::new(gular());
            command.args(args).stdin(Stdio::null());
            command.stdout(if out { closed_pipe() } else { Stdio::null() });
            command.stderr(if err { closed_pipe() } else { Stdio::null() });
            let status = command.status().unwrap();
            assert_eq!(status.code(), Some(expected), "{args:?} {out} {err}");
        }
    };
    let bundle = text(&packed.bundle);
    check(&["verify", bundle], 0);
    check(&["inspect", bundle, "--json"], 0);
    check(&["inspect", bundle, "--extract", "c0/0.jpg"], 0);
    check(&["--help"], 0);
    check(&["verify", "/nowhere"], 2);
    check(&["frobnicate"], 2);
    packed.damage();
    check(&["verify", bundle], 1);
    check(&["verify", bundle, "--json"], 1);
}

#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let packed = Packed::new();
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        println!("skipped: no /dev/full");
        return;
    };
    let mut command = Command::new(gular());
    let output = command.args(["inspect", text(&packed.bundle)]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: cannot write to standard output: "), "{stderr}");
}

#[test]
fn quiet_leaves_faults_and_errors() {
    let packed = Packed::new();
    let bundle = text(&packed.bundle);
    let sound = run(["verify", bundle, "--quiet"]);
    assert_eq!((sound.code, sound.stdout.as_str(), sound.stderr.as_str()), (Some(0), "", ""));
    packed.damage();
    let unsound = run(["verify", bundle, "--quiet"]);
    let shard = packed.shard();
    let lines: Vec<&str> = unsound.stdout.lines().collect();
    assert_eq!(unsound.code, Some(1), "{unsound:?}");
    assert_eq!(lines[0], format!("data/{} (train)", shard.file_name().unwrap().to_str().unwrap()));
    assert!(lines.iter().any(|l| l.starts_with("    sample c")), "{unsound:?}");
    // There is one file, so what to do is printed once, and last.
    assert!(lines.last().unwrap().starts_with("  do: "), "{unsound:?}");
    assert_eq!(lines.iter().filter(|l| l.starts_with("  do: ")).count(), 1, "{unsound:?}");
    let error = run(["verify", "/nowhere", "--quiet"]);
    assert!(error.stderr.starts_with("error: "), "{error:?}");
}

#[test]
fn threads_are_counted_from_one() {
    let packed = Packed::new();
    assert_eq!(run(["verify", text(&packed.bundle), "--jobs", "1"]).code, Some(0));
    for jobs in ["0", "-1", "many"] {
        let outcome = run(["verify", text(&packed.bundle), "--jobs", jobs]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
    }
}

#[test]
fn keys_of_a_fault_are_listed_up_to_a_limit() {
    let packed = Packed::new();
    let shard = packed.shard();
    let mut bytes = fs::read(&shard).unwrap();
    let end = bytes.len() - 2000;
    bytes[4096..end].fill(0xee);
    fs::write(&shard, bytes).unwrap();
    for (limit, listed, more) in [("0", 0, true), ("3", 3, true), ("20", 12, false)] {
        let outcome = run(["verify", text(&packed.bundle), "--max-keys", limit]);
        let keys = outcome.stdout.lines().filter(|l| l.starts_with("    sample ")).count();
        assert_eq!((outcome.code, keys), (Some(1), listed), "{outcome:?}");
        assert_eq!(outcome.stdout.contains(" more samples\n"), more, "{outcome:?}");
    }
}

/// Checks that there is one error with a hint, and nothing on stdout.
fn refused(outcome: &Outcome, words: &[&str]) {
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{outcome:?}");
    assert!(outcome.stderr.starts_with("error: ") && outcome.stderr.contains("\nhint: "));
    for word in words {
        assert!(outcome.stderr.contains(word), "no `{word}` in {}", outcome.stderr);
    }
}

#[test]
fn inspect_says_what_a_path_is_instead() {
    let packed = Packed::new();
    let dir = packed.dir.path();
    let inspect = |path: &Path| run(["inspect", text(path)]);
    refused(&inspect(&dir.join("images/c0/0.jpg")), &["is a single image (image/jpeg)"]);
    put(dir, "train.zip", b"PK\x03\x04\x14\0\0\0\x08\0 and so on");
    refused(&inspect(&dir.join("train.zip")), &["is a zip archive", "gular pack"]);
    refused(&inspect(&dir.join("images")), &["is not a bundle", "manifest.json"]);
    fs::create_dir_all(dir.join("half/.gular-pack")).unwrap();
    refused(&inspect(&dir.join("half")), &["interrupted", "run the same `gular pack` again"]);
    put(dir, "empty", b"");
    refused(&inspect(&dir.join("empty")), &["empty"]);
    refused(&inspect(&dir.join("none")), &["none", "o such file"]);
    // The file is sparse: its length alone must be enough to refuse it.
    let huge = dir.join("huge.json");
    put(dir, "huge.json", b"{\"format\":\"gular-bundle\"");
    File::options().write(true).open(&huge).unwrap().set_len(1 << 40).unwrap();
    refused(&inspect(&huge), &["1099511627776", "more than the limit"]);
    for option in [&["--samples", "1"][..], &["--sheet", "s.png"], &["--extract", "k"]] {
        let shard = packed.shard();
        let args = [&["inspect", text(&shard)], option].concat();
        refused(&run(args), &[option[0], "needs a bundle's folder"]);
    }
}

#[test]
fn names_in_a_manifest_cannot_steer_the_terminal() {
    let packed = Packed::new();
    let path = packed.bundle.join("manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    let changed = manifest.replacen("\"c0\"", "\"\\u001b[2Jc0\\nsound\"", 1);
    assert_ne!(changed, manifest);
    fs::write(&path, changed).unwrap();
    let outcome = run(["inspect", text(&packed.bundle)]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("0 \\u{1b}[2Jc0\\nsound "), "{outcome:?}");
    assert!(!outcome.stdout.contains('\u{1b}'), "{outcome:?}");
}

#[test]
fn a_sheet_in_the_current_folder_with_a_broken_image() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..6 {
        put(dir.path(), format!("images/c{}/{i}.jpg", i % 2), &jpeg(i));
    }
    // The header is complete, so the file is packed by default.
    let whole = jpeg(7);
    put(dir.path(), "images/c1/cut.jpg", &whole[..whole.len() * 2 / 3]);
    let here = |args: &[&str]| finish(Command::new(gular()).args(args).current_dir(dir.path()));
    assert_eq!(here(&["pack", "images", "bundle", "--quiet"]).code, Some(0));
    let outcome = here(&["inspect", "bundle", "--sheet", "sheet.png", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.starts_with("warning: not on the sheet: `c1/cut.jpg`"), "{outcome:?}");
    let value: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        (&value["sheet"]["images"], &value["sheet"]["path"]),
        (&6.into(), &"sheet.png".into())
    );
    assert!(fs::read(dir.path().join("sheet.png")).unwrap().starts_with(b"\x89PNG"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "no temporary file is left");
}

#[test]
fn a_dry_run_shows_what_the_folders_become() {
    let dir = tempfile::tempdir().unwrap();
    for (name, i) in [("train/cat/1", 1), ("train/cat/2", 2), ("train/dog/3", 3), ("val/cat/4", 4)]
    {
        put(dir.path(), format!("images/{name}.jpg"), &jpeg(i));
    }
    let outcome =
        finish(Command::new(gular()).args(["pack", "images", "b", "--dry-run"]).current_dir(&dir));
    let expected = "
class                        train       val
cat                              2         1
dog                              1         0

dry run: 4 samples of ";
    assert!(outcome.stdout.contains(expected), "{outcome:?}");
    assert!(outcome.stdout.contains("in 2 shards; nothing was written"), "{outcome:?}");
    assert!(!dir.path().join("b").exists());
}

#[test]
fn nothing_is_coloured_where_no_terminal_is() {
    let packed = Packed::new();
    packed.damage();
    for args in [&["verify", text(&packed.bundle)][..], &["frobnicate"], &["--help"]] {
        let outcome = run(args);
        assert!(!format!("{outcome:?}").contains("\\u{1b}"), "{outcome:?}");
    }
}
