//! Labels, splits and values that a table gives to samples.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use gular_bundle::{Field, Split};

use super::record::SortRecord;
use crate::facts::{Doubt, Names, WayToRead, counted, named, setting, split_within};
use crate::layout::{Join, Joined, Labels, Layout, Said, Table, TableColumns, Unlabelled};
use crate::plan::{PlanError, PlanOptions};
use crate::source::FieldFiles;

/// A table, and the images that wait for its rows.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) table: Table,
    /// For each file of the table, the folder below the source that its image names are relative
    /// to.
    pub(super) folders: Vec<String>,
    pub(super) join: Join,
}

impl Joining {
    /// Calls `each` with each image that has a label.
    pub(super) fn finish(
        self,
        options: &PlanOptions,
        layout: &Layout,
        classes: &[String],
        each: &mut dyn FnMut(&SortRecord<'_>) -> Result<(), PlanError>,
    ) -> Result<FromTable, PlanError> {
        let Self { mut table, folders, mut join } = self;
        let by_path = layout.has_labels() && table.has_labels();
        if by_path {
            table.renumber(classes)?;
        }
        join.rows(&table, &folders)?;
        let nothing = match options.unlabelled {
            Unlabelled::Keep => Some(table.nothing()?),
            Unlabelled::Fail | Unlabelled::Skip => None,
        };
        let has_class = |key: &str| {
            layout.place(key).is_ok_and(|placed| placed.is_some_and(|of| of.label.is_some()))
        };
        let kept = RefCell::new(Names::default());
        let without = |key: &str, said: Option<Said>| {
            // Without a row, nothing says the split where a column says those of others.
            if by_path && has_class(key) && (said.is_some() || !table.has_splits()) {
                return Some(said.unwrap_or_else(|| Said::nothing(String::new())));
            }
            let nothing = nothing.as_ref()?;
            kept.borrow_mut().push(key);
            Some(said.unwrap_or_else(|| Said::nothing(nothing.clone())))
        };
        let Joined { unlabelled, unused, repeated, loosely, .. } =
            join.finish(&table, &without, &mut |key, bytes, said| {
                let Said { split, group, label, size, values } = said;
                let (split, size) = (*split, *size);
                each(&SortRecord { key, bytes, split, group, label: Some(*label), size, values })
            })?;
        if unlabelled.n > 0 && options.unlabelled == Unlabelled::Fail {
            return Err(PlanError::Unlabelled {
                n: unlabelled.n,
                images: unlabelled.to_string(),
                why: format!("{} has no row with a label for them", table.all_files()),
            });
        }
        let (labelled, several) = (table.labelled(), table.several());
        let columns = Some(table.taken());
        let kept = kept.into_inner();
        let of_names = splits_in_names(&table, options, layout);
        let Table { fields, left_out, mut doubts, .. } = table;
        if loosely.n > 0 {
            let n = counted(loosely.n, "row names an image", "rows name images");
            let text = format!(
                "{n} with another extension, or with other zeros before the number: {loosely}"
            );
            doubts.push(Doubt::new(text, Vec::new()));
        }
        if kept.n > 0 {
            let n = counted(kept.n, "image has no row", "images have no row");
            let text = format!("{n} or no label in it, and are packed without one: {kept}");
            doubts.push(Doubt::new(text, Vec::new()));
        }
        doubts.extend(of_names);
        Ok(FromTable {
            labelled,
            several,
            columns,
            fields,
            left_out,
            unlabelled,
            unused,
            repeated,
            doubts,
        })
    }
}

/// Tables with the names of several splits, where nothing else says the splits.
fn splits_in_names(table: &Table, options: &PlanOptions, layout: &Layout) -> Option<Doubt> {
    let Labels::Table(given) = &options.labels else { return None };
    let by_others = table.has_splits() || layout.has_splits() || !options.fractions.is_empty();
    let is_told = |doubt: &Doubt| doubt.readings.iter().any(|way| way.split_column.is_some());
    if by_others || !given.lines.is_empty() || table.doubts.iter().any(is_told) {
        return None;
    }
    let of_name = |file: &Path| split_within(&file.file_stem()?.to_string_lossy());
    let splits = table.files().iter().map(|file| of_name(file));
    let splits: BTreeSet<Split> = splits.collect::<Option<_>>()?;
    let shown: Vec<String> = table.files().iter().map(|file| file.display().to_string()).collect();
    let text = format!("{} have names of splits, and do not set splits", named(shown.iter()));
    let option =
        |file: &Path| match of_name(file).filter(|_| table.files().iter().any(|of| of == file)) {
            Some(split) => format!("{}={{split={split}}}", file.display()),
            None => file.display().to_string(),
        };
    let tables = Some(given.files.iter().map(|file| option(file)).collect());
    let way = WayToRead { tables, ..WayToRead::new("if they do", &[]) };
    (splits.len() > 1).then(|| Doubt::new(text, vec![way]))
}

/// The part of the plan that is from a table, except the values of samples.
#[derive(Debug, Clone, Default)]
pub(crate) struct FromTable {
    pub(super) labelled: bool,
    /// Whether the first of `fields` contains the classes of a sample.
    pub(super) several: bool,
    /// Fields beside image and label; those of parts of paths and of files are added.
    pub(super) fields: Vec<Field>,
    /// Columns that were taken for file names, labels and splits.
    pub(crate) columns: Option<TableColumns>,
    /// Columns that became no field, and why.
    pub(crate) left_out: Vec<(String, String)>,
    /// Images that were left out because they have no label.
    pub(crate) unlabelled: Names,
    /// Rows that match no image.
    pub(crate) unused: Names,
    /// Rows that say again what another one says.
    pub(crate) repeated: Names,
    /// What is not clear.
    pub(crate) doubts: Vec<Doubt>,
}

impl FromTable {
    /// Adds the fields that parts of paths become.
    pub(super) fn add_parts(
        &mut self,
        layout: &Layout,
        files: &[FieldFiles],
    ) -> Result<(), PlanError> {
        let is_file = |field: &&Field| files.iter().any(|of| of.name == field.name);
        if let Some(Field { name, .. }) = self.fields.iter().find(is_file) {
            let text = format!(
                "a column of the table and files both become the field `{name}`: name the columns that become fields, without it"
            );
            return Err(setting(&["columns", "field"], text));
        }
        for field in layout.fields() {
            if self.fields.iter().any(|known| known.name == field.name) {
                let text = format!(
                    "a pattern and a table both have a field `{}`: rename the part of the pattern",
                    field.name
                );
                return Err(setting(&["images"], text));
            }
            self.fields.push(field);
        }
        Ok(())
    }
}
