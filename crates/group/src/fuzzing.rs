//! Parses bytes as if other machines had sent them, and asserts what must hold for any bytes. For
//! fuzzers.

use crate::wire::{Greeting, HELLO_BYTES, Hello, MAX_PAYLOAD, Message};

/// The first bytes of a rank that comes.
///
/// # Panics
/// When they are written again to other bytes.
pub fn hello(bytes: &[u8]) {
    if let Greeting::Known(hello) = Hello::parse(bytes) {
        assert_eq!(bytes.get(..HELLO_BYTES), Some(hello.encode().as_slice()));
    }
}

/// Message after message.
///
/// # Panics
/// When one cannot be read again after it was written.
pub fn messages(mut bytes: &[u8]) {
    while let Ok(Some((message, len))) = Message::decode(bytes, MAX_PAYLOAD) {
        let again = message.encode();
        // Long reasons are shortened when they are written.
        assert!(
            matches!(Message::decode(&again, MAX_PAYLOAD), Ok(Some((_, n))) if n == again.len())
        );
        bytes = bytes.get(len..).expect("a message is not longer than what it was read from");
    }
}
