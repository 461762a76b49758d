//! The GPUs at the sites that this project serves.

use crate::cuda::Capability;
use crate::sif::Arch;

/// A GPU, and the sites that have it.
pub(super) struct Gpu {
    pub(super) name: &'static str,
    pub(super) capability: Capability,
    /// Processor of its machines.
    pub(super) arch: Arch,
    pub(super) sites: &'static [&'static str],
}

const fn gpu(name: &'static str, sm: (u32, u32), sites: &'static [&'static str]) -> Gpu {
    let capability = Capability { major: sm.0, minor: sm.1 };
    Gpu { name, capability, arch: Arch::Amd64, sites }
}

/// GPUs that the sites' documentation lists, August 2026: OSPool's guide to GPU jobs, CHTC's GPU
/// Lab, JSC's system pages. NVIDIA's table of CUDA GPUs gives the capabilities.
pub(super) const GPUS: [Gpu; 15] = [
    gpu("P100", (6, 0), &["CHTC"]),
    gpu("GTX 1080 Ti", (6, 1), &["OSPool"]),
    gpu("V100", (7, 0), &["OSPool", "JUWELS Cluster", "JUSUF"]),
    gpu("Quadro RTX 6000", (7, 5), &["OSPool"]),
    gpu("RTX 2080 Ti", (7, 5), &["OSPool", "CHTC"]),
    gpu("A100", (8, 0), &["OSPool", "CHTC", "JUWELS Booster", "JURECA-DC"]),
    gpu("A10", (8, 6), &["OSPool"]),
    gpu("A40", (8, 6), &["OSPool"]),
    gpu("RTX 3090", (8, 6), &["OSPool"]),
    gpu("L40", (8, 9), &["CHTC"]),
    gpu("L40S", (8, 9), &["OSPool", "CHTC"]),
    gpu("RTX 4090", (8, 9), &["OSPool"]),
    gpu("H100", (9, 0), &["CHTC"]),
    gpu("H200", (9, 0), &["CHTC"]),
    Gpu {
        name: "GH200",
        capability: Capability { major: 9, minor: 0 },
        arch: Arch::Arm64,
        sites: &["JEDI", "JUPITER"],
    },
];
