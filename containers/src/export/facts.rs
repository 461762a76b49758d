//! What jobs must request to run an image.

use serde::{Deserialize, Serialize};

use crate::ImageDigest;
use crate::check::CheckReport;
use crate::sif::Arch;

/// Version of the JSON.
const VERSION: u32 = 1;

/// Facts of an image: what `gular job` writes into submit files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImageFacts {
    /// Version of this list of facts, which is 1.
    pub version: u32,
    /// File name of the image.
    pub image: Option<String>,
    /// Bytes of the image, which the disk of a job must have space for.
    pub bytes: Option<u64>,
    /// The digest that identifies the image.
    pub digest: Option<ImageDigest>,
    /// Bytes of all files of the image, unpacked.
    pub unpacked_bytes: u64,
    /// Architecture of the image, `amd64` or `arm64`.
    pub arch: String,
    /// Lowest compute capability that runs the image, such as `7.5`; `None` without GPU code.
    pub minimum_capability: Option<String>,
    /// Highest compute capability that the image has code for; newer GPUs of another major number
    /// do not run it.
    pub maximum_capability: Option<String>,
    /// Compute capabilities of the machine code in the image's libraries.
    pub capabilities: Vec<String>,
    /// Version of CUDA in the image, such as `13.0`.
    pub cuda_runtime: Option<String>,
    /// Oldest NVIDIA driver that runs the image, such as `580.65.06`.
    pub minimum_driver: Option<String>,
    /// Version of the image's C library, such as `2.36`.
    pub glibc: Option<String>,
}

impl ImageFacts {
    /// Collects the facts of an image that was checked, before it is written.
    pub fn of(report: &CheckReport, arch: Arch) -> Self {
        let cuda = report.cuda_runtime.as_ref();
        let version = cuda.map(|cuda| match cuda.minor {
            Some(minor) => format!("{}.{minor}", cuda.major),
            None => cuda.major.to_string(),
        });
        Self {
            version: VERSION,
            image: None,
            bytes: None,
            digest: None,
            unpacked_bytes: report.bytes,
            arch: arch.name().to_owned(),
            minimum_capability: report.gpus.minimum.clone(),
            maximum_capability: report.gpus.capabilities.last().cloned(),
            capabilities: report.gpus.capabilities.clone(),
            cuda_runtime: version,
            minimum_driver: report.minimum_driver.clone(),
            glibc: report.glibc.clone(),
        }
    }

    /// Collects the facts of an image file.
    #[must_use]
    pub fn of_file(mut self, name: &str, bytes: u64, digest: Option<ImageDigest>) -> Self {
        self.image = Some(name.to_owned());
        self.bytes = Some(bytes);
        self.digest = digest;
        self
    }

    /// Returns the facts that are stored as labels: name and value.
    pub fn labels(&self) -> Vec<(&'static str, String)> {
        let capabilities = (!self.capabilities.is_empty()).then(|| self.capabilities.join(" "));
        let all = [
            ("org.gular.gpu.capabilities", capabilities),
            ("org.gular.cuda.runtime", self.cuda_runtime.clone()),
            ("org.gular.driver.minimum", self.minimum_driver.clone()),
            ("org.gular.glibc", self.glibc.clone()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
