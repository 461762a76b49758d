//! Tables in Parquet, one row group in memory at a time.

use std::path::Path;

use gular_bundle::{Backend, Cells, ParquetTable, ReadAt};

use super::cell::Cell;
use super::rows::{Each, MOST_COLUMNS, too_many_columns};
use crate::layout::LayoutError;

pub(super) fn read(path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
    let table = ParquetTable::open(ReadAt::open(path, Backend::Pread)?)?;
    let columns = table.columns();
    if columns.len() > MOST_COLUMNS {
        return Err(too_many_columns(path));
    }
    let mut row = 0;
    for group in 0..table.n_groups() {
        let (n, mut values) = table.group(group)?;
        for i in 0..n {
            row += 1;
            let cells: Vec<Cell> = values.iter_mut().map(|column| take(column, i)).collect();
            each(row, &columns, &cells)?;
        }
    }
    Ok(())
}

fn take(column: &mut Cells, i: usize) -> Cell {
    let cell = match column {
        Cells::Integers(all) => all.get(i).copied().flatten().map(Cell::Integer),
        Cells::Floats(all) => all.get(i).copied().flatten().map(Cell::Float),
        Cells::Texts(all) => all.get_mut(i).and_then(Option::take).map(Cell::Text),
        Cells::TextLists(all) => {
            all.get_mut(i).and_then(Option::take).map(|list| of_list(list, Cell::Text))
        }
        Cells::IntegerLists(all) => {
            all.get_mut(i).and_then(Option::take).map(|list| of_list(list, Cell::Integer))
        }
        Cells::FloatLists(all) => {
            all.get_mut(i).and_then(Option::take).map(|list| of_list(list, Cell::Float))
        }
        Cells::FloatListLists(all) => all.get_mut(i).and_then(Option::take).map(|lists| {
            let list =
                |list: Option<_>| list.map_or(Cell::Missing, |list| of_list(list, Cell::Float));
            Cell::List(lists.into_iter().map(list).collect())
        }),
        Cells::Bools(all) => all.get(i).copied().flatten().map(Cell::Bool),
        Cells::Unread(reason) => Some(Cell::Other(reason.clone())),
    };
    cell.unwrap_or(Cell::Missing)
}

fn of_list<T>(list: Vec<Option<T>>, cell: fn(T) -> Cell) -> Cell {
    Cell::List(list.into_iter().map(|value| value.map_or(Cell::Missing, cell)).collect())
}
