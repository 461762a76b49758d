//! The index made from what passes for a shard is a valid index of it.
#![no_main]

use gular_bundle::{Field, FieldName, Index, ReadAt, rebuild_index};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let shard = ReadAt::in_memory("fuzz", bytes.to_vec());
    if let Ok(index) = rebuild_index(&shard) {
        let fields = [Field::bytes(FieldName::image(), vec!["image/jpeg".into()]), Field::label()];
        let _ = Index::parse("fuzz", &index, &fields, shard.len_bytes());
    }
});
