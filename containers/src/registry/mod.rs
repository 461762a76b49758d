//! Images and other files in registries: pushes and pulls them, and defines how a SIF is stored
//! there.
//!
//! ```text
//! docker://HOST/REPOSITORY[:TAG][@DIGEST]   an image: manifest, configuration, layers
//! oras://HOST/REPOSITORY[:TAG][@DIGEST]     an artifact of one layer: a SIF, as Apptainer has it
//! oci://HOST/REPOSITORY[:TAG][@DIGEST]      an artifact of files
//!
//! Registry ─ challenge, credentials, token ─▶ Wire (the program's client)
//!    ├─ base   an image that another begins with: its digest once, its blobs by that
//!    ├─ pull   manifest by digest, blobs in ranges side by side, each byte hashed as it comes
//!    └─ push   blobs that are missing: mounted, or in chunks that go on where they were
//! ```
//!
//! Specification: opencontainers/distribution-spec 1.1, and docker's of tokens.

mod answer;
mod artifact;
mod base;
mod challenge;
mod credentials;
mod manifest;
mod origin;
mod pull;
mod push;
mod ranges;
mod session;
mod sif;
mod terms;
mod upload;

pub use self::artifact::{
    Artifact, ArtifactBlob, NewArtifact, push_artifact, read_artifact, read_blob, stream_blob,
};
pub(crate) use self::base::{Kept, look_up};
pub use self::challenge::{Challenge, challenges};
pub use self::credentials::{Credentials, Login, find};
pub use self::pull::{Pulled, Pulling, pull_image};
pub use self::push::{Pushed, Pushing, push_image};
pub use self::session::{Registry, Scope};
pub use self::sif::{SIF_LAYER, pull_sif, push_sif};
pub use self::terms::{NVIDIA_TERMS, nvidia_of_image, nvidia_of_sif};
pub use crate::reference::{NotAReference, Reference};
pub use crate::wire::{Answer, Method, Registries, Request, Retries, Secret, Wire, WireFault};
