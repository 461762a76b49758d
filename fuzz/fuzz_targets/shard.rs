//! The index made from what passes for a shard, of any envelope, is a valid index of it.
#![no_main]

use gular_bundle::{Envelope, Field, FieldName, Index, ReadAt, rebuild_index};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let known = [&Envelope::ALL[..], &Envelope::ADOPTED].concat();
    let envelope = known[usize::from(*first) % known.len()];
    let shard = ReadAt::in_memory("fuzz", rest.to_vec());
    let fields = [Field::bytes(FieldName::image(), vec!["image/jpeg".into()]), Field::label()];
    if let Ok(index) = rebuild_index(&shard, envelope, &fields) {
        let _ = Index::parse("fuzz", &index, &fields, shard.len_bytes());
    }
});
