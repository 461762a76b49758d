//! Recipes, locks, requirements and Debian's lists are read or refused; a lock that was read is
//! written again to the same text.
#![no_main]

use gular_containers::debian::{Archive, relations};
use gular_containers::lock::ImageLock;
use gular_containers::python::count_named;
use gular_containers::recipe::Recipe;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = count_named(bytes, "fuzz");
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Recipe::parse(text, "fuzz");
    let _ = relations(text);
    let _ = Archive::default().add(text, "fuzz", "https://deb.debian.org/debian");
    if let Ok(lock) = ImageLock::parse(text, "fuzz") {
        let written = lock.to_text();
        assert_eq!(ImageLock::parse(&written, "fuzz").expect("what was written is read"), lock);
    }
});
