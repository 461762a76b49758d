//! Writes a shard of envelope `parquet`.

use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, Encoding, LogicalType, Repetition, Type as Physical,
};
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::envelope::foreign::huggingface::{self, Arrays};
use crate::envelope::foreign::parquet::FIELDS;
use crate::envelope::foreign::parquet::column::{Column, Fault};
use crate::envelope::foreign::parquet::footer::Chunk;
use crate::envelope::foreign::parquet::schema::{ColumnKind, Leaf};
use crate::envelope::{Finished, Layout, Out, Run, ShardSpec};
use crate::index::{Places, Rows};
use crate::{BundlePath, Dtype, Envelope, Error, Field, FieldKind, ReadAt};

/// A row group ends when its values and keys have this many bytes, or when it has [`GROUP_ROWS`]
/// rows. One is held in memory, and twice while it is written.
const GROUP_BYTES: usize = 32 << 20;
const GROUP_ROWS: usize = 1 << 16;
/// A page ends when its values have this many bytes.
const PAGE_BYTES: usize = 1 << 20;
/// Sizes of pages are i32, so a page must hold one value and what was before it.
const MAX_VALUE: usize = i32::MAX as usize - (2 << 20);
/// The text is fixed, so that the library's version does not change the bytes.
const CREATED_BY: &str = "gular version 1";

#[derive(Debug)]
pub(crate) struct Writer {
    fields: Vec<Field>,
    /// Its output is kept in memory until the row group is complete.
    file: SerializedFileWriter<Vec<u8>>,
    /// Bytes of the file that were already passed on.
    written: u64,
    rows: usize,
    bytes: usize,
    columns: Vec<Values>,
    keys: Values,
    places: Vec<Vec<u64>>,
}

/// Values of one column that wait for their row group.
#[derive(Debug, Default)]
struct Values {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Values {
    fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
    }

    fn take(&mut self) -> Vec<ByteArray> {
        let Self { bytes, ends } = std::mem::take(self);
        let all = ByteArray::from(bytes);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(&ends).map(|(start, end)| all.slice(start, end.saturating_sub(start))).collect()
    }
}

impl Writer {
    pub(crate) fn begin(out: &Out, spec: &ShardSpec<'_>) -> Result<Self, Error> {
        let schema = schema(spec.fields).map_err(|e| refused(out, &e))?;
        let fields = serde_json::to_string(spec.fields).map_err(|e| refused(out, &e))?;
        let features = huggingface::features(spec.fields, spec.classes, Arrays::Bytes);
        let metadata = vec![
            KeyValue::new(huggingface::NAME.to_owned(), features),
            KeyValue::new(FIELDS.to_owned(), fields),
        ];
        let properties = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_created_by(CREATED_BY.to_owned())
            .set_key_value_metadata(Some(metadata))
            .set_compression(Compression::UNCOMPRESSED)
            .set_encoding(Encoding::PLAIN)
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_data_page_size_limit(PAGE_BYTES)
            // Only bytes end pages.
            .set_data_page_row_count_limit(GROUP_ROWS.saturating_mul(2))
            .build();
        let file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties));
        Ok(Self {
            fields: spec.fields.to_vec(),
            file: file.map_err(|e| refused(out, &e))?,
            written: 0,
            rows: 0,
            bytes: 0,
            columns: spec.fields.iter().map(|_| Values::default()).collect(),
            keys: Values::default(),
            places: vec![Vec::new(); spec.fields.len()],
        })
    }

    /// Writes the rows that wait as one row group and notes where their values lie.
    fn flush(&mut self, out: &mut Out) -> Result<(), Error> {
        if self.rows == 0 {
            return Ok(());
        }
        let chunks = self.group().map_err(|e| refused(out, &e))?;
        let start = self.written;
        let bytes = self.drain(out)?;
        let file = ReadAt::in_memory("row group", bytes);
        let leaves = self.fields.iter().map(leaf);
        for ((leaf, chunk), places) in leaves.zip(&chunks).zip(&mut self.places) {
            let place = Run { offset: chunk.offset.saturating_sub(start), ..*chunk };
            let chunk = Chunk { place: Ok(place), codec: 0 };
            let rows = self.rows as u64;
            let runs = Column { file: &file, leaf: &leaf, chunks: vec![(&chunk, rows)] }.runs();
            let runs = runs.map_err(|fault| match fault {
                Fault::Read(error) => error,
                Fault::Damaged(reason) | Fault::NotStored(reason) | Fault::Compressed(reason) => {
                    refused(out, &reason)
                }
            })?;
            places.extend(runs.iter().flatten().map(|run| run.offset.saturating_add(start)));
        }
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// Writes a row group, and returns where the values of each field are.
    fn group(&mut self) -> Result<Vec<Run>, ParquetError> {
        let keys = self.keys.take();
        let mut group = self.file.next_row_group()?;
        let mut next = |write: &mut dyn FnMut(&mut SerializedColumnWriter<'_>) -> Written| {
            let column = group.next_column()?;
            let mut column = column.ok_or_else(|| ParquetError::General("no column".into()))?;
            write(&mut column)?;
            column.close()
        };
        for (field, values) in self.fields.iter().zip(&mut self.columns) {
            let values = values.take();
            next(&mut |column| write(column, field, &values))?;
            if huggingface::is_image(field) {
                next(&mut |column| put::<ByteArrayType>(column, 2, keys.iter().cloned()))?;
            }
        }
        next(&mut |column| put::<ByteArrayType>(column, 1, keys.iter().cloned()))?;
        let group = group.close()?;
        let mut chunks = group.columns().iter();
        let place = |field: &Field| {
            let chunk = chunks.next()?;
            if huggingface::is_image(field) {
                chunks.next()?;
            }
            let offset = u64::try_from(chunk.data_page_offset()).ok()?;
            Some(Run { offset, len: u64::try_from(chunk.compressed_size()).ok()? })
        };
        let places: Option<Vec<Run>> = self.fields.iter().map(place).collect();
        places.ok_or_else(|| ParquetError::General("a row group without its columns".into()))
    }

    /// Passes on the bytes that were written so far.
    fn drain(&mut self, out: &mut Out) -> Result<Vec<u8>, Error> {
        self.file.flush().map_err(|e| refused(out, &e))?;
        let bytes = std::mem::take(self.file.inner_mut());
        self.written = self.written.saturating_add(bytes.len() as u64);
        out.write(&bytes)?;
        Ok(bytes)
    }
}

impl Layout for Writer {
    fn push(&mut self, out: &mut Out, key: &BundlePath, values: &[&[u8]]) -> Result<(), Error> {
        if let Some(value) = values.iter().find(|value| value.len() > MAX_VALUE) {
            let reason =
                format!("a value of {} bytes, a Parquet page holds {MAX_VALUE}", value.len());
            return Err(Error::Value { key: key.to_string(), reason });
        }
        for (value, column) in values.iter().zip(&mut self.columns) {
            column.push(value);
            self.bytes = self.bytes.saturating_add(value.len());
        }
        self.keys.push(key.as_str().as_bytes());
        self.bytes = self.bytes.saturating_add(key.as_str().len());
        self.rows = self.rows.saturating_add(1);
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            self.flush(out)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, out: &mut Out, _rows: &Rows<'_>) -> Result<Finished, Error> {
        self.flush(out)?;
        self.file.finish().map_err(|e| refused(out, &e))?;
        self.drain(out)?;
        let places = self.places.into_iter().map(Places::Offsets).collect();
        Ok(Finished { head: Vec::new(), places })
    }
}

fn refused(out: &Out, error: &dyn std::fmt::Display) -> Error {
    Error::Unfit {
        envelope: Envelope::Parquet,
        path: out.dir().display().to_string(),
        reason: error.to_string(),
    }
}

/// Describes how a field is stored in our files, for the walk that finds its values.
fn leaf(field: &Field) -> Leaf {
    let kind = match number(field) {
        None => ColumnKind::Bytes,
        Some((Physical::FIXED_LEN_BYTE_ARRAY, dtype)) => ColumnKind::Number { dtype, stored: 2 },
        Some((Physical::INT32 | Physical::FLOAT, dtype)) => ColumnKind::Number { dtype, stored: 4 },
        Some((_, dtype)) => ColumnKind::Number { dtype, stored: 8 },
    };
    let max_def = if huggingface::is_image(field) { 2 } else { 1 };
    Leaf { name: field.name.to_string(), kind, max_def, list_defs: Vec::new() }
}

/// Returns the number type of a scalar; `None` if the field is stored as bytes.
fn number(field: &Field) -> Option<(Physical, Dtype)> {
    let FieldKind::Fixed { dtype, shape } = &field.kind else { return None };
    let physical = match dtype {
        Dtype::I64 => Physical::INT64,
        Dtype::F64 => Physical::DOUBLE,
        Dtype::F32 => Physical::FLOAT,
        Dtype::F16 => Physical::FIXED_LEN_BYTE_ARRAY,
        _ => Physical::INT32,
    };
    shape.is_empty().then_some((physical, *dtype))
}

/// Makes the schema, in which all columns may be null, as `datasets` expects.
fn schema(fields: &[Field]) -> Result<TypePtr, ParquetError> {
    let text = |name: &str| {
        let column = Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_repetition(Repetition::OPTIONAL)
            .with_converted_type(ConvertedType::UTF8)
            .with_logical_type(Some(LogicalType::String));
        column.build().map(Arc::new)
    };
    let bytes = |name: &str| {
        let column = Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_repetition(Repetition::OPTIONAL);
        column.build().map(Arc::new)
    };
    let mut columns = Vec::with_capacity(fields.len().saturating_add(1));
    for field in fields {
        let name = field.name.as_str();
        columns.push(match number(field) {
            Some((physical, dtype)) => scalar(name, physical, dtype)?,
            None if huggingface::is_image(field) => {
                let image = Type::group_type_builder(name)
                    .with_repetition(Repetition::OPTIONAL)
                    .with_fields(vec![bytes("bytes")?, text("path")?]);
                Arc::new(image.build()?)
            }
            None => bytes(name)?,
        });
    }
    columns.push(text("key")?);
    Ok(Arc::new(Type::group_type_builder("schema").with_fields(columns).build()?))
}

fn scalar(name: &str, physical: Physical, dtype: Dtype) -> Result<TypePtr, ParquetError> {
    let column = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    let integer =
        |bit_width, is_signed, old| Some((LogicalType::integer(bit_width, is_signed), old));
    let annotation = match dtype {
        Dtype::U8 => integer(8, false, ConvertedType::UINT_8),
        Dtype::I8 => integer(8, true, ConvertedType::INT_8),
        // Arrow has no bfloat16, so its bits are stored as u16.
        Dtype::U16 | Dtype::Bf16 => integer(16, false, ConvertedType::UINT_16),
        Dtype::I16 => integer(16, true, ConvertedType::INT_16),
        Dtype::U32 => integer(32, false, ConvertedType::UINT_32),
        Dtype::F16 => Some((LogicalType::Float16, ConvertedType::NONE)),
        Dtype::I32 | Dtype::I64 | Dtype::F32 | Dtype::F64 => None,
    };
    let column = match annotation {
        Some((logical, old)) => {
            column.with_logical_type(Some(logical)).with_converted_type(old).with_length(2)
        }
        None => column,
    };
    column.build().map(Arc::new)
}

type Written = Result<(), ParquetError>;

/// Writes the values of a field, one row each.
fn write(column: &mut SerializedColumnWriter<'_>, field: &Field, values: &[ByteArray]) -> Written {
    let level = if huggingface::is_image(field) { 2 } else { 1 };
    let wide = |dtype: Dtype| values.iter().map(move |v| dtype.integer(v.data()));
    match number(field) {
        None => put::<ByteArrayType>(column, level, values.iter().cloned()),
        Some((Physical::FIXED_LEN_BYTE_ARRAY, _)) => {
            let values = values.iter().cloned().map(FixedLenByteArray::from);
            put::<FixedLenByteArrayType>(column, level, values)
        }
        Some((Physical::INT64, dtype)) => put::<Int64Type>(column, level, wide(dtype)),
        Some((Physical::FLOAT, _)) => {
            let value = |v: &ByteArray| v.data().first_chunk().map(|b| f32::from_le_bytes(*b));
            put::<FloatType>(column, level, values.iter().filter_map(value))
        }
        Some((Physical::DOUBLE, _)) => {
            let value = |v: &ByteArray| v.data().first_chunk().map(|b| f64::from_le_bytes(*b));
            put::<DoubleType>(column, level, values.iter().filter_map(value))
        }
        // The bits of u32 are written.
        Some((_, Dtype::U32)) => {
            let value = |v: &ByteArray| v.data().first_chunk().map(|b| i32::from_le_bytes(*b));
            put::<Int32Type>(column, level, values.iter().filter_map(value))
        }
        Some((_, dtype)) => {
            let values = wide(dtype).map(|wide| i32::try_from(wide).unwrap_or_default());
            put::<Int32Type>(column, level, values)
        }
    }
}

/// Writes values one at a time, since the library checks a page's size after each write.
fn put<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    level: i16,
    values: impl Iterator<Item = T::T>,
) -> Written {
    let column = column.typed::<T>();
    for value in values {
        column.write_batch(&[value], Some(&[level]), None)?;
    }
    Ok(())
}
