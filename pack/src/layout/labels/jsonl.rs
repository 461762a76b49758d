//! Tables of one JSON object per line.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde_json::{Map, Value};

use super::cell::Cell;
use super::rows::{Each, MOST_COLUMNS, fault, too_many_columns};
use crate::layout::LayoutError;
use crate::source::{BOM, MOST_ROW_BYTES};

/// Reads a table. The members of an object in a cell are columns of their own. Columns are found on the way; one that a line lacks is missing there.
pub(super) fn read(path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
    let io = |e| LayoutError::io("read", path, e);
    let mut file = BufReader::with_capacity(256 << 10, File::open(path).map_err(io)?);
    let mut columns = Columns::default();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        if file.by_ref().take(MOST_ROW_BYTES).read_until(b'\n', &mut line).map_err(io)? == 0 {
            break;
        }
        if line.len() as u64 == MOST_ROW_BYTES {
            let reason = format!("it has more than {MOST_ROW_BYTES} bytes");
            return Err(fault(path, Some(number), reason));
        }
        if line.trim_ascii().is_empty() || (number == 1 && line.trim_ascii() == BOM) {
            continue;
        }
        let text = if number == 1 { line.strip_prefix(BOM).unwrap_or(&line) } else { &line };
        let value = serde_json::from_slice(text)
            .map_err(|e| fault(path, Some(number), format!("it is not JSON: {e}")))?;
        let Value::Object(object) = value else {
            return Err(fault(path, Some(number), "it is not an object"));
        };
        let cells = columns.cells(path, object)?;
        each(number, columns.names(), &cells)?;
    }
    Ok(())
}

/// The columns that objects have had so far.
#[derive(Debug, Default)]
pub(super) struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Columns {
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The cells of an object, in the order of the columns.
    pub(super) fn cells(
        &mut self,
        path: &Path,
        object: Map<String, Value>,
    ) -> Result<Vec<Cell>, LayoutError> {
        let mut cells = vec![Cell::Missing; self.names.len()];
        for (name, value) in object.into_iter().flat_map(members) {
            let place = match self.places.get(&name) {
                Some(place) => *place,
                None => {
                    if self.names.len() == MOST_COLUMNS {
                        return Err(too_many_columns(path));
                    }
                    self.places.insert(name.clone(), self.names.len());
                    self.names.push(name);
                    cells.push(Cell::Missing);
                    self.names.len() - 1
                }
            };
            cells[place] = cell(value);
        }
        Ok(cells)
    }
}

/// A value by its name, and those of an object by both names: `objects.bbox`.
fn members((name, value): (String, Value)) -> Vec<(String, Value)> {
    match value {
        Value::Object(inner) if !inner.is_empty() => {
            inner.into_iter().map(|(own, value)| (format!("{name}.{own}"), value)).collect()
        }
        value => vec![(name, value)],
    }
}

/// The text of a sentence that has more beside it, as Karpathy's have their words.
fn sentence(value: Value) -> Value {
    match value {
        Value::Object(mut parts) if parts.get("raw").is_some_and(Value::is_string) => {
            parts.remove("raw").unwrap_or_default()
        }
        value => value,
    }
}

fn cell(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Missing,
        Value::Bool(b) => Cell::Bool(b),
        Value::String(text) => Cell::Text(text),
        Value::Array(list) => {
            Cell::List(list.into_iter().map(|value| cell(sentence(value))).collect())
        }
        Value::Object(_) => Cell::Other("it holds objects".to_owned()),
        Value::Number(n) => match n.as_i64() {
            Some(n) => Cell::Integer(n),
            None => Cell::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
    }
}
