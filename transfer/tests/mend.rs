//! Damage of a local copy is found when it is read, and fetched again.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use gular_bundle::{
    Bundle, DATA_DIR, Digest, FieldIdx, MANIFEST_NAME, MadeValue, OpenOptions, Row, SampleId,
    ShardIdx, write_manifest,
};
use gular_pelican::{Client, ClientOptions, Env};
use gular_transfer::{
    BundleOptions, BundleUrl, Cache, Error, FetchOptions, Trust, Watch, fetch, open_bundle, repair,
};

use crate::fetch::{client, flip, publish};
use crate::fixtures::BLOCK;

/// The sample with several blocks.
const BIG: SampleId = SampleId { shard: ShardIdx(1), row: Row(0) };

fn open_from(place: &str, cache: &Path) -> Result<Bundle, Error> {
    let watch = Watch::never();
    let options = BundleOptions { cache: Some(cache.to_owned()), ..BundleOptions::default() };
    let opened = open_bundle(place, &options, &Env::default(), watch)?;
    Ok(opened.bundle)
}

fn read(bundle: &Bundle, sample: SampleId) -> Result<Vec<u8>, gular_bundle::Error> {
    let mut bytes = Vec::new();
    bundle.read(sample, FieldIdx(0), &mut bytes).map(|()| bytes)
}

#[test]
fn a_damaged_index_is_fetched_again_when_its_shard_is_opened() {
    let (published, root) = (publish(), tempfile::tempdir().unwrap());
    let cache = root.path().join("cache");
    let url = published.url().to_string();
    let bundle = open_from(&url, &cache).unwrap();
    let right = read(&bundle, BIG).unwrap();
    let index = bundle.manifest().shards[BIG.shard.0].index.name.to_string();
    let here = cache.join(published.digest.hex()).join(DATA_DIR).join(&index);
    let damages: [&dyn Fn(); 2] = [&|| flip(&here, 100), &|| fs::remove_file(&here).unwrap()];
    for damage in damages {
        let bundle = open_from(&url, &cache).unwrap();
        damage();
        assert_eq!(read(&bundle, BIG).unwrap(), right);
        assert_eq!(bundle.mended(), [(published.big.clone(), 1)]);
        assert_eq!(fs::read(&here).unwrap(), fs::read(published.object(&index)).unwrap());
    }
    // Without a right copy, the first error stays.
    flip(&published.object(&index), 100);
    let bundle = open_from(&url, &cache).unwrap();
    flip(&here, 100);
    let error = read(&bundle, BIG).unwrap_err();
    assert!(matches!(error, gular_bundle::Error::Digest { .. }), "{error}");
}

#[test]
fn a_copy_that_is_recorded_is_repaired() {
    let (published, root) = (publish(), tempfile::tempdir().unwrap());
    let [job, cache, empty] = ["job", "cache", "empty"].map(|name| root.path().join(name));
    published.fetch(&job).unwrap();
    let right = read(&open_from(job.to_str().unwrap(), &empty).unwrap(), BIG).unwrap();
    let damaged = job.join(DATA_DIR).join(&published.big);
    flip(&damaged, BLOCK + 7);
    // Nobody knows where it is from.
    let error = read(&open_from(job.to_str().unwrap(), &empty).unwrap(), BIG).unwrap_err();
    assert!(matches!(error, gular_bundle::Error::SampleDigest(_)), "{error}");
    assert!(!empty.exists());
    Cache::at(Some(&cache), &Env::default()).note_copy(&job, &published.url());
    let bundle = open_from(job.to_str().unwrap(), &cache).unwrap();
    assert_eq!(read(&bundle, BIG).unwrap(), right);
    assert_eq!(bundle.mended(), [(published.big.clone(), 1)]);
    published.check_same(&job);
}

/// A file that has other bytes now, and may be the user's own, keeps them.
#[test]
fn what_may_be_the_users_own_file_is_never_written_to() {
    for case in ["not recorded", "linked file", "linked folder", "hard link", "adopted"] {
        let (mut published, root) = (publish(), tempfile::tempdir().unwrap());
        let [job, cache, other] = ["job", "cache", "other"].map(|name| root.path().join(name));
        if case == "adopted" {
            let plain = published.plain_url();
            let version = Path::new(plain.trim_start_matches("file://"));
            let mut manifest = published.open().manifest().clone();
            manifest.made.insert("adopted".to_owned(), MadeValue::Text("tar".to_owned()));
            fs::remove_file(version.join(MANIFEST_NAME)).unwrap();
            published.digest = write_manifest(version, &manifest).unwrap();
        }
        published.fetch(&job).unwrap();
        let data = job.join(DATA_DIR);
        let big = data.join(&published.big);
        match case {
            "linked file" => {
                fs::rename(&big, &other).unwrap();
                symlink(&other, &big).unwrap();
            }
            "linked folder" => {
                fs::rename(&data, &other).unwrap();
                symlink(&other, &data).unwrap();
            }
            _ => {}
        }
        flip(&fs::canonicalize(&big).unwrap(), BLOCK + 7);
        if case == "hard link" {
            fs::hard_link(&big, &other).unwrap();
        }
        let theirs = fs::read(&big).unwrap();
        let known = Cache::at(Some(&cache), &Env::default());
        let plain: BundleUrl = published.plain_url().parse().unwrap();
        // This is what `gular verify` records.
        known.first_seen(&plain, published.digest).unwrap();
        if case != "not recorded" {
            known.note_copy(&job, &published.url());
        }
        let bundle = open_from(job.to_str().unwrap(), &cache).unwrap();
        let error = read(&bundle, BIG).unwrap_err();
        assert!(matches!(error, gular_bundle::Error::SampleDigest(_)), "{case}: {error}");
        assert!(fs::read(&big).unwrap() == theirs, "{case}");
        assert_eq!(bundle.mended(), [], "{case}");
    }
}

#[test]
fn the_record_of_a_copy_has_no_query_and_is_written_once() {
    let (published, root) = (publish(), tempfile::tempdir().unwrap());
    let [job, other] = ["job", "other"].map(|name| root.path().join(name));
    published.fetch(&job).unwrap();
    let cache = Cache::at(Some(&root.path().join("cache")), &Env::default());
    let known = |dir: &Path| cache.url_of_copy(dir, published.digest).map(|url| url.to_string());
    let plain = format!("pelican://h/ns/a/v1#blake3={}", published.digest.hex());
    let asked: BundleUrl = plain.replace("v1", "v1?directread").parse().unwrap();
    let file = || {
        let mut files = fs::read_dir(cache.root().join("copies")).unwrap();
        (files.next().unwrap().unwrap().metadata().unwrap().ino(), files.count())
    };
    cache.note_copy(&job, &asked);
    let written = file();
    assert_eq!((known(&job), written.1), (Some(plain), 0));
    cache.note_copy(&job, &asked);
    assert_eq!(file(), written);
    // A newer one counts.
    cache.note_copy(&job, &published.url());
    assert_eq!(known(&job), Some(published.url().to_string()));
    assert_eq!(cache.url_of_copy(&job, Digest::of(b"")), None);
    assert_eq!(known(&other), None);
}

#[test]
fn nothing_is_removed_from_a_cache_that_others_may_write_to() {
    let (published, root) = (publish(), tempfile::tempdir().unwrap());
    let cache = Cache::at(Some(&root.path().join("cache")), &Env::default());
    cache.note_copy(root.path(), &published.url());
    let temp = cache.root().join("copies/.gular-tmp-abcdef");
    let old = SystemTime::now() - Duration::from_secs(24 * 3600);
    fs::File::create(&temp).unwrap().set_modified(old).unwrap();
    let mode = |mode| fs::set_permissions(cache.root(), Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    cache.note_copy(root.path(), &published.url());
    assert!(temp.exists());
    mode(0o700);
    cache.note_copy(root.path(), &published.url());
    assert!(!temp.exists());
}

/// A block of one shard cannot be had; that of another one can.
#[test]
fn a_failure_that_stays_is_that_of_its_shard_alone() {
    let (published, root) = (publish(), tempfile::tempdir().unwrap());
    let bundle = open_from(&published.url().to_string(), root.path()).unwrap();
    let data = root.path().join(published.digest.hex()).join(DATA_DIR);
    let other = SampleId { shard: ShardIdx(2), row: Row(0) };
    let name = bundle.manifest().shards[2].file.name.to_string();
    let right = [BIG, other].map(|sample| read(&bundle, sample).unwrap());
    flip(&data.join(&published.big), BLOCK + 7);
    flip(&data.join(&name), 4096 + 10);
    flip(&published.object(&published.big), BLOCK + 7);
    let bundle = open_from(&published.url().to_string(), root.path()).unwrap();
    let mend = |sample| bundle.mend(sample, FieldIdx(0), Watch::never().cancel);
    let failed = mend(BIG).unwrap_err();
    assert!(failed.shard == published.big && !failed.is_passing, "{failed}");
    assert!(mend(other).unwrap());
    assert_eq!(read(&bundle, other).unwrap(), right[1]);
    // The servers are not asked about the first one again so soon.
    flip(&published.object(&published.big), BLOCK + 7);
    assert_eq!(mend(BIG).unwrap_err().to_string(), failed.to_string());
}

/// A server that is away is asked once, and each shard has an error with its own name.
#[test]
fn a_failure_that_may_pass_is_that_of_all_shards_for_a_while() {
    let (published, root) = (publish(), tempfile::tempdir().unwrap());
    open_from(&published.url().to_string(), root.path()).unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/set/v1#blake3=", server.local_addr().unwrap());
    let url = format!("{url}{}", published.digest.hex()).parse().unwrap();
    drop(server);
    let options = ClientOptions::new(Env::default());
    let client = ClientOptions { patience: Duration::from_millis(100), ..options };
    let client = Client::new(client).unwrap();
    let fetch = FetchOptions { trust: Trust::Names, ..FetchOptions::default() };
    let open = OpenOptions::default();
    let cache = Cache::at(Some(root.path()), &Env::default());
    let bundle = cache.open(&client, &url, &fetch, &open, Watch::never()).unwrap().bundle;
    let data = root.path().join(published.digest.hex()).join(DATA_DIR);
    flip(&data.join(&published.big), BLOCK + 7);
    let other = SampleId { shard: ShardIdx(0), row: Row(0) };
    let mend = |sample| bundle.mend(sample, FieldIdx(0), Watch::never().cancel).unwrap_err();
    let first = mend(BIG);
    assert!(first.shard == published.big && first.is_passing, "{first}");
    let begun = Instant::now();
    let second = mend(other);
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(second.shard, bundle.manifest().shards[0].file.name.to_string());
    assert!(second.reason.contains("servers failed for another shard: "), "{second}");
}

#[test]
fn a_manifest_that_does_not_come_ends_with_the_run() {
    let (published, root) = (publish(), tempfile::tempdir().unwrap());
    let [job, cache] = ["job", "cache"].map(|name| root.path().join(name));
    published.fetch(&job).unwrap();
    // Nobody answers.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/set/v1#blake3=", server.local_addr().unwrap());
    let url = format!("{url}{}", published.digest.hex()).parse().unwrap();
    Cache::at(Some(&cache), &Env::default()).note_copy(&job, &url);
    let bundle = open_from(job.to_str().unwrap(), &cache).unwrap();
    flip(&job.join(DATA_DIR).join(&published.big), BLOCK + 7);
    fs::remove_file(job.join(MANIFEST_NAME)).unwrap();
    let cancel = AtomicBool::new(false);
    let begun = Instant::now();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            cancel.store(true, Ordering::Relaxed);
        });
        bundle.mend(BIG, FieldIdx(0), &cancel).unwrap_err().to_string()
    });
    assert!(error.ends_with("is damaged, and stopped"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_repair_ends_when_it_is_cancelled_and_is_tried_again_at_once() {
    let (published, root) = (publish(), tempfile::tempdir().unwrap());
    let bundle = open_from(&published.url().to_string(), root.path()).unwrap();
    let big = root.path().join(published.digest.hex()).join(DATA_DIR).join(&published.big);
    flip(&big, BLOCK + 7);
    let cancel = AtomicBool::new(true);
    let error = bundle.mend(BIG, FieldIdx(0), &cancel).unwrap_err().to_string();
    assert!(error.ends_with("is damaged, and stopped"), "{error}");
    assert_eq!(bundle.mended(), []);
    assert!(bundle.mend(BIG, FieldIdx(0), Watch::never().cancel).unwrap());
    assert_eq!(bundle.mended(), [(published.big.clone(), 1)]);
}

/// The disk cannot read one byte of the second block. The test runs once more in a process where this
/// is so.
#[test]
fn what_the_disk_cannot_read_is_fetched_again() {
    if let Ok(dir) = std::env::var("GULAR_BAD_DIR") {
        return with_a_bad_sector(Path::new(&dir));
    }
    for way in ["read", "fetch", "resume", "repair"] {
        let (published, root) = (publish(), tempfile::tempdir().unwrap());
        let library = root.path().join("bad_sector.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_sector.c");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl");
        match cc.status() {
            Ok(status) => assert!(status.success(), "{status}"),
            Err(error) => return eprintln!("skipped: cannot run `cc`: {error}"),
        }
        let job = root.path().join("job");
        published.fetch(&job).unwrap();
        let mut bad = job.join(DATA_DIR).join(&published.big);
        if way == "resume" {
            let temp = bad.with_file_name(format!(".gular-tmp-fetch-{}", published.big));
            fs::rename(&bad, &temp).unwrap();
            bad = temp;
        }
        let url = published.url().to_string();
        let test = "mend::what_the_disk_cannot_read_is_fetched_again";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env("LD_PRELOAD", &library)
            .env("GULAR_BAD_DIR", &job)
            .env("GULAR_BAD_FILE", fs::canonicalize(&bad).unwrap())
            .env("GULAR_BAD_BYTE", (BLOCK + 7).to_string())
            .env("GULAR_BAD_WAY", way)
            .env("GULAR_BAD_URL", &url)
            .output()
            .unwrap();
        assert!(output.status.success(), "{way}: {}", String::from_utf8_lossy(&output.stderr));
        published.check_same(&job);
    }
}

fn with_a_bad_sector(job: &Path) {
    let [url, way] = ["GULAR_BAD_URL", "GULAR_BAD_WAY"].map(|name| std::env::var(name).unwrap());
    let url: BundleUrl = url.parse().unwrap();
    let (watch, options) = (Watch::never(), FetchOptions::default());
    assert_eq!(options.trust, Trust::Nothing);
    let block = BLOCK as u64;
    match way.as_str() {
        "read" => {
            let cache = tempfile::tempdir().unwrap();
            Cache::at(Some(cache.path()), &Env::default()).note_copy(job, &url);
            let bundle = open_from(job.to_str().unwrap(), cache.path()).unwrap();
            read(&bundle, BIG).unwrap();
            let mended: Vec<u64> = bundle.mended().iter().map(|(_, n)| *n).collect();
            assert_eq!(mended, [1]);
        }
        "repair" => {
            let report = repair(&client(), &[url], job, &options, watch).unwrap();
            assert_eq!((report.bytes_repaired, report.copies[0].blocks), (block, 1));
        }
        _ => {
            let client = Client::new(ClientOptions::new(Env::default())).unwrap();
            let remote = gular_transfer::RemoteBundle::open(&client, &url, watch).unwrap();
            let report = fetch(&client, &remote, job, &options, watch).unwrap();
            let least = if way == "fetch" { 1 } else { 2 };
            let blocks = report.bytes_fetched.div_ceil(block);
            assert_eq!(blocks, least, "{report:?}");
        }
    }
}
