//! What is staged, and how.

use std::path::PathBuf;

use gular_transfer::Access;

use super::measured_space::StageTo;

/// Options of [`stage`](crate::stage): what is staged, and how.
#[derive(Debug, Clone)]
pub struct StageOptions {
    /// The place of the copy.
    pub to: StageTo,
    /// Whether a bundle's samples are written as plain files, with names as from `gular convert`.
    pub unpack: bool,
    /// Whether the shards of a bundle on this machine are mounted instead of copied; they must be
    /// SquashFS images.
    pub mount: bool,
    /// Whether the copy stays after its last user leaves, until a run without this option uses it.
    pub keep: bool,
    /// Number of threads that copy.
    pub jobs: usize,
    /// How the servers of a URL are asked.
    pub access: Access,
    /// For a URL, whether to read from the origin instead of from caches.
    pub direct: bool,
    /// The folder with `dev`, `proc` and `sys`: `/`, except in tests.
    pub root: PathBuf,
}

impl Default for StageOptions {
    /// Returns the defaults: memory or scratch, the bundle's own files, removed at the end, four
    /// threads.
    fn default() -> Self {
        Self {
            to: StageTo::Auto,
            unpack: false,
            mount: false,
            keep: false,
            jobs: 4,
            access: Access::default(),
            direct: false,
            root: "/".into(),
        }
    }
}
