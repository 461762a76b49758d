//! One copy of the data for all processes of a node, in memory or on its disk.
//!
//! ```text
//! bundle, folder or URL ──── measured ─▶ BASE/gular-stage-UID/NAME.part/   grows, checked
//!                             │                              NAME/        whole: shared
//!          memory, cgroups, free space: before a byte        nothing      the last one left
//! ```
//!
//! NAME is the bundle's digest, so that all ranks of a job use one copy: the first makes it, the
//! others wait and share it, the last removes it. A copy that a killed rank left is removed by the
//! next run, whatever that stages. Shards that are SquashFS images can be mounted instead, where
//! they are; then NAME contains the mounts.

#![forbid(unsafe_code)]

mod copy;
mod error;
mod folder;
mod make_folder;
mod measured_space;
mod memory;
mod mount;
mod need;
mod options;
mod recognise;
mod source;
mod staged;
mod target_folder;

pub use error::{Error, Unfit};
pub use measured_space::StageTo;
pub use memory::SpaceLimit;
pub use options::StageOptions;
pub use staged::{StageReport, Staged, plan, stage};
