//! SIF, the Singularity image format: one file that contains a root file system and its
//! description.
//!
//! ```text
//! 0      header, 128 bytes
//! 4096   descriptors, 585 bytes each, `capacity` of them
//! then   objects one after the other; partitions start at multiples of 4096
//! ```
//!
//! All integers are little-endian. There is no specification but the source of the Sylabs library
//! (sylabs/sif, v2). Our files have the same bytes as those of that library, which a peer test
//! checks.

mod format;
mod image;
mod read;
mod squash;
mod unpack;
mod write;

pub use self::image::{Contents, Squash, WrittenSif, write_image};
pub use self::read::{Descriptor, Sif};
pub use self::write::{Settings, Writer};

/// Processor an image runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arch {
    /// x86-64.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

impl Arch {
    /// The name in Go and OCI, such as `amd64`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    fn code(self) -> [u8; 3] {
        match self {
            Self::Amd64 => *b"02\0",
            Self::Arm64 => *b"04\0",
        }
    }

    fn from_code(code: [u8; 3]) -> Option<Self> {
        [Self::Amd64, Self::Arm64].into_iter().find(|arch| arch.code() == code)
    }
}

/// The kind of an object in a SIF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// The recipe's text, as `inspect --deffile` shows it.
    Deffile,
    /// The root file system: a SquashFS image.
    RootPartition(Arch),
    /// JSON; the object's name says which document it is.
    Json,
    /// A list of what is inside, SPDX as JSON.
    SpdxJson,
    /// A kind that this module does not write: the number of its type.
    Other(u32),
}
