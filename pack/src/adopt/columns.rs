//! Decides which columns become which fields.

use std::collections::{BTreeMap, BTreeSet};

use gular_bundle::{Axes, Column, Dtype, Field, FieldName, Survey, Values};

use crate::error::Error;
use crate::facts::{RunError, setting};
use crate::plan::{PlanError, array_axes};

/// Names that columns of images go by, best first.
const IMAGE_NAMES: [&str; 8] = ["image", "img", "images", "jpg", "jpeg", "png", "data", "x"];
/// Names that columns of labels go by, best first.
const LABEL_NAMES: [&str; 8] =
    ["label", "labels", "class", "cls", "target", "y", "fine_label", "category"];
/// Names that columns of keys go by, best first.
const KEY_NAMES: [&str; 6] = ["key", "__key__", "filename", "file_name", "path", "image.path"];
/// The word for labels that are the folders of keys, and not a column.
pub(crate) const FOLDER: &str = "folder";
/// The field that is on the pixels of the image in any case.
const MASK: &str = "mask";
/// Most class names; texts with more different values are not classes.
const MOST_CLASSES: usize = 1 << 20;

/// The user's options for columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) image: Option<String>,
    /// What the axes of arrays mean, by field; `None` for a field that is not on the pixels of the
    /// image.
    pub(crate) axes: BTreeMap<FieldName, Option<Axes>>,
    /// The column of labels; [`FOLDER`] takes the folders of keys.
    pub(crate) label: Option<String>,
    /// Whether the files are trees of folders, as they were on a disk.
    pub(crate) trees: bool,
    /// `Some(None)`: keys are made from file names and rows.
    pub(crate) key: Option<Option<String>>,
}

/// The type of all columns with one name, in all files together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoredKind {
    Bytes,
    Fixed(Dtype, Vec<u64>),
    Integers,
    Texts,
    /// The column cannot be read in place, for this reason.
    Unusable(String),
}

/// The columns of all files.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The columns, in order of appearance.
    columns: Vec<(String, StoredKind)>,
    /// Values of columns that may be labels in words.
    words: BTreeMap<String, BTreeSet<String>>,
    /// Names of values, by column; by the empty name those of the labels,
    /// whichever column they are.
    classes: BTreeMap<String, Vec<String>>,
    /// Columns whose values have different names in different files, each with one such file.
    disputed: BTreeMap<String, String>,
    files: usize,
    /// Number of files that have a column.
    seen: BTreeMap<String, usize>,
}

impl Found {
    /// Takes in what a file has; `path` is for messages.
    pub(crate) fn add(&mut self, path: &str, survey: &Survey) -> Result<(), Error> {
        self.files += 1;
        for (column, names) in survey.classes.iter().filter(|(_, names)| !names.is_empty()) {
            let known = self.classes.entry(column.clone()).or_insert_with(|| names.clone());
            if known != names {
                self.disputed.entry(column.clone()).or_insert_with(|| path.to_owned());
            }
        }
        for column in &survey.columns {
            *self.seen.entry(column.name.clone()).or_default() += 1;
            let kind = kind(column);
            match self.columns.iter_mut().find(|(name, _)| *name == column.name) {
                None => self.columns.push((column.name.clone(), kind)),
                Some((_, known)) if *known == kind => {}
                Some((_, StoredKind::Unusable(_))) => {}
                // Integers that are not stored alike in all files are copied into the indexes.
                Some((_, known)) if is_integers(known) && is_integers(&kind) => {
                    *known = StoredKind::Integers;
                }
                Some((_, known)) => {
                    *known = match kind {
                        StoredKind::Unusable(reason) => {
                            StoredKind::Unusable(format!("in `{path}` {reason}"))
                        }
                        _ => StoredKind::Unusable(format!("it has another type in `{path}`")),
                    };
                }
            }
            if let Values::Texts(texts) = &column.values {
                let words = self.words.entry(column.name.clone()).or_default();
                if words.len() <= MOST_CLASSES && LABEL_NAMES.contains(&column.name.as_str()) {
                    words.extend(texts.iter().flatten().cloned());
                }
            }
        }
        Ok(())
    }

    /// The names that files give to the values of a column of labels.
    fn class_names(&self, column: &str) -> Result<Vec<String>, Error> {
        let name = if self.classes.contains_key(column) { column } else { "" };
        if let Some(path) = self.disputed.get(name) {
            let text = format!("`{path}` has different class names than the files before it");
            return Err(RunError::Option(text).into());
        }
        Ok(self.classes.get(name).cloned().unwrap_or_default())
    }

    fn kind(&self, name: &str) -> Option<&StoredKind> {
        self.columns.iter().find(|(n, _)| n == name).map(|(_, kind)| kind)
    }

    fn names(&self) -> String {
        let shown = |(name, kind): &(String, StoredKind)| match kind {
            StoredKind::Unusable(reason) => format!("`{name}` (not in place: {reason})"),
            _ => format!("`{name}`"),
        };
        self.columns.iter().map(shown).collect::<Vec<_>>().join(", ")
    }
}

fn is_integers(kind: &StoredKind) -> bool {
    match kind {
        StoredKind::Integers => true,
        StoredKind::Fixed(dtype, shape) => shape.is_empty() && dtype.is_integer(),
        _ => false,
    }
}

fn kind(column: &Column) -> StoredKind {
    match &column.values {
        Values::Bytes(_) => StoredKind::Bytes,
        Values::Fixed { dtype, shape, .. } => StoredKind::Fixed(*dtype, shape.clone()),
        Values::Integers(_) => StoredKind::Integers,
        Values::Texts(_) => StoredKind::Texts,
        Values::NotStored(reason) => StoredKind::Unusable(reason.clone()),
    }
}

/// The way in which a field's values are taken from its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// They are read in place, as they are stored.
    InPlace,
    /// Integers, by value or read from the file: labels.
    Numbers,
    /// They are class names, which become labels.
    Words,
    /// The folders of keys become labels.
    Folder,
}

/// The field that each column becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Fields and their columns; media types of bytes fields come later.
    pub(crate) fields: Vec<(Field, String, Take)>,
    /// The column of keys; `None`: made from file names and rows.
    pub(crate) key: Option<String>,
    /// Whether keys may be made from file names and rows if the column cannot be used.
    pub(crate) key_is_a_guess: bool,
    pub(crate) classes: Vec<String>,
    /// Columns that did not become a field, and why.
    pub(crate) left_out: BTreeMap<String, String>,
}

/// Chooses the roles; an error lists the columns.
pub(crate) fn choose(found: &Found, wanted: &Wanted) -> Result<Roles, Error> {
    let there = |name: &String| match found.kind(name) {
        Some(_) => Ok(name.clone()),
        None => Err(setting::<Error>(
            &["image_column", "label_column", "key_column"],
            format!("there is no column `{name}`; the columns are {}", found.names()),
        )),
    };
    let image = match &wanted.image {
        Some(name) => there(name)?,
        None => guess_image(found)?,
    };
    if let Some(StoredKind::Unusable(reason)) = found.kind(&image) {
        let (column, reason) = (image, reason.clone());
        return Err(Error::NotInPlace { column, reason });
    }
    let label = match &wanted.label {
        Some(name) if name == FOLDER => Some(name.clone()),
        Some(name) => Some(there(name)?),
        None => LABEL_NAMES
            .into_iter()
            .find(|n| found.kind(n).is_some())
            .or(wanted.trees.then_some(FOLDER))
            .map(str::to_owned),
    };
    let (key, key_is_a_guess) = match &wanted.key {
        Some(Some(name)) => (Some(there(name)?), false),
        Some(None) => (None, false),
        None => {
            let text = |n: &&str| found.kind(n) == Some(&StoredKind::Texts) && found.everywhere(n);
            (KEY_NAMES.into_iter().find(text).map(str::to_owned), true)
        }
    };
    if let Some(name) = key.as_ref().filter(|n| found.kind(n) != Some(&StoredKind::Texts)) {
        return Err(setting(
            &["key_column"],
            format!("the column `{name}` does not hold text, which keys need"),
        ));
    }
    let mut roles = Roles {
        fields: Vec::new(),
        key,
        key_is_a_guess,
        classes: Vec::new(),
        left_out: BTreeMap::new(),
    };
    let axes = wanted.axes.get(&FieldName::image()).and_then(Option::as_ref);
    roles.take_image(found, &image, axes)?;
    match label.as_deref() {
        Some(FOLDER) if found.kind(FOLDER).is_none() => {
            roles.fields.push((Field::label(), FOLDER.to_owned(), Take::Folder));
        }
        Some(label) => roles.take_label(found, label)?,
        None => {}
    }
    for (name, kind) in &found.columns {
        if *name != image && Some(name) != label.as_ref() && Some(name) != roles.key.as_ref() {
            roles.take_other(found, name, kind, wanted)?;
        }
    }
    roles.check_axes(wanted)?;
    Ok(roles)
}

impl Found {
    fn everywhere(&self, name: &str) -> bool {
        self.seen.get(name) == Some(&self.files)
    }
}

fn guess_image(found: &Found) -> Result<String, Error> {
    let named = IMAGE_NAMES.into_iter().find(|n| {
        matches!(found.kind(n), Some(StoredKind::Bytes | StoredKind::Unusable(_)))
            || matches!(found.kind(n), Some(StoredKind::Fixed(_, shape)) if shape.len() > 1)
    });
    let only = || {
        let fits = |(_, kind): &&(String, StoredKind)| match kind {
            StoredKind::Bytes => true,
            StoredKind::Fixed(_, shape) => shape.len() > 1,
            _ => false,
        };
        let mut fitting = found.columns.iter().filter(fits);
        fitting.next().filter(|_| fitting.next().is_none()).map(|(name, _)| name.clone())
    };
    named.map(str::to_owned).or_else(only).ok_or_else(|| {
        setting(
            &["image_column"],
            format!("it is not clear which column holds the images: there are {}", found.names()),
        )
    })
}

impl Roles {
    fn take_image(
        &mut self,
        found: &Found,
        column: &str,
        axes: Option<&Axes>,
    ) -> Result<(), Error> {
        let field = match found.kind(column) {
            Some(StoredKind::Bytes) => Field::bytes(FieldName::image(), Vec::new()),
            Some(StoredKind::Fixed(dtype, shape)) => {
                let axes = Some(array_axes(column, (*dtype, shape), None, axes)?);
                Field { axes, ..Field::fixed(FieldName::image(), *dtype, shape.clone()) }
            }
            _ => {
                return Err(setting(
                    &["image_column"],
                    format!("the column `{column}` does not hold images"),
                ));
            }
        };
        if !found.everywhere(column) {
            return Err(setting(
                &["image_column"],
                format!("some files do not have the column `{column}`"),
            ));
        }
        self.fields.push((field, column.to_owned(), Take::InPlace));
        Ok(())
    }

    fn take_label(&mut self, found: &Found, column: &str) -> Result<(), Error> {
        let take = match found.kind(column) {
            Some(StoredKind::Fixed(Dtype::I64, shape))
                if shape.is_empty() && found.everywhere(column) =>
            {
                Take::InPlace
            }
            Some(kind) if is_integers(kind) => Take::Numbers,
            Some(StoredKind::Texts) => {
                let words = found.words.get(column).cloned().unwrap_or_default();
                if words.is_empty() || words.len() > MOST_CLASSES {
                    self.left_out
                        .insert(column.to_owned(), "its values are not class names".to_owned());
                    return Ok(());
                }
                self.classes = words.into_iter().collect();
                Take::Words
            }
            Some(StoredKind::Unusable(reason)) => {
                let (column, reason) = (column.to_owned(), reason.clone());
                return Err(Error::NotInPlace { column, reason });
            }
            _ => {
                self.left_out
                    .insert(column.to_owned(), "it does not hold class numbers".to_owned());
                return Ok(());
            }
        };
        if take != Take::Words {
            self.classes = found.class_names(column)?;
        }
        self.fields.push((Field::label(), column.to_owned(), take));
        Ok(())
    }

    fn take_other(
        &mut self,
        found: &Found,
        column: &str,
        kind: &StoredKind,
        wanted: &Wanted,
    ) -> Result<(), Error> {
        let reason = match kind {
            StoredKind::Bytes => {
                let field = Field::bytes(self.name(column), Vec::new());
                self.fields.push((field, column.to_owned(), Take::InPlace));
                return Ok(());
            }
            StoredKind::Fixed(dtype, shape) if found.everywhere(column) => {
                let name = self.name(column);
                let given = wanted.axes.get(&name);
                let (axes, on_image) = self.place(column, &name, shape, given)?;
                let grid = on_image.then(FieldName::image);
                let field = Field { axes, grid, ..Field::fixed(name, *dtype, shape.clone()) };
                self.fields.push((field, column.to_owned(), Take::InPlace));
                return Ok(());
            }
            StoredKind::Fixed(..) => "some files do not have this column",
            StoredKind::Integers => "its integers are not all of one type",
            StoredKind::Texts => "columns of text cannot become fields",
            StoredKind::Unusable(reason) => reason,
        };
        self.left_out.insert(column.to_owned(), reason.to_owned());
        Ok(())
    }

    /// Finds what the axes of a column of arrays mean, and whether its values are on the pixels of
    /// the image, as for the files of a field.
    fn place(
        &self,
        column: &str,
        name: &FieldName,
        shape: &[u64],
        given: Option<&Option<Axes>>,
    ) -> Result<(Option<Axes>, bool), Error> {
        let wrong = |reason| Err(PlanError::WrongAxes { key: column.to_owned(), reason }.into());
        let readings = match given {
            Some(None) => return Ok((None, false)),
            Some(Some(axes)) if axes.n() != shape.len() => {
                return wrong(format!("it has the shape {shape:?}, not the axes `{axes}`"));
            }
            Some(Some(axes)) => vec![axes.clone()],
            // A mask always is on the pixels, and has these axes.
            None if name.as_str() == MASK => return Ok((None, false)),
            None => {
                let all = [Axes::yx(), Axes::yxc(), Axes::cyx()].into_iter();
                all.filter(|axes| axes.n() == shape.len()).collect()
            }
        };
        let given = given.cloned().flatten();
        let image = self.fields.iter().find(|(field, ..)| field.is_image());
        let image = image.and_then(|(field, ..)| {
            let (_, shape) = field.as_fixed()?;
            field.axes.as_ref()?.grid(shape)
        });
        let Some(image) = image else { return Ok((given, false)) };
        let is_on = |axes: &&Axes| {
            let grid = axes.grid(shape);
            grid.is_some_and(|grid| (grid.width, grid.height) == (image.width, image.height))
        };
        let mut fitting = readings.iter().filter(is_on);
        match (fitting.next(), fitting.next(), given) {
            (Some(axes), None, _) => Ok((Some(axes.clone()), true)),
            (Some(_), Some(_), _) => Err(PlanError::UnknownAxes {
                key: column.to_owned(),
                field: name.clone(),
                shape: shape.to_vec(),
            }
            .into()),
            (None, _, Some(axes)) if axes.grid(shape).is_some() => wrong(format!(
                "it has the shape {shape:?} and the axes `{axes}`, but the image has {} x {} pixels",
                image.width, image.height
            )),
            (None, _, given) => Ok((given, false)),
        }
    }

    /// Checks that axes were given only for arrays.
    fn check_axes(&self, wanted: &Wanted) -> Result<(), Error> {
        let fail = |text: String| Err(setting(&["axes"], text));
        for (name, axes) in &wanted.axes {
            let field = self.fields.iter().map(|(field, ..)| field).find(|of| of.name == *name);
            match field {
                None => {
                    let fields = self.fields.iter().map(|(field, ..)| format!("`{}`", field.name));
                    let fields: Vec<String> = fields.collect();
                    return fail(format!(
                        "axes were given for the field `{name}`, but the fields are {}",
                        fields.join(", ")
                    ));
                }
                Some(field) if field.is_mask() || field.is_label() => {
                    return fail(format!(
                        "axes were given for the field `{name}`, whose meaning is fixed"
                    ));
                }
                Some(field) if field.is_bytes() && axes.is_some() => {
                    return fail(format!(
                        "axes were given for the field `{name}`, whose values are not arrays"
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// A field's name made of a column's, unlike the others.
    fn name(&self, column: &str) -> FieldName {
        let plain = |c: char| {
            let c = c.to_ascii_lowercase();
            if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '_' }
        };
        let mut text: String = column.chars().map(plain).take(56).collect();
        if !text.starts_with(|c: char| c.is_ascii_lowercase()) {
            text.insert(0, 'f');
        }
        let taken = |name: &FieldName| self.fields.iter().any(|(f, _, _)| f.name == *name);
        let candidates =
            (1_u64..).map(|n| if n == 1 { text.clone() } else { format!("{text}_{n}") });
        let reserved = ["image", "label"];
        let mut names = candidates.filter(|t| !reserved.contains(&t.as_str()));
        names
            .find_map(|t| FieldName::parse(&t).filter(|n| !taken(n)))
            .unwrap_or_else(FieldName::image)
    }
}

#[cfg(test)]
mod tests {
    use gular_bundle::Run;

    use super::*;

    fn survey(columns: &[(&str, Values)]) -> Survey {
        let column = |(name, values): &(&str, Values)| Column {
            name: (*name).into(),
            values: values.clone(),
        };
        Survey { rows: 1, columns: columns.iter().map(column).collect(), classes: BTreeMap::new() }
    }

    fn bytes() -> Values {
        Values::Bytes(vec![Some(Run::default())])
    }

    fn roles(columns: &[(&str, Values)], wanted: &Wanted) -> Result<Roles, Error> {
        let mut found = Found::default();
        found.add("f", &survey(columns)).unwrap();
        choose(&found, wanted)
    }

    #[test]
    fn the_usual_names_are_known() {
        let texts = Values::Texts(vec![Some("cat".into())]);
        let columns =
            [("__key__", texts.clone()), ("jpg", bytes()), ("Seg.png", bytes()), ("cls", texts)];
        let roles = roles(&columns, &Wanted::default()).unwrap();
        let names: Vec<_> =
            roles.fields.iter().map(|(f, c, t)| (f.name.as_str(), c.as_str(), *t)).collect();
        let expected = [
            ("image", "jpg", Take::InPlace),
            ("label", "cls", Take::Words),
            ("seg_png", "Seg.png", Take::InPlace),
        ];
        assert_eq!(names, expected);
        assert_eq!((roles.key.as_deref(), roles.classes), (Some("__key__"), vec!["cat".into()]));
    }

    #[test]
    fn what_is_not_clear_is_asked() {
        let two = [("left", bytes()), ("right", bytes())];
        let error = roles(&two, &Wanted::default()).unwrap_err().to_string();
        assert!(error.contains("it is not clear") && error.contains("`right`"), "{error}");
        let wanted = Wanted { image: Some("left".into()), ..Wanted::default() };
        assert_eq!(roles(&two, &wanted).unwrap().fields.len(), 2);
        let wanted = Wanted { image: Some("up".into()), ..Wanted::default() };
        roles(&two, &wanted).unwrap_err();
        let squeezed = [("image", Values::NotStored("compressed with snappy".into()))];
        let error = roles(&squeezed, &Wanted::default()).unwrap_err();
        assert!(matches!(error, Error::NotInPlace { .. }), "{error}");
    }
    #[test]
    fn class_names_are_those_of_the_column_that_is_the_label() {
        let integers = Values::Integers(vec![Some(0)]);
        let columns = [("image", bytes()), ("label", integers.clone()), ("quality", integers)];
        let named = |names: &[(&str, &str)]| Survey {
            classes: names.iter().map(|(c, n)| ((*c).into(), vec![(*n).into()])).collect(),
            ..survey(&columns)
        };
        let classes = |files: &[Survey], label: Option<&str>| {
            let mut found = Found::default();
            files.iter().for_each(|file| found.add("f", file).unwrap());
            let wanted = Wanted { label: label.map(str::to_owned), ..Wanted::default() };
            choose(&found, &wanted).map(|roles| roles.classes)
        };
        let quality = [named(&[("quality", "good")])];
        assert_eq!(classes(&quality, None).unwrap(), Vec::<String>::new());
        assert_eq!(classes(&quality, Some("quality")).unwrap(), ["good"]);
        let both = [named(&[("quality", "good"), ("label", "cat")])];
        assert_eq!(classes(&both, None).unwrap(), ["cat"]);
        assert_eq!(classes(&both, Some("quality")).unwrap(), ["good"]);
        // Class names without a column are those of the labels.
        assert_eq!(classes(&[named(&[("", "dog")])], None).unwrap(), ["dog"]);
        // Files need not agree on columns that are not used.
        let files = [named(&[("quality", "good")]), named(&[("quality", "bad")])];
        classes(&files, None).unwrap();
        let error = classes(&files, Some("quality")).unwrap_err().to_string();
        assert!(error.contains("different class names"), "{error}");
    }
    #[test]
    fn labels_with_nulls_in_some_files_are_labels() {
        let in_place = |dtype| Values::Fixed {
            dtype,
            shape: Vec::new(),
            places: gular_bundle::FixedPlaces::Stride(0),
        };
        let nulls = || Values::Integers(vec![None]);
        let take = |labels: [Values; 2]| {
            let mut found = Found::default();
            for values in labels {
                found.add("f", &survey(&[("image", bytes()), ("label", values)])).unwrap();
            }
            choose(&found, &Wanted::default()).map(|roles| roles.fields.last().unwrap().2)
        };
        assert_eq!(take([in_place(Dtype::I64), in_place(Dtype::I64)]).unwrap(), Take::InPlace);
        for labels in [
            [in_place(Dtype::I64), nulls()],
            [nulls(), in_place(Dtype::I32)],
            [in_place(Dtype::U8), in_place(Dtype::I64)],
        ] {
            assert_eq!(take(labels).unwrap(), Take::Numbers);
        }
        let error = take([in_place(Dtype::F32), nulls()]).unwrap_err();
        assert!(matches!(error, Error::NotInPlace { .. }), "{error}");
    }
}
