//! The program as a user calls it: pack, inspect, verify.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gular_tests::{Outcome, files, finish, gular, jpeg, kill, noisy_png, put, run};
use serde_json::Value;

fn images(dir: &Path, n: u32) {
    for i in 0..n {
        let split = if i % 4 == 0 { "val" } else { "train" };
        put(dir, format!("{split}/class {}/{i}.jpg", i % 3), &jpeg(i));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Replaces a time and the rate behind it by `#`, and the temporary folder by `DIR`.
fn masked(outcome: &Outcome, dir: &Path) -> String {
    let mut shown = format!("exit {:?}\n{}{}", outcome.code, outcome.stdout, outcome.stderr);
    shown = shown.replace(text(dir), "DIR");
    let lines = shown.lines().map(|line| {
        let mut line = line.to_owned();
        if let Some(end) = line.find(" s, ") {
            let start = line[..end].rfind(' ').map_or(0, |i| i + 1);
            line.truncate(start);
            line.push('#');
        }
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn pack_says_which_columns_of_a_table_it_took() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "images/1.jpg", &jpeg(1));
    put(dir.path(), "t.csv", b"filename,x,y,category\n1,3,4,cat\n");
    let (source, table) = (dir.path().join("images"), dir.path().join("t.csv"));
    let pack = |more: &[&str]| {
        let out = dir.path().join("bundle");
        let args = ["pack", text(&source), text(&out), "--labels", text(&table)];
        run(args.into_iter().chain(more.iter().copied()))
    };
    for more in [&["--dry-run"][..], &[]] {
        let shown = pack(more).stdout;
        assert!(shown.contains("file names from `filename`, labels from `category`\n"), "{shown}");
    }
    let report: Value = serde_json::from_str(&pack(&["--json", "--dry-run"]).stdout).unwrap();
    let expected = serde_json::json!({"file_names": "filename", "labels": "category"});
    assert_eq!(report["columns"], expected);
}

#[test]
fn pack_inspect_and_verify_say_what_they_did() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source, 24);
    put(&source, "train/class 0/notes.txt", b"x");
    let packed = run(["pack", text(&source), text(&out), "--seed", "3"]);
    let expected = "\
exit Some(0)
read as: --images '{split}/{label}/{key}.{ext}'
3 classes: 8 class 0, 8 class 1, 8 class 2

split samples source shards classes
train 18 SIZE 1 3
val 6 SIZE 1 3

checked: the images' headers; `--check-images full` decodes every image
not packed: 1 txt
packed 24 samples, SIZE in 2 shards, #
DIGEST
next: gular verify DIR/bundle";
    assert_eq!(without_sizes(&masked(&packed, dir.path())), expected);
    let verified = run(["verify", text(&out)]);
    let expected = "\
exit Some(0)
bundle DIGEST
sound (every byte): 24 samples in 2 shards, SIZE, #";
    assert_eq!(without_sizes(&masked(&verified, dir.path())), expected);
    let inspected = run(["inspect", text(&out)]);
    let expected = "\
exit Some(0)
bundle DIGEST
envelope shards, payload encoded
field image: image/jpeg
field label: i64, one number per sample

split samples bytes shards
train 18 SIZE 1
val 6 SIZE 1

class train val
0 class 0 6 2
1 class 1 6 2
2 class 2 6 2
";
    let shown = without_sizes(&masked(&inspected, dir.path()));
    assert!(shown.starts_with(expected.trim_end()), "{shown}");
}

/// Removes sizes and digests, which depend on the encoder, and with sizes the width of columns.
fn without_sizes(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let mut words: Vec<&str> = Vec::new();
        for word in line.split_whitespace() {
            let unit = word.trim_end_matches(',');
            if ["B", "KB", "MB"].contains(&unit) {
                words.pop();
                words.push(if unit == word { "SIZE" } else { "SIZE," });
            } else {
                words.push(if word.starts_with("blake3:") { "DIGEST" } else { word });
            }
        }
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn json_is_one_object_and_stderr_is_silent() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source, 8);
    let json = |outcome: &Outcome| -> Value {
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    let dry = json(&run(["pack", text(&source), text(&out), "--dry-run", "--json"]));
    assert_eq!((dry["samples"].as_u64(), dry["dry_run"].as_bool()), (Some(8), Some(true)));
    assert!(!out.exists());
    let packed = json(&run(["pack", text(&source), text(&out), "--json"]));
    assert_eq!(packed["splits"]["val"]["classes"]["class 1"], 1);
    let verified = json(&run(["verify", text(&out), "--json"]));
    assert_eq!((&verified["sound"], &verified["digest"]), (&Value::Bool(true), &packed["digest"]));
    let inspected = json(&run(["inspect", text(&out), "--json", "--samples", "5"]));
    assert_eq!(inspected["digest"], packed["digest"]);
    assert_eq!(inspected["sample_list"].as_array().unwrap().len(), 5);
    for file in fs::read_dir(out.join("data")).unwrap() {
        let described = json(&run(["inspect", text(&file.unwrap().path()), "--json"]));
        assert!(described["tensors"].as_array().unwrap().len() > 3);
    }
    let manifest = json(&run(["inspect", text(&out.join("manifest.json")), "--json"]));
    assert_eq!(manifest["digest"], packed["digest"]);
    let wrong = run(["verify", text(&out), "--digest", &"0".repeat(64)]);
    assert_eq!(wrong.code, Some(1));
}

#[test]
fn a_csv_of_pixels_is_packed_by_its_extension() {
    let dir = tempfile::tempdir().unwrap();
    let (table, out) = (dir.path().join("digits.csv"), dir.path().join("bundle"));
    fs::write(&table, "label,p1,p2,p3,p4,p5,p6\n7,0,1,2,3,4,255\n2,9,9,9,9,9,9\n").unwrap();
    let pack = ["pack", text(&table), text(&out)];
    let refused = run(pack);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("it has 6 columns of pixels, besides the column of labels"),
        "{refused:?}"
    );
    let packed = run(pack.into_iter().chain(["--size", "3x2"]));
    assert_eq!((packed.code, packed.stderr.as_str()), (Some(0), ""));
    assert!(
        packed.stdout.contains("labels from `label`, pixels of 3 x 2, 1 channel"),
        "{packed:?}"
    );
    let shown = run(["inspect", text(&out)]).stdout;
    assert!(shown.contains("field image: u8 [2, 3, 1] yxc\n"), "{shown}");
    let wrong = run(pack.into_iter().chain(["--images", "{key}"]));
    assert!(wrong.stderr.contains("`--images` does not apply to a table of pixels"), "{wrong:?}");
    let wrong = run(pack.into_iter().chain(["--payload", "raw", "--size", "3x2"]));
    assert!(wrong.stderr.contains("`--payload` does not apply to a table of pixels"), "{wrong:?}");
}

#[test]
fn contact_sheet_and_extract() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source, 40);
    assert_eq!(run(["pack", text(&source), text(&out), "--quiet"]).code, Some(0));
    let sheet = dir.path().join("sheet.png");
    let outcome = run(["inspect", text(&out), "--sheet", text(&sheet)]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let header =
        gular_codec::read_header(&fs::read(&sheet).unwrap(), &gular_codec::Limits::default())
            .unwrap();
    // Names have seven letters; there are ten columns, and a row for each of three classes.
    let names = 4 + 7 * 12;
    assert_eq!((header.width, header.height), (names + 10 * 100 + 4, 3 * 100 + 4));
    let mut command = Command::new(gular());
    let output =
        command.args(["inspect", text(&out), "--extract", "train/class 1/1.jpg"]).output().unwrap();
    assert_eq!(output.stdout, jpeg(1));
    assert_eq!(run(["inspect", text(&out), "--extract", "no/such"]).code, Some(2));
}

#[test]
fn inspect_names_bands_and_nodata() {
    use gular_codec::tiff::{Geo, GeoTiffWriter, Number, Packing};
    let dir = tempfile::tempdir().unwrap();
    for name in ["B02", "B8A"] {
        let geo = Geo { nodata: Some(0.0), ..Geo::default() };
        let out = std::io::Cursor::new(Vec::new());
        let mut tiff = GeoTiffWriter::new(out, (4, 3), 1, Number::U8, geo, Packing::None).unwrap();
        tiff.push(&[7; 12]).unwrap();
        let file = tiff.finish().unwrap().into_inner();
        put(dir.path(), format!("source/a_{name}.tif"), &file);
    }
    let (source, out) = (dir.path().join("source"), dir.path().join("out"));
    let images = ["--as", "arrays", "--labels", "none", "--images", "{key}_{band}.tif"];
    let pack = ["pack", text(&source), text(&out)].into_iter().chain(images);
    assert_eq!(run(pack).code, Some(0));
    let shown = run(["inspect", text(&out)]).stdout;
    let expected = "field image: u8 [3, 4, 2] yxc, nodata 0\nbands of image: B02, B8A\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn a_sheet_has_tiles_of_any_number_of_bands_or_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let sheet = dir.path().join("sheet.png");
    let shown = |name: &str, shape: [u64; 3]| {
        let (source, out) = (dir.path().join(name), dir.path().join(format!("{name}-b")));
        let n: u64 = shape.iter().product();
        let header = gular_bundle::npy_header(gular_bundle::Dtype::U8, &shape);
        put(&source, "0.npy", &[header, vec![7; usize::try_from(n).unwrap()]].concat());
        let pack = ["pack", text(&source), text(&out), "--as", "arrays", "--labels", "none"];
        assert_eq!(run(pack).code, Some(0));
        run(["inspect", text(&out), "--sheet", text(&sheet)])
    };
    for (name, shape) in [
        ("two", [16, 16, 2]),
        ("four", [16, 16, 4]),
        ("ten", [32, 32, 10]),
        ("planes", [5, 16, 16]),
    ] {
        let outcome = shown(name, shape);
        assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{outcome:?}");
        let picture = gular_codec::Decoder::new(gular_codec::DecodeOptions::default())
            .decode(&fs::read(&sheet).unwrap())
            .unwrap();
        assert!(picture.data().as_chunks::<3>().0.contains(&[7; 3]), "{name}");
    }
    fs::remove_file(&sheet).unwrap();
    let (source, out) = (dir.path().join("texts"), dir.path().join("texts-b"));
    put(&source, "0.txt", b"no picture");
    let pack = ["pack", text(&source), text(&out), "--as", "bytes", "--labels", "none"];
    assert_eq!(run(pack).code, Some(0));
    let outcome = run(["inspect", text(&out), "--sheet", text(&sheet)]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(!sheet.exists());
}

#[test]
fn pixels_are_packed_shown_and_extracted() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source, 12);
    put(&source, "train/class 0/noise.png", &noisy_png(3, 50));
    let raw = ["pack", text(&source), text(&out), "--payload", "raw", "--size", "40x30"];
    let packed = run(raw);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let shown = run(["inspect", text(&out)]).stdout;
    assert!(shown.contains("payload raw\nfield image: u8 [30, 40, 3]\n"), "{shown}");
    assert!(shown.contains("\npixels of train: mean "), "{shown}");
    let inspected = run(["inspect", text(&out), "--samples", "1", "--json"]);
    let inspected: Value = serde_json::from_str(&inspected.stdout).unwrap();
    assert_eq!(inspected["statistics"]["pixels"], 40 * 30 * 10);
    assert_eq!(inspected["sample_list"][0]["bytes"], 40 * 30 * 3);
    let sheet = dir.path().join("sheet.png");
    let outcome = run(["inspect", text(&out), "--sheet", text(&sheet)]);
    assert!(outcome.code == Some(0) && outcome.stderr.is_empty(), "{outcome:?}");
    let output = Command::new(gular())
        .args(["inspect", text(&out), "--extract", "train/class 0/noise.png"])
        .output()
        .unwrap();
    assert!(output.stdout.starts_with(b"\x93NUMPY\x01\0"));
    assert_eq!(output.stdout.len() % 64, (40 * 30 * 3) % 64, "a header of whole 64 bytes");
    assert_eq!(run(["verify", text(&out)]).code, Some(0));

    let jpeg = dir.path().join("jpeg");
    let reencoded = ["--payload", "reencoded", "--max-side", "12", "--quality", "50", "--quiet"];
    let pack: Vec<&str> =
        ["pack", text(&source), text(&jpeg)].into_iter().chain(reencoded).collect();
    assert_eq!(run(pack).code, Some(0));
    let shown = run(["inspect", text(&jpeg)]).stdout;
    assert!(shown.contains("payload reencoded\nfield image: image/jpeg\n"), "{shown}");
}

#[test]
fn options_of_another_payload_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source, 4);
    for (options, expected) in [
        (&["--size", "8"][..], "error: `--size` works only with `--payload raw`"),
        (&["--payload", "raw"], "error: `--payload raw` needs `--size`"),
        (
            &["--payload", "raw", "--size", "8", "--quality", "3"],
            "error: `--quality` works only with",
        ),
        (&["--payload", "reencoded", "--dtype", "u8"], "error: `--dtype` works only with"),
        (&["--payload", "raw", "--size", "0"], "expected at least 1, such as `256`"),
    ] {
        let args = ["pack", text(&source), text(&out)].into_iter().chain(options.iter().copied());
        let refused = run(args.collect::<Vec<_>>());
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    assert!(!out.exists());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source, 8);
    assert_eq!(run(["pack", text(&source), text(&out), "--quiet"]).code, Some(0));
    let mut child = Command::new(gular())
        .args(["inspect", text(&out), "--json", "--samples", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

/// Packs, and kills the program by `signal` after a while; then packs again, to the end.
fn interrupted(signal: &str, after: Duration, source: &Path, out: &Path) -> (Outcome, Outcome) {
    let args = [
        "pack",
        text(source),
        text(out),
        "--shard-size",
        "1MiB",
        "--jobs",
        "2",
        "--check-images",
        "full",
    ];
    let mut child = Command::new(gular())
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    // A program that has not begun yet is ended by the signal itself.
    while !out.exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let id = child.id().to_string();
    let _ = kill().args([signal, &id]).stderr(Stdio::null()).status();
    let status = child.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    let stopped = Outcome {
        code: status.code(),
        stdout: String::new(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    (stopped, finish(Command::new(gular()).args(args)))
}

#[test]
fn a_killed_pack_goes_on_to_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("images");
    for i in 0..60 {
        put(&source, format!("c{}/{i}.png", i % 3), &noisy_png(i, 300));
    }
    let whole = dir.path().join("whole");
    let start = Instant::now();
    let packed = run([
        "pack",
        text(&source),
        text(&whole),
        "--shard-size",
        "1MiB",
        "--check-images",
        "full",
    ]);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let took = start.elapsed();
    let expected = files(&whole);
    for (i, share) in [0.1, 0.3, 0.5, 0.7, 0.9].into_iter().enumerate() {
        for (signal, code) in [("-KILL", None), ("-TERM", Some(143)), ("-INT", Some(130))] {
            let out = dir.path().join(format!("bundle{i}{signal}"));
            let (stopped, again) = interrupted(signal, took.mul_f64(share), &source, &out);
            assert_eq!(again.code, Some(0), "{stopped:?} {again:?}");
            // Otherwise the bundle was complete before the signal came.
            if !again.stdout.contains("nothing to do") {
                assert_eq!(stopped.code, code, "{stopped:?}");
                if code.is_some() {
                    assert!(stopped.stderr.contains("run the same command again"), "{stopped:?}");
                }
            }
            assert!(files(&out) == expected, "{signal} after {share}");
        }
    }
}

/// A run that is killed while it writes the manifest leaves its temporary file there.
#[test]
fn a_resumed_pack_leaves_no_temporary_file() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source, 8);
    for folder in ["", "data/", ".gular-pack/"] {
        put(&out, format!("{folder}.gular-tmp-killed"), b"x");
    }
    let packed = run(["pack", text(&source), text(&out)]);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let left = files(&out).into_iter().find(|(name, _)| text(name).contains("killed"));
    assert_eq!(left, None);
}

#[test]
fn another_process_may_not_pack_into_the_same_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("images"), dir.path().join("bundle"));
    images(&source, 8);
    fs::create_dir_all(out.join(".gular-pack")).unwrap();
    let lock = fs::File::create(out.join(".gular-pack/lock")).unwrap();
    lock.lock().unwrap();
    let outcome = run(["pack", text(&source), text(&out)]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("another process"), "{outcome:?}");
}

/// Returns the lines without the block on `--json` and `--quiet`, which every verb has.
fn without_output<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut output = false;
    let heading = |line: &str| line.starts_with(|c: char| !c.is_whitespace());
    let keep = |line: &&&str| {
        output = if heading(line) { **line == "Output:" } else { output };
        !output
    };
    lines.iter().filter(keep).copied().collect()
}

/// Adds the help of `verbs`, and of the verbs below them.
fn add_help(page: &mut String, verbs: &[&str]) {
    let mut command = Command::new(gular());
    let outcome = finish(command.arg("help").args(verbs).env("COLUMNS", "100"));
    assert_eq!(outcome.code, Some(0), "{verbs:?}");
    let lines: Vec<&str> = outcome.stdout.lines().map(str::trim_end).collect();
    let shown = if verbs.is_empty() { lines.clone() } else { without_output(&lines) };
    let (title, help) = ([&["gular"], verbs].concat().join(" "), shown.join("\n"));
    page.push_str(&format!("\n## {title}\n\n```text\n{}\n```\n", help.trim_end()));
    for verb in gular_tests::verbs(&outcome.stdout) {
        add_help(page, &[verbs, &[verb]].concat());
    }
}

#[test]
fn shells_and_man_know_every_verb() {
    let dir = tempfile::tempdir().unwrap();
    for (shell, check) in [("bash", "bash"), ("zsh", "zsh"), ("fish", "fish")] {
        let script = run(["completions", shell]).stdout;
        for word in ["publish", "shard-size", "limit-rate"] {
            assert!(script.contains(word), "{shell} does not know `{word}`");
        }
        put(dir.path(), shell, script.as_bytes());
        let read = Command::new(check).arg("-n").arg(dir.path().join(shell)).output();
        // Not every machine has zsh and fish.
        if let Ok(read) = read {
            assert!(read.status.success(), "{shell}: {}", String::from_utf8_lossy(&read.stderr));
        }
    }
    let pages = dir.path().join("made/man1");
    run(["man", text(&pages)]);
    for (page, word) in [
        ("gular.1", "gular\\-fetch"),
        ("gular-pack.1", "shard\\-size"),
        // These are lines that `-h` leaves out, and lines that must not be filled.
        ("gular-pack.1", "\nThe table\\*(Aqs column of splits"),
        ("gular-pack.1", "\n.SH NOTES\n.nf\nExamples:\n  gular pack"),
    ] {
        let written = fs::read_to_string(pages.join(page)).unwrap();
        assert!(written.contains(".TH ") && written.contains(word), "{page}: {written}");
    }
}

/// `docs/cli.md` is the output of `gular help`.
#[test]
fn the_reference_page_is_up_to_date() {
    let mut page = String::from(
        "# Command line\n\nWhat `gular help` and `gular help VERB` print; `gular VERB --help` is shorter, with one line per option. Every verb also has `--json` and `--quiet`, which are described once, under `gular`. Two commands are hidden: `gular completions` and `gular man` write shell completions and manual pages ([install.md](install.md)). `GULAR_BLESS=1 cargo xtask test -- --test cli reference` writes this page again.\n",
    );
    add_help(&mut page, &[]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    if std::env::var_os("GULAR_BLESS").is_some() {
        put(path.parent().unwrap(), "cli.md", page.as_bytes());
        return;
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == page,
        "docs/cli.md is out of date: run with GULAR_BLESS=1"
    );
}

#[test]
fn parts_of_two_machines_make_the_bundle_of_one_and_leaks_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("images");
    for i in 0..12 {
        let split = if i % 4 == 0 { "val" } else { "train" };
        put(&source, format!("{split}/c{}/{i}.png", i % 2), &noisy_png(i, 400));
    }
    put(&source, "val/c0/leak.png", &noisy_png(2, 400));
    let at = |name: &str| dir.path().join(name);
    let pack = |out: &Path, more: &[&str]| {
        let args = ["pack", text(&source), text(out), "--shard-size", "1MiB"];
        let outcome = run(args.into_iter().chain(more.iter().copied()));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.stdout
    };
    let [whole, one, two, out] = ["whole", "one", "two", "out"].map(at);
    let shown = pack(&whole, &["--duplicates-out", text(&at("list.csv"))]);
    assert!(shown.contains("duplicates: 1 image occurs more than once, in 2 samples; 1 in train and val\n  train/c0/2.png (train) = val/c0/leak.png (val)"), "{shown}");
    assert_eq!(fs::read_to_string(at("list.csv")).unwrap().lines().count(), 3);
    assert!(pack(&one, &["--part", "1/2"]).contains("packed part 1/2: "));
    let merge = |parts: &[&Path]| {
        let paths = parts.iter().copied().chain([out.as_path()]).map(text);
        run(["pack", "--merge"].into_iter().chain(paths))
    };
    let missing = merge(&[&one]);
    assert_eq!(missing.code, Some(2));
    let expected =
        "error: these parts cannot be merged to a bundle: part 2 of 2 is missing\nhint: ";
    assert!(missing.stderr.starts_with(expected), "{missing:?}");
    pack(&two, &["--part", "2/2"]);
    let merged = merge(&[&two, &one]);
    assert!(merged.stdout.starts_with("merged 2 parts: 13 samples, "), "{merged:?}");
    assert!(merged.stdout.contains("duplicates: 1 image occurs"), "{merged:?}");
    assert!(files(&out) == files(&whole));
    assert!(merge(&[&one, &two]).stdout.starts_with("nothing to do: 2 parts were merged before"));
    let inspect = |more: &[&str]| {
        let args = ["inspect", text(&out)].into_iter().chain(more.iter().copied());
        let outcome = run(args.chain(["--json"]));
        serde_json::from_str::<Value>(&outcome.stdout).unwrap()["duplicates"].clone()
    };
    let found = inspect(&[]);
    assert_eq!((&found["pictures"], &found["across"]["train and val"]), (&1.into(), &1.into()));
    assert_eq!(inspect(&["--against", text(&whole)])["pictures"], 12);
    let [page, pairs, croissant] = ["page.html", "pairs.html", "croissant.json"].map(at);
    let looks = ["--near", "--pixels", "--pairs", text(&pairs), "--page", text(&page)];
    let outcome = run(["inspect", text(&out)].into_iter().chain(looks));
    assert!(outcome.stdout.contains("0 pairs with the same pixels in other bytes"), "{outcome:?}");
    let saved = |page: &Path| -> Value {
        serde_json::from_str(gular_tests::saved(&fs::read_to_string(page).unwrap())).unwrap()
    };
    let page = saved(&page);
    assert_eq!(page["bundle"]["classes"][1], "c1");
    let counted: u64 = page["counts"]["splits"]["train"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(Some(counted), page["bundle"]["splits"][0]["samples"].as_u64());
    let shown = page["samples"].as_array().unwrap();
    assert!(shown.len() > 3 && page["picture"].as_object().unwrap().len() == shown.len());
    assert_eq!(saved(&pairs)["pairs"]["result"]["n"], 0);
    let outcome = run(["export", text(&out), "--croissant", text(&croissant)]);
    assert!(outcome.stdout.starts_with("described "), "{outcome:?}");
    let said: Value = serde_json::from_slice(&fs::read(croissant).unwrap()).unwrap();
    assert_eq!(said["recordSet"][1]["data"][1]["classes/name"], "c1");
}

#[test]
fn derive_and_diff_say_what_they_did() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    images(&dir.path().join("images"), 24);
    run(["pack", &at("images"), &at("bundle")]);
    put(dir.path(), "new.csv", b"file_name,label\ntrain/class 0/3.jpg,class 9\nx.jpg,class 1\n");
    let [bundle, out, table] = [at("bundle"), at("new"), at("new.csv")];
    let derived = run(["derive", &bundle, &out, "--labels", &table, "--where", "split = train"]);
    let shown = masked(&derived, dir.path());
    let expected = "\
exit Some(0)
warning: 1 row of the table that no chosen sample has: `x.jpg`
warning: 17 samples that the table does not list, kept as before: ";
    assert!(shown.starts_with(expected), "{shown}");
    for line in [
        "train: 18 samples in 1 shard",
        "other labels: 1 sample",
        "new classes: `class 9`",
        "next: gular verify DIR/new",
    ] {
        assert!(shown.lines().any(|found| found == line), "{line}: {shown}");
    }
    assert_eq!(run(["verify", &out]).code, Some(0));
    let again = run(["derive", &bundle, &out, "--labels", &table, "--where", "split = train"]);
    assert!(again.stdout.contains("nothing to do: 18 of 24 samples were derived before"));
    let compared = run(["diff", &bundle, &out]);
    let expected = "\
exit Some(0)
removed 6: val/class 0/0.jpg, val/class 0/12.jpg, val/class 1/16.jpg, val/class 1/4.jpg, val/class 2/20.jpg and 1 more
relabelled 1: train/class 0/3.jpg
new classes: class 9
the same in both: 17 samples of 18
";
    assert_eq!(masked(&compared, dir.path()), expected.trim_end());
    let listed = run(["diff", &bundle, &out, "--list"]).stdout;
    assert_eq!(listed.lines().next(), Some("relabelled\ttrain/class 0/3.jpg\tclass 0\tclass 9"));
    assert_eq!(listed.lines().count(), 7);
    let wrong = run(["derive", &bundle, &at("x"), "--where", "class = dog"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""));
    assert!(wrong.stderr.contains("at character 9, `dog` is not a class of the bundle"));
    // A fault that does not depend on the bundle is reported before the bundle is looked for.
    let missing = format!("file://{}", at("no/such/v1"));
    let wrong = run(["fetch", &missing, &at("x"), "--where", "class ="]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("at character 8, expected a value"), "{}", wrong.stderr);
    let wrong = run(["fetch", &missing, &at("x")]);
    let expected = format!("error: there is no `{}`\nhint: check the path\n", at("no/such/v1"));
    assert_eq!((wrong.code, wrong.stderr), (Some(2), expected));
}
