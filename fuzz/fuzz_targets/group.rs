//! Anything that another machine sends to a rank is read or refused: the first bytes of a
//! connection, then messages one after another.
#![no_main]

use gular_group::fuzzing::{hello, messages};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    match first % 2 {
        0 => hello(rest),
        _ => messages(rest),
    }
});
