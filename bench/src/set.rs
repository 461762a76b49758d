//! The bundles and files that rows read.

use std::fs;
use std::path::{Path, PathBuf};

use gular_bundle::{Backend, Bundle, Envelope, FieldIdx, OpenOptions, Payload, Split};

use crate::Error;
use crate::bench_report::Stored;
use crate::matrix::{Available, RowReader};

/// The split, the field, and the number of samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Of {
    pub(crate) split: Split,
    pub(crate) image: FieldIdx,
    pub(crate) samples: usize,
}

/// The bundles and files of one payload.
pub(crate) struct Set {
    pub(crate) payload: Payload,
    /// The bundle that the others were converted from.
    pub(crate) base: PathBuf,
    pub(crate) bundles: Vec<(Envelope, PathBuf)>,
    /// The plain files, one per sample; empty for samples that are not files.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) of: Of,
}

impl Set {
    /// Returns the folder of the bundle in `envelope`.
    pub(crate) fn bundle(&self, envelope: Envelope) -> Result<&Path, Error> {
        let found = self.bundles.iter().find(|(e, _)| *e == envelope);
        let missing =
            || Error::Option(format!("a bundle in the envelope `{envelope}` was not made"));
        Ok(&found.ok_or_else(missing)?.1)
    }

    /// Returns the rows that are possible.
    pub(crate) fn available(&self) -> Available {
        Available {
            payload: self.payload,
            envelopes: self.bundles.iter().map(|(e, _)| *e).collect(),
            files: !self.files.is_empty(),
        }
    }

    /// Returns the files that `what` reads.
    pub(crate) fn paths(&self, what: RowReader) -> Result<Vec<PathBuf>, Error> {
        let bundle = match what {
            RowReader::Files => return Ok(self.files.clone()),
            RowReader::Bundle(envelope, _) => self.bundle(envelope)?,
            RowReader::Hand(_) => &self.base,
        };
        let bundle = Bundle::open(bundle, OpenOptions::default())?;
        let shards = &bundle.manifest().shards;
        Ok(shards
            .iter()
            .flat_map(gular_bundle::ShardEntry::files)
            .map(|f| bundle.path_of(f))
            .collect())
    }

    /// Returns the size of each format.
    pub(crate) fn stored(&self) -> Result<Vec<Stored>, Error> {
        let mut stored = Vec::new();
        let mut add = |envelope, paths: &[PathBuf]| {
            let len = |path: &PathBuf| fs::metadata(path).map(|m| m.len());
            let bytes = paths.iter().filter_map(|path| len(path).ok()).sum();
            let (payload, files) = (self.payload, paths.len() as u64);
            let samples = self.of.samples as u64;
            stored.push(Stored { payload, envelope, bytes, files, samples });
        };
        for (envelope, _) in &self.bundles {
            let paths = self.paths(RowReader::Bundle(*envelope, Backend::Pread))?;
            add(Some(*envelope), &paths);
        }
        if !self.files.is_empty() {
            add(None, &self.files);
        }
        Ok(stored)
    }
}
