//! Any text is read as every kind of job file, and repaired, without a panic.
#![no_main]

use gular_jobs::LocalDisk;
use gular_jobs::fuzzing::read_as_all;
use gular_jobs::nodes::unfold;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // No file that the text names exists, so that one text stands for one file.
    read_as_all(text, &LocalDisk { folder: "/nonexistent".into() });
    let _ = unfold(text);
});
