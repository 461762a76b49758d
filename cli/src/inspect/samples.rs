//! Single samples of a bundle.

use gular_bundle::{Bundle, FieldIdx, SampleId, ShardIdx, file_head};
use serde_json::{Value, json};

use super::files_here::FilesHere;
use crate::exit::{Exit, Failure};
use crate::show::{self, AsIs};

/// The first `most` samples that are here, with their places.
pub(super) fn rows(bundle: &Bundle, here: &FilesHere, most: usize) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    let shards = &bundle.manifest().shards;
    let numbered = ShardIdx::first(shards.len()).zip(shards);
    for (number, entry) in numbered.filter(|(number, _)| here.has(*number)) {
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
pub(super) fn extract(bundle: &Bundle, here: &FilesHere, key: &str) -> Result<Exit, Failure> {
    let shards = ShardIdx::first(bundle.manifest().shards.len());
    for number in shards.filter(|number| here.has(*number)) {
        let shard = bundle.shard(number)?;
        let index = shard.index()?;
        let found = index.rows().find(|row| index.key(*row) == Some(key));
        if let Some(row) = found {
            let mut bytes = Vec::new();
            bundle.read(SampleId { shard: number, row }, FieldIdx(0), &mut bytes)?;
            // Pixels without their shape would be of no use.
            let head = bundle.manifest().fields.first().map(file_head).unwrap_or_default();
            show::as_is(AsIs::Sample, &[head, bytes].concat())?;
            return Ok(Exit::Done);
        }
    }
    let shown = key.escape_debug();
    let (message, hint) = match here.is_whole() {
        true => (
            format!("the bundle has no sample `{shown}`"),
            "`gular inspect BUNDLE --samples 10` shows what keys look like".to_owned(),
        ),
        false => (
            format!("the part of the bundle that is in this folder has no sample `{shown}`"),
            here.text(bundle.manifest()).trim_end().replace('\n', "; "),
        ),
    };
    Err(Failure::new(message, Some(hint)))
}
