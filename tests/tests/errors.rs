//! Errors: one message that says what failed, where, expected against found, and what to do; no
//! incomplete file is left.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says when it skips"
)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gular_tests::{Outcome, files, finish, gular, is_root, jpeg, noisy_png, put, run};

/// A source of two good images, and a place for the bundle.
struct Case {
    dir: tempfile::TempDir,
    source: PathBuf,
    out: PathBuf,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (source, out) = (dir.path().join("images"), dir.path().join("bundle"));
        put(&source, "cat/good1.jpg", &jpeg(1));
        put(&source, "dog/good2.jpg", &jpeg(2));
        Self { dir, source, out }
    }

    fn pack(&self, more: &[&str]) -> Outcome {
        let mut command = Command::new(gular());
        finish(command.arg("pack").arg(&self.source).arg(&self.out).args(more))
    }

    fn bundle(&self) -> &Path {
        let packed = self.pack(&["--quiet"]);
        assert_eq!((packed.code, packed.stderr.as_str()), (Some(0), ""));
        &self.out
    }
}

/// Checks that the program ended with `code`, one error that contains all `words`, and a hint.
fn expect(outcome: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(outcome.code, Some(code), "{outcome:?}");
    let errors: Vec<&str> = outcome.stderr.lines().filter(|l| l.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{outcome:?}");
    for word in words {
        assert!(outcome.stderr.contains(word), "no `{word}` in {}", outcome.stderr);
    }
    assert!(outcome.stderr.contains("\nhint: "), "no hint in {}", outcome.stderr);
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "", "an error prints nothing on stdout");
}

/// Checks a file that cannot be packed: it is refused by name, or left out and listed.
fn check_bad_file(name: &str, bytes: &[u8], options: &[&str], words: &[&str]) {
    let case = Case::new();
    put(&case.source, name, bytes);
    let refused = case.pack(options);
    expect(&refused, 2, &[&[name, "--on-error skip"], words].concat());
    assert!(!case.out.join("manifest.json").exists());
    // The same folder can be packed if the file is left out.
    let _ = fs::remove_dir_all(&case.out);
    let skipped = case.pack(&[options, &["--on-error", "skip", "--json"]].concat());
    assert_eq!(skipped.code, Some(0), "{skipped:?}");
    let report: serde_json::Value = serde_json::from_str(&skipped.stdout).unwrap();
    assert_eq!((report["samples"].as_u64(), report["skipped"].as_u64()), (Some(2), Some(1)));
    let list = fs::read_to_string(case.out.join("skipped.jsonl")).unwrap();
    assert!(list.contains(name) && list.lines().count() == 1, "{list}");
    assert_eq!(run([OsStr::new("verify"), case.out.as_os_str()]).code, Some(0));
}

/// Returns a PNG header that declares `width` times `height` pixels.
fn huge_png(width: u32, height: u32) -> Vec<u8> {
    let mut png = noisy_png(1, 8);
    png[16..20].copy_from_slice(&width.to_be_bytes());
    png[20..24].copy_from_slice(&height.to_be_bytes());
    let crc = crc32(&png[12..29]);
    png[29..33].copy_from_slice(&crc.to_be_bytes());
    png
}

/// Returns PNG's checksum, computed bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn truncated_jpeg() {
    let whole = jpeg(3);
    check_bad_file("cat/cut.jpg", &whole[..whole.len() * 2 / 3], &["--check-images", "full"], &[]);
    check_bad_file("cat/stub.jpg", &whole[..40], &[], &[]);
}

#[test]
fn empty_file() {
    for check in ["header", "none", "full"] {
        check_bad_file("cat/empty.jpg", b"", &["--check-images", check], &["empty"]);
    }
}

#[test]
fn text_named_jpg() {
    check_bad_file("cat/text.jpg", b"These are words, no pixels.\n", &[], &["JPEG"]);
}

#[test]
fn a_heic_named_jpg_gets_the_conversion_that_works() {
    let words = ["which looks like HEIC", "magick 'IN[0]' OUT.png"];
    check_bad_file("dog/phone.jpg", b"\0\0\0\x18ftypheic\0\0\0\0", &[], &words);
}

#[test]
fn png_declaring_ten_gigapixels() {
    let words = ["100000", "--max-pixels"];
    check_bad_file("dog/bomb.png", &huge_png(100_000, 100_000), &[], &words);
    check_bad_file(
        "dog/bomb.png",
        &huge_png(100_000, 100_000),
        &["--check-images", "full"],
        &words,
    );
}

#[test]
fn unreadable_file() {
    let case = Case::new();
    put(&case.source, "cat/secret.jpg", &jpeg(4));
    fs::set_permissions(case.source.join("cat/secret.jpg"), fs::Permissions::from_mode(0o000))
        .unwrap();
    let mut command = Command::new(gular());
    command.arg("pack").arg(&case.source).arg(&case.out);
    if is_root() {
        // Root may read everything, so the program runs as another user, who must be able to reach
        // it and the folder.
        let program = case.dir.path().join("gular");
        fs::copy(gular(), &program).unwrap();
        fs::create_dir(&case.out).unwrap();
        for path in [case.dir.path(), &program, &case.out] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        command = Command::new(program);
        command.arg("pack").arg(&case.source).arg(&case.out).uid(65_534).gid(65_534);
    }
    expect(&finish(&mut command), 2, &["cat/secret.jpg", "ermission"]);
    assert!(!case.out.exists() || files(&case.out).is_empty());
}

#[test]
fn name_that_is_not_utf8() {
    let case = Case::new();
    put(&case.source, Path::new("cat").join(OsStr::from_bytes(b"caf\xe9.jpg")), &jpeg(4));
    expect(&case.pack(&[]), 2, &["caf\u{fffd}.jpg", "not UTF-8", "rename"]);
    assert!(!case.out.exists());
}

#[test]
fn keys_equal_but_for_case() {
    let case = Case::new();
    put(&case.source, "cat/Good1.JPG", &jpeg(4));
    let words = ["cat/Good1.JPG", "cat/good1.jpg", "upper and lower case", "rename"];
    expect(&case.pack(&[]), 2, &words);
    assert!(!case.out.exists());
}

#[test]
fn directory_loop() {
    let case = Case::new();
    symlink(&case.source, case.source.join("cat/again")).unwrap();
    expect(&case.pack(&[]), 2, &["leads back to the folder", "cat/again", "remove the link"]);
    assert!(!case.out.exists());
}

#[test]
fn no_images() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "images/a/x.gpx", b"<gpx/>");
    put(dir.path(), "images/a/notes.txt", b"hello");
    let outcome = run([
        OsStr::new("pack"),
        dir.path().join("images").as_os_str(),
        dir.path().join("b").as_os_str(),
    ]);
    expect(&outcome, 2, &["no JPEG, PNG, WebP, BMP, GIF or Netpbm image", "1 gpx", "1 txt"]);
    assert!(!dir.path().join("b").exists());
    let outcome = run([
        OsStr::new("pack"),
        dir.path().join("none").as_os_str(),
        dir.path().join("b").as_os_str(),
    ]);
    expect(&outcome, 2, &["none", "o such file"]);
}

#[test]
fn label_outside_classes() {
    let case = Case::new();
    let list = case.dir.path().join("classes.txt");
    fs::write(&list, "cat\nbird\n").unwrap();
    let words = ["dog", "not one of the 2 classes", "classes.txt"];
    expect(&case.pack(&["--classes", list.to_str().unwrap()]), 2, &words);
    assert!(!case.out.exists());
}

/// A small disk for a test; `None`, with a message, if only root could mount it.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let disk = Self(dir);
        let mounted = is_root() && disk.run_mount(options);
        if !mounted {
            println!("skipped: mounting a small tmpfs needs root and mount(8)");
        }
        mounted.then_some(disk)
    }

    fn run_mount(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(self.0.path());
        mount.output().is_ok_and(|o| o.status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ =
            Command::new("umount").arg(self.0.path()).stderr(std::process::Stdio::null()).status();
    }
}

#[test]
fn disk_too_small_for_the_bundle() {
    let Some(disk) = SmallDisk::mount("size=1m") else { return };
    let case = Case::new();
    for i in 0..10 {
        put(&case.source, format!("cat/{i}.png"), &noisy_png(i, 256));
    }
    let out = disk.0.path().join("bundle");
    let outcome = run([OsStr::new("pack"), case.source.as_os_str(), out.as_os_str()]);
    expect(&outcome, 2, &[" MB free, ", "needs about", "another file system"]);
    assert!(!out.exists());
}

/// A disk can take a limited number of files, too. That limit is reached during packing, always at
/// the same place.
#[test]
fn disk_full_on_the_way_keeps_finished_shards() {
    let Some(disk) = SmallDisk::mount("size=32m,nr_inodes=16") else { return };
    let case = Case::new();
    for i in 0..24 {
        put(&case.source, format!("cat/{i}.png"), &noisy_png(i, 256));
    }
    let out = disk.0.path().join("bundle");
    let pack = || {
        let mut command = Command::new(gular());
        finish(command.arg("pack").arg(&case.source).arg(&out).args([
            "--shard-size",
            "1MiB",
            "--jobs",
            "1",
        ]))
    };
    expect(&pack(), 2, &["bundle", "No space left", "run the same command again"]);
    assert!(!out.join("manifest.json").exists());
    assert!(disk.run_mount("remount,nr_inodes=1000"));
    let again = pack();
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.contains("kept from an interrupted run"), "{again:?}");
    assert_eq!(run([OsStr::new("verify"), out.as_os_str()]).code, Some(0));
}

#[test]
fn flipped_and_cut_bytes_anywhere() {
    let case = Case::new();
    let bundle = case.bundle().to_owned();
    for (name, good) in files(&bundle) {
        let path = bundle.join(&name);
        for at in [0, good.len() / 3, good.len() / 2, good.len() - 2] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, bad).unwrap();
            let outcome = run([
                OsStr::new("verify"),
                bundle.as_os_str(),
                OsStr::new("--digest"),
                OsStr::new(&digest(&good, &name, &bundle)),
            ]);
            assert_eq!(outcome.code, Some(1), "{} byte {at}: {outcome:?}", name.display());
            let said = name.file_name().unwrap().to_str().unwrap();
            assert!(
                outcome.stdout.contains(said) && outcome.stdout.contains("do: "),
                "{outcome:?}"
            );
        }
        fs::write(&path, &good[..good.len() / 2]).unwrap();
        assert_eq!(
            run([OsStr::new("verify"), bundle.as_os_str()]).code,
            Some(1),
            "{} cut",
            name.display()
        );
        fs::write(&path, &good).unwrap();
    }
    assert_eq!(run([OsStr::new("verify"), bundle.as_os_str()]).code, Some(0));
}

/// Returns the digest of the bundle as it was packed.
fn digest(good: &[u8], name: &Path, bundle: &Path) -> String {
    let manifest = if name == Path::new("manifest.json") {
        good.to_vec()
    } else {
        fs::read(bundle.join("manifest.json")).unwrap()
    };
    gular_bundle::Digest::of(&manifest).to_string()
}

#[test]
fn newer_and_absurd_manifests() {
    let case = Case::new();
    let bundle = case.bundle().to_owned();
    let path = bundle.join("manifest.json");
    let good = fs::read_to_string(&path).unwrap();
    let replaced = |from: &str, to: &str| {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        fs::write(&path, bad).unwrap();
    };
    replaced("\"version\":1", "\"version\":7");
    for verb in ["verify", "inspect"] {
        let outcome = run([OsStr::new(verb), bundle.as_os_str()]);
        expect(&outcome, 2, &["version 7", "versions up to 2", "newer release"]);
    }
    for (from, to, word) in [
        ("\"samples\":2", "\"samples\":4000000000000000000", "describes 1 to"),
        ("\"bytes\":", "\"bytes\":99999999999999999999", "invalid"),
        ("\"shards\":[\n", "\"shards\":[[[[[[\n", "manifest"),
    ] {
        replaced(from, to);
        let outcome = run([OsStr::new("inspect"), bundle.as_os_str()]);
        expect(&outcome, 2, &["manifest.json", word]);
        let outcome = run([OsStr::new("verify"), bundle.as_os_str()]);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
    }
}

#[test]
fn places_that_are_not_there_are_named_before_anybody_is_asked() {
    let url = "pelican://localhost:1/ns/birds/v1";
    for (args, words) in [
        (
            &["publish", "/no/such", url][..],
            &["cannot publish `/no/such`: it does not exist", "`gular pack`"][..],
        ),
        (
            &["stage", "nosuch", "--", "true"],
            &["cannot stage `nosuch`: it does not exist", "a bundle's folder"],
        ),
        (
            &["federation", "token", "nofed", "--read", "/"],
            &["no federation is running for the folder `nofed`", "`gular federation serve nofed`"],
        ),
    ] {
        expect(&run(args), 2, words);
    }
}

#[test]
fn values_that_make_no_sense_are_told_with_an_example() {
    let url = "pelican://localhost:1/ns/birds/v1";
    for (args, words) in [
        (
            &["fetch", url, "d", "--limit-rate", "fast"][..],
            &["`fast` is not a rate", "`50MB/s`"][..],
        ),
        (&["fetch", url, "d", "-j", "0"], &["`0` is not a number of threads", "such as `4`"]),
        (&["pack", "a", "b", "--shard-size", "0"], &["`0` is not a size", "`256MiB`"]),
        (&["pack", "a", "b", "--jobs", "many"], &["`many` is not a number of threads"]),
        (&["fetch", url, "d", "--threads", "2"], &["no option `--threads`", "`--jobs`"]),
        (&["pack", "a", "b", "--split", "x"], &["now called `--fractions`"]),
    ] {
        let outcome = run(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{outcome:?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "no `{word}` in {}", outcome.stderr);
        }
        assert!(!outcome.stderr.contains("-- --"), "{}", outcome.stderr);
    }
}

#[test]
fn usage_errors_end_with_2() {
    for args in [
        &["pack"][..],
        &["frobnicate"],
        &["verify", "x", "--quick", "--full"],
        &["pack", "a", "b", "--shard-size", "1XB"],
    ] {
        let outcome = run(args);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
    }
    let outcome = run(["verify", "/nowhere/at/all"]);
    expect(&outcome, 2, &["/nowhere/at/all"]);
}
