//! Tables in one JSON document that is not COCO's: read row by row.
//!
//! ```text
//! [{"image": "1.jpg", "label": "cat"}, …]       a list of rows
//! {"1.jpg": "cat", …}                           names and labels
//! {"1.jpg": {"label": "cat", "age": 3}, …}      names and rows
//! {"train": ["1.jpg", …], "val": […]}           splits, and the names or rows in them
//! {"data": [{"image": "1.jpg", …}, …]}          a list of rows, and nothing else
//! {"images": [{"filename": "1.jpg", …}, …], …}  Karpathy's splits of captions
//! ```

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::Deserializer as _;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::jsonl::Columns;
use super::rows::{Each, fault};
use crate::facts::{SPLIT, is_sentence, split_of};
use crate::layout::LayoutError;
use crate::source::{BOM, document_start};

/// The keys of COCO's document. Source: <https://cocodataset.org/#format-data>.
const OF_COCO: [&str; 6] = ["info", "licenses", "images", "annotations", "categories", "type"];
/// Keys of other programs' documents of this form are followed by one of these.
const PARTS_OF_COCO: [&[u8]; 2] = [b"\"images\"", b"\"annotations\""];
/// Documents of captions have these, and COCO's have the other. Source:
/// <https://cs.stanford.edu/people/karpathy/deepimagesent/>
const OF_KARPATHY: [&[u8]; 3] = [b"\"images\"", b"\"filename\"", b"\"sentences\""];
const OF_IMAGES_IN_COCO: &[u8] = b"\"file_name\"";
/// The list of rows in them.
const IMAGES: &str = "images";
/// The columns that names and labels are put into.
const NAME: &str = "file_name";
const LABEL: &str = "label";
/// The column of values that are texts.
const TEXT: &str = "caption";

/// Whether a document has rows, and not the parts of COCO's.
pub(super) fn has_rows(path: &Path) -> bool {
    let start = document_start(path).unwrap_or_default();
    match start.trim_ascii_start().split_first() {
        Some((b'[', _)) => true,
        Some((b'{', rest)) => {
            let has = |part: &&[u8]| rest.windows(part.len()).any(|window| window == *part);
            if are_captions(rest) {
                return true;
            }
            if PARTS_OF_COCO.iter().any(has) {
                return false;
            }
            let mut first = serde_json::Deserializer::from_slice(rest).into_iter::<String>();
            first.next().is_some_and(|key| key.is_ok_and(|key| !OF_COCO.contains(&key.as_str())))
        }
        _ => false,
    }
}

/// Whether a document that begins so has images with sentences, and nothing of COCO's.
fn are_captions(start: &[u8]) -> bool {
    let has = |part: &&[u8]| start.windows(part.len()).any(|window| window == *part);
    OF_KARPATHY.iter().all(has) && !has(&OF_IMAGES_IN_COCO)
}

/// Reads a document as a table; rows are counted from 1.
pub(super) fn read(path: &Path, each: Each<'_>) -> Result<(), LayoutError> {
    let io = |e| LayoutError::io("read", path, e);
    let mut file = BufReader::with_capacity(256 << 10, File::open(path).map_err(io)?);
    let columns = Columns::default();
    let are_captions = are_captions(&document_start(path).unwrap_or_default());
    let mut rows = Rows { path, columns, n: 0, of_texts: None, each, are_captions, error: None };
    skip_mark(&mut file).map_err(io)?;
    let mut document = serde_json::Deserializer::from_reader(file);
    let read = document.deserialize_any(&mut rows).and_then(|()| document.end());
    match (rows.error, read) {
        (Some(error), _) => Err(error),
        (None, Err(e)) => Err(fault(
            path,
            None,
            format!("it is not a list of rows, or names and their rows, in JSON: {e}"),
        )),
        (None, Ok(())) => Ok(()),
    }
}

fn skip_mark(file: &mut BufReader<File>) -> std::io::Result<()> {
    use std::io::BufRead as _;
    if file.fill_buf()?.starts_with(BOM) {
        file.consume(BOM.len());
    }
    Ok(())
}

/// Hands on the rows of a document while it is parsed.
struct Rows<'a> {
    path: &'a Path,
    columns: Columns,
    n: u64,
    /// Whether the values of names are texts.
    of_texts: Option<bool>,
    each: Each<'a>,
    /// Whether the rows are the images of a document of captions.
    are_captions: bool,
    /// Our error, which ends the parsing.
    error: Option<LayoutError>,
}

impl Rows<'_> {
    fn row(&mut self, row: Map<String, Value>) -> Result<(), LayoutError> {
        self.n += 1;
        let cells = self.columns.cells(self.path, row)?;
        (self.each)(self.n, self.columns.names(), &cells)
    }

    /// Takes a value by its name; `is_alone` says that the document has no other.
    fn named(&mut self, name: String, value: Value, is_alone: bool) -> Result<(), LayoutError> {
        if self.are_captions && name != IMAGES {
            return Ok(());
        }
        let is_alone = is_alone || self.are_captions;
        let is_split = split_of(&name).is_some();
        let mut row = match value {
            Value::Object(row) => row,
            Value::Array(rows) if is_split || is_alone && rows.iter().any(Value::is_object) => {
                for row in rows {
                    let mut row = match row {
                        Value::Object(row) => row,
                        value => Map::from_iter([(NAME.to_owned(), value)]),
                    };
                    if is_split {
                        row.insert(SPLIT.to_owned(), name.as_str().into());
                    }
                    self.row(row)?;
                }
                return Ok(());
            }
            // The first value says what all are: classes, or texts.
            Value::String(text) if *self.of_texts.get_or_insert(is_sentence(&text)) => {
                Map::from_iter([(TEXT.to_owned(), Value::String(text))])
            }
            value => Map::from_iter([(LABEL.to_owned(), value)]),
        };
        row.insert(NAME.to_owned(), name.into());
        self.row(row)
    }

    fn taken<E: serde::de::Error>(&mut self, taken: Result<(), LayoutError>) -> Result<(), E> {
        taken.map_err(|error| {
            self.error = Some(error);
            E::custom("a row was refused")
        })
    }
}

impl<'de> Visitor<'de> for &mut Rows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element()? {
            let Value::Object(row) = value else {
                return Err(A::Error::custom("an element is not an object"));
            };
            let taken = self.row(row);
            self.taken(taken)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut last: Option<(String, Value)> = None;
        let mut is_alone = true;
        while let Some(next) = map.next_entry()? {
            if let Some((name, value)) = last.replace(next) {
                is_alone = false;
                let taken = self.named(name, value, is_alone);
                self.taken(taken)?;
            }
        }
        if let Some((name, value)) = last {
            let taken = self.named(name, value, is_alone);
            self.taken(taken)?;
        }
        Ok(())
    }
}
