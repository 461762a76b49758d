//! Boxes in COCO's format: one JSON of images, annotations and categories.
//!
//! A row per image: `file_name`, `boxes`, `box_labels`, `box_crowd` and, if there are some,
//! `keypoints`. Boxes become corners as fractions of the image, and so do points, which stay right
//! when the image is resized; categories become classes
//! in the order of their ids, which have gaps. In a file without any box, as those of camera traps
//! are, categories are the labels of whole images: `file_name` and `label`, and where and when each was
//! taken, if images say it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::boxes::{self, Boxed};
use super::cell::Cell;
use super::rows::{Each, fault};
use crate::facts::{ClassNumbers, Names};
use crate::layout::LayoutError;

/// A box may end so many pixels outside of its image: programs that count pixels from 0 or 1, or round,
/// differ by a pixel or two.
pub(super) const ROUNDING: f64 = 2.0;

/// The contents of a file whose parts have been checked.
#[derive(Debug, Deserialize)]
pub(super) struct Coco {
    /// The images, sorted by id.
    pub(super) images: Vec<CocoImage>,
    /// The annotations, sorted by image.
    pub(super) annotations: Vec<Annotation>,
    /// The categories, sorted by id.
    #[serde(default)]
    pub(super) categories: Vec<Category>,
    /// The numbers of outlines and of points of formats in which these are not annotations.
    #[serde(skip)]
    pub(super) unread: [u64; 2],
}

#[derive(Debug, Deserialize)]
pub(super) struct CocoImage {
    #[serde(alias = "image_id")]
    pub(super) id: ImageId,
    pub(super) file_name: String,
    pub(super) width: Option<f64>,
    pub(super) height: Option<f64>,
    /// Whether boxes are fractions of the image, whatever its size.
    #[serde(skip)]
    pub(super) are_fractions: bool,
    #[serde(default)]
    location: WrittenText,
    #[serde(default)]
    seq_id: WrittenText,
    #[serde(default)]
    datetime: WrittenText,
    #[serde(default)]
    date_captured: WrittenText,
}

/// A text or a whole number, as a text; empty for anything else.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "TextOrOther")]
struct WrittenText(Box<str>);

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrOther {
    Text(Box<str>),
    Number(i64),
    Other(IgnoredAny),
}

impl From<TextOrOther> for WrittenText {
    fn from(written: TextOrOther) -> Self {
        Self(match written {
            TextOrOther::Text(text) => text,
            TextOrOther::Number(number) => number.to_string().into(),
            TextOrOther::Other(_) => Box::default(),
        })
    }
}

impl CocoImage {
    pub(super) fn new(
        id: ImageId,
        file_name: String,
        width: Option<f64>,
        height: Option<f64>,
    ) -> Self {
        let none = WrittenText::default;
        let (location, seq_id, datetime, date_captured) = (none(), none(), none(), none());
        let are_fractions = false;
        Self {
            id,
            file_name,
            width,
            height,
            are_fractions,
            location,
            seq_id,
            datetime,
            date_captured,
        }
    }

    /// Where and when it was taken, and in which burst. Source: LILA's "COCO Camera Traps" format.
    fn circumstances(&self) -> [(&'static str, &str); 4] {
        [
            ("location", &self.location.0),
            ("seq_id", &self.seq_id.0),
            ("datetime", &self.datetime.0),
            ("date_captured", &self.date_captured.0),
        ]
    }
}

fn no_category() -> i64 {
    i64::MIN
}

#[derive(Debug, Deserialize)]
pub(super) struct Annotation {
    pub(super) image_id: ImageId,
    /// Captions have none, and then get an id that no category has.
    #[serde(default = "no_category")]
    pub(super) category_id: i64,
    /// The box: left, top, width, height in pixels.
    pub(super) bbox: Option<[f64; 4]>,
    #[serde(default)]
    pub(super) iscrowd: u8,
    pub(super) caption: Option<String>,
    /// Whether there is an outline, which is not packed.
    #[serde(default, rename = "segmentation", deserialize_with = "is_there")]
    pub(super) has_outline: bool,
    #[serde(default)]
    pub(super) keypoints: KeyPoints,
}

/// Points of a thing, in the order that its category names them.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "NumbersOrOther")]
pub(super) struct KeyPoints {
    /// Of each point its column and row in pixels, and 0 if it is not known, 1 if it is hidden, or 2.
    numbers: Box<[f64]>,
    /// Whether there is something else, which is not packed.
    are_unread: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumbersOrOther {
    Numbers(Box<[f64]>),
    Other(Option<IgnoredAny>),
}

impl From<NumbersOrOther> for KeyPoints {
    fn from(written: NumbersOrOther) -> Self {
        match written {
            NumbersOrOther::Numbers(numbers) => Self { numbers, are_unread: false },
            NumbersOrOther::Other(value) => {
                Self { numbers: Box::default(), are_unread: value.is_some() }
            }
        }
    }
}

impl KeyPoints {
    /// The numbers of `n` points in an image of `size` = (width, height), as fractions of it; points
    /// that are left out are not known.
    fn fractions(&self, n: usize, (width, height): (f64, f64)) -> Vec<Cell> {
        let all = self.numbers.iter().zip([width, height, 1.0].into_iter().cycle());
        let known = all.map(|(number, of)| number / of);
        known.chain(std::iter::repeat(0.0)).take(3 * n).map(Cell::Float).collect()
    }

    /// Whether there are three numbers of each point, and the third is one of the three that there are.
    fn are_points(&self) -> bool {
        let (points, rest) = self.numbers.as_chunks::<3>();
        let is_point = |[x, y, known]: &[f64; 3]| {
            x.is_finite() && y.is_finite() && [0.0, 1.0, 2.0].contains(known)
        };
        rest.is_empty() && points.iter().all(is_point)
    }
}

/// A list, or a mask in another form.
#[derive(Deserialize)]
#[serde(untagged)]
enum Outline {
    List(Vec<IgnoredAny>),
    Other(Option<IgnoredAny>),
}

/// Whether there is more than an empty list.
fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(match Outline::deserialize(deserializer)? {
        Outline::List(values) => !values.is_empty(),
        Outline::Other(value) => value.is_some(),
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct Category {
    #[serde(alias = "category_id")]
    pub(super) id: i64,
    #[serde(alias = "scientificName")]
    pub(super) name: String,
}

/// The id of an image, which some files write as a text (iWildCam, Herbarium). The number 1 and the
/// texts `1` and `01` are three ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "WrittenId")]
pub(super) enum ImageId {
    Number(i64),
    /// The first bytes of the text's BLAKE3: files have millions of ids.
    Text([u8; 8]),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenId {
    Number(i64),
    Text(String),
}

impl From<WrittenId> for ImageId {
    fn from(id: WrittenId) -> Self {
        match id {
            WrittenId::Number(number) => Self::Number(number),
            WrittenId::Text(text) => {
                let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(text.as_bytes()).as_bytes();
                Self::Text([a, b, c, d, e, f, g, h])
            }
        }
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(start) => {
                write!(f, "a text of BLAKE3 {:016x}…", u64::from_be_bytes(*start))
            }
        }
    }
}

impl Coco {
    /// Reads and checks the file.
    pub(super) fn open(path: &Path) -> Result<Self, LayoutError> {
        let mut coco = parse(path)?;
        coco.annotations.sort_by_key(|annotation| annotation.image_id);
        coco.images.sort_by_key(|image| image.id);
        if let Some(pair) = coco.images.windows(2).find(|pair| pair[0].id == pair[1].id) {
            let (a, b) = (&pair[0].file_name, &pair[1].file_name);
            let reason = format!("images `{a}` and `{b}` have the same id, {}", pair[0].id);
            return Err(fault(path, None, reason));
        }
        let numbers = coco.numbers();
        let (mut no_image, mut no_category) = (Names::default(), Names::default());
        for annotation in &coco.annotations {
            let image = annotation.image_id;
            if coco.images.binary_search_by_key(&image, |image| image.id).is_err() {
                no_image.push(&image.to_string());
            }
            let is_named =
                annotation.caption.is_some() || numbers.contains_key(&annotation.category_id);
            if !is_named {
                no_category.push(&annotation.category_id.to_string());
            }
        }
        for (what, found) in [("images", no_image), ("categories", no_category)] {
            if found.n > 0 {
                let reason = format!(
                    "{} annotations refer to {what} that the file does not list: {found}",
                    found.n
                );
                return Err(fault(path, None, reason));
            }
        }
        Ok(coco)
    }

    /// Names of the categories, in the order of their ids.
    pub(super) fn classes(&self) -> Vec<String> {
        self.categories.iter().map(|category| category.name.clone()).collect()
    }

    /// Returns the class of each category.
    fn numbers(&self) -> HashMap<i64, i64> {
        self.categories.iter().map(|category| category.id).zip(0..).collect()
    }

    /// The class of each category that has annotations, by its name in `classes`; the error is a name
    /// that is not there.
    pub(super) fn numbers_in(&self, classes: &[String]) -> Result<HashMap<i64, i64>, String> {
        let used: BTreeSet<i64> = self.annotations.iter().map(|of| of.category_id).collect();
        let numbers = ClassNumbers::new(classes);
        let used = self.categories.iter().filter(|category| used.contains(&category.id));
        let number = |category: &Category| {
            let number = numbers.get(&category.name);
            number.map(|number| (category.id, number)).ok_or_else(|| category.name.clone())
        };
        used.map(number).collect()
    }

    /// Whether some annotation has a box.
    pub(super) fn has_boxes(&self) -> bool {
        self.annotations.iter().any(|annotation| annotation.bbox.is_some())
            || self.annotations.is_empty()
    }

    /// The number of annotations without a box, where others have one.
    pub(super) fn without_box(&self) -> u64 {
        let none = self.annotations.iter().filter(|annotation| annotation.bbox.is_none());
        if self.has_boxes() { none.count() as u64 } else { 0 }
    }

    /// The most points of an annotation, if there are some, and if they can become fractions of their
    /// images, beside boxes.
    fn n_points(&self) -> Option<usize> {
        let pointed = || self.annotations.iter().filter(|of| !of.keypoints.numbers.is_empty());
        let has_size = |of: &Annotation| {
            let at = self.images.binary_search_by_key(&of.image_id, |image| image.id).ok();
            let image = at.and_then(|at| self.images.get(at));
            image.is_some_and(|image| image.width.is_some() && image.height.is_some())
        };
        let most = pointed().map(|of| of.keypoints.numbers.len().div_ceil(3)).max()?;
        (self.has_boxes() && pointed().all(has_size)).then_some(most)
    }

    /// The numbers of annotations with an outline and with points.
    pub(super) fn unread(&self) -> [u64; 2] {
        let count = |is: &dyn Fn(&Annotation) -> bool| {
            self.annotations.iter().filter(|annotation| is(annotation)).count() as u64
        };
        let [outlines, points] = self.unread;
        let are_packed = self.n_points().is_some();
        let is_unread = |of: &Annotation| {
            of.keypoints.are_unread || (!are_packed && !of.keypoints.numbers.is_empty())
        };
        [count(&|of| of.has_outline) + outlines, count(&is_unread) + points]
    }

    /// The size of the image that the row `line` is about, of which boxes are fractions; those of
    /// [`boxes::IN_PIXELS`] become that later.
    pub(super) fn size(&self, line: u64) -> Option<(u32, u32)> {
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        let image = self.images.get(at).filter(|_| self.has_boxes())?;
        if image.are_fractions {
            return None;
        }
        let (Some(width), Some(height)) = (image.width, image.height) else {
            return Some(boxes::IN_PIXELS);
        };
        // The largest number is that of `IN_PIXELS`.
        let is_side = |n: f64| n.fract() == 0.0 && n > 0.0 && n < f64::from(u32::MAX);
        (is_side(width) && is_side(height)).then_some((width as u32, height as u32))
    }

    /// The images of boxes that are not within them, one for each such box.
    pub(super) fn outside(&self) -> Names {
        let mut names = Names::default();
        for annotation in &self.annotations {
            let at = self.images.binary_search_by_key(&annotation.image_id, |image| image.id);
            let (Some(image), Some([left, top, width, height])) =
                (at.ok().and_then(|at| self.images.get(at)), annotation.bbox)
            else {
                continue;
            };
            let (w, h, rounding) = match (image.width, image.height) {
                _ if image.are_fractions => (1.0, 1.0, boxes::ROUNDING),
                (Some(w), Some(h)) => (w, h, ROUNDING),
                _ => continue,
            };
            let (right, bottom) = (left + width - w, top + height - h);
            if left.min(top) < -rounding || right.max(bottom) > rounding {
                names.push(&image.file_name);
            }
        }
        names
    }

    /// Whether annotations are captions.
    fn has_captions(&self) -> bool {
        let has_caption = |annotation: &Annotation| annotation.caption.is_some();
        !self.has_boxes() && self.annotations.iter().any(has_caption)
    }

    /// Hands on the captions of each image.
    fn captions(&self, each: Each<'_>) -> Result<(), LayoutError> {
        let columns = ["file_name", "caption"].map(str::to_owned);
        let mut rest = self.annotations.as_slice();
        for (line, image) in (1..).zip(&self.images) {
            let n = rest.partition_point(|annotation| annotation.image_id == image.id);
            let (here, after) = rest.split_at(n);
            rest = after;
            let texts = here.iter().filter_map(|of| of.caption.clone()).map(Cell::Text).collect();
            each(line, &columns, &[Cell::Text(image.file_name.clone()), Cell::List(texts)])?;
        }
        Ok(())
    }

    /// Hands on the categories of whole images, and what else any image says of itself.
    fn labels(&self, each: Each<'_>) -> Result<(), LayoutError> {
        let said = self.images.iter().flat_map(CocoImage::circumstances);
        let said: BTreeSet<&str> =
            said.filter(|(_, text)| !text.is_empty()).map(|(name, _)| name).collect();
        let columns: Vec<String> =
            ["file_name", "label"].iter().chain(&said).map(|name| (*name).to_owned()).collect();
        let names: HashMap<i64, &str> =
            self.categories.iter().map(|category| (category.id, category.name.as_str())).collect();
        let of_image = |annotations: &[Annotation]| {
            let ids = annotations.iter().map(|annotation| annotation.category_id);
            let names = ids.filter_map(|id| names.get(&id).copied());
            names.collect::<BTreeSet<_>>()
        };
        let groups = || self.annotations.chunk_by(|a, b| a.image_id == b.image_id);
        let several = groups().any(|annotations| of_image(annotations).len() > 1);
        let mut rest = self.annotations.as_slice();
        for (line, image) in (1..).zip(&self.images) {
            let n = rest.partition_point(|annotation| annotation.image_id == image.id);
            let (here, after) = rest.split_at(n);
            rest = after;
            let mut classes = of_image(here).into_iter().map(|name| Cell::Text(name.to_owned()));
            let label = match several {
                true => Cell::List(classes.collect()),
                false => classes.next_back().unwrap_or(Cell::Missing),
            };
            let mut cells = vec![Cell::Text(image.file_name.clone()), label];
            let circumstances = BTreeMap::from(image.circumstances());
            let texts = said.iter().filter_map(|name| circumstances.get(name));
            cells.extend(texts.map(|text| match text.is_empty() {
                true => Cell::Missing,
                false => Cell::Text((*text).to_owned()),
            }));
            each(line, &columns, &cells)?;
        }
        Ok(())
    }

    /// Hands on the annotations as a table; `numbers` are the classes of categories if those of the
    /// file do not count, and `path` is for messages.
    pub(super) fn rows(
        &self,
        path: &Path,
        numbers: Option<&HashMap<i64, i64>>,
        each: Each<'_>,
    ) -> Result<(), LayoutError> {
        if self.has_captions() {
            return self.captions(each);
        }
        if !self.has_boxes() {
            return self.labels(each);
        }
        let of_file = self.numbers();
        let (numbers, mut columns) = (numbers.unwrap_or(&of_file), boxes::columns(true));
        let n_points = self.n_points();
        columns.extend(n_points.map(|_| boxes::KEYPOINTS.to_owned()));
        let mut rest = self.annotations.as_slice();
        for (line, image) in (1..).zip(&self.images) {
            let n = rest.partition_point(|annotation| annotation.image_id == image.id);
            let (of_image, after) = rest.split_at(n);
            rest = after;
            let (w, h) = match (image.width, image.height) {
                (Some(w), Some(h)) if w > 0.0 && h > 0.0 && !image.are_fractions => (w, h),
                // Where nothing says the size, boxes stay in pixels until the image is there.
                (None, None) => (1.0, 1.0),
                _ if image.are_fractions => (1.0, 1.0),
                (w, h) => {
                    let (w, h) = (w.unwrap_or_default(), h.unwrap_or_default());
                    let reason = format!("image `{}` is {w} x {h} pixels", image.file_name);
                    return Err(fault(path, Some(line), reason));
                }
            };
            let is_box = |[left, top, width, height]: [f64; 4]| {
                [left, top].iter().all(|n| n.is_finite()) && width >= 0.0 && height >= 0.0
            };
            if let Some(wrong) = of_image.iter().filter_map(|a| a.bbox).find(|of| !is_box(*of)) {
                let name = &image.file_name;
                let reason = format!(
                    "`{name}` has a box with the left, top, width and height {wrong:?}, which is not one"
                );
                return Err(fault(path, Some(line), reason));
            }
            if n_points.is_some() && of_image.iter().any(|of| !of.keypoints.are_points()) {
                let name = &image.file_name;
                let reason =
                    format!("`{name}` has points that are not each a column, a row, and 0, 1 or 2");
                return Err(fault(path, Some(line), reason));
            }
            let boxed = || {
                of_image.iter().filter_map(|a| {
                    let [left, top, width, height] = a.bbox?;
                    let corners = [left / w, top / h, (left + width) / w, (top + height) / h];
                    let class = numbers.get(&a.category_id).copied()?;
                    Some((a, Boxed { corners, class, crowd: Some(a.iscrowd != 0) }))
                })
            };
            let mut cells = boxes::cells(&image.file_name, boxed().map(|(_, boxed)| boxed));
            cells.extend(n_points.map(|n| {
                let points =
                    |(a, _): (&Annotation, _)| Cell::List(a.keypoints.fractions(n, (w, h)));
                Cell::List(boxed().map(points).collect())
            }));
            each(line, &columns, &cells)?;
        }
        Ok(())
    }
}

fn parse(path: &Path) -> Result<Coco, LayoutError> {
    let file = File::open(path).map_err(|e| LayoutError::io("open", path, e))?;
    let mut coco: Coco =
        serde_json::from_reader(BufReader::with_capacity(1 << 20, file)).map_err(|e| {
            let reason = format!(
                "it is not a COCO file with boxes (a JSON object with `images`, `annotations` and `categories`): {e}"
            );
            fault(path, None, reason)
        })?;
    coco.categories.sort_by_key(|category| category.id);
    let mut names: Vec<&str> = coco.categories.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    let twice = |pair: &[Category]| pair[0].id == pair[1].id;
    if let Some(pair) = coco.categories.windows(2).find(|pair| twice(pair)) {
        return Err(fault(path, None, format!("two categories have the id {}", pair[0].id)));
    }
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(fault(path, None, format!("two categories have the name `{}`", pair[0])));
    }
    Ok(coco)
}

#[cfg(test)]
mod tests {
    use super::super::rows::Tables;
    use super::{Cell, Coco, ImageId};

    #[test]
    fn ids_are_numbers_or_texts() {
        let id = |text: &str| serde_json::from_str::<ImageId>(text).unwrap();
        let (number, text, zero) = (id("1"), id("\"1\""), id("\"01\""));
        assert_eq!(number, ImageId::Number(1));
        assert!(number != text && text != zero && text == id("\"1\""));
        // The start of the text's BLAKE3, whatever made the program.
        assert_eq!(zero, ImageId::Text(*blake3::hash(b"01").as_bytes().first_chunk().unwrap()));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("instances.json");
        let text = r#"{"images":[{"id":"01","file_name":"a.jpg"},{"id":"1","file_name":"b.jpg"}],
            "annotations":[{"image_id":"1","category_id":7}],
            "categories":[{"id":7,"name":"cat"}]}"#;
        std::fs::write(&path, text).unwrap();
        assert_eq!(Coco::open(&path).unwrap().images.len(), 2);
        std::fs::write(&path, text.replace("\"01\"", "\"1\"")).unwrap();
        let error = Coco::open(&path).unwrap_err().to_string();
        assert!(error.contains("`a.jpg` and `b.jpg` have the same id"), "{error}");
    }

    #[test]
    fn where_and_when_an_image_was_taken_are_columns_beside_labels() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("traps.json");
        let text = r#"{"images":[
            {"id":1,"file_name":"a.jpg","location":33,"seq_id":"s1","rights_holder":"x"},
            {"id":2,"file_name":"b.jpg","location":null}],
            "annotations":[{"image_id":1,"category_id":7},{"image_id":2,"category_id":7}],
            "categories":[{"id":7,"name":"cat"}]}"#;
        std::fs::write(&path, text).unwrap();
        let mut rows = Vec::new();
        let mut add = |_, columns: &[String], cells: &[Cell]| {
            let texts = cells.iter().map(|cell| cell.word().unwrap_or_default());
            rows.push((columns.join(" "), texts.collect::<Vec<_>>().join(" ")));
            Ok(())
        };
        Tables::default().read(&path, &mut add).unwrap();
        let columns = "file_name label location seq_id".to_owned();
        let expected = ["a.jpg cat 33 s1", "b.jpg cat  "].map(str::to_owned);
        assert_eq!(rows, expected.map(|row| (columns.clone(), row)));
    }

    #[test]
    fn a_file_is_parsed_once_however_often_its_rows_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("instances.json");
        let text = r#"{"images":[{"id":1,"file_name":"a.jpg","width":4,"height":2}],
            "annotations":[{"image_id":1,"category_id":7,"bbox":[0,0,2,2]}],
            "categories":[{"id":7,"name":"cat"}]}"#;
        std::fs::write(&path, text).unwrap();
        let tables = Tables::default();
        assert_eq!(tables.box_classes(&path).unwrap(), Some(vec!["cat".to_owned()]));
        std::fs::remove_file(&path).unwrap();
        for _ in 0..2 {
            let mut rows = 0;
            let mut count = |_, _: &[String], _: &[Cell]| {
                rows += 1;
                Ok(())
            };
            tables.read(&path, &mut count).unwrap();
            assert_eq!(rows, 1);
        }
    }
}
