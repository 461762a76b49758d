//! A manifest that parses is written, and parses again to the same value.
#![no_main]

use gular_bundle::Manifest;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(manifest) = Manifest::parse("fuzz", bytes) {
        assert_eq!(Manifest::parse("fuzz", &manifest.to_bytes()).unwrap(), manifest);
    }
});
