//! Walks a folder or an archive of images: finds keys and sizes, and reads no file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use gular_bundle::{BundlePath, Split};
use gular_codec::Format;
use gular_files::TEMP_PREFIX;

use crate::facts::{
    BAND, BadInput, BadInputs, DATE, Doubt, Fault, LeftOut, Names, OtherFiles, Pattern, WayToRead,
    formats, named, setting, split_like, split_of, split_within, stem_and_extension,
};
use crate::layout::{
    BandFiles, Folders, Labels, Layout, LayoutError, LayoutOptions, Marks, TablesBeside,
    Unlabelled, in_a_table, masks_among, pairs_in_one_folder, recognise,
};
use crate::source::{
    Archive, Inputs, OnBadInput, PixelColumns, Source, SourceError, hidden, media_type_of,
};

/// Extensions of lists without column names.
const LISTS: [&str; 2] = ["txt", "lst"];
/// Kinds of ignored files that are counted apart: names like `scan.000017` must
/// not fill memory and report.
const MOST_KINDS: usize = 100;
/// No picture has fewer bytes; the magic of each format is in the first of them.
const SHORTEST_PICTURE: usize = 16;
/// The longest extension that is counted as one.
const LONGEST_EXTENSION: usize = 16;

/// Kinds of images, of those ignored, that are not packed as pictures, with their numbers.
pub(crate) fn unpacked(ignored: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let found = ignored.iter().filter(|(e, _)| formats::OTHERS.contains(&e.as_str()));
    found.map(|(e, n)| (e.as_str(), *n)).collect()
}

/// The results of a walk, besides the images that it passed on.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) classes: BTreeSet<String>,
    pub(crate) media_types: BTreeSet<&'static str>,
    /// What paths mean, if they mean anything.
    pub(crate) layout: Layout,
    /// The words for splits, and the split that each one stands for.
    pub(crate) split_words: BTreeMap<String, Split>,
    /// What is not clear about the paths.
    pub(crate) doubts: Vec<Doubt>,
    pub(crate) ignored: BTreeMap<String, u64>,
    /// Pictures that become PNG, by extension.
    pub(crate) become_png: BTreeMap<String, u64>,
    pub(crate) skipped: Vec<BadInput>,
    pub(crate) files: u64,
    /// Images that no pattern fits.
    pub(crate) unmatched: Names,
    /// Images whose names end like those of masks.
    marks: Marks,
    /// Arrays whose names end like those of bands.
    bands: BandFiles,
    /// The files that may have the labels.
    tables: TablesBeside,
    /// Lists that have the name of a split, which may say what is in it.
    lists: BTreeMap<String, Split>,
    /// Files that were left out, some of which may say what all of them are.
    pub(crate) left_out: LeftOut,
    /// How rows of pixels were read.
    pub(crate) pixels: Option<PixelColumns>,
}

/// Walks `source` and hands each image's key and size to `found`.
pub(crate) fn scan<E: From<LayoutError> + From<SourceError>>(
    source: &Source,
    options: &LayoutOptions<'_>,
    found: &mut dyn FnMut(&BundlePath, u64) -> Result<(), E>,
) -> Result<Scan, E> {
    let path = source.path();
    let meaning = Meaning::new(source, options)?;
    let others = others(source, options)?;
    let scan = Scan::default();
    let mut walk =
        Walk { source, path, others, meaning, options, scan, bad: BadInputs::default(), found };
    match source {
        Source::Folder(folder) => crate::source::walk(folder, &mut |entry| walk.entry(entry))?,
        Source::Archive(archive) => archive.files(&mut |name, size| {
            if hidden(name) {
                walk.ignore("hidden");
                return Ok(());
            }
            walk.file(&path.join(name), size)
        })?,
        Source::Pixels(rows) => {
            rows.files(&mut |name, size| walk.file(&path.join(name), size))?;
            walk.scan.skipped.extend(rows.bad().cloned());
            walk.scan.pixels = Some(rows.columns.clone());
            walk.scan.split_words = rows.split_words.clone();
            walk.scan.ignored = rows.ignored.clone();
        }
        Source::Datasets(rows) => {
            rows.files(&mut |name, size| walk.file(&path.join(name), size))?;
            walk.scan.doubts.extend(rows.doubts());
        }
    }
    let Walk { scan, meaning, bad, .. } = walk;
    bad.into_result().map_err(LayoutError::from)?;
    Ok(understood(path.display().to_string(), options, meaning, scan)?)
}

/// Decides what the paths mean, now that all are known, and whether there is anything to pack.
fn understood(
    path: String,
    options: &LayoutOptions<'_>,
    meaning: Meaning,
    mut scan: Scan,
) -> Result<Scan, LayoutError> {
    if options.inputs == Inputs::Images && options.images.is_empty() && scan.files > 0 {
        let (arrays, pictures) = (formats::arrays(&scan.ignored), scan.files);
        if arrays >= 2 * pictures {
            return Err(LayoutError::MostlyArrays { path, arrays, pictures });
        }
    }
    meaning.finish(options, &mut scan)?;
    let n = scan.unmatched.n;
    if n > 0 && (options.unlabelled != Unlabelled::Skip || scan.files == 0) {
        let patterns = options.images.iter().map(|pattern| format!("`{pattern}`"));
        let (images, one) = (scan.unmatched.to_string(), options.images.len() == 1);
        let patterns = patterns.collect::<Vec<_>>().join(", ");
        return Err(LayoutError::Unmatched { n, images, patterns, one });
    }
    if scan.files > 0 {
        return Ok(scan);
    }
    let ignored: Vec<String> = scan.ignored.iter().map(|(e, n)| format!("{n} {e}")).collect();
    let ignored = match ignored.as_slice() {
        [] => String::new(),
        all => format!("; other files: {}", all.join(", ")),
    };
    let format = scan.left_out.format(&scan.ignored);
    let others = formats::others(&scan.ignored);
    if let Some(format) = format.filter(|_| others != OtherFiles::Arrays) {
        return Err(SourceError::Outside { path, is_file: false, ignored, format }.into());
    }
    let what = match options.inputs {
        Inputs::Images => "JPEG, PNG, WebP, BMP, GIF or Netpbm image",
        Inputs::Arrays => "NumPy array, TIFF or JPEG 2000 file",
        Inputs::Bytes => "file",
        Inputs::Pixels { .. } => "row of pixels",
    };
    Err(LayoutError::NoImages { what, path, ignored, others, left_out: Vec::new() })
}

/// What paths mean: by the user's patterns, or by what all of them together look like.
enum Meaning {
    /// The patterns, and those of files that are bands or dates which the user did not choose.
    Given(Layout, Vec<Pattern>),
    Counting(Folders),
}

impl Meaning {
    fn new(source: &Source, options: &LayoutOptions<'_>) -> Result<Self, LayoutError> {
        if options.images.is_empty() {
            return Ok(Self::Counting(Folders::new(one_folder(source, options.inputs)?)));
        }
        let layout = match options.inputs {
            Inputs::Arrays => Layout::of_arrays(options.images.to_vec())?,
            _ => Layout::new(options.images.to_vec())?,
        };
        let fail = |text: &str| Err(setting(&["images", "labels"], text));
        if layout.has_splits() && takes_splits(options) {
            return fail("splits can come from paths or from a column, not from both");
        }
        // A table may say the classes of the images whose paths do not.
        let by_table = matches!(options.labels, Labels::Table(_)) && !layout.all_have("label");
        if layout.has_labels() && !wants_labels(options) && !by_table {
            return fail(match options.labels {
                Labels::None => "a pattern names the class, but labels are turned off",
                _ => "a pattern names the class, but labels are in a table",
            });
        }
        layout.check_names(wants_labels(options))?;
        let chosen = |pattern: &Pattern, name| !pattern.words(name).is_empty();
        let mut others = Vec::new();
        if options.inputs == Inputs::Arrays {
            for pattern in options.images {
                if chosen(pattern, BAND) || chosen(pattern, DATE) {
                    let widened = pattern.widened(BAND).and_then(|all| all.widened(DATE));
                    others.push(widened.map_err(LayoutError::from)?);
                }
            }
        }
        Ok(Self::Given(layout, others))
    }

    /// Takes an image; whether a pattern fits it.
    fn take(&mut self, path: &str, scan: &mut Scan) -> Result<bool, LayoutError> {
        match self {
            Self::Counting(folders) => {
                folders.add(path);
                Ok(true)
            }
            Self::Given(layout, _) => {
                let Some(placed) = layout.place(path)? else { return Ok(false) };
                if let Some(class) = placed.label
                    && !scan.classes.contains(class)
                {
                    scan.classes.insert(class.to_owned());
                }
                if let (Some(split), Some(word)) = (placed.split, placed.values.get("split"))
                    && !scan.split_words.contains_key(word)
                {
                    scan.split_words.insert(word.to_owned(), split);
                }
                Ok(true)
            }
        }
    }

    /// Whether a file that no pattern fits is a band or a date that the user left out.
    fn left_out(&self, path: &str) -> bool {
        match self {
            Self::Counting(_) => false,
            Self::Given(_, others) => {
                others.iter().any(|pattern| !matches!(pattern.read(path), Ok(None)))
            }
        }
    }

    /// Sets the layout, now that all paths are known.
    fn finish(self, options: &LayoutOptions<'_>, scan: &mut Scan) -> Result<(), LayoutError> {
        let folders = match self {
            Self::Given(layout, _) => {
                let patterns = options.images.iter().map(ToString::to_string);
                scan.doubts.extend(masks_among(&scan.marks, &patterns.collect::<Vec<_>>()));
                scan.layout = layout;
                return Ok(());
            }
            Self::Counting(folders) => folders,
        };
        if let Some(doubt) = scan.bands.doubt() {
            return Err(doubt.into());
        }
        // A table's splits are those of its column, and rows of pixels have no folders.
        let plain = takes_splits(options) || matches!(options.inputs, Inputs::Pixels { .. });
        let texts = if plain || scan.files == 0 {
            vec!["{key}".to_owned()]
        } else {
            let tables = scan.tables.likeliest();
            let name_tables = |doubt: &mut Doubt| {
                for way in doubt.readings.iter_mut().filter(|way| way.tables.is_some()) {
                    way.tables = Some(tables.clone());
                    // A table of the training images has no rows for those of the test.
                    let of_training = |table: &String| {
                        let name = table.rsplit('/').next().unwrap_or(table);
                        split_within(name.split('.').next().unwrap_or(name)) == Some(Split::Train)
                    };
                    way.leaves_out |= folders.has_test() && tables.iter().any(of_training);
                }
            };
            if let Some(doubt) = pairs_in_one_folder(&folders) {
                return Err(doubt.into());
            }
            let mut found = recognise(&folders, wants_labels(options)).map_err(|mut doubt| {
                let has_way = doubt.readings.iter().any(|way| way.tables.is_some());
                if *options.labels == Labels::Path && !tables.is_empty() && !has_way {
                    doubt.readings.push(in_a_table());
                }
                name_tables(&mut doubt);
                LayoutError::from(doubt)
            })?;
            found.doubts.iter_mut().for_each(name_tables);
            // A single class beside a table is not what people label images with.
            let by_table = |doubt: &Doubt| doubt.readings.iter().any(|way| way.tables.is_some());
            if !tables.is_empty()
                && options.inputs == Inputs::Images
                && let Some(doubt) = found.doubts.iter().find(|doubt| by_table(doubt))
            {
                let mut doubt = doubt.clone();
                let all = found.patterns.iter().map(String::as_str).collect::<Vec<_>>();
                doubt.readings.push(WayToRead::new("if it is the only class", &all));
                return Err(doubt.into());
            }
            if let Some(doubt) = masks_among(&scan.marks, &found.patterns) {
                return Err(doubt.into());
            }
            scan.doubts.extend(texts_beside(scan, &found.patterns, options));
            scan.doubts.extend(unread_lists(&scan.lists, found.splits.is_empty()));
            scan.classes = found.classes;
            scan.split_words = found.splits;
            scan.doubts.extend(found.doubts);
            found.patterns
        };
        let patterns: Result<Vec<Pattern>, _> = texts.iter().map(|text| text.parse()).collect();
        scan.layout = Layout::new(patterns.map_err(LayoutError::from)?)?;
        Ok(())
    }
}

/// As many texts as images, which are not read.
fn texts_beside(scan: &Scan, patterns: &[String], options: &LayoutOptions<'_>) -> Option<Doubt> {
    let n = *scan.ignored.get("txt").filter(|n| **n > 1 && **n == scan.files)?;
    if !options.fields.is_empty() || matches!(options.labels, Labels::Table(_)) {
        return None;
    }
    let [pattern] = patterns else { return None };
    let text = format!("there are as many texts as images, {n}, and they are left out");
    let files = vec![("caption".to_owned(), pattern.replace("{ext}", "txt"))];
    let way = WayToRead { files, ..WayToRead::new("if they are captions", &[pattern]) };
    Some(Doubt::new(text, vec![way]))
}

/// Lists that may say what is in each split, where no folder does.
fn unread_lists(lists: &BTreeMap<String, Split>, no_splits: bool) -> Option<Doubt> {
    let splits: BTreeSet<Split> = lists.values().copied().collect();
    if !no_splits || splits.len() < 2 {
        return None;
    }
    let text = format!("{} may say the splits, and are not read", named(lists.keys()));
    let lists = lists.iter().map(|(list, split)| format!("{list}={{split={split}}}{{path}}"));
    let way = WayToRead { lists: lists.collect(), ..WayToRead::new("if each line is a path", &[]) };
    Some(Doubt::new(text, vec![way]))
}

/// Whether a part of paths is to be the class.
fn wants_labels(options: &LayoutOptions<'_>) -> bool {
    match options.labels {
        Labels::Path => true,
        // A table of splits alone leaves the classes to patterns.
        Labels::Table(table) => table.has_no_labels() && !options.images.is_empty(),
        Labels::None | Labels::Column(_) => false,
    }
}

/// Whether a column says the splits.
fn takes_splits(options: &LayoutOptions<'_>) -> bool {
    matches!(options.labels, Labels::Table(table) if table.split.is_some())
}

/// Most folders around everything that are looked into.
const MOST_AROUND: usize = 8;

/// The folder that has everything else in it, such as the one that people pack into an archive:
/// nothing else is beside it, and there are several folders in it, or one that is a split. It ends
/// in a slash; nothing if there is none.
pub(crate) fn one_folder(source: &Source, inputs: Inputs) -> Result<String, LayoutError> {
    let around = match source {
        Source::Folder(folder) => around_folders(folder, inputs),
        Source::Archive(archive) => around_members(archive, inputs)?,
        Source::Pixels(_) | Source::Datasets(_) => None,
    };
    let around = around.unwrap_or_default();
    let split = around.iter().position(|name| split_like(name).is_some());
    let kept = match split.map(|at| around.split_at(at)) {
        None => around.as_slice(),
        Some((before, [split, ..])) if split_of(split).is_some() => before,
        Some(_) => &[],
    };
    Ok(kept.iter().map(|name| format!("{name}/")).collect())
}

/// The folders in each other that have everything in them; `None` if images are beside one.
fn around_folders(source: &Path, inputs: Inputs) -> Option<Vec<String>> {
    let (mut around, mut folder) = (Vec::new(), source.to_owned());
    while around.len() < MOST_AROUND {
        let mut folders = Vec::new();
        for entry in fs::read_dir(&folder).ok()?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if hidden(&name) {
                continue;
            }
            if entry.path().is_dir() {
                folders.push(name);
            } else if media_type_of(&name, inputs).is_some() {
                return None;
            }
        }
        match folders.as_slice() {
            [] => return None,
            [one] => folder.push(one),
            _ => break,
        }
        around.append(&mut folders);
        if around.last().is_some_and(|name| split_like(name).is_some()) {
            break;
        }
    }
    Some(around)
}

/// The same of an archive.
fn around_members(archive: &Archive, inputs: Inputs) -> Result<Option<Vec<String>>, LayoutError> {
    let folders_of = |name: &'_ str| -> Vec<String> {
        let folders = name.rsplit_once('/').map_or("", |(folders, _)| folders);
        folders.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let common = |a: &[String], b: &[String]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (mut around, mut fewest) = (None::<Vec<String>>, usize::MAX);
    archive.files::<SourceError>(&mut |name, _| {
        if !hidden(name) && media_type_of(name, inputs).is_some() {
            let folders = folders_of(name);
            fewest = fewest.min(folders.len());
            let known = around.get_or_insert_with(|| folders.clone());
            known.truncate(common(known, &folders));
        }
        Ok(())
    })?;
    let has_split = |around: &[String]| around.iter().any(|name| split_like(name).is_some());
    let around = around.filter(|around| around.len() < fewest || has_split(around));
    let Some(mut around) = around.filter(|around| !around.is_empty()) else { return Ok(None) };
    // A folder without images is beside others, too.
    archive.files::<SourceError>(&mut |name, _| {
        let folders = if hidden(name) { Vec::new() } else { folders_of(name) };
        let n = common(&around, &folders);
        if folders.len() > n {
            around.truncate(n);
        }
        Ok(())
    })?;
    Ok(Some(around))
}

/// Files of fields that are in the source and are not images.
#[derive(Default)]
struct Others<'a> {
    patterns: Vec<Pattern>,
    /// Those of images, which take the files that they say more about.
    images: &'a [Pattern],
    /// Folders, each with a slash at its end.
    folders: Vec<String>,
}

impl Others<'_> {
    fn has(&self, path: &str) -> bool {
        let heaviest = |patterns: &[Pattern]| {
            let fitting = patterns.iter().filter(|of| !matches!(of.read(path), Ok(None)));
            fitting.map(Pattern::weight).max()
        };
        self.folders.iter().any(|folder| path.starts_with(folder.as_str()))
            || heaviest(&self.patterns).is_some_and(|of| Some(of) >= heaviest(self.images))
    }
}

fn others<'a>(source: &Source, options: &LayoutOptions<'a>) -> Result<Others<'a>, LayoutError> {
    let mut others = Others { images: options.images, ..Others::default() };
    for field in options.fields {
        let (Some(files), pattern) = (&field.files, &field.pattern) else {
            others.patterns.extend(field.pattern.clone());
            continue;
        };
        let (Ok(files), Ok(folder)) = (files.canonicalize(), source.path().canonicalize()) else {
            continue;
        };
        let Ok(below) = files.strip_prefix(&folder) else { continue };
        let below = below.to_string_lossy();
        match pattern {
            None if below.is_empty() => {
                let text = format!(
                    "the files for field `{}` are in the same folder as the images: give a pattern of their paths that tells them apart",
                    field.name
                );
                return Err(setting(&["mask", "field"], text));
            }
            Some(pattern) if below.is_empty() => others.patterns.push(pattern.clone()),
            _ => others.folders.push(format!("{below}/")),
        }
    }
    Ok(others)
}

struct Walk<'a, E> {
    source: &'a Source,
    path: &'a Path,
    others: Others<'a>,
    meaning: Meaning,
    options: &'a LayoutOptions<'a>,
    scan: Scan,
    bad: BadInputs,
    found: &'a mut dyn FnMut(&BundlePath, u64) -> Result<(), E>,
}

impl<E: From<LayoutError>> Walk<'_, E> {
    /// Takes an entry of a folder; metadata when it is a folder to go into.
    fn entry(&mut self, path: &Path) -> Result<Option<fs::Metadata>, E> {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        // An example is the lock of a fetch into this folder.
        if name.starts_with(TEMP_PREFIX.as_bytes()) {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(name);
        if hidden(&text) {
            let is_store = matches!(&*text, ".zarray" | ".zgroup");
            let kind = is_store.then(|| self.scan.left_out.add(&text, path)).flatten();
            self.ignore(kind.unwrap_or("hidden"));
            return Ok(None);
        }
        // Follows links, so that a farm of links packs like the files.
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return Ok(Some(metadata)),
            Ok(metadata) if metadata.is_file() => self.file(path, metadata.len())?,
            Ok(_) => self.ignore("special"),
            Err(e) => {
                let what = if path.is_symlink() { "broken link" } else { "cannot be read" };
                self.bad(path, format!("{what}: {e}"), None);
            }
        }
        Ok(None)
    }

    fn ignore(&mut self, kind: &str) {
        let ignored = &mut self.scan.ignored;
        let plain = kind.len() <= LONGEST_EXTENSION && !kind.chars().any(char::is_control);
        let room = ignored.len() < MOST_KINDS || formats::OTHERS.contains(&kind);
        let known = plain && (room || ignored.contains_key(kind));
        *ignored.entry(if known { kind } else { "others" }.to_owned()).or_default() += 1;
    }

    fn file(&mut self, path: &Path, size: u64) -> Result<(), E> {
        let relative = path.strip_prefix(self.path).unwrap_or(path);
        let extension = relative.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let extension = extension.unwrap_or_else(|| "no extension".to_owned());
        let name = relative.to_string_lossy();
        if self.others.has(&name) {
            return Ok(());
        }
        let Some(media_type) =
            media_type_of(&name, self.options.inputs).or_else(|| self.media_type_inside(&name))
        else {
            let kind = self.scan.left_out.add(&name, path);
            self.ignore(kind.unwrap_or(&extension));
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            if LISTS.contains(&extension.as_str())
                && self.scan.lists.len() < MOST_KINDS
                && let Some(split) = split_within(&stem)
            {
                self.scan.lists.insert(path.display().to_string(), split);
            }
            if path.is_file() || matches!(self.source, Source::Archive(_)) {
                self.scan.tables.add(path, &extension);
            }
            return Ok(());
        };
        let Some(text) = relative.to_str() else {
            self.bad(path, "its name is not UTF-8".to_owned(), Some("rename it"));
            return Ok(());
        };
        let key = match BundlePath::parse(text) {
            Ok(key) => key,
            Err(e) => {
                self.bad(
                    path,
                    format!("its name cannot be a key: {}", e.reason),
                    Some("rename it"),
                );
                return Ok(());
            }
        };
        if !self.meaning.take(text, &mut self.scan)? {
            match self.meaning.left_out(text) {
                true => self.ignore("other bands"),
                false => self.scan.unmatched.push(text),
            }
            return Ok(());
        }
        if self.options.inputs != Inputs::Bytes {
            self.scan.marks.add(text);
        }
        if self.options.inputs == Inputs::Arrays {
            self.scan.bands.add(text);
        }
        self.scan.media_types.insert(media_type);
        if self.options.inputs == Inputs::Images && formats::becomes_png(&extension) {
            *self.scan.become_png.entry(extension).or_default() += 1;
        }
        self.scan.files += 1;
        (self.found)(&key, size)
    }

    /// What the first bytes of a file without an extension say, if it is a picture.
    fn media_type_inside(&self, name: &str) -> Option<&'static str> {
        let is_bare = stem_and_extension(name).1.is_empty();
        if !is_bare || self.options.inputs != Inputs::Images {
            return None;
        }
        let start = self.source.start::<SHORTEST_PICTURE>(name).ok()?;
        Format::sniff(&start).map(Format::media_type)
    }

    /// Notes a file that cannot be packed; the walk continues and finds the others.
    fn bad(&mut self, path: &Path, reason: String, hint: Option<&'static str>) {
        let relative = path.strip_prefix(self.path).unwrap_or(path);
        let path = relative.to_string_lossy().into_owned();
        let bad = Fault::new(reason, hint).at(path);
        match self.options.on_error {
            OnBadInput::Skip => self.scan.skipped.push(bad),
            OnBadInput::Fail => self.bad.push(bad),
        }
    }
}
