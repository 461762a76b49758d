//! Unpacks wheels, which are ZIP archives (PEP 427), into the store.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use zip::ZipArchive;

use crate::rootfs::RootPath;
use crate::store::{Filling, Limits};
use crate::{Error, Result};

/// Most entries that are read; torch 2.11 has 13,000.
const MAX_ENTRIES: u64 = 1_000_000;

/// Unpacks the shared libraries and the `.dist-info` of a wheel, licences with it,
/// under the paths they have in the wheel. The Python files and headers around them
/// are passed over.
///
/// # Errors
/// [`Error::Archive`] for a damaged one, or an encrypted entry, a path that leads
/// outside or is there twice; [`Error::Limit`], [`Error::Io`].
pub fn unpack_wheel(filling: &mut Filling, wheel: &Path, limits: &Limits) -> Result<()> {
    let shown = wheel.display().to_string();
    let damaged = |reason: String| Error::Archive { path: shown.clone(), reason };
    filling.name_archive(&shown);
    each_file(wheel, limits, is_wanted, |file| {
        let path = RootPath::new(file.name).map_err(|e| damaged(e.to_string()))?;
        filling.add_file(&path, 0o644, file.bytes, limits)
    })
}

/// A file in a wheel.
pub(crate) struct WheelFile<'a> {
    pub(crate) name: &'a str,
    pub(crate) mode: Option<u32>,
    pub(crate) len: u64,
    pub(crate) bytes: &'a mut dyn Read,
}

/// Calls `add` with each file of a wheel that `is_wanted` by its name, in the wheel's order.
///
/// # Errors
/// [`Error::Archive`] for a damaged wheel, an encrypted entry, a link, a name that is there
/// twice; [`Error::Limit`], [`Error::Io`]; those of `add`.
pub(crate) fn each_file(
    wheel: &Path,
    limits: &Limits,
    is_wanted: impl Fn(&str) -> bool,
    mut add: impl FnMut(WheelFile<'_>) -> Result<()>,
) -> Result<()> {
    let shown = wheel.display().to_string();
    let damaged = |reason: String| Error::Archive { path: shown.clone(), reason };
    let file = File::open(wheel).map_err(Error::io("open", wheel))?;
    // Reading an entry seeks, after which the buffer is filled again, so it is small.
    let mut zip = ZipArchive::new(BufReader::with_capacity(32 << 10, file))
        .map_err(|e| damaged(format!("it is not a complete wheel: {e}")))?;
    let over = |what: &'static str, found: u64, limit: u64| Error::Limit {
        path: shown.clone(),
        what,
        found,
        limit,
    };
    if zip.len() as u64 > MAX_ENTRIES {
        return Err(over("entries", zip.len() as u64, MAX_ENTRIES));
    }
    // The directory and the headers before the files say the same, each name once.
    zip.validate_header_consistency().map_err(|e| damaged(e.to_string()))?;
    for number in 0..zip.len() {
        let entry = zip.by_index_data(number).map_err(|e| damaged(e.to_string()))?;
        let name = entry.name().map_err(|e| damaged(e.to_string()))?.into_owned();
        if entry.is_dir() || !is_wanted(&name) {
            continue;
        }
        if entry.encrypted() {
            return Err(damaged(format!("the file `{name}` in it is encrypted")));
        }
        if entry.is_symlink() {
            return Err(damaged(format!("the file `{name}` in it is a link")));
        }
        if entry.size() > limits.bytes {
            return Err(over("bytes", entry.size(), limits.bytes));
        }
        let mut entry = zip.by_index(number).map_err(|e| damaged(format!("`{name}`: {e}")))?;
        let (mode, len) = (entry.unix_mode(), entry.size());
        add(WheelFile { name: &name, mode, len, bytes: &mut entry }).map_err(|e| match e {
            Error::Read { path, source } => damaged(format!("{path}: {source}")),
            other => other,
        })?;
    }
    Ok(())
}

/// Shared libraries, what the wheel says of itself, and licences.
fn is_wanted(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let library = file.ends_with(".so") || file.contains(".so.");
    let upper = file.to_ascii_uppercase();
    let licence = ["LICENSE", "LICENCE", "NOTICE", "COPYING", "EULA"];
    let top = name.split('/').next().unwrap_or(name);
    library || top.ends_with(".dist-info") || licence.iter().any(|start| upper.starts_with(start))
}

/// Whether this is a wheel's `METADATA`.
pub(super) fn is_metadata(name: &str) -> bool {
    matches!(name.split_once('/'), Some((top, "METADATA")) if top.ends_with(".dist-info"))
}
