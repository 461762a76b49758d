//! Walks a folder or an archive of images: finds keys and sizes, and reads no file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gular_bundle::{BundlePath, Split};
use gular_codec::{Format, Limits};
use gular_files::TEMP_PREFIX;

use super::first_rows::FirstRows;
use super::other_classes::other_classes;
use super::same_names::{
    FilesOfFolders, IsOfColours, in_deeper_folders, in_each_folder, in_folders, in_one_folder,
};
use super::split_lists::has_boxes;
use crate::facts::{
    BAND, BadInput, BadInputs, DATE, Doubt, Fault, LeftOut, Names, OtherFiles, Pattern, WayToRead,
    composed, formats, setting, split_within, stem_and_extension,
};
use crate::layout::{
    BandFiles, DateFiles, Folders, Labels, Layout, LayoutError, LayoutOptions, Marks, Recognised,
    SplitLists, TablesBeside, Unlabelled, in_a_table, masks_among, not_read, one_folder, recognise,
};
use crate::source::{
    Inputs, OnBadInput, PixelColumns, Source, SourceError, hidden, media_type_of, picture_start,
};

/// Kinds of ignored files that are counted apart: names like `scan.000017` must
/// not fill memory and report.
const MOST_KINDS: usize = 100;
/// No picture has fewer bytes; the magic of each format is in the first of them.
const SHORTEST_PICTURE: usize = 16;
/// The longest extension that is counted as one.
const LONGEST_EXTENSION: usize = 16;

/// Names of texts that say nothing of single images.
const ABOUT_THE_SET: [&str; 5] = ["readme", "license", "licence", "citation", "changelog"];

fn is_about_the_set(path: &Path, extension: &str) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    extension == "txt" && ABOUT_THE_SET.iter().any(|name| stem.eq_ignore_ascii_case(name))
}

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
    /// Texts among them that are about the whole set, such as `README.txt`.
    n_about_the_set: u64,
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
    /// Arrays whose names end in dates.
    dates: DateFiles,
    /// The files that may have the labels.
    tables: TablesBeside,
    /// Lists that may say the splits.
    lists: SplitLists,
    /// Files that were left out, some of which may say what all of them are.
    pub(crate) left_out: LeftOut,
    /// How rows of pixels were read.
    pub(crate) pixels: Option<PixelColumns>,
}

impl Scan {
    /// Counts tables in the source, which are read, no longer among the files that are ignored.
    pub(crate) fn take_tables(&mut self, source: &Source, tables: &[PathBuf]) {
        for table in tables.iter().filter(|table| table.starts_with(source.path())) {
            let extension = table.extension().unwrap_or_default().to_string_lossy().to_lowercase();
            if let Some(n) = self.ignored.get_mut(&extension).filter(|_| !table.is_dir()) {
                *n = n.saturating_sub(1);
            }
        }
        self.ignored.retain(|_, n| *n > 0);
    }
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
    let is_of_colours = |path: &str| {
        let (header, start) = picture_start(source, path, &Limits::default())?;
        Some(header.channels > 2 && !gular_codec::holds_values(&start))
    };
    Ok(understood(path.display().to_string(), options, meaning, scan, &is_of_colours)?)
}

/// Decides what the paths mean, now that all are known, and whether there is anything to pack.
fn understood(
    path: String,
    options: &LayoutOptions<'_>,
    meaning: Meaning,
    mut scan: Scan,
    is_of_colours: IsOfColours<'_>,
) -> Result<Scan, LayoutError> {
    let (arrays, pictures) = (formats::arrays(&scan.ignored), scan.files);
    let are_mixed = options.inputs == Inputs::Images
        && options.images.is_empty()
        && pictures > 0
        && arrays * 2 >= pictures;
    let finished = meaning.finish(options, &path, &mut scan, is_of_colours);
    // Of images and masks, one may be TIFF.
    let has_files =
        |doubt: &Doubt| doubt.readings.iter().any(|way| !way.files.is_empty() && !way.asks);
    if are_mixed && !matches!(&finished, Err(LayoutError::Doubt(doubt)) if has_files(doubt)) {
        return Err(LayoutError::ManyArrays { path, arrays, pictures });
    }
    finished?;
    let n = scan.unmatched.n;
    // Images that no pattern fits may be masks of arrays, which are not images here.
    let has_none = scan.files == 0 && formats::others(&scan.ignored) != OtherFiles::Arrays;
    if n > 0 && (options.unlabelled != Unlabelled::Skip || has_none) {
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
    fn take(&mut self, path: &str, bytes: u64, scan: &mut Scan) -> Result<bool, LayoutError> {
        match self {
            Self::Counting(folders) => {
                folders.add(path, bytes);
                Ok(true)
            }
            Self::Given(layout, _) => {
                let Some(placed) = layout.place(path)? else { return Ok(false) };
                if let Some(class) = placed.label
                    && !scan.classes.contains(&*class)
                {
                    scan.classes.insert(class.into_owned());
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
    fn finish(
        self,
        options: &LayoutOptions<'_>,
        path: &str,
        scan: &mut Scan,
        is_of_colours: IsOfColours<'_>,
    ) -> Result<(), LayoutError> {
        scan.doubts.extend(not_read::polygons(&scan.ignored, options));
        let folders = match self {
            Self::Given(layout, _) => {
                let patterns = options.images.iter().map(ToString::to_string);
                let patterns = patterns.collect::<Vec<_>>();
                scan.doubts.extend(masks_among(&scan.marks, &patterns));
                scan.doubts.extend(not_read::annotations(
                    &scan.ignored,
                    scan.files,
                    &scan.tables,
                    options,
                ));
                scan.layout = layout;
                return Ok(());
            }
            Self::Counting(folders) => folders,
        };
        if let Some(doubt) = scan.bands.doubt().or_else(|| scan.dates.doubt()) {
            return Err(doubt.into());
        }
        // A table's splits are those of its column, and rows of pixels have no folders.
        let plain = takes_splits(options) || matches!(options.inputs, Inputs::Pixels { .. });
        let texts = if plain || scan.files == 0 {
            vec!["{key}".to_owned()]
        } else {
            let tables = scan.tables.likeliest_of(&folders);
            let is_by_rows = tables != scan.tables.likeliest();
            let all_splits = scan.tables.of_all_splits();
            let name_tables = |doubt: &mut Doubt| {
                // Those of the test images may have no classes, which is not always known yet.
                let are_hidden = scan.tables.of_training_alone().is_some();
                let are_others = !all_splits.is_empty() && all_splits != tables && !are_hidden;
                if let Some(at) = by_table_at(doubt).filter(|_| are_others) {
                    let when = "if tables have the classes of all splits";
                    let way = WayToRead::new(when, &[]);
                    let besides = scan.tables.besides(&[]);
                    let tables = Some(all_splits.clone());
                    doubt.readings.insert(at, WayToRead { tables, besides, ..way });
                }
                // Beside class folders, lists may say the splits.
                let lists = scan.lists.options(true);
                let has_splits =
                    |way: &WayToRead| way.images.iter().any(|of| of.contains("{split"));
                let is_by_path = |way: &WayToRead| has_classes_alone(way) && !has_splits(way);
                // A single folder is not a class where lists may have classes.
                let by_path = doubt.readings.iter().position(is_by_path);
                let by_path = by_path.filter(|_| !folders.are_one_flat());
                if let Some(at) = by_path.filter(|_| !lists.is_empty()) {
                    let way = doubt.readings[at].clone();
                    let when = format!("{}, and lists say the splits", way.when);
                    // Lists bear out splits, but not classes that a table may have.
                    let asks = way.asks || tables.iter().any(|table| !lists.contains(table));
                    doubt.readings.insert(at, WayToRead { when, lists, asks, ..way });
                }
                let with_files = doubt.readings.iter_mut().filter(|way| !way.files.is_empty());
                with_files.for_each(|way| {
                    // Where folders are the splits, lists say nothing more.
                    if !way.images.iter().any(|images| images.contains("{split")) {
                        way.lists = scan.lists.options(true);
                    }
                    way.colours = scan.tables.colours();
                });
                let without_rest = scan.tables.of_training_alone().filter(|_| !folders.has_test());
                if let (Some(at), Some((training, rest))) = (by_table_at(doubt), without_rest) {
                    let when =
                        format!("if the images in `{rest}` have no classes and are left out");
                    let way =
                        WayToRead { leaves_out: true, asks: true, ..WayToRead::new(&when, &[]) };
                    doubt.readings.insert(at, WayToRead { tables: Some(training), ..way });
                }
                let besides = match is_by_rows {
                    true => Vec::new(),
                    false => scan.tables.besides(&tables),
                };
                if let Some(at) =
                    by_table_at(doubt).filter(|_| !besides.is_empty() && besides.len() < 3)
                {
                    let way = WayToRead::new("if these tables belong together", &[]);
                    let all = [tables.clone(), besides.clone()].concat();
                    doubt.readings.insert(at, WayToRead { tables: Some(all), ..way });
                }
                let is_open = |way: &&mut WayToRead| way.tables.as_ref().is_some_and(Vec::is_empty);
                for way in doubt.readings.iter_mut().filter(is_open) {
                    way.tables = Some(tables.clone());
                    way.besides = besides.clone();
                    // Lists of the splits, which may say the classes, too.
                    let lists = scan.lists.options(scan.tables.are_of_boxes());
                    way.lists = match scan.tables.are_of_boxes() || tables.is_empty() {
                        true => lists,
                        false => scan.lists.options(true),
                    };
                    if tables.is_empty() && !way.lists.is_empty() {
                        way.tables = None;
                    }
                    // What the numbers of boxes are, the user has to say.
                    way.asks |= way.lists.iter().chain(&tables).any(|list| has_boxes(list));
                    // A table of the training images has no rows for those of the test.
                    let of_training = |table: &String| {
                        let name = table.rsplit('/').next().unwrap_or(table);
                        split_within(name.split('.').next().unwrap_or(name)) == Some(Split::Train)
                    };
                    let of_test = format!("={{split={}}}", Split::Test);
                    let has_test = tables.iter().any(|table| table.ends_with(&of_test));
                    if folders.has_test() && tables.iter().any(of_training) && !has_test {
                        way.leaves_out = true;
                        // Splits are from paths or from tables.
                        if way.images.is_empty() && !tables.iter().any(|t| t.contains("={split=")) {
                            way.images = folders.of_training();
                        }
                    }
                }
            };
            let mut found = recognise(&folders, wants_labels(options)).map_err(|mut doubt| {
                if options.inputs != Inputs::Bytes {
                    doubt = with_ends(doubt, &folders, is_of_colours);
                    add_table_of_pairs(&mut doubt, &folders, &tables);
                    let deeper =
                        doubt.readings.iter().find_map(|way| match way.images.as_slice() {
                            [one] if one.contains("{*}/{label}/{key}") => Some(one.clone()),
                            _ => None,
                        });
                    let parts = deeper.map(|of| in_deeper_folders(&folders, &of, is_of_colours));
                    doubt.readings.extend(parts.unwrap_or_default());
                }
                let has_way = doubt.readings.iter().any(|way| way.tables.is_some());
                if *options.labels == Labels::Path && !tables.is_empty() && !has_way {
                    doubt.readings.push(in_a_table());
                }
                // Without classes, texts beside the images may be their captions.
                let plain = doubt.readings.iter().find(|way| is_plain(way)).cloned();
                if let Some(plain) = plain.filter(|_| scan.tables.are_sentences()) {
                    let Scan { ignored, files, .. } = &*scan;
                    let folder = scan.tables.folder_of_texts(Path::new(path));
                    let texts = not_read::texts(ignored, *files, &plain.images, folder, options);
                    doubt.readings.extend(texts.into_iter().flat_map(|doubt| doubt.readings));
                }
                name_tables(&mut doubt);
                // What is beside the images may say what they are.
                let may_say = |extension: &&str| {
                    let n = scan.ignored.get(*extension).copied().unwrap_or_default();
                    n > if *extension == "txt" { scan.n_about_the_set } else { 0 }
                };
                let kinds = ["csv", "tsv", "jsonl", "json", "txt", "xml", "mat", "gt", "lst"];
                if kinds.iter().any(may_say) {
                    doubt.readings.iter_mut().for_each(WayToRead::ask);
                }
                let images = match folders.has_test() {
                    true => folders.of_training(),
                    false => {
                        let plain = doubt.readings.iter().find(|way| is_plain(way));
                        plain.map(|way| way.images.clone()).unwrap_or_default()
                    }
                };
                let of_lengths = scan.tables.run_lengths(Path::new(path), &images);
                // Run lengths are neither classes nor texts.
                if of_lengths.is_some() {
                    let by_table = doubt.readings.iter_mut().filter(|way| way.tables.is_some());
                    by_table.for_each(|way| way.asks = true);
                }
                if let Some(unread) = not_read::unread(&scan.tables, &[], options) {
                    doubt.text = format!("{}; {}", unread.text, doubt.text);
                    for way in &mut doubt.readings {
                        way.ask();
                        way.asks = true;
                    }
                    // A file of this format is not read as a table.
                    let tables = doubt.readings.iter_mut().filter_map(|way| way.tables.as_mut());
                    tables.for_each(Vec::clear);
                } else if !doubt.readings.iter().any(|way| way.tables.is_some()) {
                    let Scan { ignored, files, .. } = &*scan;
                    let left = not_read::annotations(ignored, *files, &scan.tables, options);
                    let left = left.filter(|_| doubt.readings.iter().all(|w| w.lists.is_empty()));
                    if let Some(left) = left {
                        doubt.text = format!("{}; {}", doubt.text, left.text);
                    }
                }
                let leaves_out = folders.has_test();
                // Files of masks need none, which the command would write for them, too.
                let of_lengths = of_lengths.filter(|_| !folders.has_masks());
                doubt.readings.extend(of_lengths.map(|way| WayToRead { leaves_out, ..way }));
                LayoutError::from(doubt)
            })?;
            found.doubts.iter_mut().for_each(name_tables);
            if let Some(doubt) = classes_of_others(&found, &scan.tables)
                .filter(|_| *options.labels == Labels::Path && options.inputs == Inputs::Images)
            {
                return Err(doubt.into());
            }
            if let Some(doubt) = not_read::unread(&scan.tables, &found.patterns, options) {
                return Err(doubt.into());
            }
            if let Some(doubt) = not_read::of_sources(&scan.tables, &found, options) {
                return Err(doubt.into());
            }
            if let Some(doubt) = masks_among(&scan.marks, &found.patterns) {
                return Err(doubt.into());
            }
            if options.inputs != Inputs::Bytes
                && let Some(mut doubt) = in_one_folder(&folders, &found.patterns, is_of_colours)
                    .or_else(|| in_folders(&folders, &found, is_of_colours))
            {
                name_tables(&mut doubt);
                return Err(doubt.into());
            }
            let of_folders = in_each_folder(&folders, &found.patterns);
            match of_folders.filter(|_| options.inputs != Inputs::Bytes) {
                Some(FilesOfFolders::Asked(mut doubt)) => {
                    name_tables(&mut doubt);
                    return Err(doubt.into());
                }
                Some(FilesOfFolders::Told(doubt)) => found.doubts.push(doubt),
                None => {}
            }
            if let Some(doubt) = other_classes(&scan.tables, &scan.lists, &found, options) {
                return Err(doubt.into());
            }
            let Scan { ignored, files, .. } = &*scan;
            let folder = scan.tables.folder_of_texts(Path::new(path));
            let texts = not_read::texts(ignored, *files, &found.patterns, folder, options);
            let of_images = || not_read::annotations(ignored, *files, &scan.tables, options);
            scan.doubts.extend(texts.or_else(of_images));
            if found.splits.is_empty() {
                let by_path: &[String] =
                    if found.classes.is_empty() { &[] } else { &found.patterns };
                match scan.lists.doubt(by_path) {
                    Some(doubt) if !by_path.is_empty() => return Err(doubt.into()),
                    doubt => scan.doubts.extend(doubt),
                }
            }
            let has_classes = !found.classes.is_empty() && found.splits.is_empty();
            if let Some(doubt) = not_read::tables_of_splits(&all_splits, &found.patterns, options)
                .filter(|_| has_classes)
            {
                return Err(doubt.into());
            }
            let lists = not_read::lists(&scan.tables, &found, options);
            scan.doubts.extend(lists.or_else(|| not_read::tables(&scan.tables, &found, options)));
            scan.classes = found.classes.iter().map(|class| composed(class).into_owned()).collect();
            scan.split_words = found.splits;
            scan.doubts.extend(found.doubts);
            found.patterns
        };
        let patterns: Result<Vec<Pattern>, _> = texts.iter().map(|text| text.parse()).collect();
        scan.layout = Layout::new(patterns.map_err(LayoutError::from)?)?;
        Ok(())
    }
}

/// A doubt about images of which nearly each has a file of the same name with an end.
fn with_ends(mut doubt: Doubt, folders: &Folders, is_of_colours: IsOfColours<'_>) -> Doubt {
    let plain = doubt.readings.iter().find(|way| is_plain(way));
    let Some(plain) = plain.filter(|_| doubt.readings.iter().all(|way| way.files.is_empty()))
    else {
        return doubt;
    };
    let Some(mut found) = in_one_folder(folders, &plain.images, is_of_colours) else {
        return doubt;
    };
    found.readings.retain(|way| !way.files.is_empty());
    found.text = format!("{}; {}", found.text, doubt.text);
    doubt.readings.iter_mut().for_each(WayToRead::ask);
    found.readings.extend(doubt.readings);
    found
}

/// Adds the table whose rows are about images with further files, which it names by what their
/// names share, in place of the way to read all of them by it.
fn add_table_of_pairs(doubt: &mut Doubt, folders: &Folders, tables: &[String]) {
    let [table] = tables else { return };
    let Some(at) = doubt.readings.iter().position(|way| !way.files.is_empty()) else { return };
    let way = &doubt.readings[at];
    let [images] = way.images.as_slice() else { return };
    let Ok(pattern) = Pattern::parse(images) else { return };
    let Some(rows) = FirstRows::read(table).filter(|_| way.asks) else { return };
    let keys: BTreeSet<String> = folders
        .example_paths()
        .filter_map(|path| Some(pattern.read(&path).ok()??.get("key")?.to_owned()))
        .collect();
    let Some((column, part)) = rows.column_of(&|cell| keys.contains(cell)) else { return };
    let with_part = |pattern: &String| pattern.replace("{key}", &format!("{{{part}}}"));
    let files = way.files.iter().map(|(name, pattern)| (name.clone(), with_part(pattern)));
    let by_table = WayToRead {
        when: format!("{}, and `{table}` has their classes", way.when),
        images: vec![with_part(images)],
        files: files.collect(),
        tables: Some(tables.to_vec()),
        key_column: Some(column.clone()),
        leaves_out: way.leaves_out || folders.has_test(),
        ..way.clone()
    };
    doubt.readings.retain(|way| way.tables.is_none());
    let at = doubt.readings.iter().position(|way| !way.files.is_empty()).unwrap_or_default();
    doubt.readings.insert(at + 1, by_table);
}

/// Where the ways by tables begin.
fn by_table_at(doubt: &Doubt) -> Option<usize> {
    doubt.readings.iter().position(|way| way.tables.is_some())
}

/// Whether a way names images and their classes alone.
fn has_classes_alone(way: &WayToRead) -> bool {
    let has_label = way.images.iter().all(|pattern| pattern.contains("{label"));
    has_label && !way.images.is_empty() && way.files.is_empty() && way.tables.is_none()
}

/// The question whether a table has the classes of the images that are in no class folder, where
/// others are in such folders.
fn classes_of_others(found: &Recognised, tables: &TablesBeside) -> Option<Doubt> {
    let some_lack = found.patterns.iter().any(|pattern| !pattern.contains("{label"));
    let tables = tables.with_classes();
    if found.classes.is_empty() || !some_lack || tables.is_empty() {
        return None;
    }
    let mut doubt =
        found.doubts.iter().find(|doubt| doubt.readings.iter().any(|way| way.leaves_out))?.clone();
    let by_table = |table: String| {
        let when = format!("if `{table}` has their classes");
        let (images, tables) = (found.patterns.clone(), Some(vec![table]));
        WayToRead { images, tables, ..WayToRead::new(&when, &[]) }
    };
    let plain =
        WayToRead { otherwise: true, images: found.patterns.clone(), ..WayToRead::default() };
    doubt.readings.splice(0..0, tables.into_iter().map(by_table));
    doubt.readings.push(plain);
    Some(doubt)
}

/// Whether a way names images alone, without classes.
fn is_plain(way: &WayToRead) -> bool {
    let has_label = way.images.iter().any(|pattern| pattern.contains("{label"));
    !has_label && !way.images.is_empty() && way.files.is_empty() && way.tables.is_none()
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
        let name = relative.to_string_lossy();
        let extension = match stem_and_extension(&name).1 {
            "" => "no extension".to_owned(),
            extension => extension.to_ascii_lowercase(),
        };
        if self.others.has(&name) {
            return Ok(());
        }
        let Some(media_type) = media_type_of(&name, self.options.inputs)
            .or_else(|| self.media_type_inside(&name))
            .or_else(|| self.named_picture(&extension))
        else {
            let kind = self.scan.left_out.add(&name, path);
            self.ignore(kind.unwrap_or(&extension));
            self.scan.n_about_the_set += u64::from(is_about_the_set(relative, &extension));
            if let Meaning::Counting(folders) = &mut self.meaning
                && formats::is_image(&extension)
            {
                folders.add_other(&name);
            }
            self.scan.lists.add(path, &extension);
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
        if !self.meaning.take(text, size, &mut self.scan)? {
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
            self.scan.dates.add(text);
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

    /// PNG and JPEG files are arrays only if a pattern of the user names them.
    fn named_picture(&self, extension: &str) -> Option<&'static str> {
        let LayoutOptions { images, inputs, .. } = self.options;
        let is_named = |pattern: &Pattern| {
            stem_and_extension(pattern.as_str()).1.eq_ignore_ascii_case(extension)
        };
        let format = formats::picture(extension)
            .filter(|_| matches!(extension, "png" | "jpg" | "jpeg"))
            .filter(|_| *inputs == Inputs::Arrays && images.iter().any(is_named));
        format.map(Format::media_type)
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
