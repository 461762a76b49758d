//! A root file system as it will be in the image: paths, modes, links, and the sources of the
//! bytes. Nothing is unpacked to make one.

mod identity;
mod path;
mod programs;
mod tree;

pub(crate) use self::identity::identify;
pub use self::path::RootPath;
pub(crate) use self::path::{bytes_of, text_of};
pub(crate) use self::programs::{find_program, program_folders};
pub use self::tree::{FileBytes, Layer, Node, Rootfs, What};
