//! The report of a check: all findings.

use serde::Serialize;

use super::driver::{CudaRuntime, DriverRow};
use super::finding::{Finding, Severity};
use super::gpus::GpuTable;

/// The result of checking an image; also its JSON form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// Whether each GPU runs the image; without rows for an image without GPU code.
    pub gpus: GpuTable,
    /// Version of the image's C library, such as `2.36`.
    pub glibc: Option<String>,
    /// Version of CUDA in the image; `None` without GPU code.
    pub cuda_runtime: Option<CudaRuntime>,
    /// The oldest NVIDIA driver that runs the image, such as `525.60.13`.
    pub minimum_driver: Option<String>,
    /// How older drivers run the image, the oldest first; empty without GPU code.
    pub drivers: Vec<DriverRow>,
    /// Bytes of all files of the image, before compression.
    pub bytes: u64,
}

impl CheckReport {
    /// Returns whether the image must be refused: some finding is an error.
    pub fn refused(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}
