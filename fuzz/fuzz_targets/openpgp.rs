//! Keys and signed texts are read or refused, and only texts that Debian signed are accepted.
#![no_main]

use gular_containers::debian::Keyring;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut keyring = Keyring::default();
    let _ = keyring.add(bytes, "fuzz");
    let _ = keyring.verify(bytes, gular_containers::UnixTime(0), "fuzz");
    let debian = Keyring::debian().expect("keys that this build has");
    assert!(
        debian.verify(bytes, gular_containers::UnixTime(0), "fuzz").is_err(),
        "a signature was forged"
    );
});
