//! The contact sheet: a grid of images, one row per class, each row with the class's name in front.

use std::path::Path;

use gular_bundle::{Bundle, Field, SampleId, Split};
use gular_codec::encode_png;
use gular_order::{KeyedPermutation, key};
use gular_view::{Look, picture};

use super::files_here::FilesHere;
use super::letters;
use crate::exit::Failure;

/// Pixels of a cell's side, and of the gap between cells.
const CELL: usize = 96;
const GAP: usize = 4;
const COLUMNS: usize = 10;
const MOST_ROWS: usize = 30;
/// Most letters of a class's name that are shown.
const MOST_LETTERS: usize = 20;
/// Samples looked at to fill the rows: rare classes may stay short.
const MOST_LOOKS: u64 = 20_000;

/// Counts of the chosen images that are on the sheet, and of the others.
pub(super) struct Shown {
    /// Images on the sheet.
    pub(super) images: usize,
    /// Why other images are not in their cell.
    pub(super) left_out: Vec<String>,
}

/// Writes a sheet of images chosen by `seed`.
pub(super) fn write(
    bundle: &Bundle,
    here: &FilesHere,
    out: &Path,
    seed: u64,
) -> Result<Shown, Failure> {
    let classes = classes_of_samples(bundle);
    let name = |class: usize| classes.get(class).map_or("", String::as_str);
    let rows: Vec<(&str, Vec<SampleId>)> = choose(bundle, here, seed)?
        .into_iter()
        .enumerate()
        .filter(|(_, samples)| !samples.is_empty())
        .map(|(class, samples)| (name(class), samples))
        .collect();
    let longest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let names = match longest.min(MOST_LETTERS) {
        0 => 0,
        n => GAP + n * letters::WIDTH,
    };
    let width = names + COLUMNS * (CELL + GAP) + GAP;
    let height = rows.len() * (CELL + GAP) + GAP;
    let mut sheet = vec![255_u8; width * height * 3];
    let at = bundle.manifest().field("image")?;
    let field = at.of(&bundle.manifest().fields);
    let field = field.ok_or_else(|| Failure::new("the bundle has no field `image`", None))?;
    let look = Look::small(field, CELL as u32);
    let mut bytes = Vec::new();
    let mut shown = Shown { images: 0, left_out: Vec::new() };
    for (y, (name, row)) in rows.iter().enumerate() {
        let middle = GAP + y * (CELL + GAP) + (CELL - letters::HEIGHT) / 2;
        letters::draw(&mut sheet, width, (GAP, middle), &shortened(name));
        for (x, sample) in row.iter().enumerate() {
            bundle.read(*sample, at, &mut bytes)?;
            let picture = match picture(field, &bytes, &look) {
                Ok(picture) => picture,
                // Packing looks at headers unless told otherwise, so a sound
                // bundle may hold images that do not decode.
                Err(e) => {
                    shown.left_out.push(format!("`{}`: {e}", bundle.key(*sample)?));
                    continue;
                }
            };
            let (w, h) = (picture.width() as usize, picture.height() as usize);
            let left = names + GAP + x * (CELL + GAP) + (CELL - w) / 2;
            let top = GAP + y * (CELL + GAP) + (CELL - h) / 2;
            for line in 0..h {
                let to = ((top + line) * width + left) * 3;
                sheet[to..to + w * 3]
                    .copy_from_slice(&picture.data()[line * w * 3..(line + 1) * w * 3]);
            }
            shown.images += 1;
        }
    }
    if let (0, Some(first)) = (shown.images, shown.left_out.first()) {
        let reason = format!("none of the images can be shown on a sheet, such as {first}");
        return Err(Failure::new(reason, None));
    }
    let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let png = encode_png(&sheet, size(width), size(height)).map_err(|e| Failure::new(e, None))?;
    gular_files::write_file(out, &png)?;
    Ok(shown)
}

/// A class's name, as far as there is room for it.
fn shortened(name: &str) -> String {
    match name.chars().count() > MOST_LETTERS {
        true => name.chars().take(MOST_LETTERS - 2).chain("..".chars()).collect(),
        false => name.to_owned(),
    }
}

/// The classes, if they are of whole samples, and not of boxes or of several labels a sample.
fn classes_of_samples(bundle: &Bundle) -> &[String] {
    let manifest = bundle.manifest();
    match manifest.fields.iter().any(Field::is_label) {
        true => &manifest.classes,
        false => &[],
    }
}

/// Samples by rows: one row a class, or plain rows where there are none.
pub(super) fn choose(
    bundle: &Bundle,
    here: &FilesHere,
    seed: u64,
) -> Result<Vec<Vec<SampleId>>, Failure> {
    let classes = classes_of_samples(bundle).len();
    let n_rows = if classes == 0 { COLUMNS } else { classes.min(MOST_ROWS) };
    let mut rows = vec![Vec::new(); n_rows];
    let mut looks = 0;
    let splits = Split::ALL.into_iter();
    for split in splits.filter(|split| !here.lacks(bundle.manifest(), *split)) {
        let n = bundle.n_samples(split);
        let order = KeyedPermutation::new(n, key(seed, 0, split as u64));
        for position in 0..n {
            let missing = rows.iter().any(|r| r.len() < COLUMNS);
            if !missing || looks == MOST_LOOKS {
                return Ok(rows);
            }
            looks += 1;
            let sample = bundle.locate(split, order.at(position))?;
            if !here.has(sample.shard) {
                continue;
            }
            let row = if classes == 0 {
                rows.iter().position(|r| r.len() < COLUMNS)
            } else {
                let label = bundle.shard(sample.shard)?.label(sample.row)?;
                label.and_then(|l| usize::try_from(l).ok())
            };
            if let Some(row) = row.and_then(|r| rows.get_mut(r)).filter(|r| r.len() < COLUMNS) {
                row.push(sample);
            }
        }
    }
    Ok(rows)
}
