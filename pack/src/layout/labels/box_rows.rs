//! Tables of boxes: a row for each, or a row for each image with lists of them.
//!
//! ```text
//! image_id,class,xmin,ymin,xmax,ymax        1.jpg, [[…], […]], [0, 1]
//! 1.jpg,cat,3,4,50,60                  ─▶   of 1.jpg, in one row
//! 1.jpg,dog,8,9,70,80
//! ```
//!
//! Columns are known by their names. `xmin`, `x_center` and `bbox` are always boxes; those of other
//! names only if some image has several rows, and otherwise fields. Boxes of which no number is
//! above 1 are fractions of their images, all others are in pixels. The four numbers of `bbox`, and
//! fractions called `x`, `y`, `w` and `h`, can be read in several ways: the numbers of all boxes
//! decide, or the user.

use std::collections::HashMap;
use std::path::Path;

use super::boxes::ROUNDING;
use super::cell::Cell;
use super::coco::{Coco, ImageId};
use super::objects::{Object, Objects};
use super::rows::{Each, fault};
use crate::facts::{BoxForm, Doubt, RunError, WayToRead};
use crate::layout::LayoutError;
use crate::source::{find, find_key, find_label};

/// What four columns of these names are, whatever else it may be. Source: the tables of Kaggle's
/// and Roboflow's sets of boxes, of CVAT and of Keras' RetinaNet.
const NAMED: [([&str; 4], &[BoxForm]); 22] = [
    (["xmin", "ymin", "xmax", "ymax"], &[BoxForm::Ends]),
    (["x1", "y1", "x2", "y2"], &[BoxForm::Ends]),
    (["x0", "y0", "x1", "y1"], &[BoxForm::Ends]),
    (["left", "top", "right", "bottom"], &[BoxForm::Ends]),
    (["bboxxmin", "bboxymin", "bboxxmax", "bboxymax"], &[BoxForm::Ends]),
    (["bboxx1", "bboxy1", "bboxx2", "bboxy2"], &[BoxForm::Ends]),
    (["xtl", "ytl", "xbr", "ybr"], &[BoxForm::Ends]),
    (["xcenter", "ycenter", "width", "height"], &[BoxForm::Centred]),
    (["xcenter", "ycenter", "w", "h"], &[BoxForm::Centred]),
    (["centerx", "centery", "width", "height"], &[BoxForm::Centred]),
    (["xcentre", "ycentre", "width", "height"], &[BoxForm::Centred]),
    (["cx", "cy", "w", "h"], &[BoxForm::Centred]),
    (["cx", "cy", "width", "height"], &[BoxForm::Centred]),
    (["xmin", "ymin", "width", "height"], &[BoxForm::Sized]),
    (["xmin", "ymin", "w", "h"], &[BoxForm::Sized]),
    (["bboxx", "bboxy", "bboxw", "bboxh"], &[BoxForm::Sized]),
    (["bboxx", "bboxy", "bboxwidth", "bboxheight"], &[BoxForm::Sized]),
    (["bboxleft", "bboxtop", "bboxwidth", "bboxheight"], &[BoxForm::Sized]),
    (["left", "top", "width", "height"], &[BoxForm::Sized]),
    (["x1", "y1", "width", "height"], &[BoxForm::Sized]),
    // Beside these, `width` and `height` are those of the image.
    (["x", "y", "w", "h"], &[BoxForm::Sized, BoxForm::Centred]),
    (["x", "y", "width", "height"], &[BoxForm::Sized, BoxForm::Centred]),
];
/// The first columns that mean a side of a box, and nothing else.
const CERTAIN: [&str; 5] = ["xmin", "xcenter", "centerx", "xcentre", "cx"];
/// Four numbers in one cell.
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

/// One box is outside of its image in so many, where the numbers are read right.
const FEW_OUTSIDE: u64 = 20;

/// The places of what a row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoxColumns {
    key: usize,
    class: Option<usize>,
    numbers: Numbers,
    /// What the numbers may be, the likeliest first.
    forms: Vec<BoxForm>,
    size: Option<[usize; 2]>,
    /// Columns that say something else.
    pub(super) others: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Numbers {
    Four([usize; 4]),
    /// Four in one cell, or a list of such.
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
        let named = NAMED.iter().find_map(|(names, forms)| Some((places(names)?, forms.to_vec())));
        let named = named.map(|(places, forms)| (Numbers::Four(places), forms));
        let forms = || vec![BoxForm::Sized, BoxForm::Ends, BoxForm::Centred];
        let whole = || find(columns, &WHOLE).and_then(at).map(Numbers::Whole);
        let (numbers, forms) = named.or_else(|| Some((whole()?, forms())))?;
        let given = |name: &str| columns.iter().position(|column| column == name);
        let key = key.and_then(given).or_else(|| find_key(columns).and_then(at))?;
        let of_whole = || match numbers {
            Numbers::Whole(_) => find(columns, &OF_WHOLE).and_then(at),
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
        let mut used = vec![key];
        used.extend(class);
        match numbers {
            Numbers::Four(places) => used.extend(places),
            Numbers::Whole(place) => used.push(place),
        }
        let size = SIZES.iter().filter_map(pair).find(|size| !used.contains(&size[0]));
        used.extend(size.into_iter().flatten());
        let rest = columns.iter().enumerate().filter(|(at, _)| !used.contains(at));
        let others = rest.map(|(_, name)| name.clone()).collect();
        Some(Self { key, class, numbers, forms, size, others })
    }

    /// Takes the user's word for what the numbers are.
    pub(super) fn with_form(self, form: Option<BoxForm>) -> Self {
        Self { forms: form.map_or(self.forms, |form| vec![form]), ..self }
    }

    /// What the numbers are, if one way alone has the boxes within their images, as `fits` says;
    /// else the ways that have. Lists of boxes are as Hugging Face's documentation has them.
    fn form(
        &self,
        are_fractions: bool,
        are_lists: bool,
        fits: &dyn Fn(BoxForm) -> bool,
    ) -> Result<BoxForm, Vec<BoxForm>> {
        let [first, others @ ..] = self.forms.as_slice() else { return Err(Vec::new()) };
        let is_known =
            |form: &&BoxForm| fits(**form) && (are_fractions || **form != BoxForm::Centred);
        let fitting: Vec<BoxForm> = self.forms.iter().filter(is_known).copied().collect();
        match fitting.as_slice() {
            _ if others.is_empty() => Ok(*first),
            [] => Ok(*first),
            [one] => Ok(*one),
            [of_lists, ..] if are_lists => Ok(*of_lists),
            _ => Err(fitting),
        }
    }

    /// Whether a row has a list of boxes.
    fn has_list(&self, cells: &[Cell]) -> bool {
        let Numbers::Whole(at) = self.numbers else { return false };
        match cells.get(at) {
            Some(Cell::List(rows)) => rows.iter().any(|row| matches!(row, Cell::List(_))),
            Some(Cell::Text(text) | Cell::Written(text)) => is_list_of_lists(text),
            _ => false,
        }
    }

    /// The boxes of a row, each as its four numbers; `None` if a cell is none.
    fn boxes(&self, cells: &[Cell]) -> Option<Vec<[f64; 4]>> {
        let cell = |at: usize| cells.get(at).unwrap_or(&Cell::Missing);
        let places = match &self.numbers {
            Numbers::Whole(at) => return whole(cell(*at)),
            Numbers::Four(places) => places,
        };
        // Images without anything in them have a row, too.
        if places.iter().all(|at| *cell(*at) == Cell::Missing || cell(*at).is_nan()) {
            return Some(Vec::new());
        }
        let mut numbers = [0.0; 4];
        for (number, at) in numbers.iter_mut().zip(places) {
            *number = cell(*at).number()?;
        }
        Some(vec![numbers])
    }
}

/// The columns that have the names of boxes, although their table was not read as one of boxes.
pub(super) fn corners_among(columns: &[String]) -> Option<Vec<&String>> {
    NAMED.iter().find_map(|(names, _)| {
        names.iter().map(|name| find(columns, &[name])).collect::<Option<Vec<_>>>()
    })
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
            let cells = written_list(text);
            if is_list_of_lists(text) {
                let boxes = cells.as_chunks::<4>();
                return boxes
                    .0
                    .iter()
                    .map(|one| four(one))
                    .collect::<Option<_>>()
                    .filter(|_| boxes.1.is_empty());
            }
            four(&cells).map(|one| vec![one])
        }
        _ => None,
    }
}

/// The words of a list that is written as text, such as `['red fox', 'dog']`.
fn quoted_words(text: &str) -> Vec<String> {
    let words = text.trim().trim_matches(['[', ']']).split(',');
    words.map(|word| word.trim().trim_matches(['\'', '"']).to_owned()).collect()
}

/// The numbers of a list that is written as text, such as `[1, 2]` or `(1 2)`.
fn written_list(text: &str) -> Vec<Cell> {
    let is_between = |c: char| "[](),".contains(c) || c.is_whitespace();
    text.split(is_between).filter(|word| !word.is_empty()).map(Cell::written).collect()
}

fn is_list_of_lists(text: &str) -> bool {
    let mut marks = text.chars().filter(|c| !c.is_whitespace());
    ['[', '('].map(Some).contains(&marks.next()) && ['[', '('].map(Some).contains(&marks.next())
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
        let Some(BoxColumns { key, numbers, .. }) = &found else {
            return Err(RunError::Cancelled.into());
        };
        are_boxes |= match numbers {
            Numbers::Whole(at) => {
                cells.get(*at).and_then(whole).is_some_and(|boxes| !boxes.is_empty())
            }
            Numbers::Four([first, ..]) => names
                .get(*first)
                .is_some_and(|name| find(std::slice::from_ref(name), &CERTAIN).is_some()),
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
    let mut rows: Vec<(ImageId, Object)> = Vec::new();
    let mut images: HashMap<String, ImageId> = HashMap::new();
    let mut objects = Objects::default();
    // The number of boxes, and of those within 0 to 1; and the largest number.
    let (mut n, mut n_small, mut largest) = (0_u64, 0_u64, 0.0_f64);
    let mut are_lists = false;
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
            Some(Cell::Text(text) | Cell::Written(text)) if text.trim_start().starts_with('[') => {
                quoted_words(text).get(i).cloned()
            }
            Some(cell) => cell.word().or_else(|| cell.class_number().map(|n| n.to_string())),
        };
        are_lists |= columns.has_list(cells);
        for (i, corners) in boxes.into_iter().enumerate() {
            let class = of_box(i).ok_or_else(|| bad("a box has no class"))?;
            let most = corners.into_iter().fold(f64::MIN, f64::max);
            (n, n_small) = (n + 1, n_small + u64::from(most <= 1.0 + ROUNDING));
            largest = largest.max(most);
            rows.push((image, Object { class, corners, crowd: false }));
        }
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
    // Boxes that are not within their images if their numbers are read in this way.
    let outside = |form: BoxForm| -> u64 {
        let is_outside = |(image, object): &&(ImageId, Object)| {
            let size = if are_fractions { Some((1.0, 1.0)) } else { size_of(image) };
            let [left, top, w, h] = form.sized(object.corners);
            let (width, height) = size.unwrap_or((f64::MAX, f64::MAX));
            let begins = left < -margin || top < -margin;
            w <= 0.0 || h <= 0.0 || begins || left + w > width + margin || top + h > height + margin
        };
        rows.iter().filter(is_outside).count() as u64
    };
    let form = columns.form(are_fractions, are_lists, &|form| outside(form) * FEW_OUTSIDE <= n);
    let form = form.map_err(|forms| several_forms(path, &forms))?;
    let outside = outside(form);
    if outside * 4 > n && form != BoxForm::Ends {
        let reason = format!(
            "{outside} of {n} boxes end outside of their images as {}; corners have columns such as `xmin`, `ymin`, `xmax` and `ymax`",
            form.said()
        );
        return Err(fault(path, None, reason));
    }
    for (name, size) in names {
        objects.image(&name, size.filter(|_| !are_fractions));
    }
    if are_fractions {
        objects.are_fractions();
    }
    for (image, object) in rows {
        objects.add(image, Object { corners: form.sized(object.corners), ..object });
    }
    Ok(objects.coco())
}

/// The question what the numbers of boxes are.
fn several_forms(path: &Path, forms: &[BoxForm]) -> Doubt {
    let text =
        format!("the numbers of the boxes in `{}` can be read in several ways", path.display());
    let way = |form: &BoxForm| WayToRead {
        box_form: Some(*form),
        asks: true,
        ..WayToRead::new(&format!("if they are {}", form.said()), &[])
    };
    Doubt::new(text, forms.iter().map(way).collect())
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
        assert_eq!(found.numbers, Numbers::Four([4, 5, 6, 7]));
        let open = ["ImageID", "Source", "LabelName", "Confidence", "XMin", "XMax", "YMin", "YMax"];
        let found = columns(&open).unwrap();
        assert_eq!((found.class, &found.numbers), (Some(2), &Numbers::Four([4, 6, 5, 7])));
        assert_eq!(found.others, ["Source", "Confidence"]);
        let wheat = columns(&["image_id", "width", "height", "bbox", "source"]).unwrap();
        assert_eq!((wheat.class, wheat.numbers), (None, Numbers::Whole(3)));
        for (names, form) in [
            (["xmin", "ymin", "width", "height"], BoxForm::Sized),
            (["x_min", "y_min", "w", "h"], BoxForm::Sized),
            (["x_center", "y_center", "width", "height"], BoxForm::Centred),
            (["left", "top", "right", "bottom"], BoxForm::Ends),
        ] {
            let found = columns(&[&["image", "class"], &names[..]].concat()).unwrap();
            assert_eq!((found.numbers, found.forms), (Numbers::Four([2, 3, 4, 5]), vec![form]));
        }
        // Of two widths, that beside `x` with the same letters is of the box.
        let both = columns(&["image", "x", "y", "w", "h", "width", "height"]).unwrap();
        assert_eq!((both.numbers, both.size), (Numbers::Four([1, 2, 3, 4]), Some([5, 6])));
        assert_eq!(columns(&["image", "label", "x", "y"]), None);
    }

    #[test]
    fn boxes_are_in_four_cells_or_in_one() {
        let text = |text: &str| Cell::written(text);
        assert_eq!(whole(&text("[1, 2.5, 3, 4]")), Some(vec![[1.0, 2.5, 3.0, 4.0]]));
        assert_eq!(whole(&text("1 2.5  3 4")), Some(vec![[1.0, 2.5, 3.0, 4.0]]));
        assert_eq!(whole(&text("(1,2.5,3,4)")), Some(vec![[1.0, 2.5, 3.0, 4.0]]));
        let two = Some(vec![[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]);
        assert_eq!(whole(&text("[[1, 2, 3, 4], [5, 6, 7, 8]]")), two);
        assert_eq!(whole(&text("[(1, 2, 3, 4), (5, 6, 7)]")), None);
        assert_eq!(quoted_words("['red fox', 'dog']"), ["red fox", "dog"]);
        assert_eq!(whole(&text("[1, 2]")), None);
        let found = columns(&["path", "x1", "y1", "x2", "y2", "class"]).unwrap();
        let row = |words: &str| words.split(',').map(Cell::written).collect::<Vec<_>>();
        assert_eq!(found.boxes(&row("1.jpg,1,2,4,6,cat")), Some(vec![[1.0, 2.0, 4.0, 6.0]]));
        assert_eq!(found.boxes(&row("1.jpg,,,,,")), Some(Vec::new()));
        assert_eq!(found.boxes(&row("1.jpg,1,2,,6,cat")), None);
    }
}
