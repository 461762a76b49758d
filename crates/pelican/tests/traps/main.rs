//! Servers that behave as badly as real ones do, and how the client copes.
//!
//! Each check plays one fault that was seen with a real server (XRootD 5.5.3, a
//! cache, a proxy), byte by byte over a socket.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod create_only;
mod federation;
mod fleet;
mod listing;
mod networks;
mod plain;
mod reading;
mod retrying;
mod routes;
mod server;
mod squid;
mod tokens;
mod writing;
