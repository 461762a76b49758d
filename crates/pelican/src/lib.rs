//! Pelican/OSDF: URLs, tokens, reading and writing of objects.
//!
//! Knows nothing of samples or bundles: objects are names and bytes. tokio and
//! hyper stay inside; every public function blocks and takes a cancel flag.

#[cfg_attr(not(test), expect(dead_code, reason = "the client, which compares them, follows"))]
mod checksum;
#[cfg_attr(not(test), expect(dead_code, reason = "the client, which asks directors, follows"))]
mod director;
mod env;
#[cfg_attr(not(test), expect(dead_code, reason = "the client, which lists, follows"))]
mod listing;
mod path;
#[cfg_attr(not(test), expect(dead_code, reason = "the client, which needs tokens, follows"))]
mod token;
mod url;

pub use env::Env;
pub use listing::Entry;
pub use token::{Action, Diagnosis, Finder, Token, TokenError};
pub use url::{Scheme, Url, UrlError};
