//! `gular bench`: every row is there with its figures, the page needs no other file, and no file
//! that was written is left. No test checks how fast anything is.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking and says when it skips")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gular_bundle::Envelope;
use gular_tests::{Outcome, finish, gular, is_root, jpeg, kill, noisy_png, put, run};
use serde_json::Value;

struct Case {
    dir: tempfile::TempDir,
    images: PathBuf,
    scratch: PathBuf,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (images, scratch) = (dir.path().join("images"), dir.path().join("scratch"));
        for i in 0..20 {
            put(&images, format!("class {}/{i}.jpg", i % 3), &jpeg(i));
        }
        put(&images, "class 0/noise.png", &noisy_png(1, 60));
        put(&images, "class 0/notes.txt", b"no image");
        fs::create_dir(&scratch).unwrap();
        Self { dir, images, scratch }
    }

    fn command(&self, source: &Path, more: &[&str]) -> Command {
        let mut command = Command::new(gular());
        command.arg("bench").arg(source).arg("--scratch").arg(&self.scratch).args(more);
        command
    }

    fn bench(&self, source: &Path, more: &[&str]) -> Outcome {
        finish(&mut self.command(source, more))
    }

    fn report(&self, source: &Path, more: &[&str]) -> Value {
        let short = ["--rounds", "2", "--seconds", "0.01", "--batch-size", "4", "--crop", "32"];
        let outcome = self.bench(source, &[&short, more, &["--json"]].concat());
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        self.assert_clean();
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    fn assert_clean(&self) {
        let left: Vec<_> =
            fs::read_dir(&self.scratch).unwrap().map(|e| e.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn strings(values: &Value, of: &str) -> BTreeSet<String> {
    let strings = values.as_array().unwrap().iter().filter_map(|v| v[of].as_str());
    strings.map(str::to_owned).collect()
}

/// Returns the envelopes that were measured: all but those that the notes say this build cannot
/// write.
fn envelopes(report: &Value) -> BTreeSet<String> {
    let notes = report["notes"].to_string();
    let left_out = |e: &&str| notes.contains(&format!("envelope {e} is left out"));
    Envelope::ALL.iter().map(|e| e.name()).filter(|e| !left_out(e)).map(str::to_owned).collect()
}

/// Checks that all combinations of these envelopes have rows with figures.
fn check_rows(report: &Value, payloads: &[&str], caches: &[&str], orders: &[&str]) {
    let rows = report["rows"].as_array().unwrap();
    for payload in payloads {
        for cache in caches {
            for kind in ["read", "load"] {
                // Batches are only loaded by the first reader and in the first order.
                let (readers, orders): (&[&str], &[&str]) = match kind {
                    "read" => (&["pread", "map"], orders),
                    _ => (&["pread"], &orders[..1]),
                };
                for order in orders {
                    let mut expected = BTreeSet::new();
                    for reader in readers {
                        expected.extend(envelopes(report).iter().map(|e| format!("{e}, {reader}")));
                        if kind == "read" {
                            expected.insert(format!("hand-written {reader} loop"));
                        }
                    }
                    if *payload != "raw" {
                        expected.insert("plain files".to_owned());
                    }
                    let of = |row: &&Value| {
                        row["payload"] == **payload
                            && row["cache"] == **cache
                            && row["kind"] == kind
                            && row["order"] == **order
                    };
                    let found: Vec<Value> = rows.iter().filter(of).cloned().collect();
                    assert_eq!(found.len(), expected.len(), "{payload} {cache} {kind} {order}");
                    assert_eq!(strings(&Value::from(found), "what"), expected);
                }
            }
        }
    }
    for row in rows {
        let rates = row["rounds"].as_array().unwrap();
        assert_eq!(rates.len(), 2, "{row}");
        let [min, median, max] =
            ["min", "median", "max"].map(|name| row["samples_per_s"][name].as_f64().unwrap());
        assert!(0.0 < min && min <= median && median <= max && max.is_finite(), "{row}");
        assert!(row["mb_per_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["first_ms"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(
            row["p99_us"].is_f64(),
            row["kind"] == "read" || row["baseline"] == true,
            "{row}"
        );
        assert_eq!(row["baseline"], row["envelope"].is_null(), "{row}");
    }
}

/// Checks that the advice names a row of the table, and a command that makes such a bundle.
fn check_advice(report: &Value) -> String {
    let pick = report["advice"]["pick"].as_u64().unwrap();
    let row = &report["rows"][usize::try_from(pick).unwrap()];
    let what = row["what"].as_str().unwrap();
    assert_eq!(row["baseline"], false);
    let words = report["advice"]["text"].as_array().unwrap();
    let first = words[0].as_str().unwrap();
    assert!(first.starts_with(&format!("Pick `{what}` with payload ")), "{first}");
    assert!(first.contains(row["payload"].as_str().unwrap()), "{first}");
    let Some(command) = report["advice"]["command"].as_str() else {
        // The bundle is the recommended one already, or has images in another payload.
        let same = &report["data"]["bundle"];
        let said = if same["payload"] == row["payload"] {
            assert_eq!(same["envelope"], row["envelope"]);
            "is such a bundle already"
        } else {
            "is packed from images, not from a bundle"
        };
        let last = words.last().unwrap().as_str().unwrap();
        assert!(last.contains(said), "{last}");
        return what.to_owned();
    };
    let verb = if report["data"]["bundle"].is_object() { "gular convert " } else { "gular pack " };
    assert!(command.starts_with(verb), "{command}");
    assert!(command.contains(&format!("--envelope {}", row["envelope"].as_str().unwrap())));
    what.to_owned()
}

#[test]
fn images_give_every_row_a_page_and_advice() {
    let case = Case::new();
    let page = case.dir.path().join("bench.html");
    let more = ["--payload", "encoded,raw,reencoded", "--jobs", "2", "--html", text(&page)];
    let report = case.report(&case.images, &more);
    let payloads = ["encoded", "raw", "reencoded"];
    check_rows(&report, &payloads, &["warm", "cold"], &["shuffled", "sequential"]);
    assert!(envelopes(&report).len() >= 4, "{}", report["notes"]);
    assert_eq!(
        (&report["data"]["samples"], &report["data"]["of_samples"]),
        (&21.into(), &21.into())
    );
    assert_eq!(strings(&report["stored"], "payload"), payloads.map(str::to_owned).into());
    assert!(report["notes"].to_string().contains("posix_fadvise(DONTNEED)"));
    let what = check_advice(&report);

    let page = fs::read_to_string(page).unwrap();
    // A browser lets it load nothing.
    assert!(page.contains("content=\"default-src 'none'; img-src data:; script-src 'sha256-"));
    let data: Value = serde_json::from_str(gular_tests::saved(&page)).unwrap();
    let parts = data["report"].as_array().unwrap();
    let bars = parts.iter().filter_map(|part| part["bars"]["bars"].as_array());
    let rows = report["rows"].as_array().unwrap().len();
    assert_eq!(bars.map(Vec::len).sum::<usize>(), rows, "one bar a row");
    let first = parts[0]["advice"]["texts"][0].as_str().unwrap();
    assert!(first.starts_with(&format!("Pick `{what}`")), "{what}: {first}");
}

#[test]
fn a_bundle_gives_the_same_rows() {
    let case = Case::new();
    let bundle = case.dir.path().join("bundle");
    let packed = run(["pack", text(&case.images), text(&bundle), "--envelope", "tar", "--quiet"]);
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let before = gular_tests::files(&bundle);
    let more = ["--payload", "raw,encoded", "--jobs", "1", "--page-cache", "warm"];
    let report = case.report(&bundle, &more);
    check_rows(&report, &["encoded", "raw"], &["warm"], &["shuffled", "sequential"]);
    check_advice(&report);
    assert_eq!(gular_tests::files(&bundle), before, "the bundle was not touched");

    // Pixels cannot be made into other payloads.
    let raw = case.dir.path().join("raw");
    let payload = ["--payload", "raw", "--size", "16", "--quiet"];
    let packed = run([&["pack", text(&case.images), text(&raw)], &payload[..]].concat());
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let report = case.report(&raw, &["--order", "shuffled", "--page-cache", "warm", "--jobs", "1"]);
    check_rows(&report, &["raw"], &["warm"], &["shuffled"]);
    assert!(report["notes"].to_string().contains("payload encoded is left out"));

    // Each element has two bytes.
    let deep = case.dir.path().join("deep");
    let payload = ["--payload", "raw", "--size", "16", "--dtype", "u16", "--quiet"];
    let packed = run([&["pack", text(&case.images), text(&deep)], &payload[..]].concat());
    assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    let report =
        case.report(&deep, &["--order", "shuffled", "--page-cache", "warm", "--jobs", "1"]);
    check_rows(&report, &["raw"], &["warm"], &["shuffled"]);
}

#[test]
fn the_course_has_fixed_lengths_too_and_whole_epochs() {
    let case = Case::new();
    let short = ["--preset", "jsc-1.1", "--rounds", "2", "--crop", "16", "--batch-size", "4"];
    let outcome = case.bench(&case.images, &[&short[..], &["--jobs", "1", "--json"]].concat());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    check_rows(&report, &["encoded", "raw"], &["warm", "cold"], &["shuffled", "sequential"]);
    assert_eq!(
        (&report["preset"], &report["method"]["whole_epochs"]),
        (&"jsc-1.1".into(), &true.into())
    );
}

#[test]
fn the_terminal_shows_table_notes_and_advice() {
    let case = Case::new();
    let short = ["--quick", "--rounds", "1", "--seconds", "0.01", "--envelope", "shards,tar"];
    let outcome = case.bench(&case.images, &[&short[..], &["--jobs", "1"]].concat());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let shown = &outcome.stdout;
    for words in [
        "reading, payload encoded, warm page cache: samples/s",
        "\nshards, map ",
        "\ntar, pread ",
        "\nplain files ",
        "\nhand-written map loop ",
        "loading batches",
        "\nPick `",
        "\nnext: gular pack ",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(outcome.stderr.contains("removes it at the end"), "{}", outcome.stderr);
    case.assert_clean();
}

#[test]
fn a_dry_run_says_what_would_be_written_and_writes_nothing() {
    let case = Case::new();
    let outcome = case.bench(&case.images, &["--dry-run", "--payload", "raw", "--json"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    case.assert_clean();
    let plan: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let files = plan["files"].as_array().unwrap();
    assert_eq!(files.len(), Envelope::ALL.len() + 1, "the links, too: {plan}");
    let sum: u64 = files.iter().map(|f| f[1].as_u64().unwrap()).sum();
    assert_eq!(plan["needed"], sum);
    // The limit is 224 x 224 x 3 bytes for each of 21 images, at least.
    assert!(
        sum > 21 * 150_528 * Envelope::ALL.len() as u64 && plan["seconds"].as_f64().unwrap() > 0.0,
        "{plan}"
    );
    let limited = case.bench(&case.images, &["--dry-run", "--limit-bytes", "2KB"]);
    assert!(limited.stdout.contains(" of 21 samples"), "{}", limited.stdout);
    assert!(limited.stdout.contains("nothing was written"), "{}", limited.stdout);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let case = Case::new();
    let empty = case.dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let check = |source: &Path, more: &[&str], words: &str| {
        let outcome = case.bench(source, more);
        assert_eq!(outcome.code, Some(2), "{more:?}");
        assert!(outcome.stderr.contains(words), "{words}: {}", outcome.stderr);
        case.assert_clean();
    };
    check(&empty, &[], "is neither a bundle nor a folder with JPEG, PNG or WebP images");
    check(&case.dir.path().join("none"), &[], "cannot open");
    check(&case.images, &["--seconds", "0"], "the seconds of a measurement must be above 0");
    check(&case.images, &["--envelope", "zip"], "`zip` is not an envelope");
    check(&case.images, &["--quick", "--full"], "cannot be used with");
}

#[test]
fn a_page_that_cannot_be_written_is_said_before_anything_is_measured() {
    let case = Case::new();
    let quick = ["--quick", "--rounds", "1", "--seconds", "0.01", "--envelope", "shards"];
    let more = ["--jobs", "1", "--kind", "read", "--html"];
    let bench =
        |page: &Path| case.bench(&case.images, &[&quick[..], &more, &[text(page)]].concat());
    let refused = |page: &Path, words: &str| {
        let outcome = bench(page);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{words}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("removes it at the end"), "{}", outcome.stderr);
        case.assert_clean();
    };
    refused(&case.dir.path().join("none/page.html"), "cannot write");
    refused(&case.images, "is not a page that this version of gular wrote");
    let notes = case.dir.path().join("notes.html");
    fs::write(&notes, "<!doctype html>\n<title>my notes</title>").unwrap();
    refused(&notes, "gular replaces only");
    assert!(fs::read_to_string(&notes).unwrap().contains("my notes"));

    // An earlier page is replaced, also through a link, and no other file is beside it.
    let folder = case.dir.path().join("pages");
    fs::create_dir(&folder).unwrap();
    let (page, link) = (folder.join("page.html"), folder.join("link.html"));
    assert_eq!(bench(&page).code, Some(0));
    let first = fs::read(&page).unwrap();
    std::os::unix::fs::symlink(&page, &link).unwrap();
    assert_eq!(bench(&link).code, Some(0));
    assert!(link.is_symlink() && fs::read(&page).unwrap() != first);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn free_space_is_looked_at_first() {
    let case = Case::new();
    if !is_root() {
        println!("skipped: only root can mount a small file system");
        return;
    }
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=5m", "none", text(&case.scratch)])
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: mounting is not permitted here");
        return;
    }
    let outcome = case.bench(&case.images, &["--quick"]);
    let left = fs::read_dir(&case.scratch).unwrap().count();
    let unmounted = Command::new("umount").arg(&case.scratch).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    for part in ["has 5.2 MB free", "are needed", "`--scratch`", "`--limit-bytes`"] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    assert_eq!(left, 0);
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let case = Case::new();
    let long = ["--seconds", "30", "--kind", "read", "--jobs", "1", "--quiet"];
    let mut command = case.command(&case.images, &long);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while fs::read_dir(&case.scratch).unwrap().count() == 0 {
        assert!(Instant::now() < end && child.try_wait().unwrap().is_none(), "nothing was begun");
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = kill().args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    case.assert_clean();
}
