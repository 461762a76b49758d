//! Which GPUs a library has code for, read from its fat binaries; what it opens
//! at run time.

mod fatbin;
mod loading;

pub use self::fatbin::{Architectures, Capability};
pub use self::loading::from_host;
pub(crate) use self::loading::{matches, opened_by};
