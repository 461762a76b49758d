//! For any package index and wheels, wheels are chosen or refused.
#![no_main]

#[path = "../src/wheel_index.rs"]
mod wheel_index;

use gular_containers::sif::Arch;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for version in ["2.11.0", "2.11.0+cpu"] {
        for arch in [Arch::Amd64, Arch::Arm64] {
            let Ok(wheels) = wheel_index::wheels_of(text, version, arch) else { continue };
            assert!(wheels.iter().any(|wheel| wheel.name == "torch"), "{wheels:?}");
        }
    }
});
