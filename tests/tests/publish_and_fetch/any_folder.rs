//! Folders of any files: `publish -r`, `fetch -r`, and `pack` of a URL.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use gular_tests::{jpeg, put, run};
use serde_json::Value;

use crate::bundles::{assert_same, noise, text};
use crate::site::Site;

/// Makes seven files in four folders, 300 KB in all.
fn make(dir: &Path) {
    put(dir, "readme.txt", b"of several kinds");
    put(dir, ".hidden", b"too");
    put(dir, "empty.bin", b"");
    for i in 0..3 {
        put(dir, format!("train/class {i}/{i}.bin"), &noise(i, 100_000));
    }
    put(dir, "train/list.csv", b"a,b\n");
}

fn counts(report: &Value, names: [&str; 4]) -> [u64; 4] {
    names.map(|name| report[name].as_u64().expect(name))
}

#[test]
fn a_folder_comes_back_the_same_and_nothing_is_sent_twice() {
    let site = Site::shared();
    let (dir, url) = (site.scratch(), site.collection("any"));
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    make(&from);
    let publish = |more: &[&str]| {
        let args = ["publish", "-r", text(&from), &url, "--json"];
        let published = site.run([&args[..], more].concat());
        assert_eq!(published.code, Some(0), "{published:?}");
        let report: Value = serde_json::from_str(&published.stdout).unwrap();
        assert_eq!(
            (&report["failed"], &report["url"]),
            (&Value::from(Vec::<u8>::new()), &url.as_str().into())
        );
        counts(&report, ["objects", "uploaded", "identical", "bytes_uploaded"])
    };
    let bytes = 300_000 + 16 + 3 + 4;
    assert_eq!(publish(&["--dry-run"]), [7, 7, 0, bytes]);
    assert_eq!(publish(&[]), [7, 7, 0, bytes]);
    assert_eq!(publish(&["--jobs", "1"]), [7, 0, 7, 0]);
    // Only the file that was added is sent.
    put(&from, "train/class 0/new.bin", b"new");
    assert_eq!(publish(&["--dry-run"]), [8, 1, 7, 3]);
    assert_eq!(publish(&[]), [8, 1, 7, 3]);

    let fetch = |more: &[&str]| {
        let report = site.json([&["fetch", "-r", &url, text(&to)], more].concat());
        assert_eq!(report["files"], 8, "{report}");
        counts(&report, ["fetched", "kept", "bytes_fetched", "bytes_kept"])
    };
    assert_eq!(fetch(&["--dry-run"]), [8, 0, bytes + 3, 0]);
    assert!(!to.exists());
    assert_eq!(fetch(&[]), [8, 0, bytes + 3, 0]);
    assert_same(&to, &from);
    assert_eq!(fetch(&[]), [0, 8, 0, bytes + 3]);
    // One file is lost, and one has other bytes of the same length.
    fs::remove_file(to.join("readme.txt")).unwrap();
    assert_eq!(fetch(&[])[..2], [1, 7]);
    assert_same(&to, &from);
}

#[test]
fn what_differs_is_named_and_left_alone_and_the_others_go_on() {
    let site = Site::shared();
    let (dir, url) = (site.scratch(), site.collection("differs"));
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    make(&from);
    site.json(["publish", "-r", text(&from.join("train")), &format!("{url}/train")]);
    put(&from, "train/list.csv", b"x,y\n");
    let published = site.run(["publish", "-r", text(&from), &url]);
    assert_eq!(published.code, Some(2), "{published:?}");
    let errors: Vec<&str> =
        published.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(errors.len() == 1 && errors[0].contains("train/list.csv"), "{published:?}");
    assert!(published.stdout.contains("3 sent"), "{published:?}");
    assert!(published.stdout.ends_with("1 error\n"), "{published:?}");
    let hidden = "warning: this publishes 1 hidden file;";
    assert!(published.stderr.contains(hidden), "{published:?}");

    // The file has the same length, so that only its bytes differ.
    put(&to, "empty.bin", b"mine");
    put(&to, "train/list.csv", b"1,2\n");
    let fetched = site.finish(site.command(["fetch", "-r", &url, text(&to)]).arg("--json"));
    assert_eq!(fetched.code, Some(2), "{fetched:?}");
    let report: Value = serde_json::from_str(&fetched.stdout).unwrap();
    let failed: Vec<&Value> =
        report["failed"].as_array().unwrap().iter().map(|failed| &failed["name"]).collect();
    assert_eq!(failed, ["empty.bin", "train/list.csv"], "{report}");
    assert_eq!(report["fetched"], 5);
    assert_eq!(fs::read(to.join("empty.bin")).unwrap(), b"mine");
    assert_eq!(fs::read(to.join("train/list.csv")).unwrap(), b"1,2\n");
    assert_eq!(fs::read(to.join("readme.txt")).unwrap(), b"of several kinds");
    let fetched = site.run(["fetch", "-r", &url, text(&to)]);
    assert!(fetched.stdout.contains("fetched nothing; already there: 5 files"), "{fetched:?}");
}

#[test]
fn what_every_object_would_meet_is_one_error_and_ends_the_run() {
    let site = Site::shared();
    if !site.is_embedded() {
        // Other servers may need no token.
        return;
    }
    let (dir, url) = (site.scratch(), site.collection("refused"));
    for i in 0..100 {
        put(dir.path(), format!("{i}.bin"), b"small");
    }
    let mut command = site.command(["publish", "-r", text(dir.path()), &url]);
    let refused = site.finish(command.env_remove("BEARER_TOKEN_FILE"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let errors: Vec<&str> =
        refused.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(errors.len() == 1 && errors[0].contains("no token was found"), "{refused:?}");
    assert!(errors[0].contains(" more objects: "), "{refused:?}");
    let (_, end) = refused.stdout.split_once(" errors, ").expect("a count of the errors");
    let (not_tried, end) = end.split_once(" objects not tried").expect("a count of the others");
    assert!(not_tried.parse::<u32>().unwrap() >= 90, "{refused:?}");
    // The same command would be refused again.
    assert_eq!(end, "\n", "{refused:?}");
    assert_eq!(site.run(["ls", &url]).code, Some(2), "nothing was published");
}

#[test]
fn what_cannot_be_a_folder_is_one_error() {
    let site = Site::shared();
    let (dir, url) = (site.scratch(), site.collection("odd"));
    let (file, empty) = (dir.path().join("file"), dir.path().join("empty"));
    put(dir.path(), "file", b"x");
    fs::create_dir(&empty).unwrap();
    let object = format!("{url}/file");
    site.json(["publish", text(&file), &object]);
    let to = dir.path().join("to");
    let digest = format!("{url}#blake3={}", "0".repeat(64));
    for (args, said) in [
        (["publish", "-r", text(&file), &url], "Not a directory"),
        (["publish", "-r", text(&empty), &url], "contains no files"),
        (["fetch", "-r", &object, text(&to)], "is a single object"),
        (["pack", &object, text(&to), "--quiet"], "`gular pack DIR/file "),
        (["fetch", "-r", &digest, text(&to)], "a folder has no digest"),
        (["fetch", "-r", &format!("{url}/none"), text(&to)], "does not exist"),
    ] {
        let refused = site.run(args);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
}

#[test]
fn a_killed_fetch_of_a_folder_goes_on_in_the_middle_of_an_object() {
    let site = Site::shared();
    let (dir, url) = (site.scratch(), site.collection("cut"));
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    put(&from, "a/large.bin", &noise(3, 20_000_000));
    put(&from, "a/small.bin", b"small");
    site.json(["publish", "-r", text(&from), &url]);
    // The transfer is slow, so that it is not done when it is killed.
    let args = ["fetch", "-r", &url, text(&to), "--jobs", "1", "--limit-rate", "20MB/s"];
    let mut command = site.command(args);
    let mut fetch = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let temp = to.join("a/.gular-tmp-fetch-large.bin");
    while fs::metadata(&temp).map_or(0, |found| found.len()) < 4 << 20 {
        assert!(fetch.try_wait().unwrap().is_none(), "it ended before it could be killed");
        sleep(Duration::from_millis(1));
    }
    fetch.kill().unwrap();
    fetch.wait().unwrap();
    assert!(!to.join("a/large.bin").exists());
    let report = site.json(["fetch", "-r", &url, text(&to)]);
    assert_same(&to, &from);
    let [fetched, kept] =
        ["bytes_fetched", "bytes_kept"].map(|name| report[name].as_u64().unwrap());
    assert_eq!(fetched + kept, 20_000_005);
    assert!(report["by_checksum"] != 2 || kept >= 4 << 20, "{report}");

    // Bytes that are not the object's beginning are not kept.
    fs::remove_file(to.join("a/large.bin")).unwrap();
    fs::write(&temp, vec![7; 3 << 20]).unwrap();
    site.json(["fetch", "-r", &url, text(&to)]);
    assert_same(&to, &from);
}

#[test]
fn a_folder_is_packed_from_its_url_as_from_the_disk() {
    let site = Site::shared();
    let (dir, url) = (site.scratch(), site.collection("packed"));
    let from = dir.path().join("from");
    for i in 0..6 {
        put(&from, format!("train/class {}/{i}.jpg", i % 2), &jpeg(i));
    }
    site.json(["publish", "-r", text(&from), &url]);
    let local = run(["pack", text(&from), text(&dir.path().join("local")), "--json"]);
    let local: Value = serde_json::from_str(&local.stdout).unwrap();
    let out = dir.path().join("out");
    let packed = site.json(["pack", &url, text(&out)]);
    assert_eq!(packed["digest"], local["digest"]);
    assert!(packed["digest"].is_string());
    assert_eq!(packed["ignored"], local["ignored"], "its own lock is not named");
    assert_same(&out, &dir.path().join("local"));
    let others: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(others.len(), 3, "the fetched files are gone: {others:?}");

    // In the user's own folder the files stay, and are not fetched again.
    let cache = dir.path().join("cache");
    let (again, kept) = (dir.path().join("again"), ["--cache", text(&cache)]);
    let packed = site.json([&["pack", &url, text(&again)][..], &kept].concat());
    assert_eq!(packed["digest"], local["digest"]);
    assert_same(&cache, &from);
    fs::write(cache.join("train/class 0/mine.jpg"), jpeg(9)).unwrap();
    let refused = site.run([&["pack", &url, text(&dir.path().join("no"))][..], &kept].concat());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("mine.jpg"), "{refused:?}");
}
