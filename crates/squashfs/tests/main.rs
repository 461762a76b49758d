//! The tests of `squashfs` from outside, in one program, since linking many takes longer than the
//! tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backhand;
mod contents;
mod parts;
mod read;
