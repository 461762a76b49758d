//! Checks that a new version stores its samples as its base does, since packed and kept samples
//! become one bundle.

use std::collections::{BTreeMap, BTreeSet};

use gular_bundle::{Bundle, Dtype, Field, MadeValue, Manifest, Payload, Row, ShardIdx};

use super::bases::joined_field;
use super::compare::Splits;
use crate::error::Error;
use crate::facts::{Pattern, setting};
use crate::layout::{Labels, Layout, Table, TableOptions};
use crate::packing::{PackOptions, fields};
use crate::plan::{
    Depths, FractionsBy, FrameOptions, PayloadOptions, PayloadRecipe, Plan, PlanOptions,
    StoredDepth, check_options, extended,
};
use crate::source::{Classes, Inputs};

/// Checks that the base can have such a new version, as far as the options show. Options that
/// depend on the images are set to the values of the base.
pub(super) fn check(base: &Bundle, options: &mut PackOptions) -> Result<(), Error> {
    check_options(&options.plan)?;
    let manifest = base.manifest();
    let fail = |names, text: &str| Err(setting(names, text));
    if matches!(options.plan.inputs, Inputs::Pixels { .. }) {
        return fail(
            &["base"],
            "a table of pixels cannot be packed as a new version of a base; pack it into a new bundle",
        );
    }
    let unlike = |setting, old: String, new: String| {
        Err(Error::UnlikeBase { setting, old: Some(old), new: Some(new) })
    };
    let (old, new) = (manifest.payload, options.plan.manifest_payload());
    if old != new {
        let name = |payload| format!("{payload:?}").to_lowercase();
        return unlike("payload", name(old), name(new));
    }
    let (old, new) = (manifest.envelope, options.plan.envelope);
    if old != new {
        return unlike("envelope", old.to_string(), new.to_string());
    }
    let old = manifest.has_labels();
    let new = match options.plan.labels {
        Labels::None => false,
        // Whether the table has labels is known when it is read.
        Labels::Table(_) => old,
        Labels::Path => {
            options.plan.images.is_empty() || options.plan.images.iter().any(|p| p.has("label"))
        }
        Labels::Column(_) => true,
    };
    if old != new {
        let labels = |are: bool| if are { "labels" } else { "no labels" };
        return fail(
            &["labels"],
            &format!(
                "a new version needs labels as in its base: the base has {}, this pack has {}",
                labels(old),
                labels(new)
            ),
        );
    }
    if manifest.image().is_some() == (options.plan.inputs == Inputs::Bytes) {
        return fail(&["inputs"], "a new version needs files of the same kind as its base");
    }
    if !options.plan.fractions.is_empty() && manifest.made.contains_key("split_by") {
        return fail(
            &["fractions_by"],
            "the base was divided by exact fractions, which depend on all its samples, so a new sample could move old ones; divide the base by hash to make new versions of it",
        );
    }
    // Only then a sample keeps its split.
    options.plan.fractions_by = FractionsBy::Hash;
    if options.part.is_some() {
        return fail(&["part"], "a new version of a bundle is packed in one part");
    }
    if manifest.payload != Payload::Encoded {
        same_recipe(manifest, &mut options.plan)?;
        let made_again = options.plan.tile.is_some() || options.plan.joins_files();
        if !made_again && !manifest.shards.is_empty() && !has_sources(base)? {
            return Err(Error::NoSources(base.dir().display().to_string()));
        }
    }
    Ok(())
}

/// Checks that new images are divided into splits like those of the base, if that is known.
pub(super) fn same_fractions(
    manifest: &Manifest,
    plan: &PlanOptions,
    splits: Splits,
) -> Result<(), Error> {
    if splits != Splits::Options {
        return Ok(());
    }
    let old = ["derive_split", "split"].into_iter().find_map(|name| manifest.made.get(name));
    let Some(MadeValue::Text(old)) = old else { return Ok(()) };
    let new = (!plan.fractions.is_empty()).then(|| plan.fractions_text());
    if new.as_ref() == Some(old) {
        return Ok(());
    }
    Err(Error::UnlikeBase { setting: "fractions", old: Some(old.clone()), new })
}

/// Whether the indexes have the digests of the files that the images were made from.
fn has_sources(base: &Bundle) -> Result<bool, Error> {
    for shard in ShardIdx::first(base.manifest().shards.len()) {
        if base.shard(shard)?.source(Row(0))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Checks that the images of the base were made like those of its new version will be. If no depth
/// was asked for, that of the base is used.
fn same_recipe(manifest: &Manifest, plan: &mut PlanOptions) -> Result<(), Error> {
    if let PayloadOptions::Raw(raw) = &mut plan.payload {
        let image = manifest.fields.iter().find(|field| field.is_image());
        let of_base = match image.and_then(Field::as_fixed) {
            Some((Dtype::U16, _)) => StoredDepth::U16,
            _ => StoredDepth::U8,
        };
        raw.depth.get_or_insert(of_base);
    }
    // If no size was asked for, that of the base is used.
    if let Some(FrameOptions { size: size @ None, .. }) = &mut plan.frame {
        let image = manifest.fields.iter().find(|field| field.is_image());
        let grid = image.and_then(|field| field.axes.as_ref()?.grid(field.as_fixed()?.1));
        let side = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        *size = grid.map(|grid| (side(grid.width), side(grid.height)));
    }
    // The recipe is that for JPEG. If none was decoded, the base names no decoder.
    let mut recipe = PayloadRecipe::new(plan, Depths::default(), &["image/jpeg".to_owned()])?;
    recipe.with_jpeg();
    let mut made = BTreeMap::new();
    recipe.note(&mut made);
    let settings = ["decoder", "encoder", "fit", "max_side", "quality", "size"];
    for name in settings.into_iter().chain(["tile", "overlap", "min_valid", "block", "align"]) {
        let (old, new) = (manifest.made.get(name), made.get(name));
        if old != new && !(name == "decoder" && old.is_none()) {
            let text = |value: &MadeValue| match value {
                MadeValue::Text(text) => text.clone(),
                MadeValue::Number(n) => n.to_string(),
            };
            let (old, new) = (old.map(text), new.map(text));
            return Err(Error::UnlikeBase { setting: name, old, new });
        }
    }
    Ok(())
}

/// The classes of a new version, of which `tables` may have the labels, as an option: those of the base, whose numbers stay, then new ones.
pub(super) fn classes(
    manifest: &Manifest,
    options: &PlanOptions,
    tables: Option<&TableOptions>,
) -> Result<Option<Classes>, Error> {
    if options.classes.is_some() {
        return Ok(options.classes.clone());
    }
    let old = &manifest.classes;
    let Some(tables) = tables else {
        let of_paths = options.labels == Labels::Path;
        return Ok(of_paths.then(|| Classes::Extended(old.clone())));
    };
    let table = Table::open(tables, None)?;
    if table.by_name() {
        return Ok(Some(Classes::Names(extended(old, table.classes.into_iter()))));
    }
    // Numbers are those of the base's classes; boxes have their own.
    let by_number = !old.is_empty() && !table.is_of_boxes();
    Ok(by_number.then(|| Classes::Names(old.clone())))
}

/// Checks that classes are taken from the same parts of paths as in the base, since unchanged images
/// keep their labels.
pub(super) fn same_patterns(manifest: &Manifest, layout: &Layout) -> Result<(), Error> {
    let old = manifest.made.iter().filter(|(name, _)| name.starts_with("images"));
    let old: BTreeSet<&str> = old
        .filter_map(|(_, value)| match value {
            MadeValue::Text(text) if text.contains("{label") => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let new = layout.patterns().iter().filter(|pattern| pattern.has("label"));
    let new: BTreeSet<&str> = new.map(Pattern::as_str).collect();
    if old.is_empty() || new.is_empty() || old == new {
        return Ok(());
    }
    let list =
        |patterns: BTreeSet<&str>| Some(patterns.into_iter().collect::<Vec<_>>().join("` and `"));
    Err(Error::UnlikeBase { setting: "images", old: list(old), new: list(new) })
}

/// Checks that the samples of `plan` have the fields of the base.
pub(super) fn same_fields(manifest: &Manifest, plan: &Plan) -> Result<(), Error> {
    let (old, new) = (&manifest.fields, fields(plan));
    let of = |fields: &[Field], name: &Field| fields.iter().find(|f| f.name == name.name).cloned();
    let in_old = old.iter().map(|field| (Some(field.clone()), of(&new, field)));
    let in_new = new.iter().map(|field| (of(old, field), Some(field.clone())));
    for (old, new) in in_old.chain(in_new) {
        let same =
            old.as_ref().zip(new.as_ref()).is_some_and(|(a, b)| joined_field(a, b).is_some());
        if let (Some(field), false) = (old.as_ref().or(new.as_ref()), same) {
            let name = field.name.to_string();
            let (old, new) = (old.as_ref().map(kind), new.as_ref().map(kind));
            return Err(Error::UnlikeField { name, old, new });
        }
    }
    let unlike =
        |setting, old, new| Err(Error::UnlikeBase { setting, old: Some(old), new: Some(new) });
    if old.iter().zip(&new).any(|(old, new)| old.name != new.name) {
        let names = |fields: &[Field]| listed(fields.iter().map(|field| field.name.as_str()));
        return unlike("order of fields", names(old), names(&new));
    }
    if old.iter().any(Field::depends_on_classes) && manifest.classes != plan.classes {
        let names = |classes: &[String]| listed(classes.iter().map(String::as_str));
        return unlike("classes", names(&manifest.classes), names(&plan.classes));
    }
    Ok(())
}

/// Lists the first of some names.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let more = names.len().saturating_sub(SHOWN);
    let shown = names.take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// Describes the type of a field's values in words.
pub(super) fn kind(field: &Field) -> String {
    let mut text = match field.as_fixed() {
        Some((dtype, shape)) => format!("{} {shape:?}", dtype.safetensors_name()),
        None => "files".to_owned(),
    };
    if let Some(axes) = &field.axes {
        text.push_str(&format!(" {axes}"));
    }
    if field.grid.is_some() {
        text.push_str(", on the image's pixels");
    }
    let bands: Vec<&str> = field.bands.iter().map(|band| band.name.as_str()).collect();
    if !bands.is_empty() {
        text.push_str(&format!(", bands {}", bands.join(" ")));
    }
    if let Some(nodata) = &field.nodata {
        text.push_str(&format!(", nodata {}", nodata.as_str()));
    }
    text
}
