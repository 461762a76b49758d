//! Makes the entries of the new manifest, and their views.

use std::sync::atomic::AtomicBool;

use gular_bundle::{Field, FileEntry, Row, ShardEntry, Split, View};

use super::bases::{Bases, Line};
use super::choose::{Taken, each_line};
use super::options::DeriveOptions;
use super::relabel::{Relabelled, SaidOf};
use crate::error::Error;
use crate::plan::{split_by, tiles};

/// A line of the new manifest.
#[derive(Debug)]
pub(super) struct NewLine {
    pub(super) line: Line,
    pub(super) entry: ShardEntry,
    /// The view and its bytes, if there is one.
    pub(super) view: Option<(FileEntry, Vec<u8>)>,
    /// Number of samples whose class changed.
    pub(super) n_relabelled: u64,
}

/// Returns the new lines, in the order of the manifest.
pub(super) fn lines(
    bases: &Bases,
    lines: &[Line],
    taken: &Taken,
    relabelled: &Relabelled,
    options: &DeriveOptions,
    cancel: &AtomicBool,
) -> Result<Vec<NewLine>, Error> {
    let nothing = SaidOf::default();
    let made = each_line(lines, options.jobs, cancel, |number, line| {
        let said = relabelled.lines.get(number).unwrap_or(&nothing);
        of_line(bases, line, &taken[number].rows().collect::<Vec<_>>(), said, options)
    })?;
    let mut made: Vec<NewLine> = made.into_iter().flatten().collect();
    // Stable: within a split as the bundles have them.
    made.sort_by_key(|line| line.entry.split);
    Ok(made)
}

fn of_line(
    bases: &Bases,
    line: Line,
    rows: &[Row],
    said: &SaidOf,
    options: &DeriveOptions,
) -> Result<Vec<NewLine>, Error> {
    let (index, entry) = (bases.index(line)?, bases.entry(line));
    let labelled = bases.fields.iter().any(Field::is_label);
    // Neighbours share pixels, so all tiles of a scene are in one split, as packing has them.
    let tiled = bases.bundle(line).manifest().made.contains_key("tile");
    let split_of = |row: Row| {
        if let Some(split) = said.split(row) {
            return split;
        }
        match options.fractions.as_slice() {
            [] => entry.split,
            of => {
                let key = index.key(row).unwrap_or_default();
                let scene = tiles::parse(key).filter(|_| tiled).map(|(scene, _)| scene);
                split_by(scene.unwrap_or(key), options.seed, of)
            }
        }
    };
    let mut made = Vec::new();
    let splits: Vec<Split> = rows.iter().map(|row| split_of(*row)).collect();
    for split in Split::ALL {
        let rows = || rows.iter().zip(&splits).filter(|(_, of)| **of == split).map(|(row, _)| *row);
        let stored = rows().filter_map(|row| index.stored_row(row));
        let (mut labels, mut n_relabelled) = (Vec::new(), 0);
        for (row, stored) in rows().zip(stored.clone()).filter(|_| labelled) {
            let old = index.label(row);
            // The same class may have another number among those of all bundles.
            let same = old.map(|label| bases.label(line, label));
            let new = said.label(row).or(same);
            let kept = index.view().and_then(|view| view.label(stored));
            let changed = new != old;
            n_relabelled += u64::from(new != same);
            // A label of an earlier view stays one: the index has another.
            if let Some(label) = new.filter(|_| changed || kept.is_some()) {
                labels.push((stored, label));
            }
        }
        let view = View::new(index.n_stored(), stored, labels)?;
        if view.n_samples() == 0 {
            continue;
        }
        let file = match view.is_whole() {
            true => None,
            false => Some(view.file(split, entry.index.digest)?),
        };
        let entry = ShardEntry {
            split,
            samples: view.n_samples() as u64,
            view: file.as_ref().map(|(file, _)| file.clone()),
            ..entry.clone()
        };
        made.push(NewLine { line, entry, view: file, n_relabelled });
    }
    Ok(made)
}
