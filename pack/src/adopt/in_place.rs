//! The whole adoption: surveys all files, chooses the fields, indexes each file, writes the
//! manifest last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gular_bundle::{
    About, Axes, Backend, Bundle, BundlePath, Digest, Envelope, Field, FieldKind, FieldName,
    FieldPlaces, FileEntry, InPlace, Index, MANIFEST_NAME, MadeValue, Manifest, Payload, ReadAt,
    Row, Seen, Shard, ShardEntry, ShardIdx, Split, Survey, index_in_place, survey,
};
use gular_files::write_file;
use serde::Serialize;

use crate::adopt::{
    columns, columns::Roles, columns::Take, columns::Wanted, columns::choose, detect::Source,
    detect::sources, index::MediaTypes, index::labels, index::places, index::select, keys,
    keys::split_and_class,
};
use crate::convert::each_shard;
use crate::error::Error;
use crate::facts::{RunError, Sorter, setting};
use crate::packing::{Progress, Resampling};
use crate::shards::{Done, OutDir, finished_bundle};
use crate::source::OnBadInput;

/// Options of [`adopt`].
#[derive(Debug, Clone, Default)]
pub struct AdoptOptions {
    /// The column of images; else by its name, or the only one that can be.
    pub image: Option<String>,
    /// What the axes of arrays mean, by field, if their shape does not say it; `None` for a field
    /// whose values are not on the pixels of the image.
    pub axes: BTreeMap<FieldName, Option<Axes>>,
    /// The column of labels; without one it is found by its name.
    pub label: Option<String>,
    /// The column of keys; `Some(None)` makes keys of file names and rows.
    pub key: Option<Option<String>>,
    /// How samples fall into splits.
    pub split: AdoptSplit,
    /// What to do with samples whose class is unknown.
    pub unknown: OnUnknownLabel,
    /// Texts for the manifest.
    pub about: About,
    /// Worker threads.
    pub jobs: usize,
    /// Bytes of memory to compare keys in; more are sorted on disk.
    pub memory_bytes: usize,
    /// Whether to report only what would be found.
    pub dry_run: bool,
}

/// How adopted samples are divided into splits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdoptSplit {
    /// In SquashFS images whose folders are all named like splits, by the first folder of keys;
    /// otherwise by the names of the files, or `train` if these do not say.
    #[default]
    Auto,
    /// By the first folder of their keys.
    Folder,
    /// All samples belong to this split.
    All(Split),
}

/// What to do with samples whose label is missing or -1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnUnknownLabel {
    /// They are adopted with label -1, which stands for unknown.
    #[default]
    Keep,
    /// They are an error.
    Refuse,
    /// They are left out.
    Drop,
    /// They get this class.
    Class(i32),
}

/// A file's samples of one split, which become a shard.
#[derive(Debug, Clone, Copy)]
struct Part {
    source: usize,
    split: Split,
    samples: usize,
}

/// The result of the survey.
struct Found {
    roles: Roles,
    parts: Vec<Part>,
    /// Whether keys begin with their split.
    by_folder: bool,
    unknown: Unknown,
}

/// Samples whose class is unknown.
#[derive(Debug, Default)]
struct Unknown {
    n: u64,
    /// The keys of the first of these samples.
    keys: Vec<String>,
}

/// Most samples of unknown class that are named.
const MOST_NAMED: usize = 20;

/// The samples of one split in one file.
struct Rows {
    file: ReadAt,
    keys: Vec<BundlePath>,
    /// One entry per field.
    places: Vec<FieldPlaces>,
}

/// The result of [`adopt`], or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdoptReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The bundle digest; absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// File format of the adopted files.
    pub envelope: Envelope,
    /// Number of adopted files, each of which is a shard.
    pub shards: u64,
    /// Bytes of these files, which stay where they are.
    pub bytes: u64,
    /// Number of samples of each split.
    pub splits: BTreeMap<Split, u64>,
    /// For each field, the column that it was made from.
    pub fields: BTreeMap<String, String>,
    /// The fields that are on the pixels of the image, and how a loader resizes the values of each
    /// with it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resampling: BTreeMap<String, Resampling>,
    /// The column that keys were taken from, or `file/row` if they were made of file names and
    /// rows.
    pub keys: String,
    /// Number of classes.
    pub classes: usize,
    /// Columns that did not become a field, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// Number of samples whose label is missing or -1, including those that were left out or given
    /// a class.
    pub unknown_labels: u64,
    /// The keys of the first of these samples.
    pub unknown_label_keys: Vec<String>,
    /// Whether everything was done before, so that there was nothing to do.
    pub already_done: bool,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Wall-clock time.
    pub seconds: f64,
}

/// Makes a bundle of the files `paths`, in place: folder `out` gets manifest,
/// indexes, and links to the files.
///
/// # Errors
/// See [`Error`]; [`Error::NotInPlace`] when images are not stored runs.
pub fn adopt(
    paths: &[PathBuf],
    out: &Path,
    options: &AdoptOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &Arc<AtomicBool>,
) -> Result<AdoptReport, Error> {
    let start = Instant::now();
    let sources = sources(paths)?;
    let Some(envelope) = sources.first().map(|s| s.envelope) else {
        return Err(RunError::Option("no file was given".to_owned()).into());
    };
    let work = Adopt { sources: &sources, stems: keys::stems(&sources), options, progress, cancel };
    let found = work.first_look()?;
    let roles = &found.roles;
    let total: u64 = sources.iter().map(|s| s.bytes).sum();
    let read: u64 = found.parts.iter().map(|p| sources[p.source].bytes).sum();
    progress(Progress::Planned(found.parts.iter().map(|p| p.samples as u64).sum(), read));
    let mut report = AdoptReport {
        dry_run: options.dry_run,
        digest: None,
        envelope,
        shards: sources.len() as u64,
        bytes: total,
        splits: BTreeMap::new(),
        fields: roles.fields.iter().map(|(f, c, _)| (f.name.to_string(), c.clone())).collect(),
        resampling: Resampling::of_fields(roles.fields.iter().map(|(field, ..)| field)),
        keys: roles.key.clone().unwrap_or_else(|| "file/row".to_owned()),
        classes: roles.classes.len(),
        left_out: roles.left_out.clone(),
        unknown_labels: found.unknown.n,
        unknown_label_keys: found.unknown.keys.clone(),
        already_done: false,
        warnings: Vec::new(),
        seconds: 0.0,
    };
    for part in &found.parts {
        *report.splits.entry(part.split).or_default() += part.samples as u64;
    }
    if found.unknown.n > 0 {
        report.warnings.extend(unknown_warning(&found.unknown, options.unknown));
    }
    let made = if options.dry_run { None } else { finished_bundle(out)? };
    if let Some(made) = made
        && work.is_finished(&made, &found)?
    {
        report.digest = Some(made.digest());
        report.already_done = true;
    } else if !options.dry_run {
        OutDir::with(out, |dir| work.run(dir, &found, &mut report))?;
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

struct Adopt<'a> {
    sources: &'a [Source],
    stems: Vec<String>,
    options: &'a AdoptOptions,
    progress: &'a (dyn Fn(Progress) + Sync),
    cancel: &'a Arc<AtomicBool>,
}

impl Adopt<'_> {
    /// Walks all files: which columns there are, how many samples, whether keys
    /// are good.
    fn first_look(&self) -> Result<Found, Error> {
        let wanted = Wanted {
            image: self.options.image.clone(),
            axes: self.options.axes.clone(),
            label: self.options.label.clone(),
            trees: self.sources.iter().all(|s| s.envelope == Envelope::Squashfs),
            key: self.options.key.clone(),
        };
        let mut found = columns::Found::default();
        let mut rows = Vec::with_capacity(self.sources.len());
        for source in self.sources {
            self.check_cancel()?;
            let (file, survey) = self.open(source)?;
            found.add(&file.path(), &survey)?;
            if survey.rows == 0 {
                return Err(
                    RunError::Option(format!("`{}` contains no samples", file.path())).into()
                );
            }
            rows.push(survey.rows);
            (self.progress)(Progress::Scanned(rows.iter().map(|n| *n as u64).sum()));
        }
        let mut roles = choose(&found, &wanted)?;
        if let Some(column) = roles.key.clone()
            && let Err(reason) = self.check_keys(&column)?
        {
            // `key` and a column that the user names are meant to be keys.
            if !roles.key_is_a_guess || column == "key" {
                return Err(Error::BadKeys { column, reason });
            }
            roles.left_out.insert(column, format!("a value of it cannot be a key: {reason}"));
            roles.key = None;
        }
        self.parts(roles, &rows, wanted.trees)
    }

    /// Returns the future shards, and the classes if folders are classes.
    fn parts(&self, mut roles: Roles, rows: &[usize], trees: bool) -> Result<Found, Error> {
        let folders = roles.fields.iter().any(|(_, _, take)| *take == Take::Folder);
        let may = self.options.split == AdoptSplit::Folder
            || (trees && self.options.split == AdoptSplit::Auto);
        let mut by_folder = may;
        let mut parts = Vec::new();
        // Class folders, when the first folders are splits and when they are not.
        let (mut below, mut first) = (BTreeSet::new(), BTreeSet::new());
        for source in (0..self.sources.len()).filter(|_| may || folders) {
            self.check_cancel()?;
            let (_, survey) = self.open(&self.sources[source])?;
            let mut counts: BTreeMap<Split, usize> = BTreeMap::new();
            for key in self.keys(source, &survey, &roles)? {
                let (split, class) = split_and_class(key.as_str(), true);
                below.extend(class.filter(|c| !below.contains(*c)).map(str::to_owned));
                let class = split_and_class(key.as_str(), false).1;
                first.extend(class.filter(|c| !first.contains(*c)).map(str::to_owned));
                by_folder &= split.is_some();
                *counts.entry(split.unwrap_or(Split::Train)).or_default() += 1;
            }
            parts.extend(counts.into_iter().map(|(split, samples)| Part {
                source,
                split,
                samples,
            }));
        }
        if self.options.split == AdoptSplit::Folder && !by_folder {
            let text = "the keys do not say the splits: expected every key to begin with the folder `train`, `val` or `test`";
            return Err(setting(&["as_split"], text));
        }
        if folders {
            roles.classes = if by_folder { below } else { first }.into_iter().collect();
        }
        if !by_folder {
            let split = |source: usize| match self.options.split {
                AdoptSplit::All(split) => split,
                _ => self.sources[source].split,
            };
            let part =
                |(source, n): (usize, &usize)| Part { source, split: split(source), samples: *n };
            parts = rows.iter().enumerate().map(part).collect();
        }
        // The order is that of splits in the manifest.
        parts.sort_by_key(|p| p.split as u8);
        let unknown = self.unknown_labels(&roles, &mut parts, by_folder)?;
        Ok(Found { roles, parts, by_folder, unknown })
    }

    /// Samples of unknown class, which leave their parts if they are to be left out.
    fn unknown_labels(
        &self,
        roles: &Roles,
        parts: &mut Vec<Part>,
        by_folder: bool,
    ) -> Result<Unknown, Error> {
        let mut unknown = Unknown::default();
        if !roles.fields.iter().any(|(field, _, _)| field.is_label()) {
            return Ok(unknown);
        }
        if let OnUnknownLabel::Class(class) = self.options.unknown
            && !roles.classes.is_empty()
            && usize::try_from(class).is_ok_and(|class| class >= roles.classes.len())
        {
            let n = roles.classes.len();
            let text = format!(
                "unknown labels cannot become class {class}: there are only {n} classes, counted from 0"
            );
            return Err(setting(&["unknown_labels"], text));
        }
        for number in 0..self.sources.len() {
            self.check_cancel()?;
            let (file, survey) = self.open(&self.sources[number])?;
            let keys = self.keys(number, &survey, roles)?;
            let labels = labels(&file, &survey, &keys, roles, by_folder)?;
            for (key, _) in keys.iter().zip(labels).filter(|(_, label)| *label == -1) {
                unknown.n += 1;
                if unknown.keys.len() < MOST_NAMED {
                    unknown.keys.push(key.to_string());
                }
                if self.options.unknown == OnUnknownLabel::Drop {
                    let split = split_and_class(key.as_str(), true).0.filter(|_| by_folder);
                    let mut of_file = parts.iter_mut().filter(|part| part.source == number);
                    if let Some(part) = of_file.find(|p| split.is_none_or(|split| split == p.split))
                    {
                        part.samples = part.samples.saturating_sub(1);
                    }
                }
            }
        }
        match self.options.unknown {
            OnUnknownLabel::Refuse if unknown.n > 0 => {
                return Err(Error::UnknownLabels { n: unknown.n, keys: unknown.keys });
            }
            OnUnknownLabel::Drop => parts.retain(|part| part.samples > 0),
            _ => {}
        }
        if parts.is_empty() {
            return Err(setting(&["unknown_labels"], "no sample is left: every label is unknown"));
        }
        Ok(unknown)
    }

    /// Whether `made` is the bundle that this run would make: with the same fields, links, keys,
    /// labels and places. Unchanged files are not read again.
    fn is_finished(&self, made: &Bundle, found: &Found) -> Result<bool, Error> {
        let manifest = made.manifest();
        let written = made.dir().join(MANIFEST_NAME);
        let since = fs::metadata(&written).and_then(|m| m.modified());
        let since = since.map_err(|e| Error::io("open", &written, e))?;
        // Media types are not compared, since they are found by reading the values.
        let alike = |a: &Field, b: &Field| {
            (&a.name, &a.axes, &a.grid) == (&b.name, &b.axes, &b.grid)
                && (a.kind == b.kind || a.is_bytes() && b.is_bytes())
        };
        let fields = found.roles.fields.iter().map(|(field, _, _)| field);
        let adopted = self.sources.first().map(|s| MadeValue::Text(s.envelope.name().to_owned()));
        if manifest.made.get("adopted") != adopted.as_ref()
            || manifest.classes != found.roles.classes
            || manifest.about != self.options.about
            || manifest.fields.len() != found.roles.fields.len()
            || !manifest.fields.iter().zip(fields).all(|(a, b)| alike(a, b))
            || manifest.shards.len() != found.parts.len()
        {
            return Ok(false);
        }
        for (number, (entry, part)) in manifest.shards.iter().zip(&found.parts).enumerate() {
            let source = &self.sources[part.source];
            let link = fs::read_link(made.path_of(&entry.file));
            let modified = fs::metadata(&source.path).and_then(|m| m.modified());
            if (entry.split, entry.file.bytes) != (part.split, source.bytes)
                || link.ok().as_ref() != Some(&source.path)
                || modified.map_err(|e| Error::io("open", &source.path, e))? > since
                || !self.is_indexed(&*made.shard(ShardIdx(number))?, number, found)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_indexed(&self, shard: &Shard, number: usize, found: &Found) -> Result<bool, Error> {
        let Rows { keys, places, .. } = self.rows(number, found)?;
        let index = shard.index()?;
        let is_there = |row: Row| {
            let key = row.of(&keys).map(BundlePath::as_str);
            let mut fields = found.roles.fields.iter().zip(&places).zip(index.fields());
            index.key(row) == key
                && fields.all(|(((field, _, _), places), number)| match places {
                    FieldPlaces::Labels(labels) => index.label(row) == row.of(labels).copied(),
                    _ => {
                        let run = places.run(row, field).map(|run| (run.offset, run.len));
                        let found = index.range(row, number).map(|(at, len)| (at, len as u64));
                        // The place of an empty value does not matter.
                        run == found || [run, found].iter().flatten().all(|(_, len)| *len == 0)
                    }
                })
        };
        Ok(keys.len() == index.n_samples() && index.rows().all(is_there))
    }

    /// Returns the keys of a file's samples.
    fn keys(
        &self,
        source: usize,
        survey: &Survey,
        roles: &Roles,
    ) -> Result<Vec<BundlePath>, Error> {
        match &roles.key {
            Some(column) => keys::by_column(survey, column)
                .map_err(|reason| Error::BadKeys { column: column.clone(), reason }),
            None => Ok(keys::by_row(&self.stems[source], survey.rows)),
        }
    }

    /// Checks that a column's texts are keys, and all different; otherwise says why not.
    fn check_keys(&self, column: &str) -> Result<Result<(), String>, Error> {
        let temp = tempfile::tempdir().map_err(|e| Error::io("create a folder in", ".", e))?;
        let io = |e| Error::io("sort in", temp.path(), e);
        let mut sorter = Sorter::new(temp.path(), self.options.memory_bytes.max(1 << 20));
        for source in self.sources {
            self.check_cancel()?;
            let (_, survey) = self.open(source)?;
            let keys = match keys::by_column(&survey, column) {
                Ok(keys) => keys,
                Err(reason) => {
                    return Ok(Err(format!("in `{}` {reason}", source.path.display())));
                }
            };
            for key in keys {
                sorter.push(key.as_str().to_lowercase().as_bytes(), &[]).map_err(io)?;
            }
        }
        let mut last = Vec::new();
        for pair in sorter.finish().map_err(io)? {
            let (key, _) = pair.map_err(io)?;
            if key == last {
                let key = String::from_utf8_lossy(&key).into_owned();
                return Ok(Err(format!(
                    "two samples have the key `{key}`, if upper and lower case are not distinguished"
                )));
            }
            last = key;
        }
        Ok(Ok(()))
    }

    /// Opens a file and walks it. The file is not read any further after a cancel: one file may
    /// take minutes to walk.
    fn open(&self, source: &Source) -> Result<(ReadAt, Survey), Error> {
        let file = ReadAt::open(&source.path, Backend::Pread)?.until(self.cancel);
        let found = survey(&file, source.envelope).or_else(|error| {
            // A cancel is reported as such, whatever error the walker made of the failed read.
            self.check_cancel()?;
            Err(Error::from(error))
        })?;
        Ok((file, found))
    }

    fn check_cancel(&self) -> Result<(), Error> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled.into());
        }
        Ok(())
    }

    fn run(&self, out: &OutDir, found: &Found, report: &mut AdoptReport) -> Result<(), Error> {
        let roles = &found.roles;
        let id = self.id(found)?;
        out.keep_source(&id)?;
        let done = out.finished(&id, 0..found.parts.len(), OnBadInput::Fail)?;
        for number in done.keys() {
            (self.progress)(Progress::Packed(0, self.sources[found.parts[*number].source].bytes));
        }
        let done = each_shard(found.parts.len(), done, self.options.jobs, out, &|number| {
            let entry = self.shard(number, found, out)?;
            let done = Done::of(&id, Some(entry));
            out.note(number, &done)?;
            Ok(done)
        })?;
        let mut media = vec![MediaTypes::default(); roles.fields.len()];
        for number in 0..found.parts.len() {
            let path = media_path(out, number);
            let bytes = fs::read(&path).map_err(|e| Error::io("read", &path, e))?;
            let of_file: Vec<MediaTypes> = serde_json::from_slice(&bytes)
                .map_err(|e| Error::io("read", &path, std::io::Error::other(e)))?;
            media.iter_mut().zip(&of_file).for_each(|(all, of_file)| all.add(of_file));
        }
        let mut fields = Vec::with_capacity(roles.fields.len());
        for ((field, column, _), media) in roles.fields.iter().zip(&media) {
            let mut field = field.clone();
            if let FieldKind::Bytes { media_types } = &mut field.kind {
                *media_types = media.list(column);
                if field.is_image() && media.unknown > 0 {
                    let text = format!(
                        "{} values of the column `{column}` are not images in a supported format",
                        media.unknown
                    );
                    report.warnings.push(text);
                }
            }
            fields.push(field);
        }
        if !roles.fields.iter().any(|(f, _, _)| f.is_label()) {
            report.warnings.push(
                "there are no labels: name the column that has them, or say `folder` if the folders in the keys are the classes"
                    .into(),
            );
        }
        let encoded = roles.fields.first().is_some_and(|(f, _, _)| f.is_bytes());
        let made = MadeValue::Text(report.envelope.name().to_owned());
        let manifest = Manifest {
            envelope: report.envelope,
            payload: if encoded { Payload::Encoded } else { Payload::Raw },
            fields,
            classes: roles.classes.clone(),
            made: BTreeMap::from([("adopted".to_owned(), made)]),
            about: self.options.about.clone(),
            statistics: None,
            shards: done.into_values().filter_map(|d| d.entry).collect(),
        };
        self.check_indexes(&manifest, out)?;
        report.digest = Some(out.publish(&manifest, &[])?);
        Ok(())
    }

    /// Identifies the input and options: indexes of an interrupted run can be used only if it had
    /// the same.
    fn id(&self, found: &Found) -> Result<String, Error> {
        let mut hasher = blake3::Hasher::new();
        let unknown = self.options.unknown;
        hasher.update(format!("{:?} {:?} {unknown:?}", found.roles, found.parts).as_bytes());
        for source in self.sources {
            let metadata =
                fs::metadata(&source.path).map_err(|e| Error::io("open", &source.path, e))?;
            let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
            hasher.update(format!("{source:?} {seconds} {nanoseconds}").as_bytes());
        }
        Ok(format!("{} adopted", hasher.finalize().to_hex()))
    }

    /// The samples of a part: their keys, and where their values are.
    fn rows(&self, number: usize, found: &Found) -> Result<Rows, Error> {
        let (part, roles) = (found.parts[number], &found.roles);
        let (file, survey) = self.open(&self.sources[part.source])?;
        let keys = self.keys(part.source, &survey, roles)?;
        let mut places = places(&file, &survey, &keys, roles, found.by_folder)?;
        let mut is_dropped = vec![false; keys.len()];
        let label = roles.fields.iter().position(|(field, _, _)| field.is_label());
        if let Some(label) = label.filter(|_| found.unknown.n > 0) {
            let mut labels = labels(&file, &survey, &keys, roles, found.by_folder)?;
            match self.options.unknown {
                OnUnknownLabel::Drop => is_dropped = labels.iter().map(|l| *l == -1).collect(),
                OnUnknownLabel::Class(class) => {
                    labels.iter_mut().filter(|l| **l == -1).for_each(|l| *l = class);
                    // The labels are stored in the index, since the file itself is not changed.
                    places[label] = FieldPlaces::Labels(labels);
                }
                OnUnknownLabel::Keep | OnUnknownLabel::Refuse => {}
            }
        }
        let of_part = |row: &usize| {
            let split = || split_and_class(keys[*row].as_str(), true).0;
            !is_dropped[*row] && (!found.by_folder || split() == Some(part.split))
        };
        let rows: Vec<usize> = (0..keys.len()).filter(of_part).collect();
        let keys: Vec<BundlePath> = rows.iter().map(|row| keys[*row].clone()).collect();
        let places = places.into_iter().zip(&roles.fields);
        let places = places.map(|(places, (field, _, _))| select(places, &rows, field)).collect();
        Ok(Rows { file, keys, places })
    }

    /// Makes the index of a file, and a link to the file.
    fn shard(&self, number: usize, found: &Found, out: &OutDir) -> Result<ShardEntry, Error> {
        let (part, roles) = (found.parts[number], &found.roles);
        let source = &self.sources[part.source];
        let Rows { file, keys, places } = self.rows(number, found)?;
        let fields: Vec<Field> = roles.fields.iter().map(|(f, _, _)| f.clone()).collect();
        let mut seen = vec![MediaTypes::default(); fields.len()];
        let InPlace { index, digest } = index_in_place(&file, &fields, &keys, places, &mut |s| {
            self.check_cancel()?;
            match s {
                Seen::Value(field, value) if fields[field.0].is_bytes() => {
                    seen[field.0].look(value);
                }
                Seen::Value(..) => {}
                Seen::Block(piece) => (self.progress)(Progress::Packed(0, piece.len() as u64)),
            }
            Ok::<_, Error>(())
        })?;
        self.check_cancel()?;
        let seen = serde_json::to_vec(&seen).expect("texts and numbers serialise");
        write_file(&media_path(out, number), &seen)?;
        // A file of several splits has one name, by the first of them, so that it is published,
        // fetched, staged and exported once.
        let of_file = found.parts.iter().find(|p| p.source == part.source).unwrap_or(&part);
        let entry = |split: Split, digest: Digest, extension: &str, bytes: u64| {
            let name = format!("{split}-{}.{extension}", digest.short_hex());
            let name = BundlePath::parse(&name).map_err(gular_bundle::Error::from)?;
            Ok::<_, Error>(FileEntry { name, bytes, digest })
        };
        let shard = entry(of_file.split, digest, source.envelope.extension(), source.bytes)?;
        let index_entry =
            entry(part.split, Digest::of(&index), "index.safetensors", index.len() as u64)?;
        write_file(&out.data.join(index_entry.name.as_str()), &index)?;
        let link = out.data.join(shard.name.as_str());
        match std::os::unix::fs::symlink(&source.path, &link) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                let there = fs::read_link(&link).map_err(|e| Error::io("read", &link, e))?;
                if there != source.path {
                    // Two files have the same bytes.
                    return Err(RunError::Option(format!(
                        "the files `{}` and `{}` have the same bytes",
                        there.display(),
                        source.path.display()
                    ))
                    .into());
                }
            }
            linked => linked.map_err(|e| Error::io("create the link", &link, e))?,
        }
        let samples = keys.len() as u64;
        Ok(ShardEntry { split: part.split, file: shard, samples, index: index_entry, view: None })
    }

    /// Checks that a reader will accept the result, since files may name fewer classes than their
    /// labels have.
    fn check_indexes(&self, manifest: &Manifest, out: &OutDir) -> Result<(), Error> {
        for entry in &manifest.shards {
            let path = out.data.join(entry.index.name.as_str());
            let bytes = fs::read(&path).map_err(|e| Error::io("read", &path, e))?;
            match Index::accept(entry.index.name.as_str(), bytes, None, manifest, entry) {
                Ok(_) => {}
                Err(gular_bundle::Error::Label { label, n_classes, .. }) => {
                    return Err(setting(
                        &["label_column"],
                        format!(
                            "there are labels such as {label}, but the files have only {n_classes} class names"
                        ),
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Returns the warning about samples of unknown class.
fn unknown_warning(unknown: &Unknown, choice: OnUnknownLabel) -> Option<String> {
    let what = match choice {
        OnUnknownLabel::Keep => {
            "have the label -1, which means that the class is not known".to_owned()
        }
        OnUnknownLabel::Drop => "were left out".to_owned(),
        OnUnknownLabel::Class(class) => format!("were given class {class}"),
        OnUnknownLabel::Refuse => return None,
    };
    let first = unknown.keys.first().map_or("", String::as_str);
    Some(format!("{} samples without a known label {what}, such as `{first}`", unknown.n))
}

/// The file with the media types of a file's values, for a run that resumes this one.
fn media_path(out: &OutDir, number: usize) -> PathBuf {
    out.state.join(format!("media-{number}.json"))
}
