//! The libraries that programs and libraries need: read from their ELF headers, and searched in an
//! image as `ld.so` would.
//!
//! ELF: System V ABI, with GNU's symbol versions; the search: ld.so(8).

mod closure;
mod facts;
mod folders;

pub(crate) use self::closure::Linker;
pub use self::closure::{Closure, LinkFault, closure};
pub use self::facts::ElfFacts;
