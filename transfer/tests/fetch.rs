//! Fetches of a published bundle, and the node's cache, over `file://`: the same code as over a
//! network, from the checks of blocks to the rename.

use crate::fixtures;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::fixtures::BLOCK;
use gular_bundle::{
    Bundle, DATA_DIR, Digest, FieldIdx, MANIFEST_NAME, OpenOptions, Row, ShardEntry, Split, View,
    write_manifest,
};
use gular_files::{Lock, LockMode, TEMP_PREFIX};
use gular_pelican::{Client, ClientOptions, Env};
use gular_transfer::{
    BundleOptions, BundleUrl, Cache, Error, FetchOptions, FetchReport, RemoteBundle, Trust, Watch,
    fetch, fetch_object, object_here, open_bundle,
};
use tempfile::TempDir;

/// A bundle as an origin stores it: `set/v1/manifest.json`, `set/data/…`.
pub(crate) struct Published {
    dir: TempDir,
    pub(crate) digest: Digest,
    /// Name of the bundle's largest shard, which has more than one block.
    pub(crate) big: String,
}

pub(crate) fn publish() -> Published {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    let digest = fixtures::make(&set, &[100, 2 * BLOCK + 1000, 5000]);
    let big = open(&set).manifest().shards[1].file.name.to_string();
    fs::create_dir(set.join("v1")).unwrap();
    fs::rename(set.join(MANIFEST_NAME), set.join("v1").join(MANIFEST_NAME)).unwrap();
    Published { dir, digest, big }
}

fn open(dir: &Path) -> Bundle {
    Bundle::open(dir, OpenOptions::default()).unwrap()
}

impl Published {
    pub(crate) fn url(&self) -> BundleUrl {
        format!("{}#blake3={}", self.plain_url(), self.digest.hex()).parse().unwrap()
    }

    pub(crate) fn plain_url(&self) -> String {
        format!("file://{}/set/v1", self.dir.path().display())
    }

    pub(crate) fn object(&self, name: &str) -> PathBuf {
        self.dir.path().join("set").join(DATA_DIR).join(name)
    }

    /// Opens it as a local bundle.
    pub(crate) fn open(&self) -> Bundle {
        open(&self.dir.path().join("set/v1"))
    }

    pub(crate) fn fetch(&self, to: &Path) -> Result<FetchReport, Error> {
        self.fetch_with(to, &FetchOptions::default())
    }

    fn fetch_with(&self, to: &Path, options: &FetchOptions) -> Result<FetchReport, Error> {
        let (client, watch) = (client(), Watch::never());
        let remote = RemoteBundle::open(&client, &self.url(), watch)?;
        fetch(&client, &remote, to, options, watch)
    }

    /// Checks that `dir` has the whole bundle, byte for byte, and nothing else.
    pub(crate) fn check_same(&self, dir: &Path) {
        let names = |dir: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let (ours, theirs) = (dir.join(DATA_DIR), self.dir.path().join("set").join(DATA_DIR));
        assert_eq!(names(&ours), names(&theirs));
        for name in names(&ours) {
            assert_eq!(fs::read(ours.join(&name)).unwrap(), fs::read(theirs.join(&name)).unwrap());
        }
        let manifest = fs::read(dir.join(MANIFEST_NAME)).unwrap();
        assert_eq!(Digest::of(&manifest), self.digest);
    }
}

pub(crate) fn client() -> Client {
    Client::new(ClientOptions::new(Env::default())).unwrap()
}

pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_fetched_bundle_is_the_published_one() {
    let published = publish();
    let to = tempfile::tempdir().unwrap();
    let dir = to.path().join("b");
    let dry = FetchOptions { dry_run: true, ..FetchOptions::default() };
    let report = published.fetch_with(&dir, &dry).unwrap();
    assert!(report.dry_run && !dir.exists());
    let report = published.fetch(&dir).unwrap();
    assert_eq!((report.bytes_fetched, report.bytes_kept), (report.bytes, 0));
    published.check_same(&dir);
    // When it is run again, everything is checked and kept.
    let again = published.fetch(&dir).unwrap();
    assert_eq!((again.bytes_fetched, again.bytes_kept), (0, report.bytes));
}

/// The bundle has one shard, in which one sample belongs to `train` and one to `val`.
#[test]
fn a_shard_that_is_listed_twice_is_fetched_and_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    fixtures::make(&set, &[BLOCK + 1000]);
    let mut manifest = open(&set).manifest().clone();
    let shard = manifest.shards.swap_remove(0);
    manifest.shards = [(Split::Train, 0), (Split::Val, 1)]
        .map(|(split, row)| {
            let view = View::new(2, [Row(row)], Vec::new()).unwrap();
            let (file, bytes) = view.file(split, shard.index.digest).unwrap();
            fs::write(set.join(DATA_DIR).join(file.name.as_str()), bytes).unwrap();
            ShardEntry { split, samples: 1, view: Some(file), ..shard.clone() }
        })
        .to_vec();
    fs::create_dir(set.join("v1")).unwrap();
    let digest = write_manifest(&set.join("v1"), &manifest).unwrap();
    let published = Published { dir, digest, big: shard.file.name.to_string() };
    let bytes = manifest.files().fold(manifest.to_bytes().len() as u64, |sum, f| sum + f.bytes);

    let to = tempfile::tempdir().unwrap();
    let to = to.path().join("b");
    let dry = FetchOptions { dry_run: true, ..FetchOptions::default() };
    let counts = |report: FetchReport| (report.files, report.bytes_fetched, report.bytes_kept);
    assert_eq!(counts(published.fetch_with(&to, &dry).unwrap()), (5, bytes, 0));
    assert_eq!(counts(published.fetch(&to).unwrap()), (5, bytes, 0));
    assert_eq!(counts(published.fetch(&to).unwrap()), (5, 0, bytes));
    let found = open(&to);
    assert_eq!((found.n_samples(Split::Train), found.n_samples(Split::Val)), (1, 1));

    let cache = Some(published.dir.path().join("cache"));
    let options =
        BundleOptions { cache, cache_limit_bytes: Some(bytes), ..BundleOptions::default() };
    let (url, watch) = (published.url().to_string(), Watch::never());
    open_bundle(&url, &options, &Env::default(), watch).unwrap();
}

/// The folder is as `pelican object put -r` or rclone leave it, or as in a job's sandbox.
#[test]
fn a_folder_that_was_copied_as_it_is_can_be_fetched() {
    let published = publish();
    let set = published.dir.path().join("set");
    let (shared, version) = (set.join(DATA_DIR), set.join("v1"));
    // The folders are tried in the order in which they are looked for; each has what the one before
    // had.
    let to = tempfile::tempdir().unwrap();
    let check = |name: &str| {
        let dir = to.path().join(name);
        published.fetch(&dir).unwrap();
        let (digest, found) = (published.digest, open(&dir));
        assert_eq!(found.digest(), digest);
        found.check_lengths().unwrap();
        assert_eq!(published.fetch(&dir).unwrap().bytes_fetched, 0);
    };
    check("published");
    let own = version.join(DATA_DIR);
    fs::rename(&shared, &own).unwrap();
    check("copied");
    // The name is one that a cut upload made unusable, at the origin whose folder was copied.
    let burned = own.join(&published.big);
    fs::rename(&burned, format!("{}~1", burned.display())).unwrap();
    check("gone");
    fs::write(&burned, "cut").unwrap();
    check("burned");
    for entry in fs::read_dir(&own).unwrap() {
        let entry = entry.unwrap();
        fs::rename(entry.path(), version.join(entry.file_name())).unwrap();
    }
    check("flat");
    // Data of another version beside it has no effect.
    fixtures::make(&set, &[7]);
    check("beside another");
    // An error about missing data names the place where it would be published.
    fs::remove_dir_all(&set).unwrap();
    fs::create_dir_all(&version).unwrap();
    fs::copy(to.path().join("flat").join(MANIFEST_NAME), version.join(MANIFEST_NAME)).unwrap();
    let error = published.fetch(&to.path().join("none")).unwrap_err().to_string();
    assert!(error.contains("/set/data/"), "{error}");
}

#[test]
fn a_split_alone_is_a_bundle_that_can_be_completed() {
    let published = publish();
    let to = tempfile::tempdir().unwrap();
    let some = FetchOptions { splits: vec![Split::Val], ..FetchOptions::default() };
    let report = published.fetch_with(to.path(), &some).unwrap();
    assert_eq!(report.files, 3);
    assert_eq!(fs::read_dir(to.path().join(DATA_DIR)).unwrap().count(), 2);
    let bundle = open(to.path());
    bundle.read(bundle.locate(Split::Val, 0).unwrap(), FieldIdx(0), &mut Vec::new()).unwrap();
    published.fetch(to.path()).unwrap();
    published.check_same(to.path());
}

#[test]
fn what_a_killed_run_left_is_checked_and_kept() {
    let published = publish();
    let whole = fs::read(published.object(&published.big)).unwrap();
    let check = |left: &[u8], kept_blocks: usize| {
        let to = tempfile::tempdir().unwrap();
        let data = to.path().join(DATA_DIR);
        fs::create_dir(&data).unwrap();
        fs::write(data.join(format!("{TEMP_PREFIX}fetch-{}", published.big)), left).unwrap();
        let report = published.fetch(to.path()).unwrap();
        assert_eq!(report.bytes_kept, (kept_blocks * BLOCK) as u64);
        published.check_same(to.path());
    };
    check(&whole[..BLOCK], 1);
    check(&whole[..2 * BLOCK - 1], 1);
    check(&whole[..10], 0);
    let mut damaged = whole[..2 * BLOCK].to_vec();
    damaged[BLOCK + 5] ^= 1;
    check(&damaged, 1);
    check(&[0; 4 * BLOCK], 0);
}

/// Small files are written under random names, which no later run uses again.
#[test]
fn a_fetch_that_ends_leaves_no_temporary_file_of_a_killed_one() {
    let published = publish();
    let to = tempfile::tempdir().unwrap();
    let data = to.path().join(DATA_DIR);
    fs::create_dir(&data).unwrap();
    let left = [data.join(format!("{TEMP_PREFIX}aB3xYz")), to.path().join(".gular-tmp-000000")];
    left.iter().for_each(|path| fs::write(path, b"{\"name\": ").unwrap());
    published.fetch(to.path()).unwrap();
    published.check_same(to.path());
}

#[test]
fn a_damaged_local_file_is_fetched_again() {
    let published = publish();
    let to = tempfile::tempdir().unwrap();
    published.fetch(to.path()).unwrap();
    flip(&to.path().join(DATA_DIR).join(&published.big), BLOCK + 7);
    let index = published.big.replace(".safetensors", ".index.safetensors");
    // Its index has another name, that of its own digest; any index is used.
    let any_index = fs::read_dir(to.path().join(DATA_DIR))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.to_string_lossy().contains(".index."))
        .unwrap();
    assert_ne!(any_index.file_name().unwrap().to_string_lossy(), index);
    flip(&any_index, 100);
    published.fetch(to.path()).unwrap();
    published.check_same(to.path());
}

#[test]
fn of_a_damaged_local_file_only_the_damaged_blocks_are_fetched() {
    let published = publish();
    let to = tempfile::tempdir().unwrap();
    published.fetch(to.path()).unwrap();
    let big = to.path().join(DATA_DIR).join(&published.big);
    for damage in [&[BLOCK + 7][..], &[0, 2 * BLOCK + 3]] {
        damage.iter().for_each(|at| flip(&big, *at));
        let report = published.fetch(to.path()).unwrap();
        assert!(report.bytes_fetched <= (damage.len() * BLOCK) as u64, "{report:?}");
        assert!(report.bytes_fetched >= 1000, "{report:?}");
        published.check_same(to.path());
    }
    // A file that was cut short is complete again.
    let bytes = fs::read(&big).unwrap();
    fs::remove_file(&big).unwrap();
    fs::write(&big, &bytes[..BLOCK + 10]).unwrap();
    let report = published.fetch(to.path()).unwrap();
    assert_eq!(report.bytes_fetched, (bytes.len() - BLOCK) as u64);
    published.check_same(to.path());
}

/// Two copies have different faults, and each block is right in one of them.
#[test]
fn a_bundle_is_repaired_from_copies_of_which_none_is_whole() {
    let published = publish();
    let copy = |name: &str| {
        let copy = published.dir.path().join(name);
        published.fetch(&copy).unwrap();
        copy
    };
    let [own, a, b] = ["own", "a", "b"].map(copy);
    let big = |dir: &Path| dir.join(DATA_DIR).join(&published.big);
    let url = |dir: &Path| -> BundleUrl { format!("file://{}", dir.display()).parse().unwrap() };
    let (client, watch) = (client(), Watch::never());
    let repair = |from: &[&Path]| {
        let from: Vec<BundleUrl> = from.iter().map(|dir| url(dir)).collect();
        let options = FetchOptions::default();
        gular_transfer::repair(&client, &from, &own, &options, watch)
    };
    let files = |dir: &Path| {
        let names = fs::read_dir(dir.join(DATA_DIR)).unwrap().map(|e| e.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    flip(&big(&own), 5);
    flip(&big(&own), BLOCK + 5);
    flip(&big(&a), 9);
    flip(&big(&b), BLOCK + 9);
    // One copy has no manifest, and the other lacks a file that is here.
    fs::remove_file(a.join(MANIFEST_NAME)).unwrap();
    let index = files(&own).into_iter().find(|name| name.contains(".index.")).unwrap();
    fs::remove_file(b.join(DATA_DIR).join(&index)).unwrap();
    // One copy alone is not enough, and the file that is here stays as it is.
    let before = fs::read(big(&own)).unwrap();
    let failed = repair(&[&a]).unwrap().failed;
    assert_eq!((failed.len(), &failed[0].file), (1, &published.big), "{failed:?}");
    assert!(failed[0].error.contains("bytes 0 to 1048576 differ"), "{failed:?}");
    assert_eq!(fs::read(big(&own)).unwrap(), before);

    fs::remove_file(own.join(DATA_DIR).join(&index)).unwrap();
    let report = repair(&[&a, &b]).unwrap();
    let blocks: Vec<u64> = report.copies.iter().map(|copy| copy.blocks).collect();
    assert_eq!((blocks, report.copies[0].indexes), (vec![1, 1], 1), "{report:?}");
    published.check_same(&own);
    let again = repair(&[&a, &b]).unwrap();
    assert_eq!((again.bytes_repaired, again.bytes_kept), (0, again.bytes));
}

/// The first block is right in a copy that was cut short, the others in one that has more bytes.
#[test]
fn copies_of_other_lengths_give_the_blocks_that_they_have_right() {
    let published = publish();
    let copy = |name: &str| {
        let copy = published.dir.path().join(name);
        published.fetch(&copy).unwrap();
        copy
    };
    let [own, short, long] = ["own", "short", "long"].map(copy);
    let big = |dir: &Path| dir.join(DATA_DIR).join(&published.big);
    let whole = fs::read(big(&own)).unwrap();
    let write = |dir: &Path, bytes: &[u8]| {
        fs::remove_file(big(dir)).unwrap();
        fs::write(big(dir), bytes).unwrap();
    };
    let (client, watch) = (client(), Watch::never());
    let repair = |from: &[&Path]| {
        let url = |dir: &&Path| format!("file://{}", dir.display()).parse().unwrap();
        let (from, options) = (from.iter().map(url).collect::<Vec<BundleUrl>>(), <_>::default());
        gular_transfer::repair(&client, &from, &own, &options, watch).unwrap()
    };
    write(&short, &whole[..BLOCK + 10]);
    write(&long, &[&whole[..], b"more"].concat());
    flip(&big(&long), 3);
    let damaged = vec![0; whole.len()];
    write(&own, &damaged);
    let alone = repair(&[&short]);
    let error = &alone.failed[0].error;
    assert!(error.contains(&format!("it has {} bytes, expected ", BLOCK + 10)), "{error}");
    assert!(fs::read(big(&own)).unwrap() == damaged && alone.bytes_repaired == 0);

    // The block that it had right was kept beside the file.
    let report = repair(&[&long, &short]);
    let blocks: Vec<u64> = report.copies.iter().map(|copy| copy.blocks).collect();
    assert_eq!((report.failed.len(), blocks), (0, vec![2, 0]));
    published.check_same(&own);
    write(&own, &damaged);
    let report = repair(&[&short, &long]);
    let blocks: Vec<u64> = report.copies.iter().map(|copy| copy.blocks).collect();
    assert_eq!((report.failed.len(), blocks), (0, vec![1, 2]));
    assert_eq!(report.bytes_repaired, whole.len() as u64);
    published.check_same(&own);
    // A fetch of the longer copy fails, as before.
    flip(&big(&long), 3);
    let url = format!("file://{}#blake3={}", long.display(), published.digest.hex());
    let remote = RemoteBundle::open(&client, &url.parse().unwrap(), watch).unwrap();
    let to = published.dir.path().join("to");
    fetch(&client, &remote, &to, &FetchOptions::default(), watch).unwrap_err();
}

/// Training continues when a byte of the node's cache is damaged.
#[test]
fn a_damaged_block_of_the_nodes_cache_is_fetched_again_when_it_is_read() {
    let published = publish();
    let root = tempfile::tempdir().unwrap();
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    for streamed in [false, true] {
        let cache = root.path().join(format!("cache-{streamed}"));
        let options =
            BundleOptions { cache: Some(cache.clone()), streamed, ..BundleOptions::default() };
        let (url, watch) = (published.url().to_string(), Watch::never());
        let opened = open_bundle(&url, &options, &Env::default(), watch);
        let bundle = opened.unwrap().bundle;
        let shard = gular_bundle::ShardIdx(1);
        let _hold = bundle.source().map(|source| {
            let hold = source.hold(shard, watch.cancel).unwrap();
            source.bring(shard, &|_| 0, watch.cancel).unwrap();
            hold
        });
        let big = cache.join(published.digest.hex()).join(DATA_DIR).join(&published.big);
        flip(&big, BLOCK + 7);
        fs::set_permissions(&big, fs::Permissions::from_mode(0o444)).unwrap();
        let sample = gular_bundle::SampleId { shard, row: Row(0) };
        let mut bytes = Vec::new();
        bundle.read(sample, FieldIdx(0), &mut bytes).unwrap();
        assert_eq!(bundle.mended(), [(published.big.clone(), 1)]);
        assert_eq!(fs::read(&big).unwrap(), fs::read(published.object(&published.big)).unwrap());
        assert_eq!(fs::metadata(&big).unwrap().mode() & 0o777, 0o444);
        // The only copy is damaged, too: the error names the sample.
        flip(&big, BLOCK + 7);
        flip(&published.object(&published.big), BLOCK + 8);
        bundle.close(shard);
        let again = open_bundle(&url, &options, &Env::default(), watch).unwrap();
        let error = again.bundle.read(sample, FieldIdx(0), &mut bytes).unwrap_err();
        assert!(matches!(error, gular_bundle::Error::SampleDigest(_)), "{error}");
        let error = again.bundle.mend(sample, FieldIdx(0), watch.cancel).unwrap_err().to_string();
        assert!(error.contains("its copy in `"), "{error}");
        flip(&published.object(&published.big), BLOCK + 8);
    }
}

#[test]
fn a_damaged_object_is_an_error_that_names_it_and_leaves_no_bundle() {
    let published = publish();
    flip(&published.object(&published.big), BLOCK + 7);
    let to = tempfile::tempdir().unwrap();
    let error = published.fetch(to.path()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&published.big), "{text}");
    assert!(text.contains("bytes 1048576 to 2097152"), "{text}");
    assert!(!to.path().join(MANIFEST_NAME).exists());
    // An undamaged copy under the next name is used.
    let mut sound = fs::read(published.object(&published.big)).unwrap();
    sound[BLOCK + 7] ^= 1;
    fs::write(published.object(&format!("{}~1", published.big)), sound).unwrap();
    let report = published.fetch(to.path()).unwrap();
    assert!(report.bytes_kept >= BLOCK as u64, "{report:?}");
    open(to.path());
}

#[test]
fn other_digests_and_other_folders_are_refused() {
    let published = publish();
    let (client, watch) = (client(), Watch::never());
    let wrong = BundleUrl { digest: Some(Digest::of(b"")), ..published.url() };
    let error = RemoteBundle::open(&client, &wrong, watch).unwrap_err().to_string();
    assert!(error.contains(&published.digest.to_string()) && error.contains("set/v1"), "{error}");

    let to = tempfile::tempdir().unwrap();
    fixtures::make(to.path(), &[3]);
    let before = fs::read(to.path().join(MANIFEST_NAME)).unwrap();
    let error = published.fetch(to.path()).unwrap_err();
    assert!(matches!(error, Error::OtherBundle { .. }), "{error}");
    assert_eq!(fs::read(to.path().join(MANIFEST_NAME)).unwrap(), before);
}

#[test]
fn nothing_is_written_beside_other_files() {
    let published = publish();
    let fetched = tempfile::tempdir().unwrap();
    published.fetch(fetched.path()).unwrap();
    let manifest = fs::read(fetched.path().join(MANIFEST_NAME)).unwrap();
    // The folder contains these files.
    let check = |files: &[(&str, &[u8])], refused: Option<&str>| {
        let to = tempfile::tempdir().unwrap();
        fs::create_dir(to.path().join(DATA_DIR)).unwrap();
        for (name, bytes) in files {
            fs::write(to.path().join(name), bytes).unwrap();
        }
        let result = published.fetch(to.path());
        match (&result, refused) {
            (Ok(_), None) => published.check_same(to.path()),
            (Err(Error::NotEmpty { found, .. }), Some(expected)) => assert_eq!(found, expected),
            _ => panic!("{files:?}: {result:?}"),
        }
        for (name, bytes) in files.iter().filter(|_| refused.is_some()) {
            assert_eq!(fs::read(to.path().join(name)).unwrap(), *bytes);
        }
    };
    check(&[], None);
    check(&[("notes.txt", b"mine")], Some("notes.txt"));
    check(&[("data/theirs.bin", b"x"), ("z", b"")], Some("data/theirs.bin"));
    check(&[(MANIFEST_NAME, b"{\"name\": \"a web page\"}")], Some(MANIFEST_NAME));
    // Files that a stopped fetch left are accepted, whatever else is in the folder by now.
    let partial = format!("{DATA_DIR}/{TEMP_PREFIX}fetch-{}", published.big);
    let result = {
        let to = tempfile::tempdir().unwrap();
        fs::create_dir(to.path().join(DATA_DIR)).unwrap();
        fs::write(to.path().join(&partial), b"x").unwrap();
        fs::write(to.path().join("job.log"), b"x").unwrap();
        published.fetch(to.path())
    };
    assert!(result.is_ok(), "{result:?}");
    check(&[(&format!("{DATA_DIR}/{TEMP_PREFIX}fetch.lock"), b"")], None);
    // The folder only has a manifest that was cut short by a copy.
    check(&[(MANIFEST_NAME, &manifest[..manifest.len() / 2])], None);
}

#[test]
fn a_damaged_manifest_is_replaced_and_said() {
    let published = publish();
    let to = tempfile::tempdir().unwrap();
    let first = published.fetch(to.path()).unwrap();
    assert!(!first.manifest_mended);
    let path = to.path().join(MANIFEST_NAME);
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[0] ^= 1;
    for damaged in [&whole[..whole.len() / 2], &[], &flipped] {
        fs::write(&path, damaged).unwrap();
        let dry = FetchOptions { dry_run: true, ..FetchOptions::default() };
        assert!(published.fetch_with(to.path(), &dry).unwrap().manifest_mended);
        assert_eq!(fs::read(&path).unwrap(), damaged);
        let trusting = FetchOptions { trust: Trust::Names, ..FetchOptions::default() };
        let report = published.fetch_with(to.path(), &trusting).unwrap();
        assert!(report.manifest_mended);
        assert_eq!(report.bytes_fetched, whole.len() as u64);
        published.check_same(to.path());
    }
    // Another bundle's manifest is undamaged, and is kept.
    let other = tempfile::tempdir().unwrap();
    fixtures::make(other.path(), &[3]);
    let other = fs::read(other.path().join(MANIFEST_NAME)).unwrap();
    fs::write(&path, &other).unwrap();
    let error = published.fetch(to.path()).unwrap_err();
    assert!(matches!(error, Error::OtherBundle { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), other);
}

#[test]
fn the_digest_in_the_url_proves_a_copy_without_a_server() {
    let published = publish();
    let (to, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    published.fetch(to.path()).unwrap();
    fixtures::make(other.path(), &[3]);
    fs::remove_dir_all(published.dir.path().join("set")).unwrap();
    let (client, watch) = (client(), Watch::never());
    let copy = RemoteBundle::of_copy(&published.url(), to.path()).unwrap();
    let get = |splits: &[Split]| {
        let options = FetchOptions { splits: splits.to_vec(), ..FetchOptions::default() };
        fetch(&client, &copy, to.path(), &options, watch)
    };
    let report = get(&[]).unwrap();
    assert_eq!((report.bytes_fetched, report.bytes_kept), (0, report.bytes));
    // Damage is still found.
    flip(&to.path().join(DATA_DIR).join(&published.big), BLOCK + 7);
    assert!(get(&[]).unwrap_err().to_string().contains(&published.big));
    assert_eq!(get(&[Split::Val]).unwrap().bytes_fetched, 0);
    let without: BundleUrl = published.plain_url().parse().unwrap();
    assert!(RemoteBundle::of_copy(&without, to.path()).is_none());
    assert!(RemoteBundle::of_copy(&published.url(), other.path()).is_none());
}

#[test]
fn a_cancelled_fetch_goes_on_later() {
    let published = publish();
    let (client, to) = (client(), tempfile::tempdir().unwrap());
    let cancel = AtomicBool::new(false);
    let remote = RemoteBundle::open(&client, &published.url(), Watch::silent(&cancel)).unwrap();
    let stop = |_: u64, _: u64| cancel.store(true, Ordering::Relaxed);
    let options = FetchOptions { jobs: 1, ..FetchOptions::default() };
    let watch = Watch { progress: &stop, ..Watch::silent(&cancel) };
    let error = fetch(&client, &remote, to.path(), &options, watch).unwrap_err();
    assert!(matches!(error, Error::Pelican(gular_pelican::Error::Cancelled)), "{error}");
    assert!(!to.path().join(MANIFEST_NAME).exists());
    published.fetch(to.path()).unwrap();
    published.check_same(to.path());
}

#[test]
fn a_plain_object_is_fetched_with_its_digest_or_without() {
    let published = publish();
    let path = published.object(&published.big);
    let (bytes, len) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().len());
    let (client, watch) = (client(), Watch::never());
    let to = tempfile::tempdir().unwrap();
    let get = |url: &str| {
        let url: BundleUrl = url.parse().unwrap();
        fetch_object(&client, &url, len, to.path(), false, watch)
    };
    let plain = format!("file://{}", path.display());
    let (report, file) = get(&plain).unwrap();
    assert_eq!(fs::read(&file).unwrap(), bytes);
    assert_eq!(report.digest, Some(Digest::of(&bytes)));
    let (report, _) = get(&format!("{plain}#blake3={}", Digest::of(&bytes).hex())).unwrap();
    assert_eq!(report.bytes_fetched, 0);
    // A file that a killed run left is kept only if it is the beginning of the object.
    let with = format!("{plain}#blake3={}", Digest::of(&bytes).hex());
    let left = to.path().join(format!("{TEMP_PREFIX}fetch-{}", published.big));
    for (begun, fetched) in [(&bytes[..BLOCK + 7], len - BLOCK as u64), (&[7; BLOCK][..], len)] {
        fs::remove_file(&file).unwrap();
        fs::write(&left, begun).unwrap();
        assert_eq!(get(&with).unwrap().0.bytes_fetched, fetched);
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
    let other = format!("{plain}#blake3={}", Digest::of(b"").hex());
    let here = |url: &str| object_here(&url.parse().unwrap(), to.path(), watch).unwrap();
    assert_eq!(here(&with).map(|report| report.bytes_kept), Some(len));
    assert!(here(&plain).is_none() && here(&other).is_none());
    // An existing file is never replaced.
    for url in [&plain, &other] {
        let error = get(url).unwrap_err();
        assert!(matches!(error, Error::Occupied { .. }), "{error}");
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
    fs::remove_file(&file).unwrap();
    let error = get(&other).unwrap_err();
    assert!(matches!(error, Error::ObjectDigest { .. }), "{error}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
}

#[test]
fn many_openings_of_one_url_fetch_it_once() {
    let published = publish();
    let root = tempfile::tempdir().unwrap();
    let cache = root.path().join("cache");
    let options = BundleOptions { cache: Some(cache.clone()), ..BundleOptions::default() };
    let fetched = AtomicU64::new(0);
    let total = published.fetch(&root.path().join("whole")).unwrap().bytes;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (url, watch) = (published.url().to_string(), Watch::never());
                let opened = open_bundle(&url, &options, &Env::default(), watch).unwrap();
                assert_eq!(opened.bundle.digest(), published.digest);
                let report = opened.fetched.unwrap();
                fetched.fetch_add(report.bytes_fetched, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(fetched.into_inner(), total);
    published.check_same(&cache.join(published.digest.hex()));
}

#[test]
fn nobody_removes_shards_of_a_cached_bundle_that_is_open() {
    let published = publish();
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::at(Some(root.path()), &Env::default());
    let (client, watch) = (client(), Watch::never());
    let lock = root.path().join(published.digest.hex()).join("data/.gular-tmp-whole.lock");
    let is_kept = || Lock::try_at(&lock, LockMode::Exclusive).unwrap().is_none();
    let (fetch, open) = (FetchOptions::default(), OpenOptions::default());
    let opened = cache.open(&client, &published.url(), &fetch, &open, watch);
    let opened = opened.unwrap();
    assert!(opened.fetched.unwrap().bytes_fetched > 0 && is_kept());
    drop(opened.bundle);
    assert!(!is_kept());
    let bundle = cache.whole(published.digest, &open).unwrap();
    assert!(is_kept());
    drop(bundle);
    assert!(!is_kept());
}

#[test]
fn a_cached_bundle_needs_no_network_and_a_changed_one_is_an_error() {
    let published = publish();
    let root = tempfile::tempdir().unwrap();
    let cache = Cache::at(Some(root.path()), &Env::default());
    let (client, watch) = (client(), Watch::never());
    let options = FetchOptions { trust: Trust::Names, ..FetchOptions::default() };
    let get = |url: &BundleUrl| cache.fetch(&client, url, &options, watch);
    let without: BundleUrl = published.plain_url().parse().unwrap();
    get(&without).unwrap();

    let manifest = published.dir.path().join("set/v1").join(MANIFEST_NAME);
    let other = tempfile::tempdir().unwrap();
    fixtures::make(other.path(), &[3]);
    fs::copy(other.path().join(MANIFEST_NAME), &manifest).unwrap();
    let error = get(&without).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    // With its digest it is found without asking a server.
    fs::remove_dir_all(published.dir.path().join("set")).unwrap();
    let report = get(&published.url()).unwrap();
    assert_eq!(report.digest, Some(published.digest));
}

#[test]
fn splits_that_a_bundle_has_not_are_left_out_and_named_when_none_is_left() {
    let published = publish();
    let root = tempfile::tempdir().unwrap();
    let open = |splits: &[Split]| {
        let cache = Some(root.path().join("cache"));
        let options = BundleOptions { splits: splits.to_vec(), cache, ..BundleOptions::default() };
        let (url, watch) = (published.url().to_string(), Watch::never());
        open_bundle(&url, &options, &Env::default(), watch)
    };
    let opened = open(&[Split::Test, Split::Val]).unwrap();
    assert_eq!(opened.fetched.unwrap().files, 3);
    let error = open(&[Split::Test]).unwrap_err();
    assert_eq!(error.to_string(), "the bundle has no split `test`; it has `train`, `val`");
}

/// A damaged manifest may still be one, and then nobody knows which copy is right.
#[test]
fn manifests_that_differ_are_not_repaired_without_a_digest() {
    let published = publish();
    let copy = |name: &str| {
        let copy = published.dir.path().join(name);
        published.fetch(&copy).unwrap();
        copy
    };
    let [own, a, new] = ["own", "a", "new"].map(copy);
    let manifest = own.join(MANIFEST_NAME);
    let right = fs::read_to_string(&manifest).unwrap();
    // Another number of samples is as readable.
    let at = right.find("\"samples\":").unwrap() + "\"samples\":".len();
    let digit = if right[at..].starts_with('1') { "2" } else { "1" };
    let wrong = format!("{}{digit}{}", &right[..at], &right[at + 1..]);
    fs::remove_file(&manifest).unwrap();
    fs::write(&manifest, wrong).unwrap();
    fs::remove_dir_all(&new).unwrap();
    let (client, watch) = (client(), Watch::never());
    let repair = |dir: &Path, from: &[&Path]| {
        let from = from.iter().map(|dir| format!("file://{}", dir.display()).parse().unwrap());
        let (from, options) = (from.collect::<Vec<BundleUrl>>(), FetchOptions::default());
        gular_transfer::repair(&client, &from, dir, &options, watch)
    };
    for (dir, from) in [(&own, &[&*a][..]), (&new, &[&a, &own])] {
        let error = repair(dir, from).unwrap_err();
        assert!(matches!(error, Error::TwoManifests(_)), "{error}");
    }
    assert_eq!(repair(&new, &[&a]).unwrap().failed.len(), 0);
}
