//! Arrays whose names are dates, which may be parts of one sample.

use std::collections::HashSet;

use crate::facts::{Doubt, WayToRead, counted, split_of, stem_and_extension};

/// Most series that are told apart to see whether one has several dates.
const MOST_SERIES: usize = 4096;

/// How many files have names that are dates, or end in one.
#[derive(Debug, Default)]
pub(crate) struct DateFiles {
    files: u64,
    /// Files such as `field7/2023-05-01.tif`, and files such as `field7_20230501.tif`.
    whole: u64,
    behind: u64,
    /// Files in a folder that is not a split.
    in_folders: u64,
    /// What the first files have before their dates, by a hash.
    series: HashSet<[u8; 16]>,
    has_several: bool,
    /// Whether each file is in a folder whose name is a split.
    in_splits: bool,
}

impl DateFiles {
    /// Counts a file.
    pub(crate) fn add(&mut self, path: &str) {
        let is_split = path.split_once('/').is_some_and(|(top, _)| split_of(top).is_some());
        self.in_splits = is_split && (self.files == 0 || self.in_splits);
        self.files += 1;
        let depth = path.matches('/').count() - usize::from(is_split);
        self.in_folders += u64::from(depth > 0);
        let stem = stem_and_extension(path).0;
        let Some((before, _)) = stem.rsplit_once(['/', '_']).filter(|(_, date)| is_date(date))
        else {
            return;
        };
        match stem.as_bytes().get(before.len()) {
            Some(b'/') => self.whole += 1,
            _ => self.behind += 1,
        }
        let hash = blake3::hash(before.as_bytes());
        let hash = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        if self.series.len() < MOST_SERIES {
            self.has_several |= !self.series.insert(hash);
        }
    }

    /// Asks whether the dates of a series are one sample, if all files have one.
    pub(crate) fn doubt(&self) -> Option<Doubt> {
        let form = match (self.whole == self.files, self.behind == self.files) {
            (true, false) => "{key}/{date}",
            (false, true) => "{key}_{date}",
            _ => return None,
        };
        if !self.has_several {
            return None;
        }
        let text = format!("{} dates", counted(self.files, "name ends in", "names end in"));
        let split = if self.in_splits { "{split}/" } else { "" };
        let way = |when, images: &str| WayToRead::new(when, &[&format!("{split}{images}.{{ext}}")]);
        let mut ways = vec![way("if the dates of a place are one sample", form)];
        if self.in_folders == self.files {
            ways.push(way("if each file is a sample, and folders are classes", "{label}/{key}"));
        }
        ways.push(way("if each file is a sample", "{key}"));
        Some(Doubt::new(text, ways))
    }
}

/// Whether a text is a day or a month, the year first.
fn is_date(text: &str) -> bool {
    let digits = text.replace('-', "");
    let parts: Vec<usize> = text.split('-').map(str::len).collect();
    let has_form = matches!(parts.as_slice(), [8] | [4, 2] | [4, 2, 2]);
    let number =
        |from: usize, to: usize| digits.get(from..to).and_then(|of| of.parse::<u32>().ok());
    let is_day = digits.len() < 8 || number(6, 8).is_some_and(|day| (1..=31).contains(&day));
    has_form
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && number(0, 4).is_some_and(|year| (1900..2100).contains(&year))
        && number(4, 6).is_some_and(|month| (1..=12).contains(&month))
        && is_day
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_asked_about_if_a_series_has_several() {
        let check = |paths: &[&str], expected: Option<&str>| {
            let mut files = DateFiles::default();
            paths.iter().for_each(|path| files.add(path));
            let found = files.doubt().map(|doubt| doubt.readings[0].images[0].clone());
            assert_eq!(found.as_deref(), expected, "{paths:?}");
        };
        check(&["f1/2023-01-10.tif", "f1/2023-02-10.tif"], Some("{key}/{date}.{ext}"));
        check(&["a_20230110.tif", "a_20230210.tif", "b_20230110.tif"], Some("{key}_{date}.{ext}"));
        check(
            &["train/f1/2023-01.tif", "train/f1/2023-02.tif"],
            Some("{split}/{key}/{date}.{ext}"),
        );
        // A single date for each place; numbers that are not dates; a file without a date.
        check(&["f1/2023-01-10.tif", "f2/2023-01-10.tif"], None);
        check(&["f1/20231310.tif", "f1/20231311.tif"], None);
        check(&["f1/2023-01-10.tif", "f1/2023-02-10.tif", "f1/a.tif"], None);
        check(&["2023-01-10.tif", "2023-02-10.tif"], None);
    }
}
