//! From a batch's bytes to the numbers a network takes, on the device they lie on.

use tch::{Device, Kind, Tensor};

use crate::{Error, Normalise};

/// What the images of a batch become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbers {
    /// `f32`, normalised. To the bit what [`Batch::write_f32_nchw`](crate::Batch::write_f32_nchw)
    /// writes, on a GPU too.
    #[default]
    F32,
    /// `bf16`: those of [`Numbers::F32`], rounded.
    Bf16,
    /// `f16`: those of [`Numbers::F32`], rounded.
    F16,
    /// `u8`, 0 to 255, as decoded.
    Bytes,
}

impl Numbers {
    /// As libtorch names it.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::F32 => Kind::Float,
            Self::Bf16 => Kind::BFloat16,
            Self::F16 => Kind::Half,
            Self::Bytes => Kind::Uint8,
        }
    }
}

/// Where the numbers of an image lie in memory; the shape is `[n, 3, h, w]` in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Plane by plane, as `torch.contiguous_format`.
    #[default]
    Contiguous,
    /// Pixel by pixel, as `torch.channels_last`, in which they are decoded: what the
    /// tensor cores of a GPU read fastest.
    ChannelsLast,
}

/// Converts batches on one device.
#[derive(Debug)]
pub(crate) struct Converter {
    numbers: Numbers,
    layout: Layout,
    /// 255 as a tensor. libtorch multiplies by the inverse of a plain number on a GPU,
    /// which gives other bits.
    scale: Tensor,
    mean: Tensor,
    std: Tensor,
}

impl Converter {
    pub(crate) fn new(
        numbers: Numbers,
        layout: Layout,
        normalise: &Normalise,
        device: Device,
    ) -> Result<Self, Error> {
        let put =
            |values: &[f32]| Ok::<_, Error>(Tensor::f_from_slice(values)?.f_to_device(device)?);
        let (scale, mean, std) = (put(&[255.0])?, put(&normalise.mean)?, put(&normalise.std)?);
        Ok(Self { numbers, layout, scale, mean, std })
    }

    /// `bytes`, `u8` of shape `[n, h, w, 3]`, as a tensor of shape `[n, 3, h, w]` with
    /// memory of its own.
    pub(crate) fn convert(&self, bytes: &Tensor) -> Result<Tensor, Error> {
        tch::no_grad(|| {
            let numbers = match self.numbers {
                Numbers::Bytes => own(bytes)?,
                _ => {
                    let mut numbers = bytes.f_to_kind(Kind::Float)?;
                    let _ = numbers.f_div_(&self.scale)?;
                    let _ = numbers.f_sub_(&self.mean)?;
                    let _ = numbers.f_div_(&self.std)?;
                    numbers.f_to_kind(self.numbers.kind())?
                }
            };
            let numbers = numbers.f_permute([0, 3, 1, 2])?;
            Ok(match self.layout {
                Layout::Contiguous => numbers.f_contiguous()?,
                Layout::ChannelsLast => numbers,
            })
        })
    }
}

/// A copy with memory of its own.
pub(super) fn own(tensor: &Tensor) -> Result<Tensor, Error> {
    let mut copy = tensor.f_empty_like()?;
    copy.f_copy_(tensor)?;
    Ok(copy)
}
