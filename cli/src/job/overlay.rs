//! Files with repairs that have not been written yet.

use std::collections::BTreeMap;

use gular_jobs::{Disk, LocalDisk};

/// This machine's files, some of them with other contents.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    disk: LocalDisk,
    pub(super) texts: BTreeMap<String, String>,
}

impl Disk for Overlay {
    fn len(&self, path: &str) -> Option<u64> {
        self.texts.get(path).map(|text| text.len() as u64).or_else(|| self.disk.len(path))
    }

    fn is_folder(&self, path: &str) -> bool {
        self.disk.is_folder(path)
    }

    fn is_executable(&self, path: &str) -> bool {
        self.disk.is_executable(path)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.texts.get(path).cloned().or_else(|| self.disk.text(path))
    }

    fn list(&self, folder: &str) -> Vec<String> {
        self.disk.list(folder)
    }
}
