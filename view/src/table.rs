//! Tables of predictions, in CSV or Parquet: the same texts, row by row.

use std::fs::File;
use std::io::Read as _;

use gular_bundle::{Backend, Cells, ParquetTable, ReadAt};
use gular_pack::separator_of;

use crate::error::TableError;
use crate::runs::{Run, RunFile};

/// The names of the columns.
pub(crate) fn header(run: &Run) -> Result<csv::StringRecord, TableError> {
    match run.kind {
        RunFile::ParquetPredictions => Ok(open(run)?.columns().into()),
        _ => Ok(csv(run)?.headers()?.clone()),
    }
}

/// Calls `each` with every row, until it returns false. Cells are texts; those that are missing are
/// empty. Columns `needed` are refused if they are not numbers or texts.
pub(crate) fn rows(
    run: &Run,
    needed: &[usize],
    each: &mut dyn FnMut(&csv::StringRecord) -> bool,
) -> Result<(), TableError> {
    let mut row = csv::StringRecord::new();
    if run.kind == RunFile::ParquetPredictions {
        let table = open(run)?;
        for group in 0..table.n_groups() {
            let (n, columns) = table.group(group)?;
            for at in needed {
                if let Some(Cells::Unread(reason)) = columns.get(*at) {
                    let column = table.columns().get(*at).cloned().unwrap_or_default();
                    return Err(TableError::Unread { column, reason: reason.clone() });
                }
            }
            for i in 0..n {
                row.clear();
                columns.iter().for_each(|cells| row.push_field(&text(cells, i)));
                if !each(&row) {
                    return Ok(());
                }
            }
        }
        return Ok(());
    }
    let mut table = csv(run)?;
    while table.read_record(&mut row)? {
        if !each(&row) {
            break;
        }
    }
    Ok(())
}

/// A CSV file, whose cells are separated by what separates the names of its columns.
fn csv(run: &Run) -> Result<csv::Reader<File>, TableError> {
    let mut start = [0; 4096];
    let n = File::open(&run.path).and_then(|mut file| file.read(&mut start));
    let first = start.get(..n.map_err(csv::Error::from)?).unwrap_or_default();
    Ok(csv::ReaderBuilder::new().delimiter(separator_of(first)).from_path(&run.path)?)
}

fn open(run: &Run) -> Result<ParquetTable, TableError> {
    Ok(ParquetTable::open(ReadAt::open(&run.path, Backend::Pread)?)?)
}

fn text(cells: &Cells, i: usize) -> String {
    fn of<T: ToString>(cells: &[Option<T>], i: usize) -> String {
        cells.get(i).and_then(Option::as_ref).map(T::to_string).unwrap_or_default()
    }
    match cells {
        Cells::Integers(cells) => of(cells, i),
        Cells::Floats(cells) => of(cells, i),
        Cells::Texts(cells) => of(cells, i),
        Cells::Bools(cells) => of(cells, i),
        _ => String::new(),
    }
}
