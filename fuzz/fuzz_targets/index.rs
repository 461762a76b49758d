//! No index that parses has a range outside its shard. A view that parses selects samples that its
//! index has, and is written again to the same bytes, as is the block tree of a file.
//!
//! The input is a view, or the shard's length, eight bytes with the smallest first, and the index.
#![no_main]

use gular_bundle::{BlockTree, BundlePath, Dtype, Field, FieldName, Index, Row, View};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok((digest, view)) = View::parse("fuzz", bytes) {
        assert_eq!(view.to_bytes(digest), bytes);
        for row in Row::first(view.n_samples()) {
            let stored = view.stored(row).unwrap();
            assert!(stored.0 < view.n_stored());
            let _ = view.label(stored);
        }
        return;
    }
    if let Ok(tree) = BlockTree::parse_list("fuzz", bytes) {
        assert_eq!(BlockTree::parse_list("fuzz", &tree.to_list().unwrap()).unwrap(), tree);
        return;
    }
    let Some((len, index)) = bytes.split_first_chunk() else { return };
    let shard_bytes = u64::from_le_bytes(*len);
    // These are the fields of the golden bundles.
    let fields = [
        Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
        Field::label(),
        Field::fixed(FieldName::parse("mask").unwrap(), Dtype::U16, vec![2, 3]),
    ];
    let Ok(index) = Index::parse("fuzz", index, &fields, shard_bytes) else { return };
    for row in index.rows() {
        BundlePath::parse(index.key(row).unwrap()).unwrap();
        for field in index.fields() {
            // The shard has no bytes of a label.
            if index.is_index_only(field) {
                continue;
            }
            let (offset, len) = index.range(row, field).unwrap();
            assert!(offset.checked_add(len as u64).is_some_and(|end| end <= shard_bytes));
        }
    }
});
