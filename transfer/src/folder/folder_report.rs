//! The reports of publishing and fetching a folder.

use std::path::{Path, PathBuf};

use gular_pelican::Url;
use serde::{Serialize, Serializer};

use super::failures::Failed;
use crate::{FolderLock, WrongCopy};

/// The result of publishing or fetching a folder: the report on its objects, and the failures.
#[derive(Debug)]
pub struct FolderReport<R> {
    /// The report on the objects that did not fail.
    pub report: R,
    /// Objects that failed, each with its reason.
    pub failed: Vec<Failed>,
    /// Objects that were not begun, since the servers or the disk failed for all objects before
    /// them.
    pub not_tried: usize,
    /// With [`FolderOptions::alone`](super::FolderOptions::alone): keeps other fetches out of the
    /// folder while it is held.
    pub lock: Option<FolderLock>,
}

/// The result of fetching a folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FolderFetch {
    /// URL of the collection.
    #[serde(serialize_with = "text")]
    pub url: Url,
    /// The folder that now has the objects.
    #[serde(serialize_with = "path")]
    pub dir: PathBuf,
    /// Number of objects that are in the folder now.
    pub files: usize,
    /// Number of objects that were fetched.
    pub fetched: usize,
    /// Number of objects that the folder already had.
    pub kept: usize,
    /// Number of objects whose checksum is the one that a server reports.
    pub by_checksum: usize,
    /// Number of objects that were compared only by their length, since no server reports a
    /// checksum.
    pub by_length: usize,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Bytes that came over the network.
    pub bytes_fetched: u64,
    /// Bytes that were here already.
    pub bytes_kept: u64,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Servers that sent wrong bytes for objects which other servers sent correctly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrong_copies: Vec<WrongCopy>,
    /// Wall-clock time.
    pub seconds: f64,
}

impl FolderFetch {
    /// Makes an empty report.
    pub(super) fn new(url: &Url, dir: &Path, dry_run: bool) -> Self {
        Self {
            url: url.clone(),
            dir: dir.to_owned(),
            files: 0,
            fetched: 0,
            kept: 0,
            by_checksum: 0,
            by_length: 0,
            bytes: 0,
            bytes_fetched: 0,
            bytes_kept: 0,
            dry_run,
            wrong_copies: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Counts an object of which `fetched` of `len` bytes were fetched.
    pub(super) fn add(&mut self, len: u64, fetched: u64, was_here: bool, has_checksum: bool) {
        self.files += 1;
        self.kept += usize::from(was_here);
        self.fetched += usize::from(!was_here);
        self.by_checksum += usize::from(has_checksum);
        self.by_length += usize::from(!has_checksum);
        self.bytes = self.bytes.saturating_add(len);
        self.bytes_fetched = self.bytes_fetched.saturating_add(fetched);
        self.bytes_kept = self.bytes_kept.saturating_add(len.saturating_sub(fetched));
    }
}

fn text<S: Serializer>(url: &Url, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(url)
}

/// Writes a path as a text; one that is not UTF-8 is written as it is shown.
fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}
