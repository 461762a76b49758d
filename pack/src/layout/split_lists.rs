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
        // A folder of this name has a text with boxes for each image.
        let is_of_boxes = path.components().any(|part| part.as_os_str() == YOLO);
        if EXTENSIONS.contains(&extension)
            && !is_of_boxes
            && self.0.len() < MOST_LISTS
            && let Some(split) = split_like(&stem)
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
        let pattern = |of_lines: &str| match labelled {
            true => of_lines.replace("{label}", "{*}"),
            false => of_lines.to_owned(),
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

fn separator_in(line: &str) -> Option<char> {
    ['\t', ' ', ','].into_iter().find(|c| line.contains(*c))
}

fn is_image(word: &&str) -> bool {
    media_type_of(word.trim(), Inputs::Images).is_some()
}

/// The first word of a line that is the name of an image, and the class behind it.
pub(super) fn path_and_class(line: &str) -> Option<[&str; 2]> {
    let mut words = line.split(separator_in(line)?);
    let path = words.find(is_image)?;
    Some([path.trim(), words.next()?.trim()])
}

fn of_line(line: &str) -> String {
    let path = "{path}".to_owned();
    let Some(separator) = separator_in(line) else { return path };
    // A tab could not be copied from a terminal.
    let between = if separator == '\t' { "{*:\\s}".to_owned() } else { separator.to_string() };
    let words: Vec<&str> = line.split(separator).collect();
    let image_at = words.iter().position(is_image);
    // The first line has the names of columns: classes are not taken from such a list.
    let names: Vec<String> = words.iter().map(|word| word.trim().to_owned()).collect();
    let column = find_key(&names).filter(|_| image_at.is_none());
    if let Some(at) = column.and_then(|of| names.iter().position(|name| name == of)) {
        let part = |i: usize| if i == at { "{path}" } else { "{*}" };
        return (0..words.len()).map(part).collect::<Vec<_>>().join(&between);
    }
    let at = image_at.unwrap_or(0);
    let before = format!("{{*}}{between}").repeat(at);
    let rest = match words.len() - at {
        1 => String::new(),
        2 => format!("{between}{{label}}"),
        _ => format!("{between}{{label}}{between}{{*}}"),
    };
    format!("{before}{path}{rest}")
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
    }
}
