//! The options of packing, with defaults.

use std::path::PathBuf;

use gular_bundle::{About, Envelope, FieldName, Payload, Split};

use crate::{ArchiveLimits, LabelColumn, NamePattern, PayloadOptions, TableOptions};

/// All options that decide what a bundle contains.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOptions {
    /// The meaning of top-level folders.
    pub layout: FolderLayout,
    /// Where labels come from.
    pub labels: Labels,
    /// What to do with images that have no label, if labels come from names or a table.
    pub unlabelled: Unlabelled,
    /// Class names, fixing their order; else the names found, sorted.
    pub classes: Option<Classes>,
    /// Fractions by which keys fall into splits, where folders do not say; empty: all `train`.
    pub fractions: Vec<(Split, f64)>,
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
    /// The size of tiles, if TIFF scenes are cut.
    pub tile: Option<TileOptions>,
    /// Fields whose values are files of their own.
    pub fields: Vec<FieldFiles>,
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
            layout: FolderLayout::Auto,
            labels: Labels::Folder,
            unlabelled: Unlabelled::Fail,
            classes: None,
            fractions: Vec::new(),
            order: PackOrder::Shuffled,
            seed: 0,
            shard_bytes: 1 << 30,
            envelope: Envelope::Shards,
            payload: PayloadOptions::Encoded,
            inputs: Inputs::Images,
            tile: None,
            fields: Vec::new(),
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

/// Class names in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Classes {
    /// Classes in a file, one per line without the blanks around it.
    File(PathBuf),
    /// These classes.
    Names(Vec<String>),
    /// These classes, followed by others that folders or file names have.
    Extended(Vec<String>),
}

/// The files that are inputs, and what they become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inputs {
    /// Pictures, which become field `image`.
    Images,
    /// NumPy's arrays and TIFF, all of one type and shape, which become field `image`.
    Arrays,
    /// All files, which become field `data` byte for byte.
    Bytes,
    /// The rows of a CSV, each the pixels of an image, 0 to 255, which become field `image`.
    Pixels {
        /// Columns and rows of an image; `None` takes a square of the table's columns.
        size: Option<(u32, u32)>,
    },
}

/// The way in which scenes are cut into tiles, each a sample. All tiles of a scene are in one
/// split.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TileOptions {
    /// Columns and rows of a tile.
    pub size: u32,
    /// Columns and rows that neighbours share; more at the right and at the bottom, where the last
    /// tile is moved back so that it ends at the scene's edge.
    pub overlap: u32,
    /// Tiles are left out when a smaller part of their pixels has a value in any band.
    pub min_valid: f64,
}

/// A field whose values are files, one for each image: of the same path but for what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldFiles {
    /// The field's name; `mask` is cropped and flipped with the image.
    pub name: FieldName,
    /// The folder or archive with the files.
    pub files: PathBuf,
    /// The suffix of names after the image's name, before the extension.
    pub suffix: String,
}

/// The meaning of a source's top-level folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderLayout {
    /// Splits when all are named like splits, else classes.
    Auto,
    /// The paths are `split/class/file`.
    Split,
    /// The paths are `class/file`.
    Class,
}

/// The source of labels.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    /// The folder below the source, or below the split.
    Folder,
    /// Images have no labels.
    None,
    /// The path below the source, or below the split.
    Name(NamePattern),
    /// Labels are in tables that name the images.
    Table(TableOptions),
    /// A column of the table that is the source: that of [`Inputs::Pixels`].
    Column(LabelColumn),
}

/// What happens to images that have no label, if labels come from names or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlabelled {
    /// They end the run.
    Fail,
    /// They are left out and counted.
    Skip,
}

/// The order of samples within a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackOrder {
    /// Ordered by a hash of seed and key, so that neighbours in a shard are unrelated.
    Shuffled,
    /// Ordered by key; for `class/file`, this is the order of torchvision's `ImageFolder`.
    Sorted,
}

/// How closely inputs are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckImages {
    /// Checks magic bytes and header.
    Header,
    /// Every pixel is decoded; what Pillow and torchvision tolerate is counted.
    Full,
    /// Every pixel is decoded, and nothing is tolerated.
    Strict,
    /// Only checks that files are not empty.
    None,
}

/// What happens to inputs that cannot be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadInput {
    /// A bad input ends the run; a later run with [`OnBadInput::Skip`] resumes from its shards.
    Fail,
    /// They are left out and listed in `skipped.jsonl`.
    Skip,
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
