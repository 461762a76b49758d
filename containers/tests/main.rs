//! The tests of `containers` from outside, as one program: linking many takes longer than the tests.

#![expect(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by panicking and says what it skips"
)]

mod base;
mod base_packages;
mod blocks;
mod check;
mod conda;
mod convert;
mod elf;
mod fetch;
mod lock;
mod make;
mod oci;
mod oci_read;
mod openpgp;
mod python;
mod recipe;
mod registry;
mod replay;
mod sbom;
#[path = "../../crates/registry/tests/shop/mod.rs"]
mod shop;
mod sif;
mod sif_unpack;
mod steps;
mod store;
mod stored_image;
mod support;
mod wheel;
