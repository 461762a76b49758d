//! Publishing to a folder by `file://` and to the embedded federation: what is stored afterwards,
//! whatever happened meanwhile.

use crate::fixtures;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::fixtures::BLOCK;
use gular_bundle::{Bundle, DATA_DIR, Digest, MANIFEST_NAME, OpenOptions};
use gular_federation::{Caches, Federation, Options, Origin, TokenRequest, mint};
use gular_files::TEMP_PREFIX;
use gular_pelican::{Client, ClientOptions, CompareBy, Env, Error as Pelican, Url};
use gular_transfer::{
    BundleUrl, Checked, Error, FetchOptions, PublishOptions, PublishReport, RemoteBundle,
    SoundBundle, Watch, fetch, fetch_object, fetch_object_by_blocks, publish, publish_file,
    publish_file_with_blocks, read_blocks,
};
use tempfile::TempDir;

/// A place to publish a bundle to, and what is stored there.
struct Target {
    dir: TempDir,
    /// The folder in which the target keeps the objects of `set`.
    set: PathBuf,
    url: String,
    client: Client,
    federation: Option<Federation>,
}

impl Target {
    fn folder() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let set = dir.path().join("set");
        let url = format!("file://{}", set.display());
        let client = Client::new(ClientOptions::new(Env::default())).unwrap();
        Self { dir, set, url, client, federation: None }
    }

    fn federation() -> Self {
        let all = || vec!["/".to_owned()];
        Self::federation_for(&TokenRequest {
            read: all(),
            create: all(),
            ..TokenRequest::default()
        })
    }

    /// Makes a federation whose client has a token for this request.
    fn federation_for(request: &TokenRequest) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let federation = Federation::start(&Options::new(dir.path())).unwrap();
        let token = dir.path().join("token");
        fs::write(&token, mint(dir.path(), request).unwrap().secret()).unwrap();
        let client = Client::new(options_for(&federation, &token)).unwrap();
        let (set, url) = (dir.path().join("origin/gular/set"), format!("{}/set", federation.url()));
        Self { dir, set, url, client, federation: Some(federation) }
    }

    /// Makes another client of the federation, which sends at most this many bytes per second.
    fn client_with(&self, max_bytes_per_second: Option<u64>) -> Client {
        let federation = self.federation.as_ref().unwrap();
        let options = options_for(federation, &self.dir.path().join("token"));
        Client::new(ClientOptions { max_bytes_per_second, ..options }).unwrap()
    }

    /// Makes a bundle of three train shards, of which the second has several blocks.
    fn bundle(&self) -> SoundBundle {
        let dir = self.dir.path().join("bundle");
        let digest = fixtures::make(&dir, &[100, 2 * BLOCK, 5000]);
        SoundBundle::prove(&dir, |_| Ok::<_, Error>(digest)).unwrap()
    }

    fn version(&self, version: &str) -> Url {
        Url::parse(&format!("{}/{version}", self.url)).unwrap()
    }

    fn publish(&self, sound: &SoundBundle) -> Result<PublishReport, Error> {
        self.publish_with(sound, &PublishOptions::default())
    }

    fn publish_with(
        &self,
        sound: &SoundBundle,
        options: &PublishOptions,
    ) -> Result<PublishReport, Error> {
        let watch = Watch::never();
        publish(&self.client, sound, &self.version("v1"), options, watch)
    }

    fn manifest(&self) -> PathBuf {
        self.set.join("v1").join(MANIFEST_NAME)
    }

    /// Returns the names of the data objects.
    fn data(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.set.join(DATA_DIR)) else { return Vec::new() };
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).filter(|n| !n.starts_with('.')).collect();
        names.sort();
        names
    }

    /// Checks that the published bundle is `sound`, as a reader of the target finds it.
    fn check_published(&self, report: &PublishReport, sound: &SoundBundle) {
        let (watch, to) = (Watch::never(), tempfile::tempdir().unwrap());
        assert_eq!(report.digest, Some(sound.bundle().digest()));
        let remote = RemoteBundle::open(&self.client, &report.url, watch).unwrap();
        let options = FetchOptions::default();
        fetch(&self.client, &remote, to.path(), &options, watch).unwrap();
        let open = OpenOptions { digest: report.digest, ..OpenOptions::default() };
        Bundle::open(to.path(), open).unwrap();
    }
}

fn options_for(federation: &Federation, token: &Path) -> ClientOptions {
    let env = Env::from_pairs(&[
        ("SSL_CERT_FILE", federation.ca_file().to_str().unwrap()),
        ("BEARER_TOKEN_FILE", token.to_str().unwrap()),
    ]);
    ClientOptions { settle: Duration::from_millis(100), ..ClientOptions::new(env) }
}

/// Returns the names of the data files of a bundle.
fn files(sound: &SoundBundle) -> Vec<String> {
    let shards = &sound.bundle().manifest().shards;
    let mut names: Vec<String> =
        shards.iter().flat_map(|s| [&s.file, &s.index]).map(|f| f.name.to_string()).collect();
    names.sort();
    names
}

/// Runs a check with each kind of target.
fn with_each(check: impl Fn(&Target)) {
    check(&Target::folder());
    check(&Target::federation());
}

#[test]
fn data_is_stored_before_the_manifest() {
    with_each(|target| {
        let sound = target.bundle();
        let names = files(&sound);
        let last = AtomicBool::new(false);
        let progress = |done: u64, total: u64| {
            if target.manifest().exists() {
                assert_eq!(target.data(), names, "{done} of {total}");
            }
            last.store(done == total, Ordering::Relaxed);
        };
        let watch = Watch::never();
        let watch = Watch { progress: &progress, ..watch };
        let options = PublishOptions { jobs: 2, ..PublishOptions::default() };
        let version = target.version("v1");
        let report = publish(&target.client, &sound, &version, &options, watch).unwrap();
        assert!(last.into_inner());
        assert_eq!((report.objects, report.uploaded, report.identical), (9, 9, 0));
        assert_eq!(report.bytes, report.bytes_uploaded);
        assert_eq!(target.data(), names);
        target.check_published(&report, &sound);
    });
}

#[test]
fn a_publish_that_is_cut_leaves_no_manifest_and_the_next_sends_the_rest() {
    with_each(|target| {
        let sound = target.bundle();
        let cancel = AtomicBool::new(false);
        // The big shard is sent first and is there when the second object begins.
        let stop = |_: u64, _: u64| {
            cancel.fetch_or(!target.data().is_empty(), Ordering::Relaxed);
        };
        let watch = Watch { progress: &stop, ..Watch::silent(&cancel) };
        let options = PublishOptions { jobs: 1, ..PublishOptions::default() };
        let version = target.version("v1");
        let error = publish(&target.client, &sound, &version, &options, watch).unwrap_err();
        assert!(matches!(error, Error::Pelican(Pelican::Cancelled)), "{error}");
        assert!(!target.set.join("v1").exists());
        let stored = target.data().len();
        assert!((1..8).contains(&stored), "{stored}");

        let report = target.publish(&sound).unwrap();
        assert!(report.identical >= 1 && report.uploaded >= 1, "{report:?}");
        assert_eq!(report.identical + report.uploaded, 9);
        target.check_published(&report, &sound);
    });
}

#[test]
fn a_token_that_may_only_create_publishes_and_what_was_not_compared_is_said() {
    let all = || vec!["/".to_owned()];
    let target = Target::federation_for(&TokenRequest { create: all(), ..TokenRequest::default() });
    let sound = target.bundle();
    let report = target.publish(&sound).unwrap();
    assert_eq!((report.uploaded, report.identical, report.not_read_back), (9, 0, 9));
    assert_eq!((report.not_compared, report.manifest_not_compared), (0, false));
    let again = target.publish(&sound).unwrap();
    assert_eq!((again.uploaded, again.identical, again.not_read_back), (0, 9, 0));
    assert_eq!((again.not_compared, again.manifest_not_compared), (9, true));
    assert_eq!(target.data(), files(&sound));

    // A client that may read finds everything.
    let reads = TokenRequest { read: all(), ..TokenRequest::default() };
    let token = mint(target.dir.path(), &reads).unwrap();
    fs::write(target.dir.path().join("token"), token.secret()).unwrap();
    target.check_published(&report, &sound);
}

/// An origin that refuses everything may already have everything, or may not accept the token.
#[test]
fn a_publish_of_which_nothing_was_taken_and_nothing_can_be_read_is_an_error() {
    let (origin, _log) = crate::find::serve(|_, _| (403, Vec::new()));
    let dir = tempfile::tempdir().unwrap();
    let federation = Federation::start(&Options {
        origin: Origin::External(origin),
        caches: Caches::None,
        require_token: true,
        ..Options::new(dir.path())
    })
    .unwrap();
    let request = TokenRequest { create: vec!["/".to_owned()], ..TokenRequest::default() };
    let token = dir.path().join("token");
    fs::write(&token, mint(dir.path(), &request).unwrap().secret()).unwrap();
    let ca = federation.ca_file();
    let env = Env::from_pairs(&[("SSL_CERT_FILE", ca.to_str().unwrap())]);
    let options = ClientOptions { token_files: vec![token], ..ClientOptions::new(env) };
    let client = Client::new(options).unwrap();
    let folder = Target::folder();
    let sound = folder.bundle();
    let to = Url::parse(&format!("{}/set/v1", federation.url())).unwrap();
    let watch = Watch::never();
    let error = publish(&client, &sound, &to, &PublishOptions::default(), watch).unwrap_err();
    assert!(matches!(error, Error::NoneAccepted { refused: 9, .. }), "{error}");
    assert!(error.to_string().contains("refused all 9 objects"), "{error}");
}

/// A listing of a large collection costs the origin more than asking for every name.
#[test]
fn a_collection_is_listed_once_however_long_the_publish_takes() {
    let asked = |max_bytes_per_second: Option<u64>| {
        let target = Target::federation();
        let sound = target.bundle();
        let client = target.client_with(max_bytes_per_second);
        let federation = target.federation.as_ref().unwrap();
        let (watch, begun) = (Watch::never(), Instant::now());
        let options = PublishOptions { jobs: 1, ..PublishOptions::default() };
        publish(&client, &sound, &target.version("v1"), &options, watch).unwrap();
        (federation.counts().director_queries, begun.elapsed())
    };
    let (quick, _) = asked(None);
    let (slow, took) = asked(Some(400_000));
    assert!(took > Duration::from_secs(4), "{took:?}");
    assert_eq!(slow, quick);
}

#[test]
fn objects_may_be_compared_by_length_alone() {
    let target = Target::federation();
    let sound = target.bundle();
    let options = PublishOptions { compare_by: CompareBy::Size, ..PublishOptions::default() };
    let report = target.publish_with(&sound, &options).unwrap();
    assert_eq!((report.uploaded, report.by_length, report.not_read_back), (9, 9, 0));
    let report = target.publish(&sound).unwrap();
    assert_eq!((report.identical, report.by_length), (9, 0));
}

#[test]
fn a_burned_name_is_left_alone_and_the_next_one_taken() {
    with_each(|target| {
        let sound = target.bundle();
        let burned = &files(&sound)[0];
        let path = target.set.join(DATA_DIR).join(burned);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"cut").unwrap();
        let report = target.publish(&sound).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"cut");
        let url = format!("{}/{DATA_DIR}/{burned}~1", target.url);
        assert_eq!(report.renamed, [Url::parse(&url).unwrap()]);
        target.check_published(&report, &sound);
    });
}

#[test]
fn a_manifest_that_was_cut_gets_the_next_name() {
    let target = Target::federation();
    let sound = target.bundle();
    let whole = fs::read(sound.bundle().dir().join(MANIFEST_NAME)).unwrap();
    fs::create_dir_all(target.set.join("v1")).unwrap();
    fs::write(target.manifest(), &whole[..whole.len() / 2]).unwrap();
    let report = target.publish(&sound).unwrap();
    assert_eq!(report.renamed.len(), 1, "{report:?}");
    assert_eq!(fs::read(target.set.join("v1/manifest.json~1")).unwrap(), whole);
    target.check_published(&report, &sound);
}

#[test]
fn another_bundle_of_the_same_version_is_refused_before_anything_is_sent() {
    with_each(|target| {
        let sound = target.bundle();
        fs::create_dir_all(target.set.join("v1")).unwrap();
        fs::write(target.manifest(), b"{}").unwrap();
        let error = target.publish(&sound).unwrap_err();
        assert!(matches!(error, Error::Pelican(Pelican::Taken { .. })), "{error}");
        assert!(!target.set.join(DATA_DIR).exists());
    });
}

#[test]
fn a_dry_run_says_what_would_be_sent_and_writes_nothing() {
    with_each(|target| {
        let sound = target.bundle();
        let dry = PublishOptions { dry_run: true, ..PublishOptions::default() };
        let report = target.publish_with(&sound, &dry).unwrap();
        assert_eq!((report.dry_run, report.uploaded, report.identical), (true, 9, 0));
        assert!(!target.set.exists());
        target.publish(&sound).unwrap();
        let report = target.publish_with(&sound, &dry).unwrap();
        assert_eq!((report.uploaded, report.identical), (0, 9));
    });
}

#[test]
fn what_nobody_proved_sound_is_not_published() {
    let dir = tempfile::tempdir().unwrap();
    let digest = fixtures::make(dir.path(), &[100]);
    let refused = |_: &Path| Err(Error::ObjectName { name: "damaged".into() });
    let error = SoundBundle::prove(dir.path(), refused).unwrap_err();
    assert!(matches!(error, Error::ObjectName { .. }), "{error}");
    // The bundle is checked, and replaced by another one afterwards.
    let replaced = |dir: &Path| {
        fs::remove_file(dir.join(MANIFEST_NAME)).unwrap();
        assert_ne!(fixtures::make(dir, &[101]), digest);
        Ok::<Digest, Error>(digest)
    };
    let error = SoundBundle::prove(dir.path(), replaced).unwrap_err();
    assert!(matches!(error, Error::Bundle(gular_bundle::Error::Digest { .. })), "{error}");
}

#[test]
fn a_url_without_a_version_is_refused() {
    let target = Target::folder();
    let (sound, watch) = (target.bundle(), Watch::never());
    let url = Url::parse("pelican://localhost").unwrap();
    let options = PublishOptions::default();
    let error = publish(&target.client, &sound, &url, &options, watch);
    assert!(matches!(error, Err(Error::NoBundleUrl { .. })), "{error:?}");
}

/// The cache keeps every object that was read; here its copy is damaged on the disk.
#[test]
fn an_object_that_a_cache_has_wrongly_is_read_from_the_origin() {
    let target = Target::federation();
    let (file, bytes) = (target.dir.path().join("f"), vec![7; 3 * BLOCK / 2]);
    fs::write(&file, &bytes).unwrap();
    let (url, watch) = (target.version("f"), Watch::never());
    publish_file(&target.client, &file, &url, &PublishOptions::default(), watch).unwrap();
    let get = |digest: Option<Digest>| {
        let (to, url) = (tempfile::tempdir().unwrap(), BundleUrl { url: url.clone(), digest });
        let len = bytes.len() as u64;
        let (report, path) =
            fetch_object(&target.client, &url, len, to.path(), false, watch).unwrap();
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
        (fs::read(path).unwrap(), report)
    };
    let digest = Digest::of(&bytes);
    let (came, report) = get(None);
    assert!(came == bytes);
    assert_eq!((report.checked, report.digest), (Checked::Checksum, Some(digest)));
    let how = report.checked_how.unwrap();
    assert!(how.starts_with("crc32c:"), "{how}");

    let copy = target.dir.path().join("cache/gular/set/f");
    let mut damaged = fs::read(&copy).unwrap();
    damaged[BLOCK + 1] ^= 1;
    fs::write(&copy, damaged).unwrap();
    let (came, report) = get(Some(digest));
    assert!(came == bytes);
    assert_eq!((report.checked, report.checked_how), (Checked::Digest, None));
}

#[test]
fn a_file_with_its_blocks_beside_it_is_checked_block_by_block() {
    let target = Target::federation();
    let (file, bytes) = (target.dir.path().join("x.sif"), fixtures::noise(3, 7 * BLOCK / 2));
    fs::write(&file, &bytes).unwrap();
    let (url, watch) = (target.version("x.sif"), Watch::never());
    let (watch, options) = (watch, PublishOptions::default());
    let (client, scratch) = (&target.client, target.dir.path());
    let send = || publish_file_with_blocks(client, &file, &url, &options, scratch, watch).unwrap();
    assert_eq!(send().uploaded, 2);
    assert_eq!(send().identical, 2);

    let digest = Digest::of(&bytes);
    let tree =
        |is_wanted: &dyn Fn(Digest) -> bool| read_blocks(client, &url, is_wanted, watch).unwrap();
    assert!(tree(&|_| false).is_none());
    let found = tree(&|found| found == digest).unwrap();
    assert_eq!((found.digest(), found.len_bytes()), (digest, bytes.len() as u64));
    assert!(read_blocks(client, &target.version("y"), &|_| true, watch).unwrap().is_none());

    let named = BundleUrl { url: url.clone(), digest: None };
    let get = |to: &Path| fetch_object_by_blocks(client, &named, &found, to, watch);
    let to = tempfile::tempdir().unwrap();
    let (report, path) = get(to.path()).unwrap();
    assert_eq!((report.checked, report.digest), (Checked::Digest, Some(digest)));
    assert!(fs::read(&path).unwrap() == bytes);
    // The object is there already.
    assert_eq!(get(to.path()).unwrap().0.bytes_fetched, 0);
    // Whole blocks that a killed run left are kept as far as they are right.
    fs::remove_file(&path).unwrap();
    let mut left = bytes[..5 * BLOCK / 2].to_vec();
    left[BLOCK] ^= 1;
    fs::write(to.path().join(format!("{TEMP_PREFIX}fetch-x.sif")), left).unwrap();
    assert_eq!(get(to.path()).unwrap().0.bytes_kept, BLOCK as u64);
    assert!(fs::read(&path).unwrap() == bytes);

    // A cache with a damaged copy is not asked again; if all copies are damaged, no file is kept.
    let damage = |copy: PathBuf| {
        let mut damaged = fs::read(&copy).unwrap();
        damaged[2 * BLOCK + 1] ^= 1;
        fs::remove_file(&copy).unwrap();
        fs::write(&copy, damaged).unwrap();
    };
    damage(target.dir.path().join("cache/gular/set/x.sif"));
    let to = tempfile::tempdir().unwrap();
    let (report, path) = get(to.path()).unwrap();
    assert!(fs::read(&path).unwrap() == bytes);
    assert_eq!(report.wrong_copies.len(), 1);
    damage(target.set.join("x.sif"));
    let to = tempfile::tempdir().unwrap();
    let error = get(to.path()).unwrap_err();
    assert!(matches!(error, Error::Pelican(Pelican::Corrupt { .. })), "{error}");
    assert!(!to.path().join("x.sif").exists());
}

#[test]
fn a_plain_file_keeps_its_name_or_is_refused() {
    with_each(|target| {
        let file = target.dir.path().join("f");
        fs::write(&file, b"abc").unwrap();
        let (url, watch) = (target.version("f"), Watch::never());
        let send = || {
            let options = PublishOptions::default();
            publish_file(&target.client, &file, &url, &options, watch)
        };
        let report = send().unwrap();
        assert_eq!((report.url.to_string(), report.digest), (url.to_string(), None));
        assert_eq!((report.uploaded, report.bytes_uploaded), (1, 3));
        assert_eq!(send().unwrap().identical, 1);
        fs::write(&file, b"abd").unwrap();
        let error = send().unwrap_err();
        assert!(matches!(error, Error::Pelican(Pelican::Taken { .. })), "{error}");
        assert_eq!(fs::read(target.set.join("f")).unwrap(), b"abc");
    });
}
