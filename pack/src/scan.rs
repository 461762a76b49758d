//! Walks a directory of images: finds keys and sizes, reads no file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gular_bundle::{BundlePath, Split};

use crate::error::BadInput;
use crate::{Error, Labels, Layout, OnError, PlanOptions};

/// Extensions, in lower case, of files that are packed, with their media types.
const PACKED: [(&str, &str); 4] =
    [("jpg", "image/jpeg"), ("jpeg", "image/jpeg"), ("jpe", "image/jpeg"), ("png", "image/png")];
/// Bad names reported in one go when the first ends the run.
const MOST_REPORTED: u64 = 1000;

/// The media type that a key's extension stands for.
pub(crate) fn media_type_of(key: &str) -> Option<&'static str> {
    let extension = key.rsplit_once('.')?.1.to_ascii_lowercase();
    PACKED.iter().find(|(e, _)| *e == extension).map(|(_, media_type)| *media_type)
}

/// What a walk found besides the images it handed on.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) classes: BTreeSet<String>,
    pub(crate) media_types: BTreeSet<&'static str>,
    /// Whether top-level folders are splits.
    pub(crate) split_layout: bool,
    pub(crate) ignored: BTreeMap<String, u64>,
    pub(crate) skipped: Vec<BadInput>,
    pub(crate) files: u64,
}

/// Where a key belongs by its folders.
pub(crate) fn place(
    key: &str,
    split_layout: bool,
    labels: Labels,
) -> (Option<Split>, Option<&str>) {
    let mut rest = key;
    let mut split = None;
    if split_layout {
        let (first, after) = key.split_once('/').unwrap_or(("", key));
        split = Split::parse(first);
        rest = after;
    }
    let class = match labels {
        Labels::Folder => rest.split_once('/').map(|(class, _)| class),
        Labels::None => None,
    };
    (split, class)
}

/// Walks `source` and hands each image's key and size to `found`.
pub(crate) fn scan(
    source: &Path,
    options: &PlanOptions,
    found: &mut dyn FnMut(&BundlePath, u64) -> Result<(), Error>,
) -> Result<Scan, Error> {
    let mut walk = Walk {
        source,
        options,
        scan: Scan { split_layout: split_layout(source, options)?, ..Scan::default() },
        first_bad: None,
        n_bad: 0,
        found,
    };
    let metadata = fs::metadata(source).map_err(|e| Error::io("open", source, e))?;
    let mut ancestors = vec![(metadata.dev(), metadata.ino(), source.to_owned())];
    walk.folder(source, &mut ancestors)?;
    if let Some(bad) = walk.first_bad {
        return Err(Error::BadInput(bad, walk.n_bad.saturating_sub(1)));
    }
    let scan = walk.scan;
    if scan.files == 0 {
        let ignored: Vec<String> = scan.ignored.iter().map(|(e, n)| format!("{n} {e}")).collect();
        let ignored = if ignored.is_empty() {
            String::new()
        } else {
            format!("; other files: {}", ignored.join(", "))
        };
        return Err(Error::NoImages { path: source.display().to_string(), ignored });
    }
    Ok(scan)
}

/// Looks at the top level only.
fn split_layout(source: &Path, options: &PlanOptions) -> Result<bool, Error> {
    match options.layout {
        Layout::Split => return Ok(true),
        Layout::Class => return Ok(false),
        Layout::Auto => {}
    }
    let (mut split, mut other) = (None, None);
    for entry in fs::read_dir(source).map_err(|e| Error::io("list", source, e))? {
        let path = entry.map_err(|e| Error::io("list", source, e))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || !path.is_dir() {
            continue;
        }
        let slot = if Split::parse(&name).is_some() { &mut split } else { &mut other };
        slot.get_or_insert(name);
    }
    match (split, other) {
        (Some(split), Some(other)) => Err(Error::MixedLayout { split, other }),
        (split, _) => Ok(split.is_some()),
    }
}

struct Walk<'a> {
    source: &'a Path,
    options: &'a PlanOptions,
    scan: Scan,
    first_bad: Option<BadInput>,
    n_bad: u64,
    found: &'a mut dyn FnMut(&BundlePath, u64) -> Result<(), Error>,
}

impl Walk<'_> {
    fn folder(
        &mut self,
        dir: &Path,
        ancestors: &mut Vec<(u64, u64, PathBuf)>,
    ) -> Result<(), Error> {
        let entries = fs::read_dir(dir).map_err(|e| Error::io("list", dir, e))?;
        for entry in entries {
            let path = entry.map_err(|e| Error::io("list", dir, e))?.path();
            if path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b".")) {
                *self.scan.ignored.entry("hidden".to_owned()).or_default() += 1;
                continue;
            }
            // Follows links, so that a farm of links packs like the files.
            let metadata = match fs::metadata(&path) {
                Ok(metadata) => metadata,
                Err(e) => {
                    let what = if path.is_symlink() { "broken link" } else { "cannot be read" };
                    self.bad(&path, format!("{what}: {e}"), None)?;
                    continue;
                }
            };
            if metadata.is_dir() {
                self.subfolder(&path, &metadata, ancestors)?;
            } else if metadata.is_file() {
                self.file(&path, metadata.len())?;
            } else {
                *self.scan.ignored.entry("special".to_owned()).or_default() += 1;
            }
        }
        Ok(())
    }

    fn subfolder(
        &mut self,
        path: &Path,
        metadata: &fs::Metadata,
        ancestors: &mut Vec<(u64, u64, PathBuf)>,
    ) -> Result<(), Error> {
        let id = (metadata.dev(), metadata.ino());
        if let Some((_, _, above)) = ancestors.iter().find(|a| (a.0, a.1) == id) {
            let (link, target) = (path.display().to_string(), above.display().to_string());
            return Err(Error::Loop { link, target });
        }
        ancestors.push((id.0, id.1, path.to_owned()));
        let done = self.folder(path, ancestors);
        ancestors.pop();
        done
    }

    fn file(&mut self, path: &Path, size: u64) -> Result<(), Error> {
        let relative = path.strip_prefix(self.source).unwrap_or(path);
        let extension = relative.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        let extension = extension.unwrap_or_else(|| "no extension".to_owned());
        let Some((_, media_type)) = PACKED.iter().find(|(e, _)| *e == extension) else {
            *self.scan.ignored.entry(extension).or_default() += 1;
            return Ok(());
        };
        let Some(text) = relative.to_str() else {
            let reason = "its name is not UTF-8".to_owned();
            return self.bad(path, reason, Some("rename it".to_owned()));
        };
        let key = match BundlePath::parse(text) {
            Ok(key) => key,
            Err(e) => {
                return self.bad(
                    path,
                    format!("its name is no key: {}", e.reason),
                    Some("rename it".to_owned()),
                );
            }
        };
        let (split, class) = place(text, self.scan.split_layout, self.options.labels);
        if (self.scan.split_layout && split.is_none())
            || (self.options.labels == Labels::Folder && class.is_none())
        {
            let expected = match (self.scan.split_layout, self.options.labels) {
                (true, Labels::Folder) => "split/class/file",
                (true, Labels::None) => "split/file",
                _ => "class/file",
            };
            return Err(Error::NoClass { path: path.display().to_string(), expected });
        }
        if let Some(class) = class
            && !self.scan.classes.contains(class)
        {
            self.scan.classes.insert(class.to_owned());
        }
        self.scan.media_types.insert(media_type);
        self.scan.files += 1;
        (self.found)(&key, size)
    }

    /// A file that cannot be packed: noted, and the run goes on to name how many there are.
    fn bad(&mut self, path: &Path, reason: String, hint: Option<String>) -> Result<(), Error> {
        let relative = path.strip_prefix(self.source).unwrap_or(path);
        let bad = BadInput { path: relative.to_string_lossy().into_owned(), reason, hint };
        match self.options.on_error {
            OnError::Skip => self.scan.skipped.push(bad),
            OnError::Fail => {
                self.n_bad += 1;
                self.first_bad.get_or_insert(bad);
                if self.n_bad >= MOST_REPORTED
                    && let Some(first) = self.first_bad.take()
                {
                    return Err(Error::BadInput(first, self.n_bad - 1));
                }
            }
        }
        Ok(())
    }
}
