//! Reads the bytes of samples as they are stored.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gular_bundle::{Bundle, FieldIdx, Row, SampleId, Shard, ShardIdx, Split};

use crate::Error;

/// The samples of a split, and their fields that are loaded.
#[derive(Debug)]
pub(super) struct SampleReader {
    bundle: Arc<Bundle>,
    split: Split,
    fields: Vec<FieldIdx>,
}

/// A sample as it is stored, not read yet.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    shard: Arc<Shard>,
    row: Row,
    pub(super) bytes: u64,
}

/// The values that were read of a sample, by field.
pub(super) type Values = Vec<(FieldIdx, Vec<u8>)>;

impl SampleReader {
    pub(super) fn new(bundle: Arc<Bundle>, split: Split, fields: Vec<FieldIdx>) -> Self {
        Self { bundle, split, fields }
    }

    pub(super) fn bundle(&self) -> &Arc<Bundle> {
        &self.bundle
    }

    /// Returns the shard and the row of a sample.
    pub(super) fn locate(&self, sample: u64) -> Result<SampleId, Error> {
        Ok(self.bundle.locate(self.split, sample)?)
    }

    /// Returns the shard of a sample.
    pub(super) fn shard_of(&self, sample: u64) -> Result<ShardIdx, Error> {
        Ok(self.locate(sample)?.shard)
    }

    /// Returns where a sample's bytes are, and their number; opens its shard, which ends soon once
    /// `stop` is set.
    pub(super) fn stored(&self, sample: u64, stop: &AtomicBool) -> Result<Stored, Error> {
        let id = self.locate(sample)?;
        let shard = self.bundle.shard_until(id.shard, stop)?;
        let mut bytes = 0_u64;
        for field in &self.fields {
            let len = shard.len_of(id.row, *field)?.unwrap_or(0);
            bytes = bytes.saturating_add(len as u64);
        }
        Ok(Stored { shard, row: id.row, bytes })
    }

    /// Reads the values of `stored`, not checked; of a map brings its pages into memory, and
    /// leaves them empty.
    pub(super) fn read(&self, stored: &Stored) -> Result<Values, Error> {
        let read = |field: &FieldIdx| {
            let mut bytes = Vec::new();
            touch(stored.shard.view(stored.row, *field, &mut bytes)?);
            Ok((*field, bytes))
        };
        self.fields.iter().map(read).collect()
    }

    /// Names a sample as far as the bundle still can.
    pub(super) fn name(&self, sample: u64) -> String {
        let id = self.bundle.locate(self.split, sample);
        id.and_then(|id| self.bundle.key(id))
            .map_or_else(|_| format!("{} {sample}", self.split), |key| key.as_str().to_owned())
    }
}

/// Waits here, and not in a decoder, for pages of a map that are not in memory.
pub(super) fn touch(bytes: &[u8]) {
    /// Smallest size of a page.
    const PAGE: usize = 4096;
    let sum = bytes.iter().step_by(PAGE).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    black_box(sum);
}
