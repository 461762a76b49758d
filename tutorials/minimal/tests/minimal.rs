//! The program trains, is stopped, resumes, and stays as short as it says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gular_bundle::{
    About, BundlePath, DATA_DIR, Envelope, Field, FieldName, Manifest, Payload, ShardSpec,
    ShardWriter, Split, write_manifest,
};
use gular_codec::encode_png;

/// `n` pictures of two classes: dark ones, and some that are a little lighter.
fn bundle(dir: &Path, n: usize) {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data).unwrap();
    let image = Field::bytes(FieldName::image(), vec!["image/png".into()]);
    let fields = vec![image, Field::label()];
    let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
    let mut writer = ShardWriter::create(&data, &spec).unwrap();
    for i in 0..n {
        let base = if i % 2 == 0 { 100 } else { 108 };
        let pixels: Vec<u8> = (0..80 * 80 * 3).map(|p| (base + (p * (i + 3)) % 60) as u8).collect();
        let key = BundlePath::parse(&format!("{i}.png")).unwrap();
        let label = (i as i64 % 2).to_le_bytes();
        writer.push(&key, &[&encode_png(&pixels, 80, 80).unwrap(), &label]).unwrap();
    }
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        fields,
        classes: ["dark", "light"].map(String::from).to_vec(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards: vec![writer.finish().unwrap()],
    };
    write_manifest(dir, &manifest).unwrap();
}

fn command(bundle: &Path, dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gular-minimal"));
    // Sums depend on the number of threads, so there is one.
    command.arg(bundle).current_dir(dir).env("OMP_NUM_THREADS", "1").stdin(Stdio::null());
    command
}

fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn it_learns_and_stopped_by_a_signal_it_ends_with_the_same_weights() {
    let (of_bundle, one, two) = (tempfile::tempdir(), tempfile::tempdir(), tempfile::tempdir());
    let (of_bundle, one, two) = (of_bundle.unwrap(), one.unwrap(), two.unwrap());
    bundle(of_bundle.path(), 384);
    let undisturbed = printed(&command(of_bundle.path(), one.path()).output().unwrap());
    let lines: Vec<&str> = undisturbed.lines().collect();
    assert_eq!(lines.len(), 6, "{undisturbed}");
    for (i, line) in lines[..5].iter().enumerate() {
        let (epoch, rest) = line.split_once(": loss ").unwrap();
        assert_eq!(epoch, format!("epoch {}", i + 1));
        assert!(rest.ends_with(", 384 samples, each once"), "{line}");
    }
    let loss = |line: &str| line[14..19].parse::<f64>().unwrap();
    // A guess has a loss of 0.693.
    assert!(loss(lines[4]) < loss(lines[0]).min(0.5), "{undisturbed}");

    let mut child = command(of_bundle.path(), two.path()).spawn().unwrap();
    let since = Instant::now();
    while !two.path().join("checkpoints/latest").exists() {
        assert!(since.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(1));
    }
    // By the shell: a program `kill` is not on every machine.
    let kill = format!("kill -TERM {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(85));
    let resumed = printed(&command(of_bundle.path(), two.path()).output().unwrap());
    assert!(resumed.lines().count() < 6, "it goes on and does not begin again: {resumed}");
    assert!(undisturbed.ends_with(&resumed), "{undisturbed}{resumed}");
    let weights = |dir: &Path| fs::read(dir.join("weights.safetensors")).unwrap();
    assert!(weights(one.path()) == weights(two.path()), "other weights");
}

#[test]
fn a_token_instead_of_a_bundle_is_not_shown() {
    let claims = "eyJpc3MiOiJodHRwczovL2EuaW52YWxpZCJ9";
    let dir = tempfile::tempdir().unwrap();
    let token = format!("eyJhbGciOiJub25lIn0.{claims}.c2lnbmF0dXJl");
    let output = command(Path::new(&token), dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("[a signed token, not shown]") && !said.contains(claims), "{said}");
}

#[test]
fn main_has_no_more_than_forty_lines() {
    let text = include_str!("../src/main.rs");
    let main = text.split("fn main()").nth(1).unwrap().split("\n}\n").next().unwrap();
    // The first line, `fn main`, is not counted.
    let lines = main.lines().skip(1).filter(|line| !line.trim().is_empty()).count();
    assert!((30..=40).contains(&lines), "{lines} lines");
}
