//! The files on this machine that a recipe's `[python]` names.

use std::path::Path;

use serde_json::json;

use crate::recipe::PythonSection;
use crate::{Error, OciDigest, Result, Sha256};

/// Largest file read: some 20,000 packages.
const MAX_BYTES: u64 = 32 << 20;

/// A file of pinned packages.
#[derive(Debug)]
pub(crate) struct Input {
    /// The path in the recipe.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Whether the file is a `pylock.toml`.
    pub(crate) is_lock: bool,
}

impl Input {
    /// `None` where wheels of this machine alone are asked for.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Limit`].
    pub(crate) fn open(python: &PythonSection, dir: &Path) -> Result<Option<Self>> {
        let Some(named) = python.lock.as_ref().or(python.requirements.as_ref()) else {
            return Ok(None);
        };
        let path = named.display().to_string();
        let here = dir.join(named);
        let found = std::fs::metadata(&here).map_err(Error::io("read", &here))?.len();
        if found > MAX_BYTES {
            return Err(Error::Limit { path, what: "bytes", found, limit: MAX_BYTES });
        }
        let text = std::fs::read_to_string(&here).map_err(Error::io("read", &here))?;
        Ok(Some(Self { path, text, is_lock: python.lock.is_some() }))
    }
}

/// Digest of all that decides which wheels go in and is not in the recipe itself. It changes after
/// an edit of `requirements.txt`, or a new build of a wheel.
///
/// # Errors
/// Those of [`Input::open`].
pub(crate) fn digest(python: &PythonSection, dir: &Path) -> Result<OciDigest> {
    let input = Input::open(python, dir)?;
    let wheels = python.wheels.iter().map(|path| {
        let path = super::local::find(path, dir)?;
        Ok([path.display().to_string(), Sha256::of_file(&dir.join(&path))?.to_string()])
    });
    let parts = json!({
        "text": input.map(|input| Sha256::of(input.text.as_bytes())),
        "wheels": wheels.collect::<Result<Vec<_>>>()?,
    });
    Ok(Sha256::of(parts.to_string().as_bytes()).into())
}
