//! A bundle as an artifact, and fetches from a source that is not a federation.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use gular_bundle::{DATA_DIR, Digest, FileEntry, MANIFEST_NAME};
use gular_transfer::{
    Blocks, BundleFiles, Error, FetchOptions, FetchReport, ManifestFile, SoundBundle, Watch,
    artifact_files, artifact_title, fetch_from,
};
use tempfile::TempDir;

use crate::fixtures::{self, BLOCK};

/// A source that gives the files of a folder as a registry does: in pieces that are not blocks.
struct Lent {
    dir: TempDir,
    manifest: ManifestFile,
    /// The position of a wrong byte, in files that are long enough.
    flipped: Option<usize>,
    /// Bytes of shards that the source gives before it fails.
    allowed: AtomicUsize,
}

impl Lent {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fixtures::make(dir.path(), &[100, 2 * BLOCK + 1000, 5000]);
        let bytes = fs::read(dir.path().join(MANIFEST_NAME)).unwrap();
        let manifest = ManifestFile::parse("it", bytes).unwrap();
        let allowed = AtomicUsize::new(usize::MAX);
        Self { dir, manifest, flipped: None, allowed }
    }

    fn bytes(&self, file: &FileEntry) -> Vec<u8> {
        let mut bytes = fs::read(self.dir.path().join(artifact_title(file))).unwrap();
        if let Some(byte) = self.flipped.and_then(|at| bytes.get_mut(at)) {
            *byte ^= 1;
        }
        bytes
    }

    fn fetch(&self, to: &Path) -> Result<FetchReport, Error> {
        let options = FetchOptions { jobs: 1, ..FetchOptions::default() };
        fetch_from(self, to, &options, Watch::never())
    }
}

impl BundleFiles for Lent {
    fn name(&self) -> String {
        "lent".to_owned()
    }

    fn manifest(&self) -> &ManifestFile {
        &self.manifest
    }

    fn read(&self, file: &FileEntry, _watch: Watch<'_>) -> Result<Vec<u8>, Error> {
        let bytes = fs::read(self.dir.path().join(artifact_title(file))).unwrap();
        file.accept("it", &bytes)?;
        Ok(bytes)
    }

    fn stream(
        &self,
        file: &FileEntry,
        accepts: &(dyn Fn(u64, &[u8]) -> bool + Sync),
        blocks: std::ops::Range<u64>,
        sink: &mut gular_pelican::Sink<'_>,
        _watch: Watch<'_>,
    ) -> Result<(), Error> {
        let bytes = self.bytes(file);
        let from = blocks.start as usize * BLOCK;
        let mut blocks = Blocks::new(file, accepts, blocks, sink);
        for piece in bytes[from..].chunks(300_000) {
            let left = self.allowed.load(Ordering::Relaxed);
            if left < piece.len() {
                let message = "the connection was lost".to_owned();
                return Err(Error::Source { message, hint: None, passes: false });
            }
            self.allowed.store(left - piece.len(), Ordering::Relaxed);
            if blocks.take(piece).is_err() {
                break;
            }
        }
        blocks.end()
    }
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let below = |dir: PathBuf| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = below(dir.join(DATA_DIR)).chain([dir.join(MANIFEST_NAME)]).collect();
    all.sort();
    let short = |path: &PathBuf| path.strip_prefix(dir).unwrap().to_owned();
    all.iter().map(|path| (short(path), fs::read(path).unwrap())).collect()
}

#[test]
fn any_source_gives_the_same_bundle() {
    let lent = Lent::new();
    let to = tempfile::tempdir().unwrap();
    let dir = to.path().join("b");
    let report = lent.fetch(&dir).unwrap();
    assert_eq!((&*report.url, report.digest), ("lent", Some(lent.manifest.digest())));
    assert_eq!((report.bytes_fetched, report.bytes_kept), (report.bytes, 0));
    assert!(files(&dir) == files(lent.dir.path()));
    let again = lent.fetch(&dir).unwrap();
    assert_eq!((again.bytes_fetched, again.bytes_kept), (0, report.bytes));
}

#[test]
fn a_source_that_fails_is_asked_for_the_rest_alone() {
    let lent = Lent::new();
    let to = tempfile::tempdir().unwrap();
    lent.allowed.store(BLOCK + 500_000, Ordering::Relaxed);
    let error = lent.fetch(to.path()).unwrap_err();
    assert!(matches!(&error, Error::Source { message, .. } if message.contains("lost")), "{error}");
    assert!(!to.path().join(MANIFEST_NAME).exists());
    lent.allowed.store(usize::MAX, Ordering::Relaxed);
    let report = lent.fetch(to.path()).unwrap();
    assert!(report.bytes_kept > BLOCK as u64, "{report:?}");
    assert!(files(to.path()) == files(lent.dir.path()));
}

#[test]
fn a_block_that_is_not_the_one_packed_is_named_and_not_kept() {
    let flipped = Some(BLOCK + 5);
    let lent = Lent { flipped, ..Lent::new() };
    let to = tempfile::tempdir().unwrap();
    let error = lent.fetch(to.path()).unwrap_err().to_string();
    assert!(
        error.ends_with(&format!(
            "is damaged: bytes {BLOCK} to {} differ from what was packed",
            2 * BLOCK
        )),
        "{error}"
    );
    assert!(!to.path().join(MANIFEST_NAME).exists());
}

#[test]
fn an_artifact_lists_the_manifest_and_each_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let digest = fixtures::make(dir.path(), &[100]);
    let sound = SoundBundle::prove(dir.path(), |_| Ok::<Digest, Error>(digest)).unwrap();
    let listed = artifact_files(&sound).unwrap();
    let kinds: Vec<_> =
        listed.iter().map(|file| file.media_type.rsplit('.').next().unwrap()).collect();
    assert_eq!(kinds, ["v1+json", "shards", "safetensors", "shards", "safetensors"]);
    for file in &listed {
        let bytes = fs::read(dir.path().join(&file.title)).unwrap();
        assert_eq!((Digest::of(&bytes), bytes.len() as u64), (file.digest, file.bytes));
        assert_eq!(file.path, dir.path().join(&file.title));
    }
    assert_eq!(listed[0].title, "manifest.json");
    assert!(listed[1].title.starts_with("data/train-"), "{listed:?}");
}
