//! Labels and splits that a table gives to samples of bundles.

use std::collections::HashMap;

use gular_bundle::{Field, Row, Split};

use super::bases::{Bases, Line};
use super::choose::Taken;
use super::options::{DeriveOptions, Unlisted};
use crate::error::Error;
use crate::facts::{Names, setting};
use crate::layout::{FieldColumns, Join, Joined, Said, Table, TableOptions};
use crate::plan::PlanError;

/// A sample, and the label and split that a table gives to it.
type OfRow = (Row, Option<i32>, Option<Split>);

/// The entries of a table for the samples of one line.
#[derive(Debug, Default)]
pub(super) struct SaidOf {
    /// For each row that the table lists, its label and split.
    said: Vec<OfRow>,
}

impl SaidOf {
    fn of(&self, row: Row) -> Option<(Option<i32>, Option<Split>)> {
        let at = self.said.binary_search_by_key(&row, |(row, ..)| *row).ok()?;
        self.said.get(at).map(|(_, label, split)| (*label, *split))
    }

    pub(super) fn label(&self, row: Row) -> Option<i32> {
        self.of(row).and_then(|(label, _)| label)
    }

    pub(super) fn split(&self, row: Row) -> Option<Split> {
        self.of(row).and_then(|(_, split)| split)
    }
}

/// A table whose classes are among those of the bundles.
#[derive(Debug)]
pub(super) struct NewLabels {
    table: Table,
}

/// The result of the join, line by line, and what did not match.
#[derive(Debug, Default)]
pub(super) struct Relabelled {
    pub(super) lines: Vec<SaidOf>,
    pub(super) unused: Names,
    pub(super) unlisted: Names,
}

impl NewLabels {
    /// Opens the table; classes that are new come behind those of the bundles.
    pub(super) fn open(options: &TableOptions, bases: &mut Bases) -> Result<Self, Error> {
        let options = TableOptions {
            fields: FieldColumns::Named(Vec::new()),
            group: None,
            ..options.clone()
        };
        let found = Table::open(&options, None)?;
        if found.several() {
            let text = "the table has several classes for one sample, which need a field of their own: pack the images again with this table";
            return Err(setting(&["labels"], text));
        }
        if found.is_of_boxes() && !found.labelled() {
            let text = "the table has boxes, which need fields of their own: pack the images again with this table";
            return Err(setting(&["labels"], text));
        }
        if !found.labelled() {
            return Ok(Self { table: found });
        }
        if let Some(field) = bases.fields.iter().find(|field| field.depends_on_classes()) {
            let text = format!(
                "a table of labels cannot change the values of the field `{}`: pack the images again with this table",
                field.name
            );
            return Err(setting(&["labels"], text));
        }
        let was_labelled = bases.fields.iter().any(Field::is_label);
        if was_labelled && bases.classes.is_empty() && found.by_name() {
            let text = "the bundle's labels are numbers without class names, but the table has names: write numbers into the table";
            return Err(setting(&["labels"], text));
        }
        if !was_labelled {
            bases.fields.push(Field::label());
            bases.classes.clone_from(&found.classes);
        } else if found.by_name() {
            let new = found.classes.iter().filter(|class| !bases.classes.contains(class));
            let new: Vec<String> = new.cloned().collect();
            bases.classes.extend(new);
        }
        let classes = (!bases.classes.is_empty()).then(|| bases.classes.clone());
        Ok(Self { table: Table::open(&options, classes)? })
    }

    /// Brings rows and samples together. Samples that are to be left out are taken out of `taken`.
    pub(super) fn join(
        self,
        bases: &Bases,
        lines: &[Line],
        taken: &mut Taken,
        options: &DeriveOptions,
    ) -> Result<Relabelled, Error> {
        let mut join = Join::new(&options.temp_dir, options.memory_bytes, None);
        for (number, (line, bits)) in lines.iter().zip(taken.iter()).enumerate() {
            let index = bases.index(*line)?;
            for row in bits.rows() {
                // The number that stands for a file's bytes elsewhere is the place of the sample
                // here.
                let place = (number as u64) << 32 | row.0 as u64;
                join.image(index.key(row).unwrap_or_default(), place)?;
            }
        }
        join.rows(&self.table, &[])?;
        let labelled = self.table.labelled();
        let mut said: HashMap<usize, Vec<OfRow>> = HashMap::new();
        let Joined { unlabelled, unused, .. } =
            join.finish::<Error>(&self.table, &|_, _| None, &mut |_, place, of_row: &Said| {
                let row = Row((place & u64::from(u32::MAX)) as usize);
                let label = i32::try_from(of_row.label).ok().filter(|_| labelled);
                said.entry((place >> 32) as usize).or_default().push((row, label, of_row.split));
                Ok(())
            })?;
        let mut relabelled = Relabelled { unused, ..Relabelled::default() };
        for number in 0..lines.len() {
            let mut of_line = said.remove(&number).unwrap_or_default();
            of_line.sort_unstable_by_key(|(row, ..)| *row);
            relabelled.lines.push(SaidOf { said: of_line });
        }
        if unlabelled.n > 0 {
            self.unlisted(bases, lines, taken, options, &mut relabelled)?;
        }
        Ok(relabelled)
    }

    /// Handles samples without a row in the table.
    fn unlisted(
        &self,
        bases: &Bases,
        lines: &[Line],
        taken: &mut Taken,
        options: &DeriveOptions,
        relabelled: &mut Relabelled,
    ) -> Result<(), Error> {
        let mut without = Names::default();
        for ((line, bits), said) in lines.iter().zip(taken).zip(&relabelled.lines) {
            let index = bases.index(*line)?;
            let rows: Vec<Row> = bits.rows().filter(|row| said.of(*row).is_none()).collect();
            for row in rows {
                let key = index.key(row).unwrap_or_default();
                relabelled.unlisted.push(key);
                match options.unlisted {
                    Unlisted::Skip => bits.set(row, false),
                    Unlisted::Fail => without.push(key),
                    Unlisted::Keep if index.label(row).is_none() && self.table.labelled() => {
                        without.push(key);
                    }
                    Unlisted::Keep => {}
                }
            }
        }
        match without.n {
            0 => Ok(()),
            n => {
                let files: Vec<String> =
                    self.table.files().iter().map(|p| format!("`{}`", p.display())).collect();
                let why = format!("{} has no row with a label for them", files.join(" or "));
                Err(PlanError::Unlabelled { n, images: without.to_string(), why }.into())
            }
        }
    }
}
