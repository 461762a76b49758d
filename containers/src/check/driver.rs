//! Finds the CUDA version in an image, and the oldest driver that works with it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::finding::Finding;
use super::gpus::GpuTable;
use super::inventory::Inventory;

/// Oldest Linux driver by CUDA's major number: within one, newer minor numbers
/// run on the driver of the first ("CUDA minor version compatibility" of
/// NVIDIA's CUDA compatibility guide, table of minimum required drivers).
const DRIVERS: [(u32, &str); 3] = [(11, "450.80.02"), (12, "525.60.13"), (13, "580.65.06")];

/// For drivers of an older CUDA than the image's, by CUDA's major number: what runs on them.
const OLDER: [(u32, &str); 2] = [
    // The last that PyTorch built for it; other indexes than the usual one have it.
    (
        11,
        "drivers for CUDA 11 only are not supported; libtorch 2.7.0 built for CUDA 11.8 (`torch==2.7.0+cu118`) runs there",
    ),
    (12, "libtorch 2.7.0, which is built for CUDA 12.6, runs there: `torch = \"2.7.0\"`"),
];

/// How drivers for one version of CUDA run an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriverRow {
    /// Major version of CUDA that these drivers are for.
    pub cuda: u32,
    /// The oldest driver for this version of CUDA.
    pub from: &'static str,
    /// The oldest driver for the next version of CUDA; `None` for the newest version that is known.
    pub below: Option<&'static str>,
    /// Whether these drivers run the image.
    pub runs: bool,
    /// What would run on these drivers instead, if they do not run the image.
    pub instead: Option<&'static str>,
}

/// A row for each CUDA that there are drivers for; none without GPU code.
pub(super) fn rows(cuda: Option<&CudaRuntime>) -> Vec<DriverRow> {
    let Some(cuda) = cuda else { return Vec::new() };
    let below = DRIVERS.iter().skip(1).map(|(_, driver)| Some(*driver)).chain([None]);
    let rows = DRIVERS.iter().zip(below).map(|((major, from), below)| {
        let runs = *major >= cuda.major;
        let older = OLDER.iter().find(|(older, _)| !runs && older == major);
        DriverRow { cuda: *major, from, below, runs, instead: older.map(|(_, what)| *what) }
    });
    rows.collect()
}

/// CUDA's runtime in an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CudaRuntime {
    /// The major version, as in `libcudart.so.12`.
    pub major: u32,
    /// The minor version, if a file's name or the lock file has it.
    pub minor: Option<u32>,
    /// Where the version was found: a path in the image, or `image.lock`.
    pub from: String,
}

/// The oldest Linux driver for CUDA of this major number, such as `525.60.13`.
pub fn minimum_driver(cuda_major: u32) -> Option<&'static str> {
    DRIVERS.iter().find(|(major, _)| *major == cuda_major).map(|(_, driver)| *driver)
}

pub(super) fn check(
    inventory: &Inventory<'_>,
    gpus: &GpuTable,
    findings: &mut Vec<Finding>,
) -> Option<CudaRuntime> {
    // libtorch's CPU library links CUDA's runtime and needs no driver.
    if gpus.libraries.is_empty() {
        return None;
    }
    let majors = runtimes(inventory);
    if majors.len() > 1 {
        let text = |(major, from): (&u32, &String)| format!("{major} (`{from}`)");
        let text = majors.iter().map(text).collect::<Vec<_>>().join(", ");
        findings.push(
            Finding::warning(
                "cuda-mixed",
                "libcudart",
                format!("CUDA of several versions: {text}"),
            )
            .hint("take all CUDA libraries from the wheels of one version of torch"),
        );
    }
    let known = inventory.about.cuda.map(|(major, minor)| CudaRuntime {
        major,
        minor: Some(minor),
        from: "image.lock".to_owned(),
    });
    let cuda = known.or_else(|| {
        let (major, from) = majors.last_key_value()?;
        let versions = inventory.tree.iter().filter_map(|(path, _)| {
            // Files whose names contain both numbers, whatever else they are.
            let numbers = version(path.name(), "libcudart.so.")
                .or_else(|| version(path.name(), "libnvrtc-builtins.so."))
                .or_else(|| wheel(path.name()))?;
            Some((numbers.0, numbers.1?, path.to_string()))
        });
        let minor = versions.filter(|(found, _, _)| found == major).max();
        Some(match minor {
            Some((major, minor, from)) => CudaRuntime { major, minor: Some(minor), from },
            None => CudaRuntime { major: *major, minor: None, from: from.clone() },
        })
    });
    if cuda.is_none() {
        findings.push(Finding::warning(
            "cuda-runtime",
            "libcudart",
            "there is GPU code, but no file says for which CUDA version: the oldest driver is unknown",
        ));
    }
    cuda
}

/// Major numbers of the CUDA runtimes that are inside, and where they are.
fn runtimes(inventory: &Inventory<'_>) -> BTreeMap<u32, String> {
    let names = inventory.tree.iter().filter_map(|(path, _)| {
        let (major, _) = version(path.name(), "libcudart.so.")?;
        Some((major, path.to_string()))
    });
    names.collect()
}

/// The numbers behind `start`: major, and minor where it is there.
fn version(name: &str, start: &str) -> Option<(u32, Option<u32>)> {
    numbers(name.strip_prefix(start)?)
}

/// The version in the name of a folder such as `nvidia_cuda_runtime_cu12-12.6.77.dist-info`, which
/// is there where licences are kept.
fn wheel(name: &str) -> Option<(u32, Option<u32>)> {
    let name = name.strip_prefix("nvidia_cuda_runtime")?.strip_suffix(".dist-info")?;
    numbers(name.split_once('-')?.1)
}

fn numbers(text: &str) -> Option<(u32, Option<u32>)> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next().flatten()))
}
