//! On a GPU: from the bytes of a batch to the numbers a network takes.

use gular_bundle::Dtype;
use tch::{Device, Kind, Tensor};

use crate::{Error, Layout, Normalise, Numbers};

/// Converts batches on one device, to the bits that the loader's threads write.
#[derive(Debug)]
pub(crate) struct Converter {
    numbers: Numbers,
    layout: Layout,
    stored: Dtype,
    /// As tensors: libtorch multiplies by the inverse of a plain number on a GPU, which gives
    /// other bits.
    scale: Tensor,
    mean: Tensor,
    std: Tensor,
}

impl Converter {
    /// Of images of `channels` channels, which batches hold as they are `stored`.
    pub(crate) fn new(
        (numbers, layout): (Numbers, Layout),
        (stored, channels): (Dtype, usize),
        normalise: &Normalise,
        device: Device,
    ) -> Result<Self, Error> {
        let of = |what: usize| (0..channels).map(move |c| normalise.of_channel(c, stored)[what]);
        let put = |what: usize| {
            let values: Vec<f32> = of(what).collect();
            Ok::<_, Error>(Tensor::f_from_slice(&values)?.f_to_device(device)?)
        };
        Ok(Self { numbers, layout, stored, scale: put(0)?, mean: put(1)?, std: put(2)? })
    }

    /// `bytes`, `u8` of shape `[n, h, w, channels * size]`, as a tensor of shape
    /// `[n, channels, h, w]` with memory of its own.
    pub(crate) fn convert(&self, bytes: &Tensor) -> Result<Tensor, Error> {
        tch::no_grad(|| {
            let stored = self.stored(bytes)?;
            let numbers = match self.numbers {
                Numbers::Stored => own(&stored)?,
                _ => {
                    let mut numbers = stored.f_to_kind(Kind::Float)?;
                    if self.stored == Dtype::F32 {
                        numbers = own(&numbers)?;
                    }
                    let _ = numbers.f_div_(&self.scale)?;
                    let _ = numbers.f_sub_(&self.mean)?;
                    let _ = numbers.f_div_(&self.std)?;
                    numbers.f_to_kind(match self.numbers {
                        Numbers::Bf16 => Kind::BFloat16,
                        Numbers::F16 => Kind::Half,
                        Numbers::F32 | Numbers::Stored => Kind::Float,
                    })?
                }
            };
            let numbers = numbers.f_permute([0, 3, 1, 2])?;
            Ok(match self.layout {
                Layout::Contiguous => numbers.f_contiguous()?,
                Layout::ChannelsLast => numbers,
            })
        })
    }

    /// Bytes as what they are.
    fn stored(&self, bytes: &Tensor) -> Result<Tensor, Error> {
        Ok(match self.stored {
            Dtype::U8 => bytes.shallow_clone(),
            // tch has no `u16`: the sign's bit is a value's.
            Dtype::U16 => {
                let wide = bytes.f_view_dtype(Kind::Int16)?.f_to_kind(Kind::Int)?;
                wide.f_bitwise_and(0xFFFF)?
            }
            other => bytes.f_view_dtype(super::lend::kind(other))?,
        })
    }
}

/// A copy with memory of its own.
pub(super) fn own(tensor: &Tensor) -> Result<Tensor, Error> {
    let mut copy = tensor.f_empty_like()?;
    copy.f_copy_(tensor)?;
    Ok(copy)
}
