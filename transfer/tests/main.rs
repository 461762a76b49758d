//! The tests of `transfer` from outside, in one program, since linking many takes longer than the
//! tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod artifact;
mod fetch;
mod find;
mod fixtures;
mod folder;
mod last_good;
mod mend;
mod publish;
mod sparse;
