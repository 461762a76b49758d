//! Whose libraries an image passes on.

use std::path::Path;

use crate::Result;
use crate::oci::Image;
use crate::rootfs::Layer;
use crate::sif::{Kind, Sif};

/// What holds for NVIDIA's libraries, and where it is written.
pub const NVIDIA_TERMS: &str = "\
CUDA's libraries are NVIDIA's, and may be passed on under the terms of the CUDA Toolkit's licence:
unchanged, as a part of an application, with terms that protect them as NVIDIA's do (section 1.1).
  https://docs.nvidia.com/cuda/eula/
cuDNN has a supplement of its own: https://docs.nvidia.com/deeplearning/cudnn/latest/reference/eula.html
The texts are in the image, in /usr/share/licenses.";

/// Whether an image holds NVIDIA's libraries, by its layers, labels and environment.
pub fn nvidia_of_image(image: &Image) -> bool {
    let part = image.layers.iter().any(|layer| layer.part == Some(Layer::Cuda));
    let labels = image.labels.keys().chain(image.labels.values());
    let env = image.env.keys();
    part || labels.map(String::as_str).any(is_nvidia) || env.map(String::as_str).any(is_nvidia)
}

/// The same of a SIF, by its documents.
///
/// # Errors
/// [`Error::Sif`](crate::Error::Sif) for a file that is not one.
pub fn nvidia_of_sif(path: &Path) -> Result<bool> {
    let sif = Sif::open(path)?;
    for object in &sif.descriptors {
        if matches!(object.kind, Kind::SpdxJson | Kind::Json) {
            let text = sif.bytes(object)?;
            let text = String::from_utf8_lossy(&text);
            if text.split(['"', '\\', '\n', ' ']).any(is_nvidia) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Names of wheels, and of the labels and variables that CUDA's own images have.
fn is_nvidia(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["nvidia-c", "nvidia-nccl", "nvidia-nv", "org.gular.cuda", "nv_cuda", "nv_cudnn"]
        .iter()
        .any(|start| word.starts_with(start))
        || word == "cuda_version"
        || word == "nvarch"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_the_libraries_is_told_from_what_names_the_company() {
        for (word, expected) in [
            ("nvidia-cudnn-cu13", true),
            ("nvidia-cublas", true),
            ("org.gular.cuda.runtime", true),
            ("CUDA_VERSION", true),
            ("NV_CUDA_LIB_VERSION", true),
            ("NVIDIA_VISIBLE_DEVICES", false),
            ("maintainer", false),
            ("torch", false),
        ] {
            assert_eq!(is_nvidia(word), expected, "{word}");
        }
    }
}
