//! Writes a shard of envelope `arrow`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, FixedSizeListArray, PrimitiveArray, RecordBatch, StringArray,
    StructArray,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_schema::{ArrowError, DataType, Field as Column, Fields, Schema};

use crate::envelope::foreign::arrow::batch::parse;
use crate::envelope::foreign::arrow::messages::Message;
use crate::envelope::foreign::huggingface::{self, Arrays};
use crate::envelope::{Finished, Layout, Out, ShardSpec};
use crate::index::{Places, Rows};
use crate::{BundlePath, Dtype, Envelope, Error, Field, FieldKind};

/// A batch ends at this many rows or bytes of values, whichever comes first, and is held in memory
/// until then. `datasets` also writes 100 rows.
const BATCH_ROWS: usize = 100;
const BATCH_BYTES: usize = 32 << 20;
/// Offsets within a batch are i32.
const MAX_BATCH_BYTES: usize = i32::MAX as usize;

pub(crate) struct Writer {
    fields: Vec<Field>,
    schema: Arc<Schema>,
    encoder: StreamEncoder,
    rows: usize,
    bytes: usize,
    columns: Vec<Values>,
    keys: Values,
    places: Vec<Vec<u64>>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Values of one column that wait for their batch.
#[derive(Debug, Default)]
struct Values {
    bytes: Vec<u8>,
    ends: Vec<i32>,
}

impl Values {
    fn push(&mut self, value: &[u8]) {
        if self.ends.is_empty() {
            self.ends.push(0);
        }
        self.bytes.extend_from_slice(value);
        self.ends.push(i32::try_from(self.bytes.len()).unwrap_or(i32::MAX));
    }

    fn offsets(&self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(ScalarBuffer::from(self.ends.clone()))
    }

    fn take(&mut self) -> (OffsetBuffer<i32>, Buffer) {
        let Self { bytes, ends } = std::mem::take(self);
        (OffsetBuffer::new(ScalarBuffer::from(ends)), Buffer::from_vec(bytes))
    }
}

impl Writer {
    pub(crate) fn begin(out: &Out, spec: &ShardSpec<'_>) -> Result<Self, Error> {
        let mut columns: Vec<Column> = spec.fields.iter().map(column).collect();
        columns.push(Column::new("key", DataType::Utf8, true));
        let metadata = [(
            huggingface::NAME.to_owned(),
            huggingface::features(spec.fields, spec.classes, Arrays::Lists),
        )];
        let schema = Arc::new(Schema::new_with_metadata(columns, HashMap::from(metadata)));
        let encoder = IpcWriteOptions::try_new(64, false, arrow_ipc::MetadataVersion::V5)
            .and_then(|options| StreamEncoder::try_new_with_options(&schema, options))
            .map_err(|e| refused(out, &e))?;
        Ok(Self {
            places: vec![Vec::new(); spec.fields.len()],
            columns: spec.fields.iter().map(|_| Values::default()).collect(),
            keys: Values::default(),
            fields: spec.fields.to_vec(),
            schema,
            encoder,
            rows: 0,
            bytes: 0,
        })
    }

    /// Writes the rows that wait as one batch and notes where their values lie.
    fn flush(&mut self, out: &mut Out) -> Result<(), Error> {
        if self.rows == 0 {
            return Ok(());
        }
        let ends: Vec<Vec<i32>> = self.columns.iter().map(|c| c.ends.clone()).collect();
        let keys = self.keys.offsets();
        let (_, key_bytes) = self.keys.take();
        let keys = StringArray::try_new(keys, key_bytes, None).map_err(|e| refused(out, &e))?;
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len().saturating_add(1));
        for (field, values) in self.fields.iter().zip(&mut self.columns) {
            arrays.push(array(field, values, &keys, self.rows).map_err(|e| refused(out, &e))?);
        }
        arrays.push(Arc::new(keys));
        let batch =
            RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(|e| refused(out, &e))?;
        let pieces = self.encoder.encode(&batch).map_err(|e| refused(out, &e))?;
        let message = batch_message(&pieces, out.position());
        let message = message.ok_or_else(|| refused(out, &"a batch without its message"))?;
        for piece in &pieces {
            out.write(piece)?;
        }
        self.note(&message, &ends).map_err(|e| refused(out, &e))?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// Records where the batch's buffers are.
    fn note(&mut self, message: &Message, ends: &[Vec<i32>]) -> Result<(), String> {
        let mut parts = parse(message)?.parts;
        for ((field, ends), places) in self.fields.iter().zip(ends).zip(&mut self.places) {
            let skipped = match &field.kind {
                // The buffers are the validity of the struct, then the validity of its bytes, and
                // their offsets.
                FieldKind::Bytes { .. } if huggingface::is_image(field) => 3,
                FieldKind::Bytes { .. } => 2,
                // The buffers are the validity of each list, and that of the numbers.
                FieldKind::Fixed { shape, .. } => (shape.len() as u64).saturating_add(1),
            };
            parts.buffers(skipped)?;
            let start = parts.buffer()?.offset;
            if huggingface::is_image(field) {
                // The buffers are validity, offsets and bytes of the path.
                parts.buffers(3)?;
            }
            let values = ends.iter().take(ends.len().saturating_sub(1));
            places.extend(values.map(|end| start.saturating_add(u64::from(end.unsigned_abs()))));
        }
        Ok(())
    }
}

impl Layout for Writer {
    fn push(&mut self, out: &mut Out, key: &BundlePath, values: &[&[u8]]) -> Result<(), Error> {
        let room = |a: &[u8], b: &Values| b.bytes.len().saturating_add(a.len()) <= MAX_BATCH_BYTES;
        if !values.iter().zip(&self.columns).all(|(value, column)| room(value, column)) {
            self.flush(out)?;
        }
        for (value, column) in values.iter().zip(&mut self.columns) {
            column.push(value);
            self.bytes = self.bytes.saturating_add(value.len());
        }
        self.keys.push(key.as_str().as_bytes());
        self.rows = self.rows.saturating_add(1);
        if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            self.flush(out)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, out: &mut Out, _rows: &Rows<'_>) -> Result<Finished, Error> {
        self.flush(out)?;
        let Self { encoder, places, .. } = *self;
        for piece in encoder.finish().map_err(|e| refused(out, &e))? {
            out.write(&piece)?;
        }
        let places = places.into_iter().map(Places::Offsets).collect();
        Ok(Finished { head: Vec::new(), places })
    }
}

fn refused(out: &Out, error: &dyn std::fmt::Display) -> Error {
    Error::Unfit {
        envelope: Envelope::Arrow,
        path: out.dir().display().to_string(),
        reason: error.to_string(),
    }
}

fn column(field: &Field) -> Column {
    let name = field.name.as_str();
    let data_type = match &field.kind {
        FieldKind::Bytes { .. } if huggingface::is_image(field) => DataType::Struct(image_parts()),
        FieldKind::Bytes { .. } => DataType::Binary,
        FieldKind::Fixed { dtype, shape } => {
            shape.iter().rev().fold(number_type(*dtype), |inner, length| {
                let length = i32::try_from(*length).unwrap_or(i32::MAX);
                DataType::FixedSizeList(Arc::new(Column::new("item", inner, true)), length)
            })
        }
    };
    Column::new(name, data_type, true)
}

/// Returns the columns of `datasets`' feature `Image`.
fn image_parts() -> Fields {
    Fields::from(vec![
        Column::new("bytes", DataType::Binary, true),
        Column::new("path", DataType::Utf8, true),
    ])
}

fn number_type(dtype: Dtype) -> DataType {
    match dtype {
        Dtype::U8 => DataType::UInt8,
        Dtype::I8 => DataType::Int8,
        Dtype::U16 | Dtype::Bf16 => DataType::UInt16,
        Dtype::I16 => DataType::Int16,
        Dtype::U32 => DataType::UInt32,
        Dtype::I32 => DataType::Int32,
        Dtype::I64 => DataType::Int64,
        Dtype::F16 => DataType::Float16,
        Dtype::F32 => DataType::Float32,
        Dtype::F64 => DataType::Float64,
    }
}

fn array(
    field: &Field,
    values: &mut Values,
    keys: &StringArray,
    rows: usize,
) -> Result<ArrayRef, ArrowError> {
    let (offsets, bytes) = values.take();
    let (dtype, shape) = match &field.kind {
        FieldKind::Bytes { .. } => {
            let bytes = Arc::new(BinaryArray::try_new(offsets, bytes, None)?);
            return Ok(if huggingface::is_image(field) {
                let parts: Vec<ArrayRef> = vec![bytes, Arc::new(keys.clone())];
                Arc::new(StructArray::try_new(image_parts(), parts, None)?)
            } else {
                bytes
            });
        }
        FieldKind::Fixed { dtype, shape } => (*dtype, shape),
    };
    let mut array: ArrayRef = match dtype {
        Dtype::U8 => numbers::<UInt8Type>(&bytes),
        Dtype::I8 => numbers::<Int8Type>(&bytes),
        Dtype::U16 | Dtype::Bf16 => numbers::<UInt16Type>(&bytes),
        Dtype::I16 => numbers::<Int16Type>(&bytes),
        Dtype::U32 => numbers::<UInt32Type>(&bytes),
        Dtype::I32 => numbers::<Int32Type>(&bytes),
        Dtype::I64 => numbers::<Int64Type>(&bytes),
        Dtype::F16 => numbers::<Float16Type>(&bytes),
        Dtype::F32 => numbers::<Float32Type>(&bytes),
        Dtype::F64 => numbers::<Float64Type>(&bytes),
    };
    // The innermost axis is first. The number of lists only matters if it is zero.
    let mut n = shape.iter().fold(rows, |n, d| n.saturating_mul(usize::try_from(*d).unwrap_or(0)));
    for length in shape.iter().rev() {
        let item = Arc::new(Column::new("item", array.data_type().clone(), true));
        let size = i32::try_from(*length)
            .map_err(|_| ArrowError::InvalidArgumentError(format!("an axis of {length}")))?;
        n = n.checked_div(usize::try_from(*length).unwrap_or(0)).unwrap_or(0);
        array = Arc::new(FixedSizeListArray::try_new_with_length(item, size, array, None, n)?);
    }
    Ok(array)
}

/// Returns the values' bytes unchanged: a bundle is little-endian, and so is every machine that
/// this builds for.
fn numbers<T: ArrowPrimitiveType>(bytes: &Buffer) -> ArrayRef {
    let aligned = if bytes.as_ptr().align_offset(align_of::<T::Native>()) == 0 {
        bytes.clone()
    } else {
        Buffer::from_slice_ref(bytes.as_slice())
    };
    let n = bytes.len().checked_div(size_of::<T::Native>()).unwrap_or(0);
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(aligned, 0, n), None))
}

/// Finds the batch's message among the pieces that will be written from `start` on.
fn batch_message(pieces: &[Buffer], start: u64) -> Option<Message> {
    let mut head: Vec<u8> = Vec::new();
    let mut pieces = pieces.iter();
    // The metadata is in separate pieces before the body.
    let mut read = |head: &mut Vec<u8>, upto: usize| {
        while head.len() < upto {
            head.extend_from_slice(pieces.next()?);
        }
        Some(())
    };
    let mut at = 0_usize;
    loop {
        let metadata = at.checked_add(8)?;
        read(&mut head, metadata)?;
        let len = head.get(at.checked_add(4)?..metadata)?.first_chunk::<4>()?;
        let body = metadata.checked_add(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        read(&mut head, body)?;
        let metadata = head.get(metadata..body)?.to_vec();
        let message = arrow_ipc::root_as_message(&metadata).ok()?;
        let body_len = u64::try_from(message.bodyLength()).ok()?;
        if message.header_type() == arrow_ipc::MessageHeader::RecordBatch {
            return Some(Message { metadata, body: start.checked_add(body as u64)?, body_len });
        }
        at = body.checked_add(usize::try_from(body_len).ok()?)?;
    }
}
