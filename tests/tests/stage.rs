//! `gular stage`: one copy per node, of which nothing is left.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking and says when it skips")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gular_tests::{Outcome, files, finish, gular, is_root, jpeg, kill, noisy_png, put, run};
use serde_json::Value;

/// Images, a bundle of them, and a folder to stage to.
struct Case {
    dir: tempfile::TempDir,
    images: PathBuf,
    bundle: PathBuf,
    to: PathBuf,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (images, bundle, to) = (at("images"), at("bundle"), at("to"));
        for i in 0..12 {
            let split = if i % 4 == 0 { "val" } else { "train" };
            put(&images, format!("{split}/class {}/{i}.jpg", i % 3), &jpeg(i));
        }
        // Shards have several blocks.
        put(&images, "train/class 0/large.png", &noisy_png(1, 900));
        let packed = run(["pack", text(&images), text(&bundle), "--quiet"]);
        assert_eq!(packed.code, Some(0), "{}", packed.stderr);
        fs::create_dir(&to).unwrap();
        Self { dir, images, bundle, to }
    }

    fn command(&self, source: &Path, more: &[&str]) -> Command {
        let mut command = Command::new(gular());
        command.args(["stage", text(source), "--to", text(&self.to)]).args(more);
        command
    }

    fn stage(&self, source: &Path, more: &[&str]) -> Outcome {
        finish(&mut self.command(source, more))
    }

    /// Starts a process that holds its copy, and waits until the copy is there.
    fn hold(&self, source: &Path, more: &[&str]) -> (Child, PathBuf) {
        let mut command = self.command(source, more);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, PathBuf::from(line.trim_end()))
    }

    /// Returns the bundle's samples as `gular convert` unpacks them.
    fn plain_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let to = self.dir.path().join("plain");
        let converted =
            run(["convert", text(&self.bundle), text(&to), "--envelope", "directory", "--quiet"]);
        assert_eq!(converted.code, Some(0), "{}", converted.stderr);
        files(&to)
    }

    fn is_clean(&self) -> bool {
        fs::read_dir(&self.to).unwrap().count() == 0
    }

    /// Returns the folder of copies of the user who runs the test.
    fn folder(&self) -> PathBuf {
        let uid = fs::metadata(self.dir.path()).unwrap().uid();
        self.to.join(format!("gular-stage-{uid}"))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn signal(child: &Child, name: &str) {
    let sent = kill().args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits until a condition is true, which must happen.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_bundle_is_there_while_its_command_runs() {
    let case = Case::new();
    let copy = case.dir.path().join("seen");
    let script = format!("test \"$GULAR_STAGED\" = '{{}}' && cp -r {{}} '{}'; exit 7", text(&copy));
    let outcome = case.stage(&case.bundle, &["--", "sh", "-c", &script]);
    assert_eq!(outcome.code, Some(7), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "");
    assert_eq!(files(&copy), files(&case.bundle));
    assert!(case.is_clean());
}

#[test]
fn nobody_else_may_enter_and_nothing_may_be_written() {
    let case = Case::new();
    let (mut held, path) = case.hold(&case.bundle, &[]);
    for folder in [path.as_path(), path.parent().unwrap(), &path.join("data")] {
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700, "{}", folder.display());
    }
    assert_eq!(fs::metadata(path.join("manifest.json")).unwrap().mode() & 0o777, 0o400);
    let verified = run(["verify", text(&path)]);
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
    signal(&held, "TERM");
    assert_eq!(held.wait().unwrap().code(), Some(0));
    assert!(case.is_clean());
}

#[test]
fn samples_unpack_to_the_files_they_were() {
    let case = Case::new();
    let copy = case.dir.path().join("seen");
    let outcome = case.stage(&case.bundle, &["--unpack", "--", "cp", "-r", "{}", text(&copy)]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    // The copy has what `gular convert` writes: the original files, and lists of them.
    let plain = case.plain_files();
    assert_eq!(files(&copy), plain);
    let (lists, images): (Vec<_>, Vec<_>) =
        plain.into_iter().partition(|(path, _)| !files(&case.images).iter().any(|f| f.0 == *path));
    assert_eq!(images, files(&case.images));
    let names: Vec<_> = lists.iter().map(|(path, _)| text(path)).collect();
    assert_eq!(names, ["classes.txt", "train/samples.tsv", "val/samples.tsv"]);
    assert!(case.is_clean());
}

#[test]
fn a_file_of_two_splits_is_copied_once() {
    let case = Case::new();
    let at = |name: &str| case.dir.path().join(name);
    let (packed, adopted, copy) = (at("packed"), at("adopted"), at("seen"));
    let one_file = ["--envelope", "squashfs", "--images", "{label}/{key}.{ext}", "--quiet"];
    let done = run([&["pack", text(&case.images), text(&packed)], &one_file[..]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let data = packed.join("data");
    let done = run(["adopt", text(&data), "--out", text(&adopted), "--as-split", "folder"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let outcome = case.stage(&adopted, &["--jobs", "4", "--", "cp", "-r", "{}", text(&copy)]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    // The files are the shard, an index per split, and the manifest.
    assert_eq!(files(&copy).len(), 4);
    assert_eq!(files(&copy), files(&adopted));
    let verified = run(["verify", text(&copy)]);
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
}

#[test]
fn samples_of_different_shards_have_files_of_different_names() {
    let case = Case::new();
    let (images, bundle) = (case.dir.path().join("close"), case.dir.path().join("recoded"));
    // Recoded to JPEG, the first file would have the name of the second.
    put(&images, "train/c/a.png", &noisy_png(1, 900));
    put(&images, "train/c/a.png.jpg", &jpeg(1));
    let mut args =
        vec!["pack", text(&images), text(&bundle), "--quiet", "--stored-order", "sorted"];
    args.extend(["--payload", "reencoded", "--shard-size", "1MiB"]);
    let packed = run(args);
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let copy = case.dir.path().join("seen");
    let outcome = case.stage(&bundle, &["--unpack", "--", "cp", "-r", "{}", text(&copy)]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let folder = copy.join("train/c");
    assert_eq!(files(&folder).len(), 2);
    assert!(folder.join("a.png.jpg").is_file() && folder.join("a.png~2.jpg").is_file());
}

#[test]
fn unpacked_samples_have_room_for_all_their_folders() {
    let case = Case::new();
    let (images, bundle) = (case.dir.path().join("deep"), case.dir.path().join("deep bundle"));
    for i in 0..40 {
        put(&images, format!("a{i}/b/c/d/e/x.jpg"), &jpeg(i));
    }
    let packed =
        run(["pack", text(&images), text(&bundle), "--quiet", "--images", "{label}/{key}.{ext}"]);
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let outcome = case.stage(&bundle, &["--unpack", "--dry-run", "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    // There are five folders and a file of less than a page each, the list and the classes; in
    // addition a twentieth and 16 MiB.
    let pages = 40 * 6 + 2 + 2;
    let least = pages * 4096 * 21 / 20 + (16 << 20);
    let needed = report["needed"].as_u64().unwrap();
    assert!((least..least + 4096 * 16).contains(&needed), "{needed} of {least}");
}

#[test]
fn a_plain_directory_is_copied_with_its_links_to_files() {
    let case = Case::new();
    put(&case.images, "empty", b"");
    fs::create_dir(case.images.join("nothing in it")).unwrap();
    symlink("empty", case.images.join("link")).unwrap();
    let copy = case.dir.path().join("seen");
    let outcome = case.stage(&case.images, &["--", "cp", "-r", "{}", text(&copy)]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(files(&copy), files(&case.images));
    assert!(copy.join("nothing in it").is_dir());
    assert!(!copy.join("link").is_symlink());
    assert!(case.is_clean());

    symlink(".", case.images.join("loop")).unwrap();
    let refused = case.stage(&case.images, &["--", "true"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("loop` cannot be staged: it is a link to a folder"),
        "{}",
        refused.stderr
    );
    assert!(case.is_clean());
}

#[test]
fn a_copy_never_lies_in_its_source() {
    let case = Case::new();
    let before = files(&case.images);
    for to in [&case.images, &case.images.join("train")] {
        for more in [&["--", "true"] as &[&str], &["--dry-run"]] {
            let args = ["stage", text(&case.images), "--to", text(to)];
            let outcome = run(args.iter().chain(more));
            assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
            assert!(outcome.stderr.contains("the copy would be inside it"), "{}", outcome.stderr);
        }
    }
    assert_eq!(files(&case.images), before);
}

#[test]
fn what_is_no_folder_is_named() {
    let case = Case::new();
    let file = case.bundle.join("manifest.json");
    let check = |source: &Path, to: &Path, expected: [&str; 3]| {
        let outcome = run(["stage", text(source), "--to", text(to), "--", "true"]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        for part in expected {
            assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
        }
    };
    check(
        &case.bundle,
        &case.dir.path().join("no"),
        ["cannot stage to", "no`: No such", "--to DIR"],
    );
    check(
        &case.bundle,
        &file,
        ["cannot stage to", "manifest.json`: it is not a folder", "--to DIR"],
    );
    check(
        &file,
        &case.to,
        ["manifest.json` cannot be staged", "it is not a folder", "give the folder"],
    );
}

#[test]
fn the_path_of_the_copy_holds_in_any_folder() {
    let case = Case::new();
    let script = "cd / && test -e {}/manifest.json && test -e \"$GULAR_STAGED/manifest.json\"";
    let mut command = Command::new(gular());
    command.args(["stage", "bundle", "--to", "to", "--quiet", "--", "sh", "-c", script]);
    let outcome = finish(command.current_dir(case.dir.path()));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(case.is_clean());
}

#[test]
fn processes_share_one_copy_and_the_last_removes_it() {
    let case = Case::new();
    let start = || case.hold(&case.bundle, &["--json"]).0;
    let reports: Vec<(Child, Value)> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let (child, line) = case.hold(&case.bundle, &["--json"]);
                    (child, serde_json::from_str(text(&line)).unwrap())
                })
            })
            .collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let made = reports.iter().filter(|(_, report)| report["shared"] == false).count();
    assert_eq!(made, 1);
    let path = PathBuf::from(reports[0].1["path"].as_str().unwrap());
    let inode = fs::metadata(&path).unwrap().ino();
    for (mut child, report) in reports {
        assert_eq!(report["path"].as_str(), path.to_str());
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode, "it is still the first one");
        signal(&child, "INT");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    assert!(case.is_clean());
    // The same happens a second time.
    let mut child = start();
    assert!(path.is_dir());
    signal(&child, "TERM");
    child.wait().unwrap();
    assert!(case.is_clean());
}

#[test]
fn who_waits_gets_the_copy_that_it_waited_for() {
    let case = Case::new();
    // The test plays the other process, which is copying: it holds the locks, and leaves the files.
    let digest = fs::read(case.bundle.join("manifest.json")).unwrap();
    let name = gular_bundle::Digest::of(&digest).hex();
    let folder = case.folder();
    put(&folder, ".gular-stage", b"");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let lock = |file: &str| {
        put(&folder, format!("{name}.{file}"), b"1000");
        fs::File::options()
            .read(true)
            .write(true)
            .open(folder.join(format!("{name}.{file}")))
            .unwrap()
    };
    let (users, making) = (lock("users"), lock("making"));
    users.lock_shared().unwrap();
    making.lock().unwrap();
    let mut command = case.command(&case.bundle, &["--json", "--", "ls", "{}"]);
    let run = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(run.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "note: another process copies; waiting\n");
    // The process ends as soon as it has copied, and leaves the copy to the process that waits.
    put(&folder, format!("{name}/theirs"), b"");
    drop((users, making));
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let said = String::from_utf8(ended.stdout).unwrap();
    let (report, listed) = said.split_once('\n').unwrap();
    let report: Value = serde_json::from_str(report).unwrap();
    assert_eq!((&report["shared"], listed), (&Value::Bool(true), "theirs\n"));
    assert!(case.is_clean());
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next() {
    let case = Case::new();
    let (mut held, path) = case.hold(&case.bundle, &[]);
    held.kill().unwrap();
    held.wait().unwrap();
    assert!(path.is_dir());
    // A dry run counts the space as free, and leaves the files.
    let asked = case.stage(&case.images, &["--dry-run", "--json"]);
    let report: Value = serde_json::from_str(&asked.stdout).unwrap();
    let size: u64 = files(&path).iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert_eq!(report["removed"], 1, "{report}");
    assert!(report["freed"].as_u64().unwrap() >= size, "{report}");
    let asked = case.stage(&case.images, &["--dry-run"]);
    assert!(asked.stderr.contains("\n1 copy that killed runs left, "), "{asked:?}");
    assert!(path.is_dir());
    // The other source is a different one, so that it has another copy.
    let check = |source: &Path, command: &[&str]| {
        let outcome = case.stage(source, &[&["--json", "--"], command].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!((&report["removed"], &report["shared"]), (&1.into(), &false.into()), "{report}");
        assert!(case.is_clean());
    };
    check(&case.images, &["test", "!", "-e", text(&path)]);
    // The same source does not take over the copy either, since it is unknown what the killed
    // process did not write.
    let (mut held, _) = case.hold(&case.bundle, &[]);
    held.kill().unwrap();
    held.wait().unwrap();
    check(&case.bundle, &["true"]);
}

/// Mounting itself is tested in `tests/peers/squashfs_envelope.py`.
#[test]
fn what_cannot_be_mounted_is_named_and_leaves_nothing() {
    let case = Case::new();
    let refused = |source: &Path, says: &[&str]| {
        let mut command = case.command(source, &["--mount", "--", "true"]);
        let outcome = finish(command.env("PATH", case.dir.path()));
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        says.iter().for_each(|says| assert!(outcome.stderr.contains(says), "{}", outcome.stderr));
        assert!(case.is_clean());
    };
    refused(
        &case.bundle,
        &["its envelope is `shards`, expected `squashfs`", "hint: convert the bundle"],
    );
    let squashed = case.dir.path().join("squashed");
    let packed =
        run(["convert", text(&case.bundle), text(&squashed), "--envelope", "squashfs", "--quiet"]);
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    refused(&squashed, &["squashfuse: not installed", "apt-get install squashfuse"]);
    // Without `--to` nothing would be copied.
    let asked = run(["stage", text(&squashed), "--mount", "--dry-run"]);
    assert!(asked.stderr.contains("would be mounted at `/"), "{asked:?}");
}

#[test]
fn an_unfinished_copy_is_begun_anew() {
    let case = Case::new();
    let digest = fs::read(case.bundle.join("manifest.json")).unwrap();
    let name = gular_bundle::Digest::of(&digest).hex();
    let folder = case.folder();
    put(&folder, ".gular-stage", b"");
    put(&folder, format!("{name}.users"), b"1000000");
    put(&folder, format!("{name}.part/data/half"), b"xxxx");
    // A file with another name is not Gular's, and is left alone.
    put(&folder, "notes.txt", b"mine");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let copy = case.dir.path().join("seen");
    let outcome = case.stage(&case.bundle, &["--", "cp", "-r", "{}", text(&copy)]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(files(&copy), files(&case.bundle));
    let left: Vec<_> = files(&folder).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [Path::new(".gular-stage"), Path::new("notes.txt")]);
}

#[test]
fn a_command_that_outlives_a_killed_run_keeps_its_copy() {
    let case = Case::new();
    let (begun, go) = (case.dir.path().join("begun"), case.dir.path().join("go"));
    let done = case.dir.path().join("done");
    let (b, g, d) = (text(&begun), text(&go), text(&done));
    let script = format!(
        "echo {{}} > '{b}.new'; mv '{b}.new' '{b}'; while ! test -e '{g}'; do sleep 0.01; done; \
         test -e {{}}/manifest.json && touch '{d}'"
    );
    let mut command = case.command(&case.bundle, &["--quiet", "--", "sh", "-c", &script]);
    let mut run = command.stdin(Stdio::null()).spawn().unwrap();
    until("the command runs", || begun.exists());
    run.kill().unwrap();
    run.wait().unwrap();
    let other = case.stage(&case.images, &["--quiet", "--", "true"]);
    assert_eq!(other.code, Some(0), "{}", other.stderr);
    let path = PathBuf::from(fs::read_to_string(&begun).unwrap().trim_end());
    assert!(path.join("manifest.json").exists(), "removed under a command that uses it");
    fs::write(&go, b"").unwrap();
    until("the command has seen its copy", || done.exists());
    until("the next run can remove it", || {
        case.stage(&case.images, &["--quiet", "--", "true"]).code == Some(0) && case.is_clean()
    });
}

#[test]
fn signals_go_on_to_the_command() {
    let case = Case::new();
    let begun = case.dir.path().join("begun");
    for name in ["TERM", "INT", "HUP", "USR1", "USR2"] {
        let script = format!(
            "trap 'exit 85' {name}; touch '{}'; while true; do sleep 0.01; done",
            text(&begun)
        );
        let mut command = case.command(&case.bundle, &["--quiet", "--", "sh", "-c", &script]);
        let mut run = command.stdin(Stdio::null()).spawn().unwrap();
        until("the command runs", || begun.exists());
        signal(&run, name);
        assert_eq!(run.wait().unwrap().code(), Some(85), "{name}");
        assert!(case.is_clean(), "{name}");
        fs::remove_file(&begun).unwrap();
    }
}

#[test]
fn the_exit_code_is_the_commands() {
    let case = Case::new();
    let check = |command: &[&str], expected: i32| {
        let outcome = case.stage(&case.bundle, &[&["--quiet", "--"], command].concat());
        assert_eq!(outcome.code, Some(expected), "{command:?}: {}", outcome.stderr);
        assert!(case.is_clean());
    };
    check(&["true"], 0);
    check(&["sh", "-c", "exit 3"], 3);
    check(&["sh", "-c", "kill -s KILL $$"], 128 + 9);
    check(&["no such command"], 127);
    check(&[text(&case.bundle.join("manifest.json"))], 126);
}

#[test]
fn a_kept_copy_is_used_again_until_a_run_does_not_keep_it() {
    let case = Case::new();
    let report = |more: &[&str]| -> Value {
        let outcome = case.stage(&case.bundle, &[&["--json"], more].concat());
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    // Without a command the program does not wait.
    let first = report(&["--keep"]);
    assert_eq!(first["shared"], false);
    let path = PathBuf::from(first["path"].as_str().unwrap());
    assert_eq!(files(&path), files(&case.bundle));
    // A run with another source removes unused copies, but not this one.
    assert_eq!(case.stage(&case.images, &["--", "true"]).code, Some(0));
    assert!(path.is_dir());
    assert_eq!(report(&["--keep", "--", "true"])["shared"], true);
    assert!(path.is_dir());
    assert_eq!(report(&["--", "true"])["shared"], true);
    assert!(case.is_clean());
}

#[test]
fn a_damaged_source_is_refused_and_nothing_is_left() {
    let damage = |path: &Path, at: u64| {
        let mut bytes = fs::read(path).unwrap();
        let at = usize::try_from(at).unwrap();
        bytes[at] ^= 1;
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let case = Case::new();
    let sound = files(&case.bundle);
    let marker = case.dir.path().join("ran");
    for (name, bytes) in &sound {
        let path = case.bundle.join(name);
        damage(&path, bytes.len() as u64 - 1);
        let outcome = case.stage(&case.bundle, &["--", "touch", text(&marker)]);
        let code = if name == Path::new("manifest.json") { 2 } else { 1 };
        assert_eq!(outcome.code, Some(code), "{name:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(text(name)), "{name:?}: {}", outcome.stderr);
        assert!(case.is_clean() && !marker.exists(), "{name:?}");
        fs::write(&path, bytes).unwrap();
    }
    // The manifest is one of another format, or is missing; the folder is still not one of plain
    // files, as long as there are shards.
    let path = case.bundle.join("manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    let refused = |reason: &str| {
        let outcome = case.stage(&case.bundle, &["--", "touch", text(&marker)]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
        assert!(case.is_clean() && !marker.exists());
    };
    fs::write(&path, manifest.replacen("gular-bundle", "gular-bundlf", 1)).unwrap();
    refused("its format is `gular-bundlf`");
    fs::remove_file(&path).unwrap();
    refused("it holds shards of a bundle, but the bundle's `manifest.json` is missing");
    fs::write(&path, &manifest).unwrap();
    assert_eq!(case.stage(&case.bundle, &["--", "true"]).code, Some(0));
}

#[test]
fn a_folder_with_a_manifest_of_something_else_is_plain_files() {
    let case = Case::new();
    for manifest in ["{\"format\":\"other\",\"version\":3}", "{\"name\":\"web page\"}", "text"] {
        put(&case.images, "manifest.json", manifest.as_bytes());
        put(&case.images, "data/notes.safetensors", b"x");
        let copy = case.dir.path().join("seen");
        let outcome = case.stage(&case.images, &["--", "cp", "-r", "{}", text(&copy)]);
        assert_eq!(outcome.code, Some(0), "{manifest}: {}", outcome.stderr);
        assert_eq!(files(&copy), files(&case.images));
        fs::remove_dir_all(&copy).unwrap();
    }
    put(&case.images, "manifest.json", b"{\"format\":\"gular-bundle\",\"version\":99}");
    let outcome = case.stage(&case.images, &["--", "true"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("format version 99"), "{}", outcome.stderr);
}

#[test]
fn a_folder_that_is_not_ours_is_refused_and_left_alone() {
    let case = Case::new();
    let folder = case.folder();
    let elsewhere = case.dir.path().join("elsewhere");
    put(&elsewhere, "precious", b"x");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).unwrap();
    let check = |reason: &str| {
        let outcome = case.stage(&case.bundle, &["--", "true"]);
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
        assert_eq!(files(&elsewhere).len(), 1);
    };
    symlink(&elsewhere, &folder).unwrap();
    check("it is a symbolic link");
    fs::remove_file(&folder).unwrap();
    fs::write(&folder, b"").unwrap();
    check("it is not a folder");
    fs::remove_file(&folder).unwrap();
    put(&folder, "somebody's", b"x");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    check("other users may enter it");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    check("it already holds files, and none of them marks it as a folder of `gular stage`");
    assert_eq!(files(&folder).len(), 1);
    if is_root() {
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(&folder, Some(65534), None).unwrap();
        check("it belongs to another user");
    } else {
        println!("skipped: only root can give a folder to another user");
    }
}

#[test]
fn links_below_the_folder_lead_nowhere() {
    let case = Case::new();
    let digest = fs::read(case.bundle.join("manifest.json")).unwrap();
    let name = gular_bundle::Digest::of(&digest).hex();
    let elsewhere = case.dir.path().join("elsewhere");
    put(&elsewhere, "precious", b"x");
    for link in [format!("{name}.part"), name.clone(), format!("{name}.users")] {
        let folder = case.folder();
        put(&folder, ".gular-stage", b"");
        put(&folder, format!("{}.users", "0".repeat(64)), b"");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&elsewhere, folder.join(&link)).unwrap();
        let outcome = case.stage(&case.bundle, &["--", "true"]);
        assert_eq!(outcome.code, Some(2), "{link}: {}", outcome.stderr);
        assert_eq!(files(&elsewhere).len(), 1, "{link}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn what_does_not_fit_is_refused_before_a_byte_is_written() {
    let case = Case::new();
    let mut limited = Command::new("sh");
    let script = "ulimit -f 1 && exec \"$0\" \"$@\"";
    limited.args(["-c", script]).arg(gular());
    limited.args(["stage", text(&case.bundle), "--to", text(&case.to), "--", "true"]);
    let outcome = finish(&mut limited);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("this process may only write files of up to"),
        "{}",
        outcome.stderr
    );
    assert!(case.is_clean());

    if !is_root() {
        println!("skipped: only root can mount a small file system");
        return;
    }
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=12m,nr_inodes=40", "none", text(&case.to)])
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: mounting is not permitted here");
        return;
    }
    let outcome = case.stage(&case.bundle, &["--", "true"]);
    let clean = case.is_clean();
    let unmounted = Command::new("umount").arg(&case.to).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    for part in ["needs", "the free space of", "allows only 12.6 MB", "--to scratch"] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    assert!(clean);
}

#[test]
fn a_dry_run_writes_nothing() {
    let case = Case::new();
    let outcome = case.stage(&case.bundle, &["--dry-run", "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(report["dry_run"], true);
    let bytes: u64 = files(&case.bundle).iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert_eq!(report["bytes"], bytes);
    assert!(report["needed"].as_u64().unwrap() > bytes);
    assert!(case.is_clean());
}

#[test]
fn a_bundle_url_is_fetched_straight_into_the_copy() {
    let case = Case::new();
    let published = case.dir.path().join("site/birds/v1");
    let url = format!("file://{}", text(&published));
    fs::create_dir_all(case.dir.path().join("site")).unwrap();
    let sent = run(["publish", text(&case.bundle), &url]);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let copy = case.dir.path().join("seen");
    let cache = case.dir.path().join("cache");
    let mut command = case.command(Path::new(&url), &["--", "cp", "-r", "{}", text(&copy)]);
    let outcome = finish(command.env("GULAR_CACHE", &cache));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(files(&copy), files(&case.bundle));
    // The cache knows where the copy is from, and has nothing else.
    let [(path, record)] = &files(&cache)[..] else { panic!("{:?}", files(&cache)) };
    assert!(path.starts_with("copies") && record.starts_with(url.as_bytes()), "{path:?}");
    assert!(case.is_clean());
}

#[test]
fn a_bad_copy_in_the_cache_is_fetched_again() {
    let case = Case::new();
    let published = case.dir.path().join("site/birds/v1");
    let url = format!("file://{}", text(&published));
    fs::create_dir_all(case.dir.path().join("site")).unwrap();
    let sent = run(["publish", text(&case.bundle), &url]);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let manifest = fs::read(case.bundle.join("manifest.json")).unwrap();
    let hex = gular_bundle::Digest::of(&manifest).hex();
    let pinned = format!("{url}#blake3={hex}");
    let cache = case.dir.path().join("cache");
    let stage = |more: &[&str]| {
        let copy = case.dir.path().join("seen");
        let _ = fs::remove_dir_all(&copy);
        let args = [more, &["--", "cp", "-r", "{}", text(&copy)]].concat();
        let mut command = case.command(Path::new(&pinned), &args);
        let outcome = finish(command.env("GULAR_CACHE", &cache));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert!(case.is_clean());
        files(&copy)
    };
    // Unpacking fetches the bundle into the cache.
    let plain = case.plain_files();
    assert_eq!(stage(&["--unpack"]), plain);
    let cached = cache.join(&hex);
    assert_eq!(files(&cached), files(&case.bundle));
    let site = case.dir.path().join("site");
    let away = case.dir.path().join("away");
    fs::rename(&site, &away).unwrap();
    assert_eq!(stage(&[]), files(&case.bundle), "the cache alone is enough");
    fs::rename(&away, &site).unwrap();
    for (name, bytes) in files(&case.bundle) {
        if name == Path::new("manifest.json") {
            continue;
        }
        let spoil = || {
            let path = cached.join(&name);
            let mut bad = bytes.clone();
            let at = bad.len() / 2;
            bad[at] ^= 1;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            fs::write(&path, bad).unwrap();
        };
        spoil();
        assert_eq!(stage(&[]), files(&case.bundle), "{name:?}");
        spoil();
        assert_eq!(stage(&["--unpack"]), plain, "{name:?}");
        assert_eq!(files(&cached), files(&case.bundle), "{name:?}: mended on the way");
    }
}

#[test]
fn the_cache_is_not_read_while_it_is_written() {
    let case = Case::new();
    let manifest = fs::read(case.bundle.join("manifest.json")).unwrap();
    let hex = gular_bundle::Digest::of(&manifest).hex();
    let cache = case.dir.path().join("cache");
    for (name, bytes) in files(&case.bundle) {
        put(&cache.join(&hex), name, &bytes);
    }
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    let path = cache.join(&hex).join("data/.gular-tmp-fetch.lock");
    fs::write(&path, b"").unwrap();
    let lock = fs::File::options().write(true).open(&path).unwrap();
    lock.lock().unwrap();
    let pinned = format!("file:///nowhere/birds/v1#blake3={hex}");
    let done = case.dir.path().join("done");
    let mut command = case.command(Path::new(&pinned), &["--quiet", "--", "touch", text(&done)]);
    let mut run = command.env("GULAR_CACHE", &cache).stdin(Stdio::null()).spawn().unwrap();
    let part = case.folder().join(format!("{hex}.part"));
    until("it has begun", || part.is_dir());
    std::thread::sleep(Duration::from_millis(300));
    assert!(fs::read_dir(&part).unwrap().next().is_none(), "it copies what another writes");
    drop(lock);
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert!(done.exists() && case.is_clean());
}

#[test]
fn a_signal_ends_the_staging_and_leaves_nothing() {
    let case = Case::new();
    let (holder, other) = (case.folder(), "1".repeat(64));
    put(&holder, ".gular-stage", b"");
    fs::set_permissions(&holder, fs::Permissions::from_mode(0o700)).unwrap();
    put(&holder, format!("{other}.users"), b"");
    // The test holds the gate, so that the run waits.
    let gate = fs::File::open(holder.join(".gular-stage")).unwrap();
    gate.lock().unwrap();
    let mut command = case.command(&case.bundle, &["--quiet", "--", "true"]);
    let run = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let number = run.id();
    until("it watches for signals", || {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:").map(str::trim));
        caught.and_then(|c| u64::from_str_radix(c, 16).ok()).is_some_and(|c| c & (1 << 14) != 0)
    });
    signal(&run, "TERM");
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(143));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("was stopped; the unfinished copy was removed"), "{said}");
    drop(gate);
    assert_eq!(case.stage(&case.images, &["--quiet", "--", "true"]).code, Some(0));
    assert!(case.is_clean());
}
