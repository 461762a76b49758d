//! Builds a plan from keys and sizes in any order, in bounded memory.
//!
//! Two sorts: by folded key, where keys that differ only in case become
//! neighbours; then by split and order, which is the order of the file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{BundlePath, Field, Split};
use gular_codec::Limits;

use super::check::{check_boxes, check_options};
use super::classes::unknown_class;
use super::extra::Extra;
use super::file::Plan;
use super::fractions::{Sample, Waiting};
use super::joining::{FromTable, Joining};
use super::order::{folded, order_key, split_by};
use super::record::SortRecord;
use super::write::{Content, write};
use crate::facts::{
    BadInput, BadInputs, ClassNumbers, Doubt, Fault, KeyList, Names, Remedy, RunError, Sorter,
    Start, WayToRead, counted, is_of_source, setting,
};
use crate::layout::{
    BoxValues, IN_PIXELS, Join, Labels, Layout, LayoutError, Table, Unlabelled, are_outside,
    boxes_of_size,
};
use crate::plan::{
    Beside, CheckImages, Depths, FractionsBy, Group, PayloadRecipe, PlanError, PlanOptions,
    StackFiles, StackOptions, TileOptions, stack, tiles,
};
use crate::source::{OnBadInput, Source};

/// Collects keys, then writes the plan.
#[derive(Debug)]
pub struct PlanBuilder<'a> {
    dir: PathBuf,
    options: PlanOptions,
    by_name: Sorter,
    depths: Depths,
    table: Option<Joining>,
    beside: Beside<'a>,
    /// Keys of samples that are looked at and not packed.
    leave_out: KeyList,
    /// The scenes that are cut.
    scenes: BTreeMap<String, Scene>,
    /// The files of samples, if one has several.
    stack_files: Option<StackFiles>,
    /// What is read for each such sample that is not cut.
    stacks: Option<Sorter>,
    /// Samples whose files do not fit together.
    skipped: Vec<BadInput>,
    /// Rows of datasets whose label stands for none.
    unlabelled: Names,
    /// Whether rows of pixels, which are the source itself, have labels.
    pub(crate) labelled: bool,
}

/// A scene that is cut into tiles.
#[derive(Debug)]
struct Scene {
    /// What is read for its tiles.
    read: Extra,
    /// Columns and rows.
    size: (u32, u32),
    /// Bytes of the numbers of a tile.
    of_tile: u64,
}

impl<'a> PlanBuilder<'a> {
    /// Makes a builder that sorts in folder `dir` what does not fit in memory.
    ///
    /// # Errors
    /// [`PlanError::Run`] when an option makes no sense, or a list of keys cannot be read.
    pub fn new(dir: &Path, options: &PlanOptions) -> Result<Self, PlanError> {
        check_options(options)?;
        // The second sort begins while the first is read: each has half.
        let memory = options.memory_bytes / 2;
        Ok(Self {
            dir: dir.to_owned(),
            options: options.clone(),
            by_name: Sorter::new(dir, memory),
            depths: Depths::default(),
            table: None,
            beside: Beside::default(),
            leave_out: KeyList::read(&options.leave_out)?,
            scenes: BTreeMap::new(),
            stack_files: StackFiles::new(dir, options, memory)?,
            stacks: None,
            skipped: Vec::new(),
            unlabelled: Names::default(),
            labelled: false,
        })
    }

    /// Takes labels, splits and values from a table; `layout` is that of the user's patterns.
    pub(crate) fn join(&mut self, table: Table, folders: Vec<String>, layout: Layout) {
        let part = table.part().map(|part| (part.to_owned(), layout));
        let join = Join::new(&self.dir, self.options.memory_bytes / 2, part);
        self.table = Some(Joining { table, folders, join });
    }

    /// Whether a table says the classes of images.
    pub(crate) fn has_table_labels(&self) -> bool {
        self.table.as_ref().is_some_and(|joining| joining.table.has_labels())
    }

    /// Adds the fields whose values are in files.
    pub(crate) fn files(&mut self, beside: Beside<'a>) {
        self.beside = beside;
    }

    /// Adds an image or the tiles of a scene, and finds of it what the payload leaves to be found.
    pub(crate) fn look(
        &mut self,
        source: &Source,
        key: &BundlePath,
        bytes: u64,
    ) -> Result<(), PlanError> {
        if let Source::Pixels(rows) = source {
            self.depths.pixels(rows.shape(), key.as_str());
            let (label, split) = rows.label_and_split(key.as_str());
            return self.add(key, bytes, Some(label), split);
        }
        if let Source::Datasets(rows) = source
            && self.labelled
        {
            self.depths.look(&self.options, source, key.as_str(), bytes);
            let label = rows.label(key.as_str());
            if label.is_none_or(|label| label < 0) {
                self.unlabelled.push(key.as_str());
                if self.options.unlabelled != Unlabelled::Keep {
                    return Ok(());
                }
            }
            return self.add(key, bytes, label, None);
        }
        if let Some(files) = &mut self.stack_files {
            return files.add(key, bytes);
        }
        let start = self.depths.look(&self.options, source, key.as_str(), bytes);
        let (Some(tile), Some(start)) = (self.options.tile, start) else {
            return self.push(key, bytes);
        };
        self.cut(key, &start, &tile, Extra::Scene(bytes))
    }

    /// Joins the files of each sample, if it has several, and adds it; `each` is told how many
    /// samples there are so far.
    pub(crate) fn join_files(
        &mut self,
        source: &Source,
        cancel: &AtomicBool,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), PlanError> {
        let Some(files) = self.stack_files.take() else { return Ok(()) };
        let PlanOptions { max_pixels, pages, align, on_error, tile, memory_bytes, .. } =
            self.options;
        let limits = Limits { max_pixels };
        let bands = files.bands();
        let join = StackOptions { limits, pages, align, bands: &bands };
        let dir = self.dir.clone();
        let io = |e| PlanError::io("sort in", &dir, e);
        let mut stacks = Sorter::new(&self.dir, memory_bytes / 4);
        let (mut bad, mut n) = (BadInputs::default(), 0_u64);
        let mut dates: Option<(usize, String)> = None;
        files.each(cancel, &mut |key, stack| {
            n += 1;
            each(n);
            let started = stack.and_then(|stack| {
                let path = BundlePath::parse(key).map_err(|e| {
                    let hint = Some("rename its files");
                    Fault::new(format!("its name cannot be a key: {}", e.reason), hint)
                })?;
                let start = stack::start(source, &stack, &join)?;
                Ok((path, start, stack))
            });
            let (path, start, stack) = match (started, on_error) {
                (Ok(started), _) => started,
                (Err(fault), OnBadInput::Fail) => {
                    // What one sample has of this, all have.
                    let is_of_all = fault.remedy == Remedy::Resample;
                    bad.push(fault.at(key.to_owned()));
                    return match is_of_all {
                        true => Ok(std::mem::take(&mut bad).into_result()?),
                        false => Ok(()),
                    };
                }
                (Err(fault), OnBadInput::Skip) => {
                    self.skipped.push(fault.at(key.to_owned()));
                    return Ok(());
                }
            };
            match &mut dates {
                None => dates = Some((stack.dates.len(), key.to_owned())),
                Some((n, _)) if *n == stack.dates.len() => {}
                Some((n, _)) if self.options.pad_dates => *n = (*n).max(stack.dates.len()),
                Some((n, other)) => {
                    let other_n = stack.dates.len();
                    let text = format!(
                        "`{other}` has {n} dates, and `{key}` has {other_n}: name dates that all samples have, such as `{{date:2020|2021}}`, or fill up the shorter series"
                    );
                    return Err(setting(&["pad_dates", "images"], text));
                }
            }
            self.depths.add_array(&self.options, &start, key);
            if let Some(tile) = tile {
                return self.cut(&path, &start, &tile, Extra::Stack(stack));
            }
            let record = Extra::Stack(stack);
            let bytes = record.bytes();
            stacks
                .push(folded(key).as_bytes(), record.to_value().to_string().as_bytes())
                .map_err(io)?;
            self.push(&path, bytes)
        })?;
        self.stacks = Some(stacks);
        if let Some((n, _)) = dates.filter(|_| self.options.pad_dates) {
            self.depths.fill_up(n as u64);
        }
        Ok(bad.into_result()?)
    }

    /// Adds the tiles of a scene, for which `read` is read.
    fn cut(
        &mut self,
        key: &BundlePath,
        start: &Start,
        tile: &TileOptions,
        read: Extra,
    ) -> Result<(), PlanError> {
        if !start.is_raster() {
            let text =
                format!("`{key}` is not TIFF, JPEG 2000, PNG or JPEG, which are cut into tiles");
            return Err(setting(&["tile"], text));
        }
        let [ref dates @ .., height, width, bands] = *start.shape.as_slice() else {
            return self.push(key, read.bytes());
        };
        let side = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let pixels = u64::from(tile.size) * u64::from(tile.size) * dates.iter().product::<u64>();
        let of_tile = pixels * bands * start.dtype.size_bytes();
        let size = (side(width), side(height));
        tiles::corners(size, tile).map_err(|n| {
            let side = tile.size;
            setting::<PlanError>(&["tile"], format!(
                "`{key}` would be cut into {n} tiles of {side} pixels, more than one file may have"
            ))
        })?;
        let bytes = read.bytes();
        self.scenes.insert(key.as_str().to_owned(), Scene { read, size, of_tile });
        self.push(key, bytes)
    }

    /// Adds an image.
    ///
    /// # Errors
    /// [`PlanError::Run`] when the sort cannot write.
    pub fn push(&mut self, key: &BundlePath, bytes: u64) -> Result<(), PlanError> {
        if let Some(Joining { join, .. }) = &mut self.table {
            return Ok(join.image(key.as_str(), bytes)?);
        }
        self.add(key, bytes, None, None)
    }

    fn add(
        &mut self,
        key: &BundlePath,
        bytes: u64,
        label: Option<i64>,
        split: Option<Split>,
    ) -> Result<(), PlanError> {
        let key = key.as_str();
        let record = SortRecord { key, bytes, split, group: "", label, size: None, values: "" };
        self.by_name
            .push(folded(key).as_bytes(), &record.encode())
            .map_err(|e| PlanError::io("sort in", &self.dir, e))
    }

    /// Writes the plan to `path`, replacing what is there.
    ///
    /// `classes` are the class names in label order; `layout` says what paths mean.
    ///
    /// # Errors
    /// [`PlanError::CaseCollision`], [`PlanError::MixedDepth`], [`PlanError::Layout`]; [`RunError`]
    /// where a class is not in the list, what is sorted cannot be written, or the caller stops it.
    pub fn finish(
        self,
        path: &Path,
        classes: &[String],
        media_types: &[String],
        layout: &Layout,
        cancel: &AtomicBool,
    ) -> Result<Plan, PlanError> {
        let Self { dir, options, mut by_name, depths, table, mut beside, leave_out, .. } = self;
        let (scenes, labelled, of_rows) = (self.scenes, self.labelled, self.unlabelled);
        let mut stacks = self.stacks.map(Sorter::finish).transpose().map_err(io_in(&dir))?;
        let of_grids = depths.doubts(&options);
        let mut recipe = PayloadRecipe::new(&options, depths, media_types)?;
        // Patterns of the user may take splits from some paths and leave others to fractions.
        let twice = layout.has_splits() && (options.images.is_empty() || layout.all_have("split"));
        if !options.fractions.is_empty() && twice {
            return Err(LayoutError::SplitTwice { patterns: layout.without_splits() }.into());
        }
        let io = io_in(&dir);
        let mut from_table = FromTable::default();
        if let Some(joining) = table {
            from_table = joining.finish(&options, layout, classes, &mut |record| {
                by_name.push(folded(record.key).as_bytes(), &record.encode()).map_err(io)
            })?;
        }
        check_boxes(&from_table.fields, &recipe)?;
        check_group(&options, layout)?;
        let mut by_order = Sorter::new(&dir, options.memory_bytes / 4);
        let mut waiting = Waiting::new(&dir, options.memory_bytes / 4);
        let labels = ClassNumbers::new(classes);
        let mut last: Option<(Vec<u8>, String)> = None;
        let (mut fatal, mut skipped) = (BadInputs::default(), self.skipped);
        let [mut resized, mut outside, mut turned] = <[Names; 3]>::default();
        let boxes = BoxValues::among(&from_table.fields);
        for (i, pair) in by_name.finish().map_err(io)?.enumerate() {
            check_cancel(i, cancel)?;
            let (folded, record) = pair.map_err(io)?;
            let SortRecord { key, bytes, split, group, label, size, values } =
                SortRecord::parse(&record).ok_or_else(|| io(damaged_record()))?;
            if let Some((_, other)) = last.as_ref().filter(|(f, _)| *f == folded) {
                return Err(PlanError::CaseCollision {
                    first: other.clone(),
                    second: key.to_owned(),
                });
            }
            let scene = scenes.get(key);
            // Samples without a row of a table are not among those that are sorted by name.
            let of_key = stacks.as_mut().and_then(|stacks| {
                stacks.find(|pair| pair.as_ref().map_or(true, |(name, _)| *name >= folded))
            });
            let of_key = of_key.transpose().map_err(io)?.filter(|(name, _)| *name == folded);
            let stack = of_key.and_then(|(_, extra)| Extra::parse(&extra));
            let extra = stack.as_ref().or_else(|| scene.map(|scene| &scene.read));
            let file = extra.and_then(Extra::first_path).unwrap_or(key);
            let placed = layout.place(file)?.ok_or_else(|| io(damaged_record()))?;
            let class = placed.label.as_deref();
            let group = match &options.group {
                Some(Group::Column(_)) => Some(group),
                Some(Group::Part(name)) => placed.values.get(name),
                None => placed.values.get("group"),
            };
            let split = split.or(placed.split);
            let label = match class.map(|class| (class, labels.get(class))) {
                None => label.unwrap_or(-1),
                Some((class, Some(of_path)))
                    if label.is_some_and(|of| of >= 0 && of != of_path) =>
                {
                    let text = format!(
                        "`{file}` has the class `{class}` by its path, and another one by the table"
                    );
                    return Err(setting(&["images", "labels"], text));
                }
                Some((_, Some(label))) => label,
                Some((class, None)) => return Err(unknown_class(file, class, &options, classes)),
            };
            let mut of_size = None;
            let sized = match size
                .filter(|size| *size == IN_PIXELS || options.check != CheckImages::None)
            {
                Some(IN_PIXELS) => match (size_of(scene, &beside, file, &mut turned), &boxes) {
                    (Ok(size), Some(boxes)) => {
                        let at = boxes.at();
                        of_size = boxes_of_size(values, at, size);
                        if of_size.as_ref().is_some_and(|values| are_outside(values, at)) {
                            outside.push(file);
                        }
                        Ok(())
                    }
                    (Ok(_), None) => Ok(()),
                    (Err(fault), _) => Err(fault),
                },
                Some(size) => beside.check_size(file, size, [&mut resized, &mut turned]),
                None => Ok(()),
            };
            let values = of_size.as_deref().unwrap_or(values);
            match sized.and_then(|()| beside.planned(file, &placed, &recipe)) {
                Ok((mut files, of_files)) => {
                    files.splice(0..0, layout.values(&placed.values));
                    files.extend(extra.map(Extra::to_value));
                    let mut add = |key: &str,
                                   values: &str,
                                   [bytes, of_files]: [u64; 2],
                                   group: Option<&str>| {
                        let values = joined(values, &files);
                        if leave_out.has(key) {
                            return Ok(());
                        }
                        let mut value = bytes.to_le_bytes().to_vec();
                        value.extend(of_files.to_le_bytes());
                        value.extend(label.to_le_bytes());
                        value.extend_from_slice(key.as_bytes());
                        if let Some(values) = &values {
                            value.push(b'\t');
                            value.extend_from_slice(values.as_bytes());
                        }
                        let split = split.or_else(|| match options.fractions.as_slice() {
                            [] => Some(Split::Train),
                            _ if options.fractions_by == FractionsBy::Exact => None,
                            fractions => {
                                Some(split_by(group.unwrap_or(file), options.seed, fractions))
                            }
                        });
                        match split {
                            Some(split) => {
                                by_order.push(&order_key(split, key, &options), &value).map_err(io)
                            }
                            None => {
                                let sample = Sample { key, label, group };
                                waiting.push(&sample, options.seed, &value)
                            }
                        }
                    };
                    match (scene, &options.tile) {
                        (Some(scene), Some(tile)) => {
                            let corners = tiles::corners(scene.size, tile).unwrap_or_default();
                            for corner in corners {
                                // Neighbours share pixels, so all tiles of a block, which is the
                                // scene if there are no blocks, are in one split.
                                let block = tile
                                    .block_of(corner)
                                    .map(|(column, row)| tiles::key(key, (column, row)));
                                let of_block = block.as_deref().unwrap_or(key);
                                let cut = |boxes: &BoxValues| {
                                    boxes.of_tile(values, scene.size, corner, tile.size)
                                };
                                let cut = match boxes.as_ref().map(cut) {
                                    None => Cow::Borrowed(values),
                                    Some(cut) => cut.ok_or_else(|| io(damaged_record()))?.into(),
                                };
                                let tile = tiles::key(key, corner);
                                // Of a scene's files, only the part that a tile covers counts.
                                let group = group.or(Some(of_block));
                                add(&tile, &cut, [scene.of_tile, 0], group)?;
                            }
                        }
                        _ => add(key, values, [bytes, of_files], group)?,
                    }
                }
                Err(fault) => match options.on_error {
                    OnBadInput::Fail => fatal.push(fault.at(key.to_owned())),
                    OnBadInput::Skip => skipped.push(fault.at(key.to_owned())),
                },
            }
            last = Some((folded, key.to_owned()));
        }
        without_class(&of_rows, last.is_none(), &options, &mut from_table)?;
        // Otherwise they are left out when they are packed.
        if options.on_error == OnBadInput::Fail {
            beside.unlike().into_iter().for_each(|bad| fatal.push(bad));
        }
        fatal.into_result()?;
        let divided = waiting.divide(options.seed, &options.fractions).map_err(io)?;
        for (i, pair) in divided.enumerate() {
            check_cancel(i, cancel)?;
            let (split, value) = pair.map_err(io)?;
            let key = key_of(&value).ok_or_else(|| io(damaged_record()))?;
            by_order.push(&order_key(split, key, &options), &value).map_err(io)?;
        }
        let sorted = by_order.finish().map_err(io)?;
        let labelled = match &options.labels {
            Labels::Path => layout.has_labels(),
            Labels::None => false,
            Labels::Table(_) => from_table.labelled || layout.has_labels(),
            Labels::Column(_) => labelled,
        };
        from_table.doubts.extend(beside.doubts());
        if beside.has_jpeg() {
            recipe.with_jpeg();
        }
        let files = beside.finish(&recipe);
        from_table.add_parts(layout, &options.fields)?;
        from_table.doubts.extend(of_grids);
        from_table.doubts.extend(of_resized(&resized));
        from_table.doubts.extend(of_turned(&turned));
        from_table.doubts.extend(of_sources(&options, layout, &from_table.fields));
        from_table.doubts.extend(of_outside(&outside));
        from_table.fields.extend(files.iter().map(|of| of.field.clone()));
        from_table.fields.extend(recipe.of_arrays());
        let images = layout.telling().collect();
        let content =
            Content { classes, media_types, images, recipe, labelled, from_table, files, skipped };
        write(path, sorted, &options, content, cancel)
    }
}

/// Does with the rows of datasets that have no class what the options say; `all` have none.
fn without_class(
    rows: &Names,
    all: bool,
    options: &PlanOptions,
    from_table: &mut FromTable,
) -> Result<(), PlanError> {
    let (n, images) = (rows.n, rows.to_string());
    match options.unlabelled {
        _ if n == 0 => {}
        _ if all || options.unlabelled == Unlabelled::Fail => {
            let why =
                "their labels are negative or the nodata value, which stand for none".to_owned();
            return Err(PlanError::Unlabelled { n, images, why });
        }
        Unlabelled::Fail | Unlabelled::Skip => from_table.unlabelled.add(rows),
        Unlabelled::Keep => {
            let n = counted(n, "row has", "rows have");
            let text =
                format!("{n} a label that stands for none, and are packed without one: {images}");
            from_table.doubts.push(Doubt::new(text, Vec::new()));
        }
    }
    Ok(())
}

/// Images of which boxes, in pixels, end outside of them.
fn of_outside(images: &Names) -> Option<Doubt> {
    let n = counted(images.n, "image has boxes", "images have boxes");
    let text = format!("{n} that end outside of it: {images}");
    (images.n > 0).then(|| Doubt::new(text, Vec::new()))
}

/// Images that have another size than their annotations say, and the same form.
/// Fractions that may put images of one patient, video or the like into two splits.
fn of_sources(options: &PlanOptions, layout: &Layout, fields: &[Field]) -> Option<Doubt> {
    let is_grouped = options.group.is_some() || layout.has("group") || options.tile.is_some();
    let field = fields.iter().find(|field| is_of_source(field.name.as_str()));
    let name = field.filter(|_| !options.fractions.is_empty() && !is_grouped)?.name.as_str();
    let text = format!("the fractions may put images of one `{name}` into several splits");
    let group = if layout.has(name) { format!("{{{name}}}") } else { name.to_owned() };
    let way = WayToRead { group: Some(group), ..WayToRead::new("to keep them together", &[]) };
    Some(Doubt::new(text, vec![way]))
}

/// Images that are turned to be upright, of which annotations may be of the stored pixels.
fn of_turned(images: &Names) -> Option<Doubt> {
    let n = counted(images.n, "image with boxes is", "images with boxes are");
    let text = format!(
        "{n} turned by EXIF, and boxes are taken to be of the image as it is seen, after turning: {images}"
    );
    (images.n > 0).then(|| Doubt::new(text, Vec::new()))
}

fn of_resized(images: &Names) -> Option<Doubt> {
    let n = counted(images.n, "image has", "images have");
    let text = format!(
        "{n} another size than the annotations say, with the same ratio of width and height; boxes are fractions of it, and still fit: {images}"
    );
    (images.n > 0).then(|| Doubt::new(text, Vec::new()))
}

/// Checks that there is something to group by.
fn check_group(options: &PlanOptions, layout: &Layout) -> Result<(), PlanError> {
    let fail = |text: String| Err(setting(&["group"], text));
    let is_cut = options.tile.is_some_and(|tile| tile.block.is_some());
    if is_cut && (options.group.is_some() || layout.has("group")) {
        let text = "scenes are divided by blocks, and a group would keep them together";
        return Err(setting(&["block", "group"], text));
    }
    match &options.group {
        Some(_) if options.fractions.is_empty() => {
            fail("a group was given, but no fractions, which would keep it together".to_owned())
        }
        Some(Group::Column(name)) if !matches!(options.labels, Labels::Table(_)) => fail(format!(
            "the group `{name}` is a column, but there is no table of labels; a part of paths is written `{{{name}}}`"
        )),
        Some(Group::Part(name)) if !layout.all_have(name) => {
            fail(format!("not every pattern of the images has the part `{name}`"))
        }
        _ => Ok(()),
    }
}

/// The key in a record of the second sort: behind three numbers, and before further values.
fn key_of(value: &[u8]) -> Option<&str> {
    let rest = std::str::from_utf8(value.get(24..)?).ok()?;
    Some(rest.split_once('\t').map_or(rest, |(key, _)| key))
}

fn io_in(dir: &Path) -> impl Fn(std::io::Error) -> PlanError + Copy {
    move |e| PlanError::io("sort in", dir, e)
}

pub(super) fn damaged_record() -> std::io::Error {
    std::io::Error::other("a record is damaged")
}

/// Asked now and then, as sorting many keys takes a while.
pub(crate) fn check_cancel(i: usize, cancel: &AtomicBool) -> Result<(), PlanError> {
    if i.is_multiple_of(4096) && cancel.load(Ordering::Relaxed) {
        return Err(RunError::Cancelled.into());
    }
    Ok(())
}

/// Columns and rows of an image in pixels of which its boxes are; one that is turned to be upright is
/// noted in `turned`.
fn size_of(
    scene: Option<&Scene>,
    beside: &Beside<'_>,
    file: &str,
    turned: &mut Names,
) -> Result<(u32, u32), Fault> {
    let Some(scene) = scene else { return beside.size_of(file, turned) };
    // Of scenes, only pictures are turned.
    let extension = file.rsplit('.').next().unwrap_or_default();
    if ["jpg", "jpeg", "png"].iter().any(|known| extension.eq_ignore_ascii_case(known)) {
        beside.size_of(file, turned)?;
    }
    Ok(scene.size)
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

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn files_follow_what_a_table_says() {
        let file: serde_json::Value = serde_json::json!([7, "a_mask.png"]);
        let files = std::slice::from_ref(&file);
        assert_eq!(joined("", &[]), None);
        assert_eq!(joined("[1,\"]\"]", &[]).unwrap(), "[1,\"]\"]");
        assert_eq!(joined("", files).unwrap(), "[[7,\"a_mask.png\"]]");
        assert_eq!(joined("[1,\"]\"]", files).unwrap(), "[1,\"]\",[7,\"a_mask.png\"]]");
    }
}
