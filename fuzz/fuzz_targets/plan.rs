//! A line of a plan that parses is written again to a line that parses to the same value. A filter
//! that parses either takes a sample or does not.
#![no_main]

use gular_bundle::{Dtype, Facts, Field, FieldName, Filter, Split};
use gular_pack::parse_plan_line;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    // These are the fields in the seed.
    let fields = [
        Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
        Field::label(),
        Field::fixed(FieldName::parse("cloud").unwrap(), Dtype::F64, vec![]),
    ];
    let classes = ["cat", "dog"].map(str::to_owned);
    if let Ok(filter) = Filter::parse(line, &fields, &classes) {
        let (key, split, label, bytes) = (line, Split::Val, Some(1), 7);
        let mut facts = Facts { key, split, label, bytes, value: &mut |_| Ok(vec![0; 8]) };
        filter.takes(&mut facts, &classes).unwrap();
    }
    let Some((key, label, bytes, values)) = parse_plan_line(line) else { return };
    let written = format!("{label}\t{bytes}\t{key}\t{values}");
    assert_eq!(parse_plan_line(&written), Some((key, label, bytes, values)));
});
