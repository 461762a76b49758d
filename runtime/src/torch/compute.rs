//! The device of a training run: the CPU or a GPU.

use std::str::FromStr;

use tch::Device;

#[cfg(feature = "cuda")]
use crate::cuda::{CudaError, Gpu};
use crate::{Error, Ranks};

/// The device, as an option names it: `auto`, `cpu`, `cuda` or `cuda:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compute {
    /// A GPU if one can be used, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with this number, or the one of this process.
    Cuda(Option<usize>),
}

/// The device that [`Compute::open`] found.
#[derive(Debug, Clone)]
pub enum Place {
    /// The CPU.
    Cpu {
        /// Why it is not a GPU; `None` if nobody asked for one.
        why: Option<String>,
        /// What the user can do, if there is a driver, so that a GPU was expected.
        hint: Option<String>,
    },
    /// A GPU.
    #[cfg(feature = "cuda")]
    Gpu(Gpu),
}

impl Compute {
    /// Opens the device, and libtorch's CUDA half for a GPU.
    ///
    /// Call it first: libtorch remembers its first answer about CUDA, and seeding its
    /// generators is such a question.
    ///
    /// # Errors
    /// With [`Compute::Cuda`], `CudaError::NoGpu` saying what is missing.
    pub fn open(self, ranks: &Ranks) -> Result<Place, Error> {
        match self {
            Self::Cpu => Ok(Place::cpu()),
            Self::Cuda(index) => gpu(index, ranks),
            Self::Auto => gpu(None, ranks).or_else(|error| {
                let hint = error.hint().filter(|_| expected(&error));
                Ok(Place::Cpu { why: Some(error.to_string()), hint })
            }),
        }
    }
}

impl FromStr for Compute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(None)),
            _ => match text.strip_prefix("cuda:").map(str::parse) {
                Some(Ok(index)) => Ok(Self::Cuda(Some(index))),
                _ => Err("expected auto, cpu, cuda or cuda:N".into()),
            },
        }
    }
}

impl Place {
    /// Computes on the CPU, without looking for a GPU.
    #[must_use]
    pub fn cpu() -> Self {
        Self::Cpu { why: None, hint: None }
    }

    /// The GPU's name; empty on the CPU.
    #[must_use]
    pub fn gpu_name(&self) -> String {
        match self {
            Self::Cpu { .. } => String::new(),
            #[cfg(feature = "cuda")]
            Self::Gpu(gpu) => gpu.name.clone(),
        }
    }

    /// The device as a device of tch.
    #[must_use]
    pub fn device(&self) -> Device {
        match self {
            Self::Cpu { .. } => Device::Cpu,
            #[cfg(feature = "cuda")]
            Self::Gpu(gpu) => gpu.device(),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu { why: None, .. } => f.write_str("the CPU"),
            Self::Cpu { why: Some(why), .. } => write!(f, "the CPU: {why}"),
            #[cfg(feature = "cuda")]
            Self::Gpu(gpu) => gpu.fmt(f),
        }
    }
}

/// Whether the error is about a GPU that was expected.
#[cfg(feature = "cuda")]
fn expected(error: &Error) -> bool {
    matches!(error, Error::Cuda(CudaError::NoGpu { driver: true, .. }))
}

#[cfg(not(feature = "cuda"))]
fn expected(_error: &Error) -> bool {
    false
}

#[cfg(feature = "cuda")]
fn gpu(index: Option<usize>, ranks: &Ranks) -> Result<Place, Error> {
    Gpu::open(index, ranks.local_rank).map(Place::Gpu)
}

#[cfg(not(feature = "cuda"))]
fn gpu(_index: Option<usize>, _ranks: &Ranks) -> Result<Place, Error> {
    let reason = "this program was built without the feature `cuda`".into();
    Err(Error::Option { option: "device", reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_in_words() {
        let check =
            |text: &str, expected| assert_eq!(text.parse::<Compute>().ok(), expected, "{text}");
        check("auto", Some(Compute::Auto));
        check("cpu", Some(Compute::Cpu));
        check("cuda", Some(Compute::Cuda(None)));
        check("cuda:3", Some(Compute::Cuda(Some(3))));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda3"] {
            check(wrong, None);
        }
    }
}
