//! How batches become tensors, and how many numbers ranks add up at a time: what the parts of
//! libtorch and of the GPU share.

use std::str::FromStr;

use crate::{AxisOrder, Numbers};

/// Numbers that are added up in one piece. Larger pieces wait longer for the first byte,
/// smaller ones more often; PyTorch's `DistributedDataParallel` takes as much.
pub(crate) const BUCKET_BYTES: usize = 25 << 20;

/// The way in which batches become tensors.
#[derive(Debug, Clone, Copy)]
pub struct FeedOptions {
    /// The type of the images' numbers.
    pub numbers: Numbers,
    /// The order of the numbers in memory.
    pub layout: AxisOrder,
    /// Number of batches that are on their way to a GPU, or there, while it computes on another; at
    /// least 1, and the loader needs 2 more slots. Each takes `batch * channels * height * width`
    /// times the bytes of a value as it is stored, and 8 for each label.
    pub ahead: usize,
    /// The way in which the memory of batches is prepared for copies to a GPU.
    pub pin: Pin,
    /// Who allocates the memory of batches on a GPU.
    pub slots: Slots,
    /// The way in which pixels are converted to numbers on a GPU.
    pub convert: Convert,
    /// Whether to overwrite the memory of a batch before it is used again, so that a read that is
    /// too late is noticed. This is for checks, and costs time.
    pub poison: bool,
}

impl Default for FeedOptions {
    fn default() -> Self {
        Self {
            numbers: Numbers::F32,
            layout: AxisOrder::Contiguous,
            ahead: 2,
            pin: Pin::Register,
            slots: Slots::Torch,
            convert: Convert::Kernel,
            poison: false,
        }
    }
}

/// The way in which the memory of batches is prepared for copies to a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pin {
    /// Page-locked in place, in huge pages if the kernel has them, so that the GPU reads it
    /// directly. Some containers and limits of locked memory refuse that; then it is as for
    /// `Alloc`, or as for `None` if that is refused too, and
    /// [`Feed::unpinned`](super::Feed::unpinned) says why.
    #[default]
    Register,
    /// Copied, on the thread of the training run, to page-locked memory that the driver allocated.
    Alloc,
    /// Left as it is; the driver copies it to memory of its own first, on the thread of the
    /// training.
    None,
}

/// Who allocates the memory of batches on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slots {
    /// libtorch allocates it, so that its allocator counts it.
    #[default]
    Torch,
    /// The driver allocates it.
    Driver,
}

/// The way in which pixels are converted to numbers on a GPU. The resulting bits are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Convert {
    /// One kernel for `u8` and `u16`, which NVRTC compiles when a [`Feed`](super::Feed) is made. If
    /// that library is missing, conversion is as for `Torch`, and
    /// [`Feed::unfused`](super::Feed::unfused) says why. Batches of over 65,535 images are
    /// converted as for `Torch`, too.
    #[default]
    Kernel,
    /// Five operations of libtorch.
    Torch,
}

/// Returns the value with the name `text`.
fn named<T: Copy>(text: &str, names: &[(&str, T)]) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    let all = || names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.map(|(_, value)| *value).ok_or_else(|| format!("`{text}` is not one of {}", all()))
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(text, &[("register", Self::Register), ("alloc", Self::Alloc), ("none", Self::None)])
    }
}

impl FromStr for Slots {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(text, &[("torch", Self::Torch), ("driver", Self::Driver)])
    }
}

impl FromStr for Convert {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(text, &[("kernel", Self::Kernel), ("torch", Self::Torch)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_named_in_words() {
        assert_eq!("alloc".parse(), Ok(Pin::Alloc));
        assert_eq!("driver".parse(), Ok(Slots::Driver));
        assert_eq!("kernel".parse(), Ok(Convert::Kernel));
        let wrong = "Register".parse::<Pin>().unwrap_err();
        assert_eq!(wrong, "`Register` is not one of register, alloc, none");
    }
}
