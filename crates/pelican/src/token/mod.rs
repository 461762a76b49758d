//! Tokens: where they lie, what they say of themselves, and why a server refuses one.

mod bearer;
#[cfg_attr(not(test), expect(dead_code, reason = "the diagnosis, which reads them, follows"))]
mod claims;

pub use bearer::Token;
