//! Unpacks what `conda-pack` made into the store.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Read, Seek as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::install::PREFIX;
use super::prefix::{places, relocated};
use crate::store::{Filling, Limits, MemberKind, each_time, unpack_tar};
use crate::{Error, Package, Result, Sha256};

/// The script with the table of places.
const SCRIPT: &str = "bin/conda-unpack";

/// Largest file that is changed while it is unpacked.
const MAX_CHANGED: u64 = 1 << 30;

/// The archive of an environment, in a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CondaArchive {
    /// Its path from the recipe's folder.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Sha256,
}

impl CondaArchive {
    /// Reads the archive that a recipe names; `dir` is the recipe's folder.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Requirements`] for a file of another kind.
    pub fn find(path: &Path, dir: &Path) -> Result<Self> {
        let here = dir.join(path);
        let bytes = std::fs::metadata(&here).map_err(Error::io("read", &here))?.len();
        open(&here, &path.display().to_string()).map(drop)?;
        let sha256 = Sha256::of_file(&here)?;
        Ok(Self { path: path.display().to_string(), bytes, sha256 })
    }

    /// The archive as a package that is beside the recipe.
    pub(crate) fn package(&self) -> Package {
        Package {
            name: "conda".to_owned(),
            version: String::new(),
            arch: None,
            bytes: self.bytes,
            sha256: self.sha256,
            urls: vec![format!("./{}", self.path)],
            license: None,
        }
    }
}

/// Opens an archive by its first bytes; `name` is what errors call it.
fn open(path: &Path, name: &str) -> Result<Box<dyn Read>> {
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let mut start = [0; 6];
    let read = file.read(&mut start).map_err(Error::io("read", path))?;
    file.rewind().map_err(Error::io("read", path))?;
    let wrong = |reason: &str| Error::Requirements {
        path: name.to_owned(),
        reason: reason.to_owned(),
        hint: Some("make the archive with `conda-pack -p ENVIRONMENT -o env.tar.gz`".to_owned()),
    };
    if path.is_dir() {
        return Err(wrong("it is a folder, not the archive of an environment"));
    }
    let buffered = BufReader::with_capacity(256 << 10, file);
    Ok(match start.get(..read).unwrap_or_default() {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(buffered)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(zstd::Decoder::with_buffer(buffered).map_err(Error::io("read", path))?)
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(liblzma::read::XzDecoder::new(buffered)),
        [b'B', b'Z', b'h', ..] => {
            return Err(wrong("it is compressed by bzip2, which is not read"));
        }
        [b'P', b'K', ..] => return Err(wrong("it is a ZIP archive, which has no links")),
        [b'h', b's', b'q', b's', ..] => return Err(wrong("it is a SquashFS, not a tar")),
        [b'#', b'!', ..] => return Err(wrong("it is a script, not the archive of an environment")),
        _ => Box::new(buffered),
    })
}

/// Unpacks an environment, and gives its files the path that they have in the image.
///
/// # Errors
/// [`Error::Requirements`] for an archive that `conda-pack` did not make; [`Error::Archive`] for a
/// damaged one; [`Error::Limit`], [`Error::Io`].
pub fn unpack_environment(filling: &mut Filling, archive: &Path, limits: &Limits) -> Result<()> {
    let shown = archive.display().to_string();
    let wrong = |reason: &str, hint: &str| Error::Requirements {
        path: shown.clone(),
        reason: reason.to_owned(),
        hint: Some(hint.to_owned()),
    };
    // When each source was changed: byte code is fresh if it says the same.
    let mut times = BTreeMap::new();
    let mut packed = false;
    each_time(&mut *open(archive, &shown)?, &shown, limits, |path, time| {
        let Ok(path) = std::str::from_utf8(path) else { return };
        let path = path.trim_start_matches("./");
        packed |= path == "pixi-pack.json";
        if path.ends_with(".py") {
            times.insert(path.to_owned(), time);
        }
    })?;
    if packed {
        return Err(wrong(
            "it has the packages of an environment, not the environment, as `pixi-pack` makes it",
            "unpack it with `pixi-unpack`, pack the folder with `conda-pack -p ./env -o env.tar.gz`, and give that",
        ));
    }
    unpack_tar(filling, &mut *open(archive, &shown)?, &shown, false, limits)?;
    let again =
        "make the archive with `conda-pack -p ENVIRONMENT -o env.tar.gz`, without `--dest-prefix`";
    let entries: HashMap<String, usize> =
        (0..).zip(filling.entries()).map(|(number, entry)| (entry.path.clone(), number)).collect();
    let script = match entries.get(SCRIPT) {
        Some(script) => filling.read(*script, MAX_CHANGED)?,
        None => None,
    };
    let Some(script) = script else {
        return Err(wrong("it has no `bin/conda-unpack`, as `conda-pack` writes it", again));
    };
    let Some(places) = places(&String::from_utf8_lossy(&script)) else {
        return Err(wrong("its `bin/conda-unpack` has no table of places that can be read", again));
    };
    let to = format!("/{PREFIX}");
    for place in places {
        let Some(entry) = entries.get(&place.path) else { continue };
        let Some(bytes) = filling.read(*entry, MAX_CHANGED)? else { continue };
        let Some(changed) = relocated(&bytes, &place, &to) else {
            let reason = format!("its `{}` has no room for the path `{to}`", place.path);
            let hint = "make the environment in a folder with a longer path, and pack it again";
            return Err(wrong(&reason, hint));
        };
        if changed != bytes {
            filling.replace(*entry, &changed, limits)?;
        }
    }
    fresh_byte_code(filling, &entries, &times, limits)
}

/// In an image all files have one time, so that Python would take byte code that is checked by its
/// source's time for stale. What is fresh in the archive is marked as not to be checked (PEP 552).
fn fresh_byte_code(
    filling: &mut Filling,
    entries: &HashMap<String, usize>,
    times: &BTreeMap<String, u64>,
    limits: &Limits,
) -> Result<()> {
    for number in 0..filling.entries().len() {
        let entry = filling.entries().get(number);
        let source = entry.and_then(|entry| source_of(&entry.path));
        let of_source = source.and_then(|source| {
            let entry = filling.entries().get(*entries.get(&source)?)?;
            let MemberKind::File(_, len, _) = &entry.kind else { return None };
            Some((*times.get(&source)?, *len))
        });
        let Some((time, source_len)) = of_source else { continue };
        let Some(mut bytes) = filling.read(number, MAX_CHANGED)? else { continue };
        // Magic, flags, time and length of the source: little-endian numbers of four bytes.
        let field = |at: usize| {
            let bytes: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(u64::from(u32::from_le_bytes(bytes)))
        };
        let low = |number: u64| number & u64::from(u32::MAX);
        let fresh = field(4) == Some(0)
            && field(8) == Some(low(time))
            && field(12) == Some(low(source_len));
        if let Some(flags) = bytes.get_mut(4).filter(|_| fresh) {
            *flags = 1;
            filling.replace(number, &bytes, limits)?;
        }
    }
    Ok(())
}

/// The source of byte code: `a/b.py` of `a/__pycache__/b.cpython-311.pyc`.
fn source_of(path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once("/__pycache__/")?;
    let stem = name.strip_suffix(".pyc")?.split(".cpython-").next()?;
    (!name.contains(".opt-")).then(|| format!("{folder}/{stem}.py"))
}
