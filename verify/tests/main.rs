//! The tests of `verify` from outside, in one program, since linking many takes longer than the
//! tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acceptance;
mod precision;
mod published;
mod support;
mod verify;
