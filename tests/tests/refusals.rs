//! Errors of `gular convert`, `export`, `adopt` and `inspect`: one clear message, and no file is
//! lost.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking and says when it skips")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gular_tests::{files, is_root, jpeg, put, run};

/// Images, and bundles of them in two envelopes.
struct Case {
    dir: tempfile::TempDir,
    bundle: PathBuf,
    tar: PathBuf,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (images, bundle, tar) = (at("images"), at("bundle"), at("tar"));
        for i in 0..8 {
            let split = if i % 4 == 0 { "val" } else { "train" };
            put(&images, format!("{split}/c{}/{i}.jpg", i % 2), &jpeg(i));
        }
        done(&["pack", text(&images), text(&bundle)]);
        done(&["pack", text(&images), text(&tar), "--envelope", "tar"]);
        Self { dir, bundle, tar }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn done(args: &[&str]) {
    let outcome = run(args);
    assert_eq!(outcome.code, Some(0), "{args:?}: {}", outcome.stderr);
}

/// Runs a command that must fail with exit code `code`, and print each of `parts`.
fn refused(args: &[&str], code: i32, parts: &[&str]) {
    let outcome = run(args);
    assert_eq!(outcome.code, Some(code), "{args:?}: {}", outcome.stderr);
    for part in parts {
        assert!(outcome.stderr.contains(part), "{args:?}: no `{part}` in: {}", outcome.stderr);
    }
    let errors = outcome.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(errors, 1, "{args:?}: {}", outcome.stderr);
}

/// Returns the path of the shard of split `train`.
fn shard(data: &Path) -> PathBuf {
    let paths = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let is_shard = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("train-") && !name.ends_with(".index.safetensors")
    };
    paths.into_iter().find(is_shard).unwrap()
}

#[test]
fn what_is_there_is_never_written_to() {
    let case = Case::new();
    let before = files(case.dir.path());
    let (bundle, tar) = (text(&case.bundle), text(&case.tar));
    for envelope in ["hdf5", "directory"] {
        let convert = |out: &str| {
            let args = ["convert", bundle, out, "--envelope", envelope];
            refused(&args, 2, &["choose a"]);
        };
        convert(tar);
        convert(text(&case.at("images")));
        convert(bundle);
        convert(text(&case.bundle.join("below")));
    }
    let export = |to: &Path, parts: &[&str]| {
        refused(&["export", bundle, "--tar-zst", text(to)], 2, parts);
    };
    export(&case.tar, &["already exists", "choose a new file"]);
    export(&case.bundle.join("manifest.json"), &["already exists"]);
    export(&case.bundle.join("b.tar.zst"), &["is inside the source", "outside the source"]);
    export(&case.at("no/b.tar.zst"), &["no`: No such file", "hint: "]);
    refused(
        &["adopt", text(&case.tar.join("data")), "--out", bundle],
        2,
        &["holds bundle blake3:"],
    );
    assert_eq!(files(case.dir.path()), before);
}

#[test]
fn a_damaged_bundle_goes_nowhere() {
    let case = Case::new();
    let path = shard(&case.bundle.join("data"));
    let sound = fs::read(&path).unwrap();
    let mut other = sound.clone();
    *other.last_mut().unwrap() ^= 1;
    let cut = &sound[..sound.len() - 1];
    for (bytes, reason) in
        [(other.as_slice(), "differ from what was packed"), (cut, "as in the manifest")]
    {
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        let (bundle, out) = (text(&case.bundle), case.at("out"));
        let to = text(&out);
        let export = ["export", bundle, "--tar-zst", to];
        refused(
            &export,
            1,
            &[reason, text(path.file_name().map(Path::new).unwrap()), "gular verify"],
        );
        assert!(!out.exists());
    }
    // A shard that was cut is found before a byte is written.
    for envelope in ["tar", "directory"] {
        let (out, args) = (case.at("out"), text(&case.bundle));
        let args = ["convert", args, text(&out), "--envelope", envelope];
        refused(&args, 1, &["as in the manifest", "gular verify"]);
        assert!(!out.exists(), "{envelope}");
    }
}

#[test]
fn adopted_files_that_change_are_found() {
    let case = Case::new();
    let (there, out, next) = (case.at("there"), case.at("adopted"), case.at("next"));
    let from = shard(&case.tar.join("data"));
    let file = there.join("birds-train.tar");
    let sound = fs::read(from).unwrap();
    put(&there, "birds-train.tar", &sound);
    let (there, adopted, next_to) = (text(&there), text(&out), text(&next));
    done(&["adopt", there, "--out", adopted]);
    done(&["verify", adopted]);
    // A second run finds the bundle; in another place it makes the same one.
    done(&["adopt", there, "--out", adopted]);
    refused(&["adopt", there, "--out", adopted, "--as-split", "val"], 2, &["holds bundle blake3:"]);
    done(&["adopt", there, "--out", next_to]);
    let manifest = |dir: &Path| fs::read(dir.join("manifest.json")).unwrap();
    assert_eq!(manifest(&out), manifest(&next));
    fs::remove_dir_all(&next).unwrap();

    let mut other = sound.clone();
    other[700] ^= 1;
    let mut longer = sound.clone();
    longer.extend([0; 512]);
    for bytes in [other, longer] {
        fs::write(&file, bytes).unwrap();
        let verified = run(["verify", adopted]);
        assert_eq!(verified.code, Some(1), "{}", verified.stdout);
        for args in [
            ["convert", adopted, next_to, "--envelope", "shards"].as_slice(),
            &["convert", adopted, next_to, "--envelope", "directory"],
            &["export", adopted, "--tar-zst", next_to],
            &["stage", adopted, "--to", text(case.dir.path()), "--", "true"],
            &["stage", adopted, "--unpack", "--to", text(case.dir.path()), "--", "true"],
        ] {
            refused(args, 1, &["gular verify"]);
            assert!(fs::read_dir(case.dir.path()).unwrap().count() == 5, "{args:?}");
        }
    }
    fs::write(&file, sound).unwrap();
    done(&["convert", adopted, next_to, "--envelope", "shards"]);
}

#[test]
fn what_a_killed_export_left_is_written_over() {
    let case = Case::new();
    let (to, temp) = (case.at("b.tar.zst"), case.at(".gular-tmp-b.tar.zst"));
    let args = ["export", text(&case.bundle), "--tar-zst", text(&to)];
    fs::write(&temp, vec![7; 1 << 20]).unwrap();
    let other = fs::File::open(&temp).unwrap();
    other.lock().unwrap();
    refused(&args, 2, &["another process is writing into", "wait until that process ends"]);
    assert!(!to.exists() && temp.exists());
    drop(other);
    done(&args);
    assert!(to.metadata().unwrap().len() < 1 << 20 && !temp.exists());
}

#[test]
fn what_cannot_be_adopted_is_named() {
    let case = Case::new();
    let out = case.at("out");
    let adopt = |paths: &[PathBuf], parts: &[&str]| {
        let mut args = vec!["adopt", "--out", text(&out)];
        args.extend(paths.iter().map(|path| text(path)));
        refused(&args, 2, parts);
        assert!(!out.exists());
    };
    let (tar, own) = (case.tar.join("data"), case.bundle.join("data"));
    adopt(&[tar.clone(), own], &["the format `tar`", "has `shards`", "a bundle of its own"]);
    adopt(&[tar.clone(), tar.clone()], &["is given twice"]);
    // One folder has images, and the other has a bundle.
    for folder in [case.at("images"), case.bundle.clone()] {
        adopt(&[folder], &["no file that can be adopted", "`.tar`", "`gular pack`"]);
    }
    adopt(&[case.at("images/val/c0/0.jpg")], &["cannot be read in place", "0.jpg"]);
    adopt(&[case.at("nothing")], &["nothing`: No such file"]);
    put(case.dir.path(), "empty.tar", b"");
    adopt(&[case.at("empty.tar")], &["empty.tar`"]);
    let mut cut = fs::read(shard(&tar)).unwrap();
    cut.truncate(cut.len() / 2);
    put(case.dir.path(), "cut.tar", &cut);
    adopt(&[case.at("cut.tar")], &["cut.tar`"]);
}

#[test]
fn a_full_disk_leaves_no_half_a_file_and_what_goes_on() {
    let case = Case::new();
    let small = case.at("small");
    fs::create_dir(&small).unwrap();
    let mount = |options: &str| {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none", text(&small)]).stderr(Stdio::null());
        is_root() && mount.status().is_ok_and(|status| status.success())
    };
    if !mount("size=8k") {
        println!("skipped: mounting is not permitted here");
        return;
    }
    let file = small.join("b.tar.zst");
    let full = run(["export", text(&case.bundle), "--tar-zst", text(&file)]);
    let left = fs::read_dir(&small).unwrap().count();
    done_with(&["mount", "-o", "remount,size=16m,nr_inodes=9", text(&small)]);
    let out = small.join("files");
    let convert = ["convert", text(&case.bundle), text(&out), "--envelope", "directory"];
    let few = run(convert);
    done_with(&["mount", "-o", "remount,size=16m,nr_inodes=1000", text(&small)]);
    let again = run(convert);
    let found = files(&out);
    done_with(&["umount", text(&small)]);
    assert_eq!((full.code, left), (Some(2), 0), "{}", full.stderr);
    assert!(full.stderr.contains("No space left on device"), "{}", full.stderr);
    assert_eq!(few.code, Some(2), "{}", few.stderr);
    assert!(
        few.stderr.contains("free some space and run the same command again"),
        "{}",
        few.stderr
    );
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let images: Vec<_> = found
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|e| e == "jpg"))
        .collect();
    assert_eq!(images, files(&case.at("images")));
}

fn done_with(command: &[&str]) {
    let (program, args) = command.split_first().unwrap();
    assert!(Command::new(program).args(args).status().unwrap().success(), "{command:?}");
}

#[test]
fn a_file_that_inspect_did_not_write_is_not_replaced() {
    let case = Case::new();
    let bundle = text(&case.bundle);
    let manifest = case.bundle.join("manifest.json");
    let before = fs::read(&manifest).unwrap();
    for option in ["--page", "--sheet", "--pairs", "--duplicates-out"] {
        let more: &[&str] = if option == "--pairs" { &["--near"] } else { &[] };
        let call = |to: &Path| run([&["inspect", bundle, option, text(to)], more].concat());
        let outcome = call(&manifest);
        assert_eq!(outcome.code, Some(2), "{option}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("choose a new file name"), "{option}: {}", outcome.stderr);
        assert_eq!(fs::read(&manifest).unwrap(), before, "{option}");
        // A folder that the program wrote is accepted.
        let to = case.at(&format!("new{option}"));
        for _ in 0..2 {
            let outcome = call(&to);
            assert_eq!(outcome.code, Some(0), "{option}: {}", outcome.stderr);
        }
    }
}

#[test]
fn png_are_arrays_if_a_pattern_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let (images, out) = (dir.path().join("in"), dir.path().join("out"));
    put(&images, "a.png", b"any");
    let words = ["no NumPy array, TIFF or JPEG 2000 file", "`--images '{key}.png'`"];
    refused(&["pack", text(&images), text(&out), "--tile", "64", "--labels", "none"], 2, &words);
}
