//! Files beside the images of which nothing is taken, although they may say something about them.

use std::collections::BTreeMap;

use super::first_rows::FirstRows;
use super::folder_patterns::Recognised;
use super::split_lists::{has_boxes, says_more};
use super::tables_beside::part;
use super::{Labels, LayoutError, LayoutOptions, TablesBeside};
use crate::facts::{Doubt, WayToRead, counted, literal, named};
use crate::source::Inputs;

/// Whether a user's fields or tables take files of their own.
fn is_taken(options: &LayoutOptions<'_>) -> bool {
    !options.fields.is_empty() || matches!(options.labels, Labels::Table(_))
}

/// As many texts as images, beside which they may be captions; `ignored` are the files that are no
/// images, by extension, and `folder` is the one that has the texts, if one has all of them.
pub(crate) fn texts(
    ignored: &BTreeMap<String, u64>,
    images: u64,
    patterns: &[String],
    folder: Option<String>,
    options: &LayoutOptions<'_>,
) -> Option<Doubt> {
    let n = *ignored.get("txt").filter(|n| **n > 1 && **n == images)?;
    let [pattern] = patterns else { return None };
    let text = format!("there are as many texts as images, {n}, and they are left out");
    let beside = pattern.replace("{ext}", "txt");
    let of_images = pattern.strip_suffix("/{key}.{ext}").filter(|of| !of.contains('{'));
    let texts = match (of_images, folder) {
        (Some(_), Some(folder)) => format!("{}/{{key}}.txt", literal(&folder)),
        _ => beside,
    };
    let files = vec![("caption".to_owned(), texts)];
    let way = WayToRead { files, ..WayToRead::new("if they are captions", &[pattern]) };
    (!is_taken(options)).then(|| Doubt::new(text, vec![way]))
}

/// The question whether images are packed without their annotations, whose format is not read.
pub(crate) fn unread(
    tables: &TablesBeside,
    patterns: &[String],
    options: &LayoutOptions<'_>,
) -> Option<Doubt> {
    let LayoutError::UnreadFormat { path, name, convert } = tables.unread.as_ref()? else {
        return None;
    };
    let text =
        format!("`{path}` and others are in the format of {name}, which is not read: {convert}");
    let images: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let way = WayToRead { asks: true, ..WayToRead::new("to pack the images alone", &images) };
    (!is_taken(options)).then(|| Doubt::new(text, vec![way]))
}

/// Files of annotations of which nothing is taken: of these, as many as images, or fewer where only
/// annotations are such files.
pub(crate) fn annotations(
    ignored: &BTreeMap<String, u64>,
    images: u64,
    tables: &TablesBeside,
    options: &LayoutOptions<'_>,
) -> Option<Doubt> {
    let n = |extension: &&str| ignored.get(*extension).copied().unwrap_or_default();
    let kinds = [("txt", 2), ("xml", 4), ("json", 1), ("mat", 1), ("gt", 2)];
    let is_enough = |(kind, of): &(&str, u64)| n(kind) > 1 && n(kind).saturating_mul(*of) >= images;
    let (kind, _) = kinds.into_iter().find(is_enough)?;
    let text = match n(&kind) >= images {
        true => format!("there are as many {kind} files as images, and nothing is taken from them"),
        false => format!("there are {} {kind} files, and nothing is taken from them", n(&kind)),
    };
    let tables = Some(tables.likeliest()).filter(|tables| !tables.is_empty());
    let way = tables.map(|tables| WayToRead {
        tables: Some(tables),
        ..WayToRead::new("if they are annotations", &[])
    });
    let is_doubt = !is_taken(options) && *options.labels != Labels::None;
    is_doubt.then(|| Doubt::new(text, way.into_iter().collect()))
}

/// Files of polygons, of which masks could be made.
pub(crate) fn polygons(
    ignored: &BTreeMap<String, u64>,
    options: &LayoutOptions<'_>,
) -> Option<Doubt> {
    let n = |extension: &str| ignored.get(extension).copied().unwrap_or_default();
    let extension = ["geojson", "shp"].into_iter().find(|of| n(of) > 0)?;
    let text = format!(
        "nothing is taken from {}: polygons become masks if a pattern for the mask names their files, such as `masks/{{key}}.{extension}`",
        counted(n(extension), &format!("{extension} file"), &format!("{extension} files"))
    );
    options.fields.is_empty().then(|| Doubt::new(text, Vec::new()))
}

/// Tables with the names of splits beside images whose classes are in their paths.
pub(crate) fn tables_of_splits(
    tables: &[String],
    patterns: &[String],
    options: &LayoutOptions<'_>,
) -> Option<Doubt> {
    if tables.is_empty() || *options.labels != Labels::Path || options.inputs != Inputs::Images {
        return None;
    }
    let named_tables = tables.iter().map(|table| table.split("={").next().unwrap_or(table));
    let text = format!("{} may say the splits, and are not read", named(named_tables));
    let images = patterns.to_vec();
    let plain = WayToRead { otherwise: true, images: images.clone(), ..WayToRead::default() };
    let way = WayToRead {
        tables: Some(tables.to_vec()),
        label_column: Some("none".to_owned()),
        images,
        ..WayToRead::new("if they do", &[])
    };
    Some(Doubt::new(text, vec![way, plain]))
}

/// A table with a row for each patient, or for something else that many images are of, where these may
/// be the folders that were taken for classes.
pub(crate) fn of_sources(
    tables: &TablesBeside,
    found: &Recognised,
    options: &LayoutOptions<'_>,
) -> Option<Doubt> {
    if *options.labels != Labels::Path || found.classes.is_empty() {
        return None;
    }
    let (table, column) = tables.of_sources()?;
    let text =
        format!("`{table}` has a row for each `{column}`, which may be folders, and is not read");
    let of_column = format!("{{{}}}", part(&column));
    let images = found.patterns.iter().map(|pattern| pattern.replace("{label}", &of_column));
    let by_table = WayToRead {
        images: images.collect(),
        tables: Some(vec![table]),
        ..WayToRead::new("if it has the classes of these folders", &[])
    };
    let plain =
        WayToRead { otherwise: true, images: found.patterns.clone(), ..WayToRead::default() };
    Some(Doubt::new(text, vec![by_table, plain]))
}

/// Lists of boxes or amounts beside images whose classes are in their paths.
pub(crate) fn lists(
    tables: &TablesBeside,
    found: &Recognised,
    options: &LayoutOptions<'_>,
) -> Option<Doubt> {
    let mut lists = tables.lists();
    lists.retain(|list| says_more(list));
    if lists.is_empty() || *options.labels != Labels::Path || options.inputs != Inputs::Images {
        return None;
    }
    let files = lists.iter().map(|list| list.split("={").next().unwrap_or(list));
    let text = format!(
        "{} may say more about the images, and {} not read",
        named(files),
        if lists.len() == 1 { "is" } else { "are" }
    );
    let images = found.patterns.iter().map(|pattern| pattern.replace("{label}", "{*}"));
    let images = images.collect();
    let when = match lists.iter().any(|list| has_boxes(list)) {
        true => "if these are boxes with these corners",
        false => "if these are amounts of the images",
    };
    // They may be of some of the images alone.
    let way = WayToRead { leaves_out: true, images, ..WayToRead::new(when, &[]) };
    Some(Doubt::new(text, vec![WayToRead { tables: Some(lists), ..way }]))
}

/// Tables beside images whose classes are in their paths.
pub(crate) fn tables(
    tables: &TablesBeside,
    found: &Recognised,
    options: &LayoutOptions<'_>,
) -> Option<Doubt> {
    let tables = tables.of_rows();
    if tables.is_empty() || *options.labels != Labels::Path || options.inputs != Inputs::Images {
        return None;
    }
    let patterns = &found.patterns;
    let in_place_of_label = |part: &str| -> Vec<String> {
        patterns.iter().map(|pattern| pattern.replace("{label}", part)).collect()
    };
    let way = |when, images: Vec<String>, label: Option<&str>| WayToRead {
        tables: Some(tables.clone()),
        images,
        label_column: label.map(str::to_owned),
        ..WayToRead::new(when, &[])
    };
    if let [table] = tables.as_slice()
        && let Some(rows) = FirstRows::read(table)
        && let Some((column, part)) = rows.column_of(&|cell| found.classes.contains(cell))
    {
        let text = format!(
            "`{table}` has a row for each `{column}`, which may be these folders, and is not read"
        );
        let images = in_place_of_label(&format!("{{{part}}}"));
        let by_folder = way("if it has the classes of these folders", images, None);
        return Some(Doubt::new(text, vec![by_folder]));
    }
    let text = format!(
        "{} may say more about the images, and {} not read",
        named(tables.iter()),
        if tables.len() == 1 { "is" } else { "are" }
    );
    let fields = way("for fields beside these classes", patterns.clone(), Some("none"));
    let classes = way("if they have the classes", in_place_of_label("{*}"), None);
    Some(Doubt::new(text, vec![fields, classes]))
}
