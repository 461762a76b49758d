//! Training from a URL with windows: shards are fetched from a federation when the order needs
//! them, and are removed from the node's cache for others.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says when it skips"
)]

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use gular_bundle::{
    About, Backend, BundlePath, DATA_DIR, Digest, Dtype, Envelope, Field, FieldName, MANIFEST_NAME,
    Manifest, Payload, ShardSpec, ShardWriter, write_manifest,
};
use gular_federation::{Federation, Options};
use gular_runtime::order::{LoaderState, OrderKind, OrderSpec};
use gular_runtime::{
    Bundle, BundleOptions, Env, Error, Loader, LoaderError, LoaderOptions, OpenOptions, ShardIdx,
    Split, Transform, Watch, open_bundle,
};
use gular_tests::{finish, gular, jpeg, put};
use tempfile::TempDir;

const SIDE: u64 = 16;
const N_SHARDS: usize = 10;
const PER_SHARD: usize = 12;

/// A federation with a bundle of ten shards, and a folder for a node's caches.
struct Site {
    dir: TempDir,
    federation: Federation,
    digest: Digest,
    manifest: Manifest,
}

impl Site {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let served = dir.path().join("fed");
        let options = Options { public_read: true, ..Options::new(&served) };
        let federation = Federation::start(&options).unwrap();
        let local = dir.path().join("local");
        let (digest, manifest) = make(&local);
        let set = served.join("origin/gular/set");
        fs::create_dir_all(set.join(DATA_DIR)).unwrap();
        fs::create_dir(set.join("v1")).unwrap();
        fs::copy(local.join(MANIFEST_NAME), set.join("v1").join(MANIFEST_NAME)).unwrap();
        for entry in fs::read_dir(local.join(DATA_DIR)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, set.join(DATA_DIR).join(path.file_name().unwrap())).unwrap();
        }
        Self { dir, federation, digest, manifest }
    }

    fn url(&self) -> String {
        format!("{}/set/v1#blake3={}", self.federation.url(), self.digest.hex())
    }

    fn local(&self) -> Arc<Bundle> {
        let dir = self.dir.path().join("local");
        Arc::new(Bundle::open(&dir, OpenOptions::default()).unwrap())
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// Returns the bundle's folder in the cache.
    fn data(&self) -> PathBuf {
        self.cache().join(self.digest.hex()).join(DATA_DIR)
    }

    fn open(&self, options: BundleOptions) -> Result<Bundle, Error> {
        open(&self.url(), &self.cache(), self.federation.ca_file(), options)
    }

    /// A copy in the job's folder, which `gular fetch` made.
    fn copy(&self) -> PathBuf {
        let job = self.dir.path().join("job");
        let mut fetch = Command::new(gular());
        fetch.arg("fetch").arg(self.url()).arg(&job);
        fetch.env("GULAR_CACHE", self.cache()).env("SSL_CERT_FILE", self.federation.ca_file());
        let fetched = finish(&mut fetch);
        assert_eq!(fetched.code, Some(0), "{}", fetched.stderr);
        job
    }

    fn streamed(&self, cache_limit_bytes: Option<u64>) -> Arc<Bundle> {
        let options =
            BundleOptions { streamed: true, cache_limit_bytes, ..BundleOptions::default() };
        Arc::new(self.open(options).unwrap())
    }

    /// Puts the caches on a small disk; `None`, with a message, if only root could mount it.
    fn small_disk(&self) -> Option<SmallDisk> {
        fs::create_dir(self.cache()).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"]).arg(self.cache());
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        if !is_mounted {
            println!("skipped: mounting a small tmpfs needs root and mount(8)");
        }
        is_mounted.then(|| SmallDisk(self.cache()))
    }

    fn shard_bytes(&self) -> Vec<u64> {
        self.manifest.shards.iter().map(|shard| shard.file.bytes).collect()
    }

    /// Returns the bytes that the cache needs for `n` shards.
    fn limit(&self, n: u64) -> u64 {
        let manifest = fs::metadata(self.dir.path().join("local").join(MANIFEST_NAME)).unwrap();
        let indexes: u64 = self.manifest.shards.iter().map(|shard| shard.index.bytes).sum();
        manifest.len() + indexes + n * self.shard_bytes().iter().max().unwrap()
    }

    /// Returns how often the bytes of each shard were sent.
    fn fetches(&self) -> Vec<f64> {
        let sent: BTreeMap<String, u64> = self.federation.bytes_sent();
        let of = |name: &str| sent.get(&format!("/gular/set/data/{name}")).copied().unwrap_or(0);
        let shards = self.manifest.shards.iter();
        shards.map(|s| of(s.file.name.as_str()) as f64 / s.file.bytes as f64).collect()
    }
}

fn open(url: &str, cache: &Path, ca: &Path, options: BundleOptions) -> Result<Bundle, Error> {
    let env = Env::from_pairs(&[("SSL_CERT_FILE", ca.to_str().unwrap())]);
    let options = BundleOptions { cache: Some(cache.to_owned()), ..options };
    let cancel = AtomicBool::new(false);
    Ok(open_bundle(url, &options, &env, Watch::silent(&cancel))?.bundle)
}

fn make(dir: &Path) -> (Digest, Manifest) {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data).unwrap();
    let fields =
        vec![Field::fixed(FieldName::image(), Dtype::U8, vec![SIDE, SIDE, 3]), Field::label()];
    let shards = (0..N_SHARDS).map(|shard| {
        let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
        let mut writer = ShardWriter::create(&data, &spec).unwrap();
        for row in 0..PER_SHARD {
            let number = shard * PER_SHARD + row;
            let pixel = |p: u64| (p as usize * 7 + number * 13) as u8;
            let pixels: Vec<u8> = (0..SIDE * SIDE * 3).map(pixel).collect();
            let key = BundlePath::parse(&format!("{number:04}")).unwrap();
            let label = i64::try_from(number % 3).unwrap().to_le_bytes();
            writer.push(&key, &[&pixels, &label]).unwrap();
        }
        writer.finish().unwrap()
    });
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Raw,
        classes: ["a", "b", "c"].map(str::to_owned).into(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards: shards.collect(),
        fields: fields.clone(),
    };
    let digest = write_manifest(dir, &manifest).unwrap();
    (digest, manifest)
}

fn loader_options(kind: OrderKind) -> LoaderOptions {
    let side = u32::try_from(SIDE).unwrap();
    LoaderOptions {
        batch_size: 7,
        order: OrderSpec { kind, seed: 3, drop_last: false },
        transform: Transform::Resize { width: side, height: side },
        threads: 2,
        across_epochs: false,
        ..LoaderOptions::new(Split::Train)
    }
}

fn windows(shards: u64) -> OrderKind {
    OrderKind::Window { shards }
}

/// Returns the keys and pixels of each batch of an epoch, which must be complete.
fn batches(loader: &mut Loader, epoch: u64) -> Vec<(Vec<String>, Digest)> {
    let of_batch = |batch: Result<gular_runtime::Batch, Error>| {
        let batch = batch.unwrap();
        (batch.keys().to_vec(), Digest::of(batch.images()))
    };
    let all = loader.epoch(epoch).map(of_batch).collect();
    if loader.options().world_size == 1 {
        loader.check_delivered(&loader.state()).unwrap();
    }
    all
}

/// The files of a folder and their sizes. A number may be given to a later file again, at another
/// time.
type Files = HashMap<(u64, Option<SystemTime>), u64>;

fn list_files(dir: &Path, files: &mut Files) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => list_files(&path, files),
            Ok(found) => drop(files.insert((found.ino(), found.created().ok()), found.len())),
            Err(_) => {}
        }
    }
}

/// Returns the bytes of the files that a folder has at one moment: those that are found twice were
/// there between the two. What one walk finds need not have been there together.
fn usage(dir: &Path) -> u64 {
    let (mut before, mut after) = (Files::new(), Files::new());
    list_files(dir, &mut before);
    list_files(dir, &mut after);
    before.iter().filter_map(|(file, bytes)| Some(*after.get(file)?.min(bytes))).sum()
}

/// Does `work`, and measures the largest size of `dir` meanwhile.
fn measured<T>(dir: &Path, work: impl FnOnce() -> T) -> (T, u64) {
    let (done, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let worked = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(usage(dir), Ordering::Relaxed);
            }
        });
        // The flag is also set if `work` panics.
        let _done = Done(&done);
        work()
    });
    (worked, most.into_inner())
}

/// Disks allocate whole pages.
const PAGE: usize = 4096;

struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Fills the disk up to `pages` free pages.
    fn fill_but(&self, pages: u64) {
        let mut file = fs::File::create(self.0.join("of-others")).unwrap();
        while file.write_all(&[7; PAGE]).is_ok() {}
        let len = file.metadata().unwrap().len();
        file.set_len(len - pages * PAGE as u64).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A bad byte on the node's disk ends no training run: its block is fetched again, and counted.
#[test]
fn training_continues_when_a_block_in_the_cache_is_damaged() {
    let site = Site::start();
    for (kind, streamed, backend) in [
        (windows(2), true, Backend::Pread),
        (OrderKind::Torch { shuffle: true }, false, Backend::Pread),
        (OrderKind::Elastic, false, Backend::Map),
    ] {
        let run = |bundle: Arc<Bundle>| {
            let mut loader = Loader::new(bundle, loader_options(kind)).unwrap();
            (batches(&mut loader, 0), loader.stats().repaired_blocks)
        };
        let open = || {
            let open = OpenOptions { backend, ..OpenOptions::default() };
            Arc::new(
                site.open(BundleOptions { streamed, open, ..BundleOptions::default() }).unwrap(),
            )
        };
        let expected = run(site.local()).0;
        assert_eq!(run(open()), (expected.clone(), 0));
        let shard = site.data().join(site.manifest.shards[3].file.name.as_str());
        fs::set_permissions(&shard, fs::Permissions::from_mode(0o644)).unwrap();
        let file = fs::File::options().write(true).open(&shard).unwrap();
        file.write_all_at(&[1, 2, 3], 4096 + 1000).unwrap();
        assert_eq!(run(open()), (expected.clone(), 1), "{kind:?}");
        // From now on it is whole.
        assert_eq!(run(open()), (expected, 0), "{kind:?}");
    }
}

fn flip(path: &Path, at: u64) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

/// The copy is in a job's folder; a shard has a wrong byte, and so has the index of another one.
#[test]
fn training_continues_in_a_damaged_copy_that_the_cache_knows() {
    let site = Site::start();
    let run = |bundle: Bundle| {
        let mut loader = Loader::new(Arc::new(bundle), loader_options(OrderKind::Elastic)).unwrap();
        (batches(&mut loader, 0), loader.stats().repaired_blocks)
    };
    let expected = run(site.open(BundleOptions::default()).unwrap()).0;
    let job = site.copy();
    let file = |name: &BundlePath| job.join(DATA_DIR).join(name.as_str());
    flip(&file(&site.manifest.shards[3].file.name), 5000);
    flip(&file(&site.manifest.shards[4].index.name), 200);
    let open_job = || {
        let (job, ca) = (job.to_str().unwrap(), site.federation.ca_file());
        open(job, &site.cache(), ca, BundleOptions::default()).unwrap()
    };
    assert_eq!(run(open_job()), (expected.clone(), 2));
    assert_eq!(run(open_job()), (expected, 0));
}

/// The user makes a tar again that a bundle was made of, and that is published; the program was asked to
/// check and to fetch that bundle before.
#[test]
fn an_adopted_file_that_its_user_changes_keeps_the_users_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (images, tars, adopted, cache) = (at("images"), at("tars"), at("adopted"), at("cache"));
    for i in 0..4 {
        put(&images, format!("train/c/{i}.jpg"), &jpeg(i));
    }
    fs::create_dir(at("site")).unwrap();
    let url = format!("file://{}/v1", at("site").display());
    let gular = |args: &[&str]| {
        let done = finish(Command::new(gular()).args(args).env("GULAR_CACHE", &cache));
        assert_eq!(done.code, Some(0), "{args:?}: {}", done.stderr);
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    gular(&["pack", &text(&images), &text(&tars), "--envelope", "tar", "--quiet"]);
    let tar = fs::read_dir(tars.join(DATA_DIR)).unwrap().map(|entry| entry.unwrap().path());
    let tar = tar.into_iter().find(|path| path.extension().is_some_and(|e| e == "tar")).unwrap();
    gular(&["adopt", &text(&tar), "--out", &text(&adopted)]);
    gular(&["publish", &text(&adopted), &url]);
    gular(&["verify", &url]);
    gular(&["fetch", &url, &text(&adopted)]);
    let mut theirs = fs::read(&tar).unwrap();
    let image = jpeg(2);
    let start = theirs.windows(image.len()).position(|bytes| bytes == image).unwrap();
    theirs[start + image.len() / 2] ^= 1;
    fs::remove_file(&tar).unwrap();
    fs::write(&tar, &theirs).unwrap();
    let bundle = open(&text(&adopted), &cache, &at("no ca"), BundleOptions::default()).unwrap();
    let kind = OrderKind::Torch { shuffle: false };
    let mut loader = Loader::new(Arc::new(bundle), loader_options(kind)).unwrap();
    assert!(loader.epoch(0).any(|batch| batch.is_err()));
    assert!(fs::read(&tar).unwrap() == theirs);
}

/// The disk cannot read one byte: the test runs once more, in a process where this is so.
#[test]
fn training_continues_when_the_disk_cannot_read_a_block() {
    let of_child = ["JOB", "CACHE", "CA"].map(|name| env::var(format!("GULAR_BAD_{name}")).ok());
    if let [Some(job), Some(cache), Some(ca)] = of_child {
        let bundle = open(&job, cache.as_ref(), ca.as_ref(), BundleOptions::default()).unwrap();
        let kind = OrderKind::Torch { shuffle: false };
        let mut loader = Loader::new(Arc::new(bundle), loader_options(kind)).unwrap();
        assert_eq!(batches(&mut loader, 0).len(), (N_SHARDS * PER_SHARD).div_ceil(7));
        assert_eq!(loader.stats().repaired_blocks, 1);
        return;
    }
    let site = Site::start();
    site.open(BundleOptions::default()).unwrap();
    let library = site.dir.path().join("bad_sector.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transfer/tests/bad_sector.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl");
    match cc.status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) => return println!("skipped: cannot run `cc`: {error}"),
    }
    let job = site.copy();
    let bad = job.join(DATA_DIR).join(site.manifest.shards[2].file.name.as_str());
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "training_continues_when_the_disk_cannot_read_a_block", "--nocapture"])
        .env("LD_PRELOAD", &library)
        .env("GULAR_BAD_FILE", fs::canonicalize(bad).unwrap())
        .env("GULAR_BAD_BYTE", "5000")
        .env("GULAR_BAD_JOB", &job)
        .env("GULAR_BAD_CACHE", site.cache())
        .env("GULAR_BAD_CA", site.federation.ca_file())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn ten_shards_through_a_cache_with_room_for_three_give_the_local_tensors() {
    let site = Site::start();
    let limit = site.limit(3);
    for window in [1, 2, 3] {
        fs::remove_dir_all(site.cache()).ok();
        let before = site.fetches();
        let mut local = Loader::new(site.local(), loader_options(windows(window))).unwrap();
        let dir = site.cache().join(site.digest.hex());
        let (n_kept, most) = measured(&dir, || {
            let bundle = site.streamed(Some(limit));
            let mut loader = Loader::new(bundle, loader_options(windows(window))).unwrap();
            assert_eq!(batches(&mut loader, 0), batches(&mut local, 0), "window {window}");
            let first: Vec<f64> =
                site.fetches().iter().zip(&before).map(|(now, then)| now - then).collect();
            assert_eq!(first, [1.0; N_SHARDS], "window {window}");
            assert_eq!(batches(&mut loader, 1), batches(&mut local, 1), "window {window}");
            let second = site.fetches().into_iter().zip(&before).map(|(now, then)| now - then);
            let second: Vec<f64> = second.collect();
            // Shards that were left from the epoch before need not be fetched again.
            assert!(second.iter().all(|n| *n == 1.0 || *n == 2.0), "window {window}: {second:?}");
            second.iter().filter(|n| **n == 1.0).count()
        });
        assert!(n_kept <= 3, "window {window}: {n_kept}");
        assert!(most <= limit, "window {window}: {most} of {limit}");
    }
}

#[test]
fn what_fits_is_fetched_once_and_the_next_epoch_is_made_ahead() {
    let site = Site::start();
    for cache_limit in [None, Some(site.limit(10))] {
        fs::remove_dir_all(site.cache()).ok();
        let before = site.fetches();
        let options = || LoaderOptions { across_epochs: true, ..loader_options(windows(2)) };
        let mut loader = Loader::new(site.streamed(cache_limit), options()).unwrap();
        let mut local = Loader::new(site.local(), options()).unwrap();
        for epoch in 0..3 {
            assert_eq!(batches(&mut loader, epoch), batches(&mut local, epoch), "epoch {epoch}");
        }
        let fetches: Vec<f64> =
            site.fetches().iter().zip(&before).map(|(now, then)| now - then).collect();
        assert_eq!(fetches, [1.0; N_SHARDS], "{cache_limit:?}");
        // Another process finds the whole bundle in the cache.
        let options =
            BundleOptions { cache_limit_bytes: Some(site.limit(10)), ..BundleOptions::default() };
        let whole = site.open(options).unwrap();
        assert!(whole.source().is_none());
        whole.check_lengths().unwrap();
    }
}

/// The loaders are those of a training run that validates after its first step.
#[test]
fn a_loader_that_nobody_asks_gives_room_to_another() {
    let site = Site::start();
    let bundle = site.streamed(Some(site.limit(3)));
    let mut idle = Loader::new(Arc::clone(&bundle), loader_options(windows(1))).unwrap();
    let mut epoch = idle.epoch(0);
    let first = epoch.next().unwrap().unwrap();
    // The loader is left alone until it holds all the space there is: the slots have samples of the
    // first three shards.
    let begun = Instant::now();
    while site.fetches().iter().sum::<f64>() < 5.0 && begun.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(10));
    }
    let mut other = Loader::new(bundle, loader_options(windows(1))).unwrap();
    let (send, got) = mpsc::channel();
    thread::spawn(move || send.send(batches(&mut other, 0).len()));
    assert_eq!(got.recv_timeout(Duration::from_secs(30)), Ok(18));
    drop(first);
    assert_eq!(epoch.map(Result::unwrap).count(), 17);
}

#[test]
fn ranks_of_a_node_share_one_copy() {
    let site = Site::start();
    let (limit, dir) = (site.limit(3), site.cache().join(site.digest.hex()));
    // Two small batches are less than a window, so no rank finishes one before both have begun.
    let options = |rank| LoaderOptions {
        rank,
        world_size: 2,
        batch_size: 4,
        slots: 2,
        ..loader_options(windows(2))
    };
    let (_, most) = measured(&dir, || {
        let ranks = [0, 1].map(|rank| {
            let mut loader = Loader::new(site.streamed(Some(limit)), options(rank)).unwrap();
            loader.begin(0);
            (rank, loader)
        });
        thread::scope(|scope| {
            for (rank, mut loader) in ranks {
                let site = &site;
                scope.spawn(move || {
                    let mut local = Loader::new(site.local(), options(rank)).unwrap();
                    let mut found = Vec::new();
                    while let Some(batch) = loader.next_batch() {
                        let batch = batch.unwrap();
                        found.push((batch.keys().to_vec(), Digest::of(batch.images())));
                    }
                    assert_eq!(found, batches(&mut local, 0), "rank {rank}");
                });
            }
        });
    });
    assert_eq!(site.fetches(), [1.0; N_SHARDS]);
    assert!(most <= limit, "{most} of {limit}");
    // Nobody holds a shard any more.
    let left = fs::read_dir(site.data()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("hold")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_killed_training_goes_on_with_the_same_tensors() {
    let site = Site::start();
    let limit = site.limit(3);
    let mut local = Loader::new(site.local(), loader_options(windows(2))).unwrap();
    let expected = batches(&mut local, 0);
    let state = site.dir.path().join("state");
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("GULAR_TEST_URL", site.url())
        .env("GULAR_TEST_CACHE", site.cache())
        .env("GULAR_TEST_CA", site.federation.ca_file())
        .env("GULAR_TEST_LIMIT", limit.to_string())
        .env("GULAR_TEST_STATE", &state)
        .output()
        .unwrap();
    assert!(!child.status.success(), "{child:?}");
    let state: LoaderState = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
    assert!(state.consumed > 0);
    let mut loader = Loader::new(site.streamed(Some(limit)), loader_options(windows(2))).unwrap();
    loader.restore(&state).unwrap();
    let n_before = usize::try_from(state.consumed).unwrap() / 7;
    assert_eq!(batches(&mut loader, 0), expected[n_before..]);
}

/// The process that [`a_killed_training_goes_on_with_the_same_tensors`] kills.
#[test]
fn child() {
    let Some(url) = env::var_os("GULAR_TEST_URL") else { return };
    let path = |name: &str| PathBuf::from(env::var_os(name).unwrap());
    let limit = env::var("GULAR_TEST_LIMIT").unwrap().parse().ok();
    let options =
        BundleOptions { streamed: true, cache_limit_bytes: limit, ..BundleOptions::default() };
    let (cache, ca) = (path("GULAR_TEST_CACHE"), path("GULAR_TEST_CA"));
    let bundle = open(url.to_str().unwrap(), &cache, &ca, options).unwrap();
    let mut loader = Loader::new(Arc::new(bundle), loader_options(windows(2))).unwrap();
    let mut epoch = loader.epoch(0);
    epoch.by_ref().take(6).for_each(|batch| drop(batch.unwrap()));
    fs::write(path("GULAR_TEST_STATE"), serde_json::to_vec(&epoch.state()).unwrap()).unwrap();
    // The process ends in the middle of everything that it is doing.
    std::process::abort();
}

#[test]
fn a_cache_that_is_too_small_is_an_error_at_the_start() {
    let site = Site::start();
    let check = |limit: u64, kind: OrderKind| {
        Loader::new(site.streamed(Some(limit)), loader_options(kind)).map(drop)
    };
    let error = check(site.limit(3), windows(4)).unwrap_err();
    let Error::Loader(LoaderError::NoRoom { needed, .. }) = &error else { panic!("{error}") };
    check(*needed, windows(4)).unwrap();
    assert!(check(*needed - 1, windows(4)).is_err());
    assert!(error.to_string().contains("4 of its 10 shards at a time, which take "), "{error}");
    // Any other order needs the whole split, and works if there is enough space.
    let error = check(site.limit(9), OrderKind::Elastic).unwrap_err();
    assert!(error.hint().unwrap().contains("`window`"), "{error}");
    let bundle = site.streamed(Some(site.limit(10)));
    let mut loader = Loader::new(bundle, loader_options(OrderKind::Elastic)).unwrap();
    let mut local = Loader::new(site.local(), loader_options(OrderKind::Elastic)).unwrap();
    assert_eq!(batches(&mut loader, 0), batches(&mut local, 0));
    // The whole split is held by one open file, since there may be more shards than a process may
    // open.
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    let data = site.data();
    let is_lock =
        |path: &PathBuf| path.starts_with(&data) && path.to_string_lossy().contains(".gular-tmp");
    let locks: Vec<PathBuf> = open.filter(is_lock).collect();
    assert!(matches!(&locks[..], [one] if one.ends_with(".gular-tmp-split-train")), "{locks:?}");
    drop(loader);
    // The limit also applies if the bundle is opened as a whole.
    let whole = |limit| {
        let options = BundleOptions { cache_limit_bytes: Some(limit), ..BundleOptions::default() };
        site.open(options).map(drop)
    };
    let error = whole(site.limit(9)).unwrap_err();
    assert!(error.hint().unwrap().contains("`window`"), "{error}");
    whole(site.limit(10)).unwrap();
}

#[test]
fn a_disk_that_others_fill_costs_shards_that_nobody_holds_and_not_the_training() {
    let site = Site::start();
    let Some(disk) = site.small_disk() else { return };
    // At the beginning, there is space for all shards.
    let bundle = site.streamed(None);
    disk.fill_but(3 * site.shard_bytes().iter().max().unwrap().div_ceil(PAGE as u64) + 1);
    let mut loader = Loader::new(bundle, loader_options(windows(1))).unwrap();
    let mut local = Loader::new(site.local(), loader_options(windows(1))).unwrap();
    // In the second epoch, every shard that is there is needed later.
    for epoch in 0..3 {
        assert_eq!(batches(&mut loader, epoch), batches(&mut local, epoch), "epoch {epoch}");
    }
    drop(loader);
    // A limit that is larger than the disk has no effect.
    let check = |n| {
        let bundle = site.streamed(Some(site.limit(10)));
        Loader::new(bundle, loader_options(windows(n))).map(drop)
    };
    check(1).unwrap();
    let error = check(9).unwrap_err();
    assert!(matches!(error, Error::Loader(LoaderError::NoRoom { .. })), "{error}");
}

#[test]
fn a_shard_that_does_not_come_is_one_error_that_names_it() {
    let site = Site::start();
    let gone = site.manifest.shards[4].file.name.to_string();
    let object = site.dir.path().join("fed/origin/gular/set/data").join(&gone);
    let bytes = fs::read(&object).unwrap();
    fs::remove_file(&object).unwrap();
    let mut loader =
        Loader::new(site.streamed(Some(site.limit(3))), loader_options(windows(1))).unwrap();
    let last = loader.epoch(0).last().unwrap();
    let error = last.unwrap_err();
    assert!(matches!(error, Error::Loader(LoaderError::Shard(_))), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&gone) && text.contains("/gular/set/v1"), "{text}");
    assert!(error.hint().is_some(), "{text}");
    // The next epoch tries again.
    fs::write(&object, bytes).unwrap();
    let mut local = Loader::new(site.local(), loader_options(windows(1))).unwrap();
    assert_eq!(batches(&mut loader, 1), batches(&mut local, 1));
}

#[test]
fn a_reader_that_is_stopped_does_not_wait_for_the_process_that_fetches_its_shard() {
    let site = Site::start();
    let bundle = site.streamed(None);
    let source = bundle.source().unwrap();
    let name = &site.manifest.shards[0].file.name;
    let other = fs::File::create(site.data().join(format!(".gular-tmp-bring-{name}"))).unwrap();
    other.lock().unwrap();
    let (stopped, (send, ended)) = (AtomicBool::new(false), mpsc::channel());
    let ended = thread::scope(|scope| {
        let stopped = &stopped;
        scope.spawn(move || send.send(source.bring(ShardIdx(0), &|_| 0, stopped)));
        thread::sleep(Duration::from_millis(120));
        stopped.store(true, Ordering::Relaxed);
        let ended = ended.recv_timeout(Duration::from_secs(5));
        drop(other);
        ended
    });
    assert!(ended.unwrap().is_err());
}

#[test]
fn files_that_are_not_the_caches_own_and_bundles_that_are_read_whole_stay() {
    let site = Site::start();
    let limit = site.limit(3);
    drop(site.streamed(Some(limit)));
    let name = site.manifest.shards[4].file.name.to_string();
    let own = site.data().join(&name);
    fs::copy(site.dir.path().join("local").join(DATA_DIR).join(&name), &own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o644)).unwrap();
    let mut loader = Loader::new(site.streamed(Some(limit)), loader_options(windows(1))).unwrap();
    let mut local = Loader::new(site.local(), loader_options(windows(1))).unwrap();
    assert_eq!(batches(&mut loader, 0), batches(&mut local, 0));
    assert!(own.exists());
    drop(loader);

    let whole = site.open(BundleOptions::default()).unwrap();
    let mut loader = Loader::new(site.streamed(Some(limit)), loader_options(windows(1))).unwrap();
    assert_eq!(batches(&mut loader, 0), batches(&mut local, 0));
    whole.check_lengths().unwrap();
}
