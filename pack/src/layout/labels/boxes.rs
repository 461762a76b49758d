//! Boxes around the things in an image, as cells of a table.

use std::fs;
use std::path::Path;

use super::cell::Cell;
use super::columns::ValueKind;
use super::rows::{Format, fault};
use super::yolo;
use crate::layout::LayoutError;
use crate::source::MOST_ROW_BYTES;
use crate::source::{hidden, walk};

/// Columns, and fields, of boxes. Format: `FORMAT.md`, "Fields".
const COLUMNS: [&str; 4] = ["file_name", BOXES, "box_labels", "box_crowd"];
/// The name of the field with the boxes.
pub(crate) const BOXES: &str = "boxes";

/// One box of an image.
pub(super) struct Boxed {
    /// Left, top, right, bottom, as fractions of the image's width and height.
    pub(super) corners: [f64; 4],
    pub(super) class: i64,
    /// Whether the box is around many things; `None` if the format does not say.
    pub(super) crowd: Option<bool>,
}

/// The columns' names; with that of crowds where the format has them.
pub(super) fn columns(crowds: bool) -> Vec<String> {
    COLUMNS.iter().take(if crowds { 4 } else { 3 }).map(|&name| name.to_owned()).collect()
}

/// The type of a column of boxes, however many boxes the images have: none, one each, or
/// several.
pub(super) fn kind(column: &str) -> Option<ValueKind> {
    match column {
        BOXES => Some(ValueKind::Arrays { row: Some(4), integers: false }),
        "box_labels" | "box_crowd" => Some(ValueKind::Lists { integers: true }),
        _ => None,
    }
}

/// Returns the row of an image.
pub(super) fn cells(name: &str, boxes: impl Iterator<Item = Boxed>) -> Vec<Cell> {
    let (mut corners, mut classes, mut crowds) = (Vec::new(), Vec::new(), Vec::new());
    for boxed in boxes {
        corners.push(Cell::List(boxed.corners.map(Cell::Float).to_vec()));
        classes.push(Cell::Integer(boxed.class));
        crowds.push(Cell::Integer(i64::from(boxed.crowd.unwrap_or_default())));
    }
    let lists = [corners, classes, crowds].map(Cell::List);
    std::iter::once(Cell::Text(name.to_owned())).chain(lists).collect()
}

/// The format of a folder of annotations.
pub(super) fn format(folder: &Path) -> Result<Format, LayoutError> {
    let (mut xml, mut txt) = (None, None);
    walk::<LayoutError>(folder, &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if hidden(&name) {
            return Ok(None);
        }
        let seen = match path.extension().and_then(|extension| extension.to_str()) {
            Some("xml") => Some(&mut xml),
            // Exports have notes for people, too.
            Some("txt") if txt.is_none() && yolo::begins_with_box(path) => Some(&mut txt),
            _ => None,
        };
        if let Some(seen) = seen {
            seen.get_or_insert_with(|| path.to_owned());
        }
        let is_known = xml.is_some() && txt.is_some();
        Ok(fs::metadata(path).ok().filter(|found| found.is_dir() && !is_known))
    })?;
    match (xml, txt) {
        (Some(xml), Some(txt)) => {
            let (xml, txt) = (xml.display(), txt.display());
            let reason = format!(
                "it has boxes in two formats, such as `{xml}` and `{txt}`: give a folder with one of them"
            );
            Err(fault(folder, None, reason))
        }
        (Some(_), None) => Ok(Format::Voc),
        _ => Ok(Format::Yolo),
    }
}

/// Calls `each` with every file of `folder` that has this extension: its path, its name below the
/// folder without the extension, and its text.
pub(super) fn texts(
    folder: &Path,
    extension: &str,
    each: &mut dyn FnMut(&Path, &str, &str) -> Result<(), LayoutError>,
) -> Result<(), LayoutError> {
    walk::<LayoutError>(folder, &mut |path| {
        // Hidden files are ignored and links are followed, as for images.
        if hidden(&path.file_name().unwrap_or_default().to_string_lossy()) {
            return Ok(None);
        }
        let metadata = fs::metadata(path);
        if let Some(folder) = metadata.as_ref().ok().filter(|found| found.is_dir()) {
            return Ok(Some(folder.clone()));
        }
        if path.extension().is_none_or(|e| e != extension) {
            return Ok(None);
        }
        let relative = path.strip_prefix(folder).unwrap_or(path);
        let Some(name) = relative.with_extension("").to_str().map(str::to_owned) else {
            return Err(fault(path, None, "its name is not UTF-8"));
        };
        if metadata.map_err(|e| LayoutError::io("read", path, e))?.len() > MOST_ROW_BYTES {
            return Err(fault(path, None, format!("it has more than {MOST_ROW_BYTES} bytes")));
        }
        let text = fs::read_to_string(path).map_err(|e| LayoutError::io("read", path, e))?;
        each(path, &name, &text)?;
        Ok(None)
    })
}
