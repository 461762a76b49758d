//! Any bytes that look like a shard, in any envelope, are walked or refused; the index made for a
//! file with keys is a valid index of it.
//!
//! The first byte of the input chooses the envelope.
#![no_main]

use gular_bundle::{
    Dtype, Envelope, Field, FieldName, FixedPlaces, Index, ReadAt, Values, rebuild_index, survey,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let known = [&Envelope::ALL[..], &Envelope::ADOPTED].concat();
    let envelope = known[usize::from(*first) % known.len()];
    let shard = ReadAt::in_memory("fuzz", rest.to_vec());
    if let Ok(found) = survey(&shard, envelope) {
        for column in &found.columns {
            let n = match &column.values {
                Values::Bytes(runs) => runs.len(),
                Values::Fixed { places: FixedPlaces::Offsets(offsets), .. } => offsets.len(),
                Values::Integers(numbers) => numbers.len(),
                Values::Texts(texts) => texts.len(),
                Values::Fixed { .. } | Values::NotStored(_) => continue,
            };
            assert_eq!(n, found.rows, "{column:?}");
        }
    }
    // These are the fields of the golden bundles.
    let fields = [
        Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
        Field::label(),
        Field::fixed(FieldName::parse("mask").unwrap(), Dtype::U16, vec![2, 3]),
    ];
    if let Ok(index) = rebuild_index(&shard, envelope, &fields) {
        let read = Index::parse("fuzz", index, &fields, shard.len_bytes());
        assert!(read.is_ok(), "{read:?}");
    }
});
