//! Lists without a header, whose lines patterns read: `{path} {label}`.
//!
//! The columns are the names in the patterns. The image is `{path}`, otherwise the part of its path that
//! has one of the names, such as `{key}`, otherwise the whole line; a list with `{id}` may leave it out,
//! since its lines are looked up by that.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::cell::Cell;
use super::rows::{Each, fault};
use crate::facts::{Pattern, TwoReadings, Values};
use crate::layout::LayoutError;
use crate::source::{BOM, MOST_ROW_BYTES};

/// The name of the image in a pattern, and of the column.
const PATH: &str = "path";
/// The name of that by which the lines of several lists are joined.
pub(super) const ID: &str = "id";

/// Whether the lines of a list name no image, and are looked up.
pub(super) fn is_looked_up(patterns: &[Pattern]) -> bool {
    patterns.iter().all(|pattern| pattern.has(ID) && !pattern.has(PATH))
}

/// Whether the first line of a list may name its columns: that of a CSV, or one of words alone.
fn may_be_header(path: &Path, line: &str) -> bool {
    let extension = path.extension().unwrap_or_default();
    let is_name = |word: &str| word.chars().all(|c| c.is_alphabetic() || c == '_');
    ["csv", "tsv"].iter().any(|known| extension.eq_ignore_ascii_case(known))
        || line.split_whitespace().all(is_name) && line.contains(char::is_whitespace)
}

/// Reads a list; empty lines, and those that begin with `#`, say nothing. Nor does a first line that
/// names columns, if no pattern fits it.
pub(super) fn read(path: &Path, patterns: &[Pattern], each: Each<'_>) -> Result<(), LayoutError> {
    let io = |e| LayoutError::io("read", path, e);
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let names_image = is_looked_up(patterns) || patterns.iter().any(|lines| lines.has(PATH));
    let mut columns: Vec<String> = Vec::new();
    if !names_image {
        columns.push(PATH.to_owned());
    }
    for name in patterns.iter().flat_map(Pattern::names) {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
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
        let fits = || patterns.iter().any(|pattern| !matches!(pattern.read(line), Ok(None)));
        if number == 1 && may_be_header(path, line) && !fits() {
            continue;
        }
        let values = read_line(line, patterns, &|reason| fault(path, Some(number), reason))?;
        let cells: Vec<Cell> = columns
            .iter()
            .map(|name| match values.get(name) {
                Some(value) => Cell::written(value),
                None if name == PATH => Cell::written(line),
                None => Cell::Missing,
            })
            .collect();
        each(number, &columns, &cells)?;
    }
    Ok(())
}

/// The values in a line, by the pattern that says the most about it.
fn read_line<'a>(
    line: &'a str,
    patterns: &'a [Pattern],
    fault: &dyn Fn(String) -> LayoutError,
) -> Result<Values<'a>, LayoutError> {
    let mut best: Option<(&Pattern, Values<'a>)> = None;
    for pattern in patterns {
        let found = pattern.read(line).map_err(|TwoReadings { name, values: [short, long] }| {
            fault(format!(
                "the pattern `{pattern}` fits it in two ways: `{name}` may be `{short}` or `{long}`"
            ))
        })?;
        let Some(values) = found else { continue };
        match &best {
            Some((other, _)) if other.weight() == pattern.weight() => {
                return Err(fault(format!("both patterns, `{other}` and `{pattern}`, fit it")));
            }
            Some((other, _)) if other.weight() > pattern.weight() => {}
            _ => best = Some((pattern, values)),
        }
    }
    best.map(|(_, values)| values).ok_or_else(|| {
        fault(match patterns {
            [one] => format!("the pattern `{one}` does not fit it: lines of another form need a pattern of their own"),
            _ => {
                let shown: Vec<String> = patterns.iter().map(|p| format!("`{p}`")).collect();
                format!("none of the patterns {} fits it", shown.join(", "))
            }
        })
    })
}

/// The error for a list whose lines have no pattern, with the first of its lines.
pub(super) fn no_pattern(path: &Path) -> LayoutError {
    let mut first = String::new();
    let file = File::open(path).map(|file| BufReader::new(file.take(1024)));
    let _ = file.and_then(|mut file| file.read_line(&mut first));
    LayoutError::NoLines { path: path.display().to_string(), first: first.trim_end().to_owned() }
}
