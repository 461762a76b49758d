//! The files of a field, found by what they have in common with their images.

use std::borrow::Cow;

use crate::facts::{Pattern, UnicodeForm, composed, setting, stem_and_extension};
use crate::layout::{Layout, LayoutError, Placed};
use crate::source::{FieldFiles, Source};

/// Most different endings; if there are more, they are parts of names.
const MOST_ENDINGS: usize = 1000;

/// Stores 32 bytes for each file, whatever the length of its path: 128 bits of the digest of what it
/// has in common with its image, its size and its ending.
#[derive(Debug)]
pub(crate) struct Stems {
    files: Vec<([u8; 16], u64, u16, UnicodeForm)>,
    /// Extensions, or what else paths have of their own.
    endings: Vec<String>,
    form: Form,
}

/// What a file has in common with its image.
#[derive(Debug)]
enum Form {
    /// The path without extension.
    Stem,
    /// These parts of a pattern.
    Parts(Pattern, Vec<String>),
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

impl Stems {
    /// Lists all files of a field, but hidden ones.
    pub(crate) fn list(
        source: &Source,
        field: &FieldFiles,
        layout: &Layout,
    ) -> Result<Self, LayoutError> {
        let form = match &field.pattern {
            None => Form::Stem,
            Some(pattern) => Form::Parts(pattern.clone(), layout.shared(pattern)?),
        };
        let mut stems = Self { files: Vec::new(), endings: Vec::new(), form };
        source.files::<LayoutError>(&mut |path, bytes| {
            let Some((common, ending)) = stems.form.divide(path)? else { return Ok(()) };
            let at = stems.endings.iter().position(|e| *e == ending);
            let at = at.unwrap_or_else(|| {
                stems.endings.push(ending);
                stems.endings.len() - 1
            });
            if stems.endings.len() > MOST_ENDINGS {
                let (name, shown) = (&field.name, source.path().display());
                return Err(setting(&["field"], format!(
                    "the files for field `{name}` in `{shown}` differ in more than {MOST_ENDINGS} ways from the paths of images, such as `{path}`"
                )));
            }
            let at = u16::try_from(at).unwrap_or(u16::MAX);
            stems.files.push((hash(&composed(&common)), bytes, at, UnicodeForm::of(&common)));
            Ok(())
        })?;
        stems.files.sort_unstable();
        Ok(stems)
    }

    pub(crate) fn len(&self) -> u64 {
        self.files.len() as u64
    }

    /// Returns all files that belong to an image.
    pub(crate) fn find(&self, image: &str, placed: &Placed<'_>) -> Vec<Found> {
        let (stem, values) = self.form.common(image, placed);
        let common = match self.form {
            Form::Stem => stem.to_owned(),
            Form::Parts(..) => values.join("\0"),
        };
        let hash = hash(&composed(&common));
        let first = self.files.partition_point(|(h, ..)| *h < hash);
        let same = self.files.get(first..).unwrap_or_default();
        let same = same.iter().take_while(|(h, ..)| *h == hash);
        let found = same.filter_map(|(_, bytes, ending, form)| {
            let ending = self.endings.get(usize::from(*ending))?;
            // The file's own name may be in another form of Unicode than the image's.
            let path = match &self.form {
                Form::Stem => form.write(stem).into_owned() + ending,
                Form::Parts(pattern, shared) => {
                    let values: Vec<Cow<'_, str>> =
                        values.iter().map(|of| form.write(of)).collect();
                    let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
                    pattern.fill(ending, shared, &values)
                }
            };
            Some(Found { path, bytes: *bytes })
        });
        found.collect()
    }

    /// Words for the files that an image should have.
    pub(crate) fn wanted(&self, image: &str, placed: &Placed<'_>) -> String {
        let (stem, values) = self.form.common(image, placed);
        match &self.form {
            Form::Stem => format!("`{stem}.*`"),
            Form::Parts(pattern, shared) => {
                let parts = shared.iter().zip(values);
                let parts: Vec<String> = parts.map(|(name, v)| format!("{name} `{v}`")).collect();
                format!("`{pattern}` with {}", parts.join(", "))
            }
        }
    }
}

impl Form {
    /// What a file has in common with its image, and what it has of its own.
    fn divide(&self, path: &str) -> Result<Option<(String, String)>, LayoutError> {
        let (pattern, shared) = match self {
            Self::Stem => {
                let (stem, _) = stem_and_extension(path);
                let ending = path.get(stem.len()..).unwrap_or_default();
                return Ok(Some((stem.to_owned(), ending.to_owned())));
            }
            Self::Parts(pattern, shared) => (pattern, shared),
        };
        let values =
            pattern.read(path).map_err(|two| LayoutError::two_readings(path, pattern, two))?;
        let Some(values) = values else { return Ok(None) };
        let common: Vec<&str> = shared.iter().filter_map(|name| values.get(name)).collect();
        let own = pattern.template(path, shared);
        Ok(own.map(|own| (common.join("\0"), own)))
    }

    /// The stem of an image, and its values of the parts in common.
    fn common<'a>(&self, image: &'a str, placed: &Placed<'a>) -> (&'a str, Vec<&'a str>) {
        match self {
            Self::Stem => (stem_and_extension(image).0, Vec::new()),
            Self::Parts(_, shared) => {
                (image, shared.iter().filter_map(|name| placed.values.get(name)).collect())
            }
        }
    }
}

fn hash(common: &str) -> [u8; 16] {
    let hash = blake3::hash(common.as_bytes());
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}
