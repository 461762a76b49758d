//! Finds the files of a data set, their format and their splits.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use gular_bundle::{Envelope, Split};

use crate::adopt::streaming;
use crate::error::Error;
use crate::facts::RunError;

/// A file to be adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The path, with links resolved.
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) envelope: Envelope,
    /// The split that its name and folder say.
    pub(crate) split: Split,
}

/// Extensions of files that are searched for in folders.
const EXTENSIONS: [&str; 12] = [
    "tar",
    "arrow",
    "parquet",
    "h5",
    "hdf5",
    "hdf",
    "safetensors",
    "squashfs",
    "sqfs",
    "sqsh",
    "beton",
    "mds",
];

/// The files that `paths` name, those of folders in the order of their names.
pub(crate) fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, Error> {
    let mut files = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|e| Error::io("open", path, e))?;
        if metadata.is_dir() {
            files.extend(in_folder(path)?);
        } else {
            files.push(path.clone());
        }
    }
    let mut sources = Vec::with_capacity(files.len());
    let mut seen = HashSet::with_capacity(files.len());
    for file in files {
        let path = file.canonicalize().map_err(|e| Error::io("open", &file, e))?;
        if !seen.insert(path.clone()) {
            return Err(RunError::Option(format!(
                "`{}` is given twice: give each file once",
                file.display()
            ))
            .into());
        }
        let opened = File::open(&path).map_err(|e| Error::io("open", &path, e))?;
        let bytes = opened.metadata().map_err(|e| Error::io("open", &path, e))?.len();
        let envelope = envelope_of(&opened, &path)?;
        let split = split_of(&file);
        sources.push(Source { path, bytes, envelope, split });
    }
    let first = sources.first().map(|s| s.envelope);
    match sources.iter().find(|s| Some(s.envelope) != first) {
        Some(other) => Err(Error::MixedFormats {
            first: sources.first().map(|s| s.path.display().to_string()).unwrap_or_default(),
            format: sources.first().map(|s| s.envelope.name()).unwrap_or_default(),
            second: other.path.display().to_string(),
            other: other.envelope.name(),
        }),
        None => Ok(sources),
    }
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::io("list", folder, e))?.path();
        let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        // Compressed shards are named in the refusal, not passed over.
        let wanted = EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str())
            || streaming::decompress(&path).is_some();
        let name = path.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
        let apart = name.starts_with(b".") || name.ends_with(b".index.safetensors");
        if wanted && !apart && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        let known = EXTENSIONS.map(|e| format!("`.{e}`")).join(", ");
        return Err(Error::NoFiles { path: folder.display().to_string(), known });
    }
    streaming::check(folder, &mut files)?;
    files.sort();
    Ok(files)
}

/// Finds the format by the first bytes, whatever the name.
fn envelope_of(file: &File, path: &Path) -> Result<Envelope, Error> {
    let mut head = [0; 512];
    let n = file.read_at(&mut head, 0).map_err(|e| Error::io("read", path, e))?;
    let head = &head[..n];
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let hdf5 = |at: u64| {
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, at).is_ok() && magic == *b"\x89HDF\r\n\x1a\n"
    };
    let refused = |reason: &str| {
        let (path, reason) = (path.display().to_string(), reason.to_owned());
        Err(gular_bundle::Error::NotInPlace { path, reason }.into())
    };
    if let Some(command) = streaming::decompress(path) {
        return refused(&format!("it is a compressed shard; decompress it first with `{command}`"));
    }
    // These two formats begin with a number, which may look like another's magic.
    if streaming::is_shard(file, head) {
        return Ok(Envelope::Mds);
    }
    if is_beton(head) {
        return Ok(Envelope::Ffcv);
    }
    match head {
        [b'h', b's', b'q', b's', ..] => Ok(Envelope::Squashfs),
        [b'P', b'A', b'R', b'1', ..] => Ok(Envelope::Parquet),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => {
            Ok(Envelope::Arrow)
        }
        [_, _, _, _, 0, 0, 0, 0, b'{', ..] => Ok(Envelope::Shards),
        _ if head.get(257..262) == Some(b"ustar") => Ok(Envelope::Tar),
        [0x1f, 0x8b, ..] => refused("it is compressed with gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => refused("it is compressed with zstd"),
        [b'P', b'K', 3, 4, ..] => refused("it is a zip archive"),
        [b'F', b'E', b'A', b'1', ..] => refused("it is Feather version 1"),
        _ if [0, 512, 1024, 2048].into_iter().any(hdf5) => Ok(Envelope::Hdf5),
        // Old tars have no magic; their checksum is what tells.
        _ if extension.eq_ignore_ascii_case("tar") => Ok(Envelope::Tar),
        _ if extension.eq_ignore_ascii_case("mds") => Ok(Envelope::Mds),
        _ if extension.eq_ignore_ascii_case("beton") => Ok(Envelope::Ffcv),
        _ => refused(
            "it is not a tar, Arrow, Parquet, HDF5, safetensors, SquashFS, MDS or FFCV file",
        ),
    }
}

/// FFCV has no magic: version 2, a few fields, pages of a power of two from 2 MiB.
fn is_beton(head: &[u8]) -> bool {
    let [2, 0, fields, 0, a, b, c, d, ..] = head else { return false };
    let page = u32::from_le_bytes([*a, *b, *c, *d]);
    *fields > 0 && page.is_power_of_two() && page >= 2 << 20
}

/// The first of the path's words that names a split, from its end; `train` else.
fn split_of(path: &Path) -> Split {
    let segments = path.iter().rev().take(2).filter_map(OsStr::to_str);
    for segment in segments {
        let words = segment.split(|c: char| !c.is_ascii_alphanumeric());
        if let Some(split) = words.filter_map(Split::parse).next() {
            return split;
        }
    }
    Split::Train
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_split() {
        for (path, split) in [
            ("birds-val-0001.tar", Split::Val),
            ("x/validation-00000-of-00002.parquet", Split::Val),
            ("test/data-0.arrow", Split::Test),
            ("val/train-0.tar", Split::Train),
            ("a.tar", Split::Train),
        ] {
            assert_eq!(split_of(Path::new(path)), split, "{path}");
        }
    }
}
