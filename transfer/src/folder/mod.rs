//! Publishes or fetches a folder of any files as it is: one object per file.
//!
//! ```text
//! DIR ── local ─▶ names and lengths ── publish ──▶ compare, PUT, compare ──▶ URL/name
//! URL ── list ──▶ names and lengths ── fetch ────▶ temporary name, checksum, rename ──▶ DIR/name
//! ```
//!
//! An object that fails is named, and the others are still transferred (`each`): a folder of a
//! hundred thousand files is not begun again because one of them failed. Nothing is overwritten,
//! here or there: an existing file or object of that name is compared, and a difference is a
//! failure.

mod failures;
mod fetch;
mod folder_report;
mod listed_objects;
mod local;
mod publish;

pub use failures::Failed;
pub use fetch::fetch_folder;
pub use folder_report::{FolderFetch, FolderReport};
pub use local::Doubtful;
pub use publish::publish_folder;

/// Options for publishing or fetching a folder.
#[derive(Debug, Clone)]
pub struct FolderOptions {
    /// Number of objects that are transferred at the same time.
    pub jobs: usize,
    /// Whether to report only what would be transferred.
    pub dry_run: bool,
    /// The most files and folders that there may be in all.
    pub max_objects: usize,
    /// When fetching: whether the folder may hold nothing else. It stays locked until the report
    /// is dropped.
    pub alone: bool,
    /// When publishing: how the origin's objects are compared with the local files.
    pub compare_by: gular_pelican::CompareBy,
}

impl Default for FolderOptions {
    /// Returns the defaults: four objects at the same time, a million at most, every byte compared.
    fn default() -> Self {
        let compare_by = gular_pelican::CompareBy::Bytes;
        let max_objects = DEFAULT_MAX_OBJECTS;
        Self { jobs: 4, dry_run: false, max_objects, alone: false, compare_by }
    }
}

/// The default limit of objects; a list of this many takes about 100 MB of memory.
pub const DEFAULT_MAX_OBJECTS: usize = 1_000_000;

/// The deepest nesting of folders. No data set nests so deep, but a server's answers could.
const MAX_DEPTH: usize = 64;
