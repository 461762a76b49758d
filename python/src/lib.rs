//! The Python module `gular._gular`: the loader, and its batches lent to NumPy, PyTorch and JAX.
//!
//! The package in `gular/` is what users see: it chooses ranks, turns arrays into tensors and has
//! its own documentation. This module has what needs Rust. Options are given as JSON, so that each
//! has one name and one check.

mod array;
mod dataset;
mod error;
mod exit;
mod files;
mod function_channels;
mod loader;
mod parse_options;
mod process_local;
mod selection;
mod streams;
mod wait;

use pyo3::prelude::*;

/// The native part of the package `gular`.
#[pymodule]
mod _gular {
    use std::io::Write as _;

    use pyo3::prelude::*;

    #[pymodule_export]
    use super::array::Array;
    #[pymodule_export]
    use super::dataset::Dataset;
    #[pymodule_export]
    use super::error::mask;
    #[pymodule_export]
    use super::exit::at_exit;
    #[pymodule_export]
    use super::files::{Files, ShardFile};
    #[pymodule_export]
    use super::function_channels::Channels;
    #[pymodule_export]
    use super::loader::{Loader, elastic, merge_states, mixed, n_steps, ranks};
    #[pymodule_export]
    use super::wait::Making;

    /// Lets a panic show no secrets, which Rust writes to stderr before Python sees it.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        std::panic::set_hook(Box::new(|info| {
            let _ = writeln!(std::io::stderr(), "{}", gular_runtime::mask_panic(info));
        }));
        Ok(())
    }

    /// Version of the package, which is that of the program `gular`.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
