//! One command makes a bundle from an archive, as it was downloaded.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use gular_tests::{Outcome, finish, gular, jpeg};
use zip::write::SimpleFileOptions;

/// Runs the program in folder `dir`.
fn run<'a>(dir: &Path, args: impl IntoIterator<Item = &'a str>) -> Outcome {
    finish(Command::new(gular()).current_dir(dir).args(args))
}

/// Makes an archive like that of "Dogs vs. Cats": one folder, the class in each name.
fn cats_and_dogs(path: &Path) {
    let mut zip = zip::ZipWriter::new(File::create(path).unwrap());
    zip.add_directory("train", SimpleFileOptions::default()).unwrap();
    for i in 0..8 {
        for (n, animal) in ["cat", "dog"].iter().enumerate() {
            let method = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated][n];
            let options = SimpleFileOptions::default().compression_method(method);
            zip.start_file(format!("train/{animal}.{i}.jpg"), options).unwrap();
            zip.write_all(&jpeg(i * 2 + n as u32)).unwrap();
        }
    }
    zip.finish().unwrap();
}

#[test]
fn cats_and_dogs_become_a_bundle_in_one_command() {
    let dir = tempfile::tempdir().unwrap();
    cats_and_dogs(&dir.path().join("train.zip"));
    let options = ["--label-from", "^(cat|dog)", "--json"];
    let pack = |out: &str| {
        let args = ["pack", "train.zip", out].into_iter().chain(options);
        run(dir.path(), args)
    };
    let packed = pack("bundle");
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let report: serde_json::Value = serde_json::from_str(&packed.stdout).unwrap();
    assert_eq!(report["splits"]["train"]["classes"], serde_json::json!({"cat": 8, "dog": 8}));
    let verified = run(dir.path(), ["verify", "bundle"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stderr);
    let again: serde_json::Value = serde_json::from_str(&pack("bundle").stdout).unwrap();
    assert_eq!(again["already_done"], true);
    // The folder that the archive unpacks to gives the same.
    zip::ZipArchive::new(File::open(dir.path().join("train.zip")).unwrap())
        .unwrap()
        .extract(dir.path().join("unpacked"))
        .unwrap();
    let args = ["pack", "unpacked", "other"].into_iter().chain(options);
    let other: serde_json::Value = serde_json::from_str(&run(dir.path(), args).stdout).unwrap();
    assert_eq!(other["digest"], report["digest"]);
}

#[test]
fn an_archive_that_expands_too_far_is_refused_with_the_flag() {
    let dir = tempfile::tempdir().unwrap();
    let mut zip = zip::ZipWriter::new(File::create(dir.path().join("bomb.zip")).unwrap());
    let options = SimpleFileOptions::default();
    zip.start_file("a/x.png", options).unwrap();
    zip.write_all(&vec![0; 4 << 20]).unwrap();
    zip.finish().unwrap();
    let refused = run(dir.path(), ["pack", "bomb.zip", "out"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("`a/x.png`"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--max-ratio"), "{}", refused.stderr);
    assert!(!dir.path().join("out").exists());
    for (flag, value) in [("--max-member", "1MiB"), ("--max-unpacked", "1MiB")] {
        let args = ["pack", "bomb.zip", "out", "--max-ratio", "2000", flag, value];
        let refused = run(dir.path(), args);
        assert!(refused.stderr.contains(flag), "{}", refused.stderr);
        assert!(!dir.path().join("out").exists());
    }
}
