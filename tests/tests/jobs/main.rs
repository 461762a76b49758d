//! `gular job`: the program finds faults in a user's files, and repairs them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lint;
mod measure;
mod new;
mod translate;
mod why;
