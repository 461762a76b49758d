//! Whatever the record of a checkpoint says, the checkpoint is read or refused.
//!
//! The first byte chooses: even, the rest is the record; odd, its own digest is put behind the
//! rest, without which nothing past the digest would be read.
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
        // There is one file that it could name.
        assert!(loaded.files.values().all(|bytes| bytes == b"abc"));
    }
});
