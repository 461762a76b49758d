//! Which GPUs a library has code for, read from its fat binaries.

mod fatbin;

pub use self::fatbin::{Architectures, Capability};
