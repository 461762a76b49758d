//! Selects samples by a condition that people write.
//!
//! ```text
//! class = cat,dog and not key ~ '*/draft/*' and (bytes > 10000 or split != train)
//! ```
//!
//! Names are `key`, `split`, `class`, `label`, `bytes` (of the image as it is stored), and the
//! fields that hold one number or a text. `=` and `!=` compare with one value or with several,
//! `<`, `<=`, `>` and `>=` with a number, `~` and `!~` with a pattern in which `*` is any text
//! and `?` one character.

mod condition;
mod eval;
mod number;
mod parse;

pub use condition::{Facts, Filter, FilterError};
