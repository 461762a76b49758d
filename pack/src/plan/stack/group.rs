//! Files, gathered into samples by what their paths have in common.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gular_bundle::BundlePath;

use super::{Stack, StackFile};
use crate::facts::{BAND, DATE, EXT, Fault, Sorter, Values, setting};
use crate::layout::{Labels, Layout, natural};
use crate::plan::{PlanError, PlanOptions, check_cancel, folded};
use crate::source::Inputs;

/// No instrument has more bands; a name with more values is not that of a band.
const MOST_BANDS: usize = 4096;
/// Most dates of all samples together, and most files of one sample.
const MOST_DATES: usize = 1 << 16;

/// The files of all samples, in any order.
#[derive(Debug)]
pub(crate) struct StackFiles {
    layout: Layout,
    files: Sorter,
    dir: PathBuf,
    bands: Ordered,
    dates: Ordered,
}

/// Takes the key of a sample, and its files or what is wrong with them.
pub(crate) type EachStack<'a> = dyn FnMut(&str, Result<Stack, Fault>) -> Result<(), PlanError> + 'a;

/// The values of a part of paths that is an axis.
#[derive(Debug, Default)]
struct Ordered {
    /// Whether paths have that part.
    is_there: bool,
    /// The values in the order in which the user named them; empty if the user did not.
    words: Vec<String>,
    /// Whether the user gave the values or an expression, and so the order.
    is_narrowed: bool,
    /// The values that were found, by their place in the order of numbers.
    found: BTreeMap<Vec<u8>, String>,
}

/// A file before it is joined with the others of its sample.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct BandOrDate {
    key: String,
    date: String,
    band: String,
    part: StackFile,
}

impl StackFiles {
    /// Returns a collector for patterns that have a band or a date; `None` for others. What does not
    /// fit in `memory` bytes is sorted in folder `dir`.
    pub(crate) fn new(
        dir: &Path,
        options: &PlanOptions,
        memory: usize,
    ) -> Result<Option<Self>, PlanError> {
        let fail = |text: &str| Err(setting(&["images", "inputs"], text));
        let has = |name: &str| options.images.iter().any(|pattern| pattern.has(name));
        if options.inputs != Inputs::Arrays {
            return match has(BAND) && options.inputs == Inputs::Images {
                true => fail(
                    "a pattern has `{band}`, which makes one array of several files, but pictures are packed; pack arrays",
                ),
                false => Ok(None),
            };
        }
        if !options.joins_files() {
            return Ok(None);
        }
        let layout = Layout::of_arrays(options.images.clone())?;
        if let Labels::Table(table) = &options.labels
            && layout.has_labels()
            && !table.has_no_labels()
        {
            let text = "labels can come from paths or from a table, not from both, if a sample has several files";
            return Err(setting(&["images", "labels"], text));
        }
        let ordered = |name: &str| {
            let is_there = has(name);
            if is_there && !layout.all_have(name) {
                let text =
                    format!("some patterns of the images have `{{{name}}}`, and others do not");
                return Err(setting::<PlanError>(&["images"], text));
            }
            let mut words: Vec<String> = Vec::new();
            for pattern in &options.images {
                for word in pattern.words(name) {
                    if !words.iter().any(|known| known == word) {
                        words.push(word.to_owned());
                    }
                }
            }
            let is_narrowed = options.images.iter().any(|pattern| pattern.is_narrowed(name));
            Ok(Ordered { is_there, words, is_narrowed, found: BTreeMap::new() })
        };
        let (bands, dates) = (ordered(BAND)?, ordered(DATE)?);
        let (files, dir) = (Sorter::new(dir, memory), dir.to_owned());
        Ok(Some(Self { layout, files, dir, bands, dates }))
    }

    /// Adds a file.
    pub(crate) fn add(&mut self, path: &BundlePath, bytes: u64) -> Result<(), PlanError> {
        let path = path.as_str();
        let Some(placed) = self.layout.place(path)? else { return Ok(()) };
        let value = |name: &str| placed.values.get(name).unwrap_or_default().to_owned();
        let (band, date, key) = (value(BAND), value(DATE), key_of(&placed.values, path));
        self.bands.add(&band, MOST_BANDS, "bands")?;
        self.dates.add(&date, MOST_DATES, "dates")?;
        let sort_key = [
            folded(&key).into_bytes(),
            key.clone().into_bytes(),
            self.dates.place(&date),
            self.bands.place(&band),
        ];
        let found =
            BandOrDate { key, date, band, part: StackFile { bytes, path: path.to_owned() } };
        let record = serde_json::to_vec(&found).map_err(|e| self.io(e.into()))?;
        self.files.push(&sort_key.join(&0), &record).map_err(|e| self.io(e))
    }

    /// The names of the bands, in order.
    pub(crate) fn bands(&self) -> Vec<String> {
        self.bands.in_order()
    }

    /// Calls `each` with each sample, in the order of their folded keys, or with what is wrong with
    /// it.
    pub(crate) fn each(
        self,
        cancel: &AtomicBool,
        each: &mut EachStack<'_>,
    ) -> Result<(), PlanError> {
        self.dates.check()?;
        for (name, of) in [(BAND, &self.bands), (DATE, &self.dates)] {
            let missing = of.words.iter().find(|word| !of.found.values().any(|v| v == *word));
            if let Some(word) = missing {
                let text = format!(
                    "no file has the {name} `{word}`, which the pattern of the images names"
                );
                return Err(setting::<PlanError>(&["images"], text));
            }
        }
        let bands = self.bands();
        let io = |e| PlanError::io("sort in", &self.dir, e);
        let mut files: Vec<BandOrDate> = Vec::new();
        let mut end = |files: &mut Vec<BandOrDate>| {
            let Some(first) = files.first() else { return Ok(()) };
            let key = first.key.clone();
            each(&key, stack(std::mem::take(files), &bands, self.dates.is_there))
        };
        for (i, pair) in self.files.finish().map_err(io)?.enumerate() {
            check_cancel(i, cancel)?;
            let (_, record) = pair.map_err(io)?;
            let found: BandOrDate = serde_json::from_slice(&record).map_err(|e| io(e.into()))?;
            if files.first().is_some_and(|first| first.key != found.key) {
                end(&mut files)?;
            }
            if files.len() >= MOST_DATES {
                let text = format!(
                    "`{}` would be one sample of more than {MOST_DATES} files: give a pattern with a `{{key}}` that tells samples apart",
                    found.key
                );
                return Err(setting::<PlanError>(&["images"], text));
            }
            files.push(found);
        }
        end(&mut files)
    }

    fn io(&self, e: std::io::Error) -> PlanError {
        PlanError::io("sort in", &self.dir, e)
    }
}

impl Ordered {
    fn add(&mut self, value: &str, most: usize, what: &str) -> Result<(), PlanError> {
        if !self.is_there {
            return Ok(());
        }
        let place = self.place(value);
        if self.found.contains_key(&place) {
            return Ok(());
        }
        if self.found.len() >= most {
            let text = format!(
                "paths have more than {most} {what}, such as `{value}`: a pattern takes something else for them"
            );
            return Err(setting::<PlanError>(&["images"], text));
        }
        self.found.insert(place, value.to_owned());
        Ok(())
    }

    /// The bytes by which a value is sorted: its place in the words of the user, or numbers in it by
    /// their value, so that `B2`, `B8A`, `B9` and `B11` follow each other.
    fn place(&self, value: &str) -> Vec<u8> {
        match self.words.iter().position(|word| word == value) {
            // Both parts of a path end at a zero byte in the key of the sort.
            Some(at) => format!("{at:05}").into_bytes(),
            None => natural(value),
        }
    }

    fn in_order(&self) -> Vec<String> {
        self.found.values().cloned().collect()
    }

    /// Checks that the order of dates is that of time.
    fn check(&self) -> Result<(), PlanError> {
        if self.is_narrowed {
            return Ok(());
        }
        let fail = |text: String| Err(setting(&["images"], text));
        let order = "name them in order, such as `{date:before|after}`";
        let mut dates = self.found.values();
        let Some(first) = dates.next() else { return Ok(()) };
        if let Some(other) = dates.find(|date| form(date) != form(first)) {
            return fail(format!(
                "the dates `{first}` and `{other}` are not written alike, so their order is not known: {order}"
            ));
        }
        if let Some(date) = self.found.values().find(|date| !begins_with_year(date)) {
            return fail(format!(
                "the date `{date}` may not begin with its year, so the order of dates is not known: {order}, or, if dates are in the order of their numbers, write `{{date:[0-9]+}}` or another expression"
            ));
        }
        Ok(())
    }
}

/// The files of one sample in order, if it has one for each band of each date.
fn stack(files: Vec<BandOrDate>, bands: &[String], has_dates: bool) -> Result<Stack, Fault> {
    let of_date = |band: &str, date: &str| match has_dates {
        true if band.is_empty() => format!("the date `{date}`"),
        true => format!("band `{band}` of the date `{date}`"),
        false => format!("band `{band}`"),
    };
    let (mut dates, mut parts) = (Vec::new(), Vec::with_capacity(files.len()));
    let mut files = files.into_iter().peekable();
    while let Some(first) = files.peek() {
        let date = first.date.clone();
        let no_bands = [String::new()];
        for band in if bands.is_empty() { &no_bands } else { bands } {
            let is_next = |file: &BandOrDate| file.date == date && file.band == *band;
            let Some(file) = files.next_if(is_next) else {
                let reason = format!("it has no file for {}", of_date(band, &date));
                let hint = "add the file, or name the bands that all samples have, such as `{band:B02|B03}`";
                return Err(Fault::new(reason, Some(hint)));
            };
            if let Some(second) = files.next_if(is_next) {
                let reason = format!(
                    "it has two files for {}: `{}` and `{}`",
                    of_date(band, &date),
                    file.part.path,
                    second.part.path
                );
                let hint = "give a pattern that fits one of them";
                return Err(Fault::new(reason, Some(hint)));
            }
            parts.push(file.part);
        }
        dates.push(date);
    }
    if !has_dates {
        dates.clear();
    }
    Ok(Stack { dates, parts })
}

/// The key of the sample of a file: the parts of its path that tell samples apart.
fn key_of(values: &Values<'_>, path: &str) -> String {
    let named = values.iter().filter(|(name, _)| ![BAND, DATE, EXT].contains(name));
    let parts: Vec<&str> = named.map(|(_, value)| value).collect();
    match parts.is_empty() {
        true => path.to_owned(),
        false => parts.join("/"),
    }
}

/// Whether a date has its year first, as far as that can be known; those of other forms, such as
/// `t1`, are only numbers.
fn begins_with_year(date: &str) -> bool {
    let mut numbers = date.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    let first = numbers.next().unwrap_or_default();
    let is_year = |number: &str| {
        let year = number.get(..4).and_then(|year| year.parse::<u16>().ok());
        year.is_some_and(|year| (1900..2100).contains(&year))
    };
    // The digits that are the month of DDMMYY; YYMMDD and YYYYMM are in the order of their numbers.
    let month = first.get(2..4).and_then(|digits| digits.parse::<u8>().ok());
    match first.len() {
        // A day or a month before a year.
        1 | 2 => !numbers.any(|number| number.len() == 4 && is_year(number)),
        6 => !month.is_some_and(|month| (1..=12).contains(&month)),
        8 => is_year(first),
        _ => true,
    }
}

/// A text without its numbers, but with the number of digits of long ones: `9` and `10` are alike,
/// and `2020` and `20201231` are not.
fn form(date: &str) -> String {
    let mut form = String::new();
    let mut rest = date;
    while let Some(c) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        match digits {
            0 => form.push(c),
            1..=3 => form.push('0'),
            n => form.push_str(&"0".repeat(n)),
        }
        rest = rest.get(digits.max(c.len_utf8())..).unwrap_or_default();
    }
    form
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_without_a_known_order_are_refused() {
        let check = |words: &[&str], dates: &[&str]| {
            let is_narrowed = !words.is_empty();
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            let mut ordered = Ordered { is_there: true, words, is_narrowed, ..Ordered::default() };
            dates.iter().for_each(|date| ordered.add(date, 9, "dates").unwrap());
            ordered.check().map(|()| ordered.in_order()).map_err(|e| e.to_string())
        };
        for (dates, sorted) in [
            (["20200301", "20191231"], ["20191231", "20200301"]),
            (["2020-10-01", "2020-9-30"], ["2020-9-30", "2020-10-01"]),
            (["t10", "t9"], ["t9", "t10"]),
            (["202314", "202301"], ["202301", "202314"]),
        ] {
            assert_eq!(check(&[], &dates).unwrap(), sorted);
        }
        assert_eq!(check(&["pre", "post"], &["post", "pre"]).unwrap(), ["pre", "post"]);
        for dates in [
            ["pre", "post"],
            ["2020-01", "2020-01-02"],
            ["2020", "20191231"],
            ["01-12-2020", "02-11-2020"],
            ["01052023", "02032023"],
            ["010523", "020323"],
        ] {
            assert!(check(&[], &dates).unwrap_err().contains("order"), "{dates:?}");
        }
    }

    fn found(date: &str, band: &str, path: &str) -> BandOrDate {
        let part = StackFile { bytes: 1, path: path.to_owned() };
        BandOrDate { key: "k".into(), date: date.into(), band: band.into(), part }
    }

    #[test]
    fn a_sample_has_one_file_for_each_band_of_each_date() {
        let bands = ["B2".to_owned(), "B3".to_owned()];
        let reason = |files, dated| stack(files, &bands, dated).unwrap_err().reason;
        let whole = || {
            vec![
                found("1", "B2", "a"),
                found("1", "B3", "b"),
                found("2", "B2", "c"),
                found("2", "B3", "d"),
            ]
        };
        let made = stack(whole(), &bands, true).unwrap();
        assert_eq!(made.dates, ["1", "2"]);
        assert_eq!(
            made.frames().map(|frame| frame[1].path.as_str()).collect::<Vec<_>>(),
            ["b", "d"]
        );
        let text = serde_json::to_string(&made).unwrap();
        assert_eq!(text, r#"{"dates":["1","2"],"parts":[[1,"a"],[1,"b"],[1,"c"],[1,"d"]]}"#);
        assert_eq!(serde_json::from_str::<Stack>(&text).unwrap(), made);
        let mut files = whole();
        files.remove(2);
        assert_eq!(reason(files, true), "it has no file for band `B2` of the date `2`");
        let twice = vec![found("", "B2", "a"), found("", "B2", "x"), found("", "B3", "b")];
        assert_eq!(reason(twice, false), "it has two files for band `B2`: `a` and `x`");
        let one = stack(vec![found("1", "", "a"), found("2", "", "b")], &[], true).unwrap();
        assert_eq!(one.parts.len(), 2);
    }
}
