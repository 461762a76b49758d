//! Boxes around the things in an image, as cells of a table.

use std::fs;
use std::path::{Path, PathBuf};

use gular_bundle::Field;
use serde_json::Value;

use super::cell::Cell;
use super::columns::ValueKind;
use super::object_lines::ObjectLines;
use super::rows::{Format, fault};
use super::{labelme, yolo};
use crate::layout::{LayoutError, check_format};
use crate::source::MOST_ROW_BYTES;
use crate::source::{hidden, walk};

/// Columns, and fields, of boxes. Format: `FORMAT.md`, "Fields".
const COLUMNS: [&str; 4] = [FILE_NAME, BOXES, "box_labels", "box_crowd"];
/// The column of images.
pub(super) const FILE_NAME: &str = "file_name";
/// The name of the field with the boxes.
pub(crate) const BOXES: &str = "boxes";

/// The column, and field, of points of the things in boxes.
pub(super) const KEYPOINTS: &str = "keypoints";

/// The shortest side of a box that stays in a tile, in pixels, as loaders have it.
const SHORTEST: f64 = 1.0;

/// How far a box may end outside of its image, as a fraction of it, before that is told.
pub(super) const ROUNDING: f64 = 0.01;

/// The size of images of which the annotations do not say it, so that boxes are in their pixels.
pub(crate) const IN_PIXELS: (u32, u32) = (u32::MAX, u32::MAX);

/// The values of a row with boxes in pixels, which become fractions of an image of this size. `at` is
/// the place of the boxes among them.
pub(crate) fn of_size(values: &str, at: usize, (width, height): (u32, u32)) -> Option<String> {
    let mut values: Vec<Value> = serde_json::from_str(values).ok()?;
    let numbers = values.get_mut(at)?.get_mut(2)?.as_array_mut()?;
    for (number, side) in numbers.iter_mut().zip([width, height].into_iter().cycle()) {
        *number = Value::from(number.as_f64()? / f64::from(side));
    }
    Some(Value::Array(values).to_string())
}

/// Whether a box of a row, in fractions of its image, ends outside of it.
pub(crate) fn are_outside(values: &str, at: usize) -> bool {
    let values: Vec<Value> = serde_json::from_str(values).unwrap_or_default();
    let numbers = values.get(at).and_then(|of| of.get(2)).and_then(Value::as_array);
    let is_outside =
        |number: &Value| number.as_f64().is_none_or(|x| !(-ROUNDING..=1.0 + ROUNDING).contains(&x));
    numbers.is_some_and(|numbers| numbers.iter().any(is_outside))
}

/// The places of boxes, and of what is said of each box, among the values of a row.
#[derive(Debug)]
pub(crate) struct BoxValues {
    boxes: usize,
    of_boxes: Vec<usize>,
    keypoints: Option<usize>,
}

impl BoxValues {
    /// Those of the fields of a table, if it has boxes.
    pub(crate) fn among(fields: &[Field]) -> Option<Self> {
        let at = |name: &str| fields.iter().position(|field| field.name.as_str() == name);
        let of_boxes = ["box_labels", "box_crowd"].into_iter().filter_map(at).collect();
        Some(Self { boxes: at(BOXES)?, of_boxes, keypoints: at(KEYPOINTS) })
    }

    /// The place of the boxes.
    pub(crate) fn at(&self) -> usize {
        self.boxes
    }

    /// The values of the row of a scene for its tile at `corner` with `side` columns and rows. As a loader
    /// does it when it crops: boxes are cut at its edges, those of which less than a pixel is left on a
    /// side are dropped, and points outside of it are not known.
    pub(crate) fn of_tile(
        &self,
        values: &str,
        scene: (u32, u32),
        corner: (u32, u32),
        side: u32,
    ) -> Option<String> {
        let mut values: Vec<Value> = serde_json::from_str(values).ok()?;
        // What is beyond the scene is not of it.
        let axis = |of: u32, from: u32| {
            let (of, from) = (f64::from(of), f64::from(from));
            move |fraction: f64| fraction * of - from
        };
        let inside = |of: u32, from: u32| f64::from(side.min(of.saturating_sub(from)));
        let (x, y) = (axis(scene.0, corner.0), axis(scene.1, corner.1));
        let (width, height) = (inside(scene.0, corner.0), inside(scene.1, corner.1));
        let side = f64::from(side);
        let boxes = rows(values.get(self.boxes)?)?;
        let cut = |sides: &Vec<f64>| {
            let [left, top, right, bottom] = *sides.as_slice() else { return None };
            let (left, right) = (x(left).clamp(0.0, width), x(right).clamp(0.0, width));
            let (top, bottom) = (y(top).clamp(0.0, height), y(bottom).clamp(0.0, height));
            let is_left = right - left >= SHORTEST && bottom - top >= SHORTEST;
            is_left.then(|| [left, top, right, bottom].map(|n| n / side).to_vec())
        };
        let cut: Vec<Option<Vec<f64>>> = boxes.iter().map(cut).collect();
        let stays = |at: usize| cut.get(at).is_some_and(Option::is_some);
        let point = |point: &[f64]| match *point {
            [a, b, known] if known > 0.0 => {
                let (a, b) = (x(a), y(b));
                let is_inside = (0.0..=width).contains(&a) && (0.0..=height).contains(&b);
                if is_inside { [a / side, b / side, known] } else { [0.0; 3] }
            }
            _ => [0.0; 3],
        };
        if let Some(at) = self.keypoints {
            let of_boxes = rows(values.get(at)?)?.into_iter().enumerate();
            let kept = of_boxes.filter(|(at, _)| stays(*at));
            let moved = kept.map(|(_, row)| row.chunks(3).flat_map(point).collect());
            set_rows(values.get_mut(at)?, &moved.collect::<Vec<Vec<f64>>>())?;
        }
        for at in &self.of_boxes {
            let numbers = values.get_mut(*at)?;
            let list = numbers.get_mut(2)?.as_array_mut()?;
            let mut at = 0..;
            list.retain(|_| at.next().is_some_and(stays));
            let n = list.len();
            *numbers.get_mut(1)?.get_mut(0)? = n.into();
        }
        set_rows(values.get_mut(self.boxes)?, &cut.into_iter().flatten().collect::<Vec<_>>())?;
        Some(Value::Array(values).to_string())
    }
}

/// The rows of an array in a plan: its type, its shape and its numbers.
fn rows(array: &Value) -> Option<Vec<Vec<f64>>> {
    let columns = usize::try_from(array.get(1)?.get(1)?.as_u64()?).ok()?;
    let numbers: Option<Vec<f64>> = array.get(2)?.as_array()?.iter().map(Value::as_f64).collect();
    Some(numbers?.chunks(columns.max(1)).map(<[f64]>::to_vec).collect())
}

/// Gives an array in a plan other rows of as many columns.
fn set_rows(array: &mut Value, rows: &[Vec<f64>]) -> Option<()> {
    *array.get_mut(1)?.get_mut(0)? = rows.len().into();
    *array.get_mut(2)? = rows.concat().into();
    Some(())
}

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
    let (mut xml, mut txt, mut json, mut lines) = (None, None, None, None);
    walk::<LayoutError>(folder, &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if hidden(&name) {
            return Ok(None);
        }
        if xml.is_none() && txt.is_none() && json.is_none() && !path.is_dir() {
            check_format(path)?;
        }
        let seen = match path.extension().and_then(|extension| extension.to_str()) {
            Some("xml") => Some(&mut xml),
            Some("json") if json.is_none() && labelme::is_file(path) => Some(&mut json),
            // Exports have notes for people, too.
            Some("txt") if txt.is_none() => {
                let line = yolo::first_line(path);
                lines = ObjectLines::of(&line);
                (lines.is_some() || yolo::is_line(&line)).then_some(&mut txt)
            }
            _ => None,
        };
        if let Some(seen) = seen {
            seen.get_or_insert_with(|| path.to_owned());
        }
        let is_known = xml.is_some() && txt.is_some();
        Ok(fs::metadata(path).ok().filter(|found| found.is_dir() && !is_known))
    })?;
    let found: Vec<&PathBuf> = [&xml, &txt, &json].into_iter().flatten().collect();
    if let [one, other, ..] = found.as_slice() {
        let (one, other) = (one.display(), other.display());
        let reason = format!(
            "it has boxes in two formats, such as `{one}` and `{other}`: give a folder with one of them"
        );
        return Err(fault(folder, None, reason));
    }
    match (xml, json, lines) {
        (Some(_), ..) => Ok(Format::Voc),
        (_, Some(_), _) => Ok(Format::LabelMe),
        (.., Some(lines)) => Ok(Format::Lines(lines)),
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
