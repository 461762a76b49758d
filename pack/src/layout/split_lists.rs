//! Lists beside the images that have the name of a split, which may say what is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gular_bundle::Split;

use super::tables_beside::{MOST_LINE, YOLO};
use crate::facts::{Doubt, WayToRead, is_of_both, named, split_like};
use crate::source::{Inputs, find_key, first_line, media_type_of};

/// Extensions of lists without column names.
const EXTENSIONS: [&str; 2] = ["txt", "lst"];
/// Most lists that are kept.
const MOST_LISTS: usize = 100;

/// For each list, its split, and the pattern of its lines.
#[derive(Debug, Default)]
pub(crate) struct SplitLists(BTreeMap<String, (Split, String)>);

impl SplitLists {
    /// Takes a file that is not an image.
    pub(crate) fn add(&mut self, path: &Path, extension: &str) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        // A folder of this name has a text with boxes for each image, or lists.
        let is_of_boxes = path.components().any(|part| part.as_os_str() == YOLO)
            && path_and_class(&first_line(path, MOST_LINE)).is_none();
        if !is_of_boxes
            && self.0.len() < MOST_LISTS
            && let Some(split) = split_like(&stem)
            && (EXTENSIONS.contains(&extension) || has_no_header(path, extension))
        {
            self.0.insert(path.display().to_string(), (split, pattern_of_lines(path)));
        }
    }

    /// The options that read these lists; none if all say one split. `labelled` says that paths name
    /// classes.
    pub(crate) fn options(&self, labelled: bool) -> Vec<String> {
        let stem = |list: &str| {
            Path::new(list).file_stem().unwrap_or_default().to_string_lossy().into_owned()
        };
        let splits = |with_both: bool| -> BTreeSet<Split> {
            let lists = self.0.iter().filter(|(list, _)| with_both || !is_of_both(&stem(list)));
            lists.map(|(_, (split, _))| *split).collect()
        };
        // Beside the lists of `train` and `val`, `trainval` has what both of them have.
        let is_divided = [Split::Train, Split::Val].iter().all(|of| splits(false).contains(of));
        let lists = self.0.iter().filter(|_| splits(true).len() > 1);
        let lists = lists.filter(|(list, _)| !is_divided || !is_of_both(&stem(list)));
        // An amount may be whole in the first line of one of the lists.
        let are_amounts = self.0.values().any(|(_, of_lines)| of_lines.contains("{value}"));
        let pattern = |of_lines: &str| match () {
            () if are_amounts => of_lines.replace("{label}", "{value}"),
            () if labelled => of_lines.replace("{label}", "{*}"),
            () => of_lines.to_owned(),
        };
        let of = |(list, (split, of_lines)): (&String, &(Split, String))| {
            format!("{list}={{split={split}}}{}", pattern(of_lines))
        };
        lists.map(of).collect()
    }

    /// What the user should know, where nothing says the splits; `patterns` are those of images whose
    /// paths name classes.
    pub(crate) fn doubt(&self, patterns: &[String]) -> Option<Doubt> {
        let labelled = !patterns.is_empty();
        let text = format!("{} may say the splits, and are not read", named(self.0.keys()));
        let lists = self.options(labelled);
        let images = patterns.to_vec();
        let plain = WayToRead { otherwise: true, images: images.clone(), ..WayToRead::default() };
        let way = WayToRead { lists, images, ..WayToRead::new("if they do", &[]) };
        (!way.lists.is_empty()).then(|| Doubt::new(text, vec![way, plain]))
    }
}

/// What the first line of a list has: the path is the first word that is the name of an image, or
/// else the first of all, and the class is behind it.
fn pattern_of_lines(list: &Path) -> String {
    of_line(&first_line(list, MOST_LINE))
}

/// Whether a table begins with a row about an image, and not with the names of its columns.
pub(super) fn has_no_header(table: &Path, extension: &str) -> bool {
    let line = || first_line(table, MOST_LINE);
    extension == "csv" && line().split(',').any(|cell| is_image(&cell))
}

fn separator_in(line: &str) -> Option<&'static str> {
    ["\t", ", ", " ", ","].into_iter().find(|separator| line.contains(separator))
}

fn is_image(word: &&str) -> bool {
    media_type_of(word.trim(), Inputs::Images).is_some()
        || media_type_of(word.trim(), Inputs::Arrays).is_some()
}

/// Whether a word is an amount, and not the number of a class, which some programs write as `1.0`.
fn is_amount(word: &str) -> bool {
    let word = word.trim();
    let decimals = word.split_once('.').map(|(_, decimals)| decimals);
    decimals.is_some_and(|decimals| decimals != "0") && word.parse::<f64>().is_ok()
}

/// The first word of a line that is the name of an image, and the class behind it.
pub(super) fn path_and_class(line: &str) -> Option<[&str; 2]> {
    let mut words = line.split(separator_in(line)?);
    let path = words.find(is_image)?;
    Some([path.trim(), words.next()?.trim()])
}

/// The pattern of lines such as this one.
pub(super) fn of_line(line: &str) -> String {
    let path = "{path}".to_owned();
    let Some(separator) = separator_in(line) else { return path };
    // A tab could not be copied from a terminal.
    let between = if separator == "\t" { "{*:\\s}" } else { separator };
    let words: Vec<&str> = line.split(separator).collect();
    let image_at = words.iter().position(is_image);
    // The first line has the names of columns: classes are not taken from such a list.
    let names: Vec<String> = words.iter().map(|word| word.trim().to_owned()).collect();
    let column = find_key(&names).filter(|_| image_at.is_none());
    if let Some(at) = column.and_then(|of| names.iter().position(|name| name == of)) {
        let part = |i: usize| if i == at { "{path}" } else { "{*}" };
        return (0..words.len()).map(part).collect::<Vec<_>>().join(between);
    }
    if let [amount, _] = words.as_slice()
        && image_at == Some(1)
        && is_amount(amount)
    {
        return format!("{{value}}{between}{path}");
    }
    let at = image_at.unwrap_or(0);
    let before = format!("{{*}}{between}").repeat(at);
    let behind = words.get(at + 1..).unwrap_or_default();
    let parts = [vec![path.as_str()], behind_image(behind)].concat();
    format!("{before}{}", parts.join(between))
}

/// The parts of the words behind the name of an image.
fn behind_image(words: &[&str]) -> Vec<&'static str> {
    let is_number = |word: &&str| word.trim().parse::<f64>().is_ok();
    let rest = |n: usize| vec!["{*}"; n];
    match words {
        [a, b, c, d, class, others @ ..]
            if [a, b, c, d].into_iter().all(is_number) && !is_amount(class) =>
        {
            let others = match others {
                [w, h] if [w, h].into_iter().all(is_number) => vec!["{width}", "{height}"],
                others => rest(others.len()),
            };
            [CORNERS.to_vec(), vec!["{label}"], others].concat()
        }
        [] => Vec::new(),
        // The mask of the image.
        [file, ..] if is_image(file) => vec!["{**}"],
        [first] => vec![if is_amount(first) { "{value}" } else { "{label}" }],
        [first, ..] => vec![if is_amount(first) { "{value}" } else { "{label}" }, "{*}"],
    }
}

/// What four numbers of a box mostly are, behind the name of an image.
const CORNERS: [&str; 4] = ["{xmin}", "{ymin}", "{xmax}", "{ymax}"];

/// Whether a list has boxes, of which its lines do not say what the numbers are.
pub(super) fn has_boxes(list: &str) -> bool {
    list.contains(CORNERS[0])
}

/// Whether a list has more than the classes of images.
pub(super) fn says_more(list: &str) -> bool {
    has_boxes(list) || list.contains("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_the_word_that_names_an_image() {
        assert_eq!(of_line("a1"), "{path}");
        assert_eq!(of_line("a1 cat"), "{path} {label}");
        assert_eq!(of_line("a1.jpg,cat,3,4"), "{path},{label},{*}");
        assert_eq!(of_line("7 a1.png positive rsna"), "{*} {path} {label} {*}");
        assert_eq!(of_line("7\tcat\ta1.png"), "{*}{*:\\s}{*}{*:\\s}{path}");
        assert_eq!(of_line("image_id class_id path"), "{*} {*} {path}");
        assert_eq!(of_line("n01440764/a1 1"), "{path} {label}");
        assert_eq!(of_line("train/a.jpg, 0, 3"), "{path}, {label}, {*}");
        assert_eq!(of_line("train/a.jpg train/a.png"), "{path} {**}");
        assert_eq!(of_line("a.jpg 2.8333"), "{path} {value}");
        assert_eq!(of_line("a.jpg 1.0"), "{path} {label}");
        assert_eq!(of_line("5.514 I01_01.bmp"), "{value} {path}");
        let corners = "{path},{xmin},{ymin},{xmax},{ymax},{label}";
        assert_eq!(of_line("a.jpg,1,2,10,12,3"), corners);
        let sized = format!("{corners},{{width}},{{height}}");
        assert_eq!(of_line("a.jpg,1,2,10,12,object,40,32"), sized);
    }
}
