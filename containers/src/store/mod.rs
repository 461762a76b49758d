//! Unpacked archives on this machine, named by the digest of the archive.
//!
//! ```text
//! STORE/<sha256>/listing.json   paths, modes, links, and the number of each file's bytes
//! STORE/<sha256>/0, 1, 2, …     files' bytes
//! ```
//!
//! Names in an archive become text in the listing, never names on the disk: no
//! `..`, link or device in it can reach anything. A folder appears by a rename,
//! whole; it is never changed afterwards.

mod archive;
mod layer;
mod listing;
mod sparse;

pub use self::archive::{Control, Limits, deb_control, unpack_deb, unpack_tar};
pub(crate) use self::archive::{each_path, each_time};
pub use self::listing::{Entry, Filling, LeftOut, Listing, MemberKind, Store};
