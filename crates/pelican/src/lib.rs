//! The Pelican/OSDF client: URLs, tokens, reading and writing of objects.
//!
//! Knows nothing of samples or bundles: objects are names and bytes. tokio and
//! hyper stay inside; every public function blocks and takes a [`Watch`], of which most use only its cancelling.
//!
//! ```text
//! Client ─ stream, read, stat, list, examine ─▶ Reader ┐
//!        ─ upload ────────────────────────────▶ Writer ┴▶ Router (discovery, director) ─▶ http
//!        ─ exchange: one request to any server                └▶ Credentials (found, diagnosed)
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::indexing_slicing, reason = "tests may panic"))]

mod checksum;
mod client;
mod compare_remote;
mod credentials;
mod director;
mod error;
mod examine;
mod exchange;
#[doc(hidden)]
pub mod fleet;
mod flight;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod identity;
mod listing;
mod local;
mod options;
mod pace;
mod path;
mod plain;
pub mod protocol;
mod read;
mod reader;
mod retry;
mod route;
mod router;
mod stat;
mod token;
mod token_store;
mod upload;
mod url;
mod writer;

pub use client::Client;
pub use compare_remote::{Same, Told};
pub use error::{Attempt, Attempts, Cause, Error, Reach};
pub use examine::{Copy, Examination, Probe, ProbeFault, Role, TokenFacts};
pub use exchange::{Answered, Exchange, ExchangeFault, Trials, url_of_location};
pub use gular_files::{Env, Watch};
pub use http::Server;
pub use listing::{CollectionListing, CollectionMember, Stat};
pub use options::{ClientOptions, Tell};
pub use plain::{NotChecked, PlainRead, PlainSink};
pub use reader::checked_blocks::{Accept, BLOCK_BYTES, Object, Sink};
pub use reader::wrong_bytes::WrongBytes;
pub use token::{Action, Diagnosis, Token, TokenError, TokenHeld, TokenPlace, token_places};
pub use token_store::usual_token_file;

pub use url::{Scheme, Url, UrlError, encode_path, percent_decode};
pub use writer::job::{CompareBy, Compared, IfTaken, Listed, Upload, Uploaded};
