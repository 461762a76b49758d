//! What parses as an index leads nowhere outside its shard.
#![no_main]

use gular_bundle::{BundlePath, Field, FieldName, Index};

const SHARD_BYTES: u64 = 5000;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let fields = [Field::bytes(FieldName::image(), vec!["image/jpeg".into()]), Field::label()];
    let Ok(index) = Index::parse("fuzz", bytes, &fields, SHARD_BYTES) else { return };
    for row in index.rows() {
        BundlePath::parse(index.key(row).unwrap()).unwrap();
        for location in &index.locations {
            let (offset, len) = location.range(row).unwrap();
            assert!(offset + len as u64 <= SHARD_BYTES);
        }
    }
});
