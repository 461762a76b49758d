//! Arrow: files of other writers, whole and damaged.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BinaryViewBuilder, FixedSizeBinaryBuilder, FixedSizeListBuilder, Int32Builder,
    LargeListBuilder, ListBuilder, StringViewBuilder, UInt8Builder,
};
use arrow_array::{ArrayRef, RecordBatch, StructArray, UInt64Array};
use arrow_ipc::writer::StreamWriter;
use gular_bundle::{
    BundlePath, Dtype, Envelope, Error, Field, FieldName, FixedPlaces, ReadAt, ShardSpec,
    ShardWriter, Split, Survey, Values, survey,
};

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

fn walk(bytes: Vec<u8>) -> Result<Survey, Error> {
    survey(&ReadAt::in_memory("file.arrow", bytes), Envelope::Arrow)
}

/// Makes `rows` lists of `n` bytes each.
fn lists(rows: usize, n: i32) -> ArrayRef {
    let mut lists = FixedSizeListBuilder::new(UInt8Builder::new(), n);
    for row in 0..rows {
        (0..n).for_each(|i| lists.values().append_value(row as u8 ^ i as u8));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn large_lists(rows: usize, n: i32) -> ArrayRef {
    let mut lists = LargeListBuilder::new(UInt8Builder::new());
    for row in 0..rows {
        (0..n).for_each(|i| lists.values().append_value(row as u8 ^ i as u8));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// Makes a batch with a column of every kind that is walked.
fn every_kind() -> RecordBatch {
    let rows = 6_usize;
    let mut tiles = FixedSizeListBuilder::new(FixedSizeListBuilder::new(UInt8Builder::new(), 3), 2);
    let mut words = ListBuilder::new(StringViewBuilder::new());
    let (mut texts, mut views) = (StringViewBuilder::new(), BinaryViewBuilder::new());
    let (mut bytes, mut sixteen) = (BinaryBuilder::new(), FixedSizeBinaryBuilder::new(16));
    let mut labels = Int32Builder::new();
    for row in 0..rows {
        for i in 0..2 {
            (0..3).for_each(|j| tiles.values().values().append_value(row as u8 * 6 + i * 3 + j));
            tiles.values().append(true);
        }
        tiles.append(true);
        words.values().append_value("a word");
        words.append(true);
        texts.append_value(format!("{row}, which is longer than twelve bytes"));
        views.append_value(vec![row as u8; row * 5]);
        bytes.append_value(vec![row as u8; 10]);
        sixteen.append_value([row as u8; 16]).unwrap();
        labels.append_option((row != 2).then_some(row as i32));
    }
    let bytes: ArrayRef = Arc::new(bytes.finish());
    let group = StructArray::try_from(vec![("bytes", bytes.clone())]).unwrap();
    let wide: Vec<Option<u64>> = (0..rows).map(|row| (row != 3).then_some(row as u64)).collect();
    batch(vec![
        ("image", Arc::new(group)),
        ("bytes", bytes),
        ("pixels", lists(rows, 77)),
        ("large", large_lists(rows, 5)),
        ("tiles", Arc::new(tiles.finish())),
        ("words", Arc::new(words.finish())),
        ("key", Arc::new(texts.finish())),
        ("views", Arc::new(views.finish())),
        ("sixteen", Arc::new(sixteen.finish())),
        ("label", Arc::new(labels.finish())),
        ("wide", Arc::new(UInt64Array::from(wide))),
    ])
}

/// Returns type, shape and every value of a column of fixed values.
fn fixed(file: &[u8], found: &Survey, name: &str) -> (Dtype, Vec<u64>, Vec<Vec<u8>>) {
    let values = &found.column(name).unwrap().values;
    let (dtype, shape, offsets) = match values {
        Values::Fixed { dtype, shape, places: FixedPlaces::Offsets(offsets) } => {
            (*dtype, shape.clone(), offsets)
        }
        other => unreachable!("{name}: {other:?}"),
    };
    let len = (shape.iter().product::<u64>() * dtype.size_bytes()) as usize;
    let value = |at: &u64| file[*at as usize..*at as usize + len].to_vec();
    (dtype, shape, offsets.iter().map(value).collect())
}

#[test]
fn every_kind_is_found_in_several_batches() {
    let one = every_kind();
    let file = stream(&[one.clone(), one.slice(0, 0), one]);
    let found = walk(file.clone()).unwrap();
    assert_eq!(found.rows, 12);
    let rows = || (0..12_u8).map(|row| row % 6);
    let tiles = rows().map(|row| (0..6).map(|i| row * 6 + i).collect()).collect();
    assert_eq!(fixed(&file, &found, "tiles"), (Dtype::U8, vec![2, 3], tiles));
    let all = |n: u8| rows().map(|row| (0..n).map(|i| row ^ i).collect()).collect();
    assert_eq!(fixed(&file, &found, "pixels"), (Dtype::U8, vec![77], all(77)));
    assert_eq!(fixed(&file, &found, "large"), (Dtype::U8, vec![5], all(5)));
    let labels = rows().map(|row| (row != 2).then_some(i64::from(row))).collect();
    assert_eq!(found.column("label").unwrap().values, Values::Integers(labels));
    let wide = rows().map(|row| (row != 3).then_some(i64::from(row))).collect();
    assert_eq!(found.column("wide").unwrap().values, Values::Integers(wide));
    let Values::NotStored(reason) = &found.column("words").unwrap().values else { unreachable!() };
    assert!(reason.contains("values that are not numbers"), "{reason}");
    for column in ["image.bytes", "bytes", "views"] {
        let Values::Bytes(runs) = &found.column(column).unwrap().values else { unreachable!() };
        let value = |run: &Option<gular_bundle::Run>| {
            let run = run.unwrap();
            file[run.offset as usize..][..run.len as usize].to_vec()
        };
        let len = |row: u8| if column == "views" { usize::from(row) * 5 } else { 10 };
        let expected: Vec<Vec<u8>> = rows().map(|row| vec![row; len(row)]).collect();
        assert_eq!(runs.iter().map(value).collect::<Vec<_>>(), expected, "{column}");
    }
}

/// Replaces `from` by `to` everywhere, which must be at least `times` times.
fn patch(bytes: &mut [u8], from: &[u8], to: &[u8], times: usize) {
    let places: Vec<usize> =
        (0..=bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(places.len() >= times, "{from:?}: {places:?}");
    places.iter().for_each(|at| bytes[*at..*at + to.len()].copy_from_slice(to));
}

#[test]
fn lists_of_more_than_there_is_take_no_memory() {
    // The bytes changed are the last offset, and the number of values of the column inside.
    let mut bytes = stream(&[batch(vec![("image", large_lists(3, 77))])]);
    patch(&mut bytes, &231_i64.to_le_bytes(), &(1_i64 << 62).to_le_bytes(), 2);
    let error = walk(bytes).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
    // The bytes changed are the length of the lists, and the number of values inside.
    let inner = lists(3 * 79, 77);
    let field = Arc::new(arrow_schema::Field::new("item", inner.data_type().clone(), true));
    let lists = arrow_array::FixedSizeListArray::new(field, 79, inner, None);
    let mut bytes = stream(&[batch(vec![("image", Arc::new(lists))])]);
    let size = i64::from(i32::MAX);
    patch(&mut bytes, &77_i32.to_le_bytes(), &i32::MAX.to_le_bytes(), 1);
    patch(&mut bytes, &79_i32.to_le_bytes(), &i32::MAX.to_le_bytes(), 1);
    patch(&mut bytes, &(3 * 79_i64).to_le_bytes(), &(3 * size).to_le_bytes(), 1);
    let all = size.checked_mul(size).unwrap();
    patch(&mut bytes, &(3 * 79 * 77_i64).to_le_bytes(), &all.wrapping_mul(3).to_le_bytes(), 1);
    let error = walk(bytes).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
}

#[test]
fn values_of_no_bytes_are_no_more_than_the_file_has() {
    let columns = |n: usize, rows: usize| {
        let mut empty = FixedSizeBinaryBuilder::new(0);
        (0..rows).for_each(|_| empty.append_value([]).unwrap());
        let empty: ArrayRef = Arc::new(empty.finish());
        let names: Vec<String> = (0..n).map(|i| i.to_string()).collect();
        stream(&[batch(names.iter().map(|name| (name.as_str(), Arc::clone(&empty))).collect())])
    };
    let found = walk(columns(2, 10)).unwrap();
    assert_eq!((found.rows, found.columns.len()), (10, 2));
    let bytes = columns(60, 5000);
    assert!(bytes.len() < 60 * 5000);
    let error = walk(bytes).unwrap_err().to_string();
    assert!(error.contains("more values than"), "{error}");
}

#[test]
fn names_of_structs_are_not_repeated_without_end() {
    let group = |name: usize, columns: usize| {
        let inner: Vec<(String, ArrayRef)> = (0..columns)
            .map(|i| (i.to_string(), Arc::new(arrow_array::Int32Array::from(vec![1])) as ArrayRef))
            .collect();
        let inner = inner.iter().map(|(n, a)| (n.as_str(), Arc::clone(a))).collect::<Vec<_>>();
        let group = StructArray::try_from(inner).unwrap();
        walk(stream(&[batch(vec![("n".repeat(name).as_str(), Arc::new(group))])]))
    };
    assert_eq!(group(100, 2).unwrap().columns[1].name, format!("{}.1", "n".repeat(100)));
    let error = group(100_000, 1000).unwrap_err().to_string();
    assert!(error.contains("names of its columns"), "{error}");
}

#[test]
fn what_tables_share_is_no_memory_for_each() {
    assert_eq!(walk(schema(2, arrow_ipc::Endianness::Little)).unwrap().rows, 0);
    let error = walk(schema(1000, arrow_ipc::Endianness::Little)).unwrap_err().to_string();
    assert!(error.contains("a message is damaged"), "{error}");
}

#[test]
fn big_endian_files_are_refused_by_name() {
    let error = walk(schema(1, arrow_ipc::Endianness::Big)).unwrap_err();
    assert!(matches!(error, Error::NotInPlace { .. }), "{error}");
    assert!(error.to_string().contains("big-endian"), "{error}");
}

#[test]
fn labels_with_nulls_in_some_batches_are_integers() {
    let labels = |values: Vec<Option<i32>>| {
        let column: ArrayRef = Arc::new(arrow_array::Int32Array::from(values));
        batch(vec![("label", column)])
    };
    let all = [vec![Some(-3), Some(1)], vec![None, Some(2)], vec![Some(4)], vec![None]];
    for batches in [&all[..], &all[1..]] {
        let file = stream(&batches.iter().cloned().map(labels).collect::<Vec<_>>());
        let expected = batches.concat().into_iter().map(|v| v.map(i64::from)).collect();
        let found = walk(file).unwrap();
        assert_eq!(found.column("label").unwrap().values, Values::Integers(expected));
    }
}

#[test]
fn lists_of_nothing_are_values_of_no_bytes() {
    let item = Arc::new(arrow_schema::Field::new("item", arrow_schema::DataType::UInt8, true));
    let none: ArrayRef = Arc::new(UInt8Builder::new().finish());
    let nothing =
        arrow_array::FixedSizeListArray::try_new_with_length(item, 0, none, None, 3).unwrap();
    let file = stream(&[batch(vec![("nothing", Arc::new(nothing))])]);
    let found = walk(file.clone()).unwrap();
    assert_eq!(fixed(&file, &found, "nothing"), (Dtype::U8, vec![0], vec![Vec::new(); 3]));
}

/// Makes a schema of so many columns that share a long name.
fn schema(columns: usize, endianness: arrow_ipc::Endianness) -> Vec<u8> {
    let mut fbb = flatbuffers::FlatBufferBuilder::new();
    let name = fbb.create_string(&"n".repeat(10_000));
    let children = fbb.create_vector::<flatbuffers::ForwardsUOffset<arrow_ipc::Field<'_>>>(&[]);
    let null = arrow_ipc::Null::create(&mut fbb, &arrow_ipc::NullArgs {}).as_union_value();
    let field = arrow_ipc::FieldArgs {
        name: Some(name),
        type_type: arrow_ipc::Type::Null,
        type_: Some(null),
        children: Some(children),
        ..Default::default()
    };
    let fields: Vec<_> = (0..columns).map(|_| arrow_ipc::Field::create(&mut fbb, &field)).collect();
    let fields = Some(fbb.create_vector(&fields));
    let schema = arrow_ipc::SchemaArgs { fields, endianness, ..Default::default() };
    let schema = arrow_ipc::Schema::create(&mut fbb, &schema).as_union_value();
    let message = arrow_ipc::MessageArgs {
        version: arrow_ipc::MetadataVersion::V5,
        header_type: arrow_ipc::MessageHeader::Schema,
        header: Some(schema),
        ..Default::default()
    };
    let message = arrow_ipc::Message::create(&mut fbb, &message);
    fbb.finish(message, None);
    let message = fbb.finished_data();
    let head = [[0xff; 4], (message.len() as u32).to_le_bytes()].concat();
    [&head, message].concat()
}

#[test]
fn damaged_columns_of_every_kind_never_panic() {
    let one = every_kind();
    let good = stream(&[one.clone(), one]);
    let mut state = 7_u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % n
    };
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=next(3) {
            let at = next(bytes.len() - 8);
            match next(3) {
                0 => bytes[at] ^= 1 << next(8),
                1 => bytes[at] = next(256) as u8,
                _ => {
                    let extreme = [u64::MAX, 1 << 62, i64::MAX as u64, 1 << 31][next(4)];
                    let at = at / 8 * 8;
                    bytes[at..at + 8].copy_from_slice(&extreme.to_le_bytes());
                }
            }
        }
        refused += usize::from(walk(bytes).is_err());
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn what_arrow_cannot_hold_is_said_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let long = FieldName::parse("long").unwrap();
    let fields = [Field::fixed(long, Dtype::U8, vec![1 << 31, 0])];
    let spec = ShardSpec::new(Envelope::Arrow, Split::Train, &fields);
    let mut writer = ShardWriter::create(dir.path(), &spec).unwrap();
    writer.push(&BundlePath::parse("a.jpg").unwrap(), &[b""]).unwrap();
    let error = writer.finish().unwrap_err();
    let text = error.to_string();
    let path = dir.path().display().to_string();
    for part in ["`arrow`", path.as_str(), "an axis of 2147483648"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(error.hint().unwrap().contains("`shards`"));
}
