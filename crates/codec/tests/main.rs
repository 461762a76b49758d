//! The tests of `codec` from outside, in one program, since linking many takes longer than the
//! tests.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking and says what it skips"
)]

mod fit;
mod fixtures;
mod hostile;
mod jpeg;
#[cfg(feature = "tiff")]
mod pages;
mod png;
mod region;
mod resize;
mod samples;
mod scale;
#[cfg(feature = "tiff")]
mod tiff;
mod tolerated;
mod webp;
