//! What a lock says of Python packages.

use serde::{Deserialize, Serialize};

use crate::{OciDigest, Package};

/// Python packages of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPython {
    /// The Python they are for: `3.11.2`.
    pub version: String,
    /// The path of a base image's Python: `/opt/conda/bin/python3`; without it Debian's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<String>,
    /// Digest of the files that say which packages are needed.
    pub inputs: OciDigest,
    /// Wheels, by name; one whose URL begins with `./` is beside the recipe.
    #[serde(rename = "wheel", default)]
    pub wheels: Vec<Package>,
}
