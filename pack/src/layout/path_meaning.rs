//! The meaning of each path, by patterns.

use std::borrow::Cow;

use gular_bundle::{Field, FieldName, Split};

use crate::facts::{BAND, DATE, EXT, KEY, LABEL, Pattern, SPLIT, Values, composed, split_of};
use crate::layout::LayoutError;

/// The name of what belongs together when splits are made.
const GROUP: &str = "group";

/// Parts of paths that are axes of arrays.
const AXES: [&str; 2] = [BAND, DATE];

/// What people call the class, beside `label`: the names that other tools give it.
const CLASS_WORDS: [&str; 5] = ["class", "classname", "class_name", "category", "target"];

/// The patterns by which a source is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layout {
    /// The patterns; those that say the most are first.
    patterns: Vec<Pattern>,
    /// Names that become fields of text.
    fields: Vec<FieldName>,
}

/// The meaning of a path.
#[derive(Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) split: Option<Split>,
    /// The class, in the composed form of Unicode.
    pub(crate) label: Option<Cow<'a, str>>,
    pub(crate) values: Values<'a>,
}

impl Layout {
    /// Takes the patterns of images.
    ///
    /// # Errors
    /// [`LayoutError::NoField`] if a part cannot become a field; [`LayoutError::Lacks`] if only
    /// some patterns have it.
    pub fn new(patterns: Vec<Pattern>) -> Result<Self, LayoutError> {
        Self::of_parts(patterns, &[])
    }

    /// Takes the patterns of arrays, in which bands and dates are axes of a sample.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn of_arrays(patterns: Vec<Pattern>) -> Result<Self, LayoutError> {
        Self::of_parts(patterns, &AXES)
    }

    /// Takes patterns; those of `axes` do not become fields.
    fn of_parts(mut patterns: Vec<Pattern>, axes: &[&str]) -> Result<Self, LayoutError> {
        patterns.sort_by(|a, b| b.weight().cmp(&a.weight()).then(a.as_str().cmp(b.as_str())));
        let mut fields: Vec<FieldName> = Vec::new();
        for pattern in &patterns {
            for name in pattern.names() {
                let is_known = [SPLIT, LABEL, KEY, EXT, GROUP].contains(&name.as_str());
                if is_known || axes.contains(&name.as_str()) {
                    continue;
                }
                let reserved =
                    ["image", "labels", "data", "mask", "boxes"].contains(&name.as_str());
                let field = FieldName::parse(name).filter(|_| !reserved).ok_or_else(|| {
                    let (pattern, name) = (pattern.to_string(), name.clone());
                    LayoutError::NoField { pattern, name }
                })?;
                if !fields.contains(&field) {
                    fields.push(field);
                }
            }
        }
        for field in &fields {
            let has = |pattern: &&Pattern| pattern.has(field.as_str());
            if let Some(without) = patterns.iter().find(|pattern| !has(pattern)) {
                let other = patterns.iter().find(has).map_or_else(String::new, Pattern::to_string);
                let (pattern, name) = (without.to_string(), field.to_string());
                return Err(LayoutError::Lacks { pattern, name, other });
            }
        }
        fields.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        Ok(Self { patterns, fields })
    }

    /// Checks that no name is a slip of the pen for one that means something, which would become a
    /// field of text in silence; `labelled` says that paths should name classes.
    pub(crate) fn check_names(&self, labelled: bool) -> Result<(), LayoutError> {
        let meant = |name: &str| {
            let wants = |known: &str| !self.has(known) && (labelled || known != LABEL);
            let is_class = wants(LABEL) && CLASS_WORDS.contains(&name);
            let near = |known: &str| strsim::osa_distance(known, name) <= known.len() / 3;
            let likely = [SPLIT, LABEL, KEY, GROUP].into_iter().find(|k| wants(k) && near(k));
            if is_class { Some(LABEL) } else { likely }
        };
        for field in &self.fields {
            if let Some(meant) = meant(field.as_str()) {
                let with = self.patterns.iter().find(|pattern| pattern.has(field.as_str()));
                let pattern = with.map_or_else(String::new, Pattern::to_string);
                let name = field.to_string();
                return Err(LayoutError::Meant { pattern, name, meant });
            }
        }
        Ok(())
    }

    /// The patterns; those that say the most are first.
    #[must_use]
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// The patterns that say more of a sample than its key.
    pub(crate) fn telling(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().filter(|p| p.says_more_than_keys()).map(Pattern::as_str)
    }

    /// Whether some pattern finds or sets a value of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.has(name))
    }

    /// Whether every pattern has this name.
    pub(crate) fn all_have(&self, name: &str) -> bool {
        !self.patterns.is_empty() && self.patterns.iter().all(|pattern| pattern.has(name))
    }

    /// Whether paths name classes.
    #[must_use]
    pub fn has_labels(&self) -> bool {
        self.has(LABEL)
    }

    /// Whether paths name splits.
    #[must_use]
    pub fn has_splits(&self) -> bool {
        self.has(SPLIT)
    }

    /// The patterns, with nothing in place of splits.
    pub(crate) fn without_splits(&self) -> Vec<String> {
        self.patterns.iter().map(Pattern::without_split).collect()
    }

    /// The names that a pattern of other files has in common with those of images.
    pub(crate) fn shared(&self, other: &Pattern) -> Result<Vec<String>, LayoutError> {
        let all_have = |name: &&String| self.patterns.iter().all(|pattern| pattern.has(name));
        let names = other.names().iter().filter(|name| *name != EXT).filter(all_have);
        let names: Vec<String> = names.cloned().collect();
        if names.is_empty() {
            let images = self.patterns.first().map_or_else(String::new, Pattern::to_string);
            return Err(LayoutError::NothingShared { pattern: other.to_string(), images });
        }
        Ok(names)
    }

    /// The fields of text that parts of paths become.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> {
        let text = || vec!["text/plain".to_owned()];
        self.fields.iter().map(move |name| Field::bytes(name.clone(), text()))
    }

    /// The values of these fields.
    pub(crate) fn values(&self, values: &Values<'_>) -> Vec<serde_json::Value> {
        let of = |name: &FieldName| values.get(name.as_str()).unwrap_or_default().into();
        self.fields.iter().map(of).collect()
    }

    /// The meaning of a path; `None` if no pattern fits it.
    pub(crate) fn place<'a>(&'a self, path: &'a str) -> Result<Option<Placed<'a>>, LayoutError> {
        let mut found: Option<(&Pattern, Values<'_>)> = None;
        for pattern in &self.patterns {
            if found.as_ref().is_some_and(|(first, _)| first.weight() > pattern.weight()) {
                break;
            }
            let values =
                pattern.read(path).map_err(|two| LayoutError::two_readings(path, pattern, two))?;
            match (&found, values) {
                (_, None) => {}
                (None, Some(values)) => found = Some((pattern, values)),
                (Some((first, _)), Some(_)) => {
                    return Err(LayoutError::TwoPatterns {
                        path: path.to_owned(),
                        first: first.to_string(),
                        second: pattern.to_string(),
                    });
                }
            }
        }
        let Some((_, values)) = found else { return Ok(None) };
        let split = match values.get(SPLIT) {
            None => None,
            Some(word) => Some(split_of(word).ok_or_else(|| LayoutError::UnknownSplit {
                path: path.to_owned(),
                word: word.to_owned(),
            })?),
        };
        Ok(Some(Placed { split, label: values.get(LABEL).map(composed), values }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(patterns: &[&str]) -> Result<Layout, LayoutError> {
        Layout::new(patterns.iter().map(|text| Pattern::parse(text).unwrap()).collect())
    }

    #[test]
    fn the_pattern_that_says_the_most_counts() {
        let layout =
            layout(&["{label}/{key}.{ext}", "{split=test}extra/{key}.{ext}", "old/{label}/{key}"])
                .unwrap();
        let place =
            |path| layout.place(path).unwrap().map(|p| (p.split, p.label.map(String::from)));
        assert_eq!(place("cat/1.jpg"), Some((None, Some("cat".to_owned()))));
        assert_eq!(place("extra/1.jpg"), Some((Some(Split::Test), None)));
        assert_eq!(place("old/dog/1.jpg"), Some((None, Some("dog".to_owned()))));
        assert!(place("1.jpg").is_none());
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        let of = |patterns: &[&str], path: &str| {
            layout(patterns).unwrap().place(path).unwrap_err().to_string()
        };
        let error = of(&["a/{key}", "{key}/b"], "a/b");
        assert_eq!(error, "the patterns `a/{key}` and `{key}/b` fit `a/b` equally well");
        let error = of(&["{label}_{key}"], "a_b_1");
        assert!(error.contains("`label` may be `a` or `a_b`"), "{error}");
        let error = of(&["{split}/{key}"], "half/1");
        assert!(error.contains("`half/1` has the split `half`"), "{error}");
    }

    #[test]
    fn other_names_become_fields_of_all_samples() {
        let found = layout(&["{patient}/{date}/{key}.{ext}"]).unwrap();
        let names: Vec<String> = found.fields().map(|field| field.name.to_string()).collect();
        assert_eq!(names, ["date", "patient"]);
        let placed = found.place("p1/2020/x.png").unwrap().unwrap();
        assert_eq!(found.values(&placed.values), ["2020", "p1"]);
        let error = layout(&["{patient}/{key}", "x/{key}"]).unwrap_err().to_string();
        assert_eq!(error, "the pattern `x/{key}` has no `patient`, which `{patient}/{key}` has");
        assert!(layout(&["{mask}/{key}"]).is_err());
    }

    #[test]
    fn a_name_that_is_nearly_another_is_not_a_field() {
        let meant =
            |pattern: &str, labelled| match layout(&[pattern]).unwrap().check_names(labelled) {
                Ok(()) => None,
                Err(LayoutError::Meant { meant, .. }) => Some(meant),
                Err(other) => panic!("{other}"),
            };
        for (pattern, name) in [
            ("{lable}/{key}.{ext}", "label"),
            ("{spilt}/{label}/{key}.{ext}", "split"),
            ("{label}/{keys}.{ext}", "key"),
            ("{class}/{key}.{ext}", "label"),
        ] {
            assert_eq!(meant(pattern, true), Some(name), "{pattern}");
        }
        for pattern in ["{category}/{label}/{key}", "{table}/{label}/{key}", "{day}/{label}/{key}"]
        {
            assert_eq!(meant(pattern, true), None, "{pattern}");
        }
        assert_eq!(meant("{class}/{key}", false), None);
    }
}
