//! Finds out which GPUs a library has code for, from its fat binaries, and which libraries it opens
//! at run time.

mod fatbin;
mod loading;

pub use self::fatbin::{Architectures, Capability};
pub use self::loading::from_host;
pub(crate) use self::loading::{matches, opened_by};
