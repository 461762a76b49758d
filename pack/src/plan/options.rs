//! The options of packing, with defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gular_bundle::{About, Axes, Envelope, FieldName, Payload, Split};
use gular_codec::tiff::Pages;
use serde::{Deserialize, Serialize};

use crate::facts::{BAND, DATE, Doubt, Pattern, WayToRead};
use crate::layout::{Card, Labels, LayoutOptions, Unlabelled};
use crate::plan::{FrameOptions, MaskClass, MaskColours, PayloadOptions};
use crate::source::{ArchiveLimits, Classes, FieldFiles, Inputs, OnBadInput, SourceOptions};

/// All options that decide what a bundle contains.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOptions {
    /// What the paths of images mean; without patterns, this is recognised.
    pub images: Vec<Pattern>,
    /// Where labels come from.
    pub labels: Labels,
    /// Further known datasets: those of the user, which are looked for before ours.
    pub cards: Vec<Card>,
    /// The known dataset that the options are for, if it was recognised.
    pub dataset: Option<String>,
    /// What was in doubt and is not any more, since the files bear one reading out.
    pub taken: Vec<Doubt>,
    /// What to do with images that no pattern fits, or to which a table gives no label.
    pub unlabelled: Unlabelled,
    /// Class names, fixing their order; else the names found, sorted.
    pub classes: Option<Classes>,
    /// Fractions by which samples fall into splits, where nothing else says it; empty: all `train`.
    pub fractions: Vec<(Split, f64)>,
    /// How the fractions are made.
    pub fractions_by: FractionsBy,
    /// What stays in one split, if fractions make the splits.
    pub group: Option<Group>,
    /// The order of samples within a split.
    pub order: PackOrder,
    /// The seed of the splits and of the shuffled order.
    pub seed: u64,
    /// A shard takes samples until their source files pass this many bytes.
    pub shard_bytes: u64,
    /// The file format of the shards.
    pub envelope: Envelope,
    /// How images are stored.
    pub payload: PayloadOptions,
    /// Which files are inputs.
    pub inputs: Inputs,
    /// What the axes of arrays mean, by field, where neither their format nor their shape says it;
    /// `None` for a field whose values are not on the pixels of the image.
    pub axes: BTreeMap<FieldName, Option<Axes>>,
    /// What the pages of TIFF files become.
    pub pages: Pages,
    /// Whether the location of each image is compared with those of its other files.
    pub align: Align,
    /// How arrays of other sizes are brought to one size, if they are.
    pub frame: Option<FrameOptions>,
    /// The size of tiles, if TIFF scenes are cut.
    pub tile: Option<TileOptions>,
    /// Whether series of fewer dates than the longest are filled up with nodata, instead of being
    /// refused.
    pub pad_dates: bool,
    /// What the names of bands in TIFF files mean.
    pub band_names: BandNames,
    /// Fields whose values are files of their own.
    pub fields: Vec<FieldFiles>,
    /// The masks for which a number is given that says that a pixel has no class. Fields of other
    /// names than `mask` become masks by it.
    pub mask_ignore: BTreeMap<FieldName, i64>,
    /// The classes of masks whose pixels are colours.
    pub mask_colours: Option<MaskColours>,
    /// The property that is the class of masks that are polygons; all are class 1 if there is none.
    pub mask_class: Option<MaskClass>,
    /// Whether the indexes contain the digest of the file that each image was made from. A new
    /// version of the bundle is compared with these digests.
    pub source_digests: bool,
    /// How thoroughly inputs are checked.
    pub check: CheckImages,
    /// What to do with inputs that cannot be packed.
    pub on_error: OnBadInput,
    /// Larger images are refused when they are looked at.
    pub max_pixels: u64,
    /// Limits on the unpacked size of archives.
    pub archive: ArchiveLimits,
    /// Texts for the manifest.
    pub about: About,
    /// Files that list the keys of samples that are not packed, one per line. These samples are
    /// still used to find the source's fields, types and classes.
    pub leave_out: Vec<PathBuf>,
    /// Bytes of memory for sorting; what does not fit is sorted on disk.
    pub memory_bytes: usize,
}

impl PlanOptions {
    /// The options by which the source is read.
    pub(crate) fn source(&self) -> SourceOptions<'_> {
        SourceOptions {
            inputs: self.inputs,
            images: &self.images,
            fields: &self.fields,
            labelled: self.labels != Labels::None,
            label_column: match &self.labels {
                Labels::Column(column) => Some(column),
                Labels::Path | Labels::None | Labels::Table(_) => None,
            },
            classes: self.classes.as_ref(),
            archive: &self.archive,
            max_pixels: self.max_pixels,
            on_error: self.on_error,
        }
    }

    /// The options that say what the files of the source mean.
    pub(crate) fn layout(&self) -> LayoutOptions<'_> {
        LayoutOptions {
            images: &self.images,
            inputs: self.inputs,
            fields: &self.fields,
            labels: &self.labels,
            unlabelled: self.unlabelled,
            on_error: self.on_error,
        }
    }

    /// Whether the caller leaves open which files are images, and which are their fields.
    pub(crate) fn says_nothing(&self) -> bool {
        self.images.is_empty() && self.fields.is_empty() && self.inputs == Inputs::Images
    }

    /// The fractions as text.
    pub(crate) fn fractions_text(&self) -> String {
        let of = |(split, fraction): &(Split, f64)| format!("{split}={fraction}");
        self.fractions.iter().map(of).collect::<Vec<_>>().join(",")
    }

    /// The lists of images, with the patterns of their lines, and the table of a known dataset, as
    /// options take them.
    pub(crate) fn lists(&self) -> Vec<String> {
        let Labels::Table(table) = &self.labels else { return Vec::new() };
        let of_file = |(path, patterns): (&PathBuf, &Vec<Pattern>)| {
            let path = path.display().to_string();
            patterns.iter().map(|lines| format!("{path}={lines}")).collect::<Vec<_>>()
        };
        let mut lists: Vec<String> = table.lines.iter().flat_map(of_file).collect();
        // Tables that the user did not give.
        if self.dataset.is_some() || !self.taken.is_empty() {
            let tables = table.files.iter().filter(|file| !table.lines.contains_key(*file));
            lists.extend(tables.map(|file| file.display().to_string()));
        }
        lists
    }

    /// The column of splits that the files bear out.
    pub(crate) fn split_column(&self) -> Option<String> {
        let Labels::Table(table) = &self.labels else { return None };
        let is_of_lines = table.lines.values().flatten().any(|line| line.has("split"));
        table.split.clone().filter(|_| !is_of_lines && !self.taken.is_empty())
    }

    /// A doubt about a table that the user did not give: options about its columns need the table.
    pub(crate) fn with_what_was_found(&self, doubt: &Doubt) -> Doubt {
        let mut doubt = doubt.clone();
        if self.taken.is_empty() && self.dataset.is_none() {
            return doubt;
        }
        let Labels::Table(table) = &self.labels else { return doubt };
        let has = |way: &&mut WayToRead| way.tables.is_none() && way.images.is_empty();
        for way in doubt.readings.iter_mut().filter(has) {
            way.images = self.images.iter().map(ToString::to_string).collect();
            way.files = self.files().into_iter().collect();
            way.leaves_out = self.unlabelled == Unlabelled::Skip;
            way.lists = self.lists();
            way.split_column = way.split_column.take().or_else(|| self.split_column());
            way.key_column = way.key_column.take().or_else(|| table.key.clone());
        }
        doubt
    }

    /// Fields of files below the source, with the patterns of these.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        let of = |field: &FieldFiles| {
            let pattern = field.pattern.as_ref().filter(|_| field.files.is_none())?;
            Some((field.name.to_string(), pattern.to_string()))
        };
        self.fields.iter().filter_map(of).collect()
    }

    /// How splits are made, for the plan.
    pub(crate) fn split_text(&self) -> String {
        let exact = !self.fractions.is_empty() && self.fractions_by == FractionsBy::Exact;
        let group = self.group.as_ref().map(|group| format!("group {} ", group.name()));
        let by = if exact { "exact " } else { "" };
        format!("{by}{}{}", group.unwrap_or_default(), self.fractions_text())
    }

    /// The parts of paths by which several files make one array, of `band` and `date`.
    pub(crate) fn joined(&self) -> Vec<&'static str> {
        let has = |name: &&str| self.images.iter().any(|pattern| pattern.has(name));
        let are_arrays = self.inputs == Inputs::Arrays;
        [BAND, DATE].into_iter().filter(|name| are_arrays && has(name)).collect()
    }

    /// Whether a sample may have several files: one for each band or date.
    pub(crate) fn joins_files(&self) -> bool {
        !self.joined().is_empty()
    }

    /// Whether the values of a field are classes of the pixels of its image.
    pub(crate) fn is_mask(&self, name: &FieldName) -> bool {
        name.is_mask() || self.mask_ignore.contains_key(name)
    }

    /// The payload in the manifest.
    pub(crate) fn manifest_payload(&self) -> Payload {
        match (self.inputs, &self.payload) {
            (Inputs::Arrays | Inputs::Pixels { .. }, _) => Payload::Raw,
            (Inputs::Bytes, _) | (Inputs::Images, PayloadOptions::Encoded) => Payload::Encoded,
            (Inputs::Images, PayloadOptions::Reencoded(_)) => Payload::Reencoded,
            (Inputs::Images, PayloadOptions::Raw(_)) => Payload::Raw,
        }
    }
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            images: Vec::new(),
            labels: Labels::Path,
            cards: Vec::new(),
            dataset: None,
            taken: Vec::new(),
            unlabelled: Unlabelled::Fail,
            classes: None,
            fractions: Vec::new(),
            fractions_by: FractionsBy::Exact,
            group: None,
            order: PackOrder::Shuffled,
            seed: 0,
            shard_bytes: 1 << 30,
            envelope: Envelope::Shards,
            payload: PayloadOptions::Encoded,
            inputs: Inputs::Images,
            axes: BTreeMap::new(),
            pages: Pages::AsSaid,
            align: Align::Check,
            frame: None,
            tile: None,
            pad_dates: false,
            band_names: BandNames::default(),
            fields: Vec::new(),
            mask_ignore: BTreeMap::new(),
            mask_colours: None,
            mask_class: None,
            source_digests: false,
            check: CheckImages::Header,
            on_error: OnBadInput::Fail,
            max_pixels: gular_codec::Limits::default().max_pixels,
            archive: ArchiveLimits::default(),
            about: About::default(),
            leave_out: Vec::new(),
            memory_bytes: 256 << 20,
        }
    }
}

/// What happens to a sample whose files have locations on the Earth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Align {
    /// A file with another CRS, another size of pixels, or a shift of more than half a pixel
    /// against its image is a bad input.
    Check,
    /// The locations are not compared.
    Ignore,
    /// A georeferenced mask is brought to the grid of its image: each pixel gets the value of the
    /// nearest one of the mask. Of an image with a file for each band, coarser bands are brought to
    /// the grid of the finest by bilinear interpolation. Other files are compared.
    Resample,
}

/// The way in which scenes are cut into tiles, each a sample. All tiles of a scene, or of a block of
/// it, are in one split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TileOptions {
    /// Columns and rows of a tile.
    pub size: u32,
    /// Columns and rows that neighbours share; more at the right and at the bottom, where the last
    /// tile is moved back so that it ends at the scene's edge.
    pub overlap: u32,
    /// Tiles are left out when a smaller part of their pixels has a value in any band.
    pub min_valid: f64,
    /// Columns and rows of the blocks that fall into splits, if a scene is not to be in one split. No
    /// tile is in two blocks.
    pub block: Option<u32>,
}

impl TileOptions {
    /// The column and the row at which the block of a tile begins that begins at `corner`; `None` if
    /// there are no blocks.
    pub(crate) fn block_of(&self, corner: (u32, u32)) -> Option<(u32, u32)> {
        let block = self.block?.max(1);
        Some((corner.0 / block * block, corner.1 / block * block))
    }
}

/// What the names of bands in TIFF files mean, if these are packed as arrays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BandNames {
    /// They tell bands apart: files that name the same bands in another order than the first file
    /// are packed in its order, and files that name other bands or none are refused.
    #[default]
    Compare,
    /// Nothing: bands are packed in the order in which each file has them, without names.
    Ignore,
}

impl BandNames {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(crate) fn are_compared(&self) -> bool {
        *self == Self::Compare
    }
}

/// How samples fall into splits by fractions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FractionsBy {
    /// Numbers are exact, and each class is divided like the whole.
    Exact,
    /// By a hash of seed and key alone, so that a sample keeps its split when others come and go.
    Hash,
}

/// What belongs together, such as the images of one patient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Group {
    /// The part of paths with this name.
    Part(String),
    /// The column of the tables of labels with this name.
    Column(String),
}

/// The order of samples within a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackOrder {
    /// Ordered by a hash of seed and key, so that neighbours in a shard are unrelated.
    Shuffled,
    /// Ordered by key; for `class/file`, this is the order of torchvision's `ImageFolder`.
    Sorted,
}

/// How closely inputs are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckImages {
    /// Checks magic bytes and header.
    Header,
    /// Every pixel is decoded; what Pillow and torchvision tolerate is counted.
    Full,
    /// Every pixel is decoded, and nothing is tolerated.
    #[serde(skip)]
    Strict,
    /// Only checks that files are not empty.
    None,
}

impl Group {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Part(name) | Self::Column(name) => name,
        }
    }
}

impl PackOrder {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shuffled => "shuffled",
            Self::Sorted => "sorted",
        }
    }
}

impl CheckImages {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Full => "full",
            Self::Strict => "strict",
            Self::None => "none",
        }
    }
}
