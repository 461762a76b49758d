//! What parses as a line of a plan is written again to a line that parses to the same.
#![no_main]

use gular_pack::parse_plan_line;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    let Some((key, label, bytes, values)) = parse_plan_line(line) else { return };
    let written = format!("{label}\t{bytes}\t{key}\t{values}");
    assert_eq!(parse_plan_line(&written), Some((key, label, bytes, values)));
});
