//! Mixed precision in bf16.

use tch::Device;

use super::foreign::Casting;
use crate::Error;

/// Runs `work` in the way of `torch.autocast(device, dtype=torch.bfloat16)`: products and
/// convolutions on `device` compute in bf16, with copies of the weights, and operations that need
/// more precision stay in `f32`. Weights, their gradients and the optimiser are `f32`.
///
/// Use it for the forward pass and the loss, and call `backward` after it. On a CPU without
/// instructions for bf16 it is slower than `f32`.
///
/// # Errors
/// [`Error::Tensors`] if libtorch has no mixed precision for this device.
pub fn in_bf16<T>(device: Device, work: impl FnOnce() -> T) -> Result<T, Error> {
    let Some(casting) = Casting::begin(device.is_cuda()) else {
        let reason = format!("libtorch refuses mixed precision on {device:?}");
        return Err(Error::Tensors { reason });
    };
    let done = work();
    drop(casting);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use tch::nn::{self, Module as _, VarStore};
    use tch::{Kind, Tensor};

    use super::*;

    #[test]
    fn products_are_bf16_and_weights_and_gradients_stay_f32() {
        let store = VarStore::new(Device::Cpu);
        let layer = nn::linear(store.root(), 4, 2, nn::LinearConfig::default());
        let images = Tensor::rand([3, 4], (Kind::Float, Device::Cpu));
        let kind = || layer.forward(&images).kind();
        assert_eq!(kind(), Kind::Float);
        let nested = in_bf16(Device::Cpu, || (kind(), in_bf16(Device::Cpu, kind).unwrap(), kind()));
        assert_eq!(nested.unwrap(), (Kind::BFloat16, Kind::BFloat16, Kind::BFloat16));
        assert_eq!(kind(), Kind::Float, "as before");

        let scores = in_bf16(Device::Cpu, || layer.forward(&images)).unwrap();
        scores.to_kind(Kind::Float).sum(Kind::Float).backward();
        assert_eq!((layer.ws.kind(), layer.ws.grad().kind()), (Kind::Float, Kind::Float));
        // The copy of the weights is not one of earlier weights.
        let _ = tch::no_grad(|| layer.ws.shallow_clone().fill_(0.0));
        let zeros = in_bf16(Device::Cpu, || layer.forward(&images)).unwrap();
        let bias = layer.bs.as_ref().unwrap().to_kind(Kind::BFloat16);
        assert!(zeros.equal(&bias.expand([3, 2], false)));
    }

    #[test]
    fn a_panic_ends_it_too() {
        let work = || in_bf16::<()>(Device::Cpu, || panic!("on purpose"));
        assert!(std::panic::catch_unwind(work).is_err());
        let two = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
        assert_eq!(two.matmul(&two).kind(), Kind::Float);
    }
}
