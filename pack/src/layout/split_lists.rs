//! Lists beside the images that have the name of a split, which may say what is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gular_bundle::Split;

use super::tables_beside::{MOST_LINE, YOLO};
use crate::facts::{Doubt, WayToRead, is_of_both, named, split_like};
use crate::source::first_line;

/// Extensions of lists without column names.
const EXTENSIONS: [&str; 2] = ["txt", "lst"];
/// Most lists that are kept.
const MOST_LISTS: usize = 100;

/// For each list, its split, and what is behind the path in its lines.
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
            self.0.insert(path.display().to_string(), (split, behind_path(path)));
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
        let behind = |behind: &str| match labelled {
            true => behind.replace("{label}", "{*}"),
            false => behind.to_owned(),
        };
        lists
            .map(|(list, (split, rest))| {
                format!("{list}={{split={split}}}{{path}}{}", behind(rest))
            })
            .collect()
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

/// What is behind the path in the first line of a list, as a pattern.
fn behind_path(list: &Path) -> String {
    let line = first_line(list, MOST_LINE);
    let Some(separator) = ['\t', ' ', ','].into_iter().find(|c| line.contains(*c)) else {
        return String::new();
    };
    // A tab could not be copied from a terminal.
    let between = if separator == '\t' { "{*:\\s}".to_owned() } else { separator.to_string() };
    let rest =
        if line.split(separator).count() > 2 { format!("{between}{{*}}") } else { String::new() };
    format!("{between}{{label}}{rest}")
}
