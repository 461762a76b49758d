//! A client for OCI registries: images, SIFs and other files are manifests and blobs to it.
//!
//! ```text
//! HOST/REPOSITORY[:TAG][@DIGEST]
//!
//! Registry ─ challenge, credentials, token ─▶ pelican's client (connections, proxies, retries)
//!    ├─ manifest   the document of a tag or digest
//!    ├─ ranges     a blob in ranges side by side, passed on in order
//!    ├─ upload     a blob that is missing: mounted, or in chunks that go on where they were
//!    ├─ push       blobs, then the manifest that names them
//!    └─ artifact   files: a manifest with one blob per file
//! ```
//!
//! Specification: opencontainers/distribution-spec 1.1, and docker's of tokens.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]

mod answer;
mod artifact;
mod blob;
mod challenge;
mod credentials;
mod digest;
mod error;
mod manifest;
mod push;
mod ranges;
mod reference;
mod session;
mod upload;

pub use self::artifact::{Artifact, ArtifactBlob, NewArtifact, push_artifact, read_artifact};
pub use self::blob::{Blob, BlobBytes};
pub use self::digest::{NotADigest, OciDigest, Sha256, StreamSha256};
pub use self::error::{Error, Result};
pub use self::manifest::{Document, INDEX_TYPES, MANIFEST_TYPES, MAX_MANIFEST_BYTES};
pub use self::push::{Pushed, Pushing, push};
pub use self::reference::{NotAReference, Reference};
pub use self::session::Registry;
pub use gular_pelican::{Client, ClientOptions};
