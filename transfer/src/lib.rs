//! Brings published bundles to this machine, and keeps them there.
//!
//! ```text
//! NAME/data/<split>-<16 hex>.<ext>   shards and indexes, shared by all versions
//! NAME/<version>/manifest.json       written last
//! ```

mod cache;
mod error;
mod fetch;

pub use cache::{Cache, Opened, Progress, open_bundle, scratch};
pub use error::Error;
pub use fetch::{
    BundleUrl, FetchOptions, FetchReport, FolderLock, RemoteBundle, Trust, fetch, fetch_object,
    fetch_trusting,
};
