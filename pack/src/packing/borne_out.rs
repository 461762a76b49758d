//! Takes a reading that the files themselves bear out, where folders alone could be read in several
//! ways.
//!
//! ```text
//! images/, masks/   two classes, or images and their masks?
//!                   every image has a mask of its name ─▶ masks
//! photos/, t.csv    one class, or labels in a table?
//!                   every row is an image, every image has a row ─▶ the table
//! ```
//!
//! Each reading of a doubt that can be checked is planned. If exactly one holds for every file, it is
//! taken and told, with the options for the others; otherwise the doubt stays an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::FieldName;

use super::pack::{PackOptions, Progress, make_plan, open_source};
use crate::error::Error;
use crate::facts::{
    Doubt, OtherFiles, Pattern, PatternError, RunError, WayToRead, is_of_both, named,
};
use crate::layout::{Labels, LayoutError, Scan, TableOptions, Unlabelled};
use crate::plan::{MaskColours, PayloadOptions, Plan, PlanError, PlanOptions};
use crate::source::{FieldFiles, Inputs, LabelColumn, OnBadInput};

/// Fields whose files prove by their names that they belong to the images.
const PROVE: [&str; 3] = ["mask", "caption", "segmentation"];

/// Runs with `options`; where these leave open what the source means, with those of the reading that
/// its files bear out.
pub(crate) fn borne_out<T>(
    source: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
    run: &mut dyn FnMut(&PackOptions) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut taken = None::<PackOptions>;
    let was = options.plan.inputs;
    loop {
        let options = taken.as_ref().unwrap_or(options);
        let trial = Trial { source, options, progress, cancel };
        // A known dataset has patterns, and its images may be arrays all the same.
        let is_open = |error: &LayoutError| {
            let is_known = options.plan.dataset.is_some();
            options.plan.images.is_empty()
                || is_known && matches!(error, LayoutError::NoImages { .. })
        };
        match run(options) {
            Err(Error::Layout(error)) if is_open(&error) => match trial.reading(error)? {
                Ok(mut reading) => {
                    let doubts = &mut reading.plan.taken;
                    doubts.iter_mut().for_each(|doubt| as_taken(doubt, was, &options.plan));
                    taken = Some(reading);
                }
                Err(error) => return Err(with_arrays(error, was, &options.plan).into()),
            },
            // Each reading says more than the one before, so this ends.
            ended => return ended,
        }
    }
}

/// Has the ways of a question say that files are arrays, if `plan` takes them so where the user did not.
fn as_taken(doubt: &mut Doubt, was: Inputs, plan: &PlanOptions) {
    let are_arrays = plan.inputs == Inputs::Arrays && was != Inputs::Arrays;
    doubt.readings.iter_mut().for_each(|way| way.as_arrays |= are_arrays);
}

fn with_arrays(mut error: LayoutError, was: Inputs, plan: &PlanOptions) -> LayoutError {
    if let LayoutError::Doubt(doubt) = &mut error {
        as_taken(doubt, was, plan);
    }
    error
}

/// The ways in which a reading can be planned: beside masks, a table may have the classes, and beside a
/// table, lists may say the splits.
fn candidates(way: &WayToRead, doubt: &Doubt) -> Vec<WayToRead> {
    if way.files.is_empty() {
        let has_table = way.tables.as_ref().is_some_and(|tables| !tables.is_empty());
        let without = WayToRead { lists: Vec::new(), ..way.clone() };
        let without = Some(without).filter(|_| has_table && !way.lists.is_empty());
        return [way.clone()].into_iter().chain(without).collect();
    }
    let is_table =
        |other: &&WayToRead| other.tables.as_ref().is_some_and(|tables| !tables.is_empty());
    let by_table = doubt.readings.iter().find(is_table).filter(|_| way.lists.is_empty());
    let with_table = by_table.map(|by_table| WayToRead {
        tables: by_table.tables.clone(),
        besides: by_table.besides.clone(),
        ..way.clone()
    });
    // Masks that are numbers of classes need no table of colours, even if there is one.
    let ways = with_table.into_iter().chain([way.clone()]);
    let of_colours = |way: WayToRead| {
        let plain = WayToRead { colours: None, ..way.clone() };
        [Some(plain), Some(way).filter(|way| way.colours.is_some())].into_iter().flatten()
    };
    ways.flat_map(of_colours).collect()
}

/// Whether an error says that a reading does not fit its files, and not that the disk is full or the run
/// was cancelled.
fn is_of_input(error: &Error) -> bool {
    !matches!(error, Error::Run(RunError::Cancelled | RunError::Io(_) | RunError::NoSpace { .. }))
}

/// Whether a question is what the numbers of boxes are.
fn is_of_boxes(doubt: &Doubt) -> bool {
    doubt.readings.iter().any(|way| way.box_form.is_some())
}

/// Says that images of some patterns have no class, where those of others have.
fn without_class(way: &WayToRead) -> Option<Doubt> {
    let has_class = |images: &&String| images.contains("{label");
    let (with, without): (Vec<&String>, Vec<&String>) = way.images.iter().partition(has_class);
    if with.is_empty() || without.is_empty() || way.tables.is_some() || !way.lists.is_empty() {
        return None;
    }
    let text = format!("images at {} have no class", named(without.into_iter()));
    let images = with.into_iter().cloned().collect();
    let alone = WayToRead { images, leaves_out: true, ..WayToRead::new("to leave them out", &[]) };
    Some(Doubt::new(text, vec![alone]))
}

/// Whether a question is which column has the classes, or names the images.
fn is_of_columns(doubt: &Doubt) -> bool {
    let has_column = |way: &WayToRead| way.label_column.is_some() || way.key_column.is_some();
    doubt.readings.iter().any(has_column)
}

/// The ways of a question about the tables that `way` names, with the options that read these.
fn in_table(doubt: Doubt, way: &WayToRead) -> Vec<WayToRead> {
    let of = |reading: WayToRead| WayToRead {
        when: reading.when,
        box_form: reading.box_form,
        key_column: reading.key_column,
        label_column: reading.label_column,
        leaves_out: reading.leaves_out || way.leaves_out,
        asks: true,
        ..way.clone()
    };
    doubt.readings.into_iter().map(of).collect()
}

/// What became of the ways of a doubt.
#[derive(Default)]
struct Fitting {
    taken: Option<(WayToRead, PackOptions)>,
    /// The ways to read a table whose column of classes is open, in place of the way with this number.
    columns: Option<(usize, Vec<WayToRead>)>,
    /// Why a way does not hold, and the number of it, if without what fails it may.
    why_not: Option<(Error, Option<usize>)>,
}

/// A source that can be read in several ways.
struct Trial<'a> {
    source: &'a Path,
    options: &'a PackOptions,
    progress: &'a (dyn Fn(Progress) + Sync),
    cancel: &'a AtomicBool,
}

impl Trial<'_> {
    /// The options of the reading that the files bear out, or the error again.
    fn reading(&self, error: LayoutError) -> Result<Result<PackOptions, LayoutError>, Error> {
        let plan = &self.options.plan;
        let with = |plan: PlanOptions| PackOptions { plan, ..self.options.clone() };
        match error {
            LayoutError::NoImages { others: OtherFiles::Arrays, .. }
                if plan.inputs == Inputs::Images && plan.payload == PayloadOptions::Encoded =>
            {
                let text = "all images are TIFF, JPEG 2000, NIfTI or NumPy files, so they are packed as arrays of numbers";
                let taken = vec![Doubt::new(text.to_owned(), Vec::new())];
                Ok(Ok(with(PlanOptions { inputs: Inputs::Arrays, taken, ..plan.clone() })))
            }
            LayoutError::Doubt(doubt) => self.of_doubt(doubt),
            error => Ok(Err(error)),
        }
    }

    fn of_doubt(&self, mut doubt: Doubt) -> Result<Result<PackOptions, LayoutError>, Error> {
        // With fields of the user, only what does not matter to them is decided here.
        let is_open = self.options.plan.fields.is_empty();
        let fitting = |with_files: bool| match is_open {
            true => self.fitting(&doubt, with_files),
            false => Ok(Fitting::default()),
        };
        let (of_files, of_others) = (fitting(true)?, fitting(false)?);
        let why_not = of_files.why_not.or(of_others.why_not);
        let columns = of_others.columns.or(of_files.columns);
        let failed = why_not.map(|(error, of)| {
            if let Some(way) = of.and_then(|at| doubt.readings.get_mut(at)) {
                way.when += ", and what fails is left out";
                match error {
                    Error::Run(RunError::BadInputs(_)) => way.skips_bad = true,
                    _ => way.leaves_out = true,
                }
            }
            error.to_string()
        });
        let otherwise = doubt.readings.iter().find(|way| way.otherwise);
        let (way, mut taken) = match (of_files.taken, of_others.taken, otherwise) {
            (Some(one), None, _) | (None, Some(one), _) => one,
            (None, None, Some(way)) => match plan_of(way, &self.options.plan) {
                Ok(Some(plan)) => (way.clone(), PackOptions { plan, ..self.options.clone() }),
                _ => return Ok(Err(doubt.into())),
            },
            _ => {
                if let Some(error) = failed {
                    let first = error.lines().next().unwrap_or_default();
                    doubt.text = format!("{}; the first reading fails: {first}", doubt.text);
                }
                if let Some((at, ways)) = columns {
                    doubt.readings.splice(at..=at, ways);
                }
                return Ok(Err(doubt.into()));
            }
        };
        let is_other = |other: &&WayToRead| {
            let is_same = other.images == way.images && other.files == way.files;
            let is_read = other.tables.is_some() && other.tables == way.tables;
            is_whole(other) && other.convert.is_none() && (way.otherwise || !is_same && !is_read)
        };
        let others = doubt.readings.iter().filter(is_other);
        taken.plan.taken.extend(without_class(&way));
        let text = match way.otherwise && way.proof.is_none() {
            true => doubt.text.clone(),
            false => why(&way),
        };
        taken.plan.taken.push(Doubt::new(text, others.cloned().collect()));
        Ok(Ok(taken))
    }

    /// The first way, with files or without, that holds, and its options; and why one does not, if a
    /// file or a row is the reason.
    fn fitting(&self, doubt: &Doubt, with_files: bool) -> Result<Fitting, Error> {
        let (mut why_not, mut taken) = (None, None::<(WayToRead, PackOptions)>);
        let mut columns = None;
        let ways = doubt.readings.iter().enumerate();
        let is_tried = |(_, way): &(usize, &WayToRead)| {
            way.files.is_empty() != with_files && !way.otherwise && !way.asks
        };
        let mut unlike = None;
        for (at, way) in ways.filter(is_tried) {
            for full in candidates(way, doubt) {
                let Ok(Some(plan)) = plan_of(&full, &self.options.plan) else { continue };
                let options = PackOptions { plan, ..self.options.clone() };
                let has_table = full.tables.is_some() && with_files;
                match self.holding(options.clone()) {
                    Ok(Some(options)) if self.is_alone(&full)? => {
                        // Two folders of masks are a question.
                        if taken.as_ref().is_some_and(|(first, _)| first.files != full.files) {
                            return Ok(Fitting { taken: None, columns, why_not });
                        }
                        taken = taken.or(Some((full, options)));
                        break;
                    }
                    // A table that is about some of the images is not to be left out.
                    Ok(None) if has_table => break,
                    Ok(_) => {}
                    Err(error) if !is_of_input(&error) => return Err(error),
                    Err(Error::Layout(LayoutError::Doubt(inner))) if is_of_boxes(&inner) => {
                        let text = inner.text.clone();
                        return Err(
                            LayoutError::from(Doubt::new(text, in_table(inner, &full))).into()
                        );
                    }
                    Err(Error::Layout(LayoutError::Doubt(inner))) if is_of_columns(&inner) => {
                        let leaves_out = full.leaves_out || self.lacks_rows(&full)?;
                        let ways = in_table(inner, &WayToRead { leaves_out, ..full });
                        let mut open = Vec::new();
                        for way in ways {
                            if self.may_hold(&way)? {
                                open.push(way);
                            }
                        }
                        columns = columns.or(Some((at, open)).filter(|(_, open)| !open.is_empty()));
                        break;
                    }
                    Err(error) => {
                        let is_of_rows = matches!(error, Error::Plan(PlanError::Unlabelled { .. }));
                        if is_of_rows || matches!(error, Error::Run(RunError::BadInputs(_))) {
                            let is_of_way = full.tables == way.tables && full.lists == way.lists;
                            let holds = is_of_way && self.holds_for_most(options, is_of_rows)?;
                            why_not = Some((error, holds.then_some(at)));
                            unlike = Some(&way.files);
                        }
                        if is_of_rows && has_table {
                            break;
                        }
                    }
                }
            }
        }
        // Masks of another kind, which cannot be read as they are, may be the right ones.
        let is_open = |(way, _): &(WayToRead, _)| unlike.is_none_or(|files| *files == way.files);
        Ok(Fitting { taken: taken.filter(is_open), columns, why_not })
    }

    /// Whether nothing speaks against a way that holds: another table that is about the images, or a
    /// copy that is none.
    fn is_alone(&self, way: &WayToRead) -> Result<bool, Error> {
        let given = &self.options.plan;
        for table in &way.besides {
            let files = vec![PathBuf::from(table)];
            let table = TableOptions { files, label: LabelColumn::None, ..TableOptions::default() };
            let (labels, unlabelled) = (Labels::Table(table), Unlabelled::Skip);
            let plan = PlanOptions { labels, unlabelled, ..given.clone() };
            match self.planned(&PackOptions { plan, ..self.options.clone() }) {
                Ok((plan, _)) if plan.samples > 0 => return Ok(false),
                Err(error) if !is_of_input(&error) => return Err(error),
                _ => {}
            }
        }
        match &way.copies {
            Some((copy, beside)) => self.is_copy(copy, beside),
            None => Ok(true),
        }
    }

    /// Whether each file below `copy` has the bytes of that below `beside`.
    fn is_copy(&self, copy: &str, beside: &str) -> Result<bool, Error> {
        let temp = self.temp()?;
        let opened = open_source(self.source, &self.options.plan, temp.path(), self.cancel)?;
        let (mut are_same, mut n) = (true, 0);
        opened.files::<Error>(&mut |name, bytes| {
            let Some(rest) = name.strip_prefix(copy).filter(|_| are_same) else { return Ok(()) };
            if self.cancel.load(Ordering::Relaxed) {
                return Err(RunError::Cancelled.into());
            }
            n += 1;
            (self.progress)(Progress::Scanned(n));
            let read = |name: &str| {
                let io = |e| Error::io("read", Path::new(name), e);
                opened.read(name, bytes, Vec::new()).map(|(found, _)| found).map_err(io)
            };
            are_same = read(name)? == read(&format!("{beside}{rest}"))?;
            Ok(())
        })?;
        Ok(are_same)
    }

    /// The options, if they hold for every file; with the column of splits that the table has, if all
    /// of its values are words for splits.
    fn holding(&self, options: PackOptions) -> Result<Option<PackOptions>, Error> {
        let Some(column) = self.holds(&options)? else { return Ok(None) };
        if let (Some(column), Labels::Table(table)) = (column, &options.plan.labels)
            && options.plan.fractions.is_empty()
            && table.split.is_none()
        {
            let labels = Labels::Table(TableOptions { split: Some(column), ..table.clone() });
            let plan = PlanOptions { labels, ..options.plan.clone() };
            let with_splits = PackOptions { plan, ..options.clone() };
            match self.holds(&with_splits) {
                Ok(Some(_)) => return Ok(Some(with_splits)),
                Err(error) if !is_of_input(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(Some(options))
    }

    fn temp(&self) -> Result<tempfile::TempDir, Error> {
        let dir = &self.options.temp_dir;
        tempfile::tempdir_in(dir).map_err(|e| Error::io("create a folder in", dir, e))
    }

    /// The plan with these options, whose files are gone.
    fn planned(&self, options: &PackOptions) -> Result<(Plan, Scan), Error> {
        let temp = self.temp()?;
        let opened = open_source(self.source, &options.plan, temp.path(), self.cancel)?;
        make_plan(&opened, temp.path(), &options.plan, self.progress, self.cancel)
    }

    /// Whether these options hold for most images, without those that have no label or cannot be
    /// packed.
    fn holds_for_most(&self, options: PackOptions, is_of_rows: bool) -> Result<bool, Error> {
        let mut plan = options.plan;
        match is_of_rows {
            true => plan.unlabelled = Unlabelled::Skip,
            false => plan.on_error = OnBadInput::Skip,
        }
        match self.planned(&PackOptions { plan, ..options }) {
            Ok((plan, found)) => {
                let bad = (plan.skipped.len() + found.skipped.len()) as u64;
                Ok(plan.samples > bad + plan.table.unlabelled.n)
            }
            Err(error) if !is_of_input(&error) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Whether the table of a way has rows for some of the images only, whatever its classes are.
    fn lacks_rows(&self, way: &WayToRead) -> Result<bool, Error> {
        let unlabelled = |leaves_out: bool| {
            let label_column = Some("none".to_owned());
            let way = WayToRead { label_column, leaves_out, ..way.clone() };
            let Ok(Some(plan)) = plan_of(&way, &self.options.plan) else { return Ok(None) };
            match self.planned(&PackOptions { plan, ..self.options.clone() }) {
                Ok(_) => Ok(Some(false)),
                Err(Error::Plan(PlanError::Unlabelled { .. })) => Ok(Some(true)),
                Err(error) if !is_of_input(&error) => Err(error),
                Err(_) => Ok(None),
            }
        };
        Ok(unlabelled(false)? == Some(true) && unlabelled(true)? == Some(false))
    }

    /// Whether the options of a way can be planned, or ask something else.
    fn may_hold(&self, way: &WayToRead) -> Result<bool, Error> {
        let Ok(Some(plan)) = plan_of(way, &self.options.plan) else { return Ok(true) };
        match self.planned(&PackOptions { plan, ..self.options.clone() }) {
            Ok(_) | Err(Error::Layout(LayoutError::Doubt(_))) => Ok(true),
            Err(error) if !is_of_input(&error) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Whether these options hold for every file; if so, the column that may say the splits.
    fn holds(&self, options: &PackOptions) -> Result<Option<Option<String>>, Error> {
        let (plan, found) = self.planned(options)?;
        let of_table = match options.plan.labels {
            Labels::Table(_) => {
                plan.labelled || !plan.fields.is_empty() || found.layout.has_labels()
            }
            _ => true,
        };
        let rows = &plan.table;
        let all = rows.unlabelled.n == 0 && rows.unused.n == 0;
        let is_whole = of_table && all && found.skipped.is_empty() && plan.skipped.is_empty();
        let ways = rows.doubts.iter().flat_map(|doubt| &doubt.readings);
        let columns: Vec<&String> = ways.filter_map(|way| way.split_column.as_ref()).collect();
        // A `:` is before what the words stand for, which the user has to say.
        let column = match columns.as_slice() {
            [one] if !one.contains(':') && !found.layout.has_splits() => Some((*one).clone()),
            _ => None,
        };
        Ok(is_whole.then_some(column))
    }
}

/// Whether the options of a way name no file that only the user knows.
fn is_whole(way: &WayToRead) -> bool {
    !way.otherwise && way.tables.as_ref().is_none_or(|tables| !tables.is_empty())
}

/// What bears a reading out.
fn why(way: &WayToRead) -> String {
    match (&way.proof, way.files.as_slice()) {
        (Some(proof), _) => proof.clone(),
        (None, []) => {
            let mut files = way.tables.iter().flatten().chain(&way.lists);
            let first = files.next().map_or("", String::as_str);
            let first = first.split_once("={").map_or(first, |(file, _)| file);
            let has_labels = way.tables.as_ref().is_some_and(|tables| !tables.is_empty())
                || way.lists.iter().any(|list| list.contains("{label}"));
            let is_of_splits = !has_labels || way.label_column.as_deref() == Some("none");
            let mut all = way.tables.iter().flatten().chain(&way.lists);
            let what = match all.any(|list| list.contains("{value}")) {
                true => "amounts",
                false if is_of_splits => "splits",
                false => "labels",
            };
            let more = if files.next().is_some() { " and others" } else { "" };
            let stem = |list: &String| {
                let file = Path::new(list.split("={").next().unwrap_or(list));
                file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
            };
            let both = way.lists.iter().map(stem).find(|list| is_of_both(list));
            let both = both.map(|list| format!("; `{list}` is read as train")).unwrap_or_default();
            format!(
                "{what} are read from `{first}`{more}, as each row is of one of these images, and each of them has a row{both}"
            )
        }
        (None, [(name, files), ..]) => {
            format!("`{files}` is read as {name}, since every image has such a file")
        }
    }
}

/// The options of a way, if files can bear it out.
fn plan_of(way: &WayToRead, given: &PlanOptions) -> Result<Option<PlanOptions>, PatternError> {
    let tables = way.tables.as_deref().unwrap_or_default();
    let proves = way.files.iter().any(|(name, _)| PROVE.contains(&name.as_str()));
    let by_table = way.files.is_empty()
        && (!tables.is_empty() || !way.lists.is_empty())
        && given.labels == Labels::Path
        && matches!(given.inputs, Inputs::Images | Inputs::Arrays);
    if !proves && !by_table && way.proof.is_none() && !way.otherwise {
        return Ok(None);
    }
    let images = way.images.iter().map(|text| Pattern::parse(text));
    let images: Vec<Pattern> = images.collect::<Result<_, _>>()?;
    let mut fields = Vec::new();
    for (name, files) in &way.files {
        let Some(name) = FieldName::parse(name) else { return Ok(None) };
        let pattern = Some(Pattern::parse(files)?);
        fields.push(FieldFiles { name, files: None, pattern });
    }
    let mut table = TableOptions {
        key: way.key_column.clone(),
        group: way.group.clone(),
        separator: way.label_separator.clone(),
        box_form: way.box_form,
        label: match way.label_column.as_deref() {
            None => LabelColumn::Find,
            Some("none") => LabelColumn::None,
            Some(name) => LabelColumn::Named(name.to_owned()),
        },
        ..TableOptions::default()
    };
    for text in tables.iter().chain(&way.lists) {
        let (file, line) = match text.split_once('=').filter(|_| text.contains('{')) {
            Some((file, line)) => (PathBuf::from(file), Some(Pattern::parse_line(line)?)),
            None => (PathBuf::from(text), None),
        };
        if let Some(line) = line {
            if line.has("split") {
                table.split = Some("split".to_owned());
            }
            table.lines.entry(file.clone()).or_default().push(line);
        }
        if !table.files.contains(&file) {
            table.files.push(file);
        }
    }
    let ignored = way.mask_ignore.as_ref().filter(|_| given.mask_ignore.is_empty());
    let ignored = ignored
        .and_then(|(name, ignore)| Some(BTreeMap::from([(FieldName::parse(name)?, *ignore)])));
    let has_table = !table.files.is_empty() && given.labels == Labels::Path;
    let has_label = images.iter().any(|pattern| pattern.has("label"));
    Ok(Some(PlanOptions {
        labels: match (has_table, &given.labels) {
            (true, _) => Labels::Table(table),
            (false, Labels::Path) if !has_label => Labels::None,
            (false, labels) => labels.clone(),
        },
        images,
        fields: if way.files.is_empty() { given.fields.clone() } else { fields },
        mask_colours: match way.colours.as_ref().filter(|_| given.mask_colours.is_none()) {
            Some(file) => MaskColours::read(Path::new(file)).ok(),
            None => given.mask_colours.clone(),
        },
        mask_ignore: ignored.unwrap_or_else(|| given.mask_ignore.clone()),
        unlabelled: if way.leaves_out { Unlabelled::Skip } else { given.unlabelled },
        ..given.clone()
    }))
}
