//! Single samples of a published bundle, from the embedded federation.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use gular_bundle::{
    About, BundlePath, DATA_DIR, Digest, Envelope, Field, FieldIdx, FieldName, Index, Manifest,
    Payload, Row, ShardIdx, ShardSpec, ShardWriter, SingleValues, Split, write_manifest,
};
use gular_federation::{Federation, Options};
use gular_pelican::{Client, ClientOptions, Env, Error as Pelican};
use gular_transfer::{
    BundleOptions, BundleUrl, Error, RemoteBundle, Sparse, SparseReport, Watch, open_bundle,
    read_samples, wrong_copies,
};
use tempfile::TempDir;

use crate::fixtures::noise;

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
        let cancel = AtomicBool::new(false);
        let remote = RemoteBundle::open(client, &self.url, &cancel).unwrap();
        let shard = &remote.manifest().shards[0];
        let bytes = remote.read(client, &shard.index, &cancel).unwrap();
        let index = Index::accept("index", bytes, None, remote.manifest(), shard).unwrap();
        let given = Mutex::new(Vec::new());
        let give = |row: Row, _: FieldIdx, bytes: &[u8]| {
            assert!(bytes == sample(row.0), "sample {row}");
            given.lock().unwrap().push(row);
            Ok(())
        };
        let fields = [FieldIdx(0)];
        let wanted = Sparse { shard, index: &index, rows, fields: &fields };
        let report = read_samples(client, &remote, &wanted, 4, &give, &cancel)?;
        let (mut given, mut rows) = (given.into_inner().unwrap(), rows.to_vec());
        given.sort();
        rows.sort();
        assert_eq!(given, rows);
        Ok(report)
    }

    /// The file of the shard at the origin or in the cache.
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
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        classes: Vec::new(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards: vec![writer.finish().unwrap()],
        fields: fields.to_vec(),
    };
    write_manifest(dir, &manifest).unwrap()
}

/// One of a hundred, anywhere.
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
    // What was sent is what was asked for. The cache fetched all of the shard for it.
    let name = site.shard("cache").file_name().unwrap().to_str().unwrap().to_owned();
    let sent = site.federation.bytes_sent();
    let of_shard = sent.iter().find(|(object, _)| object.ends_with(&name)).unwrap().1;
    assert_eq!(*of_shard, report.bytes_asked);

    // Neighbours come together.
    let rows: Vec<Row> = (100..200).map(Row).collect();
    let report = site.read(&client, &rows).unwrap();
    assert_eq!((report.values, report.ranges), (100, 1));
    assert!(report.bytes_asked * 100 <= report.bytes_wanted * 115, "{report:?}");
    assert_eq!(site.read(&client, &[]).unwrap(), SparseReport::default());
    let error = site.read(&client, &[Row(SAMPLES)]).unwrap_err();
    assert!(matches!(error, Error::NoSample { row: SAMPLES, .. }), "{error}");
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
    // The others are sound.
    site.read(&site.client(), &[Row(499), Row(501)]).unwrap();
}

#[test]
fn a_bundle_that_is_open_gives_single_values_of_a_shard_that_is_not_here() {
    let site = Site::start();
    let cache = Some(site.dir.path().join("node"));
    let options = BundleOptions { streamed: true, cache, ..BundleOptions::default() };
    let cancel = AtomicBool::new(false);
    let watch = Watch::silent(&cancel);
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
    source.read_values(&wanted, &take, &cancel).unwrap();
    assert_eq!(given.into_inner().unwrap(), rows.len());
    assert!(!source.is_here(shard));

    let _hold = source.hold(shard, &cancel).unwrap();
    source.bring(shard, &|_| u64::MAX, &cancel).unwrap();
    assert!(source.is_here(shard));
}
