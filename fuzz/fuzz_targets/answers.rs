//! Any answer of a federation's servers is read or refused: a director's headers, a listing, the
//! claims of a token.
#![no_main]

use gular_pelican::fuzzing::{claims, director, listing};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    match first % 3 {
        0 => director(rest),
        1 => listing(rest),
        _ => claims(rest),
    }
});
