//! Checks the free disk space before something large is written.

use std::path::Path;

use anyhow::{Result, bail};
use gular_files::{Size, free};

/// # Errors
/// When `path`'s file system has less than `needed` bytes free.
pub fn require_free(path: &Path, needed: u64, purpose: &str) -> Result<()> {
    let free = free(path)?.bytes;
    if free < needed {
        bail!(
            "{purpose} needs {} of free disk space in `{}`, which has {}\nhint: free some space, or set CARGO_TARGET_DIR to a folder on a larger disk",
            Size(needed),
            path.display(),
            Size(free)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_is_said_with_both_numbers() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let error = require_free(dir.path(), u64::MAX, "a copy of everything")
            .expect_err("no disk is that large");
        let text = error.to_string();
        assert!(text.contains("a copy of everything needs 18446.7 PB"), "{text}");
        assert!(text.contains("hint: free some"), "{text}");
    }
}
