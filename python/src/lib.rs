//! The Python module `gular._gular`: the loader, and its batches lent to NumPy, PyTorch and JAX.
//!
//! What users see is the package in `gular/`, which chooses ranks, turns arrays into tensors
//! and writes its own documentation; here is what needs Rust. Options come as JSON, so that
//! each has one name and one check.

mod array;
mod augment;
mod dataset;
mod dlpack;
mod error;
mod files;
mod loader;
mod loader_settings;
mod parse_options;
mod process_local;
mod selection;
mod streams;
mod wait;

use pyo3::prelude::*;

/// The native part of the package `gular`.
#[pymodule]
mod _gular {
    #[pymodule_export]
    use super::array::Array;
    #[pymodule_export]
    use super::dataset::Dataset;
    #[pymodule_export]
    use super::files::{Files, ShardFile};
    #[pymodule_export]
    use super::loader::{Loader, merge_states, mixed, n_steps, ranks};

    /// The version of the package and of the program `gular`.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
