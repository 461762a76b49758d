//! Files that HDF5's own library wrote, with every way in which it stores arrays and groups.
//! `data/hdf5/make.py` made them; byte `j` of sample `i` is `(7 i + j) % 251`.

use std::fs;
use std::path::Path;

use gular_bundle::{
    BundlePath, Dtype, Envelope, Error, Field, FieldName, FixedPlaces, ReadAt, Run, ShardSpec,
    ShardWriter, Split, Survey, Values, rebuild_index, survey,
};

use crate::random::Rng;

const FILES: [&str; 6] = ["void", "chunks", "vlen", "latest", "paged", "dense"];

fn bytes_of(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/hdf5");
    fs::read(folder.join(format!("{name}.h5"))).unwrap()
}

fn open(name: &str) -> (ReadAt, Survey) {
    let file = ReadAt::in_memory(name, bytes_of(name));
    let survey = survey(&file, Envelope::Hdf5).unwrap();
    (file, survey)
}

fn read(file: &ReadAt, run: Run) -> Vec<u8> {
    let mut out = vec![0; run.len as usize];
    file.read_at(run.offset, &mut out).unwrap();
    out
}

fn sample(i: usize, len: usize) -> Vec<u8> {
    (0..len).map(|j| ((7 * i + j) % 251) as u8).collect()
}

fn texts(survey: &Survey, name: &str) -> Vec<String> {
    match &survey.column(name).unwrap().values {
        Values::Texts(texts) => texts.iter().map(|t| t.clone().unwrap()).collect(),
        other => panic!("{name}: {other:?}"),
    }
}

fn runs(survey: &Survey, name: &str) -> Vec<Option<Run>> {
    match &survey.column(name).unwrap().values {
        Values::Bytes(runs) => runs.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

/// Reads each value of a column of fixed values of u8.
fn values(file: &ReadAt, survey: &Survey, name: &str) -> Vec<Vec<u8>> {
    let Values::Fixed { dtype, shape, places } = &survey.column(name).unwrap().values else {
        panic!("{name}: {survey:?}");
    };
    assert_eq!(*dtype, Dtype::U8);
    let len = shape.iter().product();
    let offset = |i: usize| match places {
        FixedPlaces::Stride(base) => base + i as u64 * len,
        FixedPlaces::Offsets(offsets) => offsets[i],
    };
    (0..survey.rows).map(|i| read(file, Run { offset: offset(i), len })).collect()
}

fn refusal(survey: &Survey, name: &str) -> String {
    match &survey.column(name).unwrap().values {
        Values::NotStored(reason) => reason.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn one_dataset_an_image_behind_a_user_block() {
    let (file, survey) = open("void");
    let keys =
        ["class 0/0.jpg", "class 0/2.jpg", "class 0/4.jpg", "class 1/1.jpg", "class 1/3.jpg"];
    assert_eq!(texts(&survey, "key"), keys);
    for (run, i) in runs(&survey, "image").into_iter().zip([0, 2, 4, 1, 3]) {
        assert_eq!(read(&file, run.unwrap()), sample(i, 20 + i));
    }
}

#[test]
fn links_in_a_fractal_heap() {
    let (file, survey) = open("dense");
    assert_eq!(survey.rows, 50);
    assert_eq!(texts(&survey, "key")[49], "g/49");
    for (i, run) in runs(&survey, "image").into_iter().enumerate() {
        assert_eq!(read(&file, run.unwrap()), sample(i, 3));
    }
}

#[test]
fn chunks_of_whole_samples_and_what_is_refused() {
    let (file, survey) = open("chunks");
    let expected: Vec<_> = (0..5).map(|i| sample(i, 12)).collect();
    assert_eq!(values(&file, &survey, "images"), expected);
    let labels = Values::Integers((0..5).map(Some).collect());
    assert_eq!(survey.column("labels").unwrap().values, labels);
    assert_eq!(texts(&survey, "names"), ["n0", "n1", "n2", "n3", "n4"]);
    for (name, reason) in [("squeezed", "gzip"), ("split", "split"), ("unwritten", "never written")]
    {
        let said = refusal(&survey, name);
        assert!(said.contains(reason), "{name}: {said}");
    }
}

#[test]
fn values_of_varying_length() {
    let (file, survey) = open("vlen");
    let runs = runs(&survey, "images");
    for (i, run) in runs.iter().enumerate().take(4) {
        assert_eq!(read(&file, run.unwrap()), sample(i, 20 + i));
    }
    assert_eq!(runs[4], None, "never written");
    assert_eq!(texts(&survey, "key"), ["a/0.jpg", "a/1.jpg", "a/2.jpg", "a/3.jpg", "a/4.jpg"]);
    assert_eq!(survey.classes["label"], ["left", "right"]);
}

#[test]
fn every_chunk_index_of_newer_libraries() {
    let (file, survey) = open("latest");
    let expected: Vec<_> = (0..5).map(|i| sample(i, 12)).collect();
    for name in ["single", "fixed", "extensible", "tree", "implicit"] {
        assert_eq!(values(&file, &survey, name), expected, "{name}");
    }
    let labels = Values::Integers((0..5).map(Some).collect());
    assert_eq!(survey.column("labels").unwrap().values, labels);
    let (file, survey) = open("paged");
    let expected: Vec<_> = (0..1100).map(|i| sample(i, 1)).collect();
    assert_eq!(values(&file, &survey, "images"), expected);
}

#[test]
fn what_is_no_hdf5_says_so() {
    for bytes in [Vec::new(), vec![0; 5000], b"\x89HDF\r\n\x1a\n".to_vec()] {
        let file = ReadAt::in_memory("f", bytes);
        assert!(matches!(survey(&file, Envelope::Hdf5), Err(Error::Malformed { .. })));
    }
    let mut later = bytes_of("chunks");
    later[8] = 9;
    let said = survey(&ReadAt::in_memory("f", later), Envelope::Hdf5).unwrap_err();
    assert!(matches!(&said, Error::NotInPlace { reason, .. } if reason.contains("version 9")));
    let mut cut = bytes_of("latest");
    cut.truncate(cut.len() - 1);
    let said = survey(&ReadAt::in_memory("f", cut), Envelope::Hdf5).unwrap_err();
    assert!(said.to_string().contains("cut short"), "{said}");
}

/// Writes samples of `fields` and surveys the file.
fn check_shard(fields: &[Field], classes: &[String], samples: &[Vec<Vec<u8>>]) -> Survey {
    let dir = tempfile::tempdir().unwrap();
    let spec = ShardSpec { envelope: Envelope::Hdf5, split: Split::Train, fields, classes };
    let mut writer = ShardWriter::create(dir.path(), &spec).unwrap();
    for (i, values) in samples.iter().enumerate() {
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        writer.push(&BundlePath::parse(&format!("k{i}")).unwrap(), &values).unwrap();
    }
    let entry = writer.finish().unwrap();
    let bytes = fs::read(dir.path().join(entry.file.name.as_str())).unwrap();
    let file = ReadAt::in_memory("shard", bytes);
    let index = rebuild_index(&file, Envelope::Hdf5, fields).unwrap();
    assert_eq!(index, fs::read(dir.path().join(entry.index.name.as_str())).unwrap());
    survey(&file, Envelope::Hdf5).unwrap()
}

#[test]
fn every_type_and_many_fields_are_found_again() {
    let name = |i: usize| FieldName::parse(&format!("f{i}")).unwrap();
    let field = |(i, dtype): (usize, Dtype)| Field::fixed(name(i), dtype, vec![2, 1]);
    let fields: Vec<Field> =
        Dtype::ALL.into_iter().cycle().take(200).enumerate().map(field).collect();
    let value = |f: &Field| vec![7; f.size_bytes().unwrap() as usize];
    let samples: Vec<Vec<Vec<u8>>> = (0..3).map(|_| fields.iter().map(value).collect()).collect();
    let found = check_shard(&fields, &[], &samples);
    assert_eq!((found.rows, found.columns.len()), (3, 201));
    for (field, column) in fields.iter().zip(&found.columns) {
        assert_eq!(field.name.as_str(), column.name, "columns come in the order of fields");
        let Values::Fixed { dtype, shape, .. } = &column.values else { panic!("{column:?}") };
        assert_eq!(field.as_fixed(), Some((*dtype, shape.as_slice())));
    }
}

#[test]
fn empty_values_and_odd_classes_are_kept() {
    let fields = [Field::bytes(FieldName::image(), vec![]), Field::label()];
    let label = 0_i64.to_le_bytes().to_vec();
    let empty = vec![vec![Vec::new(), label.clone()], vec![Vec::new(), label]];
    let classes = ["Ä".to_owned(), String::new(), "a longer name".to_owned()];
    assert_eq!(check_shard(&fields, &classes, &empty).classes["label"], classes);
    // The first is too long for an attribute, and the second has a zero that would end a text, so
    // only the manifest has them.
    for classes in [vec!["x".repeat(70_000)], vec!["a\0b".to_owned()]] {
        assert!(check_shard(&fields, &classes, &empty).classes.is_empty());
    }
}

#[test]
fn more_dimensions_than_hdf5_takes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let create = |n: usize| {
        let fields = [Field::fixed(FieldName::image(), Dtype::U8, vec![1; n])];
        let spec = ShardSpec::new(Envelope::Hdf5, Split::Train, &fields);
        ShardWriter::create(dir.path(), &spec).map(|_| ())
    };
    create(31).unwrap();
    assert!(matches!(create(32), Err(Error::Value { .. })));
}

/// Changes some bytes. Those that are not zero are changed more often, since they have a meaning.
fn mutate(good: &[u8], seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut bytes = good.to_vec();
    for _ in 0..1 + rng.below(4) {
        let mut at = rng.below(bytes.len());
        while at + 1 < bytes.len() && bytes[at] == 0 && rng.below(16) > 0 {
            at += 1;
        }
        let end = (at + 8).min(bytes.len());
        match rng.below(5) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.below(256) as u8,
            2 => bytes[at] = bytes[at].wrapping_add(1),
            3 => {
                let extreme = [u64::MAX, 1 << 63, i64::MAX as u64, 1 << 40][rng.below(4)];
                bytes[at..end].copy_from_slice(&extreme.to_le_bytes()[..end - at]);
            }
            // The bytes become the address of something else in the file.
            _ => {
                let from = rng.below(good.len()) as u64 & !7;
                bytes[at..end].copy_from_slice(&from.to_le_bytes()[..end - at]);
            }
        }
    }
    bytes
}

/// Checks that every run of a survey is within the file, and that all columns have as many values.
fn check(survey: &Survey, len: u64, seed: u64) {
    let inside = |run: Run| assert!(run.offset + run.len <= len, "seed {seed}: {run:?}");
    for column in &survey.columns {
        match &column.values {
            Values::Bytes(runs) => {
                assert_eq!(runs.len(), survey.rows, "seed {seed}");
                runs.iter().flatten().for_each(|run| inside(*run));
            }
            Values::Fixed { dtype, shape, places } => {
                let size = shape.iter().product::<u64>() * dtype.size_bytes();
                match places {
                    FixedPlaces::Stride(offset) => {
                        inside(Run { offset: *offset, len: size * survey.rows as u64 });
                    }
                    FixedPlaces::Offsets(offsets) => {
                        assert_eq!(offsets.len(), survey.rows, "seed {seed}");
                        offsets.iter().for_each(|o| inside(Run { offset: *o, len: size }));
                    }
                }
            }
            Values::Integers(values) => assert_eq!(values.len(), survey.rows, "seed {seed}"),
            Values::Texts(values) => assert_eq!(values.len(), survey.rows, "seed {seed}"),
            Values::NotStored(reason) => assert!(!reason.is_empty()),
        }
    }
}

#[test]
fn damaged_files_never_panic_and_never_lead_outside() {
    for name in FILES {
        let good = bytes_of(name);
        let (mut refused, mut read) = (0, 0);
        for seed in 0..10_000 {
            let bytes = mutate(&good, seed);
            let len = bytes.len() as u64;
            match survey(&ReadAt::in_memory("damaged", bytes), Envelope::Hdf5) {
                Ok(survey) => {
                    read += 1;
                    check(&survey, len, seed);
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 500 && read > 500, "{name}: {refused} refused, {read} read");
    }
}
