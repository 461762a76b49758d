//! Tables of predictions: text columns, then numbers, as CSV or Parquet.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::confusion::quoted;

/// Number of rows in one group of a Parquet file.
const ROW_GROUP: usize = 1 << 16;

/// The names of the columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) texts: Vec<String>,
    pub(crate) numbers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) texts: Vec<String>,
    pub(crate) numbers: Vec<f32>,
}

/// Writes the file whole or not at all, as Parquet if its name says so, else as CSV. Returns the
/// number of rows.
pub(crate) fn write(
    path: &Path,
    columns: &Columns,
    rows: impl Iterator<Item = Result<Row>>,
) -> Result<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut temp = tempfile::Builder::new();
    // The file gets the usual permissions, which the umask restricts.
    let temp = temp.permissions(Permissions::from_mode(0o666)).prefix(".gular-tmp-");
    let temp = temp.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    let out = BufWriter::new(temp.as_file());
    let n = match is_parquet(path) {
        true => write_parquet(out, columns, rows)?,
        false => write_csv(out, columns, rows)?,
    };
    temp.as_file().sync_all()?;
    temp.persist(path)?;
    Ok(n)
}

pub(crate) fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet")
}

pub(crate) fn write_csv(
    mut out: impl Write,
    columns: &Columns,
    rows: impl Iterator<Item = Result<Row>>,
) -> Result<u64> {
    let header = columns.texts.iter().chain(&columns.numbers).map(|name| quoted(name));
    writeln!(out, "{}", header.collect::<Vec<_>>().join(","))?;
    let mut n = 0;
    for row in rows {
        let Row { texts, numbers } = row?;
        let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        write!(out, "{}", texts.join(","))?;
        for number in numbers {
            // The shortest text that reads back as the same f32.
            write!(out, ",{number}")?;
        }
        writeln!(out)?;
        n += 1;
    }
    out.flush()?;
    Ok(n)
}

fn write_parquet(
    out: impl Write + Send,
    columns: &Columns,
    mut rows: impl Iterator<Item = Result<Row>>,
) -> Result<u64> {
    let text = |name: &String| {
        Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_logical_type(Some(LogicalType::String))
            .with_repetition(Repetition::REQUIRED)
            .build()
    };
    let number = |name: &String| {
        let column = Type::primitive_type_builder(name, Physical::FLOAT);
        column.with_repetition(Repetition::REQUIRED).build()
    };
    let Columns { texts, numbers } = columns;
    let all = texts.iter().map(text).chain(numbers.iter().map(number));
    let all = all.map(|column| Ok(Arc::new(column?))).collect::<Result<Vec<_>>>()?;
    let schema = Type::group_type_builder("predictions").with_fields(all).build()?;
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), properties)?;
    let mut n = 0;
    loop {
        let rows = rows.by_ref().take(ROW_GROUP).collect::<Result<Vec<_>>>()?;
        if rows.is_empty() {
            break;
        }
        n += rows.len() as u64;
        let mut group = file.next_row_group()?;
        for i in 0..texts.len() {
            let values: Vec<ByteArray> =
                rows.iter().map(|row| ByteArray::from(row.texts[i].as_str())).collect();
            let mut column = group.next_column()?.context("the file has a column less")?;
            column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            column.close()?;
        }
        for i in 0..numbers.len() {
            let values: Vec<f32> = rows.iter().map(|row| row.numbers[i]).collect();
            let mut column = group.next_column()?.context("the file has a column less")?;
            column.typed::<FloatType>().write_batch(&values, None, None)?;
            column.close()?;
        }
        group.close()?;
    }
    file.close()?;
    Ok(n)
}

/// Whether the reader of a pipe has closed it, which is not an error.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
