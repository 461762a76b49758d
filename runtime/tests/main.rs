//! The tests of `runtime` from outside, as one program: linking many takes longer than the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod augmentations;
mod checkpoint;
mod derived;
mod epochs;
mod fixtures;
mod loader;
mod metrics;
mod mix;
mod moved_fields;
mod sample_function;
mod sampling;
mod slow_reads;
mod tally;
