//! Publishes and fetches bundles, and folders of any files. Only this room knows the published
//! layout, bundle URLs, remote manifests, and the cache of a node.
//!
//! ```text
//! BundleUrl ─▶ Published: the names of its parts ─▶ RemoteBundle: its manifest, checked
//!                                                     │
//! DIR/manifest.json, DIR/data/…  ◀──────── fetch ─────┘
//!       │                        ───────── publish ───▶ data first, manifest last
//!       ▲ Cache: one such folder per bundle, for all processes of a node
//! ```

#![forbid(unsafe_code)]

mod access;
mod artifact;
mod blocks;
mod bundle_files;
mod cache;
mod checkup;
mod data_folder;
mod error;
mod fetch;
mod folder;
mod open;
mod prestage;
mod publish;
mod published;
mod remote;
mod sparse;
mod url;
mod watch;
mod wrong_copy;

pub use access::Access;
pub use artifact::{ARTIFACT_TYPE, ArtifactFile, artifact_files, artifact_title};
pub use blocks::read_blocks;
pub use cache::{Cache, Opened, scratch};
pub use checkup::{Checkup, examine};
pub use error::Error;
// These are argument types of functions here: callers that fetch or stage need no other part of the
// client.
pub use bundle_files::{Blocks, BundleFiles, ManifestFile, has_splits};
pub use fetch::{
    Checked, CopyUsed, FetchOptions, FetchReport, FolderLock, RepairReport, SampleOptions,
    SampleReport, TellWaiting, Trust, Unrepaired, fetch, fetch_from, fetch_object,
    fetch_object_by_blocks, fetch_samples, object_here, repair,
};
pub use folder::{
    DEFAULT_MAX_OBJECTS, Doubtful, Failed, FolderFetch, FolderOptions, FolderReport, fetch_folder,
    publish_folder,
};
pub use gular_files::{Progress, Waiting, Watch};
pub use gular_pelican::{Client, ClientOptions};
pub use open::{BundleOptions, open_bundle};
pub use prestage::{PrestageOptions, PrestageReport, prestage};
pub use publish::{
    PublishOptions, PublishReport, SoundBundle, publish, publish_file, publish_file_with_blocks,
};
pub use published::{Published, Stored};
pub use remote::{Remote, RemoteBundle};
pub use sparse::{GiveValue, Sparse, SparseReport, read_samples};
pub use url::BundleUrl;
pub use wrong_copy::{WrongCopy, wrong_copies};
