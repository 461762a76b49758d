//! Tables of boxes: a row for each, or a row for each image with lists of them.
//!
//! ```text
//! image_id,class,xmin,ymin,xmax,ymax        1.jpg, [[…], […]], [0, 1]
//! 1.jpg,cat,3,4,50,60                  ─▶   of 1.jpg, in one row
//! 1.jpg,dog,8,9,70,80
//! ```
//!
//! Columns are known by their names. `xmin` and `bbox` are always boxes; those of other names only if
//! some image has several rows, and otherwise fields. Boxes of which no number is above 1 are fractions of their
//! images, all others are in pixels.

use std::collections::HashMap;
use std::path::Path;

use super::boxes::ROUNDING;
use super::cell::Cell;
use super::coco::{Coco, ImageId};
use super::objects::{Object, Objects};
use super::rows::{Each, fault};
use crate::facts::RunError;
use crate::layout::LayoutError;
use crate::source::{find, find_key, find_label};

/// Left, top, right and bottom.
const CORNERS: [[&str; 4]; 6] = [
    ["xmin", "ymin", "xmax", "ymax"],
    ["x1", "y1", "x2", "y2"],
    ["x0", "y0", "x1", "y1"],
    ["left", "top", "right", "bottom"],
    ["bboxxmin", "bboxymin", "bboxxmax", "bboxymax"],
    ["bboxx1", "bboxy1", "bboxx2", "bboxy2"],
];
/// Left, top, width and height.
const SIZED: [[&str; 4]; 5] = [
    ["bboxx", "bboxy", "bboxw", "bboxh"],
    ["bboxx", "bboxy", "bboxwidth", "bboxheight"],
    ["left", "top", "width", "height"],
    ["x", "y", "width", "height"],
    ["x", "y", "w", "h"],
];
/// Left, top, width and height in one cell.
const WHOLE: [&str; 4] = ["bbox", "bboxes", "objectsbbox", "objectsbboxes"];
/// Their classes.
const OF_WHOLE: [&str; 5] =
    ["objectscategories", "objectscategory", "objectslabels", "objectslabel", "categories"];
/// Names of an image's size beside corners.
const SIZES: [[&str; 2]; 3] =
    [["width", "height"], ["imagewidth", "imageheight"], ["imgwidth", "imgheight"]];
/// Whether images have several boxes is seen in so many rows.
const FIRST_ROWS: usize = 1 << 16;
/// The class of boxes without one.
const OBJECT: &str = "object";

/// The places of what a row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoxColumns {
    key: usize,
    class: Option<usize>,
    corners: Corners,
    size: Option<[usize; 2]>,
    /// Columns that say something else.
    pub(super) others: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Corners {
    /// Left, top, right and bottom.
    Ends([usize; 4]),
    /// Left, top, width and height.
    Sized([usize; 4]),
    /// The same in one cell, or a list of such.
    Whole(usize),
}

impl BoxColumns {
    /// The columns of boxes among `columns`; `key` and `class` are those that the user names.
    pub(super) fn of(columns: &[String], key: Option<&str>, class: Option<&str>) -> Option<Self> {
        let at = |name: &String| columns.iter().position(|column| column == name);
        let places = |names: &[&str; 4]| {
            let places: Option<Vec<usize>> =
                names.iter().map(|name| find(columns, &[name]).and_then(at)).collect();
            places.and_then(|places| places.try_into().ok())
        };
        let whole = || find(columns, &WHOLE).and_then(at).map(Corners::Whole);
        let corners = CORNERS.iter().find_map(places).map(Corners::Ends);
        let corners = corners.or_else(|| SIZED.iter().find_map(places).map(Corners::Sized));
        let corners = corners.or_else(whole)?;
        let given = |name: &str| columns.iter().position(|column| column == name);
        let key = key.and_then(given).or_else(|| find_key(columns).and_then(at))?;
        let of_whole = || match corners {
            Corners::Whole(_) => find(columns, &OF_WHOLE).and_then(at),
            _ => None,
        };
        let class = class.and_then(given).or_else(of_whole);
        let class = class.or_else(|| find_label(columns).and_then(at));
        let pair = |names: &[&str; 2]| {
            Some([
                find(columns, &names[..1]).and_then(at)?,
                find(columns, &names[1..]).and_then(at)?,
            ])
        };
        let size = SIZES.iter().find_map(pair).filter(|_| !matches!(corners, Corners::Sized(_)));
        let mut used = vec![key];
        used.extend(class);
        used.extend(size.into_iter().flatten());
        match corners {
            Corners::Ends(places) | Corners::Sized(places) => used.extend(places),
            Corners::Whole(place) => used.push(place),
        }
        let rest = columns.iter().enumerate().filter(|(at, _)| !used.contains(at));
        let others = rest.map(|(_, name)| name.clone()).collect();
        Some(Self { key, class, corners, size, others })
    }

    /// The boxes of a row, each as left, top, width and height; `None` if a cell is none.
    fn boxes(&self, cells: &[Cell]) -> Option<Vec<[f64; 4]>> {
        let cell = |at: usize| cells.get(at).unwrap_or(&Cell::Missing);
        let (places, ends) = match &self.corners {
            Corners::Whole(at) => return whole(cell(*at)),
            Corners::Ends(places) => (places, true),
            Corners::Sized(places) => (places, false),
        };
        // Images without anything in them have a row, too.
        if places.iter().all(|at| *cell(*at) == Cell::Missing || cell(*at).is_nan()) {
            return Some(Vec::new());
        }
        let mut numbers = [0.0; 4];
        for (number, at) in numbers.iter_mut().zip(places) {
            *number = cell(*at).number()?;
        }
        let [left, top, a, b] = numbers;
        Some(vec![if ends { [left, top, a - left, b - top] } else { numbers }])
    }
}

/// The columns that have the names of boxes, although their table was not read as one of boxes.
pub(super) fn corners_among(columns: &[String]) -> Option<Vec<&String>> {
    CORNERS.iter().chain(&SIZED).find_map(|names| {
        names.iter().map(|name| find(columns, &[name])).collect::<Option<Vec<_>>>()
    })
}

/// Whether a name means a side of a box, and nothing else.
fn is_corner(name: &str) -> bool {
    find(&[name.to_owned()], &CORNERS[0][..1]).is_some()
}

/// The boxes in one cell: four numbers, also as text, or a list of such.
fn whole(cell: &Cell) -> Option<Vec<[f64; 4]>> {
    let four = |cells: &[Cell]| -> Option<[f64; 4]> {
        let numbers: Option<Vec<f64>> = cells.iter().map(Cell::number).collect();
        numbers?.try_into().ok()
    };
    match cell {
        Cell::Missing => Some(Vec::new()),
        Cell::List(rows) if rows.iter().all(|row| matches!(row, Cell::List(_))) => {
            let of_row = |row: &Cell| if let Cell::List(cells) = row { four(cells) } else { None };
            rows.iter().map(of_row).collect()
        }
        Cell::List(cells) => four(cells).map(|one| vec![one]),
        Cell::Text(text) | Cell::Written(text) => {
            let inside = text.trim().strip_prefix('[')?.strip_suffix(']')?;
            let cells: Vec<Cell> =
                inside.split(',').map(|part| Cell::written(part.trim())).collect();
            four(&cells).map(|one| vec![one])
        }
        _ => None,
    }
}

/// How a table is read.
pub(super) type ReadRows<'a> = &'a dyn Fn(Each<'_>) -> Result<(), LayoutError>;

/// The columns of boxes of a table, if it has boxes.
pub(super) fn find_columns(
    read: ReadRows<'_>,
    key: Option<&str>,
    class: Option<&str>,
) -> Option<BoxColumns> {
    let (mut found, mut is_known, mut are_boxes) = (None, false, false);
    let (mut several, mut n) = (false, 0);
    let mut first: HashMap<String, Vec<Cell>> = HashMap::new();
    let read = read(&mut |_, names, cells| {
        if !is_known {
            is_known = true;
            found = BoxColumns::of(names, key, class);
        }
        let Some(BoxColumns { key, corners, .. }) = &found else {
            return Err(RunError::Cancelled.into());
        };
        are_boxes |= match corners {
            Corners::Whole(at) => {
                cells.get(*at).and_then(whole).is_some_and(|boxes| !boxes.is_empty())
            }
            Corners::Ends([left, ..]) => names.get(*left).is_some_and(|name| is_corner(name)),
            Corners::Sized(_) => false,
        };
        if let Some(name) = cells.get(*key).and_then(Cell::word) {
            let known = first.entry(name).or_insert_with(|| cells.to_vec());
            several |= known.as_slice() != cells;
        }
        n += 1;
        // What follows says no more.
        if several || are_boxes || n > FIRST_ROWS {
            Err(RunError::Cancelled.into())
        } else {
            Ok(())
        }
    });
    let is_read = read.is_ok() || several || are_boxes;
    found.filter(|_| is_read && (several || are_boxes))
}

/// Reads a table; `path` is for messages.
pub(super) fn read(
    path: &Path,
    columns: &BoxColumns,
    read: ReadRows<'_>,
) -> Result<Coco, LayoutError> {
    let mut rows: Vec<(ImageId, Vec<Object>)> = Vec::new();
    let mut images: HashMap<String, ImageId> = HashMap::new();
    let mut objects = Objects::default();
    let is_ends = matches!(columns.corners, Corners::Ends(_));
    // The number of boxes, and of those within 0 to 1; and the largest number.
    let (mut n, mut n_small, mut largest) = (0_u64, 0_u64, 0.0_f64);
    let mut names: Vec<(String, Option<(f64, f64)>)> = Vec::new();
    read(&mut |line, _, cells| {
        let cell = |at: usize| cells.get(at).unwrap_or(&Cell::Missing);
        let name = cell(columns.key).word().unwrap_or_default();
        let size = columns.size.and_then(|[w, h]| cell(w).number().zip(cell(h).number()));
        let bad = |reason: &str| fault(path, Some(line), reason);
        let image = *images.entry(name.clone()).or_insert_with(|| {
            names.push((name, size));
            ImageId::Number(names.len() as i64 - 1)
        });
        if let ImageId::Number(at) = image
            && usize::try_from(at).ok().and_then(|at| names.get(at)).is_some_and(|of| of.1 != size)
        {
            return Err(bad("its image has another width or height than in an earlier row"));
        }
        let boxes = columns.boxes(cells).ok_or_else(|| bad("it has no box of four numbers"))?;
        let class = columns.class.map(cell);
        let of_box = |i: usize| match class {
            None => Some(OBJECT.to_owned()),
            Some(Cell::List(classes)) => classes.get(i).and_then(Cell::word),
            Some(cell) => cell.word().or_else(|| cell.class_number().map(|n| n.to_string())),
        };
        let mut of_row = Vec::new();
        for (i, corners) in boxes.into_iter().enumerate() {
            let class = of_box(i).ok_or_else(|| bad("a box has no class"))?;
            let [left, top, w, h] = corners;
            let end = (left + w).max(top + h);
            // As they are written, corners or sizes.
            let most = if is_ends { end } else { left.max(top).max(w).max(h) };
            (n, n_small) = (n + 1, n_small + u64::from(most <= 1.0 + ROUNDING));
            largest = largest.max(most);
            of_row.push(Object { class, corners, crowd: false });
        }
        rows.push((image, of_row));
        Ok(())
    })?;
    let are_fractions = largest > 0.0 && n_small == n;
    if n_small * 2 > n && !are_fractions {
        let reason = format!(
            "{n_small} of {n} boxes end below 1, as fractions of an image do, and one ends at {largest}, as pixels do"
        );
        return Err(fault(path, None, reason));
    }
    let size_of = |image: &ImageId| match image {
        ImageId::Number(at) => usize::try_from(*at).ok().and_then(|at| names.get(at)?.1),
        ImageId::Text(_) => None,
    };
    // A pixel more, which some formats count, is not meant here.
    let margin = if are_fractions { ROUNDING } else { 1.0 };
    let ends_outside = |(image, of_row): &(ImageId, Vec<Object>)| {
        let size = if are_fractions { Some((1.0, 1.0)) } else { size_of(image) };
        let is_outside = |corners: &[f64; 4]| {
            let [left, top, w, h] = *corners;
            size.is_some_and(|(width, height)| {
                left + w > width + margin || top + h > height + margin
            })
        };
        of_row.iter().filter(|object| is_outside(&object.corners)).count() as u64
    };
    let outside: u64 = rows.iter().map(ends_outside).sum();
    if outside * 4 > n && !is_ends {
        let reason = format!(
            "{outside} of {n} boxes end outside of their images as left, top, width and height; corners have columns such as `xmin`, `ymin`, `xmax` and `ymax`"
        );
        return Err(fault(path, None, reason));
    }
    for (name, size) in names {
        objects.image(&name, size.filter(|_| !are_fractions));
    }
    if are_fractions {
        objects.are_fractions();
    }
    for (image, of_row) in rows {
        of_row.into_iter().for_each(|object| objects.add(image, object));
    }
    Ok(objects.coco())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Option<BoxColumns> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        BoxColumns::of(&names, None, None)
    }

    #[test]
    fn columns_of_boxes_are_known_by_their_names() {
        let found =
            columns(&["filename", "width", "height", "class", "xmin", "ymin", "xmax", "ymax"]);
        let found = found.unwrap();
        assert_eq!((found.key, found.class, found.size), (0, Some(3), Some([1, 2])));
        assert_eq!(found.corners, Corners::Ends([4, 5, 6, 7]));
        let open = ["ImageID", "Source", "LabelName", "Confidence", "XMin", "XMax", "YMin", "YMax"];
        let found = columns(&open).unwrap();
        assert_eq!((found.class, &found.corners), (Some(2), &Corners::Ends([4, 6, 5, 7])));
        assert_eq!(found.others, ["Source", "Confidence"]);
        let wheat = columns(&["image_id", "width", "height", "bbox", "source"]).unwrap();
        assert_eq!((wheat.class, wheat.corners), (None, Corners::Whole(3)));
        assert_eq!(columns(&["image", "label", "x", "y"]), None);
    }

    #[test]
    fn boxes_are_in_four_cells_or_in_one() {
        let text = |text: &str| Cell::written(text);
        assert_eq!(whole(&text("[1, 2.5, 3, 4]")), Some(vec![[1.0, 2.5, 3.0, 4.0]]));
        assert_eq!(whole(&text("[1, 2]")), None);
        let found = columns(&["path", "x1", "y1", "x2", "y2", "class"]).unwrap();
        let row = |words: &str| words.split(',').map(Cell::written).collect::<Vec<_>>();
        assert_eq!(found.boxes(&row("1.jpg,1,2,4,6,cat")), Some(vec![[1.0, 2.0, 3.0, 4.0]]));
        assert_eq!(found.boxes(&row("1.jpg,,,,,")), Some(Vec::new()));
        assert_eq!(found.boxes(&row("1.jpg,1,2,,6,cat")), None);
    }
}
