//! The tests of `pack` from outside, as one program: linking many takes longer than the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adopt;
mod archives;
mod convert;
mod derive;
mod fields;
mod interrupted;
mod labels;
mod pack;
mod payload;
mod refused;
mod scenes;
mod support;
mod tolerated;
