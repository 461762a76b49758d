//! Optimisers whose state can be saved; tch keeps the state of its own optimisers in C++.
//!
//! They compute the same as libtorch's of the same names; tests compare them. Variables are stored
//! side by side in a few [`Buckets`], so that a step is a dozen operations per bucket and not per
//! variable: on a GPU each operation is a launch.

use std::collections::BTreeMap;

use tch::Tensor;
use tch::nn::VarStore;

use super::buckets::Buckets;
use super::weights::{assign, encode};
use crate::Error;

/// Changes a store's variables by their gradients.
///
/// For variables of 16 bits (`f16`, `bf16`) it computes in `f32`, with a copy of them in `f32`
/// (`weights.<variable>` of the state): a small step changes nothing in 8 bits of mantissa. The
/// copy is made at the first step, or restored by [`Optimiser::restore`]. Weights that you assign
/// after that are lost at the next step.
pub trait Optimiser {
    /// Takes one step at learning rate `rate`. Variables without a gradient stay as they are,
    /// without decay.
    ///
    /// # Errors
    /// [`Error::Torch`]; [`Error::Tensors`] when a variable was moved to other memory since the
    /// optimiser was made, as changing a store's kind or device does.
    fn step(&mut self, rate: f64) -> Result<(), Error>;

    /// Forgets all gradients, as `torch.optim`'s `zero_grad(set_to_none=True)`: the next backward
    /// pass stores its own instead of adding to zeros.
    fn zero_grad(&mut self);

    /// The state's own tensors by name: `<part>.<variable>` and `step`. Changing them
    /// changes the state.
    fn tensors(&self) -> BTreeMap<String, Tensor>;

    /// The state as a safetensors file of [`Optimiser::tensors`].
    ///
    /// # Errors
    /// [`Error::Torch`].
    fn state(&self) -> Result<Vec<u8>, Error> {
        encode(&self.tensors())
    }

    /// Restores a state that [`Optimiser::state`] returned.
    ///
    /// # Errors
    /// [`Error::Tensors`] unless it is of the same optimiser over the same
    /// variables; then nothing was changed.
    fn restore(&mut self, state: &[u8]) -> Result<(), Error> {
        assign(&mut self.tensors(), state)
    }
}

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019), as
/// `torch.optim.AdamW`.
#[derive(Debug)]
pub struct AdamW {
    /// Decay rates of the two moments; torch's default is (0.9, 0.999).
    pub betas: (f64, f64),
    /// Added to the denominator; torch's default is 1e-8.
    pub eps: f64,
    /// Decay of the weights themselves; torch's default is 0.01.
    pub weight_decay: f64,
    buckets: Buckets,
}

impl AdamW {
    /// Makes an optimiser of all trainable variables of `store`, with torch's defaults.
    #[must_use]
    pub fn new(store: &VarStore) -> Self {
        let buckets = Buckets::new(store, &["exp_avg", "exp_avg_sq"]);
        Self { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.01, buckets }
    }
}

impl Optimiser for AdamW {
    fn step(&mut self, rate: f64) -> Result<(), Error> {
        let (beta1, beta2) = self.betas;
        let t = self.buckets.count()? as f64;
        let (correction1, correction2) = (1.0 - libm::pow(beta1, t), 1.0 - libm::pow(beta2, t));
        let (eps, weight_decay) = (self.eps, self.weight_decay);
        self.buckets.each(|weights, grad, state| {
            let [mean, square] = state else { return Ok(()) };
            let _ = weights.f_mul_scalar_(1.0 - rate * weight_decay)?;
            let _ = mean.f_lerp_(grad, 1.0 - beta1)?;
            let _ = square.f_mul_scalar_(beta2)?;
            let _ = square.f_add_(&grad.f_square()?.f_mul_scalar_(1.0 - beta2)?)?;
            let mut divisor = square.f_sqrt()?;
            let _ = divisor.f_div_scalar_(correction2.sqrt())?;
            let _ = divisor.f_add_scalar_(eps)?;
            let mut change = mean.f_div(&divisor)?;
            let _ = change.f_mul_scalar_(rate / correction1)?;
            let _ = weights.f_sub_(&change)?;
            Ok(())
        })
    }

    fn zero_grad(&mut self) {
        self.buckets.zero_grad();
    }

    fn tensors(&self) -> BTreeMap<String, Tensor> {
        self.buckets.named()
    }
}

/// Stochastic gradient descent with momentum, as `torch.optim.SGD` without dampening.
#[derive(Debug)]
pub struct Sgd {
    /// The share of the last step that is kept; 0 for no momentum.
    pub momentum: f64,
    /// Whether to look ahead along the momentum (Nesterov).
    pub nesterov: bool,
    /// Added to each gradient, times its weight (L2).
    pub weight_decay: f64,
    buckets: Buckets,
}

impl Sgd {
    /// Makes an optimiser of all trainable variables of `store`, with `momentum` and without weight
    /// decay.
    #[must_use]
    pub fn new(store: &VarStore, momentum: f64) -> Self {
        let buckets = Buckets::new(store, &["momentum"]);
        Self { momentum, nesterov: false, weight_decay: 0.0, buckets }
    }
}

impl Optimiser for Sgd {
    fn step(&mut self, rate: f64) -> Result<(), Error> {
        self.buckets.count()?;
        let (momentum, nesterov, weight_decay) = (self.momentum, self.nesterov, self.weight_decay);
        self.buckets.each(|weights, grad, state| {
            let [velocity] = state else { return Ok(()) };
            let mut change = weights.f_mul_scalar(weight_decay)?;
            let _ = change.f_add_(grad)?;
            let _ = velocity.f_mul_scalar_(momentum)?;
            let _ = velocity.f_add_(&change)?;
            if nesterov {
                let _ = change.f_add_(&velocity.f_mul_scalar(momentum)?)?;
            } else {
                change.f_copy_(velocity)?;
            }
            let _ = change.f_mul_scalar_(rate)?;
            let _ = weights.f_sub_(&change)?;
            Ok(())
        })
    }

    fn zero_grad(&mut self) {
        self.buckets.zero_grad();
    }

    fn tensors(&self) -> BTreeMap<String, Tensor> {
        self.buckets.named()
    }
}
