//! The tests of `bundle` from outside, in one program, since linking many takes longer than the
//! tests.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod adopted;
mod arrow;
mod beton;
mod damaged;
mod golden;
mod hdf5;
mod mds;
mod open_shards;
mod parquet;
mod random;
mod round_trip;
mod squashfs;
mod views;
