//! Converts, on a GPU, the bytes of a batch to the numbers that a network takes.

use gular_bundle::Dtype;
use tch::{Device, Kind, Tensor};

use crate::cuda::{Conversion, Gpu, Kernel};
use crate::{AxisOrder, Error, Normalise, Numbers};

/// Converts batches on one device, to the bits that the loader's threads write.
#[derive(Debug)]
pub(crate) struct Converter {
    numbers: Numbers,
    layout: AxisOrder,
    stored: Dtype,
    /// Stored as tensors: on a GPU, libtorch multiplies by the inverse of a plain number, which
    /// gives other bits.
    scale: Tensor,
    mean: Tensor,
    std: Tensor,
    kernel: Option<Fused>,
    unfused: Option<Error>,
}

/// The kernel that does all of it at once, and what it is told.
#[derive(Debug)]
struct Fused {
    kernel: Kernel,
    /// Scales, means and standard deviations.
    how: Tensor,
}

impl Converter {
    /// Converts images of `channels` channels, which batches have as they are `stored`.
    pub(crate) fn new(
        (numbers, layout): (Numbers, AxisOrder),
        (stored, channels): (Dtype, usize),
        normalise: &Normalise,
        device: Device,
    ) -> Result<Self, Error> {
        let of = |what: usize| (0..channels).map(move |c| normalise.of_channel(c, stored)[what]);
        let put = |what: usize| {
            let values: Vec<f32> = of(what).collect();
            Ok::<_, Error>(Tensor::f_from_slice(&values)?.f_to_device(device)?)
        };
        let (scale, mean, std) = (put(0)?, put(1)?, put(2)?);
        Ok(Self { numbers, layout, stored, scale, mean, std, kernel: None, unfused: None })
    }

    /// Adds a kernel for images of `width` by `height` pixels, if there is one and it can be
    /// loaded.
    pub(crate) fn with_kernel(mut self, gpu: &Gpu, (width, height): (u32, u32)) -> Self {
        let of = Conversion {
            stored: self.stored,
            channels: u32::try_from(self.scale.numel()).unwrap_or(u32::MAX),
            pixels: width.saturating_mul(height),
            numbers: self.numbers,
            layout: self.layout,
        };
        if of.has_kernel() {
            match self.fuse(gpu, of) {
                Ok(fused) => self.kernel = Some(fused),
                Err(error) => self.unfused = Some(error),
            }
        }
        self
    }

    fn fuse(&self, gpu: &Gpu, of: Conversion) -> Result<Fused, Error> {
        let how = Tensor::f_cat(&[&self.scale, &self.mean, &self.std], 0)?;
        Ok(Fused { kernel: Kernel::new(gpu, of)?, how })
    }

    /// Why there is no kernel although one was to be.
    pub(crate) fn unfused(&self) -> Option<&Error> {
        self.unfused.as_ref()
    }

    /// `bytes`, `u8` of shape `[n, h, w, channels * size]`, as a tensor of shape
    /// `[n, channels, h, w]` with memory of its own.
    pub(crate) fn convert(&self, bytes: &Tensor) -> Result<Tensor, Error> {
        if let Some(fused) = &self.kernel
            && Kernel::takes(bytes.size4()?.0)
        {
            return self.fused(fused, bytes);
        }
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
                    numbers.f_to_kind(self.kind())?
                }
            };
            let numbers = numbers.f_permute([0, 3, 1, 2])?;
            Ok(match self.layout {
                AxisOrder::Contiguous => numbers.f_contiguous()?,
                AxisOrder::ChannelsLast => numbers,
            })
        })
    }

    fn fused(&self, fused: &Fused, bytes: &Tensor) -> Result<Tensor, Error> {
        let (n, height, width, _) = bytes.size4()?;
        let channels = self.scale.size1()?;
        let last = self.layout == AxisOrder::ChannelsLast;
        let shape = if last { [n, height, width, channels] } else { [n, channels, height, width] };
        let numbers = Tensor::f_empty(shape, (self.kind(), bytes.device()))?;
        fused.kernel.launch(bytes, &numbers, &fused.how)?;
        if last { Ok(numbers.f_permute([0, 3, 1, 2])?) } else { Ok(numbers) }
    }

    /// The type of the numbers, unless they are as stored.
    fn kind(&self) -> Kind {
        match self.numbers {
            Numbers::Bf16 => Kind::BFloat16,
            Numbers::F16 => Kind::Half,
            Numbers::F32 | Numbers::Stored => Kind::Float,
        }
    }

    /// Returns bytes as a tensor of their stored type.
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

/// Returns a copy with memory of its own.
pub(super) fn own(tensor: &Tensor) -> Result<Tensor, Error> {
    let mut copy = tensor.f_empty_like()?;
    copy.f_copy_(tensor)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::super::foreign::convert_on_host;
    use super::*;

    fn bytes_of(tensor: &Tensor, layout: AxisOrder) -> Vec<u8> {
        let laid = match layout {
            AxisOrder::Contiguous => tensor.contiguous(),
            AxisOrder::ChannelsLast => tensor.permute([0, 2, 3, 1]).contiguous(),
        };
        let bytes = laid.view(-1).view_dtype(Kind::Uint8);
        Vec::try_from(bytes).unwrap()
    }

    /// The text that a GPU runs gives the bits of libtorch's operations, which are the loader's.
    #[test]
    fn the_kernel_has_the_bits_of_libtorchs_operations() {
        for (stored, channels) in [(Dtype::U8, 3), (Dtype::U16, 1), (Dtype::U16, 5)] {
            let how = Normalise {
                scale: None,
                mean: (0..channels).map(|c| 0.3 + 0.07 * c as f32).collect(),
                std: (0..channels).map(|c| 0.4 / (1 + c) as f32).collect(),
            };
            // Every value in every channel, over two images of 16 pixels' width.
            let values: u32 = if stored == Dtype::U8 { 256 } else { 65_536 };
            let pixels = (values / 2) as usize;
            let of = |i: u32| (0..channels).map(move |c| (i + 7 * c as u32) % values);
            let from: Vec<u8> = (0..values)
                .flat_map(of)
                .flat_map(|v| match stored {
                    Dtype::U8 => vec![v as u8],
                    _ => (v as u16).to_ne_bytes().to_vec(),
                })
                .collect();
            let shape = [2, pixels as i64 / 16, 16, (from.len() / values as usize) as i64];
            let tensor = Tensor::from_slice(&from).view(&shape[..]);
            let flat: Vec<f32> = (0..3)
                .flat_map(|what| (0..channels).map(move |c| (what, c)))
                .map(|(what, c)| how.of_channel(c, stored)[what])
                .collect();
            for numbers in [Numbers::F32, Numbers::Bf16, Numbers::F16] {
                for layout in [AxisOrder::Contiguous, AxisOrder::ChannelsLast] {
                    let plain =
                        Converter::new((numbers, layout), (stored, channels), &how, Device::Cpu);
                    let expected = bytes_of(&plain.unwrap().convert(&tensor).unwrap(), layout);
                    let found = convert_on_host((stored, numbers, layout), &from, &flat, pixels, 2);
                    assert!(found == expected, "{stored:?} {channels} {numbers:?} {layout:?}");
                }
            }
        }
    }

    /// The numbers include ones that no pixel gives: tiny, huge, infinite, and NaN.
    #[test]
    fn the_kernel_rounds_as_the_loader_does() {
        let halves = |scale: f32| {
            let from: Vec<u8> = (0..=255).collect();
            let of = |numbers| {
                let how = [scale, 0.0, 1.0];
                convert_on_host((Dtype::U8, numbers, AxisOrder::Contiguous), &from, &how, 256, 1)
            };
            let (brains, halves) = (of(Numbers::Bf16), of(Numbers::F16));
            for v in 0..256_usize {
                let number = v as f32 / scale;
                let bits = |all: &[u8]| u16::from_ne_bytes([all[2 * v], all[2 * v + 1]]);
                let (brain, half) = (bits(&brains), bits(&halves));
                if number.is_nan() {
                    // The sign may be either.
                    assert!(
                        half::bf16::from_bits(brain).is_nan()
                            && half::f16::from_bits(half).is_nan()
                    );
                    continue;
                }
                assert_eq!(brain, half::bf16::from_f32(number).to_bits(), "{number:e}");
                assert_eq!(half, half::f16::from_f32(number).to_bits(), "{number:e}");
            }
        };
        // 0 / 0 is NaN, the others are infinite; then from 2^-149 to 2^100.
        halves(0.0);
        for scale in [3e-30, 2e-3, 3.7e-3, 0.7, 1e5, 3.3e6, 1.7e7, 4e9, 3e37] {
            halves(scale);
            halves(-scale);
        }
    }
}
