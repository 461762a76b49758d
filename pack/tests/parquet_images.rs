//! Parquet files with images, as Hugging Face's hub has them.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use crate::support::{jpeg, png, run, samples};
use gular_bundle::Split;
use gular_pack::{Error, LabelColumn, Labels, PackReport, PlanOptions, TableOptions};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

const FEATURES: &str = r#"{"info": {"features": {
    "image": {"_type": "Image"}, "label": {"names": ["zebra", "ant"], "_type": "ClassLabel"}}}}"#;

/// Writes rows of an image, its number of a class and, if `masked`, its mask; two rows in a group.
fn write(path: &Path, images: &[Option<Vec<u8>>], masked: bool, compression: Compression) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mask = "optional group mask { optional binary bytes; optional binary path (UTF8); }";
    let schema = format!(
        "message schema {{ optional group image {{ optional binary bytes; optional binary path (UTF8); }}
         optional int64 label; {} }}",
        if masked { mask } else { "" }
    );
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let features = KeyValue::new("huggingface".to_owned(), FEATURES.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_key_value_metadata(Some(vec![features]))
        .build();
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    let mut row = 0;
    for rows in images.chunks(2) {
        let mut group = writer.next_row_group().unwrap();
        let mut column = 0;
        while let Some(mut values) = group.next_column().unwrap() {
            match column {
                0 | 3 => {
                    let bytes = rows.iter().flatten().enumerate().map(|(i, image)| match column {
                        0 => ByteArray::from(image.clone()),
                        _ => ByteArray::from(grey((row + i) as u8, image)),
                    });
                    let bytes: Vec<ByteArray> = bytes.collect();
                    let levels: Vec<i16> =
                        rows.iter().map(|of| 1 + i16::from(of.is_some())).collect();
                    values
                        .typed::<ByteArrayType>()
                        .write_batch(&bytes, Some(&levels), None)
                        .unwrap();
                }
                2 => {
                    let labels: Vec<i64> =
                        (0..rows.len()).map(|i| ((row + i) % 2) as i64).collect();
                    let levels = vec![1; labels.len()];
                    values.typed::<Int64Type>().write_batch(&labels, Some(&levels), None).unwrap();
                }
                // Names are missing, as in most of these files.
                _ => {
                    let levels = vec![1; rows.len()];
                    values.typed::<ByteArrayType>().write_batch(&[], Some(&levels), None).unwrap();
                }
            }
            values.close().unwrap();
            column += 1;
        }
        group.close().unwrap();
        row += rows.len();
    }
    writer.close().unwrap();
}

/// A grey PNG of the size of an image, all of one value.
fn grey(value: u8, image: &[u8]) -> Vec<u8> {
    let header = gular_codec::read_header(image, &gular_codec::Limits::default()).unwrap();
    let (width, height) = header.upright_size();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&vec![value; (width * height) as usize]).unwrap();
    writer.finish().unwrap();
    bytes
}

fn packed(source: &Path) -> (Result<PackReport, Error>, TempDir) {
    let out = tempfile::tempdir().unwrap();
    (run(source, out.path(), PlanOptions::default(), 1), out)
}

fn images(n: u32) -> Vec<Option<Vec<u8>>> {
    (0..n).map(|i| Some(if i % 2 == 0 { jpeg(i) } else { png(i) })).collect()
}

#[test]
fn images_classes_and_splits_are_those_of_the_file() {
    let source = tempfile::tempdir().unwrap();
    let file = |name: &str| source.path().join("data").join(name);
    write(&file("train-00000-of-00002.parquet"), &images(5), false, Compression::SNAPPY);
    write(&file("train-00001-of-00002.parquet"), &images(3), false, Compression::UNCOMPRESSED);
    write(
        &file("test-00000-of-00001.parquet"),
        &images(2),
        false,
        Compression::ZSTD(Default::default()),
    );
    let (report, out) = packed(source.path());
    let report = report.unwrap();
    assert_eq!(report.dataset.as_deref(), Some("Hugging Face's Parquet with images"));
    let (bundle, found) = samples(out.path());
    // In the order of their numbers, not of their names.
    assert_eq!(bundle.manifest().classes, ["zebra", "ant"]);
    let of = |split| found.values().filter(|(of, _)| *of == split).count();
    assert_eq!([of(Split::Train), of(Split::Test)], [8, 2]);
    let key = "data/train-00000-of-00002/train-00000-of-00002-0000003.png";
    assert_eq!(found[key].1[0], png(3));
    let one = packed(&file("test-00000-of-00001.parquet"));
    assert_eq!((one.0.unwrap().samples, samples(one.1.path()).1.len()), (2, 2));
}

#[test]
fn a_second_column_of_images_is_the_mask() {
    let source = tempfile::tempdir().unwrap();
    for part in 0..2 {
        let name = format!("train-{part:05}-of-00002.parquet");
        write(&source.path().join(name), &images(3), true, Compression::SNAPPY);
    }
    let (report, out) = packed(source.path());
    assert_eq!(report.unwrap().samples, 6);
    let (bundle, found) = samples(out.path());
    let mask = bundle.manifest().field("mask").unwrap();
    for (key, (_, values)) in &found {
        let row: u8 = key.rsplit_once('-').unwrap().1.split('.').next().unwrap().parse().unwrap();
        assert_eq!(values[mask.0], grey(row, &values[0]), "{key}");
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let refused = |write: &dyn Fn(&Path)| {
        let source = tempfile::tempdir().unwrap();
        write(source.path());
        packed(source.path()).0.unwrap_err().to_string()
    };
    let mut missing = images(3);
    missing[1] = None;
    let name = "train-00000-of-00001.parquet";
    let error = refused(&|dir| write(&dir.join(name), &missing, false, Compression::SNAPPY));
    assert!(error.contains("row 1 has no bytes in the column `image`, only a path"), "{error}");
    let error = refused(&|dir| {
        write(&dir.join("a").join(name), &images(3), false, Compression::SNAPPY);
        write(&dir.join("b").join(name), &images(3), true, Compression::SNAPPY);
    });
    assert!(error.contains("different columns, images or classes"), "{error}");
    let error = refused(&|dir| fs::write(dir.join(name), b"PAR1 and no more").unwrap());
    assert!(error.contains(name), "{error}");
    // Beside another one, also where patterns say where the images are.
    let source = tempfile::tempdir().unwrap();
    write(&source.path().join(name), &images(3), false, Compression::SNAPPY);
    fs::write(source.path().join("train-00001-of-00002.parquet"), "version https://git-lfs")
        .unwrap();
    let plan =
        PlanOptions { images: vec!["{**}/{key}.{ext}".parse().unwrap()], ..PlanOptions::default() };
    let out = tempfile::tempdir().unwrap();
    let error = run(source.path(), out.path(), plan, 1).unwrap_err().to_string();
    assert!(error.contains("train-00001-of-00002.parquet"), "{error}");
    let plain = |dir: &Path, names: &[&str]| {
        for name in names {
            write(&dir.join(name), &images(2), false, Compression::SNAPPY);
        }
    };
    let error = refused(&|dir| {
        plain(dir, &["train-00000-of-00001.parquet", "extra-00000-of-00001.parquet"]);
    });
    assert!(error.contains("`extra-00000-of-00001.parquet` does not say"), "{error}");
    let error = refused(&|dir| {
        plain(dir, &["a/train-00000-of-00001.parquet", "b/train-00000-of-00001.parquet"]);
    });
    assert!(error.contains("are in two folders"), "{error}");
    let mut sound = images(3);
    sound[2] = Some(b"RIFF....WAVEfmt and what follows".to_vec());
    let error = refused(&|dir| write(&dir.join(name), &sound, false, Compression::SNAPPY));
    assert!(error.contains("row 2 has something else than a picture"), "{error}");
}

#[test]
fn the_names_of_files_say_the_splits() {
    for names in [
        [
            "train-00000-of-00001-0123456789abcdef.parquet",
            "test-00000-of-00001-0123456789abcdef.parquet",
        ],
        ["beans-train.parquet", "beans-test.parquet"],
        ["train_0.parquet", "test_0.parquet"],
        ["default/train/0000.parquet", "default/test/0000.parquet"],
    ] {
        let source = tempfile::tempdir().unwrap();
        for name in names {
            write(&source.path().join(name), &images(3), true, Compression::SNAPPY);
        }
        // A mask needs one pattern for the files of all splits.
        let (report, out) = packed(source.path());
        let Ok(report) = report else {
            let error = report.unwrap_err().to_string();
            assert!(error.contains("a second column of images, `mask`"), "{error}");
            for name in names {
                write(&source.path().join(name), &images(3), false, Compression::SNAPPY);
            }
            let (report, out) = packed(source.path());
            check_splits(&report.unwrap(), out.path());
            continue;
        };
        check_splits(&report, out.path());
    }
}

fn check_splits(report: &PackReport, out: &Path) {
    assert_eq!(report.splits[&Split::Train].samples, 3);
    assert_eq!(report.splits[&Split::Test].samples, 3);
    assert_eq!(samples(out).0.manifest().classes, ["zebra", "ant"]);
}

#[test]
fn columns_are_chosen_without_a_table() {
    let source = tempfile::tempdir().unwrap();
    write(&source.path().join("x.parquet"), &images(3), false, Compression::SNAPPY);
    assert!(gular_pack::has_parquet_images(source.path()));
    let label = LabelColumn::None;
    let labels = Labels::Table(TableOptions { label, ..TableOptions::default() });
    let out = tempfile::tempdir().unwrap();
    run(source.path(), out.path(), PlanOptions { labels, ..PlanOptions::default() }, 1).unwrap();
    let (bundle, _) = samples(out.path());
    assert!(bundle.manifest().classes.is_empty() && bundle.manifest().field("label").is_err());
}

#[test]
fn long_names_of_files_are_shortened() {
    let source = tempfile::tempdir().unwrap();
    let name = format!("train-{}.parquet", "long".repeat(50));
    write(&source.path().join(name), &images(3), false, Compression::SNAPPY);
    let (report, out) = packed(source.path());
    assert_eq!(report.unwrap().samples, 3);
    let key = samples(out.path()).1.into_keys().next().unwrap();
    assert!(key.rsplit('/').next().unwrap().len() < 100, "{key}");
}
