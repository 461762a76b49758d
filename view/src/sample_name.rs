//! How a sample is named in addresses: `SHARD.ROW`, both counted from 0.

use gular_bundle::{Bundle, Row, SampleId, ShardIdx};

use crate::Error;

pub(crate) fn name(sample: SampleId) -> String {
    format!("{}.{}", sample.shard.0, sample.row.0)
}

/// Reads a name; the bundle has the sample.
pub(crate) fn parse(bundle: &Bundle, text: &str) -> Result<SampleId, Error> {
    let sample = text.split_once('.').and_then(|(shard, row)| {
        Some(SampleId { shard: ShardIdx(shard.parse().ok()?), row: Row(row.parse().ok()?) })
    });
    let is_there = |sample: &SampleId| {
        let entry = sample.shard.of(&bundle.manifest().shards);
        entry.is_some_and(|entry| (sample.row.0 as u64) < entry.samples)
    };
    sample.filter(is_there).ok_or_else(|| Error::Parameter {
        name: "id",
        reason: format!("the bundle has no sample `{text}`; expected SHARD.ROW, such as 0.12"),
    })
}
