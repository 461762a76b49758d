//! Tables in archives, which are unpacked for as long as a plan is made.
//!
//! ```text
//! train.zip/labels.csv ─▶ a temporary folder: train.zip/labels.csv
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use super::table_options::TableOptions;
use crate::layout::LayoutError;
use crate::source::{Inputs, Source, SourceError, SourceOptions, media_type_of};

/// Tables of which those in archives are in a temporary folder.
pub(crate) struct Unpacked {
    pub(crate) options: TableOptions,
    /// For each file of the options, the archive that it is from, and its name in it.
    members: BTreeMap<PathBuf, (PathBuf, String)>,
    kept: Option<TempDir>,
}

impl Unpacked {
    /// The tables of `given`, of which those in archives are unpacked in folder `temp`.
    pub(crate) fn new(
        given: &TableOptions,
        source: &Source,
        options: &SourceOptions<'_>,
        temp: &Path,
        cancel: &AtomicBool,
    ) -> Result<Self, LayoutError> {
        let mut unpacked = Self { options: given.clone(), members: BTreeMap::new(), kept: None };
        let io = |what: &'static str, path: &Path| {
            let path = path.to_owned();
            move |e| LayoutError::io(what, &path, e)
        };
        for file in &mut unpacked.options.files {
            let Some((archive, member)) = in_archive(file, source) else { continue };
            let folder = match &unpacked.kept {
                Some(folder) => folder,
                None => {
                    let made = tempfile::tempdir_in(temp);
                    unpacked.kept.insert(made.map_err(io("create a folder in", temp))?)
                }
            };
            let name = archive.file_name().unwrap_or_default();
            let to = folder.path().join(unpacked.members.len().to_string()).join(name);
            let opened;
            let from = match is_same(&archive, source.path()) {
                true => source,
                false => {
                    opened = Source::open(&archive, options, Some(temp), cancel)?;
                    &opened
                }
            };
            let below = format!("{member}/");
            let mut names = Vec::new();
            from.files::<SourceError>(&mut |name, _| {
                let is_of_table =
                    name == member || name.starts_with(&below) || is_description(name);
                if is_of_table && media_type_of(name, Inputs::Images).is_none() {
                    names.push(name.to_owned());
                }
                Ok(())
            })?;
            for name in names {
                let path = to.join(&name);
                let parent = path.parent().unwrap_or(&to);
                fs::create_dir_all(parent).map_err(io("create", parent))?;
                let bytes =
                    from.head(&name, usize::MAX).map_err(io("read", &archive.join(&name)))?;
                fs::write(&path, bytes).map_err(io("write", &path))?;
            }
            let path = to.join(&member);
            if !path.exists() {
                let error = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(LayoutError::io("open", file, error));
            }
            if let Some(lines) = unpacked.options.lines.remove(file) {
                unpacked.options.lines.insert(path.clone(), lines);
            }
            unpacked.members.insert(path.clone(), (archive, member));
            *file = path;
        }
        Ok(unpacked)
    }

    /// The folder in the archive `source` that a table is in, if it is in that.
    pub(crate) fn folder(&self, table: &Path, source: &Path) -> Option<String> {
        let (archive, member) = self.members.get(table)?;
        let folder = member.rsplit_once('/').map_or("", |(folder, _)| folder);
        Some(if is_same(archive, source) { folder.to_owned() } else { String::new() })
    }
}

/// The archive that has a file in it, and the file's name there.
fn in_archive(file: &Path, source: &Source) -> Option<(PathBuf, String)> {
    // A source of archives has the folders to which people would unpack them.
    if let (Source::Archive(archive), false) = (source, file.exists())
        && let Ok(member) = file.strip_prefix(archive.path())
    {
        return Some((archive.path().to_owned(), member.to_str()?.to_owned()));
    }
    let archive = file.ancestors().skip(1).find(|path| path.is_file())?;
    Some((archive.to_owned(), file.strip_prefix(archive).ok()?.to_str()?.to_owned()))
}

fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Whether a file may name the classes of boxes.
fn is_description(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}
