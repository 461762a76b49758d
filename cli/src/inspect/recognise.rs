//! Finds out what kind of file or folder a path is.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use gular_bundle::{
    Backend, Bundle, Digest, Error, MANIFEST_NAME, MAX_MANIFEST_BYTES, Manifest, OpenOptions,
    ReadAt,
};
use gular_codec::Format;

use super::args::InspectArgs;
use super::{bundle, describe, file};
use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;

pub(crate) fn run(args: &InspectArgs, output: &Output) -> Result<Exit, Failure> {
    let path = &args.path;
    if path.is_dir() {
        return bundle::bundle(&open(path)?, args, output);
    }
    if let Some(flag) = only_for_bundles(args) {
        let hint = "give the folder that contains `manifest.json`".to_owned();
        return Err(Failure::new(
            format!("`{flag}` needs a bundle's folder, but `{}` is a file", path.display()),
            Some(hint),
        ));
    }
    let file = ReadAt::open(path, Backend::Pread)?;
    let mut first = [0; 512];
    let n = usize::try_from(file.len_bytes()).unwrap_or(usize::MAX).min(first.len());
    let first = first.split_at_mut(n).0;
    file.read_at(0, first)?;
    if let Some(format) = Format::sniff(first) {
        return Err(Failure::new(
            format!("`{}` is a single image ({})", path.display(), format.media_type()),
            Some("give a bundle's folder, a manifest.json, a shard or an index".to_owned()),
        ));
    }
    if let Some(what) = other_file(first) {
        let hint = "`gular pack FILE OUT` makes a bundle of an archive of images, and `gular adopt FILE` of a file of samples; then inspect that bundle";
        return Err(Failure::new(format!("`{}` is {what}", path.display()), Some(hint.to_owned())));
    }
    if first.starts_with(b"{") {
        let (manifest, digest) = manifest(&file)?;
        let value = describe::json(&manifest, digest, None);
        show::value(&value, &describe::text(&manifest, digest, None), output)?;
        return Ok(Exit::Done);
    }
    file::tensor_file(&file, output)
}

/// What a file is that people take for a part of a bundle, by its first bytes.
fn other_file(first: &[u8]) -> Option<&'static str> {
    const MAGIC: [(usize, &[u8], &str); 9] = [
        (0, b"PK\x03\x04", "a zip archive"),
        (0, b"PK\x05\x06", "a zip archive"),
        (0, b"\x1f\x8b", "a file compressed with gzip"),
        (0, b"\x28\xb5\x2f\xfd", "a file compressed with zstd"),
        (257, b"ustar", "a tar file"),
        (0, b"PAR1", "a Parquet file"),
        (0, b"ARROW1", "an Arrow file"),
        (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        (0, b"hsqs", "a SquashFS image"),
    ];
    let is = |(at, magic, _): &&(usize, &[u8], &str)| {
        first.get(*at..).is_some_and(|rest| rest.starts_with(magic))
    };
    MAGIC.iter().find(is).map(|(.., what)| *what)
}

/// The first of the options given that a single file cannot answer.
fn only_for_bundles(args: &InspectArgs) -> Option<&'static str> {
    let given = [
        (args.sheet.is_some(), "--sheet"),
        (args.extract.is_some(), "--extract"),
        (args.samples > 0, "--samples"),
        (args.against.is_some(), "--against"),
        (args.page.is_some(), "--page"),
        (args.pixels, "--pixels"),
        (args.near, "--near"),
        (args.pairs.is_some(), "--pairs"),
        (args.duplicates.duplicates_out.is_some(), "--duplicates-out"),
    ];
    given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
}

/// Opens a folder, or says why it holds no bundle as `gular verify` says it.
pub(crate) fn open(dir: &Path) -> Result<Bundle, Failure> {
    match fs::metadata(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = format!("the folder `{}` does not exist", dir.display());
            return Err(Failure::new(text, Some("give the folder of a bundle".to_owned())));
        }
        Ok(found) if !found.is_dir() => {
            let text = format!("`{}` is a file, and not the folder of a bundle", dir.display());
            let hint = "give the folder that contains `manifest.json`".to_owned();
            return Err(Failure::new(text, Some(hint)));
        }
        _ => {}
    }
    match Bundle::open(dir, OpenOptions::default()) {
        Err(Error::Io(error))
            if error.kind() == ErrorKind::NotFound && !dir.join(MANIFEST_NAME).exists() =>
        {
            let path = dir.display().to_string();
            Err(if dir.join(gular_pack::STATE_DIR).exists() {
                gular_verify::Error::Interrupted { path }.into()
            } else {
                gular_verify::Error::NoManifest { path }.into()
            })
        }
        result => Ok(result?),
    }
}

fn manifest(file: &ReadAt) -> Result<(Manifest, Digest), Failure> {
    let (path, found, limit) = (file.path(), file.len_bytes(), MAX_MANIFEST_BYTES);
    if found > limit {
        return Err(Error::TooLarge { path, what: "a manifest", found, limit }.into());
    }
    let mut bytes = vec![0; usize::try_from(found).unwrap_or(0)];
    file.read_at(0, &mut bytes)?;
    Ok((Manifest::parse(&path, &bytes)?, Digest::of(&bytes)))
}
