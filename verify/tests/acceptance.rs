//! Every reader refuses a wrongly written bundle, for the same reason.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gular_bundle::{
    About, Bundle, BundlePath, DATA_DIR, Digest, Envelope, Error, Field, FieldName, MANIFEST_NAME,
    Manifest, OpenOptions, Payload, ShardIdx, ShardSpec, ShardWriter, Split, write_manifest,
};
use gular_pelican::{Client, ClientOptions, Env};
use gular_transfer::{BundleUrl, FetchOptions, RemoteBundle, Watch, fetch};
use gular_verify::{FaultKind, VerifyOptions, VerifyReport, verify, verify_url};

/// Writes an undamaged bundle of three samples to `dir`, after `change` has changed its manifest.
fn write(dir: &Path, change: impl FnOnce(&mut Manifest)) {
    let fields = vec![Field::bytes(FieldName::image(), vec!["image/png".into()]), Field::label()];
    let classes = ["cat".to_owned(), "dog".to_owned()];
    fs::create_dir_all(dir.join(DATA_DIR)).unwrap();
    let (envelope, split) = (Envelope::Shards, Split::Train);
    let spec = ShardSpec { envelope, split, fields: &fields, classes: &classes };
    let mut writer = ShardWriter::create(&dir.join(DATA_DIR), &spec).unwrap();
    for i in 0..3_i64 {
        let key = BundlePath::parse(&format!("{i}.png")).unwrap();
        writer.push(&key, &[b"picture", &(i % 2).to_le_bytes()]).unwrap();
    }
    let mut manifest = Manifest {
        envelope,
        payload: Payload::Encoded,
        fields,
        classes: classes.to_vec(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards: vec![writer.finish().unwrap()],
    };
    change(&mut manifest);
    write_manifest(dir, &manifest).unwrap();
}

/// Changes an undamaged bundle with `change`, then opens, verifies and fetches it; all must report
/// `expected`.
fn check(change: impl FnOnce(&mut Manifest), expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), change);
    let cancel = AtomicBool::new(false);

    let bundle = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
    let opened = bundle.shard(ShardIdx(0)).unwrap_err().to_string();
    assert!(opened.ends_with(expected), "opened: {opened}");

    let options = VerifyOptions::default();
    let report = verify(dir.path(), &options, Watch::silent(&cancel)).unwrap();
    let message = |report: &VerifyReport| {
        let of_index = report.faults.iter().find(|fault| fault.kind == FaultKind::Index);
        of_index.map(|fault| fault.message.clone()).unwrap_or_default()
    };
    assert_eq!(message(&report), expected);

    // The folders are as an origin has them: `NAME/data` beside `NAME/VERSION`.
    let version = dir.path().join("v1");
    fs::create_dir(&version).unwrap();
    fs::rename(dir.path().join(MANIFEST_NAME), version.join(MANIFEST_NAME)).unwrap();
    let client = Client::new(ClientOptions::new(Env::default())).unwrap();
    let url: BundleUrl = format!("file://{}", version.display()).parse().unwrap();
    let report = verify_url(&client, &url.url, &options, Watch::silent(&cancel)).unwrap();
    assert_eq!(message(&report), expected);

    let remote = RemoteBundle::open(&client, &url, Watch::silent(&cancel)).unwrap();
    let to = tempfile::tempdir().unwrap();
    let fetched =
        fetch(&client, &remote, to.path(), &FetchOptions::default(), Watch::silent(&cancel));
    let fetched = fetched.unwrap_err().to_string();
    assert!(fetched.ends_with(expected), "fetched: {fetched}");
    // No file of it was kept.
    assert_eq!(fs::read_dir(to.path().join(DATA_DIR)).unwrap().count(), 0);
}

#[test]
fn an_index_of_other_than_its_samples_is_refused_by_all() {
    check(|m| m.shards[0].samples = 4, "it lists 3 samples, expected 4 as in the manifest");
}

#[test]
fn a_label_outside_the_classes_is_refused_by_all() {
    check(
        |m| drop(m.classes.pop()),
        "sample `1.png` has label 1, but the bundle has only 1 classes",
    );
}

#[test]
fn an_index_of_another_shard_is_refused_by_all() {
    check(
        |m| m.shards[0].file.digest = Digest::of(b"another"),
        "its block digests do not add up to the digest of the shard",
    );
}

#[test]
fn a_sound_index_is_accepted_and_another_file_is_not() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), |_| ());
    let bundle = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
    let (manifest, entry) = (bundle.manifest(), &bundle.manifest().shards[0]);
    let bytes = bundle.read_file(&entry.index).unwrap();
    let accept = |bytes: &[u8]| gular_bundle::Index::accept("i", bytes, None, manifest, entry);
    assert_eq!(accept(&bytes).unwrap().n_samples(), 3);
    assert!(matches!(accept(&bytes[1..]), Err(Error::Length { .. })));
    let mut flipped = bytes.clone();
    flipped[bytes.len() - 1] ^= 1;
    assert!(matches!(accept(&flipped), Err(Error::Digest { .. })));
}
