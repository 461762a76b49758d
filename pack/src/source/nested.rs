//! Archives in an archive.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::archive::{Archive, Opening};
use crate::Error;
use crate::formats::is_image;

/// Ends of the names of archives.
const ENDS: [&str; 7] = [".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".7z"];

/// The archives in an archive that has no images of its own, as `ILSVRC2012_img_train.tar` and the
/// downloads of competitions are. Each is read as the folder to which people unpack it: named like
/// the archive, unless everything in it is in such a folder already.
#[derive(Debug, Default)]
pub(super) struct Nested {
    /// By folder, which ends in a slash.
    archives: BTreeMap<String, Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Its name in the outer archive.
    name: String,
    archive: Archive,
    /// What its names have before them in the outer archive.
    before: String,
}

impl Nested {
    /// Opens all archives in `outer`, if it has no images.
    pub(super) fn open(outer: &Archive, opening: &Opening<'_>) -> Result<Self, Error> {
        let (mut names, mut has_images) = (Vec::new(), false);
        outer.files(&mut |name, _| {
            let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
            has_images |= is_image(extension);
            if !crate::scan::hidden(name) && stem(name).is_some() {
                names.push(name.to_owned());
            }
            Ok(())
        })?;
        let mut nested = Self::default();
        if has_images {
            return Ok(nested);
        }
        for name in names {
            let folder = format!("{}/", stem(&name).unwrap_or(&name));
            let shown = PathBuf::from(format!("{}/{name}", outer.path().display()));
            let archive = Archive::inner(shown, outer, &name, opening)?;
            let base = folder.rfind('/').and_then(|end| folder[..end].rfind('/'));
            let (parent, last) = folder.split_at(base.map_or(0, |at| at + 1));
            let mut is_around = true;
            archive.files(&mut |name, _| {
                is_around &= name.starts_with(last);
                Ok(())
            })?;
            let before = if is_around { parent } else { &folder }.to_owned();
            if let Some(other) = nested.archives.get(&folder) {
                let reason = format!(
                    "the archives `{}` and `{name}` in it would be unpacked to the same folder",
                    other.name
                );
                return Err(Error::BadArchive { path: outer.path().display().to_string(), reason });
            }
            nested.archives.insert(folder, Inner { name, archive, before });
        }
        Ok(nested)
    }

    /// Whether a member is one of these archives.
    pub(super) fn has(&self, name: &str) -> bool {
        self.archives.values().any(|inner| inner.name == name)
    }

    /// Names and sizes of all files in them.
    pub(super) fn files(
        &self,
        each: &mut dyn FnMut(&str, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for Inner { archive, before, .. } in self.archives.values() {
            archive.files(&mut |name, bytes| each(&format!("{before}{name}"), bytes))?;
        }
        Ok(())
    }

    /// The archive with a file, and the file's name in it.
    pub(super) fn find<'n>(&self, name: &'n str) -> Option<(&Archive, &'n str)> {
        let folders = name.match_indices('/').map(|(at, _)| &name[..=at]);
        let found = folders.filter_map(|folder| self.archives.get(folder)).next_back()?;
        Some((&found.archive, name.strip_prefix(found.before.as_str())?))
    }
}

/// The name of an archive without what says so.
fn stem(name: &str) -> Option<&str> {
    let lower = name.to_ascii_lowercase();
    let end = ENDS.iter().filter(|end| lower.ends_with(*end)).map(|end| end.len()).max()?;
    name.get(..name.len() - end).filter(|stem| !stem.is_empty() && !stem.ends_with('/'))
}
