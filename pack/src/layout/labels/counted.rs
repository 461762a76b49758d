//! Tables as those of CelebA: the number of images, the names of columns, and a line for each image.
//!
//! ```text
//! 202599
//! 5_o_Clock_Shadow Arched_Eyebrows …
//! 000001.jpg -1  1 …
//! ```
//!
//! The first column, of file names, may have no name. Source:
//! <https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html>.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::cell::Cell;
use super::rows::{Each, fault};
use crate::facts::formats;
use crate::layout::LayoutError;

/// The name of a first column without one.
const NAME: &str = "file_name";
/// A table is known by its first lines, which have at most so many bytes.
const MOST_START: u64 = 64 << 10;

/// Whether a file is such a table.
pub(in crate::layout) fn is_table(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut lines = BufReader::new(file.take(MOST_START)).lines().map_while(Result::ok);
    let (Some(count), Some(names), Some(row)) = (lines.next(), lines.next(), lines.next()) else {
        return false;
    };
    let is_image = |name: &str| {
        name.rsplit_once('.').is_some_and(|(_, extension)| formats::is_image(extension))
    };
    count.trim().parse::<u64>().is_ok()
        && columns(&names, &row).is_some()
        && row.split_whitespace().next().is_some_and(is_image)
}

/// The names of the columns, given those of the second line.
fn columns(names: &str, row: &str) -> Option<Vec<String>> {
    let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    match row.split_whitespace().count().checked_sub(names.len())? {
        0 if names.len() > 1 => Some(names),
        1 if !names.is_empty() => Some([vec![NAME.to_owned()], names].concat()),
        _ => None,
    }
}

/// Reads a table.
pub(super) fn read(path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
    let file = File::open(path).map_err(|e| LayoutError::io("open", path, e))?;
    let (mut count, mut names, mut rows) = (0, String::new(), 0);
    let mut found: Vec<String> = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.map_err(|e| LayoutError::io("read", path, e))?;
        match number {
            1 => count = line.trim().parse().unwrap_or_default(),
            2 => names = line,
            _ if line.trim().is_empty() => {}
            _ => {
                if found.is_empty() {
                    found = columns(&names, &line).unwrap_or_default();
                }
                let cells: Vec<Cell> = line.split_whitespace().map(Cell::written).collect();
                if cells.len() != found.len() {
                    let reason = format!(
                        "it has {} cells, and there are {} columns",
                        cells.len(),
                        found.len()
                    );
                    return Err(fault(path, Some(number), reason));
                }
                rows += 1;
                each(number, &found, &cells)?;
            }
        }
    }
    if rows != count {
        let reason = format!("its first line says {count} images, and it has {rows}");
        return Err(fault(path, None, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_counts_and_the_second_names_columns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.txt");
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut rows = Vec::new();
            let read = read(&path, &mut |_, names, cells| {
                rows.push(format!("{} {}", names.join(","), cells.len()));
                Ok(())
            });
            (is_table(&path), read.map(|()| rows).map_err(|e| e.to_string()))
        };
        let (is_table, rows) = of("2\nBald Young \n1.jpg -1  1\n2.jpg  1 -1\n");
        assert!(is_table && rows.unwrap() == ["file_name,Bald,Young 3", "file_name,Bald,Young 3"]);
        let (is_table, rows) = of("1\nimage_id x y\n1.jpg 4  5\n");
        assert!(is_table && rows.unwrap() == ["image_id,x,y 3"]);
        assert!(of("2\nBald\n1.jpg 1\n").1.unwrap_err().contains("says 2 images"));
        assert!(!of("1.jpg cat\n2.jpg dog\n3.jpg cat\n").0);
    }
}
