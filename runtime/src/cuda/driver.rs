//! NVIDIA's driver: checks whether it is installed, complete, and starts.

#![expect(unsafe_code, reason = "opens libraries, and asks what cudarc has no function for")]

use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, result, sys};
use libloading::os::unix::Library;

use super::CudaError;

/// The driver's functions that are used. If one is missing, cudarc would panic.
const FUNCTIONS: [&str; 39] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// The driver's own name, under which libtorch opens it, and the one that cudarc tries first, which
/// a CUDA toolkit's library for building has too.
const DRIVER_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// Whether both names can be opened and are different libraries, by the address of `symbol`.
fn two_libraries(names: [&str; 2], symbol: &str) -> bool {
    // SAFETY: opens the driver's library, or one for building in its place, and closes it again;
    // only addresses are looked up. Both are open at the same time, since otherwise they could get
    // the same addresses.
    unsafe {
        let [Ok(first), Ok(second)] = names.map(|name| Library::new(name)) else { return false };
        let address = |library: &Library| {
            let symbol = library.get::<*const ()>(symbol.as_bytes());
            symbol.map(|symbol| symbol.addr()).ok()
        };
        address(&first) != address(&second)
    }
}

/// Starts the driver: the newest CUDA it serves.
pub(super) fn start() -> Result<(i32, i32), CudaError> {
    // SAFETY: opens `libcuda`, whose initialisers do nothing that matters.
    let Ok(library) = (unsafe { Library::new(DRIVER_NAMES[0]) }) else {
        return Err(CudaError::NoGpu {
            reason: "there is no NVIDIA driver (libcuda.so.1)".into(),
            hint: "ask the batch system for a GPU; in a container: `apptainer run --nv`, `podman run --device nvidia.com/gpu=all`",
            driver: false,
        });
    };
    if two_libraries(DRIVER_NAMES, "cuInit") {
        return Err(CudaError::NoGpu {
            reason: "`libcuda.so` is not the driver's library, `libcuda.so.1`".into(),
            hint: "remove the folder `stubs` of a CUDA toolkit from LD_LIBRARY_PATH: it is for building only",
            driver: true,
        });
    }
    // SAFETY: only the symbols' addresses are looked up.
    let lacks = |name: &&&str| unsafe { library.get::<*const ()>(name.as_bytes()) }.is_err();
    if let Some(name) = FUNCTIONS.iter().find(lacks) {
        return Err(CudaError::NoGpu {
            reason: format!("the driver's library has no function `{name}`"),
            hint: "the driver is too old, or the `libcuda.so.1` that was found is from the folder `stubs` of a CUDA toolkit, which is only for building: `ldconfig -p | grep libcuda` shows which file is used",
            driver: true,
        });
    }
    result::init().map_err(|e| no_gpu("the driver", &e))?;
    let mut version = 0;
    // SAFETY: writes one number, and `libcuda` was found just now.
    let asked = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    asked.result().map_err(|e| no_gpu("the driver", &e))?;
    Ok((version / 1000, version % 1000 / 10))
}

/// Turns off the order that cudarc makes of its own between streams.
pub(super) fn forgo_tracking(context: &Arc<CudaContext>) {
    // SAFETY: all order between our streams is made by our own events (`DeviceSlots`); a lack of
    // one would be a torn batch, which `gpu check` looks for.
    unsafe { context.disable_event_tracking() };
}

pub(super) fn no_gpu(who: &str, error: &DriverError) -> CudaError {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    let (name, text) =
        (name.unwrap_or_else(|_| format!("{:?}", error.0)), text.unwrap_or_default());
    CudaError::NoGpu {
        reason: format!("{who} reports {name}: {text}"),
        hint: "check with `nvidia-smi` that the driver and the GPU work, and that CUDA_VISIBLE_DEVICES does not hide the GPU; a container needs `--nv`",
        driver: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_driver_under_two_names_is_told_from_two() {
        assert!(!two_libraries(["libm.so.6", "libm.so.6"], "cos"));
        assert!(!two_libraries(["libm.so.6", "libnone.so.6"], "cos"));
        // The second library has no such function of its own.
        assert!(two_libraries(["libm.so.6", "libc.so.6"], "cos"));
    }
}
