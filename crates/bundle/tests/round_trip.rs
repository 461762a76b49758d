//! What is written can be read back, and any change is detected.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use gular_bundle::{
    About, Backend, Bundle, BundlePath, CheckWhen, DATA_DIR, Digest, Dtype, Envelope, Field,
    FieldIdx, FieldName, Index, Manifest, OpenOptions, Payload, ReadAt, Row, SampleId, ShardEntry,
    ShardIdx, ShardSpec, ShardWriter, Split, View, rebuild_index, write_manifest,
};
use proptest::prelude::*;

/// The key of one sample, and its values in field order.
type Sample = (String, Vec<Vec<u8>>);

fn fields() -> Vec<Field> {
    let name = |n: &str| FieldName::parse(n).unwrap();
    vec![
        Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
        Field::label(),
        Field::fixed(name("box"), Dtype::F32, vec![2, 2]),
        Field::bytes(name("mask"), vec!["image/png".into()]),
    ]
}

fn sample(i: usize, image: Vec<u8>, mask: Vec<u8>) -> Sample {
    let label = (i as i64 % 3).to_le_bytes().to_vec();
    (format!("dir {}/k{i}.jpg", i % 7), vec![image, label, vec![i as u8; 16], mask])
}

fn write_shard(dir: &Path, envelope: Envelope, fields: &[Field], samples: &[Sample]) -> ShardEntry {
    let classes = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
    let spec = ShardSpec { envelope, split: Split::Train, fields, classes: &classes };
    let mut writer = ShardWriter::create(dir, &spec).unwrap();
    for (key, values) in samples {
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        writer.push(&BundlePath::parse(key).unwrap(), &values).unwrap();
    }
    writer.finish().unwrap()
}

fn write_bundle(
    dir: &Path,
    envelope: Envelope,
    fields: Vec<Field>,
    shards: &[Vec<Sample>],
) -> Digest {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data).unwrap();
    let shards = shards.iter().map(|s| write_shard(&data, envelope, &fields, s)).collect();
    let manifest = Manifest {
        envelope,
        payload: Payload::Encoded,
        fields,
        classes: vec!["a".into(), "b".into(), "c".into()],
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards,
    };
    write_manifest(dir, &manifest).unwrap()
}

fn check_all(
    dir: &Path,
    digest: Digest,
    shards: &[Vec<Sample>],
    backend: Backend,
    check: CheckWhen,
    index_bytes: u64,
) {
    let options =
        OpenOptions { backend, check, digest: Some(digest), index_bytes, open_files: Some(1) };
    let bundle = Bundle::open(dir, options).unwrap();
    let all: Vec<&Sample> = shards.iter().flatten().collect();
    assert_eq!(bundle.n_samples(Split::Train), all.len() as u64);
    let mut out = Vec::new();
    for (i, (key, values)) in all.iter().enumerate() {
        let id = bundle.locate(Split::Train, i as u64).unwrap();
        assert_eq!(bundle.key(id).unwrap().as_str(), key);
        for (field, value) in values.iter().enumerate() {
            bundle.read(id, FieldIdx(field), &mut out).unwrap();
            assert_eq!(&out, value, "{key} field {field}");
            let shard = bundle.shard(id.shard).unwrap();
            assert_eq!(
                shard.view(id.row, FieldIdx(field), &mut Vec::new()).unwrap(),
                value,
                "{key}"
            );
            // In some envelopes a label is in the index only.
            let (row, field) = (id.row, FieldIdx(field));
            let checked = match check {
                CheckWhen::OnFetch => true,
                // A label has no digest of its own.
                CheckWhen::FirstTouch => shard.digest(row, field).unwrap().is_some(),
                CheckWhen::Always => false,
            };
            assert_eq!(shard.is_checked(row, field), checked, "{key} {check:?}");
            if shard.range(row, field).unwrap().is_some() {
                let middle = value.len() / 3..value.len() * 2 / 3;
                let mut buffer = vec![7; 5];
                let part = shard.view_part(row, field, middle.clone(), &mut buffer).unwrap();
                assert_eq!(part, &value[middle.clone()], "{key}");
                let mut part = vec![0; middle.len()];
                shard.read_part(row, field, middle.start, &mut part).unwrap();
                assert_eq!(part, &value[middle], "{key}");
                let past = value.len()..value.len() + 1;
                assert!(shard.view_part(row, field, past, &mut buffer).is_err());
                assert!(shard.read_part(row, field, usize::MAX, &mut part).is_err());
            }
        }
        let label = bundle.shard(id.shard).unwrap().label(id.row).unwrap().unwrap();
        assert_eq!(i64::from(label).to_le_bytes().to_vec(), values[1]);
    }
    assert!(bundle.locate(Split::Train, all.len() as u64).is_err());
    assert!(bundle.locate(Split::Val, 0).is_err());
    assert!(
        bundle
            .read(SampleId { shard: ShardIdx(0), row: Row(usize::MAX) }, FieldIdx(0), &mut out)
            .is_err()
    );
    assert!(bundle.shard(ShardIdx(shards.len())).is_err());
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        (0..3_000_000_usize, any::<u8>()).prop_map(|(n, b)| vec![b; n]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_sample_reads_back(
        envelope in prop::sample::select(Envelope::ALL.to_vec()),
        images in prop::collection::vec((bytes(), bytes()), 1..12),
        cut in 1..12_usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let samples: Vec<Sample> =
            images.into_iter().enumerate().map(|(i, (a, b))| sample(i, a, b)).collect();
        let shards: Vec<Vec<Sample>> = samples.chunks(cut).map(<[Sample]>::to_vec).collect();
        let digest = write_bundle(dir.path(), envelope, fields(), &shards);
        check_all(dir.path(), digest, &shards, Backend::Pread, CheckWhen::FirstTouch, u64::MAX);
        // All entries of indexes are read from the disk.
        check_all(dir.path(), digest, &shards, Backend::Pread, CheckWhen::FirstTouch, 0);
        check_all(dir.path(), digest, &shards, Backend::Map, CheckWhen::Always, 0);
        // The index can be made again from the shard, byte for byte.
        let bundle = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
        for entry in &bundle.manifest().shards {
            let shard = ReadAt::open(&bundle.path_of(&entry.file), Backend::Pread).unwrap();
            let again = rebuild_index(&shard, envelope, &fields()).unwrap();
            prop_assert_eq!(again, fs::read(bundle.path_of(&entry.index)).unwrap());
        }
    }
}

fn small() -> Vec<Vec<Sample>> {
    let image = |i: usize| (0..200 + i * 37).map(|b| (b * 7 + i) as u8).collect();
    vec![(0..5).map(|i| sample(i, image(i), vec![i as u8; 9])).collect()]
}

/// The bundle is as it was packed, as it was published, and all in one folder.
#[test]
fn data_is_found_below_the_manifest_beside_its_folder_and_beside_it() {
    let (dir, shards) = (tempfile::tempdir().unwrap(), small());
    let version = dir.path().join("v1");
    fs::create_dir(&version).unwrap();
    let digest = write_bundle(&version, Envelope::Shards, fields(), &shards);
    let check = || check_all(&version, digest, &shards, Backend::Pread, CheckWhen::Always, 1 << 20);
    check();
    fs::rename(version.join(DATA_DIR), dir.path().join(DATA_DIR)).unwrap();
    check();
    for entry in fs::read_dir(dir.path().join(DATA_DIR)).unwrap() {
        let entry = entry.unwrap();
        fs::rename(entry.path(), version.join(entry.file_name())).unwrap();
    }
    check();
    // A sandbox may have a folder `data` of its own, and a file may have a replacement name.
    fs::create_dir(version.join(DATA_DIR)).unwrap();
    fs::write(version.join(DATA_DIR).join("other"), "").unwrap();
    let bundle = Bundle::open(&version, OpenOptions::default()).unwrap();
    let shard = bundle.path_of(&bundle.manifest().shards[0].file);
    let renamed = format!("{}~1", shard.display());
    fs::rename(&shard, renamed).unwrap();
    fs::write(&shard, "cut").unwrap();
    check();
    // If nothing is found, the error names the usual place.
    fs::remove_dir_all(dir.path().join(DATA_DIR)).unwrap();
    for entry in fs::read_dir(&version).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && !path.ends_with(gular_bundle::MANIFEST_NAME) {
            fs::remove_file(path).unwrap();
        }
    }
    let bundle = Bundle::open(&version, OpenOptions::default()).unwrap();
    let error = bundle.shard(ShardIdx(0)).unwrap_err().to_string();
    assert!(error.contains("/v1/data/"), "{error}");
}

#[test]
fn same_samples_give_same_bytes() {
    for envelope in Envelope::ALL {
        same_bytes(envelope);
    }
}

fn same_bytes(envelope: Envelope) {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert_eq!(
        write_bundle(a.path(), envelope, fields(), &small()),
        write_bundle(b.path(), envelope, fields(), &small())
    );
    let names = |d: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(d.join(DATA_DIR)).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(a.path()), names(b.path()));
    assert_eq!(names(a.path()).len(), 2, "no temporary file is left");
}

/// Reads everything, and returns the first error.
fn read_everything(dir: &Path, digest: Digest) -> Result<(), gular_bundle::Error> {
    let options = OpenOptions { digest: Some(digest), ..OpenOptions::default() };
    let bundle = Bundle::open(dir, options)?;
    let mut out = Vec::new();
    for i in 0..bundle.n_samples(Split::Train) {
        let id = bundle.locate(Split::Train, i)?;
        for field in FieldIdx::first(bundle.manifest().fields.len()) {
            bundle.read(id, field, &mut out)?;
        }
    }
    for entry in &bundle.manifest().shards {
        let shard = ReadAt::open(&bundle.path_of(&entry.file), Backend::Pread)?;
        let mut all = vec![0; shard.len_bytes() as usize];
        shard.read_at(0, &mut all)?;
        let found = Digest::of(&all);
        if found != entry.file.digest {
            return Err(gular_bundle::Error::Digest {
                path: shard.path(),
                expected: entry.file.digest,
                found,
            });
        }
    }
    Ok(())
}

#[test]
fn any_flipped_or_cut_byte_of_any_file_is_caught() {
    let dir = tempfile::tempdir().unwrap();
    let digest = write_bundle(dir.path(), Envelope::Shards, fields(), &small());
    read_everything(dir.path(), digest).unwrap();
    let mut files: Vec<_> =
        fs::read_dir(dir.path().join(DATA_DIR)).unwrap().map(|e| e.unwrap().path()).collect();
    files.push(dir.path().join("manifest.json"));
    for file in files {
        let good = fs::read(&file).unwrap();
        // The file is changed in place, since one that is truncated and rewritten waits for the
        // disk each time.
        let open = File::options().write(true).open(&file).unwrap();
        for (i, byte) in good.iter().enumerate() {
            open.write_all_at(&[byte ^ (1 << (i % 8))], i as u64).unwrap();
            assert!(read_everything(dir.path(), digest).is_err(), "{} byte {i}", file.display());
            open.write_all_at(&[*byte], i as u64).unwrap();
        }
        for len in (0..good.len()).step_by(97).chain([good.len() - 1]) {
            fs::write(&file, &good[..len]).unwrap();
            assert!(
                read_everything(dir.path(), digest).is_err(),
                "{} cut at {len}",
                file.display()
            );
        }
        fs::write(&file, &good).unwrap();
    }
    read_everything(dir.path(), digest).unwrap();
}

#[test]
fn values_that_do_not_fit_are_refused_and_nothing_is_added() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer =
        ShardWriter::create(dir.path(), &ShardSpec::new(Envelope::Shards, Split::Train, &fields()))
            .unwrap();
    let key = BundlePath::parse("k").unwrap();
    let wide = i64::MAX.to_le_bytes();
    let cases: [&[&[u8]]; 4] = [
        &[b"i", &[0; 8], &[0; 16]],
        &[b"i", &[0; 7], &[0; 16], b"m"],
        &[b"i", &[0; 8], &[0; 15], b"m"],
        &[b"i", &wide, &[0; 16], b"m"],
    ];
    for case in cases {
        assert!(writer.push(&key, case).is_err());
    }
    assert_eq!(writer.n_samples(), 0);
    drop(writer);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a dropped writer leaves nothing");
}

#[test]
fn the_safetensors_library_reads_a_shard() {
    let dir = tempfile::tempdir().unwrap();
    let samples = &small()[0];
    let entry = write_shard(dir.path(), Envelope::Shards, &fields(), samples);
    let bytes = fs::read(dir.path().join(entry.file.name.as_str())).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let images = tensors.tensor("image.bytes").unwrap();
    let offsets = tensors.tensor("image.offsets").unwrap();
    let offsets: Vec<usize> = offsets
        .data()
        .chunks(8)
        .map(|b| i64::from_le_bytes(b.try_into().unwrap()) as usize)
        .collect();
    for (i, (_, values)) in samples.iter().enumerate() {
        assert_eq!(&images.data()[offsets[i]..offsets[i + 1]], &values[0][..]);
    }
    assert_eq!(tensors.tensor("box").unwrap().shape(), [5, 2, 2]);
    assert_eq!(tensors.tensor("label").unwrap().shape(), [5]);
    for name in ["image.bytes", "image.offsets", "label", "box", "mask.bytes", "key.bytes"] {
        let at = tensors.tensor(name).unwrap().data().as_ptr() as usize - bytes.as_ptr() as usize;
        assert_eq!(at % 64, 0, "{name}");
    }
    let index = fs::read(dir.path().join(entry.index.name.as_str())).unwrap();
    safetensors::SafeTensors::deserialize(&index).unwrap();
}

#[test]
fn an_index_says_which_files_values_were_made_from_if_it_was_told() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join(DATA_DIR);
    fs::create_dir(&data).unwrap();
    let fields = [Field::fixed(FieldName::image(), Dtype::U8, vec![1])];
    let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
    let write = |sources: [Option<Digest>; 3]| {
        let mut writer = ShardWriter::create(&data, &spec).unwrap();
        for (i, source) in sources.into_iter().enumerate() {
            let key = BundlePath::parse(&format!("{i}.png")).unwrap();
            writer.push_made(&key, &[&[i as u8]], source).unwrap();
        }
        let entry = writer.finish().unwrap();
        let index = fs::read(data.join(entry.index.name.as_str())).unwrap();
        let index = Index::parse("index", index, &fields, entry.file.bytes).unwrap();
        let found = index.rows().map(|row| index.source(row)).collect::<Vec<_>>();
        assert_eq!(index.source(Row(3)), None);
        (entry, found)
    };
    let (a, b) = (Some(Digest::of(b"a")), Some(Digest::of(b"b")));
    let (with, found) = write([a, b, a]);
    assert_eq!(found, [a, b, a]);
    assert_eq!(write([None, b, None]).1, [None, b, None]);
    let (without, found) = write([None; 3]);
    assert_eq!(found, [None; 3]);
    assert!(with.file == without.file && with.index != without.index);

    // A shard with a view has the digests too, for the samples that the view selects.
    let view = View::new(3, [Row(1), Row(2)], Vec::new()).unwrap();
    let (file, bytes) = view.file(Split::Train, with.index.digest).unwrap();
    fs::write(data.join(file.name.as_str()), bytes).unwrap();
    let shards = vec![ShardEntry { samples: 2, view: Some(file), ..with }];
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Raw,
        fields: fields.to_vec(),
        classes: Vec::new(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards,
    };
    write_manifest(dir.path(), &manifest).unwrap();
    let bundle = Bundle::open(dir.path(), OpenOptions::default()).unwrap();
    let shard = bundle.shard(ShardIdx(0)).unwrap();
    assert_eq!([0, 1].map(|row| shard.source(Row(row)).unwrap()), [b, a]);
}
