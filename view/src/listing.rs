//! Lists samples page by page: indexes are read one after the other, as far as a page needs them.

use std::time::{Duration, Instant};

use gular_bundle::{Bundle, Facts, FieldIdx, Filter, Row, SampleId, ShardIdx, Split};
use serde_json::{Value, json};

use crate::Error;
use crate::sample_name::name;
use crate::values;

/// The most samples of a page.
const MOST: usize = 500;
/// After this time a page ends, however short it is; the next one begins where it ended.
const PATIENCE: Duration = Duration::from_millis(400);

/// Which samples are listed.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) split: Option<Split>,
    /// A class's number; -1 for samples of unknown class.
    pub(crate) label: Option<i32>,
    /// A part of the key, in any case.
    pub(crate) key: Option<String>,
    pub(crate) filter: Option<Filter>,
}

/// Lists up to `most` samples from `from` on.
pub(crate) fn list(
    bundle: &Bundle,
    wanted: &Wanted,
    from: SampleId,
    most: usize,
) -> Result<Value, Error> {
    let begun = Instant::now();
    let manifest = bundle.manifest();
    let image = manifest.image().unwrap_or_default();
    let key = wanted.key.as_ref().map(|key| key.to_lowercase());
    let (mut samples, mut looked) = (Vec::new(), 0_u64);
    let mut next = None;
    'shards: for (number, entry) in manifest.shards.iter().enumerate().skip(from.shard.0) {
        if wanted.split.is_some_and(|split| split != entry.split) {
            continue;
        }
        let shard = ShardIdx(number);
        let first = if number == from.shard.0 { from.row.0 } else { 0 };
        let at = |row| Some(name(SampleId { shard, row }));
        if samples.len() >= most.min(MOST) || looked > 0 && begun.elapsed() > PATIENCE {
            next = at(Row(first));
            break;
        }
        let index = bundle.index(shard)?;
        for row in index.rows().skip(first) {
            let is_late = looked % 64 == 63 && begun.elapsed() > PATIENCE;
            if samples.len() >= most.min(MOST) || is_late {
                next = at(row);
                break 'shards;
            }
            looked += 1;
            let (found, label) = (index.key(row).unwrap_or_default(), index.label(row));
            if wanted.label.is_some_and(|wanted| label != Some(wanted))
                || key.as_ref().is_some_and(|key| !found.to_lowercase().contains(key))
            {
                continue;
            }
            let sample = SampleId { shard, row };
            let bytes = index.range(row, image).map_or(0, |(_, len)| len as u64);
            if let Some(filter) = &wanted.filter {
                let mut failed = None;
                let mut value = |field: FieldIdx| match values::read(bundle, sample, field) {
                    Ok(bytes) => Ok(bytes),
                    Err(Error::Bundle(error)) => Err(error),
                    Err(error) => {
                        failed = Some(error);
                        Ok(Vec::new())
                    }
                };
                let split = entry.split;
                let mut facts = Facts { key: found, split, label, bytes, value: &mut value };
                let takes = filter.takes(&mut facts, &manifest.classes)?;
                if let Some(error) = failed {
                    return Err(error);
                }
                if !takes {
                    continue;
                }
            }
            samples.push(json!({
                "id": name(sample), "key": found, "split": entry.split, "label": label,
                "bytes": bytes,
            }));
        }
    }
    Ok(json!({ "samples": samples, "next": next, "looked": looked }))
}
