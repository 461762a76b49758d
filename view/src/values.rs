//! The bytes of samples: of a bundle in a folder, or single ones of a published bundle.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use gular_bundle::{Bundle, FieldIdx, SampleId, SingleValues};

use crate::Error;

/// Reads a value, compared with its digest. Of a published bundle, only its bytes are requested,
/// unless its shard is in the cache.
pub(crate) fn read(bundle: &Bundle, sample: SampleId, field: FieldIdx) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let Some(source) = bundle.source() else {
        bundle.read(sample, field, &mut bytes)?;
        return Ok(bytes);
    };
    let cancel = AtomicBool::new(false);
    let _held = source.hold(sample.shard, &cancel)?;
    if source.is_here(sample.shard) {
        bundle.read(sample, field, &mut bytes)?;
        return Ok(bytes);
    }
    let index = bundle.index(sample.shard)?;
    let found = Mutex::new(None);
    let take = |_, value: &[u8]| {
        *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(value.to_vec());
    };
    let rows = [sample.row];
    let values = SingleValues { shard: sample.shard, index: &index, rows: &rows, field };
    source.read_values(&values, &take, &cancel)?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.ok_or_else(|| Error::Parameter {
        name: "field",
        reason: "the value is stored only in the index".to_owned(),
    })
}
