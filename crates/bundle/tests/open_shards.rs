//! Shards are opened once, their number stays within limits, and they are not verified again
//! without a reason.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use gular_bundle::{
    About, Backend, Bundle, BundlePath, CheckWhen, DATA_DIR, Envelope, Error, Field, FieldIdx,
    FieldName, Manifest, OpenOptions, Payload, Row, SampleId, ShardIdx, ShardSpec, ShardWriter,
    Split, write_manifest,
};

const ROWS: usize = 20;
const IMAGE: FieldIdx = FieldIdx(0);

/// Makes a bundle of `n` shards of 20 samples.
fn make(dir: &Path, n: usize) {
    let data = dir.join(DATA_DIR);
    fs::create_dir(&data).unwrap();
    let fields = vec![Field::bytes(FieldName::image(), vec!["image/png".into()]), Field::label()];
    let shard = |shard: usize| {
        let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
        let mut writer = ShardWriter::create(&data, &spec).unwrap();
        for row in 0..ROWS {
            let key = BundlePath::parse(&format!("{shard}/{row:03}.png")).unwrap();
            let label = (row as i64).to_le_bytes();
            writer.push(&key, &[&value(shard, row), &label]).unwrap();
        }
        writer.finish().unwrap()
    };
    let shards = (0..n).map(shard).collect();
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        classes: Vec::new(),
        fields: fields.clone(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards,
    };
    write_manifest(dir, &manifest).unwrap();
}

fn value(shard: usize, row: usize) -> Vec<u8> {
    vec![u8::try_from(shard * 31 + row).unwrap(); 100 + row]
}

fn open(dir: &Path, options: OpenOptions) -> Bundle {
    Bundle::open(dir, options).unwrap()
}

fn check(bundle: &Bundle, shard: usize, row: usize) {
    let (id, mut out) = (SampleId { shard: ShardIdx(shard), row: Row(row) }, Vec::new());
    bundle.read(id, IMAGE, &mut out).unwrap();
    assert_eq!(out, value(shard, row));
    assert_eq!(bundle.key(id).unwrap().as_str(), format!("{shard}/{row:03}.png"));
    let open = bundle.shard(id.shard).unwrap();
    assert_eq!(open.label(id.row).unwrap(), Some(i32::try_from(row).unwrap()));
}

fn index_path(bundle: &Bundle, shard: usize) -> PathBuf {
    bundle.path_of(&bundle.manifest().shards[shard].index)
}

fn index_len(bundle: &Bundle) -> u64 {
    bundle.manifest().shards[0].index.bytes
}

#[test]
fn threads_that_want_the_same_shard_open_it_once() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 8);
    for backend in [Backend::Pread, Backend::Map] {
        let bundle = open(dir.path(), OpenOptions { backend, ..OpenOptions::default() });
        let (threads, shards) = (16, 8);
        let start = Barrier::new(threads);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    start.wait();
                    (0..shards).for_each(|shard| check(&bundle, shard, 3));
                });
            }
        });
        let opened = bundle.opened();
        assert_eq!((opened.verified, opened.again, opened.open), (8, 0, 8), "{backend:?}");
    }
}

#[test]
fn a_shard_that_cannot_be_opened_is_an_error_for_each_who_asks_and_can_be_mended() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 1);
    let bundle = open(dir.path(), OpenOptions::default());
    let path = index_path(&bundle, 0);
    let good = fs::read(&path).unwrap();
    fs::write(&path, vec![0; good.len()]).unwrap();
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                let error = bundle.shard(ShardIdx(0)).unwrap_err();
                assert!(matches!(error, Error::Digest { .. }), "{error}");
            });
        }
    });
    fs::write(&path, good).unwrap();
    check(&bundle, 0, 5);
}

#[test]
fn indexes_in_memory_stay_within_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 8);
    let len = index_len(&open(dir.path(), OpenOptions::default()));
    let index_bytes = 3 * len + len / 2;
    let options = OpenOptions { index_bytes, ..OpenOptions::default() };
    let bundle = open(dir.path(), options.clone());
    for round in 0..3 {
        for shard in 0..8 {
            check(&bundle, shard, round);
            assert!(bundle.opened().index_bytes <= index_bytes);
        }
    }
    // Shards whose index has no space in memory are open as well, and nothing was read twice.
    let opened = bundle.opened();
    assert_eq!((opened.verified, opened.again, opened.open), (8, 0, 8));
    assert_eq!(opened.index_bytes, 3 * len);
    // Bytes of maps are not counted.
    let mapped = open(dir.path(), OpenOptions { backend: Backend::Map, ..options });
    (0..8).for_each(|shard| check(&mapped, shard, 0));
    assert_eq!(mapped.opened().index_bytes, 0);
}

#[test]
fn an_index_that_is_in_no_more_use_makes_room() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 3);
    let len = index_len(&open(dir.path(), OpenOptions::default()));
    let bundle = open(dir.path(), OpenOptions { index_bytes: 2 * len, ..OpenOptions::default() });
    check(&bundle, 0, 0);
    (0..100).for_each(|i| check(&bundle, 1, i % ROWS));
    check(&bundle, 2, 0);
    let opened = bundle.opened();
    assert_eq!((opened.open, opened.index_bytes), (2, 2 * len));
    check(&bundle, 0, 1);
    assert_eq!(bundle.opened().again, 1);
}

#[test]
fn a_closed_shard_is_neither_verified_nor_hashed_again() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 2);
    for (backend, index_bytes) in
        [(Backend::Pread, u64::MAX), (Backend::Pread, 0), (Backend::Map, 0)]
    {
        let options =
            OpenOptions { backend, index_bytes, open_files: Some(1), ..OpenOptions::default() };
        let bundle = open(dir.path(), options);
        for row in 0..5 {
            check(&bundle, 0, row);
            check(&bundle, 1, row);
        }
        let opened = bundle.opened();
        assert_eq!((opened.verified, opened.open), (2, 1), "{backend:?} {index_bytes}");
        assert!(opened.again >= 8, "{opened:?}");
        let shard = bundle.shard(ShardIdx(0)).unwrap();
        // Samples that were checked before are not checked again, so any bytes pass.
        shard.check(Row(4), IMAGE, b"other").unwrap();
        shard.check(Row(5), IMAGE, b"other").unwrap_err();
    }
}

#[test]
fn a_file_that_was_written_meanwhile_is_verified_again() {
    for which in ["index", "shard"] {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), 2);
        let bundle =
            open(dir.path(), OpenOptions { open_files: Some(1), ..OpenOptions::default() });
        check(&bundle, 0, 0);
        check(&bundle, 1, 0);
        let entry = &bundle.manifest().shards[0];
        let path = bundle.path_of(if which == "index" { &entry.index } else { &entry.file });
        let bytes = fs::read(&path).unwrap();
        // The file is written with the same bytes. It is undamaged, but that is not known.
        fs::write(&path, &bytes).unwrap();
        check(&bundle, 0, 0);
        assert_eq!(bundle.opened().verified, 3, "{which}");
        bundle.shard(ShardIdx(0)).unwrap().check(Row(1), IMAGE, b"other").unwrap_err();

        // Other bytes are found, although the sample had been checked.
        check(&bundle, 1, 0);
        let (at, len) = bundle.shard(ShardIdx(0)).unwrap().range(Row(0), IMAGE).unwrap().unwrap();
        check(&bundle, 1, 0);
        let mut other = bytes.clone();
        let at = if which == "index" { other.len() - 1 } else { usize::try_from(at).unwrap() };
        other[at + usize::from(which == "shard") * (len - 1)] ^= 1;
        fs::write(&path, &other).unwrap();
        let id = SampleId { shard: ShardIdx(0), row: Row(0) };
        let error = bundle.read(id, IMAGE, &mut Vec::new()).unwrap_err();
        let expected = match which {
            "index" => matches!(error, Error::Digest { .. }),
            _ => matches!(error, Error::SampleDigest(_)),
        };
        assert!(expected, "{which}: {error}");
    }
}

#[test]
fn an_index_that_is_changed_while_it_is_looked_into_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 1);
    let bundle = open(dir.path(), OpenOptions { index_bytes: 0, ..OpenOptions::default() });
    check(&bundle, 0, 0);
    let shard = bundle.shard(ShardIdx(0)).unwrap();
    assert_eq!(shard.index().unwrap().key(Row(1)), Some("0/001.png"));
    let path = index_path(&bundle, 0);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Offsets far outside of the shard are written.
    file.write_all_at(&[0x7f; 64], 4096).unwrap();
    let mut out = Vec::new();
    for error in [
        shard.read(Row(0), IMAGE, &mut out).unwrap_err(),
        shard.label(Row(0)).unwrap_err(),
        shard.key(Row(0)).unwrap_err(),
        shard.index().unwrap_err(),
    ] {
        assert!(error.to_string().contains("changed while it was open"), "{error}");
    }
    // The file is cut while it is open, which is an error too, and not a SIGBUS.
    file.set_len(10).unwrap();
    shard.read(Row(0), IMAGE, &mut out).unwrap_err();
}

#[test]
fn nothing_is_remembered_of_samples_where_every_read_is_checked_or_none() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 1);
    for (when, passes) in
        [(CheckWhen::OnFetch, true), (CheckWhen::Always, false), (CheckWhen::FirstTouch, true)]
    {
        let bundle = open(dir.path(), OpenOptions { check: when, ..OpenOptions::default() });
        check(&bundle, 0, 0);
        let shard = bundle.shard(ShardIdx(0)).unwrap();
        assert_eq!(shard.check(Row(0), IMAGE, b"other").is_ok(), passes, "{when:?}");
        assert!(shard.check(Row(ROWS), IMAGE, b"other").is_err(), "{when:?}");
    }
}
