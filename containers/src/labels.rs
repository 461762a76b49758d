//! What an image's labels say about it, read without unpacking the image.

use std::collections::BTreeMap;
use std::path::Path;

use crate::oci::OciLayout;
use crate::sif::{Arch, Sif};
use crate::{Error, Result};

/// Longest list of labels that is read.
const MAX_BYTES: u64 = 16 << 20;

/// An image's form, size and labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLabels {
    /// Whether the image is a SIF; otherwise it is an OCI layout or archive.
    pub is_sif: bool,
    /// Bytes of the image on the disk.
    pub bytes: u64,
    /// Labels by name.
    pub values: BTreeMap<String, String>,
}

impl ImageLabels {
    /// Reads the labels of a `.sif`, of the folder of an OCI layout, or of an OCI archive. A SIF
    /// whose root file system cannot be looked into, as an encrypted one, has none.
    ///
    /// # Errors
    /// [`Error::Sif`], [`Error::Archive`] and others for what is not an image, or a damaged one.
    pub fn read(path: &Path) -> Result<Self> {
        if Sif::is_meant(path)? {
            let sif = Sif::open(path)?;
            let text = sif.text(".singularity.d/labels.json", MAX_BYTES).unwrap_or_default();
            let values = serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default();
            let bytes = std::fs::metadata(path).map_err(Error::io("read", path))?.len();
            return Ok(Self { is_sif: true, bytes, values });
        }
        let layout = OciLayout::open(path)?;
        let of = |arch| layout.image(None, arch);
        let image = of(Arch::Amd64).or_else(|error| of(Arch::Arm64).map_err(|_| error))?;
        let bytes = image.layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.bytes));
        Ok(Self { is_sif: false, bytes, values: image.labels })
    }

    /// The lowest compute capability that it has code for, if it says so.
    pub fn minimum_capability(&self) -> Option<&str> {
        self.values.get("org.gular.gpu.capabilities")?.split_whitespace().next()
    }

    /// The CUDA version that its driver must know, if it says so.
    pub fn cuda_runtime(&self) -> Option<&str> {
        self.values.get("org.gular.cuda.runtime").map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_is_an_error_and_capabilities_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sif");
        std::fs::write(&path, b"#!/usr/bin/env run-singularity\n").unwrap();
        assert!(matches!(ImageLabels::read(&path), Err(Error::Sif { .. })));
        assert!(ImageLabels::read(dir.path()).is_err());
        let values =
            [("org.gular.gpu.capabilities", "7.5 8.0"), ("org.gular.cuda.runtime", "13.0")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let labels = ImageLabels { is_sif: true, bytes: 0, values };
        assert_eq!(
            (labels.minimum_capability(), labels.cuda_runtime()),
            (Some("7.5"), Some("13.0"))
        );
        let none = ImageLabels { values: BTreeMap::new(), ..labels };
        assert_eq!((none.minimum_capability(), none.cuda_runtime()), (None, None));
    }
}
