//! Free disk space, asked before something large is written.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// Bytes that an ordinary user may still write where `path` lies.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(path)
        .with_context(|| format!("cannot ask for the free space of `{}`", path.display()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// # Errors
/// When `path`'s file system has less than `needed` bytes free.
pub fn require_free(path: &Path, needed: u64, purpose: &str) -> Result<()> {
    let free = free_bytes(path)?;
    if free < needed {
        bail!(
            "{purpose} needs {} of free disk in `{}`, which has {}\nhint: free some, or set CARGO_TARGET_DIR to a folder on a larger disk",
            human(needed),
            path.display(),
            human(free)
        );
    }
    Ok(())
}

/// Bytes in decimal units, as download pages and `df -H` give them.
pub fn human(bytes: u64) -> String {
    let (unit, name) = if bytes >= 1_000_000_000 { (1e9, "GB") } else { (1e6, "MB") };
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let value = bytes as f64 / unit;
    format!("{value:.1} {name}")
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
        assert!(text.contains("a copy of everything needs 18446744073.7 GB"), "{text}");
        assert!(text.contains("hint: free some"), "{text}");
    }
}
