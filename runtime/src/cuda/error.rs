//! Errors that prevent computing on a GPU.

/// What a GPU needs and is missing, or which action the GPU refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// There is no GPU that libtorch can use.
    #[error("no GPU to compute on: {reason}")]
    NoGpu {
        /// What is missing.
        reason: String,
        /// What the user can do about it.
        hint: &'static str,
        /// Whether there is a driver, so that a GPU was expected.
        driver: bool,
    },
    /// The GPU, or its driver, refused an action.
    #[error("GPU {index}: cannot {action}: {reason}")]
    Gpu {
        /// The GPU's number among those that this process sees.
        index: usize,
        /// The action that was tried.
        action: &'static str,
        /// The driver's answer.
        reason: String,
    },
    /// NCCL could not be opened, or refused an action.
    #[error("NCCL cannot {action}: {reason}")]
    Nccl {
        /// The action that was tried.
        action: &'static str,
        /// NCCL's answer.
        reason: String,
    },
}

impl CudaError {
    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoGpu { hint, .. } => hint,
            Self::Gpu { .. } => {
                "use smaller batches or fewer slots, which need less memory; `nvidia-smi` shows what else uses the GPU"
            }
            Self::Nccl { .. } => "set NCCL_DEBUG=WARN to see more messages of NCCL",
        })
    }
}
