//! Folders of MosaicML Streaming: shards beside `index.json`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::facts::RunError;

/// A list above this is refused; 10⁵ shards take 60 MB.
const MAX_INDEX: u64 = 256 << 20;
/// The beginning of every shard's description, after the offsets.
const CONFIG: &[u8; 19] = b"{\"column_encodings\"";

/// Whether the file begins like a shard: with a count, as many offsets, and a description.
pub(crate) fn is_shard(file: &File, head: &[u8]) -> bool {
    let Some(count) = head.first_chunk() else { return false };
    let start = (u64::from(u32::from_le_bytes(*count)) + 2) * 4;
    let mut config = [0; CONFIG.len()];
    file.read_exact_at(&mut config, start).is_ok() && config == *CONFIG
}

/// Returns the command that decompresses a shard, if its name says that it is compressed.
pub(crate) fn decompress(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (stem, extension) = name.rsplit_once('.').filter(|(stem, _)| stem.ends_with(".mds"))?;
    Some(match extension {
        "zstd" | "zst" => format!("zstd -d {name} -o {stem}"),
        "gz" => format!("gunzip {name}"),
        "bz2" => format!("bunzip2 {name}"),
        "br" => format!("brotli -d {name} -o {stem}"),
        "snappy" => format!("python -m snappy -d {name} {stem}"),
        _ => return None,
    })
}

/// The members of `index.json` that are read.
#[derive(Deserialize)]
struct Index {
    shards: Vec<Shard>,
}

#[derive(Deserialize)]
struct Shard {
    raw_data: Option<FileInfo>,
}

#[derive(Deserialize)]
struct FileInfo {
    basename: String,
    bytes: u64,
}

/// Leaves out compressed copies of shards that are there too, and checks that
/// all shards of the folder's `index.json` are, when it has one.
pub(crate) fn check(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    files.retain(|path| decompress(path).is_none() || !path.with_extension("").is_file());
    let path = folder.join("index.json");
    let is_shard = |path: &PathBuf| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("mds"));
    let Ok(metadata) = fs::metadata(&path) else { return Ok(()) };
    if !files.iter().any(is_shard) || metadata.len() > MAX_INDEX {
        return Ok(());
    }
    let text = fs::read(&path).map_err(|e| Error::io("read", &path, e))?;
    // The list of another program does not describe these files.
    let Ok(Index { shards }) = serde_json::from_slice(&text) else { return Ok(()) };
    for FileInfo { basename, bytes } in shards.into_iter().filter_map(|shard| shard.raw_data) {
        let found = fs::metadata(folder.join(&basename)).map(|m| m.len());
        let there = match &found {
            Ok(found) if *found == bytes => continue,
            Ok(found) => format!("of {found} bytes"),
            Err(_) => "not there".to_owned(),
        };
        return Err(RunError::Option(format!(
            "`{}` lists `{basename}` with {bytes} bytes, and the file is {there}; to adopt only some shards, give each of them by name",
            path.display()
        )).into());
    }
    Ok(())
}
