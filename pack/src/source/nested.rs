//! Archives in an archive, or in a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::archive::{Archive, Opening};
use super::parquet_images::ParquetImages;
use crate::facts::{RunError, stem_and_extension};
use crate::source::{ArchiveLimits, Inputs, SourceError, hidden, media_type_of};

/// Ends of the names of archives.
const ENDS: [&str; 6] = [".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst", PARQUET];
/// That of tables, which are read as archives if they have images in them.
const PARQUET: &str = ".parquet";
/// Extensions of the parts of a sample, beside its image. Source: the decoders of
/// <https://github.com/webdataset/webdataset>, and img2dataset.
const PARTS: [&str; 4] = ["cls", "json", "txt", "caption"];
/// Most of them that are unpacked: each is an open file.
const MOST_UNPACKED: usize = 768;

/// The archives in an archive or a folder that has no images of its own, as `ILSVRC2012_img_train.tar` and the
/// downloads of competitions are. Each is read as the folder to which people unpack it: named like
/// the archive, unless everything in it is in such a folder already.
#[derive(Debug, Default)]
pub(super) struct Nested {
    /// By folder, which ends in a slash.
    archives: BTreeMap<String, Inner>,
    /// Their names in the outer archive.
    names: BTreeSet<String>,
}

#[derive(Debug)]
struct Inner {
    archive: Archive,
    /// What its names have before them in the outer archive.
    before: String,
}

impl Nested {
    /// Whether `outer` has archives and no images.
    pub(super) fn has_only_archives(outer: &Archive) -> bool {
        let (mut has_archives, mut has_images) = (false, false);
        let walked = outer.files::<SourceError>(&mut |name, _| {
            has_archives |= !hidden(name) && is_archive(outer, name);
            has_images = is_input(name);
            // The first image ends the walk, whatever the error.
            if has_images { Err(RunError::Cancelled.into()) } else { Ok(()) }
        });
        walked.is_ok() && has_archives && !has_images
    }

    /// Opens all archives in `outer`, if it has no images.
    pub(super) fn open(outer: &Archive, opening: &Opening<'_>) -> Result<Self, SourceError> {
        let (mut names, mut has_images, mut left) =
            (BTreeSet::new(), false, opening.limits.total_bytes);
        outer.files::<SourceError>(&mut |name, _| {
            has_images |= is_input(name);
            if !hidden(name) && is_archive(outer, name) {
                names.insert(name.to_owned());
            }
            Ok(())
        })?;
        if has_images {
            return Ok(Self::default());
        }
        let shown = outer.path().display().to_string();
        let mut archives = BTreeMap::new();
        let mut n_unpacked = 0;
        for name in &names {
            let refused = |reason| SourceError::BadArchive { path: shown.clone(), reason };
            let path = PathBuf::from(format!("{shown}/{name}"));
            let limits = ArchiveLimits { total_bytes: left, ..*opening.limits };
            let opening = Opening { limits: &limits, ..*opening };
            let archive = Archive::inner(path, outer, name, &opening)?;
            n_unpacked += usize::from(archive.is_unpacked());
            if n_unpacked > MOST_UNPACKED {
                let reason = format!(
                    "more than {MOST_UNPACKED} archives in it would have to be unpacked: unpack it, and give the folder"
                );
                return Err(refused(reason));
            }
            let folder = format!("{}/", stem(name).unwrap_or(name));
            let base = folder.rfind('/').and_then(|end| folder[..end].rfind('/'));
            let (parent, last) = folder.split_at(base.map_or(0, |at| at + 1));
            let mut is_around = true;
            archive.files::<SourceError>(&mut |name, bytes| {
                left = left.saturating_sub(bytes);
                is_around &= !is_input(name) || name.starts_with(last);
                Ok(())
            })?;
            let before = if is_around { parent } else { &folder }.to_owned();
            if archives.insert(folder.clone(), Inner { archive, before }).is_some() {
                return Err(refused(format!("two archives in it would be unpacked to `{folder}`")));
            }
        }
        Ok(Self { archives, names })
    }

    /// Whether these are shards of WebDataset: numbered, with a file for each part of a sample.
    pub(super) fn are_shards(&self) -> bool {
        // WebDataset writes tar files alone.
        let is_numbered = |name: &String| {
            !name.to_ascii_lowercase().ends_with(".zip")
                && stem(name).is_some_and(|stem| stem.ends_with(|last: char| last.is_ascii_digit()))
        };
        let (mut images, mut parts) = (0_u64, 0_u64);
        let walked = self.files::<SourceError>(&mut |name, _| {
            let (_, extension) = stem_and_extension(name.rsplit('/').next().unwrap_or(name));
            images += u64::from(media_type_of(name, Inputs::Images).is_some());
            parts += u64::from(PARTS.contains(&extension.to_ascii_lowercase().as_str()));
            Ok(())
        });
        let are_parts = walked.is_ok() && images > 0 && parts >= images;
        self.names.iter().all(is_numbered) && are_parts
    }

    /// Whether a member is one of these archives.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Names and sizes of all files in them.
    pub(super) fn files<E: From<SourceError>>(
        &self,
        each: &mut dyn FnMut(&str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        for Inner { archive, before, .. } in self.archives.values() {
            archive.files(&mut |name, bytes| each(&format!("{before}{name}"), bytes))?;
        }
        Ok(())
    }

    /// The archive with a file, and the file's name in it.
    pub(super) fn find<'n>(&self, name: &'n str) -> Option<(&Archive, &'n str)> {
        let folders = name.match_indices('/').map(|(at, _)| &name[..=at]);
        let found = folders.filter_map(|folder| self.archives.get(folder)).next_back()?;
        let inner = name.strip_prefix(found.before.as_str())?;
        found.archive.has(inner).then_some((&found.archive, inner))
    }
}

/// Whether a file may be an image or an array.
fn is_input(name: &str) -> bool {
    let of = |inputs| media_type_of(name, inputs).is_some();
    !hidden(name) && (of(Inputs::Images) || of(Inputs::Arrays))
}

/// Whether a file is an archive by its name, and a Parquet file has images.
fn is_archive(outer: &Archive, name: &str) -> bool {
    let path = outer.path().join(name);
    // A damaged one is refused when it is opened.
    let has_images = || !matches!(ParquetImages::open(&path), Ok(None));
    let is_table = name.to_ascii_lowercase().ends_with(PARQUET);
    stem(name).is_some() && (!is_table || path.is_file() && has_images())
}

/// The name of an archive without what says so.
fn stem(name: &str) -> Option<&str> {
    let lower = name.to_ascii_lowercase();
    let end = ENDS.iter().filter(|end| lower.ends_with(*end)).map(|end| end.len()).max()?;
    name.get(..name.len() - end).filter(|stem| !stem.is_empty() && !stem.ends_with('/'))
}
