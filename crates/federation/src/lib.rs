//! A Pelican federation for development: discovery, director, origin and cache in
//! one process, for tutorials and tests.
//!
//! ```text
//!                     ┌ discovery, director, issuer   https://localhost:PORT
//!  client ── TLS ─────┼ origin  ── DIR/origin/        https://localhost:…
//!                     └ cache   ── DIR/cache/         https://localhost:…
//!
//!  DIR/ca.pem           what clients must trust
//!      ca-key.pem       its key (0600)
//!      token-key.der    signs tokens (0600)
//!      federation.json  where it serves, for `mint`
//!      lock             held while it serves
//!      .gular-partial/  uploads and copies not yet whole
//! ```
//!
//! It is for this machine alone: it listens on 127.0.0.1 only, its certificates are valid for this
//! machine only, and its tokens for an hour at most. Its answers are those of Pelican's own
//! services, as far as clients look at them; for example, a cache never learns of a change.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::indexing_slicing, reason = "tests may panic"))]

mod access;
mod authority;
mod body;
mod cache;
mod collection;
mod counters;
mod director;
mod error;
mod folder;
mod issuer;
mod line;
mod mint;
mod multistatus;
mod name;
mod object;
mod options;
mod origin;
mod range;
mod reply;
mod serve;
mod server;
mod store;

pub use counters::Counts;
pub use director::Trouble;
pub use error::Error;
pub use mint::{MAX_LIFETIME, TokenRequest, mint};
pub use options::{Caches, Options, Origin};
pub use server::Federation;
