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
    let options = ["--images", "train/{label}.{key}.jpg", "--json"];
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
    // The folder is not a split, so fractions may make some, and each class gets its share.
    let fractions = ["--fractions", "train=0.75,val=0.25"];
    let args = ["pack", "train.zip", "divided"].into_iter().chain(options).chain(fractions);
    let divided: serde_json::Value = serde_json::from_str(&run(dir.path(), args).stdout).unwrap();
    assert_eq!(divided["splits"]["val"]["classes"], serde_json::json!({"cat": 2, "dog": 2}));
    // This dataset is known, and needs no pattern.
    let known = run(dir.path(), ["pack", "train.zip", "known"]);
    assert_eq!(known.code, Some(0), "{}", known.stderr);
    let expected = "dataset: Dogs vs. Cats (Kaggle): train.zip, or the folder\nread as: --images";
    assert!(known.stdout.starts_with(expected), "{}", known.stdout);
    // For others like it, the program says which pattern to give.
    std::fs::create_dir_all(dir.path().join("other/train")).unwrap();
    for (i, name) in ["ant.1", "ant.2", "bee.3", "bee.4"].iter().enumerate() {
        let path = dir.path().join(format!("other/train/{name}.jpg"));
        std::fs::write(path, jpeg(i as u32)).unwrap();
    }
    let refused = run(dir.path(), ["pack", "other", "no"]);
    assert_eq!(refused.code, Some(2));
    let hint = "`--images 'train/{label}.{key:[0-9]+}.{ext}'`";
    assert!(refused.stderr.contains(hint), "{}", refused.stderr);
}

#[test]
fn options_that_patterns_replaced_say_what_to_give() {
    let dir = tempfile::tempdir().unwrap();
    for (old, value, new) in [
        ("--label-from", "^(cat|dog)", "`--images '{label:cat|dog}{**}'`"),
        ("--layout", "class", "`--images '{label}/{key}.{ext}'`"),
        ("--mask-suffix", "_m", "`--mask '{key}_m.{ext}'`"),
    ] {
        for args in [vec![old.to_owned(), value.to_owned()], vec![format!("{old}={value}")]] {
            let args = ["pack", "a", "b"].into_iter().chain(args.iter().map(String::as_str));
            let refused = run(dir.path(), args);
            assert_eq!(refused.code, Some(2));
            assert!(refused.stderr.contains(new), "{}", refused.stderr);
        }
    }
}

#[test]
fn the_first_lines_say_how_a_source_was_read() {
    let dir = tempfile::tempdir().unwrap();
    for (i, name) in ["Training/a/1.jpg", "Training/b/2.jpg", "Testing/a/3.jpg"].iter().enumerate()
    {
        let path = dir.path().join("set").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, jpeg(i as u32)).unwrap();
    }
    let expected = "read as: --images '{split}/{label}/{key}.{ext}'\n\
                    splits: `Testing` is test, `Training` is train\n\
                    2 classes: 2 a, 1 b\n";
    for args in
        [&["pack", "set", "out", "--dry-run"][..], &["pack", "set", "out"], &["pack", "set", "out"]]
    {
        let packed = run(dir.path(), args.iter().copied());
        assert!(packed.stdout.starts_with(expected), "{}", packed.stdout);
        assert_eq!(packed.stdout.matches("read as").count(), 1, "{}", packed.stdout);
    }
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
