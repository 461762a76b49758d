//! Optimisers whose state saves; tch keeps that of its own in C++.
//!
//! They compute what libtorch's of the same names compute; tests compare them. For variables of
//! 16 bits they compute in `f32` and keep their state in it, which libtorch's do not.

use std::collections::BTreeMap;

use tch::nn::VarStore;
use tch::{Kind, Tensor};

use super::weights::{assign, encode};
use crate::Error;

/// Changes a store's variables by their gradients.
pub trait Optimiser {
    /// One step at learning rate `rate`. Variables without a gradient stay.
    ///
    /// # Errors
    /// [`Error::Torch`].
    fn step(&mut self, rate: f64) -> Result<(), Error>;

    /// Sets all gradients to zero.
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

    /// Goes on from a state that [`Optimiser::state`] gave.
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
    slots: Slots,
}

impl AdamW {
    /// Over all trainable variables of `store`, with torch's defaults.
    #[must_use]
    pub fn new(store: &VarStore) -> Self {
        let slots = Slots::new(store, &["exp_avg", "exp_avg_sq"]);
        Self { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.01, slots }
    }
}

impl Optimiser for AdamW {
    fn step(&mut self, rate: f64) -> Result<(), Error> {
        let (beta1, beta2) = self.betas;
        let t = self.slots.count()? as f64;
        let (correction1, correction2) = (1.0 - libm::pow(beta1, t), 1.0 - libm::pow(beta2, t));
        let (eps, weight_decay) = (self.eps, self.weight_decay);
        self.slots.each(|variable, grad, state| {
            let [mean, square] = state else { return Ok(()) };
            let _ = variable.f_mul_scalar_(1.0 - rate * weight_decay)?;
            let _ = mean.f_lerp_(grad, 1.0 - beta1)?;
            let _ = square.f_mul_scalar_(beta2)?;
            let _ = square.f_add_(&grad.f_square()?.f_mul_scalar_(1.0 - beta2)?)?;
            let mut divisor = square.f_sqrt()?;
            let _ = divisor.f_div_scalar_(correction2.sqrt())?;
            let _ = divisor.f_add_scalar_(eps)?;
            let mut change = mean.f_div(&divisor)?;
            let _ = change.f_mul_scalar_(rate / correction1)?;
            let _ = variable.f_sub_(&change)?;
            Ok(())
        })
    }

    fn zero_grad(&mut self) {
        self.slots.zero_grad();
    }

    fn tensors(&self) -> BTreeMap<String, Tensor> {
        self.slots.named()
    }
}

/// Stochastic gradient descent with momentum, as `torch.optim.SGD` without dampening.
#[derive(Debug)]
pub struct Sgd {
    /// How much of the last step is kept; 0 for none.
    pub momentum: f64,
    /// Look ahead along the momentum (Nesterov).
    pub nesterov: bool,
    /// Added to each gradient, times its weight (L2).
    pub weight_decay: f64,
    slots: Slots,
}

impl Sgd {
    /// Over all trainable variables of `store`, with `momentum` and no weight decay.
    #[must_use]
    pub fn new(store: &VarStore, momentum: f64) -> Self {
        let slots = Slots::new(store, &["momentum"]);
        Self { momentum, nesterov: false, weight_decay: 0.0, slots }
    }
}

impl Optimiser for Sgd {
    fn step(&mut self, rate: f64) -> Result<(), Error> {
        self.slots.count()?;
        let (momentum, nesterov, weight_decay) = (self.momentum, self.nesterov, self.weight_decay);
        self.slots.each(|variable, grad, state| {
            let [velocity] = state else { return Ok(()) };
            let mut change = variable.f_mul_scalar(weight_decay)?;
            let _ = change.f_add_(grad)?;
            let _ = velocity.f_mul_scalar_(momentum)?;
            let _ = velocity.f_add_(&change)?;
            if nesterov {
                let _ = change.f_add_(&velocity.f_mul_scalar(momentum)?)?;
            } else {
                change.f_copy_(velocity)?;
            }
            let _ = change.f_mul_scalar_(rate)?;
            let _ = variable.f_sub_(&change)?;
            Ok(())
        })
    }

    fn zero_grad(&mut self) {
        self.slots.zero_grad();
    }

    fn tensors(&self) -> BTreeMap<String, Tensor> {
        self.slots.named()
    }
}

fn is_half(variable: &Tensor) -> bool {
    matches!(variable.kind(), Kind::Half | Kind::BFloat16)
}

/// Variables and, for each, the tensors an optimiser keeps beside it.
#[derive(Debug)]
struct Slots {
    parts: &'static [&'static str],
    /// By name, and thereby in the same order in every process.
    variables: BTreeMap<String, (Tensor, Vec<Tensor>)>,
    /// Steps done: i64, no dimensions.
    step: Tensor,
}

impl Slots {
    fn new(store: &VarStore, parts: &'static [&'static str]) -> Self {
        let trainable = store.variables().into_iter().filter(|(_, v)| v.requires_grad());
        let variables = trainable.map(|(name, variable)| {
            // In `f32` beside halves: 0.999 of a `bf16` rounds to the same `bf16`, so that a
            // mean of squares would never fall.
            let kind = if is_half(&variable) { Kind::Float } else { variable.kind() };
            let zeros = || variable.detach().zeros_like().to_kind(kind);
            let state = parts.iter().map(|_| zeros()).collect();
            (name, (variable, state))
        });
        let step = Tensor::zeros([0_i64; 0], (Kind::Int64, tch::Device::Cpu));
        Self { parts, variables: variables.collect(), step }
    }

    /// Counts a step; returns its number, from 1.
    fn count(&mut self) -> Result<i64, Error> {
        let _ = self.step.f_add_scalar_(1)?;
        Ok(self.step.f_int64_value(&[])?)
    }

    fn each(
        &mut self,
        mut change: impl FnMut(&mut Tensor, &Tensor, &mut [Tensor]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        tch::no_grad(|| {
            for (variable, state) in self.variables.values_mut() {
                let grad = variable.f_grad()?;
                if !grad.defined() {
                    continue;
                }
                if is_half(variable) {
                    let mut wide = variable.f_to_kind(Kind::Float)?;
                    change(&mut wide, &grad.f_to_kind(Kind::Float)?, state)?;
                    variable.f_copy_(&wide)?;
                } else {
                    change(variable, &grad, state)?;
                }
            }
            Ok(())
        })
    }

    fn zero_grad(&mut self) {
        for (variable, _) in self.variables.values_mut() {
            variable.zero_grad();
        }
    }

    /// Handles of all that is saved.
    fn named(&self) -> BTreeMap<String, Tensor> {
        let parts = self.variables.iter().flat_map(|(name, (_, state))| {
            let named = self.parts.iter().zip(state);
            named.map(move |(part, tensor)| (format!("{part}.{name}"), tensor.shallow_clone()))
        });
        parts.chain([("step".to_owned(), self.step.shallow_clone())]).collect()
    }
}
