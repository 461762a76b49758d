//! The report of packing.

use std::collections::BTreeMap;

use gular_bundle::{Axes, Digest, Dtype, Field, FieldName, Split};
use serde::Serialize;

use crate::facts::{ARCHIVES, BadInputs, Doubt, Names, Outside, counted, formats};
use crate::layout::{Labels, Scan, TableColumns, unpacked as unpacked_kinds};
use crate::plan::{FractionsBy, Plan, PlanOptions};
use crate::shards::Part;
use crate::source::{Inputs, PixelColumns};

/// The way in which a loader resizes values that are on the pixels of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resampling {
    /// Values are mixed with their neighbours: heights.
    Interpolated,
    /// Values become numbers as those of the image do: the second picture of a pair.
    LikeImage,
    /// Values are taken as they are: classes, and numbers with a nodata value.
    Nearest,
}

impl Resampling {
    /// The ways for those of `fields` that are on the pixels of the image, which is among them.
    pub(crate) fn of_fields<'a>(fields: impl Iterator<Item = &'a Field>) -> BTreeMap<String, Self> {
        let fields: Vec<&Field> = fields.collect();
        let Some(image) = fields.iter().find(|field| field.is_image()) else {
            return BTreeMap::new();
        };
        let on_image = fields.iter().filter(|field| field.is_on_image());
        on_image.map(|field| (field.name.to_string(), Self::of(field, image))).collect()
    }

    /// The way for a field that is on the pixels of `image`.
    fn of(field: &Field, image: &Field) -> Self {
        let Some((dtype, _)) = field.as_fixed() else {
            let in_colour = !field.is_mask() && field.axes != Some(Axes::yx());
            return match in_colour {
                true if image.is_bytes() => Self::LikeImage,
                // The numbers of the image are not colours.
                true => Self::Interpolated,
                false => Self::Nearest,
            };
        };
        let is_float = matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64);
        match bands(field) {
            _ if field.is_mask() => Self::Nearest,
            Some((_, of)) if of.values().product::<u64>() > 1 && bands(field) == bands(image) => {
                Self::LikeImage
            }
            _ if is_float && field.nodata.is_none() => Self::Interpolated,
            _ => Self::Nearest,
        }
    }
}

/// The type of an array, and the size of each axis other than rows and columns.
fn bands(field: &Field) -> Option<(Dtype, BTreeMap<char, u64>)> {
    let ((dtype, shape), axes) = (field.as_fixed()?, field.known_axes()?);
    let sizes = axes.as_str().chars().zip(shape.iter().copied());
    Some((dtype, sizes.filter(|(axis, _)| !matches!(axis, 'y' | 'x')).collect()))
}

/// The result of packing, or of its dry run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PackReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The bundle digest, `blake3:…`; absent in a dry run and if only a part was packed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Number of samples that were packed; in a dry run, that would be packed.
    pub samples: u64,
    /// Bytes of all shards and indexes; in a dry run, bytes of the source files.
    pub bytes: u64,
    /// Number of shards.
    pub shards: u64,
    /// Samples, bytes, shards and classes of each split, as planned.
    pub splits: BTreeMap<Split, SplitReport>,
    /// Number of inputs that were left out, all of which are listed in `skipped.jsonl`.
    pub skipped: u64,
    /// Number of images that were left out because no name or table gives them a label.
    pub unlabelled: u64,
    /// Number of rows of the tables of labels that match no image.
    pub unused_rows: u64,
    /// The known dataset that the source was recognised as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Lists of images without column names, each with the pattern by which its lines were read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<String>,
    /// How the paths of images were read: the patterns, as the option for them takes them. Empty
    /// for rows of pixels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Fields of files below the source: their names, and the patterns of the files.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The column of splits, if it was found by its name and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_column: Option<String>,
    /// The table with the colours of masks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_colours: Option<String>,
    /// The numbers of masks for pixels without a class, by the names of their fields, as given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mask_ignore: BTreeMap<FieldName, i64>,
    /// Whether images that no pattern fits, or to which a table gives no label, are left out.
    pub leaves_out: bool,
    /// The dataset of an HDF5 or netCDF-4 file that has the labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_dataset: Option<String>,
    /// The words in the place of splits, such as the names of folders or of the files of a split,
    /// and the split that each one stands for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub split_words: BTreeMap<String, Split>,
    /// Columns of the tables of labels that were used for file names, labels and splits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<TableColumns>,
    /// How rows of pixels were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pixels: Option<PixelColumns>,
    /// The classes of boxes, where a table has boxes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub box_classes: Vec<String>,
    /// Names of the fields besides image and label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Those of them that are on the pixels of the image, and are cropped and mirrored with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_image: Vec<String>,
    /// How a loader resizes the values of each of these with the image.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resampling: BTreeMap<String, Resampling>,
    /// What the axes of images mean that are arrays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub axes: Option<String>,
    /// The names of the bands of images that are arrays, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<String>,
    /// Faulty images that were packed, because Pillow and torchvision also accept such faults: how
    /// many, and the first ones.
    pub tolerated: BadInputs,
    /// Images whose name has the extension of another format than their bytes: how many, and the
    /// first ones. They were packed as what they are.
    pub misnamed: BadInputs,
    /// Number of tiles that were left out because too few of their pixels have a value.
    pub empty_tiles: u64,
    /// How thoroughly images were checked: `header`, `full`, `strict` or `none`; at least `full`
    /// with a payload that decodes images.
    pub checked: &'static str,
    /// Which part of the bundle was packed, if only a part was; `splits` describes the whole
    /// bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Whether everything was done before, so that there was nothing to do.
    pub already_done: bool,
    /// Files left out since their type is not packed: the number of files of each extension.
    pub ignored: BTreeMap<String, u64>,
    /// Number of shards that an earlier, interrupted run had finished.
    pub resumed_shards: u64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// What is not clear about the paths, with each way to read them.
    #[serde(skip)]
    pub doubts: Vec<Doubt>,
    /// Wall-clock time.
    pub seconds: f64,
}

/// What the plan contains of one split.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SplitReport {
    /// Number of samples of the split.
    pub samples: u64,
    /// Bytes of the source files of these samples.
    pub bytes: u64,
    /// Number of shards of the split.
    pub shards: u64,
    /// Number of samples of each class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, u64>,
}

/// Number of files in a folder above which the quotas of sites matter.
const MANY_FILES: usize = 1000;

pub(crate) fn splits(plan: &Plan) -> BTreeMap<Split, SplitReport> {
    let mut splits: BTreeMap<Split, SplitReport> = BTreeMap::new();
    for shard in &plan.shards {
        let split = splits.entry(shard.split).or_default();
        split.samples += shard.samples;
        split.bytes += shard.bytes;
        split.shards += 1;
    }
    for (split, report) in &mut splits {
        let counts = plan.class_counts[*split as usize].iter();
        let named = plan.classes.iter().cloned().zip(counts.copied());
        report.classes = named.filter(|(_, n)| *n > 0).collect();
    }
    splits
}

/// Warnings for the user. New samples of a version alone say nothing about its classes and splits.
/// Classes of a table that no image has, so that the numbers of others are not what they would be
/// without these.
fn without_images(plan: &Plan, splits: &BTreeMap<Split, SplitReport>) -> Option<String> {
    let has = |class: &String| splits.values().any(|split| split.classes.contains_key(class));
    let mut names = Names::default();
    // Numbers of classes may have gaps, and mean the same with and without them.
    let is_name = |class: &&String| class.parse::<i64>().is_err();
    let unused = plan.classes.iter().filter(|class| !has(class)).filter(is_name);
    unused.for_each(|class| names.push(class));
    let n = counted(names.n, "class of the table has", "classes of the table have");
    let is_some = names.n > 0 && splits.values().any(|split| !split.classes.is_empty());
    is_some.then(|| format!("{n} no image: {names}"))
}

pub(crate) fn warnings(
    plan: &Plan,
    splits: &BTreeMap<Split, SplitReport>,
    found: &Scan,
    options: &PlanOptions,
) -> Vec<String> {
    let is_whole = options.leave_out.is_empty();
    let mut warnings = of_labels(plan, found);
    if matches!(options.labels, Labels::Table(_)) && options.classes.is_none() && is_whole {
        warnings.extend(without_images(plan, splits));
    }
    if is_whole && !found.layout.has_splits() {
        warnings.extend(unlike_fractions(plan, splits, options));
    }
    let outside = found.left_out.format(&found.ignored);
    let mut unpacked = unpacked_kinds(&found.ignored);
    unpacked.retain(|(kind, _)| outside.is_none_or(|format| !format.endings.contains(kind)));
    if let Some(Outside { name, endings, convert, .. }) = outside {
        let kinds = endings.iter().filter_map(|kind| Some((kind, found.ignored.get(*kind)?)));
        let kinds: Vec<String> = kinds.map(|(kind, n)| format!("{n} {kind}")).collect();
        // Files without an extension are counted with others.
        let kinds =
            if kinds.is_empty() { String::new() } else { format!(": {}", kinds.join(", ")) };
        warnings.push(format!(
            "files left out, since {name} is not read{kinds}; to pack them, convert them: {convert}"
        ));
    }
    if !found.become_png.is_empty() {
        let kinds: Vec<String> = found.become_png.iter().map(|(e, n)| format!("{n} {e}")).collect();
        warnings.push(format!(
            "pictures that are stored as PNG, with the same pixels: {}",
            kinds.join(", ")
        ));
    }
    if !unpacked.is_empty() {
        let kinds: Vec<String> = unpacked.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
        let kinds = kinds.join(", ");
        let is_array = |kind: &str| formats::ARRAYS.iter().any(|(known, _)| *known == kind);
        let are_arrays = unpacked.iter().any(|(kind, _)| is_array(kind));
        warnings.push(match options.inputs {
            _ if are_arrays && options.inputs != Inputs::Arrays => format!(
                "files left out, since arrays and pictures of other formats are not packed together: {kinds}; arrays can be packed by themselves"
            ),
            Inputs::Arrays => {
                format!("files left out, since only TIFF and NumPy files are packed as arrays: {kinds}")
            }
            _ => format!(
                "files left out, since pictures in these formats are not packed: {kinds}; to pack them, {}",
                gular_codec::CONVERT
            ),
        });
    }
    let archives = found.ignored.iter().filter(|(kind, _)| ARCHIVES.contains(&kind.as_str()));
    let archives: Vec<String> = archives.map(|(kind, n)| format!("{n} {kind}")).collect();
    if !archives.is_empty() && options.inputs != Inputs::Bytes {
        warnings.push(format!(
            "archives beside the images are not opened: {}; to pack what is in them, unpack each into a folder of its own",
            archives.join(", ")
        ));
    }
    let files = plan.shards.len() * 2 + 1;
    if files > MANY_FILES {
        let per_shard = plan.stored(plan.samples, plan.bytes) / 490 + 1;
        warnings.push(format!(
            "the bundle has {files} files, more than the {MANY_FILES} that many sites allow; a shard size of {}MiB makes fewer",
            per_shard.div_ceil(1 << 20)
        ));
    }
    if let Some(train) = splits.get(&Split::Train).filter(|_| is_whole) {
        for (split, report) in splits.iter().filter(|(s, _)| **s != Split::Train) {
            let unseen: Vec<&str> = report
                .classes
                .keys()
                .filter(|c| !train.classes.contains_key(*c))
                .map(String::as_str)
                .collect();
            if !unseen.is_empty() {
                warnings.push(format!(
                    "classes of `{split}` that `train` does not have: {}",
                    unseen.join(", ")
                ));
            }
        }
    }
    if is_whole {
        warnings.extend(lone_samples(plan.samples, splits));
    }
    warnings
}

/// Fewer images than this are a try, in which a class may have one sample.
const FEW_IMAGES: u64 = 20;
/// Most classes that a warning names.
const MOST_NAMED: usize = 3;

/// A warning about classes that have one sample.
fn lone_samples(samples: u64, splits: &BTreeMap<Split, SplitReport>) -> Option<String> {
    let mut counts: BTreeMap<&String, u64> = BTreeMap::new();
    for (class, n) in splits.values().flat_map(|split| &split.classes) {
        *counts.entry(class).or_default() += n;
    }
    let lone: Vec<String> =
        counts.iter().filter(|(_, n)| **n == 1).map(|(class, _)| format!("`{class}`")).collect();
    if samples < FEW_IMAGES || lone.is_empty() {
        return None;
    }
    if lone.len() == counts.len() {
        return Some(format!(
            "there are as many classes as samples, {samples}: are these classes?"
        ));
    }
    let named = lone.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = match lone.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Some(format!("classes with one sample, in all splits together: {named}{more}"))
}

/// A warning about fractions that are far from those asked for: more than one sample and more than
/// a fiftieth of all.
fn unlike_fractions(
    plan: &Plan,
    splits: &BTreeMap<Split, SplitReport>,
    options: &PlanOptions,
) -> Option<String> {
    let share = |n: f64| format!("{:.1} %", n * 100.0);
    let all = plan.samples as f64;
    let far = options.fractions.iter().filter_map(|(split, asked)| {
        let found = splits.get(split).map_or(0, |report| report.samples) as f64;
        let off = (found - asked * all).abs();
        (off > 1.0 && off > all / 50.0)
            .then(|| format!("`{split}` has {} instead of {}", share(found / all), share(*asked)))
    });
    let far: Vec<String> = far.collect();
    let why = match (options.fractions_by, options.tile.is_some()) {
        (FractionsBy::Hash, _) => "they are made by hash, which is exact only for many samples",
        (FractionsBy::Exact, true) => "all tiles of a scene stay together",
        (FractionsBy::Exact, false) => "groups stay together",
    };
    (!far.is_empty())
        .then(|| format!("the splits differ from the fractions: {}; {why}", far.join(", ")))
}

/// Warnings about names and tables that the bundle itself does not show.
fn of_labels(plan: &Plan, found: &Scan) -> Vec<String> {
    let mut warnings = Vec::new();
    for (names, why) in
        [(&plan.table.unlabelled, "they have no label"), (&found.unmatched, "no pattern fits them")]
    {
        if names.n > 0 {
            warnings.push(format!("images left out because {why}: {}: {names}", names.n));
        }
    }
    if plan.table.unused.n > 0 {
        let rows =
            counted(plan.table.unused.n, "row of the table matches", "rows of the table match");
        warnings.push(format!("{rows} no image: {}", plan.table.unused));
    }
    if plan.table.repeated.n > 0 {
        let rows = counted(plan.table.repeated.n, "row says", "rows say");
        warnings.push(format!("{rows} again what another one says: {}", plan.table.repeated));
    }
    for of in plan.files.iter().filter(|of| of.unused > 0) {
        let files = counted(of.unused, "file belongs", "files belong");
        warnings.push(format!("{files} to no image: of field `{}`", of.field.name));
    }
    for (column, reason) in &plan.table.left_out {
        warnings.push(format!("column `{column}` became no field: {reason}"));
    }
    warnings
}
