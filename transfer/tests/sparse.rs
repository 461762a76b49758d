//! Single samples of a published bundle, from the embedded federation.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;

use gular_bundle::{
    About, Bundle, BundlePath, DATA_DIR, Digest, Dtype, Envelope, Field, FieldIdx, FieldName,
    Index, MANIFEST_NAME, Manifest, OpenOptions, Payload, Row, ShardEntry, ShardIdx, ShardSpec,
    ShardWriter, SingleValues, Split, View, write_manifest,
};
use gular_federation::{Federation, Options};
use gular_pelican::{Client, ClientOptions, Env, Error as Pelican};
use gular_transfer::{
    BundleOptions, BundleUrl, Error, RemoteBundle, SampleOptions, SampleReport, Sparse,
    SparseReport, Watch, fetch_samples, open_bundle, read_samples, wrong_copies,
};
use tempfile::TempDir;

use crate::fixtures::{self, noise};

const SAMPLES: usize = 1000;

/// A federation whose origin has one shard of a thousand samples of 4 to 12 KB.
struct Site {
    dir: TempDir,
    federation: Federation,
    url: BundleUrl,
}

impl Site {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let set = dir.path().join("origin/gular/set");
        let digest = make(&set);
        let options = Options { public_read: true, ..Options::new(dir.path()) };
        let federation = Federation::start(&options).unwrap();
        let url = format!("{}/set#blake3={}", federation.url(), digest.hex()).parse().unwrap();
        Self { dir, federation, url }
    }

    fn env(&self) -> Env {
        Env::from_pairs(&[("SSL_CERT_FILE", self.federation.ca_file().to_str().unwrap())])
    }

    fn client(&self) -> Client {
        Client::new(ClientOptions::new(self.env())).unwrap()
    }

    /// Reads the images of these samples and compares them.
    fn read(&self, client: &Client, rows: &[Row]) -> Result<SparseReport, Error> {
        let watch = Watch::never();
        let remote = RemoteBundle::open(client, &self.url, watch).unwrap();
        let shard = &remote.manifest().shards[0];
        let bytes = remote.read(client, &shard.index, watch).unwrap();
        let index = Index::accept("index", bytes, None, remote.manifest(), shard).unwrap();
        let given = Mutex::new(Vec::new());
        let give = |row: Row, _: FieldIdx, bytes: &[u8]| {
            assert!(bytes == sample(row.0), "sample {row}");
            given.lock().unwrap().push(row);
            Ok(())
        };
        let fields = [FieldIdx(0)];
        let wanted = Sparse { shard, index: &index, rows, fields: &fields };
        let report = read_samples(client, &remote, &wanted, 4, &give, watch)?;
        let (mut given, mut rows) = (given.into_inner().unwrap(), rows.to_vec());
        given.sort();
        rows.sort();
        assert_eq!(given, rows);
        Ok(report)
    }

    /// Returns the path of the shard's file at the origin or in the cache.
    fn shard(&self, of: &str) -> std::path::PathBuf {
        let data = self.dir.path().join(of).join("gular/set").join(DATA_DIR);
        let mut files = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
        files.find(|path| !path.to_str().unwrap().contains(".index.")).unwrap()
    }
}

fn sample(number: usize) -> Vec<u8> {
    noise(number as u32, 4000 + number * 7919 % 8000)
}

fn make(dir: &Path) -> Digest {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data).unwrap();
    let fields = [Field::bytes(FieldName::image(), vec!["image/jpeg".into()])];
    let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
    let mut writer = ShardWriter::create(&data, &spec).unwrap();
    for number in 0..SAMPLES {
        let key = BundlePath::parse(&format!("{number:04}.jpg")).unwrap();
        writer.push(&key, &[&sample(number)]).unwrap();
    }
    let shards = vec![writer.finish().unwrap()];
    write_manifest(dir, &Manifest { fields: fields.to_vec(), ..manifest(shards) }).unwrap()
}

fn manifest(shards: Vec<ShardEntry>) -> Manifest {
    Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        classes: Vec::new(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards,
        fields: Vec::new(),
    }
}

/// Returns one of every hundred samples, anywhere.
fn one_percent() -> Vec<Row> {
    (0..SAMPLES / 100).map(|i| Row((i * 617 + 13) % SAMPLES)).collect()
}

#[test]
fn little_more_is_asked_for_than_the_wanted_samples() {
    let site = Site::start();
    let client = site.client();
    let report = site.read(&client, &one_percent()).unwrap();
    assert_eq!(report.values, 10);
    let wanted: usize = one_percent().iter().map(|row| sample(row.0).len()).sum();
    assert_eq!(report.bytes_wanted, wanted as u64);
    assert!(report.bytes_asked * 100 <= report.bytes_wanted * 115, "{report:?}");
    // No more bytes were sent than requested. The cache fetched the whole shard for them.
    let name = site.shard("cache").file_name().unwrap().to_str().unwrap().to_owned();
    let sent = site.federation.bytes_sent();
    let of_shard = sent.iter().find(|(object, _)| object.ends_with(&name)).unwrap().1;
    assert_eq!(*of_shard, report.bytes_asked);

    // Neighbours are fetched in one request.
    let rows: Vec<Row> = (100..200).map(Row).collect();
    let report = site.read(&client, &rows).unwrap();
    assert_eq!((report.values, report.ranges), (100, 1));
    assert!(report.bytes_asked * 100 <= report.bytes_wanted * 115, "{report:?}");
    assert_eq!(site.read(&client, &[]).unwrap(), SparseReport::default());
    let error = site.read(&client, &[Row(SAMPLES)]).unwrap_err();
    assert!(matches!(error, Error::NoSample { row: Row(SAMPLES), .. }), "{error}");
}

#[test]
fn a_damaged_copy_is_read_around_and_named_and_a_damaged_origin_is_an_error() {
    let site = Site::start();
    site.read(&site.client(), &[Row(0)]).unwrap();
    let flip = |of: &str| {
        let path = site.shard(of);
        let mut bytes = fs::read(&path).unwrap();
        let beginning = &sample(500)[..64];
        let at = bytes.windows(64).position(|part| part == beginning).unwrap();
        bytes[at] ^= 1;
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    };
    flip("cache");
    let client = site.client();
    site.read(&client, &[Row(499), Row(500), Row(900)]).unwrap();
    let wrong = wrong_copies(&client);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(Some(&wrong[0].server), site.federation.cache_url().as_ref());

    flip("origin");
    let error = site.read(&site.client(), &[Row(500)]).unwrap_err();
    assert!(matches!(error, Error::Pelican(Pelican::Corrupt { .. })), "{error}");
    assert!(error.to_string().contains("`0500.jpg`"), "{error}");
    // The other samples are undamaged.
    site.read(&site.client(), &[Row(499), Row(501)]).unwrap();
}

#[test]
fn a_bundle_that_is_open_gives_single_values_of_a_shard_that_is_not_here() {
    let site = Site::start();
    let cache = Some(site.dir.path().join("node"));
    let options = BundleOptions { streamed: true, cache, ..BundleOptions::default() };
    let watch = Watch::never();
    let bundle = open_bundle(&site.url.to_string(), &options, &site.env(), watch).unwrap().bundle;
    let (source, shard) = (bundle.source().unwrap(), ShardIdx(0));
    let index = bundle.index(shard).unwrap();
    let rows = one_percent();
    let wanted = SingleValues { shard, index: &index, rows: &rows, field: FieldIdx(0) };
    let given = Mutex::new(0);
    let take = |row: Row, bytes: &[u8]| {
        assert!(bytes == sample(row.0), "sample {row}");
        *given.lock().unwrap() += 1;
    };
    source.read_values(&wanted, &take, watch.cancel).unwrap();
    assert_eq!(given.into_inner().unwrap(), rows.len());
    assert!(!source.is_here(shard));

    let _hold = source.hold(shard, watch.cancel).unwrap();
    source.bring(shard, &|_| u64::MAX, watch.cancel).unwrap();
    assert!(source.is_here(shard));
}

/// A bundle as an origin stores it: `set/v1/manifest.json`, `set/data/…`.
struct Published {
    dir: TempDir,
    manifest: Manifest,
}

impl Published {
    /// Makes two shards of two samples each, `train/0-0.jpg` to `val/1-1.jpg`.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let set = dir.path().join("set");
        fixtures::make(&set, &[5000]);
        let manifest = Bundle::open(&set, OpenOptions::default()).unwrap().manifest().clone();
        fs::create_dir(set.join("v1")).unwrap();
        fs::rename(set.join(MANIFEST_NAME), set.join("v1").join(MANIFEST_NAME)).unwrap();
        Self { dir, manifest }
    }

    /// Makes one shard of a hundred samples `00.jpg` to `99.jpg`, whose `score` is their number.
    fn scored() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (data, version) = (dir.path().join("set/data"), dir.path().join("set/v1"));
        fs::create_dir_all(&data).unwrap();
        fs::create_dir(&version).unwrap();
        let score = Field::fixed(FieldName::parse("score").unwrap(), Dtype::I64, Vec::new());
        let fields = vec![Field::bytes(FieldName::image(), vec!["image/jpeg".into()]), score];
        let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
        let mut writer = ShardWriter::create(&data, &spec).unwrap();
        for number in 0..100_u8 {
            let key = BundlePath::parse(&format!("{number:02}.jpg")).unwrap();
            let score = i64::from(number).to_le_bytes();
            writer.push(&key, &[&noise(number.into(), 1000), &score]).unwrap();
        }
        let shards = vec![writer.finish().unwrap()];
        let manifest = Manifest { fields, ..manifest(shards) };
        write_manifest(&version, &manifest).unwrap();
        Self { dir, manifest }
    }

    fn fetch(&self, to: &Path, keys: &[&str]) -> Result<SampleReport, Error> {
        self.fetch_where(to, keys, None)
    }

    fn fetch_where(
        &self,
        to: &Path,
        keys: &[&str],
        filter: Option<&str>,
    ) -> Result<SampleReport, Error> {
        let client = Client::new(ClientOptions::new(Env::default())).unwrap();
        let watch = Watch::never();
        let url = format!("file://{}/set/v1", self.dir.path().display()).parse().unwrap();
        let remote = RemoteBundle::open(&client, &url, watch).unwrap();
        let keys: BTreeSet<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let (splits, filter) = (Vec::new(), filter.map(str::to_owned));
        let options = SampleOptions { keys, filter, splits, jobs: 2, dry_run: false };
        fetch_samples(&client, &remote, to, &options, watch)
    }
}

const CHOSEN: [&str; 2] = ["train/0-1.jpg", "val/1-0.jpg"];

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks that `dir` has the bundle with this digest, and nothing else.
fn check_whole(dir: &Path, digest: Option<Digest>) {
    let bundle = Bundle::open(dir, OpenOptions::default()).unwrap();
    assert_eq!(Some(bundle.digest()), digest);
    bundle.check_lengths().unwrap();
    assert_eq!(names(dir), [DATA_DIR, MANIFEST_NAME]);
    let mut files: Vec<String> =
        bundle.manifest().files().map(|file| file.name.to_string()).collect();
    files.sort();
    assert_eq!(names(&dir.join(DATA_DIR)), files);
}

/// So the folder may be `.`, or a place where a file system is mounted.
#[test]
fn chosen_samples_are_made_in_the_folder_itself_and_nothing_beside_it() {
    let (published, to) = (Published::new(), tempfile::tempdir().unwrap());
    let dir = to.path().join("b");
    fs::create_dir(&dir).unwrap();
    let inode = |dir: &Path| fs::metadata(dir).unwrap().ino();
    let before = inode(&dir);
    let report = published.fetch(&dir.join("."), &CHOSEN).unwrap();
    assert_eq!((report.samples, report.bytes_wanted, report.already_done), (2, 500, false));
    assert_eq!((inode(&dir), names(to.path())), (before, vec!["b".to_owned()]));
    check_whole(&dir, report.digest);
    let again = published.fetch(&dir, &CHOSEN).unwrap();
    assert_eq!((again.already_done, again.digest), (true, report.digest));

    let error = published.fetch(&dir, &CHOSEN[..1]).unwrap_err();
    assert!(matches!(&error, Error::NotEmpty { .. }), "{error}");
    check_whole(&dir, report.digest);
    // If no samples are chosen, no folder is made.
    let none = to.path().join("none");
    let error = published.fetch(&none, &["no/such.jpg"]).unwrap_err();
    assert!(matches!(error, Error::NoSuchKeys { n: 1, .. }), "{error}");
    let error = published.fetch(&none, &[]).unwrap_err();
    assert_eq!(error.to_string(), "the list of keys is empty");
    assert!(!none.exists());
}

#[test]
fn after_a_killed_run_chosen_samples_are_fetched_again_or_moved_to_the_end() {
    let (published, to) = (Published::new(), tempfile::tempdir().unwrap());
    let dir = to.path().join("b");
    let (data, work) = (dir.join(DATA_DIR), dir.join(DATA_DIR).join(".gular-tmp-keys"));
    // The run was killed while it wrote a shard.
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join(".gular-tmp-abc"), b"half").unwrap();
    fs::write(work.join("train-0123456789abcdef.safetensors"), b"whole").unwrap();
    fs::write(data.join(".gular-tmp-fetch.lock"), b"").unwrap();
    let report = published.fetch(&dir, &CHOSEN).unwrap();
    assert!(!report.already_done);
    check_whole(&dir, report.digest);

    // The run was killed between any two moves; the manifest is moved last.
    let files = names(&data);
    for n in 0..=files.len() {
        fs::create_dir(&work).unwrap();
        fs::rename(dir.join(MANIFEST_NAME), work.join(MANIFEST_NAME)).unwrap();
        for name in &files[n..] {
            fs::rename(data.join(name), work.join(name)).unwrap();
        }
        if n > 0 {
            // The folder has other samples.
            let error = published.fetch(&dir, &CHOSEN[..1]).unwrap_err();
            assert!(matches!(&error, Error::NotEmpty { .. }), "{error}");
        }
        let again = published.fetch(&dir, &CHOSEN).unwrap();
        assert_eq!((again.already_done, again.digest), (true, report.digest), "{n} moved");
        check_whole(&dir, report.digest);
    }
}

#[test]
fn of_runs_for_one_folder_one_fetches_the_samples_and_the_others_find_them() {
    let (published, to) = (Published::new(), tempfile::tempdir().unwrap());
    for round in 0..8 {
        let dir = to.path().join(round.to_string());
        let reports: Vec<SampleReport> = std::thread::scope(|scope| {
            let run = || published.fetch(&dir, &CHOSEN).unwrap();
            let runs: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert_eq!(reports.iter().filter(|report| !report.already_done).count(), 1);
        assert!(reports.iter().all(|report| report.digest == reports[0].digest));
        check_whole(&dir, reports[0].digest);
    }
}

#[test]
fn an_index_of_two_splits_is_counted_once_and_each_view_too() {
    let mut published = Published::new();
    let set = published.dir.path().join("set");
    let shard = published.manifest.shards[0].clone();
    let split = |(split, row)| {
        let view = View::new(2, [Row(row)], Vec::new()).unwrap();
        let (file, bytes) = view.file(split, shard.index.digest).unwrap();
        fs::write(set.join(DATA_DIR).join(file.name.as_str()), bytes).unwrap();
        ShardEntry { split, samples: 1, view: Some(file), ..shard.clone() }
    };
    published.manifest.shards = [(Split::Train, 0), (Split::Val, 1)].map(split).to_vec();
    write_manifest(&set.join("v1"), &published.manifest).unwrap();
    let to = tempfile::tempdir().unwrap();
    let report = published.fetch(to.path(), &["train/0-0.jpg", "train/0-1.jpg"]).unwrap();
    let views: u64 =
        published.manifest.shards.iter().flat_map(|shard| &shard.view).map(|view| view.bytes).sum();
    assert_eq!(report.bytes_of_indexes, shard.index.bytes + views);
    let found = Bundle::open(to.path(), OpenOptions::default()).unwrap();
    assert_eq!((found.n_samples(Split::Train), found.n_samples(Split::Val)), (1, 1));
}

#[test]
fn samples_that_fit_a_condition_cost_their_bytes_and_the_values_that_it_names() {
    let (published, to) = (Published::scored(), tempfile::tempdir().unwrap());
    let fetch = |name: &str, keys: &[&str], condition| {
        published.fetch_where(&to.path().join(name), keys, Some(condition))
    };
    let keys = |name: &str| {
        let bundle = Bundle::open(&to.path().join(name), OpenOptions::default()).unwrap();
        let index = bundle.index(ShardIdx(0)).unwrap();
        index.rows().map(|row| index.key(row).unwrap().to_owned()).collect::<Vec<_>>()
    };
    // The index decides alone.
    let report = fetch("key", &[], "key ~ '4?.jpg' and bytes = 1000 and split = train").unwrap();
    assert_eq!((report.samples, report.samples_of), (10, 100));
    assert_eq!((report.bytes_of_condition, report.requests_of_condition), (0, 0));
    assert_eq!(report.bytes_wanted, 10 * 1008);
    // All scores are needed, in one request.
    let report = fetch("score", &[], "score >= 97").unwrap();
    assert_eq!((report.bytes_of_condition, report.requests_of_condition), (800, 1));
    assert_eq!((report.samples, report.bytes_wanted), (3, 3 * 1008));
    assert!(report.bytes_asked * 100 <= report.bytes_wanted * 115, "{report:?}");
    assert_eq!(keys("score"), ["97.jpg", "98.jpg", "99.jpg"]);
    // Scores are only read for samples about which the index does not decide.
    let report = fetch("both", &[], "score != 3 and key ~ 0*").unwrap();
    assert_eq!((report.bytes_of_condition, report.samples), (80, 9));
    let report = fetch("listed", &["01.jpg", "12.jpg", "no.jpg"], "score = 12").unwrap();
    assert_eq!((report.samples, report.unknown_keys), (1, 1));
    // One request also reads the values between the wanted ones.
    assert_eq!((report.bytes_of_condition, report.requests_of_condition), (12 * 8, 1));
    assert_eq!(keys("listed"), ["12.jpg"]);

    // The same request finds its bundle; another condition means another bundle.
    assert!(fetch("score", &[], "score >= 97").unwrap().already_done);
    let error = fetch("score", &[], "score >= 98").unwrap_err();
    assert!(matches!(&error, Error::NotEmpty { .. }), "{error}");
    for (keys, condition, expected) in [
        (&[][..], "score > 99", "the condition matches none of the 100 samples"),
        (&["11.jpg"], "score = 12", "the condition matches none of the 100 samples"),
        (
            &["no.jpg"],
            "score = 12",
            "the list has 1 key that no sample of the bundle has: `no.jpg`",
        ),
        (
            &[],
            "depth > 9",
            "`depth > 9` is not a condition: at character 1, expected one of `key`, `split`, \
             `bytes`, `score`",
        ),
    ] {
        let error = fetch("none", keys, condition).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!to.path().join("none").exists());
    }
}
