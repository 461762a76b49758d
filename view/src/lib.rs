//! Shows a bundle in a browser, and what a loader makes of it.
//!
//! ```text
//! browser ─ GET /SECRET/… ─▶ Server ─▶ Site ─▶ listing, sample, picture   ─▶ bundle
//!                                         └──▶ training, which asks the loader of `runtime`
//! ```
//!
//! The page is three files in `src/page`, without a framework: its texts are set as texts, never as
//! HTML, and its style sheet and script are the only ones that the browser accepts. Indexes are read
//! one after the other as far as an answer needs them, and values one by one. What training runs left
//! (`runs`) is joined with the bundle by key.
//!
//! A [`SavedPage`] is the same page with answers in it, in one file that needs no server.

#![forbid(unsafe_code)]

mod array;
mod client;
mod counts;
mod error;
mod http;
mod join;
mod listing;
mod overlay;
mod pairs;
mod picture;
mod predictions;
mod report_part;
mod runs;
mod sample;
mod sample_name;
mod saved_page;
mod server;
mod site;
mod source_reading;
mod table;
mod training;
mod training_code;
mod turns;
mod values;

pub use array::Stretch;
pub use error::{Error, PictureError, TableError};
pub use picture::{Look, picture};
pub use report_part::{Bar, ReportPart};
pub use runs::Run;
pub use saved_page::SavedPage;
pub use server::Server;
pub use site::Site;
pub use source_reading::{OpenQuestion, OtherReading, SourceReading};
