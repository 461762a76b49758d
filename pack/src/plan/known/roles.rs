//! Which dataset is the image, which has the labels, and which ones are fields.

use std::collections::BTreeSet;
use std::path::Path;

use gular_bundle::{Axes, FieldName};

use crate::facts::{Doubt, Pattern, WayToRead, setting, split_of};
use crate::layout::{Labels, LayoutError};
use crate::plan::{PayloadOptions, PlanOptions};
use crate::source::{
    Column, DatasetFault, FieldFiles, Inputs, LabelColumn, Other, SourceError, are_of_groups,
    columns,
};

/// Names of datasets with the classes, in lower case: those of Keras, PatchCamelyon and So2Sat.
const LABELS: [&str; 7] = ["y", "label", "labels", "target", "targets", "class", "classes"];
/// Names of datasets with a class for each pixel.
const MASKS: [&str; 2] = ["mask", "masks"];
/// Other words for a part of samples in the names of files, in lower case.
const PARTS: [&str; 8] = ["x", "data", "image", "images", "img", "imgs", "meta", "metadata"];
/// Names that a field cannot have.
const TAKEN: [&str; 4] = ["image", "label", "labels", "data"];

/// The options with the roles of all datasets, if `source` is made of such; those that the user
/// gives are kept.
///
/// # Errors
/// [`LayoutError::Doubt`] where several datasets may be the image, or have the labels.
pub(crate) fn with_roles(
    source: &Path,
    options: &PlanOptions,
) -> Result<Option<PlanOptions>, LayoutError> {
    if !matches!(options.inputs, Inputs::Images | Inputs::Arrays) {
        return Ok(None);
    }
    let of_groups = are_of_groups(&options.images);
    let columns = columns(source, &options.archive, of_groups)?;
    let Some((columns, others)) = columns else { return Ok(None) };
    if options.tile.is_some() {
        let text = "only TIFF can be cut into tiles, and these images are rows of datasets";
        return Err(setting(&["tile"], text));
    }
    let mut options = PlanOptions { inputs: Inputs::Arrays, ..options.clone() };
    if !matches!(options.payload, PayloadOptions::Encoded) {
        let text = "rows of datasets are stored as they are, as arrays";
        return Err(setting(&["payload"], text));
    }
    let has_splits = columns.iter().any(|of| !of.prefix.is_empty());
    let group = options.images.first().filter(|_| of_groups);
    let group = group.and_then(|pattern| pattern.as_str().rsplit_once('/'));
    let group = group.map(|(group, _)| group.to_owned());
    let sets = Sets { columns, others, has_splits, group };
    if options.images.is_empty() {
        options.images = vec![sets.image(source)?];
    }
    let images: BTreeSet<String> = sets.matching(&options.images);
    let has_label = options.images.iter().any(|pattern| pattern.has("label"));
    let label = match &options.labels {
        Labels::Path if has_label => None,
        Labels::Path | Labels::Column(LabelColumn::Find) => {
            let found = sets.label(source, &images, &options.fields)?;
            options.labels =
                found.clone().map_or(Labels::None, |name| Labels::Column(LabelColumn::Named(name)));
            found
        }
        Labels::Column(LabelColumn::None) => {
            options.labels = Labels::None;
            None
        }
        Labels::Column(LabelColumn::Named(name)) => {
            let is_known = sets.columns.iter().any(|column| column.name == *name);
            if !is_known {
                let text = format!("there is no dataset `{name}` with a row for each image");
                return Err(setting(&["label_column"], text));
            }
            Some(name.clone())
        }
        Labels::None | Labels::Table(_) => None,
    };
    if options.fields.is_empty() {
        options.fields = sets.fields(&images, label.as_deref())?;
    }
    Ok(Some(options))
}

/// All datasets of a source.
struct Sets {
    columns: Vec<Column>,
    others: Vec<Other>,
    has_splits: bool,
    /// The pattern of groups, if each is a sample.
    group: Option<String>,
}

impl Sets {
    /// The pattern of the rows of the dataset `name`.
    fn pattern(&self, name: &str) -> String {
        if let Some(group) = &self.group {
            return format!("{group}/{name}.npy");
        }
        let split = if self.has_splits { "{split}/" } else { "" };
        format!("{split}{name}/{{key}}.npy")
    }

    fn names(&self, of: impl Fn(&Column) -> bool) -> BTreeSet<&str> {
        let columns = self.columns.iter().filter(|column| of(column));
        columns.map(|column| column.name.as_str()).collect()
    }

    /// The names of datasets whose rows have such paths.
    fn matching(&self, patterns: &[Pattern]) -> BTreeSet<String> {
        let fits = |column: &Column| {
            let path = column.path_of(0);
            patterns.iter().any(|pattern| !matches!(pattern.read(&path), Ok(None)))
        };
        self.names(fits).into_iter().map(str::to_owned).collect()
    }

    fn image(&self, source: &Path) -> Result<Pattern, LayoutError> {
        let is_image =
            |column: &Column| column.found.kind.is_image() && !MASKS.contains(&last(&column.name));
        let found = self.names(is_image);
        let doubt = |text: String| {
            let found = found.iter();
            let way = |name: &&str| {
                WayToRead::new(&format!("if the image is `{name}`"), &[&self.pattern(name)])
            };
            let shown = source.display();
            LayoutError::from(Doubt::new(format!("`{shown}` {text}"), found.map(way).collect()))
        };
        let name = match found.iter().collect::<Vec<_>>().as_slice() {
            [] => {
                let names: Vec<String> = self.columns.iter().map(described).collect();
                let all = names.join(", ");
                let text = format!(
                    "has no dataset whose rows have height and width; its datasets of numbers: {all}"
                );
                return Err(doubt(text));
            }
            [one] => {
                let column = self.columns.iter().find(|column| column.name == **one);
                if let Some(whole) = column.and_then(one_image) {
                    let shown = source.display();
                    let text = format!(
                        "`{shown}` has the dataset `{one}` of shape {whole:?}, which may be one image; then save it in Python: `np.save(\"OUT.npy\", file[\"{one}\"])`"
                    );
                    let way =
                        WayToRead::new("if each of its rows is an image", &[&self.pattern(one)]);
                    return Err(Doubt::new(text, vec![way]).into());
                }
                **one
            }
            several if let Some((first, second)) = of_groups(several) => {
                let text = format!(
                    "`{}` has `{first}` and `{second}`, so its groups seem to be samples",
                    source.display()
                );
                let split = if self.has_splits { "{split}/" } else { "" };
                let pattern = format!("{split}{{key}}/{}.npy", last(first));
                let way = WayToRead { asks: true, ..WayToRead::new("if each is one", &[&pattern]) };
                return Err(Doubt::new(text, vec![way]).into());
            }
            several => {
                let of_name = |name: &&&str| self.columns.iter().find(|c| c.name == **name);
                let shown = several.iter().filter_map(of_name).map(described);
                let all = shown.collect::<Vec<_>>().join(", ");
                let text = format!("has several datasets that may be the image: {all}");
                return Err(doubt(text));
            }
        };
        Ok(Pattern::parse(&self.pattern(name))?)
    }

    /// The dataset with the labels; `fields` are those that the user gives.
    fn label(
        &self,
        source: &Path,
        images: &BTreeSet<String>,
        fields: &[FieldFiles],
    ) -> Result<Option<String>, LayoutError> {
        let can_be = |column: &Column| has_name_of_labels(&column.name) && can_be_labels(column);
        let found = self.names(|column| can_be(column) && self.is_beside(column, images));
        if found.is_empty() {
            self.check_no_labels(images, fields)?;
        }
        // Each split may have files of its own.
        let is_apart = |column: &&Column| {
            can_be(column)
                && (found.is_empty() || found.contains(column.name.as_str()))
                && !self.is_beside(column, images)
        };
        let mut apart = self.columns.iter().filter(is_apart);
        if let Some(doubt) = apart.find_map(|column| self.of_other_file(column, images)) {
            return Err(doubt.into());
        }
        if found.is_empty() {
            self.check_numbers_of_labels(images)?;
        }
        match found.iter().collect::<Vec<_>>().as_slice() {
            [] => Ok(None),
            [one] => Ok(Some((**one).to_owned())),
            several => {
                let way = |name: &&&str| WayToRead {
                    label_column: Some((**name).to_owned()),
                    ..WayToRead::new(&format!("if the labels are in `{name}`"), &[])
                };
                let ways = several.iter().map(way).collect();
                let text = format!("`{}` has several datasets of labels", source.display());
                Err(Doubt::new(text, ways).into())
            }
        }
    }

    /// Checks that no dataset of labels has another number of rows than the images of its file.
    fn check_numbers_of_labels(&self, images: &BTreeSet<String>) -> Result<(), LayoutError> {
        let of_labels =
            |column: &&Column| has_name_of_labels(&column.name) && can_be_labels(column);
        for column in self.columns.iter().filter(of_labels) {
            let mut of_split = self.images_of(&column.prefix, images);
            if let Some(image) = of_split.find(|image| image.file == column.file) {
                let dataset = column.name.clone();
                let (found, expected) = (column.found.n, image.found.n);
                let fault = DatasetFault::Labels { dataset, found, expected };
                return Err(SourceError::datasets(&column.file, fault).into());
            }
        }
        Ok(())
    }

    /// The images of the split of `prefix`.
    fn images_of<'a>(
        &'a self,
        prefix: &'a str,
        images: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = &'a Column> {
        self.columns
            .iter()
            .filter(move |image| image.prefix == prefix && images.contains(&image.name))
    }

    /// Checks that no dataset with a row for each image is called like labels, of which none are
    /// read.
    fn check_no_labels(
        &self,
        images: &BTreeSet<String>,
        fields: &[FieldFiles],
    ) -> Result<(), LayoutError> {
        let fail = |file: &Path, name: &str, found: String| {
            let fault = DatasetFault::LabelType { dataset: name.to_owned(), found };
            Err(SourceError::datasets(file, fault).into())
        };
        for other in self.others.iter().filter(|other| has_name_of_labels(&other.name)) {
            let mut images = self.images_of(&other.prefix, images);
            if images.any(|image| other.n.is_none_or(|n| n == image.found.n)) {
                return fail(&other.file, &other.name, other.kind.to_owned());
            }
        }
        let is_field = |column: &Column| {
            let path = column.path_of(0);
            let mut patterns = fields.iter().filter_map(|field| field.pattern.as_ref());
            patterns.any(|pattern| !matches!(pattern.read(&path), Ok(None)))
                || (field_name(&column.name).is_some()
                    && column.found.packed.is_none()
                    && !column.found.has_names)
        };
        let mut left = self.columns.iter().filter(|column| {
            has_name_of_labels(&column.name)
                && !images.contains(&column.name)
                && !can_be_labels(column)
                && !is_field(column)
                && self.is_beside(column, images)
        });
        if let Some(column) = left.next() {
            let kind = &column.found.kind;
            let found = match column.found.has_names {
                true => "numbers that stand for names, which are not read".to_owned(),
                false => format!("rows of type {:?} and shape {:?}", kind.dtype, kind.shape),
            };
            return fail(&column.file, &column.name, found);
        }
        Ok(())
    }

    /// The doubt about labels in another file than the images, if they have as many rows.
    fn of_other_file(&self, column: &Column, images: &BTreeSet<String>) -> Option<Doubt> {
        let mut of_split = self.images_of(&column.prefix, images);
        let image =
            of_split.find(|image| image.found.n == column.found.n && image.file != column.file)?;
        let text = format!(
            "`{}` in `{}` may be the labels of `{}` in `{}`, but the names of these files do not say that they belong together",
            column.name,
            column.file.display(),
            image.name,
            image.file.display()
        );
        let way = |when: &str, label: &str| WayToRead {
            label_column: Some(label.to_owned()),
            ..WayToRead::new(when, &[])
        };
        let ways = vec![
            way("if each row of the one belongs to that of the other", &column.name),
            way("to pack without labels", "none"),
        ];
        Some(Doubt::new(text, ways))
    }

    /// Whether each row of a dataset belongs to the image in the same row.
    fn is_beside(&self, column: &Column, images: &BTreeSet<String>) -> bool {
        self.images_of(&column.prefix, images).any(|image| {
            let (a, b) = (&column.found, &image.found);
            let first = |of: &Column| of.found.dimensions.first().map(|d| d.address);
            // A scale has no list of dimensions: it is one itself.
            let own = a.is_scale.then(|| a.address()).flatten();
            let same = match (own.or(first(column)), first(image)) {
                _ if column.file != image.file => subject(column) == subject(image),
                (Some(a), Some(b)) => a == b,
                _ => true,
            };
            a.n == b.n && same
        })
    }

    /// The other datasets that have a row for each image, as fields.
    fn fields(
        &self,
        images: &BTreeSet<String>,
        label: Option<&str>,
    ) -> Result<Vec<FieldFiles>, LayoutError> {
        let of_images = self.columns.iter().filter(|column| images.contains(&column.name));
        let splits: BTreeSet<&str> = of_images.map(|column| column.prefix.as_str()).collect();
        let mut fields: Vec<FieldFiles> = Vec::new();
        for name in self
            .names(|column| !images.contains(&column.name) && label != Some(column.name.as_str()))
        {
            let is_whole = splits.iter().all(|split| {
                let is_it = |column: &&Column| column.prefix == *split && column.name == name;
                let column = self.columns.iter().find(is_it);
                let usable = |c: &&Column| c.found.packed.is_none() && self.is_beside(c, images);
                column.filter(usable).is_some()
            });
            let Some(field) = field_name(name).filter(|_| is_whole) else { continue };
            if fields.iter().any(|known| known.name == field) {
                continue;
            }
            let pattern = Pattern::parse(&self.pattern(name))?;
            fields.push(FieldFiles { name: field, files: None, pattern: Some(pattern) });
        }
        Ok(fields)
    }
}

/// The shape of a dataset whose rows are images of one band, or which is one image of several bands.
fn one_image(column: &Column) -> Option<Vec<u64>> {
    let kind = &column.found.kind;
    let [_, _] = *kind.shape.as_slice() else { return None };
    let whole = [&[column.found.n], kind.shape.as_slice()].concat();
    let is_one = kind.axes.is_none() && Axes::of_array(kind.dtype, &whole) == Some(Axes::yxc());
    is_one.then_some(whole)
}

/// Two datasets of the same name in different groups that are not splits.
fn of_groups<'a>(names: &[&&'a str]) -> Option<(&'a str, &'a str)> {
    names.iter().enumerate().find_map(|(i, first)| {
        let group = |name: &str| name.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        let is_other = |other: &&&&str| {
            last(other) == last(first) && !group(other).is_empty() && !group(first).is_empty()
        };
        let second = names.get(i + 1..)?.iter().find(is_other)?;
        Some((**first as &str, **second as &str))
    })
}

fn has_name_of_labels(dataset: &str) -> bool {
    LABELS.contains(&last(dataset).to_lowercase().as_str())
}

/// Whether rows are the number of a class, or may have a 1 at its place.
fn can_be_labels(column: &Column) -> bool {
    let kind = &column.found.kind;
    let is_hot = matches!(kind.shape.as_slice(), [n] if *n > 1);
    ((kind.is_one() && kind.dtype.is_integer()) || is_hot) && !column.found.has_names
}

/// What the name of a dataset's file says, apart from the split and from which part of samples the
/// file has.
fn subject(column: &Column) -> Vec<String> {
    let stem = column.file.file_stem().unwrap_or_default().to_string_lossy();
    subject_of(&stem, last(&column.name))
}

fn subject_of(stem: &str, dataset: &str) -> Vec<String> {
    let (stem, dataset) = (stem.to_lowercase(), dataset.to_lowercase());
    let words = stem.split(|c: char| !c.is_alphanumeric()).filter(|word| {
        let is_role = PARTS.contains(word) || LABELS.contains(word) || MASKS.contains(word);
        !word.is_empty() && !is_role && *word != dataset && split_of(word).is_none()
    });
    words.map(str::to_owned).collect()
}

/// The last part of a dataset's path.
fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn described(column: &Column) -> String {
    let kind = &column.found.kind;
    format!("`{}` ({:?} {:?})", column.name, kind.dtype, kind.shape)
}

/// The name of the field that a dataset becomes.
fn field_name(dataset: &str) -> Option<FieldName> {
    let name = last(dataset).to_lowercase();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let name = if MASKS.contains(&name.as_str()) { "mask" } else { &name };
    FieldName::parse(name).filter(|_| !TAKEN.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_called_like_datasets() {
        let check = |dataset: &str, expected: Option<&str>| {
            let found = field_name(dataset);
            assert_eq!(found.as_ref().map(FieldName::as_str), expected, "{dataset}");
        };
        check("a/Sen-1", Some("sen_1"));
        check("masks", Some("mask"));
        check("label", None);
        check("0", None);
    }

    #[test]
    fn files_belong_together_by_their_names() {
        let check = |one: (&str, &str), other: (&str, &str), expected| {
            let found = subject_of(one.0, one.1) == subject_of(other.0, other.1);
            assert_eq!(found, expected, "{one:?} {other:?}");
        };
        let cam = "camelyonpatch_level_2_split_train";
        check((&format!("{cam}_x"), "x"), (&format!("{cam}_y"), "y"), true);
        check((&format!("{cam}_x"), "x"), (&format!("{cam}_meta"), "center"), true);
        check(("images", "images"), ("Labels", "labels"), true);
        check(("sen2_train", "sen2"), ("train-label", "label"), true);
        check(("2019", "images"), ("2020", "labels"), false);
        check(("2019_x", "x"), ("2020_y", "y"), false);
        check(("2019_x", "x"), ("2019_y", "y"), true);
        check(("level_1_x", "x"), ("level_2_y", "y"), false);
    }

    #[test]
    fn groups_of_like_datasets_are_told_from_datasets_of_one_sample_per_row() {
        let found = |names: &[&str]| {
            let names: Vec<&&str> = names.iter().collect();
            of_groups(&names).map(|(a, b)| (a.to_owned(), b.to_owned()))
        };
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(found(&["p1/post", "p1/pre", "p2/post", "p2/pre"]), pair("p1/post", "p2/post"));
        assert_eq!(found(&["sen1", "sen2"]), None);
        assert_eq!(found(&["images", "test/images"]), None);
    }
}
