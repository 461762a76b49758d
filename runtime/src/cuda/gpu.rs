//! Which GPU this process computes on, checked before anything else is asked of it.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, DriverError, result, sys};
use libloading::os::unix::Library;
use tch::{Device, Kind, Tensor};

use super::lanes::{blocking_event, refused};
use super::{CudaError, library};
use crate::Error;

/// A GPU that libtorch computes on.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// Its number among those that this process sees, from 0.
    pub index: usize,
    /// As the driver calls it, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability (major, minor).
    pub capability: (i32, i32),
    /// Its memory, in bytes.
    pub memory: u64,
    /// The newest CUDA the driver serves (major, minor).
    pub driver: (i32, i32),
    context: Arc<CudaContext>,
}

impl Gpu {
    /// Opens the GPU for process `local_rank` of this machine: `index` where one is named,
    /// else the only one there is (batch systems show each process its own), else the one
    /// of that number. Computes something small on it.
    ///
    /// Must come before any question to libtorch about CUDA, seeding its generators and
    /// pinning included: libtorch remembers its first answer.
    ///
    /// # Errors
    /// [`CudaError::NoGpu`] saying what is missing: driver, device, libtorch's CUDA half, or
    /// code for this GPU in it.
    pub fn open(index: Option<usize>, local_rank: u64) -> Result<Self, Error> {
        let driver = driver()?;
        let n = result::device::get_count().map_err(|e| no_gpu("the driver", &e))?;
        let index = choose(index, local_rank, usize::try_from(n).unwrap_or(0))?;
        library::open().map_err(|reason| CudaError::NoGpu {
            reason: format!("libtorch's CUDA library cannot be opened: {reason}"),
            hint: "run with a libtorch for CUDA: put the `lib` folder of PyTorch's package into LD_LIBRARY_PATH",
            driver: true,
        })?;
        if !tch::Cuda::is_available() {
            return Err(unseen(driver).into());
        }
        let context = CudaContext::new(index).map_err(|e| no_gpu("the GPU", &e))?;
        // Ours are the only streams and events; cudarc is to add none.
        forgo_tracking(&context);
        let of = |e: DriverError| no_gpu("the GPU", &e);
        let gpu = Self {
            index,
            name: context.name().map_err(of)?,
            capability: context.compute_capability().map_err(of)?,
            memory: context.total_mem().map_err(of)? as u64,
            driver,
            context,
        };
        gpu.compute()?;
        Ok(gpu)
    }

    /// As tch names it.
    #[must_use]
    pub fn device(&self) -> Device {
        Device::Cuda(self.index)
    }

    /// Bytes of its memory that are in use, by all programs.
    ///
    /// # Errors
    /// [`CudaError::Gpu`].
    pub fn memory_used(&self) -> Result<u64, Error> {
        let refused = |e| refused(self.index, "ask for its memory", e);
        let (free, total) = self.context.mem_get_info().map_err(refused)?;
        Ok(total.saturating_sub(free) as u64)
    }

    /// An event after all that libtorch was given to compute up to now.
    pub(crate) fn mark(&self) -> Result<CudaEvent, Error> {
        let refused = |e| refused(self.index, "mark a computation", e);
        let event = blocking_event(&self.context).map_err(refused)?;
        event.record(&self.context.default_stream()).map_err(refused)?;
        Ok(event)
    }

    /// What names it among the GPUs of all machines: the host's name, and its own number.
    pub(crate) fn identity(&self) -> Result<String, CudaError> {
        let uuid = self.context.uuid();
        let uuid = uuid.map_err(|e| refused(self.index, "ask for its number", e))?;
        let host = rustix::system::uname();
        Ok(format!("{} {:?}", host.nodename().to_string_lossy(), uuid.bytes))
    }

    /// The primary context, which libtorch uses too.
    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// One kernel, so that a GPU which this libtorch has no code for is found here and not
    /// in the midst of a training.
    fn compute(&self) -> Result<(), CudaError> {
        let one = || {
            let one = Tensor::f_ones([1], (Kind::Float, self.device()))?;
            one.f_add(&one)?.f_double_value(&[0])
        };
        match one() {
            Ok(_) => Ok(()),
            Err(error) => {
                let text = error.to_string();
                let text = text.lines().next().unwrap_or_default();
                Err(CudaError::NoGpu {
                    reason: format!("{self} fails to compute: {text}"),
                    hint: "`gular image check` shows which GPUs a libtorch has code for; 2.7.0 is for those before compute capability 7.5",
                    driver: true,
                })
            }
        }
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, name, capability: (major, minor), memory, driver, .. } = self;
        let gib = *memory as f64 / f64::from(1 << 30);
        write!(
            f,
            "GPU {index} ({name}, {gib:.0} GiB, compute capability {major}.{minor}, \
             driver for CUDA {}.{})",
            driver.0, driver.1
        )
    }
}

/// What is asked of the driver. Of one that lacks a function cudarc would panic.
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

/// Whether both names can be opened and are not of one library, by the address of `symbol`.
#[expect(unsafe_code, reason = "opens libraries")]
fn two_libraries(names: [&str; 2], symbol: &str) -> bool {
    // SAFETY: opens the driver's library, or one for building in its place, and closes it
    // again; only addresses are looked up. Both are open at a time, or they could come to the same.
    unsafe {
        let [Ok(first), Ok(second)] = names.map(|name| Library::new(name)) else { return false };
        let address = |library: &Library| {
            let symbol = library.get::<*const ()>(symbol.as_bytes());
            symbol.map(|symbol| symbol.addr()).ok()
        };
        address(&first) != address(&second)
    }
}

/// The driver, started: the newest CUDA it serves.
#[expect(unsafe_code, reason = "questions that cudarc has no function for")]
fn driver() -> Result<(i32, i32), CudaError> {
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
    // SAFETY: only their addresses are looked up.
    let lacks = |name: &&&str| unsafe { library.get::<*const ()>(name.as_bytes()) }.is_err();
    if let Some(name) = FUNCTIONS.iter().find(lacks) {
        return Err(CudaError::NoGpu {
            reason: format!("the driver's library has no function `{name}`"),
            hint: "it is too old, or one for building only (`stubs`): `ldconfig -p | grep libcuda` shows where it is",
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

/// Which of `n` GPUs a process takes.
fn choose(index: Option<usize>, local_rank: u64, n: usize) -> Result<usize, CudaError> {
    let wanted = match (index, n) {
        (Some(index), _) => index,
        (None, 1) => 0,
        (None, _) => usize::try_from(local_rank).unwrap_or(usize::MAX),
    };
    if wanted < n {
        return Ok(wanted);
    }
    let reason = match (n, index) {
        (0, _) => "the driver shows this process no GPU".to_owned(),
        (_, Some(index)) => {
            format!("there is no GPU {index}: this process has {n}, counted from 0")
        }
        (_, None) => {
            format!("process {local_rank} of this machine, counted from 0, finds only {n} GPUs")
        }
    };
    let hint = match n {
        0 => "ask the batch system for a GPU; CUDA_VISIBLE_DEVICES may hide it",
        _ => "start one process per GPU, or name one with `cuda:N`",
    };
    Err(CudaError::NoGpu { reason, hint, driver: true })
}

fn no_gpu(who: &str, error: &DriverError) -> CudaError {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    let (name, text) =
        (name.unwrap_or_else(|_| format!("{:?}", error.0)), text.unwrap_or_default());
    CudaError::NoGpu {
        reason: format!("{who} answers {name}: {text}"),
        hint: "`nvidia-smi` shows whether driver and GPU work; CUDA_VISIBLE_DEVICES may hide the GPU; a container needs `--nv`",
        driver: true,
    }
}

/// libtorch sees no GPU though the driver does.
fn unseen(driver: (i32, i32)) -> CudaError {
    if !tch::utils::has_cudart() {
        return CudaError::NoGpu {
            reason: "libtorch was asked about CUDA before its CUDA library was opened".into(),
            hint: "open the GPU first in the program, before seeds are set and tensors are pinned",
            driver: true,
        };
    }
    let (major, minor) = driver;
    CudaError::NoGpu {
        reason: format!("libtorch cannot use this driver, which serves CUDA up to {major}.{minor}"),
        hint: "libtorch 2.11.0 needs a driver for CUDA 13.0 (580 or newer), 2.7.0 one for CUDA 12 (525 or newer)",
        driver: true,
    }
}

#[expect(unsafe_code, reason = "cudarc calls turning its own synchronisation off unsafe")]
fn forgo_tracking(context: &Arc<CudaContext>) {
    // SAFETY: all order between our streams is made by our own events (`DeviceSlots`); a lack of
    // one would be a torn batch, which `gpu check` looks for.
    unsafe { context.disable_event_tracking() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_takes_its_own_gpu() {
        let check = |index, local_rank, n, expected: Result<usize, &str>| {
            let found = choose(index, local_rank, n).map_err(|e| e.to_string());
            let expected = expected.map_err(|e| format!("no GPU to compute on: {e}"));
            assert_eq!(found, expected);
        };
        check(None, 0, 1, Ok(0));
        check(None, 3, 1, Ok(0));
        check(None, 3, 4, Ok(3));
        check(Some(2), 3, 4, Ok(2));
        check(None, 4, 4, Err("process 4 of this machine, counted from 0, finds only 4 GPUs"));
        check(Some(4), 0, 4, Err("there is no GPU 4: this process has 4, counted from 0"));
        check(None, 0, 0, Err("the driver shows this process no GPU"));
    }

    #[test]
    fn one_driver_under_two_names_is_told_from_two() {
        assert!(!two_libraries(["libm.so.6", "libm.so.6"], "cos"));
        assert!(!two_libraries(["libm.so.6", "libnone.so.6"], "cos"));
        // The second has no such function of its own.
        assert!(two_libraries(["libm.so.6", "libc.so.6"], "cos"));
    }

    #[test]
    fn a_machine_without_a_driver_says_so() {
        // Where there is one, it computes.
        if let Err(error) = Gpu::open(None, 0) {
            assert!(matches!(error, Error::Cuda(CudaError::NoGpu { .. })), "{error}");
            assert!(error.hint().is_some());
        }
    }
}
