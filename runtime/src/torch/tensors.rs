//! A batch as tensors.

use tch::{Device, Kind, Tensor};

use crate::{Batch, Error};

impl Batch {
    /// The images, `f32` of shape `[len, 3, height, width]`, normalised, and the
    /// labels, `i64` of shape `[len]` (`[0]` for a bundle without), on `device`.
    ///
    /// The numbers are written straight into the tensor's own memory, so the
    /// tensors own what they hold and outlive the batch; drop it soon, so that
    /// its slot is filled again.
    ///
    /// # Errors
    /// [`Error::Torch`], such as no memory on `device`.
    pub fn to_tensors(&self, device: Device) -> Result<(Tensor, Tensor), Error> {
        let (width, height) = self.size();
        let shape = [self.len() as i64, 3, i64::from(height), i64::from(width)];
        let mut images = Tensor::f_empty(shape, (Kind::Float, Device::Cpu))?;
        self.write_f32_nchw(numbers(&mut images))?;
        let labels = Tensor::f_from_slice(self.labels())?;
        Ok((images.f_to_device(device)?, labels.f_to_device(device)?))
    }
}

/// The memory of a tensor just made by `f_empty` as contiguous `f32` on the CPU.
#[expect(unsafe_code, reason = "tch lends no memory of a tensor")]
fn numbers(fresh: &mut Tensor) -> &mut [f32] {
    let len = fresh.numel();
    if len == 0 {
        return &mut [];
    }
    let start = fresh.data_ptr().cast::<f32>();
    // SAFETY: the tensor has `len` contiguous f32 on the CPU, aligned to 64 bytes by
    // libtorch's allocator; any bytes are an f32, and they are written before they are
    // read. No other tensor shares them, since it was made by the caller, and the
    // slice borrows it mutably; were it shared, a thread might see torn numbers.
    unsafe { std::slice::from_raw_parts_mut(start, len) }
}
