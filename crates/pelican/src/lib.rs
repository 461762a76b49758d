//! The Pelican/OSDF client: URLs, tokens, reading and writing of objects.
//!
//! Knows nothing of samples or bundles: objects are names and bytes. tokio and
//! hyper stay inside; every public function blocks and takes a cancel flag.
//!
//! ```text
//! Client ─ stream, read ─▶ read ┐
//!        ─ upload ───────▶ upload ├─▶ ask (discovery, director) ─▶ http
//!        ─ stat, list ───▶ stat ┘      token (found, diagnosed)
//!        ─ exchange ───▶ exchange: one request to any server, for protocols of others
//!        ─ examine ────▶ examine: what each server does, for those who look for a fault
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::indexing_slicing, reason = "tests may panic"))]

mod ask;
mod checked_blocks;
mod checksum;
mod client;
mod compare_remote;
mod detour;
mod director;
mod discovery;
mod error;
mod examine;
mod exchange;
mod flight;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod identity;
mod last_good;
mod listing;
mod local;
mod pace;
mod path;
mod plain;
mod preferred;
pub mod protocol;
mod read;
mod receive;
mod redirect;
mod registry;
mod retry;
mod route;
mod routes;
mod servers;
mod sources;
mod stat;
mod token;
mod token_store;
mod upload;
mod url;

pub use checked_blocks::{BLOCK_BYTES, Object, Sink};
pub use client::{Client, ClientOptions, Tell};
pub use compare_remote::{Same, Told};
pub use error::{Attempt, Attempts, Cause, Error, Reach};
pub use examine::{Copy, Examination, Probe, ProbeFault, Role, TokenFacts};
pub use exchange::{Answered, Exchange, ExchangeFault, Trials};
pub use gular_files::Env;
pub use listing::{CollectionListing, CollectionMember, Stat};
pub use plain::{PlainRead, PlainSink};
pub use token::{Action, Diagnosis, Token, TokenError, TokenHeld, TokenPlace, token_places};
pub use token_store::usual_token_file;
pub use upload::{CompareBy, Compared, IfTaken, Upload, Uploaded};
pub use url::{Scheme, Url, UrlError, encode_path, percent_decode};
