//! The bundles from which another one is derived.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gular_bundle::{
    Axes, Bundle, Field, FieldKind, Index, MadeValue, Manifest, OpenOptions, ShardEntry, ShardIdx,
};

use super::like_base::kind;
use crate::error::Error;

/// Bundles of the same fields, and their classes as one list.
#[derive(Debug)]
pub(super) struct Bases {
    bundles: Vec<Base>,
    pub(super) fields: Vec<Field>,
    pub(super) classes: Vec<String>,
}

#[derive(Debug)]
struct Base {
    bundle: Bundle,
    /// The number in the common list of each of its classes, where they are not the same.
    numbers: Option<Vec<i32>>,
}

/// A line of the manifest of one of the bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) base: usize,
    pub(super) shard: ShardIdx,
}

impl Bases {
    pub(super) fn open(dirs: &[PathBuf]) -> Result<Self, Error> {
        let mut bases = Self { bundles: Vec::new(), fields: Vec::new(), classes: Vec::new() };
        for dir in dirs {
            // Each index is read once or twice as a whole, so none is kept in memory.
            let open = OpenOptions { index_bytes: 0, ..OpenOptions::default() };
            bases.add(dir, Bundle::open(dir, open)?)?;
        }
        Ok(bases)
    }

    fn add(&mut self, dir: &Path, bundle: Bundle) -> Result<(), Error> {
        let manifest = bundle.manifest();
        let unlike = |what: &str, expected: String, found: String| {
            Err(Error::Unlike {
                path: dir.display().to_string(),
                what: what.to_owned(),
                expected,
                found,
            })
        };
        let mut numbers = None;
        if let Some(first) = self.bundles.first() {
            let of_first = first.bundle.manifest();
            if manifest.envelope != of_first.envelope {
                return unlike(
                    "envelope",
                    of_first.envelope.to_string(),
                    manifest.envelope.to_string(),
                );
            }
            if manifest.payload != of_first.payload {
                let name = |payload| format!("{payload:?}").to_lowercase();
                return unlike("payload", name(of_first.payload), name(manifest.payload));
            }
            match joined(&self.fields, &manifest.fields) {
                Some(fields) => self.fields = fields,
                None => return unlike("fields", shown(&self.fields), shown(&manifest.fields)),
            }
            if manifest.has_labels() && manifest.classes.is_empty() != self.classes.is_empty() {
                let shown = |classes: &[String]| match classes.len() {
                    0 => "without names".to_owned(),
                    n => format!("{n} names"),
                };
                return unlike("classes", shown(&self.classes), shown(&manifest.classes));
            }
            let fixed = manifest.fields.iter().any(Field::depends_on_classes);
            if fixed && manifest.classes != self.classes {
                return unlike("classes", names(&self.classes), names(&manifest.classes));
            }
            numbers = self.add_classes(&manifest.classes);
        } else {
            self.fields.clone_from(&manifest.fields);
            self.classes.clone_from(&manifest.classes);
        }
        self.bundles.push(Base { bundle, numbers });
        Ok(())
    }

    /// Adds those that are new; the number of each, unless that is its place.
    fn add_classes(&mut self, classes: &[String]) -> Option<Vec<i32>> {
        let mut known: HashMap<String, usize> = self.classes.iter().cloned().zip(0..).collect();
        let mut numbers = Vec::with_capacity(classes.len());
        for class in classes {
            let next = self.classes.len();
            let number = *known.entry(class.clone()).or_insert(next);
            if number == next {
                self.classes.push(class.clone());
            }
            numbers.push(i32::try_from(number).unwrap_or(i32::MAX));
        }
        numbers.iter().zip(0..).any(|(number, place)| *number != place).then_some(numbers)
    }

    pub(super) fn bundles(&self) -> impl ExactSizeIterator<Item = &Bundle> {
        self.bundles.iter().map(|base| &base.bundle)
    }

    /// Returns all shards of all bundles, one bundle after another.
    pub(super) fn lines(&self) -> Vec<Line> {
        let of = |(base, bundle): (usize, &Bundle)| {
            let shards = ShardIdx::first(bundle.manifest().shards.len());
            shards.map(move |shard| Line { base, shard }).collect::<Vec<_>>()
        };
        self.bundles().enumerate().flat_map(of).collect()
    }

    pub(super) fn bundle(&self, line: Line) -> &Bundle {
        &self.bundles[line.base].bundle
    }

    pub(super) fn entry(&self, line: Line) -> &ShardEntry {
        &self.bundle(line).manifest().shards[line.shard.0]
    }

    pub(super) fn index(&self, line: Line) -> Result<Arc<Index>, Error> {
        Ok(self.bundle(line).index(line.shard)?)
    }

    /// The label of a sample by the common list of classes.
    pub(super) fn label(&self, line: Line, label: i32) -> i32 {
        let numbers = self.bundles[line.base].numbers.as_ref();
        let at = usize::try_from(label).ok();
        numbers.and_then(|numbers| numbers.get(at?).copied()).unwrap_or(label)
    }

    /// A manifest of all of them, still without shards.
    pub(super) fn manifest(&self) -> Manifest {
        let all: Vec<&Manifest> = self.bundles().map(Bundle::manifest).collect();
        let first = all[0];
        let mut made: BTreeMap<String, MadeValue> = first.made.clone();
        // Only entries that all bundles share are kept. The plan belongs to other shards, and how a
        // base was derived is in that bundle's own manifest.
        made.retain(|name, value| all.iter().all(|m| m.made.get(name) == Some(value)));
        // If some samples are tiles, neighbours must stay in one split.
        let tile = all.iter().find_map(|m| m.made.get("tile"));
        made.extend(tile.map(|tile| ("tile".to_owned(), tile.clone())));
        made.retain(|name, _| name != "plan" && name != "base" && !name.starts_with("derive_"));
        let digests: Vec<String> = self.bundles().map(|b| b.digest().to_string()).collect();
        made.insert("base".to_owned(), MadeValue::Text(digests.join(" ")));
        let about = match all.iter().all(|m| m.about == first.about) {
            true => first.about.clone(),
            false => gular_bundle::About::default(),
        };
        Manifest {
            envelope: first.envelope,
            payload: first.payload,
            fields: self.fields.clone(),
            classes: self.classes.clone(),
            made,
            about,
            statistics: None,
            shards: Vec::new(),
        }
    }
}

/// The fields of bundles whose fields are the same but for their media types.
fn joined(a: &[Field], b: &[Field]) -> Option<Vec<Field>> {
    (a.len() == b.len()).then(|| a.iter().zip(b).map(|(a, b)| joined_field(a, b)).collect())?
}

/// The field of two that are the same but for their media types. A bundle that was made before axes
/// were recorded has those that its shape tells.
pub(super) fn joined_field(a: &Field, b: &Field) -> Option<Field> {
    let told = |field: &Field| {
        let of_shape = |(dtype, shape)| Axes::of_array(dtype, shape);
        field.axes.clone().or_else(|| field.as_fixed().and_then(of_shape))
    };
    let recorded = a.axes.is_some() || b.axes.is_some();
    let of = |field: &Field| Field { axes: told(field).filter(|_| recorded), ..field.clone() };
    let (a, b) = (&of(a), &of(b));
    let mut both = a.clone();
    if let (FieldKind::Bytes { media_types }, FieldKind::Bytes { media_types: more }) =
        (&mut both.kind, &b.kind)
    {
        media_types.extend(more.iter().cloned());
        media_types.sort();
        media_types.dedup();
        let alike = Field { kind: both.kind.clone(), ..b.clone() };
        return (alike == both).then_some(both);
    }
    (a == b).then_some(both)
}

/// Names the first classes.
fn names(classes: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> =
        classes.iter().take(SHOWN).map(|name| format!("`{}`", name.escape_debug())).collect();
    match classes.len() {
        0 => "without names".to_owned(),
        n if n > SHOWN => format!("{} and {} more", shown.join(", "), n - SHOWN),
        _ => shown.join(", "),
    }
}

fn shown(fields: &[Field]) -> String {
    let shown = |field: &Field| format!("`{}` ({})", field.name, kind(field));
    fields.iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use gular_bundle::{Dtype, FieldName};

    use super::*;

    #[test]
    fn fields_join_if_their_axes_are_the_same_recorded_or_not() {
        let field = |shape: &[u64], axes: Option<Axes>| Field {
            axes,
            ..Field::fixed(FieldName::image(), Dtype::F32, shape.to_vec())
        };
        let joined = |shape: &[u64], a: Option<Axes>, b: Option<Axes>| {
            joined_field(&field(shape, a), &field(shape, b)).map(|field| field.axes)
        };
        let flat = &[64, 64, 3];
        assert_eq!(joined(flat, None, None), Some(None));
        assert_eq!(joined(flat, None, Some(Axes::yxc())), Some(Some(Axes::yxc())));
        assert_eq!(joined(flat, Some(Axes::cyx()), Some(Axes::yxc())), None);
        assert_eq!(joined(&[3, 64, 64], Some(Axes::cyx()), None), Some(Some(Axes::cyx())));
        // It is not known which axis of the older one is which.
        assert_eq!(joined(&[64, 64, 64], Some(Axes::cyx()), None), None);
    }
}
