//! `gular job`: what a user's files hold, found and repaired by the program.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod lint;
mod measure;
mod new;
