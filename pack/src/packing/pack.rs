//! The whole run: makes the plan, lets worker threads write the shards, writes the manifest last,
//! and resumes an interrupted run.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gular_bundle::{Field, MadeValue, Manifest, ShardEntry};
use gular_files::TEMP_PREFIX;

use super::{PackReport, Resampling, borne_out};
use crate::error::Error;
use crate::facts::{KEY, PixelBudget, RunError, merged, setting};
use crate::layout::{
    BOXES, KEY_COLUMN, Labels, Layout, LayoutError, Scan, Table, TableOptions, Unlabelled,
    Unpacked, key_by_values, other_key, scan,
};
use crate::plan::{
    Beside, CheckImages, FractionsBy, PayloadRecipe, Plan, PlanBuilder, PlanOptions, beside,
    classes, of_imagefolder, of_known, of_parquet, with_roles,
};
use crate::shards::{
    Done, Gathered, OutDir, Part, PartFile, PartShard, Planned, ShardWorkers, UnpackedScenes,
    accepts, finished_bundle, run_id, still_needed,
};
use crate::source::{
    Inputs, LabelColumn, OnBadInput, PixelRows, Source, SourceError, listed_classes,
};

/// Options of a run that do not change a byte of the bundle.
#[derive(Debug, Clone)]
pub struct PackOptions {
    /// The options that decide what the bundle contains.
    pub plan: PlanOptions,
    /// Worker threads.
    pub jobs: usize,
    /// Whether to scan and plan only.
    pub dry_run: bool,
    /// Pack this part of the plan's shards alone; [`merge`](crate::merge) makes the bundle.
    pub part: Option<Part>,
    /// The folder in which a dry run sorts what does not fit in memory; other runs use the output
    /// folder.
    pub temp_dir: PathBuf,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// Number of images found so far.
    Scanned(u64),
    /// Bytes of source files that are about to be compared with a base.
    ToCompare(u64),
    /// Bytes that were compared since the last call.
    Compared(u64),
    /// How the source was read, before anything is packed: the report, as far as it is known.
    Read(&'a PackReport),
    /// The plan is made: samples, and bytes of their source files.
    Planned(u64, u64),
    /// Samples and bytes that went into shards, or were left out, since the last call.
    Packed(u64, u64),
}

/// Packs the images in `source`, a folder or an archive, into a new bundle in folder `out`.
///
/// The same images and options give the same bytes whatever the jobs, the
/// machine, and how often the run was interrupted.
///
/// # Errors
/// See [`Error`]; finished shards stay, and the same call resumes from them.
pub fn pack(
    source: &Path,
    out: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<PackReport, Error> {
    let start = Instant::now();
    fs::metadata(source).map_err(|e| Error::io("open", source, e))?;
    check_apart(source, out)?;
    let known = with_known(source, options)?;
    let options = known.as_ref().unwrap_or(options);
    let mut report = borne_out(source, options, progress, cancel, &mut |options| {
        if options.dry_run {
            return dry_run(source, options, progress, cancel);
        }
        match finished(source, out, options, progress, cancel)? {
            Some(report) => Ok(report),
            None => OutDir::with(out, |dir| run(source, dir, options, None, progress, cancel)),
        }
    })?;
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Packs about `n` samples of each split, the first ones of each class, to be looked at: with the
/// options of the whole, they are what the whole bundle would have. Images that cannot be packed are left out and listed.
///
/// # Errors
/// Those of [`pack`].
pub fn pack_preview(
    source: &Path,
    out: &Path,
    options: &PackOptions,
    n: u64,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<PackReport, Error> {
    check_apart(source, out)?;
    let mut options = with_known(source, options)?.unwrap_or_else(|| options.clone());
    options.plan.on_error = OnBadInput::Skip;
    borne_out(source, &options, progress, cancel, &mut |options| {
        OutDir::with(out, |dir| run(source, dir, options, Some(n), progress, cancel))
    })
}

/// The options for a known dataset, if the source is one.
pub(crate) fn with_known(
    source: &Path,
    options: &PackOptions,
) -> Result<Option<PackOptions>, Error> {
    let plan = match with_roles(source, &options.plan)? {
        Some(plan) => Some(plan),
        None => match of_known(source, &options.plan)? {
            Some(plan) => Some(plan),
            None => match of_parquet(source, &options.plan)? {
                Some(plan) => Some(plan),
                None => of_imagefolder(source, &options.plan, &options.temp_dir)?,
            },
        },
    };
    Ok(plan.map(|plan| PackOptions { plan, ..options.clone() }))
}

/// A bundle among its own inputs would look like one more class.
pub(crate) fn check_apart(source: &Path, out: &Path) -> Result<(), Error> {
    let there = out.ancestors().find(|a| a.exists());
    let there = there.filter(|a| !a.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let inside = match (source.canonicalize(), there.canonicalize()) {
        (Ok(source), Ok(there)) => there.starts_with(source),
        _ => false,
    };
    if inside {
        let (out, source_dir) = (out.display().to_string(), source.display().to_string());
        return Err(Error::Inside { out, source_dir });
    }
    Ok(())
}

/// Opens the source; what is unpacked for that is in folder `temp`.
pub(crate) fn open_source(
    source: &Path,
    options: &PlanOptions,
    temp: &Path,
    cancel: &AtomicBool,
) -> Result<Source, Error> {
    if let Inputs::Pixels { .. } = options.inputs {
        return Ok(Source::Pixels(PixelRows::open(source, &options.source(), temp, cancel)?));
    }
    Ok(Source::open(source, &options.source(), Some(temp), cancel)?)
}

fn dry_run(
    source: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<PackReport, Error> {
    let temp = tempfile::tempdir_in(&options.temp_dir)
        .map_err(|e| Error::io("create a folder in", &options.temp_dir, e))?;
    let source = open_source(source, &options.plan, temp.path(), cancel)?;
    let (plan, found) = make_plan(&source, temp.path(), &options.plan, progress, cancel)?;
    let shards = part_of(&plan, options);
    let (samples, bytes) = planned(&plan, shards.clone());
    progress(Progress::Planned(samples, bytes));
    let report = report_of(&plan, &found, options);
    progress(Progress::Read(&report));
    Ok(PackReport { dry_run: true, samples, bytes, shards: shards.len() as u64, ..report })
}

/// Returns the report of a finished bundle in folder `out`, if it has the plan of this run: the
/// same names, sizes and options. The contents of the files are not compared.
fn finished(
    source: &Path,
    out: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<Option<PackReport>, Error> {
    let bundle = finished_bundle(out)?;
    // A file of that name that is something else is in the way, which `OutDir` says.
    let part = PartFile::finished(out).ok().flatten().filter(|_| bundle.is_none());
    let template = match (&bundle, &part, options.part) {
        (Some(bundle), _, None) => bundle.manifest().clone(),
        (None, Some(part), Some(wanted)) if part.part == wanted => part.template(out)?,
        _ => return Ok(None),
    };
    // The temporary folder is beside the bundle, where the run had space to unpack an archive; the
    // bundle itself is not touched.
    let beside = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temp = tempfile::Builder::new()
        .prefix(TEMP_PREFIX)
        .tempdir_in(beside)
        .or_else(|_| tempfile::tempdir_in(&options.temp_dir))
        .map_err(|e| Error::io("create a folder in", &options.temp_dir, e))?;
    let source = open_source(source, &options.plan, temp.path(), cancel)?;
    let (plan, found) = make_plan(&source, temp.path(), &options.plan, progress, cancel)?;
    let made = |name: &str| template.made.get(name);
    let report = report_of(&plan, &found, options);
    let report = match (&bundle, &part) {
        (Some(bundle), _) => {
            let manifest = bundle.manifest();
            PackReport {
                digest: Some(bundle.digest()),
                samples: manifest.shards.iter().map(|s| s.samples).sum(),
                bytes: manifest.shards.iter().map(ShardEntry::bytes).sum(),
                shards: manifest.shards.len() as u64,
                skipped: match made("skipped") {
                    Some(MadeValue::Number(skipped)) => *skipped,
                    _ => 0,
                },
                already_done: true,
                ..report
            }
        }
        (None, Some(part)) => PackReport { already_done: true, ..of_part(part, report) },
        (None, None) => return Ok(None),
    };
    if made("plan") != Some(&MadeValue::Text(plan.digest.to_string()))
        || template.envelope != options.plan.envelope
        || (report.skipped > 0 && options.plan.on_error == OnBadInput::Fail)
        // What was left out may be accepted now.
        || (report.skipped > 0 && !accepts(&options.plan).is_empty())
    {
        return Ok(None);
    }
    if let Some(bundle) = bundle {
        bundle.check_lengths()?;
    }
    Ok(Some(report))
}

fn run(
    source: &Path,
    out: &OutDir,
    options: &PackOptions,
    preview: Option<u64>,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<PackReport, Error> {
    let source = &open_source(source, &options.plan, &out.state, cancel)?;
    let (mut plan, mut found) = make_plan(source, &out.state, &options.plan, progress, cancel)?;
    out.keep_plan(&mut plan)?;
    preview.map(|n| plan.keep_first(n)).transpose()?;
    out.keep_part(options.part)?;
    let shards = part_of(&plan, options);
    let (samples, bytes) = planned(&plan, shards.clone());
    progress(Progress::Read(&report_of(&plan, &found, options)));
    progress(Progress::Planned(samples, bytes));
    let run_id = run_id(&plan, &options.plan);
    let done = out.finished(&run_id, shards.clone(), options.plan.on_error)?;
    let resumed_shards = done.len() as u64;
    check_space(out, &plan, shards.clone(), &done)?;
    if let Source::Datasets(rows) = source
        && done.len() < shards.len()
    {
        rows.unpack_images(&options.plan.source(), cancel)?;
    }
    for shard in done.keys().filter_map(|number| plan.shards.get(*number)) {
        progress(Progress::Packed(shard.samples, shard.bytes));
    }
    let fields = fields(&plan);
    let work = ShardWorkers {
        source,
        out,
        options: &options.plan,
        jobs: options.jobs,
        plan: &plan,
        shards,
        fields: &fields,
        pixels: PixelBudget::new(options.plan.max_pixels, options.jobs),
        unpacked: Arc::new(UnpackedScenes::new(plan.folder())),
        packed: &|samples, bytes| progress(Progress::Packed(samples, bytes)),
        cancel,
    };
    let done = work.run(done)?;
    let template = template(&plan, &options.plan, &found.layout, fields);
    let before = std::mem::take(&mut found.skipped);
    if let Some(part) = options.part {
        let planned =
            Planned { shards: plan.shards.len() as u64, samples: plan.samples, bytes: plan.bytes };
        let shards = done.into_iter().map(|(number, done)| PartShard { number, done }).collect();
        let file = PartFile::new(part, planned, plan.header()?, &template, before, shards);
        out.publish_part(&file)?;
        return Ok(of_part(
            &file,
            PackReport { resumed_shards, ..report_of(&plan, &found, options) },
        ));
    }
    let gathered = Gathered::new(before, done.into_values()).some(source.path())?;
    let manifest = gathered.manifest(template);
    let digest = out.publish(&manifest, &gathered.skipped)?;
    Ok(PackReport {
        digest: Some(digest),
        samples: manifest.shards.iter().map(|s| s.samples).sum(),
        bytes: manifest.shards.iter().map(ShardEntry::bytes).sum(),
        shards: manifest.shards.len() as u64,
        skipped: gathered.skipped.len() as u64,
        resumed_shards,
        tolerated: gathered.tolerated,
        misnamed: gathered.misnamed,
        empty_tiles: gathered.empty_tiles,
        ..report_of(&plan, &found, options)
    })
}

/// Returns the numbers of the shards that this run packs.
fn part_of(plan: &Plan, options: &PackOptions) -> Range<usize> {
    let n = plan.shards.len();
    options.part.map_or(0..n, |part| part.shards(n))
}

/// Samples of these shards, and bytes of their source files.
fn planned(plan: &Plan, shards: Range<usize>) -> (u64, u64) {
    let shards = plan.shards.get(shards).unwrap_or_default().iter();
    shards.fold((0, 0), |(samples, bytes), s| (samples + s.samples, bytes + s.bytes))
}

/// Returns the report of a finished part.
fn of_part(part: &PartFile, report: PackReport) -> PackReport {
    let (shards, samples, bytes) = part.written();
    let done = part.shards.iter().map(|shard| shard.done.clone());
    let Gathered { skipped, tolerated, misnamed, empty_tiles, .. } =
        Gathered::new(part.skipped.clone(), done);
    let skipped = skipped.len() as u64;
    PackReport { shards, samples, bytes, skipped, tolerated, misnamed, empty_tiles, ..report }
}

/// Scans and plans; sorts and writes in folder `dir`.
pub(crate) fn make_plan(
    source: &Source,
    dir: &Path,
    options: &PlanOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<(Plan, Scan), Error> {
    let mut builder = PlanBuilder::new(dir, options)?;
    let mut table_classes = None;
    if let Source::Pixels(rows) = source {
        if !options.fractions.is_empty() && !rows.split_words.is_empty() {
            let words: Vec<String> = rows.split_words.keys().map(|w| format!("`{w}`")).collect();
            let text = format!(
                "splits can come from the source or from fractions, not from both; the source has {}",
                words.join(", ")
            );
            return Err(setting(&["fractions"], text));
        }
        table_classes = Some(rows.classes.clone());
        builder.labelled = rows.labelled;
    }
    match (source, &options.labels) {
        (Source::Datasets(rows), Labels::Column(_)) => {
            table_classes = rows.read_labels(&options.source())?;
            builder.labelled = table_classes.is_some();
        }
        (Source::Folder(_) | Source::Archive(_), Labels::Column(_)) => {
            let text =
                "a column of labels can only be given for a table of pixels, or a file of datasets";
            return Err(setting(&["label_column", "labels"], text));
        }
        _ => {}
    }
    let mut unpacked = None;
    if let Labels::Table(tables) = &options.labels {
        let unpacked =
            unpacked.insert(Unpacked::new(tables, source, &options.source(), dir, cancel)?);
        let layout = Layout::of_arrays(options.images.clone())?;
        let parts = layout.fields().map(|field| field.name.as_str().to_owned());
        let parts = parts.chain(layout.all_have(KEY).then(|| KEY.to_owned())).collect();
        let mut tables = TableOptions { parts, ..unpacked.options.clone() };
        let listed = listed_classes(options.classes.as_ref())?;
        let table = match Table::open(&tables, listed.clone()) {
            Err(LayoutError::Source(SourceError::NoColumn {
                what,
                wanted: None,
                columns,
                path,
            })) if what == KEY_COLUMN => {
                let Some(key) = key_by_values(&tables, source)? else {
                    let wanted = None;
                    return Err(SourceError::NoColumn { what, wanted, columns, path }.into());
                };
                tables.key = Some(key);
                Table::open(&tables, listed)?.with_found_key()
            }
            opened => opened?,
        };
        if tables.key.is_none()
            && let Some(doubt) = other_key(&tables, table.key_name(), source)?
        {
            return Err(LayoutError::from(doubt).into());
        }
        table_classes = Some(table.classes.clone());
        let folder = |file: &PathBuf| {
            let in_archive = unpacked.folder(file, source.path());
            in_archive.unwrap_or_else(|| folder_below(source.path(), file))
        };
        let folders = table.files().iter().map(folder).collect();
        builder.join(table, folders, layout);
    }
    let mut n = 0_u64;
    beside::check(options)?;
    let mut found = scan::<Error>(source, &options.layout(), &mut |key, bytes| {
        n += 1;
        if n.is_multiple_of(1000) {
            progress(Progress::Scanned(n));
            if cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled.into());
            }
        }
        Ok(builder.look(source, key, bytes)?)
    })?;
    progress(Progress::Scanned(n));
    if let Labels::Table(tables) = &options.labels {
        found.take_tables(source, &tables.files);
    }
    builder.join_files(source, cancel, &mut |n| {
        if n.is_multiple_of(1000) {
            progress(Progress::Scanned(n));
        }
    })?;
    let has_classes = found.layout.has_labels() && !found.layout.all_have("label");
    if let (Labels::Table(tables), true) = (&options.labels, has_classes)
        && !tables.has_no_labels()
        && !builder.has_table_labels()
    {
        let text = "some patterns name the class, and no table has it for the other images";
        return Err(setting(&["images", "labels"], text));
    }
    let classes = match table_classes {
        Some(mut of_table) if found.layout.has_labels() && builder.has_table_labels() => {
            if options.classes.is_none() {
                of_table.extend(found.classes.iter().cloned());
                of_table = merged(of_table);
            }
            of_table
        }
        Some(classes) if !found.layout.has_labels() || !classes.is_empty() => classes,
        _ => classes(options, &found)?,
    };
    let media_types: Vec<String> = found.media_types.iter().map(|m| (*m).to_owned()).collect();
    let path = dir.join(format!("{TEMP_PREFIX}plan"));
    builder.files(Beside::open(options, source, &found.layout, dir, cancel)?);
    let mut plan = builder.finish(&path, &classes, &media_types, &found.layout, cancel)?;
    found.skipped.append(&mut plan.skipped);
    Ok((plan, found))
}

/// The folder below `source` from which a table names images; empty if it is not below. It is that of
/// the table; the boxes of YOLO in `train/labels/` are those of images in `train/images/`.
fn folder_below(source: &Path, table: &Path) -> String {
    let below = || {
        let (table, source) = (table.canonicalize().ok()?, source.canonicalize().ok()?);
        let below = table.strip_prefix(&source).ok()?;
        let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
        let mut parts = parts?;
        let labels = parts.iter().rposition(|part| *part == "labels");
        if let Some(labels) = labels.filter(|_| table.is_dir()) {
            let mut images = parts.clone();
            images[labels] = "images";
            let images = images.join("/");
            if source.join(&images).is_dir() {
                return Some(images);
            }
        }
        parts.pop();
        Some(parts.join("/"))
    };
    below().unwrap_or_default()
}

fn check_space(
    out: &OutDir,
    plan: &Plan,
    shards: Range<usize>,
    done: &BTreeMap<usize, Done>,
) -> Result<(), Error> {
    let (free, needed) = (out.free()?.bytes, still_needed(plan, shards, done));
    if free < needed {
        return Err(RunError::NoSpace { path: out.shown(), needed, free }.into());
    }
    Ok(())
}

fn report_of(plan: &Plan, found: &Scan, options: &PackOptions) -> PackReport {
    let splits = super::pack_report::splits(plan);
    // Images are decoded if they are stored as pixels.
    let decodes = plan.recipe != PayloadRecipe::Encoded;
    let check = match options.plan.check {
        _ if options.plan.inputs != Inputs::Images => CheckImages::None,
        CheckImages::Header | CheckImages::None if decodes => CheckImages::Full,
        check => check,
    };
    PackReport {
        samples: plan.samples,
        bytes: plan.bytes,
        shards: plan.shards.len() as u64,
        warnings: super::pack_report::warnings(plan, &splits, found, &options.plan),
        splits,
        skipped: found.skipped.len() as u64,
        unlabelled: plan.table.unlabelled.n + found.unmatched.n,
        unused_rows: plan.table.unused.n,
        dataset: options.plan.dataset.clone(),
        lists: options.plan.lists(),
        images: match options.plan.inputs {
            Inputs::Pixels { .. } => Vec::new(),
            _ => found.layout.patterns().iter().map(ToString::to_string).collect(),
        },
        label_dataset: match (options.plan.inputs, &options.plan.labels) {
            (Inputs::Arrays, Labels::Column(LabelColumn::Named(name))) => Some(name.clone()),
            _ => None,
        },
        split_words: found.split_words.clone(),
        split_column: options.plan.split_column(),
        mask_colours: {
            let colours = options.plan.mask_colours.as_ref();
            colours.map(|colours| colours.file.display().to_string())
        },
        mask_ignore: options.plan.mask_ignore.clone(),
        leaves_out: options.plan.unlabelled == Unlabelled::Skip,
        files: options.plan.files(),
        doubts: {
            let of_table =
                plan.table.doubts.iter().map(|doubt| options.plan.with_what_was_found(doubt));
            let others = options.plan.taken.iter().chain(&found.doubts).cloned();
            others.chain(of_table).collect()
        },
        columns: plan.table.columns.clone(),
        pixels: found.pixels.clone(),
        box_classes: {
            let has = |name: &str| plan.fields.iter().any(|field| field.name.as_str() == name);
            let are_of_boxes = has(BOXES) && has("box_labels") && !has("labels") && !plan.labelled;
            if are_of_boxes { plan.classes.clone() } else { Vec::new() }
        },
        fields: plan.fields.iter().map(|field| field.name.to_string()).collect(),
        on_image: {
            let on_image = plan.fields.iter().filter(|field| field.is_on_image());
            on_image.map(|field| field.name.to_string()).collect()
        },
        resampling: Resampling::of_fields(
            [&plan.recipe.field(&[])].into_iter().chain(&plan.fields),
        ),
        axes: plan.recipe.field(&[]).axes.map(String::from),
        bands: plan.recipe.field(&[]).bands.into_iter().map(|band| band.name).collect(),
        checked: check.name(),
        part: options.part,
        ignored: found.ignored.clone(),
        ..PackReport::default()
    }
}

/// Returns the fields that every sample of a plan has.
pub(crate) fn fields(plan: &Plan) -> Vec<Field> {
    let image = plan.recipe.field(&plan.media_types);
    let label = plan.labelled.then(Field::label);
    [image].into_iter().chain(label).chain(plan.fields.iter().cloned()).collect()
}

/// The manifest, but for what becomes known when all shards are written.
fn template(plan: &Plan, options: &PlanOptions, layout: &Layout, fields: Vec<Field>) -> Manifest {
    // Larger numbers are not the same in every reader of JSON.
    let number = |n: u64| {
        if n < 1 << 53 { MadeValue::Number(n) } else { MadeValue::Text(n.to_string()) }
    };
    let text = |t: &str| MadeValue::Text(t.to_owned());
    let mut made = BTreeMap::from([
        ("plan".to_owned(), text(&plan.digest.to_string())),
        ("order".to_owned(), text(options.order.name())),
        ("seed".to_owned(), number(options.seed)),
        ("shard_bytes".to_owned(), MadeValue::Number(options.shard_bytes)),
        ("check".to_owned(), text(options.check.name())),
    ]);
    for (i, pattern) in layout.telling().enumerate() {
        let name = if i == 0 { "images".to_owned() } else { format!("images_{}", i + 1) };
        made.insert(name, text(pattern));
    }
    if !options.fractions.is_empty() {
        made.insert("split".to_owned(), text(&options.fractions_text()));
        if options.fractions_by == FractionsBy::Exact {
            made.insert("split_by".to_owned(), text("exact"));
        }
        if let Some(group) = &options.group {
            made.insert("group".to_owned(), text(group.name()));
        }
    }
    if let Some(class) = &options.mask_class {
        made.insert("mask_class".to_owned(), text(&class.note()));
    }
    if let Some(colours) = &options.mask_colours {
        made.insert("mask_colours".to_owned(), text(&colours.note()));
    }
    plan.recipe.note(&mut made);
    Manifest {
        envelope: options.envelope,
        payload: plan.recipe.payload(),
        fields,
        classes: plan.classes.clone(),
        made,
        about: options.about.clone(),
        statistics: None,
        shards: Vec::new(),
    }
}
