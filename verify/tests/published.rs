//! A published bundle: bytes that no server has right are found and named.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::support::{first, flip, kinds, make};
use gular_bundle::{DATA_DIR, Digest, MANIFEST_NAME};
use gular_files::Watch;
use gular_pelican::{Client, ClientOptions, Env, Url};
use gular_verify::{ByteRange, Error, FaultKind, Mode, VerifyOptions, VerifyReport, verify_url};
use tempfile::TempDir;

const BLOCK: usize = 1 << 20;

/// A published bundle as its publisher leaves it: `set/v1/manifest.json` and `set/data/…`.
struct Published {
    dir: TempDir,
    digest: Digest,
}

fn publish(lens: &[usize]) -> Published {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    fs::create_dir_all(set.join("v1")).unwrap();
    let digest = make(&set, lens);
    fs::rename(set.join(MANIFEST_NAME), set.join("v1").join(MANIFEST_NAME)).unwrap();
    Published { dir, digest }
}

impl Published {
    fn check(&self, mode: Mode, digest: Option<Digest>) -> Result<VerifyReport, Error> {
        let client = Client::new(ClientOptions::new(Env::default())).unwrap();
        let url = format!("file://{}/set/v1", self.dir.path().display());
        let options = VerifyOptions { mode, digest, jobs: 2, max_keys: 3, splits: Vec::new() };
        let cancel = AtomicBool::new(false);
        verify_url(&client, &Url::parse(&url).unwrap(), &options, Watch::silent(&cancel))
    }

    fn full(&self) -> VerifyReport {
        self.check(Mode::Full, Some(self.digest)).unwrap()
    }

    /// Returns the paths of the first shard and its index.
    fn first(&self) -> (PathBuf, PathBuf) {
        // The folders are those of a local bundle, which `first` expects.
        let set = self.dir.path().join("set");
        let link = set.join(MANIFEST_NAME);
        fs::copy(set.join("v1").join(MANIFEST_NAME), &link).unwrap();
        let found = first(&set);
        fs::remove_file(link).unwrap();
        found
    }
}

fn renamed(path: &Path) -> PathBuf {
    path.with_file_name(format!("{}~1", path.file_name().unwrap().to_string_lossy()))
}

#[test]
fn a_sound_bundle_is_sound_in_every_mode() {
    let published = publish(&[100, 0, 1_500_000, 700_000]);
    for mode in [Mode::Quick, Mode::Full, Mode::Sample { fraction: 0.3, seed: 1 }] {
        let report = published.check(mode, Some(published.digest)).unwrap();
        assert!(report.sound && report.faults.is_empty(), "{report:?}");
        assert_eq!((report.shards, report.samples), (3, 12));
    }
    let report = published.full();
    assert_eq!((report.samples_checked, report.bytes_read), (12, report.bytes));
    let report = published.check(Mode::Sample { fraction: 1e-9, seed: 3 }, None).unwrap();
    assert!(report.samples_checked == 1 && report.bytes_read < report.bytes, "{report:?}");
}

#[test]
fn a_folder_that_was_copied_as_it_is_is_verified() {
    let published = publish(&[100, 0, 1_500_000]);
    let set = published.dir.path().join("set");
    let own = set.join("v1").join(DATA_DIR);
    fs::rename(set.join(DATA_DIR), &own).unwrap();
    let modes = [Mode::Quick, Mode::Full, Mode::Sample { fraction: 0.3, seed: 1 }];
    let check = || {
        for mode in modes {
            let report = published.check(mode, Some(published.digest)).unwrap();
            assert!(report.sound && report.faults.is_empty(), "{report:?}");
        }
    };
    check();
    for entry in fs::read_dir(&own).unwrap() {
        let entry = entry.unwrap();
        fs::rename(entry.path(), set.join("v1").join(entry.file_name())).unwrap();
    }
    check();
    let (shard, _) = first(&set.join("v1"));
    flip(&shard, 4096 + 5);
    assert_eq!(kinds(&published.full()), [FaultKind::Blocks]);
    fs::remove_file(&shard).unwrap();
    for mode in [Mode::Quick, Mode::Full] {
        let report = published.check(mode, None).unwrap();
        assert_eq!(kinds(&report), [FaultKind::Missing]);
    }
}

#[test]
fn every_bad_block_is_found_with_its_samples() {
    let published = publish(&[1000, 900_000, 900_000, 2_000_000, 50]);
    let (shard, _) = published.first();
    for at in [4096 + 5, 3 * BLOCK + 5] {
        flip(&shard, at);
    }
    let report = published.full();
    assert_eq!(kinds(&report), [FaultKind::Blocks]);
    let fault = &report.faults[0];
    let range = |start: usize, end: usize| ByteRange { start: start as u64, end: end as u64 };
    let len = fs::metadata(&shard).unwrap().len();
    assert_eq!(
        fault.ranges,
        [range(0, BLOCK), range(3 * BLOCK, usize::try_from(len).unwrap().min(4 * BLOCK))]
    );
    assert!(fault.message.starts_with("2 of 4 blocks"), "{}", fault.message);
    assert_eq!((fault.n_keys, fault.keys.len()), (5, 3), "{fault:?}");
    let sample = published.check(Mode::Sample { fraction: 1.0, seed: 1 }, None).unwrap();
    assert_eq!(kinds(&sample), [FaultKind::Blocks]);
    assert!(published.check(Mode::Quick, None).unwrap().sound);
}

#[test]
fn files_that_are_cut_or_gone_are_named() {
    let published = publish(&[60, 90]);
    let (shard, index) = published.first();
    let whole = fs::read(&shard).unwrap();
    for mode in [Mode::Full, Mode::Quick] {
        fs::write(&shard, &whole[..whole.len() - 1]).unwrap();
        let report = published.check(mode, None).unwrap();
        assert_eq!(kinds(&report), [FaultKind::Length], "{report:?}");
        assert_eq!(report.faults[0].n_keys, 2);
        fs::remove_file(&shard).unwrap();
        let report = published.check(mode, None).unwrap();
        assert_eq!(kinds(&report), [FaultKind::Missing], "{report:?}");
        fs::write(&shard, &whole).unwrap();
    }
    flip(&index, 50);
    let report = published.full();
    assert_eq!(kinds(&report), [FaultKind::Index], "{report:?}");
    assert!(report.faults[0].file.starts_with(DATA_DIR), "{report:?}");
    fs::remove_file(&index).unwrap();
    assert_eq!(kinds(&published.full()), [FaultKind::Missing]);
}

#[test]
fn a_sound_copy_under_the_next_name_is_no_fault() {
    let published = publish(&[1000, 1_500_000]);
    let (shard, index) = published.first();
    for file in [&shard, &index] {
        let whole = fs::read(file).unwrap();
        fs::write(renamed(file), &whole).unwrap();
        fs::write(file, &whole[..whole.len() / 2]).unwrap();
    }
    for mode in [Mode::Full, Mode::Quick] {
        let report = published.check(mode, Some(published.digest)).unwrap();
        assert!(report.sound, "{report:?}");
    }
}

#[test]
fn another_manifest_is_a_fault_and_none_an_error() {
    let published = publish(&[60]);
    let asked = Digest::of(b"x");
    let report = published.check(Mode::Full, Some(asked)).unwrap();
    assert_eq!(kinds(&report), [FaultKind::Manifest]);
    let fault = &report.faults[0];
    assert!(fault.message.contains(&format!("expected {asked}")), "{report:?}");
    assert_eq!(fault.expected, Some(asked.to_string()));
    assert!(!fault.advice.contains("publish it again"), "{report:?}");
    let manifest = published.dir.path().join("set/v1").join(MANIFEST_NAME);
    fs::write(&manifest, "{").unwrap();
    assert_eq!(kinds(&published.check(Mode::Full, None).unwrap()), [FaultKind::Manifest]);
    fs::remove_file(&manifest).unwrap();
    let error = published.check(Mode::Full, None).unwrap_err();
    assert!(error.to_string().ends_with("the collection has no `manifest.json`"), "{error}");
}
