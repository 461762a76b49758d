//! One training run in several processes: each computes on its part of a batch, and all take the
//! step that one process would take on the whole batch.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use gular_order::{LoaderState, Tally};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

#[cfg(feature = "cuda")]
use super::distinct_gpus::distinct_gpus;
use super::foreign::host_numbers;
use super::spread::spread;
use super::{Feed, FeedEpoch, Optimiser, Place, TrainState};
#[cfg(feature = "cuda")]
use crate::cuda::{CudaError, Nccl};
use crate::group::Group;
use crate::tensor_options::BUCKET_BYTES;
use crate::{Delivered, Error};

/// Adds tensors up over all ranks.
pub trait AllReduce {
    /// Replaces `tensor`, contiguous `f32` or `f64`, by the sum of those of all ranks, with the
    /// same bits on each. All ranks call it in the same order with the same sizes.
    ///
    /// # Errors
    /// If a rank is lost or has another size.
    fn sum(&self, tensor: &mut Tensor) -> Result<(), Error>;

    /// Waits until all sums are done.
    ///
    /// # Errors
    /// When a rank is lost.
    fn wait(&self) -> Result<(), Error>;
}

/// Sums over TCP, for tensors on the CPU.
impl AllReduce for Group {
    fn sum(&self, tensor: &mut Tensor) -> Result<(), Error> {
        let kind = tensor.f_kind()?;
        match kind {
            Kind::Float => Ok(self.all_reduce(host_numbers::<f32>(tensor)?)?),
            Kind::Double => Ok(self.all_reduce(host_numbers::<f64>(tensor)?)?),
            _ => Err(Error::Tensors { reason: format!("a sum of kind {kind:?}") }),
        }
    }

    /// A sum is complete when it returns.
    fn wait(&self) -> Result<(), Error> {
        Ok(Group::check(self)?)
    }
}

/// Sums over NCCL, for tensors on a GPU.
#[cfg(feature = "cuda")]
impl AllReduce for Nccl {
    fn sum(&self, tensor: &mut Tensor) -> Result<(), Error> {
        Self::sum(self, tensor)
    }

    fn wait(&self) -> Result<(), Error> {
        Self::wait(self)
    }
}

/// Describes a model to the other ranks, for [`Group::join`]: names, kinds and shapes of all
/// variables, a line each.
#[must_use]
pub fn describe(store: &VarStore) -> String {
    let named: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
    let mut text = String::new();
    for (name, tensor) in &named {
        let _ = writeln!(text, "variable {name}: {:?} {:?}", tensor.kind(), tensor.size());
    }
    text
}

/// The ranks of one training, and the gradients they add up.
///
/// ```no_run
/// # use gular_runtime::group::Group;
/// # use gular_runtime::torch::{DataParallel, Place};
/// # use tch::{Device, nn::VarStore};
/// # fn step() -> Result<(), gular_runtime::Error> {
/// # let (group, store, place) = (Group::alone(), VarStore::new(Device::Cpu), Place::cpu());
/// let mut parallel = DataParallel::new(group, &store, &place)?;
/// // … the mean loss of this rank's 32 samples, backward …
/// let samples = parallel.average_gradients(32)?;
/// // … the step of the optimiser, the same on every rank.
/// # Ok(()) }
/// ```
pub struct DataParallel {
    /// Dropped before the group, which tells it of lost ranks.
    tensors: Option<Box<dyn AllReduce>>,
    group: Group,
    /// The trainable variables, in the order of their names.
    variables: Vec<Tensor>,
    buckets: Vec<Bucket>,
    /// The result of [`DataParallel::synchronised`].
    synchronised: Cell<Duration>,
}

/// Gradients side by side.
struct Bucket {
    /// The gradients, in one dimension, on the variables' device.
    flat: Tensor,
    parts: Vec<Part>,
}

/// The place of a variable's gradient in a bucket.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    variable: usize,
    start: i64,
    len: i64,
}

impl DataParallel {
    /// Joins the ranks for the trainable variables of `store`, on `place`; gradients of GPUs are
    /// sent through NCCL. Allocates as much again as the gradients take, in `f32`.
    ///
    /// # Errors
    /// `CudaError::Nccl`, [`Error::Torch`], those of the group.
    pub fn new(group: Group, store: &VarStore, place: &Place) -> Result<Self, Error> {
        let named: BTreeMap<String, Tensor> = store.variables().into_iter().collect();
        let trainable = named.into_values().filter(Tensor::requires_grad);
        let variables: Vec<Tensor> = trainable.collect();
        if group.world_size() == 1 {
            let (buckets, synchronised) = (Vec::new(), Cell::default());
            return Ok(Self { tensors: None, group, variables, buckets, synchronised });
        }
        let tensors: Option<Box<dyn AllReduce>> = match place {
            Place::Cpu { .. } => None,
            #[cfg(feature = "cuda")]
            Place::Gpu(gpu) => {
                let joined = gpu.identity().map_err(Error::from);
                let joined = joined.and_then(|identity| distinct_gpus(&group, &identity));
                let joined = joined.and_then(|()| Nccl::join(gpu, &group));
                // The other ranks are told why.
                Some(Box::new(joined.inspect_err(|error| group.fail(&error.to_string()))?))
            }
        };
        let buckets = buckets(&variables, place.device())?;
        Ok(Self { tensors, group, variables, buckets, synchronised: Cell::default() })
    }

    /// Returns the batches of `epoch` of this rank's feed, after all ranks have compared their
    /// feeds: a rank that loads another rank's samples, or is at another position, would train on
    /// the wrong ones without an error. Every rank calls this once per epoch.
    ///
    /// # Errors
    /// [`Error::Option`] for `rank` and `world_size` of a loader that are not this group's;
    /// [`Error::Tensors`] if rank 0 is at another position; all other ranks are told. The call also
    /// fails if a rank is lost.
    pub fn epoch<'a>(&self, feed: &'a mut Feed, epoch: u64) -> Result<FeedEpoch<'a>, Error> {
        let options = feed.loader().options();
        let (rank, world_size) = (options.rank, options.world_size);
        let batch_size = options.batch_size as u64;
        let (n_positions, n_steps) = (feed.loader().n_positions(), feed.loader().n_steps());
        let batches = feed.epoch(epoch);
        let state = batches.state();
        let selection = state.selection.unwrap_or_default();
        let here =
            [world_size, state.epoch, state.consumed, n_positions, n_steps, batch_size, selection];
        let mut first = here.map(u64::to_le_bytes).concat();
        self.group.broadcast_into(&mut first)?;
        let first: Vec<u64> = first.as_chunks().0.iter().copied().map(u64::from_le_bytes).collect();
        let group = &self.group;
        let differs = if (rank, world_size) != (group.rank(), group.world_size()) {
            let (of, n) = (group.rank(), group.world_size());
            let reason = format!(
                "the loader was made for rank {rank} of {world_size}, but this process is rank {of} \
                of {n}: `LoaderOptions::for_ranks` sets both"
            );
            Some(Error::Option { option: "rank", reason })
        } else if first != here {
            let names = [
                "world size",
                "epoch",
                "consumed",
                "positions",
                "steps",
                "batch size",
                "selection",
            ];
            let mut all = names.iter().zip(first.iter().zip(here));
            let other = all.find(|(_, (first, here))| **first != *here);
            let reason = other.map(|(name, (first, here))| {
                format!("the loaders differ: that of rank 0 has {name} {first}, that of rank {rank} has {here}")
            });
            reason.map(|reason| Error::Tensors { reason })
        } else {
            None
        };
        match differs {
            None => Ok(batches),
            Some(error) => {
                group.fail(&error.to_string());
                Err(error)
            }
        }
    }

    /// Adds up the samples that the ranks delivered, and compares them with the index and the
    /// order; each rank computes a part of that. `state` is that of this rank, after the same step
    /// on all. Every rank must call this.
    ///
    /// # Errors
    /// Those of [`Loader::check_delivered`](crate::Loader::check_delivered); and an error if a rank
    /// is lost.
    pub fn check_delivered(&self, feed: &Feed, state: &LoaderState) -> Result<Delivered, Error> {
        let loader = feed.loader();
        let mut sums = Tally::to_sums(state.tally.as_ref());
        self.sum(&mut sums)?;
        let state = LoaderState { tally: Tally::from_sums(&sums), ..state.clone() };
        // From here on, all ranks have the same state, so they all get the same error.
        let due = u128::from(loader.due(&state)?);
        let (rank, world_size) = (u128::from(self.group.rank()), self.group.world_size());
        let part = |rank| (due * rank / u128::from(world_size)) as u64;
        let part = loader.expected_tally(state.epoch, part(rank)..part(rank + 1));
        let mut sums = Tally::to_sums(part.as_ref().ok());
        self.sum(&mut sums)?;
        part?;
        let expected = Tally::from_sums(&sums).ok_or_else(|| Error::Tensors {
            reason: "another rank could not read its part of the epoch".into(),
        })?;
        loader.compare_delivered(&state, &expected)
    }

    /// Replaces this rank's gradients, means over its `n` samples, by the means over the samples of
    /// all ranks, and returns the number of these. Except for rounding they equal those of one
    /// process on the whole batch, even if ranks have different numbers of samples, or none.
    ///
    /// A gradient that no rank has stays undefined.
    ///
    /// # Errors
    /// If a rank is lost; [`Error::Torch`].
    pub fn average_gradients(&mut self, n: usize) -> Result<u64, Error> {
        let agreed = self.agree(n, &mut [])?;
        self.average(&agreed)
    }

    /// The first half of [`DataParallel::average_gradients`], in which the ranks also agree on
    /// other things, such as whether to stop: each of `sums` becomes the sum over all ranks, in the
    /// same message as the numbers of samples. [`DataParallel::average`] follows, or, on all ranks,
    /// does not.
    ///
    /// # Errors
    /// When a rank is lost; [`Error::Torch`].
    pub fn agree(&self, n: usize, sums: &mut [f64]) -> Result<Agreed, Error> {
        if self.group.world_size() == 1 {
            return Ok(Agreed { n, total: n as u64, used: Vec::new() });
        }
        let since = Instant::now();
        let has = |v: &Tensor| Ok::<_, Error>(f64::from(u8::from(v.f_grad()?.defined())));
        let mut counts = sums.to_vec();
        counts.push(n as f64);
        for variable in &self.variables {
            counts.push(has(variable)?);
        }
        self.group.all_reduce(&mut counts)?;
        self.count(since);
        let (of_caller, counts) = counts.split_at(sums.len());
        sums.copy_from_slice(of_caller);
        let (total, used) = counts.split_first().map_or((0.0, counts), |(n, used)| (*n, used));
        Ok(Agreed { n, total: total as u64, used: used.iter().map(|n| *n > 0.0).collect() })
    }

    /// The second half of [`DataParallel::average_gradients`].
    ///
    /// # Errors
    /// When a rank is lost; [`Error::Torch`].
    pub fn average(&mut self, agreed: &Agreed) -> Result<u64, Error> {
        let Agreed { n, total, used } = agreed;
        if self.buckets.is_empty() || *total == 0 {
            return Ok(*total);
        }
        let used = |i: usize| used.get(i).is_some_and(|used| *used);
        let since = Instant::now();
        define_gradients(self.variables.iter().enumerate().filter(|(i, _)| used(*i)))?;
        let reduce: &dyn AllReduce = self.tensors.as_deref().unwrap_or(&self.group);
        tch::no_grad(|| {
            for Bucket { flat, parts } in &mut self.buckets {
                let _ = flat.f_zero_()?;
                for part in parts.iter().filter(|part| used(part.variable)) {
                    let grad = self.variables[part.variable].f_grad()?.f_reshape([-1])?;
                    flat.f_narrow(0, part.start, part.len)?.f_copy_(&grad)?;
                }
                let _ = flat.f_mul_scalar_(*n as f64 / *total as f64)?;
                reduce.sum(flat).map_err(|error| ended(&self.group, error))?;
                for part in parts.iter().filter(|part| used(part.variable)) {
                    let mut grad = self.variables[part.variable].f_grad()?;
                    let mean = flat.f_narrow(0, part.start, part.len)?.f_view_as(&grad)?;
                    grad.f_copy_(&mean)?;
                }
            }
            Ok::<_, Error>(())
        })?;
        self.count(since);
        Ok(*total)
    }

    /// How long [`DataParallel::agree`] and [`DataParallel::average`] have taken so far: waiting
    /// for slower ranks, and adding up. Sums on a GPU run beside this thread and are not included.
    #[must_use]
    pub fn synchronised(&self) -> Duration {
        self.synchronised.get()
    }

    fn count(&self, since: Instant) {
        self.synchronised.set(self.synchronised.get().saturating_add(since.elapsed()));
    }

    /// Waits until all sums are done, and sees that no rank was lost in one of them: to be
    /// asked before weights are kept, since on a GPU a step is given before it is done.
    ///
    /// # Errors
    /// What ended the training.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(tensors) = &self.tensors {
            tensors.wait().map_err(|error| ended(&self.group, error))?;
        }
        Ok(self.group.check()?)
    }

    /// Replaces each of `values` by the sum over all ranks.
    ///
    /// # Errors
    /// If a rank is lost.
    pub fn sum(&self, values: &mut [f64]) -> Result<(), Error> {
        Ok(self.group.all_reduce(values)?)
    }

    /// Model, optimiser and `state` become those of rank 0, which may have loaded a
    /// checkpoint: the other ranks need not see its folder.
    ///
    /// # Errors
    /// When a rank is lost; [`Error::Tensors`] when the models differ.
    pub fn share(
        &self,
        store: &mut VarStore,
        optimiser: &mut dyn Optimiser,
        state: &mut TrainState,
    ) -> Result<(), Error> {
        if self.group.world_size() == 1 {
            return Ok(());
        }
        let wrong = |e: serde_json::Error| Error::Tensors { reason: e.to_string() };
        let first = self.group.rank() == 0;
        spread(&self.group, &store.variables().into_iter().collect())?;
        spread(&self.group, &optimiser.tensors())?;
        let mut text = if first { serde_json::to_vec(state).map_err(wrong)? } else { Vec::new() };
        self.group.broadcast(&mut text)?;
        if !first {
            *state = serde_json::from_slice(&text).map_err(wrong)?;
        }
        Ok(())
    }

    /// Copies all variables without a gradient from rank 0 to all ranks, bit for bit: the running
    /// statistics of batch norm, which each rank collects of its own samples. Before a validation
    /// in which each rank has a part, and before a checkpoint; on every rank. PyTorch's
    /// `DistributedDataParallel` does so in every step, which for what rank 0 has comes to the
    /// same. Variables that are frozen travel too.
    ///
    /// # Errors
    /// When a rank is lost; [`Error::Torch`].
    pub fn share_buffers(&self, store: &mut VarStore) -> Result<(), Error> {
        if self.group.world_size() == 1 {
            return Ok(());
        }
        let buffers = store.variables().into_iter().filter(|(_, tensor)| !tensor.requires_grad());
        let buffers: BTreeMap<String, Tensor> = buffers.collect();
        if buffers.is_empty() { Ok(()) } else { spread(&self.group, &buffers) }
    }

    /// Returns the group of ranks.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Ends the group of ranks in an orderly way: waits until all ranks are there.
    ///
    /// # Errors
    /// When a rank was lost before.
    pub fn finish(self) -> Result<(), Error> {
        let Self { tensors, group, .. } = self;
        if let Some(tensors) = &tensors {
            tensors.wait().map_err(|error| ended(&group, error))?;
            // After this, no rank needs another rank's part.
            group.barrier()?;
        }
        drop(tensors);
        Ok(group.finish()?)
    }
}

impl std::fmt::Debug for DataParallel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, n) = (self.group.rank(), self.group.world_size());
        write!(f, "DataParallel(rank {rank} of {n}, {} buckets)", self.buckets.len())
    }
}

/// The facts about a step that all ranks share before its gradients are summed.
#[derive(Debug, Clone)]
pub struct Agreed {
    /// Number of samples of this rank.
    n: usize,
    /// Number of samples of all ranks.
    total: u64,
    /// For each variable, whether any rank has a gradient.
    used: Vec<bool>,
}

impl Agreed {
    /// Returns the number of samples of all ranks.
    #[must_use]
    pub fn n_samples(&self) -> u64 {
        self.total
    }
}

/// The error that ended the training run: it says more than its consequence between GPUs.
fn ended(group: &Group, error: Error) -> Error {
    #[cfg(feature = "cuda")]
    if let Error::Cuda(CudaError::Nccl { .. }) = &error {
        return group.suspect(&error.to_string()).into();
    }
    #[cfg(not(feature = "cuda"))]
    let _ = group;
    error
}

/// Allocates memory for the gradients of `variables`.
fn buckets(variables: &[Tensor], device: Device) -> Result<Vec<Bucket>, Error> {
    let mut sizes = Vec::new();
    for variable in variables {
        // Sums of halves in `f32`, so that small parts are not lost.
        let double = variable.f_kind()? == Kind::Double;
        let kind = if double { Kind::Double } else { Kind::Float };
        sizes.push((kind, variable.numel()));
    }
    let bucket =
        |(kind, len, parts)| Ok(Bucket { flat: Tensor::f_zeros([len], (kind, device))?, parts });
    lay_out(&sizes).into_iter().map(bucket).collect()
}

/// Lays variables of these kinds and lengths into pieces of one kind, last first, since
/// backward comes to those first: kind, length, parts.
fn lay_out(sizes: &[(Kind, usize)]) -> Vec<(Kind, i64, Vec<Part>)> {
    let mut pieces: Vec<(Kind, i64, Vec<Part>)> = Vec::new();
    for (variable, (kind, len)) in sizes.iter().enumerate().rev() {
        let (kind, len) = (*kind, *len as i64);
        let room = (BUCKET_BYTES / kind.elt_size_in_bytes()) as i64;
        match pieces.last_mut() {
            Some((of, end, parts)) if *of == kind && *end + len <= room => {
                parts.push(Part { variable, start: *end, len });
                *end += len;
            }
            _ => pieces.push((kind, len, vec![Part { variable, start: 0, len }])),
        }
    }
    pieces
}

/// Gives those without a gradient one of zeros, the only way libtorch lets tch do it: by a
/// backward pass over a loss of zero.
fn define_gradients<'a>(variables: impl Iterator<Item = (usize, &'a Tensor)>) -> Result<(), Error> {
    let mut zero: Option<Tensor> = None;
    for (_, variable) in variables {
        if variable.f_grad()?.defined() {
            continue;
        }
        let none = variable.f_zeros_like()?.f_detach()?;
        let part = variable.f_mul(&none)?.f_sum(variable.f_kind()?)?;
        zero = Some(match zero {
            None => part,
            Some(sum) => sum.f_add(&part)?,
        });
    }
    zero.map_or(Ok(()), |zero| Ok(zero.f_backward()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_hold_every_variable_once_and_no_more_than_fits() {
        let mib = (1 << 20) / 4;
        let sizes = [
            (Kind::Float, 3),
            (Kind::Float, 20 * mib),
            (Kind::Float, 6 * mib),
            (Kind::Double, 7),
            (Kind::Float, 0),
            (Kind::Float, 60 * mib),
        ];
        let pieces = lay_out(&sizes);
        let held: Vec<Vec<usize>> =
            pieces.iter().map(|(.., parts)| parts.iter().map(|p| p.variable).collect()).collect();
        assert_eq!(held, [vec![5], vec![4], vec![3], vec![2], vec![1, 0]]);
        for (kind, len, parts) in &pieces {
            let mut end = 0;
            for part in parts {
                assert_eq!((part.start, part.len), (end, sizes[part.variable].1 as i64));
                assert_eq!(sizes[part.variable].0, *kind);
                end += part.len;
            }
            assert_eq!(end, *len);
        }
    }
}
