//! Makes small bundles, and damages them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part")]
#![expect(unreachable_pub, reason = "one module of several test programs")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gular_bundle::{
    About, Bundle, BundlePath, DATA_DIR, Digest, Envelope, Field, FieldName, Manifest, OpenOptions,
    Payload, ShardSpec, ShardWriter, Split, write_manifest,
};
use gular_files::Watch;
use gular_verify::{Error, FaultKind, Mode, VerifyOptions, VerifyReport, verify};

pub fn fields() -> Vec<Field> {
    vec![Field::bytes(FieldName::image(), vec!["image/jpeg".into()]), Field::label()]
}

/// Makes two train shards and one of val; sample `i` of a shard has `sizes[i]` bytes.
pub fn make(dir: &Path, sizes: &[usize]) -> Digest {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data).unwrap();
    let mut shards = Vec::new();
    for (number, split) in [Split::Train, Split::Train, Split::Val].into_iter().enumerate() {
        let mut writer =
            ShardWriter::create(&data, &ShardSpec::new(Envelope::Shards, split, &fields()))
                .unwrap();
        for (i, size) in sizes.iter().enumerate() {
            let key = BundlePath::parse(&format!("{split}/c{}/{number}-{i}.jpg", i % 2)).unwrap();
            let image: Vec<u8> = (0..*size).map(|b| (b * 31 + i * 7 + number) as u8).collect();
            writer.push(&key, &[&image, &(i as i64 % 2).to_le_bytes()]).unwrap();
        }
        shards.push(writer.finish().unwrap());
    }
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        fields: fields(),
        classes: vec!["c0".into(), "c1".into()],
        made: BTreeMap::new(),
        about: About::default(),
        statistics: None,
        shards,
    };
    write_manifest(dir, &manifest).unwrap()
}

pub fn run(dir: &Path, mode: Mode, digest: Option<Digest>) -> Result<VerifyReport, Error> {
    let options = VerifyOptions { mode, jobs: 2, digest, max_keys: 3, splits: Vec::new() };
    verify(dir, &options, Watch::silent(&AtomicBool::new(false)))
}

pub fn full(dir: &Path) -> VerifyReport {
    run(dir, Mode::Full, None).unwrap()
}

pub fn kinds(report: &VerifyReport) -> Vec<FaultKind> {
    report.faults.iter().map(|f| f.kind).collect()
}

/// Returns the paths of the first shard and its index.
pub fn first(dir: &Path) -> (PathBuf, PathBuf) {
    let bundle = Bundle::open(dir, OpenOptions::default()).unwrap();
    let entry = &bundle.manifest().shards[0];
    (bundle.path_of(&entry.file), bundle.path_of(&entry.index))
}

pub fn flip(path: &Path, at: usize) {
    // The file is changed in place: one that is truncated and rewritten waits for the disk, which
    // made this a hundred times slower.
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at as u64).unwrap();
}
