//! Walks a folder or an archive of images: finds keys and sizes, and reads no file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gular_bundle::{BundlePath, Split, media_type_of_extension};
use gular_codec::Format;
use gular_files::TEMP_PREFIX;

use crate::error::{BadInput, BadInputs, Fault};
use crate::formats;
use crate::labels::Names;
use crate::source::Source;
use crate::{
    Error, FieldFiles, FolderLayout, Inputs, Labels, OnBadInput, PixelColumns, PlanOptions,
    Unlabelled,
};

/// Kinds of ignored files that are counted apart: names like `scan.000017` must
/// not fill memory and report.
const MOST_KINDS: usize = 100;
/// The longest extension that is counted as one.
const LONGEST_EXTENSION: usize = 16;

/// The media type that a key's extension stands for; `None` when such files are not inputs.
pub(crate) fn media_type_of(key: &str, inputs: Inputs) -> Option<&'static str> {
    let extension = stem_and_extension(key).1.to_ascii_lowercase();
    let known = |list: &[(&str, &'static str)]| {
        list.iter().find(|(e, _)| *e == extension).map(|(_, media_type)| *media_type)
    };
    match inputs {
        Inputs::Images => formats::picture(&extension).map(Format::media_type),
        Inputs::Arrays => known(&formats::ARRAYS),
        Inputs::Bytes => {
            Some(media_type_of_extension(&extension).unwrap_or("application/octet-stream"))
        }
        Inputs::Pixels { .. } => Some("text/csv"),
    }
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
    /// Whether top-level folders are splits.
    pub(crate) split_layout: bool,
    pub(crate) ignored: BTreeMap<String, u64>,
    pub(crate) skipped: Vec<BadInput>,
    pub(crate) files: u64,
    /// The folder of an archive that is packed as if it were the source.
    pub(crate) root: Option<String>,
    /// Whether a class folder contains a folder.
    pub(crate) deeper: bool,
    /// Images whose names have no label.
    pub(crate) unlabelled: Names,
    /// The meaning of the columns of a table of pixels.
    pub(crate) pixels: Option<PixelColumns>,
}

/// The split and class of a key, by its folders.
pub(crate) fn place<'k>(
    key: &'k str,
    split_layout: bool,
    labels: &Labels,
) -> (Option<Split>, Option<&'k str>) {
    let mut rest = key;
    let mut split = None;
    if split_layout {
        let (first, after) = key.split_once('/').unwrap_or(("", key));
        split = Split::parse(first);
        rest = after;
    }
    let class = match labels {
        Labels::Folder => rest.split_once('/').map(|(class, _)| class),
        Labels::Name(pattern) => pattern.label(rest),
        Labels::None | Labels::Table(_) | Labels::Column(_) => None,
    };
    (split, class)
}

/// If all images of an archive are below one folder, makes that folder the source: people pack
/// `photos/` into an archive and mean its folders. Does nothing if the folder is a split, a
/// class, or something that the caller says is a class.
pub(crate) fn enter(source: &mut Source, options: &PlanOptions) -> Result<(), Error> {
    let Source::Archive(archive) = source else { return Ok(()) };
    if options.layout == FolderLayout::Class {
        return Ok(());
    }
    let (mut root, mut one, mut class) = (None, true, false);
    archive.files(&mut |name, _| {
        if !hidden(name) && media_type_of(name, options.inputs).is_some() {
            let (first, rest) = name.split_once('/').unwrap_or(("", name));
            class |= options.labels == Labels::Folder && !rest.contains('/');
            one &= root.get_or_insert_with(|| first.to_owned()) == first;
        }
        Ok(())
    })?;
    let enclosing =
        |root: &String| one && !class && !root.is_empty() && Split::parse(root).is_none();
    if let Some(root) = root.filter(enclosing) {
        archive.enter(&root);
    }
    Ok(())
}

/// Whether a segment of a path begins with a dot.
pub(crate) fn hidden(name: &str) -> bool {
    name.split('/').any(|segment| segment.starts_with('.'))
}

/// Walks `source` and hands each image's key and size to `found`.
pub(crate) fn scan(
    source: &Source,
    options: &PlanOptions,
    found: &mut dyn FnMut(&BundlePath, u64) -> Result<(), Error>,
) -> Result<Scan, Error> {
    let root = source.root().map(str::to_owned);
    let path = match &root {
        Some(root) => &source.path().join(root),
        None => source.path(),
    };
    let scan = Scan { split_layout: split_layout(source, options)?, root, ..Scan::default() };
    let beside = beside(source, &options.fields)?;
    let mut walk = Walk { source: path, beside, options, scan, bad: BadInputs::default(), found };
    match source {
        Source::Folder(folder) => self::walk(folder, &mut |entry| walk.entry(entry))?,
        Source::Archive(archive) => archive.files(&mut |name, size| {
            if hidden(name) {
                walk.ignore("hidden");
                return Ok(());
            }
            walk.file(&path.join(name), size)
        })?,
        Source::Pixels(table) => {
            table.files(&mut |name, size| walk.file(&path.join(name), size))?;
            walk.scan.skipped.extend(table.bad().cloned());
            walk.scan.pixels = Some(table.columns());
        }
    }
    if let Some(error) = walk.bad.into_error() {
        return Err(error);
    }
    let scan = walk.scan;
    if scan.unlabelled.n > 0
        && let Labels::Name(pattern) = &options.labels
        && (options.unlabelled == Unlabelled::Fail || scan.files == 0)
    {
        return Err(Error::Unlabelled {
            n: scan.unlabelled.n,
            images: scan.unlabelled.to_string(),
            why: format!("their paths do not match `{}`", pattern.as_str()),
            table: false,
            all: scan.files == 0,
        });
    }
    if scan.files == 0 {
        let ignored: Vec<String> = scan.ignored.iter().map(|(e, n)| format!("{n} {e}")).collect();
        let ignored = if ignored.is_empty() {
            String::new()
        } else {
            format!("; other files: {}", ignored.join(", "))
        };
        let what = match options.inputs {
            Inputs::Images => "JPEG, PNG or WebP image",
            Inputs::Arrays => "NumPy array or TIFF",
            Inputs::Bytes => "file",
            Inputs::Pixels { .. } => "row of pixels",
        };
        return Err(Error::NoImages {
            what,
            path: path.display().to_string(),
            ignored,
            left_out: Vec::new(),
        });
    }
    Ok(scan)
}

/// Looks at the top level of the source only.
fn split_layout(source: &Source, options: &PlanOptions) -> Result<bool, Error> {
    if let Labels::Table(table) = &options.labels
        && table.split.is_some()
    {
        if options.layout == FolderLayout::Split {
            let text = "splits can come from folders or from a column, not from both";
            return Err(Error::setting(&["layout", "split_column"], text));
        }
        return Ok(false);
    }
    match options.layout {
        FolderLayout::Split => return Ok(true),
        FolderLayout::Class => return Ok(false),
        FolderLayout::Auto => {}
    }
    let (mut split, mut other) = (None, None);
    let mut folder = |name: &str| {
        let slot = if Split::parse(name).is_some() { &mut split } else { &mut other };
        if !name.starts_with('.') {
            slot.get_or_insert_with(|| name.to_owned());
        }
    };
    match source {
        Source::Archive(archive) => archive.files(&mut |name, _| {
            if let Some((first, rest)) = name.split_once('/')
                && !hidden(rest)
            {
                folder(first);
            }
            Ok(())
        })?,
        Source::Pixels(_) => {}
        Source::Folder(source) => {
            for entry in fs::read_dir(source).map_err(|e| Error::io("list", source, e))? {
                let path = entry.map_err(|e| Error::io("list", source, e))?.path();
                if path.is_dir() {
                    folder(&path.file_name().unwrap_or_default().to_string_lossy());
                }
            }
        }
    }
    match (split, other) {
        (Some(split), Some(other)) => Err(Error::MixedLayout { split, other }),
        (split, _) => Ok(split.is_some()),
    }
}

/// Visits everything below `source`; `entry` says into which folders to go. The open folders are a
/// list and not the call stack, which a deep tree would overflow.
pub(crate) fn walk(
    source: &Path,
    entry: &mut dyn FnMut(&Path) -> Result<Option<fs::Metadata>, Error>,
) -> Result<(), Error> {
    let metadata = fs::metadata(source).map_err(|e| Error::io("open", source, e))?;
    let mut open = vec![Folder::open(source.to_owned(), &metadata)?];
    while let Some(folder) = open.last_mut() {
        let Some(found) = folder.entries.next() else {
            open.pop();
            continue;
        };
        let path = found.map_err(|e| Error::io("list", &folder.path, e))?.path();
        if let Some(metadata) = entry(&path)? {
            if let Some(above) = open.iter().find(|f| f.is(&metadata)) {
                let target = above.path.display().to_string();
                return Err(Error::Loop { link: path.display().to_string(), target });
            }
            open.push(Folder::open(path, &metadata)?);
        }
    }
    Ok(())
}

/// The suffixes of fields whose files lie among the images, which are not images then.
fn beside(source: &Source, fields: &[FieldFiles]) -> Result<Vec<String>, Error> {
    let same = |path: &Path| match (path.canonicalize(), source.path().canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    let mut suffixes = Vec::new();
    for FieldFiles { name, suffix, .. } in fields.iter().filter(|of| same(&of.files)) {
        if suffix.is_empty() {
            let text = format!(
                "the files for field `{name}` are in the same folder as the images: give the suffix of their names that tells them apart"
            );
            return Err(Error::setting(&["mask_suffix", "field"], text));
        }
        suffixes.push(suffix.clone());
    }
    Ok(suffixes)
}

/// A path without the extension of its last segment, and that.
pub(crate) fn stem_and_extension(path: &str) -> (&str, &str) {
    match Path::new(path).extension().and_then(|e| e.to_str()) {
        Some(extension) => (&path[..path.len() - extension.len() - 1], extension),
        None => (path, ""),
    }
}

struct Walk<'a> {
    source: &'a Path,
    /// The endings of the stems of other fields' files.
    beside: Vec<String>,
    options: &'a PlanOptions,
    scan: Scan,
    bad: BadInputs,
    found: &'a mut dyn FnMut(&BundlePath, u64) -> Result<(), Error>,
}

/// A folder that is being listed.
struct Folder {
    path: PathBuf,
    device: u64,
    inode: u64,
    entries: fs::ReadDir,
}

impl Folder {
    fn open(path: PathBuf, metadata: &fs::Metadata) -> Result<Self, Error> {
        let entries = fs::read_dir(&path).map_err(|e| Error::io("list", &path, e))?;
        Ok(Self { path, device: metadata.dev(), inode: metadata.ino(), entries })
    }

    fn is(&self, metadata: &fs::Metadata) -> bool {
        (self.device, self.inode) == (metadata.dev(), metadata.ino())
    }
}

impl Walk<'_> {
    /// Takes an entry of a folder; metadata when it is a folder to go into.
    fn entry(&mut self, path: &Path) -> Result<Option<fs::Metadata>, Error> {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        // An example is the lock of a fetch into this folder.
        if name.starts_with(TEMP_PREFIX.as_bytes()) {
            return Ok(None);
        }
        if name.starts_with(b".") {
            self.ignore("hidden");
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

    fn file(&mut self, path: &Path, size: u64) -> Result<(), Error> {
        let relative = path.strip_prefix(self.source).unwrap_or(path);
        let extension = relative.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let extension = extension.unwrap_or_else(|| "no extension".to_owned());
        let name = relative.to_string_lossy();
        let Some(media_type) = media_type_of(&name, self.options.inputs) else {
            self.ignore(&extension);
            return Ok(());
        };
        if self.beside.iter().any(|suffix| stem_and_extension(&name).0.ends_with(suffix.as_str())) {
            return Ok(());
        }
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
        let (split, class) = place(text, self.scan.split_layout, &self.options.labels);
        let by_folder = self.options.labels == Labels::Folder;
        if (self.scan.split_layout && split.is_none()) || (by_folder && class.is_none()) {
            let expected = match (self.scan.split_layout, by_folder) {
                (true, true) => "split/class/file",
                (true, false) => "split/file",
                _ => "class/file",
            };
            return Err(Error::NoClass { path: path.display().to_string(), expected });
        }
        if class.is_none() && matches!(self.options.labels, Labels::Name(_)) {
            self.scan.unlabelled.push(text);
            return Ok(());
        }
        let folders = text.matches('/').count();
        self.scan.deeper |= by_folder && folders > 1 + usize::from(self.scan.split_layout);
        if let Some(class) = class
            && !self.scan.classes.contains(class)
        {
            self.scan.classes.insert(class.to_owned());
        }
        self.scan.media_types.insert(media_type);
        self.scan.files += 1;
        (self.found)(&key, size)
    }

    /// Notes a file that cannot be packed; the walk continues and finds the others.
    fn bad(&mut self, path: &Path, reason: String, hint: Option<&'static str>) {
        let relative = path.strip_prefix(self.source).unwrap_or(path);
        let path = relative.to_string_lossy().into_owned();
        let bad = Fault::new(reason, hint).at(path);
        match self.options.on_error {
            OnBadInput::Skip => self.scan.skipped.push(bad),
            OnBadInput::Fail => self.bad.push(bad),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stem_and_extension;

    #[test]
    fn only_the_last_extension_is_left_out() {
        assert_eq!(stem_and_extension("a.b/cat.0.jpg"), ("a.b/cat.0", "jpg"));
        assert_eq!(stem_and_extension("a.b/cat"), ("a.b/cat", ""));
        assert_eq!(stem_and_extension("1"), ("1", ""));
    }
}
