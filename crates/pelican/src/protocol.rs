//! What clients and servers of a federation read the same way: names in paths, tokens'
//! claims, checksums. For whoever writes a server.

pub use crate::checksum::{Algorithm, Checksum, Summer};
pub use crate::path::below;
pub use crate::token::{Claims, Profile};
pub use crate::url::{encode_path, is_segment, percent_decode};
