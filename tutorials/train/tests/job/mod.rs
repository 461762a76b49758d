//! Makes bundles to train on, and runs the trainer as a job.

#![allow(dead_code, reason = "each test file uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use gular_bundle::{
    About, BundlePath, DATA_DIR, Digest, Envelope, Field, FieldName, Manifest, Payload, ShardSpec,
    ShardWriter, Split, write_manifest,
};
use gular_codec::{encode_jpeg, encode_png};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const EPOCHS: u64 = 3;
/// Number of steps in an epoch: 44 samples in batches of 8.
pub(crate) const STEPS_PER_EPOCH: u64 = 6;

/// A bundle of three colours, of 44 samples to learn from and 9 to test.
pub(crate) fn bundle(dir: &Path, salt: usize) -> Digest {
    bundle_of(dir, salt, 9)
}

/// Writes the same bundle with `n_val` samples to test.
pub(crate) fn bundle_of(dir: &Path, salt: usize, n_val: usize) -> Digest {
    let media = vec!["image/jpeg".into(), "image/png".into()];
    let encoded = Field::bytes(FieldName::image(), media);
    write_bundle(dir, encoded, n_val, &|i| image(i + salt))
}

/// Writes a bundle whose field `image` has the values that `value` returns.
pub(crate) fn write_bundle(
    dir: &Path,
    image: Field,
    n_val: usize,
    value: &dyn Fn(usize) -> Vec<u8>,
) -> Digest {
    write_labelled(dir, image, n_val, value, &|i| i as i64 % 3)
}

/// Writes the same bundle with the classes that `label` returns.
pub(crate) fn write_labelled(
    dir: &Path,
    image: Field,
    n_val: usize,
    value: &dyn Fn(usize) -> Vec<u8>,
    label: &dyn Fn(usize) -> i64,
) -> Digest {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data).unwrap();
    let payload = if image.is_bytes() { Payload::Encoded } else { Payload::Raw };
    let fields = vec![image, Field::label()];
    let mut shards = Vec::new();
    for (split, samples) in
        [(Split::Train, 0..20), (Split::Train, 20..44), (Split::Val, 44..44 + n_val)]
    {
        if samples.is_empty() {
            continue;
        }
        let mut writer =
            ShardWriter::create(&data, &ShardSpec::new(Envelope::Shards, split, &fields)).unwrap();
        for i in samples {
            let key = BundlePath::parse(&format!("{i}.img")).unwrap();
            let label = label(i).to_le_bytes();
            writer.push(&key, &[&value(i), &label]).unwrap();
        }
        shards.push(writer.finish().unwrap());
    }
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload,
        fields,
        classes: ["red", "green", "blue"].map(String::from).to_vec(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards,
    };
    write_manifest(dir, &manifest).unwrap()
}

pub(crate) fn image(i: usize) -> Vec<u8> {
    let (width, height) = (24 + i % 17, 20 + i % 13);
    let value = |p: usize, c: usize| (p * (i + 3) % 50) as u8 + if c == i % 3 { 180 } else { 40 };
    let pixels: Vec<u8> =
        (0..width * height).flat_map(|p| [value(p, 0), value(p, 1), value(p, 2)]).collect();
    let (width, height) = (width as u32, height as u32);
    if i.is_multiple_of(4) {
        encode_png(&pixels, width, height).unwrap()
    } else {
        encode_jpeg(&pixels, width, height, 90).unwrap()
    }
}

/// A training run in its own folder.
pub(crate) struct Job {
    pub(crate) dir: TempDir,
    pub(crate) bundle: PathBuf,
    pub(crate) options: Vec<String>,
}

impl Job {
    pub(crate) fn new(bundle: &Path, options: &str) -> Self {
        let options = options.split_whitespace().map(String::from).collect();
        Self { dir: tempfile::tempdir().unwrap(), bundle: bundle.to_owned(), options }
    }

    pub(crate) fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gular-train"));
        command.arg("train").arg(&self.bundle).args(["--epochs", &EPOCHS.to_string()]);
        command.args([
            "--batch-size",
            "8",
            "--size",
            "16",
            "--lr",
            "0.01",
            "--json",
            "--device",
            "cpu",
        ]);
        command.arg("--checkpoint-dir").arg(self.checkpoints());
        command.arg("--metrics").arg(self.dir.path().join("metrics"));
        command.args(&self.options).args(more).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, more: &[&str]) -> Output {
        self.command(more).output().unwrap()
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.dir.path().join("checkpoints")
    }

    pub(crate) fn weights(&self) -> Vec<u8> {
        fs::read(self.checkpoints().join("weights.safetensors")).unwrap()
    }

    pub(crate) fn newest(&self) -> PathBuf {
        let latest = fs::read_to_string(self.checkpoints().join("latest")).unwrap();
        self.checkpoints().join(latest.trim())
    }

    /// Lines of `metrics.jsonl` without their times.
    pub(crate) fn metrics(&self) -> Vec<Value> {
        let path = self.dir.path().join("metrics/metrics.jsonl");
        let lines = fs::read_to_string(path).unwrap_or_default();
        let lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines
            .map(|mut line: Value| {
                let line_of = line.as_object_mut().unwrap();
                for timed in ["wall", "images_per_second", "waited_for_data", "synchronising"] {
                    line_of.remove(timed);
                }
                line
            })
            .collect()
    }
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not ended by a signal")
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn report(output: &Output) -> Value {
    assert_eq!(code(output), 0, "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Sends the signal, by the shell: a program `kill` is not on every machine.
pub(crate) fn signal(child: &Child, name: &str) {
    let script = format!("kill -{name} {}", child.id());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
}
