//! Builds a plan from keys and sizes in any order, in bounded memory.
//!
//! Two sorts: by folded key, where keys that differ only in case become
//! neighbours; then by split and order, which is the order of the file.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{BundlePath, Digest, Field, Payload, Split};
use gular_codec::Fit;

use super::file::{FORMAT, Plan, PlanShard, VERSION};
use crate::beside::{Beside, FilesOf};
use crate::error::{BadInput, BadInputs};
use crate::labels::{BOXES, Join, Joined, Names, Said, Table, TableColumns, hot_classes};
use crate::pack_report::StoredSplit;
use crate::payload::{Depths, Recipe};
use crate::scan::{Scan, place};
use crate::scenes;
use crate::sort::{Sorted, Sorter};
use crate::source::Source;
use crate::{
    Classes, Error, Inputs, Labels, OnBadInput, PackOrder, PlanOptions, TileOptions, Unlabelled,
};

/// Below this, sorting is all reading and writing.
const LEAST_MEMORY: usize = 1 << 20;

/// Gathers keys, then writes the plan.
#[derive(Debug)]
pub struct PlanBuilder {
    dir: PathBuf,
    options: PlanOptions,
    by_name: Sorter,
    depths: Depths,
    table: Option<Joining>,
    beside: Beside,
    /// Bytes of the scenes that are cut.
    scenes: BTreeMap<String, u64>,
    /// Whether a table of pixels, which is the source, has labels.
    pub(crate) labelled: bool,
}

/// A table, and the images that wait for its rows.
#[derive(Debug)]
struct Joining {
    table: Table,
    /// Of each of its files the folder below the source, from which it names images.
    folders: Vec<String>,
    join: Join,
}

impl PlanBuilder {
    /// Makes a builder that sorts in folder `dir` what does not fit in memory.
    ///
    /// # Errors
    /// [`Error::Option`] when an option makes no sense.
    pub fn new(dir: &Path, options: &PlanOptions) -> Result<Self, Error> {
        check_options(options)?;
        // The second sort begins while the first is read: each has half.
        let by_name = Sorter::new(dir, options.memory / 2);
        let depths = Depths::default();
        let options = options.clone();
        let (beside, scenes, dir) = (Beside::default(), BTreeMap::new(), dir.to_owned());
        let (table, labelled) = (None, false);
        Ok(Self { dir, options, by_name, depths, table, beside, scenes, labelled })
    }

    /// Takes labels, splits and values from a table.
    pub(crate) fn join(&mut self, table: Table, folders: Vec<String>) {
        let join = Join::new(&self.dir, self.options.memory / 2);
        self.table = Some(Joining { table, folders, join });
    }

    /// Takes values from files.
    pub(crate) fn files(&mut self, beside: Beside) {
        self.beside = beside;
    }

    /// Adds an image or the tiles of a scene, and finds of it what the payload leaves to be found.
    pub(crate) fn look(
        &mut self,
        source: &Source,
        key: &BundlePath,
        bytes: u64,
    ) -> Result<(), Error> {
        if let Source::Pixels(table) = source {
            self.depths.pixels(table.shape(), key.as_str());
            return self.add(key, bytes, Some(table.label(key.as_str())));
        }
        let start = self.depths.look(&self.options, source, key.as_str(), bytes);
        let (Some(tile), Some(start)) = (self.options.tile, start) else {
            return self.push(key, bytes);
        };
        if start.geo.is_none() {
            let text = format!("`{key}` is not a TIFF, and only TIFF can be cut into tiles");
            return Err(Error::Option(text));
        }
        let [height, width, bands] = *start.shape.as_slice() else { return self.push(key, bytes) };
        let side = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let pixels = u64::from(tile.size) * u64::from(tile.size);
        let of_tile = pixels * bands * start.dtype.size_bytes();
        let size = (side(width), side(height));
        let corners = scenes::corners(size, &tile).map_err(|n| {
            let side = tile.size;
            Error::Option(format!(
                "`{key}` would be cut into {n} tiles of {side} pixels, more than one file may have"
            ))
        })?;
        for corner in corners {
            let tile = BundlePath::parse(&scenes::key(key.as_str(), corner));
            self.push(&tile.map_err(gular_bundle::Error::from)?, of_tile)?;
        }
        self.scenes.insert(key.as_str().to_owned(), bytes);
        Ok(())
    }

    /// Adds an image.
    ///
    /// # Errors
    /// [`Error::Io`] when the sort cannot write.
    pub fn push(&mut self, key: &BundlePath, bytes: u64) -> Result<(), Error> {
        if let Some(Joining { join, .. }) = &mut self.table {
            return join.image(key.as_str(), bytes);
        }
        self.add(key, bytes, None)
    }

    fn add(&mut self, key: &BundlePath, bytes: u64, label: Option<i64>) -> Result<(), Error> {
        let record = Record { key: key.as_str(), bytes, split: None, label, values: "" };
        self.by_name
            .push(folded(key.as_str()).as_bytes(), &record.encode())
            .map_err(|e| Error::io("sort in", &self.dir, e))
    }

    /// Writes the plan to `path`, replacing what is there.
    ///
    /// `classes` are the class names in label order; `split_layout` says that
    /// top-level folders are splits.
    ///
    /// # Errors
    /// [`Error::CaseCollision`], [`Error::UnknownClass`], [`Error::MixedDepth`], [`Error::Io`];
    /// [`Error::Option`] when folders and fractions both say the split;
    /// [`Error::Cancelled`].
    pub fn finish(
        self,
        path: &Path,
        classes: &[String],
        media_types: &[String],
        split_layout: bool,
        cancel: &AtomicBool,
    ) -> Result<Plan, Error> {
        let Self { dir, options, mut by_name, depths, table, mut beside, scenes, labelled } = self;
        let mut recipe = Recipe::new(&options, depths, media_types)?;
        if split_layout && !options.fractions.is_empty() {
            let text = "the top-level folders are splits already, so fractions cannot make splits; if these folders are classes, choose the layout `class`";
            return Err(Error::Option(text.to_owned()));
        }
        let io = |e| Error::io("sort in", &dir, e);
        let mut from_table = FromTable::default();
        if let Some(joining) = table {
            from_table = joining.finish(&options, &mut |record| {
                by_name.push(folded(record.key).as_bytes(), &record.encode()).map_err(io)
            })?;
        }
        check_boxes(&from_table.fields, &recipe)?;
        let mut by_order = Sorter::new(&dir, options.memory / 2);
        let labels: HashMap<&str, i64> = classes.iter().map(String::as_str).zip(0..).collect();
        let mut last: Option<(Vec<u8>, String)> = None;
        let (mut fatal, mut skipped) = (BadInputs::default(), Vec::new());
        for (i, pair) in by_name.finish().map_err(io)?.enumerate() {
            check_cancel(i, cancel)?;
            let (folded, record) = pair.map_err(io)?;
            let Record { key, bytes, split, label, values } =
                Record::parse(&record).ok_or_else(|| io(damaged_record()))?;
            if let Some((_, other)) = last.as_ref().filter(|(f, _)| *f == folded) {
                return Err(Error::CaseCollision { first: other.clone(), second: key.to_owned() });
            }
            // Neighbours share pixels, so all tiles of a scene are in one split.
            let scene = options.tile.and_then(|_| scenes::parse(key)).map(|(scene, _)| scene);
            let file = scene.unwrap_or(key);
            let (folder, class) = place(file, split_layout, &options.labels);
            let split = split
                .or(folder)
                .unwrap_or_else(|| split_by(file, options.seed, &options.fractions));
            let label = match class.map(|class| (class, labels.get(class))) {
                None => label.unwrap_or(-1),
                Some((_, Some(label))) => *label,
                Some((class, None)) => return Err(unknown_class(file, class, &options, classes)),
            };
            match beside.planned(file) {
                Ok((mut files, of_files)) => {
                    files.extend(scene.and_then(|scene| scenes.get(scene)).map(|n| (*n).into()));
                    // Of a scene a tile takes as much as of its image.
                    let of_files = if scene.is_some() { 0 } else { of_files };
                    let mut value = bytes.to_le_bytes().to_vec();
                    value.extend(of_files.to_le_bytes());
                    value.extend(label.to_le_bytes());
                    value.extend_from_slice(key.as_bytes());
                    if let Some(values) = joined(values, &files) {
                        value.push(b'\t');
                        value.extend_from_slice(values.as_bytes());
                    }
                    by_order.push(&order_key(split, key, &options), &value).map_err(io)?;
                }
                Err(fault) => match options.on_error {
                    OnBadInput::Fail => fatal.push(fault.at(key.to_owned())),
                    OnBadInput::Skip => skipped.push(fault.at(key.to_owned())),
                },
            }
            last = Some((folded, key.to_owned()));
        }
        if let Some(error) = fatal.into_error() {
            return Err(error);
        }
        let sorted = by_order.finish().map_err(io)?;
        let labelled = match &options.labels {
            Labels::Folder | Labels::Name(_) => true,
            Labels::None => false,
            Labels::Table(_) => from_table.labelled,
            Labels::Column(_) => labelled,
        };
        if beside.has_jpeg() {
            recipe.with_jpeg();
        }
        let files = beside.finish(&recipe);
        from_table.fields.extend(files.iter().map(|of| of.field.clone()));
        from_table.fields.extend(recipe.of_arrays());
        let content =
            Content { classes, media_types, recipe, labelled, from_table, files, skipped };
        write(path, sorted, &options, content, cancel)
    }
}

impl Joining {
    /// Hands on each image that has a label.
    fn finish(
        self,
        options: &PlanOptions,
        each: &mut dyn FnMut(&Record<'_>) -> Result<(), Error>,
    ) -> Result<FromTable, Error> {
        let Self { table, folders, mut join } = self;
        join.rows(&table, &folders)?;
        let Joined { unlabelled, unused, .. } = join.finish(&table, &mut |key, bytes, said| {
            let Said { split, label, values } = said;
            each(&Record { key, bytes, split: *split, label: Some(*label), values })
        })?;
        if unlabelled.n > 0 && options.unlabelled == Unlabelled::Fail {
            let files: Vec<String> =
                table.files().iter().map(|p| format!("`{}`", p.display())).collect();
            return Err(Error::Unlabelled {
                n: unlabelled.n,
                images: unlabelled.to_string(),
                why: format!("{} has no row with a label for them", files.join(" or ")),
                table: true,
                all: false,
            });
        }
        let (labelled, several) = (table.labelled(), table.several());
        let columns = Some(table.taken());
        let Table { fields, split_stored, left_out, .. } = table;
        Ok(FromTable {
            labelled,
            several,
            columns,
            fields,
            split_stored,
            left_out,
            unlabelled,
            unused,
        })
    }
}

/// What a table made of the plan, beside its samples' values.
#[derive(Debug, Default)]
struct FromTable {
    labelled: bool,
    /// Whether the first of `fields` says of which classes a sample is.
    several: bool,
    columns: Option<TableColumns>,
    fields: Vec<Field>,
    split_stored: Option<StoredSplit>,
    left_out: Vec<(String, String)>,
    unlabelled: Names,
    unused: Names,
}

/// A sample between the two sorts.
struct Record<'a> {
    key: &'a str,
    bytes: u64,
    split: Option<Split>,
    label: Option<i64>,
    values: &'a str,
}

/// In place of a split: nobody said.
const NO_SPLIT: u8 = 255;

impl<'a> Record<'a> {
    fn encode(&self) -> Vec<u8> {
        let mut record = self.bytes.to_le_bytes().to_vec();
        record.push(self.split.map_or(NO_SPLIT, |split| split as u8));
        record.extend(self.label.unwrap_or(i64::MIN).to_le_bytes());
        record.extend((self.key.len() as u64).to_le_bytes());
        record.extend_from_slice(self.key.as_bytes());
        record.extend_from_slice(self.values.as_bytes());
        record
    }

    fn parse(record: &'a [u8]) -> Option<Self> {
        let (bytes, rest) = record.split_first_chunk::<8>()?;
        let (split, rest) = rest.split_first()?;
        let (label, rest) = rest.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<8>()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        let (key, values) = rest.split_at_checked(len)?;
        let label = i64::from_le_bytes(*label);
        Some(Self {
            key: std::str::from_utf8(key).ok()?,
            bytes: u64::from_le_bytes(*bytes),
            split: Split::ALL.get(usize::from(*split)).copied(),
            label: (label != i64::MIN).then_some(label),
            values: std::str::from_utf8(values).ok()?,
        })
    }
}

fn damaged_record() -> std::io::Error {
    std::io::Error::other("a record is damaged")
}

/// The key with upper case folded into lower, letter by letter: unlike
/// `str::to_lowercase`, which writes a Greek sigma by its place in the word.
pub(crate) fn folded(key: &str) -> String {
    if key.is_ascii() {
        return key.to_ascii_lowercase();
    }
    key.chars().flat_map(char::to_lowercase).collect()
}

/// Sorts samples as the plan has them.
fn order_key(split: Split, key: &str, options: &PlanOptions) -> Vec<u8> {
    let mut sort_key = vec![split as u8];
    match options.order {
        PackOrder::Shuffled => sort_key.extend(hash(b"order", options.seed, key).to_be_bytes()),
        // '/' below every other character gives the order by segments.
        PackOrder::Sorted => sort_key.extend(key.bytes().map(|b| if b == b'/' { 0 } else { b })),
    }
    sort_key
}

/// Asked now and then, as sorting many keys takes a while.
pub(crate) fn check_cancel(i: usize, cancel: &AtomicBool) -> Result<(), Error> {
    if i.is_multiple_of(4096) && cancel.load(Ordering::Relaxed) {
        return Err(Error::Cancelled);
    }
    Ok(())
}

fn unknown_class(key: &str, class: &str, options: &PlanOptions, classes: &[String]) -> Error {
    Error::UnknownClass {
        path: key.to_owned(),
        class: class.to_owned(),
        list: match &options.classes {
            Some(Classes::File(path)) => path.display().to_string(),
            Some(Classes::Names(_)) => "the list of classes".to_owned(),
            None => "the source".to_owned(),
        },
        n: classes.len(),
    }
}

/// A number that depends on purpose, seed and key alone, so that a key keeps
/// its split and its place when other files come and go.
pub(crate) fn hash(purpose: &[u8], seed: u64, key: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(b"gular-plan ")
        .update(purpose)
        .update(&seed.to_le_bytes())
        .update(key.as_bytes());
    let hash = hasher.finalize();
    hash.as_bytes().first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b))
}

/// The split that a key falls into.
pub(crate) fn split_by(key: &str, seed: u64, fractions: &[(Split, f64)]) -> Split {
    let unit = (hash(b"split", seed, key) >> 11) as f64 / (1_u64 << 53) as f64;
    let mut sum = 0.0;
    for (split, fraction) in fractions {
        sum += fraction;
        if unit < sum {
            return *split;
        }
    }
    fractions.last().map_or(Split::Train, |(split, _)| *split)
}

/// Whether the options make sense together.
pub(crate) fn check_options(options: &PlanOptions) -> Result<(), Error> {
    options.payload.check()?;
    if options.shard_bytes < 1 << 20 {
        return Err(Error::Option(format!(
            "the shard size is {} bytes, expected at least 1 MiB",
            options.shard_bytes
        )));
    }
    if let Some(tile) = options.tile {
        check_tile(tile, options)?;
    }
    let of_rows = matches!(options.inputs, Inputs::Pixels { .. });
    let by_column = matches!(options.labels, Labels::Column(_));
    if by_column != of_rows && (by_column || options.labels != Labels::None) {
        let text = match of_rows {
            true => {
                "the labels of a table of pixels must be in a column of the same table, or be left out"
            }
            false => "a column of labels can only be given for a table of pixels",
        };
        return Err(Error::Option(text.to_owned()));
    }
    if of_rows && !options.fields.is_empty() {
        let text = "rows of pixels cannot have files beside them, such as masks";
        return Err(Error::Option(text.to_owned()));
    }
    if options.source_digests && options.manifest_payload() == Payload::Encoded {
        let text = "digests of source files need not be stored here: the files are stored unchanged, so the bundle has their digests already";
        return Err(Error::Option(text.to_owned()));
    }
    if options.source_digests && (of_rows || options.tile.is_some()) {
        let text = "digests of source files cannot be stored for tiles and tables of pixels: their samples are not single files";
        return Err(Error::Option(text.to_owned()));
    }
    if options.labels == Labels::None && options.classes.is_some() {
        let text = "a list of classes was given, but labels are turned off";
        return Err(Error::Option(text.to_owned()));
    }
    if let Labels::Table(table) = &options.labels
        && table.split.is_some()
        && !options.fractions.is_empty()
    {
        let text = "splits can come from a column or from fractions, not from both";
        return Err(Error::Option(text.to_owned()));
    }
    if options.memory < LEAST_MEMORY {
        return Err(Error::Option(format!(
            "the memory to use is {} bytes, expected at least 1 MiB",
            options.memory
        )));
    }
    check_fractions(&options.fractions)
}

/// Whether all samples fall into some split.
pub(crate) fn check_fractions(fractions: &[(Split, f64)]) -> Result<(), Error> {
    let sum: f64 = fractions.iter().map(|(_, f)| f).sum();
    let valid = fractions.iter().all(|(_, f)| (0.0..=1.0).contains(f));
    if !fractions.is_empty() && (!valid || (sum - 1.0).abs() > 1e-9) {
        return Err(Error::Option(format!("the fractions of the splits sum to {sum}, expected 1")));
    }
    Ok(())
}

fn check_tile(tile: TileOptions, options: &PlanOptions) -> Result<(), Error> {
    let TileOptions { size, overlap, min_valid } = tile;
    let fail = |text: String| Err(Error::Option(text));
    // Of one byte a pixel 256 MiB; how large tiles of more are, is known with the first scene.
    if !(1..=16_384).contains(&size) || overlap >= size {
        return fail(format!(
            "tiles have {size} pixels and an overlap of {overlap}; expected 1 to 16384 pixels, and an overlap that is smaller"
        ));
    }
    if !(0.0..=1.0).contains(&min_valid) {
        return fail(format!("the required share of valid pixels is {min_valid}, expected 0 to 1"));
    }
    if options.inputs != Inputs::Arrays {
        return fail("only scenes of numbers, in TIFF, are cut into tiles".to_owned());
    }
    if matches!(options.labels, Labels::Table(_)) {
        return fail(
            "tiles cannot get labels from a table: a table has a label per image, not per tile"
                .to_owned(),
        );
    }
    Ok(())
}

/// Boxes are fractions of the whole image: what is cut or framed they do not fit.
fn check_boxes(fields: &[Field], recipe: &Recipe) -> Result<(), Error> {
    let boxes = fields.iter().any(|field| field.name.as_str() == BOXES);
    match recipe {
        Recipe::Raw { fit: Fit::Crop | Fit::Pad, .. } if boxes => Err(Error::Option(
            "images with boxes cannot be cropped or padded, since boxes are fractions of the whole image; stretch the images, or pack them unchanged"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// The class list: the user's file, or the folders found.
pub(crate) fn classes(options: &PlanOptions, scan: &Scan) -> Result<Vec<String>, Error> {
    if options.labels == Labels::None {
        return Ok(Vec::new());
    }
    Ok(listed_classes(options)?.unwrap_or_else(|| scan.classes.iter().cloned().collect()))
}

/// The user's list of classes, if there is one.
pub(crate) fn listed_classes(options: &PlanOptions) -> Result<Option<Vec<String>>, Error> {
    let path = match &options.classes {
        None => return Ok(None),
        Some(Classes::Names(names)) => return Ok(Some(names.clone())),
        Some(Classes::File(path)) => path,
    };
    let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    let classes: Vec<String> =
        text.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect();
    let mut sorted = classes.clone();
    sorted.sort();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::Option(format!("`{}` lists class `{}` twice", path.display(), pair[0])));
    }
    Ok(Some(classes))
}

/// The plan's first line. Format: `FORMAT.md`, "Plan"; the order of members is part of it.
#[derive(serde::Serialize)]
struct Header<'a> {
    format: &'static str,
    version: u64,
    about: &'a gular_bundle::About,
    check: &'static str,
    classes: &'a [String],
    #[serde(skip_serializing_if = "<[Field]>::is_empty")]
    fields: &'a [Field],
    labelled: bool,
    max_pixels: u64,
    media_types: &'a [String],
    order: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a Recipe>,
    seed: u64,
    shard_bytes: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sources: bool,
    split: String,
}

/// A writer that counts and hashes what passes.
struct Out<W> {
    inner: W,
    hasher: blake3::Hasher,
    position: u64,
}

impl<W: Write> Out<W> {
    fn line(&mut self, text: &str) -> std::io::Result<()> {
        for piece in [text.as_bytes(), b"\n"] {
            self.inner.write_all(piece)?;
            self.hasher.update(piece);
            self.position += piece.len() as u64;
        }
        Ok(())
    }
}

/// What the plan says beside options and samples.
struct Content<'a> {
    classes: &'a [String],
    media_types: &'a [String],
    recipe: Recipe,
    labelled: bool,
    from_table: FromTable,
    files: Vec<FilesOf>,
    /// Left out for want of a file.
    skipped: Vec<BadInput>,
}

/// The list of a sample's further values: those of a table, then its files.
fn joined(of_table: &str, files: &[serde_json::Value]) -> Option<String> {
    if files.is_empty() {
        return (!of_table.is_empty()).then(|| of_table.to_owned());
    }
    let files = serde_json::Value::from(files).to_string();
    match of_table.strip_suffix(']') {
        Some("[") | None => Some(files),
        Some(start) => Some(format!("{start},{}", files.strip_prefix('[').unwrap_or(&files))),
    }
}

fn write(
    path: &Path,
    sorted: Sorted,
    options: &PlanOptions,
    content: Content<'_>,
    cancel: &AtomicBool,
) -> Result<Plan, Error> {
    let Content { classes, media_types, recipe, labelled, from_table, files, skipped } = content;
    let FromTable { several, columns, split_stored, fields, left_out, unlabelled, unused, .. } =
        from_table;
    let fixed: u64 = fields.iter().filter_map(Field::size_bytes).sum();
    let io = |e| Error::io("write", path, e);
    let dir = path.parent().unwrap_or(Path::new("."));
    let temp = gular_files::temp_in(dir)?;
    let inner = BufWriter::with_capacity(1 << 20, temp.as_file().try_clone().map_err(io)?);
    let mut out = Out { inner, hasher: blake3::Hasher::new(), position: 0 };
    // `on_error` is not among them: what is packed under `fail` is the same under
    // `skip`, so that a run which met a bad input goes on under the other.
    let header = Header {
        format: FORMAT,
        version: VERSION,
        about: &options.about,
        check: options.check.name(),
        classes,
        fields: &fields,
        labelled,
        max_pixels: options.max_pixels,
        media_types,
        order: options.order.name(),
        payload: Some(&recipe).filter(|recipe| **recipe != Recipe::Encoded),
        seed: options.seed,
        shard_bytes: options.shard_bytes,
        sources: options.source_digests,
        split: options
            .fractions
            .iter()
            .map(|(s, f)| format!("{s}={f}"))
            .collect::<Vec<_>>()
            .join(","),
    };
    let header =
        serde_json::to_string(&header).map_err(|e| io(std::io::Error::other(e.to_string())))?;
    out.line(&header).map_err(io)?;

    let mut shards: Vec<PlanShard> = Vec::new();
    let mut class_counts = Split::ALL.map(|_| vec![0_u64; classes.len()]);
    let (mut n_samples, mut n_bytes, mut stored) = (0_u64, 0_u64, 0_u64);
    for (i, pair) in sorted.enumerate() {
        check_cancel(i, cancel)?;
        let (sort_key, value) = pair.map_err(io)?;
        let split = Split::ALL.get(usize::from(sort_key.first().copied().unwrap_or(0))).copied();
        let split = split.unwrap_or(Split::Train);
        let damaged = || io(damaged_record());
        let (bytes, rest) = value.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (of_files, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (label, key) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (bytes, label) = (u64::from_le_bytes(*bytes), i64::from_le_bytes(*label));
        let of_files = u64::from_le_bytes(*of_files);
        let rest = std::str::from_utf8(key).map_err(|_| damaged())?;
        // A key has no control character.
        let values = rest.split_once('\t').map_or("", |(_, values)| values);
        let weight = recipe.value_bytes().unwrap_or(bytes).saturating_add(of_files);
        let full = shards.last().is_none_or(|s| {
            s.split != split || stored.saturating_add(weight) > options.shard_bytes
        });
        if full {
            out.line(&format!("shard\t{split}")).map_err(io)?;
            stored = 0;
            shards.push(PlanShard { split, samples: 0, bytes: 0, extra: 0, offset: out.position });
        }
        stored = stored.saturating_add(weight);
        if let Some(shard) = shards.last_mut() {
            shard.samples += 1;
            shard.bytes += bytes;
            shard.extra += values.len() as u64 + fixed + of_files;
        }
        let of_sample = match several {
            true => hot_classes(values),
            false => usize::try_from(label).into_iter().collect(),
        };
        for class in of_sample {
            if let Some(n) = class_counts[split as usize].get_mut(class) {
                *n += 1;
            }
        }
        n_samples += 1;
        n_bytes += bytes;
        let label = if labelled { label.to_string() } else { "-".to_owned() };
        out.line(&format!("{label}\t{bytes}\t{rest}")).map_err(io)?;
    }
    out.line(&format!("end\t{n_samples}\t{n_bytes}\t{}", shards.len())).map_err(io)?;
    let Out { mut inner, hasher, .. } = out;
    inner.flush().map_err(io)?;
    gular_files::persist(temp, path)?;
    let n_of_arrays = recipe.of_arrays().len();
    Ok(Plan {
        path: path.to_owned(),
        digest: Digest::from(hasher.finalize()),
        shards,
        samples: n_samples,
        bytes: n_bytes,
        classes: classes.to_vec(),
        class_counts,
        media_types: media_types.to_vec(),
        labelled,
        fields,
        columns,
        unlabelled,
        unused,
        split_stored,
        left_out,
        recipe,
        n_of_arrays,
        files: Arc::new(files),
        skipped,
    })
}

#[cfg(test)]
mod tests {
    use super::{folded, joined};

    #[test]
    fn files_follow_what_a_table_says() {
        let file: serde_json::Value = serde_json::json!([7, "a_mask.png"]);
        let files = std::slice::from_ref(&file);
        assert_eq!(joined("", &[]), None);
        assert_eq!(joined("[1,\"]\"]", &[]).unwrap(), "[1,\"]\"]");
        assert_eq!(joined("", files).unwrap(), "[[7,\"a_mask.png\"]]");
        assert_eq!(joined("[1,\"]\"]", files).unwrap(), "[1,\"]\",[7,\"a_mask.png\"]]");
    }

    #[test]
    fn letters_of_both_cases_fold_to_one() {
        for (a, b) in [("A/x.JPG", "a/X.jpg"), ("ΟΔΟΣ/x", "οδοσ/x"), ("É.png", "é.png")] {
            assert_eq!(folded(a), folded(b));
        }
        assert_ne!(folded("a/x"), folded("a-x"));
    }
}
