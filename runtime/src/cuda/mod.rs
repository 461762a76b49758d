//! A GPU: the driver, memory and streams through cudarc, which opens `libcuda` at run
//! time; libtorch's CUDA half, opened here too.
//!
//! Nothing of it is linked, so one program runs with and without a GPU.

mod gpu;
mod lanes;
mod library;
mod nccl;
mod pin;
mod rates;
mod ring;

pub use gpu::Gpu;
pub use nccl::Nccl;
pub use rates::{CopyRates, copy_rates};

pub(crate) use lanes::CudaLanes;
pub(crate) use pin::pin;
#[cfg(test)]
pub(crate) use ring::Lanes;
pub(crate) use ring::{Held, Lent, Ring, Views};
