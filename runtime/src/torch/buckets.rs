//! Variables next to each other in a few large tensors, together with what an optimiser stores for
//! them.

use std::collections::BTreeMap;

use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

use super::foreign::forget_grad;
use crate::Error;

/// Elements of a bucket: 64 MiB of `f32`. A step needs a few times as much besides the model.
const BUCKET: i64 = 16 << 20;

/// Variables begin at multiples of this many elements: 64 bytes or more, as libtorch aligns its own
/// tensors. The gaps are never read.
const ALIGN: i64 = 64;

/// All trainable variables of a store, in buckets.
#[derive(Debug)]
pub(super) struct Buckets {
    /// Names of the tensors that an optimiser keeps per variable.
    states: &'static [&'static str],
    buckets: Vec<Bucket>,
    /// Number of steps done: i64, no dimensions.
    step: Tensor,
}

/// Variables of one kind and device, in the order of their names: the same in every process.
#[derive(Debug)]
struct Bucket {
    parts: Vec<Part>,
    /// The weights; the variables are views of this tensor.
    weights: Tensor,
    /// The weights in `f32`, if they have 16 bits.
    wide: Option<Tensor>,
    /// The optimiser's state, of the type of `wide` or else of the weights: 0.999 times a `bf16`
    /// rounds to the same `bf16`, so that a mean of squares would never decrease.
    state: Vec<Tensor>,
    /// Zeros that fill the gaps between gradients.
    gap: Tensor,
}

/// The variables that become a bucket.
struct Group {
    kind: Kind,
    device: Device,
    /// Number of elements, gaps included.
    len: i64,
    parts: Vec<Part>,
}

/// A variable, and where it is in its bucket.
#[derive(Debug)]
struct Part {
    name: String,
    variable: Tensor,
    start: i64,
    len: i64,
}

impl Buckets {
    /// Moves the variables' values into buckets; those who hold a variable see no difference.
    pub(super) fn new(store: &VarStore, states: &'static [&'static str]) -> Self {
        let mut variables: Vec<(String, Tensor)> =
            store.variables().into_iter().filter(|(_, v)| v.requires_grad()).collect();
        variables.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut groups: Vec<Group> = Vec::new();
        for (name, tensor) in variables {
            let (kind, device, len) = (tensor.kind(), tensor.device(), tensor.numel() as i64);
            let fits = |group: &&mut Group| {
                (group.kind, group.device) == (kind, device) && group.len + len <= BUCKET
            };
            let group = match groups.iter_mut().rev().find(fits) {
                Some(group) => group,
                None => {
                    groups.push(Group { kind, device, len: 0, parts: Vec::new() });
                    let Some(group) = groups.last_mut() else { continue };
                    group
                }
            };
            group.parts.push(Part { name, variable: tensor, start: group.len, len });
            group.len += len + gap_after(len);
        }
        let buckets = groups.into_iter().map(|group| Bucket::new(group, states.len()));
        let step = Tensor::zeros([0_i64; 0], (Kind::Int64, Device::Cpu));
        Self { states, buckets: buckets.collect(), step }
    }

    /// Counts a step, and returns its number, from 1.
    pub(super) fn count(&mut self) -> Result<i64, Error> {
        let _ = self.step.f_add_scalar_(1)?;
        let step = self.step.f_int64_value(&[])?;
        if step == 1 {
            // The weights may have been loaded since.
            tch::no_grad(|| self.buckets.iter_mut().try_for_each(Bucket::widen))?;
        }
        Ok(step)
    }

    /// Calls `change` with weights, gradients and state, each of one dimension and equally long.
    pub(super) fn each(
        &mut self,
        mut change: impl FnMut(&mut Tensor, &Tensor, &mut [Tensor]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        tch::no_grad(|| self.buckets.iter_mut().try_for_each(|bucket| bucket.change(&mut change)))
    }

    /// Removes the gradients of all variables.
    pub(super) fn zero_grad(&mut self) {
        for part in self.buckets.iter_mut().flat_map(|bucket| &mut bucket.parts) {
            forget_grad(&mut part.variable);
        }
    }

    /// Returns handles of all tensors that are saved.
    pub(super) fn named(&self) -> BTreeMap<String, Tensor> {
        let mut named = BTreeMap::from([("step".to_owned(), self.step.shallow_clone())]);
        for bucket in &self.buckets {
            let kept = self.states.iter().copied().zip(&bucket.state);
            for (what, flat) in kept.chain(bucket.wide.iter().map(|wide| ("weights", wide))) {
                for part in &bucket.parts {
                    named.insert(format!("{what}.{}", part.name), part.of(flat));
                }
            }
        }
        named
    }
}

impl Bucket {
    fn new(group: Group, n_states: usize) -> Self {
        let Group { kind, device, len, parts } = group;
        let mut this = tch::no_grad(|| {
            let gap = Tensor::zeros([ALIGN - 1], (kind, device));
            let weights = Tensor::zeros([len], (kind, device));
            for part in &parts {
                part.of(&weights).copy_(&part.variable);
            }
            let is_half = matches!(kind, Kind::Half | Kind::BFloat16);
            let wide = is_half.then(|| weights.to_kind(Kind::Float));
            let state = (0..n_states).map(|_| wide.as_ref().unwrap_or(&weights).zeros_like());
            Self { state: state.collect(), parts, weights, wide, gap }
        });
        for part in &mut this.parts {
            let view = part.of(&this.weights);
            part.variable.set_data(&view);
        }
        this
    }

    /// The copy in `f32` becomes what the weights are.
    fn widen(&mut self) -> Result<(), Error> {
        if let Some(wide) = &mut self.wide {
            wide.f_copy_(&self.weights)?;
        }
        Ok(())
    }

    fn change(
        &mut self,
        change: &mut impl FnMut(&mut Tensor, &Tensor, &mut [Tensor]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut grads = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            if !part.is_view_of(&self.weights) {
                return Err(Error::Tensors {
                    reason: format!(
                        "the memory of variable `{}` changed after this optimiser was made: its kind or device was changed, or another optimiser was made; make this optimiser after that",
                        part.name
                    ),
                });
            }
            grads.push(Some(part.variable.f_grad()?).filter(Tensor::defined));
        }
        let flat = self.wide.as_mut().unwrap_or(&mut self.weights);
        let kind = flat.kind();
        if grads.iter().all(Option::is_some) {
            let grad = joined(&self.parts, &self.gap, grads.into_iter().flatten())?;
            change(flat, &grad.f_to_kind(kind)?, &mut self.state)?;
        } else {
            for (part, grad) in self.parts.iter().zip(grads) {
                let Some(grad) = grad else { continue };
                let grad = grad.f_reshape([-1])?.f_to_kind(kind)?;
                let of = |flat: &Tensor| flat.f_narrow(0, part.start, part.len);
                let mut state = self.state.iter().map(of).collect::<Result<Vec<_>, _>>()?;
                change(&mut of(flat)?, &grad, &mut state)?;
            }
        }
        if let Some(wide) = &self.wide {
            self.weights.f_copy_(wide)?;
        }
        Ok(())
    }
}

impl Part {
    /// Returns this variable's part of a bucket's tensor, in its shape.
    fn of(&self, flat: &Tensor) -> Tensor {
        flat.narrow(0, self.start, self.len).view_as(&self.variable)
    }

    fn is_view_of(&self, flat: &Tensor) -> bool {
        let bytes = self.start as usize * flat.kind().elt_size_in_bytes();
        let place = flat.data_ptr().addr().wrapping_add(bytes);
        self.len == 0 || self.variable.data_ptr().addr() == place
    }
}

/// Elements between a variable of `len` elements and the next.
fn gap_after(len: i64) -> i64 {
    (-len).rem_euclid(ALIGN)
}

/// `tensors`, one for each of `parts`, as one of one dimension.
fn joined(
    parts: &[Part],
    gap: &Tensor,
    tensors: impl Iterator<Item = Tensor>,
) -> Result<Tensor, Error> {
    let mut pieces = Vec::with_capacity(2 * parts.len());
    for (part, tensor) in parts.iter().zip(tensors) {
        pieces.push(tensor.f_reshape([-1])?);
        match gap_after(part.len) {
            0 => {}
            missing => pieces.push(gap.f_narrow(0, 0, missing)?),
        }
    }
    Ok(Tensor::f_cat(&pieces, 0)?)
}
