//! Fetches a published bundle to this machine, and checks every byte as it arrives.
//!
//! ```text
//! URL#blake3=… ─▶ manifest.json (digest) ─▶ index of a shard (digest) ─▶ its blocks,
//!                                                  block.cv checks each 1 MiB │
//! DIR/data/.gular-tmp-fetch-NAME   grows by checked blocks  ◀────────────────┘
//! DIR/data/NAME                    fsync, rename, 0444
//! DIR/manifest.json                last
//! ```
//!
//! If a run is killed, the next one checks what is there and continues after it.

mod bundle;
mod disk;
mod fetch_report;
mod folder;
mod mender;
mod object;
mod repair;
mod samples;
mod streamed;
mod work_folder;

pub use bundle::{FetchOptions, Trust, fetch, fetch_from};
pub use disk::FolderLock;
pub(crate) use disk::{Partial, check_space};
pub use fetch_report::{Checked, FetchReport};
pub(crate) use mender::Mender;
pub(crate) use object::{ObjectJob, missing};
pub use object::{fetch_object, fetch_object_by_blocks, object_here};
pub use repair::{CopyUsed, RepairReport, Unrepaired, repair};
pub use samples::{SampleOptions, SampleReport, fetch_samples};
pub use streamed::TellWaiting;
pub(crate) use streamed::{Streamed, keep_whole};
