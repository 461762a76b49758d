//! Checks the machine before minutes are spent on it.

use gular_runtime::cuda::{Gpu, Nccl, compile_kernels};

use super::Failure;

/// Prints a line for each piece that the other verbs need; fails where one is missing.
pub(crate) fn run() -> Result<(), Failure> {
    let mut missing = 0;
    let mut tell = |what: &str, found: Result<String, String>| match found {
        Ok(found) => println!("ok {what}: {found}"),
        Err(reason) => {
            missing += 1;
            println!("missing {what}: {reason}");
        }
    };
    let gpu = Gpu::open(None, 0).map_err(|e| e.to_string());
    // Without a GPU, a capability is used that both releases of libtorch support.
    let capability = gpu.as_ref().map_or((8, 0), |gpu| gpu.capability);
    tell("GPU", gpu.map(|gpu| gpu.to_string()));
    let sizes = compile_kernels(&[capability]);
    tell("NVRTC", sizes.map(|sizes| format!("{} kernels compiled", sizes.len())));
    let nccl = Nccl::version().map_err(|e| e.to_string());
    tell("NCCL", nccl.map(|(major, minor, patch)| format!("{major}.{minor}.{patch}")));
    if missing > 0 { Err(format!("{missing} pieces are missing").into()) } else { Ok(()) }
}

/// Compiles the kernels for each of `capabilities`, such as `7.0`.
pub(crate) fn compile(capabilities: &[String]) -> Result<(), Failure> {
    for text in capabilities {
        let parts = text.split_once('.').map(|(major, minor)| (major.parse(), minor.parse()));
        let Some((Ok(major), Ok(minor))) = parts else {
            return Err(format!("`{text}` is not a compute capability, such as 7.0").into());
        };
        let sizes = compile_kernels(&[(major, minor)]).map_err(|e| format!("{text}: {e}"))?;
        println!("ok {text}: {} kernels, {} bytes", sizes.len(), sizes.iter().sum::<usize>());
    }
    Ok(())
}
