//! The column of file names, found by what is in it where no name of a column says it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};

use super::join::{plain, without_extension};
use super::rows::Tables;
use super::table_options::TableOptions;
use crate::facts::{Doubt, WayToRead, named};
use crate::layout::LayoutError;
use crate::source::{Inputs, Source, media_type_of};

/// So many cells of a column are looked at, and so many images.
const MOST_VALUES: usize = 1 << 12;
const MOST_IMAGES: usize = 1 << 20;
/// Most columns that a question names.
const MOST_ASKED: usize = 5;
/// Names of columns that number rows as often as they name images.
const NUMBERS_ROWS: [&str; 2] = ["id", "index"];

/// The column that names more than twice as many images as any other one, and of which at least half of
/// what is in it does.
///
/// # Errors
/// A doubt if several columns name as many, as those of pairs and triplets do.
pub(crate) fn key_by_values(
    options: &TableOptions,
    source: &Source,
) -> Result<Option<String>, LayoutError> {
    let images = images(source)?;
    let columns = columns(options)?;
    let mut found: Vec<(usize, &String)> = columns
        .iter()
        .map(|column| (column.named(&images), column.values().len(), &column.name))
        .filter(|(named, values, _)| *named > 0 && *named * 2 >= *values)
        .map(|(named, _, name)| (named, name))
        .collect();
    found.sort_by_key(|(named, _)| Reverse(*named));
    // The name of a column that is one of an image is that of a row.
    found.retain(|(_, name)| !images.contains(&stem(name)));
    // A second column that names many images may be the right one; numbers of classes name a few.
    match found.as_slice() {
        [(most, _), (next, _), ..] if next * 2 > *most => {
            let likely = found.iter().filter(|(named, _)| named * 2 > *most);
            Err(several_keys(likely.take(MOST_ASKED).copied(), images.len()).into())
        }
        [(_, name), ..] => Ok(Some((*name).clone())),
        [] => Ok(None),
    }
}

/// Several columns, each with the number of images that it names, of `all` images.
fn several_keys<'a>(columns: impl Iterator<Item = (usize, &'a String)>, all: usize) -> Doubt {
    let columns: Vec<(usize, &String)> = columns.collect();
    let text = format!(
        "the columns {} all name images, and each sample has one image",
        named(columns.iter().map(|(_, name)| *name))
    );
    let way = |(named, name): &(usize, &String)| WayToRead {
        leaves_out: *named < all,
        ..names_images(name)
    };
    Doubt::new(text, columns.iter().map(way).collect())
}

fn names_images(column: &str) -> WayToRead {
    WayToRead {
        key_column: Some(column.to_owned()),
        ..WayToRead::new(&format!("if `{column}` names the images"), &[])
    }
}

/// A column beside `key` of which every value names another image, where `key` may number the rows.
pub(crate) fn other_key(
    options: &TableOptions,
    key: &str,
    source: &Source,
) -> Result<Option<Doubt>, LayoutError> {
    if !NUMBERS_ROWS.iter().any(|name| key.trim().eq_ignore_ascii_case(name)) {
        return Ok(None);
    }
    let images = images(source)?;
    let columns = columns(options)?;
    let of_key = columns.iter().find(|column| column.name == key).map(|column| &column.words);
    let is_key = |column: &&ColumnValues| {
        let n = column.values().len();
        let is_other = column.name != key && of_key != Some(&column.words);
        is_other && n > 1 && n == column.words.len() && column.named(&images) == n
    };
    let Some(other) = columns.iter().find(is_key) else { return Ok(None) };
    let text = format!("the columns `{key}` and `{}` both name images", other.name);
    Ok(Some(Doubt::new(text, vec![names_images(&other.name), names_images(key)])))
}

fn images(source: &Source) -> Result<HashSet<String>, LayoutError> {
    let mut images = HashSet::new();
    source.files::<LayoutError>(&mut |name, _| {
        if images.len() < MOST_IMAGES && media_type_of(name, Inputs::Images).is_some() {
            images.insert(stem(name));
        }
        Ok(())
    })?;
    Ok(images)
}

/// A column, and the first of its cells as names of images.
struct ColumnValues {
    name: String,
    words: Vec<String>,
}

impl ColumnValues {
    fn values(&self) -> BTreeSet<&String> {
        self.words.iter().collect()
    }

    fn named(&self, images: &HashSet<String>) -> usize {
        self.values().into_iter().filter(|value| images.contains(*value)).count()
    }
}

fn columns(options: &TableOptions) -> Result<Vec<ColumnValues>, LayoutError> {
    let tables = Tables::new(&options.lines);
    let mut columns: Vec<ColumnValues> = Vec::new();
    for path in &options.files {
        let mut places: Vec<usize> = Vec::new();
        tables.read_plain(path, &mut |_, names, cells| {
            for name in names.iter().skip(places.len()) {
                let known = columns.iter().position(|column| column.name == *name);
                places.push(known.unwrap_or(columns.len()));
                if known.is_none() {
                    columns.push(ColumnValues { name: name.clone(), words: Vec::new() });
                }
            }
            for (place, cell) in places.iter().zip(cells) {
                if let Some(column) = columns.get_mut(*place)
                    && column.words.len() < MOST_VALUES
                {
                    column.words.extend(cell.word().map(|word| stem(&word)));
                }
            }
            Ok(())
        })?;
    }
    Ok(columns)
}

/// The last part of a name, without the extension of an image.
fn stem(name: &str) -> String {
    let name = plain(name);
    let last = name.rsplit('/').next().unwrap_or(&name);
    without_extension(last).to_owned()
}
