//! Lists without a header, whose lines a pattern reads: `{path} {label}`.
//!
//! The columns are the names in the pattern. The image is `{path}`, otherwise the whole line.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::cell::Cell;
use super::rows::{BOM, Each, MOST_ROW_BYTES, fault};
use crate::layout::TwoReadings;
use crate::{Error, Pattern};

/// The name of the image in a pattern, and of the column.
const PATH: &str = "path";

/// Reads a list; empty lines, and those that begin with `#`, say nothing.
pub(super) fn read(path: &Path, lines: &Pattern, each: Each<'_>) -> Result<(), Error> {
    let io = |e| Error::io("read", path, e);
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let mut columns: Vec<String> = lines.names().to_vec();
    if !lines.has(PATH) {
        columns.insert(0, PATH.to_owned());
    }
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let n = file.by_ref().take(MOST_ROW_BYTES).read_until(b'\n', &mut bytes).map_err(io)?;
        if n == 0 {
            break;
        }
        if n as u64 == MOST_ROW_BYTES {
            let reason = format!("it has more than {MOST_ROW_BYTES} bytes");
            return Err(fault(path, Some(number), reason));
        }
        let bytes = bytes.strip_prefix(BOM).filter(|_| number == 1).unwrap_or(&bytes);
        let line = std::str::from_utf8(bytes)
            .map_err(|_| fault(path, Some(number), "it is not UTF-8"))?
            .trim_end_matches(['\n', '\r', ' ', '\t']);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let values = lines.read(line).map_err(|TwoReadings { name, values: [short, long] }| {
            let reason = format!(
                "the pattern `{lines}` fits it in two ways: `{name}` may be `{short}` or `{long}`"
            );
            fault(path, Some(number), reason)
        })?;
        let Some(values) = values else {
            return Err(fault(
                path,
                Some(number),
                format!("the pattern `{lines}` does not fit it"),
            ));
        };
        let whole = (!lines.has(PATH)).then_some(line);
        let values = whole.into_iter().chain(values.iter().map(|(_, value)| value));
        let cells: Vec<Cell> = values.map(Cell::written).collect();
        each(number, &columns, &cells)?;
    }
    Ok(())
}

/// The error for a list whose lines have no pattern, with the first of its lines.
pub(super) fn no_pattern(path: &Path) -> Error {
    let mut first = String::new();
    let file = File::open(path).map(|file| BufReader::new(file.take(1024)));
    let _ = file.and_then(|mut file| file.read_line(&mut first));
    Error::NoLines { path: path.display().to_string(), first: first.trim_end().to_owned() }
}
