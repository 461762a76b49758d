//! What is known about an image besides its tree of files.

use std::collections::BTreeMap;

use crate::oci::Compressor;
use crate::rootfs::RootPath;
use crate::sif::{Arch, Squash};

/// What an image is checked for.
#[derive(Debug, Clone)]
pub struct About<'a> {
    /// Processor the image is for.
    pub arch: Arch,
    /// The format that the image is written in.
    pub form: Form,
    /// The file's name without its folder; `None` before there is one.
    pub file_name: Option<&'a str>,
    /// The file's length in bytes; `None` before there is one.
    pub file_bytes: Option<u64>,
    /// The program that jobs start; `None` when the job brings it.
    pub program: Option<&'a RootPath>,
    /// Environment variables.
    pub env: &'a BTreeMap<String, String>,
    /// Labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The recipe's text, which goes into the image; may be empty.
    pub recipe: &'a str,
    /// Whether the recipe asks for an image without a distribution, so that a missing shell is
    /// intended.
    pub scratch: bool,
    /// Paths of this machine that nothing inside should name: the user's home,
    /// the workspace, temporary folders.
    pub host_paths: &'a [String],
    /// CUDA's version, major and minor, where the lock file knows it.
    pub cuda: Option<(u32, u32)>,
}

/// The format that an image is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// A SIF, its root file system squashed so; `None` when it is stored or unknown.
    Sif(Option<Squash>),
    /// An OCI layout or archive, its layers compressed so; `None` as above.
    Oci(Option<Compressor>),
}
