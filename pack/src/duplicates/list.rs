//! Writes all duplicates as a table.

use std::path::{Path, PathBuf};

use gular_bundle::Digest;
use gular_files::{begins_with, folder_of, persist, temp_in};
use tempfile::NamedTempFile;

use super::groups::DuplicateSample;
use crate::error::Error;

const HEADER: [&str; 5] = ["digest", "bundle", "split", "key", "label"];

/// A CSV file that appears once it is complete.
pub(super) struct List {
    path: PathBuf,
    table: csv::Writer<NamedTempFile>,
}

impl List {
    /// A file that becomes `path`; one of an earlier run is replaced, and no other file.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        if path.symlink_metadata().is_ok() && !begins_with(path, HEADER.join(",").as_bytes()) {
            return Err(Error::FileExists(path.display().to_string()));
        }
        let mut table = csv::Writer::from_writer(temp_in(folder_of(path))?);
        table.write_record(HEADER).map_err(|e| Error::io("write", path, e.into()))?;
        Ok(Self { path: path.to_owned(), table })
    }

    pub(super) fn push(
        &mut self,
        digest: &Digest,
        bundle: &str,
        sample: &DuplicateSample,
    ) -> Result<(), Error> {
        let (split, label) = (sample.split.to_string(), sample.label.map(|l| l.to_string()));
        let row = [&digest.hex(), bundle, &split, &sample.key, label.as_deref().unwrap_or("")];
        self.table.write_record(row).map_err(|e| Error::io("write", &self.path, e.into()))
    }

    pub(super) fn finish(self) -> Result<(), Error> {
        let path = &self.path;
        let temp = self.table.into_inner();
        let temp =
            temp.map_err(|e| Error::io("write", path, std::io::Error::other(e.to_string())))?;
        persist(temp, path)?;
        Ok(())
    }
}
