//! Makes member names from keys and fields, and finds keys and fields in member names.

use std::collections::HashSet;

use crate::envelope::files::extension;
use crate::envelope::media;
use crate::{BundlePath, Field};

/// Gives the members of each sample a common stem that no other sample of the shard has.
#[derive(Debug, Default)]
pub(crate) struct Stems {
    taken: HashSet<String>,
}

impl Stems {
    /// Returns the key without its extension, and with its dots replaced, since readers cut names
    /// at the first dot; with `~2`, `~3`, … if another sample has that stem.
    pub(crate) fn next(&mut self, key: &BundlePath) -> String {
        let (folder, name) = match key.as_str().rsplit_once('/') {
            Some((folder, name)) => (Some(folder), name),
            None => (None, key.as_str()),
        };
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let stem = if stem.is_empty() { name } else { stem }.replace('.', "_");
        let stem = folder.map_or(stem.clone(), |folder| format!("{folder}/{stem}"));
        let mut unique = stem.clone();
        let mut n = 2_u64;
        while !self.taken.insert(unique.clone()) {
            unique = format!("{stem}~{n}");
            n = n.saturating_add(1);
        }
        unique
    }
}

/// Returns the part after the stem in the name of a field's member, including the dot.
pub(crate) fn suffix(field: &Field, key: &BundlePath, value: &[u8]) -> String {
    let name = field.name.as_str();
    if name == "label" {
        return ".cls".to_owned();
    }
    let extension = extension(field, key, value);
    let is_image = media::of_extension(extension).is_some_and(|m| m.starts_with("image/"));
    if name == "image" || (name == extension && !is_image) {
        format!(".{extension}")
    } else {
        format!(".{name}.{extension}")
    }
}

/// The contents of a member, decided by the part of its name after the first dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// `jpg`, `png`, …: the image.
    Image,
    /// `cls`: the label.
    Label,
    /// `mask.png`, `json`: a field by name.
    Named(&'a str),
}

/// Reads a suffix without its first dot.
pub(crate) fn part_of(suffix: &str) -> Part<'_> {
    let (name, extension) = suffix.rsplit_once('.').unwrap_or(("", suffix));
    let media_type = media::of_extension(extension);
    match (name, media_type) {
        ("", _) if suffix.eq_ignore_ascii_case("cls") => Part::Label,
        ("", Some(media_type)) if media_type.starts_with("image/") => Part::Image,
        ("", _) if suffix == "npy" => Part::Image,
        ("", _) => Part::Named(suffix),
        (name, Some(_)) => Part::Named(name),
        (_, None) => Part::Named(suffix),
    }
}
