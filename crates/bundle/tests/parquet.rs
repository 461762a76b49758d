//! Parquet: the library reads what we write, and we read what it writes.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use gular_bundle::{
    Backend, BundlePath, Dtype, Envelope, Error, Field, FieldName, ReadAt, Run, ShardSpec,
    ShardWriter, Split, Survey, Values, rebuild_index, survey,
};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field as Cell;
use parquet::schema::parser::parse_message_type;

fn name(text: &str) -> FieldName {
    FieldName::parse(text).unwrap()
}

/// Writes a shard of these fields and values. Returns its path and whether its index, made again
/// from the file, equals the one that was written.
fn shard(fields: &[Field], samples: &[Vec<Vec<u8>>]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let spec = ShardSpec::new(Envelope::Parquet, Split::Train, fields);
    let mut writer = ShardWriter::create(dir.path(), &spec).unwrap();
    for (i, values) in samples.iter().enumerate() {
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        writer.push(&BundlePath::parse(&format!("{i}.jpg")).unwrap(), &values).unwrap();
    }
    let entry = writer.finish().unwrap();
    let path = dir.path().join(entry.file.name.as_str());
    let file = ReadAt::open(&path, Backend::Pread).unwrap();
    let again = rebuild_index(&file, Envelope::Parquet, fields).unwrap();
    assert!(again == fs::read(dir.path().join(entry.index.name.as_str())).unwrap());
    (dir, path)
}

/// Returns the cells of the rows as the library reads them, with groups opened.
fn rows(path: &std::path::Path) -> Vec<Vec<Cell>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let row = |row: parquet::record::Row| {
        row.into_columns().into_iter().map(|(_, cell)| cell).collect::<Vec<Cell>>()
    };
    let open = |cell| match cell {
        Cell::Group(group) => row(group),
        cell => vec![cell],
    };
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(|r| row(r).into_iter().flat_map(open).collect()).collect()
}

fn bytes(value: &[u8]) -> Cell {
    Cell::Bytes(ByteArray::from(value))
}

#[test]
fn the_library_reads_every_type() {
    let scalars =
        Dtype::ALL.map(|d| Field::fixed(name(&format!("{d:?}").to_lowercase()), d, vec![]));
    let mut fields = vec![Field::bytes(FieldName::image(), vec!["image/jpeg".into()])];
    fields.extend(scalars);
    fields.push(Field::bytes(name("text"), vec!["text/plain".into()]));
    fields.push(Field::fixed(name("box"), Dtype::F32, vec![2, 2]));
    fields.push(Field::fixed(name("nothing"), Dtype::U8, vec![0]));
    let value = |field: &Field, i: u8| match field.size_bytes() {
        None => vec![i; usize::from(i)],
        Some(size) => (0..size as u8).map(|b| b.wrapping_mul(83).wrapping_add(0xf0 ^ i)).collect(),
    };
    let samples: Vec<Vec<Vec<u8>>> =
        (0..9).map(|i| fields.iter().map(|f| value(f, i)).collect()).collect();
    let (_dir, path) = shard(&fields, &samples);
    let found = rows(&path);
    assert_eq!(found.len(), 9);
    for (i, (row, values)) in found.into_iter().zip(&samples).enumerate() {
        let key = Cell::Str(format!("{i}.jpg"));
        let v = |n: usize| values[n].as_slice();
        let expected = vec![
            bytes(v(0)),
            key.clone(),
            Cell::UByte(v(1)[0]),
            Cell::Byte(v(2)[0] as i8),
            Cell::UShort(u16::from_le_bytes(v(3).try_into().unwrap())),
            Cell::Short(i16::from_le_bytes(v(4).try_into().unwrap())),
            Cell::UInt(u32::from_le_bytes(v(5).try_into().unwrap())),
            Cell::Int(i32::from_le_bytes(v(6).try_into().unwrap())),
            Cell::Long(i64::from_le_bytes(v(7).try_into().unwrap())),
            row[9].clone(),
            Cell::UShort(u16::from_le_bytes(v(9).try_into().unwrap())),
            Cell::Float(f32::from_le_bytes(v(10).try_into().unwrap())),
            Cell::Double(f64::from_le_bytes(v(11).try_into().unwrap())),
            bytes(v(12)),
            bytes(v(13)),
            bytes(v(14)),
            key,
        ];
        assert_eq!(row, expected);
        let Cell::Float16(half) = row[9] else { panic!("{:?}", row[9]) };
        assert_eq!(half.to_le_bytes(), v(8));
    }
}

#[test]
fn pages_and_row_groups_are_bounded() {
    let fields = [Field::bytes(FieldName::image(), vec!["image/png".into()]), Field::label()];
    let label = |i: usize| (i as i64).to_le_bytes().to_vec();
    // The values exceed a row group's bytes, and one value is far larger than a page.
    let sizes = (0..70).map(|i| if i == 30 { 9 << 20 } else { 600_000 + i * 7 });
    let large: Vec<Vec<Vec<u8>>> =
        sizes.enumerate().map(|(i, size)| vec![vec![i as u8; size], label(i)]).collect();
    let (_dir, path) = shard(&fields, &large);
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.metadata().num_row_groups(), 2);
    let mut pages = reader.get_row_group(0).unwrap().get_column_page_reader(0).unwrap();
    let mut sizes = Vec::new();
    while let Some(page) = pages.get_next_page().unwrap() {
        sizes.push((page.num_values(), page.buffer().len()));
    }
    assert!(sizes.iter().all(|(n, len)| *n <= 2 && *len < 11 << 20), "{sizes:?}");
    // The rows exceed those of a row group.
    let many: Vec<Vec<Vec<u8>>> = (0..70_000).map(|i| vec![vec![], label(i)]).collect();
    let (_dir, path) = shard(&fields, &many);
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let groups = reader.metadata().row_groups().iter();
    let rows: Vec<i64> = groups.map(RowGroupMetaData::num_rows).collect();
    assert_eq!(rows, [65_536, 4464]);
}

const ROWS: usize = 500;

fn key(i: usize) -> String {
    format!("folder/key {i}.jpg")
}

fn image(i: usize) -> Option<Vec<u8>> {
    (i % 11 != 3).then(|| (0..i % 50).map(|b| (b * i) as u8).collect())
}

fn label(i: usize) -> Option<i64> {
    (i % 7 != 1).then_some((i % 5) as i64 - 1)
}

/// Makes a file with the library: nulls, images, labels of two types and keys.
fn foreign(properties: WriterPropertiesBuilder) -> Vec<u8> {
    let schema = "message m {
        optional group image { optional binary bytes; optional binary path (STRING); }
        optional int64 label;
        required int32 small (INTEGER(8, true));
        required binary key (STRING);
        repeated float boxes;
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties =
        Arc::new(properties.set_data_page_row_count_limit(40).set_write_batch_size(16).build());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    for rows in [0..300, 300..ROWS] {
        let mut group = file.next_row_group().unwrap();
        let mut next =
            |write: &mut dyn FnMut(&mut parquet::file::writer::SerializedColumnWriter<'_>)| {
                let mut column = group.next_column().unwrap().unwrap();
                write(&mut column);
                column.close().unwrap();
            };
        let texts = |value: &dyn Fn(usize) -> Option<Vec<u8>>| {
            rows.clone().filter_map(|i| value(i).map(ByteArray::from)).collect::<Vec<_>>()
        };
        let levels = |there: &dyn Fn(usize) -> i16| rows.clone().map(there).collect::<Vec<_>>();
        next(&mut |c| {
            // Either the group is null, or the bytes within it.
            let there = |i| if image(i).is_some() { 2 } else { (i % 2) as i16 };
            let (images, levels) = (texts(&image), levels(&there));
            c.typed::<ByteArrayType>().write_batch(&images, Some(&levels), None).unwrap();
        });
        next(&mut |c| {
            let there = |i| i16::from(image(i).is_some() || i % 2 == 1);
            c.typed::<ByteArrayType>().write_batch(&[], Some(&levels(&there)), None).unwrap();
        });
        next(&mut |c| {
            let labels: Vec<i64> = rows.clone().filter_map(label).collect();
            let levels = levels(&|i| i16::from(label(i).is_some()));
            c.typed::<Int64Type>().write_batch(&labels, Some(&levels), None).unwrap();
        });
        next(&mut |c| {
            let small: Vec<i32> = rows.clone().map(|i| -(i as i32 % 100)).collect();
            c.typed::<Int32Type>().write_batch(&small, None, None).unwrap();
        });
        next(&mut |c| {
            let keys = texts(&|i| Some(key(i).into_bytes()));
            c.typed::<ByteArrayType>().write_batch(&keys, None, None).unwrap();
        });
        next(&mut |c| {
            let zeros = vec![0; rows.len()];
            let column = c.typed::<parquet::data_type::FloatType>();
            column.write_batch(&[], Some(&zeros), Some(&zeros)).unwrap();
        });
        group.close().unwrap();
    }
    file.into_inner().unwrap()
}

fn variants() -> Vec<(&'static str, WriterPropertiesBuilder)> {
    let image = || vec!["image".to_owned(), "bytes".to_owned()].into();
    let with = |version, dictionary, codec| {
        WriterProperties::builder()
            .set_writer_version(version)
            .set_dictionary_enabled(dictionary)
            .set_column_encoding(image(), parquet::basic::Encoding::PLAIN)
            .set_column_encoding(vec!["key".to_owned()].into(), parquet::basic::Encoding::PLAIN)
            .set_column_encoding(vec!["label".to_owned()].into(), parquet::basic::Encoding::PLAIN)
            .set_compression(codec)
            .set_column_compression(image(), Compression::UNCOMPRESSED)
    };
    let (v1, v2) = (WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0);
    vec![
        ("plain", with(v1, false, Compression::UNCOMPRESSED)),
        ("plain, version 2", with(v2, false, Compression::UNCOMPRESSED)),
        ("dictionary", with(v1, true, Compression::UNCOMPRESSED)),
        ("dictionary, version 2", with(v2, true, Compression::UNCOMPRESSED)),
        ("snappy", with(v1, false, Compression::SNAPPY)),
        ("snappy, dictionary, version 2", with(v2, true, Compression::SNAPPY)),
        ("zstd", with(v1, false, Compression::ZSTD(Default::default()))),
        ("zstd, dictionary, version 2", with(v2, true, Compression::ZSTD(Default::default()))),
        ("gzip, dictionary", with(v1, true, Compression::GZIP(Default::default()))),
    ]
}

fn is_packed(variant: &str) -> bool {
    ["snappy", "zstd", "gzip"].iter().any(|codec| variant.starts_with(codec))
}

fn values<'a>(survey: &'a Survey, column: &str) -> &'a Values {
    &survey.column(column).unwrap().values
}

#[test]
fn files_of_the_library_are_walked() {
    for (name, properties) in variants() {
        let file = ReadAt::in_memory(name, foreign(properties));
        let survey = survey(&file, Envelope::Parquet).unwrap();
        assert_eq!(survey.rows, ROWS, "{name}");
        let Values::Bytes(runs) = values(&survey, "image") else { panic!("{name}: {survey:?}") };
        let read = |run: &Run| {
            let mut bytes = vec![0; run.len as usize];
            file.read_at(run.offset, &mut bytes).unwrap();
            bytes
        };
        let images: Vec<_> = runs.iter().map(|run| run.as_ref().map(read)).collect();
        assert!(images == (0..ROWS).map(image).collect::<Vec<_>>(), "{name}");
        let labels = Values::Integers((0..ROWS).map(label).collect());
        assert!(*values(&survey, "label") == labels, "{name}");
        let keys = Values::Texts((0..ROWS).map(|i| Some(key(i))).collect());
        assert!(*values(&survey, "key") == keys, "{name}");
        // Values that are not compressed are found in place: the first of four bytes each.
        match values(&survey, "small") {
            Values::Fixed { dtype: Dtype::I8, places, .. } if !is_packed(name) => {
                let gular_bundle::FixedPlaces::Offsets(offsets) = places else { panic!("{name}") };
                let value = |at: &u64| read(&Run { offset: *at, len: 1 })[0] as i8;
                let found: Vec<i8> = offsets.iter().map(value).collect();
                assert!(found == (0..ROWS).map(|i| -((i % 100) as i8)).collect::<Vec<_>>());
            }
            Values::Integers(found) if is_packed(name) => {
                assert!((0..ROWS).all(|i| found[i] == Some(-(i as i64 % 100))), "{name}");
            }
            // Version 2 without a dictionary packs the differences of integers.
            Values::NotStored(reason) if name == "plain, version 2" => {
                assert!(reason.contains("DELTA_BINARY_PACKED"), "{reason}");
            }
            other => panic!("{name}: {other:?}"),
        }
        assert!(matches!(values(&survey, "boxes"), Values::NotStored(r) if r.contains("lists")));
    }
}

/// A small deterministic generator, so that a failure can be replayed.
fn damage(good: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut bytes = good.to_vec();
    for _ in 0..1 + next() % 3 {
        // Half of the changes are in the footer.
        let from = if next() % 2 == 0 { bytes.len().saturating_sub(1500) } else { 0 };
        let at = from + next() % (bytes.len() - from);
        bytes[at] = if next() % 2 == 0 { bytes[at] ^ (1 << (next() % 8)) } else { next() as u8 };
    }
    bytes
}

#[test]
fn damaged_files_of_the_library_never_panic() {
    for (name, properties) in variants() {
        let good = foreign(properties);
        let mut refused = 0;
        for seed in 0..1500 {
            let file = ReadAt::in_memory(name, damage(&good, seed));
            let Ok(survey) = survey(&file, Envelope::Parquet) else {
                refused += 1;
                continue;
            };
            for column in &survey.columns {
                if let Values::Bytes(runs) = &column.values {
                    assert!(runs.iter().flatten().all(|r| r.offset + r.len <= file.len_bytes()));
                }
            }
        }
        assert!(refused > 100, "{name}: {refused}");
    }
}

fn refusal(body: &[u8], footer: &[u8]) -> Error {
    let mut file = b"PAR1".to_vec();
    file.extend_from_slice(body);
    file.extend_from_slice(footer);
    file.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    file.extend_from_slice(b"PAR1");
    survey(&ReadAt::in_memory("made", file), Envelope::Parquet).unwrap_err()
}

#[test]
fn footers_that_promise_too_much_are_refused() {
    // The element is {3: optional, 4: "g", 5: one child}, nested as deep as the file is long.
    let mut deep = vec![0x15, 2, 0x19, 0xfc, 0xa0, 0x8d, 6];
    deep.extend([0x35, 2, 0x18, 1, b'g', 0x15, 2, 0].repeat(100_000));
    // The schema claims 2^31 elements, and as many rows of one column.
    let long = [0x15, 2, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 7, 0];
    let root = [0x48, 1, b'm', 0x15, 2, 0];
    let leaf = [0x15, 2, 0x25, 0, 0x18, 1, b'x', 0];
    let mut many = vec![0x15, 2, 0x19, 0x2c];
    many.extend(root.iter().chain(&leaf));
    let n = [0xfe, 0xff, 0xff, 0xff, 15];
    many.push(0x16);
    many.extend(n);
    many.extend([0x19, 0x1c, 0x19, 0x1c, 0x3c, 0x46, 0, 0x36, 8, 0x26, 8, 0, 0, 0x26]);
    many.extend(n);
    many.extend([0, 0]);
    let cases = [(&deep[..], "64 deep"), (&long, "damaged"), (&many, "do not fit")];
    for (footer, reason) in cases {
        let error = refusal(&[0; 100], footer);
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    let encrypted =
        survey(&ReadAt::in_memory("e", b"PARE\0\0\0\0PARE".to_vec()), Envelope::Parquet);
    assert!(matches!(encrypted, Err(Error::NotInPlace { .. })), "{encrypted:?}");
}

/// Makes a footer whose schema is a group with a name of this length and so many columns `x` in it.
fn wide(name: usize, columns: u32) -> Vec<u8> {
    let varint = |mut n: u32| {
        let mut bytes = Vec::new();
        while n > 0x7f {
            bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        bytes.push(n as u8);
        bytes
    };
    let mut footer = vec![0x15, 2, 0x19, 0xfc];
    footer.extend(varint(columns + 2));
    footer.extend([0x48, 1, b'm', 0x15, 2, 0, 0x35, 2, 0x18]);
    footer.extend(varint(name as u32));
    footer.resize(footer.len() + name, b'n');
    footer.push(0x15);
    footer.extend(varint(2 * columns));
    footer.push(0);
    footer.extend([0x15, 2, 0x25, 2, 0x18, 1, b'x', 0].repeat(columns as usize));
    footer.extend([0x16, 0, 0]);
    footer
}

#[test]
fn names_and_columns_are_bounded() {
    let mut file = [&b"PAR1"[..], &wide(100, 100)].concat();
    file.extend_from_slice(&(file.len() as u32 - 4).to_le_bytes());
    file.extend_from_slice(b"PAR1");
    let found = survey(&ReadAt::in_memory("made", file), Envelope::Parquet).unwrap();
    let name = format!("{}.x", "n".repeat(100));
    assert!(found.columns.iter().all(|c| c.name == name), "{found:?}");
    for (name, columns, reason) in
        [(100_000, 20_000, "names of its columns"), (1, 70_000, "more than 65536 columns")]
    {
        let error = refusal(&[], &wide(name, columns));
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn texts_of_many_columns_are_bounded_together() {
    const COLUMNS: usize = 20;
    let columns = (0..COLUMNS).map(|i| format!("required binary c{i} (STRING);"));
    let schema = format!("message m {{ {} }}", columns.collect::<String>());
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    let mut group = file.next_row_group().unwrap();
    // One text is used 200 times, and a dictionary stores it once.
    let texts = vec![ByteArray::from(vec![b'x'; 100_000]); 200];
    while let Some(mut column) = group.next_column().unwrap() {
        column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    let file = file.into_inner().unwrap();
    let most = (8 * file.len()).max(64 << 20);
    let found = survey(&ReadAt::in_memory("texts", file), Envelope::Parquet).unwrap();
    let kept = |values: &Values| match values {
        Values::Texts(texts) => texts.iter().flatten().map(String::len).sum::<usize>(),
        Values::NotStored(reason) if reason.contains("many times the size") => 0,
        other => unreachable!("{other:?}"),
    };
    let kept: Vec<usize> = found.columns.iter().map(|c| kept(&c.values)).collect();
    assert_eq!((kept.len(), kept[0]), (COLUMNS, 20_000_000));
    assert!(kept.iter().sum::<usize>() <= most, "{most}: {kept:?}");
}
