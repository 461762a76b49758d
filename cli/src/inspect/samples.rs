//! Single samples of a bundle.

use gular_bundle::{Bundle, FieldIdx, SampleId, ShardIdx, file_head};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::show;

/// The first `most` samples with their places.
pub(super) fn rows(bundle: &Bundle, most: usize) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    let shards = &bundle.manifest().shards;
    for (number, entry) in ShardIdx::first(shards.len()).zip(shards) {
        let shard = bundle.shard(number)?;
        let index = shard.index()?;
        for row in index.rows() {
            if rows.len() == most {
                return Ok(rows);
            }
            let (offset, bytes) = index.range(row, FieldIdx(0)).unwrap_or_default();
            rows.push(json!({
                "split": entry.split, "shard": entry.file.name, "row": row.0,
                "key": index.key(row).unwrap_or_default(),
                "label": index.label(row), "offset": offset, "bytes": bytes,
                "digest": index.digest(row, FieldIdx(0)).map(|d| d.to_string()),
            }));
        }
    }
    Ok(rows)
}

/// Writes the first field of the sample called `key` to stdout; one of a fixed shape as an npy file.
pub(super) fn extract(bundle: &Bundle, key: &str) -> Result<Exit, Failure> {
    for number in ShardIdx::first(bundle.manifest().shards.len()) {
        let shard = bundle.shard(number)?;
        let index = shard.index()?;
        let found = index.rows().find(|row| index.key(*row) == Some(key));
        if let Some(row) = found {
            let mut bytes = Vec::new();
            bundle.read(SampleId { shard: number, row }, FieldIdx(0), &mut bytes)?;
            // Pixels without their shape would be of no use.
            let head = bundle.manifest().fields.first().map(file_head).unwrap_or_default();
            show::stdout(&[head, bytes].concat())?;
            return Ok(Exit::Done);
        }
    }
    let hint = "`gular inspect BUNDLE --samples 10` shows what keys look like".to_owned();
    Err(Failure::new(format!("the bundle has no sample `{}`", key.escape_debug()), Some(hint)))
}
