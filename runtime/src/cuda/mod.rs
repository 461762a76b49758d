//! A GPU: the driver, memory and streams, through cudarc, which opens `libcuda` at run time.
//! libtorch's CUDA half is opened here too.
//!
//! Nothing of it is linked, so one program runs with and without a GPU.

mod device_slots;
mod driver;
mod error;
mod gpu;
mod kernel;
mod lanes;
mod library;
mod memory;
mod nccl;
mod nvrtc;
mod rates;

pub use error::CudaError;
pub use gpu::Gpu;
pub use kernel::compile_kernels;
pub use nccl::Nccl;
pub use rates::{CopyRates, copy_rates};

#[cfg(test)]
pub(crate) use device_slots::Lanes;
pub(crate) use device_slots::{DeviceSlots, Held, Lent, Views, labels_at};
pub(crate) use kernel::{Conversion, Kernel};
pub(crate) use lanes::{CudaLanes, Memory, wait_for};
pub(crate) use memory::pin;
