//! Libraries in an image that others may not redistribute.

use std::path::Path;

use crate::Result;
use crate::oci::{OciImage, OciLayout};
use crate::rootfs::Layer;
use crate::sif::{ObjectKind, Sif};
use crate::store::Limits;

/// The terms of NVIDIA's libraries, and where to find them.
pub const NVIDIA_TERMS: &str = "\
CUDA's libraries are NVIDIA's, and may be passed on under the terms of the CUDA Toolkit's licence:
unchanged, as a part of an application, with terms that protect them as NVIDIA's do (section 1.1).
  https://docs.nvidia.com/cuda/eula/
cuDNN has a supplement of its own: https://docs.nvidia.com/deeplearning/cudnn/latest/reference/eula.html
The texts are in the image, in /usr/share/licenses.";

/// Returns whether an image contains NVIDIA's libraries: by its own parts, labels and environment
/// where these say so, else by the names of all its files.
///
/// # Errors
/// [`Error::Oci`](crate::Error::Oci) for a layer that cannot be read.
pub fn nvidia_of_image(layout: &OciLayout, image: &OciImage) -> Result<bool> {
    let part = image.layers.iter().any(|layer| layer.part == Some(Layer::Cuda));
    let labels = image.labels.keys().chain(image.labels.values());
    let mut words = labels.chain(image.env.keys()).map(String::as_str);
    if part || words.any(is_nvidia) {
        return Ok(true);
    }
    layout.has_path(image, &Limits::default(), is_library)
}

/// Returns whether a SIF contains NVIDIA's libraries, by its documents and the names of its files;
/// `None` if the documents name none of them, and the names of the files cannot be read.
///
/// # Errors
/// [`Error::Sif`](crate::Error::Sif) for a file that is not one, or a damaged one.
pub fn nvidia_of_sif(path: &Path) -> Result<Option<bool>> {
    let sif = Sif::open(path)?;
    for object in &sif.descriptors {
        if matches!(object.kind, ObjectKind::SpdxJson | ObjectKind::Json) {
            let text = sif.bytes(object)?;
            let text = String::from_utf8_lossy(&text);
            if text.split(['"', '\\', '\n', ' ']).any(is_nvidia) {
                return Ok(Some(true));
            }
        }
    }
    sif.has_path(is_library)
}

/// Libraries of the CUDA Toolkit and of cuDNN, by the beginnings of their names: wheels put a
/// digest behind them.
const LIBRARIES: [&str; 17] = [
    "libcublas",
    "libcudart",
    "libcudnn",
    "libcufft",
    "libcufile",
    "libcupti",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libnpp",
    "libnvblas",
    "libnvfatbin",
    "libnvinfer",
    "libnvJitLink",
    "libnvjpeg",
    "libnvrtc",
    "libnvshmem",
];

/// Whether a path is that of one of NVIDIA's libraries, shared or static.
fn is_library(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let name = String::from_utf8_lossy(name);
    let is_any = name.ends_with(".so") || name.contains(".so.") || name.ends_with(".a");
    is_any && LIBRARIES.iter().any(|start| name.starts_with(start))
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
    fn libraries_are_known_by_their_names() {
        for (path, expected) in [
            ("usr/local/cuda/lib64/libcudart.so.12.4.127", true),
            ("site-packages/torch/lib/libcudart-d0da41ae.so.11.0", true),
            ("libcudnn_ops.so.9", true),
            ("opt/libcudart_static.a", true),
            ("usr/include/libcudart.h", false),
            ("usr/lib/libcuda.so.1", false),
            ("libcudart.so/readme", false),
        ] {
            assert_eq!(is_library(path.as_bytes()), expected, "{path}");
        }
    }

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
