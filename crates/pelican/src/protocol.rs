//! The parts of the protocol that clients and servers share: names in paths, claims of tokens,
//! checksums. This is for programs that implement a server.

pub use crate::checksum::{Algorithm, Checksum, Summer};
pub use crate::path::below;
pub use crate::token::{Claims, Profile};
pub use crate::url::{encode_path, is_segment, percent_decode};
