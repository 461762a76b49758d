//! Any record of a checkpoint is read or refused.
//!
//! The first byte chooses: if it is even, the rest is the record; if it is odd, the digest of the
//! rest is appended, without which nothing past the digest would be read.
#![no_main]

use std::fs;

use gular_bundle::Digest;
use gular_runtime::checkpoint::{RECORD_NAME, read_checkpoint};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let mut record = rest.to_vec();
    if first % 2 == 1 {
        let digest = Digest::of(rest);
        record.extend(format!("  \"digest\": \"{digest}\"\n}}\n").into_bytes());
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::write(dir.path().join(RECORD_NAME), record).expect("a file");
    fs::write(dir.path().join("model"), b"abc").expect("a file");
    if let Ok(loaded) = read_checkpoint(dir.path()) {
        // This is the only file that the record can name.
        assert!(loaded.files.values().all(|bytes| bytes == b"abc"));
    }
});
