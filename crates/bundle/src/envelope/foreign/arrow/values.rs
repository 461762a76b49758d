//! One column of one batch: the offsets of its values, or the values themselves.

use arrow_schema::{DataType, Field as Column};

use crate::envelope::Run;
use crate::envelope::foreign::arrow::batch::Parts;
use crate::envelope::foreign::arrow::bounds::{Budget, Valid};
use crate::{Dtype, Error, ReadAt};

/// The values of a column in one batch.
#[derive(Debug)]
pub(crate) enum Part {
    Bytes(Vec<Option<Run>>),
    /// Values that are back to back in each batch: for each batch the first byte, and the number of
    /// values.
    Fixed {
        dtype: Dtype,
        shape: Vec<u64>,
        batches: Vec<(u64, u64)>,
    },
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    NotStored(String),
}

/// Why a batch cannot be walked.
pub(crate) enum Fault {
    /// The batch contradicts itself.
    Damaged(String),
    Read(Error),
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Damaged(reason)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

/// Takes the parts of batches for one column after the other.
pub(crate) struct Reader<'a> {
    pub(crate) file: &'a ReadAt,
    pub(crate) parts: Parts,
    /// Whether buffers are stored without compression.
    pub(crate) plain: bool,
    pub(crate) budget: &'a mut Budget,
}

impl Reader<'_> {
    /// Reads the parts of a column. For a struct, the columns inside it are read in order.
    pub(crate) fn column(
        &mut self,
        column: &Column,
        rows: u64,
        found: &mut Vec<Part>,
    ) -> Result<(), Fault> {
        let DataType::Struct(children) = column.data_type() else {
            found.push(self.part(column.data_type(), rows)?);
            return Ok(());
        };
        let (len, nulls) = self.parts.node()?;
        check_rows(len, rows)?;
        let valid = self.valid(rows, nulls)?;
        let first = found.len();
        for child in children {
            self.column(child, rows, found)?;
        }
        for part in found.iter_mut().skip(first) {
            mask(part, &valid, rows);
        }
        Ok(())
    }

    fn part(&mut self, data_type: &DataType, rows: u64) -> Result<Part, Fault> {
        let (len, nulls) = self.parts.node()?;
        check_rows(len, rows)?;
        match data_type {
            DataType::Null => Ok(Part::NotStored("it is null".into())),
            DataType::Binary => self.bytes(rows, nulls, 4),
            DataType::LargeBinary => self.bytes(rows, nulls, 8),
            DataType::BinaryView => self.views(rows, nulls),
            DataType::Utf8 => self.texts(rows, nulls, 4),
            DataType::LargeUtf8 => self.texts(rows, nulls, 8),
            DataType::Utf8View => {
                let part = self.views(rows, nulls)?;
                self.read_texts(part)
            }
            DataType::FixedSizeBinary(size) => {
                let size = u64::try_from(*size).map_err(|_| "a negative size".to_owned())?;
                self.fixed(Dtype::U8, vec![size], rows, nulls)
            }
            DataType::FixedSizeList(item, size) => {
                let size = u64::try_from(*size).map_err(|_| "a negative size".to_owned())?;
                self.list_of_one_size(item.data_type(), size, rows, nulls)
            }
            DataType::List(item) | DataType::Map(item, _) => self.list(item.data_type(), rows, 4),
            DataType::LargeList(item) => self.list(item.data_type(), rows, 8),
            DataType::Dictionary(..) => {
                self.parts.buffers(2)?;
                Ok(Part::NotStored("it is dictionary-encoded".into()))
            }
            DataType::UInt64 => {
                let valid = self.valid(rows, nulls)?;
                let data = self.parts.buffer()?;
                if !self.plain {
                    return Ok(Part::NotStored(String::new()));
                }
                self.budget.take(rows)?;
                let values = self.i64s(data, rows)?.into_iter().enumerate();
                let value = |(row, v): (usize, i64)| (v >= 0 && valid.has(row)).then_some(v);
                Ok(Part::Integers(values.map(value).collect()))
            }
            other => match dtype_of(other) {
                Some(dtype) => self.numbers(dtype, rows, nulls),
                None => self.skip(other),
            },
        }
    }

    /// Skips the buffers of a column whose kind is not read.
    fn skip(&mut self, data_type: &DataType) -> Result<Part, Fault> {
        let buffers = match data_type {
            DataType::Boolean
            | DataType::Timestamp(..)
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Duration(_)
            | DataType::Interval(_)
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => 2,
            other => {
                let reason = format!(
                    "a column of type {other} is not supported, and hides the columns after it"
                );
                return Err(Fault::Damaged(reason));
            }
        };
        self.parts.buffers(buffers)?;
        Ok(Part::NotStored(format!("it is of type {data_type}")))
    }

    /// Reads which rows have a value.
    fn valid(&mut self, rows: u64, nulls: u64) -> Result<Valid, Fault> {
        let bitmap = self.parts.buffer()?;
        if nulls == 0 || !self.plain {
            return Ok(Valid::All);
        }
        self.read(Run { len: rows.div_ceil(8), ..bitmap }, bitmap).map(Valid::Bits)
    }

    /// Reads `wanted`, which must lie within `buffer`.
    fn read(&self, wanted: Run, buffer: Run) -> Result<Vec<u8>, Fault> {
        if wanted.len > buffer.len {
            let reason = format!("a buffer has {} bytes, {} are needed", buffer.len, wanted.len);
            return Err(Fault::Damaged(reason));
        }
        let mut bytes = vec![0; usize::try_from(wanted.len).unwrap_or(0)];
        self.file.read_at(wanted.offset, &mut bytes)?;
        Ok(bytes)
    }

    fn i64s(&self, buffer: Run, n: u64) -> Result<Vec<i64>, Fault> {
        let bytes = self.read(Run { len: n.saturating_mul(8), ..buffer }, buffer)?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b)).collect())
    }

    /// Reads offsets of `width` bytes, which must not decrease and must stay within `limit` bytes.
    fn offsets(&self, buffer: Run, rows: u64, width: u64, limit: u64) -> Result<Vec<u64>, Fault> {
        if rows == 0 {
            return Ok(vec![0]);
        }
        let n = rows.saturating_add(1);
        let wide: Vec<i64> = if width == 8 {
            self.i64s(buffer, n)?
        } else {
            let bytes = self.read(Run { len: n.saturating_mul(4), ..buffer }, buffer)?;
            bytes.as_chunks::<4>().0.iter().map(|b| i64::from(i32::from_le_bytes(*b))).collect()
        };
        let offsets: Option<Vec<u64>> = wide.iter().map(|o| u64::try_from(*o).ok()).collect();
        let offsets = offsets.filter(|o| o.is_sorted() && o.last().is_none_or(|l| *l <= limit));
        offsets.ok_or_else(|| Fault::Damaged("offsets point outside their buffer".into()))
    }

    fn bytes(&mut self, rows: u64, nulls: u64, width: u64) -> Result<Part, Fault> {
        let valid = self.valid(rows, nulls)?;
        let (offsets, data) = (self.parts.buffer()?, self.parts.buffer()?);
        if !self.plain {
            return Ok(Part::NotStored(String::new()));
        }
        self.budget.take(rows)?;
        let ends = self.offsets(offsets, rows, width, data.len)?;
        let run = |(row, (start, end)): (usize, (&u64, &u64))| {
            let run =
                Run { offset: data.offset.saturating_add(*start), len: end.saturating_sub(*start) };
            valid.has(row).then_some(run)
        };
        Ok(Part::Bytes(ends.iter().zip(ends.iter().skip(1)).enumerate().map(run).collect()))
    }

    fn texts(&mut self, rows: u64, nulls: u64, width: u64) -> Result<Part, Fault> {
        let part = self.bytes(rows, nulls, width)?;
        self.read_texts(part)
    }

    fn read_texts(&mut self, part: Part) -> Result<Part, Fault> {
        let Part::Bytes(runs) = part else { return Ok(part) };
        let mut texts = Vec::with_capacity(runs.len());
        for run in runs {
            texts.push(match run {
                None => None,
                Some(run) => {
                    let Some(left) = self.budget.texts.checked_sub(run.len) else {
                        let reason = "its strings take many times the size of the file";
                        return Ok(Part::NotStored(reason.to_owned()));
                    };
                    self.budget.texts = left;
                    let text = String::from_utf8(self.read(run, run)?);
                    Some(text.map_err(|_| "a text is not UTF-8".to_owned())?)
                }
            });
        }
        Ok(Part::Texts(texts))
    }

    /// Reads views of 16 bytes per value: the length, and the bytes themselves or where they are.
    fn views(&mut self, rows: u64, nulls: u64) -> Result<Part, Fault> {
        let valid = self.valid(rows, nulls)?;
        let views = self.parts.buffer()?;
        let n = self.parts.variadic()?;
        let data = self.parts.buffers(n)?;
        if !self.plain {
            return Ok(Part::NotStored(String::new()));
        }
        self.budget.take(rows)?;
        let bytes = self.read(Run { len: rows.saturating_mul(16), ..views }, views)?;
        let mut runs = Vec::new();
        for (row, view) in bytes.as_chunks::<16>().0.iter().enumerate() {
            let [l0, l1, l2, l3, _, _, _, _, b0, b1, b2, b3, o0, o1, o2, o3] = *view;
            let len = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
            let at = (row as u64).saturating_mul(16).saturating_add(4);
            let at = views.offset.saturating_add(at);
            let run = if len <= 12 {
                Run { offset: at, len }
            } else {
                let buffer = u32::from_le_bytes([b0, b1, b2, b3]);
                let offset = u64::from(u32::from_le_bytes([o0, o1, o2, o3]));
                let buffer = usize::try_from(buffer).ok().and_then(|b| data.get(b));
                let inside = |b: &&Run| offset.saturating_add(len) <= b.len;
                let buffer =
                    buffer.filter(inside).ok_or("a view points outside its buffer".to_owned())?;
                Run { offset: buffer.offset.saturating_add(offset), len }
            };
            runs.push(valid.has(row).then_some(run));
        }
        Ok(Part::Bytes(runs))
    }

    fn numbers(&mut self, dtype: Dtype, rows: u64, nulls: u64) -> Result<Part, Fault> {
        let float = matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64);
        if nulls == 0 || float {
            return self.fixed(dtype, Vec::new(), rows, nulls);
        }
        let valid = self.valid(rows, nulls)?;
        let data = self.parts.buffer()?;
        if !self.plain {
            return Ok(Part::NotStored(String::new()));
        }
        self.budget.take(rows)?;
        let size = dtype.size_bytes();
        let bytes = self.read(Run { len: rows.saturating_mul(size), ..data }, data)?;
        let size = usize::try_from(size).unwrap_or(1);
        let value = |(row, piece): (usize, &[u8])| valid.has(row).then(|| dtype.integer(piece));
        Ok(Part::Integers(bytes.chunks_exact(size).enumerate().map(value).collect()))
    }

    /// Finds values of one size, which are back to back.
    fn fixed(
        &mut self,
        dtype: Dtype,
        shape: Vec<u64>,
        rows: u64,
        nulls: u64,
    ) -> Result<Part, Fault> {
        let valid = self.valid(rows, nulls)?;
        let data = self.parts.buffer()?;
        if !self.plain {
            return Ok(Part::NotStored(String::new()));
        }
        let part = stride(data, dtype, shape, rows)?;
        if !valid.has_all(rows) {
            return Ok(Part::NotStored("some samples have no value".into()));
        }
        Ok(part)
    }

    /// Finds the numbers in lists of one length, nested to any depth.
    fn list_of_one_size(
        &mut self,
        item: &DataType,
        size: u64,
        rows: u64,
        nulls: u64,
    ) -> Result<Part, Fault> {
        let valid = self.valid(rows, nulls)?;
        let n = rows.checked_mul(size).ok_or("a list is too long".to_owned())?;
        let inner = self.items(item, n)?;
        if !valid.has_all(rows) {
            return Ok(Part::NotStored("some samples have no value".into()));
        }
        Ok(inner.in_lists(size, rows))
    }

    /// Finds the numbers in lists of any length. If all have one shape they are fixed values, as
    /// with `Array3D` of `datasets`.
    fn list(&mut self, item: &DataType, rows: u64, width: u64) -> Result<Part, Fault> {
        let bitmap_and_offsets = self.parts.buffers(2)?;
        let Some(offsets) = bitmap_and_offsets.last() else { return Err("".to_owned().into()) };
        let (mut n, mut ends) = (0, Vec::new());
        if self.plain {
            ends = self.offsets(*offsets, rows, width, u64::MAX)?;
            n = ends.last().copied().unwrap_or(0);
        } else if let Some((len, _)) = self.parts.peek() {
            n = len;
        }
        let inner = self.items(item, n)?;
        if !self.plain {
            return Ok(Part::NotStored(String::new()));
        }
        let mut sizes = ends.iter().zip(ends.iter().skip(1)).map(|(s, e)| e.saturating_sub(*s));
        let size = sizes.next().unwrap_or(0);
        let differ = sizes.any(|s| s != size) || ends.first().is_some_and(|first| *first != 0);
        Ok(match inner {
            Part::Fixed { .. } if differ => Part::NotStored("its lists differ in length".into()),
            inner => inner.in_lists(size, rows),
        })
    }

    /// Finds the values inside lists; only numbers are kept.
    fn items(&mut self, item: &DataType, n: u64) -> Result<Part, Fault> {
        let nested = matches!(
            item,
            DataType::FixedSizeList(..) | DataType::List(_) | DataType::LargeList(_)
        );
        if nested || dtype_of(item).is_some() || !self.plain {
            return self.part(item, n);
        }
        self.plain = false;
        let part = self.part(item, n);
        self.plain = true;
        part.map(|_| Part::NotStored("its lists hold values that are not numbers".into()))
    }
}

impl Part {
    /// Returns these values as `rows` lists of `size` values each.
    fn in_lists(self, size: u64, rows: u64) -> Self {
        match self {
            Self::Fixed { dtype, mut shape, mut batches } => {
                shape.insert(0, size);
                batches.iter_mut().for_each(|(_, n)| *n = rows);
                Self::Fixed { dtype, shape, batches }
            }
            Self::NotStored(reason) => Self::NotStored(reason),
            _ => Self::NotStored("its lists hold values that are not numbers".into()),
        }
    }
}

fn check_rows(found: u64, expected: u64) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("a column has {found} rows, its batch {expected}"))
}

fn stride(data: Run, dtype: Dtype, shape: Vec<u64>, rows: u64) -> Result<Part, String> {
    let size = shape.iter().try_fold(dtype.size_bytes(), |acc, n| acc.checked_mul(*n));
    let needed = size.and_then(|size| size.checked_mul(rows));
    if needed.is_none_or(|needed| needed > data.len) {
        return Err(format!("a buffer has {} bytes for {rows} values", data.len));
    }
    Ok(Part::Fixed { dtype, shape, batches: vec![(data.offset, rows)] })
}

fn dtype_of(data_type: &DataType) -> Option<Dtype> {
    Some(match data_type {
        DataType::UInt8 => Dtype::U8,
        DataType::Int8 => Dtype::I8,
        DataType::UInt16 => Dtype::U16,
        DataType::Int16 => Dtype::I16,
        DataType::UInt32 => Dtype::U32,
        DataType::Int32 => Dtype::I32,
        DataType::Int64 => Dtype::I64,
        DataType::Float16 => Dtype::F16,
        DataType::Float32 => Dtype::F32,
        DataType::Float64 => Dtype::F64,
        _ => return None,
    })
}

/// Removes the values of rows whose struct is null.
fn mask(part: &mut Part, valid: &Valid, rows: u64) {
    fn clear<T>(values: &mut [Option<T>], valid: &Valid) {
        for (_, value) in values.iter_mut().enumerate().filter(|(row, _)| !valid.has(*row)) {
            *value = None;
        }
    }
    match part {
        Part::Bytes(values) => clear(values, valid),
        Part::Integers(values) => clear(values, valid),
        Part::Texts(values) => clear(values, valid),
        Part::Fixed { .. } if !valid.has_all(rows) => {
            *part = Part::NotStored("some samples have no value".into());
        }
        Part::Fixed { .. } | Part::NotStored(_) => {}
    }
}
