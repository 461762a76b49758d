//! Which features separately built packages need from crates that they share.
//!
//! Cargo compiles a crate again for every other set of features, and with it all that depends on
//! it. This package is built together with each set of packages (`Set` in `xtask/src/cargo.rs`) and
//! asks for the features that the other sets need, so that demo, tests, peers and lint compile
//! every crate once. Nothing depends on it; a test of xtask says which features are missing here.

#![forbid(unsafe_code)]
