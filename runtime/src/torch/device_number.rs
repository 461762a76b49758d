//! A number on the device. It can be read later than it is computed.

#[cfg(feature = "cuda")]
use cudarc::driver::CudaEvent;
#[cfg(feature = "cuda")]
use tch::Device;
use tch::Tensor;

use super::Place;
use crate::Error;

/// A number on its way from the device. On a GPU it is computed later than it is asked for: reading
/// it at once would wait for all work that the GPU got before.
#[derive(Debug)]
pub struct Fetched {
    /// The number, without dimensions, on the CPU.
    number: Tensor,
    /// The event after its copy.
    #[cfg(feature = "cuda")]
    copied: Option<CudaEvent>,
}

impl Place {
    /// Begins to bring `number`, a tensor of one element, to the CPU.
    ///
    /// # Errors
    /// [`Error::Torch`]; `CudaError::Gpu`.
    pub fn fetch(&self, number: &Tensor) -> Result<Fetched, Error> {
        let number = number.f_detach()?.f_reshape([0_i64; 0])?;
        match self {
            Self::Cpu { .. } => Ok(Fetched {
                number,
                #[cfg(feature = "cuda")]
                copied: None,
            }),
            #[cfg(feature = "cuda")]
            Self::Gpu(gpu) => {
                // Into page-locked memory, since it is not to be waited for.
                let kind = number.f_kind()?;
                let number = number.f_to_device_(Device::Cpu, kind, true, true)?;
                Ok(Fetched { number, copied: Some(gpu.mark()?) })
            }
        }
    }
}

impl Fetched {
    /// The number; waits until it is there.
    ///
    /// # Errors
    /// [`Error::Torch`]; `CudaError::Gpu`.
    pub fn value(&self) -> Result<f64, Error> {
        #[cfg(feature = "cuda")]
        if let Some(copied) = &self.copied {
            crate::cuda::wait_for(copied)?;
        }
        Ok(self.number.f_double_value(&[])?)
    }
}
