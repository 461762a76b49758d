//! Examines the folder into which a bundle is to be fetched.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use gular_bundle::{DATA_DIR, Digest, Error as Bundle, MANIFEST_NAME, Manifest};
use gular_files::TEMP_PREFIX;

use super::disk::Partial;
use crate::remote::read_manifest;
use crate::{Error, ManifestFile};

/// Files that begin with this many bytes of a manifest are manifests, since these bytes name the
/// format.
const TELLING_BYTES: usize = 32;

/// Which part of a bundle a folder has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// No manifest: the folder is empty, or has files of a stopped fetch.
    Part,
    /// The bundle's manifest.
    Manifest,
    /// A manifest that is truncated or damaged.
    DamagedManifest,
}

impl Held {
    /// Finds out which part of `bundle` is in `dir`. Fails if `dir` has other files, since nothing
    /// is written beside those.
    ///
    /// # Errors
    /// [`Error::OtherBundle`], [`Error::NotEmpty`], [`Error::Io`].
    pub(super) fn look(dir: &Path, bundle: &ManifestFile) -> Result<Self, Error> {
        let path = dir.join(MANIFEST_NAME);
        let manifest = match read_manifest(dir) {
            Ok(bytes) if bytes == bundle.bytes() => return Ok(Self::Manifest),
            Ok(bytes) => Some(bytes),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) if e.kind() == ErrorKind::NotADirectory => {
                return Err(Error::io("use as a folder", dir, e));
            }
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        let held = match &manifest {
            None => Self::Part,
            Some(bytes) if is_damaged(&path, bytes) => Self::DamagedManifest,
            Some(bytes) => {
                return Err(Error::OtherBundle {
                    dir: dir.display().to_string(),
                    expected: bundle.digest(),
                    found: Digest::of(bytes),
                });
            }
        };
        let is_cut =
            |bytes: &Vec<u8>| bytes.len() >= TELLING_BYTES && bundle.bytes().starts_with(bytes);
        // The folder is listed only once, since another run may begin to fill it between two
        // listings.
        let in_data = names(&dir.join(DATA_DIR))?;
        if manifest.as_ref().is_some_and(is_cut) || has_data_of(bundle, dir, &in_data) {
            return Ok(held);
        }
        let mut others = strangers_beside(dir, &in_data)?;
        if held == Self::DamagedManifest {
            // As far as is known, the manifest does not belong to the bundle.
            others.push(MANIFEST_NAME.to_owned());
        }
        none_of(dir, others)?;
        Ok(held)
    }
}

/// Refuses a folder that has `others`: files that do not belong to the bundle.
///
/// # Errors
/// [`Error::NotEmpty`].
pub(super) fn none_of(dir: &Path, mut others: Vec<String>) -> Result<(), Error> {
    others.sort();
    match others.first() {
        None => Ok(()),
        Some(first) => Err(Error::NotEmpty {
            dir: dir.display().to_string(),
            found: first.clone(),
            more: others.len() - 1,
        }),
    }
}

/// Returns whether this is not the manifest of any bundle, not even of one of a later format.
fn is_damaged(path: &Path, bytes: &[u8]) -> bool {
    let parsed = Manifest::parse(&path.display().to_string(), bytes);
    parsed.is_err_and(|error| !matches!(error, Bundle::TooNew { .. }))
}

/// Returns whether the names in the data folder include a data file of the bundle, or a part of
/// one.
fn has_data_of(bundle: &ManifestFile, dir: &Path, in_data: &[OsString]) -> bool {
    let data = dir.join(DATA_DIR);
    let shards = &bundle.manifest().shards;
    let mut ours = HashSet::new();
    for file in shards.iter().flat_map(gular_bundle::ShardEntry::files) {
        let path = data.join(file.name.as_str());
        let temp = Partial::temp_of(&path);
        // A file in a subfolder is found by the name of that folder.
        let below = |path: &Path| {
            let first = path.strip_prefix(&data).ok()?.components().next()?;
            Some(first.as_os_str().to_owned())
        };
        ours.extend([below(&path), below(&temp)].into_iter().flatten());
    }
    in_data.iter().any(|name| ours.contains(name))
}

/// Returns the files that no fetch makes.
pub(super) fn strangers(dir: &Path) -> Result<Vec<String>, Error> {
    strangers_beside(dir, &names(&dir.join(DATA_DIR))?)
}

/// Returns the files that no fetch makes, for a data folder with these names.
fn strangers_beside(dir: &Path, in_data: &[OsString]) -> Result<Vec<String>, Error> {
    let is_temp = |name: &OsString| name.to_string_lossy().starts_with(TEMP_PREFIX);
    let in_data = in_data.iter().filter(|name| !is_temp(name));
    let mut found: Vec<String> =
        in_data.map(|name| format!("{DATA_DIR}/{}", name.to_string_lossy())).collect();
    for name in names(dir)?.iter().filter(|name| !is_temp(name)) {
        if name != DATA_DIR && name != MANIFEST_NAME {
            found.push(name.to_string_lossy().into_owned());
        }
    }
    Ok(found)
}

/// Returns the names in a folder; none if the folder does not exist.
fn names(dir: &Path) -> Result<Vec<OsString>, Error> {
    let list = || -> io::Result<Vec<OsString>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
    };
    match list() {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) if e.kind() == ErrorKind::NotADirectory => Err(Error::io("use as a folder", dir, e)),
        found => found.map_err(|e| Error::io("list", dir, e)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use gular_bundle::{BundlePath, Envelope, Field, FieldName, ShardSpec, ShardWriter, Split};

    use super::*;

    /// Makes a bundle of one shard, and returns it with the name of a data file.
    fn bundle(dir: &Path) -> (ManifestFile, String) {
        let fields = [Field::bytes(FieldName::image(), vec!["image/jpeg".into()])];
        let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
        fs::create_dir(dir.join(DATA_DIR)).unwrap();
        let mut writer = ShardWriter::create(&dir.join(DATA_DIR), &spec).unwrap();
        writer.push(&BundlePath::parse("a.jpg").unwrap(), &[b"a"]).unwrap();
        let shard = writer.finish().unwrap();
        let name = shard.files().next().unwrap().name.to_string();
        let manifest = Manifest {
            envelope: Envelope::Shards,
            payload: gular_bundle::Payload::Encoded,
            classes: Vec::new(),
            made: [].into(),
            about: gular_bundle::About::default(),
            statistics: None,
            shards: vec![shard],
            fields: fields.to_vec(),
        };
        gular_bundle::write_manifest(dir, &manifest).unwrap();
        let bytes = read_manifest(dir).unwrap();
        (ManifestFile::parse(MANIFEST_NAME, bytes).unwrap(), name)
    }

    #[test]
    fn a_folder_that_another_run_begins_to_fill_is_not_refused() {
        let root = tempfile::tempdir().unwrap();
        let (bundle, name) = bundle(root.path());
        let dir = root.path().join("copy");
        let file = dir.join(DATA_DIR).join(name);
        fs::create_dir_all(dir.join(DATA_DIR)).unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    fs::write(&file, b"").unwrap();
                    fs::remove_file(&file).unwrap();
                }
            });
            let looks = (0..5_000).map(|_| Held::look(&dir, &bundle));
            let refused = looks.filter(|held| !matches!(held, Ok(Held::Part))).count();
            ended.store(true, Ordering::Relaxed);
            assert_eq!(refused, 0);
        });
    }

    #[test]
    fn files_of_others_are_named() {
        let root = tempfile::tempdir().unwrap();
        let (bundle, _) = bundle(root.path());
        let dir = root.path().join("copy");
        fs::create_dir_all(dir.join(DATA_DIR)).unwrap();
        fs::write(dir.join(DATA_DIR).join("notes.txt"), b"").unwrap();
        fs::write(dir.join("thesis.tex"), b"").unwrap();
        let error = Held::look(&dir, &bundle).unwrap_err();
        let Error::NotEmpty { found, more, .. } = error else { panic!("{error}") };
        assert_eq!((found.as_str(), more), ("data/notes.txt", 1));
    }
}
