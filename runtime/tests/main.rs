//! The tests of `runtime` from outside, as one program: linking many takes longer than the tests.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking and says when it skips"
)]

mod checkpoint;
mod epochs;
mod fixtures;
mod loader;
mod metrics;
mod mix;
mod orders;
mod pytorch_vectors;
mod sampling;
mod slow_reads;
mod tally;
