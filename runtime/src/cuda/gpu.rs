//! Finds this process's GPU, and checks that it can compute.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, DriverError, result};
use tch::{Device, Kind, Tensor};

use super::driver::{forgo_tracking, no_gpu, start};
use super::lanes::{blocking_event, refused};
use super::{CudaError, library};
use crate::Error;

/// A GPU that libtorch computes on.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// The GPU's number among those that this process sees, from 0.
    pub index: usize,
    /// The driver's name for it, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability (major, minor).
    pub capability: (i32, i32),
    /// The GPU's memory, in bytes.
    pub memory_bytes: u64,
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
        let driver = start()?;
        let n = result::device::get_count().map_err(|e| no_gpu("the driver", &e))?;
        let index = choose(index, local_rank, usize::try_from(n).unwrap_or(0))?;
        library::open().map_err(|reason| CudaError::NoGpu {
            reason: format!("libtorch's CUDA library cannot be opened: {reason}"),
            hint: "use a libtorch that was built for CUDA: add the `lib` folder of PyTorch's package to LD_LIBRARY_PATH",
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
            memory_bytes: context.total_mem().map_err(of)? as u64,
            driver,
            context,
        };
        gpu.compute()?;
        Ok(gpu)
    }

    /// The GPU as a device of tch.
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

    /// A name that is unique among the GPUs of all machines: the host's name, and its own number.
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

    /// Runs one kernel, so that a GPU for which this libtorch has no code is found here, and not in
    /// the middle of a training run.
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
                    hint: "`gular image check` shows which GPUs a libtorch has code for; for GPUs with a compute capability below 7.5, use libtorch 2.7.0",
                    driver: true,
                })
            }
        }
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, name, capability: (major, minor), memory_bytes, driver, .. } = self;
        let gib = *memory_bytes as f64 / f64::from(1 << 30);
        write!(
            f,
            "GPU {index} ({name}, {gib:.0} GiB, compute capability {major}.{minor}, \
             driver for CUDA {}.{})",
            driver.0, driver.1
        )
    }
}

/// Chooses which of `n` GPUs a process uses.
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
            format!(
                "process {local_rank} of this machine, counted from 0, has no GPU: there are only {n}"
            )
        }
    };
    let hint = match n {
        0 => "ask the batch system for a GPU, and check that CUDA_VISIBLE_DEVICES does not hide it",
        _ => "start one process per GPU, or choose a GPU with `cuda:N`",
    };
    Err(CudaError::NoGpu { reason, hint, driver: true })
}

/// Returns the error for a GPU that the driver sees and libtorch does not.
fn unseen(driver: (i32, i32)) -> CudaError {
    if !tch::utils::has_cudart() {
        return CudaError::NoGpu {
            reason: "libtorch was used with CUDA before its CUDA library was opened".into(),
            hint: "in the program, open the GPU first, before seeds are set and tensors are pinned",
            driver: true,
        };
    }
    let (major, minor) = driver;
    CudaError::NoGpu {
        reason: format!(
            "libtorch cannot use this driver, which supports CUDA only up to {major}.{minor}"
        ),
        hint: "libtorch 2.11.0 needs driver 580 or newer (CUDA 13.0); libtorch 2.7.0 needs driver 525 or newer (CUDA 12)",
        driver: true,
    }
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
        check(
            None,
            4,
            4,
            Err("process 4 of this machine, counted from 0, has no GPU: there are only 4"),
        );
        check(Some(4), 0, 4, Err("there is no GPU 4: this process has 4, counted from 0"));
        check(None, 0, 0, Err("the driver shows this process no GPU"));
    }

    #[test]
    fn a_machine_without_a_driver_says_so() {
        // If there is a GPU, it must be able to compute.
        if let Err(error) = Gpu::open(None, 0) {
            assert!(matches!(error, Error::Cuda(CudaError::NoGpu { .. })), "{error}");
            assert!(error.hint().is_some());
        }
    }
}
