//! Any text is read as every kind of job file, and repaired, without a panic.
#![no_main]

use gular_jobs::lint::read_as_all;
use gular_jobs::nodes::unfold;
use gular_jobs::{Disk, LocalDisk};

/// A folder in which every file has one text, so that files that include themselves are found.
struct Same<'a>(&'a str);

impl Disk for Same<'_> {
    fn len(&self, path: &str) -> Option<u64> {
        (!path.is_empty()).then_some(self.0.len() as u64)
    }

    fn is_folder(&self, path: &str) -> bool {
        path.is_empty()
    }

    fn text(&self, path: &str) -> Option<String> {
        (!path.is_empty()).then(|| self.0.to_owned())
    }

    fn list(&self, _folder: &str) -> Vec<String> {
        vec!["train.py".to_owned()]
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    read_as_all(text, &LocalDisk { folder: "/nonexistent".into() });
    read_as_all(text, &Same(text));
    let _ = unfold(text);
});
