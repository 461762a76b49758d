//! Folders that only their owner reads.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::Error;

/// Makes a folder, and those above it.
pub(super) fn make_folder(path: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(path).map_err(|e| Error::io("create", path, e))
}
