//! Finds out which GPUs have code in an image's libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use serde::Serialize;

use super::finding::{Finding, Severity};
use super::inventory::{Elf, Inventory};
use super::sites::{GPUS, Gpu};
use crate::cuda::{Architectures, Capability};
use crate::recipe::TargetSection;
use crate::rootfs::FileBytes;
use crate::{Error, Result};

/// Libraries whose absence of code stops only what few programs do: sparsity of
/// 2:4, linear algebra, FFTW's interface, direct storage, profiling, sharing memory
/// between nodes.
const OPTIONAL: [&str; 8] = [
    "libcheckpoint",
    "libcufftw",
    "libcufile",
    "libcupti",
    "libcusparseLt",
    "libnvshmem",
    "libtorch_cuda_linalg",
    "libtorch_nvshmem",
];

/// NVIDIA's own libraries, by how their names begin. Kernels of one architecture only are most of
/// their bytes, and what they lack for an older GPU they do in another way: any code for a
/// generation means that it is supported. libcublasLt 13.1 has 6.5 MB for sm_75, and 94 MB for
/// sm_100.
const VENDOR: [&str; 3] = ["libcu", "libnccl", "libnv"];

/// An architecture counts with this part of the bytes of the largest one. In
/// libtorch_cuda 2.11 the smallest that is built for has 34 MB of 61, and what
/// only few kernels are built for 1.5 MB.
const COUNTS_FROM: u64 = 10;

/// The GPUs that run an image, and those that do not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GpuTable {
    /// The GPUs of the sites that this project supports, by compute capability.
    pub rows: Vec<GpuRow>,
    /// The lowest compute capability that every needed library has code for.
    pub minimum: Option<String>,
    /// Compute capabilities that at least one of the needed libraries is built for, and that all of
    /// them have machine code for.
    pub capabilities: Vec<String>,
    /// Libraries with GPU code, without those that few programs need.
    pub libraries: Vec<GpuLibrary>,
    /// Libraries that few programs need.
    pub optional: Vec<GpuLibrary>,
}

/// One kind of GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuRow {
    /// Name of the GPU, such as `A100`.
    pub name: &'static str,
    /// Compute capability of the GPU, such as `8.0`.
    pub capability: String,
    /// The sites that have this GPU.
    pub sites: &'static [&'static str],
    /// Whether the GPU runs the image.
    pub runs: Runs,
    /// The reason.
    pub why: String,
}

/// Whether a GPU runs an image. Ordered from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Runs {
    /// A library has no code for this GPU.
    No,
    /// The GPU's driver must compile a library's code at the first start, which takes minutes.
    Jit,
    /// All libraries have machine code for this GPU.
    Yes,
}

/// One library's GPU code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuLibrary {
    /// Path of the library in the image.
    pub path: String,
    /// Bytes of the library's machine code, by compute capability.
    pub cubin: BTreeMap<String, u64>,
    /// Compute capabilities of the library's intermediate code (PTX).
    pub ptx: Vec<String>,
    #[serde(skip)]
    code: Code,
    #[serde(skip)]
    vendor: bool,
}

/// The part of a library's code that counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Code {
    cubin: Vec<Capability>,
    ptx: Vec<Capability>,
}

pub(super) fn check(
    inventory: &Inventory<'_>,
    target: &TargetSection,
    findings: &mut Vec<Finding>,
) -> Result<GpuTable> {
    let mut table = GpuTable::default();
    for elf in &inventory.elves {
        let found = architectures(elf)?;
        if found.is_empty() {
            continue;
        }
        let name = elf.path.name();
        let library = library(elf, &found);
        if OPTIONAL.iter().any(|start| name.starts_with(start)) {
            table.optional.push(library);
        } else {
            table.libraries.push(library);
        }
    }
    if table.libraries.is_empty() {
        if let Some(gpu) = target.gpus.first() {
            let message = format!("GPUs such as {gpu} are requested, but no library has GPU code");
            findings.push(
                Finding::error("gpu-code", "target.gpus", message)
                    .hint("add `[cuda]` with `torch`, or leave `gpus` out"),
            );
        }
        return Ok(table);
    }
    // Sorted so that torch's own libraries come first, since they say most about torch.
    table.libraries.sort_by_key(|library| library.vendor);
    table.rows = GPUS.iter().map(|gpu| row(gpu, inventory, &table.libraries)).collect();
    let all = table.libraries.iter().flat_map(|library| &library.code.cubin);
    let runs = |gpu: &Capability| judge(*gpu, &table.libraries).0 == Runs::Yes;
    let capabilities: BTreeSet<_> = all.copied().filter(runs).collect();
    table.minimum = capabilities.first().map(ToString::to_string);
    table.capabilities = capabilities.iter().map(ToString::to_string).collect();
    for gpu in &target.gpus {
        findings.extend(needed(*gpu, &table.libraries));
    }
    findings.extend(table.optional.iter().filter_map(|library| optional(target, &table, library)));
    Ok(table)
}

fn needed(gpu: Capability, libraries: &[GpuLibrary]) -> Vec<Finding> {
    let finding =
        |library: &GpuLibrary| match library.code.judge(gpu, &library.path) {
            (Runs::Yes, _) => None,
            (Runs::No, why) => Some(Finding::error("gpu-code", &library.path, why).hint(format!(
                "take another version of torch, or leave {gpu} out of `target.gpus`"
            ))),
            (Runs::Jit, why) => Some(Finding::warning("gpu-jit", &library.path, why)),
        };
    libraries.iter().filter_map(finding).collect()
}

/// Reports an optional library that lacks code for GPUs on which everything else runs.
fn optional(target: &TargetSection, table: &GpuTable, library: &GpuLibrary) -> Option<Finding> {
    let lacks = |gpu: &&Capability| {
        judge(**gpu, &table.libraries).0 != Runs::No
            && library.code.judge(**gpu, &library.path).0 == Runs::No
    };
    let gpus: Vec<_> = target.gpus.iter().filter(lacks).copied().collect();
    (!gpus.is_empty()).then(|| {
        let (gpus, has) = (list(&gpus), list(&library.code.cubin));
        let message =
            format!("it has no code for {gpus}, only for {has}: programs that use it fail there");
        Finding::new(Severity::Note, "gpu-optional", &library.path, message)
    })
}

fn row(gpu: &Gpu, inventory: &Inventory<'_>, libraries: &[GpuLibrary]) -> GpuRow {
    let (runs, why) = if gpu.arch == inventory.about.arch {
        judge(gpu.capability, libraries)
    } else {
        let (found, expected) = (inventory.about.arch.name(), gpu.arch.name());
        (Runs::No, format!("its machines are linux/{expected}, the image is linux/{found}"))
    };
    GpuRow { name: gpu.name, capability: gpu.capability.to_string(), sites: gpu.sites, runs, why }
}

/// Returns the worst verdict of all libraries.
fn judge(gpu: Capability, libraries: &[GpuLibrary]) -> (Runs, String) {
    let verdicts = libraries.iter().map(|library| library.code.judge(gpu, &library.path));
    let worst = verdicts.min_by_key(|(runs, _)| *runs);
    let worst = worst.filter(|(runs, _)| *runs != Runs::Yes);
    worst.unwrap_or_else(|| {
        let n = libraries.len();
        (Runs::Yes, format!("{n} libraries with GPU code have machine code for it"))
    })
}

impl Code {
    fn judge(&self, gpu: Capability, path: &str) -> (Runs, String) {
        let fits = |sm: &&Capability| sm.major == gpu.major && sm.minor <= gpu.minor;
        if let Some(sm) = self.cubin.iter().rfind(fits) {
            return (Runs::Yes, format!("`{path}` has machine code of {sm} for {gpu}"));
        }
        if let Some(ptx) = self.ptx.iter().rfind(|ptx| **ptx <= gpu) {
            let why = format!(
                "`{path}` has only intermediate code of {ptx} for {gpu}: its driver compiles that at the first start"
            );
            return (Runs::Jit, why);
        }
        let has = list(&self.cubin);
        (Runs::No, format!("`{path}` has no code for {gpu}, only for {has}"))
    }
}

fn library(elf: &Elf<'_>, found: &Architectures) -> GpuLibrary {
    let vendor = VENDOR.iter().any(|start| elf.path.name().starts_with(start));
    let largest = found.cubin.values().max().copied().unwrap_or(0);
    let counts = |bytes: u64| vendor || bytes.saturating_mul(COUNTS_FROM) >= largest;
    let cubin = found.cubin.iter().filter(|(_, bytes)| counts(**bytes));
    GpuLibrary {
        path: elf.path.to_string(),
        cubin: found.cubin.iter().map(|(sm, bytes)| (sm.to_string(), *bytes)).collect(),
        ptx: found.ptx.keys().map(Capability::to_string).collect(),
        code: Code {
            cubin: cubin.map(|(sm, _)| *sm).collect(),
            ptx: found.ptx.keys().copied().collect(),
        },
        vendor,
    }
}

fn list(capabilities: &[Capability]) -> String {
    if capabilities.is_empty() {
        return "newer ones as intermediate code".to_owned();
    }
    capabilities.iter().map(Capability::to_string).collect::<Vec<_>>().join(" ")
}

fn architectures(elf: &Elf<'_>) -> Result<Architectures> {
    match elf.source {
        FileBytes::File { path, .. } => Architectures::read(path),
        FileBytes::Bytes(bytes) => {
            let failed = |source| Error::Read { path: elf.path.to_string(), source };
            let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
            file.write_all(bytes).map_err(failed)?;
            Architectures::read(file.path())
        }
    }
}
