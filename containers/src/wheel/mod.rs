//! Python wheels, as sources of the libraries in them: libtorch's and NVIDIA's.
//!
//! No Python runs. Index: PEP 503 (and 592, 658); names of wheels: PEP 427, 503, 600;
//! versions: PEP 440; requirements: PEP 508.

mod closure;
mod index;
mod marker;
mod metadata;
mod remote;
mod requirement;
mod unpack;
mod version;

pub use self::closure::torch;
pub(crate) use self::index::{Offer, machine, offers, source_archive};
pub(crate) use self::marker::{Environment, Marker};
pub(crate) use self::metadata::Metadata;
pub(crate) use self::requirement::{Requirement, normal};
pub(crate) use self::unpack::each_file;
pub use self::unpack::unpack_wheel;
pub(crate) use self::version::Versions;
