//! The types of columns, and what becomes of each.

use std::collections::BTreeSet;

use gular_bundle::{Dtype, Field, FieldName, Split};

use super::cell::Cell;
use super::indicators::flag;
use crate::facts::{split_like, split_of};

/// The media type of arrays that say their own shape. Format: `FORMAT.md`, "Fields".
pub(super) const NPY: &str = "application/x-npy";
/// The media type of lists of texts.
const JSON: &str = "application/json";

/// Most different values of a column that are kept for messages, and in how many of its first cells
/// they are looked for.
const MOST_WORDS: usize = 8;
const MOST_LOOKED_AT: u64 = 1 << 16;

/// The type of a column's values, in all rows together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueKind {
    Integers,
    Floats,
    Bools,
    Texts,
    /// Lists of so many numbers each; whether all are integers.
    Numbers {
        len: u64,
        integers: bool,
    },
    /// Lists of texts or integers, of any length.
    Lists {
        integers: bool,
    },
    /// Lists of numbers, of any length; `row`: lists of lists of so many numbers each.
    Arrays {
        row: Option<u64>,
        integers: bool,
    },
    /// The column cannot become a field, for this reason.
    Unusable(String),
}

/// The facts that are known about a column so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    missing: u64,
    bools: u64,
    integers: u64,
    floats: u64,
    texts: u64,
    lists: u64,
    /// Cells that say yes or no, in numbers or words.
    flags: u64,
    /// Cells of -1, and of 1.
    minus: u64,
    ones: u64,
    /// Those of the numbers that are fractions, and those that are not numbers.
    fractions: u64,
    nans: u64,
    /// Whether the format has no types, so that numbers beside texts are texts.
    written: bool,
    /// Whether there is an integer that no f64 can represent.
    large: bool,
    /// The splits that cells name, and the number of these cells.
    splits: BTreeSet<Split>,
    n_splits: u64,
    /// How many cells were looked at.
    looked_at: u64,
    /// The first of the different values, as messages show them.
    words: BTreeSet<String>,
    other: Option<String>,
    list: List,
}

#[derive(Debug, Clone, Default)]
struct List {
    lens: BTreeSet<usize>,
    integers: u64,
    floats: u64,
    texts: u64,
    others: u64,
    /// Number of lists inside lists.
    rows: u64,
    row_lens: BTreeSet<usize>,
}

impl List {
    /// Takes a list in a list, which may hold numbers alone.
    fn row(&mut self, cells: &[Cell]) {
        self.rows += 1;
        if self.row_lens.len() < 2 {
            self.row_lens.insert(cells.len());
        }
        for cell in cells {
            match cell {
                Cell::Integer(_) => self.integers += 1,
                Cell::Float(_) => self.floats += 1,
                _ => self.others += 1,
            }
        }
    }

    /// Returns the length of the inner lists, if all have the same.
    fn row_len(&self) -> Option<u64> {
        let row = self.row_lens.first().copied().filter(|len| self.row_lens.len() == 1 && *len > 0);
        row.map(|len| len as u64)
    }
}

impl Seen {
    pub(super) fn add(&mut self, cell: &Cell) {
        self.looked_at += 1;
        if self.words.len() < MOST_WORDS
            && self.looked_at <= MOST_LOOKED_AT
            && let Some(word) = cell.word()
        {
            self.words.insert(word);
        }
        if let Cell::Text(word) | Cell::Written(word) = cell
            && let Some(split) = split_of(word.trim())
        {
            self.splits.insert(split);
            self.n_splits += 1;
        }
        self.flags += u64::from(flag(cell).is_some());
        self.ones += u64::from(flag(cell) == Some(true));
        self.minus += u64::from(cell.class_number() == Some(-1));
        match cell {
            Cell::Missing => self.missing += 1,
            Cell::Bool(_) => self.bools += 1,
            Cell::Integer(n) => self.integer(*n),
            Cell::Float(_) => self.float(cell),
            Cell::Text(_) => self.texts += 1,
            Cell::Other(reason) => self.other = Some(reason.clone()),
            Cell::Written(_) => {
                self.written = true;
                match (cell.integer(), cell.number()) {
                    (Some(n), _) => self.integer(n),
                    (None, Some(_)) => self.float(cell),
                    (None, None) => self.texts += 1,
                }
            }
            Cell::List(cells) => {
                self.lists += 1;
                // More than two different lengths need not be stored.
                if self.list.lens.len() < 2 {
                    self.list.lens.insert(cells.len());
                }
                for cell in cells {
                    match cell {
                        Cell::Integer(_) => self.list.integers += 1,
                        Cell::Float(_) => self.list.floats += 1,
                        Cell::Text(_) => self.list.texts += 1,
                        Cell::List(row) => self.list.row(row),
                        Cell::Written(_) if cell.integer().is_some() => self.list.integers += 1,
                        Cell::Written(_) => {
                            self.written = true;
                            self.list.texts += 1;
                        }
                        _ => self.list.others += 1,
                    }
                }
            }
        }
    }

    fn float(&mut self, cell: &Cell) {
        self.floats += 1;
        self.nans += u64::from(cell.is_nan());
        self.fractions += u64::from(!cell.is_nan() && cell.class_number().is_none());
    }

    fn integer(&mut self, n: i64) {
        self.integers += 1;
        self.large |= n.unsigned_abs() > 1 << 53;
    }

    pub(super) fn words(&self) -> &BTreeSet<String> {
        &self.words
    }

    /// Whether every cell that has a value names a split, and not all the same.
    pub(super) fn names_splits(&self) -> bool {
        self.splits.len() > 1 && self.n_splits == self.texts
    }

    /// Whether the values are two or three small numbers, words that look like splits, or short forms
    /// of these, such as `TR`, `VA` and `TE`.
    pub(super) fn may_be_splits(&self) -> bool {
        let is_small = |word: &String| word.parse::<u8>().is_ok_and(|number| number < 10);
        let is_short = |word: &String| word.len() <= 3 && word.starts_with(['t', 'T', 'v', 'V']);
        let words = || self.words.iter();
        let are_alike = words().all(is_small)
            || words().all(is_short)
            || words().all(|word| split_like(word).is_some());
        matches!(self.words.len(), 2 | 3) && are_alike
    }

    /// Whether all `rows` say yes or no.
    pub(super) fn is_flag(&self, rows: u64) -> bool {
        self.flags == rows && self.missing < rows
    }

    /// Whether all `rows` say yes or no as 1 and -1.
    pub(super) fn is_sign(&self, rows: u64) -> bool {
        self.ones + self.minus == rows
    }

    /// Whether all `rows` say yes, no or, as -1, something else.
    pub(super) fn is_unsure_flag(&self, rows: u64) -> bool {
        self.flags + self.minus == rows && self.missing < rows
    }

    /// Whether all `rows` have a value.
    pub(super) fn whole(&self, rows: u64) -> bool {
        self.missing == 0
            && self.bools + self.integers + self.floats + self.texts + self.lists == rows
    }

    /// The type of all cells together; `rows` is the number of rows of all tables.
    pub(super) fn kind(&self, rows: u64) -> ValueKind {
        let unusable = |reason: &str| ValueKind::Unusable(reason.to_owned());
        if let Some(reason) = &self.other {
            return ValueKind::Unusable(reason.clone());
        }
        let numbers = self.integers + self.floats;
        let families = [self.bools, numbers, self.texts, self.lists];
        match families.map(|n| n > 0) {
            [false, false, false, false] => unusable("it is empty"),
            [true, false, false, false] if self.whole(rows) => ValueKind::Bools,
            [true, false, false, false] => {
                unusable("it holds true/false values, and some are missing")
            }
            [false, false, true, false] => ValueKind::Texts,
            [false, true, true, false] if self.written => ValueKind::Texts,
            [false, true, false, false] if self.floats == 0 && self.whole(rows) => {
                ValueKind::Integers
            }
            [false, true, false, false] if self.large => {
                unusable("it mixes integers of more than 53 bits with fractions or missing cells")
            }
            [false, true, false, false] => ValueKind::Floats,
            [false, false, false, true] => self.list(rows),
            _ => unusable("it holds values of different types"),
        }
    }

    fn list(&self, rows: u64) -> ValueKind {
        let List { lens, integers, floats, texts, others, rows: of_rows, .. } = &self.list;
        if *of_rows > 0 {
            return match self.list.row_len() {
                _ if *others + *texts > 0 => {
                    ValueKind::Unusable("its lists hold other things than lists of numbers".into())
                }
                None => ValueKind::Unusable("its inner lists differ in length".into()),
                row if self.whole(rows) => ValueKind::Arrays { row, integers: *floats == 0 },
                _ => ValueKind::Unusable("it holds lists of lists, and some are missing".into()),
            };
        }
        let one = lens.first().copied().filter(|len| lens.len() == 1 && *len > 0);
        match (integers + floats > 0, *texts > 0) {
            _ if *others > 0 => {
                ValueKind::Unusable("its lists hold other things than numbers or text".into())
            }
            (true, true) if self.written && *floats == 0 => ValueKind::Lists { integers: false },
            (true, true) => ValueKind::Unusable("its lists mix numbers and text".into()),
            (true, false) if one.is_some() && self.whole(rows) => {
                let len = one.unwrap_or(0) as u64;
                ValueKind::Numbers { len, integers: *floats == 0 }
            }
            (true, false) if *floats > 0 && self.whole(rows) => {
                ValueKind::Arrays { row: None, integers: false }
            }
            (true, false) if *floats > 0 => {
                ValueKind::Unusable("it holds lists of numbers, and some are missing".into())
            }
            (integers, _) => ValueKind::Lists { integers },
        }
    }

    /// Returns how the column's cells are labels, or why they are not.
    pub(super) fn label(&self, rows: u64) -> Result<LabelKind, String> {
        let whole = self.integers + self.floats - self.nans;
        if self.lists + self.fractions + self.texts + self.bools == 0 && whole > 0 {
            return match &self.other {
                Some(reason) => Err(reason.clone()),
                None => Ok(LabelKind::Number),
            };
        }
        match self.kind(rows) {
            ValueKind::Texts | ValueKind::Bools => Ok(LabelKind::Name),
            ValueKind::Lists { integers } | ValueKind::Numbers { integers, .. } if integers => {
                Ok(LabelKind::Numbers)
            }
            ValueKind::Lists { .. } => Ok(LabelKind::Names),
            ValueKind::Unusable(reason) if self.bools > 0 && self.texts + self.lists == 0 => {
                if self.other.is_none() && self.integers + self.floats == 0 {
                    Ok(LabelKind::Name)
                } else {
                    Err(reason)
                }
            }
            ValueKind::Unusable(reason) => Err(reason),
            _ => Err("it holds fractions, which are not classes".to_owned()),
        }
    }
}

/// The way in which a cell gives the class or classes of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LabelKind {
    Number,
    Name,
    Numbers,
    Names,
}

impl LabelKind {
    /// The text of a class: numbers are written as integers.
    pub(super) fn word(self, cell: &Cell) -> Option<String> {
        match self {
            Self::Number | Self::Numbers => cell.class_number().map(|n| n.to_string()),
            Self::Name | Self::Names => cell.word(),
        }
    }
}

/// The field that a column becomes; the reason when it becomes none.
pub(super) fn field(column: &str, kind: &ValueKind) -> Result<Field, String> {
    let name = field_name(column).ok_or("its name has no letter that a field's name may have")?;
    Ok(match kind {
        ValueKind::Integers => Field::fixed(name, Dtype::I64, Vec::new()),
        ValueKind::Floats => Field::fixed(name, Dtype::F64, Vec::new()),
        ValueKind::Bools => Field::fixed(name, Dtype::U8, Vec::new()),
        ValueKind::Texts => Field::bytes(name, vec!["text/plain".to_owned()]),
        ValueKind::Numbers { len, integers } => {
            Field::fixed(name, if *integers { Dtype::I64 } else { Dtype::F64 }, vec![*len])
        }
        ValueKind::Lists { integers: true } | ValueKind::Arrays { .. } => {
            Field::bytes(name, vec![NPY.to_owned()])
        }
        ValueKind::Lists { .. } => Field::bytes(name, vec![JSON.to_owned()]),
        ValueKind::Unusable(reason) => return Err(reason.clone()),
    })
}

/// Makes a field's name of a column's: lower-case letters and digits, and `_` for all else.
fn field_name(column: &str) -> Option<FieldName> {
    let mut name = String::new();
    for c in column.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' => name.push(c),
            _ if name.is_empty() || name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    let name = name.trim_end_matches('_');
    let name = if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("column_{name}")
    } else {
        name.to_owned()
    };
    FieldName::parse(name.get(..64).unwrap_or(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(cells: &[Cell]) -> Seen {
        let mut seen = Seen::default();
        cells.iter().for_each(|cell| seen.add(cell));
        seen
    }

    #[test]
    fn a_column_is_what_all_its_cells_are() {
        let written = |texts: &[&str]| {
            let cells: Vec<Cell> = texts.iter().map(|t| Cell::written(t)).collect();
            seen(&cells).kind(cells.len() as u64)
        };
        assert_eq!(written(&["1", "-2"]), ValueKind::Integers);
        assert_eq!(written(&["1", ""]), ValueKind::Floats);
        assert_eq!(written(&["1", "2.5"]), ValueKind::Floats);
        assert_eq!(written(&["1", "two"]), ValueKind::Texts);
        assert!(matches!(written(&["", ""]), ValueKind::Unusable(_)));
        assert!(matches!(written(&["9007199254740993", "0.5"]), ValueKind::Unusable(_)));
        let typed = |cells: &[Cell]| seen(cells).kind(cells.len() as u64);
        assert!(matches!(
            typed(&[Cell::Integer(1), Cell::Text("a".into())]),
            ValueKind::Unusable(_)
        ));
        let pair = |a, b| Cell::List(vec![a, b]);
        let numbers =
            [pair(Cell::Integer(1), Cell::Float(2.0)), pair(Cell::Integer(1), Cell::Integer(2))];
        assert_eq!(typed(&numbers), ValueKind::Numbers { len: 2, integers: false });
        assert_eq!(
            typed(&[Cell::List(vec![]), numbers[1].clone()]),
            ValueKind::Lists { integers: true }
        );
    }

    #[test]
    fn names_of_columns_become_names_of_fields() {
        assert_eq!(field_name("Age (years)").unwrap().as_str(), "age_years");
        assert_eq!(field_name("3D").unwrap().as_str(), "column_3d");
        assert!(field_name("日本").is_none());
        assert!(field_name("key").is_none());
    }
}
